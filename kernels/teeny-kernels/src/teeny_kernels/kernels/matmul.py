"""Matrix products by outer products of registers.

A program computes a *panel*, some columns of the result, over a run of rows. A block of results
stays in registers over the whole depth: each step takes `height` numbers of A, read in place and
broadcast, and one row of the panel of B, a few vector registers. The panel is read in place where
its rows are contiguous and few; else it is first copied, by the program or by a launch before, to
[depth][width] without gaps. (K. Goto, R. van de Geijn: "Anatomy of high-performance matrix
multiplication", ACM TOMS 34(3), 2008; there A is packed, here it is B that most gains by it.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import teeny_triton.language as tl
from teeny_core import DType
from teeny_triton import Ptr, Tile, TypeVar, constexpr, i64, kernel

T = TypeVar("T")
P = TypeVar("P")
D = TypeVar("D")

PACKED_BLOCKS = 8
"""Blocks of rows that a program packs."""


@dataclass(frozen=True)
class Tiling:
    """How a product is cut.

    Attributes:
        accumulator: type of the sums.
        lanes: elements of a vector register.
        heights: rows of a block, from the usual one to those that finish the rows.
        width: columns of a panel, a multiple of the lanes.
        full: number of panels without a rest, None when the number of columns is symbolic.
        rest: columns of the panel after those, 0 when there is none.
        run: rows of a program, a multiple of the usual height.
        source: where panels are read: "direct" from B, "copied" by the program into its
            scratch memory, or "packed" by an earlier launch.
        depth_block: steps that a copied panel holds; 0: all of them.
        packed_rows: whether A was packed by an earlier launch.
        inner: extents of the output's batch axes that the second grid axis stands for.
        outer: the same for the third.
        line: elements of B in a line of the caches where lines are asked for in advance, else 0.
    """

    accumulator: DType
    lanes: int
    heights: tuple[int, ...]
    width: int
    full: int | None
    rest: int
    run: int
    source: Literal["direct", "copied", "packed"]
    depth_block: int = 0
    packed_rows: bool = False
    inner: tuple[int, ...] = ()
    outer: tuple[int, ...] = ()
    line: int = 0


@kernel
def product(acc: Any, a: Any, b: Any, depth: Any, a_step: Any, b_step: Any, inside: Any) -> Any:
    """Return `acc` plus the sum over `depth` steps of a column [R, 1] times a row [1, C].

    `a` and `b` are addresses at step 0; `inside` masks the row.
    """
    for k in range(depth):
        column = tl.load(a + k * a_step).to(acc.dtype)
        row = tl.load(b + k * b_step, inside).to(acc.dtype)
        acc = acc + column * row
    return acc


@kernel
def by_panel(panel: Any, columns: Any, t: Tiling, work: Any) -> None:
    """Call `work(width, valid)` for a panel: its columns in registers, and how many are in C.

    `valid` is None where all are.
    """
    tail = tl.cdiv(t.rest, t.lanes) * t.lanes
    valid = t.rest if t.rest != tail else None
    if t.full is None:
        work(t.width, columns - panel * t.width)
    elif t.rest == 0:
        work(t.width, None)
    elif t.full == 0:
        work(tail, valid)
    elif panel < t.full:
        work(t.width, None)
    else:
        work(tail, valid)


@kernel
def pack_panel(
    panel: Any,
    b: Any,
    depth: Any,
    b_depth: Any,
    b_column: Any,
    width: Any,
    valid: Any,
    lanes: Any,
    made: Any = None,
) -> None:
    """Copy [depth, valid] elements of B to `panel` as [depth rounded up to lanes][width].

    What lies outside becomes zero. `made(step, column, mask)` gives elements where B is not in
    memory.
    """
    step = tl.arange(0, lanes)[:, None]
    whole = depth // lanes * lanes

    def elements(at: Any, k: Any, mask: Any) -> Any:
        if made is None:
            return tl.load(b + step * b_depth + at * b_column + k * b_depth, mask)
        value = made(k + step, at, mask)
        return value if mask is None else tl.where(mask, value, 0)

    for column in tl.static_range(0, width, lanes):
        at = column + tl.arange(0, lanes)[None, :]
        inside = None if valid is None else at < valid
        to = panel + step * width + at
        for k in range(0, whole, lanes):
            tl.store(to + k * width, elements(at, k, inside))
        if depth % lanes != 0:
            last = whole + step < depth
            last = last if inside is None else last & inside
            tl.store(to + whole * width, elements(at, whole, last))


@kernel
def pack_columns(
    b: Ptr[T],
    packed: Ptr[P],
    columns: i64,
    depth: i64,
    b_depth: i64,
    b_column: i64,
    b_inner: i64,
    b_outer: i64,
    t: Tiling,
) -> None:
    """Pack B [depth, columns] into panels, a program for each panel of each batch item."""
    panel, inner, outer = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    padded: Any = tl.cdiv(depth, t.lanes) * t.lanes
    item = (outer * tl.num_programs(1) + inner) * tl.num_programs(0)
    to = packed + (item + panel) * (t.width * padded)
    source = b + outer * b_outer + inner * b_inner + panel * t.width * b_column

    def pack(width: Any, valid: Any) -> None:
        pack_panel(to, source, depth, b_depth, b_column, width, valid, t.lanes)

    by_panel(panel, columns, t, pack)


@kernel
def pack_rows(a: Ptr[T], packed: Ptr[P], rows: i64, depth: i64, a_depth: i64, t: Tiling) -> None:
    """Pack A [rows, depth], whose columns are contiguous, a program for `PACKED_BLOCKS` blocks.

    The block of `height` rows from row r on lies at r * depth as [depth][height]. The blocks of a
    program are packed side by side, so that A is read by long runs. Whole vectors are copied where
    there are as many rows; what lies past the block is then written again by the next step.
    """
    height = t.heights[0]
    wide = tl.cdiv(height, t.lanes) * t.lanes
    full = rows // height
    first = tl.program_id(0) * PACKED_BLOCKS
    last = tl.minimum(first + PACKED_BLOCKS, full)
    before: Any = tl.maximum(depth - 1, 0) if wide <= 2 * height else 0
    whole: Any = tl.minimum(tl.maximum((rows - wide) // height + 1, first), last)

    def copy(row: Any, count: int, k: Any, size: int) -> None:
        at = tl.arange(0, size)
        value = tl.load(a + row + at + k * a_depth)
        tl.store(packed + row * depth + k * count + at, value)

    for k in tl.range(before):
        for block in tl.range(first, whole):
            copy(block * height, height, k, wide)
        for block in tl.range(whole, last):
            copy(block * height, height, k, height)
    for k in tl.range(before, depth):
        for block in tl.range(first, last):
            copy(block * height, height, k, height)
    if len(t.heights) > 1 and first + PACKED_BLOCKS > full:
        for k in tl.range(depth):
            copy(full * height, t.heights[1], k, t.heights[1])


@kernel
def unravel(program: Any, extents: Any) -> Any:
    """Return the indices of the axes of some `extents` that one program index stands for."""
    index: tuple[Any, ...] = ()
    for extent in extents[:0:-1]:
        index = (program % extent, *index)
        program = program // extent
    return (program, *index) if len(extents) > 0 else index


@kernel
def matmul(
    a: Ptr[T],
    b: Ptr[P],
    c: Ptr[D],
    rows: i64,
    columns: i64,
    depth: i64,
    a_row: i64,
    a_depth: i64,
    a_inner: i64,
    a_outer: i64,
    b_depth: i64,
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
    """Compute C [rows, columns] = A [rows, depth] @ B [depth, columns], rows of C contiguous.

    With a `PROLOGUE`, B does not lie in memory, and each program makes its panel.

    Grid: panels times runs of rows, then the batch axes `inner` and `outer`.
    """
    inner, outer = tl.program_id(1), tl.program_id(2)
    runs = tl.cdiv(rows, t.run)
    panel, first = tl.program_id(0) // runs, tl.program_id(0) % runs * t.run
    last = tl.minimum(first + t.run, rows)
    left = a + outer * a_outer + inner * a_inner
    right = b + outer * b_outer + inner * b_inner + panel * t.width * b_column
    result = c + outer * c_outer + inner * c_inner
    padded: Any = tl.cdiv(depth, t.lanes) * t.lanes

    def compute(width: Any, valid: Any) -> None:
        """Compute one panel over the run of rows."""
        lane = tl.arange(0, width)[None, :]
        mask = None if valid is None else lane < valid

        def finish(acc: Tile, row: Tile) -> None:
            """Store a block of results."""
            index = (
                *unravel(outer, t.outer),
                *unravel(inner, t.inner),
                row,
                panel * t.width + lane,
            )
            value = EPILOGUE(acc, index, mask, extra)
            tl.store(result + row * c_row + panel * t.width + lane, value, mask)

        def pack(panel_at: Any, source: Any, k: Any, size: Any) -> None:
            """Copy some steps of the panel from step k on, or make them."""
            make: Any = None
            if PROLOGUE is not None:
                make = lambda step, at, mask: PROLOGUE(  # noqa: E731
                    (k + step, panel * t.width + at), mask, made
                )
            pack_panel(panel_at, source, size, b_depth, b_column, width, valid, t.lanes, make)

        def column_of(row: Any, height: int, k: Any) -> Any:
            """Return the addresses of a column of A at step k, and from step to step."""
            if t.packed_rows:
                return left + row * depth + tl.arange(0, height)[:, None] + k * height, height
            return left + (row + tl.arange(0, height)[:, None]) * a_row + k * a_depth, a_depth

        def blocks(work: Any) -> None:
            """Call `work(row, height)` for each block of rows."""
            row = first
            for height in t.heights:
                count = (last - row) // height
                for i in tl.range(count):
                    work(row + i * height, height)
                row += count * height

        def at_once(source: Any, step: Any, inside: Any) -> None:
            """Run through the whole depth in one go."""

            def block(row: Any, height: int) -> None:
                acc = tl.zeros((height, width), t.accumulator)
                column, a_step = column_of(row, height, 0)
                acc = product(acc, column, source + lane, depth, a_step, step, inside)
                finish(acc, row + tl.arange(0, height)[:, None])

            blocks(block)

        def by_parts() -> None:
            """Copy a part of the panel, add its products to the sums in memory, and so on."""
            held = tl.scratch(t.depth_block * width, t.accumulator)
            sums = tl.scratch(t.run * width, t.accumulator)

            def part(k: Any, size: Any) -> None:
                source = right + k * b_depth
                pack(held, source, k, size)
                blocks(lambda row, height: block(row, height, k, size))

            def block(row: Any, height: int, k: Any, size: Any) -> None:
                at = row + tl.arange(0, height)[:, None]
                place = sums + (at - first) * width + lane
                acc = tl.load(place, k > 0)
                column, a_step = column_of(row, height, k)
                acc = product(acc, column, held + lane, size, a_step, width, None)
                if k + t.depth_block < depth:
                    tl.store(place, acc)
                else:
                    finish(acc, at)

            for k in tl.range(0, tl.maximum(depth, 1), t.depth_block):
                part(k, tl.minimum(t.depth_block, depth - k))

        if t.source == "direct":
            at_once(right, b_depth, mask)
        elif t.source == "packed":
            item = (outer * tl.num_programs(1) + inner) * (tl.num_programs(0) // runs)
            at_once(b + (item + panel) * (t.width * padded), width, None)
        elif t.depth_block == 0:
            held = tl.scratch(padded * width, t.accumulator)
            pack(held, right, 0, depth)
            at_once(held, width, None)
        else:
            by_parts()

    by_panel(panel, columns, t, compute)
