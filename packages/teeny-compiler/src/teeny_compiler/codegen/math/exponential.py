"""exp, exp2, expm1 and what follows from them.

Cody and Waite (1980): x = n ln 2 + r with |r| <= ln(2)/2, and a polynomial in r. The coefficients
are minimax fits. Largest errors found, in units in the last place (f32; f64): exp 0.9 (1),
exp2 0.9 (0.9), expm1 1.4 (1.7), sigmoid 2.4 (2.1), tanh 2.4 (2.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from teeny_compiler.codegen.math.real import (
    Bits,
    Real,
    nearest,
    nearest_power,
    power_of_two,
    scale,
)

LOG2_E = math.log2(math.e)

# ln 2 in two parts; the first has trailing zeros, so that its product with n is exact.
LN2_SINGLE = (0.693359375, -2.12194440e-4)
LN2_DOUBLE = (6.93147180369123816490e-01, 1.90821492927058770002e-10)

# (exp(r) - 1 - r) / r**2
EXP_SINGLE = (
    0.4999999403953552, 0.1666652113199234, 0.041668280959129333, 0.008368690498173237,
    0.0013819490559399128,
)  # fmt: skip
EXPM1_SINGLE = (
    0.5, 0.1666666567325592, 0.04166649281978607, 0.008333543315529823, 0.0013932347064837813,
    0.00019764257012866437,
)  # fmt: skip
EXP_DOUBLE = (
    0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326084, 0.0013888888888883711,
    0.0001984126987500228, 2.480158732567746e-05, 2.755725517000089e-06, 2.755727347871858e-07,
    2.5105312729622103e-08, 2.09147553258932e-09,
)  # fmt: skip

# (2**r - 1) / r
EXP2_SINGLE = (
    0.6931471824645996, 0.24022650718688965, 0.055504050105810165, 0.009618086740374565,
    0.0013337958371266723, 0.00015452185471076518, 1.4325573829410132e-05,
)  # fmt: skip
EXP2_DOUBLE = (
    0.6931471805599453, 0.24022650695910097, 0.0555041086648216, 0.009618129107606715,
    0.0013333558146416842, 0.0001540353044202707, 1.525273382999124e-05, 1.3215442410711872e-06,
    1.0178062351388103e-07, 7.072621356539349e-09, 4.4549794711760616e-10,
)  # fmt: skip


def _reduce(
    x: Real, split: Callable[[Real, float], tuple[Real, Bits]] = nearest
) -> tuple[Real, Bits, Real]:
    """Split x into n ln 2 + r; return n as a number and in bits, and r."""
    whole, exponent = split(x, LOG2_E)
    high, low = LN2_SINGLE if x.is_single else LN2_DOUBLE
    rest = whole.fma(-low, whole.fma(-high, x))
    return whole, exponent, rest


def exp(x: Real) -> Real:
    """Return e**x."""
    low, high = (-104.0, 89.0) if x.is_single else (-746.0, 710.0)
    whole, exponent, r = _reduce(x.at_least(low).at_most(high), nearest_power)
    q = r.polynomial(EXP_SINGLE if x.is_single else EXP_DOUBLE)
    p = q.fma(r, 1.0).fma(r, 1.0) if x.is_single else (r * r).fma(q, r) + 1.0
    return scale(p, whole, exponent)


def exp2(x: Real) -> Real:
    """Return 2**x."""
    low, high = (-151.0, 129.0) if x.is_single else (-1076.0, 1025.0)
    clipped = x.at_least(low).at_most(high)
    whole, exponent = nearest_power(clipped)
    r = clipped - whole
    q = r.polynomial(EXP2_SINGLE if x.is_single else EXP2_DOUBLE)
    return scale(q.fma(r, 1.0), whole, exponent)


def expm1(x: Real) -> Real:
    """Return e**x - 1, accurate for small x.

    2 (2**(n-1) expm1(r) + (2**(n-1) - 1/2)): halved, so that 2**n need not be representable.
    """
    low, high = (-25.0, 89.0) if x.is_single else (-50.0, 710.0)
    _, exponent, r = _reduce(x.at_least(low).at_most(high))
    q = r.polynomial(EXPM1_SINGLE if x.is_single else EXP_DOUBLE)
    small = (r * r).fma(q, r)
    factor = power_of_two(exponent - 1)
    result = factor.fma(small, factor - 0.5)
    return (result + result).copysign(x)


def sigmoid(x: Real) -> Real:
    """Return 1 / (1 + e**-x): by the exponential of -|x|, which does not overflow."""
    e = exp(-abs(x))
    upper = 1.0 / (e + 1.0)
    return upper.where(x.compare("oge", 0.0), e * upper)


def tanh(x: Real) -> Real:
    """Return the hyperbolic tangent: t / (t + 2) with t = expm1(2 |x|)."""
    size = abs(x).at_most(10.0 if x.is_single else 20.0)
    t = expm1(size + size)
    return (t / (t + 2.0)).copysign(x)
