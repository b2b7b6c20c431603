"""Integer arithmetic on LLVM operands: wrapping, with NumPy's floor division and shifts.

Division by zero gives 0 and never traps, nor does the most negative number divided by -1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from teeny_compiler.codegen.builder import BITS, Builder, LType, Operand, constant

Function = Callable[[Builder, Operand, Operand, bool], Operand]


def add(b: Builder, x: Operand, y: Operand, signed: bool) -> Operand:
    """Return x + y."""
    return b.binary("add", x, y)


def sub(b: Builder, x: Operand, y: Operand, signed: bool) -> Operand:
    """Return x - y."""
    return b.binary("sub", x, y)


def mul(b: Builder, x: Operand, y: Operand, signed: bool) -> Operand:
    """Return x * y."""
    return b.binary("mul", x, y)


def bitwise(opcode: str) -> Function:
    """Return the emitter of a bitwise instruction."""
    return lambda b, x, y, signed: b.binary(opcode, x, y)


def maximum(b: Builder, x: Operand, y: Operand, signed: bool) -> Operand:
    """Return the larger."""
    return b.intrinsic("smax" if signed else "umax", x, y)


def minimum(b: Builder, x: Operand, y: Operand, signed: bool) -> Operand:
    """Return the smaller."""
    return b.intrinsic("smin" if signed else "umin", x, y)


def shift_left(b: Builder, x: Operand, y: Operand, signed: bool) -> Operand:
    """Return x << y; shifting all bits out gives 0."""
    return b.select(_in_range(b, y), b.binary("shl", x, y), constant(x.type, 0))


def shift_right(b: Builder, x: Operand, y: Operand, signed: bool) -> Operand:
    """Return x >> y, arithmetic for signed numbers; shifting all bits out gives 0 or -1."""
    if not signed:
        return b.select(_in_range(b, y), b.binary("lshr", x, y), constant(x.type, 0))
    most = constant(x.type, BITS[x.type.scalar] - 1)
    return b.binary("ashr", x, b.intrinsic("umin", y, most))


def _in_range(b: Builder, amount: Operand) -> Operand:
    return b.compare("icmp ult", amount, constant(amount.type, BITS[amount.type.scalar]))


def multiply_high(b: Builder, x: Operand, y: Operand, signed: bool) -> Operand:
    """Return the high half of the unsigned product."""
    bits = BITS[x.type.scalar]
    wide = f"i{2 * bits}"
    left, right = b.convert("zext", x, wide), b.convert("zext", y, wide)
    shift = Operand(left.type, _splat_text(left.type, bits))
    high = b.binary("lshr", b.binary("mul", left, right), shift)
    return b.convert("trunc", high, x.type.scalar)


def _splat_text(type: LType, value: int) -> str:
    return str(value) if type.lanes == 1 else f"splat ({type.scalar} {value})"


def divide(b: Builder, x: Operand, y: Operand, signed: bool) -> Operand:
    """Return x divided by y, rounded down."""
    return _divide(b, x, y, signed)[0]


def modulo(b: Builder, x: Operand, y: Operand, signed: bool) -> Operand:
    """Return x - floor(x / y) * y, which has the sign of y; 0 where y is 0."""
    quotient, safe = _divide(b, x, y, signed)
    remainder = b.binary("sub", x, b.binary("mul", quotient, y))
    if safe == y:
        return remainder
    zero = constant(x.type, 0)
    return b.select(b.compare("icmp eq", y, zero), zero, remainder)


def _divide(b: Builder, x: Operand, y: Operand, signed: bool) -> tuple[Operand, Operand]:
    """Return the quotient and the divisor that was used (never 0 nor -1)."""
    opcode = "sdiv" if signed else "udiv"
    if _is_safe(y):
        return (_floored(b, x, y) if signed else b.binary(opcode, x, y)), y
    zero, one = constant(x.type, 0), constant(x.type, 1)
    is_zero = b.compare("icmp eq", y, zero)
    safe = b.select(is_zero, one, y)
    if not signed:
        quotient = b.binary(opcode, x, safe)
        return b.select(is_zero, zero, quotient), safe
    is_minus = b.compare("icmp eq", y, constant(x.type, -1))
    safe = b.select(is_minus, one, safe)
    quotient = _floored(b, x, safe)
    quotient = b.select(is_minus, b.binary("sub", zero, x), quotient)
    return b.select(is_zero, zero, quotient), safe


def _floored(b: Builder, x: Operand, y: Operand) -> Operand:
    """Divide with a divisor other than 0 and -1, rounding down."""
    if BITS[x.type.scalar] <= 32 and x.type.lanes > 1 and not y.is_constant:
        return _by_double(b, x, y)
    quotient = b.binary("sdiv", x, y)
    remainder = b.binary("sub", x, b.binary("mul", quotient, y))
    zero = constant(x.type, 0)
    inexact = b.compare("icmp ne", remainder, zero)
    opposite = b.compare("icmp slt", b.binary("xor", remainder, y), zero)
    below = b.convert("sext", b.binary("and", inexact, opposite), x.type.scalar)
    return b.binary("add", quotient, below)


def _by_double(b: Builder, x: Operand, y: Operand) -> Operand:
    """Divide lanes of at most 32 bits in f64, where the rounded quotient floors correctly.

    A quotient that is no integer is at least 1/|y| > |x/y| 2^-53 away from one.
    """
    quotient = b.binary("fdiv", b.convert("sitofp", x, "double"), b.convert("sitofp", y, "double"))
    floor = b.intrinsic("floor", quotient)
    whole = b.convert("fptosi", floor, "i32")
    return b.convert("trunc", whole, x.type.scalar)


def _is_safe(y: Operand) -> bool:
    if not y.is_constant:
        return False
    inner = y.text.removeprefix("splat (").rstrip(")").rpartition(" ")[2]
    return inner.lstrip("-").isdigit() and int(inner) not in (0, -1)


def power(b: Builder, x: Operand, y: Operand, signed: bool) -> Operand:
    """Return x to the power y by squaring; negative powers of other than 1 and -1 are 0."""
    one, zero = constant(x.type, 1), constant(x.type, 0)
    result, square = one, x
    for bit in range(BITS[x.type.scalar]):
        has = b.binary("and", y, constant(x.type, 1 << bit))
        factor = b.select(b.compare("icmp ne", has, zero), square, one)
        result = b.binary("mul", result, factor)
        square = b.binary("mul", square, square)
    if not signed:
        return result
    is_unit = b.compare("icmp ult", b.binary("add", x, one), constant(x.type, 3))
    is_unit = b.binary("and", is_unit, b.compare("icmp ne", x, zero))
    negative = b.compare("icmp slt", y, zero)
    odd = b.binary("and", y, one)
    unit = b.select(b.compare("icmp ne", odd, zero), x, one)
    return b.select(negative, b.select(is_unit, unit, zero), result)


def absolute(b: Builder, x: Operand, signed: bool) -> Operand:
    """Return |x|; the most negative number is its own absolute value."""
    return b.intrinsic("smax", x, b.binary("sub", constant(x.type, 0), x)) if signed else x


def negate(b: Builder, x: Operand, signed: bool) -> Operand:
    """Return -x."""
    return b.binary("sub", constant(x.type, 0), x)


BINARY: Mapping[str, Function] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "and": bitwise("and"),
    "or": bitwise("or"),
    "xor": bitwise("xor"),
    "shl": shift_left,
    "shr": shift_right,
    "maximum": maximum,
    "minimum": minimum,
    "floordiv": divide,
    "mod": modulo,
    "umulhi": multiply_high,
    "pow": power,
}
UNARY: Mapping[str, Callable[[Builder, Operand, bool], Operand]] = {
    "neg": negate,
    "abs": absolute,
    "not": lambda b, x, signed: b.binary("xor", x, constant(x.type, -1)),
}
