"""Convolution of images and its two gradients.

Images are [N, C, H, W], filters [O, C/groups, kh, kw]. `padding` is ((top, bottom), (left, right)).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from teeny_core import shape as shapes
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import DTypeError, ShapeError
from teeny_core.graph import Node, apply
from teeny_core.op import Array, Attrs, OpDef, TensorType, fail, register
from teeny_core.ops.convert import convert
from teeny_core.shape import Dim, Shape

Two = tuple[int, int]
Padding = tuple[Two, Two]

_SLIDING = ("dilation", "groups", "padding", "stride")


def conv2d(x: Node, w: Node, *, stride: Two, padding: Padding, dilation: Two, groups: int) -> Node:
    """Make the cross-correlation of images x with filters w → [N, O, H', W'].

    H' = (H + top + bottom - dilation*(kh - 1) - 1)//stride + 1, and W' alike.
    """
    return apply("conv2d", x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)


def conv2d_grad_input(dy: Node, w: Node, *, input_shape: Shape, **sliding: Any) -> Node:
    """Make the gradient of x in conv2d(x, w): dy scattered back through w."""
    return apply("conv2d_grad_input", dy, w, input_shape=input_shape, **sliding)


def conv2d_grad_weight(x: Node, dy: Node, *, weight_shape: Shape, **sliding: Any) -> Node:
    """Make the gradient of w in conv2d(x, w): x correlated with dy."""
    return apply("conv2d_grad_weight", x, dy, weight_shape=weight_shape, **sliding)


# --- types --------------------------------------------------------------------------------------


def check_sliding(
    op: str, inputs: tuple[TensorType, ...], *, stride: Two, padding: Padding, dilation: Two
) -> None:
    """Check the arguments of a sliding window.

    Raises:
        ShapeError: naming the argument that has no meaning.
    """
    if min(stride) < 1:
        fail(ShapeError, op, inputs, f"stride = {stride}", "steps are 1 or more")
    if min(dilation) < 1:
        fail(ShapeError, op, inputs, f"dilation = {dilation}", "distances are 1 or more")
    if min(side for sides in padding for side in sides) < 0:
        fail(ShapeError, op, inputs, f"padding = {padding}", "padding is 0 or more; slice instead")


def window_extent(extent: Dim, kernel: Dim, stride: int, padding: Two, dilation: int) -> Dim:
    """Return the number of places of a window along an axis."""
    reach = dilation * (kernel - 1) + 1
    return (extent + padding[0] + padding[1] - reach) // stride + 1


def has_places(node: Node) -> Iterator[tuple[Dim, Dim]]:
    """A window fits into the padded image at one place or more."""
    return ((extent, 1) for extent in node.shape[2:])


def _infer_conv(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    x, w = inputs
    _check_operands("conv2d", inputs, attrs)
    shape = _output_shape("conv2d", inputs, x.shape, w.shape, attrs)
    return TensorType(shape, x.dtype)


def _infer_grad_input(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    dy, w = inputs
    op, shape = "conv2d_grad_input", attrs["input_shape"]
    _check_operands(op, inputs, attrs)
    _check_result(op, inputs, dy.shape, _output_shape(op, inputs, shape, w.shape, attrs))
    return TensorType(shape, dy.dtype)


def _infer_grad_weight(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    x, dy = inputs
    op, shape = "conv2d_grad_weight", attrs["weight_shape"]
    _check_operands(op, inputs, attrs)
    _check_result(op, inputs, dy.shape, _output_shape(op, inputs, x.shape, shape, attrs))
    return TensorType(shape, x.dtype)


def _check_operands(op: str, inputs: tuple[TensorType, ...], attrs: Attrs) -> None:
    a, b = inputs
    if a.dtype != b.dtype:
        fail(DTypeError, op, inputs, "operands of different types", "cast one of them")
    if not a.dtype.is_float:
        fail(DTypeError, op, inputs, f"takes floats, got {a.dtype}", "cast the operands first")
    if a.rank != 4 or b.rank != 4:
        fail(ShapeError, op, inputs, "operands have four axes", "add axes: x.unsqueeze(0)")
    check_sliding(
        op,
        inputs,
        stride=attrs["stride"],
        padding=attrs["padding"],
        dilation=attrs["dilation"],
    )


def _output_shape(
    op: str, inputs: tuple[TensorType, ...], x: Shape, w: Shape, attrs: Attrs
) -> Shape:
    groups = attrs["groups"]
    if groups < 1:
        fail(ShapeError, op, inputs, f"groups = {groups}", "there is at least one group")
    if not shapes.equal(x[1] % groups, 0) or not shapes.equal(w[0] % groups, 0):
        fail(
            ShapeError,
            op,
            inputs,
            f"groups = {groups} does not divide the channels {x[1]} and {w[0]}",
            "choose a divisor of both",
        )
    if not shapes.equal(w[1] * groups, x[1]):
        fail(
            ShapeError,
            op,
            inputs,
            f"filters of {w[1]} channels in {groups} groups do not fit {x[1]} channels",
            "the filters are [O, C/groups, kh, kw]",
        )
    extents = []
    for axis in (0, 1):
        extent = window_extent(
            x[2 + axis],
            w[2 + axis],
            attrs["stride"][axis],
            attrs["padding"][axis],
            attrs["dilation"][axis],
        )
        if shapes.at_least(0, extent):
            fail(
                ShapeError,
                op,
                inputs,
                f"a window of {w[2 + axis]} is larger than the padded image",
                "use padding or a larger image",
            )
        extents.append(extent)
    return x[0], w[0], extents[0], extents[1]


def _check_result(op: str, inputs: tuple[TensorType, ...], have: Shape, wanted: Shape) -> None:
    if not shapes.same(have, wanted):
        fail(ShapeError, op, inputs, f"dy is {shapes.text(have)}, not {shapes.text(wanted)}")


# --- values: windows as a view, contractions in f64, rounded once -------------------------------


def pad_images(x: Array, padding: Padding, value: float) -> Array:
    """Return images with `value` on each side."""
    return np.pad(x, ((0, 0), (0, 0), *padding), constant_values=value)


def windows(x: Array, kernel: Two, stride: Two, dilation: Two = (1, 1)) -> Array:
    """Return a view of padded images as [N, C, H', W', kh, kw]."""
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    view = sliding_window_view(x, reach, axis=(2, 3))
    view = view[:, :, :: stride[0], :: stride[1]]
    return view[..., :: dilation[0], :: dilation[1]]


def _windows_of(x: Array, kernel: Two, attrs: Attrs) -> Array:
    """Return [N, groups, C/groups, H', W', kh, kw]."""
    padded = pad_images(x.astype(np.float64), attrs["padding"], 0.0)
    view = windows(padded, kernel, attrs["stride"], attrs["dilation"])
    n, c, *rest = view.shape
    return view.reshape(n, attrs["groups"], c // attrs["groups"], *rest)


def _grouped(array: Array, axis: int, groups: int) -> Array:
    shape = array.shape
    split = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    return array.astype(np.float64).reshape(split)


@np.errstate(all="ignore")
def _conv(attrs: Attrs, x: Array, w: Array) -> Array:
    view = _windows_of(x, w.shape[2:], attrs)
    filters = _grouped(w, 0, attrs["groups"])
    y = np.einsum("ngchwij,gocij->ngohw", view, filters, optimize=True)
    return convert(y.reshape(x.shape[0], w.shape[0], *y.shape[3:]), to_dtype(x.dtype))


@np.errstate(all="ignore")
def _conv_grad_weight(attrs: Attrs, x: Array, dy: Array) -> Array:
    shape, groups = attrs["weight_shape"], attrs["groups"]
    view = _windows_of(x, shape[2:], attrs)
    dw = np.einsum("ngchwij,ngohw->gocij", view, _grouped(dy, 1, groups), optimize=True)
    return convert(dw.reshape(shape), to_dtype(x.dtype))


@np.errstate(all="ignore")
def _conv_grad_input(attrs: Attrs, dy: Array, w: Array) -> Array:
    n, c, height, width = attrs["input_shape"]
    (top, bottom), (left, right) = attrs["padding"]
    groups = attrs["groups"]
    padded = np.zeros((n, groups, c // groups, height + top + bottom, width + left + right))
    grads, filters = _grouped(dy, 1, groups), _grouped(w, 0, groups)
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            part = np.einsum("ngohw,goc->ngchw", grads, filters[..., i, j], optimize=True)
            start = i * attrs["dilation"][0], j * attrs["dilation"][1]
            padded[taps(start, attrs["stride"], part.shape[3:])] += part
    inside = padded[..., top : top + height, left : left + width]
    return convert(inside.reshape(n, c, height, width), to_dtype(dy.dtype))


def taps(start: Two, stride: Two, extents: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the index of what one tap of a window, first at `start`, sees in padded images."""
    return (
        ...,
        *(
            slice(first, first + (count - 1) * step + 1, step)
            for first, count, step in zip(start, extents, stride, strict=True)
        ),
    )


# --- derivatives: each of the three is linear in both operands ----------------------------------


def _sliding(node: Node) -> dict[str, Any]:
    return {name: node.attrs[name] for name in _SLIDING}


def _conv_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x, w = node.inputs
    dx = conv2d_grad_input(g, w, input_shape=x.shape, **_sliding(node))
    dw = conv2d_grad_weight(x, g, weight_shape=w.shape, **_sliding(node))
    return dx, dw


def _grad_input_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    dy, w = node.inputs
    ddy = conv2d(g, w, **_sliding(node))
    dw = conv2d_grad_weight(g, dy, weight_shape=w.shape, **_sliding(node))
    return ddy, dw


def _grad_weight_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x, dy = node.inputs
    dx = conv2d_grad_input(dy, g, input_shape=x.shape, **_sliding(node))
    ddy = conv2d(x, g, **_sliding(node))
    return dx, ddy


_CONTRACTION = frozenset({"contraction"})

for _definition in (
    OpDef("conv2d", _infer_conv, _conv, _conv_vjp, _CONTRACTION, 2, _SLIDING, needs=has_places),
    OpDef(
        "conv2d_grad_input",
        _infer_grad_input,
        _conv_grad_input,
        _grad_input_vjp,
        _CONTRACTION,
        2,
        (*_SLIDING, "input_shape"),
    ),
    OpDef(
        "conv2d_grad_weight",
        _infer_grad_weight,
        _conv_grad_weight,
        _grad_weight_vjp,
        _CONTRACTION,
        2,
        (*_SLIDING, "weight_shape"),
    ),
):
    register(_definition)
