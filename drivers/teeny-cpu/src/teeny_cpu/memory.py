"""Host memory: arrays that begin at a cache line, and the addresses of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import addressof, c_char
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from teeny_core import DType
from teeny_core.device import Buffer

Array: TypeAlias = NDArray[Any]

ALIGNMENT = 64
SMALL = 1 << 14
"""Bytes of an array up to which it costs more to place it well than to write across lines."""

_first_byte = c_char.from_buffer


def address(array: Array) -> int:
    """Return the address of the first element of a C-ordered array; 0 when it has none."""
    try:
        return addressof(_first_byte(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, or empty
        return int(array.__array_interface__["data"][0]) if array.size else 0


def empty(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Return an array with undefined contents whose first element begins a cache line."""
    block = np.empty(math.prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8)
    return np.ndarray(shape, dtype, block, -address(block) % ALIGNMENT)


def maker(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Callable[..., Array]:
    """Return what makes arrays for results: `empty`, for small ones that of NumPy."""
    return np.empty if math.prod(shape) * dtype.itemsize <= SMALL else empty


def dense(array: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return `array` in row-major order and native byte order; itself when it is so already."""
    if array.dtype == dtype and array.flags.c_contiguous and array.flags.aligned:
        return array
    copy = empty(array.shape, dtype)
    copy[...] = array
    return copy


class Scratch(NamedTuple):
    """Memory for the duration of a launch, and where it lies."""

    array: Array
    place: int


NO_SCRATCH = Scratch(np.empty(0, np.uint8), 0)
_idle: list[Scratch] = []


def take_scratch(size: int) -> Scratch:
    """Return at least so many bytes that nobody uses; see `give_back`."""
    if not size:
        return NO_SCRATCH
    try:
        scratch = _idle.pop()
    except IndexError:
        scratch = NO_SCRATCH
    if scratch.array.size >= size:
        return scratch
    array = empty((size,), NO_SCRATCH.array.dtype)
    return Scratch(array, address(array))


def give_back(scratch: Scratch) -> None:
    """Let a later launch use what `take_scratch` returned."""
    if scratch.place:
        _idle.append(scratch)


class CpuBuffer(Buffer):
    """A dense array in host memory."""

    __slots__ = ("_array", "_dtype", "address")

    def __init__(self, array: Array, dtype: DType) -> None:
        self._array = array
        self._dtype = dtype
        self.address = address(array)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self._array.shape

    @property
    def dtype(self) -> DType:
        """Element type of the array."""
        return self._dtype

    @property
    def device_name(self) -> str:
        """The CPU."""
        return "cpu"

    def numpy(self) -> Array:
        """Return the array itself."""
        return self._array

    def write(self, array: Array) -> None:
        """Copy `array` into the buffer."""
        self._array[...] = array
