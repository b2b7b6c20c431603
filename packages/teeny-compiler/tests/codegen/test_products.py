"""Products written as kernels are on other machines: tiles of any size, masks, pointers that move.

Each is checked against NumPy in f64, compiled for every vector width, its operands at the end of
memory that may be touched.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_compiler.codegen.block import block
from teeny_compiler.codegen.block.facts import Facts
from teeny_compiler.codegen.cpu.kernel import lanes_of
from teeny_core import bf16, f16, f32, f64, i8, i32, u8
from teeny_triton import Ptr, constexpr, kernel
from teeny_triton.ir import Function, walk
from teeny_triton.verifier import verify

STRIDES = ("a_row", "a_depth", "b_depth", "b_column")


@kernel
def grouped(
    a, b, c, m, n, k, a_row, a_depth, b_depth, b_column,
    BM: constexpr, BN: constexpr, BK: constexpr, GROUP: constexpr, ACC: constexpr,
):  # fmt: skip
    """Programs in groups of rows; indices wrap around, pointers move along K."""
    tall, wide = tl.cdiv(m, BM), tl.cdiv(n, BN)
    first = tl.program_id(0) // (GROUP * wide) * GROUP
    height = tl.minimum(tall - first, GROUP)
    row = first + tl.program_id(0) % (GROUP * wide) % height
    column = tl.program_id(0) % (GROUP * wide) // height
    rows = (row * BM + tl.arange(0, BM)) % m
    columns = (column * BN + tl.arange(0, BN)) % n
    along = tl.arange(0, BK)
    left = a + (rows[:, None] * a_row + along[None, :] * a_depth)
    right = b + (along[:, None] * b_depth + columns[None, :] * b_column)
    total = tl.zeros((BM, BN), dtype=ACC)
    for i in range(0, tl.cdiv(k, BK)):
        x = tl.load(left, mask=along[None, :] < k - i * BK, other=0)
        y = tl.load(right, mask=along[:, None] < k - i * BK, other=0)
        total = tl.dot(x, y, total)
        left += BK * a_depth
        right += BK * b_depth
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=inside)


@kernel
def masked(
    a, b, c, m, n, k, a_row, a_depth, b_depth, b_column,
    BM: constexpr, BN: constexpr, BK: constexpr, GROUP: constexpr, ACC: constexpr,
):  # fmt: skip
    """Masks on all sides, and a product that is added to the sum."""
    wide = tl.cdiv(n, BN)
    rows = tl.program_id(0) // wide * BM + tl.arange(0, BM)[:, None]
    columns = tl.program_id(0) % wide * BN + tl.arange(0, BN)[None, :]
    along = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=ACC)
    for i in range(0, k, BK):
        left, right = i + along[None, :], i + along[:, None]
        x = tl.load(a + rows * a_row + left * a_depth, (rows < m) & (left < k), 0)
        y = tl.load(b + right * b_depth + columns * b_column, (right < k) & (columns < n), 0)
        total += tl.dot(x, y)
    tl.store(c + rows * n + columns, total, (rows < m) & (columns < n))


@contextmanager
def guarded(array: np.ndarray) -> Iterator[np.ndarray]:
    """Copy an array to the end of memory that is followed by a page that may not be touched."""
    size = -(-max(array.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert protect(place + size, mmap.PAGESIZE, 0) == 0
    offset = (size - array.nbytes) // array.itemsize * array.itemsize
    copy = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    yield copy
    assert protect(place + size, mmap.PAGESIZE, 3) == 0


def compiled_for(body, element, accumulator, blocks, ones=()) -> Function:
    """Compile a product; the strides in `ones` are known to be 1, as at a launch."""
    bm, bn, bk = blocks
    sizes = {**dict.fromkeys(("m", "n", "k", *STRIDES), i32), **dict.fromkeys(ones, 1)}
    pointers = {"a": Ptr[element], "b": Ptr[element], "c": Ptr[accumulator]}
    return body.function(
        **pointers, **sizes, BM=bm, BN=bn, BK=bk, GROUP=2, ACC=getattr(tl, _name(accumulator))
    )


def _name(element) -> str:
    return {f32: "float32", f64: "float64", i32: "int32"}[element]


def random(shape, element, seed):
    generator = np.random.default_rng(seed)
    if element.is_int:
        return generator.integers(element.min, element.max + 1, shape).astype(element.numpy)
    return generator.standard_normal(shape).astype(element.numpy)


def operands(m, n, k, element, layout):
    """Return A and B, and their strides, for a layout such as NT."""
    a, b = random((m, k), element, 0), random((k, n), element, 1)
    if layout[0] == "T":
        a = np.ascontiguousarray(a.T).T
    if layout[1] == "T":
        b = np.ascontiguousarray(b.T).T
    strides = [s // x.itemsize for x in (a, b) for s in x.strides]
    return a, b, strides


def check(function, target, load, m, n, k, element, layout, blocks, a=None, tolerance=1e-5):
    x, b, strides = operands(m, n, k, element, layout)
    a = x if a is None else a
    accumulator = function.parameters[2].value.type.element.pointee
    wide = np.int64 if element.is_int else np.float64
    wanted = a.astype(wide) @ b.astype(wide)
    grid = (-(-m // blocks[0]) * -(-n // blocks[1]),)
    verify(block(function, target, lanes_of(function, target)))
    flat_a, flat_b = (z.T if not z.flags.c_contiguous else z for z in (a, b))
    with guarded(flat_a) as ga, guarded(flat_b) as gb, guarded(np.empty((m, n))) as gc:
        c = gc.reshape(-1).view(accumulator.numpy)[-m * n :].reshape(m, n)
        named = dict(zip(STRIDES, strides, strict=True))
        passed = [p.name for p in function.parameters[6:]]
        load(function, target)(grid, [ga, gb, c, m, n, k, *(named[name] for name in passed)])
        if element.is_int:
            np.testing.assert_array_equal(c, wanted)
        else:
            scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0)
            np.testing.assert_allclose(c, wanted, rtol=tolerance, atol=tolerance * scale)


BLOCKS = (32, 32, 16)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN"])
@pytest.mark.parametrize("body", [grouped, masked], ids=["grouped", "masked"])
def test_layouts_of_ragged_sizes(body, layout, target, load):
    function = compiled_for(body, f32, f32, BLOCKS, unit_strides(layout))
    check(function, target, load, 70, 45, 41, f32, layout, BLOCKS)


def unit_strides(layout):
    return (
        "a_row" if layout[0] == "T" else "a_depth",
        "b_depth" if layout[1] == "T" else "b_column",
    )


def test_addresses_that_move_keep_their_steps_also_beside_indices_that_wrap():
    """Only so are columns that lie in memory read by lines."""
    function = compiled_for(grouped, f32, f32, BLOCKS, unit_strides("NT"))
    a, b = (op.operands[0] for op in walk(function.body) if op.opcode == "load")
    assert Facts(function).step(a, 1) == 1
    assert Facts(function).step(b, 0) == 1


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 32), (1, 1, 1), (33, 5, 600), (5, 90, 3)])
def test_sizes(m, n, k, extreme, load):
    function = compiled_for(grouped, f32, f32, BLOCKS)
    check(function, extreme, load, m, n, k, f32, "NN", BLOCKS)


@pytest.mark.parametrize("body", [grouped, masked], ids=["grouped", "masked"])
def test_an_empty_sum(body, target, load):
    function = compiled_for(body, f32, f32, BLOCKS)
    c = np.full((40, 40), 3.0, np.float32)
    load(function, target)((4,), [np.empty(0, np.float32)] * 2 + [c, 40, 40, 0, 0, 1, 40, 1])
    assert (c == 0).all()


@pytest.mark.parametrize(
    ("element", "accumulator", "tolerance"),
    [(f64, f64, 1e-12), (f16, f32, 1e-5), (bf16, f32, 1e-5), (i8, i32, 0), (u8, i32, 0)],
    ids=str,
)
@pytest.mark.parametrize("layout", ["NN", "TN", "NT"])
def test_elements(element, accumulator, tolerance, layout, extreme, load):
    function = compiled_for(grouped, element, accumulator, BLOCKS)
    check(function, extreme, load, 37, 50, 43, element, layout, BLOCKS, tolerance=tolerance)


@pytest.mark.parametrize(("element", "value"), [(i8, -128), (u8, 255)], ids=str)
@pytest.mark.parametrize("blocks", [BLOCKS, (16, 32, 512)], ids=["short", "long"])
def test_extremes_of_small_integers(element, value, blocks, target, load):
    """Sums of many of the largest products are exact."""
    m, n, k = 20, 35, 1200
    a, b = (np.full(shape, value, element.numpy) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.int32)
    grid = (-(-m // blocks[0]) * -(-n // blocks[1]),)
    function = compiled_for(grouped, element, i32, blocks)
    load(function, target)(grid, [a, b, c, m, n, k, k, 1, n, 1])
    assert (c == k * value * value).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_row(value, target, load):
    a = random((40, 40), f32, 0)
    a[7, 39] = value
    function = compiled_for(masked, f32, f32, BLOCKS)
    check(function, target, load, 40, 40, 40, f32, "NN", BLOCKS, a=a)


def test_what_a_loop_of_products_starts_from_is_kept(target, load):
    """The start, a product that lies in memory, is wanted again after the loop."""

    @kernel
    def sums(a, b, c, n, B: constexpr):
        row, column = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
        x, y = tl.load(a + row * B + column), tl.load(b + row * B + column)
        start = tl.dot(x, y)
        total = start
        for _ in range(n):
            total = tl.dot(y, x, total)
        tl.store(c + row * B + column, total - 3 * start)

    function = sums.function(a=Ptr[f32], b=Ptr[f32], c=Ptr[f32], n=i32, B=32)
    a, b = random((32, 32), f32, 0), random((32, 32), f32, 1)
    c = np.zeros_like(a)
    load(function, target)((1,), [a, b, c, 2])
    x, y = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose(c, 2 * (y @ x) - 2 * (x @ y), rtol=1e-4, atol=1e-3)


def test_a_sum_starts_from_what_it_is_added_to(target, load):
    """Also where the product comes first, and where both sides are products."""

    @kernel
    def sums(a, b, c, B: constexpr):
        row, column = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
        x, y = tl.load(a + row * B + column), tl.load(b + row * B + column)
        total = tl.dot(x, y) + tl.dot(y, x)
        tl.store(c + row * B + column, tl.dot(x, total) + x)

    function = sums.function(a=Ptr[f32], b=Ptr[f32], c=Ptr[f32], B=32)
    a, b = random((32, 32), f32, 0), random((32, 32), f32, 1)
    c = np.zeros_like(a)
    load(function, target)((1,), [a, b, c])
    x, y = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose(c, x @ (x @ y + y @ x) + x, rtol=1e-4, atol=1e-3)
