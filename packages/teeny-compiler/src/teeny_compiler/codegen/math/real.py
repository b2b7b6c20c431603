"""Numbers and bits with operators, so that elementary functions read as formulas.

`Real` wraps an operand of float or double, scalar or vector, `Bits` an integer of the same lanes.
Nothing here is contracted: a product and a sum are fused only where `fma` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from teeny_triton import Target

from teeny_compiler.codegen.arith import floating
from teeny_compiler.codegen.builder import I32, Builder, LType, Operand, constant

Number: TypeAlias = "Real | float"


@dataclass(frozen=True)
class Real:
    """A floating-point operand."""

    b: Builder
    target: Target
    operand: Operand

    @property
    def is_single(self) -> bool:
        """Whether this is f32 (else f64)."""
        return self.operand.type.scalar == "float"

    def of(self, operand: Operand) -> Real:
        """Wrap another operand."""
        return Real(self.b, self.target, operand)

    def constant(self, value: float) -> Real:
        """Return a number in every lane."""
        return self.of(constant(self.operand.type, value))

    def _raw(self, other: Number) -> Operand:
        return other.operand if isinstance(other, Real) else self.constant(other).operand

    def _binary(self, opcode: str, other: Number) -> Real:
        return self.of(self.b.binary(opcode, self.operand, self._raw(other)))

    def __add__(self, other: Number) -> Real:
        return self._binary("fadd", other)

    def __sub__(self, other: Number) -> Real:
        return self._binary("fsub", other)

    def __rsub__(self, other: float) -> Real:
        return self.constant(other) - self

    def __mul__(self, other: Number) -> Real:
        return self._binary("fmul", other)

    def __truediv__(self, other: Number) -> Real:
        return self._binary("fdiv", other)

    def __rtruediv__(self, other: float) -> Real:
        return self.constant(other) / self

    def __neg__(self) -> Real:
        return self.of(floating.negate(self.b, self.target, self.operand))

    def __abs__(self) -> Real:
        return self.of(self.b.intrinsic("fabs", self.operand))

    def fma(self, factor: Number, addend: Number) -> Real:
        """Return self * factor + addend, fused where the machine can."""
        if not floating.has_fma(self.target):
            return self * factor + addend
        return self.of(self.b.intrinsic("fma", self.operand, self._raw(factor), self._raw(addend)))

    def round(self) -> Real:
        """Return the nearest integer, ties to even."""
        return self.of(floating.round_even(self.b, self.target, self.operand))

    def sqrt(self) -> Real:
        """Return the square root."""
        return self.of(self.b.intrinsic("sqrt", self.operand))

    def copysign(self, sign: Real) -> Real:
        """Return the magnitude of this number with the sign of another."""
        return self.of(self.b.intrinsic("copysign", self.operand, sign.operand))

    def compare(self, relation: str, other: Number) -> Operand:
        """Return a condition by LLVM's relation: `olt`, `uno` and so on."""
        return self.b.compare(f"fcmp {relation}", self.operand, self._raw(other))

    def where(self, condition: Operand, other: Number) -> Real:
        """Return this number where a condition holds, else another."""
        return self.of(self.b.select(condition, self.operand, self._raw(other)))

    def at_most(self, bound: float) -> Real:
        """Return the smaller of this number and a bound; NaN stays."""
        return self.constant(bound).where(self.compare("ogt", bound), self)

    def at_least(self, bound: float) -> Real:
        """Return the larger of this number and a bound; NaN stays."""
        return self.constant(bound).where(self.compare("olt", bound), self)

    def bits(self) -> Bits:
        """Return the bit pattern."""
        scalar = "i32" if self.is_single else "i64"
        return Bits(self.b, self.target, self.b.convert("bitcast", self.operand, scalar))

    def polynomial(self, coefficients: Sequence[float]) -> Real:
        """Evaluate a polynomial in this number by Horner's rule, lowest coefficient first."""
        result = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = result.fma(self, coefficient)
        return result

    def to_double(self) -> Real:
        """Return this number as f64."""
        return self.of(self.b.convert("fpext", self.operand, "double"))

    def to_single(self) -> Real:
        """Round to f32."""
        return self.of(self.b.convert("fptrunc", self.operand, "float"))


@dataclass(frozen=True)
class Bits:
    """An integer operand of 32 or 64 bits."""

    b: Builder
    target: Target
    operand: Operand

    def _binary(self, opcode: str, other: Bits | int) -> Bits:
        raw = other.operand if isinstance(other, Bits) else constant(self.operand.type, other)
        return Bits(self.b, self.target, self.b.binary(opcode, self.operand, raw))

    def __add__(self, other: Bits | int) -> Bits:
        return self._binary("add", other)

    def __sub__(self, other: Bits | int) -> Bits:
        return self._binary("sub", other)

    def __and__(self, other: Bits | int) -> Bits:
        return self._binary("and", other)

    def __lshift__(self, count: int) -> Bits:
        return self._binary("shl", count)

    def __rshift__(self, count: int) -> Bits:
        return self._binary("ashr", count)

    def halved(self) -> Bits:
        """Return half of an unsigned integer, rounded down."""
        return self._binary("lshr", 1)

    def is_set(self, mask: int) -> Operand:
        """Return whether any of some bits is set."""
        part = self & mask
        return self.b.compare("icmp ne", part.operand, constant(part.operand.type, 0))

    def real(self) -> Real:
        """Read the bits as a number of the same size."""
        scalar = "float" if self.operand.type.scalar == "i32" else "double"
        return Real(self.b, self.target, self.b.convert("bitcast", self.operand, scalar))

    def to_real(self) -> Real:
        """Convert the integer to a number of the same size."""
        scalar = "float" if self.operand.type.scalar == "i32" else "double"
        return Real(self.b, self.target, self.b.convert("sitofp", self.operand, scalar))

    def to_32(self) -> Bits:
        """Return the low 32 bits."""
        return Bits(self.b, self.target, self.b.convert("trunc", self.operand, "i32"))


@dataclass(frozen=True)
class Format:
    """What depends on the precision."""

    fraction: int  # bits of the fraction field
    bias: int
    tiny: float  # the smallest normal number
    magic: float  # adding it rounds to an integer, which the low bits then hold


SINGLE = Format(23, 127, 2.0**-126, 1.5 * 2.0**23)
DOUBLE = Format(52, 1023, 2.0**-1022, 1.5 * 2.0**52)


def format_of(x: Real) -> Format:
    """Return the format of a number."""
    return SINGLE if x.is_single else DOUBLE


def nearest(x: Real, factor: float = 1.0) -> tuple[Real, Bits]:
    """Return the integer nearest to x * factor as a number and as an integer.

    The product must be less than 2**22 (f32) or 2**51 (f64) in magnitude. NaN gives NaN and any
    integer.
    """
    magic = format_of(x).magic
    shifted = x + magic if factor == 1.0 else x.fma(factor, magic)
    return shifted - magic, shifted.bits() - x.constant(magic).bits()


def power_of_two(exponent: Bits) -> Real:
    """Return 2**exponent for exponents of normal numbers."""
    form = SINGLE if exponent.operand.type.scalar == "i32" else DOUBLE
    return ((exponent + form.bias) << form.fraction).real()


def nearest_power(x: Real, factor: float = 1.0) -> tuple[Real, Bits]:
    """Return the integer n nearest to x * factor, and for `scale` bits that end in n + 2 bias.

    The bounds are those of `nearest`.
    """
    form = format_of(x)
    magic = form.magic + 2 * form.bias
    shifted = x + magic if factor == 1.0 else x.fma(factor, magic)
    return shifted - magic, shifted.bits()


def scale(x: Real, whole: Real, marked: Bits) -> Real:
    """Return x * 2**n rounded once, for x near 1 and what `nearest_power` says of n.

    By two factors, as 2**n need not be normal; what stands before their exponents is shifted out.
    """
    fast = _scalef(x, whole)
    if fast is not None:
        return fast
    fraction = format_of(x).fraction
    half = marked.halved()
    return x * (half << fraction).real() * ((marked - half) << fraction).real()


_SCALEF = {("float", 16): "ps.512", ("double", 8): "pd.512"}
_SCALEF_VL = {
    ("float", 8): "ps.256",
    ("float", 4): "ps.128",
    ("double", 4): "pd.256",
    ("double", 2): "pd.128",
}


def _scalef(x: Real, whole: Real) -> Real | None:
    """Scale by the instruction of AVX-512, None where there is none for this vector."""
    if not x.target.has("avx512f") or x.target.vector_bits < 512:
        return None
    type = x.operand.type
    half = type.lanes // 2
    if type.scalar == "double" and type.lanes == 16:
        parts = [
            _scalef(*(v.of(v.b.shuffle(v.operand, None, lanes)) for v in (x, whole)))
            for lanes in (range(half), range(half, 2 * half))
        ]
        low, high = (part.operand for part in parts if part is not None)
        return x.of(x.b.shuffle(low, high, range(type.lanes)))
    suffix = _SCALEF.get((type.scalar, type.lanes))
    rounding = suffix is not None
    if suffix is None and x.target.has("avx512vl"):
        suffix = _SCALEF_VL.get((type.scalar, type.lanes))
    if suffix is None:
        return None
    name = f"llvm.x86.avx512.mask.scalef.{suffix}"
    mask = constant(LType(f"i{max(type.lanes, 8)}"), -1)
    operands = [x.operand, whole.operand, constant(type, 0.0), mask]
    if rounding:
        operands.append(constant(I32, 4))  # the current rounding mode
    return x.of(x.b.call(name, type, *operands))
