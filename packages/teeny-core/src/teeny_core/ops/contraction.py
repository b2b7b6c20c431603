"""Contractions: matrix products."""

from __future__ import annotations

import numpy as np

from teeny_core import shape as shapes
from teeny_core.dtype import dtype as to_dtype
from teeny_core.dtype import i8, i32, u8
from teeny_core.errors import DTypeError, ShapeError
from teeny_core.graph import Node, apply
from teeny_core.op import Array, Attrs, OpDef, TensorType, fail, register
from teeny_core.ops.convert import convert


def matmul(a: Node, b: Node, *, transpose_a: bool = False, transpose_b: bool = False) -> Node:
    """Make the product of matrices [*B, M, K] and [*B, K, N] → [*B, M, N].

    Args:
        a: left operand; with `transpose_a` it is [*B, K, M].
        b: right operand, with the same leading extents; with `transpose_b` it is [*B, N, K].
        transpose_a: whether a's last two axes are swapped.
        transpose_b: whether b's last two axes are swapped.
    """
    return apply("matmul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def matmul_integer(
    a: Node, b: Node, *, transpose_a: bool = False, transpose_b: bool = False
) -> Node:
    """Make the product of matrices of i8 or u8, each of its own type, in i32.

    Shapes and arguments are those of `matmul`. Sums wrap; there is no gradient.
    """
    return apply("matmul_integer", a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _infer(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    a, b = inputs
    if a.dtype != b.dtype:
        fail(DTypeError, "matmul", inputs, "operands of different types", "cast one of them")
    if a.dtype.is_bool:
        fail(DTypeError, "matmul", inputs, "takes numbers, got bool", "cast to a number type")
    return TensorType(_shape("matmul", inputs, attrs), a.dtype)


def _infer_integer(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    if any(operand.dtype not in (i8, u8) for operand in inputs):
        fail(DTypeError, "matmul_integer", inputs, "takes i8 or u8", "use matmul")
    return TensorType(_shape("matmul_integer", inputs, attrs), i32)


def _shape(op: str, inputs: tuple[TensorType, ...], attrs: Attrs) -> shapes.Shape:
    a, b = inputs
    if a.rank < 2 or a.rank != b.rank:
        fail(
            ShapeError,
            op,
            inputs,
            "needs two operands of one rank, 2 or more",
            "reshape or broadcast_to the operands",
        )
    if not shapes.same(a.shape[:-2], b.shape[:-2]):
        fail(ShapeError, op, inputs, "leading extents differ", "broadcast_to equal ones")
    rows, inner = _swap(a.shape[-2:], attrs["transpose_a"])
    depth, columns = _swap(b.shape[-2:], attrs["transpose_b"])
    if not shapes.equal(inner, depth):
        fail(
            ShapeError,
            op,
            inputs,
            f"inner extents differ, {inner} and {depth}",
            "the last axis of a meets the one but last of b; transpose one of them?",
        )
    return (*a.shape[:-2], rows, columns)


def _swap(pair: shapes.Shape, swapped: bool) -> shapes.Shape:
    return pair[::-1] if swapped else pair


@np.errstate(all="ignore")
def _matmul(attrs: Attrs, a: Array, b: Array) -> Array:
    """Accumulate floats in f64 and round once; integers wrap."""
    dtype = to_dtype(a.dtype)
    if dtype.is_float:
        a, b = a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)
    a = a.swapaxes(-1, -2) if attrs["transpose_a"] else a
    b = b.swapaxes(-1, -2) if attrs["transpose_b"] else b
    return convert(np.matmul(a, b), dtype)


def _matmul_integer(attrs: Attrs, a: Array, b: Array) -> Array:
    return _matmul(attrs, a.astype(np.int32), b.astype(np.int32))


def _vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    a, b = node.inputs
    ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
    da = matmul(b, g, transpose_a=tb, transpose_b=True) if ta else matmul(g, b, transpose_b=not tb)
    db = matmul(g, a, transpose_a=True, transpose_b=ta) if tb else matmul(a, g, transpose_a=not ta)
    return da, db


_TRANSPOSED = ("transpose_a", "transpose_b")
_CONTRACTION = frozenset({"contraction"})

register(OpDef("matmul", _infer, _matmul, _vjp, _CONTRACTION, 2, _TRANSPOSED))
register(
    OpDef("matmul_integer", _infer_integer, _matmul_integer, None, _CONTRACTION, 2, _TRANSPOSED)
)
