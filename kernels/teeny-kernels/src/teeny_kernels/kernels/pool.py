"""Pooling over windows of images and its gradients, columns in the lanes.

A program works through some planes: images times channels. Squares of 2 x 2 without overlap, by far
the most frequent windows, are read once, row by row, and taken apart into even and odd columns in
registers. Small windows are the business of `sliding`; here are those that are too large to unroll,
and the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import teeny_triton.language as tl
from teeny_core import DType
from teeny_kernels.kernels.extremes import larger
from teeny_triton import Ptr, TypeVar, constexpr, i64, kernel

T = TypeVar("T")
D = TypeVar("D")

LOWEST = float("-inf")


@dataclass(frozen=True)
class Pool:
    """A window that slides over images, and how the work is cut.

    Attributes:
        channels: of an image.
        height, width: of a plane.
        rows, columns: of a pooled plane.
        kernel, stride: of the window.
        top, left: padding before.
        x: strides of the images by image, channel, row, column.
        y: strides of the pooled images.
        lanes: columns of a register.
        vectors: registers that a block of columns takes.
        planes: planes of a program.
        dtype: type in which values are compared and summed.
        count_pad: whether the mean counts the zeros of the padding.
    """

    channels: int
    height: int
    width: int
    rows: int
    columns: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    top: int
    left: int
    x: tuple[int, int, int, int]
    y: tuple[int, int, int, int]
    lanes: int
    vectors: int
    planes: int
    dtype: DType
    count_pad: bool = True

    @property
    def block(self) -> int:
        """Columns of a block."""
        return self.lanes * self.vectors

    @property
    def reaches_out(self) -> bool:
        """Whether some window reaches outside of the image."""
        bottom = (self.rows - 1) * self.stride[0] + self.kernel[0] - self.top > self.height
        right = (self.columns - 1) * self.stride[1] + self.kernel[1] - self.left > self.width
        return self.top > 0 or self.left > 0 or bottom or right

    @property
    def spread(self) -> tuple[int, int]:
        """Most windows that see one row, and one column."""
        return -(-self.kernel[0] // self.stride[0]), -(-self.kernel[1] // self.stride[1])

    @property
    def blocks(self) -> int:
        """Registers that cover a row of windows, and those beside it that see the last columns."""
        return -(-(self.columns + self.spread[1]) // self.lanes)

    @property
    def padded(self) -> tuple[int, int]:
        """Rows and columns of a padded plane: all that windows in whole registers see."""
        rows = (self.rows - 1) * self.stride[0] + self.kernel[0]
        columns = self.blocks * self.lanes * self.stride[1] + self.kernel[1]
        return max(rows, self.top + self.height), -(-columns // self.lanes) * self.lanes


@kernel
def by_plane(images: Any, t: Pool, work: Any) -> None:
    """Call `work(image, channel)` for each plane of this program."""
    first = tl.program_id(0) * t.planes
    for plane in tl.range(first, tl.minimum(first + t.planes, images * t.channels)):
        work(plane // t.channels, plane % t.channels)


@kernel
def share(row: Any, column: Any, t: Pool) -> Any:
    """Return by how much values count in the means of the windows at `row` and `column`."""
    if t.count_pad or not t.reaches_out:
        return 1.0 / (t.kernel[0] * t.kernel[1])
    y, x = row * t.stride[0] - t.top, column * t.stride[1] - t.left
    rows = tl.minimum(y + t.kernel[0], t.height) - tl.maximum(y, 0)
    columns = tl.minimum(x + t.kernel[1], t.width) - tl.maximum(x, 0)
    return 1.0 / tl.maximum(rows * columns, 1).to(t.dtype)


@kernel
def pool(
    x: Ptr[T], y: Ptr[D], images: i64, extra: tuple[Any, ...], t: Pool, mean: constexpr,
    EPILOGUE: constexpr,
) -> None:  # fmt: skip
    """Take the mean or the largest value of each window, of any size. Grid: runs of planes."""
    start = 0.0 if mean else LOWEST

    def plane(image: Any, channel: Any) -> None:
        source = x + image * t.x[0] + channel * t.x[1]
        result = y + image * t.y[0] + channel * t.y[1]
        for row in range(t.rows):
            for first in range(0, t.columns, t.block):
                column = first + tl.arange(0, t.block)
                inside = column < t.columns
                acc = tl.full((t.block,), start, t.dtype)
                for i in range(t.kernel[0]):
                    for j in range(t.kernel[1]):
                        down = row * t.stride[0] + i - t.top
                        across = column * t.stride[1] + j - t.left
                        mask = inside & (down >= 0) & (down < t.height)
                        mask = mask & (across >= 0) & (across < t.width)
                        at = source + down * t.x[2] + across * t.x[3]
                        value = tl.load(at, mask, start).to(t.dtype)
                        acc = acc + value if mean else larger(acc, value)
                value = acc * share(row, column, t) if mean else acc
                value = EPILOGUE(value, (image, channel, row, column), inside, extra)
                tl.store(result + row * t.y[2] + column * t.y[3], value, inside)

    by_plane(images, t, plane)


# --- squares of 2 x 2 ---


@kernel
def halves(x: Any, start: Any, t: Pool, whole: Any) -> Any:
    """Load neighbours two by two and return the even and the odd ones.

    `whole` blocks hold nothing but squares; of others, what lies beyond is not read.
    """
    lane = start * 2 + tl.arange(0, t.block * 2)
    mask = None if whole else lane < t.columns * 2
    return tl.split(tl.load(x + lane * t.x[3], mask).to(t.dtype).reshape(t.block, 2))


@kernel
def max_pool_squares(
    x: Ptr[T], y: Ptr[D], images: i64, extra: tuple[Any, ...], t: Pool, EPILOGUE: constexpr
) -> None:
    """Take the largest value of each square of 2 x 2. Grid: runs of planes."""

    def plane(image: Any, channel: Any) -> None:
        source = x + image * t.x[0] + channel * t.x[1]
        result = y + image * t.y[0] + channel * t.y[1]
        whole = t.columns % t.block == 0
        for row in range(t.rows):
            above = source + row * 2 * t.x[2]
            for start in range(0, t.columns, t.block):
                column = start + tl.arange(0, t.block)
                mask = None if whole else column < t.columns
                a, b = halves(above, start, t, whole)
                c, d = halves(above + t.x[2], start, t, whole)
                value = larger(larger(a, b), larger(c, d))
                value = EPILOGUE(value, (image, channel, row, column), mask, extra)
                tl.store(result + row * t.y[2] + column * t.y[3], value, mask)

    by_plane(images, t, plane)


@kernel
def is_first(value: Any, best: Any, taken: Any) -> Any:
    """Whether a value is the maximum of its window, NaN being one, and nothing before it was."""
    holds = (value == best) | (value != value)
    return holds & ~taken, holds | taken


@kernel
def max_pool_squares_grad(
    x: Ptr[T], dy: Ptr[T], dx: Ptr[D], images: i64, extra: tuple[Any, ...], t: Pool,
    EPILOGUE: constexpr,
) -> None:  # fmt: skip
    """Give each dy to the first maximum of its square of 2 x 2. Grid: runs of planes."""

    def plane(image: Any, channel: Any) -> None:
        source = x + image * t.x[0] + channel * t.x[1]
        gradient = dy + image * t.y[0] + channel * t.y[1]
        result = dx + image * t.x[0] + channel * t.x[1]
        whole = t.width == t.columns * 2 and t.columns % t.block == 0

        def store(row: Any, start: Any, value: Any) -> None:
            column = start * 2 + tl.arange(0, t.block * 2)
            mask = None if whole else column < t.width
            value = EPILOGUE(value, (image, channel, row, column), mask, extra)
            tl.store(result + row * t.x[2] + column * t.x[3], value, mask)

        for row in range(t.rows):
            above = source + row * 2 * t.x[2]
            for start in range(0, tl.cdiv(t.width, 2), t.block):
                column = start + tl.arange(0, t.block)
                mask = None if whole else column < t.columns
                a, b = halves(above, start, t, whole)
                c, d = halves(above + t.x[2], start, t, whole)
                best = larger(larger(a, b), larger(c, d))
                grad = tl.load(gradient + row * t.y[2] + column * t.y[3], mask)
                none = tl.zeros((t.block,), tl.int1)
                to_a, taken = is_first(a, best, none)
                to_b, taken = is_first(b, best, taken)
                to_c, taken = is_first(c, best, taken)
                upper = tl.interleave(tl.where(to_a, grad, 0.0), tl.where(to_b, grad, 0.0))
                lower = tl.interleave(tl.where(to_c, grad, 0.0), tl.where(taken, 0.0, grad))
                store(row * 2, start, upper)
                store(row * 2 + 1, start, lower)
        for row in range(t.rows * 2, t.height):
            for start in range(0, tl.cdiv(t.width, 2), t.block):
                store(row, start, tl.zeros((t.block * 2,), t.dtype))

    by_plane(images, t, plane)


# --- gradients of any windows: each place gathers from the windows that see it ---


@kernel
def gather(
    image: Any, channel: Any, dx: Any, extra: Any, t: Pool, part: Any, EPILOGUE: Any
) -> None:
    """Write a plane of dx: the sum of `part(row, columns, i, j)` over the windows that see a place.

    The padded columns are taken by their phase in the stride: those of one phase see tap j of
    neighbouring windows, one a lane. `part` is 0 for windows that do not exist.
    """
    for row in range(t.height):
        for start in range(0, t.blocks * t.lanes, t.lanes):
            window = start + tl.arange(0, t.lanes)
            phases = []
            for phase in tl.static_range(t.stride[1]):
                total = tl.zeros((t.lanes,), t.dtype)
                for k in tl.static_range(t.spread[0] - 1, -1, -1):
                    down = (row + t.top) // t.stride[0] - k
                    i = row + t.top - down * t.stride[0]
                    for m in tl.static_range(t.spread[1] - 1, -1, -1):
                        j = phase + m * t.stride[1]
                        if j < t.kernel[1]:
                            total += part(down, window - m, i, j)
                phases.append(total)

            def store(value: Any, column: Any, row: Any = row) -> None:
                mask = (column >= 0) & (column < t.width)
                value = EPILOGUE(value, (image, channel, row, column), mask, extra)
                place = dx + image * t.x[0] + channel * t.x[1] + row * t.x[2] + column * t.x[3]
                tl.store(place, value, mask)

            if t.stride[1] == 2:
                both = start * 2 + tl.arange(0, t.lanes * 2) - t.left
                store(tl.interleave(phases[0], phases[1]), both)
            else:
                for phase in tl.static_range(t.stride[1]):
                    store(phases[phase], window * t.stride[1] + phase - t.left)


@kernel
def mean_pool_grad(
    dy: Ptr[T], dx: Ptr[D], images: i64, extra: tuple[Any, ...], t: Pool, EPILOGUE: constexpr
) -> None:
    """Spread dy evenly over its windows. Grid: runs of planes."""

    def plane(image: Any, channel: Any) -> None:
        source = dy + image * t.y[0] + channel * t.y[1]

        def part(down: Any, window: Any, i: Any, j: int) -> Any:
            mask = (down >= 0) & (down < t.rows) & (i < t.kernel[0])
            mask = mask & (window >= 0) & (window < t.columns)
            value = tl.load(source + down * t.y[2] + window * t.y[3], mask).to(t.dtype)
            return value * share(down, window, t)

        gather(image, channel, dx, extra, t, part, EPILOGUE)

    by_plane(images, t, plane)


@kernel
def pad_plane(to: Any, x: Any, t: Pool) -> None:
    """Copy a plane, with what loses against every value around it."""
    rows, pitch = t.padded
    for r in range(rows):
        for start in range(0, pitch, t.lanes):
            column = start + tl.arange(0, t.lanes)
            down, across = r - t.top, column - t.left
            mask = (down >= 0) & (down < t.height) & (across >= 0) & (across < t.width)
            value = tl.load(x + down * t.x[2] + across * t.x[3], mask, LOWEST)
            tl.store(to + r * pitch + column, value.to(t.dtype))


@kernel
def find_first(x: Any, row: Any, column: Any, t: Pool) -> Any:
    """Return the number of the tap of the first maximum of windows over a padded plane.

    It is -1 where there is no window.
    """
    _, pitch = t.padded
    best = tl.full(column.shape, LOWEST, t.dtype)
    chosen = tl.full(column.shape, -1, tl.int32)
    for i in range(t.kernel[0]):
        for j in range(t.kernel[1]):
            at = x + (row * t.stride[0] + i) * pitch + column * t.stride[1] + j
            value = tl.load(at)
            larger = (value > best) | ((value != value) & (best == best))
            best = tl.where(larger, value, best)
            chosen = tl.where(larger, i * t.kernel[1] + j, chosen)
    # Where all values are the lowest there is, the first inside of the image wins.
    above = tl.maximum(t.top - row * t.stride[0], 0)
    before = tl.maximum(t.left - column * t.stride[1], 0)
    chosen = tl.where(chosen < 0, above * t.kernel[1] + before, chosen)
    return tl.where(column < t.columns, chosen, -1)


@kernel
def max_pool_grad(
    x: Ptr[T], dy: Ptr[T], dx: Ptr[D], images: i64, extra: tuple[Any, ...], t: Pool,
    EPILOGUE: constexpr,
) -> None:  # fmt: skip
    """Give each dy to the first maximum of its window. Grid: runs of planes."""
    rows, pitch = t.padded
    wide = (t.blocks + 2) * t.lanes  # a register of no windows on either side
    padded = tl.scratch(rows * pitch, t.dtype)
    chosen = tl.scratch(t.rows * wide, tl.int32)
    lane = tl.arange(0, t.lanes)

    def plane(image: Any, channel: Any) -> None:
        pad_plane(padded, x + image * t.x[0] + channel * t.x[1], t)
        for row in range(t.rows):
            at = chosen + row * wide + lane
            tl.store(at, tl.full((t.lanes,), -1, tl.int32))
            for start in range(0, t.blocks * t.lanes, t.lanes):
                tl.store(at + t.lanes + start, find_first(padded, row, start + lane, t))
        source = dy + image * t.y[0] + channel * t.y[1]

        def part(down: Any, window: Any, i: Any, j: int) -> Any:
            exists = (down >= 0) & (down < t.rows) & (i < t.kernel[0])
            tap = tl.load(chosen + down * wide + t.lanes + window, exists, -1)
            wins = tap == i * t.kernel[1] + j
            return tl.load(source + down * t.y[2] + window * t.y[3], wins).to(t.dtype)

        gather(image, channel, dx, extra, t, part, EPILOGUE)

    by_plane(images, t, plane)
