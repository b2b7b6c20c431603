"""The idx format in which MNIST is published: a header, then the elements in row-major order.

The header is a big-endian 32-bit magic number, whose third byte names the element type and whose
fourth is the rank, then one 32-bit extent for each axis. Source: Y. LeCun, C. Cortes and C. Burges,
"The MNIST database of handwritten digits", section "File formats". Only bytes (type 0x08) occur.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from teeny_core import DataError

UINT8 = 0x08
GZIP_MAGIC = b"\x1f\x8b"


def contents(path: Path) -> bytes:
    """Return the bytes of the file at `path`, decompressed where it is a gzip file.

    Raises:
        DataError: the file cannot be read, or its gzip stream is damaged.
    """
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path} is a damaged gzip file: {error}", hint="fetch the file again"
        ) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}", hint="check the path and its permissions"
        ) from error


def decode(data: bytes, rank: int, source: str) -> NDArray[np.uint8]:
    """Return the array of bytes of the given `rank` in idx `data`, as a read-only view of it.

    Args:
        data: a whole idx file, uncompressed.
        rank: how many axes the array must have, at least one.
        source: what errors call the data, such as a file name.

    Raises:
        DataError: the magic number is another one, or the size is not what the header says.
    """
    magic = _magic(rank)
    found = data[: len(magic)]
    if found != magic[: len(found)]:
        raise DataError(
            f"{source} begins with the magic number {found.hex()} instead of {magic.hex()}",
            hint=f"an idx file of bytes with {rank} axes is wanted; are two files swapped?",
        )
    header = struct.Struct(f">{len(magic)}x{rank}I")
    if len(data) < header.size:
        raise DataError(
            f"{source} is truncated: {len(data)} bytes, and its header alone takes {header.size}",
            hint="fetch the file again",
        )
    shape = header.unpack_from(data)
    missing = math.prod(shape) - (len(data) - header.size)
    if missing:
        fault = f"{missing} bytes too short" if missing > 0 else f"{-missing} bytes too long"
        raise DataError(
            f"{source} is {fault} for the shape {shape} in its header",
            hint="fetch the file again",
        )
    return np.frombuffer(data, np.uint8, offset=header.size).reshape(shape)


def encode(array: NDArray[np.uint8]) -> bytes:
    """Return `array`, of at least one axis, as the contents of an idx file."""
    extents = struct.pack(f">{array.ndim}I", *array.shape)
    return _magic(array.ndim) + extents + array.tobytes()


def _magic(rank: int) -> bytes:
    return bytes((0, 0, UINT8, rank))
