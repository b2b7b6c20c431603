"""Elementwise ops of the graph → tile IR: one row for each op.

The builder does not promote, so that a kernel rounds exactly where the graph does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from teeny_core import CompileError, DType, f8e4m3, f8e5m2, f32
from teeny_triton import language as tl
from teeny_triton.builder import current
from teeny_triton.ir import Type
from teeny_triton.language import Tile

Emit: TypeAlias = Callable[..., Tile]

_STORAGE_ONLY = frozenset({f8e4m3, f8e5m2})
_BY_BITS = frozenset({"cast", "bitcast", "where", "eq", "ne"})


def emit(op: str, args: Sequence[Tile], dtype: DType) -> Tile:
    """Emit an op on operands that broadcast and return its result of `dtype`.

    Raises:
        CompileError: when tile IR has no form of the op.
    """
    shape = np.broadcast_shapes(*(x.shape for x in args))
    operands = [tl.broadcast_to(x, shape) for x in args]
    if any(x.dtype in _STORAGE_ONLY for x in operands) and op not in _BY_BITS:
        wide = emit(op, [x.to(f32) for x in operands], f32 if dtype in _STORAGE_ONLY else dtype)
        return wide if wide.dtype == dtype else convert(wide, dtype)
    if op in ("cast", "bitcast"):
        return convert(operands[0], dtype, op)
    row = _TABLE.get(op)
    if row is None:
        raise CompileError(
            f"no kernel can compute the op {op!r}",
            hint="add a row to teeny_compiler.lower.elementwise, or decompose it before",
        )
    return row(*operands) if callable(row) else _op(row, *operands)


def convert(x: Tile, dtype: DType, op: str = "cast") -> Tile:
    """Convert values ("cast") or reinterpret bits ("bitcast")."""
    return Tile(current().op(op, x.value, wanted=Type(x.shape, dtype)))


def like(x: Tile, value: bool | int | float) -> Tile:
    """Return a constant of the type of `x`."""
    assert isinstance(x.dtype, DType)
    return Tile(current().full(x.shape, value, x.dtype))


def is_nan(x: Tile) -> Tile:
    """Return where a float is NaN."""
    return _op("ne", x, x)


def _op(opcode: str, *operands: Tile) -> Tile:
    return Tile(current().op(opcode, *(x.value for x in operands)))


def _sign(x: Tile) -> Tile:
    zero = like(x, 0)
    positive = _op("gt", x, zero)
    assert isinstance(x.dtype, DType)
    if not x.dtype.is_signed:
        return tl.where(positive, like(x, 1), zero)
    otherwise = tl.where(_op("lt", x, zero), like(x, -1), x)
    if x.dtype.is_float:  # -0 gives 0, NaN stays
        otherwise = tl.where(_op("eq", x, zero), zero, otherwise)
    return tl.where(positive, like(x, 1), otherwise)


_TABLE: Mapping[str, str | Emit] = {
    **{
        name: name
        for name in (
            *("neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt"),
            *("sin", "cos", "tan", "tanh", "sigmoid", "erf", "floor", "ceil", "round", "trunc"),
            *("add", "sub", "mul", "div", "floordiv", "mod", "pow", "maximum", "minimum"),
            *("shl", "shr", "eq", "ne", "lt", "le", "gt", "ge", "where"),
        )
    },
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
    "logical_not": "not",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "bitwise_not": "not",
    "relu": lambda x: tl.where(_op("le", x, like(x, 0)), like(x, 0), x),
    "sign": _sign,
    "reciprocal": lambda x: _op("div", like(x, 1), x),
    "isnan": is_nan,
    "isinf": lambda x: _op("eq", _op("abs", x), like(x, math.inf)),
}
