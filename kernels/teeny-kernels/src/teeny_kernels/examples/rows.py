"""A row at a time: softmax, and layer norm with its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import teeny_triton.language as tl
from teeny_triton import Ptr, TypeVar, cdiv, constexpr, f32, i32, kernel

Array = Any
T = TypeVar("T")
PROGRAMS = 4  # among which the rows are dealt out


@kernel
def softmax_kernel(x: Ptr[T], y: Ptr[T], rows: i32, n: i32, BLOCK: constexpr[int]) -> None:
    """Every program takes one row after another; `BLOCK` is at least the length of a row."""
    column = tl.arange(0, BLOCK)
    inside = column < n
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        value = tl.load(x + row * n + column, mask=inside, other=-float("inf")).to(f32)
        raised = tl.exp(value - tl.max(value, axis=0))
        tl.store(y + row * n + column, raised / tl.sum(raised, axis=0), mask=inside)


def softmax(x: Array) -> Array:
    """Return the softmax of the rows of a matrix, read and written once."""
    rows, n = x.shape
    y = np.empty_like(x)
    softmax_kernel[(min(rows, PROGRAMS),)](x, y, rows, n, BLOCK=n)
    return y


@kernel
def layer_norm_kernel(
    x: Ptr[T],
    weight: Ptr[T],
    bias: Ptr[T],
    y: Ptr[T],
    mean: Ptr[f32],
    scale: Ptr[f32],
    n: i32,
    eps: f32,
    BLOCK: constexpr[int],
) -> None:
    """Normalise a row; keep its mean and what it was multiplied by."""
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < n
    value = tl.load(x + row * n + column, mask=inside).to(f32)
    middle = tl.sum(value, axis=0) / n
    centred = tl.where(inside, value - middle, 0.0)
    factor = tl.rsqrt(tl.sum(centred * centred, axis=0) / n + eps)
    result = centred * factor * tl.load(weight + column, mask=inside).to(f32)
    result += tl.load(bias + column, mask=inside).to(f32)
    tl.store(y + row * n + column, result, mask=inside)
    tl.store(mean + row, middle)
    tl.store(scale + row, factor)


@kernel
def layer_norm_grad_kernel(
    dy: Ptr[T],
    x: Ptr[T],
    weight: Ptr[T],
    mean: Ptr[f32],
    scale: Ptr[f32],
    dx: Ptr[T],
    partial_weight: Ptr[f32],
    partial_bias: Ptr[f32],
    rows: i32,
    n: i32,
    BLOCK: constexpr[int],
) -> None:
    """The gradient of some rows, and their share of the gradients of weight and bias."""
    program = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < n
    w = tl.load(weight + column, mask=inside).to(f32)
    weight_sum, bias_sum = tl.zeros((BLOCK,), f32), tl.zeros((BLOCK,), f32)
    for row in tl.range(program, rows, tl.num_programs(0)):
        factor = tl.load(scale + row)
        value = tl.load(x + row * n + column, mask=inside).to(f32)
        normal = tl.where(inside, (value - tl.load(mean + row)) * factor, 0.0)
        gradient = tl.load(dy + row * n + column, mask=inside).to(f32)
        weighted = gradient * w
        along = tl.sum(weighted * normal, axis=0) / n
        across = tl.sum(weighted, axis=0) / n
        tl.store(dx + row * n + column, (weighted - normal * along - across) * factor, mask=inside)
        weight_sum += gradient * normal
        bias_sum += gradient
    tl.store(partial_weight + program * n + column, weight_sum, mask=inside)
    tl.store(partial_bias + program * n + column, bias_sum, mask=inside)


@kernel
def column_sums_kernel(
    x: Ptr[f32], out: Ptr[T], rows: i32, n: i32, ROWS: constexpr[int], BLOCK: constexpr[int]
) -> None:
    """Sum the columns of a matrix."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (column < n)[None, :]
    total = tl.zeros((ROWS, BLOCK), f32)
    for start in tl.range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        total += tl.load(x + row * n + column[None, :], mask=(row < rows) & inside, other=0.0)
    tl.store(out + column, tl.sum(total, axis=0), mask=column < n)


def layer_norm(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> tuple[Array, ...]:
    """Normalise the rows of a matrix; return the result, and means and scales for the gradient."""
    rows, n = x.shape
    y, mean, scale = np.empty_like(x), np.empty(rows, np.float32), np.empty(rows, np.float32)
    layer_norm_kernel[(rows,)](x, weight, bias, y, mean, scale, n, eps, BLOCK=n)
    return y, mean, scale


def layer_norm_backward(
    dy: Array, x: Array, weight: Array, mean: Array, scale: Array
) -> tuple[Array, Array, Array]:
    """Return the gradients of x, weight and bias.

    Programs add up rows of their own, and a second kernel adds the sums: nothing is locked, and the
    result does not depend on who is first.
    """
    rows, n = x.shape
    programs = min(rows, PROGRAMS)
    dx, partial = np.empty_like(x), np.empty((2, programs, n), np.float32)
    layer_norm_grad_kernel[(programs,)](
        dy, x, weight, mean, scale, dx, partial[0], partial[1], rows, n, BLOCK=n
    )
    gradients = np.empty_like(weight), np.empty_like(weight)
    for part, gradient in zip(partial, gradients, strict=True):
        column_sums_kernel[(cdiv(n, 64),)](part, gradient, programs, n, ROWS=4, BLOCK=64)
    return dx, *gradients
