"""Floating-point arithmetic on LLVM operands of type float or double.

Products and sums may be contracted to fused multiply-adds; nothing else deviates from IEEE 754.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from teeny_triton import Target

from teeny_compiler.codegen.builder import I1, Builder, Operand, constant
from teeny_compiler.codegen.llvm import is_x86

Binary = Callable[[Builder, Target, Operand, Operand], Operand]
Unary = Callable[[Builder, Target, Operand], Operand]


def has_fma(target: Target) -> bool:
    """Whether the machine has fused multiply-add."""
    if is_x86(target.triple):
        return target.has("fma") or target.has("avx512f")
    return target.triple.startswith("aarch64")


def has_rounding(target: Target) -> bool:
    """Whether the machine rounds to integral floats in one instruction."""
    return target.has("sse4.1") if is_x86(target.triple) else target.triple.startswith("aarch64")


def fused(b: Builder, target: Target, x: Operand, y: Operand, z: Operand) -> Operand:
    """Return x * y + z rounded once.

    Without the instruction, f32 goes through f64, where the product is exact and the sum is
    rounded to odd (Boldo and Melquiond 2008); f64 through an error-free product (Dekker 1971) and
    sum (Knuth), which is off by one rounding of the error, and loses it near overflow.
    """
    if has_fma(target):
        return b.intrinsic("fma", x, y, z)
    if x.type.scalar == "float":
        x, y, z = (b.convert("fpext", operand, "double") for operand in (x, y, z))
        product = b.binary("fmul", x, y)
        return _to_odd(b, product, z)
    product = b.binary("fmul", x, y)
    error = _product_error(b, x, y, product)
    total, rest = _two_sum(b, product, z)
    exact = b.binary("fadd", total, b.binary("fadd", error, rest))
    is_finite = b.compare("fcmp oeq", error, error)
    return b.select(is_finite, exact, total)


def _two_sum(b: Builder, x: Operand, y: Operand) -> tuple[Operand, Operand]:
    total = b.binary("fadd", x, y)
    part = b.binary("fsub", total, x)
    left = b.binary("fsub", x, b.binary("fsub", total, part))
    return total, b.binary("fadd", left, b.binary("fsub", y, part))


def _to_odd(b: Builder, x: Operand, y: Operand) -> Operand:
    """Return x + y as f32, rounded once: the sum in f64 gets an odd last bit when inexact."""
    total, error = _two_sum(b, x, y)
    bits = b.convert("bitcast", total, "i64")
    zero, one = constant(bits.type, 0), constant(bits.type, 1)
    inexact = b.compare("fcmp one", error, constant(error.type, 0.0))
    even = b.compare("icmp eq", b.binary("and", bits, one), zero)
    # The neighbour towards the error: one more in magnitude when both have the same sign.
    signs = b.binary("xor", bits, b.convert("bitcast", error, "i64"))
    outwards = b.compare("icmp sge", signs, zero)
    odd = b.binary("add", bits, b.select(outwards, one, constant(bits.type, -1)))
    chosen = b.select(b.binary("and", inexact, even), odd, bits)
    return b.convert("fptrunc", b.convert("bitcast", chosen, "double"), "float")


def _product_error(b: Builder, x: Operand, y: Operand, product: Operand) -> Operand:
    """Return what the rounded product of two doubles lacks."""
    (x_high, x_low), (y_high, y_low) = _halves(b, x), _halves(b, y)
    error = b.binary("fsub", b.binary("fmul", x_high, y_high), product)
    error = b.binary("fadd", error, b.binary("fmul", x_high, y_low))
    error = b.binary("fadd", error, b.binary("fmul", x_low, y_high))
    return b.binary("fadd", error, b.binary("fmul", x_low, y_low))


def _halves(b: Builder, x: Operand) -> tuple[Operand, Operand]:
    """Split a double into two of 26 bits, by its bit pattern so that nothing overflows."""
    bits = b.convert("bitcast", x, "i64")
    kept = constant(bits.type, -(1 << 27))
    nearest = b.binary("and", b.binary("add", bits, constant(bits.type, 1 << 26)), kept)
    high = b.convert("bitcast", nearest, "double")
    below = b.convert("bitcast", b.binary("and", bits, kept), "double")
    is_finite = b.compare("fcmp olt", b.intrinsic("fabs", high), constant(x.type, math.inf))
    high = b.select(is_finite, high, below)
    return high, b.binary("fsub", x, high)


def maximum(b: Builder, target: Target, x: Operand, y: Operand) -> Operand:
    """Return the larger; NaN when one is NaN."""
    return _extreme(b, target, "maximum", "fcmp ogt", x, y)


def minimum(b: Builder, target: Target, x: Operand, y: Operand) -> Operand:
    """Return the smaller; NaN when one is NaN."""
    return _extreme(b, target, "minimum", "fcmp olt", x, y)


def maxnum(b: Builder, target: Target, x: Operand, y: Operand) -> Operand:
    """Return the larger, the second of equals; a NaN loses to a number."""
    return _number(b, "ogt", x, y)


def minnum(b: Builder, target: Target, x: Operand, y: Operand) -> Operand:
    """Return the smaller, the second of equals; a NaN loses to a number."""
    return _number(b, "olt", x, y)


def _number(b: Builder, relation: str, x: Operand, y: Operand) -> Operand:
    """Choose x where it wins, which a NaN does not; one instruction where y is a known number."""
    chosen = b.select(b.compare(f"fcmp {relation}", x, y), x, y)
    if _is_number(y):
        return chosen
    return b.select(b.compare("fcmp uno", y, y), x, chosen)


def _extreme(b: Builder, target: Target, name: str, opcode: str, x: Operand, y: Operand) -> Operand:
    """Choose x where it wins; of zeros that differ in sign any.

    The intrinsic is one instruction on AArch64, and on x86 too where a NaN in x is impossible: the
    instruction gives y when either is NaN. Written as choices, LLVM turns it into four.
    """
    if is_x86(target.triple) or target.triple.startswith("aarch64"):
        return b.intrinsic(name, x, y, flags="nsz")
    if _is_number(y):
        x, y = y, x
    chosen = b.select(b.compare(opcode, x, y), x, y)
    if _is_number(x):
        return chosen
    return b.select(b.compare("fcmp uno", x, x), x, chosen)


def _is_number(x: Operand) -> bool:
    """Whether this is a literal, the same in all lanes, and not NaN."""
    text = x.text.removeprefix("splat (").rstrip(")").rpartition(" ")[2]
    return text.startswith("0x") and int(text, 16) % (1 << 63) <= 0x7FF << 52


def negate(b: Builder, target: Target, x: Operand) -> Operand:
    """Return -x."""
    return b.pure(x.type, f"fneg {x}", x)


def absolute(b: Builder, target: Target, x: Operand) -> Operand:
    """Return |x|."""
    return b.intrinsic("fabs", x)


def copy_sign(b: Builder, x: Operand, sign: Operand) -> Operand:
    """Return |x| with the sign bit of another number."""
    return b.intrinsic("copysign", x, sign)


def sqrt(b: Builder, target: Target, x: Operand) -> Operand:
    """Return the square root, correctly rounded."""
    return b.intrinsic("sqrt", x)


def rsqrt(b: Builder, target: Target, x: Operand) -> Operand:
    """Return 1 / sqrt(x)."""
    return b.binary("fdiv", constant(x.type, 1.0), sqrt(b, target, x))


def round_even(b: Builder, target: Target, x: Operand) -> Operand:
    """Round to the nearest integer, ties to even."""
    if has_rounding(target):
        return b.intrinsic("roundeven", x)
    big = constant(x.type, 2.0**23 if x.type.scalar == "float" else 2.0**52)
    size = b.intrinsic("fabs", x)
    rounded = b.binary("fsub", b.binary("fadd", size, big), big)
    is_small = b.compare("fcmp olt", size, big)
    return b.select(is_small, copy_sign(b, rounded, x), x)


def floor(b: Builder, target: Target, x: Operand) -> Operand:
    """Round down."""
    return b.intrinsic("floor", x) if has_rounding(target) else _adjusted(b, target, x, "ogt", -1.0)


def ceil(b: Builder, target: Target, x: Operand) -> Operand:
    """Round up."""
    return b.intrinsic("ceil", x) if has_rounding(target) else _adjusted(b, target, x, "olt", 1.0)


def truncate(b: Builder, target: Target, x: Operand) -> Operand:
    """Round towards zero."""
    if has_rounding(target):
        return b.intrinsic("trunc", x)
    return copy_sign(b, floor(b, target, b.intrinsic("fabs", x)), x)


def _adjusted(b: Builder, target: Target, x: Operand, relation: str, step: float) -> Operand:
    """Correct the nearest integer by `step` where it lies on the wrong side of x."""
    nearest = round_even(b, target, x)
    beyond = b.compare(f"fcmp {relation}", nearest, x)
    moved = b.binary("fadd", nearest, constant(x.type, step))
    return copy_sign(b, b.select(beyond, moved, nearest), x)


def remainder(b: Builder, target: Target, x: Operand, y: Operand) -> Operand:
    """Return the remainder of x / y with the sign of y, as Python and NumPy define it."""
    rest, wrong = _truncated(b, target, x, y)
    zero = constant(x.type, 0.0)
    moved = b.select(wrong, b.binary("fadd", rest, y), rest)
    return b.select(b.compare("fcmp une", rest, zero), moved, copy_sign(b, zero, y))


def floor_divide(b: Builder, target: Target, x: Operand, y: Operand) -> Operand:
    """Return floor(x / y) as NumPy computes it: from the exact remainder."""
    rest, wrong = _truncated(b, target, x, y)
    plain = b.binary("fdiv", x, y)
    whole = b.binary("fdiv", b.binary("fsub", x, rest), y)
    whole = b.select(wrong, b.binary("fsub", whole, constant(x.type, 1.0)), whole)
    down = floor(b, target, whole)
    short = b.compare("fcmp ogt", b.binary("fsub", whole, down), constant(x.type, 0.5))
    rounded = b.select(short, b.binary("fadd", down, constant(x.type, 1.0)), down)
    is_zero = b.compare("fcmp oeq", whole, constant(x.type, 0.0))
    rounded = b.select(is_zero, copy_sign(b, constant(x.type, 0.0), plain), rounded)
    return b.select(b.compare("fcmp oeq", y, constant(y.type, 0.0)), plain, rounded)


def _truncated(b: Builder, target: Target, x: Operand, y: Operand) -> tuple[Operand, Operand]:
    """Return the remainder with the sign of x (C's fmod), and where its sign is not that of y."""
    rest = _reduced(b, target, x, y)
    is_nonzero = b.compare("fcmp une", rest, constant(x.type, 0.0))
    size = b.intrinsic("fabs", y)
    overshot = b.binary("and", is_nonzero, _signs_differ(b, rest, x))
    rest = b.select(overshot, b.binary("fadd", rest, copy_sign(b, size, x)), rest)
    return rest, b.binary("and", is_nonzero, _signs_differ(b, rest, y))


def _signs_differ(b: Builder, x: Operand, y: Operand) -> Operand:
    one = constant(x.type, 1.0)
    product = b.binary("fmul", copy_sign(b, one, x), copy_sign(b, one, y))
    return b.compare("fcmp olt", product, constant(x.type, 0.0))


def _reduced(b: Builder, target: Target, x: Operand, y: Operand) -> Operand:
    """Subtract multiples of y from x until less than |y| remains; every step is exact.

    In f64 the difference x - q y with q near x / y has at most 53 bits, so the fused step does not
    round. A quotient of more bits takes further steps; one that overflows, which takes x and y of
    f64, is first reduced by a large multiple of y.
    """
    y_wide = b.convert("fpext", y, "double")
    size = b.intrinsic("fabs", y_wide)
    multiples = _multiples(b, y_wide, size) if x.type.scalar == "double" else ()

    def step(rest: Operand) -> Operand:
        divisor = y_wide
        for far, multiple in multiples:
            is_far = b.compare("fcmp oge", b.intrinsic("fabs", rest), far)
            divisor = b.select(is_far, multiple, divisor)
        quotient = truncate(b, target, b.binary("fdiv", rest, divisor))
        less = _exact_step(b, target, rest, quotient, divisor)
        is_less = b.compare("fcmp oeq", quotient, constant(quotient.type, 0.0))
        return b.select(is_less, rest, less)  # also where the divisor is infinite

    def unfinished(rest: Operand) -> Operand:
        left = b.compare("fcmp oge", b.intrinsic("fabs", rest), size)
        return any_lane(b, left)

    rest = repeat(b, step(b.convert("fpext", x, "double")), unfinished, step)
    # A quotient that was rounded up leaves a rest of the other sign; the caller corrects that.
    return b.convert("fptrunc", rest, x.type.scalar)


def _multiples(b: Builder, y: Operand, size: Operand) -> list[tuple[Operand, Operand]]:
    """Return from which size on to subtract which multiple of y, so that no quotient overflows.

    Quotients of finite numbers are below 2**2098; by the greatest multiple, below 2**898.
    """
    far, found = b.binary("fmul", size, constant(y.type, 2.0**300)), []
    for _ in range(2):
        y, far = (b.binary("fmul", x, constant(x.type, 2.0**600)) for x in (y, far))
        found.append((far, y))
    return found


def _exact_step(
    b: Builder, target: Target, rest: Operand, quotient: Operand, divisor: Operand
) -> Operand:
    """Return rest - quotient * divisor, scaled down where an emulated product could overflow."""
    minus = negate(b, target, quotient)
    if has_fma(target):
        return fused(b, target, minus, divisor, rest)
    kind, factor = rest.type, 2.0**-100
    is_big = b.compare("fcmp oge", b.intrinsic("fabs", rest), constant(kind, 2.0**900))
    one = constant(kind, 1.0)
    down = b.select(is_big, constant(kind, factor), one)
    up = b.select(is_big, constant(kind, 1.0 / factor), one)
    scaled = fused(b, target, minus, b.binary("fmul", divisor, down), b.binary("fmul", rest, down))
    return b.binary("fmul", scaled, up)


def any_lane(b: Builder, condition: Operand) -> Operand:
    """Return whether a condition holds in some lane."""
    if condition.type.lanes == 1:
        return condition
    return b.call(f"llvm.vector.reduce.or.{condition.type.suffix}", I1, condition)


def repeat(
    b: Builder,
    start: Operand,
    condition: Callable[[Operand], Operand],
    step: Callable[[Operand], Operand],
) -> Operand:
    """Write a loop that applies `step` as long as `condition` holds."""
    test, body, after, before = b.new_block(), b.new_block(), b.new_block(), b.block
    with b.scope(is_loop=True):
        b.jump(test)
        b.place(test)
        phi = b.phi(start.type)
        b.branch(condition(phi.result), body, after)
        b.place(body)
        moved = step(phi.result)
        phi.incoming = [(start, before.label), (moved, b.block.label)]
        b.jump(test)
    b.place(after)
    return b.available(phi.result)


def contracted(opcode: str) -> Binary:
    """Return the emitter of an instruction that may be contracted."""
    return lambda b, target, x, y: b.binary(f"{opcode} contract", x, y)


BINARY: Mapping[str, Binary] = {
    "add": contracted("fadd"),
    "sub": contracted("fsub"),
    "mul": contracted("fmul"),
    "div": contracted("fdiv"),
    "maximum": maximum,
    "minimum": minimum,
    "maxnum": maxnum,
    "minnum": minnum,
    "mod": remainder,
    "floordiv": floor_divide,
}
UNARY: Mapping[str, Unary] = {
    "neg": negate,
    "abs": absolute,
    "sqrt": sqrt,
    "rsqrt": rsqrt,
    "round": round_even,
    "floor": floor,
    "ceil": ceil,
    "trunc": truncate,
}
