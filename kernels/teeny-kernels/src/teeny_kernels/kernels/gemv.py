"""Products of few rows with rows that lie along the depth: dot products, lanes along the depth."""

from __future__ import annotations

from typing import Any

import teeny_triton.language as tl
from teeny_kernels.kernels.matmul import Tiling, unravel
from teeny_triton import Ptr, TypeVar, constexpr, i64, kernel

T = TypeVar("T")
D = TypeVar("D")


@kernel
def matvec(
    a: Ptr[T],
    b: Ptr[T],
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
    extra: tuple[Any, ...],
    t: Tiling,
    EPILOGUE: constexpr,
) -> None:
    """Compute C [rows, columns] = A [rows, depth] @ B [columns, depth] transposed.

    A program takes `t.run` columns. Partial sums, one for each lane, are added up at the end.
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
        for k in range(0, whole, t.lanes):
            x = tl.load(left + k).to(t.accumulator)
            acc = acc + x * tl.load(place + k).to(t.accumulator)
        if depth % t.lanes != 0:
            inside = whole + lane < depth
            x = tl.load(left + whole, inside).to(t.accumulator)
            acc = acc + x * tl.load(place + whole, inside).to(t.accumulator)
        index = (*unravel(outer, t.outer), *unravel(inner, t.inner), row, at)
        tl.store(result + at, EPILOGUE(tl.sum(acc, 2), index, None, extra))

    column = first
    for count in t.heights:
        if last - column >= count:
            dots(column, count)
        column += (last - column) // count * count
