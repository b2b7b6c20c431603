"""Attention: a mean of values, weighted by how well their keys match a query.

`attention` is one operation so that a device can compute it without storing the scores. `expand`
spells it out in other operations, for devices without such a kernel and for the gradient.

Source: Vaswani et al., *Attention Is All You Need* (2017).
"""

from __future__ import annotations

import math

import numpy as np

from teeny_core import shape as shapes
from teeny_core.dtype import DType, bool_, i64
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import DTypeError, OpError, ShapeError
from teeny_core.graph import Node, apply
from teeny_core.op import Array, Attrs, OpDef, TensorType, fail, register
from teeny_core.ops.contraction import matmul
from teeny_core.ops.convert import convert
from teeny_core.ops.elementwise import cast, div, exp, ge, mul, sub, where
from teeny_core.ops.leaf import full, iota
from teeny_core.ops.movement import broadcast_to
from teeny_core.ops.reduce import max_, spread, sum_


def attention(
    query: Node, key: Node, value: Node, *, causal: bool = False, scale: float = 1.0
) -> Node:
    """Make softmax(query·keyᵀ·scale)·value, accumulated in f32 for f16 and bf16.

    Args:
        query: [*B, L, E].
        key: [*B, S, E].
        value: [*B, S, V].
        causal: whether query i sees the keys up to i only.
        scale: factor of the scores.

    Returns:
        [*B, L, V].
    """
    return apply("attention", query, key, value, causal=causal, scale=scale)


def expand(node: Node) -> Node:
    """Return an `attention` node in terms of other operations."""
    query, key, value = node.inputs
    weights = _weights(query, key, node.attrs["causal"], node.attrs["scale"])
    return matmul(_as(weights, node.dtype), value)


def _weights(query: Node, key: Node, causal: bool, scale: float) -> Node:
    """Make the softmax of the scores, [*B, L, S], in the accumulator's type."""
    wide = query.dtype.accumulator
    product = matmul(_as(query, wide), _as(key, wide), transpose_b=True)
    scores = mul(product, full(product.shape, scale, wide))
    last = (len(scores.shape) - 1,)
    if causal:
        hidden = full(scores.shape, -math.inf, wide)
        scores = where(_visible(scores.shape), scores, hidden)
    top = spread(max_(scores, last), scores, last) if scores.shape[-1] != 0 else scores
    raised = exp(sub(scores, top))
    return div(raised, spread(sum_(raised, last), raised, last))


def _as(x: Node, dtype: DType) -> Node:
    return x if x.dtype == dtype else cast(x, dtype)


def _visible(shape: shapes.Shape) -> Node:
    """Make bools [*B, L, S]: whether query i sees key j."""
    rows, columns = (iota(shape[-2:], axis, i64) for axis in range(2))
    return broadcast_to(ge(rows, columns), shape)


def _infer(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    query, key, value = inputs
    if not query.dtype == key.dtype == value.dtype:
        fail(DTypeError, "attention", inputs, "operands of different types", "cast them to one")
    if not query.dtype.is_float:
        fail(DTypeError, "attention", inputs, "takes floats", "cast the operands first")
    if query.rank < 2 or not query.rank == key.rank == value.rank:
        fail(ShapeError, "attention", inputs, "needs operands of one rank", "reshape them")
    if not all(shapes.same(query.shape[:-2], other.shape[:-2]) for other in (key, value)):
        fail(ShapeError, "attention", inputs, "leading extents differ", "broadcast_to equal ones")
    if not shapes.equal(query.shape[-1], key.shape[-1]):
        fail(ShapeError, "attention", inputs, "query and key differ in width", "project them alike")
    if not shapes.equal(key.shape[-2], value.shape[-2]):
        fail(ShapeError, "attention", inputs, "keys and values differ in number", "pair them up")
    if not isinstance(attrs["scale"], float):
        fail(OpError, "attention", inputs, f"scale={attrs['scale']!r}", "scale is a float")
    return TensorType((*query.shape[:-1], value.shape[-1]), query.dtype)


@np.errstate(all="ignore")
def _attention(attrs: Attrs, query: Array, key: Array, value: Array) -> Array:
    """Evaluate in f64 and round once."""
    dtype = to_dtype(query.dtype)
    query, key, value = (array.astype(np.float64, copy=False) for array in (query, key, value))
    scores = np.matmul(query, key.swapaxes(-1, -2)) * attrs["scale"]
    if attrs["causal"]:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool_.numpy), scores, -np.inf)
    raised = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return convert(np.matmul(raised / raised.sum(-1, keepdims=True), value), dtype)


def _vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    """Recompute the weights W; with dW = g·valueᵀ, dscores = W·(dW - Σ(W·dW))."""
    wide = node.dtype.accumulator
    query, key, value, g = (_as(operand, wide) for operand in (*node.inputs, g))
    weights = _weights(query, key, node.attrs["causal"], node.attrs["scale"])
    last = (len(weights.shape) - 1,)
    d_weights = matmul(g, value, transpose_b=True)
    mean = spread(sum_(mul(weights, d_weights), last), weights, last)
    d_scores = mul(weights, sub(d_weights, mean))
    d_product = mul(d_scores, full(d_scores.shape, node.attrs["scale"], wide))
    gradients = (
        matmul(d_product, key),
        matmul(d_product, query, transpose_a=True),
        matmul(weights, g, transpose_a=True),
    )
    return tuple(_as(gradient, node.dtype) for gradient in gradients)


register(
    OpDef(
        "attention",
        _infer,
        _attention,
        _vjp,
        frozenset({"contraction", "composite"}),
        3,
        ("causal", "scale"),
        expand,
    )
)
