"""Matrix products of small integers, by `dot` on tiles that the compiler cuts into registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import teeny_triton.language as tl
from teeny_kernels.kernels.matmul import unravel
from teeny_triton import Ptr, TypeVar, constexpr, i32, i64, kernel

T = TypeVar("T")
P = TypeVar("P")
D = TypeVar("D")


@dataclass(frozen=True)
class Blocks:
    """How a product is cut: the tile of a program, the steps of a product of tiles.

    `inner` and `outer` are extents of the output's batch axes that the second and the third grid
    axis stand for.
    """

    rows: int
    columns: int
    depth: int
    inner: tuple[int, ...] = ()
    outer: tuple[int, ...] = ()


@kernel
def matmul_integer(
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
    extra: tuple[Any, ...],
    t: Blocks,
    EPILOGUE: constexpr,
) -> None:
    """Compute C [rows, columns] = A [rows, depth] @ B [depth, columns] in i32.

    Grid: tiles of C, those of one row of tiles together, then the batch axes.
    """
    inner, outer = tl.program_id(1), tl.program_id(2)
    wide = tl.cdiv(columns, t.columns)
    row = tl.program_id(0) // wide * t.rows + tl.arange(0, t.rows)[:, None]
    column = tl.program_id(0) % wide * t.columns + tl.arange(0, t.columns)[None, :]
    left = a + outer * a_outer + inner * a_inner + row * a_row
    right = b + outer * b_outer + inner * b_inner + column * b_column
    total = tl.zeros((t.rows, t.columns), i32)
    for k in tl.range(0, depth, t.depth):
        along, down = k + tl.arange(0, t.depth)[None, :], k + tl.arange(0, t.depth)[:, None]
        x = tl.load(left + along * a_depth, (row < rows) & (along < depth), 0)
        y = tl.load(right + down * b_depth, (down < depth) & (column < columns), 0)
        total = tl.dot(x, y, total)
    mask = (row < rows) & (column < columns)
    index = (*unravel(outer, t.outer), *unravel(inner, t.inner), row, column)
    value = EPILOGUE(total, index, mask, extra)
    result = c + outer * c_outer + inner * c_inner
    tl.store(result + row * c_row + column, value, mask)
