"""Scans, sorts, lookups, counts and reductions by functions, against NumPy; and their expansion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core import DType, bf16, bool_, f16, f32, f64, i8, i32, i64, u8, u32
from teeny_triton import KernelError, Ptr, build_function, interpret, kernel, verify
from teeny_triton.expand import EXPANDED, expand
from teeny_triton.ir import Function, walk

Run = Any
Array = Any

NUMBERS = (i8, i32, i64, u8, u32, f16, bf16, f32, f64)
DTYPES = (bool_, *NUMBERS)
SHAPES = ((1,), (8,), (1024,), (4, 8), (64, 32), (2, 4, 8))
AXES = [(shape, axis) for shape in SHAPES for axis in range(len(shape))]


def arrays(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    """Small whole numbers, so that no sum or product of a few is rounded."""
    low = 0 if dtype.kind in ("uint", "bool") else -3
    values = np.random.default_rng(seed).integers(low, 4, shape)
    return values.astype(dtype.numpy)


def wide(x: Any) -> Array:
    x = np.asarray(x)
    return x if x.dtype.kind in "biu" else x.astype(np.float64)


def same(found: Array, wanted: Array) -> None:
    np.testing.assert_array_equal(wide(found), wide(wanted))


def accumulates_in(dtype: DType) -> Any:
    """The type of sums, as Triton picks it."""
    small = not dtype.is_float and dtype.bits < 32
    return (np.uint32 if dtype.kind == "uint" else np.int32) if small else dtype.numpy


def reversed_scan(ufunc: np.ufunc, x: Array, axis: int) -> Array:
    return np.flip(ufunc.accumulate(np.flip(x, axis), axis), axis)


@pytest.mark.parametrize(("shape", "axis"), AXES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cumulative_sums(run: Run, shape: tuple[int, ...], axis: int, dtype: DType) -> None:
    x = arrays(shape, dtype)
    forwards, backwards = run(lambda x: (x.cumsum(axis), tl.cumsum(x, axis, reverse=True)), x)
    assert forwards.dtype == accumulates_in(dtype)
    exact = wide(x.astype(forwards.dtype))
    same(forwards, np.cumsum(exact, axis, dtype=exact.dtype))
    same(backwards, reversed_scan(np.add, exact, axis).astype(exact.dtype))


@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((4, 8), 1), ((2, 4, 8), 1)])
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_cumulative_products(run: Run, shape: tuple[int, ...], axis: int, dtype: DType) -> None:
    x = np.clip(arrays(shape, dtype), -2, 2).astype(dtype.numpy)
    forwards, backwards = run(lambda x: (x.cumprod(axis), tl.cumprod(x, axis, True)), x)
    exact = wide(x.astype(forwards.dtype))
    same(forwards, np.cumprod(exact, axis, dtype=exact.dtype))
    same(backwards, reversed_scan(np.multiply, exact, axis).astype(exact.dtype))


def test_sums_in_another_type(run: Run) -> None:
    x = np.full((256,), 100, np.int8)
    same(run(lambda x: tl.cumsum(x, 0, dtype=i8), x), np.cumsum(x, dtype=np.int8))
    same(run(lambda x: tl.sum(x, 0, dtype=i64), x), 25600)
    ones = np.full((4096,), 1.0, np.float16)  # 16-bit sums would stay at 2048
    assert run(lambda x: tl.cumsum(x, 0), ones)[-1] == 4096


def affine(a0: Any, b0: Any, a1: Any, b1: Any) -> Any:
    return a0 * a1, b0 * a1 + b1


@pytest.mark.parametrize(
    ("shape", "axis"), [((1,), 0), ((7,), 0), ((8,), 0), ((4, 6), 0), ((4, 6), 1), ((2, 4, 3), 1)]
)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_functions_of_several_tiles(
    run: Run, shape: tuple[int, ...], axis: int, dtype: DType
) -> None:
    """Affine maps do not commute: order matters, grouping does not."""
    x, y = np.clip(arrays(shape, dtype), -1, 2), arrays(shape, dtype, 1)
    x = x.astype(dtype.numpy)
    a, b, total_a, total_b = run(
        lambda x, y: (
            *tl.associative_scan((x, y), axis, affine),
            *tl.reduce((x, y), axis, affine),
        ),
        x,
        y,
    )
    exact_a, exact_b = (
        np.moveaxis(wide(x).copy(), axis, 0),
        np.moveaxis(wide(y).copy(), axis, 0),
    )
    for n in range(1, shape[axis]):
        exact_b[n] += exact_b[n - 1] * exact_a[n]
        exact_a[n] *= exact_a[n - 1]
    same(np.moveaxis(a, axis, 0), exact_a)
    same(np.moveaxis(b, axis, 0), exact_b)
    same(total_a, exact_a[-1])
    same(total_b, exact_b[-1])


@pytest.mark.parametrize(("shape", "axis"), [*AXES, ((7,), 0), ((5, 3), 0)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sort(run: Run, shape: tuple[int, ...], axis: int, dtype: DType) -> None:
    x = arrays(shape, dtype)
    up, down, top = run(
        lambda x: (x.sort(axis), tl.sort(x, axis, descending=True), tl.topk(x, 1, axis)), x
    )
    order = np.sort(wide(x), axis)
    same(up, order)
    same(down, np.flip(order, axis))
    same(top, wide(x).max(axis, keepdims=True))


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
def test_order_of_special_numbers(run: Run, dtype: DType) -> None:
    special = [np.nan, 1.0, -0.0, np.inf, 0.0, -np.nan, -np.inf, -2.5]
    x = np.array(special).astype(dtype.numpy)
    up, down = run(lambda x: (tl.sort(x), tl.sort(x, descending=True)), x)
    wanted = np.array([-np.inf, -2.5, -0.0, 0.0, 1.0, np.inf, np.nan, np.nan])
    for found, order in ((wide(up), wanted), (wide(down), wanted[::-1])):
        np.testing.assert_array_equal(found, order)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(order))


@pytest.mark.parametrize(("shape", "axis"), AXES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_flip_and_gather(run: Run, shape: tuple[int, ...], axis: int, dtype: DType) -> None:
    x = arrays(shape, dtype)
    same(run(lambda x: tl.flip(x, axis), x), np.flip(x, axis))
    indexed = (*shape[:axis], 3, *shape[axis + 1 :])
    index = np.random.default_rng(2).integers(0, shape[axis], indexed).astype(np.int32)
    wanted = np.take_along_axis(x, index.astype(np.int64), axis)
    same(run(lambda x, i: x.gather(i, axis), x, index), wanted)
    same(run(lambda x, i: tl.gather(x, i, axis), x, index.astype(np.int64)), wanted)


@pytest.mark.parametrize("dtype", [i8, i32, i64, u8, u32], ids=str)
def test_histogram(run: Run, dtype: DType) -> None:
    for size in (1, 8, 1024):
        x = arrays((size,), dtype)
        inside = x[(x >= 0) & (x < 3)].astype(np.int64)
        same(run(lambda x: tl.histogram(x, 3), x), np.bincount(inside, minlength=3))
        active = inside[inside != 1]
        same(run(lambda x: x.histogram(3, mask=x != 1), x), np.bincount(active, minlength=3))
    assert run(lambda x: tl.histogram(x, 1000), np.array([5], u8.numpy)).sum() == 1


def test_extremes_with_indices(run: Run) -> None:
    x = np.array([[3, 7, 7], [9, 1, 9]], np.int32)
    value, place = run(lambda x: tl.max(x, 1, return_indices=True, keep_dims=True), x)
    same(value, [[7], [9]])
    same(place, [[1], [0]])
    value, place = run(
        lambda x: x.min(0, return_indices=True, return_indices_tie_break_left=False), x
    )
    same(value, [3, 1, 7])
    same(place, [0, 1, 0])
    same(run(lambda x: x.argmax(1, tie_break_left=True, keep_dims=True), x), [[1], [0]])
    same(run(lambda x: tl.argmin(x, 0), x), [0, 1, 0])


def test_bits_and_methods(run: Run) -> None:
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    same(run(lambda x: tl.reduce_or(x, 1), x), np.bitwise_or.reduce(x, 1))
    same(run(lambda x: x.reduce_or(), x), np.bitwise_or.reduce(x, None))
    same(run(lambda x: tl.reduce_or(x > 22, 0), x), (x > 22).any(0))
    same(run(lambda x: x.xor_sum(0, keep_dims=True), x), np.bitwise_xor.reduce(x, 0)[None])
    same(run(lambda x: x.sum(1, dtype=f32), x), x.sum(1))
    same(run(lambda x: x.prod(1), x), x.prod(1, dtype=np.int32))
    same(run(lambda x: x.reduce(0, tl.minimum, keep_dims=True), x), x.min(0)[None])
    same(run(lambda x: tl.reduce(x, None, tl.maximum, keep_dims=True), x), [[23]])
    same(run(lambda x: x.associative_scan(1, tl.maximum), x), np.maximum.accumulate(x, 1))
    same(run(lambda x: x.ravel().topk(3), x), [23, 22, 21])
    same(run(lambda x: tl.bitonic_merge(x), x), x)
    even, odd = run(lambda x: x.reshape(4, 3, 2).split(), x)
    same(even, x[:, ::2])
    same(odd, x[:, 1::2])


def test_branches_in_a_function_become_choices(run: Run) -> None:
    x = np.array([3, 1, 2, 5, 4], np.int32)

    def smaller(a: Any, b: Any) -> Any:
        (result,) = tl.if_(a < b, lambda: a, lambda: b)
        return result

    same(run(lambda x: tl.reduce(x, 0, smaller), x), 1)
    same(run(lambda x: tl.associative_scan(x, 0, smaller), x), np.minimum.accumulate(x))


@kernel
def compose(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@kernel
def larger(a, b):
    if a > b:
        c = a
    else:
        c = b
    return c


@kernel
def recurrence(x: Ptr[f32], out: Ptr[f32], top: Ptr[f32], N: tl.constexpr):
    i = tl.arange(0, N)
    gate = tl.load(x + i)
    _, state = tl.associative_scan((gate, 1 - gate), 0, compose)
    tl.store(out + i, state)
    tl.store(top, tl.reduce(gate, axis=0, combine_fn=larger))
    tl.store(top + 1, gate.cumsum(0).max(0))


def test_helpers_that_are_kernels() -> None:
    x = np.random.default_rng(0).random(12).astype(np.float32)
    out, top = np.zeros(12, np.float32), np.zeros(2, np.float32)
    function = recurrence.function(x=Ptr[f32], out=Ptr[f32], top=Ptr[f32], N=12)
    for ready in (function, expand(function, 4)):
        interpret(verify(ready), (1,), [x, out, top])
        state = 0.0
        for n, gate in enumerate(x.astype(np.float64)):
            state = state * gate + 1 - gate if n else 1 - gate
            assert abs(out[n] - state) < 1e-6
        np.testing.assert_allclose(top, [x.max(), x.sum()], rtol=1e-6)


def test_batches_of_products(run: Run) -> None:
    a, b = arrays((3, 4, 5), f16), arrays((3, 5, 2), f16, 1)
    wanted = wide(a) @ wide(b)
    same(run(tl.dot, a, b), wanted)
    same(run(lambda a, b, c: tl.dot(a, b, c), a, b, np.ones((3, 4, 2), np.float32)), wanted + 1)


@pytest.mark.parametrize(("rows", "columns", "group"), [(4, 4, 2), (5, 3, 2), (3, 7, 8), (6, 2, 1)])
def test_swizzle(run: Run, rows: int, columns: int, group: int) -> None:
    i, j = np.divmod(np.arange(rows * columns, dtype=np.int32), columns)
    found = run(lambda i, j: tl.swizzle2d(i, j, rows, columns, group), i, j)
    wanted = [
        (row, column)
        for first in range(0, rows, group)
        for column in range(columns)
        for row in range(first, min(first + group, rows))
    ]
    same(np.stack(found, 1), np.array(wanted))


def refuse(function: Callable[[Any], Any], message: str, x: Array) -> None:
    with (
        pytest.raises(KernelError, match=message),
        build_function("k", [("p", Ptr[f32])]) as f,
    ):
        function(tl.load(f.arguments[0] + tl.arange(0, x.size).reshape(x.shape)))


def test_refusals(run: Run) -> None:
    x = np.zeros((4,), np.float32)
    refuse(lambda x: tl.cumsum(x, 1), "axis 1 is outside", x)
    refuse(lambda x: tl.reduce(x, 0, lambda a, b: a > b), "gives bool where f32", x)
    refuse(lambda x: tl.reduce(x, 0, lambda a, b: (a, b)), "gives 2 values instead of 1", x)
    refuse(lambda x: tl.reduce(x, 0, lambda a, b: a + x), "tile<4xf32> where f32", x)
    refuse(lambda x: tl.reduce(x, 0, lambda a, b: tl.rand(1, 2) + tl.sum(x, 0)), "cannot use", x)
    refuse(lambda x: tl.reduce((x, x.expand_dims(0)), 0, affine), "cannot be combined", x)
    refuse(lambda x: tl.topk(x, 5), "top 5 of 4", x)
    refuse(lambda x: tl.flip(tl.sum(x, 0)), "a scalar has no axis", x)
    refuse(lambda x: tl.gather(x, x, 0), "an offset must be an integer", x)
    refuse(lambda x: tl.dot(x, x), "dot takes", x)
    with pytest.raises(KernelError, match="reads index 4, outside the 4 elements"):
        run(lambda x, i: tl.gather(x, i, 0), x, np.array([4], np.int32))


# --- expansion ---

OPS: dict[str, Callable[[Any, int], Any]] = {
    "cumsum": lambda x, axis: x.cumsum(axis),
    "cumsum from the end": lambda x, axis: x.cumsum(axis, reverse=True),
    "affine scan": lambda x, axis: tl.associative_scan((x, x + 1), axis, affine)[1],
    "affine reduction": lambda x, axis: tl.reduce((x, x + 1), axis, affine)[1],
    "sort": lambda x, axis: x.sort(axis),
    "topk": lambda x, axis: x.topk(1, axis),
    "flip": lambda x, axis: x.flip(axis),
    "gather": lambda x, axis: x.gather(tl.abs(x).to(i32) % x.shape[axis], axis),
    "histogram": lambda x, axis: x.to(i32).ravel().histogram(5),
}
"""A function of a tile and an axis for each opcode."""


def offsets(shape: tuple[int, ...]) -> Any:
    return tl.arange(0, int(np.prod(shape))).reshape(*shape) if shape else 0


def build(body: Callable[[Any], Any], shape: tuple[int, ...], dtype: DType) -> tuple[Function, Any]:
    """Return a kernel that stores a function of a tile, and the array that it writes."""

    def write(pointers: Any, kinds: list[Any]) -> None:
        result = body(tl.load(pointers[0] + offsets(shape)))
        kinds.append(result.type)
        if len(pointers) > 1:
            tl.store(pointers[1] + offsets(result.shape), result)

    kinds: list[Any] = []
    with build_function("types", [("x", Ptr[dtype])]) as f:
        write(f.arguments, kinds)
    (kind,) = kinds
    with build_function("k", [("x", Ptr[dtype]), ("out", Ptr[kind.element])]) as f:
        write(f.arguments, kinds)
    return f.function, np.zeros(kind.shape, kind.element.numpy)


def opcodes(function: Function) -> set[str]:
    return {op.opcode for op in walk(function.body)}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("lanes", [1, 4])
def test_expansion_means_the_same(name: str, lanes: int) -> None:
    for shape, axis in (
        ((1,), 0),
        ((11,), 0),
        ((16,), 0),
        ((5, 3), 0),
        ((5, 3), 1),
        ((2, 4, 4), 1),
    ):
        for dtype in (u8, f32):
            x = arrays(shape, dtype)
            function, out = build(lambda x, axis=axis: OPS[name](x, axis), shape, dtype)
            expanded = verify(expand(function, lanes))
            assert not opcodes(expanded) & EXPANDED.keys()
            wanted, found = out.copy(), out.copy()
            interpret(function, (1,), [x, wanted])
            interpret(expanded, (1,), [x, found])
            same(found, wanted)


def test_expansion_of_what_needs_none() -> None:
    function, _ = build(lambda x: x.flip() + x, (8,), f32)
    assert expand(function, native=frozenset({"flip"})) is function
    assert "flip" not in opcodes(expand(function))


def test_expansion_inside_loops_and_branches() -> None:
    def body(x: Any) -> Any:
        (y,) = tl.for_(0, 3, 1, (x,), lambda i, y: y.cumsum(0) - y.flip())
        (z,) = tl.if_(y.sum() > 0, lambda: y.sort(), lambda: -y.sort(descending=True))
        return z

    x = arrays((13,), f32)
    function, out = build(body, (13,), f32)
    wanted, found = out.copy(), out.copy()
    interpret(function, (1,), [x, wanted])
    interpret(verify(expand(function, 4)), (1,), [x, found])
    same(found, wanted)


CHAINS = st.lists(
    st.sampled_from(["cumsum", "cumsum from the end", "sort", "flip", "gather"]),
    min_size=2,
    max_size=4,
)


@given(names=CHAINS, shape=st.sampled_from([(6,), (3, 5), (8, 2)]), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_chains(names: list[str], shape: tuple[int, ...], seed: int) -> None:
    """Ops in any order, each of which reads what another left in scratch memory."""

    def body(x: Any) -> Any:
        for number, name in enumerate(names):
            x = OPS[name](x, number % len(shape)) & 15
        return x

    x = arrays(shape, i32, seed)
    function, out = build(body, shape, i32)
    wanted, found = out.copy(), out.copy()
    interpret(function, (1,), [x, wanted])
    interpret(verify(expand(function, 4)), (1,), [x, found])
    same(found, wanted)
