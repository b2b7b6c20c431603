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
"""Cycles that a step takes longer when filters and what they see do not fit the first cache."""
LOOP, STORE, COPY = 0.25, 2.0, 3.0
"""Cycles of the loop for each step, to store a register of results, and to copy one of input."""
FETCH = 4.0
"""Cycles to bring a line of an image that does not fit the second cache."""


@dataclass(frozen=True)
class RowsCut(Cut):
    """A cut with columns in the lanes."""

    t: Rows

    @property
    def cycles(self) -> float:
        """The cycles for an image and group: steps of blocks, and what follows them."""
        t, of, target = self.t, self.t.of, self.target
        itemsize = t.accumulator.itemsize
        size = of.filters * of.taps * itemsize
        image = of.channels * of.height * of.width * itemsize
        load = load_cycles(target, size)
        total = image / target.cache_line * FETCH if image > target.l2_bytes else 0.0
        if t.slab is not None:
            total += -(-of.rows // t.run) * of.channels * t.slab.plane / t.lanes * COPY
        for nf, times in conv_cut.blocks(of.filters, t.filters):
            for nr, repeats in conv_cut.blocks(of.rows, t.rows):
                run = -(-t.vectors * t.lanes * itemsize // target.cache_line) * target.cache_line
                seen = of.channels * of.reach(nr, 0) * run
                apart = APART if size + seen > target.l1_bytes else 0.0
                for vectors, number in conv_cut.blocks(-(-of.columns // t.lanes), t.vectors):
                    held = nr * vectors
                    loads = (nf + UNALIGNED * held) * load
                    step = max(nf * held / PORTS, loads, LATENCY) + LOOP + apart
                    steps = of.taps * step * conv_cut.seen(of, nr)
                    total += times * repeats * number * (steps + nf * held * STORE)
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
    """Return the best cut, None if the columns that a tap sees are no neighbours."""
    accumulator = dtype.accumulator
    lanes = target.lanes(accumulator)
    phases = of.stride[1]
    if phases > 2 or (phases == 2 and of.dilation[1] > 1) or lanes == 1 < max(phases, 1 + pool):
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
    if of.needs_padding or (of.taps and (of.x[4] != 1 or phases > 1)):
        taps = max(0, of.kernel[1] - 1) * of.dilation[1] // phases
        pitch = -(-of.columns // lanes) * lanes + taps
        slab = Slab(of.reach(run, 0), -(-pitch // lanes) * lanes, lanes, phases)
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
