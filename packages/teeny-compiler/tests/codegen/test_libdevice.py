"""Composed functions natively, against the interpreter: accuracy is tested where they are made."""

from __future__ import annotations

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import DType, bf16, f16, f32, f64, i32, i64, u32, u64
from teeny_triton import Ptr, build_function
from teeny_triton.ir import Function
from teeny_triton.language.extra import libdevice

# name -> (operands, limit of their magnitude)
FLOATS: dict[str, tuple[int, float]] = {
    **dict.fromkeys(("exp10", "sinh", "cosh"), (1, 80.0)),
    **dict.fromkeys(("log10", "cbrt", "rcbrt", "atan", "asinh", "acosh"), (1, 1e4)),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), (1, 1.1)),
    **dict.fromkeys(("sinpi", "cospi", "erfc", "erfcx", "normcdf"), (1, 6.0)),
    **dict.fromkeys(("lgamma", "tgamma"), (1, 20.0)),
    **dict.fromkeys(("round", "rint", "logb", "saturatef", "fabs"), (1, 1e4)),
    **dict.fromkeys(("hypot", "atan2", "fmod", "remainder", "copysign", "fdim"), (2, 100.0)),
    **dict.fromkeys(("nextafter", "max", "min", "add_rn", "mul_rn"), (2, 100.0)),
}
EXACT = {
    *("round", "rint", "logb", "saturatef", "fabs", "fmod", "remainder", "copysign", "fdim"),
    *("nextafter", "max", "min", "add_rn", "mul_rn"),
}
ONLY_F32 = {"lgamma", "tgamma"}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, 2.0]


def numbers(dtype: DType, limit: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    small = np.exp(rng.uniform(-12, 0, 20)) * rng.choice([-1, 1], 20)
    x = np.concatenate([rng.permutation(SPECIAL), rng.uniform(-limit, limit, 23), small * limit])
    return np.concatenate([rng.permutation(x), x[:3]])[:55].astype(dtype.numpy)


def kernel(names: list[str], dtype: DType, count: int) -> Function:
    """Every function on the same operands, each with a result of its own."""
    parameters = [(n, Ptr[dtype]) for n in ("x", "y")] + [(f"o_{n}", Ptr[dtype]) for n in names]
    with build_function("apply", parameters) as f:
        x, y, *outs = (p + tl.arange(0, count) for p in f.arguments)
        operands = tl.load(x), tl.load(y)
        for name, out in zip(names, outs, strict=True):
            function, arity = getattr(libdevice, name), FLOATS[name][0]
            tl.store(out, function(*operands[:arity]).to(dtype))
    return f.function


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("name", FLOATS)
def test_functions(agree, host, name, dtype):
    if dtype == f64 and name in ONLY_F32:
        return
    limit = FLOATS[name][1]
    x, y = (numbers(dtype, limit, seed) for seed in (0, 1))
    ulps = 0 if name in EXACT else 1 if dtype == f32 else 6
    agree(kernel([name], dtype, len(x)), host, (1,), [x, y, np.zeros_like(x)], ulps)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_narrow_floats(agree, extreme, dtype):
    names = ["atan", "cbrt", "round", "copysign", "nextafter", "fmod", "max", "logb"]
    x, y = (numbers(dtype, 50.0, seed) for seed in (2, 3))
    outs = [np.zeros_like(x) for _ in names]
    agree(kernel(names, dtype, len(x)), extreme, (1,), [x, y, *outs], 1)


@pytest.mark.parametrize("name", ["exp10", "atan2", "erfc", "remainder", "hypot"])
def test_scalar_machines(agree, extreme, name):
    x, y = (numbers(f32, FLOATS[name][1], seed)[:9] for seed in (4, 5))
    agree(kernel([name], f32, len(x)), extreme, (1,), [x, y, np.zeros_like(x)], 1)


@pytest.mark.parametrize("dtype", [i32, u32, i64, u64], ids=str)
def test_integers(agree, extreme, dtype):
    names = ("popc", "clz", "ffs", "brev", "mulhi", "hadd", "rhadd")
    with build_function("bits", [(n, Ptr[dtype]) for n in ("x", "y", *names)]) as f:
        x, y, *outs = (p + tl.arange(0, 20) for p in f.arguments)
        for name, out in zip(names, outs, strict=True):
            count = 1 if name in ("popc", "clz", "ffs", "brev") else 2
            function = getattr(libdevice, name)
            tl.store(out, function(*(tl.load(p) for p in (x, y)[:count])).to(dtype))
    rng = np.random.default_rng(0)
    x, y = (rng.integers(dtype.min, dtype.max, 20, dtype.numpy, endpoint=True) for _ in range(2))
    x[:4] = [0, 1, dtype.max, dtype.min]
    agree(f.function, extreme, (1,), [x, y, *(np.zeros_like(x) for _ in names)])


def test_scaling(agree, extreme):
    with build_function("scale", [("x", Ptr[f64]), ("n", Ptr[i32]), ("o", Ptr[f64])]) as f:
        x, n, o = (p + tl.arange(0, 10) for p in f.arguments)
        tl.store(o, libdevice.ldexp(tl.load(x), tl.load(n)))
    x = np.array([1.5, -3.0, 1e300, 5e-324, 0.0, -0.0, np.inf, 1.7e308, 2.0**-1022, 3.0])
    n = np.array([3, -4, 40, 1074, 5, 9, -5000, -2098, -1, -1075], np.int32)
    agree(f.function, extreme, (1,), [x, n, np.zeros_like(x)])


@pytest.mark.parametrize("dtype", [u32, u64], ids=str)
def test_philox(agree, extreme, dtype):
    with build_function("random", [("o", Ptr[dtype]), ("u", Ptr[f32])]) as f:
        o, u = f.arguments
        lane = tl.arange(0, 8)
        words = tl.philox(7, lane.to(dtype), 1, 2, 3)
        for number, word in enumerate(words):
            tl.store(o + number * 8 + lane, word)
        tl.store(u + lane, tl.uint_to_uniform_float(words[0]))
    agree(f.function, extreme, (1,), [np.zeros(32, dtype.numpy), np.zeros(8, np.float32)])
