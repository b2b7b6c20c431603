"""How the elements of a tile lie in vector registers.

A tile is cut, in row-major order, into pieces of consecutive elements, one LLVM vector each.
Where the last axis and the vector width divide one another, rows need no borders and the tile is
cut as a flat array; else each row is cut by itself. A piece has a power of two of lanes; those past
its `count` elements are undefined and must never reach memory, a reduction or a trap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements [start, start + count) of the flat tile, in the first lanes of `width`."""

    start: int
    count: int
    width: int

    @property
    def is_full(self) -> bool:
        """Whether every lane holds an element."""
        return self.count == self.width


@cache
def pieces(shape: tuple[int, ...], lanes: int) -> tuple[Piece, ...]:
    """Cut a tile into pieces of at most `lanes` elements."""
    size = math.prod(shape)
    row = row_length(shape, lanes)
    cut = []
    for start in range(0, size, row):
        for offset in range(start, start + row, lanes):
            count = min(lanes, start + row - offset)
            cut.append(Piece(offset, count, ceil_power(count)))
    return tuple(cut)


def row_length(shape: tuple[int, ...], lanes: int) -> int:
    """Return the number of elements between borders that no piece crosses."""
    size = math.prod(shape)
    last = shape[-1] if shape else 1
    flat = last % lanes == 0 or lanes % last == 0
    return size if flat else last


def ceil_power(number: int) -> int:
    """Round up to a power of two."""
    return 1 << (number - 1).bit_length()


@cache
def locate(shape: tuple[int, ...], lanes: int) -> tuple[Indices, Indices]:
    """Return, for each flat element, its piece and its lane."""
    cut = pieces(shape, lanes)
    counts = [piece.count for piece in cut]
    piece_of = np.repeat(np.arange(len(cut)), counts)
    lane_of = np.concatenate([np.arange(count) for count in counts])
    return piece_of, lane_of
