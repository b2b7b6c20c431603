"""Operations that move elements to or from places given by an index tensor.

Indices are integers in [0, n). One outside is an error, which the references report. A device whose
compiled code cannot raise reads NaN there, or 0 where the type has none, and writes nothing; none
touches memory outside of the tensor.
"""

from __future__ import annotations

import numpy as np

from teeny_core import shape as shapes
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import DTypeError, IndexingError, ShapeError
from teeny_core.graph import Node, apply
from teeny_core.op import Array, Attrs, OpDef, TensorType, fail, register
from teeny_core.ops.convert import convert
from teeny_core.shape import Shape


def take(x: Node, index: Node, axis: int) -> Node:
    """Make x.shape[:axis] + index.shape + x.shape[axis + 1:]: slices of x at the places given."""
    return apply("take", x, index, axis=axis)


def take_grad(index: Node, dy: Node, *, shape: Shape, axis: int) -> Node:
    """Make the gradient of x in take(x, index): each slice of dy added at its place."""
    return apply("take_grad", index, dy, shape=shape, axis=axis)


def take_along(x: Node, index: Node, axis: int) -> Node:
    """Make the elements of x along `axis` at the places given; other extents are equal."""
    return apply("take_along", x, index, axis=axis)


def take_along_grad(index: Node, dy: Node, *, shape: Shape, axis: int) -> Node:
    """Make the gradient of x in take_along(x, index): each dy added at its place."""
    return apply("take_along_grad", index, dy, shape=shape, axis=axis)


# --- types --------------------------------------------------------------------------------------


def _taken(
    op: str, inputs: tuple[TensorType, ...], x: Shape, index: TensorType, axis: int
) -> Shape:
    _check(op, inputs, x, index, axis)
    return (*x[:axis], *index.shape, *x[axis + 1 :])


def _taken_along(
    op: str, inputs: tuple[TensorType, ...], x: Shape, index: TensorType, axis: int
) -> Shape:
    _check(op, inputs, x, index, axis)
    wanted = (*x[:axis], *index.shape[axis : axis + 1], *x[axis + 1 :])
    if not shapes.same(index.shape, wanted):
        fail(
            ShapeError,
            op,
            inputs,
            f"the index is {shapes.text(index.shape)}, not {shapes.text(wanted)}",
            f"only the extent of axis {axis} may differ",
        )
    return index.shape


def _check(op: str, inputs: tuple[TensorType, ...], x: Shape, index: TensorType, axis: int) -> None:
    if not index.dtype.is_int:
        fail(DTypeError, op, inputs, f"the index is {index.dtype}", "cast it to i64")
    if not 0 <= axis < len(x):
        fail(ShapeError, op, inputs, f"axis {axis} is outside of rank {len(x)}")
    if x[axis] == 0 and shapes.at_least(shapes.numel(index.shape), 1):
        fail(IndexingError, op, inputs, f"axis {axis} has size 0, no index is in it", "it is empty")


def _infer_take(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    x, index = inputs
    return TensorType(_taken("take", inputs, x.shape, index, attrs["axis"]), x.dtype)


def _infer_take_grad(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    index, dy = inputs
    shape = attrs["shape"]
    taken = _taken("take_grad", inputs, shape, index, attrs["axis"])
    return _gradient("take_grad", inputs, dy, taken, shape)


def _infer_take_along(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    x, index = inputs
    return TensorType(_taken_along("take_along", inputs, x.shape, index, attrs["axis"]), x.dtype)


def _infer_take_along_grad(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    index, dy = inputs
    shape = attrs["shape"]
    taken = _taken_along("take_along_grad", inputs, shape, index, attrs["axis"])
    return _gradient("take_along_grad", inputs, dy, taken, shape)


def _gradient(
    op: str, inputs: tuple[TensorType, ...], dy: TensorType, wanted: Shape, shape: Shape
) -> TensorType:
    if dy.dtype.is_bool:
        fail(DTypeError, op, inputs, "takes numbers, got bool", "cast first")
    if not shapes.same(dy.shape, wanted):
        fail(ShapeError, op, inputs, f"dy is {shapes.text(dy.shape)}, not {shapes.text(wanted)}")
    return TensorType(shape, dy.dtype)


# --- values -------------------------------------------------------------------------------------


def _checked(index: Array, extent: int, axis: int) -> Array:
    places = index.astype(np.int64)
    wrong = (places < 0) | (places >= extent)
    if wrong.any():
        raise IndexingError(
            f"index {index[wrong].flat[0]} is out of range for axis {axis} with size {extent}",
            hint=f"indices go from 0 to {extent - 1}" if extent else "it is empty",
        )
    return places


def _take(attrs: Attrs, x: Array, index: Array) -> Array:
    axis = attrs["axis"]
    return np.take(x, _checked(index, x.shape[axis], axis), axis=axis)


def _take_along(attrs: Attrs, x: Array, index: Array) -> Array:
    axis = attrs["axis"]
    return np.take_along_axis(x, _checked(index, x.shape[axis], axis), axis=axis)


def _wide_zeros(shape: tuple[int, ...], dy: Array) -> Array:
    """Return zeros in which floats are added in f64, in the order of the index."""
    return np.zeros(shape, np.float64 if to_dtype(dy.dtype).is_float else dy.dtype)


def _take_grad(attrs: Attrs, index: Array, dy: Array) -> Array:
    shape, axis = attrs["shape"], attrs["axis"]
    total = _wide_zeros(shape, dy)
    places = _checked(index, shape[axis], axis).reshape(-1)
    before, after = shape[:axis], shape[axis + 1 :]
    rows = dy.reshape(*before, places.size, *after).astype(total.dtype)
    np.add.at(np.moveaxis(total, axis, 0), places, np.moveaxis(rows, axis, 0))
    return convert(total, to_dtype(dy.dtype))


def _take_along_grad(attrs: Attrs, index: Array, dy: Array) -> Array:
    shape, axis = attrs["shape"], attrs["axis"]
    total = _wide_zeros(shape, dy)
    places: list[Array] = list(np.indices(index.shape, sparse=True))
    places[axis] = _checked(index, shape[axis], axis)
    np.add.at(total, tuple(places), dy.astype(total.dtype))
    return convert(total, to_dtype(dy.dtype))


# --- derivatives --------------------------------------------------------------------------------


def _take_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x, index = node.inputs
    return take_grad(index, g, shape=x.shape, axis=node.attrs["axis"]), None


def _take_along_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x, index = node.inputs
    return take_along_grad(index, g, shape=x.shape, axis=node.attrs["axis"]), None


_INDEX = frozenset({"index"})

for _definition in (
    OpDef("take", _infer_take, _take, _take_vjp, _INDEX, 2, ("axis",)),
    OpDef(
        "take_grad",
        _infer_take_grad,
        _take_grad,
        lambda node, g: (None, take(g, node.inputs[0], node.attrs["axis"])),
        _INDEX,
        2,
        ("axis", "shape"),
    ),
    OpDef("take_along", _infer_take_along, _take_along, _take_along_vjp, _INDEX, 2, ("axis",)),
    OpDef(
        "take_along_grad",
        _infer_take_along_grad,
        _take_along_grad,
        lambda node, g: (None, take_along(g, node.inputs[0], node.attrs["axis"])),
        _INDEX,
        2,
        ("axis", "shape"),
    ),
):
    register(_definition)
