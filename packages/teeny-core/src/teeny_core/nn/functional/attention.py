"""Attention."""

from __future__ import annotations

import math

from teeny_core import ops
from teeny_core import shape as shapes
from teeny_core.dtype import i64, promote
from teeny_core.errors import OpError, ShapeError
from teeny_core.nn.functional.random import dropout
from teeny_core.shape import Shape
from teeny_core.tensor import AnyTensor, core


def scaled_dot_product_attention(
    query: AnyTensor,
    key: AnyTensor,
    value: AnyTensor,
    attn_mask: AnyTensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> AnyTensor:
    """Return softmax(query·keyᵀ·scale + mask)·value.

    Args:
        query: (..., L, E).
        key: (..., S, E).
        value: (..., S, V).
        attn_mask: broadcastable to (..., L, S): bools, True where a key takes part, or floats that
            are added to the scores.
        dropout_p: share of the weights that are dropped.
        is_causal: whether query i sees the keys up to i only.
        scale: factor of the scores; 1/sqrt(E) unless given.
        enable_gqa: whether as many query heads as there are to one of `key` and `value`, which
            have fewer on the third axis from the end, share it.

    Returns:
        (..., L, V). A query that sees no key gets zeros.

    Source: Vaswani et al., *Attention Is All You Need* (2017); for shared heads Ainslie et al.,
    *GQA: Training Generalized Multi-Query Transformer Models* (2023).

    Raises:
        OpError: a mask is given together with `is_causal`.
        ShapeError: the heads of keys do not divide those of queries.
    """
    if enable_gqa:
        _check_shared(query, key)
        _check_shared(query, value)
    if dropout_p == 0.0:
        return _attention(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    if enable_gqa:
        key, value = (_repeated(query, shared) for shared in (key, value))
    weights = attention_weights(query, key, attn_mask, is_causal, scale)
    return dropout(weights, dropout_p).matmul(value)


def _check_shared(query: AnyTensor, heads: AnyTensor) -> None:
    """Refuse heads (..., K, S, E) that queries (..., H, L, E) cannot share."""
    fits = query.ndim == heads.ndim >= 3
    count = heads.shape[-3] if fits else 0
    if not isinstance(count, int) or count < 1 or not shapes.divides(count, query.shape[-3]):
        raise ShapeError(
            f"attention of {query.type} shares {heads.type}",
            hint="the number of heads of keys, on axis -3, divides that of queries",
        )


def _repeated(query: AnyTensor, heads: AnyTensor) -> AnyTensor:
    """Repeat each of the heads (..., K, S, E) for the queries (..., H, L, E) that share it."""
    count = heads.shape[-3]
    width = query.shape[-3] // count
    rest = heads.shape[-2:]
    spread = heads.unsqueeze(-3).expand(*heads.shape[:-3], count, width, *rest)
    return spread.reshape(*heads.shape[:-3], count * width, *rest)


def _attention(
    query: AnyTensor,
    key: AnyTensor,
    value: AnyTensor,
    mask: AnyTensor | None,
    causal: bool,
    scale: float | None,
    shared: bool,
) -> AnyTensor:
    """Make the one operation; leading extents are broadcast, but for heads that are shared."""
    if mask is not None and causal:
        raise OpError(
            "attention got a mask and is_causal=True", hint="put the causal part into the mask"
        )
    dtype = promote(promote(query.dtype, key.dtype), value.dtype)
    tensors = (query, key, value)
    kept = 3 if shared else 2
    batch: Shape = ()
    for tensor in tensors if mask is None else (*tensors, mask):
        batch = core.broadcast_shapes(batch, tensor.shape[:-kept])
    q, k, v = (
        core.expand(core.cast(tensor.node, dtype), (*batch, *tensor.shape[-kept:]))
        for tensor in tensors
    )
    factor = _factor(query) if scale is None else float(scale)
    if mask is None:
        return query._result(ops.attention(q, k, v, causal=causal, scale=factor), key, value)
    shown = mask.dtype.is_bool or mask.dtype == dtype.accumulator
    node = mask.node if shown else core.cast(mask.node, dtype)
    return query._result(ops.attention(q, k, v, node, scale=factor, safe=True), key, value, mask)


def attention_weights(
    query: AnyTensor,
    key: AnyTensor,
    attn_mask: AnyTensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> AnyTensor:
    """Return the weights (..., L, S) by which `scaled_dot_product_attention` mixes values.

    Arguments are as there, but heads are not shared. They are zeros for a query that sees no key.

    Raises:
        OpError: a mask is given together with `is_causal`.
        ShapeError: the last axis is symbolic, and no scale is given.
    """
    if attn_mask is not None and is_causal:
        raise OpError(
            "attention got a mask and is_causal=True", hint="put the causal part into the mask"
        )
    factor = _factor(query) if scale is None else scale
    scores = query.matmul(key, transpose_b=True) * factor
    if is_causal:
        return scores.masked_fill(~causal_mask(query, key), -math.inf).softmax(-1)
    if attn_mask is None:
        return scores.softmax(-1)
    if attn_mask.dtype.is_bool:
        masked = scores.masked_fill(~attn_mask, -math.inf)
    else:
        masked = scores + attn_mask
    return _softmax_or_zero(masked)


def _factor(query: AnyTensor) -> float:
    width = query.shape[-1]
    if not isinstance(width, int):
        raise ShapeError(f"attention over a symbolic width {width}", hint="pass scale=...")
    return 1 / math.sqrt(width)


def causal_mask(query: AnyTensor, key: AnyTensor) -> AnyTensor:
    """Return bools (L, S) for query (..., L, E) and key (..., S, E): True for keys up to i."""
    shape = (query.shape[-2], key.shape[-2])
    rows, columns = (query._wrap(ops.iota(shape, axis, i64)) for axis in range(2))
    return rows >= columns


def _softmax_or_zero(scores: AnyTensor) -> AnyTensor:
    """Return softmax over the last axis, zeros where all scores are minus infinity."""
    wide = scores.cast(scores.dtype.accumulator)
    top = wide.max(-1, keepdims=True).stop_gradient()
    hidden = top == -math.inf
    shifted = (wide - hidden.where(0.0, top)).exp()
    total = shifted.sum(-1, keepdims=True)
    return (shifted / hidden.where(1.0, total)).cast(scores.dtype)
