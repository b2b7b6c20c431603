"""Products of all types, and of blocks that share scales, against NumPy in f64."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import DType, bf16, f8e4m3, f8e5m2, f16, f32, f64, i8, i32, u8, u16
from teeny_triton import KernelError, Ptr, build_function, interpret
from teeny_triton.ir import Function

M, N, K = 8, 16, 64
PAIRS = [(t, t) for t in (f16, bf16, f32, f64, f8e4m3, f8e5m2, i8, u8)]
PAIRS += [(f8e4m3, f8e5m2), (f8e5m2, f8e4m3), (i8, u8)]


def matrix(pointer: tl.Tile, rows: int, columns: int) -> tl.Tile:
    """Addresses of a row-major matrix."""
    return pointer + tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]


def random(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_int:
        return rng.integers(dtype.min, dtype.max, shape, dtype.numpy, endpoint=True)
    return rng.standard_normal(shape).astype(np.float32).astype(dtype.numpy)


def run_both(load, target, function: Function, arrays: list, result: np.ndarray) -> np.ndarray:
    """Run natively; the interpreter must come as close as the order of additions allows."""
    native, ours = result.copy(), result.copy()
    load(function, target)((1,), [*arrays, native])
    interpret(function, (1,), [*arrays, ours])
    exact = np.issubdtype(result.dtype, np.integer)
    unit = 0.0 if exact else max(1e-5, float(ml_dtypes.finfo(result.dtype).eps))
    np.testing.assert_allclose(native.astype("f8"), ours.astype("f8"), rtol=unit, atol=10 * unit)
    return native.astype(np.float64)


@pytest.mark.parametrize(("left", "right"), PAIRS, ids=str)
def test_types(load, host, left, right):
    held = {f64: f64, i8: i32, u8: i32}.get(left, f32)
    parameters = [("a", Ptr[left]), ("b", Ptr[right]), ("c", Ptr[held]), ("o", Ptr[held])]
    with build_function("multiply", parameters) as f:
        a, b, c, o = f.arguments
        left_tile, right_tile = tl.load(matrix(a, M, K)), tl.load(matrix(b, K, N))
        acc = tl.load(matrix(c, M, N))
        total = tl.dot(left_tile, right_tile, acc, input_precision="ieee")
        tl.store(matrix(o, M, N), total + tl.dot(left_tile, right_tile, allow_tf32=False))
    a, b = random(left, (M, K), 0), random(right, (K, N), 1)
    c = random(i8 if held == i32 else held, (M, N), 2).astype(held.numpy)
    found = run_both(load, host, f.function, [a, b, c], np.zeros((M, N), held.numpy))
    wanted = c.astype(np.float64) + 2 * (a.astype(np.float64) @ b.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4 if held == f32 else 1e-12)


@pytest.mark.parametrize("wanted", [f16, bf16], ids=str)
def test_narrow_results(load, extreme, wanted):
    """The sum is kept in f32 and rounded once."""
    with build_function("narrow", [(n, Ptr[wanted]) for n in ("a", "b", "c", "o", "p")]) as f:
        a, b, c, o, p = f.arguments
        left, right = tl.load(matrix(a, M, K)), tl.load(matrix(b, K, N))
        tl.store(matrix(o, M, N), tl.dot(left, right, out_dtype=wanted))
        tl.store(matrix(p, M, N), tl.dot(left, right, acc=tl.load(matrix(c, M, N))))
    a, b, c = random(wanted, (M, K), 0), random(wanted, (K, N), 1), random(wanted, (M, N), 2)
    o = np.zeros((M, N), wanted.numpy)
    load(f.function, extreme)((1,), [a, b, c, o, p := o.copy()])
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for found, number in ((o, exact), (p, exact + c.astype(np.float64))):
        nearest = number.astype(np.float32).astype(wanted.numpy).astype(np.float64)
        unit = np.abs(nearest) * float(2 ** -(10 if wanted == f16 else 7))
        assert (np.abs(found.astype(np.float64) - nearest) <= unit).all()
        assert (found.astype(np.float64) == nearest).mean() > 0.97


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
STORED = {"e4m3": u8, "e5m2": f8e5m2, "bf16": u16, "fp16": f16, "e2m1": u8}
NUMPY = {
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16, "fp16": np.float16,
}  # fmt: skip


def encoded(form: str, shape: tuple[int, int], axis: int, seed: int):
    """Random numbers of a format: as they are stored, and in f64."""
    rng = np.random.default_rng(seed)
    if form == "e2m1":
        codes = rng.integers(0, 16, shape).astype(np.uint8)
        first, second = (codes.take(range(k, shape[axis], 2), axis) for k in (0, 1))
        return first | (second << 4), E2M1[codes]
    x = rng.standard_normal(shape).astype(np.float32).astype(NUMPY[form])
    return x.view(STORED[form].numpy), x.astype(np.float64)


def scales(rows: int, count: int, seed: int):
    codes = np.random.default_rng(seed).integers(122, 133, (rows, count)).astype(np.uint8)
    return codes, np.exp2(codes.astype(np.float64) - 127)


@pytest.mark.parametrize(
    ("left", "right"), [*itertools.product(("e2m1", "e5m2"), STORED), ("e4m3", "e4m3")]
)
def test_scaled(load, host, left, right):
    packed = left == "e2m1", right == "e2m1"
    a, wide_a = encoded(left, (M, K), 1, 0)
    b, wide_b = encoded(right, (K, N), 0, 1)
    (s, wide_s), (t, wide_t) = scales(M, K // 32, 2), scales(N, K // 32, 3)
    kinds = {"a": STORED[left], "b": STORED[right], "s": u8, "t": u8, "o": f32}
    with build_function("scaled", [(n, Ptr[kind]) for n, kind in kinds.items()]) as f:
        p = dict(zip(kinds, f.arguments, strict=True))
        result = tl.dot_scaled(
            tl.load(matrix(p["a"], M, K // 2 if packed[0] else K)),
            tl.load(matrix(p["s"], M, K // 32)),
            left,
            tl.load(matrix(p["b"], K // 2 if packed[1] else K, N)),
            tl.load(matrix(p["t"], N, K // 32)),
            right,
            acc=tl.full((M, N), 1.0, f32),
        )
        tl.store(matrix(p["o"], M, N), result)
    found = run_both(load, host, f.function, [a, b, s, t], np.zeros((M, N), np.float32))
    wide_a, wide_b = wide_a * wide_s.repeat(32, 1), wide_b * wide_t.repeat(32, 1).T
    np.testing.assert_allclose(found, 1 + wide_a @ wide_b, rtol=1e-5, atol=1e-3)


def test_scaled_other_packing_and_scales(load, extreme):
    """Pairs along M and N, scales of 16 numbers in f8, and no scale."""
    a, wide_a = encoded("e2m1", (M, K), 0, 4)
    b, wide_b = encoded("e2m1", (K, N), 1, 5)
    s = random(f8e4m3, (M, K // 16), 6)
    with build_function(
        "scaled", [("a", Ptr[u8]), ("b", Ptr[u8]), ("s", Ptr[f8e4m3]), ("o", Ptr[f16])]
    ) as f:
        pa, pb, ps, po = f.arguments
        left, right = tl.load(matrix(pa, M // 2, K)), tl.load(matrix(pb, K, N // 2))
        factors = tl.load(matrix(ps, M, K // 16))
        result = tl.dot_scaled(
            left, factors, "e2m1", right, None, "e2m1",
            lhs_k_pack=False, rhs_k_pack=False, out_dtype=f16,
        )  # fmt: skip
        tl.store(matrix(po, M, N), result)
    found = run_both(load, extreme, f.function, [a, b, s], np.zeros((M, N), np.float16))
    wanted = (wide_a * s.astype(np.float64).repeat(16, 1)) @ wide_b
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_extreme_scales(load, extreme):
    """2**-127, 2**127, and NaN; numbers of one bit keep products exact."""
    with build_function("scaled", [("a", Ptr[u8]), ("s", Ptr[u8]), ("o", Ptr[f32])]) as f:
        pa, ps, po = f.arguments
        ones = tl.full((32, 4), 1.0, bf16)
        left, factors = tl.load(matrix(pa, 4, 16)), tl.load(matrix(ps, 4, 1))
        tl.store(matrix(po, 4, 4), tl.dot_scaled(left, factors, "e2m1", ones, None, "bf16"))
    a = np.zeros((4, 16), np.uint8)
    a[:, 0] = 2  # 1.0
    s, o = np.array([[0], [254], [255], [127]], np.uint8), np.zeros((4, 4), np.float32)
    load(f.function, extreme)((1,), [a, s, o])
    np.testing.assert_array_equal(o[:, 0], np.float32([2.0**-127, 2.0**127, np.nan, 1]))


def test_what_is_refused():
    with build_function("k", []):
        x, y = tl.zeros((4, 32), f16), tl.zeros((32, 4), f16)
        for wrong, message in [
            (lambda: tl.dot(x, y.to(f32)), "cannot multiply f16 by f32"),
            (lambda: tl.dot(x, x), "dot takes"),
            (lambda: tl.dot(x, y, input_precision="half"), "'half' is no precision"),
            (lambda: tl.dot(x, y, input_precision="ieee", allow_tf32=True), "not both"),
            (lambda: tl.dot(x, y, out_dtype=f64), "a sum in f32 cannot be given as f64"),
            (lambda: tl.dot(x, y, tl.zeros((4, 4), f16), out_dtype=f32), "the accumulator is f16"),
            (lambda: tl.dot_scaled(x, None, "e3m0", y, None, "fp16"), "'e3m0' is no format"),
            (lambda: tl.dot_scaled(x, None, "e2m1", y, None, "fp16"), "e2m1 is packed in u8"),
            (
                lambda: tl.dot_scaled(x, None, "bf16", y, None, "fp16"),
                "bf16 is held as bf16 or",
            ),
            (
                lambda: tl.dot_scaled(x, tl.zeros((4, 4), u8), "fp16", y, None, "fp16"),
                "do not fit 4 rows of 32 numbers",
            ),
            (
                lambda: tl.dot_scaled(x, tl.zeros((4, 1), f32), "fp16", y, None, "fp16"),
                "scales are u8 or f8e4m3, not f32",
            ),
        ]:
            with pytest.raises(KernelError, match=message):
                wrong()
