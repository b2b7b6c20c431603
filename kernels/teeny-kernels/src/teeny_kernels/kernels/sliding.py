"""Windows that slide over each channel by itself: depthwise convolution and pooling.

Columns lie in the lanes. A block of results is some rows by one register of columns. Each row of
the input that the block sees is read once for each column of the window and serves all rows of
results. Images are not copied: blocks at the edges have masks that are known when the kernel is
built, those inside none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import teeny_triton.language as tl
from teeny_core import DType
from teeny_kernels.kernels.correlation import Correlation
from teeny_kernels.kernels.extremes import larger
from teeny_triton import Ptr, TypeVar, constexpr, i64, kernel

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True)
class Sliding:
    """What is made of a window, and how the work is cut.

    Attributes:
        of: the window as a correlation of one channel with one filter.
        kind: the sum of products with a filter, the largest value or the mean.
        count_pad: whether the mean counts the zeros of the padding.
        accumulator: type of the results.
        lanes: elements of a register, the columns of a block.
        rows: of a block.
        planes: planes (images times channels) of a program.
    """

    of: Correlation
    kind: Literal["filter", "max", "mean"]
    count_pad: bool
    accumulator: DType
    lanes: int
    rows: int
    planes: int

    @property
    def start(self) -> float:
        """The result of an empty window."""
        return float("-inf") if self.kind == "max" else 0.0

    def inside(self, count: int, block: int, axis: int) -> tuple[int, int]:
        """Return the first and the last start of `block` results, of `count`, that see no edge.

        Starts are multiples of the block; there is none where the last is less than the first.
        """
        of = self.of
        before, extent = (of.top, of.height) if axis == 0 else (of.left, of.width)
        first = -(-max(before, 0) // of.stride[axis])
        most = extent + before - of.reach(block, axis)
        if axis == 1 and of.stride[1] > 1:  # pairs of registers are read, to their end
            taps = (of.kernel[1] - 1) * of.dilation[1]
            most = extent + before - taps - of.stride[1] * block
        last = min(most // of.stride[axis], count - block)
        return -(-first // block) * block, last // block * block


@kernel
def see(row: Any, column: Any, mask: Any, t: Sliding) -> Any:
    """Return what each column of the window sees in an input row, from output column 0's place.

    `mask` says of input columns whether they may be read; None: all.
    """
    of = t.of
    taps = [j * of.dilation[1] for j in tl.static_range(of.kernel[1])]
    if of.stride[1] != 2:
        lane = tl.arange(0, t.lanes) * of.stride[1]
        return [read(row, column + j + lane, mask, t) for j in taps]
    seen = {}
    lane = tl.arange(0, 2 * t.lanes)
    for j in taps:
        if j not in seen:  # a run of columns gives the even taps and the odd ones
            both = read(row, column + j + lane, mask, t).reshape(t.lanes, 2)
            seen[j], seen[j + 1] = tl.split(both)
    return [seen[j] for j in taps]


@kernel
def read(row: Any, column: Any, mask: Any, t: Sliding) -> Any:
    """Load some columns of an input row."""
    at = row + column * t.of.x[4]
    value = tl.load(at) if mask is None else tl.load(at, mask(column), t.start)
    return value.to(t.accumulator)


@kernel
def combine(acc: Any, value: Any, weight: Any, t: Sliding) -> Any:
    """Add what one tap of the window sees to the results."""
    if t.kind == "filter":
        return acc + value * weight
    return larger(acc, value) if t.kind == "max" else acc + value


@kernel
def divided(total: Any, row: Any, column: Any, t: Sliding) -> Any:
    """Return the mean of windows: the sum over as many values as count."""
    of = t.of
    if t.count_pad or not of.needs_padding:
        return total * (1.0 / (of.kernel[0] * of.kernel[1]))
    y, x = row * of.stride[0] - of.top, column * of.stride[1] - of.left
    rows = tl.minimum(y + of.kernel[0], of.height) - tl.maximum(y, 0)
    columns = tl.minimum(x + of.kernel[1], of.width) - tl.maximum(x, 0)
    return total / (rows * columns).to(t.accumulator)


@kernel
def sliding(
    x: Ptr[T],
    w: Any,
    y: Ptr[D],
    images: i64,
    extra: tuple[Any, ...],
    t: Sliding,
    EPILOGUE: constexpr,
) -> None:
    """Slide a window over each channel. `w` are the filters, if there are any.

    Grid: runs of planes.
    """
    of = t.of

    def plane(image: Any, channel: Any) -> None:
        source = x + image * of.x[0] + channel * of.x[1]
        result = y + image * of.y[0] + channel * of.y[1] + of.y_start
        weights = None
        if t.kind == "filter":
            taps = w + channel * of.w[0] + of.w_start
            weights = [
                tl.load(taps + i * of.w[3] + j * of.w[4]).to(t.accumulator)
                for i in tl.static_range(of.kernel[0])
                for j in tl.static_range(of.kernel[1])
            ]

        def block(row: Any, nr: int, edge_row: bool, column: Any, edge_column: bool) -> None:
            """Compute rows [row, row + nr) of a register of columns; edges are known numbers."""

            def mask(at: Any) -> Any:
                return (at >= 0) & (at < of.width)

            acc = [tl.full((t.lanes,), t.start, t.accumulator) for _ in tl.static_range(nr)]
            for down in tl.static_range(of.reach(nr, 0)):
                users = [
                    (r, (down - r * of.stride[0]) // of.dilation[0])
                    for r in tl.static_range(nr)
                    if 0 <= down - r * of.stride[0] <= (of.kernel[0] - 1) * of.dilation[0]
                    and (down - r * of.stride[0]) % of.dilation[0] == 0
                ]
                at = row * of.stride[0] + down - of.top
                if users and (not edge_row or 0 <= at < of.height):
                    first = column * of.stride[1] - of.left
                    seen = see(source + at * of.x[3], first, mask if edge_column else None, t)
                    for r, i in users:
                        for j in tl.static_range(of.kernel[1]):
                            weight = weights[i * of.kernel[1] + j] if weights is not None else None
                            acc[r] = combine(acc[r], seen[j], weight, t)
            lane = column + tl.arange(0, t.lanes)
            inside = lane < of.columns if edge_column and of.columns % t.lanes != 0 else None
            for r in tl.static_range(nr):
                value = divided(acc[r], row + r, lane, t) if t.kind == "mean" else acc[r]
                across = of.origin[1] + lane * of.step[1]
                index = (image, channel, of.origin[0] + (row + r) * of.step[0], across)
                place = result + (row + r) * of.y[3] + lane * of.y[4]
                tl.store(place, EPILOGUE(value, index, inside, extra), inside)

        def columns(row: Any, nr: int, edge_row: bool) -> None:
            first, last = t.inside(of.columns, t.lanes, 1)
            for column in tl.static_range(0, min(first, of.columns), t.lanes):
                block(row, nr, edge_row, column, True)
            for column in tl.range(first, last + 1, t.lanes):
                block(row, nr, edge_row, column, False)
            for column in tl.static_range(max(first, last + t.lanes), of.columns, t.lanes):
                block(row, nr, edge_row, column, True)

        first, last = t.inside(of.rows, t.rows, 0)
        for row in tl.static_range(0, min(first, of.rows), t.rows):
            columns(row, min(t.rows, of.rows - row), True)
        for row in tl.range(first, last + 1, t.rows):
            columns(row, t.rows, False)
        for row in tl.static_range(max(first, last + t.rows), of.rows, t.rows):
            columns(row, min(t.rows, of.rows - row), True)

    start = tl.program_id(0) * t.planes
    for number in tl.range(start, tl.minimum(start + t.planes, images * of.groups)):
        plane(number // of.groups, number % of.groups)
