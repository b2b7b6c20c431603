"""Random shapes, dtypes and axes: the language in the interpreter against NumPy."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from teeny_core import DType, bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

Run = Any

INTEGERS = [i8, i16, i32, i64, u8, u16, u32, u64]
FLOATS = [f16, f32, f64]

shapes = hnp.array_shapes(min_dims=0, max_dims=3, max_side=5)
checked = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def arrays(dtype: DType, shape: Any = shapes) -> st.SearchStrategy[np.ndarray]:
    if not dtype.is_float:
        return hnp.arrays(dtype.numpy, shape)
    width = min(dtype.bits, 64)
    return hnp.arrays(dtype.numpy, shape, elements=st.floats(width=width))  # type: ignore[arg-type]


def pairs(dtype: DType) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    """Two arrays whose shapes broadcast."""
    return hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4).flatmap(
        lambda found: st.tuples(*(arrays(dtype, shape) for shape in found.input_shapes))
    )


BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "maxnum": np.fmax,
    "minnum": np.fmin,
    "lt": operator.lt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
EVERY = tl.PropagateNan.ALL
OURS = {
    "maximum": lambda a, b: tl.maximum(a, b, EVERY),
    "minimum": lambda a, b: tl.minimum(a, b, propagate_nan=EVERY),
    "maxnum": tl.maximum,
    "minnum": tl.minimum,
}


@pytest.mark.parametrize("name", BINARY)
@given(data=st.data())
@checked
def test_binary(run: Run, name: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([*INTEGERS, *FLOATS]))
    a, b = data.draw(pairs(dtype))
    with np.errstate(all="ignore"):
        expected = np.asarray(BINARY[name](a, b))
    got = run(OURS.get(name, BINARY[name]), a, b)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@given(data=st.data())
@checked
def test_integer_bits_and_shifts(run: Run, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(INTEGERS))
    a, b = data.draw(pairs(dtype))
    amount = np.abs(b.astype(object) % dtype.bits).astype(dtype.numpy)
    got = run(lambda a, b, c: (a & b, a | b, a ^ b, ~a, a << c, a >> c), a, b, amount)
    expected = (a & b, a | b, a ^ b, ~a, a << amount, a >> amount)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(data=st.data())
@checked
def test_casts_between_integers_wrap(run: Run, data: st.DataObject) -> None:
    source, target = (data.draw(st.sampled_from(INTEGERS)) for _ in range(2))
    x = data.draw(arrays(source))
    got = run(lambda x: x.to(target), x)
    wrapped = [int(v) % 2**target.bits for v in x.ravel()]
    signed = [v - 2**target.bits if v > target.max else v for v in wrapped]
    np.testing.assert_array_equal(got.ravel(), np.array(signed, target.numpy))


@given(data=st.data())
@checked
def test_casts_from_floats_saturate(run: Run, data: st.DataObject) -> None:
    source, target = data.draw(st.sampled_from(FLOATS)), data.draw(st.sampled_from(INTEGERS))
    x = data.draw(arrays(source))
    got = run(lambda x: x.to(target), x)
    for value, ours in zip(x.ravel().tolist(), got.ravel().tolist(), strict=True):
        bounded = 0.0 if value != value else max(min(value, float(target.max)), float(target.min))
        assert ours == max(min(int(bounded), target.max), target.min)


@given(data=st.data())
@checked
def test_reductions(run: Run, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([i32, i64, u32, f32, f64]))
    x = data.draw(arrays(dtype, hnp.array_shapes(max_dims=3, max_side=5)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    kinds = ("max", "min", "argmax", "argmin")
    got = run(lambda x: tuple(getattr(tl, kind)(x, axis) for kind in kinds), x)
    for kind, ours in zip(kinds, got, strict=True):
        np.testing.assert_array_equal(ours, getattr(np, kind)(x, axis))
    if not dtype.is_float:
        sums = run(lambda x: (tl.sum(x, axis), tl.prod(x, axis), tl.xor_sum(x, axis)), x)
        for ufunc, ours in zip((np.add, np.multiply, np.bitwise_xor), sums, strict=True):
            np.testing.assert_array_equal(ours, ufunc.reduce(x, axis, dtype=x.dtype))


@given(data=st.data())
@checked
def test_sums_of_floats_are_close(run: Run, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([f16, bf16, f32, f64]))
    n = data.draw(st.integers(1, 300))
    x = np.random.default_rng(n).uniform(0.5, 1, n).astype(dtype.numpy)
    exact = x.astype(np.float64).sum()
    epsilon = {f16: 2**-10, bf16: 2**-7, f32: 2**-23, f64: 2**-52}[dtype]
    assert abs(float(run(tl.sum, x)) - exact) <= 8 * epsilon * exact


@given(data=st.data())
@checked
def test_movement(run: Run, data: st.DataObject) -> None:
    x = data.draw(arrays(i16, hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)))
    order = data.draw(st.permutations(range(x.ndim)))
    np.testing.assert_array_equal(run(lambda x: x.permute(tuple(order)), x), x.transpose(order))
    flat = run(lambda x: tl.ravel(x.permute(tuple(order))), x)
    np.testing.assert_array_equal(flat, x.transpose(order).ravel())
    axis = data.draw(st.integers(-x.ndim - 1, x.ndim))
    np.testing.assert_array_equal(
        run(lambda x: tl.expand_dims(x, axis), x), np.expand_dims(x, axis)
    )
    dim = data.draw(st.integers(-x.ndim, x.ndim - 1))
    np.testing.assert_array_equal(
        run(lambda x: tl.cat(x, x + 1, dim=dim), x), np.concatenate([x, x + 1], dim)
    )
    shape = hnp.broadcastable_shapes(x.shape, min_dims=x.ndim, max_dims=3, max_side=4)
    target = np.broadcast_shapes(x.shape, data.draw(shape))
    np.testing.assert_array_equal(
        run(lambda x: x.broadcast_to(target), x), np.broadcast_to(x, target)
    )


@given(m=st.integers(1, 9), n=st.integers(1, 9), k=st.integers(1, 9), data=st.data())
@checked
def test_dot(run: Run, m: int, n: int, k: int, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([f16, bf16, f32, f64, i8, u8]))
    seeded = np.random.default_rng(m + 10 * n + 100 * k)
    low = 0 if dtype.kind == "uint" else -8
    a, b = (seeded.integers(low, 8, s).astype(dtype.numpy) for s in ((m, k), (k, n)))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(run(tl.dot, a, b), expected)
    np.testing.assert_array_equal(run(lambda a, b: tl.dot(b.T, a.T), a, b), expected.T)


@given(a=arrays(f32, (4,)), b=arrays(f32, (4,)), c=arrays(f32, (4,)))
@checked
def test_fma_is_one_rounding_of_f64(run: Run, a: Any, b: Any, c: Any) -> None:
    """Where the sum is exact in f64, one rounding to f32 is all that happens."""
    with np.errstate(all="ignore"):
        wide = a.astype(np.float64) * b.astype(np.float64)
        total = wide + c.astype(np.float64)
        exact = (total - wide == c) & (total - c == wide) | ~np.isfinite(total)
        expected = total.astype(np.float32)
    got = run(tl.fma, a, b, c)
    np.testing.assert_array_equal(got[exact], expected[exact])
