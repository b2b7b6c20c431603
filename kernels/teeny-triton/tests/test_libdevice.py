"""The functions of libdevice in the interpreter, against the C library, NumPy and mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from teeny_core import bf16, f16, f32, f64
from teeny_triton import KernelError, Ptr, build_function
from teeny_triton import language as tl
from teeny_triton.language.extra import libdevice

mpmath = pytest.importorskip("mpmath")

Run = Any
LONG = np.longdouble
INF, NAN = math.inf, math.nan


def _mpmath(function: Callable[[Any], Any]) -> Callable[..., np.ndarray]:
    """A function of numbers of 40 digits, rounded to long double."""

    def one(x: float) -> Any:
        with mpmath.workdps(40):
            y = function(mpmath.mpf(float(x)))
            return LONG(float(y)) + LONG(float(y - float(y)))

    return np.vectorize(one, otypes=[LONG])


def _each(function: Callable[..., float]) -> Callable[..., np.ndarray]:
    return np.vectorize(lambda *x: function(*map(float, x)), otypes=[np.float64])


def _exactly(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A function of NumPy in long double."""
    return lambda *x: function(*(LONG(v) for v in x))


def _pi(function: Callable[[Any], Any]) -> Callable[..., np.ndarray]:
    """A function of pi x, whose argument is first reduced, which is exact."""
    pi = LONG(math.pi) + LONG(1.2246467991473532e-16)
    return lambda x: function(pi * (LONG(x) - 2 * np.rint(LONG(x) / 2)))


# name -> (reference, domain, largest error in f64 in units in the last place)
SMOOTH: dict[str, tuple[Callable[..., np.ndarray], tuple[float, float], float]] = {
    "exp10": (_exactly(lambda x: LONG(10) ** x), (-37, 38), 2),
    "log10": (_exactly(np.log10), (1e-30, 1e30), 2),
    "cbrt": (_exactly(np.cbrt), (-1e9, 1e9), 2),
    "atan": (_exactly(np.arctan), (-100, 100), 2),
    "asin": (_exactly(np.arcsin), (-1, 1), 2),
    "acos": (_exactly(np.arccos), (-1, 1), 3),
    "sinh": (_exactly(np.sinh), (-88, 88), 3),
    "cosh": (_exactly(np.cosh), (-88, 88), 2),
    "asinh": (_exactly(np.arcsinh), (-1e12, 1e12), 3),
    "acosh": (_exactly(np.arccosh), (1, 1e12), 3),
    "atanh": (_exactly(np.arctanh), (-0.99999, 0.99999), 3),
    "sinpi": (_pi(np.sin), (-9, 9), 2),
    "cospi": (_pi(np.cos), (-9, 9), 2),
    "erfc": (_each(math.erfc), (-5, 9), 5),
    "erfcx": (_mpmath(lambda x: mpmath.exp(x * x) * mpmath.erfc(x)), (-8, 90), 4),
    "erfinv": (_mpmath(mpmath.erfinv), (-0.999999, 0.999999), 3),
    "normcdf": (_mpmath(mpmath.ncdf), (-37, 7), 5),
    "lgamma": (_each(math.lgamma), (-20, 60), INF),
    "tgamma": (_each(math.gamma), (-20, 33), INF),
    "hypot": (_exactly(np.hypot), (-1e9, 1e9), 3),
    "atan2": (_exactly(np.arctan2), (-50, 50), 3),
}
ARITY = {"hypot": 2, "atan2": 2}


def samples(name: str, dtype: Any) -> tuple[np.ndarray, ...]:
    """Numbers of the domain: evenly, and over many powers of two."""
    low, high = SMOOTH[name][1]
    rng = np.random.default_rng(len(name))
    size = math.log(max(abs(low), abs(high)))

    def some() -> np.ndarray:
        wide = np.exp(rng.uniform(-20, size, 300)) * rng.choice([-1, 1], 300)
        x = np.concatenate([rng.uniform(low, high, 400), np.clip(wide, low, high)])
        x = x.astype(dtype.numpy)
        if name in ("lgamma", "tgamma"):
            x = x[x != np.floor(x)]
        return x[(x >= low) & (x <= high)][:600]

    return tuple(some() for _ in range(ARITY.get(name, 1)))


def ulps(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Distance in units in the last place of the type of `found`."""
    unit = np.spacing(np.abs(wanted).astype(found.dtype)).astype(LONG)
    return np.abs(found.astype(LONG) - wanted.astype(LONG)) / unit


@pytest.mark.parametrize("name", SMOOTH)
def test_f32_is_rounded_once(run: Run, name: str) -> None:
    x = samples(name, f32)
    found = run(getattr(libdevice, name), *x)
    assert found.dtype == np.float32
    assert ulps(found, SMOOTH[name][0](*x)).max() <= 0.501


def test_lgamma_about_its_zeros(run: Run) -> None:
    near = np.float32([1, 2])[:, None] + np.arange(-40, 41) * np.float32(2.0**-22)
    x = np.concatenate([near[near != np.rint(near)], np.linspace(-2.7, -2.3, 101)])
    x = x.astype(np.float32)
    assert ulps(run(libdevice.lgamma, x), _each(math.lgamma)(x)).max() <= 1


@pytest.mark.parametrize("name", SMOOTH)
def test_f64_accuracy(run: Run, name: str) -> None:
    x = samples(name, f64)
    bound = SMOOTH[name][2]
    if bound == INF:
        with pytest.raises(KernelError, match=f"{name} is not accurate enough for f64"):
            run(getattr(libdevice, name), *x)
        return
    assert ulps(run(getattr(libdevice, name), *x), SMOOTH[name][0](*x)).max() <= bound


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize("name", ["exp10", "atan", "erfc", "cbrt", "hypot"])
def test_narrow_floats(run: Run, name: str, dtype: Any) -> None:
    x = tuple(v[np.abs(v) < 60000] for v in samples(name, f32))
    count = min(map(len, x))
    x = tuple(v[:count].astype(dtype.numpy) for v in x)
    with np.errstate(all="ignore"):
        wanted = SMOOTH[name][0](*(v.astype(np.float64) for v in x)).astype(np.float64)
        nearest = wanted.astype(np.float32).astype(dtype.numpy)
    same = nearest == run(getattr(libdevice, name), *x)
    assert same.mean() > 0.995  # the reference here is rounded twice


# name -> (arguments, result), ..., from C99 Annex F
EDGES: dict[str, list[tuple[Any, float]]] = {
    "exp10": [(0.0, 1), (INF, INF), (-INF, 0), (39.0, INF), (-46.0, 0), (3.0, 1000)],
    "log10": [
        (1.0, 0), (0.0, -INF), (-1.0, NAN), (INF, INF), (1000.0, 3), (1e-40, math.log10(1e-40)),
    ],
    "cbrt": [
        (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (-27.0, -3), (1e-42, 1.0001757e-14),
    ],
    "rcbrt": [(8.0, 0.5), (0.0, INF), (-0.0, -INF), (INF, 0)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2)],
    "asin": [(-0.0, -0.0), (1.0, math.pi / 2), (2.0, NAN)],
    "acos": [(1.0, 0.0), (-1.0, math.pi), (-1.5, NAN)],
    "sinh": [(-0.0, -0.0), (INF, INF), (-INF, -INF), (90.0, INF), (1e-40, 1e-40)],
    "cosh": [(0.0, 1), (INF, INF), (-INF, INF), (89.0, math.cosh(89))],
    "asinh": [(-0.0, -0.0), (INF, INF), (-INF, -INF), (-3e+38, -math.asinh(3e+38))],
    "acosh": [(1.0, 0.0), (0.5, NAN), (-3.0, NAN), (INF, INF)],
    "atanh": [(-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (INF, NAN)],
    "sinpi": [(1.0, 0.0), (-2.0, -0.0), (0.5, 1), (-0.5, -1), (1e+30, 0.0), (INF, NAN)],
    "cospi": [(0.5, 0.0), (1.0, -1), (2.5, 0.0), (1e+30, 1), (-INF, NAN)],
    "erfc": [(INF, 0.0), (-INF, 2), (0.0, 1), (11.0, 0.0)],
    "erfcx": [(INF, 0.0), (-INF, INF), (0.0, 1), (1e+30, 1 / (1e+30 * math.sqrt(math.pi)))],
    "erfinv": [(1.0, INF), (-1.0, -INF), (0.0, 0.0), (-0.0, -0.0), (2.0, NAN)],
    "normcdf": [(INF, 1), (-INF, 0.0), (0.0, 0.5)],
    "lgamma": [
        (1.0, 0.0), (2.0, 0.0), (INF, INF), (-INF, INF), (0.0, INF), (-3.0, INF), (1e+38, INF),
    ],
    "tgamma": [
        (0.0, INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN), (INF, INF), (5.0, 24), (36.0, INF),
    ],
    "round": [
        (0.5, 1), (-0.5, -1), (2.5, 3), (0.49999997, 0.0), (-0.2, -0.0), (8388609.0, 8388609),
        (INF, INF),
    ],
    "rint": [(0.5, 0.0), (1.5, 2), (-2.5, -2), (-0.2, -0.0)],
    "logb": [(8.5, 3), (0.0, -INF), (-INF, INF), (1e-40, -133)],
    "saturatef": [(0.5, 0.5), (2.0, 1), (-3.0, 0.0)],
    "fabs": [(-0.0, 0.0), (-INF, INF)],
    "rcp_rn": [(4.0, 0.25), (-0.0, -INF)],
    "hypot": [
        ((3.0, 4.0), 5), ((INF, NAN), INF), ((0.0, -0.0), 0.0), ((1e+38, 1e+38), 1.4142135e+38),
    ],
    "rhypot": [((3.0, 4.0), 0.2), ((0.0, 0.0), INF)],
    "atan2": [
        ((0.0, 1.0), 0.0), ((-0.0, 1.0), -0.0), ((0.0, -0.0), math.pi), ((-0.0, -0.0), -math.pi),
        ((INF, INF), math.pi / 4), ((-INF, -INF), -3 * math.pi / 4), ((1.0, -INF), math.pi),
        ((INF, 2.0), math.pi / 2), ((1.0, INF), 0.0), ((-1.0, 0.0), -math.pi / 2),
        ((NAN, 1.0), NAN),
    ],
    "fmod": [
        ((5.5, 2.0), 1.5), ((-5.5, 2.0), -1.5), ((5.5, -2.0), 1.5), ((-4.0, 2.0), -0.0),
        ((1.0, 0.0), NAN), ((INF, 1.0), NAN), ((3.0, INF), 3),
        ((1e+30, 7.0), math.fmod(float(np.float32(1e+30)), 7.0)),
    ],
    "remainder": [
        ((5.0, 2.0), 1), ((3.0, 2.0), -1), ((7.0, 2.0), -1), ((-3.0, 2.0), 1),
        ((1e+30, INF), 1e+30), ((-4.0, 4.0), -0.0), ((3e+38, 2.5e+38), 5e+37), ((1.0, 0.0), NAN),
    ],
    "copysign": [((3.0, -0.0), -3), ((-INF, 1.0), INF)],
    "fdim": [((3.0, 1.0), 2), ((1.0, 3.0), 0.0), ((INF, INF), 0.0), ((NAN, 1.0), NAN)],
    "nextafter": [
        ((0.0, 1.0), 1e-45), ((0.0, -1.0), -1e-45), ((1.0, INF), 1 + 2.0 ** (-23)),
        ((1.0, 0.0), 1 - 2.0 ** (-24)), ((3.4028235e+38, INF), INF), ((0.0, -0.0), -0.0),
        ((NAN, 1.0), NAN), ((-INF, 0.0), -3.4028235e+38),
    ],
    "div_rz": [
        ((1.0, 3.0), 0.33333331), ((2.0, 3.0), 0.6666666), ((-2.0, 3.0), -0.6666666),
        ((3e+38, 1e-05), 3.4028235e+38),
    ],
    "max": [((NAN, 1.0), 1), ((1.0, NAN), 1), ((NAN, NAN), NAN)],
    "add_rn": [((1.0, 2.0 ** (-24)), 1)],
    "mul_rn": [((-0.0, 1.0), -0.0)],
    "sub_rn": [((0.0, 0.0), 0.0)],
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_edges(run: Run, name: str) -> None:
    arguments = [x if isinstance(x, tuple) else (x,) for x, _ in EDGES[name]]
    wanted = np.array([y for _, y in EDGES[name]], np.float32)
    columns = [np.array(column, np.float32) for column in zip(*arguments, strict=True)]
    found = run(getattr(libdevice, name), *columns)
    np.testing.assert_allclose(found, wanted, rtol=3e-7)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(wanted[known]))
    nan = [np.array([NAN], np.float32)] * len(columns)
    if name != "saturatef":
        assert np.isnan(run(getattr(libdevice, name), *nan)).all()


def test_scaling_and_exponents(run: Run) -> None:
    x = np.float64([1.5, -3.0, 1e300, 5e-324, 0.0, -0.0, INF, 1.7e308, 2.0**-1022, 3 * 2.0**-540])
    n = np.int32([3, -4, 40, 1074, 5, 9, -5000, -2098, -1, -534])
    with np.errstate(all="ignore"):
        wanted = np.ldexp(x, n)
    found, exponent = run(lambda x, n: (libdevice.ldexp(x, n), libdevice.ilogb(x)), x, n)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(x))
    usual = np.isfinite(x) & (x != 0)
    np.testing.assert_array_equal(exponent[usual], np.frexp(x[usual])[1] - 1)
    assert exponent[4] == -(2**31)
    assert exponent[6] == 2**31 - 1
    half = np.float16([1.5, 1.0])
    np.testing.assert_array_equal(run(libdevice.ldexp, half, np.int32([-24, -25])), [2.0**-23, 0])


def test_classes(run: Run) -> None:
    x = np.float32([0.0, -0.0, 1.0, INF, -INF, NAN, -NAN])
    found = run(
        lambda x: tuple(
            getattr(libdevice, name)(x) for name in ("isnan", "isinf", "finitef", "signbit")
        ),
        x,
    )
    for ours, theirs in zip(found, (np.isnan, np.isinf, np.isfinite, np.signbit), strict=True):
        np.testing.assert_array_equal(ours, theirs(x))
    assert [a.dtype for a in found] == [np.bool_] * 3 + [np.int32]


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_bits_of_integers(run: Run, dtype: Any) -> None:
    bits = np.dtype(dtype).itemsize * 8
    info = np.iinfo(dtype)
    some = np.random.default_rng(0).integers(info.min, info.max, 40, dtype, endpoint=True)
    x = np.concatenate([np.array([0, 1, 2, info.max, info.min], dtype), some])
    words = [int(v) & (2**bits - 1) for v in x]
    names = ("popc", "clz", "ffs", "brev")
    found = run(lambda x: tuple(getattr(libdevice, name)(x) for name in names), x)
    text = [f"{word:0{bits}b}" for word in words]
    assert found[0].tolist() == [t.count("1") for t in text]
    assert found[1].tolist() == [len(t) - len(t.lstrip("0")) for t in text]
    assert found[2].tolist() == [(t[::-1].find("1") + 1) for t in text]
    reverse = np.array([int(t[::-1], 2) for t in text], f"u{bits // 8}").view(dtype)
    np.testing.assert_array_equal(found[3], reverse)
    assert found[3].dtype == dtype
    y = np.roll(x, 7)
    high, mean, upper = run(
        lambda x, y: (libdevice.mulhi(x, y), libdevice.hadd(x, y), libdevice.rhadd(x, y)), x, y
    )
    pairs = list(zip(map(int, x), map(int, y), strict=True))
    assert high.tolist() == [(a * b) >> bits for a, b in pairs]
    assert mean.tolist() == [(a + b) >> 1 for a, b in pairs]
    assert upper.tolist() == [(a + b + 1) >> 1 for a, b in pairs]


def test_conversions(run: Run) -> None:
    x = np.float32([0.5, 1.5, -1.5, -0.5, 2.7, -2.7, 3e9, NAN])
    modes = ("rn", "rz", "rd", "ru")
    found = run(lambda x: tuple(getattr(libdevice, f"float2int_{m}")(x) for m in modes), x)
    for ours, theirs in zip(found, (np.rint, np.trunc, np.floor, np.ceil), strict=True):
        wanted = theirs(x[:6].astype(np.float64)).tolist()
        assert ours.tolist() == [*wanted, 2**31 - 1, 0]
    double = np.float64([1.1, -2.5e-300, 1e300])
    bits, high, low, back = run(
        lambda x: (
            libdevice.double_as_longlong(x),
            libdevice.double2hiint(x),
            libdevice.double2loint(x),
            libdevice.hiloint2double(libdevice.double2hiint(x), libdevice.double2loint(x)),
        ),
        double,
    )
    np.testing.assert_array_equal(bits, double.view(np.int64))
    np.testing.assert_array_equal(high, double.view(np.int64) >> 32)
    np.testing.assert_array_equal(low.view(np.uint32), double.view(np.int64) & 0xFFFFFFFF)
    np.testing.assert_array_equal(back, double)
    np.testing.assert_array_equal(run(libdevice.float_as_int, x[:6]), x[:6].view(np.int32))
    down = run(libdevice.double2float_rz, double)
    assert down[0] <= 1.1
    assert down[2] == np.finfo(np.float32).max


def test_integers_compute_in_f32(run: Run) -> None:
    n = np.int32([0, 1, 4])
    found = run(libdevice.atan, n)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.arctan(n), rtol=1e-7)
    np.testing.assert_array_equal(run(lambda x: libdevice.powi(x, 3), np.float32([2, -2])), [8, -8])
    np.testing.assert_array_equal(run(libdevice.mul24, np.int32([-3]), np.int32([5])), [-15])
    np.testing.assert_array_equal(
        run(lambda a, b: libdevice.sad(a, b, 1), np.int32([3, -4]), np.int32([5, 2])), [3, 7]
    )


def test_what_is_refused() -> None:
    with build_function("k", [("x", Ptr[f32])]) as f:
        value = tl.load(f.arguments[0])
        with pytest.raises(KernelError, match="counted in integers of 32 or 64 bits, not in f32"):
            libdevice.popc(value)
        with pytest.raises(KernelError, match="does not say what NaN gives"):
            tl.maximum(value, 0, propagate_nan=True)  # type: ignore[arg-type]


def test_names_are_triton_s() -> None:
    assert tl.extra.libdevice is tl.extra.cuda.libdevice is libdevice
    for name in ("fast_expf", "fast_powf", "fast_dividef", "isfinited", "llrint", "nearbyint"):
        assert callable(getattr(libdevice, name))
