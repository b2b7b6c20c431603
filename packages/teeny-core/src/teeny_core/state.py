"""Checkpoints: named tensors in safetensors files.

A file is checked before a tensor is read: the header must be small enough, every name unique, and
the tensors must cover the data without gaps or overlaps. Nothing is ever unpickled. Files are
written under a temporary name, flushed to the disk and renamed, so that a reader sees the old file
or the new one, never half of one.

Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import struct
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from teeny_core.errors import DTypeError, LoadError

Array: TypeAlias = NDArray[Any]

HEADER_LIMIT = 100_000_000  # bytes; the bound of the reference implementation
INDEX_LIMIT = 100_000_000  # bytes of an index.json
SINGLE_FILE = "model.safetensors"
INDEX_SUFFIX = ".index.json"
PICKLE_SUFFIXES = frozenset({".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt"})

_NUMPY_OF_FORMAT: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "I8": np.dtype(np.int8),
    "I16": np.dtype(np.int16),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "U8": np.dtype(np.uint8),
    "U16": np.dtype(np.uint16),
    "U32": np.dtype(np.uint32),
    "U64": np.dtype(np.uint64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
}


@runtime_checkable
class Stateful(Protocol):
    """Anything that gives and takes its state as named tensors: a Layer, a TrainStep."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return the named tensors."""


@dataclass(frozen=True)
class LoadReport:
    """What did not fit when a state was loaded; all empty after a complete load.

    `mismatched` holds one readable line for each tensor of the wrong shape or kind of dtype.
    """

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.missing or self.unexpected or self.mismatched)

    def __str__(self) -> str:
        named = (
            ("missing", self.missing),
            ("unexpected", self.unexpected),
            ("mismatched", self.mismatched),
        )
        return "; ".join(f"{word}: {_shorten(names)}" for word, names in named if names)


@dataclass(frozen=True)
class _Entry:
    """Where one tensor lies in a file: bytes [start, stop) counted from the file's beginning."""

    format: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class _Header:
    entries: Mapping[str, _Entry]
    metadata: Mapping[str, str]


def save(
    path: str | os.PathLike[str],
    state: Stateful | Mapping[str, ArrayLike],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write named tensors to the safetensors file `path`, replacing it in one step.

    Raises:
        DTypeError: a tensor has a dtype that the format lacks.
        OSError: the file cannot be written; `path` is then as it was.
    """
    from safetensors import SafetensorError, TensorSpec, serialize_file

    tensors = state.state_dict() if isinstance(state, Stateful) else state
    arrays = {name: _little_endian(name, tensor) for name, tensor in tensors.items()}
    specs = {
        name: TensorSpec(
            dtype=array.dtype.name,
            shape=array.shape,
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, array in arrays.items()
    }
    with _replacing(Path(path)) as temporary:
        try:
            serialize_file(specs, temporary, metadata=dict(metadata or {}))
        except SafetensorError as error:
            raise _write_error(error, path) from error


def load(path: str | os.PathLike[str], *, names: Collection[str] | None = None) -> dict[str, Array]:
    """Read the tensors of a checkpoint, all or those in `names`.

    `path` is a `.safetensors` file, the `.index.json` of a sharded checkpoint, or a folder that
    holds either (`model.safetensors`, `model.safetensors.index.json`).

    Raises:
        LoadError: no such file, not a safetensors file, malformed, truncated, or a name is absent.
    """
    tensors: dict[str, Array] = {}
    seen: list[str] = []
    for file, listed in _shards(_locate(Path(path))):
        header = _read_header(file)
        held = list(header.entries) if listed is None else listed
        _require(held, header.entries.keys(), file)
        chosen = [name for name in held if names is None or name in names]
        tensors.update(_read_tensors(file, header, chosen))
        seen += held
    _require(names or (), seen, Path(path))
    return tensors


def metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the text entries that `save` wrote beside the tensors.

    Raises:
        LoadError: as `load`.
    """
    return dict(_read_header(Path(path)).metadata)


def _locate(path: Path) -> Path:
    """Return the file that a folder stands for; a file stands for itself."""
    if not path.is_dir():
        return path
    for name in (SINGLE_FILE, SINGLE_FILE + INDEX_SUFFIX):
        if (path / name).is_file():
            return path / name
    raise LoadError(
        f"{path}: the folder holds neither {SINGLE_FILE} nor {SINGLE_FILE}{INDEX_SUFFIX}",
        hint="give the path of a .safetensors file",
    )


def _shards(path: Path) -> Iterator[tuple[Path, list[str] | None]]:
    """Yield each file and the names to take from it (None for all)."""
    if not path.name.endswith(INDEX_SUFFIX):
        yield path, None
        return
    held: dict[str, list[str]] = {}
    for name, shard in _read_index(path).items():
        held.setdefault(shard, []).append(name)
    for shard, names in held.items():
        yield path.parent / shard, names


def _read_index(path: Path) -> Mapping[str, str]:
    """Return the map from tensor name to shard file name of an index.json."""
    with _opened(path) as (file, size):
        if size > INDEX_LIMIT:
            raise _malformed(path, f"the index is {size} bytes long")
        document = _parse_json(path, file.read())
    weight_map = document.get("weight_map")
    if not isinstance(weight_map, dict):
        raise _malformed(path, "it has no weight_map")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or shard != os.path.basename(shard) or shard in ("", ".."):
            raise _malformed(path, f"{name!r} lies in {shard!r}, not a file of the same folder")
    return weight_map


def _read_header(path: Path) -> _Header:
    """Read and check the header of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    with _opened(path) as (file, size):
        prefix = file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else HEADER_LIMIT + 1
        if length > min(HEADER_LIMIT, size - 8):
            raise _foreign(path, prefix, length, size)
        document = _parse_json(path, file.read(length))
    try:
        # the library proves types, offsets, and that the tensors cover the data exactly
        with safe_open(path, framework="np"):
            pass
    except SafetensorError as error:
        raise _malformed(path, str(error)) from error
    meta = document.pop("__metadata__", None) or {}
    data = 8 + length
    entries = {
        name: _Entry(
            entry["dtype"],
            tuple(entry["shape"]),
            data + entry["data_offsets"][0],
            data + entry["data_offsets"][1],
        )
        for name, entry in document.items()
    }
    return _Header(entries, meta)


def _read_tensors(path: Path, header: _Header, names: Iterable[str]) -> dict[str, Array]:
    """Read `names`, in the order in which they lie in the file."""
    tensors: dict[str, Array] = {}
    ordered = sorted(names, key=lambda name: header.entries[name].start)
    with _opened(path) as (file, _):
        for name in ordered:
            entry = header.entries[name]
            dtype = _NUMPY_OF_FORMAT.get(entry.format)
            if dtype is None:
                raise LoadError(
                    f"{path}: tensor {name!r} has the dtype {entry.format}, which teeny lacks",
                    hint=f"convert it to one of {', '.join(_NUMPY_OF_FORMAT)}",
                )
            file.seek(entry.start)
            raw = np.fromfile(file, np.uint8, entry.stop - entry.start)
            if raw.nbytes != entry.stop - entry.start:
                raise _malformed(path, f"the file ended inside tensor {name!r}")
            tensors[name] = raw.view(dtype.newbyteorder("<")).reshape(entry.shape)
    return tensors


def _foreign(path: Path, prefix: bytes, length: int, size: int) -> LoadError:
    """Return the error for a file whose first eight bytes are no header length."""
    zipped = prefix.startswith(b"PK\x03\x04")
    pickled = len(prefix) > 1 and prefix[0] == 0x80 and 2 <= prefix[1] <= 5
    if zipped or pickled or path.suffix in PICKLE_SUFFIXES:
        return LoadError(
            f"{path}: looks like a pickle, which can run any code when it is loaded; refused",
            hint="convert it once where you trust it: "
            "safetensors.torch.save_file(torch.load(file, weights_only=True), 'x.safetensors')",
        )
    if len(prefix) < 8:
        return _malformed(path, f"only {size} bytes long")
    return _malformed(path, f"its header claims {length} bytes, the file has {size}")


def _parse_json(path: Path, text: bytes) -> dict[str, Any]:
    """Parse a JSON object; a name that stands twice is an error."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise _malformed(path, f"the name {twice!r} stands twice")
        return result

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise _malformed(path, f"not JSON ({error})") from error
    if not isinstance(document, dict):
        raise _malformed(path, "not a JSON object")
    return document


def _malformed(path: Path, what: str) -> LoadError:
    return LoadError(
        f"{path}: not a valid safetensors checkpoint: {what}",
        hint="fetch or save the file again; it may be truncated or of another format",
    )


def _require(wanted: Collection[str], held: Collection[str], path: Path) -> None:
    missing = [name for name in wanted if name not in held]
    if missing:
        raise LoadError(
            f"{path}: no tensor named {_shorten(missing)}",
            hint=f"it holds {_shorten(held) if held else 'no tensors'}",
        )


def _shorten(names: Iterable[str], limit: int = 8) -> str:
    """Join names, at most `limit` of them."""
    listed = list(names)
    rest = len(listed) - limit
    shown = ", ".join(listed[:limit])
    return f"{shown} and {rest} more" if rest > 0 else shown


def _little_endian(name: str, tensor: ArrayLike) -> Array:
    """Return a contiguous little-endian array, without a copy where it is one."""
    array = np.asarray(tensor)
    dtype = array.dtype.newbyteorder("<")
    if dtype not in _NUMPY_OF_FORMAT.values():
        raise DTypeError(
            f"tensor {name!r} has the dtype {array.dtype}, which safetensors lacks",
            hint=f"cast it to one of {', '.join(map(str, _NUMPY_OF_FORMAT.values()))}",
        )
    return np.require(array, dtype, "C")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, int]]:
    """Open a regular file for reading; yields it and its size."""
    try:
        with path.open("rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except OSError as error:
        raise LoadError(
            f"{path}: cannot read the file ({error.strerror})", hint="check the path"
        ) from error


def _write_error(error: Exception, path: str | os.PathLike[str]) -> OSError:
    """Return what the system said when a file was written, of which the library tells in words."""
    said = re.search(r"os error (\d+)", str(error))
    number = int(said[1]) if said else errno.EIO
    return OSError(number, os.strerror(number) if said else str(error), os.fspath(path))


STALE_SECONDS = 3600.0
"""Age at which a temporary file was left by a process that died while it wrote."""


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`; on success it becomes `path`.

    What a process left that died while it wrote `path` is removed.
    """
    _remove_stale(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.touch(exist_ok=False)
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)  # safetensors makes a new file that only its owner may read
        _flush(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":
        _flush(path.parent)


def _remove_stale(path: Path) -> None:
    horizon = time.time() - STALE_SECONDS
    names = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.tmp")
    for other in path.parent.iterdir():
        if names.fullmatch(other.name) and other.stat().st_mtime < horizon:
            other.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Wait until a file (or a folder's list of names) is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
