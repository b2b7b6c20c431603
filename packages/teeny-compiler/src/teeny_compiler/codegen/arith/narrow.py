"""Narrow floats: f16, bf16 and the two f8 formats, held as integers and converted from and to f32.

Conversions to a narrow format round to the nearest even value. They are written in integer
arithmetic, except f16 where the machine has instructions for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from teeny_core import DType
from teeny_triton import Target

from teeny_compiler.codegen.builder import Builder, Operand, constant
from teeny_compiler.codegen.llvm import is_x86


@dataclass(frozen=True)
class Format:
    """A binary floating-point format with a sign bit, `exponent` and `fraction` bits."""

    exponent: int
    fraction: int
    has_infinity: bool = True

    @property
    def bias(self) -> int:
        """The exponent field of 1.0."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def bits(self) -> int:
        """Size of a value."""
        return 1 + self.exponent + self.fraction


FORMATS = {
    "f16": Format(5, 10),
    "bf16": Format(8, 7),
    "f8e5m2": Format(5, 2),
    "f8e4m3": Format(4, 3, has_infinity=False),
}


def has_half(target: Target) -> bool:
    """Whether the machine converts between f16 and f32."""
    return target.has("f16c") if is_x86(target.triple) else target.triple.startswith("aarch64")


def widen(b: Builder, target: Target, x: Operand, dtype: DType) -> Operand:
    """Return narrow floats as f32."""
    if dtype.name == "bf16":
        wide = b.convert("zext", x, "i32")
        return b.convert("bitcast", b.binary("shl", wide, constant(wide.type, 16)), "float")
    if dtype.name == "f16" and has_half(target):
        return b.convert("fpext", b.convert("bitcast", x, "half"), "float")
    return _decode(b, b.convert("zext", x, "i32"), FORMATS[dtype.name])


def round_to(b: Builder, target: Target, x: Operand, dtype: DType) -> Operand:
    """Return f32 rounded to narrow floats."""
    if dtype.name == "bf16":
        return _encode_bf16(b, x)
    if dtype.name == "f16" and has_half(target):
        return b.convert("bitcast", b.convert("fptrunc", x, "half"), "i16")
    form = FORMATS[dtype.name]
    return b.convert("trunc", _encode(b, x, form), f"i{form.bits}")


def round_to_odd(b: Builder, x: Operand) -> Operand:
    """Return f64 as f32, inexact values with an odd last bit.

    Rounding that once more to a narrow format gives what rounding once would have given
    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    near = b.convert("fptrunc", x, "float")
    back = b.convert("fpext", near, "double")
    bits = b.convert("bitcast", near, "i32")
    above = b.compare("fcmp ogt", b.intrinsic("fabs", back), b.intrinsic("fabs", x))
    below = b.binary("add", bits, b.convert("sext", above, "i32"))
    inexact = b.convert("zext", b.compare("fcmp one", back, x), "i32")
    return b.convert("bitcast", b.binary("or", below, inexact), "float")


def double_of(b: Builder, x: Operand, signed: bool) -> Operand:
    """Return an integer as f64; one of more than 53 bits as a number between its neighbours.

    Rounded once more, that gives what rounding the integer once would have given.
    """
    opcode = "sitofp" if signed else "uitofp"
    if x.type.scalar != "i64":
        return b.convert(opcode, x, "double")
    kind = x.type
    low = b.binary("and", x, constant(kind, 4095))
    inexact = b.compare("icmp ne", low, constant(kind, 0))
    middle = b.select(inexact, constant(kind, 2048), constant(kind, 0))
    between = b.binary("or", b.binary("sub", x, low), middle)
    limit = constant(kind, 1 << 53)
    size = b.intrinsic("smax", x, b.binary("sub", constant(kind, 0), x)) if signed else x
    exact = b.compare("icmp ule", size, limit)
    return b.convert(opcode, b.select(exact, x, between), "double")


def _encode_bf16(b: Builder, x: Operand) -> Operand:
    bits = b.convert("bitcast", x, "i32")
    kind = bits.type
    odd = b.binary("and", b.binary("lshr", bits, constant(kind, 16)), constant(kind, 1))
    rounded = b.binary("add", b.binary("add", bits, constant(kind, 0x7FFF)), odd)
    quiet = b.binary("or", bits, constant(kind, 0x400000))
    is_nan = b.compare("fcmp uno", x, x)
    chosen = b.select(is_nan, quiet, rounded)
    return b.convert("trunc", b.binary("lshr", chosen, constant(kind, 16)), "i16")


def _decode(b: Builder, bits: Operand, form: Format) -> Operand:
    """Place the fields as f32 has them; a product corrects the bias and normalises."""
    kind = bits.type
    magnitude = b.binary("and", bits, constant(kind, (1 << (form.bits - 1)) - 1))
    sign = b.binary("and", bits, constant(kind, 1 << (form.bits - 1)))
    sign = b.binary("shl", sign, constant(kind, 32 - form.bits))
    placed = b.binary("shl", magnitude, constant(kind, 23 - form.fraction))
    value = b.convert("bitcast", placed, "float")
    value = b.binary("fmul", value, constant(value.type, 2.0 ** (127 - form.bias)))
    result = b.convert("bitcast", value, "i32")
    if form.has_infinity:
        special = constant(kind, ((1 << form.exponent) - 1) << form.fraction)
        is_special = b.compare("icmp uge", magnitude, special)
        widened = b.binary("or", placed, constant(kind, 0x7F800000))
    else:
        largest = constant(kind, (1 << (form.bits - 1)) - 1)
        is_special = b.compare("icmp eq", magnitude, largest)
        widened = constant(kind, 0x7FC00000)
    result = b.select(is_special, widened, result)
    return b.convert("bitcast", b.binary("or", result, sign), "float")


def _encode(b: Builder, x: Operand, form: Format) -> Operand:
    """Round f32 to a format of fewer bits, in the low bits of i32."""
    bits = b.convert("bitcast", x, "i32")
    kind = bits.type
    sign = b.binary("and", bits, constant(kind, -(1 << 31)))
    magnitude = b.binary("xor", bits, sign)
    shift = 23 - form.fraction
    # Normal results: correct the bias, add half of the last place (and its own bit on ties).
    last = b.binary("and", b.binary("lshr", magnitude, constant(kind, shift)), constant(kind, 1))
    rebias = ((form.bias - 127) << 23) + (1 << (shift - 1)) - 1
    normal = b.binary("add", b.binary("add", magnitude, constant(kind, rebias)), last)
    normal = b.binary("lshr", normal, constant(kind, shift))
    # Subnormal results: an f32 addition whose last place is that of the format rounds for us.
    magic = 2.0 ** (1 - form.bias - form.fraction + 23)
    absolute = b.convert("bitcast", magnitude, "float")
    added = b.binary("fadd", absolute, constant(absolute.type, magic))
    magic_bits = b.convert("bitcast", constant(absolute.type, magic), "i32")
    subnormal = b.binary("sub", b.convert("bitcast", added, "i32"), magic_bits)
    is_small = b.compare("icmp ult", magnitude, constant(kind, (128 - form.bias) << 23))
    result = b.select(is_small, subnormal, normal)
    result = _special(b, result, magnitude, form)
    return b.binary("or", result, b.binary("lshr", sign, constant(kind, 32 - form.bits)))


def _special(b: Builder, result: Operand, magnitude: Operand, form: Format) -> Operand:
    """Replace overflows, infinities and NaNs."""
    kind = result.type
    top = ((1 << form.exponent) - 1) << form.fraction
    if not form.has_infinity:
        nan = constant(kind, (1 << (form.bits - 1)) - 1)
        return b.select(b.compare("icmp ugt", result, nan), nan, _or_nan(b, result, magnitude, nan))
    infinity = constant(kind, top)
    result = b.select(b.compare("icmp ugt", result, infinity), infinity, result)
    quiet = constant(kind, top | 1 << (form.fraction - 1))
    return _or_nan(b, result, magnitude, quiet)


def _or_nan(b: Builder, result: Operand, magnitude: Operand, nan: Operand) -> Operand:
    is_nan = b.compare("icmp ugt", magnitude, constant(magnitude.type, 0x7F800000))
    return b.select(is_nan, nan, result)
