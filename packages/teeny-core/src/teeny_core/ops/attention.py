"""Attention: a mean of values, weighted by how well their keys match a query.

`attention` is one operation so that a device can compute it without storing the scores. `expand`
spells it out in other operations, for devices without such a kernel and for the gradient.

Several heads of queries may share one of keys and values. Nothing is repeated for that: the queries
of all heads that share one are laid out as the queries of one.

Source: Vaswani et al., *Attention Is All You Need* (2017); for shared heads Ainslie et al.,
*GQA: Training Generalized Multi-Query Transformer Models* (2023).
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
from teeny_core.ops.elementwise import add, cast, div, eq, exp, ge, mul, sub, where
from teeny_core.ops.leaf import full, iota, like
from teeny_core.ops.movement import broadcast_to, reshape
from teeny_core.ops.reduce import max_, spread, sum_


def attention(
    query: Node,
    key: Node,
    value: Node,
    mask: Node | None = None,
    *,
    causal: bool = False,
    scale: float = 1.0,
    safe: bool = False,
) -> Node:
    """Make softmax(query·keyᵀ·scale + mask)·value, accumulated in f32 for f16 and bf16.

    Args:
        query: [*B, L, E]; the last of the axes B may be that of the heads, H.
        key: [*B, S, E], or with a divisor of H in its place: so many neighbouring heads of queries
            share one of keys.
        value: [*B, S, V], with as many heads as `key`.
        mask: broadcastable to [*B, L, S]: bools, True where a key is seen, or floats that are added
            to the scores.
        causal: whether query i sees the keys up to i only.
        scale: factor of the scores.
        safe: whether a query that sees no key gets zeros; else it gets NaN, as the softmax of
            nothing has no value.

    Returns:
        [*B, L, V].
    """
    operands = (query, key, value) if mask is None else (query, key, value, mask)
    return apply("attention", *operands, causal=causal, scale=scale, safe=safe)


# --- spelled out --------------------------------------------------------------------------------


def expand(node: Node) -> Node:
    """Return an `attention` node in terms of other operations."""
    value = node.inputs[2]
    weights = _weights(node)
    mixed = matmul(_shared(_as(weights, node.dtype), _heads(value)), value)
    return _reshaped(mixed, node.shape)


def _weights(node: Node) -> Node:
    """Make the softmax of the scores, [*B, L, S], in the accumulator's type."""
    query, key = node.inputs[:2]
    wide = query.dtype.accumulator
    product = matmul(_shared(_as(query, wide), _heads(key)), _as(key, wide), transpose_b=True)
    product = _reshaped(product, (*query.shape[:-1], key.shape[-2]))
    scores = mul(product, full(product.shape, node.attrs["scale"], wide))
    hidden = full(scores.shape, -math.inf, wide)
    for mask in node.inputs[3:]:
        whole = _broadcast(mask, scores.shape)
        shown = whole.dtype.is_bool
        scores = where(whole, scores, hidden) if shown else add(scores, _as(whole, wide))
    if node.attrs["causal"]:
        scores = where(_visible(scores.shape), scores, hidden)
    return _softmax(scores, safe=node.attrs["safe"])


def _softmax(scores: Node, *, safe: bool) -> Node:
    """Make the softmax over the last axis; `safe`, that of nothing but minus infinity is zero."""
    last = (len(scores.shape) - 1,)
    if scores.shape[-1] == 0:
        return scores
    top = max_(scores, last)
    nothing = eq(top, like(top, -math.inf)) if safe else None
    base = top if nothing is None else where(nothing, like(top, 0.0), top)
    raised = exp(sub(scores, spread(base, scores, last)))
    total = sum_(raised, last)
    if nothing is not None:
        total = where(nothing, like(total, 1.0), total)
    return div(raised, spread(total, raised, last))


def _as(x: Node, dtype: DType) -> Node:
    return x if x.dtype == dtype else cast(x, dtype)


def _reshaped(x: Node, shape: shapes.Shape) -> Node:
    return x if shapes.same(x.shape, shape) else reshape(x, shape)


def _broadcast(x: Node, shape: shapes.Shape) -> Node:
    return x if shapes.same(x.shape, shape) else broadcast_to(x, shape)


def _heads(x: Node) -> shapes.Dim | None:
    """The heads of keys or values, None where there is no such axis."""
    return x.shape[-3] if len(x.shape) > 2 else None


def _shared(x: Node, heads: shapes.Dim | None) -> Node:
    """Lay [*B, H, L, E] out as [*B, heads, L·H/heads, E]: the rows of heads that share another."""
    if heads is None or shapes.equal(x.shape[-3], heads):
        return x
    *batch, every, rows, width = x.shape
    return reshape(x, (*batch, heads, every // heads * rows, width))


def _visible(shape: shapes.Shape) -> Node:
    """Make bools [*B, L, S]: whether query i sees key j."""
    rows, columns = (iota(shape[-2:], axis, i64) for axis in range(2))
    return broadcast_to(ge(rows, columns), shape)


# --- the definition -----------------------------------------------------------------------------


def _infer(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    if len(inputs) not in (3, 4):
        fail(OpError, "attention", inputs, "takes query, key, value and perhaps a mask")
    query, key, value = inputs[:3]
    if not query.dtype == key.dtype == value.dtype:
        fail(DTypeError, "attention", inputs, "operands of different types", "cast them to one")
    if not query.dtype.is_float:
        fail(DTypeError, "attention", inputs, "takes floats", "cast the operands first")
    if query.rank < 2 or not query.rank == key.rank == value.rank:
        fail(ShapeError, "attention", inputs, "needs operands of one rank", "reshape them")
    if not shapes.same(key.shape[:-2], value.shape[:-2]) or not _fit(query, key):
        fail(
            ShapeError,
            "attention",
            inputs,
            "leading extents differ",
            "broadcast_to equal ones; the heads of keys, on axis -3, may divide those of queries",
        )
    if not shapes.equal(query.shape[-1], key.shape[-1]):
        fail(ShapeError, "attention", inputs, "query and key differ in width", "project them alike")
    if not shapes.equal(key.shape[-2], value.shape[-2]):
        fail(ShapeError, "attention", inputs, "keys and values differ in number", "pair them up")
    if not isinstance(attrs["scale"], float):
        fail(OpError, "attention", inputs, f"scale={attrs['scale']!r}", "scale is a float")
    for mask in inputs[3:]:
        _check_mask(inputs, mask, (*query.shape[:-1], key.shape[-2]))
    return TensorType((*query.shape[:-1], value.shape[-1]), query.dtype)


def _fit(query: TensorType, key: TensorType) -> bool:
    """Whether each key serves a whole number of queries."""
    if query.rank == 2 or shapes.same(query.shape[:-2], key.shape[:-2]):
        return True
    every, heads = query.shape[-3], key.shape[-3]
    whole = isinstance(heads, int) and heads > 0 and shapes.divides(heads, every)
    return whole and shapes.same(query.shape[:-3], key.shape[:-3])


def _check_mask(inputs: tuple[TensorType, ...], mask: TensorType, scores: shapes.Shape) -> None:
    dtype = inputs[0].dtype
    if not mask.dtype.is_bool and mask.dtype not in (dtype, dtype.accumulator):
        fail(DTypeError, "attention", inputs, f"a mask of {mask.dtype}", f"use bools or {dtype}")
    fits = mask.rank <= len(scores) and all(
        shapes.equal(extent, 1) or shapes.equal(extent, whole)
        for extent, whole in zip(reversed(mask.shape), reversed(scores), strict=False)
    )
    if not fits:
        wanted = shapes.text(scores)
        hint = f"each extent is 1 or that of {wanted}"
        fail(ShapeError, "attention", inputs, f"the mask does not broadcast to {wanted}", hint)


@np.errstate(all="ignore")
def _attention(attrs: Attrs, query: Array, key: Array, value: Array, *masks: Array) -> Array:
    """Evaluate in f64 and round once."""
    dtype = to_dtype(query.dtype)
    query, key, value = (array.astype(np.float64, copy=False) for array in (query, key, value))
    if query.ndim > 2:
        groups = query.shape[-3] // max(key.shape[-3], 1)
        key, value = (np.repeat(array, groups, -3) for array in (key, value))
    scores = np.matmul(query, key.swapaxes(-1, -2)) * attrs["scale"]
    for mask in masks:
        shown = mask.dtype == bool_.numpy
        scores = np.where(mask, scores, -np.inf) if shown else scores + mask.astype(np.float64)
    if attrs["causal"]:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool_.numpy), scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    nothing = (top == -np.inf) & attrs["safe"]
    raised = np.exp(scores - np.where(nothing, 0, top))
    total = np.where(nothing, 1, raised.sum(-1, keepdims=True))
    return convert(np.matmul(raised / total, value), dtype)


def _vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    """Recompute the weights W; with dW = g·valueᵀ, dscores = W·(dW - Σ(W·dW))."""
    wide = node.dtype.accumulator
    query, key, value, g = (_as(operand, wide) for operand in (*node.inputs[:3], g))
    weights, heads = _weights(node), _heads(key)
    last = (len(weights.shape) - 1,)
    d_weights = matmul(_shared(g, heads), value, transpose_b=True)
    d_weights = _reshaped(d_weights, weights.shape)
    mean = spread(sum_(mul(weights, d_weights), last), weights, last)
    d_scores = mul(weights, sub(d_weights, mean))
    d_product = mul(d_scores, full(d_scores.shape, node.attrs["scale"], wide))
    shared = _shared(d_product, heads)
    gradients = (
        _reshaped(matmul(shared, key), query.shape),
        matmul(shared, _shared(query, heads), transpose_a=True),
        matmul(_shared(weights, heads), _shared(g, heads), transpose_a=True),
    )
    d_masks = (_d_mask(mask, d_scores) for mask in node.inputs[3:])
    return *(_as(gradient, node.dtype) for gradient in gradients), *d_masks


def _d_mask(mask: Node, d_scores: Node) -> Node | None:
    """Sum the gradient of the scores over the axes along which the mask is repeated."""
    if mask.dtype.is_bool:
        return None
    new = len(d_scores.shape) - len(mask.shape)
    repeated = tuple(
        axis
        for axis, extent in enumerate(d_scores.shape)
        if axis < new or not shapes.equal(mask.shape[axis - new], extent)
    )
    total = sum_(d_scores, repeated) if repeated else d_scores
    return _as(_reshaped(total, mask.shape), mask.dtype)


register(
    OpDef(
        "attention",
        _infer,
        _attention,
        _vjp,
        frozenset({"contraction", "composite"}),
        attributes=("causal", "safe", "scale"),
        expand=expand,
    )
)
