"""sin, cos and tan.

x = n pi/2 + r with |r| <= pi/4, and polynomials in r. The reduction of f32 is done in f64.
Arguments too large for exact products of n with parts of pi/2 are multiplied by 2/pi piece by
piece, modulo 4 (Payne and Hanek 1983); that code is passed over when no lane needs it.
Largest errors found, in units in the last place (f32; f64): sin 1.5 (0.7), cos 1.5 (0.7),
tan 0.6 (2.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from teeny_compiler.codegen.arith.floating import any_lane
from teeny_compiler.codegen.builder import I64, LType, Operand, constant
from teeny_compiler.codegen.math.real import Bits, Real, nearest

SIN_SINGLE = (-0.1666666716337204, 0.008333379402756691, -0.00019853068806696683,
              2.832618747561355e-06)  # fmt: skip
COS_SINGLE = (0.0416666679084301, -0.0013888980029150844, 2.48220021603629e-05,
              -2.887742880375299e-07)  # fmt: skip
# fdlibm's k_sin.c and k_cos.c (Sun Microsystems, 1993)
SIN_DOUBLE = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
    2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
COS_DOUBLE = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
    -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip

TWO_OVER_PI = 0.6366197723675814
# pi/2 in three parts of 33 bits and a rest: products with n < 2**20 are exact
PI_PARTS = (
    1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624871116645580e-21,
    8.47842766036889956997e-32,
)  # fmt: skip
PI_HIGH, PI_LOW = 1.5707963267948966, 6.123233995736766e-17
LARGEST = 2.0**19  # arguments beyond it go piece by piece

PIECE_BITS = 24
PIECES = 48
SHIFT = 400  # pieces are kept times 2**SHIFT, so that none is subnormal


@dataclass(frozen=True)
class Reduced:
    """n modulo 4 in the low bits of `quadrant`, and r in two parts."""

    quadrant: Bits
    high: Real
    low: Real


def sin(x: Real) -> Real:
    """Return the sine."""
    reduced = _reduce(x)
    result = _by_quadrant(x, reduced, reduced.quadrant)
    return x.where(x.compare("oeq", 0.0), result)


def cos(x: Real) -> Real:
    """Return the cosine: the sine a quarter turn on."""
    reduced = _reduce(x)
    return _by_quadrant(x, reduced, reduced.quadrant + 1)


def tan(x: Real) -> Real:
    """Return the tangent, in f64 for f32 too."""
    reduced = _reduce(x)
    sine, cosine = _sin_polynomial(reduced), _cos_polynomial(reduced)
    odd = reduced.quadrant.is_set(1)
    top, bottom = (-cosine).where(odd, sine), sine.where(odd, cosine)
    ratio = top / bottom
    result = ratio.to_single() if x.is_single else ratio
    return x.where(x.compare("oeq", 0.0), result)


def _by_quadrant(x: Real, reduced: Reduced, quadrant: Bits) -> Real:
    if x.is_single:
        zero = x.constant(0.0)
        reduced = Reduced(reduced.quadrant, reduced.high.to_single(), zero)
        quadrant = quadrant.to_32()
    sine, cosine = _sin_polynomial(reduced), _cos_polynomial(reduced)
    result = cosine.where(quadrant.is_set(1), sine)
    return (-result).where(quadrant.is_set(2), result)


def _sin_polynomial(r: Reduced) -> Real:
    z = r.high * r.high
    q = z.polynomial(SIN_SINGLE if r.high.is_single else SIN_DOUBLE)
    cube = z * r.high
    if r.high.is_single:
        return cube.fma(q, r.high)
    rest = z.fma(-0.5, 1.0)  # sin(h + l) = sin h + l cos h
    return r.high + cube.fma(q, rest * r.low)


def _cos_polynomial(r: Reduced) -> Real:
    z = r.high * r.high
    q = z.polynomial(COS_SINGLE if r.high.is_single else COS_DOUBLE)
    half = z * 0.5
    main = 1.0 - half
    lost = (1.0 - main) - half
    tail = (z * z).fma(q, lost)
    return main + (tail if r.high.is_single else tail - r.high * r.low)


# -- reduction


def _reduce(x: Real) -> Reduced:
    """Reduce by products with parts of pi/2, and the lanes that need it piece by piece."""
    b = x.b
    wide = x.to_double()
    near = _reduce_near(wide, x.is_single)
    large = abs(wide).compare("uge", LARGEST)
    before, slow, after = b.block, b.new_block(), b.new_block()
    b.branch(any_lane(b, large), slow, after)
    with b.scope(is_loop=False):
        b.place(slow)
        far = _reduce_far(wide)
        chosen = [
            b.select(large, f, n) for f, n in zip(_operands(far), _operands(near), strict=True)
        ]
        end = b.block
        b.jump(after)
    b.place(after)
    results = []
    for near_value, value in zip(_operands(near), chosen, strict=True):
        phi = b.phi(value.type)
        phi.incoming = [(near_value, before.label), (value, end.label)]
        results.append(phi.result)
    quadrant, high, low = results
    return Reduced(Bits(b, x.target, quadrant), wide.of(high), wide.of(low))


def _operands(reduced: Reduced) -> list[Operand]:
    return [reduced.quadrant.operand, reduced.high.operand, reduced.low.operand]


def _reduce_near(x: Real, single: bool) -> Reduced:
    whole, quadrant = nearest(x, TWO_OVER_PI)
    if single:
        high = whole.fma(-PI_LOW, whole.fma(-PI_HIGH, x))
        return Reduced(quadrant, high, x.constant(0.0))
    high = x - whole * PI_PARTS[0]
    low = x.constant(0.0)
    for part in PI_PARTS[1:]:
        high, lost = _minus(high, whole * part)
        low = low + lost
    total = high + low
    return Reduced(quadrant, total, (high - total) + low)


def _minus(x: Real, y: Real) -> tuple[Real, Real]:
    """Return x - y and what rounding lost (Knuth)."""
    total = x - y
    part = total - x
    return total, (x - (total - part)) - (y + part)


def _reduce_far(x: Real) -> Reduced:
    """Add up x times the pieces of 2/pi modulo 4; every product and every difference is exact."""
    b = x.b
    table = b.table("double", _pieces())
    scaled = x * 2.0**-SHIFT
    high = (scaled.bits() & ~((1 << 27) - 1)).real()
    parts = (high, scaled - high)
    zero = x.constant(0.0)
    lanes = x.operand.type.lanes

    before, loop, after = b.block, b.new_block(), b.new_block()
    with b.scope(is_loop=True):
        b.jump(loop)
        b.place(loop)
        phis = [b.phi(I64), *(b.phi(x.operand.type) for _ in range(3))]
        count, *state = (phi.result for phi in phis)
        address = b.offset(table, "double", count)
        piece = b.ordered(LType("double"), f"load double, {address}, align 8")
        turns, fraction, lost = (x.of(operand) for operand in state)
        for part in parts:
            product = part * x.of(b.splat(piece, lanes))
            product = product - (product * 0.25).round() * 4.0
            whole = product.round()
            fraction, error = _plus(fraction, product - whole)
            carried = fraction.round()
            fraction = fraction - carried
            turns, lost = turns + whole + carried, lost + error
        following = b.binary("add", count, constant(I64, 1))
        moved = [following, turns.operand, fraction.operand, lost.operand]
        starts = [constant(I64, 0), *[zero.operand] * 3]
        for phi, start, value in zip(phis, starts, moved, strict=True):
            phi.incoming = [(start, before.label), (value, loop.label)]
        b.branch(b.compare("icmp ult", following, constant(I64, PIECES)), loop, after)
    b.place(after)
    total = fraction + lost
    rest = (fraction - total) + lost
    _, quadrant = nearest(turns)
    angle = total * PI_HIGH
    error = total.fma(PI_HIGH, -angle)
    return Reduced(quadrant, angle, total.fma(PI_LOW, rest.fma(PI_HIGH, error)))


def _plus(x: Real, y: Real) -> tuple[Real, Real]:
    total, lost = _minus(x, -y)
    return total, lost


@cache
def _pieces() -> tuple[float, ...]:
    """Return 2/pi as numbers of PIECE_BITS bits, each times 2**SHIFT."""
    bits = PIECES * PIECE_BITS
    digits = (2 << (2 * bits)) // _pi(bits)
    mask = (1 << PIECE_BITS) - 1
    return tuple(
        float(digits >> (bits - used) & mask) * 2.0 ** (SHIFT - used)
        for used in range(PIECE_BITS, bits + 1, PIECE_BITS)
    )


def _pi(bits: int) -> int:
    """Return pi times 2**bits, by Machin's formula: 16 arctan(1/5) - 4 arctan(1/239)."""
    guard = 64
    unit = 1 << (bits + guard)
    return (16 * _arctan_inverse(5, unit) - 4 * _arctan_inverse(239, unit)) >> guard


def _arctan_inverse(x: int, unit: int) -> int:
    """Return arctan(1/x) times `unit`, by its power series."""
    power = unit // x
    total, divisor, sign = 0, 1, 1
    while power:
        total += sign * (power // divisor)
        power //= x * x
        divisor, sign = divisor + 2, -sign
    return total
