"""Products of few rows, bound by reading B once.

Where rows of B lie along the depth, results are dot products, with lanes along the depth. Where
they lie along the columns, B is read by long runs of its rows, as caches fetch best: several side
by side, their products added to sums in memory, or one after another, copied to panels for some
blocks of rows to use.
"""

from __future__ import annotations

from typing import Any

import teeny_triton.language as tl
from teeny_kernels.kernels.matmul import Tiling, product, unravel
from teeny_triton import Ptr, TypeVar, constexpr, i64, kernel

T = TypeVar("T")
P = TypeVar("P")
D = TypeVar("D")


@kernel
def matvec(
    a: Ptr[T],
    b: Ptr[P],
    c: Ptr[D],
    rows: constexpr,
    columns: i64,
    depth: i64,
    a_row: i64,
    a_inner: i64,
    a_outer: i64,
    b_column: i64,
    b_inner: i64,
    b_outer: i64,
    c_row: i64,
    c_inner: i64,
    c_outer: i64,
    made: tuple[Any, ...],
    extra: tuple[Any, ...],
    t: Tiling,
    PROLOGUE: constexpr,
    EPILOGUE: constexpr,
) -> None:
    """Compute C [rows, columns] = A [rows, depth] @ B [columns, depth] transposed.

    A program takes `t.run` columns. Partial sums, one for each lane, are added up at the end. With
    a `PROLOGUE`, B does not lie in memory: its elements are made where they are used.
    """
    inner, outer = tl.program_id(1), tl.program_id(2)
    first = tl.program_id(0) * t.run
    last = min(first + t.run, columns)
    lane = tl.arange(0, t.lanes)[None, None, :]
    row = tl.arange(0, rows)[:, None]
    left = a + outer * a_outer + inner * a_inner + row[:, :, None] * a_row + lane
    right = b + outer * b_outer + inner * b_inner + lane
    result = c + outer * c_outer + inner * c_inner + row * c_row
    whole = depth // t.lanes * t.lanes

    def dots(column: Any, count: int) -> None:
        """Compute `count` columns from `column` on."""
        at = column + tl.arange(0, count)[None, :]
        place = right + at[:, :, None] * b_column
        acc = tl.zeros((rows, count, t.lanes), t.accumulator)

        def weights(k: Any, mask: Any) -> Any:
            if PROLOGUE is None:
                return tl.load(place + k, mask).to(t.accumulator)
            value = PROLOGUE((k + lane, at[:, :, None]), mask, made).to(t.accumulator)
            return value if mask is None else tl.where(mask, value, 0)

        for k in range(0, whole, t.lanes):
            x = tl.load(left + k).to(t.accumulator)
            acc = acc + x * weights(k, None)
        if depth % t.lanes != 0:
            inside = whole + lane < depth
            x = tl.load(left + whole, inside).to(t.accumulator)
            acc = acc + x * weights(whole, inside)
        index = (*unravel(outer, t.outer), *unravel(inner, t.inner), row, at)
        tl.store(result + at, EPILOGUE(tl.sum(acc, 2), index, None, extra))

    column = first
    for count in t.heights:
        if last - column >= count:
            dots(column, count)
        column += (last - column) // count * count


@kernel
def streamed(
    a: Ptr[T],
    b: Ptr[P],
    c: Ptr[D],
    rows: constexpr,
    columns: i64,
    depth: i64,
    a_row: i64,
    a_depth: i64,
    a_inner: i64,
    a_outer: i64,
    b_depth: i64,
    b_inner: i64,
    b_outer: i64,
    c_row: i64,
    c_inner: i64,
    c_outer: i64,
    extra: tuple[Any, ...],
    t: Tiling,
    EPILOGUE: constexpr,
) -> None:
    """Compute C [rows, columns] = A [rows, depth] @ B [depth, columns], rows of B contiguous.

    A program takes `t.run` columns, and `t.depth_block` rows of B side by side, each by its own
    load instruction, which walks along that row only: so caches see what comes next. Of the rows
    that follow, lines of `t.line` elements are asked for in advance.
    """
    inner, outer = tl.program_id(1), tl.program_id(2)
    first = tl.program_id(0) * t.run
    last: Any = tl.minimum(first + t.run, columns)
    whole = (last - first) // t.width * t.width
    row, lane = tl.arange(0, rows)[:, None], tl.arange(0, t.width)[None, :]
    left = a + outer * a_outer + inner * a_inner + row * a_row
    right = b + outer * b_outer + inner * b_inner + first
    result = c + outer * c_outer + inner * c_inner + row * c_row
    sums = tl.scratch(rows * t.run, t.accumulator) + row * t.run + lane

    def by_panel(work: Any) -> None:
        """Call `work(column, inside)` for all panels of the run."""
        for column in tl.range(0, whole, t.width):
            work(column, None)
        if whole < last - first:
            work(whole, lane < last - first - whole)

    def clear(column: Any, inside: Any) -> None:
        tl.store(sums + column, tl.zeros((rows, t.width), t.accumulator))

    def add(k: Any, count: int) -> None:
        """Add the products of `count` steps to the sums."""

        def panel(column: Any, inside: Any) -> None:
            acc = tl.load(sums + column)
            for step in tl.static_range(count):
                at = right + (k + step) * b_depth + column
                x = tl.load(left + (k + step) * a_depth).to(t.accumulator)
                acc = acc + x * tl.load(at + lane, inside).to(t.accumulator)
                for line in tl.static_range(0, t.width if t.line > 0 else 0, max(t.line, 1)):
                    tl.prefetch(at + count * b_depth + line)
            tl.store(sums + column, acc)

        by_panel(panel)

    def finish(column: Any, inside: Any) -> None:
        at = first + column + lane
        index = (*unravel(outer, t.outer), *unravel(inner, t.inner), row, at)
        tl.store(result + at, EPILOGUE(tl.load(sums + column), index, inside, extra), inside)

    by_panel(clear)
    for k in tl.range(0, depth // t.depth_block * t.depth_block, t.depth_block):
        add(k, t.depth_block)
    for k in tl.range(depth // t.depth_block * t.depth_block, depth):
        add(k, 1)
    by_panel(finish)


@kernel
def few_rows(
    a: Ptr[T],
    b: Ptr[P],
    c: Ptr[D],
    rows: constexpr,
    columns: i64,
    depth: i64,
    a_row: i64,
    a_depth: i64,
    a_inner: i64,
    a_outer: i64,
    b_depth: i64,
    b_inner: i64,
    b_outer: i64,
    c_row: i64,
    c_inner: i64,
    c_outer: i64,
    extra: tuple[Any, ...],
    t: Tiling,
    EPILOGUE: constexpr,
) -> None:
    """Compute C [rows, columns] = A [rows, depth] @ B [depth, columns], rows of B contiguous.

    A program takes `t.run` columns, and goes through the depth by `t.depth_block` steps. The sums
    lie in memory as panels [rows][width]. A part of B at a time is copied to panels
    [depth_block][width].
    """
    inner, outer = tl.program_id(1), tl.program_id(2)
    first = tl.program_id(0) * t.run
    last: Any = tl.minimum(first + t.run, columns)
    whole, rest = (last - first) // t.width, (last - first) % t.width
    left = a + outer * a_outer + inner * a_inner
    right = b + outer * b_outer + inner * b_inner + first
    result = c + outer * c_outer + inner * c_inner + first
    lane = tl.arange(0, t.width)[None, :]
    sums = tl.scratch(rows * t.run, t.accumulator)

    def finish(panel: Any, row: Any, height: int, acc: Any, inside: Any) -> None:
        """Store a block of results."""
        at = row + tl.arange(0, height)[:, None]
        column = panel * t.width + lane
        index = (*unravel(outer, t.outer), *unravel(inner, t.inner), at, first + column)
        value = EPILOGUE(acc, index, inside, extra)
        tl.store(result + at * c_row + column, value, inside)

    def place(panel: Any, row: Any, height: int) -> Any:
        """Return the addresses of the sums of a block."""
        at = row + tl.arange(0, height)[:, None]
        return sums + panel * (rows * t.width) + at * t.width + lane

    def block(
        panel: Any, row: Any, height: int, k: Any, size: Any, source: Any, valid: Any
    ) -> None:
        """Add the products of some steps to a block of sums; store it after the last ones."""
        inside = None if valid is None else lane < valid
        acc = tl.load(place(panel, row, height), k > 0)
        column = left + (row + tl.arange(0, height)[:, None]) * a_row + k * a_depth
        acc = product(acc, column, source + lane, size, a_depth, t.width, None)
        if k + t.depth_block < depth:
            tl.store(place(panel, row, height), acc)
        else:
            finish(panel, row, height, acc, inside)

    def blocks(work: Any) -> None:
        """Call `work(row, height)` for each block of rows."""
        row: Any = 0
        for height in t.heights:
            count = (rows - row) // height
            if count == 1:
                work(row, height)
            elif count > 1:
                start = row
                for i in tl.range(count):
                    work(start + i * height, height)
            row += count * height

    def copied(k: Any, size: Any) -> Any:
        """Copy a part of B, whole rows of the run one after another."""
        held = tl.scratch(t.depth_block * t.run, t.accumulator)
        source = right + k * b_depth

        def copy(panel: Any, step: Any, inside: Any) -> None:
            value = tl.load(source + step * b_depth + panel * t.width + lane, inside)
            tl.store(held + (panel * t.depth_block + step) * t.width + lane, value)

        for step in tl.range(size):
            for panel in tl.range(whole):
                copy(panel, step, None)
        if rest > 0:
            for step in tl.range(size):
                copy(whole, step, lane < rest)
        return held

    def part(k: Any, size: Any) -> None:
        """Add the products of some steps to all sums."""
        source = copied(k, size)

        def multiply(panel: Any, valid: Any) -> None:
            at = source + panel * (t.depth_block * t.width)
            blocks(lambda row, height: block(panel, row, height, k, size, at, valid))

        for panel in tl.range(whole):
            multiply(panel, None)
        if rest > 0:
            multiply(whole, rest)

    for k in tl.range(0, tl.maximum(depth, 1), t.depth_block):
        part(k, tl.minimum(t.depth_block, depth - k))
