"""Scaled dot-product attention without the matrix of scores in memory.

    o = softmax(q @ k.T * scale + mask) @ v

A program takes a run of queries and goes through the keys block by block. It keeps for each query
the largest score so far, the sum of the exponentials, and the weighted sum of values, both relative
to that score, and rescales them when a larger one comes (T. Dao et al.: "FlashAttention", NeurIPS
2022; M. Milakov, N. Gimelshein: "Online normalizer calculation for softmax", 2018). Queries that
see no key give 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import teeny_triton.language as tl
from teeny_core import DType
from teeny_kernels.kernels.extremes import larger
from teeny_kernels.kernels.matmul import pack_panel, product, unravel
from teeny_triton import Ptr, TypeVar, constexpr, i64, kernel

T = TypeVar("T")
M = TypeVar("M")
D = TypeVar("D")

INFINITY = float("inf")
LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class Attention:
    """How attention is cut.

    Attributes:
        size: numbers in a query and in a key.
        value_size: numbers in a value.
        scale: what scores are multiplied by.
        causal: whether query i sees only the keys up to number i.
        mask: what a mask holds: "sum" what is added to the scores, "bool" whether a key is seen.
        accumulator: type of scores and sums.
        lanes: elements of a register.
        vectors: registers of a row of a block of scores, and of results.
        heights: queries of a block, from the usual one to those that finish the queries.
        rows: queries that are normalised at a time; it divides the heights above it.
        run: queries of a program, a multiple of the usual height.
        block: keys at a time, a multiple of a row of scores.
        inner: extents of the output's batch axes that the second grid axis stands for.
        outer: the same for the third.
    """

    size: int
    value_size: int
    scale: float
    causal: bool
    mask: Literal["", "sum", "bool"]
    accumulator: DType
    lanes: int
    vectors: int
    heights: tuple[int, ...]
    rows: int
    run: int
    block: int
    inner: tuple[int, ...] = ()
    outer: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """Columns of a block of scores or results."""
        return self.vectors * self.lanes

    @property
    def held(self) -> int:
        """Numbers of a key in a packed panel: whole registers."""
        return -(-self.size // self.lanes) * self.lanes

    @property
    def padded(self) -> int:
        """Numbers in a value, rounded up to whole registers."""
        return -(-self.value_size // self.lanes) * self.lanes


@kernel
def attention(
    q: Ptr[T],
    k: Ptr[T],
    v: Ptr[T],
    mask: Any,
    y: Ptr[D],
    queries: i64,
    keys: i64,
    q_strides: Any,
    k_strides: Any,
    v_strides: Any,
    mask_strides: Any,
    y_strides: Any,
    extra: tuple[Any, ...],
    t: Attention,
    EPILOGUE: constexpr,
) -> None:
    """Compute attention. Grid: runs of queries, then the batch axes `inner` and `outer`.

    Strides are those along `outer`, `inner`, rows and columns; columns of v and y are neighbours.
    """
    head, item = tl.program_id(1), tl.program_id(2)
    batch = (*unravel(item, t.outer), *unravel(head, t.inner))
    first = tl.program_id(0) * t.run
    last = tl.minimum(first + t.run, queries)
    query = q + item * q_strides[0] + head * q_strides[1]
    key = k + item * k_strides[0] + head * k_strides[1]
    value = v + item * v_strides[0] + head * v_strides[1]
    result = y + item * y_strides[0] + head * y_strides[1]
    turned = tl.scratch(t.block * t.held, t.accumulator)
    scores = tl.scratch(t.heights[0] * t.block, t.accumulator)
    sums = tl.scratch(t.run * t.padded, t.accumulator)
    largest, totals = tl.scratch(t.run, t.accumulator), tl.scratch(t.run, t.accumulator)

    def score(row: Any, height: int, start: Any, seen: Any) -> None:
        """Compute the scores of some queries for `seen` keys from `start` on, in base 2."""
        down = tl.arange(0, height)[:, None]
        left = query + (row + down) * q_strides[2]
        for panel in tl.range(0, seen, t.width):
            lane = tl.arange(0, t.width)[None, :]
            acc = tl.zeros((height, t.width), t.accumulator)
            right = turned + panel * t.held + lane
            acc = product(acc, left, right, t.size, q_strides[3], t.width, None)
            acc = acc * (t.scale * LOG2_E)
            column = start + panel + lane
            place = scores + down * t.block + panel + lane
            whole = start + panel + t.width <= keys
            if t.mask:
                at = mask + item * mask_strides[0] + head * mask_strides[1]
                at = at + (row + down) * mask_strides[2] + column * mask_strides[3]
                if t.mask == "bool":
                    acc = tl.where(tl.load(at, column < keys), acc, -INFINITY)
                else:
                    acc = acc + tl.load(at, column < keys).to(t.accumulator) * LOG2_E
            if t.causal:
                whole = whole & (start + panel + t.width <= row + 1)
            if whole:
                tl.store(place, acc)
            else:
                inside = column < keys
                if t.causal:
                    inside = inside & (column <= row + down)
                tl.store(place, tl.where(inside, acc, -INFINITY))

    def normalise(row: Any, place: Any, count: int, seen: Any) -> None:
        """Turn scores of `count` queries into weights, and rescale what there is so far."""
        down = tl.arange(0, count)
        lane = tl.arange(0, t.lanes)[None, :]
        at = place + down[:, None] * t.block + lane
        best = tl.full((count, t.lanes), -INFINITY, t.accumulator)
        for column in tl.range(0, seen, t.lanes):
            best = larger(best, tl.load(at + column))
        old = tl.load(largest + row + down)
        new = larger(old, tl.max(best, 1))
        base = tl.where(new == -INFINITY, 0.0, new)
        total = tl.zeros((count, t.lanes), t.accumulator)
        for column in tl.range(0, seen, t.lanes):
            weight = tl.exp2(tl.load(at + column) - base[:, None])
            tl.store(at + column, weight)
            total += weight
        shrink = tl.exp2(old - base)
        tl.store(largest + row + down, new)
        tl.store(totals + row + down, tl.load(totals + row + down) * shrink + tl.sum(total, 1))
        for column in tl.range(0, t.padded, t.lanes):
            held = sums + (row + down[:, None]) * t.padded + column + lane
            tl.store(held, tl.load(held) * shrink[:, None])

    def weigh(row: Any, height: int, start: Any, seen: Any) -> None:
        """Add the values of the keys, weighted."""
        down = tl.arange(0, height)[:, None]
        count = tl.minimum(seen, keys - start)

        def columns(lane: Any, inside: Any) -> None:
            held = sums + (row - first + down) * t.padded + lane
            right = value + start * v_strides[2] + lane
            left = scores + down * t.block
            acc = product(tl.load(held), left, right, count, 1, v_strides[2], inside)
            tl.store(held, acc)

        whole = t.value_size // t.width * t.width
        for column in tl.range(0, whole, t.width):
            columns(column + tl.arange(0, t.width)[None, :], None)
        if whole < t.value_size:
            lane = whole + tl.arange(0, t.padded - whole)[None, :]
            columns(lane, None if t.padded == t.value_size else lane < t.value_size)

    def queries_of(row: Any, height: int, start: Any) -> None:
        """Let a block of queries see a block of keys."""
        seen = tl.minimum(t.block, tl.cdiv(keys - start, t.width) * t.width)
        if t.causal:
            seen = tl.minimum(seen, tl.cdiv(row + height - start, t.width) * t.width)
        score(row, height, start, seen)
        count = min(t.rows, height)
        for part in tl.range(0, height, count):
            normalise(row - first + part, scores + part * t.block, count, seen)
        weigh(row, height, start, seen)

    def blocks(begin: Any, work: Any) -> None:
        """Call `work(row, height)` for each block of queries from `begin` on."""
        row = begin
        for height in t.heights:
            count = (last - row) // height
            for i in tl.range(count):
                work(row + i * height, height)
            row += count * height

    def clear(row: Any, height: int) -> None:
        down = row - first + tl.arange(0, height)
        tl.store(largest + down, tl.full((height,), -INFINITY, t.accumulator))
        tl.store(totals + down, tl.zeros((height,), t.accumulator))
        zeros = tl.zeros((height, t.lanes), t.accumulator)
        for column in tl.range(0, t.padded, t.lanes):
            lane = column + tl.arange(0, t.lanes)[None, :]
            tl.store(sums + down[:, None] * t.padded + lane, zeros)

    def finish(row: Any, height: int) -> None:
        """Divide by the sums of the weights and store."""
        down = row + tl.arange(0, height)[:, None]
        total = tl.load(totals + down - first)
        share = tl.where(total == 0.0, 0.0, 1.0 / total)

        def columns(lane: Any, inside: Any) -> None:
            out = tl.load(sums + (down - first) * t.padded + lane) * share
            out = EPILOGUE(out, (*batch, down, lane), inside, extra)
            tl.store(result + down * y_strides[2] + lane, out, inside)

        whole = t.value_size // t.lanes * t.lanes
        for column in tl.range(0, whole, t.lanes):
            columns(column + tl.arange(0, t.lanes)[None, :], None)
        if whole < t.value_size:
            lane = whole + tl.arange(0, t.lanes)[None, :]
            columns(lane, lane < t.value_size)

    blocks(first, clear)
    end = tl.minimum(keys, last) if t.causal else keys
    for start in tl.range(0, end, t.block):
        source = key + start * k_strides[2]
        count = tl.minimum(t.block, keys - start)
        for panel in tl.range(0, count, t.width):
            part = turned + panel * t.held
            at, step = source + panel * k_strides[2], k_strides[2]
            if count - panel >= t.width:
                pack_panel(part, at, t.size, k_strides[3], step, t.width, None, t.lanes)
            else:
                pack_panel(part, at, t.size, k_strides[3], step, t.width, count - panel, t.lanes)
        begin = first
        if t.causal:  # blocks of queries before the first key see none of these
            begin = first + tl.maximum(start - first, 0) // t.heights[0] * t.heights[0]
        blocks(begin, lambda row, height, start=start: queries_of(row, height, start))
    blocks(first, finish)
