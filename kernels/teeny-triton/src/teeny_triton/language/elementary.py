"""Elementary functions that are no opcodes, composed of those that are.

All compute in f64: f16, bf16, f32 and integers (as f32) are converted and rounded once at the end,
which leaves an error close to half a unit in the last place. Largest errors found in f64, in
units in the last place: 2 where nothing else is said. Special values are those of C99, Annex F.
"""

from __future__ import annotations

import math as python_math
from collections.abc import Callable, Sequence
from functools import reduce, wraps

from teeny_core import f64, i32

from teeny_triton.errors import KernelError
from teeny_triton.language import semantic
from teeny_triton.language.bits import INFINITY, NAN, copysign, float_type, isinf, reals, scaled
from teeny_triton.language.math import (
    PropagateNan,
    abs,
    clamp,
    cos,
    exp,
    exp2,
    expm1,
    floor,
    fma,
    log,
    log1p,
    log2,
    maximum,
    minimum,
    mod,
    round,
    sin,
    sqrt,
    trunc,
    where,
)
from teeny_triton.language.tile import Operand, Tile, tile

PI, HALF_PI = python_math.pi, python_math.pi / 2
LN2, LN10 = python_math.log(2.0), python_math.log(10.0)
LOG2_10 = python_math.log2(10.0)
LOG10_2 = (0.3010299955494702, 1.1451100898021838e-10)  # the first part has 31 bits
LOG10_E = (0.4342944819032518, 1.098319650216765e-17)
PI_REST = (6.123233995736766e-17, 3.061616997868383e-17)  # what pi/2 and pi/4 lack in f64

# (atan(x) / x - 1) / x**2 in x**2, for |x| <= tan(pi/8): interpolated at Chebyshev's points
ATAN = (
    -0.3333333333333333, 0.1999999999999552, -0.14285714284666542, 0.11111111015256361,
    -0.09090904578123903, 0.07692183190826087, -0.06664511447381948, 0.0585814891280221,
    -0.0508544973794026, 0.03923165829558719, -0.01917688711906226,
)  # fmt: skip

_NAN_STAYS = PropagateNan.ALL


def in_f64(function: Callable[..., Tile]) -> Callable[..., Tile]:
    """Let a function of f64 tiles take what meets in another float type, and return that type."""

    @wraps(function)
    def run(*operands: Operand) -> Tile:
        tiles = reals(*operands)
        return function(*(x.to(f64) for x in tiles)).to(float_type(tiles[0]))

    return run


def only_f32(function: Callable[..., Tile]) -> Callable[..., Tile]:
    """Like `in_f64`, for formulas that are too coarse for f64 itself, which is refused."""
    inner = in_f64(function)

    @wraps(function)
    def run(*operands: Operand) -> Tile:
        if any(float_type(x) == f64 for x in reals(*operands)):
            raise KernelError(
                f"{function.__name__} is not accurate enough for f64",
                hint="cast to tl.float32, which it computes to the last place",
            )
        return inner(*operands)

    return run


def double(value: float) -> Tile:
    """Return a constant of f64; alone, a Python number would be f32."""
    return Tile(semantic.value(value, f64))


def polynomial(x: Tile, coefficients: Sequence[float]) -> Tile:
    """Evaluate by Horner's rule, lowest coefficient first."""
    last = double(coefficients[-1])
    return reduce(lambda total, c: total * x + c, reversed(coefficients[:-1]), last)


# --- exponentials, logarithms and powers ---


@in_f64
def exp10(x: Operand) -> Tile:
    """10 to the power of `x`: 2**n e**r with x = n log10(2) + r / ln 10."""
    x = clamp(x, -340.0, 320.0, _NAN_STAYS)
    whole = round(x * LOG2_10)
    rest = fma(whole, -LOG10_2[1], fma(whole, -LOG10_2[0], x))
    return scaled(exp(rest * LN10), whole.to(i32))


@in_f64
def log10(x: Operand) -> Tile:
    """Logarithm to base 10."""
    natural = log(x)
    return fma(natural, LOG10_E[0], natural * LOG10_E[1])


@in_f64
def cbrt(x: Operand) -> Tile:
    """Cube root: by the logarithm, and one step of Newton's."""
    x = tile(x)
    size = abs(x)
    root = exp2(log2(size) * (1.0 / 3.0))
    root = root - (root - size / (root * root)) * (1.0 / 3.0)
    return copysign(where((size == 0.0) | isinf(size), size, root), x)


@in_f64
def rcbrt(x: Operand) -> Tile:
    """1 / cbrt(x)."""
    return 1.0 / cbrt(x)


@in_f64
def hypot(x: Operand, y: Operand) -> Tile:
    """sqrt(x**2 + y**2), infinite where either is."""
    large, small = _ordered(x, y)
    ratio = where(large == 0.0, 0.0, small / large)
    length = large * sqrt(fma(ratio, ratio, 1.0))
    return where(isinf(x) | isinf(y), INFINITY, length)


@in_f64
def rhypot(x: Operand, y: Operand) -> Tile:
    """1 / sqrt(x**2 + y**2)."""
    return 1.0 / hypot(x, y)


def _ordered(x: Operand, y: Operand) -> tuple[Tile, Tile]:
    """The larger and the smaller magnitude; NaN where either is."""
    a, b = abs(x), abs(y)
    return maximum(a, b, _NAN_STAYS), minimum(a, b, _NAN_STAYS)


# --- angles ---


@in_f64
def atan(x: Operand) -> Tile:
    """Arc tangent: about tan(pi/8), pi/4 and pi/2 after Cephes' atan (Moshier 1989)."""
    x = tile(x)
    size = abs(x)
    far, middle = size > 1.0 + python_math.sqrt(2.0), size > python_math.sqrt(2.0) - 1.0
    y = where(far, -1.0 / size, where(middle, (size - 1.0) / (size + 1.0), size))
    start = where(far, double(HALF_PI), where(middle, double(HALF_PI / 2), 0.0))
    rest = where(far, double(PI_REST[0]), where(middle, double(PI_REST[1]), 0.0))
    square = y * y
    angle = start + (y + fma(y * square, polynomial(square, ATAN), rest))
    return copysign(angle, x)


@in_f64
def atan2(y: Operand, x: Operand) -> Tile:
    """The angle of the point (x, y), in [-pi, pi]."""
    y, x = tile(y), tile(x)
    large, small = _ordered(x, y)
    ratio = where(isinf(small), 1.0, where(large == 0.0, 0.0, small / large))
    angle = atan(ratio)
    angle = where(abs(y) > abs(x), HALF_PI - (angle - PI_REST[0]), angle)
    left = copysign(1.0, x) < 0.0
    return copysign(where(left, PI - (angle - 2 * PI_REST[0]), angle), y)


@in_f64
def asin(x: Operand) -> Tile:
    """Arc sine."""
    return atan2(x, sqrt((1.0 - x) * (1.0 + x)))  # type: ignore[operator]


@in_f64
def acos(x: Operand) -> Tile:
    """Arc cosine."""
    return 2.0 * atan2(sqrt(1.0 - x), sqrt(1.0 + x))  # type: ignore[operator]


@in_f64
def sinpi(x: Operand) -> Tile:
    """sin(pi x), exact where that is 0, 1 or -1."""
    x = tile(x)
    quarter, angle = _quarters(x)
    result = _by_quarter(quarter, sin(angle), cos(angle))
    return where(x == floor(x), copysign(result * 0.0, x), result)


@in_f64
def cospi(x: Operand) -> Tile:
    """cos(pi x), exact where that is 0, 1 or -1."""
    quarter, angle = _quarters(tile(x))
    return _by_quarter(quarter + 1, sin(angle), cos(angle)) + 0.0


def _quarters(x: Tile) -> tuple[Tile, Tile]:
    """Half turns as quarter turns, modulo 4, and the angle that is left, up to pi/4."""
    halves = round(x * 2.0)
    rest = x - halves * 0.5
    return (halves - floor(halves * 0.25) * 4.0).to(i32), rest * PI


def _by_quarter(quarter: Tile, sine: Tile, cosine: Tile) -> Tile:
    result = where((quarter & 1) == 0, sine, cosine)
    return where((quarter & 2) == 0, result, -result)


# --- hyperbolic functions: where the exponential overflows, by the root of it ---


@in_f64
def sinh(x: Operand) -> Tile:
    """Hyperbolic sine. Largest error in f64: 3."""
    x = tile(x)
    size = abs(x)
    less = expm1(size)
    root = exp(size * 0.5)
    result = where(size > 700.0, root * 0.5 * root, 0.5 * (less + less / (less + 1.0)))
    return copysign(result, x)


@in_f64
def cosh(x: Operand) -> Tile:
    """Hyperbolic cosine."""
    size = abs(x)
    root = exp(size * 0.5)
    near = exp(minimum(size, 700.0, _NAN_STAYS))
    return where(size > 700.0, root * 0.5 * root, 0.5 * near + 0.5 / near)


@in_f64
def asinh(x: Operand) -> Tile:
    """Inverse hyperbolic sine. Largest error in f64: 3."""
    x = tile(x)
    size = abs(x)
    square = size * size
    near = log1p(size + square / (1.0 + sqrt(square + 1.0)))
    return copysign(where(size > 1e8, log(size) + LN2, near), x)


@in_f64
def acosh(x: Operand) -> Tile:
    """Inverse hyperbolic cosine; NaN below 1. Largest error in f64: 3."""
    x = tile(x)
    above = x - 1.0
    near = log1p(above + sqrt(above * (above + 2.0)))
    return where(x < 1.0, NAN, where(x > 1e8, log(x) + LN2, near))


@in_f64
def atanh(x: Operand) -> Tile:
    """Inverse hyperbolic tangent; NaN beyond 1. Largest error in f64: 3."""
    x = tile(x)
    size = abs(x)
    return copysign(0.5 * log1p(2.0 * size / (1.0 - size)), x)


# --- rounding and remainders, exact in every type ---


def round_away(x: Operand) -> Tile:
    """The nearest whole number, halves away from 0: adds the number just below a half."""
    (real,) = reals(x)
    almost = {16: 0.5, 32: 0.5 - 2.0**-25, 64: 0.5 - 2.0**-54}[float_type(real).bits]
    if float_type(real).bits == 16:  # in f32 nothing between is lost
        return round_away(real.to("f32")).to(float_type(real))
    return trunc(real + copysign(almost, real))


def fmod(x: Operand, y: Operand) -> Tile:
    """x - trunc(x / y) * y, with the sign of `x`."""
    a, b = reals(x, y)
    return copysign(mod(abs(a), abs(b)), a)


def remainder(x: Operand, y: Operand) -> Tile:
    """x - n y with n the whole number nearest to x / y, halves to even (IEEE 754)."""
    a, b = reals(x, y)
    size, divisor = abs(a), abs(b)
    rest = mod(size, divisor)
    odd = mod(size, divisor + divisor) >= divisor
    twice = rest + rest
    over = (twice > divisor) | ((twice == divisor) & odd)
    rest = where(over, rest - divisor, rest)
    return where(copysign(1.0, a) < 0.0, -rest, rest)


def fdim(x: Operand, y: Operand) -> Tile:
    """x - y where that is positive, else 0."""
    a, b = reals(x, y)
    return where(a <= b, 0.0, a - b)
