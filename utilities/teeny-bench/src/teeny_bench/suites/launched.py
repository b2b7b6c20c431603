"""Kernels as users write them, in the style of Triton's tutorials, launched by `kernel[grid]`."""

from __future__ import annotations

from typing import Any

import teeny_triton as triton
import teeny_triton.language as tl
from teeny_triton import constexpr


@triton.kernel
def add(x: Any, y: Any, out: Any, size: Any, BLOCK: constexpr) -> None:
    """Add vectors, a block a program."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.kernel
def softmax(x: Any, out: Any, width: Any, BLOCK: constexpr) -> None:
    """Compute softmax of a row a program."""
    column = tl.arange(0, BLOCK)
    inside, at = column < width, tl.program_id(0) * width + column
    row = tl.load(x + at, inside, -float("inf"))
    weight = tl.exp(row - tl.max(row, 0))
    tl.store(out + at, weight / tl.sum(weight, 0), inside)


@triton.kernel
def layer_norm(
    x: Any, weight: Any, bias: Any, out: Any, width: Any, eps: Any, BLOCK: constexpr
) -> None:
    """Normalise a row a program, then scale and shift it."""
    column = tl.arange(0, BLOCK)
    inside, at = column < width, tl.program_id(0) * width + column
    row = tl.load(x + at, inside, 0.0)
    centred = tl.where(inside, row - tl.sum(row, 0) / width, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / width + eps)
    result = centred * scale * tl.load(weight + column, inside) + tl.load(bias + column, inside)
    tl.store(out + at, result, inside)


@triton.kernel
def matmul(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_row: Any,
    a_depth: Any,
    b_depth: Any,
    b_column: Any,
    c_row: Any,
    BM: constexpr,
    BN: constexpr,
    BK: constexpr,
    GROUP: constexpr,
    SUM: constexpr,
) -> None:
    """Multiply matrices, a tile a program, in groups of `GROUP` rows of tiles.

    Indices wrap around at the edges, pointers move along K, only the store is masked on all sides.
    """
    tall, wide = tl.cdiv(m, BM), tl.cdiv(n, BN)
    group = GROUP * wide
    first = tl.program_id(0) // group * GROUP
    height = tl.minimum(tall - first, GROUP)
    row = first + tl.program_id(0) % group % height
    column = tl.program_id(0) % group // height
    rows = (row * BM + tl.arange(0, BM)) % m
    columns = (column * BN + tl.arange(0, BN)) % n
    along = tl.arange(0, BK)
    left = a + (rows[:, None] * a_row + along[None, :] * a_depth)
    right = b + (along[:, None] * b_depth + columns[None, :] * b_column)
    total = tl.zeros((BM, BN), SUM)
    for step in range(0, tl.cdiv(k, BK)):
        x = tl.load(left, along[None, :] < k - step * BK, 0)
        y = tl.load(right, along[:, None] < k - step * BK, 0)
        total = tl.dot(x, y, total)
        left += BK * a_depth
        right += BK * b_depth
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * c_row + columns[None, :], total, inside)
