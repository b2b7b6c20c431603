"""Functions of the bits of numbers: signs, exponents, neighbours, counts.

Those of floats take f16, bf16, f32 and f64, and integers as f32; those of integers 32 and 64 bits.
"""

from __future__ import annotations

import math as python_math

from teeny_core import DType, f32, f64, i16, i32, i64, u32, u64

from teeny_triton.errors import KernelError
from teeny_triton.language import semantic
from teeny_triton.language.math import abs, umulhi, where
from teeny_triton.language.promotion import computation_dtype
from teeny_triton.language.tile import Operand, Tile, tile
from teeny_triton.rules import NARROW_FLOATS

_SIGNED = {16: i16, 32: i32, 64: i64}
_UNSIGNED = {32: u32, 64: u64}

INFINITY, NAN = python_math.inf, python_math.nan


# --- floats ---


def reals(*operands: Operand) -> tuple[Tile, ...]:
    """Bring operands to one float type: the one they meet in, f32 for integers and f8."""
    tiles = [tile(x) for x in operands]
    dtype = semantic.element(tiles[0].value)
    for x in tiles[1:]:
        dtype = computation_dtype(dtype, semantic.element(x.value))
    wanted = dtype if dtype.is_float and dtype not in NARROW_FLOATS else f32
    return tuple(x.to(wanted) for x in tiles)


def float_type(x: Tile) -> DType:
    """Return the element type of a tile of numbers."""
    return semantic.element(x.value)


def bits_of(x: Tile) -> Tile:
    """Return the bits of floats as signed integers."""
    return x.to(_SIGNED[float_type(x).bits], bitcast=True)


def copysign(x: Operand, y: Operand) -> Tile:
    """The magnitude of `x` with the sign of `y`."""
    size, sign = reals(x, y)
    low = _SIGNED[float_type(size).bits].max
    bits = (bits_of(size) & low) | (bits_of(sign) & ~int(low))
    return bits.to(float_type(size), bitcast=True)


def signbit(x: Operand) -> Tile:
    """1 (i32) where the sign bit is set, of -0 and of NaN too, else 0."""
    (real,) = reals(x)
    return (bits_of(real) < 0).to(i32)


def isnan(x: Operand) -> Tile:
    """Whether each element is NaN."""
    (real,) = reals(x)
    return real != real


def isinf(x: Operand) -> Tile:
    """Whether each element is infinite."""
    (real,) = reals(x)
    return abs(real) == INFINITY


def isfinite(x: Operand) -> Tile:
    """Whether each element is neither infinite nor NaN."""
    (real,) = reals(x)
    return abs(real) < INFINITY


def nextafter(x: Operand, y: Operand) -> Tile:
    """The next number of the type after `x` in the direction of `y`."""
    start, goal = reals(x, y)
    bits = bits_of(start)
    outwards = (goal > start) == (start > 0.0)
    moved = where(outwards, bits + 1, bits - 1).to(float_type(start), bitcast=True)
    least = copysign((bits * 0 + 1).to(float_type(start), bitcast=True), goal)
    moved = where(start == 0.0, least, moved)
    return where(start == goal, goal, where(isnan(start) | isnan(goal), start + goal, moved))


def ldexp(x: Operand, n: Operand) -> Tile:
    """x * 2**n, rounded once."""
    (real,) = reals(x)
    return scaled(real.to(f64), tile(n).to(i32)).to(float_type(real))


def scaled(x: Tile, n: Tile) -> Tile:
    """x * 2**n in f64: steps by powers that are normal, of which the last alone may round."""
    n = where(n > 3000, 3000, where(n < -3000, -3000, n))
    for _ in range(2):
        high, low = n > 1023, n < -1022
        x = x * where(high, 2.0**1023, where(low, 2.0**-969, 1.0)).to(f64)
        n = n - where(high, 1023, where(low, -969, 0))
    n = where(n > 1023, 1023, where(n < -1022, -1022, n))
    return x * ((n.to(i64) + 1023) << 52).to(f64, bitcast=True)


def ilogb(x: Operand) -> Tile:
    """The exponent of each number as i32; of 0 and NaN the least i32, of infinity the greatest."""
    (real,) = reals(x)
    exponent = _exponent(real)
    result = where(isinf(real), int(i32.max), exponent)
    return where(isnan(real) | (real == 0.0), int(i32.min), result)


def logb(x: Operand) -> Tile:
    """The exponent of each number as a float; of 0 -inf, of infinity and NaN their magnitude."""
    (real,) = reals(x)
    result = where(isfinite(real), _exponent(real).to(float_type(real)), abs(real))
    return where(real == 0.0, -INFINITY, result)


def _exponent(x: Tile) -> Tile:
    wide = x.to(f64)
    small = abs(wide) < 2.0**-1022
    field = bits_of(where(small, wide * 2.0**54, wide)) >> 52
    return (field & 0x7FF).to(i32) - where(small, 1023 + 54, 1023)


# --- integers ---


def _integer(x: Operand) -> Tile:
    value = tile(x)
    dtype = float_type(value)
    if not dtype.is_int or dtype.bits < 32:
        raise KernelError(
            f"bits are counted in integers of 32 or 64 bits, not in {dtype}",
            hint="cast with .to(tl.int32)",
        )
    return value


def _word(x: Operand) -> Tile:
    """The bits as an unsigned integer."""
    value = _integer(x)
    return value.to(_UNSIGNED[float_type(value).bits], bitcast=True)


def _repeated(byte: int, bits: int) -> int:
    return int.from_bytes(bytes([byte]) * (bits // 8), "little")


def popc(x: Operand) -> Tile:
    """The number of set bits, i32: sums of 2, 4 and 8 bits side by side (Warren 2012, 5-1)."""
    word = _word(x)
    bits = float_type(word).bits
    odd, pair, nibble = (_repeated(byte, bits) for byte in (0x55, 0x33, 0x0F))
    word = word - ((word >> 1) & odd)
    word = (word & pair) + ((word >> 2) & pair)
    word = (word + (word >> 4)) & nibble
    return ((word * _repeated(0x01, bits)) >> (bits - 8)).to(i32)


def clz(x: Operand) -> Tile:
    """The number of zeros before the first set bit, i32."""
    word = _word(x)
    bits = shift = float_type(word).bits
    while shift > 1:
        shift //= 2
        word = word | (word >> (bits // 2 // shift))
    return bits - popc(word)


def ffs(x: Operand) -> Tile:
    """The place of the last set bit, counted from 1, i32; 0 where there is none."""
    word = _word(x)
    below = popc((word & (~word + 1)) - 1)
    return where(word == 0, 0, below + 1)


def brev(x: Operand) -> Tile:
    """The bits in reverse order."""
    value = _integer(x)
    word = _word(value)
    bits = float_type(word).bits
    for byte, shift in ((0x55, 1), (0x33, 2), (0x0F, 4)):
        mask = _repeated(byte, bits)
        word = ((word >> shift) & mask) | ((word & mask) << shift)
    shift = 8
    while shift < bits:
        mask = sum(((1 << shift) - 1) << place for place in range(0, bits, 2 * shift))
        word = ((word >> shift) & mask) | ((word & mask) << shift)
        shift *= 2
    return word.to(float_type(value), bitcast=True)


def mulhi(x: Operand, y: Operand) -> Tile:
    """The high half of the product, signed or unsigned as the operands are."""
    a, b = _integer(x), _integer(y)
    high = umulhi(a, b)
    if float_type(high).kind == "uint":
        return high
    dtype = float_type(high)
    a, b = a.to(dtype), b.to(dtype)
    return high - where(a < 0, b, 0) - where(b < 0, a, 0)


def hadd(x: Operand, y: Operand) -> Tile:
    """The mean of two integers, rounded down, without overflow (Warren 2012, 2-5)."""
    a, b = _integer(x), _integer(y)
    return (a & b) + ((a ^ b) >> 1)


def rhadd(x: Operand, y: Operand) -> Tile:
    """The mean of two integers, rounded up, without overflow."""
    a, b = _integer(x), _integer(y)
    return (a | b) - ((a ^ b) >> 1)
