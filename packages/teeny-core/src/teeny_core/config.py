"""The one place that reads `TEENY_*` environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teeny_core.errors import ConfigError

_TRUE = frozenset({"1", "true", "on", "yes"})
_FALSE = frozenset({"", "0", "false", "off", "no"})
_DEBUG_LEVELS = frozenset("01234567")
_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Config:
    """Settings of the process.

    Attributes:
        device: `TEENY_DEVICE`, the default device; None to choose by what is installed.
        num_threads: `TEENY_NUM_THREADS`; None to use what the machine grants.
        cache_dir: `TEENY_CACHE_DIR`, where compiled programs are kept.
        cache_size: `TEENY_CACHE_SIZE`, most bytes that they may take, such as 512M.
        debug: `TEENY_DEBUG`, how much is printed while programs are compiled and run, from 0 to 7;
            from 1 on, every stage is verified.
        interpret: `TEENY_INTERPRET`, whether kernels run in the interpreter.
        sanitize: `TEENY_SANITIZE`, whether kernels run in the sanitizer.
        tune: `TEENY_TUNE`, whether what tuning measures is kept in `cache_dir` for the next run.
        print_autotuning: `TEENY_PRINT_AUTOTUNING`, whether each choice of a tuner is printed.
    """

    device: str | None
    num_threads: int | None
    cache_dir: Path
    cache_size: int
    debug: int
    interpret: bool
    sanitize: bool
    tune: bool
    print_autotuning: bool


def get(environ: Mapping[str, str] | None = None) -> Config:
    """Read the settings, from the environment of the process unless another is given.

    Raises:
        ConfigError: naming the variable, its value and the valid ones.
    """
    env = os.environ if environ is None else environ
    return Config(
        device=device_name(env),
        num_threads=_threads(env),
        cache_dir=_cache_dir(env),
        cache_size=_size(env),
        debug=_debug(env),
        interpret=interpreting(env),
        sanitize=sanitizing(env),
        tune=_flag(env, "TEENY_TUNE"),
        print_autotuning=_flag(env, "TEENY_PRINT_AUTOTUNING"),
    )


def device_name(env: Mapping[str, str] = os.environ) -> str | None:
    """Read `TEENY_DEVICE` alone: each launch of a kernel does."""
    return (env["TEENY_DEVICE"] or None) if _has(env, "TEENY_DEVICE") else None


def interpreting(env: Mapping[str, str] = os.environ) -> bool:
    """Read `TEENY_INTERPRET` alone: each launch of a kernel does.

    Raises:
        ConfigError: it is neither on nor off.
    """
    return _has(env, "TEENY_INTERPRET") and _flag(env, "TEENY_INTERPRET")


def sanitizing(env: Mapping[str, str] = os.environ) -> bool:
    """Read `TEENY_SANITIZE` alone: each launch of a kernel does.

    Raises:
        ConfigError: it is neither on nor off.
    """
    return _has(env, "TEENY_SANITIZE") and _flag(env, "TEENY_SANITIZE")


_table: Mapping[Any, Any] = getattr(os.environ, "_data", {})
_keys = {
    name: getattr(os.environ, "encodekey", str)(name)
    for name in ("TEENY_DEVICE", "TEENY_INTERPRET", "TEENY_SANITIZE")
}


def _has(env: Mapping[str, str], name: str) -> bool:
    """Whether a variable that each launch reads is set.

    `os.environ` raises and catches an error to say that one is not, which takes a microsecond; the
    dictionary in it, where Python has one, takes a tenth.
    """
    if env is os.environ and _table:
        return _keys[name] in _table
    return name in env


def _threads(env: Mapping[str, str]) -> int | None:
    text = env.get("TEENY_NUM_THREADS", "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise _wrong("TEENY_NUM_THREADS", text, "a whole number from 1, such as 4")
    return int(text)


def _debug(env: Mapping[str, str]) -> int:
    text = env.get("TEENY_DEBUG", "").lower()
    if text in _DEBUG_LEVELS:
        return int(text)
    if text in _TRUE or text in _FALSE:
        return int(text in _TRUE)
    raise _wrong("TEENY_DEBUG", text, "a whole number from 0 to 7")


def _cache_dir(env: Mapping[str, str]) -> Path:
    text = env.get("TEENY_CACHE_DIR")
    if text:
        return Path(text).expanduser()
    base = env.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "teeny"


def _size(env: Mapping[str, str]) -> int:
    text = env.get("TEENY_CACHE_SIZE") or "2G"
    number = text.rstrip("KMGTkmgt")
    factor = _SUFFIXES.get(text[len(number) :].upper())
    if factor is None or not number.isascii() or not number.isdigit():
        raise _wrong("TEENY_CACHE_SIZE", text, "a number of bytes, such as 268435456, 256M or 1G")
    return int(number) * factor


def _flag(env: Mapping[str, str], name: str) -> bool:
    text = env.get(name, "").lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _wrong(name, text, "1 or 0")


def _wrong(name: str, text: str, valid: str) -> ConfigError:
    return ConfigError(f"{name}={text} is not valid", hint=f"set it to {valid}, or unset it")
