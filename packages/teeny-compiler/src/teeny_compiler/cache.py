"""The on-disk cache of compiled programs and kernels.

One file an entry, named by its key and written under a temporary name first, so that a reader in
another process sees a whole entry or none. A checksum heads each entry: one that a crash or a full
disk damaged reads as absent and is removed. Reading an entry renews its time; when the folder
outgrows its limit the entries that were not used for longest go first.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import util
from pathlib import Path

from teeny_core import ConfigError, config
from teeny_core.internal import EntryPoint, entry_points, version

MAGIC = b"teeny-1\n"
SUFFIX = ".entry"
DIGEST_BYTES = hashlib.sha256().digest_size
KEEP = 0.8  # share of the limit that an eviction leaves
SOURCES = "sources"  # the note of the key of the compiler
STALE_SECONDS = 3600.0  # age at which a temporary file was left by a process that died


@dataclass(frozen=True)
class CacheInfo:
    """What a cache holds: sizes in bytes."""

    folder: Path
    entries: int
    bytes: int
    limit: int


@dataclass
class Cache:
    """A folder of entries, bounded to `limit` bytes; a limit of 0 keeps nothing.

    Raises:
        ConfigError: the folder cannot be made or written.
    """

    folder: Path
    limit: int
    _written: int | None = field(default=None, repr=False)  # bytes, as far as this process knows

    def __post_init__(self) -> None:
        if self.limit <= 0:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise ConfigError(
                f"cannot write the compile cache {self.folder}: {error.strerror}",
                hint="set TEENY_CACHE_DIR to a folder you may write, or TEENY_CACHE_SIZE=0 "
                "to go without a cache",
            ) from error

    def get(self, key: str) -> bytes | None:
        """Return the entry of `key`, or None; a damaged entry is removed."""
        path = self._path(key)
        try:
            payload = _payload(path.read_bytes())
        except OSError:
            return None
        if payload is None:
            path.unlink(missing_ok=True)
            return None
        _touch(path)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Store `payload` under `key`; a disk that is full costs a warning, not the program."""
        if len(payload) > self.limit * KEEP:
            return
        path = self._path(key)
        try:
            _write(path, MAGIC + hashlib.sha256(payload).digest() + payload)
        except OSError as error:
            warnings.warn(f"compile cache: cannot write {path}: {error.strerror}", RuntimeWarning)
            return
        if self._written is None:
            self._written = self.info().bytes
        else:
            self._written += len(payload)
        if self._written > self.limit:
            self._evict()

    def info(self) -> CacheInfo:
        """Count the entries and their bytes."""
        sizes = [entry.stat.st_size for entry in self._entries()]
        return CacheInfo(self.folder, len(sizes), sum(sizes), self.limit)

    def verify(self) -> tuple[int, int]:
        """Read every entry and remove the damaged ones; return how many were whole, how many not.

        Raises:
            ConfigError: an entry cannot be read.
        """
        whole = damaged = 0
        for entry in self._entries():
            try:
                data = entry.path.read_bytes()
            except FileNotFoundError:  # another process removed it
                continue
            except OSError as error:
                raise ConfigError(
                    f"cannot read {entry.path}: {error.strerror}",
                    hint="give yourself the right to read it, or set TEENY_CACHE_DIR",
                ) from error
            if _payload(data) is not None:
                whole += 1
            else:
                damaged += _remove(entry.path)
        return whole, damaged

    def note(self, name: str) -> str:
        """Return what was noted under a name, empty when nothing was."""
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def set_note(self, name: str, text: str) -> None:
        """Note a line that is no entry; a disk that is full costs the note."""
        if self.limit > 0:
            with suppress(OSError):
                _write(self.folder / name, text.encode())

    def clear(self) -> int:
        """Remove every entry; return how many there were."""
        removed = 0
        for entry in self._entries():
            removed += _remove(entry.path)
        self._written = 0
        return removed

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / (key + SUFFIX)

    def _entries(self) -> Iterator[_Entry]:
        for path in self.folder.glob(f"??/*{SUFFIX}"):
            try:
                yield _Entry(path, path.stat())
            except OSError:  # another process removed it
                continue

    def _evict(self) -> None:
        """Remove the least recently used entries, in one process at a time."""
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.folder / "evict.lock", timeout=0):
                self._remove_stale()
                entries = sorted(self._entries(), key=lambda entry: entry.stat.st_mtime_ns)
                size = sum(entry.stat.st_size for entry in entries)
                for entry in entries:
                    if size <= self.limit * KEEP:
                        break
                    size -= entry.stat.st_size * _remove(entry.path)
                self._written = size
        except Timeout:
            self._written = None  # another process is at it; count anew next time

    def _remove_stale(self) -> None:
        horizon = time.time() - STALE_SECONDS
        for path in self.folder.glob("??/*.tmp"):
            try:
                stale = path.stat().st_mtime < horizon
            except OSError:
                continue
            if stale:
                _remove(path)


@dataclass(frozen=True)
class _Entry:
    path: Path
    stat: os.stat_result


def _payload(data: bytes) -> bytes | None:
    """Return what an entry holds, None for one that is damaged."""
    start = len(MAGIC) + DIGEST_BYTES
    payload = data[start:]
    return payload if data[:start] == MAGIC + hashlib.sha256(payload).digest() else None


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:  # gone, or a folder shared read-only: its order of eviction stays as it is
        return


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:  # gone already, or open on a system that holds open files
        return False
    return True


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.urandom(8).hex()}.tmp")
    try:
        with temporary.open("xb") as file:  # with the permissions of any new file
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


@cache
def _open(folder: Path, limit: int) -> Cache:
    return Cache(folder, limit)


def default_cache() -> Cache:
    """Return the cache that TEENY_CACHE_DIR and TEENY_CACHE_SIZE name."""
    settings = config.get()
    return _open(settings.cache_dir, settings.cache_size)


def digest(*parts: str | bytes) -> str:
    """Return a key for `parts`, injective in them."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()[:40]


@cache
def compiler_key() -> str:
    """Return a digest of everything a compilation depends on besides its input.

    That is the text of the compiler's own packages and of the kernel libraries found by entry
    points (an edited checkout must not meet its old programs), and the versions of LLVM, egglog
    and NumPy. The text is read when a file has another size or time of change than last time.
    """
    packages = {"teeny_core", "teeny_triton", "teeny_compiler"}
    packages |= {entry.module.partition(".")[0] for entry in _template_entry_points()}
    sources = {name: _sources(name) for name in sorted(packages)}
    versions = [f"{name} {version(name)}" for name in ("llvmlite", "egglog", "numpy")]
    stamp = digest(*versions, *(s.stamp for files in sources.values() for s in files))
    cache = default_cache()
    known = cache.note(SOURCES).partition(" ")
    if known[0] == stamp:
        return known[2]
    parts = (part for name in sources for part in (name, *_text(sources[name])))
    key = digest(*versions, *parts)
    cache.set_note(SOURCES, f"{stamp} {key}")
    return key


def _template_entry_points() -> Iterable[EntryPoint]:
    return entry_points("teeny.kernels")


@dataclass(frozen=True)
class _Source:
    """A source file of a package, its name in the package, its size and its time of change."""

    path: str
    name: str
    size: int
    changed: int

    @property
    def stamp(self) -> str:
        return f"{self.path} {self.size} {self.changed}"


def _sources(package: str) -> list[_Source]:
    """Return the source files of a package in order, without importing it."""
    spec = util.find_spec(package)
    roots = spec.submodule_search_locations if spec is not None else None
    return [source for root in roots or () for source in sorted(_below(root, ""), key=_name)]


def _name(source: _Source) -> str:
    return source.name


def _below(folder: str, prefix: str) -> Iterator[_Source]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _below(entry.path, f"{prefix}{entry.name}/")
        elif entry.name.endswith((".py", ".ll")):
            stat = entry.stat()
            yield _Source(entry.path, prefix + entry.name, stat.st_size, stat.st_mtime_ns)


def _text(sources: Iterable[_Source]) -> Iterator[str | bytes]:
    for source in sources:
        yield source.name
        yield Path(source.path).read_bytes()
