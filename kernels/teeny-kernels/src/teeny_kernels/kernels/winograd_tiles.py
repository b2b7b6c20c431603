"""The transforms of Winograd's F(2, 3) and F(4, 3), along one side of a tile.

A tile of m results sees m + 2 numbers d. With the three taps g,

    y = A' [ (G g) * (B' d) ]          (* by elements)

multiplies m + 2 times instead of 3 m times. The transforms come from interpolation: the product of
two polynomials is known by its values at m + 1 points and at infinity (Lavin and Gray, Fast
Algorithms for Convolutional Neural Networks, 2016). The points of F(2, 3) are 0 and +-1:

    B' = 1  0 -1  0     G =  1    0    0      A' = 1  1  1  0
         0  1  1  0         1/2  1/2  1/2          0  1 -1 -1
         0 -1  1  0         1/2 -1/2  1/2
         0  1  0 -1          0    0    1

Those of F(4, 3) are 0, +-p and +-q for p = 1/sqrt(2) and q = sqrt(2). As p q = 1, the powers of
both stay near 1, which loses fewer digits than the usual points 0, +-1 and +-2 do:

    B' = 1    0  -5/2    0    1  0     G = 1    0    0  / 1      A' = 1   1    1   1    1  0
         0  -p q^2 -q^2  p    1  0         1    p   p^2 / -3/2        0   p   -p   q   -q  0
         0   p q^2 -q^2 -p    1  0         1   -p   p^2 / -3/2        0  p^2  p^2 q^2  q^2 0
         0  -q p^2 -p^2  q    1  0         1    q   q^2 / 6           0  p^3 -p^3 q^3 -q^3 1
         0   q p^2 -p^2 -q    1  0         1   -q   q^2 / 6
         0    1    0   -5/2   0  1         0    0    1  / 1

A pair of points +-p shares its sums of even and of odd powers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from teeny_triton import kernel

P, Q = 0.5**0.5, 2.0**0.5


@kernel
def of_input(d: Sequence[Any]) -> Any:
    """Multiply the 4 or 6 numbers that a tile sees by B'."""
    if len(d) == 4:
        return d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]
    even, odd = d[4] - d[2] * 2.0, (d[3] - d[1] * 2.0) * P
    more_even, more_odd = d[4] - d[2] * 0.5, (d[3] - d[1] * 0.5) * Q
    first, last = d[0] + d[4] - d[2] * 2.5, d[1] + d[5] - d[3] * 2.5
    return first, even + odd, even - odd, more_even + more_odd, more_even - more_odd, last


@kernel
def of_filter(side: int, g: Sequence[Any]) -> Any:
    """Multiply three taps by G, for tiles of `side` results."""
    if side == 2:
        even, odd = (g[0] + g[2]) * 0.5, g[1] * 0.5
        return g[0], even + odd, even - odd, g[2]
    even, odd = (g[0] + g[2] * 0.5) * (-2 / 3), g[1] * (-2 / 3 * P)
    more_even, more_odd = (g[0] + g[2] * 2.0) * (1 / 6), g[1] * (1 / 6 * Q)
    return g[0], even + odd, even - odd, more_even + more_odd, more_even - more_odd, g[2]


@kernel
def of_sums(s: Sequence[Any]) -> Any:
    """Multiply 4 or 6 sums of products by A': the 2 or 4 results."""
    if len(s) == 4:
        return s[0] + s[1] + s[2], s[1] - s[2] - s[3]
    even, odd = s[1] + s[2], s[1] - s[2]
    more_even, more_odd = s[3] + s[4], s[3] - s[4]
    return (
        s[0] + even + more_even,
        (odd + more_odd * 2.0) * P,
        even * 0.5 + more_even * 2.0,
        (odd * 0.5 + more_odd * 4.0) * P + s[5],
    )
