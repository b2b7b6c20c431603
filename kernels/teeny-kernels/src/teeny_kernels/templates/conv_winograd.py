"""How convolutions by Winograd's F(2x2, 3x3) and F(4x4, 3x3) are cut, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from teeny_core import DType
from teeny_triton import Target
from teeny_triton.launch import Launch

from teeny_kernels.kernels.conv_channels import Channels, pack_filters
from teeny_kernels.kernels.conv_winograd import (
    Winograd,
    conv_winograd,
    transform_filters,
)
from teeny_kernels.kernels.correlation import Correlation
from teeny_kernels.launching import Work, launch
from teeny_kernels.registers import LATENCY, PORTS, SPARE, load_cycles
from teeny_kernels.templates import conv_cut
from teeny_kernels.templates.conv_cut import Cut, Use

LEAST_CHANNELS, LEAST_ROWS = 64, 14
"""Channels, filters, and rows of results that are worth it."""
MOST_TILES, MOST_VECTORS = 14, 3
"""Largest blocks of products that are considered."""
TILES = 56
"""Tiles of a program, about: each transformed filter that is read meets so many."""
LEAST_FILTERS = 128
"""Filters of a program: it transforms the input for itself."""
TRANSFORM, COLLECT = {2: 60.0, 4: 150.0}, {2: 42.0, 4: 110.0}
"""Cycles to transform a register of tiles, and a register of sums of a tile, by their side."""
STREAM = 10.0
"""Bytes a cycle of filters, and of what a program keeps, that do not fit the second cache."""


@dataclass(frozen=True)
class WinogradCut(Cut):
    """A cut of Winograd's algorithm."""

    t: Winograd

    @property
    def packed(self) -> Channels:
        """The filters as they are transformed."""
        t = self.t
        return Channels(t.of, t.accumulator, t.lanes, t.vectors, 1, 1, 1, t.all_panels, None)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of the transformed filters, then of the packed ones."""
        return self.t.transformed_size, self.packed.packed_size

    @property
    def cycles(self) -> float:
        """The cycles for an image and group: steps of blocks, and the transforms."""
        t, of = self.t, self.t.of
        runs = t.rows // t.run
        size = t.transformed_size // of.groups * t.accumulator.itemsize
        load = load_cycles(self.target, size)
        steps = 0.0
        for nt, times in conv_cut.blocks(t.count, t.tiles):
            step = max(nt * t.vectors / PORTS, (nt + t.vectors) * load, LATENCY)
            steps += times * (step + t.vectors / 4)
        products = t.places * runs * t.all_panels * of.channels * steps
        parts = -(-t.all_panels // t.panels)
        transforms = parts * of.channels * t.rows * (t.whole // t.lanes) * TRANSFORM[t.side]
        collecting = t.all_panels * t.vectors * t.rows * t.columns * COLLECT[t.side]
        streaming = runs * size / STREAM if size > self.target.l2_bytes else 0.0
        kept = (t.places * t.place + t.panels * t.count * t.apart) * t.accumulator.itemsize
        streaming += runs * parts * 2 * max(0, kept - self.target.l2_bytes) / STREAM
        return products + transforms + collecting + streaming

    def launches(self, use: Use) -> tuple[Launch, ...]:
        """Return the launches, in order."""
        t, of = self.t, self.t.of
        transformed, packed = use.temps
        sizes = [size * packed.dtype.itemsize for size in self.sizes]
        pack = launch(
            pack_filters,
            (t.all_panels, of.groups),
            {"w": use.w, "packed": packed},
            constants={"t": self.packed},
            work=Work(0, 2 * sizes[1]),
        )
        transform = launch(
            transform_filters,
            (t.all_panels, of.groups),
            {"packed": packed, "transformed": transformed},
            constants={"t": t},
            work=Work(0, sum(sizes)),
        )
        main = launch(
            conv_winograd,
            (t.rows // t.run * -(-t.all_panels // t.panels), use.images, of.groups),
            {"x": use.x, "w": transformed, "y": use.y},
            constants={"t": t},
            hook=use.hook,
            work=conv_cut.work(of, use.images, use.x.dtype),
        )
        return pack, transform, main


def sides(options: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the sides of tiles that options of a compilation allow.

    Tiles of 4 x 4 round more than `fast` has to allow; with `direct` there are none.
    """
    if options.get("direct"):
        return ()
    return (2, 4) if options.get("fast") else (2,)


def choose(of: Correlation, dtype: DType, target: Target, side: int = 2) -> WinogradCut | None:
    """Return the best cut by tiles of a side, None where the algorithm does not serve or pay."""
    simple = of.kernel == (3, 3) and of.stride == of.dilation == (1, 1)
    large = (
        min(of.channels, of.filters) >= LEAST_CHANNELS and min(of.rows, of.columns) >= LEAST_ROWS
    )
    accumulator = dtype.accumulator
    lanes = target.lanes(accumulator)
    if not (simple and large and accumulator.is_float and lanes > 1):
        return None
    line = max(lanes, target.cache_line // accumulator.itemsize)
    rows, columns = -(-of.rows // side), -(-of.columns // side)
    run = max(r for r in range(1, rows + 1) if rows % r == 0 and (r == 1 or r * columns <= TILES))
    cuts = []
    for vectors, tiles in _blocks(of, lanes, target.vector_registers):
        whole = -(-of.filters // (vectors * lanes))
        parts = max(1, min(conv_cut.parts(of) // (rows // run), of.filters // LEAST_FILTERS))
        t = Winograd(of, side, accumulator, lanes, vectors, tiles, run, -(-whole // parts), line)
        cuts.append(WinogradCut(target, t))
    return min(cuts, key=lambda cut: cut.cycles, default=None)


def _blocks(of: Correlation, lanes: int, registers: int) -> Iterator[tuple[int, int]]:
    """Yield the blocks (vectors, tiles) that fit the registers."""
    for vectors in range(1, min(MOST_VECTORS, -(-of.filters // lanes)) + 1):
        for tiles in range(1, MOST_TILES + 1):
            if (tiles + 1) * vectors + SPARE <= registers:
                yield vectors, tiles
