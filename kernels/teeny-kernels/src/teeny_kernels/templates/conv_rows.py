"""How convolutions with columns in the lanes are cut, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from teeny_core import DType
from teeny_triton import Target
from teeny_triton.launch import Launch

from teeny_kernels.kernels.conv_rows import Rows, conv_rows
from teeny_kernels.kernels.correlation import Correlation, Slab
from teeny_kernels.launching import launch
from teeny_kernels.registers import LATENCY, PORTS, SPARE, load_cycles
from teeny_kernels.templates import conv_cut
from teeny_kernels.templates.conv_cut import Cut, Use

MOST_FILTERS, MOST_ROWS, MOST_VECTORS = 14, 8, 4
"""Largest blocks that are considered."""
UNALIGNED = 1.5
"""Cycles of a load port that a register takes which lies anywhere in memory."""
APART = 2.0
"""Cycles that a step takes longer when the filters do not fit the first cache."""


@dataclass(frozen=True)
class RowsCut(Cut):
    """A cut with columns in the lanes."""

    t: Rows

    @property
    def cycles(self) -> float:
        """The cycles for an image and group: steps of blocks, and what follows them."""
        t, of = self.t, self.t.of
        size = of.filters * of.taps * t.accumulator.itemsize
        load, apart = load_cycles(self.target, size), size > self.target.l1_bytes
        total = 0.0
        for nf, times in conv_cut.blocks(of.filters, t.filters):
            for nr, repeats in conv_cut.blocks(of.rows, t.rows):
                for vectors, number in conv_cut.blocks(-(-of.columns // t.lanes), t.vectors):
                    held = nr * vectors
                    loads = (nf + UNALIGNED * held) * load
                    step = max(nf * held / PORTS, loads, LATENCY) + (APART if apart else 0)
                    steps = of.taps * step * conv_cut.seen(of, nr)
                    total += times * repeats * number * steps
        return total

    def launches(self, use: Use) -> tuple[Launch, ...]:
        """Return the launches, in order."""
        of = self.t.of
        return (launch(
            conv_rows,
            (-(-of.rows // self.t.run), use.images, of.groups),
            {"x": use.x, "w": use.w, "y": use.y},
            constants={"t": self.t},
            hook=use.hook,
            work=conv_cut.work(of, use.images, use.x.dtype),
        ),)  # fmt: skip


def choose(of: Correlation, dtype: DType, target: Target, *, pool: bool = False) -> RowsCut | None:
    """Return the best cut, None if the columns are not neighbours."""
    accumulator = dtype.accumulator
    lanes = target.lanes(accumulator)
    if of.stride[1] != 1 or (pool and lanes == 1):
        return None
    cuts = (
        Rows(of, accumulator, lanes, filters, rows, vectors, rows, None, pool)
        for filters, rows, vectors in _blocks(of, lanes, target.vector_registers, pool)
    )
    found = min((RowsCut(target, t) for t in cuts), key=lambda cut: cut.cycles, default=None)
    if found is None:
        return None
    best = found.t
    run = conv_cut.run(of, best.rows, conv_cut.parts(of), accumulator, target)
    slab = None
    if of.needs_padding or of.x[4] != 1:
        columns = -(-of.columns // lanes) * lanes + max(0, of.kernel[1] - 1) * of.dilation[1]
        slab = Slab(of.reach(run, 0), -(-columns // lanes) * lanes, lanes)
    return RowsCut(target, replace(best, run=run, slab=slab))


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
