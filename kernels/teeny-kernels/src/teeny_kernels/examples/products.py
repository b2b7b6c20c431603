"""Matrix products: tuned, persistent, of many sizes at once, and of numbers that share scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import teeny_triton.language as tl
from teeny_triton import Config, Ptr, TypeVar, autotune, cdiv, constexpr, f32, i32, i64, kernel
from teeny_triton.tools.tensor_descriptor import TensorDescriptor

Array = Any
T = TypeVar("T")
PROGRAMS = 4  # among which blocks are dealt out


@kernel
def product(
    a: Ptr[T],
    b: Ptr[T],
    row: Any,
    column: Any,
    M: i32,
    N: i32,
    K: i32,
    DEPTH: constexpr[int],
) -> Any:
    """Return the rows `row` and columns `column` of a @ b, as a tile of f32; called by others."""
    acc = tl.zeros((row.shape[0], column.shape[0]), f32)
    for start in tl.range(0, K, DEPTH):
        k = start + tl.arange(0, DEPTH)
        left_inside = (row < M)[:, None] & (k < K)[None, :]
        right_inside = (k < K)[:, None] & (column < N)[None, :]
        left = tl.load(a + row[:, None] * K + k[None, :], mask=left_inside, other=0.0)
        right = tl.load(b + k[:, None] * N + column[None, :], mask=right_inside, other=0.0)
        acc = tl.dot(left, right, acc)
    return acc


@autotune(
    [
        Config({"ROWS": 32, "COLUMNS": 64, "DEPTH": 64, "GROUP": 4}),
        Config({"ROWS": 64, "COLUMNS": 64, "DEPTH": 32, "GROUP": 8}),
    ],
    key=["M", "N", "K"],
    warmup=1,
    rep=5,
)
@kernel
def matmul_kernel(
    a: Ptr[T],
    b: Ptr[T],
    c: Ptr[T],
    M: i32,
    N: i32,
    K: i32,
    ROWS: constexpr[int],
    COLUMNS: constexpr[int],
    DEPTH: constexpr[int],
    GROUP: constexpr[int],
) -> None:
    """One block of c = a @ b.

    Neighbouring programs walk down `GROUP` blocks of rows before they step to the next column, so
    that they find rows of a and columns of b in the caches.
    """
    columns = tl.cdiv(N, COLUMNS)
    block = tl.program_id(0)
    down, across = tl.swizzle2d(block // columns, block % columns, tl.cdiv(M, ROWS), columns, GROUP)
    row = down * ROWS + tl.arange(0, ROWS)
    column = across * COLUMNS + tl.arange(0, COLUMNS)
    acc = product(a, b, row, column, M, N, K, DEPTH)
    inside = (row < M)[:, None] & (column < N)[None, :]
    tl.store(c + row[:, None] * N + column[None, :], acc, mask=inside)


def matmul(a: Array, b: Array) -> Array:
    """Return a @ b, summed in f32, by whichever blocks are fastest for the sizes."""
    (m, k), n = a.shape, b.shape[1]
    c = np.empty((m, n), a.dtype)
    matmul_kernel[lambda meta: (cdiv(m, meta["ROWS"]) * cdiv(n, meta["COLUMNS"]),)](
        a, b, c, m, n, k
    )
    return c


@kernel
def persistent_matmul_kernel(
    a: Any, b: Any, c: Any, M: i32, N: i32, K: i32, DEPTH: constexpr[int]
) -> None:
    """Blocks of c = a @ b.T, which a fixed number of programs deal out among themselves.

    The tensors come as descriptors, which know their bounds and the shapes of their blocks.
    """
    rows, columns = c.block_shape
    across = tl.cdiv(N, columns)
    for block in tl.range(tl.program_id(0), tl.cdiv(M, rows) * across, tl.num_programs(0)):
        row, column = block // across * rows, block % across * columns
        acc = tl.zeros((rows, columns), f32)
        for k in tl.range(0, K, DEPTH):
            acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
        c.store([row, column], acc.to(c.dtype))


def persistent_matmul(a: Array, b: Array) -> Array:
    """Return a @ b.T."""
    (m, k), n = a.shape, b.shape[0]
    c = np.empty((m, n), a.dtype)
    rows, columns, depth = 32, 32, 32
    described = (
        TensorDescriptor.from_tensor(x, list(block))
        for x, block in ((a, (rows, depth)), (b, (columns, depth)), (c, (rows, columns)))
    )
    persistent_matmul_kernel[(PROGRAMS,)](*described, m, n, k, DEPTH=depth)
    return c


@kernel
def grouped_matmul_kernel(
    a: Ptr[i64],
    b: Ptr[i64],
    c: Ptr[i64],
    sizes: Ptr[i32],
    count: i32,
    ELEMENT: constexpr,
    ROWS: constexpr[int],
    COLUMNS: constexpr[int],
    DEPTH: constexpr[int],
) -> None:
    """Products of `count` sizes in one launch; the tables hold addresses, and M, N and K of each.

    The blocks of all of them are numbered through, and program p takes p, p + programs, ...
    """
    block = tl.program_id(0)
    first = tl.full((), 0, i32)
    for problem in tl.range(count):
        M = tl.load(sizes + problem * 3)
        N = tl.load(sizes + problem * 3 + 1)
        K = tl.load(sizes + problem * 3 + 2)
        across = tl.cdiv(N, COLUMNS)
        end = first + tl.cdiv(M, ROWS) * across
        left = tl.load(a + problem).to(tl.pointer_type(ELEMENT))
        right = tl.load(b + problem).to(tl.pointer_type(ELEMENT))
        result = tl.load(c + problem).to(tl.pointer_type(ELEMENT))
        while block < end:
            row = (block - first) // across * ROWS + tl.arange(0, ROWS)
            column = (block - first) % across * COLUMNS + tl.arange(0, COLUMNS)
            acc = product(left, right, row, column, M, N, K, DEPTH)
            inside = (row < M)[:, None] & (column < N)[None, :]
            tl.store(result + row[:, None] * N + column[None, :], acc, mask=inside)
            block += tl.num_programs(0)
        first = end


def grouped_matmul(a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    """Return the product of each pair, all f32 and of any sizes."""
    c = [np.empty((x.shape[0], y.shape[1]), np.float32) for x, y in zip(a, b, strict=True)]
    tables = [np.array([x.ctypes.data for x in group], np.int64) for group in (a, b, c)]
    sizes = [(*x.shape[:1], y.shape[1], x.shape[1]) for x, y in zip(a, b, strict=True)]
    grouped_matmul_kernel[(PROGRAMS,)](
        *tables, np.array(sizes, np.int32), len(c), ELEMENT=f32, ROWS=32, COLUMNS=32, DEPTH=32
    )
    return c


@kernel
def scaled_matmul_kernel(
    a: Ptr[T],
    a_scale: Ptr[tl.u8],
    b: Ptr[T],
    b_scale: Ptr[tl.u8],
    c: Ptr[f32],
    M: i32,
    N: i32,
    K: i32,
    FORMAT: constexpr[str],
    ROWS: constexpr[int],
    COLUMNS: constexpr[int],
    DEPTH: constexpr[int],
) -> None:
    """One block of c = a @ b.T, of which 32 neighbours along K share a power of two."""
    packed = 2 if FORMAT == "e2m1" else 1  # numbers in a byte
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    left_rows, right_rows = (row < M)[:, None], (column < N)[:, None]
    width, groups = K // packed, K // 32
    acc = tl.zeros((ROWS, COLUMNS), f32)
    for start in tl.range(0, K, DEPTH):
        k = (start // packed + tl.arange(0, DEPTH // packed))[None, :]
        left = tl.load(a + row[:, None] * width + k, mask=left_rows)
        right = tl.load(b + column[:, None] * width + k, mask=right_rows)
        group = (start // 32 + tl.arange(0, DEPTH // 32))[None, :]
        left_scale = tl.load(a_scale + row[:, None] * groups + group, mask=left_rows)
        right_scale = tl.load(b_scale + column[:, None] * groups + group, mask=right_rows)
        acc = tl.dot_scaled(
            left, left_scale, FORMAT, right.T, right_scale, FORMAT, acc=acc, out_dtype=f32
        )
    inside = left_rows & (column < N)[None, :]
    tl.store(c + row[:, None] * N + column[None, :], acc, mask=inside)


def scaled_matmul(a: Array, a_scale: Array, b: Array, b_scale: Array, form: str) -> Array:
    """Return a @ b.T of blocks of small numbers (OCP Microscaling Formats 1.0).

    Args:
        a: [M, K] of f8 for "e4m3" and "e5m2", [M, K / 2] of u8 for "e2m1".
        a_scale: [M, K / 32] of u8; s stands for 2 ** (s - 127).
        b: as a, with N rows.
        b_scale: as a_scale, with N rows.
        form: "e4m3", "e5m2" or "e2m1". K is a multiple of 64.
    """
    m, n, k = a.shape[0], b.shape[0], a_scale.shape[1] * 32
    c = np.empty((m, n), np.float32)
    grid = (cdiv(m, 32), cdiv(n, 32))
    scaled_matmul_kernel[grid](
        a, a_scale, b, b_scale, c, m, n, k, FORMAT=form, ROWS=32, COLUMNS=32, DEPTH=64
    )
    return c
