"""Attention whose scores never reach memory, forward and backward.

T. Dao: "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023.
Arrays are [heads, length, size], of f32; `heads` counts those of all sequences.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import teeny_triton.language as tl
from teeny_triton import Ptr, cdiv, constexpr, f32, i32, kernel

Array = Any
LOG2_E = 1.4426950408889634
BLOCKS = {"ROWS": 32, "COLUMNS": 32}


@kernel
def attention_kernel(
    q: Ptr[f32],
    k: Ptr[f32],
    v: Ptr[f32],
    out: Ptr[f32],
    norm: Ptr[f32],
    length: i32,
    scale: f32,
    SIZE: constexpr[int],
    CAUSAL: constexpr[bool],
    ROWS: constexpr[int],
    COLUMNS: constexpr[int],
) -> None:
    """Let some queries of a head see its keys block by block.

    For each query there are the largest score so far, the sum of exponentials relative to it, and
    the weighted sum of values; a larger score rescales them. `norm` is the logarithm (of base 2) of
    the sum of exponentials, from which the gradient finds the weights again.
    """
    base = tl.program_id(1) * length * SIZE
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    feature = tl.arange(0, SIZE)
    at = base + row[:, None] * SIZE + feature[None, :]
    here = (row < length)[:, None]
    query = tl.load(q + at, mask=here, other=0.0) * (scale * LOG2_E)
    largest = tl.full((ROWS,), -float("inf"), f32)
    total = tl.zeros((ROWS,), f32)
    acc = tl.zeros((ROWS, SIZE), f32)
    end = tl.minimum((tl.program_id(0) + 1) * ROWS, length) if CAUSAL else length
    for start in tl.range(0, end, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        there = (column < length)[:, None]
        place = base + column[:, None] * SIZE + feature[None, :]
        score = tl.dot(query, tl.load(k + place, mask=there, other=0.0).T)
        seen = (column < length)[None, :]
        if CAUSAL:
            seen = seen & (column[None, :] <= row[:, None])
        score = tl.where(seen, score, -float("inf"))
        higher = tl.maximum(largest, tl.max(score, axis=1))
        weight = tl.exp2(score - higher[:, None])
        fade = tl.exp2(largest - higher)
        total = total * fade + tl.sum(weight, axis=1)
        value = tl.load(v + place, mask=there, other=0.0)
        acc = tl.dot(weight, value, acc * fade[:, None])
        largest = higher
    tl.store(out + at, acc / total[:, None], mask=here)
    tl.store(norm + tl.program_id(1) * length + row, largest + tl.log2(total), mask=row < length)


@kernel
def weights(
    query: Any,
    key: Any,
    norm: Any,
    row: Any,
    column: Any,
    length: i32,
    scale: f32,
    CAUSAL: constexpr[bool],
) -> Any:
    """Return the weights of a block of queries and keys, computed again; called by others."""
    score = tl.dot(query, key.T) * (scale * LOG2_E)
    seen = (column < length)[None, :] & (row < length)[:, None]
    if CAUSAL:
        seen = seen & (column[None, :] <= row[:, None])
    return tl.where(seen, tl.exp2(score - norm[:, None]), 0.0)


@kernel
def attention_grad_keys_kernel(
    q: Ptr[f32],
    k: Ptr[f32],
    v: Ptr[f32],
    dout: Ptr[f32],
    norm: Ptr[f32],
    delta: Ptr[f32],
    dk: Ptr[f32],
    dv: Ptr[f32],
    length: i32,
    scale: f32,
    SIZE: constexpr[int],
    CAUSAL: constexpr[bool],
    ROWS: constexpr[int],
    COLUMNS: constexpr[int],
) -> None:
    """The gradients of some keys and values: a sum over the queries that see them."""
    head = tl.program_id(1) * length
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    feature = tl.arange(0, SIZE)[None, :]
    at = head * SIZE + column[:, None] * SIZE + feature
    here = (column < length)[:, None]
    key = tl.load(k + at, mask=here, other=0.0)
    value = tl.load(v + at, mask=here, other=0.0)
    key_sum, value_sum = tl.zeros((COLUMNS, SIZE), f32), tl.zeros((COLUMNS, SIZE), f32)
    first = tl.program_id(0) * COLUMNS // ROWS * ROWS if CAUSAL else 0
    for start in tl.range(first, length, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = row < length
        place = head * SIZE + row[:, None] * SIZE + feature
        query = tl.load(q + place, mask=inside[:, None], other=0.0)
        gradient = tl.load(dout + place, mask=inside[:, None], other=0.0)
        sums = tl.load(norm + head + row, mask=inside, other=0.0)
        weight = weights(query, key, sums, row, column, length, scale, CAUSAL)
        value_sum = tl.dot(weight.T, gradient, value_sum)
        expected = tl.load(delta + head + row, mask=inside, other=0.0)
        dscore = weight * (tl.dot(gradient, value.T) - expected[:, None])
        key_sum = tl.dot(dscore.T, query, key_sum)
    tl.store(dk + at, key_sum * scale, mask=here)
    tl.store(dv + at, value_sum, mask=here)


@kernel
def attention_grad_queries_kernel(
    q: Ptr[f32],
    k: Ptr[f32],
    v: Ptr[f32],
    dout: Ptr[f32],
    norm: Ptr[f32],
    delta: Ptr[f32],
    dq: Ptr[f32],
    length: i32,
    scale: f32,
    SIZE: constexpr[int],
    CAUSAL: constexpr[bool],
    ROWS: constexpr[int],
    COLUMNS: constexpr[int],
) -> None:
    """The gradient of some queries: a sum over the keys that they see."""
    head = tl.program_id(1) * length
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    feature = tl.arange(0, SIZE)[None, :]
    at = head * SIZE + row[:, None] * SIZE + feature
    here = (row < length)[:, None]
    query = tl.load(q + at, mask=here, other=0.0)
    gradient = tl.load(dout + at, mask=here, other=0.0)
    sums = tl.load(norm + head + row, mask=row < length, other=0.0)
    expected = tl.load(delta + head + row, mask=row < length, other=0.0)
    acc = tl.zeros((ROWS, SIZE), f32)
    end = tl.minimum((tl.program_id(0) + 1) * ROWS, length) if CAUSAL else length
    for start in tl.range(0, end, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        there = (column < length)[:, None]
        place = head * SIZE + column[:, None] * SIZE + feature
        key = tl.load(k + place, mask=there, other=0.0)
        value = tl.load(v + place, mask=there, other=0.0)
        weight = weights(query, key, sums, row, column, length, scale, CAUSAL)
        dscore = weight * (tl.dot(gradient, value.T) - expected[:, None])
        acc = tl.dot(dscore, key, acc)
    tl.store(dq + at, acc * scale, mask=here)


@kernel
def row_dot_kernel(
    x: Ptr[f32], y: Ptr[f32], out: Ptr[f32], rows: i32, SIZE: constexpr[int], ROWS: constexpr[int]
) -> None:
    """out[i] = sum(x[i] * y[i])."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    here = (row < rows)[:, None]
    both = tl.load(x + at, mask=here, other=0.0) * tl.load(y + at, mask=here, other=0.0)
    tl.store(out + row, tl.sum(both, axis=1), mask=row < rows)


def attention(q: Array, k: Array, v: Array, causal: bool = False) -> tuple[Array, Array]:
    """Return softmax(q @ k.T / sqrt(size)) @ v of each head, and what the gradient needs of it."""
    heads, length, size = q.shape
    out, norm = np.empty_like(q), np.empty((heads, length), np.float32)
    attention_kernel[lambda meta: (cdiv(length, meta["ROWS"]), heads)](
        q, k, v, out, norm, length, 1 / math.sqrt(size), SIZE=size, CAUSAL=causal, **BLOCKS
    )
    return out, norm


def attention_backward(
    dout: Array, q: Array, k: Array, v: Array, out: Array, norm: Array, causal: bool = False
) -> tuple[Array, Array, Array]:
    """Return the gradients of q, k and v.

    A softmax sends back each weight times the difference of what reaches it and of `delta`, the
    weighted mean of that, which is also the product of a row of `out` and of its gradient.
    """
    heads, length, size = q.shape
    rows = heads * length
    delta = np.empty((heads, length), np.float32)
    row_dot_kernel[lambda meta: (cdiv(rows, meta["ROWS"]),)](
        out, dout, delta, rows, SIZE=size, ROWS=32
    )
    dq, dk, dv = (np.empty_like(x) for x in (q, k, v))
    inputs = (q, k, v, dout, norm, delta)
    scale = 1 / math.sqrt(size)
    options = {"SIZE": size, "CAUSAL": causal, **BLOCKS}
    attention_grad_keys_kernel[lambda meta: (cdiv(length, meta["COLUMNS"]), heads)](
        *inputs, dk, dv, length, scale, **options
    )
    attention_grad_queries_kernel[lambda meta: (cdiv(length, meta["ROWS"]), heads)](
        *inputs, dq, length, scale, **options
    )
    return dq, dk, dv
