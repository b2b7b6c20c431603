"""Loads and stores of every address pattern, under masks, with unmapped memory around."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_compiler.codegen.llvm import is_x86
from teeny_core import bf16, bool_, f32, f64, i8, i16, i32, i64
from teeny_triton import Ptr, build_function

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Guarded:
    """Arrays between two pages that may not be touched: the end, or the start, at the border."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []

    def array(self, dtype: np.dtype, size: int, at_end: bool) -> np.ndarray:
        length = -(-size * dtype.itemsize // PAGE) * PAGE
        memory = mmap.mmap(-1, length + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for page in (start, start + PAGE + length):
            assert libc.mprotect(page, PAGE, 0) == 0, ctypes.get_errno()
        self._maps.append(memory)
        offset = PAGE + (length - size * dtype.itemsize if at_end else 0)
        return np.frombuffer(memory, dtype, size, offset)


@pytest.fixture
def guarded():
    return Guarded()


def fill(array: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    array[...] = rng.integers(0, 100, array.shape).astype(array.dtype)


DTYPES = [f32, f64, bf16, i8, i16, i64, bool_]


@pytest.mark.parametrize("at_end", [True, False], ids=["end", "start"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_masked_tails_touch_nothing_beyond(load, target, guarded, dtype, at_end):
    """A 1-d copy whose last block is partly masked; the mask is a bound or a loaded tile."""
    block = 40
    parameters = [("x", Ptr[dtype]), ("o", Ptr[dtype]), ("n", i32), ("keep", Ptr[bool_])]
    with build_function("copy", parameters) as f:
        x, o, n, keep = f.arguments
        index = tl.program_id(0) * block + tl.arange(0, block)
        inside = index < n
        chosen = tl.load(keep + index, inside)
        tl.store(o + index, tl.load(x + index, inside), inside & chosen)
    kernel = load(f.function, target)
    for size in (1, 7, 39, 40, 41, 111):
        x, o = (guarded.array(dtype.numpy, size, at_end) for _ in range(2))
        flags = guarded.array(np.dtype(bool), size, at_end)
        fill(x, size)
        flags[...] = np.arange(size) % 3 != 1
        o[...] = np.zeros(size, o.dtype)
        kernel((-(-size // block),), [x, o, size, flags])
        np.testing.assert_array_equal(o, np.where(flags, x, np.zeros_like(x)))


@pytest.mark.parametrize("dtype", [f32, bf16, i64], ids=str)
@pytest.mark.parametrize("size", [5, 20, 31])
def test_bounds_that_are_known(load, target, guarded, dtype, size):
    """Lanes below a constant are stored by whole parts of a vector, some rows under a condition."""
    parameters = [("x", Ptr[dtype]), ("o", Ptr[dtype]), ("rows", i32)]
    with build_function("copy", parameters) as f:
        x, o, rows = f.arguments
        row, column = tl.arange(0, 3)[:, None], tl.arange(0, 32)[None, :]
        inside = column < size
        value = tl.load(x + row * size + column, inside & (row < rows))
        tl.store(o + row * size + column, value, inside & (row < rows))
    kernel = load(f.function, target)
    for rows in (2, 3):
        x, o = (guarded.array(dtype.numpy, rows * size, True) for _ in range(2))
        fill(x, size)
        o[...] = np.zeros(rows * size, o.dtype)
        kernel((1,), [x, o, rows])
        np.testing.assert_array_equal(o, x)


@pytest.mark.parametrize("at_end", [True, False], ids=["end", "start"])
@pytest.mark.parametrize("shape", [(14, 32), (3, 5), (4, 24), (16, 2), (5, 1)], ids=str)
def test_masked_matrices(load, target, guarded, shape, at_end):
    """Rows and columns clipped by runtime bounds, row pitch equal to the width."""
    rows, columns = shape
    parameters = [("x", Ptr[f32]), ("o", Ptr[f32]), ("m", i32), ("n", i32)]
    with build_function("clip", parameters) as f:
        x, o, m, n = f.arguments
        row, column = tl.arange(0, rows)[:, None], tl.arange(0, columns)[None, :]
        mask = (row < m) & (column < n)
        value = tl.load(x + (row * n + column), mask, 7.0)
        tl.store(o + (row * n + column), value + 1.0, mask)
    kernel = load(f.function, target)
    for m, n in {(rows, columns), (1, 1), (rows - 1, columns), (rows, max(1, columns - 1))}:
        if m == 0:
            continue
        x, o = (guarded.array(np.dtype(np.float32), m * n, at_end) for _ in range(2))
        fill(x, m)
        o[...] = 0
        kernel((1,), [x, o, m, n])
        np.testing.assert_array_equal(o, x + 1)


@pytest.mark.parametrize("at_end", [True, False], ids=["end", "start"])
@pytest.mark.parametrize("step", [0, 2, 3, 5, -1, -2])
def test_strides_read_only_what_they_span(load, target, guarded, step, at_end):
    """Constant strides are read as windows of vectors: not one element outside."""
    count = 32
    span = abs(step) * (count - 1) + 1
    with build_function("stride", [("x", Ptr[f32]), ("o", Ptr[f32])]) as f:
        x, o = f.arguments
        index = tl.arange(0, count) * step + (span - 1 if step < 0 else 0)
        tl.store(o + tl.arange(0, count), tl.load(x + index))
    x = guarded.array(np.dtype(np.float32), span, at_end)
    fill(x, 1)
    o = guarded.array(np.dtype(np.float32), count, at_end)
    load(f.function, target)((1,), [x, o])
    wanted = x[np.arange(count) * step + (span - 1 if step < 0 else 0)]
    np.testing.assert_array_equal(o, wanted)


def test_strides_of_parameters_and_transposes(agree, target):
    """Runtime pitches; a matrix read by columns and written by columns."""
    parameters = [("x", Ptr[f32]), ("o", Ptr[f32]), ("p", Ptr[f32]), ("ldx", i32), ("ldo", i64)]
    with build_function("pitch", parameters) as f:
        x, o, p, ldx, ldo = f.arguments
        row, column = tl.arange(0, 12)[:, None], tl.arange(0, 16)[None, :]
        tile = tl.load(x + (row + column * ldx))  # columns of x are contiguous
        tl.store(o + (row * ldo + column), tile * 2.0)
        tl.store(p + (row + column * ldx), tile + 1.0)
    x = np.random.default_rng(0).standard_normal((16, 15)).astype(np.float32)
    agree(f.function, target, (1,), [x, np.zeros((12, 20), np.float32), np.zeros_like(x), 15, 20])


def test_gather_and_scatter_by_loaded_indices(agree, target):
    parameters = [("x", Ptr[f32]), ("i", Ptr[i32]), ("j", Ptr[i64]), ("o", Ptr[f32]), ("n", i32)]
    with build_function("gather", parameters) as f:
        x, i, j, o, n = f.arguments
        lane = tl.arange(0, 24)
        inside = lane < n
        value = tl.load(x + tl.load(i + lane, inside, 0), inside, -1.0)
        tl.store(o + tl.load(j + lane, inside, 0), value, inside)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(50).astype(np.float32)
    i = rng.integers(0, 50, 24).astype(np.int32)
    j = rng.permutation(24).astype(np.int64)
    for n in (24, 17, 0):
        agree(f.function, target, (1,), [x, i, j, np.zeros(24, np.float32), n])


def test_last_of_equal_addresses_wins(agree, target):
    with build_function("collide", [("o", Ptr[i32]), ("p", Ptr[i32])]) as f:
        o, p = f.arguments
        lane = tl.arange(0, 20)
        tl.store(o + lane // 4, lane)
        tl.store(p + lane * 0, lane, lane < 13)
    agree(f.function, target, (1,), [np.zeros(5, np.int32), np.zeros(1, np.int32)])


def test_loads_are_ordered_with_stores(agree, load, target):
    """A load is not moved over a store to the same memory, through another pointer either."""
    facts = tl.Facts(noalias=False)
    with build_function("order", [("x", Ptr[f32], facts), ("y", Ptr[f32], facts)]) as f:
        x, y = f.arguments
        lane = tl.arange(0, 16)
        before = tl.load(x + lane)
        tl.store(y + lane, before * 2.0)
        after = tl.load(x + lane)
        tl.store(y + lane + 16, before + after)
    array = np.arange(48, dtype=np.float32)
    agree(f.function, target, (1,), [array, array[8:].copy()])
    shared, wanted = array.copy(), array.copy()
    wanted[8:24] = array[:16] * 2
    wanted[24:40] = array[:16] + wanted[:16]
    load(f.function, target)((1,), [shared, shared[8:]])
    np.testing.assert_array_equal(shared, wanted)


def test_scratch_is_private_and_aligned(agree, target):
    with build_function("scratch", [("x", Ptr[f32]), ("o", Ptr[f32]), ("a", Ptr[i64])]) as f:
        x, o, _ = f.arguments
        lane = tl.arange(0, 24)
        first, second = tl.scratch(24, f32), tl.scratch(100, f32)
        tl.store(first + lane, tl.load(x + lane))
        tl.store(second + lane * 4, tl.load(x + lane) * 3.0)
        tl.store(o + lane, tl.load(first + (23 - lane)) + tl.load(second + lane * 4))
    x = np.arange(24, dtype=np.float32)
    agree(f.function, target, (1,), [x, np.zeros(24, np.float32), np.zeros(1, np.int64)])


def test_prefetch_never_faults(agree, target):
    with build_function("hint", [("x", Ptr[f32])]) as f:
        (x,) = f.arguments
        tl.prefetch(x + tl.arange(0, 64) + (1 << 30), level=2)
        tl.prefetch(x - (1 << 30), level=1, write=True)
        tl.store(x, 1.0)
    agree(f.function, target, (1,), [np.zeros(1, np.float32)])


def test_a_range_of_programs_runs(load, host):
    """Programs of a 3-d grid by flat number; axis 0 runs fastest."""
    with build_function("grid", [("o", Ptr[i32])]) as f:
        (o,) = f.arguments
        a, b, c = (tl.program_id(axis) for axis in range(3))
        sizes = [tl.num_programs(axis) for axis in range(3)]
        flat = a + sizes[0] * (b + sizes[1] * c)
        tl.store(o + flat, a + b * 100 + c * 10000)
    kernel = load(f.function, host)
    o = np.full(3 * 4 * 2, -1, np.int32)
    kernel((3, 4, 2), [o], (5, 17))
    c, b, a = np.meshgrid(np.arange(2), np.arange(4), np.arange(3), indexing="ij")
    wanted = (a + b * 100 + c * 10000).reshape(-1)
    wanted[:5] = wanted[17:] = -1
    np.testing.assert_array_equal(o, wanted)


def test_an_empty_grid_runs_nothing(load, host):
    with build_function("none", [("o", Ptr[i32])]) as f:
        (o,) = f.arguments
        tl.store(o + tl.program_id(1), 1)
    kernel = load(f.function, host)
    o = np.zeros(1, np.int32)
    for grid in ((0, 1, 1), (1, 0, 1), (0, 0, 0)):
        kernel(grid, [o])
    assert o[0] == 0


@pytest.mark.parametrize("dtype", [f32, f64, bf16, i8], ids=str)
def test_streamed_stores_write_at_any_address(load, target, dtype):
    """Past the caches where whole vectors are aligned; the lines in between are left alone."""
    block = 256
    with build_function("streamed", [("x", Ptr[dtype]), ("o", Ptr[dtype])]) as f:
        x, o = f.arguments
        index = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(o + index, tl.load(x + index), cache_modifier=".cs")
    kernel = load(f.function, target)
    assert ("!nontemporal" in kernel.text) == ("sfence" in kernel.text)
    if dtype == f32:
        assert ("sfence" in kernel.text) == bool(is_x86(target.triple) and target.vector_bits)
    whole = np.zeros(3 * block + 256, dtype.numpy)
    first = -(whole.ctypes.data // whole.itemsize) % (64 // whole.itemsize)
    for shift in (0, 1, 16 // whole.itemsize, 32 // whole.itemsize):
        whole[...] = 1
        place = slice(first + shift, first + shift + 2 * block)
        x = np.zeros(2 * block, dtype.numpy)
        fill(x, shift)
        kernel((2,), [x, whole[place]])
        np.testing.assert_array_equal(whole[place], x)
        assert (np.delete(whole, np.r_[place]) == 1).all()
