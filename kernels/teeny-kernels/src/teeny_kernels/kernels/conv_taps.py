"""Convolution with the columns of the window and the filters in the lanes.

For an output row, each input column is summed over the channels and the rows of the window for all
taps (j, f) of a row of the window at once:

    u[x, (j, f)] = sum over c, i of in[c, row*stride + i*dilation - top, x] * w[f, c, i, j]
    out[f, row, x] = sum over j of u[x + j*dilation - left, (j, f)]

The first sum takes nearly all the time and multiplies nothing by the zeros of the padding, of which
the gradient of the input sees many: a window of 5 columns over 10 gives 14. The sums are turned
round in registers and stored, and the second sum reads them shifted. That suits few filters and
short rows; the stride along x is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import teeny_triton.language as tl
from teeny_core import DType
from teeny_kernels.kernels.correlation import Correlation, clipped, group_of
from teeny_triton import Ptr, TypeVar, constexpr, kernel

T = TypeVar("T")
P = TypeVar("P")
D = TypeVar("D")


@dataclass(frozen=True)
class Taps:
    """How a correlation is cut.

    Attributes:
        of: the correlation.
        accumulator: type of the sums, and of the packed filters.
        lanes: elements of a register.
        vectors: registers of taps of a block.
        columns: input columns of a block.
        run: rows of a program.
    """

    of: Correlation
    accumulator: DType
    lanes: int
    vectors: int
    columns: int
    run: int

    @property
    def taps(self) -> int:
        """Taps of a row of the window, by filters."""
        return self.of.kernel[1] * self.of.filters

    @property
    def width(self) -> int:
        """Lanes that hold them."""
        return -(-self.taps // self.lanes) * self.lanes

    @property
    def margin(self) -> int:
        """Zeros before the sums of the first column."""
        return max(0, self.of.left)

    @property
    def across(self) -> int:
        """Output columns in whole registers."""
        return -(-self.of.columns // self.lanes) * self.lanes

    @property
    def pitch(self) -> int:
        """Elements of the row of sums of a tap, with zeros around."""
        blocks = -(-self.of.width // self.columns) * self.columns
        last = self.across + (self.of.kernel[1] - 1) * self.of.dilation[1] - self.of.left
        return -(-(self.margin + max(blocks, last)) // self.lanes) * self.lanes

    @property
    def packed_size(self) -> int:
        """Elements of all packed filters."""
        return self.of.groups * self.of.channels * self.of.kernel[0] * self.width


@kernel
def pack_taps(w: Ptr[T], packed: Ptr[P], t: Taps) -> None:
    """Copy filters to [group][channel][i][(j, f)], zeros behind. Grid: channels, groups."""
    of = t.of
    channel, group = tl.program_id(0), tl.program_id(1)
    lane = tl.arange(0, t.width)
    for i in range(of.kernel[0]):
        at = lane % of.filters * of.w[1] + lane // of.filters * of.w[4]
        source = w + of.w_start + group * of.w[0] + channel * of.w[2] + i * of.w[3]
        to = packed + ((group * of.channels + channel) * of.kernel[0] + i) * t.width
        tl.store(to + lane, tl.load(source + at, lane < t.taps))


@kernel
def conv_taps(
    x: Ptr[T], w: Ptr[P], y: Ptr[D], extra: tuple[Any, ...], t: Taps, EPILOGUE: constexpr
) -> None:
    """Compute a correlation with packed filters. Grid: runs of rows, images, groups."""
    of = t.of
    image, group = tl.program_id(1), group_of(of)
    first = 0 if t.run >= of.rows else tl.program_id(0) * t.run
    last = tl.minimum(first + t.run, of.rows)
    source = x + image * of.x[0] + group * of.x[1]
    result = y + image * of.y[0] + group * of.y[1] + of.y_start
    filters = w + group * of.channels * of.kernel[0] * t.width
    turned = tl.scratch(t.width * t.pitch, t.accumulator)
    for k in range(0, t.width * t.pitch, t.lanes):
        tl.store(turned + k + tl.arange(0, t.lanes), tl.zeros((t.lanes,), t.accumulator))

    def sums(row: Any, column: Any, count: int, start: int, size: int) -> None:
        """Sum input columns [column, column + count) over channels and rows of the window.

        That is done for taps [start, start + size).
        """
        lane = start + tl.arange(0, size)[None, :]
        pixel = column + tl.arange(0, count)[:, None]
        acc = tl.zeros((count, size), t.accumulator)
        low, high = clipped(row, 1, of)
        for c in range(of.channels):
            for i in range(low, high):
                down = row * of.stride[0] + i * of.dilation[0] - of.top
                seen = source + c * of.x[2] + down * of.x[3] + pixel * of.x[4]
                weight = tl.load(filters + (c * of.kernel[0] + i) * t.width + lane)
                acc = acc + tl.load(seen).to(t.accumulator) * weight
        tap = start + tl.arange(0, size)[:, None]
        place = turned + tap * t.pitch + t.margin + column + tl.arange(0, count)[None, :]
        tl.store(place, acc.trans(), None if start + size <= t.taps else tap < t.taps)

    def combine(row: Any) -> None:
        """Add the sums of the taps up, shifted, and store a row of each filter."""
        filter = tl.arange(0, of.filters)[:, None]
        for start in tl.static_range(0, t.across, t.lanes):
            lane = start + tl.arange(0, t.lanes)[None, :]
            acc = tl.zeros((of.filters, t.lanes), t.accumulator)
            for j in tl.static_range(of.kernel[1]):
                shift = t.margin + j * of.dilation[1] - of.left
                acc += tl.load(turned + (j * of.filters + filter) * t.pitch + shift + lane)
            mask = None if start + t.lanes <= of.columns else lane < of.columns
            index = (
                image,
                group * of.filters + filter,
                of.origin[0] + row * of.step[0],
                of.origin[1] + lane * of.step[1],
            )
            place = result + filter * of.y[2] + row * of.y[3] + lane * of.y[4]
            tl.store(place, EPILOGUE(acc, index, mask, extra), mask)

    size = t.vectors * t.lanes
    for row in tl.range(first, last):
        for start in tl.static_range(0, t.width, size):
            some = min(size, t.width - start)
            for column in range(0, of.width // t.columns * t.columns, t.columns):
                sums(row, column, t.columns, start, some)
            if of.width % t.columns != 0:
                whole = of.width // t.columns * t.columns
                sums(row, whole, of.width % t.columns, start, some)
        combine(row)
