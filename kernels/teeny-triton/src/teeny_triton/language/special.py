"""The error function's relatives and the gamma function, composed of opcodes in f64.

Types are those of `elementary`. Largest errors found in f64, in units in the last place: erfc 4,
erfcx 3, erfinv 3, normcdf 4; the gamma functions are for f32 and narrower, which they round as
the others do, lgamma close to its zeros but for 1.
"""

from __future__ import annotations

import math as python_math

from teeny_triton.language.bits import INFINITY, NAN, isinf
from teeny_triton.language.elementary import PI, in_f64, only_f32, polynomial, sinpi
from teeny_triton.language.math import (
    PropagateNan,
    abs,
    clamp,
    erf,
    exp,
    floor,
    fma,
    log,
    log1p,
    minimum,
    sqrt,
    where,
)
from teeny_triton.language.tile import Operand, Tile, tile

_NAN_STAYS = PropagateNan.ALL

# (1 + 2x) exp(x**2) erfc(x) in (x - 3) / (x + 3), for x >= 0.45, interpolated at Chebyshev's
# points. The form is that of Shepherd and Laframboise, Mathematics of Computation 36 (1981).
SCALED_COMPLEMENT = (
    1.2530080582697296, -0.13562110612458206, -0.04756229435345497, 0.12964515870286483,
    -0.11927366341506893, 0.06830802734026609, -0.023770514923554684, 0.0025293918775035574,
    0.0018886904043669123, -0.0007798328379550456, -0.00010515997733142961,
    0.00012510251826437001, 4.94943812528819e-06, -2.011175603554125e-05,
    -7.283478737596772e-07, 3.4974651314986964e-06, 3.44014342881579e-07,
    -6.508841979078919e-07, -1.1673380600874378e-07, 1.273858356178453e-07,
    1.688010380708102e-08, -2.0380945384260707e-08, 2.5337837134351646e-09,
)  # fmt: skip

# erfinv(x) / x to seven digits, with w = -log(1 - x**2): in w - 2.5 up to 5, then in sqrt(w) - 4.
# The variables are those of Giles, "Approximating the erfinv function", GPU Computing Gems (2012).
INVERSE_NEAR = (
    1.5014093234774002, 0.24664082548265776, -0.004177183041269078, -0.0012538493799572896,
    0.0002181658647937718, -4.347087810126312e-06, -3.4132552756844654e-06,
    3.3882454182528974e-07, 1.8999207545878433e-08,
)  # fmt: skip
INVERSE_FAR = (
    3.8397835384729375, 1.0094923770961837, 0.0012674113303105376, -0.0008744742241358435,
    0.00030094737429113506, -9.513673128893242e-05, 6.672582186700456e-05,
    -5.350337891749288e-05, 2.166685998626287e-05, -3.258171703308812e-06,
)  # fmt: skip

# Bernoulli's numbers B(2k) / (2k (2k - 1)): Stirling's series, Abramowitz and Stegun 6.1.40
STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
)  # fmt: skip
ROOT = (0.7071067811865476, -4.833646656726457e-17)  # of 1/2, in two parts
SHIFT = 8  # from here on the series is exact enough


@in_f64
def erfc(x: Operand) -> Tile:
    """1 - erf(x), accurate where that is small."""
    x = tile(x)
    size = minimum(abs(x), 30.0, _NAN_STAYS)
    power, lost = _square(size)
    far = (exp(-power) - exp(-power) * lost) * _scaled_complement(size)
    return where(size < 0.5, 1.0 - erf(x), where(x < 0.0, 2.0 - far, far))


@in_f64
def erfcx(x: Operand) -> Tile:
    """exp(x**2) * erfc(x)."""
    x = tile(x)
    power, lost = _square(clamp(x, -30.0, 0.5, _NAN_STAYS))
    growth = exp(power)
    growth = where(growth < INFINITY, growth + growth * lost, growth)
    return where(x < 0.5, growth * erfc(x), _scaled_complement(abs(x)))


@in_f64
def erfinv(x: Operand) -> Tile:
    """The number whose error function is `x`: a start, and one step of Halley's."""
    x = tile(x)
    size = abs(x)
    w = -log1p(-size * size)
    near, far = polynomial(w - 2.5, INVERSE_NEAR), polynomial(sqrt(w) - 4.0, INVERSE_FAR)
    y = size * where(w < 5.0, near, far)
    error = where(size < 0.5, erf(y) - size, (1.0 - size) - erfc(y))
    step = error * exp(y * y) * (python_math.sqrt(PI) / 2.0)
    y = y - step / (1.0 + y * step)
    y = where(size == 1.0, INFINITY, where(size > 1.0, NAN, y))
    return where(x < 0.0, -y, where(x == 0.0, x, y))


@in_f64
def normcdf(x: Operand) -> Tile:
    """The distribution function of the standard normal distribution."""
    x = -tile(x)
    t = x * ROOT[0]
    lost = fma(x, ROOT[0], -t) + x * ROOT[1]
    slope = exp(-t * t) * (2.0 / python_math.sqrt(PI))
    return 0.5 * (erfc(t) - where(slope == 0.0, 0.0, slope * lost))


def _square(x: Tile) -> tuple[Tile, Tile]:
    """x**2 and what it lacks."""
    square = x * x
    return square, fma(x, x, -square)


def _scaled_complement(x: Tile) -> Tile:
    """exp(x**2) erfc(x) for x of at least 0.45."""
    t = 1.0 - 6.0 / (x + 3.0)
    return polynomial(t, SCALED_COMPLEMENT) * 0.5 / (x + 0.5)


@only_f32
def lgamma(x: Operand) -> Tile:
    """The logarithm of the magnitude of the gamma function."""
    x = tile(x)
    reflected = x < 0.5
    y = where(reflected, 1.0 - x, x)
    small = minimum(y, float(SHIFT), _NAN_STAYS)
    above = where(y < float(SHIFT), y + float(SHIFT), y)
    result = _stirling(above) - where(y < float(SHIFT), log(_rising(small)), 0.0)
    mirror = log(PI / abs(sinpi(x))) - result
    result = where(reflected, mirror, where((x == 1.0) | (x == 2.0), 0.0, result))
    return where(isinf(x), INFINITY, result)


@only_f32
def tgamma(x: Operand) -> Tile:
    """The gamma function; NaN at negative whole numbers."""
    x = tile(x)
    reflected = x < 0.5
    y = minimum(where(reflected, 1.0 - x, x), 160.0, _NAN_STAYS)
    result = exp(_stirling(y + float(SHIFT))) / _rising(y)
    mirror = PI / (sinpi(x) * result)
    pole = (x < 0.0) & (x == floor(x))
    return where(pole, NAN, where(reflected, mirror, result))


def _stirling(x: Tile) -> Tile:
    """log(gamma(x)) for x of at least SHIFT."""
    inverse = 1.0 / x
    series = inverse * polynomial(inverse * inverse, STIRLING)
    return (x - 0.5) * log(x) - x + 0.5 * python_math.log(2.0 * PI) + series


def _rising(x: Tile) -> Tile:
    """x (x + 1) ... (x + SHIFT - 1)."""
    product = x
    for k in range(1, SHIFT):
        product = product * (x + float(k))
    return product
