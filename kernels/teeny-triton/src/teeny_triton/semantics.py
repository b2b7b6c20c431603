"""What every computing opcode means, in NumPy.

The interpreter executes ops by these functions and the builder folds constants by them, so that
there is one definition. Values are arrays of the exact NumPy dtype; results too. Elementwise
results are those of IEEE arithmetic in the element type, rounded once: f16 and bf16 compute in
f32, transcendental functions in f64. Integers wrap. As in NumPy, integer division by zero gives 0
and a shift by the width or more gives 0 (or the sign).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from teeny_core import DType

from teeny_triton.ir import COMPARISONS

Array: TypeAlias = npt.NDArray[Any]
Function: TypeAlias = Callable[..., Array]


def elementwise(opcode: str, *operands: Array) -> Array:
    """Return the result of a unary, binary, comparison, `fma` or `where` op.

    Operands have equal shapes and the dtypes that the op's type rule asks for.
    """
    with np.errstate(all="ignore"):
        return np.asarray(_FUNCTIONS[opcode](*operands))


def cast(x: Array, target: DType) -> Array:
    """Convert values: float to integer truncates and saturates, with NaN to 0; all else is
    rounded to nearest even, once."""
    with np.errstate(all="ignore"):
        if target.is_bool:
            return np.asarray(x != 0)
        if _is_float(x) and target.is_int:
            return _saturate(_widen(x).astype(np.float64), target)
        if target.is_float and target.bits < 32:
            return _to_single(x).astype(target.numpy)
        return x.astype(target.numpy)


def bitcast(x: Array, target: DType) -> Array:
    """Return the same bits as another dtype of the same size."""
    return x.view(target.numpy)


def reduce(kind: str, x: Array, axis: int) -> Array:
    """Reduce one axis. f16 and bf16 accumulate in f32; max and min propagate NaN, and argmax and
    argmin take it, else the first of equals."""
    with np.errstate(all="ignore"):
        if kind in ("argmax", "argmin"):
            find = np.argmax if kind == "argmax" else np.argmin
            return np.asarray(find(_widen(x), axis=axis)).astype(np.int32)
        wide = _widen(x)
        result = _REDUCERS[kind].reduce(wide, axis=axis, dtype=wide.dtype)
        return np.asarray(result).astype(x.dtype)


def sort(x: Array, axis: int, keep: int, *, descending: bool = False) -> Array:
    """Return the first `keep` elements along an axis in order; -0 < +0, NaN above all numbers.

    All NaNs become the quiet NaN without a sign or payload.
    """
    ordered = np.sort(sort_keys(x), axis=axis)
    if descending:
        ordered = np.flip(ordered, axis)
    first = np.take(ordered, np.arange(keep), axis=axis)
    return _order_bits(first).view(x.dtype) if _is_float(x) else first


def sort_keys(x: Array) -> Array:
    """Return integers in the order of floats: negative ones with all but the sign inverted."""
    if not _is_float(x):
        return x
    return _order_bits(np.where(np.isnan(x), np.asarray(np.nan).astype(x.dtype), x))


def _order_bits(x: Array) -> Array:
    """Turn the bits of floats into keys, and keys into bits."""
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def gather(x: Array, index: Array, axis: int) -> Array:
    """Return the elements of `x` at indices along an axis, all inside it."""
    return np.take_along_axis(x, index.astype(np.int64), axis)


def histogram(x: Array, bins: int, mask: Array) -> Array:
    """Count the elements 0, 1, ... bins - 1 where `mask` holds."""
    inside = mask & (x >= 0) & (x < bins)
    return np.bincount(x[inside].astype(np.int64), minlength=bins).astype(np.int32)


def atomic(kind: str, old: Array, value: Array) -> Array:
    """Return what an atomic operation leaves in memory; float max and min drop NaN."""
    if kind == "xchg":
        return value
    if kind in ("max", "min"):
        return elementwise(f"{kind}num" if _is_float(old) else f"{kind}imum", old, value)
    return elementwise(kind, old, value)


def same_bits(x: Array, y: Array) -> Array:
    """Return where two arrays of one dtype hold the same bits."""
    bits = f"u{x.dtype.itemsize}"
    return np.asarray(x.view(bits) == y.view(bits))


def dot(a: Array, b: Array, acc: Array) -> Array:
    """Return `acc + a @ b` in the dtype of `acc`."""
    with np.errstate(all="ignore"):
        return np.asarray(acc + np.matmul(a.astype(acc.dtype), b.astype(acc.dtype)))


def dot_words(a: Array, b: Array, acc: Array, left: str, right: str) -> Array:
    """Return `acc` plus, for each word, the products of the small integers in it.

    All are i32 arrays of one shape, the words of little-endian byte order; sums wrap.
    """
    parts = []
    for words, kind in ((a, left), (b, right)):
        flat = words.reshape(-1).astype("<i4").view(f"<{kind[0]}{int(kind[1:]) // 8}")
        parts.append(flat.reshape(*acc.shape, 32 // int(kind[1:])).astype(np.int64))
    total = acc + (parts[0] * parts[1]).sum(-1)
    return np.asarray(total).astype(np.int32)


def _is_float(x: Array) -> bool:
    return x.dtype.kind not in "biu"  # ml_dtypes floats have kind V or f


def _widen(x: Array) -> Array:
    """f16, bf16 and f8 as f32; anything else as it is."""
    return x.astype(np.float32) if _is_float(x) and x.dtype.itemsize < 4 else x


def _to_single(x: Array) -> Array:
    """Return f32 that round to any narrower format as `x` itself does.

    Inexact values get an odd last bit (Boldo and Melquiond, "Emulation of FMA and correctly
    rounded sums", 2008).
    """
    if _is_float(x) and x.dtype.itemsize < 8:
        return x.astype(np.float32)
    wide = x.astype(np.float64) if _is_float(x) or x.dtype.itemsize < 8 else _to_double(x)
    near = wide.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.int32) - (np.abs(back) > np.abs(wide))
    inexact = (back != wide) & ~np.isnan(wide)
    return np.asarray(bits | inexact).astype(np.int32).view(np.float32)


def _to_double(x: Array) -> Array:
    """Return integers of 64 bits as f64, not rounded to even but somewhere between neighbours."""
    low = x & np.asarray(4095).astype(x.dtype)
    half = np.asarray(2048).astype(x.dtype)
    between = (x - low) | np.where(low != 0, half, low)
    return np.where(np.abs(x.astype(np.float64)) < 2.0**53, x, between).astype(np.float64)


def _saturate(x: Array, target: DType) -> Array:
    low, high = int(target.min), int(target.max)
    whole = np.where(np.isnan(x), 0.0, np.trunc(x))
    inside = (whole >= float(low)) & (whole < float(high + 1))
    clipped = np.where(whole < 0, np.array(low, target.numpy), np.array(high, target.numpy))
    return np.where(inside, np.where(inside, whole, 0.0).astype(target.numpy), clipped)


def _rounded(function: Function) -> Function:
    """Run in f32 for narrower floats, and return the operands' dtype."""

    def run(*operands: Array) -> Array:
        return np.asarray(function(*map(_widen, operands))).astype(operands[0].dtype)

    return run


def _precise(function: Function) -> Function:
    """Run in f64 and round to the operands' dtype."""

    def run(*operands: Array) -> Array:
        wide = (x.astype(np.float64) for x in operands)
        return np.asarray(function(*wide)).astype(operands[0].dtype)

    return run


def _comparison(function: Function) -> Function:
    def run(a: Array, b: Array) -> Array:
        return np.asarray(function(_widen(a), _widen(b)))

    return run


def _pow(a: Array, b: Array) -> Array:
    if _is_float(a):
        return _precise(np.power)(a, b)
    result, base, exponent = np.ones_like(a), a, np.maximum(b, 0)
    while exponent.any():
        result = np.where(exponent & 1, result * base, result)
        base, exponent = base * base, exponent >> 1
    odd = (b & 1).astype(bool)
    inverse = np.where(a == 1, 1, np.where(a + 1 == 0, np.where(odd, -1, 1), 0)).astype(a.dtype)
    return np.where(b < 0, inverse, result)


def _umulhi(a: Array, b: Array) -> Array:
    """High half of the product of the operands' bits, read as unsigned."""
    if a.dtype.itemsize == 4:
        wide = a.view(np.uint32).astype(np.uint64) * b.view(np.uint32).astype(np.uint64)
        return (wide >> np.uint64(32)).astype(np.uint32).view(a.dtype)
    x, y, half, low = a.view(np.uint64), b.view(np.uint64), np.uint64(32), np.uint64(0xFFFFFFFF)
    cross = (x & low) * (y >> half) + (((x & low) * (y & low)) >> half)
    carry = (x >> half) * (y & low) + (cross & low)
    return np.asarray((x >> half) * (y >> half) + (cross >> half) + (carry >> half)).view(a.dtype)


def _fma(a: Array, b: Array, c: Array) -> Array:
    if a.dtype == np.float64:
        return _fma_exact(a, b, c)
    # The product of two f32 is exact in f64. The sum is rounded to odd (Boldo and Melquiond,
    # "Emulation of FMA and correctly rounded sums", 2008), so that the last rounding is right.
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = np.asarray(product + addend)
    back = total - product
    error = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    inexact = np.isfinite(total) & (error != 0) & even
    odd = np.where(inexact, np.nextafter(total, np.copysign(np.inf, error)), total)
    return odd.astype(np.float32).astype(a.dtype)


def _fma_exact(a: Array, b: Array, c: Array) -> Array:
    plain = np.asarray(a * b + c)
    a, b, c = np.broadcast_arrays(a, b, c)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    result = plain.copy()
    for index in np.argwhere(finite):
        x, y, z = (Fraction(float(v[tuple(index)])) for v in (a, b, c))
        exact = x * y + z
        if exact:  # an exact zero keeps the sign that IEEE gives it
            result[tuple(index)] = _nearest(exact)
    return result


def _nearest(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _maxnum(a: Array, b: Array) -> Array:
    return np.where((a > b) | np.isnan(b), a, b)


def _minnum(a: Array, b: Array) -> Array:
    return np.where((a < b) | np.isnan(b), a, b)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _rsqrt(x: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(x))


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(np.float64)


_REDUCERS: Mapping[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "xor_sum": np.bitwise_xor,
}

_ROUNDED: Mapping[str, Function] = {
    "neg": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "maxnum": _maxnum,
    "minnum": _minnum,
}

_PRECISE: Mapping[str, Function] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "erf": _erf,
    "sigmoid": _sigmoid,
    "expm1": np.expm1,
    "log1p": np.log1p,
}

_BITS: Mapping[str, Function] = {
    "not": np.invert,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "pow": _pow,
    "umulhi": _umulhi,
    "fma": _fma,
    "where": np.where,
}

_COMPARE: tuple[Function, ...] = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)

_FUNCTIONS: Mapping[str, Function] = {
    **{name: _rounded(function) for name, function in _ROUNDED.items()},
    **{name: _precise(function) for name, function in _PRECISE.items()},
    **{name: _comparison(function) for name, function in zip(COMPARISONS, _COMPARE, strict=True)},
    **_BITS,
}

ELEMENTWISE = frozenset(_FUNCTIONS)
"""The opcodes that `elementwise` knows."""
