"""Pooling over windows of images and its gradients, columns in the lanes.

A program works through some planes: images times channels. Squares of 2 x 2 without overlap, by far
the most frequent windows, are read once, row by row, and taken apart into even and odd columns in
registers; other windows read each tap where a register of output columns sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import teeny_triton.language as tl
from teeny_core import DType
from teeny_triton import Ptr, TypeVar, constexpr, i64, kernel

T = TypeVar("T")
D = TypeVar("D")


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
        lowest: what loses against every value.
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
    lowest: float = 0.0
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
        return (
            -(-self.kernel[0] // self.stride[0]),
            -(-self.kernel[1] // self.stride[1]),
        )


@kernel
def by_plane(images: Any, t: Pool, work: Any) -> None:
    """Call `work(image, channel)` for each plane of this program."""
    first = tl.program_id(0) * t.planes
    for plane in tl.range(first, tl.minimum(first + t.planes, images * t.channels)):
        work(plane // t.channels, plane % t.channels)


@kernel
def window_max(x: Any, row: Any, column: Any, t: Pool) -> Any:
    """Return the largest values of the windows at one output row and a tile of columns."""
    best = tl.full(column.shape, t.lowest, t.dtype)
    inside = column < t.columns
    for i in tl.static_range(t.kernel[0]):
        for j in tl.static_range(t.kernel[1]):
            y, across = row * t.stride[0] + i - t.top, column * t.stride[1] + j - t.left
            mask = inside
            if t.reaches_out:
                mask = mask & (y >= 0) & (y < t.height) & (across >= 0) & (across < t.width)
            value = tl.load(x + y * t.x[2] + across * t.x[3], mask, t.lowest)
            best = tl.maximum(best, value.to(t.dtype))
    return best


@kernel
def max_pool(
    x: Ptr[T], y: Ptr[D], images: i64, extra: tuple[Any, ...], t: Pool, EPILOGUE: constexpr
) -> None:
    """Take the largest value of each window. Grid: runs of planes."""

    def plane(image: Any, channel: Any) -> None:
        source = x + image * t.x[0] + channel * t.x[1]
        result = y + image * t.y[0] + channel * t.y[1]
        for row in range(t.rows):
            for start in range(0, t.columns, t.block):
                column = start + tl.arange(0, t.block)
                mask = None if t.columns % t.block == 0 else column < t.columns
                value = window_max(source, row, column, t)
                value = EPILOGUE(value, (image, channel, row, column), mask, extra)
                tl.store(result + row * t.y[2] + column * t.y[3], value, mask)

    by_plane(images, t, plane)


@kernel
def halves(x: Any, start: Any, count: Any, step: Any, t: Pool) -> Any:
    """Load neighbours two by two and return the even and the odd ones."""
    lane = start * 2 + tl.arange(0, t.block * 2)
    mask = None if count % t.block == 0 else lane < count * 2
    return tl.split(tl.load(x + lane * step, mask).to(t.dtype).reshape(t.block, 2))


@kernel
def max_pool_squares(
    x: Ptr[T], y: Ptr[D], images: i64, extra: tuple[Any, ...], t: Pool, EPILOGUE: constexpr
) -> None:
    """Take the largest value of each square of 2 x 2. Grid: runs of planes."""

    def plane(image: Any, channel: Any) -> None:
        source = x + image * t.x[0] + channel * t.x[1]
        result = y + image * t.y[0] + channel * t.y[1]
        for row in range(t.rows):
            above = source + row * 2 * t.x[2]
            for start in range(0, t.columns, t.block):
                column = start + tl.arange(0, t.block)
                mask = None if t.columns % t.block == 0 else column < t.columns
                a, b = halves(above, start, t.columns, t.x[3], t)
                c, d = halves(above + t.x[2], start, t.columns, t.x[3], t)
                value = tl.maximum(tl.maximum(a, b), tl.maximum(c, d))
                value = EPILOGUE(value, (image, channel, row, column), mask, extra)
                tl.store(result + row * t.y[2] + column * t.y[3], value, mask)

    by_plane(images, t, plane)


@kernel
def avg_pool(
    x: Ptr[T], y: Ptr[D], images: i64, extra: tuple[Any, ...], t: Pool, EPILOGUE: constexpr
) -> None:
    """Take the mean of each window. Grid: runs of planes."""

    def plane(image: Any, channel: Any) -> None:
        source = x + image * t.x[0] + channel * t.x[1]
        result = y + image * t.y[0] + channel * t.y[1]
        for row in range(t.rows):
            for start in range(0, t.columns, t.block):
                column = start + tl.arange(0, t.block)
                inside = column < t.columns
                total = tl.zeros((t.block,), t.dtype)
                for i in tl.static_range(t.kernel[0]):
                    for j in tl.static_range(t.kernel[1]):
                        down, across = (
                            row * t.stride[0] + i - t.top,
                            column * t.stride[1] + j - t.left,
                        )
                        mask = inside
                        if t.reaches_out:
                            mask = mask & (down >= 0) & (down < t.height)
                            mask = mask & (across >= 0) & (across < t.width)
                        value = tl.load(source + down * t.x[2] + across * t.x[3], mask)
                        total += value.to(t.dtype)
                mean = total * share(row, column, t)
                value = EPILOGUE(mean, (image, channel, row, column), inside, extra)
                tl.store(result + row * t.y[2] + column * t.y[3], value, inside)

    by_plane(images, t, plane)


@kernel
def share(row: Any, column: Any, t: Pool) -> Any:
    """Return what the values of the windows at `row` and `column` count in their mean."""
    if t.count_pad or not t.reaches_out:
        return 1.0 / (t.kernel[0] * t.kernel[1])
    y, x = row * t.stride[0] - t.top, column * t.stride[1] - t.left
    rows = tl.minimum(y + t.kernel[0], t.height) - tl.maximum(y, 0)
    columns = tl.minimum(x + t.kernel[1], t.width) - tl.maximum(x, 0)
    return 1.0 / (rows * columns).to(t.dtype)


@kernel
def windows_of(place: Any, before: int, kernel: int, stride: int, k: int) -> Any:
    """Return the k-th window, from the last one back, that sees a place, and which tap sees it.

    The tap is outside of the window where there is no such window.
    """
    window = (place + before) // stride - k
    return window, place + before - window * stride


@kernel
def avg_pool_grad(
    dy: Ptr[T], dx: Ptr[D], images: i64, extra: tuple[Any, ...], t: Pool, EPILOGUE: constexpr
) -> None:
    """Spread dy evenly over its windows: each place gathers from the windows that see it."""

    def plane(image: Any, channel: Any) -> None:
        source = dy + image * t.y[0] + channel * t.y[1]
        result = dx + image * t.x[0] + channel * t.x[1]
        for row in range(t.height):
            for start in range(0, t.width, t.block):
                column = start + tl.arange(0, t.block)
                inside = column < t.width
                total = tl.zeros((t.block,), t.dtype)
                for k in tl.static_range(t.spread[0]):
                    down, i = windows_of(row, t.top, t.kernel[0], t.stride[0], k)
                    for m in tl.static_range(t.spread[1]):
                        across, j = windows_of(column, t.left, t.kernel[1], t.stride[1], m)
                        mask = inside & (down >= 0) & (down < t.rows) & (i < t.kernel[0])
                        mask = mask & (across >= 0) & (across < t.columns) & (j < t.kernel[1])
                        value = tl.load(source + down * t.y[2] + across * t.y[3], mask).to(t.dtype)
                        total += tl.where(mask, value * share(down, across, t), 0.0)
                index = (image, channel, row, column)
                place = result + row * t.x[2] + column * t.x[3]
                tl.store(place, EPILOGUE(total, index, inside, extra), inside)

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

        def store(row: Any, start: Any, value: Any) -> None:
            column = start * 2 + tl.arange(0, t.block * 2)
            mask = (
                None if t.width == t.columns * 2 and t.columns % t.block == 0 else column < t.width
            )
            value = EPILOGUE(value, (image, channel, row, column), mask, extra)
            tl.store(result + row * t.x[2] + column * t.x[3], value, mask)

        for row in range(t.rows):
            above = source + row * 2 * t.x[2]
            for start in range(0, tl.cdiv(t.width, 2), t.block):
                column = start + tl.arange(0, t.block)
                mask = None if t.columns % t.block == 0 else column < t.columns
                a, b = halves(above, start, t.columns, t.x[3], t)
                c, d = halves(above + t.x[2], start, t.columns, t.x[3], t)
                best = tl.maximum(tl.maximum(a, b), tl.maximum(c, d))
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


@kernel
def max_pool_grad(
    x: Ptr[T], dy: Ptr[T], dx: Ptr[D], images: i64, extra: tuple[Any, ...], t: Pool,
    EPILOGUE: constexpr,
) -> None:  # fmt: skip
    """Give each dy to the first maximum of its window. Grid: runs of planes.

    Each place gathers, in order, from the windows of which it is the first maximum.
    """

    def plane(image: Any, channel: Any) -> None:
        source = x + image * t.x[0] + channel * t.x[1]
        gradient = dy + image * t.y[0] + channel * t.y[1]
        result = dx + image * t.x[0] + channel * t.x[1]

        def first(down: Any, across: Any, mask: Any) -> Any:
            """Return the number of the tap of the first maximum of each window."""
            best = tl.full(across.shape, t.lowest, t.dtype)
            chosen = tl.full(across.shape, -1, tl.int32)
            for i in tl.static_range(t.kernel[0]):
                for j in tl.static_range(t.kernel[1]):
                    y, z = down * t.stride[0] + i - t.top, across * t.stride[1] + j - t.left
                    seen = mask & (y >= 0) & (y < t.height) & (z >= 0) & (z < t.width)
                    value = tl.load(source + y * t.x[2] + z * t.x[3], seen, t.lowest).to(t.dtype)
                    larger = (value > best) | ((value != value) & (best == best))
                    larger = seen & (larger | (chosen < 0))
                    best = tl.where(larger, value, best)
                    chosen = tl.where(larger, i * t.kernel[1] + j, chosen)
            return chosen

        for row in range(t.height):
            for start in range(0, t.width, t.block):
                column = start + tl.arange(0, t.block)
                inside = column < t.width
                total = tl.zeros((t.block,), t.dtype)
                for k in tl.static_range(t.spread[0] - 1, -1, -1):
                    down, i = windows_of(row, t.top, t.kernel[0], t.stride[0], k)
                    for m in tl.static_range(t.spread[1] - 1, -1, -1):
                        across, j = windows_of(column, t.left, t.kernel[1], t.stride[1], m)
                        mask = inside & (down >= 0) & (down < t.rows) & (i < t.kernel[0])
                        mask = mask & (across >= 0) & (across < t.columns) & (j < t.kernel[1])
                        wins = mask & (first(down, across, mask) == i * t.kernel[1] + j)
                        value = tl.load(gradient + down * t.y[2] + across * t.y[3], wins)
                        total += value.to(t.dtype)
                index = (image, channel, row, column)
                place = result + row * t.x[2] + column * t.x[3]
                tl.store(place, EPILOGUE(total, index, inside, extra), inside)

    by_plane(images, t, plane)
