"""Writing results: first that it can be done, then in one step."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def require_writable(path: Path) -> None:
    """See that a file can be written to `path`, before long work goes into its contents.

    Raises:
        ConfigError: `path` is a folder, or in one that is missing or read-only.
    """
    from teeny_core import ConfigError

    if path.is_dir():
        raise ConfigError(f"cannot write {path}: it is a folder", hint="give the name of a file")
    if _is_special(path):
        return
    probe = _beside(path)
    with writing(path):
        probe.touch(exist_ok=False)
        probe.unlink()


def write_file(path: Path, data: bytes) -> None:
    """Write `data` under a temporary name in the folder of `path`, then rename it to `path`.

    Raises:
        ConfigError: it cannot be written; `path` is then as it was.
    """
    with writing(path):
        if _is_special(path):
            path.write_bytes(data)
        else:
            _replace(path, data)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError, which may speak of a temporary name, into one that names `path`.

    Raises:
        ConfigError: in place of an OSError.
    """
    from teeny_core import ConfigError

    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ConfigError(
            f"cannot write {path}: {reason}",
            hint="name a file in a folder that exists, that you may write, and that has space",
        ) from error


def _replace(path: Path, data: bytes) -> None:
    temporary = _beside(path)
    try:
        temporary.write_bytes(data)
        temporary.replace(path.resolve())
    finally:
        temporary.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """Return a new name in the folder of the file that `path` leads to."""
    target = path.resolve()
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")


def _is_special(path: Path) -> bool:
    """Tell whether `path` is a terminal, a pipe or a device, which renaming would destroy."""
    return path.exists() and not path.is_file()
