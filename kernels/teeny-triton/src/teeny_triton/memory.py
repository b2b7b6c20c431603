"""The memory of interpreted kernels: NumPy arrays in one checked address space.

An address is a 64-bit number: which array, and how many bytes from its start. Arrays lie so far
apart that an address that leaves one never lands in another, so every access out of bounds is
found and can be told by name and index.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from teeny_core import DType

from teeny_triton.errors import KernelError

Array: TypeAlias = npt.NDArray[Any]

_SHIFT = 44
_MIDDLE = 1 << (_SHIFT - 1)
_FIRST = 16
"""Regions lie above 2**48, where a process has no memory of its own."""

_LOWEST = 1 << 16


@dataclass(frozen=True, eq=False)
class Region:
    """A stretch of elements, `origin` of which precede the address that a kernel is given.

    `array` is the argument that they are the memory of; scratch memory has none.
    """

    name: str
    elements: Array
    origin: int = 0

    def viewed(self, dtype: np.dtype[Any]) -> Region:
        """Return the same memory as elements of another type, as a cast pointer sees it."""
        if dtype == self.elements.dtype:
            return self
        octets = self.elements.view(np.uint8)
        whole = octets[: octets.size - octets.size % dtype.itemsize].view(dtype)
        return Region(self.name, whole, self.origin * self.elements.itemsize // dtype.itemsize)

    array: Array | None = None


def flat(array: Array) -> tuple[Array, int]:
    """Return all memory between the first and last element of `array` as one axis, and the
    index in it of `array[0, ..., 0]`; both share memory, strides of any sign are allowed.

    Raises:
        KernelError: a stride that is no multiple of the element size.
    """
    strides = [stride for stride, n in zip(array.strides, array.shape, strict=True) if n > 1]
    if any(stride % array.itemsize for stride in strides):
        raise KernelError(f"array strides {array.strides} split elements", hint="copy the array")
    if array.size == 0:
        return array.reshape(-1), 0
    low = high = 0
    for stride, extent in zip(array.strides, array.shape, strict=True):
        reach = stride // array.itemsize * (extent - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    steps = [slice(None, None, -1 if stride < 0 else 1) for stride in array.strides]
    forwards: Any = (*steps, ...)
    bits = array[forwards].view(f"u{array.itemsize}")  # as_strided knows no f8
    whole = np.lib.stride_tricks.as_strided(bits, (high - low + 1,), (array.itemsize,))
    return whole.view(array.dtype), -low


class AddressSpace:
    """Regions by address; reads and writes are checked against their bounds."""

    def __init__(self) -> None:
        self._regions: list[Region] = []

    def add(self, region: Region) -> int:
        """Place a region and return the address of its origin."""
        self._regions.append(region)
        return self._base(len(self._regions) - 1) + region.origin * region.elements.itemsize

    def truncate(self, count: int) -> None:
        """Forget all but the first `count` regions."""
        del self._regions[count:]

    def __len__(self) -> int:
        return len(self._regions)

    def read(self, addresses: Array, mask: Array, other: Array) -> Array:
        """Return the elements at `addresses` where `mask` holds, `other` elsewhere."""
        result = np.array(other)
        for region, lanes, index in self._resolve(addresses, mask, "reads", result.dtype):
            result[lanes] = region.elements[index]
        return result

    def write(self, addresses: Array, values: Array, mask: Array) -> None:
        """Store `values` where `mask` holds; of equal addresses the last lane wins."""
        for region, lanes, index in self._resolve(addresses, mask, "writes", values.dtype):
            region.elements[index] = values[lanes]

    def _resolve(
        self, addresses: Array, mask: Array, verb: str, dtype: np.dtype[Any]
    ) -> list[tuple[Region, Array, Array]]:
        """Split active lanes by region: the lanes, and the element index of each."""
        found = []
        for region, lanes, offsets in self.split(addresses, mask):
            if region is None:
                region, offsets = _foreign(offsets, verb, dtype)
            seen = region.viewed(dtype)
            found.append((seen, lanes, _checked(seen, offsets, verb)))
        return found

    def split(self, addresses: Array, mask: Array) -> list[tuple[Region | None, Array, Array]]:
        """Split active lanes by region: the region, its lanes, and their offsets in bytes from
        its first element. Addresses of no region come with None, and as they are.
        """
        numbers = np.where(mask, addresses >> _SHIFT, 0) - _FIRST
        found: list[tuple[Region | None, Array, Array]] = []
        for number in np.unique(numbers[mask]):
            lanes = mask & (numbers == number)
            if 1 <= number <= len(self._regions):
                base = self._base(int(number) - 1)
                found.append((self._regions[int(number) - 1], lanes, addresses[lanes] - base))
            else:
                found.append((None, lanes, addresses[lanes]))
        return found

    def shown(self, addresses: Array) -> Array:
        """Return the array that one address is the first element of, as a kernel's argument is,
        else the element of its array that each address is of.
        """
        everywhere = np.ones(addresses.shape, np.bool_)
        elements = np.zeros(addresses.shape, np.int64)
        for region, lanes, offsets in self.split(addresses, everywhere):
            size = region.elements.itemsize if region else 1
            elements[lanes] = offsets // size - (region.origin if region else 0)
            if region is not None and addresses.shape == () and not elements.any():
                return region.elements if region.array is None else region.array
        return elements

    @property
    def regions(self) -> tuple[Region, ...]:
        """All regions, the oldest first."""
        return tuple(self._regions)

    @staticmethod
    def _base(index: int) -> int:
        return ((index + 1 + _FIRST) << _SHIFT) + _MIDDLE


def stray(address: int) -> str:
    """Say in words what an address of no region is."""
    return "through a null pointer" if abs(address) < _MIDDLE else "an address of no tensor"


def foreign(addresses: Array) -> Array:
    """Tell which addresses may be memory of the process."""
    return np.asarray((addresses >= _LOWEST) & (addresses < _FIRST << _SHIFT))


def _foreign(addresses: Array, verb: str, dtype: np.dtype[Any]) -> tuple[Region, Array]:
    """Return the memory of the process at addresses that a kernel found in memory, unchecked, and
    the offsets in it.

    Raises:
        KernelError: addresses that are no user's memory.
    """
    strays = ~foreign(addresses)
    if strays.any():
        raise KernelError(f"{verb} {stray(int(addresses[strays][0]))}")
    low, high = int(addresses.min()), int(addresses.max())
    memory = (ctypes.c_char * (high - low + dtype.itemsize)).from_address(low)
    return Region("memory", np.frombuffer(memoryview(memory), np.uint8)), addresses - low


def _checked(region: Region, offsets: Array, verb: str) -> Array:
    size = region.elements.itemsize
    index = offsets // size
    if (offsets % size).any():
        raise KernelError(f"{verb} {region.name} between two elements")
    wrong = (index < 0) | (index >= region.elements.size)
    if wrong.any():
        place = int(index[wrong][0]) - region.origin
        raise KernelError(
            f"{verb} {region.name}[{place}], outside its {region.elements.size} elements",
            hint="mask the access: tl.load(pointer, mask=offset < n)",
        )
    return np.asarray(index)


def poisoned(size: int, dtype: DType) -> Array:
    """Memory that has not been written: NaN, or the largest integer."""
    fill = np.nan if dtype.is_float else dtype.max
    return np.full(size, fill).astype(dtype.numpy)
