"""Kernels over rows: softmax, losses and norms. A program takes one row of `columns` numbers.

    softmax[(rows,)](x, y, columns, BLOCK=columns)

`BLOCK` is at least the number of columns. Rows lie one behind the other. Narrow floats are computed
in f32.
"""

from __future__ import annotations

from typing import Any

import teeny_triton.language as tl
from teeny_triton import Ptr, TypeVar, constexpr, f32, i32, i64, kernel

T = TypeVar("T")
D = TypeVar("D")

LOWEST = float("-inf")


@kernel
def load_row(x: Any, row: Any, columns: Any, other: Any, BLOCK: constexpr) -> Any:
    """Return a row as f32 (f64 stays), with `other` behind it, and which lanes it fills."""
    column = tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row.to(tl.int64) * columns + column, inside, other)
    return (value if value.dtype == tl.float64 else value.to(tl.float32)), inside


@kernel
def store_row(y: Any, row: Any, columns: Any, value: Any, BLOCK: constexpr) -> None:
    """Store a row."""
    column = tl.arange(0, BLOCK)
    tl.store(y + row.to(tl.int64) * columns + column, value, column < columns)


@kernel
def softmax(x: Ptr[T], y: Ptr[D], columns: i32, BLOCK: constexpr) -> None:
    """y = exp(x - max) / sum of that."""
    row = tl.program_id(0)
    value, _ = load_row(x, row, columns, LOWEST, BLOCK)
    raised = tl.exp(value - tl.max(value, 0))
    store_row(y, row, columns, raised / tl.sum(raised, 0), BLOCK)


@kernel
def log_softmax(x: Ptr[T], y: Ptr[D], columns: i32, BLOCK: constexpr) -> None:
    """y = x - max - log(sum of exp(x - max))."""
    row = tl.program_id(0)
    value, _ = load_row(x, row, columns, LOWEST, BLOCK)
    shifted = value - tl.max(value, 0)
    store_row(y, row, columns, shifted - tl.log(tl.sum(tl.exp(shifted), 0)), BLOCK)


@kernel
def cross_entropy(
    x: Ptr[T], target: Ptr[i64], loss: Ptr[D], dx: Ptr[T], columns: i32, BLOCK: constexpr
) -> None:
    """Write -log(softmax(x)[target]) for each row, and its gradient softmax(x) - onehot(target)."""
    row = tl.program_id(0)
    value, _ = load_row(x, row, columns, LOWEST, BLOCK)
    wanted = tl.load(target + row)
    shifted = value - tl.max(value, 0)
    raised = tl.exp(shifted)
    total = tl.sum(raised, 0)
    is_target = tl.arange(0, BLOCK) == wanted
    picked = tl.sum(tl.where(is_target, shifted, 0.0), 0)
    tl.store(loss + row, tl.log(total) - picked)
    store_row(dx, row, columns, raised / total - tl.where(is_target, 1.0, 0.0), BLOCK)


@kernel
def layer_norm(
    x: Ptr[T],
    weight: Ptr[T],
    bias: Ptr[T],
    y: Ptr[D],
    columns: i32,
    epsilon: f32,
    BLOCK: constexpr,
) -> None:
    """y = (x - mean) / sqrt(variance + epsilon) * weight + bias.

    The variance is that of the deviations, so that it is accurate where the mean is large.
    """
    row = tl.program_id(0)
    value, inside = load_row(x, row, columns, 0.0, BLOCK)
    mean = tl.sum(value, 0) / columns.to(value.dtype)
    deviation = tl.where(inside, value - mean, 0.0)
    variance = tl.sum(deviation * deviation, 0) / columns.to(value.dtype)
    column = tl.arange(0, BLOCK)
    scale = tl.load(weight + column, inside).to(value.dtype)
    shift = tl.load(bias + column, inside).to(value.dtype)
    share = tl.rsqrt(variance + epsilon)
    store_row(y, row, columns, deviation * share * scale + shift, BLOCK)


@kernel
def rms_norm(
    x: Ptr[T], weight: Ptr[T], y: Ptr[D], columns: i32, epsilon: f32, BLOCK: constexpr
) -> None:
    """y = x / sqrt(mean of x² + epsilon) * weight."""
    row = tl.program_id(0)
    value, inside = load_row(x, row, columns, 0.0, BLOCK)
    mean = tl.sum(value * value, 0) / columns.to(value.dtype)
    scale = tl.load(weight + tl.arange(0, BLOCK), inside).to(value.dtype)
    store_row(y, row, columns, value * tl.rsqrt(mean + epsilon) * scale, BLOCK)


@kernel
def argmax(x: Ptr[T], y: Ptr[i64], columns: i32, BLOCK: constexpr) -> None:
    """y = index of the largest number of each row: the first of equals, or the first NaN."""
    row = tl.program_id(0)
    value, _ = load_row(x, row, columns, LOWEST, BLOCK)
    tl.store(y + row, tl.argmax(value, 0).to(tl.int64))


@kernel
def reduce_rows(x: Ptr[T], y: Ptr[D], columns: i32, KIND: constexpr, BLOCK: constexpr) -> None:
    """y = sum, prod, max or min of each row."""
    neutral = {"sum": 0.0, "prod": 1.0, "max": LOWEST, "min": -LOWEST}[KIND]
    row = tl.program_id(0)
    value, _ = load_row(x, row, columns, neutral, BLOCK)
    tl.store(y + row, tl.reduce(value, 0, KIND))


@kernel
def channel_statistics(
    x: Ptr[T],
    mean: Ptr[D],
    variance: Ptr[D],
    images: i32,
    channels: i32,
    pixels: i32,
    BLOCK: constexpr,
) -> None:
    """Mean and variance of each channel of [images, channels, pixels], a program a channel.

    Two passes: the variance is the mean square of the deviations.
    """
    channel = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    count = (images * pixels).to(tl.float32)

    def over(shift: Any, power: int) -> Any:
        """Return the mean of (x - shift) to a power of 1 or 2."""
        total = tl.zeros((BLOCK,), tl.float32)
        for image in tl.range(images):
            plane = x + (image.to(tl.int64) * channels + channel) * pixels
            for start in range(0, pixels, BLOCK):
                inside = start + lane < pixels
                value = tl.load(plane + start + lane, inside).to(tl.float32)
                value = tl.where(inside, value - shift, 0.0)
                total += value * value if power == 2 else value
        return tl.sum(total, 0) / count

    middle = over(0.0, 1)
    tl.store(mean + channel, middle)
    tl.store(variance + channel, over(middle, 2))


@kernel
def batch_norm(
    x: Ptr[T],
    mean: Ptr[D],
    variance: Ptr[D],
    weight: Ptr[D],
    bias: Ptr[D],
    y: Ptr[T],
    channels: i32,
    pixels: i32,
    epsilon: f32,
    BLOCK: constexpr,
) -> None:
    """y = (x - mean) / sqrt(variance + epsilon) * weight + bias, by channel.

    A program takes a plane of [images, channels, pixels].
    """
    plane = tl.program_id(0)
    channel = plane % channels
    scale = tl.load(weight + channel) * tl.rsqrt(tl.load(variance + channel) + epsilon)
    shift = tl.load(bias + channel) - tl.load(mean + channel) * scale
    lane = tl.arange(0, BLOCK)
    for start in range(0, pixels, BLOCK):
        at = plane.to(tl.int64) * pixels + start + lane
        inside = start + lane < pixels
        value = tl.load(x + at, inside).to(scale.dtype)
        tl.store(y + at, value * scale + shift, inside)
