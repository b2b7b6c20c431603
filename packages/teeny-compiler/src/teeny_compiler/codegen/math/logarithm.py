"""log, log2 and log1p.

x = 2**n m with m in [sqrt(1/2), sqrt(2)), and f = m - 1. In f32 a minimax polynomial of f; in f64
the series in s = f / (2 + f) of fdlibm's e_log.c (Sun Microsystems, 1993). Largest errors found, in
units in the last place (f32; f64): log 0.9 (0.8), log2 1.8 (0.9), log1p 1.5 (1.3).
"""

from __future__ import annotations

import math

from teeny_compiler.codegen.math.exponential import LN2_DOUBLE, LN2_SINGLE
from teeny_compiler.codegen.math.real import Real, format_of

# (log(1 + f) - f + f**2 / 2) / f**3
LOG_SINGLE = (
    0.3333331346511841, -0.25000008940696716, 0.20002077519893646, -0.16668005287647247,
    0.14220184087753296, -0.12405674904584885, 0.11884543299674988, -0.11674667149782181,
    0.06752689927816391,
)  # fmt: skip
# (log(1 + f) - 2 s) / s**3 + ... in s**2, from fdlibm
LOG_DOUBLE = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip

LOG2_E_SINGLE = (1.442695140838623, -1.9596299117e-08)
LOG2_E_DOUBLE = (1.4426950408889634, 2.0355273740931033e-17)


def split(x: Real) -> tuple[Real, Real]:
    """Return n and f with x = 2**n (1 + f), for positive finite x, subnormal ones too."""
    form = format_of(x)
    shift = form.fraction + 2
    is_subnormal = x.compare("olt", form.tiny)
    scaled = (x * 2.0**shift).where(is_subnormal, x)
    bits = scaled.bits()
    root = x.constant(math.sqrt(0.5)).bits()
    exponent = (bits - root) >> form.fraction
    mantissa = (bits - (exponent << form.fraction)).real()
    whole = exponent.to_real()
    return (whole - float(shift)).where(is_subnormal, whole), mantissa - 1.0


def _tail(f: Real) -> Real:
    """Return log(1 + f) - f."""
    square = f * f
    if f.is_single:
        cubic = square * f * f.polynomial(LOG_SINGLE)
        return square.fma(-0.5, cubic)
    s = f / (f + 2.0)
    z = s * s
    half = square * 0.5
    return s * (half + z * z.polynomial(LOG_DOUBLE)) - half


def _special(x: Real, result: Real) -> Real:
    """Give infinity and NaN themselves, zero -inf, and negative numbers NaN."""
    result = result.where(x.compare("olt", math.inf), x)
    below = x.constant(-math.inf).where(x.compare("oeq", 0.0), math.nan)
    return result.where(x.compare("ugt", 0.0), below)


def log(x: Real) -> Real:
    """Return the natural logarithm."""
    whole, f = split(x)
    high, low = LN2_SINGLE if x.is_single else LN2_DOUBLE
    result = whole.fma(high, f + whole.fma(low, _tail(f)))
    return _special(x, result)


def log2(x: Real) -> Real:
    """Return the logarithm to base 2: the product f log2(e) is kept in two parts."""
    whole, f = split(x)
    high, low = LOG2_E_SINGLE if x.is_single else LOG2_E_DOUBLE
    main = f * high
    rest = _tail(f).fma(high, f.fma(low, f.fma(high, -main)))
    return _special(x, whole + (main + rest))


def log1p(x: Real) -> Real:
    """Return log(1 + x): the logarithm of the rounded sum, corrected by what rounding lost."""
    total = x + 1.0
    lost = (x - (total - 1.0)) / total
    usable = lost.where(lost.compare("ord", 0.0), 0.0)
    return (log(total) + usable).copysign(x)
