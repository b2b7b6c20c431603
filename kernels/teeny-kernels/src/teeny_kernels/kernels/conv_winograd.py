"""Convolution with windows of 3 x 3 by Winograd's F(2x2, 3x3) and F(4x4, 3x3).

A tile of m x m results sees (m + 2) x (m + 2) numbers d of the input. With the filter g,

    Y = A' [ (G g G') * (B' d B) ] A          (* by elements, summed over the channels)

which takes 16 products where there were 36, or 36 where there were 144; `winograd_tiles` has the
transforms. The sum over channels is a product of matrices for each of the *places* of a transformed
tile. By tiles of 2 x 2, results differ from those of a direct sum by a few units in the last place,
and an input that is not finite reaches the results that it belongs to and no others, but an
infinity may come out as NaN; so may a sum of four inputs that overflows. By tiles of 4 x 4, results
err by about five times as much, and an input that is not finite, or nearly so, may make any result
of its tile NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import teeny_triton.language as tl
from teeny_core import DType
from teeny_kernels.kernels.correlation import Correlation, group_of
from teeny_kernels.kernels.winograd_tiles import of_filter, of_input, of_sums
from teeny_triton import Ptr, TypeVar, constexpr, kernel

T = TypeVar("T")
P = TypeVar("P")
D = TypeVar("D")


@dataclass(frozen=True)
class Winograd:
    """How a correlation is cut; its window is 3 x 3, with strides and dilations of 1.

    Attributes:
        of: the correlation.
        side: results along a side of a tile, 2 or 4.
        accumulator: type of the sums, and of what is transformed.
        lanes: elements of a register.
        vectors: registers in a row of a panel of filters.
        tiles: tiles of a block of products.
        run: rows of tiles of a program; it divides their number.
        panels: panels of filters of a program.
        line: elements of a cache line.
    """

    of: Correlation
    side: int
    accumulator: DType
    lanes: int
    vectors: int
    tiles: int
    run: int
    panels: int
    line: int

    @property
    def reach(self) -> int:
        """Numbers of the input that a tile sees along a side."""
        return self.side + 2

    @property
    def places(self) -> int:
        """Numbers of a transformed tile."""
        return self.reach**2

    @property
    def width(self) -> int:
        """Filters of a panel."""
        return self.vectors * self.lanes

    @property
    def all_panels(self) -> int:
        """Panels of a group."""
        return -(-self.of.filters // self.width)

    @property
    def rows(self) -> int:
        """Rows of tiles."""
        return -(-self.of.rows // self.side)

    @property
    def columns(self) -> int:
        """Columns of tiles."""
        return -(-self.of.columns // self.side)

    @property
    def whole(self) -> int:
        """Columns of tiles in whole registers."""
        return -(-self.columns // self.lanes) * self.lanes

    @property
    def count(self) -> int:
        """Tiles of a program."""
        return self.run * self.columns

    @property
    def pitch(self) -> int:
        """Elements of a channel's tiles at a place, an odd number of cache lines.

        So channels lie in all sets of the cache.
        """
        return (-(-(self.count + self.lanes) // self.line) | 1) * self.line

    @property
    def place(self) -> int:
        """Elements of all tiles at a place, an odd number of cache lines."""
        return (self.of.channels * self.pitch // self.line | 1) * self.line

    @property
    def apart(self) -> int:
        """Elements of the sums of a tile, an odd number of cache lines."""
        return self.places * self.width + self.line

    @property
    def transformed_size(self) -> int:
        """Elements of all transformed filters."""
        return self.of.groups * self.all_panels * self.places * self.of.channels * self.width


@kernel
def transform_filters(packed: Ptr[P], transformed: Ptr[P], t: Winograd) -> None:
    """Transform filters [group][panel][channel][3][3][width] to [group][place][panel][channel][..].

    Grid: panels, groups.
    """
    channels = t.of.channels
    panel, group = tl.program_id(0), tl.program_id(1)
    source = packed + (group * t.all_panels + panel) * (channels * 9 * t.width)
    to = transformed + (group * t.places * t.all_panels + panel) * (channels * t.width)

    for c in range(channels):
        for start in tl.static_range(0, t.width, t.lanes):
            lane = c * t.width + start + tl.arange(0, t.lanes)
            at = source + c * (8 * t.width) + lane
            rows = [
                of_filter(t.side, [tl.load(at + (3 * i + j) * t.width) for j in tl.static_range(3)])
                for i in tl.static_range(3)
            ]
            for j in tl.static_range(t.reach):
                column = of_filter(t.side, [row[j] for row in rows])
                for i in tl.static_range(t.reach):
                    place = (t.reach * i + j) * (t.all_panels * channels * t.width)
                    tl.store(to + place + lane, column[i])


@kernel
def conv_winograd(
    x: Ptr[T], w: Ptr[P], y: Ptr[D], extra: tuple[Any, ...], t: Winograd, EPILOGUE: constexpr
) -> None:
    """Compute a correlation with transformed filters. Grid: parts of an image, images, groups.

    Parts are runs of rows of tiles for each run of panels.
    """
    of = t.of
    image, group = tl.program_id(1), group_of(of)
    runs = t.rows // t.run
    first = 0 if runs == 1 else tl.program_id(0) % runs * t.run
    first_panel = tl.program_id(0) // runs * t.panels
    panels = tl.minimum(t.panels, t.all_panels - first_panel)
    source = x + image * of.x[0] + group * of.x[1]
    result = y + image * of.y[0] + group * of.y[1] + of.y_start
    seen = tl.scratch(t.places * t.place, t.accumulator)  # [place][channel][tile]
    sums = tl.scratch(t.panels * t.count * t.apart, t.accumulator)  # [panel][tile][place][filter]
    lane = tl.arange(0, t.lanes)

    def transform() -> None:
        """Transform the tiles of all channels: along their rows first, which two tiles share."""
        height = t.side * t.run + 2
        line = t.reach * t.whole
        across = tl.scratch(height * line, t.accumulator)  # [row][column of a tile][tile]
        for c in range(of.channels):
            for r in range(height):
                row = t.side * first + r - of.top
                to = across + r * line + lane
                if (row >= 0) & (row < of.height):
                    for start in tl.static_range(0, t.whole, t.lanes):
                        at = source + c * of.x[2] + row * of.x[3]
                        both = (*columns(at, start), *columns(at, start + 1))
                        values = of_input(both[: t.reach])
                        for j in tl.static_range(t.reach):
                            tl.store(to + j * t.whole + start, values[j])
                else:
                    for start in tl.static_range(0, line, t.lanes):
                        tl.store(to + start, tl.zeros((t.lanes,), t.accumulator))
            for r in range(t.run):
                for start in tl.static_range(0, t.whole, t.lanes):
                    at = across + r * (t.side * line) + start + lane
                    to = seen + c * t.pitch + r * t.columns + start + lane
                    for j in tl.static_range(t.reach):
                        down = [
                            tl.load(at + i * line + j * t.whole) for i in tl.static_range(t.reach)
                        ]
                        values = of_input(down)
                        for i in tl.static_range(t.reach):
                            tl.store(to + (t.reach * i + j) * t.place, values[i])

    def columns(at: Any, tile: int) -> Any:
        """Return the first columns that some tiles from `tile` on see, of a row: `side` of them."""
        begin = t.side * tile - of.left
        count = t.side * t.lanes
        column = begin + tl.arange(0, count)
        whole = begin >= 0 and begin + count <= of.width
        mask = None if whole else (column >= 0) & (column < of.width)
        values = tl.load(at + column * of.x[4], mask, None if whole else 0.0).to(t.accumulator)
        found = tl.split(values.reshape(count // 2, 2))
        if t.side == 2:
            return found
        (first, third), (second, fourth) = (tl.split(x.reshape(t.lanes, 2)) for x in found)
        return first, second, third, fourth

    def multiply(place: Any, panel: Any, tile: Any, nt: int) -> None:
        """Sum products over the channels, for some tiles and a panel of filters."""
        tile = tile + tl.arange(0, nt)[:, None]
        filter = tl.arange(0, t.width)[None, :]
        left = seen + place * t.place + tile
        number = (group * t.places + place) * t.all_panels + first_panel + panel
        right = w + number * (of.channels * t.width) + filter
        acc = tl.zeros((nt, t.width), t.accumulator)
        for c in range(of.channels):
            acc = acc + tl.load(left + c * t.pitch) * tl.load(right + c * t.width)
        tl.store(sums + (panel * t.count + tile) * t.apart + place * t.width + filter, acc)

    def collect(panel: Any, r: Any, start: int) -> None:
        """Transform the sums of a row of tiles for a register of filters to results, and store.

        Those of a tile of 4 x 4 do not fit the registers half transformed.
        """
        for k in range(t.columns):
            at = sums + (panel * t.count + r * t.columns + k) * t.apart + start + lane
            if t.side == 2:
                half = [of_sums(column(at, j)) for j in tl.static_range(t.reach)]
                for i in tl.static_range(t.side):
                    keep(i, k, [values[i] for values in half])
            else:
                for j in range(t.reach):
                    values = of_sums(column(at, j))
                    for i in tl.static_range(t.side):
                        tl.store(halves + (i * t.reach + j) * t.lanes + lane, values[i])
                for i in range(t.side):
                    row = halves + i * (t.reach * t.lanes) + lane
                    keep(i, k, [tl.load(row + j * t.lanes) for j in tl.static_range(t.reach)])
        above = t.side * (first + r)
        for i in range(min(t.side, of.rows - above)):
            finish(panel, start, above + i, i)

    def column(at: Any, j: Any) -> Any:
        """Return a column of the sums of a tile."""
        return [tl.load(at + (t.reach * i + j) * t.width) for i in tl.static_range(t.reach)]

    def keep(i: Any, k: Any, row: Any) -> None:
        """Transform a half transformed row of tile `k` to results, and keep them."""
        to = turned + (i * t.columns + k) * (t.side * t.lanes) + lane
        values = of_sums(row)
        for j in tl.static_range(t.side):
            tl.store(to + j * t.lanes, values[j])

    def finish(panel: Any, start: int, row: Any, i: Any) -> None:
        """Turn a row of results round, for a register of filters, and store it."""
        whole, rest = of.columns // t.lanes, of.columns % t.lanes
        for k in range(whole):
            part(panel, start, row, i, k * t.lanes, t.lanes)
        if rest != 0:
            part(panel, start, row, i, whole * t.lanes, rest)

    def part(panel: Any, start: int, row: Any, i: Any, begin: Any, nc: int) -> None:
        across = begin + tl.arange(0, nc)[None, :]
        inner = tl.arange(0, t.lanes)[:, None]
        value = tl.load(turned + (i * t.side * t.columns + across) * t.lanes + inner)
        filter = (first_panel + panel) * t.width + start + inner
        mask = None if of.filters % t.lanes == 0 else filter < of.filters
        index = (
            image,
            group * of.filters + filter,
            of.origin[0] + row * of.step[0],
            of.origin[1] + across * of.step[1],
        )
        place = result + filter * of.y[2] + row * of.y[3] + across * of.y[4]
        tl.store(place, EPILOGUE(value, index, mask, extra), mask)

    transform()
    for place in range(t.places):
        for panel in tl.range(panels):
            for k in range(t.count // t.tiles):
                multiply(place, panel, k * t.tiles, t.tiles)
            if t.count % t.tiles != 0:
                multiply(place, panel, t.count // t.tiles * t.tiles, t.count % t.tiles)
    halves = tl.scratch(t.side * t.reach * t.lanes, t.accumulator)  # [row][column][filter]
    turned = tl.scratch(t.side**2 * t.columns * t.lanes, t.accumulator)  # [row][column][filter]
    for panel in tl.range(panels):
        for r in range(t.run):
            for start in tl.static_range(0, t.width, t.lanes):
                filter = (first_panel + panel) * t.width + start
                if of.filters % t.width == 0 or start == 0 or filter < of.filters:
                    collect(panel, r, start)
