"""How convolutions with columns in the lanes are cut, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from teeny_core import Dim, DType
from teeny_triton import Target
from teeny_triton.launch import Launch

from teeny_kernels.kernels.conv_rows import Rows, conv_rows
from teeny_kernels.kernels.correlation import Correlation, Slab
from teeny_kernels.launching import Buffer, Hook, launch
from teeny_kernels.registers import LATENCY, SPARE
from teeny_kernels.templates import conv_cost

MOST_FILTERS, MOST_ROWS, MOST_VECTORS = 14, 8, 4
"""Largest blocks that are considered."""
UNALIGNED = 1.5
"""Cycles of a load port that a register takes which lies anywhere in memory."""


def choose(of: Correlation, dtype: DType, target: Target, *, pool: bool = False) -> Rows | None:
    """Return the best cut, None if the columns are not neighbours."""
    accumulator = dtype.accumulator
    lanes = target.lanes(accumulator)
    if of.stride[1] != 1 or (pool and lanes == 1):
        return None
    cuts = (
        Rows(of, accumulator, lanes, filters, rows, vectors, rows, None, pool)
        for filters, rows, vectors in _blocks(of, lanes, target.vector_registers, pool)
    )
    best = min(cuts, key=cycles, default=None)
    if best is None:
        return None
    run = conv_cost.run(of, best.rows, conv_cost.parts(of), accumulator, target)
    slab = None
    if of.needs_padding or of.x[4] != 1:
        width = best.vectors * lanes
        columns = -(-of.columns // width) * width + max(0, of.kernel[1] - 1) * of.dilation[1]
        slab = Slab(of.reach(run, 0), -(-columns // lanes) * lanes, lanes)
    return replace(best, run=run, slab=slab)


def _blocks(
    of: Correlation, lanes: int, registers: int, pool: bool
) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks (filters, rows, vectors) that fit the registers."""
    step = 2 if pool else 1
    for vectors in range(1, min(MOST_VECTORS, -(-of.columns // lanes)) + 1):
        for rows in range(step, min(MOST_ROWS, of.rows) + 1, step):
            for filters in range(1, min(MOST_FILTERS, of.filters) + 1):
                if (filters + 1) * rows * vectors + SPARE <= registers:
                    yield filters, rows, vectors


def cycles(t: Rows) -> float:
    """Return the cycles for an image and group, about."""
    of = t.of
    columns = -(-of.columns // (t.vectors * t.lanes))
    total = 0.0
    for nf, times in conv_cost.blocks(of.filters, t.filters):
        for nr, repeats in conv_cost.blocks(of.rows, t.rows):
            held = nr * t.vectors
            step = max(nf * held / 2, (nf + UNALIGNED * held) / 2, LATENCY)
            total += times * repeats * columns * of.taps * step * conv_cost.seen(of, nr)
    return total


def launches(
    t: Rows, images: Dim, inputs: tuple[Buffer, Buffer], output: Buffer, hook: Hook
) -> Launch:
    """Return the launch of a cut."""
    return launch(
        conv_rows,
        (-(-t.of.rows // t.run), images, t.of.groups),
        {"x": inputs[0], "w": inputs[1], "y": output},
        constants={"t": t},
        hook=hook,
        work=conv_cost.work(t.of, images, inputs[0].dtype),
    )
