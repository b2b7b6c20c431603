"""Convolution with the filters in the lanes, and the pixels of the input broadcast.

A block of results is some pixels (rows by columns) by a panel of filters. For each tap one row of
the packed panel meets the numbers that the pixels see there. The block is transposed in registers
before it is stored, as the output has its columns, not its filters, side by side. That suits many
filters, long sums and any stride.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import teeny_triton.language as tl
from teeny_core import DType
from teeny_kernels.kernels.correlation import Correlation, Slab, clipped, copy_slab, group_of
from teeny_triton import Ptr, TypeVar, constexpr, kernel

T = TypeVar("T")
P = TypeVar("P")
D = TypeVar("D")


@dataclass(frozen=True)
class Channels:
    """How a correlation is cut.

    Attributes:
        of: the correlation.
        accumulator: type of the sums, and of the packed filters.
        lanes: elements of a register.
        vectors: registers in a row of a panel of filters.
        rows, columns: pixels of a block.
        run: rows of a program, a multiple of those of a block.
        panels: panels of filters of a program.
        slab: padded copy of the input that a program makes, None to read it in place.
        pool: whether the largest of each 2 x 2 square is stored, not the squares.
        fetched: numbers of the next panel that are fetched into the second cache for each channel
            of each block, so that all blocks of an image fetch all of it; 0: none are.
        depth: channels that all blocks of a run are summed over before the next ones, where a
            panel is too large for the first cache: what is fetched is then the next part of it.
            Sums wait in scratch memory meanwhile; 0: all channels at once.
    """

    of: Correlation
    accumulator: DType
    lanes: int
    vectors: int
    rows: int
    columns: int
    run: int
    panels: int
    slab: Slab | None
    pool: bool = False
    fetched: int = 0
    depth: int = 0

    @property
    def width(self) -> int:
        """Filters of a panel."""
        return self.vectors * self.lanes

    @property
    def all_panels(self) -> int:
        """Panels of a group."""
        return -(-self.of.filters // self.width)

    @property
    def packed_size(self) -> int:
        """Elements of all packed filters."""
        return self.of.groups * self.all_panels * self.of.taps * self.width


@kernel
def pack_filters(w: Ptr[T], packed: Ptr[P], t: Channels) -> None:
    """Copy filters to panels [group][panel][i][j][channel][width], zeros in missing filters.

    Grid: panels, groups.
    """
    of = t.of
    panel, group = tl.program_id(0), tl.program_id(1)
    size = of.taps * t.width
    to = packed + (group * t.all_panels + panel) * size
    source = w + group * of.w[0] + of.w_start + panel * t.width * of.w[1]
    taps = of.kernel[0] * of.kernel[1]
    step = tl.arange(0, t.lanes)[:, None]
    flat = of.w[2] == taps and of.w[4] == 1 and of.w[3] == of.kernel[1]

    def pack(valid: Any) -> None:
        def squares(first: Any, count: int, last: bool) -> None:
            """Turn `count` squares of taps from `first` on round, of each register of filters."""
            for start in tl.static_range(0, t.width, t.lanes):
                filter = start + tl.arange(0, t.lanes)[None, :]
                inside = None if valid is None else filter < valid
                for k in tl.static_range(0, count * t.lanes, t.lanes):
                    tap = first + k + step
                    exists = tap < of.taps if last else None
                    mask = exists if inside is None else both(exists, inside)
                    value = tl.load(source + filter * of.w[1] + tap, mask)
                    tl.store(to + tap * t.width + filter, value, exists)

        def channels(i: Any, j: Any, first: Any) -> None:
            """Copy a tap of some channels."""
            for start in tl.static_range(0, t.width, t.lanes):
                filter = start + tl.arange(0, t.lanes)[None, :]
                c = first + step
                at = filter * of.w[1] + c * of.w[2] + i * of.w[3] + j * of.w[4]
                mask = c < of.channels
                some = mask if valid is None else mask & (filter < valid)
                tap = (c * of.kernel[0] + i) * of.kernel[1] + j
                tl.store(to + tap * t.width + filter, tl.load(source + at, some), mask)

        if flat:
            # The numbers of a filter lie in a row: read lines of them, and turn squares round.
            whole = of.taps // (2 * t.lanes) * (2 * t.lanes)
            for first in range(0, whole, 2 * t.lanes):
                squares(first, 2, False)
            if whole < of.taps:
                squares(whole, tl.cdiv(of.taps - whole, t.lanes), True)
        else:
            for i in range(of.kernel[0]):
                for j in range(of.kernel[1]):
                    for first in range(0, of.channels, t.lanes):
                        channels(i, j, first)

    def both(a: Any, b: Any) -> Any:
        return b if a is None else a & b

    rest = of.filters % t.width
    if rest == 0 or panel < of.filters // t.width:
        pack(None)
    else:
        pack(rest)


@kernel
def conv_channels(
    x: Ptr[T], w: Ptr[P], y: Ptr[D], extra: tuple[Any, ...], t: Channels, EPILOGUE: constexpr
) -> None:
    """Compute a correlation with packed filters. Grid: parts of an image, images, groups.

    Parts are runs of rows for each run of panels.
    """
    of = t.of
    image, group = tl.program_id(1), group_of(of)
    runs = tl.cdiv(of.rows, t.run)
    first = 0 if t.run >= of.rows else tl.program_id(0) % runs * t.run
    first_panel = tl.program_id(0) // runs * t.panels
    last = tl.minimum(first + t.run, of.rows)
    source = x + image * of.x[0] + group * of.x[1]
    result = y + image * of.y[0] + group * of.y[1] + of.y_start
    if t.slab is None:
        at, plane, pitch, beside = source - of.left * of.x[4] - of.top * of.x[3], *of.x[2:]
    else:
        slab = tl.scratch(of.channels * t.slab.plane, t.accumulator)
        top = first * of.stride[0] - of.top
        copy_slab(slab, source, top, t.slab, of, t.accumulator)
        at, plane = slab - first * of.stride[0] * t.slab.pitch, t.slab.plane
        pitch, beside = t.slab.pitch, 1

    sums = tl.scratch(t.run * of.columns * t.width, t.accumulator) if t.depth else None

    def block(
        panel: Any, vectors: int, valid: Any, row: Any, nr: int, column: Any, nc: int, start: Any
    ) -> None:
        """Compute rows [row, row + nr) by columns [column, column + nc) for a panel of filters.

        With a depth, add the channels from `start` on to what is summed up.
        """
        width = vectors * t.lanes
        below = row + tl.arange(0, nr)[:, None, None]
        across = column + tl.arange(0, nc)[None, :, None]
        lane = tl.arange(0, width)[None, None, :]
        left = at + below * of.stride[0] * pitch + across * of.stride[1] * beside
        right = w + (group * t.all_panels + panel) * (of.taps * t.width) + lane
        low, high = clipped(row, nr, of)
        channels: Any = of.channels
        if t.depth:
            waiting = sums + ((below - first) * of.columns + across) * t.width + lane
            acc = tl.load(waiting, start > 0)
            channels = tl.minimum(t.depth, of.channels - start)
            left += start * plane
            right += start * (of.taps // of.channels * t.width)
        else:
            acc = tl.zeros((nr, nc, width), t.accumulator)
        part = (row // t.rows * tl.cdiv(of.columns, t.columns) + column // t.columns) * channels
        following = right + channels * (of.taps // of.channels * t.width) + part * t.fetched
        for c in range(channels):
            for line in tl.static_range(0, t.fetched, t.lanes):
                tl.prefetch(following + c * t.fetched + line, 2)
            for i in range(low, high):
                seen = left + c * plane + i * of.dilation[0] * pitch
                taps = right + (c * of.kernel[0] + i) * of.kernel[1] * t.width
                for j in range(of.kernel[1]):
                    weight = tl.load(taps + j * t.width)
                    value = tl.load(seen + j * of.dilation[1] * beside).to(t.accumulator)
                    acc = acc + value * weight
        if t.depth:
            tl.store(waiting, acc)
        else:
            results(acc, panel, valid, row, column)

    def collect(
        panel: Any, vectors: int, valid: Any, row: Any, nr: int, column: Any, nc: int, start: Any
    ) -> None:
        """Store a block whose sums are complete."""
        below = row - first + tl.arange(0, nr)[:, None, None]
        across = column + tl.arange(0, nc)[None, :, None]
        lane = tl.arange(0, vectors * t.lanes)[None, None, :]
        acc = tl.load(sums + (below * of.columns + across) * t.width + lane)
        results(acc, panel, valid, row, column)

    def results(acc: Any, panel: Any, valid: Any, row: Any, column: Any) -> None:
        """Take the largest of each square, if it is asked for, and store a block."""
        nr, nc, width = acc.shape
        if t.pool:
            pairs = acc.reshape(nr // 2, 2, nc // 2, 2, width)
            finish(pairs.max(3).max(1), panel, valid, row // 2, column // 2)
        else:
            finish(acc, panel, valid, row, column)

    def finish(acc: Any, panel: Any, valid: Any, row: Any, column: Any) -> None:
        """Turn a block of results round and store it."""
        value = acc.permute(2, 0, 1)
        width, nr, nc = value.shape
        lane = tl.arange(0, width)[:, None, None]
        filter = panel * t.width + lane
        below = row + tl.arange(0, nr)[None, :, None]
        across = column + tl.arange(0, nc)[None, None, :]
        mask = None if valid is None else lane < valid
        index = (
            image,
            group * of.filters + filter,
            of.origin[0] + below * of.step[0],
            of.origin[1] + across * of.step[1],
        )
        place = result + filter * of.y[2] + below * of.y[3] + across * of.y[4]
        tl.store(place, EPILOGUE(value, index, mask, extra), mask)

    def by_columns(
        work: Any, panel: Any, vectors: int, valid: Any, row: Any, nr: int, start: Any
    ) -> None:
        whole, rest = of.columns // t.columns, of.columns % t.columns
        for k in range(whole):
            work(panel, vectors, valid, row, nr, k * t.columns, t.columns, start)
        if rest != 0:
            work(panel, vectors, valid, row, nr, whole * t.columns, rest, start)

    def by_rows(work: Any, panel: Any, vectors: int, valid: Any, start: Any) -> None:
        whole = (last - first) // t.rows
        for k in tl.range(whole):
            by_columns(work, panel, vectors, valid, first + k * t.rows, t.rows, start)
        if of.rows % t.rows != 0 and last - first > whole * t.rows:
            row = first + whole * t.rows
            by_columns(work, panel, vectors, valid, row, of.rows % t.rows, start)

    def by_depth(panel: Any, vectors: int, valid: Any) -> None:
        if t.depth:
            for start in tl.range(0, of.channels, t.depth):
                by_rows(block, panel, vectors, valid, start)
            by_rows(collect, panel, vectors, valid, 0)
        else:
            by_rows(block, panel, vectors, valid, 0)

    full, rest = of.filters // t.width, of.filters % t.width
    for panel in tl.range(first_panel, tl.minimum(first_panel + t.panels, full)):
        by_depth(panel, t.vectors, None)
    if rest != 0 and first_panel + t.panels > full:
        by_depth(full, tl.cdiv(rest, t.lanes), rest if rest % t.lanes != 0 else None)
