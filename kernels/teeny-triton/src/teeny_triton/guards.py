"""What tells that a launch is like one before: data that a device may check in native code.

A launch passes one block of words. For each argument that the kernel was not compiled for by its
Python value there is a guard, which says where in the block the argument stands and what must hold
for it. Where all guards hold, the arguments read as those of the launch that they were made for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from teeny_triton.compiler.kernel import DeviceKernel

Number: TypeAlias = int | float
Relaunch: TypeAlias = Callable[[tuple[int, int, int], Sequence[Number]], bool]
"""Takes a grid and a block of words, and says whether the guards hold and the kernel has run."""

DIVISIBILITY = 16
"""What an integer is known to divide by, or not."""

MOST_PIECES = 64
"""Most pieces of memory that guards may look at."""


@dataclass(frozen=True)
class Guard:
    """Where an argument stands.

    Attributes:
        word: its place in the block.
        parameter: the place of the parameter that takes it; None for one that is compiled in.
    """

    word: int
    parameter: int | None


@dataclass(frozen=True)
class IntegerGuard(Guard):
    """An integer, one word. `divides` says whether it does by 16, None that nobody asks."""

    low: int
    high: int
    divides: bool | None


@dataclass(frozen=True)
class FloatGuard(Guard):
    """A number for a parameter of type f32 or f64, one word, an f64."""


@dataclass(frozen=True)
class MemoryGuard(Guard):
    """Memory whose address is a multiple of `itemsize`.

    `alignment` is 64, 16 or 0, the largest of which the address is a multiple, and 0 where there
    is no element; None says that nobody asks.
    """

    itemsize: int
    alignment: int | None


@dataclass(frozen=True)
class ArrayGuard(MemoryGuard):
    """An array of NumPy, one word: where the object lies. `dense` asks for row-major order."""

    dtype: np.dtype[Any]
    writeable: bool
    dense: bool


@dataclass(frozen=True)
class SpanGuard(MemoryGuard):
    """Memory of another library, two words: its address, and the bytes up to its last element."""


@dataclass(frozen=True)
class Guards:
    """The guards of a launch.

    Attributes:
        items: by argument.
        overlapping: which pieces of memory share a byte with another, counted as they come.
    """

    items: tuple[Guard, ...]
    overlapping: frozenset[int]


class GuardedKernel(DeviceKernel, Protocol):
    """What `Device.compile_kernel` may return: a kernel that checks guards, too."""

    def guarded(self, guards: Guards) -> Relaunch:
        """Return what launches the kernel where the guards hold."""
        ...


def relaunch(kernel: DeviceKernel, guards: Guards) -> Relaunch | None:
    """Return what launches a kernel where guards hold, None on devices that do not check them."""
    guarded = getattr(kernel, "guarded", None)
    found: Relaunch | None = None if guarded is None else guarded(guards)
    return found
