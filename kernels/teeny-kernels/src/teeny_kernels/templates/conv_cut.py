"""A way to compute a convolution: what it costs, its launches, and the parts of images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from teeny_core import Dim, DType
from teeny_triton import Target
from teeny_triton.launch import Launch

from teeny_kernels.kernels.correlation import Correlation
from teeny_kernels.launching import Buffer, Hook, Work

FLOPS = 8_000_000
"""Operations of a program at least, where an image has as many."""
PROGRAMS = 16
"""Programs that an image is cut into at most, unless its padded copy would not fit the cache."""


@dataclass(frozen=True)
class Use:
    """One use of a convolution: the number of images, the buffers and the hook.

    `temps` is memory of `Cut.sizes` elements.
    """

    images: Dim
    x: Buffer
    w: Buffer
    temps: tuple[Buffer, ...]
    y: Buffer
    hook: Hook


@dataclass(frozen=True)
class Cut(ABC):
    """A correlation cut into the blocks of one algorithm, for a machine."""

    target: Target

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of each buffer of filters as the algorithm reads them, of its accumulator."""
        return ()

    @property
    @abstractmethod
    def cycles(self) -> float:
        """The cycles for an image and group, about."""

    @abstractmethod
    def launches(self, use: Use) -> tuple[Launch, ...]:
        """Return the launches, in order."""


def work(of: Correlation, images: Dim, dtype: DType) -> Work:
    """Return the cost of a whole correlation."""
    seen = of.channels * of.height * of.width + of.filters * of.rows * of.columns
    return Work(of.flops * images, seen * of.groups * images * dtype.itemsize)


def blocks(count: int, size: int) -> list[tuple[int, int]]:
    """Return (size, times) of the blocks that `count` is cut into: whole ones, then the rest."""
    found = [(size, count // size), (count % size, 1)]
    return [block for block in found if block[0] and block[1]]


def stores(count: int, lanes: int, target: Target) -> int:
    """Return the stores of a run of columns: powers of two, where there are no mask registers."""
    whole, rest = divmod(count, lanes)
    return whole + (min(1, rest) if target.has("avx512f") else rest.bit_count())


def seen(of: Correlation, count: int) -> float:
    """Return the share of the window's rows that blocks of `count` output rows look at."""
    height, _ = of.kernel
    if not of.needs_padding or height == 0:
        return 1.0
    looked_at = number = 0
    for row in range(0, of.rows, count):
        low = -(-(of.top - (row + count - 1) * of.stride[0]) // of.dilation[0])
        high = (of.height - 1 + of.top - row * of.stride[0]) // of.dilation[0] + 1
        looked_at += max(0, min(height, high) - max(0, low))
        number += 1
    return looked_at / (number * height)


def parts(of: Correlation) -> int:
    """Return the number of programs that the work of an image and group is enough for."""
    return max(1, min(PROGRAMS, of.flops // of.groups // FLOPS))


def run(of: Correlation, rows: int, count: int, dtype: DType, target: Target) -> int:
    """Return the rows of a program, a multiple of `rows`, for about `count` programs.

    What they see fits half of the second cache.
    """
    row = of.channels * of.width * of.stride[0] * dtype.itemsize
    least = -(-of.rows * row // (target.l2_bytes // 2)) if of.needs_padding else 1
    number = -(-of.rows // rows)
    return -(-number // min(max(count, least), number)) * rows
