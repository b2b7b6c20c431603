"""Elementwise functions.

Real functions of integers compute in f32. NaN propagates, but through `maximum`, `minimum` and
`clamp` only when they are told so.
"""

from __future__ import annotations

import enum
from typing import overload

from teeny_triton.errors import KernelError
from teeny_triton.language import semantic
from teeny_triton.language.tile import Operand, Tile, raw, tile


def _unary(opcode: str, x: Operand) -> Tile:
    return Tile(semantic.unary(opcode, raw(x)))


def _binary(opcode: str, a: Operand, b: Operand) -> Tile:
    return Tile(semantic.binary(opcode, raw(a), raw(b)))


def exp(x: Operand) -> Tile:
    """e to the power of `x`."""
    return _unary("exp", x)


def exp2(x: Operand) -> Tile:
    """2 to the power of `x`."""
    return _unary("exp2", x)


def expm1(x: Operand) -> Tile:
    """exp(x) - 1, accurate near 0."""
    return _unary("expm1", x)


def log(x: Operand) -> Tile:
    """Natural logarithm."""
    return _unary("log", x)


def log2(x: Operand) -> Tile:
    """Logarithm to base 2."""
    return _unary("log2", x)


def log1p(x: Operand) -> Tile:
    """log(1 + x), accurate near 0."""
    return _unary("log1p", x)


def sqrt(x: Operand) -> Tile:
    """Square root, correctly rounded."""
    return _unary("sqrt", x)


sqrt_rn = sqrt


def rsqrt(x: Operand) -> Tile:
    """1 / sqrt(x)."""
    return _unary("rsqrt", x)


def sin(x: Operand) -> Tile:
    """Sine of radians."""
    return _unary("sin", x)


def cos(x: Operand) -> Tile:
    """Cosine of radians."""
    return _unary("cos", x)


def tan(x: Operand) -> Tile:
    """Tangent of radians."""
    return _unary("tan", x)


def tanh(x: Operand) -> Tile:
    """Hyperbolic tangent."""
    return _unary("tanh", x)


def erf(x: Operand) -> Tile:
    """Error function."""
    return _unary("erf", x)


def sigmoid(x: Operand) -> Tile:
    """1 / (1 + exp(-x))."""
    return _unary("sigmoid", x)


def floor(x: Operand) -> Tile:
    """Largest whole number not above `x`."""
    return _unary("floor", x)


def ceil(x: Operand) -> Tile:
    """Smallest whole number not below `x`."""
    return _unary("ceil", x)


def round(x: Operand) -> Tile:
    """Nearest whole number, halves to even."""
    return _unary("round", x)


def trunc(x: Operand) -> Tile:
    """The whole part."""
    return _unary("trunc", x)


def abs(x: Operand) -> Tile:
    """Magnitude; the lowest integer stays itself."""
    return _unary("abs", x)


def neg(x: Operand) -> Tile:
    """Negation."""
    return _unary("neg", x)


def add(a: Operand, b: Operand, sanitize_overflow: bool = False) -> Tile:
    """a + b; a pointer moves by elements."""
    return _binary("add", a, b)


def sub(a: Operand, b: Operand, sanitize_overflow: bool = False) -> Tile:
    """a - b; a pointer moves by elements."""
    return _binary("sub", a, b)


def mul(a: Operand, b: Operand, sanitize_overflow: bool = False) -> Tile:
    """a * b."""
    return _binary("mul", a, b)


def fdiv(a: Operand, b: Operand, ieee_rounding: bool = True) -> Tile:
    """a / b, correctly rounded."""
    return _binary("div", a, b)


div_rn = fdiv


def floordiv(a: Operand, b: Operand) -> Tile:
    """Floor of a / b (Triton truncates integers)."""
    return _binary("floordiv", a, b)


def mod(a: Operand, b: Operand) -> Tile:
    """a - floor(a / b) * b, with the sign of `b` (Triton gives the sign of `a`)."""
    return _binary("mod", a, b)


def pow(a: Operand, b: Operand) -> Tile:
    """a to the power of b."""
    return _binary("pow", a, b)


class PropagateNan(enum.Enum):
    """What `maximum`, `minimum` and `clamp` give when an argument is NaN."""

    NONE = "the other argument"
    ALL = "NaN"


def maximum(a: Operand, b: Operand, propagate_nan: PropagateNan = PropagateNan.NONE) -> Tile:
    """The larger of the two; a number rather than NaN, unless `propagate_nan` is ALL."""
    return _extreme("max", a, b, propagate_nan)


def minimum(a: Operand, b: Operand, propagate_nan: PropagateNan = PropagateNan.NONE) -> Tile:
    """The smaller of the two; a number rather than NaN, unless `propagate_nan` is ALL."""
    return _extreme("min", a, b, propagate_nan)


def _extreme(kind: str, a: Operand, b: Operand, propagate_nan: PropagateNan) -> Tile:
    if not isinstance(propagate_nan, PropagateNan):
        raise KernelError(
            f"{propagate_nan!r} does not say what NaN gives",
            hint="pass tl.PropagateNan.NONE or tl.PropagateNan.ALL",
        )
    dtype = semantic.common_dtype(raw(a), raw(b))
    drops = dtype.is_float and propagate_nan is PropagateNan.NONE
    return _binary(f"{kind}num" if drops else f"{kind}imum", a, b)


def clamp(
    x: Operand,
    min: Operand,
    max: Operand,
    propagate_nan: PropagateNan = PropagateNan.NONE,
) -> Tile:
    """`x` limited to [min, max]; a NaN gives `min`, unless `propagate_nan` is ALL."""
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


def fma(a: Operand, b: Operand, c: Operand) -> Tile:
    """a * b + c, rounded once."""
    return Tile(semantic.fma(raw(a), raw(b), raw(c)))


def umulhi(a: Operand, b: Operand) -> Tile:
    """High half of the unsigned product of 32- or 64-bit integers."""
    return _binary("umulhi", a, b)


def where(condition: Operand, a: Operand, b: Operand) -> Tile:
    """`a` where the condition holds, else `b`; both are evaluated."""
    return Tile(semantic.where(raw(condition), raw(a), raw(b)))


def compare(opcode: str, a: Operand, b: Operand) -> Tile:
    """Compare by name: eq, ne, lt, le, gt or ge."""
    return Tile(semantic.compare(opcode, raw(a), raw(b)))


def logical_not(x: Operand) -> Tile:
    """Whether each element is zero."""
    return Tile(semantic.unary("not", semantic.truth(raw(x))))


def logical_and(a: Operand, b: Operand) -> Tile:
    """Whether both are nonzero; both are evaluated."""
    return _binary("and", *(Tile(semantic.truth(raw(x))) for x in (a, b)))


def logical_or(a: Operand, b: Operand) -> Tile:
    """Whether either is nonzero; both are evaluated."""
    return _binary("or", *(Tile(semantic.truth(raw(x))) for x in (a, b)))


@overload
def cdiv(a: int, b: int) -> int: ...
@overload
def cdiv(a: Operand, b: Operand) -> Tile | int: ...
def cdiv(a: Operand, b: Operand) -> Tile | int:
    """a / b rounded up, for integers; of Python integers a Python integer."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    dividend, divisor = tile(a), tile(b)
    if any(semantic.element(x.value).is_float for x in (dividend, divisor)):
        raise KernelError("cdiv takes integers", hint="use tl.ceil(a / b) for floats")
    return (dividend + divisor - 1) // divisor


def softmax(x: Tile, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """exp(x - max) / sum over an axis, the first by default as in Triton."""
    axis = 0 if axis is None else axis
    shifted = exp(x - x.max(axis, keep_dims=True))
    return shifted / shifted.sum(axis, keep_dims=True)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not below `n`."""
    return 1 << max(0, n - 1).bit_length()
