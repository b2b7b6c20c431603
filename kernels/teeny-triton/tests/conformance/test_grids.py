"""Programs of grids of one to three axes: what they are told, and what they do together."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import teeny_triton as triton
import teeny_triton.language as tl

GRIDS = ((1,), (7,), (3, 2), (1, 5), (2, 3, 4), (4, 1, 2), (0,), (3, 0))
DTYPES = ("int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64")

pytestmark = pytest.mark.usefixtures("mode")


@triton.jit
def numbers(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    width, height, depth = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    place = out + ((z * height + y) * width + x) * 6
    tl.store(place + tl.arange(0, 2), tl.join(x, y))
    tl.store(place + 2, z)
    tl.store(place + 3, width)
    tl.store(place + 4 + tl.arange(0, 2), tl.join(height, depth))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_programs_are_told_their_place(grid: tuple[int, ...]) -> None:
    extents = (*grid, 1, 1)[:3]
    out = np.full((*extents[::-1], 6), -1, np.int32)
    numbers[grid](out)
    z, y, x = np.indices(extents[::-1])
    sizes = [np.full_like(x, extent) for extent in extents]
    np.testing.assert_array_equal(out, np.stack([x, y, z, *sizes], -1))


@triton.jit
def scaled(
    x, out, planes, rows, columns, x_plane: tl.int64, x_row: tl.int64, x_column: tl.int64,
    out_plane: tl.int64, out_row: tl.int64, out_column: tl.int64,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Twice the elements of a block, and the number of its plane."""
    plane = tl.program_id(2)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < columns) & (plane < planes)
    place = plane * x_plane + row * x_row + column * x_column
    value = tl.load(x + place, mask=inside)
    result = (value + value + plane.to(value.dtype)).to(value.dtype)
    tl.store(out + plane * out_plane + row * out_row + column * out_column, result, mask=inside)


@pytest.mark.parametrize("shape", [(3, 13, 9), (1, 4, 8), (2, 1, 1)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_of_a_cube_of_any_strides(dtype: str, shape: tuple[int, int, int]) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    held = np.random.default_rng(0).integers(0, 40, (shape[2], 2 * shape[1], shape[0]))
    x = held.astype(kind).transpose(2, 1, 0)[::-1, ::2]
    out = np.zeros((shape[0] + 1, *shape[1:]), kind)[:, :, ::-1]

    def steps(array: Any) -> list[int]:
        return [step // array.itemsize for step in array.strides]

    grid = (triton.cdiv(shape[2], 4), triton.cdiv(shape[1], 8), shape[0] + 1)
    scaled[grid](x, out, *shape, *steps(x), *steps(out), ROWS=8, COLUMNS=4)
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(
        out[:-1].astype(np.float64), 2 * wide + np.arange(shape[0])[:, None, None]
    )
    assert not out[-1].astype(np.float64).any()


@triton.jit
def striding(x, total, rows, columns, stride: tl.int64, BLOCK: tl.constexpr):
    """Sum a matrix: each program takes every so many rows and blocks."""
    found = tl.zeros((BLOCK,), tl.float64)
    for row in range(tl.program_id(1), rows, tl.num_programs(1)):
        for block in range(tl.program_id(0), tl.cdiv(columns, BLOCK), tl.num_programs(0)):
            column = block * BLOCK + tl.arange(0, BLOCK)
            found += tl.load(x + row * stride + column, mask=column < columns, other=0).to(
                tl.float64
            )
    tl.atomic_add(total, tl.sum(found, 0))


@pytest.mark.parametrize("grid", [(1,), (3,), (2, 3), (5, 20)], ids=str)
def test_grids_of_any_extents_share_one_piece_of_work(grid: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).integers(-9, 9, (11, 37)).astype(np.float32)[:, :30]
    total = np.zeros(1)
    striding[grid](x, total, *x.shape, x.strides[0] // 4, BLOCK=8)
    assert total[0] == math.fsum(x.ravel())
