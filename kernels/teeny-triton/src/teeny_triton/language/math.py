"""Elementwise functions.

Operands are tiles or numbers. They broadcast to one shape and meet in one type, as those of
operators do. Functions of floats keep their type, and round once; of integers and f8 they compute
in f32 and give it. NaN propagates, but through `maximum`, `minimum` and `clamp` only when they are
told so. Types that a function does not take are a `KernelError`.
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
    """e to the power of `x`; within a few units in the last place."""
    return _unary("exp", x)


def exp2(x: Operand) -> Tile:
    """2 to the power of `x`; cheaper than `exp`."""
    return _unary("exp2", x)


def expm1(x: Operand) -> Tile:
    """exp(x) - 1, accurate near 0."""
    return _unary("expm1", x)


def log(x: Operand) -> Tile:
    """Natural logarithm; -inf for 0, NaN below."""
    return _unary("log", x)


def log2(x: Operand) -> Tile:
    """Logarithm to base 2; -inf for 0, NaN below."""
    return _unary("log2", x)


def log1p(x: Operand) -> Tile:
    """log(1 + x), accurate near 0; -inf for -1, NaN below."""
    return _unary("log1p", x)


def sqrt(x: Operand) -> Tile:
    """Square root, correctly rounded; NaN below 0."""
    return _unary("sqrt", x)


sqrt_rn = sqrt


def rsqrt(x: Operand) -> Tile:
    """1 / sqrt(x), as a division by the rounded root; inf for 0, NaN below."""
    return _unary("rsqrt", x)


def sin(x: Operand) -> Tile:
    """Sine of radians, of any size."""
    return _unary("sin", x)


def cos(x: Operand) -> Tile:
    """Cosine of radians, of any size."""
    return _unary("cos", x)


def tan(x: Operand) -> Tile:
    """Tangent of radians, of any size."""
    return _unary("tan", x)


def tanh(x: Operand) -> Tile:
    """Hyperbolic tangent, between -1 and 1."""
    return _unary("tanh", x)


def erf(x: Operand) -> Tile:
    """Error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return _unary("erf", x)


def sigmoid(x: Operand) -> Tile:
    """The logistic function 1 / (1 + exp(-x)): 0 for -inf, 1 for inf."""
    return _unary("sigmoid", x)


def floor(x: Operand) -> Tile:
    """Largest whole number not above `x`, as a float."""
    return _unary("floor", x)


def ceil(x: Operand) -> Tile:
    """Smallest whole number not below `x`, as a float."""
    return _unary("ceil", x)


def round(x: Operand) -> Tile:
    """Nearest whole number, halves to even, as a float."""
    return _unary("round", x)


def trunc(x: Operand) -> Tile:
    """The whole part, towards 0, as a float."""
    return _unary("trunc", x)


def abs(x: Operand) -> Tile:
    """Magnitude; the lowest integer stays itself."""
    return _unary("abs", x)


def neg(x: Operand) -> Tile:
    """Negation; integers wrap."""
    return _unary("neg", x)


def add(a: Operand, b: Operand, sanitize_overflow: bool = False) -> Tile:
    """a + b; integers wrap, a pointer moves by elements. `sanitize_overflow` has no effect."""
    return _binary("add", a, b)


def sub(a: Operand, b: Operand, sanitize_overflow: bool = False) -> Tile:
    """a - b; integers wrap, a pointer moves by elements, two of one type give their distance (i64).

    `sanitize_overflow` has no effect.
    """
    return _binary("sub", a, b)


def mul(a: Operand, b: Operand, sanitize_overflow: bool = False) -> Tile:
    """a * b; integers wrap. `sanitize_overflow` has no effect."""
    return _binary("mul", a, b)


def fdiv(x: Operand, y: Operand, ieee_rounding: bool = False) -> Tile:
    """x / y, correctly rounded in any case; integers are divided as floats."""
    return _binary("div", x, y)


div_rn = fdiv


def floordiv(x: Operand, y: Operand) -> Tile:
    """Floor of x / y, where Triton truncates integers; an integer by 0 gives 0."""
    return _binary("floordiv", x, y)


def mod(x: Operand, y: Operand) -> Tile:
    """x - floor(x / y) * y, with the sign of `y` (Triton gives the sign of `x`)."""
    return _binary("mod", x, y)


def pow(x: Operand, y: Operand) -> Tile:
    """x to the power of y; NaN, infinities and zeros as in C (ISO 9899, F.10.4.4).

    Integers wrap. A negative power of one is the whole part of the quotient: 0 but for 1 and -1.
    """
    return _binary("pow", x, y)


class PropagateNan(enum.Enum):
    """What `maximum`, `minimum` and `clamp` give when an argument is NaN."""

    NONE = "the other argument"
    ALL = "NaN"


def maximum(x: Operand, y: Operand, propagate_nan: PropagateNan = PropagateNan.NONE) -> Tile:
    """The larger of the two; a number rather than NaN, unless `propagate_nan` is ALL."""
    return _extreme("max", x, y, propagate_nan)


def minimum(x: Operand, y: Operand, propagate_nan: PropagateNan = PropagateNan.NONE) -> Tile:
    """The smaller of the two; a number rather than NaN, unless `propagate_nan` is ALL."""
    return _extreme("min", x, y, propagate_nan)


def _extreme(kind: str, x: Operand, y: Operand, propagate_nan: PropagateNan) -> Tile:
    if not isinstance(propagate_nan, PropagateNan):
        raise KernelError(
            f"{propagate_nan!r} does not say what NaN gives",
            hint="pass tl.PropagateNan.NONE or tl.PropagateNan.ALL",
        )
    dtype = semantic.common_dtype(raw(x), raw(y))
    drops = dtype.is_float and propagate_nan is PropagateNan.NONE
    return _binary(f"{kind}num" if drops else f"{kind}imum", x, y)


def clamp(
    x: Operand,
    min: Operand,
    max: Operand,
    propagate_nan: PropagateNan = PropagateNan.NONE,
) -> Tile:
    """`x` limited to [min, max]; a NaN gives `min`, unless `propagate_nan` is ALL."""
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


def fma(x: Operand, y: Operand, z: Operand) -> Tile:
    """x * y + z of floats, rounded once.

    Raises:
        KernelError: they are integers.
    """
    return Tile(semantic.fma(raw(x), raw(y), raw(z)))


def umulhi(x: Operand, y: Operand) -> Tile:
    """High half of the unsigned product of two integers of 32 or of 64 bits, in their type."""
    return _binary("umulhi", x, y)


def where(condition: Operand, x: Operand, y: Operand) -> Tile:
    """`x` where the condition holds, else `y`; both are evaluated."""
    return Tile(semantic.where(raw(condition), raw(x), raw(y)))


def compare(opcode: str, x: Operand, y: Operand) -> Tile:
    """Compare by name, eq, ne, lt, le, gt or ge; bools. Of NaN only `ne` holds."""
    return Tile(semantic.compare(opcode, raw(x), raw(y)))


def logical_not(x: Operand) -> Tile:
    """Whether each element is zero or false; bools."""
    return Tile(semantic.unary("not", semantic.truth(raw(x))))


def logical_and(x: Operand, y: Operand) -> Tile:
    """Whether both are nonzero (NaN is); bools. Both operands are evaluated."""
    return _binary("and", *(Tile(semantic.truth(raw(v))) for v in (x, y)))


def logical_or(x: Operand, y: Operand) -> Tile:
    """Whether either is nonzero (NaN is); bools. Both operands are evaluated."""
    return _binary("or", *(Tile(semantic.truth(raw(v))) for v in (x, y)))


@overload
def cdiv(x: int, div: int) -> int: ...
@overload
def cdiv(x: Operand, div: Operand) -> Tile | int: ...
def cdiv(x: Operand, div: Operand) -> Tile | int:
    """x / div rounded up, for integers; of Python integers a Python integer.

    Raises:
        KernelError: one of them is a float.
    """
    if isinstance(x, int) and isinstance(div, int):
        return -(-x // div)
    dividend, divisor = tile(x), tile(div)
    if any(semantic.element(v.value).is_float for v in (dividend, divisor)):
        raise KernelError("cdiv takes integers", hint="use tl.ceil(a / b) for floats")
    return (dividend + divisor - 1) // divisor


def softmax(
    x: Tile, dim: int | None = None, keep_dims: bool = False, ieee_rounding: bool = False
) -> Tile:
    """exp(x - max) / sum over an axis, the first by default as in Triton; the shape stays."""
    axis = 0 if dim is None else dim
    shifted = exp(x - x.max(axis, keep_dims=True))
    return shifted / shifted.sum(axis, keep_dims=True)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not below `n`."""
    return 1 << max(0, n - 1).bit_length()
