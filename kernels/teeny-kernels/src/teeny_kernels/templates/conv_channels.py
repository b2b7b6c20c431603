"""How convolutions with filters in the lanes are cut, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from teeny_core import DType
from teeny_triton import Target
from teeny_triton.launch import Launch

from teeny_kernels.kernels.conv_channels import Channels, conv_channels, pack_filters
from teeny_kernels.kernels.correlation import Correlation, Slab
from teeny_kernels.launching import Work, launch
from teeny_kernels.registers import LATENCY, PORTS, SPARE, load_cycles
from teeny_kernels.templates import conv_cut
from teeny_kernels.templates.conv_cut import Cut, Use

MOST_ROWS, MOST_VECTORS = 8, 3
"""Largest blocks that are considered."""
SPARE_OF_ROWS = 5
"""Registers that are left over where pixels of several rows are broadcast: LLVM needs them."""
SEVERAL_ROWS = 0.25
"""Cycles that a step takes longer where pixels of several rows are broadcast."""
TURNING = 2.0
"""Cycles to turn a register of results round and store it."""
LONG_TAPS, FEW_BLOCKS = 256, 16
"""A panel of so many taps that meets so few blocks of pixels leaves time to fetch the next one."""

STREAMED = 16.0
"""Bytes that a block reads in a cycle from the second cache without waiting."""
LEAST_DEPTH = 4
"""Channels that are worth summing by themselves: sums are read and written again for each part."""


@dataclass(frozen=True)
class ChannelsCut(Cut):
    """A cut with filters in the lanes."""

    t: Channels

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of the packed filters."""
        return (self.t.packed_size,)

    @property
    def cycles(self) -> float:
        """The cycles for an image and group: steps of blocks, and what follows them."""
        t, of = self.t, self.t.of
        image = of.channels * of.height * of.width * t.accumulator.itemsize
        load = load_cycles(self.target, image)
        total = 0.0
        for vectors, times in conv_cut.blocks(-(-of.filters // t.lanes), t.vectors):
            for nr, repeats in conv_cut.blocks(of.rows, t.rows):
                for nc, number in conv_cut.blocks(of.columns, t.columns):
                    pixels = nr * nc
                    loads = (pixels + vectors) * load
                    step = max(pixels * vectors / PORTS, loads, LATENCY) + vectors / 4
                    step += SEVERAL_ROWS if nr > 1 else 0
                    stores = conv_cut.stores(nc, t.lanes, self.target)
                    turning = vectors * nr * stores * t.lanes * TURNING
                    steps = of.taps * step * conv_cut.seen(of, nr)
                    total += times * repeats * number * (steps + turning)
        return total

    def launches(self, use: Use) -> tuple[Launch, ...]:
        """Return the launches, in order."""
        t, of = self.t, self.t.of
        (packed,) = use.temps
        moved = 2 * of.groups * of.filters * of.taps * packed.dtype.itemsize
        pack = launch(
            pack_filters,
            (t.all_panels, of.groups),
            {"w": use.w, "packed": packed},
            constants={"t": t},
            work=Work(0, moved),
        )
        parts = -(-of.rows // t.run) * -(-t.all_panels // t.panels)
        main = launch(
            conv_channels,
            (parts, use.images, of.groups),
            {"x": use.x, "w": packed, "y": use.y},
            constants={"t": t},
            hook=use.hook,
            work=conv_cut.work(of, use.images, use.x.dtype),
        )
        return pack, main


def choose(
    of: Correlation, dtype: DType, target: Target, *, pool: bool = False
) -> ChannelsCut | None:
    """Return the best cut, None if nothing fits the registers."""
    accumulator = dtype.accumulator
    lanes = target.lanes(accumulator)
    cuts = (
        Channels(of, accumulator, lanes, vectors, rows, columns, rows, 1, None, pool)
        for vectors, rows, columns in _blocks(of, lanes, target.vector_registers, pool)
    )
    found = min((ChannelsCut(target, t) for t in cuts), key=lambda cut: cut.cycles, default=None)
    if found is None:
        return None
    best = found.t
    run, panels = _parts(best, target)
    slab = None
    if of.needs_padding:
        pitch = -(-max(1, of.reach(of.columns, 1)) // lanes) * lanes
        slab = Slab(of.reach(run, 0), pitch, lanes)
    cut = replace(best, run=run, panels=panels, slab=slab, fetched=_fetched(best))
    cut = replace(cut, depth=_depth(cut, target))
    return ChannelsCut(target, cut)


def _blocks(
    of: Correlation, lanes: int, registers: int, pool: bool
) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks (vectors, rows, columns) that fit the registers."""
    step = 2 if pool else 1
    for vectors in range(1, min(MOST_VECTORS, -(-of.filters // lanes)) + 1):
        for rows in range(step, min(MOST_ROWS, of.rows) + 1, step):
            spare = (SPARE if vectors > 1 else SPARE + 1) if rows == 1 else SPARE_OF_ROWS
            for pieces in range(1, of.columns + 1):
                columns = -(-of.columns // pieces)
                columns = -(-columns // step) * step
                if (rows * columns + 1) * vectors + spare <= registers:
                    yield vectors, rows, columns
                    break


def _depth(t: Channels, target: Target) -> int:
    """Return how many channels to sum before the next ones: 0 for all, where that is no slower.

    What a block reads comes from the second cache when the first does not hold it, which is fast
    enough for wide windows and blocks. A part of a panel takes a quarter of the first cache, the
    channels that it meets a half.
    """
    of, itemsize = t.of, t.accumulator.itemsize
    taps = of.kernel[0] * of.kernel[1]
    window, lines = taps * t.width * itemsize, of.reach(t.rows, 0) * target.cache_line
    cycles = taps * t.rows * t.columns * t.vectors / PORTS
    streams = window + lines < STREAMED * cycles and of.channels * window <= target.l2_bytes // 4
    if not taps or of.channels * (window + lines) <= target.l1_bytes * 3 // 4 or streams:
        return 0
    plane = of.reach(t.run, 0) * of.reach(of.columns, 1) * itemsize
    depth = min(target.l1_bytes // 4 // window, target.l1_bytes // 2 // plane)
    return depth if LEAST_DEPTH <= depth < of.channels else 0


def _parts(t: Channels, target: Target) -> tuple[int, int]:
    """Return the rows and the panels of a program.

    Filters that are larger than the image are divided first, for each program reads its own.
    """
    of, wanted = t.of, conv_cut.parts(t.of)
    number, panels = -(-of.rows // t.rows), t.all_panels
    if of.filters * of.taps > of.channels * of.height * of.width:
        by_panel = min(wanted, panels)
        by_row = -(-wanted // by_panel)
    else:
        by_row = min(wanted, number)
        by_panel = min(-(-wanted // by_row), panels)
    return conv_cut.run(of, t.rows, by_row, t.accumulator, target), -(-panels // by_panel)


def _fetched(t: Channels) -> int:
    """Return how much of the next panel to fetch for each channel: 0 for small panels.

    Whole registers are fetched, which are whole cache lines where they are longest.
    """
    number = -(-t.of.rows // t.rows) * -(-t.of.columns // t.columns)
    size = t.of.kernel[0] * t.of.kernel[1] * t.width
    worth = t.all_panels > 1 and t.of.taps >= LONG_TAPS and number <= FEW_BLOCKS
    return -(-size // (number * t.lanes)) * t.lanes if worth else 0
