"""Functions of each element by itself."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import teeny_triton.language as tl

from .harness import FLOATS, INTEGERS, Array, Case, Operand

_erf = np.vectorize(math.erf, otypes=[np.float64])


def real(function: Callable[..., Array]) -> Callable[..., Array]:
    """Compute in f64 of whatever comes."""
    return lambda *arrays: function(*(np.asarray(x).astype(np.float64) for x in arrays))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


# name: what it should give, where, and how many units in the last place it may be off
REAL: dict[str, tuple[Callable[..., Array], tuple[float, float], float]] = {
    "exp": (np.exp, (-10, 10), 2),
    "exp2": (np.exp2, (-12, 12), 2),
    "expm1": (np.expm1, (-3, 3), 3),
    "log": (np.log, (0.1, 100), 2),
    "log2": (np.log2, (0.1, 100), 2),
    "log1p": (np.log1p, (-0.9, 10), 2),
    "sqrt": (np.sqrt, (0, 100), 0),
    "sqrt_rn": (np.sqrt, (0, 100), 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0.1, 100), 2),
    "sin": (np.sin, (-10, 10), 2),
    "cos": (np.cos, (-10, 10), 2),
    "tan": (np.tan, (-10, 10), 4),
    "tanh": (np.tanh, (-4, 4), 3),
    "erf": (_erf, (-3, 3), 3),
    "sigmoid": (sigmoid, (-10, 10), 3),
}
WHOLE = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc}
ARITHMETIC: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
BITS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
TWO, SMALL = (Operand(), Operand()), Operand(0, 7)


def _as_numbers(function: Callable[..., Array]) -> Callable[..., Array]:
    """Let bools be the integers 0 and 1."""
    return lambda *x: function(*(v.astype(np.int32) if v.dtype == bool else v for v in x))


def _floor_division(x: Array, y: Array) -> Array:
    return np.where(np.asarray(y) == 0, 0, x // np.where(y == 0, 1, y)) if _whole(x) else x // y


def _remainder(x: Array, y: Array) -> Array:
    if _whole(x):
        return np.where(y == 0, 0, x % np.where(y == 0, 1, y)).astype(x.dtype)
    return x - np.floor(x / y) * y


def _whole(x: Array) -> bool:
    return x.dtype.kind in "iu"


def _clamped(x: Array, low: Array, high: Array) -> Array:
    return np.fmin(np.fmax(x, low), high)


def _umulhi(x: Array, y: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    product = (np.asarray(v).astype(object) % 2**bits for v in (x, y))
    high = np.asarray(operator.mul(*product) // 2**bits)
    unsigned = np.asarray(high.astype(np.uint64)).astype(f"u{x.dtype.itemsize}")
    return unsigned.view(x.dtype) if x.ndim else unsigned.astype(x.dtype)


def _rounded_up(x: Array, y: Array) -> Array:
    return (x + y - 1) // y


def _multiplied_and_added(x: Array, y: Array, z: Array) -> Array:
    return x * y + z


def _by_name(opcode: str) -> Callable[..., Any]:
    return lambda x, y: tl.compare(opcode, x, y)


EVERY = tl.PropagateNan.ALL
UNARY = (
    *(
        Case(name, getattr(tl, name), real(function), (Operand(low, high),), units=units)
        for name, (function, (low, high), units) in REAL.items()
    ),
    *(Case(name, getattr(tl, name), function) for name, function in WHOLE.items()),
    Case("abs", tl.abs, _as_numbers(np.abs)),
    Case("neg", tl.neg, _as_numbers(np.negative)),
    Case("logical_not", tl.logical_not, np.logical_not),
)
BINARY = (
    *(
        Case(name, getattr(tl, name), _as_numbers(function), TWO)
        for name, function in ARITHMETIC.items()
    ),
    *(
        Case(f"compare {name}", _by_name(name), getattr(operator, name), TWO)
        for name in COMPARISONS
    ),
    Case("logical_and", tl.logical_and, np.logical_and, TWO),
    Case("logical_or", tl.logical_or, np.logical_or, TWO),
    Case("maximum", tl.maximum, np.fmax, TWO),
    Case("minimum", tl.minimum, np.fmin, TWO),
    Case("PropagateNan maximum", lambda x, y: tl.maximum(x, y, EVERY), np.maximum, TWO),
    Case("PropagateNan minimum", lambda x, y: tl.minimum(x, y, EVERY), np.minimum, TWO),
    Case("clamp", tl.clamp, _clamped, (Operand(), Operand(-2, 0), Operand(1, 3))),
    Case("where", lambda x, y: tl.where(x > y, x, y), lambda x, y: np.where(x > y, x, y), TWO),
    Case("fdiv", tl.fdiv, real(np.divide), TWO),
    Case("div_rn", tl.div_rn, real(np.divide), TWO),
    Case("floordiv", tl.floordiv, _as_numbers(_floor_division), TWO, units=0),
    Case("mod", tl.mod, _as_numbers(_remainder), TWO),
    Case("pow", tl.pow, np.power, (Operand(0.1, 4), Operand(0, 3)), dtypes=FLOATS, units=4),
    Case("pow integers", tl.pow, np.power, (Operand(-4, 4), Operand(0, 3)), dtypes=INTEGERS),
    Case("umulhi", tl.umulhi, _umulhi, (Operand(-(2**31), 2**31 - 1), Operand(-5, 2**20))),
    Case("cdiv", tl.cdiv, _rounded_up, (Operand(0, 60), Operand(1, 7)), dtypes=INTEGERS),
    Case("fma", tl.fma, _multiplied_and_added, (*TWO, Operand()), units=2, of_largest=True),
)
