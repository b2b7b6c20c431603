"""Element types: names, promotion as in PyTorch, conversions by the numerics policy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Optional

import ml_dtypes
import numpy as np
import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core import ops
from teeny_core.dtype import ALL, FLOATS, INTS, weak

NARROW = (tn.f16, tn.bf16, tn.f8e4m3, tn.f8e5m2)
TORCH = {
    tn.bool_: "bool",
    tn.i8: "int8",
    tn.i16: "int16",
    tn.i32: "int32",
    tn.i64: "int64",
    tn.u8: "uint8",
    tn.f16: "float16",
    tn.bf16: "bfloat16",
    tn.f32: "float32",
    tn.f64: "float64",
}


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_names_round_trip(dtype: tn.DType) -> None:
    assert tn.dtype(dtype.name) is dtype
    assert tn.dtype(dtype.numpy) is dtype
    assert tn.dtype(dtype.numpy.name) is dtype
    assert dtype.itemsize == dtype.numpy.itemsize


def test_unions_with_none_are_annotations() -> None:
    assert (tn.f32 | None) == (None | tn.f32) == Optional[tn.f32]  # noqa: UP045
    with pytest.raises(TypeError, match="unsupported operand"):
        tn.f32 | tn.i32  # type: ignore[operator]


def test_python_types() -> None:
    assert (tn.dtype(bool), tn.dtype(int), tn.dtype(float)) == (tn.bool_, tn.i64, tn.f32)
    assert tn.dtype(np.float32) is tn.f32


@pytest.mark.parametrize("wrong", ["f33", "i4", "complex64", np.complex64, str, object(), None])
def test_unknown_types(wrong: object) -> None:
    with pytest.raises(tn.DTypeError, match="hint: the element types are"):
        tn.dtype(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("a", TORCH, ids=str)
@pytest.mark.parametrize("b", TORCH, ids=str)
def test_promotion_is_pytorchs(a: tn.DType, b: tn.DType) -> None:
    torch = pytest.importorskip("torch")
    expected = torch.promote_types(getattr(torch, TORCH[a]), getattr(torch, TORCH[b]))
    assert str(expected) == f"torch.{TORCH[tn.promote(a, b)]}"


def test_promotion_of_unsigned() -> None:
    assert tn.promote(tn.u16, tn.i16) is tn.i32
    assert tn.promote(tn.i8, tn.u32) is tn.i64
    assert tn.promote(tn.u16, tn.u64) is tn.u64
    for pair in ((tn.u64, tn.i8), (tn.f8e4m3, tn.f8e5m2)):
        with pytest.raises(tn.DTypeError, match="no common type"):
            tn.promote(*pair)


def test_scalars_are_weak() -> None:
    assert weak(3, tn.f16) is tn.f16
    assert weak(3, tn.u8) is tn.u8
    assert weak(0.5, tn.bf16) is tn.bf16
    assert weak(0.5, tn.i8) is tn.f32
    assert weak(True, tn.i8) is tn.i8
    assert weak(2, tn.bool_) is tn.i64


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_limits_of_floats(dtype: tn.DType) -> None:
    limits = np.array([dtype.min, dtype.max]).astype(dtype.numpy)
    assert np.isfinite(limits.astype(np.float64)).all()
    assert limits.astype(np.float64).tolist() == [dtype.min, dtype.max]


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_limits_of_integers(dtype: tn.DType) -> None:
    info = np.iinfo(dtype.numpy)  # type: ignore[type-var]
    assert (dtype.min, dtype.max) == (info.min, info.max)


# --- conversions --------------------------------------------------------------------------------


def nearest(value: float, dtype: tn.DType) -> float:
    """Round by exact arithmetic over all values of an 8 or 16-bit type, ties to the even bits."""
    size = {8: np.uint8, 16: np.uint16}[dtype.bits]
    bits = np.arange(1 << dtype.bits, dtype=np.uint32).astype(size)
    table = bits.view(dtype.numpy).astype(np.float64)
    finite = np.isfinite(table)
    exact = Fraction(value)
    distances = [abs(Fraction(v) - exact) for v in table[finite].tolist()]
    least = min(distances)
    ties = [b for b, d in zip(bits[finite].tolist(), distances, strict=True) if d == least]
    chosen = next((b for b in ties if b % 2 == 0), ties[0])
    return float(np.array([chosen], size).view(dtype.numpy).astype(np.float64)[0])


@given(st.floats(-400, 400), st.sampled_from(["f8e4m3", "f8e5m2"]))
@settings(max_examples=150, deadline=None)
def test_rounding_from_f64_is_done_once(value: float, name: str) -> None:
    dtype = tn.dtype(name)
    got = ops.convert(np.array(value), dtype).astype(np.float64)
    assert float(got) == nearest(value, dtype)


@pytest.mark.parametrize("dtype", [tn.f16, tn.bf16], ids=str)
def test_no_double_rounding(dtype: tn.DType) -> None:
    digits = 11 if dtype is tn.f16 else 8
    tie = 1 + 2.0**-digits  # halfway between 1 and the next value
    above, below = tie + 2.0**-45, tie - 2.0**-45  # f32 cannot tell them from the tie
    unit = 2.0 ** (1 - digits)
    got = ops.convert(np.array([below, tie, above, -above]), dtype).astype(np.float64)
    np.testing.assert_array_equal(got, [1, 1, 1 + unit, -1 - unit])


def test_f64_to_narrow_at_the_ends() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300, 1e-300])
    for dtype in (tn.f16, tn.bf16):
        got = ops.convert(values, dtype).astype(np.float64)
        expected = [np.nan, np.inf, -np.inf, 0, -0.0, np.inf, -np.inf, 0]
        np.testing.assert_array_equal(got, expected)
        assert np.signbit(got[4])


def test_f32_to_bf16_rounds_to_nearest_even() -> None:
    got = ops.convert(np.array([0.26914], np.float32), tn.bf16)
    assert got.astype(np.float32)[0] == np.float32(0.26953125)


@pytest.mark.parametrize("target", INTS, ids=str)
@pytest.mark.parametrize("source", [tn.f16, tn.bf16, tn.f32, tn.f64], ids=str)
def test_floats_to_integers_saturate(source: tn.DType, target: tn.DType) -> None:
    values = [math.nan, math.inf, -math.inf, 1e20, -1e20, 2.9, -2.9, -0.5, 127.5, 128, 255.9, 256]
    values += [2.0**31, 2.0**31 - 128, -(2.0**31), 2.0**63, 2.0**63 - 1024, 2.0**64, -(2.0**63)]
    array = ops.convert(np.array(values), source)
    got = ops.convert(array, target)
    expected = [
        0
        if math.isnan(v)
        else int(min(max(v, target.min), target.max))
        if math.isinf(v)
        else min(max(math.trunc(v), int(target.min)), int(target.max))
        for v in array.astype(np.float64).tolist()
    ]
    assert got.tolist() == expected
    assert got.dtype == target.numpy


@pytest.mark.parametrize("target", INTS, ids=str)
@pytest.mark.parametrize("source", INTS, ids=str)
def test_integers_wrap(source: tn.DType, target: tn.DType) -> None:
    values = [source.min, -1 if source.is_signed else 1, 0, 1, 100, source.max]
    got = ops.convert(np.array(values, source.numpy), target)
    span = 1 << target.bits
    expected = [(int(v) - int(target.min)) % span + int(target.min) for v in values]
    assert got.tolist() == expected


@pytest.mark.parametrize("source", ALL, ids=str)
def test_to_bool_is_not_zero(source: tn.DType) -> None:
    values = [0, 1] + ([0.5, -0.0, math.nan] if source.is_float else [])
    got = ops.convert(np.array(values).astype(source.numpy), tn.bool_)
    assert got.tolist() == [False, True] + ([True, False, True] if source.is_float else [])


@pytest.mark.parametrize("target", ALL, ids=str)
def test_from_bool(target: tn.DType) -> None:
    got = ops.convert(np.array([False, True]), target)
    assert got.astype(np.float64).tolist() == [0, 1]


@pytest.mark.parametrize("narrow", NARROW, ids=str)
def test_widening_is_exact(narrow: tn.DType) -> None:
    size = np.uint8 if narrow.bits == 8 else np.uint16
    every = np.arange(1 << narrow.bits).astype(size).view(narrow.numpy)
    back = ops.convert(ops.convert(every, tn.f64), narrow)
    same = np.asarray(back).view(size) == every.view(size)
    assert (same | np.isnan(every.astype(np.float32))).all()


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    assert tn.bf16.numpy == np.dtype(ml_dtypes.bfloat16)
