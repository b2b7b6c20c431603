"""Scaled dot-product attention without the matrix of scores in memory.

    o = softmax(q @ k.T * scale + mask) @ v

A program takes a run of queries and goes through the keys block by block, each of which it packs
for all of them. It keeps for each query
the largest score so far, the sum of the exponentials, and the weighted sum of values, both relative
to that score, and rescales them when a larger one comes (T. Dao et al.: "FlashAttention", NeurIPS
2022; M. Milakov, N. Gimelshein: "Online normalizer calculation for softmax", 2018). Neighbouring
heads of queries may share one of keys and values (J. Ainslie et al.: "GQA", 2023).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import teeny_triton.language as tl
from teeny_core import DType
from teeny_kernels.kernels.matmul import pack_panel, product, unravel
from teeny_triton import Ptr, TypeVar, constexpr, i64, kernel

T = TypeVar("T")
M = TypeVar("M")
D = TypeVar("D")

INFINITY = float("inf")
NAN = float("nan")
LOG2_E = 1.4426950408889634
LOWEST = -127.0
MAGIC = 1.5 * 2.0**23 - LOWEST
"""A number of f32 that has the exponent of 2**n in its low bits once n is added to it."""
POWER = (
    0.00015353361959569156, 0.0013398875016719103, 0.00961843691766262, 0.055503323674201965,
    0.24022647738456726, 0.6931471824645996, 1.0,
)  # fmt: skip
"""2**r for |r| <= 1/2 by powers of r from the sixth down: a minimax fit, 1 at 0."""


@dataclass(frozen=True)
class Attention:
    """How attention is cut.

    Attributes:
        size: numbers in a query and in a key.
        value_size: numbers in a value.
        scale: what scores are multiplied by.
        causal: whether query i sees only the keys up to number i.
        mask: what a mask holds: "sum" what is added to the scores, "bool" whether a key is seen.
        safe: whether queries that see none of the keys give 0; else they give NaN.
        accumulator: type of scores and sums.
        lanes: elements of a register.
        line: elements of a line of the cache.
        vectors: registers of a row of a block of scores, and of results.
        height: queries of a block of scores, and of results.
        rows: queries that are normalised at a time; it divides the height.
        strip: queries that see a block of keys before others do, a multiple of the height.
        run: queries of a program, a multiple of the height.
        block: keys at a time, a multiple of a row of scores.
        inner: extents of the output's batch axes that the second grid axis stands for.
        outer: the same for the third.
        share: neighbours on the second grid axis that share keys and values.
    """

    size: int
    value_size: int
    scale: float
    causal: bool
    mask: Literal["", "sum", "bool"]
    safe: bool
    accumulator: DType
    lanes: int
    line: int
    vectors: int
    height: int
    rows: int
    strip: int
    run: int
    block: int
    inner: tuple[int, ...] = ()
    outer: tuple[int, ...] = ()
    share: int = 1

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
def power(x: Any) -> Any:
    """Return 2**x for x that are not positive: 0 below 2**-126, NaN for NaN.

    In f32 by fewer steps than `tl.exp2` takes. The largest error found is 0.93 units in the last
    place.
    """
    if x.dtype != tl.float32:
        return tl.exp2(x)
    x = tl.where(x < LOWEST, LOWEST, x)
    moved = x + MAGIC
    rest = x - (moved - MAGIC)
    total = tl.full(x.shape, POWER[0], tl.float32)
    for coefficient in POWER[1:]:
        total = total * rest + coefficient
    return total * (moved.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)


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
    shared = head // t.share
    key = k + item * k_strides[0] + shared * k_strides[1]
    value = v + item * v_strides[0] + shared * v_strides[1]
    result = y + item * y_strides[0] + head * y_strides[1]
    asked = tl.scratch(t.run * t.held, t.accumulator)
    turned = tl.scratch(t.block * t.held, t.accumulator)
    values = tl.scratch(t.block * t.padded, t.accumulator)
    scores = tl.scratch(t.strip * t.block, t.accumulator)
    sums = tl.scratch(t.run * t.padded, t.accumulator)
    totals = tl.scratch(t.run * t.lanes, t.accumulator)
    largest, base = tl.scratch(t.run, t.accumulator), tl.scratch(t.run, t.accumulator)
    shrink = tl.scratch(t.run, t.accumulator)
    down = tl.arange(0, t.height)[:, None]
    whole = t.value_size // t.width * t.width

    def fetch(row: Any) -> None:
        """Copy a query, scaled to scores in base 2."""
        for column in tl.range(0, t.held, t.lanes):
            at = column + tl.arange(0, t.lanes)
            inside = None if t.held == t.size else at < t.size
            source = query + (first + row) * q_strides[2] + at * q_strides[3]
            number = tl.load(source, inside).to(t.accumulator)
            tl.store(asked + row * t.held + at, number * (t.scale * LOG2_E))

    def clear(at: Any, count: Any) -> None:
        for column in tl.range(0, count, t.lanes):
            zeros = tl.zeros((t.lanes,), t.accumulator)
            tl.store(at + column + tl.arange(0, t.lanes), zeros)

    def pack_keys(start: Any, count: Any) -> None:
        """Copy keys to panels of columns."""
        source = key + start * k_strides[2]
        for number in tl.range(0, count):
            for column in tl.range(0, t.size, t.line):
                tl.prefetch(source + number * k_strides[2] + column * k_strides[3])
        for panel in tl.range(0, count, t.width):
            part = turned + panel * t.held
            at, step = source + panel * k_strides[2], k_strides[2]
            if count - panel >= t.width:
                pack_panel(part, at, t.size, k_strides[3], step, t.width, None, t.lanes)
            else:
                pack_panel(part, at, t.size, k_strides[3], step, t.width, count - panel, t.lanes)

    def pack_values(start: Any, count: Any) -> None:
        """Copy values to panels [keys][columns]."""
        for number in tl.range(0, count):
            source = value + (start + number) * v_strides[2]
            lane = tl.arange(0, t.width)
            for panel in tl.range(0, whole, t.width):
                to = values + panel * t.block + number * t.width + lane
                tl.store(to, tl.load(source + panel + lane))
            if whole < t.value_size:
                lane = tl.arange(0, t.padded - whole)
                inside = None if t.padded == t.value_size else whole + lane < t.value_size
                to = values + whole * t.block + number * (t.padded - whole) + lane
                tl.store(to, tl.load(source + whole + lane, inside))

    def score(begin: Any, row: Any, start: Any, panel: Any) -> None:
        """Compute the scores of some queries for a panel of keys, in base 2."""
        lane = tl.arange(0, t.width)[None, :]
        acc = tl.zeros((t.height, t.width), t.accumulator)
        left = asked + (row + down) * t.held
        acc = product(acc, left, turned + panel * t.held + lane, t.size, 1, t.width, None)
        column, number = start + panel + lane, first + row + down
        place = scores + (row - begin + down) * t.block + panel + lane
        seen = start + panel + t.width <= keys
        if t.mask:
            at = mask + item * mask_strides[0] + head * mask_strides[1]
            at = at + number * mask_strides[2] + column * mask_strides[3]
            given = tl.load(at, (number < queries) & (column < keys))
            if t.mask == "bool":
                acc = tl.where(given, acc, -INFINITY)
            else:
                acc = acc + given.to(t.accumulator) * LOG2_E
        if t.causal:
            seen = seen & (start + panel + t.width <= first + row + 1)
        if seen:
            tl.store(place, acc)
        else:
            inside = column < keys
            if t.causal:
                inside = inside & (column <= number)
            tl.store(place, tl.where(inside, acc, -INFINITY))

    def measure(begin: Any, row: Any, seen: Any) -> None:
        """Find the largest scores of some queries, and how much what there is so far shrinks.

        NaN makes none: it reaches the result by its weight.
        """
        at = scores + (row - begin + down) * t.block + tl.arange(0, t.lanes)[None, :]
        best = tl.full((t.height, t.lanes), -INFINITY, t.accumulator)
        for column in tl.range(0, seen, t.lanes):
            number = tl.load(at + column)
            best = tl.where(number > best, number, best)
        place = row + tl.arange(0, t.height)
        old = tl.load(largest + place)
        new = tl.maximum(old, tl.max(best, 1))
        some = tl.where(new == -INFINITY, 0.0, new)
        tl.store(largest + place, new)
        tl.store(base + place, some)
        tl.store(shrink + place, tl.exp2(old - some))

    def normalise(begin: Any, row: Any, seen: Any) -> None:
        """Turn scores of `rows` queries into weights."""
        lane = tl.arange(0, t.lanes)[None, :]
        beside = tl.arange(0, t.rows)[:, None]
        at = scores + (row - begin + beside) * t.block + lane
        place = totals + (row + beside) * t.lanes + lane
        most = tl.load(base + row + beside)
        total = tl.load(place) * tl.load(shrink + row + beside)
        for column in tl.range(0, seen, t.lanes):
            weight = power(tl.load(at + column) - most)
            tl.store(at + column, weight)
            total += weight
        tl.store(place, total)

    def weigh(begin: Any, row: Any, count: Any, column: Any, width: int) -> None:
        """Add the values of the keys, weighted."""
        lane = tl.arange(0, width)[None, :]
        place = sums + (row + down) * t.padded + column + lane
        left = scores + (row - begin + down) * t.block
        acc = tl.load(place) * tl.load(shrink + row + down)
        right = values + column * t.block + lane
        tl.store(place, product(acc, left, right, count, 1, width, None))

    def strip(begin: Any, end: Any, start: Any, count: Any) -> None:
        """Let some queries see a block of keys: a panel stays in the first cache for all."""

        def seeing(place: Any) -> Any:
            """Return the first block of queries that sees a key."""
            return begin + tl.maximum(place - first - begin, 0) // t.height * t.height

        def seen(row: Any) -> Any:
            """Return how many keys a block of queries sees."""
            return tl.minimum(count, first + row + t.height - start) if t.causal else count

        for panel in tl.range(0, count, t.width):
            low = seeing(start + panel) if t.causal else begin
            for row in tl.range(low, end, t.height):
                score(begin, row, start, panel)
        low = seeing(start) if t.causal else begin
        for row in tl.range(low, end, t.height):
            measure(begin, row, tl.cdiv(seen(row), t.width) * t.width)
        for row in tl.range(low, end, t.rows):
            block = row - (row - begin) % t.height
            normalise(begin, row, tl.cdiv(seen(block), t.width) * t.width)
        for column in tl.range(0, whole, t.width):
            for row in tl.range(low, end, t.height):
                weigh(begin, row, seen(row), column, t.width)
        if whole < t.padded:
            for row in tl.range(low, end, t.height):
                weigh(begin, row, seen(row), whole, t.padded - whole)

    def finish(row: Any) -> None:
        """Divide by the sum of the weights and store."""
        total = tl.sum(tl.load(totals + row * t.lanes + tl.arange(0, t.lanes)), 0)
        nothing = 0.0 if t.safe else tl.where(keys == 0, 0.0, NAN)
        share = tl.where(total == 0.0, nothing, 1.0 / total)
        at = first + row + tl.arange(0, 1)[:, None]

        def columns(lane: Any, inside: Any) -> None:
            out = tl.load(sums + row * t.padded + lane) * share
            out = EPILOGUE(out, (*batch, at, lane), inside, extra)
            tl.store(result + at * y_strides[2] + lane, out, inside)

        full = t.value_size // t.lanes * t.lanes
        for column in tl.range(0, full, t.lanes):
            columns(column + tl.arange(0, t.lanes)[None, :], None)
        if full < t.value_size:
            lane = full + tl.arange(0, t.lanes)[None, :]
            columns(lane, lane < t.value_size)

    rows = last - first
    padded = tl.cdiv(rows, t.height) * t.height
    for row in tl.range(0, rows):
        fetch(row)
    clear(asked + rows * t.held, (padded - rows) * t.held)
    clear(sums, padded * t.padded)
    clear(totals, padded * t.lanes)
    for row in tl.range(0, padded):
        tl.store(largest + row, -INFINITY)
    end = tl.minimum(keys, last) if t.causal else keys
    for start in tl.range(0, end, t.block):
        count = tl.minimum(t.block, end - start)
        pack_keys(start, count)
        pack_values(start, count)
        begin: Any = 0
        if t.causal:  # strips of queries before the first key see none of these
            begin = tl.maximum(start - first, 0) // t.strip * t.strip
        for row in tl.range(begin, padded, t.strip):
            strip(row, tl.minimum(row + t.strip, padded), start, count)
    for row in tl.range(0, rows):
        finish(row)
