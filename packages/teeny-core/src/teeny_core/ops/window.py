"""Windows that slide over images [N, C, H, W]: pooling and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from teeny_core import shape as shapes
from teeny_core.dtype import bool_
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import DTypeError, ShapeError
from teeny_core.graph import Node, apply
from teeny_core.op import Array, Attrs, OpDef, TensorType, fail, register
from teeny_core.ops import elementwise as e
from teeny_core.ops.conv import (
    Padding,
    Two,
    check_sliding,
    has_places,
    pad_images,
    taps,
    window_extent,
    windows,
)
from teeny_core.ops.convert import convert, widened
from teeny_core.ops.leaf import full
from teeny_core.ops.movement import pad, slice_
from teeny_core.shape import Shape

_MAX = ("kernel", "padding", "stride")
_AVG = ("count_include_pad", "kernel", "padding", "stride")


def max_pool2d(x: Node, *, kernel: Two, stride: Two, padding: Padding) -> Node:
    """Make the largest value of each window; padding never wins, NaN always."""
    return apply("max_pool2d", x, kernel=kernel, stride=stride, padding=padding)


def max_pool2d_grad(x: Node, dy: Node, *, kernel: Two, stride: Two, padding: Padding) -> Node:
    """Make the gradient of x in max_pool2d(x): dy goes to the first maximum of its window."""
    return apply("max_pool2d_grad", x, dy, kernel=kernel, stride=stride, padding=padding)


def avg_pool2d(
    x: Node, *, kernel: Two, stride: Two, padding: Padding, count_include_pad: bool
) -> Node:
    """Make the mean of each window, over its zeros of padding too with `count_include_pad`."""
    return apply(
        "avg_pool2d",
        x,
        kernel=kernel,
        stride=stride,
        padding=padding,
        count_include_pad=count_include_pad,
    )


def avg_pool2d_grad(dy: Node, *, input_shape: Shape, **window: Any) -> Node:
    """Make the gradient of x in avg_pool2d(x): dy spread evenly over its window."""
    return apply("avg_pool2d_grad", dy, input_shape=input_shape, **window)


# --- types --------------------------------------------------------------------------------------


def _output_shape(op: str, inputs: tuple[TensorType, ...], x: Shape, attrs: Attrs) -> Shape:
    kernel, stride, padding = attrs["kernel"], attrs["stride"], attrs["padding"]
    if len(x) != 4:
        fail(ShapeError, op, inputs, "images have four axes", "add axes: x.unsqueeze(0)")
    if min(kernel) < 1:
        fail(ShapeError, op, inputs, f"kernel = {kernel}", "windows are 1 or more")
    check_sliding(op, inputs, stride=stride, padding=padding, dilation=(1, 1))
    extents = []
    for axis in (0, 1):
        if max(padding[axis]) > kernel[axis] // 2:
            fail(
                ShapeError,
                op,
                inputs,
                f"padding = {padding} is more than half of the window {kernel}",
                "pad the images first",
            )
        extent = window_extent(x[2 + axis], kernel[axis], stride[axis], padding[axis], 1)
        if shapes.at_least(0, extent):
            fail(
                ShapeError,
                op,
                inputs,
                f"a window of {kernel[axis]} is larger than the padded image",
                "use padding or a larger image",
            )
        extents.append(extent)
    return x[0], x[1], extents[0], extents[1]


def _infer_max(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,) = inputs
    if x.dtype.is_bool:
        fail(DTypeError, "max_pool2d", inputs, "takes numbers, got bool", "cast first")
    return TensorType(_output_shape("max_pool2d", inputs, x.shape, attrs), x.dtype)


def _infer_max_grad(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    x, dy = inputs
    op = "max_pool2d_grad"
    _check_gradient(op, inputs, dy, _output_shape(op, inputs, x.shape, attrs))
    if x.dtype != dy.dtype:
        fail(DTypeError, op, inputs, "operands of different types", "cast one of them")
    return x


def _infer_avg(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,) = inputs
    if not x.dtype.is_float:
        fail(DTypeError, "avg_pool2d", inputs, f"takes floats, got {x.dtype}", "cast first")
    return TensorType(_output_shape("avg_pool2d", inputs, x.shape, attrs), x.dtype)


def _infer_avg_grad(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (dy,), shape = inputs, attrs["input_shape"]
    op = "avg_pool2d_grad"
    _check_gradient(op, inputs, dy, _output_shape(op, inputs, shape, attrs))
    return TensorType(shape, dy.dtype)


def _check_gradient(op: str, inputs: tuple[TensorType, ...], dy: TensorType, wanted: Shape) -> None:
    if not dy.dtype.is_float:
        fail(DTypeError, op, inputs, f"takes floats, got {dy.dtype}", "cast first")
    if not shapes.same(dy.shape, wanted):
        fail(ShapeError, op, inputs, f"dy is not {shapes.text(wanted)}")


# --- values -------------------------------------------------------------------------------------


def _padded_windows(attrs: Attrs, x: Array, value: float) -> Array:
    """Return [N, C, H', W', kh*kw]."""
    padded = pad_images(x, attrs["padding"], value)
    view = windows(padded, attrs["kernel"], attrs["stride"])
    return view.reshape(*view.shape[:4], view.shape[4] * view.shape[5])


def _lowest(x: Array) -> float:
    """Return what loses against every value."""
    dtype = to_dtype(x.dtype)
    return -np.inf if dtype.is_float else dtype.min


def _max(attrs: Attrs, x: Array) -> Array:
    top = _padded_windows(attrs, widened(x), _lowest(x)).max(axis=-1)
    return np.asarray(top).astype(x.dtype, copy=False)


def _max_grad(attrs: Attrs, x: Array, dy: Array) -> Array:
    view = _padded_windows(attrs, widened(x), _lowest(x))
    inside = _padded_windows(attrs, np.ones(x.shape, bool), False)
    top = view.max(axis=-1, keepdims=True)
    holds = inside & ((view == top) | (np.isnan(view) & np.isnan(top)))
    return _scattered(attrs, x.shape, holds.argmax(axis=-1), dy)


def _scattered(attrs: Attrs, shape: tuple[int, ...], place: Array, dy: Array) -> Array:
    """Add each dy to the place in its window."""
    (top, bottom), (left, right) = attrs["padding"]
    n, c, height, width = shape
    total = np.zeros((n, c, height + top + bottom, width + left + right))
    rows = np.arange(dy.shape[2])[:, None] * attrs["stride"][0] + place // attrs["kernel"][1]
    columns = np.arange(dy.shape[3]) * attrs["stride"][1] + place % attrs["kernel"][1]
    batch = np.arange(n)[:, None, None, None]
    channel = np.arange(c)[:, None, None]
    np.add.at(total, (batch, channel, rows, columns), dy.astype(np.float64))
    return convert(total[:, :, top : top + height, left : left + width], to_dtype(dy.dtype))


def _counts(attrs: Attrs, shape: tuple[int, ...]) -> Array:
    """Return by how much the sum of each window is divided, [1, 1, H', W']."""
    value = 1.0 if attrs["count_include_pad"] else 0.0
    inside = np.ones((1, 1, *shape[2:]))
    return np.asarray(_padded_windows(attrs, inside, value).sum(axis=-1))


@np.errstate(all="ignore")
def _avg(attrs: Attrs, x: Array) -> Array:
    total = _padded_windows(attrs, x.astype(np.float64), 0.0).sum(axis=-1)
    return convert(total / _counts(attrs, x.shape), to_dtype(x.dtype))


@np.errstate(all="ignore")
def _avg_grad(attrs: Attrs, dy: Array) -> Array:
    shape = attrs["input_shape"]
    (top, bottom), (left, right) = attrs["padding"]
    n, c, height, width = shape
    total = np.zeros((n, c, height + top + bottom, width + left + right))
    share = dy.astype(np.float64) / _counts(attrs, shape)
    for i in range(attrs["kernel"][0]):
        for j in range(attrs["kernel"][1]):
            total[taps((i, j), attrs["stride"], share.shape[2:])] += share
    return convert(total[:, :, top : top + height, left : left + width], to_dtype(dy.dtype))


# --- derivatives --------------------------------------------------------------------------------


def _max_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (max_pool2d_grad(node.inputs[0], g, **node.attrs),)


def _max_grad_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    """The places of the maxima do not move: the gradient of dy is g at them, that of x is 0."""
    x, dy = node.inputs
    return None, _at_maximum(x, g, dy.shape, node.attrs)


def _at_maximum(x: Node, g: Node, shape: Shape, attrs: Attrs) -> Node:
    """Make the value of g where x has the first maximum of each window; NaN is the largest."""
    is_padded = any(amount for sides in attrs["padding"] for amount in sides)
    ones = full(x.shape, True, bool_) if is_padded else None
    images = [x, g] if ones is None else [x, g, ones]
    padded = [_padded(image, attrs["padding"]) for image in images]
    best = chosen = found = None
    for place in np.ndindex(*attrs["kernel"]):
        value, candidate, *inside = (_tap(image, place, shape, attrs) for image in padded)
        if best is None or chosen is None:
            best, chosen, found = value, candidate, inside[0] if inside else None
            continue
        is_nan = e.logical_and(e.isnan(value), e.logical_not(e.isnan(best)))
        better = e.logical_or(e.gt(value, best), is_nan)
        if found is not None:  # what is padding never wins, and loses against all else
            better = e.logical_and(inside[0], e.logical_or(e.logical_not(found), better))
            found = e.logical_or(found, inside[0])
        best, chosen = e.where(better, value, best), e.where(better, candidate, chosen)
    assert chosen is not None
    return chosen


def _padded(x: Node, padding: Padding) -> Node:
    low, high = ((0, 0, *(sides[end] for sides in padding)) for end in (0, 1))
    return pad(x, low, high)


def _tap(x: Node, place: Two, shape: Shape, attrs: Attrs) -> Node:
    """Make what is at one place of every window."""
    strides = attrs["stride"]
    reach = zip(place, strides, shape[2:], strict=True)
    limits = (*shape[:2], *(start + step * (extent - 1) + 1 for start, step, extent in reach))
    return slice_(x, (0, 0, *place), limits, (1, 1, *strides))


def _avg_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (avg_pool2d_grad(g, input_shape=node.inputs[0].shape, **node.attrs),)


def _avg_grad_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (avg_pool2d(g, **{name: node.attrs[name] for name in _AVG}),)


_WINDOW = frozenset({"window"})

for _definition in (
    OpDef("max_pool2d", _infer_max, _max, _max_vjp, _WINDOW, 1, _MAX, needs=has_places),
    OpDef("max_pool2d_grad", _infer_max_grad, _max_grad, _max_grad_vjp, _WINDOW, 2, _MAX),
    OpDef("avg_pool2d", _infer_avg, _avg, _avg_vjp, _WINDOW, 1, _AVG, needs=has_places),
    OpDef(
        "avg_pool2d_grad",
        _infer_avg_grad,
        _avg_grad,
        _avg_grad_vjp,
        _WINDOW,
        1,
        (*_AVG, "input_shape"),
    ),
):
    register(_definition)
