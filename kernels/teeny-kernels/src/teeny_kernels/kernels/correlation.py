"""What the convolution kernels share: the sum they compute, and padded copies of images.

All of them compute a *correlation*: over the channels of a group and the taps of a window,

    out[n, f, y, x] = sum over c, i, j of
        in[n, c, y*stride + i*dilation - top, x*stride + j*dilation - left] * w[f, c, i, j]

where `in` is zero outside. The gradient of a convolution in its input is a correlation too, of the
gradient with the filters turned round; only the strides in which the filters are read differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import teeny_triton.language as tl
from teeny_core import DType
from teeny_triton import kernel


@dataclass(frozen=True)
class Correlation:
    """Sizes and strides of one group, in elements. The number of images is left open.

    Attributes:
        channels, height, width: of an input image.
        filters, rows, columns: of an output image.
        kernel, stride, dilation: of the window, along y and x.
        top, left: padding before; negative where the window starts inside.
        x: strides of the input by image, group, channel, row, column.
        w: strides of the filters by group, filter, channel, row, column of the window.
        w_start: where the first tap of the first filter lies.
        y: strides of the output by image, group, filter, row, column.
        y_start: where the first element of the output lies.
        origin, step: the row and column of the whole output that row and column 0 are, and the
            distance of neighbours, for a correlation that fills a lattice of it.
        groups: number of groups.
    """

    channels: int
    height: int
    width: int
    filters: int
    rows: int
    columns: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    top: int
    left: int
    x: tuple[int, int, int, int, int]
    w: tuple[int, int, int, int, int]
    y: tuple[int, int, int, int, int]
    w_start: int = 0
    y_start: int = 0
    origin: tuple[int, int] = (0, 0)
    step: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def taps(self) -> int:
        """Number of products in a sum."""
        return self.channels * self.kernel[0] * self.kernel[1]

    @property
    def flops(self) -> int:
        """Operations for an image."""
        return 2 * self.groups * self.filters * self.rows * self.columns * self.taps

    @property
    def needs_padding(self) -> bool:
        """Whether some window reaches outside of the image; one without taps reaches nowhere."""
        if 0 in self.kernel:
            return False
        bottom = self.reach(self.rows, 0) - self.top > self.height
        right = self.reach(self.columns, 1) - self.left > self.width
        return self.top > 0 or self.left > 0 or bottom or right

    def with_channels(self, channels: Any) -> Any:
        """Return the same over another number of channels, which may be known at run time only."""
        return replace(self, channels=channels)

    def reach(self, count: int, axis: int) -> int:
        """Return how many input rows (axis 0) or columns `count` output ones see."""
        if count == 0 or self.kernel[axis] == 0:
            return 0
        return (count - 1) * self.stride[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1


@kernel
def group_of(of: Correlation) -> Any:
    """Return the group of a program: a number where there is one, so that filters are known."""
    return 0 if of.groups == 1 else tl.program_id(2)


MOST_UNROLLED = 24
"""Registers of a padded channel whose copy is unrolled, so that its masks are known before."""


@dataclass(frozen=True)
class Slab:
    """A padded copy of some rows of all channels of a group, in scratch: [c][row][phase][pitch].

    With two phases, even columns lie apart from odd ones.
    """

    rows: int
    pitch: int
    lanes: int
    phases: int = 1

    @property
    def line(self) -> int:
        """Elements of a row."""
        return self.phases * self.pitch

    @property
    def plane(self) -> int:
        """Elements of a channel."""
        return self.rows * self.line


@kernel
def copy_slab(slab: Any, x: Any, first: Any, s: Slab, of: Correlation, dtype: DType) -> None:
    """Copy input rows from `first` on, which may lie outside, with zeros around, to `slab`."""
    lane = tl.arange(0, s.lanes)

    def copy(c: Any, r: Any) -> None:
        row = first + r
        inside = (row >= 0) & (row < of.height)
        for start in tl.static_range(0, s.pitch, s.lanes):
            column = s.phases * start + tl.arange(0, s.phases * s.lanes) - of.left
            mask = inside & (column >= 0) & (column < of.width)
            value = tl.load(x + c * of.x[2] + row * of.x[3] + column * of.x[4], mask).to(dtype)
            to = slab + c * s.plane + r * s.line + start + lane
            if s.phases == 2:
                even, odd = tl.split(value.reshape(s.lanes, 2))
                tl.store(to, even)
                tl.store(to + s.pitch, odd)
            else:
                tl.store(to, value)

    for c in range(of.channels):
        if s.plane <= MOST_UNROLLED * s.lanes:
            for r in tl.static_range(s.rows):
                copy(c, r)
        else:
            for r in range(s.rows):
                copy(c, r)


@kernel
def clipped(row: Any, count: int, of: Correlation) -> Any:
    """Return the range of window rows of which some lies inside, for output rows [row, row+count).

    Where no row of the window can lie outside it is the whole window, known at once.
    """
    if of.kernel[0] == 0:
        return 0, 0
    low: Any = 0
    high: Any = of.kernel[0]
    if of.top > 0:
        low = max(0, tl.cdiv(of.top - (row + count - 1) * of.stride[0], of.dilation[0]))
    if of.reach(of.rows, 0) - of.top > of.height:
        last = of.height - 1 + of.top - row * of.stride[0]
        high = min(of.kernel[0], last // of.dilation[0] + 1)
    return low, high
