"""Reductions: axes folded into one value.

Sums and products of integers and bools are i64. Those of f16 and bf16 are accumulated in f32 or
wider and rounded once. Maxima and minima propagate NaN; argmax and argmin take the first on ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from teeny_core import shape as shapes
from teeny_core.dtype import dtype as to_dtype
from teeny_core.dtype import i64
from teeny_core.errors import DTypeError, ShapeError
from teeny_core.graph import Node, apply
from teeny_core.op import (
    Array,
    Attrs,
    Infer,
    OpDef,
    Reference,
    TensorType,
    Vjp,
    fail,
    register,
)
from teeny_core.ops import elementwise as e
from teeny_core.ops.convert import convert, widened
from teeny_core.ops.leaf import like
from teeny_core.shape import Dim, Shape

# --- making nodes -------------------------------------------------------------------------------


def sum_(x: Node, axes: tuple[int, ...]) -> Node:
    """Make the sum over the sorted `axes`, which are dropped."""
    return apply("sum", x, axes=axes)


def prod(x: Node, axes: tuple[int, ...]) -> Node:
    """Make the product over the sorted `axes`, which are dropped."""
    return apply("prod", x, axes=axes)


def max_(x: Node, axes: tuple[int, ...]) -> Node:
    """Make the largest value over the sorted `axes`, which are dropped; NaN where there is one."""
    return apply("max", x, axes=axes)


def min_(x: Node, axes: tuple[int, ...]) -> Node:
    """Make the smallest value over the sorted `axes`, which are dropped; NaN where there is one."""
    return apply("min", x, axes=axes)


def argmax(x: Node, axis: int) -> Node:
    """Make the index (i64) of the first largest value along `axis`; NaN is larger than all."""
    return apply("argmax", x, axis=axis)


def argmin(x: Node, axis: int) -> Node:
    """Make the index (i64) of the first smallest value along `axis`; NaN is smaller than all."""
    return apply("argmin", x, axis=axis)


# --- types --------------------------------------------------------------------------------------


def _infer_total(name: str) -> Infer:
    def infer(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
        (x,) = inputs
        shape = _reduced(name, inputs, attrs["axes"])
        return TensorType(shape, x.dtype if x.dtype.is_float else i64)

    return infer


def _infer_extreme(name: str) -> Infer:
    def infer(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
        (x,), axes = inputs, attrs["axes"]
        shape = _reduced(name, inputs, axes)
        _check_extreme(name, inputs, axes)
        return TensorType(shape, x.dtype)

    return infer


def _infer_index(name: str) -> Infer:
    def infer(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
        axes = (attrs["axis"],)
        shape = _reduced(name, inputs, axes)
        _check_extreme(name, inputs, axes)
        return TensorType(shape, i64)

    return infer


def _reduced(name: str, inputs: tuple[TensorType, ...], axes: tuple[int, ...]) -> Shape:
    (x,) = inputs
    if tuple(sorted(set(axes))) != axes or not all(0 <= axis < x.rank for axis in axes):
        fail(ShapeError, name, inputs, f"{axes} are no sorted distinct axes of rank {x.rank}")
    return tuple(extent for axis, extent in enumerate(x.shape) if axis not in axes)


def _check_extreme(name: str, inputs: tuple[TensorType, ...], axes: tuple[int, ...]) -> None:
    (x,) = inputs
    if x.dtype.is_bool:
        fail(DTypeError, name, inputs, "takes numbers, got bool", "use any or all, or cast")
    for axis in axes:
        if x.shape[axis] == 0:
            fail(
                ShapeError,
                name,
                inputs,
                f"axis {axis} is empty, it has no {name}",
                "guard against the empty case first",
            )


# --- values -------------------------------------------------------------------------------------


def _total(function: Callable[..., Array]) -> Callable[..., Array]:
    """Accumulate floats in f64 and round once; integers wrap in i64."""

    @np.errstate(all="ignore")
    def reference(attrs: Attrs, x: Array) -> Array:
        dtype = to_dtype(x.dtype)
        wide = np.dtype(np.float64) if dtype.is_float else np.dtype(np.int64)
        value = np.asarray(function(x.astype(wide, copy=False), axis=attrs["axes"]))
        return convert(value, dtype) if dtype.is_float else value

    return reference


def _extreme(function: Callable[..., Array]) -> Callable[..., Array]:
    @np.errstate(all="ignore")
    def reference(attrs: Attrs, x: Array) -> Array:
        value = np.asarray(function(widened(x), axis=attrs["axes"]))
        return value.astype(x.dtype, copy=False)

    return reference


def _index(function: Callable[..., Array]) -> Callable[..., Array]:
    def reference(attrs: Attrs, x: Array) -> Array:
        return np.asarray(function(widened(x), axis=attrs["axis"])).astype(np.int64)

    return reference


# --- derivatives --------------------------------------------------------------------------------


def spread(value: Node, x: Node, axes: tuple[int, ...]) -> Node:
    """Repeat a reduced value along the `axes` of x that the reduction dropped."""
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    column = value if shapes.same(value.shape, kept) else apply("reshape", value, shape=kept)
    return column if shapes.same(kept, x.shape) else apply("broadcast_to", column, shape=x.shape)


def _sum_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (spread(g, node.inputs[0], node.attrs["axes"]),)


def _prod_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    """Product of the others, right at zeros too: prefix and suffix products need no division.

    Without a scan among the primitives it is g * prod / x where no factor is zero; where exactly
    one is, its gradient is the product of the others; where more are, all are zero.
    """
    x, axes = node.inputs[0], node.attrs["axes"]
    zero, one = like(x, 0), like(x, 1)
    is_zero = e.eq(x, zero)
    others = prod(e.where(is_zero, one, x), axes)
    zeros = spread(sum_(e.cast(is_zero, x.dtype), axes), x, axes)
    without_zeros = spread(others, x, axes)
    no_zero = e.div(without_zeros, e.where(is_zero, one, x))
    single = e.where(is_zero, without_zeros, zero)
    slope = e.where(e.eq(zeros, zero), no_zero, e.where(e.eq(zeros, one), single, zero))
    return (e.mul(spread(g, x, axes), slope),)


def _extreme_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    """The gradient shared evenly among the places that hold the extreme value."""
    x, axes = node.inputs[0], node.attrs["axes"]
    value = spread(node, x, axes)
    holds = e.logical_or(e.eq(x, value), e.logical_and(e.isnan(x), e.isnan(value)))
    chosen = e.cast(holds, x.dtype)
    count = sum_(chosen, axes)
    return (e.where(holds, spread(e.div(g, count), x, axes), like(x, 0)),)


def _nonempty(node: Node) -> Iterator[tuple[Dim, Dim]]:
    """There is no extreme of nothing."""
    axes = node.attrs["axes"] if "axes" in node.attrs else (node.attrs["axis"],)
    return ((node.inputs[0].shape[axis], 1) for axis in axes)


def _with_extreme(
    name: str, infer: Infer, reference: Reference, vjp: Vjp | None, attribute: str
) -> OpDef:
    return OpDef(name, infer, reference, vjp, _REDUCTION, 1, (attribute,), needs=_nonempty)


_REDUCTION = frozenset({"reduction"})

for _definition in (
    OpDef("sum", _infer_total("sum"), _total(np.sum), _sum_vjp, _REDUCTION, 1, ("axes",)),
    OpDef("prod", _infer_total("prod"), _total(np.prod), _prod_vjp, _REDUCTION, 1, ("axes",)),
    _with_extreme("max", _infer_extreme("max"), _extreme(np.max), _extreme_vjp, "axes"),
    _with_extreme("min", _infer_extreme("min"), _extreme(np.min), _extreme_vjp, "axes"),
    _with_extreme("argmax", _infer_index("argmax"), _index(np.argmax), None, "axis"),
    _with_extreme("argmin", _infer_index("argmin"), _index(np.argmin), None, "axis"),
):
    register(_definition)
