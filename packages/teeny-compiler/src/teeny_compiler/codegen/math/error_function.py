"""The error function.

f32: an odd rational minimax approximation on [0, 3.93]. f64: a polynomial below 0.85, and above
1 - exp(-x**2) g(x), where g, the scaled complement, is a polynomial in (x - 2) / (x + 2).
Largest errors found, in units in the last place: 5 (f32, close to 1), 1.5 (f64).
"""

from __future__ import annotations

import math

from teeny_compiler.codegen.math.exponential import exp
from teeny_compiler.codegen.math.real import Real

# erf(x) / x as a ratio of polynomials in x**2
NUMERATOR = (
    1.1283791065216064, 0.19077348709106445, 0.05278871953487396, 0.0037791128270328045,
    0.000284788926364854, 2.041939296759665e-06,
)  # fmt: skip
DENOMINATOR = (
    1.0, 0.5024012923240662, 0.11425306648015976, 0.01499644760042429, 0.0011650765081867576,
    3.800271588261239e-05,
)  # fmt: skip
LAST_SINGLE = 3.93  # from here on the result is 1

# (erf(x) / x - 2 / sqrt(pi)) / x**2 in x**2, for |x| < 0.85
SMALL = (
    -0.37612638903183754, 0.11283791670955125, -0.026866170645130392, 0.005223977625422076,
    -0.0008548327021020079, 0.00012055332808256338, -1.4925642492921304e-05,
    1.6461879154776509e-06, -1.636113565596023e-07, 1.4744532278887438e-08,
    -1.1755192913683782e-09, 6.713929706336708e-11,
)  # fmt: skip
# exp(x**2) erfc(x) (1 + x) in (x - 2) / (x + 2)
LARGE = (
    0.7661870289315172, -0.2599748369998522, 0.03781389831358823, 0.04253634950885353,
    -0.025243554293807355, -0.0005182766714686052, 0.003937755309595874, 0.00014468096422172474,
    -0.0007066290883458151, -0.0001399897389750247, 0.00011694490682450975, 6.172902660819383e-05,
    -7.724318038117192e-06, -1.7517010569833242e-05, -4.939200962090197e-06,
    2.492240933109579e-06, 2.628131239976167e-06, 2.9526589460840095e-07, -7.464002114972453e-07,
)  # fmt: skip
BORDER = 0.85
LAST_DOUBLE = 6.0


def erf(x: Real) -> Real:
    """Return the error function."""
    return _single(x) if x.is_single else _double(x)


def _single(x: Real) -> Real:
    size = abs(x).at_most(LAST_SINGLE)
    z = size * size
    ratio = size * z.polynomial(NUMERATOR) / z.polynomial(DENOMINATOR)
    return ratio.at_most(1.0).copysign(x)


def _double(x: Real) -> Real:
    size = abs(x).at_most(LAST_DOUBLE)
    square = size * size
    small = (square * square.polynomial(SMALL)).fma(size, size * (2.0 / math.sqrt(math.pi)))
    t = (size - 2.0) / (size + 2.0)
    lost = size.fma(size, -square)
    complement = exp(-square) * (t.polynomial(LARGE) / (size + 1.0))
    complement = complement - complement * lost
    return small.where(size.compare("olt", BORDER), 1.0 - complement).copysign(x)
