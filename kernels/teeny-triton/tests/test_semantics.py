"""The meaning of opcodes, against exact arithmetic, Python and PyTorch."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from teeny_core import bf16, bool_, f16, f32, i8, i32, i64, u8, u32, u64
from teeny_triton import semantics
from teeny_triton.ir import UNARY_FLOAT
from teeny_triton.semantics import elementwise

singles = st.floats(width=32, allow_nan=False, allow_infinity=False)
words = st.integers(-(2**31), 2**31 - 1)


@given(singles, singles, singles)
def test_fma_rounds_once(a: float, b: float, c: float) -> None:
    got = elementwise("fma", *(np.float32([x]) for x in (a, b, c)))[0]
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0 or abs(exact) > float(f32.max):
        return
    with np.errstate(over="ignore"):
        below, above = (np.nextafter(got, np.float32(end)) for end in (-np.inf, np.inf))
    error = abs(Fraction(float(got)) - exact)
    for other in (below, above):
        if np.isfinite(other):
            assert error <= abs(Fraction(float(other)) - exact)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_fma_f64_is_exact(a: float, b: float, c: float) -> None:
    got = float(elementwise("fma", *(np.float64([x]) for x in (a, b, c)))[0])
    if not all(map(math.isfinite, (a, b, c))):
        return
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact and abs(exact) < Fraction(2) ** 1023:
        assert got == exact.numerator / exact.denominator


def test_fma_special_values() -> None:
    inf, nan = np.inf, np.nan
    a, b, c = (
        np.float32([inf, 0, 1, inf]),
        np.float32([1, inf, nan, 1]),
        np.float32([1, 1, 1, -inf]),
    )
    got = elementwise("fma", a, b, c)
    assert got[0] == inf
    assert np.isnan(got[1:]).all()


@given(words, words)
def test_integer_division_floors(a: int, b: int) -> None:
    x, y = np.int32([a]), np.int32([b])
    quotient, rest = elementwise("floordiv", x, y)[0], elementwise("mod", x, y)[0]
    if b == 0:
        assert (quotient, rest) == (0, 0)
    elif (a, b) != (-(2**31), -1):
        assert (quotient, rest) == (a // b, a % b)


@given(st.integers(-9, 9), st.integers(-4, 9))
def test_integer_power(a: int, b: int) -> None:
    got = elementwise("pow", np.int32([a]), np.int32([b]))[0]
    if b >= 0:
        assert got == np.int64(a**b).astype(np.int32)
    else:
        assert got == {1: 1, -1: (-1) ** b}.get(a, 0)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_umulhi(a: int, b: int) -> None:
    assert elementwise("umulhi", np.uint64([a]), np.uint64([b]))[0] == (a * b) >> 64
    x, y = a >> 32, b >> 32
    assert elementwise("umulhi", np.uint32([x]), np.uint32([y]))[0] == (x * y) >> 32


@pytest.mark.parametrize("opcode", ["shl", "shr"])
@pytest.mark.parametrize("amount", [0, 1, 31, 32, 40])
def test_shifts_beyond_the_width(opcode: str, amount: int) -> None:
    got = elementwise(opcode, np.int32([-5, 7]), np.int32([amount, amount]))
    wide = [(x << amount) if opcode == "shl" else (x >> amount) for x in (-5, 7)]
    np.testing.assert_array_equal(got, np.array(wide).astype(np.int32))


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        (1e20, i32, 2147483647),
        (-1e20, i32, -2147483648),
        (math.nan, i32, 0),
        (2147483520.0, i32, 2147483520),
        (-0.9, i32, 0),
        (300.0, u8, 255),
        (-1.0, u8, 0),
        (-129.0, i8, -128),
        (1e30, i64, 2**63 - 1),
        (1e30, u64, 2**64 - 1),
        (math.inf, u32, 2**32 - 1),
        (-math.inf, i64, -(2**63)),
    ],
)
def test_float_to_integer_saturates(value: float, target: object, expected: int) -> None:
    for kind in (np.float32, np.float64):
        assert int(semantics.cast(np.array([value], kind), target)[0]) == expected  # type: ignore[arg-type]


def test_float_to_bool_and_back() -> None:
    got = semantics.cast(np.float32([0.0, -0.0, 0.5, np.nan]), bool_)
    np.testing.assert_array_equal(got, [False, False, True, True])
    np.testing.assert_array_equal(semantics.cast(got, f32), [0, 0, 1, 1])


def test_f32_to_bf16_rounds_to_even() -> None:
    assert float(semantics.cast(np.float32([0.26914]), bf16)[0]) == 0.26953125


def test_halves_compute_in_f32() -> None:
    a, b = np.float16([60000]), np.float16([60000])
    assert np.isinf(elementwise("add", a, b))[0]
    assert elementwise("add", np.float16([2048]), np.float16([1]))[0] == 2048
    ones = np.ones(4096, np.float16)
    assert semantics.reduce("sum", ones, 0) == 4096
    assert semantics.reduce("sum", np.ones(4096, ml_dtypes.bfloat16), 0) == 4096
    assert semantics.reduce("sum", ones, 0).dtype == f16.numpy


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_extremes_propagate_nan(dtype: type) -> None:
    x = np.array([2, np.nan, 3], dtype)
    for opcode in ("maximum", "minimum"):
        assert np.isnan(elementwise(opcode, x, x[::-1]).astype(np.float32))[1]
        assert np.isnan(elementwise(opcode, x[1:2], x[:1]).astype(np.float32))[0]
    for kind in ("max", "min"):
        assert np.isnan(semantics.reduce(kind, x, 0).astype(np.float32))
        assert semantics.reduce(f"arg{kind}", x, 0) == 1


def test_argmax_takes_the_first_of_equals() -> None:
    x = np.array([[1, 7, 7], [3, 3, 3]], np.int32)
    np.testing.assert_array_equal(semantics.reduce("argmax", x, 1), [1, 0])
    np.testing.assert_array_equal(semantics.reduce("argmin", x, 0), [0, 1, 1])


def test_comparisons_with_nan() -> None:
    x = np.array([np.nan, 1], ml_dtypes.bfloat16)
    expected = {"eq": False, "ne": True, "lt": False, "le": False, "gt": False, "ge": False}
    for opcode, value in expected.items():
        assert elementwise(opcode, x, x[::-1])[0] == value


@pytest.mark.parametrize(
    "opcode",
    [*UNARY_FLOAT, "neg", "abs"],
)
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
def test_unary_functions_match_torch(opcode: str, name: str) -> None:
    torch = pytest.importorskip("torch")
    values = [-3.5, -2.5, -0.5, -0.0, 0.0, 0.3, 0.5, 1.5, 2.5, 3.7, np.inf, -np.inf, np.nan]
    x = np.array(values, {"bfloat16": ml_dtypes.bfloat16}.get(name, name))
    got = elementwise(opcode, x)
    assert got.dtype == x.dtype
    wide = torch.tensor(x.astype(np.float64))
    expected = getattr(torch, opcode)(wide).to(getattr(torch, name)).to(torch.float64).numpy()
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=1e-15, atol=1e-300)
