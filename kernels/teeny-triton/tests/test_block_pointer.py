"""Block pointers and tensor descriptors, interpreted and native, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
import teeny_triton as triton
import teeny_triton.language as tl
from teeny_core import KernelError
from teeny_triton.tools import TensorDescriptor


@pytest.fixture(autouse=True)
def modes(mode: str) -> None:
    """Run every test interpreted and native."""


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def padded(x: np.ndarray, row: int, column: int, shape: tuple[int, int], fill: float) -> np.ndarray:
    """The block at (row, column) of a matrix that goes on forever, filled."""
    rows, columns = np.arange(row, row + shape[0]), np.arange(column, column + shape[1])
    result = np.full(shape, fill, x.dtype)
    for (i, r), (j, c) in itertools.product(enumerate(rows), enumerate(columns)):
        if 0 <= r < x.shape[0] and 0 <= c < x.shape[1]:
            result[i, j] = x[r, c]
    return result


@triton.jit
def copy_block(
    out, x, M, N, row, column, stride_m, stride_n,
    BM: tl.constexpr, BN: tl.constexpr, CHECK: tl.constexpr, PADDING: tl.constexpr,
):  # fmt: skip
    source = tl.make_block_ptr(x, (M, N), (stride_m, stride_n), (row, column), (BM, BN), (1, 0))
    target = tl.make_block_ptr(out, (BM, BN), (BN, 1), (0, 0), (BM, BN), (1, 0))
    tl.store(target, tl.load(source, boundary_check=CHECK, padding_option=PADDING))


@pytest.mark.parametrize("place", [(0, 0), (3, 2), (-2, -3), (9, 4), (-20, 0), (40, 40)])
@pytest.mark.parametrize("padding", ["zero", "nan", ""])
def test_blocks_are_padded(place: tuple[int, int], padding: str) -> None:
    x = normal(11, 7)
    out = np.zeros((8, 5), np.float32)
    copy_block[(1,)](out, x, 11, 7, *place, 7, 1, 8, 5, (0, 1), padding)
    fill = np.nan if padding == "nan" else 0.0
    np.testing.assert_array_equal(out, padded(x, *place, (8, 5), fill))


def test_strides_and_checks_of_single_axes() -> None:
    x = normal(12, 8)
    out = np.zeros((4, 4), np.float32)
    copy_block[(1,)](out, x.T, 8, 12, 6, 4, 1, 8, 4, 4, (0,), "zero")
    np.testing.assert_array_equal(out, padded(np.ascontiguousarray(x.T), 6, 4, (4, 4), 0.0))
    copy_block[(1,)](out, x, 12, 8, 4, 4, 8, 1, 4, 4, (), "")
    np.testing.assert_array_equal(out, x[4:8, 4:8])
    copy_block[(1,)](out, x, 12, 8, 4, 6, 8, 1, 4, 4, 1, "")
    np.testing.assert_array_equal(out, padded(x, 4, 6, (4, 4), 0.0))


@triton.jit
def negate_block(x, M, N, row, column, BM: tl.constexpr, BN: tl.constexpr):
    block = tl.make_block_ptr(x, (M, N), (N, 1), (row, column), (BM, BN), (1, 0))
    tl.store(block, -tl.load(block, boundary_check=(0, 1)), boundary_check=(0, 1))


@pytest.mark.parametrize("place", [(0, 0), (9, 4), (-2, -3), (40, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int64])
def test_stores_stay_inside(place: tuple[int, int], dtype: Any) -> None:
    x = (normal(11, 7) * 10).astype(dtype)
    expected = x.copy()
    rows, columns = (slice(max(p, 0), max(p + n, 0)) for p, n in zip(place, (8, 5), strict=True))
    expected[rows, columns] *= -1
    negate_block[(1,)](x, 11, 7, *place, 8, 5)
    np.testing.assert_array_equal(x, expected)


@triton.jit
def matmul_blocks(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    a = tl.make_block_ptr(
        base=a_ptr, shape=(M, K), strides=(stride_am, stride_ak), offsets=(pid_m * BM, 0),
        block_shape=(BM, BK), order=(1, 0),
    )  # fmt: skip
    b = tl.make_block_ptr(
        base=b_ptr, shape=(K, N), strides=(stride_bk, stride_bn), offsets=(0, pid_n * BN),
        block_shape=(BK, BN), order=(1, 0),
    )  # fmt: skip
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(a, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(b, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(x, y)
        a = tl.advance(a, (0, BK))
        b = b.advance((BK, 0))
    c = tl.make_block_ptr(
        c_ptr, (M, N), (stride_cm, stride_cn), (pid_m * BM, pid_n * BN), (BM, BN), (1, 0)
    )
    tl.store(c, acc.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (33, 20, 17), (1, 50, 40), (64, 32, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_matmul(m: int, n: int, k: int, dtype: Any) -> None:
    a, b = normal(m, k).astype(dtype), normal(k, n, seed=1).astype(dtype)
    c = np.zeros((m, n), dtype)
    grid = (triton.cdiv(m, 16), triton.cdiv(n, 16))
    matmul_blocks[grid](a, b, c, m, n, k, k, 1, n, 1, n, 1, 16, 16, 16)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, exact, atol=1e-4 if dtype is np.float32 else 2e-2, rtol=1e-3)


@triton.jit
def step(pointer, by):
    return tl.advance(pointer, (by,)), by + 1


@triton.jit
def carried(out, x, y, n, BLOCK: tl.constexpr):
    """Sum blocks while walking over them in a `while`, from `x` or `y`, by growing steps."""
    if tl.program_id(0) % 2 == 0:
        p = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
    else:
        p = tl.make_block_ptr(y, (n,), (1,), (BLOCK,), (BLOCK,), (0,))
    total = tl.zeros((BLOCK,), tl.float32)
    place, by = 0, 1
    while place < n:
        total += tl.load(p, boundary_check=(0,))
        place += by
        p, by = step(p, by)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@pytest.mark.parametrize("n", [0, 1, 10, 33])
def test_branches_helpers_and_while(n: int) -> None:
    x, y = normal(n), normal(n, seed=1)
    out = np.zeros((2, 4), np.float32)
    carried[(2,)](out, x, y, n, BLOCK=4)
    for program, (source, first) in enumerate([(x, 0), (y, 4)]):
        long = np.concatenate([source, np.zeros(100, np.float32)])
        expected, place, by = np.zeros(4), 0, 1
        while place < n:
            expected += long[first + place : first + place + 4]
            place, by = place + by, by + 1
        np.testing.assert_allclose(out[program], expected, atol=1e-5)


@triton.jit
def describe(out, x, M, N, row, column, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    tl.static_assert(source.block_shape[0] == BM and source.dtype == x.dtype.element_ty)
    block = source.load([row, column])
    target.store([row, column], block + 1)
    again = tl.load_tensor_descriptor(target, [row, column])
    tl.store_tensor_descriptor(target, [row, column], again * 2)


@pytest.mark.parametrize("place", [(0, 0), (9, 4), (-2, -3), (40, 0)])
def test_device_descriptors(place: tuple[int, int]) -> None:
    x, out = normal(11, 7), np.zeros((11, 7), np.float32)
    expected = out.copy()
    rows, columns = (slice(max(p, 0), max(p + n, 0)) for p, n in zip(place, (8, 4), strict=True))
    expected[rows, columns] = (x[rows, columns] + 1) * 2
    describe[(1,)](out, x, 11, 7, *place, 8, 4)
    np.testing.assert_array_equal(out, expected)


@triton.jit
def copy_described(source, target, row, column):
    tl.static_assert(source.block_shape == target.block_shape)
    block = source.load([row * source.block_shape[0], column * 4])
    target.store([row * 8, column * 4], block + (source.shape[0] - source.shape[1]))


@pytest.mark.parametrize("shape", [(11, 7), (8, 4), (1, 1), (20, 13)])
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_host_descriptors(shape: tuple[int, int], padding: str) -> None:
    x, out = normal(*shape), np.zeros((16, 12), np.float32)
    source = TensorDescriptor.from_tensor(x, [8, 4], padding)
    target = TensorDescriptor.from_tensor(out, [8, 4])
    copy_described[(1,)](source, target, 1, 2)
    expected = np.zeros((16, 12), np.float32)
    fill = np.nan if padding == "nan" else 0.0
    expected[8:16, 8:12] = padded(x, 8, 8, (8, 4), fill) + (shape[0] - shape[1])
    np.testing.assert_array_equal(out, expected)


@triton.jit
def described(tensor, shape, strides, block_shape):
    if isinstance(tensor, tl.tensor_descriptor):
        return tensor
    else:
        return tl.make_tensor_descriptor(tensor, shape, strides, block_shape)


@triton.jit
def double_through(out, x, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = described(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = described(out, [M, N], [N, 1], [BM, BN])
    for row in range(0, source.shape[0], BM):
        target.store([row, 0], source.load([row, 0]) * 2)


def test_kernels_that_take_descriptors_or_pointers() -> None:
    x, out, other = normal(9, 6), *np.zeros((2, 9, 6), np.float32)
    double_through[(1,)](out, x, 9, 6, 4, 8)
    source, target = (TensorDescriptor.from_tensor(a, [4, 8]) for a in (x, other))
    double_through[(1,)](target, source, 9, 6, 4, 8)
    np.testing.assert_array_equal(out, x * 2)
    np.testing.assert_array_equal(other, x * 2)


def test_descriptors_of_torch_tensors_and_parts() -> None:
    torch = pytest.importorskip("torch")
    x, out = torch.randn(32, 24), torch.zeros(16, 12)
    source = TensorDescriptor(x[3:, 2:], [20, 9], [24, 1], [8, 4])
    copy_described[(1,)](source, TensorDescriptor.from_tensor(out, [8, 4]), 1, 2)
    expected = torch.zeros(16, 12)
    expected[8:16, 8:12] = 11.0
    expected[8:16, 8:9] += x[11:19, 10:11]
    torch.testing.assert_close(out, expected)
    with pytest.raises(KernelError, match="the last stride of a descriptor is 1, not 24"):
        TensorDescriptor.from_tensor(x.T, [8, 4])
    with pytest.raises(KernelError, match="as many shape, stride and block extents"):
        TensorDescriptor.from_tensor(x, [8])


@triton.jit
def move_rows(target, source, index, column, ROWS: tl.constexpr):
    rows = tl.load(index + tl.arange(0, ROWS))
    block = source.gather(rows, column)
    target.scatter(block * 2, rows, column + 1)


def test_rows_are_gathered_and_scattered() -> None:
    x, out = normal(9, 6), np.zeros((9, 6), np.float32)
    index = np.array([3, 0, 8, 9, -1, 5, 100, 1], np.int32)
    source, target = (TensorDescriptor.from_tensor(a, [1, 4]) for a in (x, out))
    move_rows[(1,)](target, source, index, 3, ROWS=8)
    expected = np.zeros((9, 6), np.float32)
    for row in (3, 0, 8, 5, 1):
        expected[row, 4:6] = x[row, 3:5] * 2
    np.testing.assert_array_equal(out, expected)


@triton.jit
def accumulate(target, row, column, BM: tl.constexpr, BN: tl.constexpr):
    target.atomic_add([row, column], tl.full((BM, BN), 1.5, tl.float32))


def test_descriptors_add_atomically() -> None:
    out = normal(11, 7)
    expected = out.copy()
    expected[8:, 3:] += 3.0
    for _ in range(2):
        accumulate[(1,)](TensorDescriptor.from_tensor(out, [8, 8]), 8, 3, 8, 8)
    np.testing.assert_array_equal(out, expected)


class Pair(NamedTuple):
    source: Any
    scale: Any


@triton.jit
def tuples(out, pairs, strides, mode, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for pair in tl.static_range(len(pairs)):
        source, scale = pairs[pair]
        total += tl.load(source + i * strides[pair], mask=i < n) * scale
    if mode[0] == "double" and mode[1][1] is None:
        total *= 2
    tl.static_assert(pairs[0].scale is pairs[0][1])
    tl.store(out + i, total, mask=i < n)


def test_tuples_of_arguments() -> None:
    x, y, out = normal(5), normal(10, seed=1), np.zeros(5, np.float32)
    pairs = (Pair(x, 2.0), Pair(y, 3))
    tuples[(1,)](out, pairs, (1, 2), ("double", (out, None)), 5, BLOCK=8)
    np.testing.assert_allclose(out, (x * 2 + y[::2] * 3) * 2, rtol=1e-6)


@triton.jit
def window(
    out, x, shape, strides, offsets, moves, BLOCK: tl.constexpr, OUT: tl.constexpr,
    CHECK: tl.constexpr,
):  # fmt: skip
    order: tl.constexpr = tuple(range(len(BLOCK)))
    source = tl.make_block_ptr(x, shape, strides, offsets, BLOCK, order)
    for _ in range(2):
        source = tl.advance(source, moves)
    target = tl.make_block_ptr(out, BLOCK, OUT, [0] * len(BLOCK), BLOCK, order)
    tl.store(target, tl.load(source, boundary_check=CHECK))


@pytest.mark.parametrize("seed", range(12))
def test_random_blocks(seed: int) -> None:
    """Any rank, strides, offsets and steps, against a copy of the tensor in a sea of zeros."""
    rng = np.random.default_rng(seed)
    rank = 1 + seed % 3
    shape, block = rng.integers(1, 7, rank), rng.integers(1, 6, rank)
    x = rng.standard_normal(shape).astype(np.float32).transpose(rng.permutation(rank))
    shape = np.array(x.shape)
    offsets, moves = rng.integers(-6, 8, rank), rng.integers(-3, 4, rank)
    check = tuple(a for a in range(rank) if rng.integers(3))
    for axis in set(range(rank)) - set(check):  # where nothing is checked, all lies inside
        offsets[axis], moves[axis], block[axis] = 0, 0, shape[axis]
    sea = np.zeros(shape + 60, np.float32)
    sea[tuple(slice(30, 30 + n) for n in shape)] = x
    first = offsets + 2 * moves + 30
    expected = sea[tuple(slice(i, i + n) for i, n in zip(first, block, strict=True))]
    out = np.full(tuple(block), 9.0, np.float32)
    numbers = [tuple(map(int, item)) for item in (shape, offsets, moves, block)]
    strides, steps = (tuple(n // 4 for n in array.strides) for array in (x, out))
    window[(1,)](out, x, numbers[0], strides, *numbers[1:3], numbers[3], steps, check)
    np.testing.assert_array_equal(out, expected)


@triton.jit
def combine(target, value, BM: tl.constexpr, BN: tl.constexpr):
    offsets = (tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]) * value
    target.atomic_max([0, 0], offsets)
    target.atomic_min([8, 3], offsets)
    target.atomic_or([0, 4], offsets)
    target.atomic_and([8, 0], offsets)
    target.atomic_xor([-4, -4], offsets)


def test_descriptors_combine_atomically() -> None:
    out = np.random.default_rng(0).integers(-100, 100, (11, 7)).astype(np.int32)
    expected = np.zeros((19, 15), np.int32)
    expected[4:15, 4:11] = out
    combine[(1,)](TensorDescriptor.from_tensor(out, [8, 8]), 3, 8, 8)
    value = np.arange(64).reshape(8, 8) * 3
    for function, row, column in (
        (np.maximum, 4, 4), (np.minimum, 12, 7), (np.bitwise_or, 4, 8), (np.bitwise_and, 12, 4),
        (np.bitwise_xor, 0, 0),
    ):  # fmt: skip
        part = expected[row : row + 8, column : column + 8]
        part[...] = function(part, value[: part.shape[0], : part.shape[1]])
        expected[:4], expected[15:], expected[:, :4], expected[:, 11:] = 0, 0, 0, 0
    np.testing.assert_array_equal(out, expected[4:15, 4:11])
