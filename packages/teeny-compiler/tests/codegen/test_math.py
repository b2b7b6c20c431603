"""Elementary functions: accuracy in units in the last place, and the edges of their domains."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import DType, bf16, f16, f32, f64
from teeny_triton import Ptr, build_function
from teeny_triton.ir import Function

LONG = np.longdouble  # more digits than f64 on all machines that run these tests
pytestmark = pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="long double is f64 here")


def sigmoid(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda v: math.erf(float(v)), otypes=[np.float64])(x)


# name -> (reference, domain, bounds in ulp for f32 and f64)
FUNCTIONS: dict[str, tuple[Callable, tuple[float, float], float, float]] = {
    "exp": (np.exp, (-87, 88), 0.9, 1.0),
    "exp2": (np.exp2, (-125, 127), 0.9, 1.0),
    "expm1": (np.expm1, (-20, 88), 1.5, 1.9),
    "log": (np.log, (1e-3, 1e30), 0.9, 0.9),
    "log2": (np.log2, (1e-3, 1e30), 1.9, 1.2),
    "log1p": (np.log1p, (-0.99, 1e3), 1.6, 1.6),
    "sin": (np.sin, (-100, 100), 1.6, 0.8),
    "cos": (np.cos, (-100, 100), 1.6, 0.8),
    "tan": (np.tan, (-100, 100), 0.7, 2.2),
    "tanh": (np.tanh, (-9, 9), 2.5, 2.4),
    "sigmoid": (sigmoid, (-80, 20), 2.5, 2.3),
    "erf": (erf, (-4, 4), 5.0, 2.5),
}


def unary(name: str, dtype: DType) -> Function:
    with build_function(name, [("x", Ptr[dtype]), ("o", Ptr[dtype]), ("n", tl.i32)]) as f:
        x, o, n = f.arguments
        at = tl.program_id(0) * 32 + tl.arange(0, 32)
        value = tl.load(x + at, at < n)
        tl.store(o + at, tl.Tile(f.builder.op(name, value.value)), at < n)
    return f.function


def apply(load, extreme, name: str, dtype: DType, x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    load(unary(name, dtype), extreme)((-(-x.size // 32),), [x, out, x.size])
    return out


def samples(name: str, dtype: np.dtype, count: int) -> np.ndarray:
    """Numbers of the domain, densely around 0 and 1 and over all exponents."""
    low, high = FUNCTIONS[name][1]
    rng = np.random.default_rng(1)
    some = rng.uniform(low, high, count)
    small = np.exp(rng.uniform(-40, math.log(min(high, 100)), count)) * rng.choice([-1, 1], count)
    near = 1 + rng.uniform(-0.1, 0.1, count)
    x = np.concatenate([some, small, near]).astype(dtype)
    return x[(x >= low) & (x <= high)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_f32_accuracy(load, extreme, name):
    reference, _, bound, _ = FUNCTIONS[name]
    x = samples(name, np.dtype(np.float32), 20_000)
    found = apply(load, extreme, name, f32, x)
    wanted = reference(x.astype(np.float64))
    worst = ulps(found, wanted)
    slack = 0.0 if extreme.has("fma") else 0.5 * bound  # a product and a sum round twice
    assert worst.max() <= bound + slack, f"{worst.max()} ulp at {x[worst.argmax()]!r}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_f64_accuracy(load, host, name):
    reference, _, _, bound = FUNCTIONS[name]
    x = samples(name, np.dtype(np.float64), 20_000)
    found = apply(load, host, name, f64, x)
    worst = ulps(found, reference(x.astype(LONG)))
    assert worst.max() <= bound, f"{worst.max()} ulp at {x[worst.argmax()]!r}"


def ulps(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Distance in units in the last place of the type of `found`."""
    unit = np.spacing(np.abs(wanted).astype(found.dtype)).astype(LONG)
    return np.abs(found.astype(LONG) - wanted) / unit


INF, NAN = math.inf, math.nan
EDGES: dict[str, dict[float, float]] = {
    "exp": {
        0.0: 1,
        INF: INF,
        -INF: 0,
        89.0: INF,
        -104.0: 0,
        1e38: INF,
        -1e38: 0,
        1e-45: 1,
    },
    "exp2": {0.0: 1, INF: INF, -INF: 0, 128.0: INF, 127.0: 2.0**127, -149.0: 2.0**-149, -151.0: 0},
    "expm1": {INF: INF, -INF: -1, 1e-40: 1e-40, 100.0: INF, -100.0: -1},
    "log": {0.0: -INF, 1.0: 0, INF: INF, -1.0: NAN, -INF: NAN, 1e-40: math.log(1e-40)},
    "log2": {0.0: -INF, 1.0: 0, 2.0**-149: -149, 2.0**100: 100, INF: INF, -2.0: NAN},
    "log1p": {-1.0: -INF, -2.0: NAN, INF: INF, 1e-40: 1e-40},
    "sin": {
        INF: NAN,
        -INF: NAN,
        1e-40: 1e-40,
        1e30: math.sin(np.float32(1e30)),
    },
    "cos": {0.0: 1, INF: NAN, 3e38: math.cos(np.float32(3e38)), 1e9: math.cos(1e9)},
    "tan": {INF: NAN, 1e-40: 1e-40, 1e10: math.tan(1e10)},
    "tanh": {INF: 1, -INF: -1, 1e-40: 1e-40, 50.0: 1, 1e38: 1},
    "sigmoid": {0.0: 0.5, INF: 1, -INF: 0, 100.0: 1, -200.0: 0, -88.0: math.exp(-88)},
    "erf": {INF: 1, -INF: -1, 5.0: 1, -5.0: -1},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_edges(load, extreme, close, name):
    edges = {**EDGES[name], NAN: NAN}
    x, wanted = (np.array(list(v), np.float32) for v in (edges.keys(), edges.values()))
    found = apply(load, extreme, name, f32, x)
    close(found, wanted, 1)


ZEROS = {"exp": 1, "exp2": 1, "log": -INF, "log2": -INF, "cos": 1, "sigmoid": 0.5}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signed_zeros(load, extreme, name):
    """Odd functions keep the sign of zero."""
    x = np.array([0.0, -0.0], np.float32)
    found = apply(load, extreme, name, f32, x)
    wanted = np.full(2, ZEROS[name], np.float32) if name in ZEROS else x
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_arguments_of_any_size(load, host, name):
    """Reduction by 2/pi in pieces, for f32 and f64."""
    rng = np.random.default_rng(0)
    for dtype, most, bound in ((f32, 88.0, 1.6), (f64, 709.0, 2.2)):
        x = np.exp(rng.uniform(10, most, 3000)).astype(dtype.numpy) * rng.choice([-1, 1], 3000)
        x = x.astype(dtype.numpy)
        found = apply(load, host, name, dtype, x)
        assert ulps(found, FUNCTIONS[name][0](x.astype(LONG))).max() <= bound


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "sin", "erf"])
def test_narrow_floats_round_once_from_f32(load, extreme, close, name, dtype):
    x = samples(name, np.dtype(np.float32), 60)
    x = x[np.abs(x) < 80].astype(dtype.numpy)
    found = apply(load, extreme, name, dtype, x)
    wanted = FUNCTIONS[name][0](x.astype(np.float64))
    with np.errstate(all="ignore"):
        wanted = wanted.astype(np.float32).astype(dtype.numpy)
    difference = found.view(np.int16).astype(int) - wanted.view(np.int16).astype(int)
    assert np.abs(difference).max() <= 1
    assert (difference != 0).mean() < 0.01


def powers(dtype: DType) -> Function:
    with build_function("power", [(n, Ptr[dtype]) for n in ("x", "y", "o")]) as f:
        x, y, o = (p + tl.program_id(0) * 32 + tl.arange(0, 32) for p in f.arguments)
        tl.store(o, tl.pow(tl.load(x), tl.load(y)))
    return f.function


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    INF,
    -INF,
    NAN,
    1e30,
    1e-40,
    8388609,
]


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_power_edges(load, host, close, dtype):
    x, y = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(SPECIAL, SPECIAL))
    x, y = x.astype(dtype.numpy), y.astype(dtype.numpy)
    found = np.empty_like(x)
    load(powers(dtype), host)((x.size // 32,), [x, y, found])
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype.numpy)
    close(found, wanted, 1)
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]))


def test_power_accuracy(load, extreme):
    rng = np.random.default_rng(2)
    x = np.concatenate([np.exp(rng.uniform(-3, 3, 3200)), rng.uniform(0.9, 1.1, 3200)])
    y = np.concatenate([rng.uniform(-20, 20, 3200), rng.uniform(-500, 500, 3200)])
    x, y = x.astype(np.float32), y.astype(np.float32)
    found = np.empty_like(x)
    load(powers(f32), extreme)((x.size // 32,), [x, y, found])
    wanted = np.power(x.astype(np.float64), y.astype(np.float64))
    assert ulps(found, wanted).max() <= 0.51


def test_power_accuracy_f64(load, host):
    rng = np.random.default_rng(2)
    x = np.concatenate([np.exp(rng.uniform(-3, 3, 320)), rng.uniform(0.99, 1.01, 320)])
    y = np.concatenate([rng.uniform(-200, 200, 320), rng.uniform(-50000, 50000, 320)])
    found = np.empty_like(x)
    load(powers(f64), host)((x.size // 32,), [x, y, found])
    assert ulps(found, np.power(x.astype(LONG), y.astype(LONG))).max() <= 1
