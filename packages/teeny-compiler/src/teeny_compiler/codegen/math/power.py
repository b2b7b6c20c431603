"""Powers x**y = 2**(y log2|x|), with the special cases of IEEE 754.

f32 is computed in f64. f64 keeps the logarithm in two parts, about 66 bits. Largest errors found,
in units in the last place: 1 (f32), 2 (f64).
"""

from __future__ import annotations

import math

from teeny_compiler.codegen.math.exponential import EXP2_DOUBLE
from teeny_compiler.codegen.math.logarithm import LOG2_E_DOUBLE, split
from teeny_compiler.codegen.math.real import Real, nearest_power, scale

# (log((1 + s) / (1 - s)) - 2 s) / (2 s**3), in s**2: 1/3 + s**2/5 + ..., |s| <= 0.1716
ODD = tuple(1.0 / (2 * k + 3) for k in range(13))


def power(x: Real, y: Real) -> Real:
    """Return x to the power y."""
    if x.is_single:
        return power(x.to_double(), y.to_double()).to_single()
    return _special(x, y, _magnitude(abs(x), y))


def _magnitude(x: Real, y: Real) -> Real:
    """Return x**y for x >= 0."""
    high, low = _log2(x)
    product = high * y
    lost = low.fma(y, high.fma(y, -product))
    clipped = product.at_least(-1100.0).at_most(1100.0)
    whole, exponent = nearest_power(clipped)
    r = (clipped - whole) + lost.where(clipped.compare("oeq", product), 0.0)
    result = scale(r.polynomial(EXP2_DOUBLE).fma(r, 1.0), whole, exponent)
    # The logarithm of 0 and of infinity: an infinite product, or NaN for y = 0 (see _special).
    edge = x.constant(math.inf).where((y * (x - 1.0)).compare("ogt", 0.0), 0.0)
    is_edge = x.b.binary("or", x.compare("oeq", 0.0), x.compare("oeq", math.inf))
    return edge.where(is_edge, result)


def _log2(x: Real) -> tuple[Real, Real]:
    """Return log2(x) for positive finite x as a sum of two numbers."""
    whole, f = split(x)
    # s = f / (2 + f) in two parts
    divisor = f + 2.0
    s = f / divisor
    divisor_lost = f - (divisor - 2.0)
    s_low = ((-s).fma(divisor, f) - s * divisor_lost) / divisor
    # log(1 + f) = 2 s (1 + s**2 (1/3 + s**2 / 5 + ...)), the first term of the sum in two parts
    z = s * s
    z_low = s.fma(s, -z) + s * s_low * 2.0
    third = 1.0 / 3.0
    third_low = 1.850371707708594e-17
    tail = z * z.polynomial(ODD[1:])
    sum_high = tail + third
    sum_low = (third - sum_high) + tail + third_low
    t = z * sum_high
    t_low = z.fma(sum_high, -t) + z * sum_low + z_low * sum_high
    u = s * t
    u_low = s.fma(t, -u) + s * t_low + s_low * t
    total = s + u
    total_low = (s - total) + u + u_low + s_low
    # times 2 log2(e)
    log_e, log_e_low = 2.0 * LOG2_E_DOUBLE[0], 2.0 * LOG2_E_DOUBLE[1]
    main = total * log_e
    main_low = total.fma(log_e, -main) + total * log_e_low + total_low * log_e
    high = whole + main
    low = (whole - high) + main + main_low
    result = high + low
    return result, (high - result) + low


def _special(x: Real, y: Real, size: Real) -> Real:
    """Apply signs and the cases that the logarithm does not cover."""
    b = x.b
    is_integer = y.compare("oeq", y.round())
    half = y * 0.5
    is_odd = b.binary("and", is_integer, half.compare("one", half.round()))
    negative = b.compare("icmp slt", x.bits().operand, x.constant(0.0).bits().operand)
    result = (-size).where(b.binary("and", negative, is_odd), size)
    invalid = b.binary("and", x.compare("olt", 0.0), x.compare("ogt", -math.inf))
    not_integer = y.compare("one", y.round())
    result = x.constant(math.nan).where(b.binary("and", invalid, not_integer), result)
    infinite = abs(y).compare("oeq", math.inf)
    grows = b.binary("xor", abs(x).compare("olt", 1.0), y.compare("olt", 0.0))
    limit = x.constant(0.0).where(grows, math.inf)
    limit = limit.where(abs(x).compare("one", 1.0), 1.0)
    result = limit.where(infinite, result)
    result = result.where(b.binary("and", x.compare("ord", 0.0), y.compare("ord", 0.0)), math.nan)
    is_one = b.binary("or", y.compare("oeq", 0.0), x.compare("oeq", 1.0))
    return x.constant(1.0).where(is_one, result)
