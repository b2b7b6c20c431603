"""Conversions round once, to nearest even or towards zero, against a search of all values."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import DType, bf16, f8e4m3, f8e5m2, f16, f32, f64, i32, i64, u32, u64
from teeny_triton import KernelError, Ptr, build_function, interpret
from teeny_triton.ir import Function

NARROW = (f16, bf16, f8e4m3, f8e5m2)


def values_of(dtype: DType) -> list[Fraction]:
    """All finite values that are not negative, rising."""
    patterns = np.arange(1 << (dtype.bits - 1)).astype({8: np.uint8, 16: np.uint16}[dtype.bits])
    with np.errstate(invalid="ignore"):
        wide = patterns.view(dtype.numpy).astype(np.float64)
    return [Fraction(float(x)) for x in wide[np.isfinite(wide)]]


def rounded(x: Fraction, dtype: DType, table: list[Fraction], towards_zero: bool) -> float:
    """Round a number to a format as IEEE 754 defines it, by what lies beside it."""
    size, sign = abs(x), -1 if x < 0 else 1
    step = table[-1] - table[-2]
    ladder = [*table, table[-1] + step]  # the value after the last stands for overflow
    after = bisect_right(ladder, size)
    if after == len(ladder):
        place = len(table) - (1 if towards_zero else 0)
    else:
        low, high = ladder[after - 1], ladder[after]
        middle = (low + high) / 2
        up = size > middle or (size == middle and after % 2 == 0)
        place = after - 1 if towards_zero or not up else after
    if place >= len(table):
        return float("nan") if dtype == f8e4m3 else sign * float("inf")
    return sign * float(table[place])


def around(dtype: DType, table: list[Fraction], rng: np.random.Generator) -> list[Fraction]:
    """Ties between neighbours, and numbers a little beside them."""
    some = sorted({0, 1, 2, len(table) - 2, *rng.integers(0, len(table) - 1, 12).tolist()})
    ties = [(table[i] + table[i + 1]) / 2 for i in some]
    ties.append(table[-1] + (table[-1] - table[-2]) / 2)
    close = [tie * (1 + Fraction(sign, 1 << 45)) for tie in ties for sign in (-1, 1)]
    return [*ties, *close, *(-x for x in close), table[-1] * 9, table[1] / 1000]


def convert(source: DType, target: DType, count: int, rounding: str | None = None) -> Function:
    with build_function("convert", [("x", Ptr[source]), ("o", Ptr[target])]) as f:
        x, o = (p + tl.arange(0, count) for p in f.arguments)
        tl.store(o, tl.load(x).to(target, fp_downcast_rounding=rounding))
    return f.function


def both(load, target, function: Function, x: np.ndarray, dtype: DType) -> np.ndarray:
    """Run natively and in the interpreter, which must agree to the last bit."""
    native, ours = np.zeros(len(x), dtype.numpy), np.zeros(len(x), dtype.numpy)
    load(function, target)((1,), [x, native])
    interpret(function, (1,), [x, ours])
    np.testing.assert_array_equal(native.astype(np.float64), ours.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(native), np.signbit(ours))
    return native.astype(np.float64)


@pytest.mark.parametrize("rounding", [None, "rtz"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_f64_rounds_once(load, extreme, dtype, rounding):
    table = values_of(dtype)
    exact = around(dtype, table, np.random.default_rng(0))
    x = np.array([float(v) for v in exact] + [np.inf, -np.inf, np.nan])
    found = both(load, extreme, convert(f64, dtype, len(x), rounding), x, dtype)
    wanted = [rounded(Fraction(float(v)), dtype, table, rounding == "rtz") for v in x[:-3]]
    np.testing.assert_array_equal(found[:-3], wanted)
    edge = [np.nan] * 3 if dtype == f8e4m3 else [np.inf, -np.inf, np.nan]
    np.testing.assert_array_equal(found[-3:], edge)


@pytest.mark.parametrize("source", [f16, bf16, f32], ids=str)
@pytest.mark.parametrize("dtype", [f16, bf16, f8e4m3, f8e5m2], ids=str)
def test_towards_zero_from_narrower_floats(load, host, source, dtype):
    if dtype.bits >= source.bits and dtype != source:
        with pytest.raises(KernelError, match="fp_downcast_rounding does not apply"):
            convert(source, dtype, 4, "rtz")
        return
    table = values_of(dtype)
    x = np.array([float(v) for v in around(dtype, table, np.random.default_rng(1))])
    with np.errstate(all="ignore"):
        x = x.astype(np.float32).astype(source.numpy)
    x = x[np.isfinite(x.astype(np.float32))]
    found = both(load, host, convert(source, dtype, len(x), "rtz"), x, dtype)
    wanted = [rounded(Fraction(float(v)), dtype, table, True) for v in x]
    np.testing.assert_array_equal(found, wanted)


def test_f64_towards_zero_to_f32(load, extreme):
    x = np.array([1 + 2.0**-24, 1 - 2.0**-40, -1e300, 3.4e38, 1e-46, -0.0, np.inf, 0.1])
    found = both(load, extreme, convert(f64, f32, len(x), "rtz"), x, f32)
    most = float(np.finfo(np.float32).max)
    tenth = float(np.nextafter(np.float32(0.1), np.float32(0)))
    large, below = float(np.float32(3.4e38)), 1 - 2.0**-24  # the nearest f32 lies below
    np.testing.assert_array_equal(found, [1, below, -most, large, 0, 0, np.inf, tenth])


@pytest.mark.parametrize("source", [i32, u32, i64, u64], ids=str)
@pytest.mark.parametrize("dtype", [f16, bf16, f32], ids=str)
def test_integers_round_once(load, extreme, source, dtype):
    """Sums of powers of two just beside ties, where rounding through f32 or f64 goes wrong."""
    digits = {f16: 11, bf16: 8, f32: 24}[dtype]
    x = [source.max, source.min, 0, 1, 65519, 65520]
    for top in range(digits + 1, source.bits - 1, 3):
        tie = (1 << top) + (1 << (top - digits))
        x += [tie - 1, tie, tie + 1, tie + (1 << (top - digits + 1))]
    x = [v for v in x if source.min <= v <= source.max]
    found = both(load, extreme, convert(source, dtype, len(x)), np.array(x, source.numpy), dtype)
    most = float(dtype.max)
    for number, result in zip(x, found.tolist(), strict=True):
        size = abs(number)
        drop = max(size.bit_length() - digits, 0)
        low = size >> drop << drop
        rest, half = size - low, (1 << drop) / 2
        up = rest > half or (rest == half and drop > 0 and (low >> drop) & 1)
        wanted = low + (1 << drop) if up and drop else low
        assert abs(result) == (wanted if wanted <= most else float("inf")), number


def test_what_is_refused():
    with build_function("k", [("x", Ptr[f32])]) as f:
        value = tl.load(f.arguments[0])
        with pytest.raises(KernelError, match="does not apply to f32 becoming f64"):
            value.to(f64, "rtz")
        with pytest.raises(KernelError, match="does not apply to f32 becoming i32"):
            tl.cast(value, i32, fp_downcast_rounding="rtz")
        with pytest.raises(KernelError, match="'up' is no rounding mode"):
            value.to(f16, fp_downcast_rounding="up")
        assert value.to(i32, bitcast=True).dtype == i32
