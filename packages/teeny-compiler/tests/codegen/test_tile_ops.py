"""Ops on whole tiles, compiled: scans, sorts, lookups, counts, batches, and what moves elements.

Compiled code leaves what the interpreter leaves: bit for bit, but for sums of floats, whose
elements may be grouped in another way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from teeny_core import DType, bf16, bool_, f16, f32, f64, i8, i32, i64, u8, u32
from teeny_triton import Ptr, build_function, interpret
from teeny_triton.ir import Function

Array = Any
Body = Callable[..., Any]

DTYPES = (bool_, i8, i32, i64, u8, u32, f16, bf16, f32, f64)
SMALL = [((13,), 0), ((4, 8), 1), ((2, 4, 8), 1)]
LARGE = [((1,), 0), ((8,), 0), ((1024,), 0), ((64, 32), 0), ((64, 32), 1)]
CASES = [(case, dtype) for case in SMALL for dtype in DTYPES]
CASES += [(case, dtype) for case in LARGE for dtype in (i32, u8, f32)]
ROUNDING = {f16: 2e-3, bf16: 2e-2, f32: 1e-5, f64: 1e-13}
"""Of sums, relative to the largest: one unit of 16-bit types, whose sums are in f32."""


def arrays(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    low = 0 if dtype.kind in ("uint", "bool") else -5
    return rng.integers(low, 6, shape).astype(dtype.numpy)


def offsets(shape: tuple[int, ...]) -> Any:
    """Addresses of a dense tile, as a sum of its axes."""
    total: Any = 0
    for axis, extent in enumerate(shape):
        key = tuple(slice(None) if a == axis else None for a in range(len(shape)))
        total = total + tl.arange(0, extent)[key] * int(np.prod(shape[axis + 1 :]))
    return total


def build(body: Body, inputs: list[Array], dtypes: list[DType]) -> tuple[Function, list[Array]]:
    """Return a kernel that stores what `body` makes of tiles, and the arrays it writes."""

    def results(pointers: Any) -> tuple[Any, ...]:
        tiles = [tl.load(p + offsets(x.shape)) for p, x in zip(pointers, inputs, strict=False)]
        made = body(*tiles)
        return made if isinstance(made, tuple) else (made,)

    specs = [(f"x{i}", Ptr[dtype]) for i, dtype in enumerate(dtypes)]
    with build_function("types", specs) as f:
        kinds = [result.type for result in results(f.arguments)]
    specs += [(f"y{i}", Ptr[kind.element]) for i, kind in enumerate(kinds)]
    with build_function("k", specs) as f:
        made = results(f.arguments)
        for pointer, result in zip(f.arguments[len(inputs) :], made, strict=True):
            tl.store(pointer + offsets(result.shape), result)
    return f.function, [np.zeros(kind.shape, kind.element.numpy) for kind in kinds]


def check(load: Any, target: Any, body: Body, inputs: list[Array], dtypes: list[DType]) -> None:
    """Compare compiled code with the interpreter."""
    function, outputs = build(body, inputs, dtypes)
    wanted, found = [x.copy() for x in outputs], [x.copy() for x in outputs]
    interpret(function, (1,), [*inputs, *wanted])
    load(function, target)((1,), [*inputs, *found])
    for x, y, parameter in zip(found, wanted, function.parameters[len(inputs) :], strict=True):
        close(x, y, parameter.value.type.element.pointee)


def close(found: Array, wanted: Array, dtype: DType) -> None:
    if not dtype.is_float:
        np.testing.assert_array_equal(found, wanted)
        return
    x, y = found.astype(np.float64), wanted.astype(np.float64)
    scale = np.abs(np.where(np.isfinite(y), y, 0)).max(initial=1)
    np.testing.assert_allclose(x, y, rtol=0, atol=ROUNDING[dtype] * scale)


def affine(a0: Any, b0: Any, a1: Any, b1: Any) -> Any:
    return a0 * a1, b0 * a1 + b1


@pytest.mark.parametrize(("case", "dtype"), CASES, ids=str)
def test_along_an_axis(load, host, case, dtype):
    shape, axis = case
    indexed = (*shape[:axis], 3, *shape[axis + 1 :])
    index = np.random.default_rng(1).integers(0, shape[axis], indexed).astype(np.int32)

    def body(x, i):
        y = x.to(i32) if dtype == bool_ else x * 0.25 if dtype.is_float else x
        return (
            y.cumsum(axis),
            y.cumsum(axis, reverse=True),
            *tl.reduce((y, y + 1), axis, affine),
            x.sort(axis),
            x.topk(1, axis),
            x.flip(axis),
            x.gather(i, axis),
        )

    check(load, host, body, [arrays(shape, dtype), index], [dtype, i32])


@pytest.mark.parametrize("dtype", [i32, bf16], ids=str)
def test_every_width(load, target, dtype):
    """Rows of few and many elements, in vectors of all lengths and none."""

    def body(x, y):
        scan = tl.associative_scan((x & 1 if dtype.is_int else x * 0.5, x), 0, affine, True)
        return *scan, x.sort(0, descending=True), y.cumsum(1), y.sort(), y.topk(4), y.flip(0)

    inputs = [arrays((100,), dtype), arrays((16, 12), dtype, 1)]
    check(load, target, body, inputs, [dtype, dtype])


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
def test_order_of_special_numbers(load, extreme, dtype):
    special = np.array([np.nan, 1.0, -0.0, np.inf, 0.0, -np.nan, -np.inf, -2.5])
    x = np.tile(special, 5).astype(dtype.numpy)
    function, (up, down) = build(lambda x: (x.sort(), x.sort(descending=True)), [x], [dtype])
    load(function, extreme)((1,), [x, up, down])
    order = np.repeat(np.array([-np.inf, -2.5, -0.0, 0.0, 1.0, np.inf, np.nan, np.nan]), 5)
    for found, wanted in ((up, order), (down, order[::-1])):
        wide = found.astype(np.float64)
        np.testing.assert_array_equal(wide, wanted)
        np.testing.assert_array_equal(np.signbit(wide), np.signbit(wanted))


@pytest.mark.parametrize("dtype", [i8, i64, u8, u32], ids=str)
def test_histogram(load, extreme, dtype):
    body = lambda x: (tl.histogram(x, 4), tl.histogram(x, 300, mask=x != 1))  # noqa: E731
    for size in (7, 3000):
        check(load, extreme, body, [arrays((size,), dtype)], [dtype])


def test_batches_of_products(load, extreme):
    a, b = arrays((4, 32, 16), f32), arrays((4, 32, 16), f32, 1)
    body = lambda a, b: tl.dot(a, b.permute(0, 2, 1))  # noqa: E731
    check(load, extreme, body, [a, b], [f32, f32])
    check(load, extreme, body, [a.astype(np.int8), b.astype(np.int8)], [i8, i8])


MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "split, transposed": lambda x, y: tl.split(x.reshape(64, 32, 2))[1].trans(),
    "interleave": lambda x, y: tl.interleave(x, y),
    "join, permuted": lambda x, y: tl.join(x, y).permute(2, 0, 1),
    "join, reduced": lambda x, y: (tl.join(x, y).sum(2), tl.join(x, y).max(0)),
    "three axes": lambda x, y: (
        x.reshape(32, 32, 4).permute(2, 1, 0),
        x.reshape(32, 32, 4).sum(1),
        x.reshape(4, 32, 32).trans().reshape(64, 64).trans(),
    ),
    "cat": lambda x, y: (tl.cat(x, y), tl.cat(x, y, dim=1).reshape(128, 64), tl.cat(x, x, dim=1)),
    "flips": lambda x, y: (x.flip(0), x.flip(1).sum(1), x + y.flip(0), x.flip(0).cumsum(0)),
    "lookup in both": lambda x, y: (
        x.gather((tl.arange(0, 64)[:, None] * 7 + tl.arange(0, 64)[None, :] * 3) % 64, 0),
        x.gather((tl.arange(0, 64)[:, None] * 7 + tl.arange(0, 64)[None, :] * 3) % 64, 1),
    ),
    "dot of reshaped": lambda x, y: tl.dot(x.reshape(32, 128), y.trans().reshape(128, 32)),
    "dot of split": lambda x, y: tl.dot(*tl.split(tl.join(x, y))),
    "dot of scan": lambda x, y: tl.dot(x.cumsum(1) * 0.1, y.flip(0)),
    "dot of cat": lambda x, y: tl.dot(tl.cat(x, y, dim=1), tl.cat(y, x)),
    "extremes": lambda x, y: (*tl.max(x, 1, return_indices=True, keep_dims=True), x.argmin(0)),
    "statistics of a scan": lambda x, y: (x.cumsum(1).sum(0), (x.cumsum(0) - y.cumsum(0)).max(1)),
}


@pytest.mark.parametrize("name", MOVES)
def test_large_tiles(load, extreme, name):
    """64 x 64 elements, more than registers hold."""
    inputs = [arrays((64, 64), f32), arrays((64, 64), f32, 1)]
    check(load, extreme, MOVES[name], inputs, [f32, f32])


def test_elements_as_scalars(load, extreme):
    """The ends of reshapes and splits are scalars, next to tiles that registers do not hold."""

    def body(x, y):
        first, second = tl.split(x.sum(0).reshape(32, 2).max(0))
        only = y.max(0).max(0, keep_dims=True).reshape(())
        return x * first + y * second - only

    check(load, extreme, body, [arrays((64, 64), f32), arrays((64, 64), f32, 1)], [f32, f32])


def test_scratch_memory_is_read_after_it_is_written(load, extreme):
    """Every round of a loop overwrites what the round before it read, in the same memory."""

    def body(x):
        def turn(i, t, total):
            up = t.cumsum(1) & 63
            looked = up.gather((t & 31) + i, 1)
            return looked.flip(0).sort(1) + up, total + t.sort(0) - looked

        return tl.for_(0, 5, 1, (x, tl.zeros(x.shape, i32)), turn)

    check(load, extreme, body, [arrays((8, 64), i32)], [i32])
    check(load, extreme, body, [arrays((64, 64), i32)], [i32])


STEPS: dict[str, Callable[[Any, int], Any]] = {
    "cumsum": lambda x, axis: x.cumsum(axis),
    "from the end": lambda x, axis: x.cumsum(axis, reverse=True),
    "sort": lambda x, axis: x.sort(axis),
    "flip": lambda x, axis: x.flip(axis),
    "gather": lambda x, axis: x.gather(x % x.shape[axis], axis),
    "transpose": lambda x, axis: x.trans(),
    "reshape": lambda x, axis: x.trans().reshape(x.shape),
    "total": lambda x, axis: x + x.sum(axis, keep_dims=True),
    "last": lambda x, axis: x ^ tl.reduce(x, axis, lambda a, b: b, keep_dims=True),
}


@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=5),
    shape=st.sampled_from([(5, 3), (8, 16), (32, 64)]),
    seed=st.integers(0, 99),
)
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_chains(load, host, names, shape, seed):
    """Ops in any order: none may pass the memory that another has yet to write or to read."""

    def body(x):
        for number, name in enumerate(names):
            x = STEPS[name](x, number % 2) & 31
        return x

    check(load, host, body, [arrays(shape, i32, seed)], [i32])
