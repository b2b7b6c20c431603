"""Which block of results a kernel keeps in registers.

A micro-kernel holds a block of `height` rows times `vectors` registers of results and adds one
outer product a step: `height` broadcast numbers times `vectors` registers. A step takes
`height * vectors` multiply-adds and `height + vectors` loads, two of each a cycle on every machine
of interest, and no less than the latency of one multiply-add.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from teeny_core import Dim, DType
from teeny_triton import Target

LATENCY = 4.0
PORTS = 2.0
SPARE = 1
"""Registers besides accumulators and the row: one for the number that is broadcast."""
FETCH = 1 / 16
"""Cycles that a register of the row costs besides: each block reads the whole panel again, often
from the second cache. (512 rows by blocks of 4 took a third longer than by blocks of 6 and a last
one of 2, measured on Zen 3 while a neighbour used the caches.)"""


@dataclass(frozen=True)
class Block:
    """A block of results: `heights` from the usual one down to those that finish the rows.

    The rows of a matrix are cut into as many blocks of the first height as fit, what remains into
    one block at most of each following height. `vectors` registers make a row, and `tail` (0: there
    is none) the rows of the last block of columns.
    """

    heights: tuple[int, ...]
    vectors: int
    tail: int = 0

    @property
    def height(self) -> int:
        """Rows of the usual block."""
        return self.heights[0]


def load_cycles(target: Target, size: int) -> float:
    """Return the cycles that a load of a step takes, where loads and not multiply-adds bound it.

    `size` are the bytes of the operand that is read again and again. Where they leave no room in
    the first cache for the other one, and broadcasts are instructions of their own, loads came by
    1.7 a cycle (measured on Zen 3).
    """
    apart = not target.has("avx512f") and size > target.l1_bytes // 2
    return 0.6 if apart else 1 / PORTS


def step_cycles(height: int, vectors: int) -> float:
    """Return the cycles that one step of a block takes."""
    return max(height * vectors / PORTS, (height + vectors) / PORTS, LATENCY)


def fits(height: int, vectors: int, registers: int) -> bool:
    """Whether a block, a row of operands and a broadcast number fit the registers."""
    return height * vectors + vectors + SPARE <= registers


@cache
def choose(rows: Dim, columns: int | None, lanes: int, registers: int) -> Block:
    """Return the block with which a matrix of results takes the fewest cycles a step.

    Args:
        rows: number of rows; when symbolic, any number must be served well.
        columns: number of columns, None when it is symbolic.
        lanes: elements of a vector register.
        registers: number of vector registers.
    """
    width = None if columns is None else -(-columns // lanes)
    blocks = _blocks(rows, width, registers)
    return min(blocks, key=lambda block: (_cost(block, rows, width), -block.height))


MOST_VECTORS, MOST_VECTORS_OF_FEW = 4, 16
"""Longest rows of a block: with few rows they hide the latency, and B is read by longer runs."""
TYPICAL = 64
"""Rows and vectors that a symbolic size is taken for."""


def _blocks(rows: Dim, width: int | None, registers: int) -> Iterator[Block]:
    most = MOST_VECTORS_OF_FEW if isinstance(rows, int) and rows <= 2 else MOST_VECTORS
    for vectors in range(1, min(most, width or most) + 1):
        tail = 0 if width is None else width % vectors
        for height in range(1, 29):
            if not fits(height, vectors, registers):
                break
            if isinstance(rows, int):
                heights: tuple[int, ...] = tuple(h for h in (height, rows % height) if h)
            elif height & (height - 1) == 0 and height <= 8:
                heights = tuple(height >> i for i in range(height.bit_length()))
            else:
                continue
            yield Block(heights, vectors, tail)


def _cost(block: Block, rows: Dim, width: int | None) -> float:
    count = rows if isinstance(rows, int) else TYPICAL
    columns = TYPICAL if width is None else width
    whole = columns // block.vectors
    widths = [block.vectors] * whole + ([block.tail] if columns % block.vectors else [])
    total = 0.0
    for vectors in set(widths):
        rest = count
        for height in block.heights:
            times, rest = divmod(rest, height)
            cycles = step_cycles(height, vectors) + FETCH * vectors
            total += times * cycles * widths.count(vectors)
    return total


def accumulator(dtype: DType) -> DType:
    """Return the type in which products of `dtype` are summed."""
    return dtype.accumulator
