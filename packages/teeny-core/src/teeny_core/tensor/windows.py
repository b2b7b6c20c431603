"""Products of tensors: matrices, convolutions, and windows that slide over images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from teeny_core import ops
from teeny_core import shape as shapes
from teeny_core.dtype import DTypeLike, i8, i32, promote, u8
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import OpError, ShapeError
from teeny_core.graph import Node
from teeny_core.shape import Dim, Shape
from teeny_core.tensor import core
from teeny_core.tensor.core import Core

if TYPE_CHECKING:
    from teeny_core.tensor.base import AnyTensor

Pair: TypeAlias = int | Sequence[int]
Padding: TypeAlias = int | str | Sequence[int] | Sequence[tuple[int, int]]


class Windows(Core):
    """Matrix products, convolutions and pooling."""

    __slots__ = ()

    def matmul(
        self,
        other: AnyTensor,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        dtype: DTypeLike | None = None,
    ) -> AnyTensor:
        """Return the matrix product, as PyTorch's: vectors, matrices, leading axes broadcast.

        Args:
            other: the right operand.
            transpose_a: use this tensor with its last two axes swapped.
            transpose_b: use `other` with its last two axes swapped.
            dtype: type of the result, in which products are taken and summed; by default that
                to which both promote. i8 and u8 are multiplied fast in i32.

        Raises:
            ShapeError: when the inner extents differ or an operand is a scalar.
        """
        other = self._constant(other) if not isinstance(other, Core) else other
        wanted = promote(self.dtype, other.dtype) if dtype is None else to_dtype(dtype)
        a, b, multiply = self._node, other.node, ops.matmul
        if wanted == i32 and a.dtype in (i8, u8) and b.dtype in (i8, u8):
            multiply = ops.matmul_integer
        else:
            a, b = core.cast(a, wanted), core.cast(b, wanted)
        return self._result(_matmul(multiply, a, b, transpose_a, transpose_b), other)

    def __matmul__(self, other: AnyTensor) -> AnyTensor:
        return self.matmul(other)

    def __rmatmul__(self, other: AnyTensor) -> AnyTensor:
        return self._constant(other).matmul(self)  # type: ignore[arg-type]

    def dot(self, other: AnyTensor) -> AnyTensor:
        """Return `matmul(other)`."""
        return self.matmul(other)

    def conv2d(
        self,
        weight: AnyTensor,
        bias: AnyTensor | None = None,
        *,
        stride: Pair = 1,
        padding: Padding = 0,
        dilation: Pair = 1,
        groups: int = 1,
    ) -> AnyTensor:
        """Return the cross-correlation of images [N, C, H, W] with [O, C/groups, kh, kw].

        Args:
            weight: the filters.
            bias: [O], added to each output channel.
            stride: steps of the window, one or (vertical, horizontal).
            padding: zeros on each side: one, (vertical, horizontal), pairs
                ((top, bottom), (left, right)), "valid" for none or "same" to keep the extents.
            dilation: distance of the filter's taps.
            groups: number of groups of channels that are convolved apart.

        Raises:
            ShapeError: naming the argument that does not fit.
        """
        strides, dilations = pair(stride, "stride"), pair(dilation, "dilation")
        kernel: Shape = weight.shape[-2:]
        pads = _conv_padding(padding, kernel, strides, dilations)
        dtype = promote(self.dtype, weight.dtype)
        node = ops.conv2d(
            core.cast(self._node, dtype),
            core.cast(weight.node, dtype),
            stride=strides,
            padding=pads,
            dilation=dilations,
            groups=groups,
        )
        result = self._result(node, weight)
        return result if bias is None else result + bias.reshape(-1, 1, 1)

    def conv_transpose2d(
        self,
        weight: AnyTensor,
        bias: AnyTensor | None = None,
        *,
        stride: Pair = 1,
        padding: Pair = 0,
        output_padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
    ) -> AnyTensor:
        """Return images [N, C, H, W] spread by filters [C, O/groups, kh, kw] to [N, O, H', W'].

        This is the gradient of `conv2d` with respect to its images, in the place of whose result
        this one stands. H' = (H - 1)*stride - 2*padding + dilation*(kh - 1) + output_padding + 1.

        Args:
            weight: the filters.
            bias: [O], added to each output channel.
            stride: steps of the window, one or (vertical, horizontal).
            padding: what is cut off each side.
            output_padding: rows and columns added below and on the right; less than the stride.
            dilation: distance of the filter's taps.
            groups: number of groups of channels that are spread apart.

        Raises:
            ShapeError: naming the argument that does not fit.
        """
        strides, dilations = pair(stride, "stride"), pair(dilation, "dilation")
        cut, added = pair(padding, "padding"), pair(output_padding, "output_padding")
        if not all(0 <= more < step for more, step in zip(added, strides, strict=True)):
            raise ShapeError(
                f"output_padding = {output_padding} with stride = {stride}",
                hint="add less than a step",
            )
        if self.ndim != 4 or weight.ndim != 4:
            raise ShapeError(
                f"conv_transpose2d of {self.type} by {weight.type}", hint="both have four axes"
            )
        extents = [
            (self.shape[2 + axis] - 1) * strides[axis]
            - 2 * cut[axis]
            + dilations[axis] * (weight.shape[2 + axis] - 1)
            + added[axis]
            + 1
            for axis in range(2)
        ]
        dtype = promote(self.dtype, weight.dtype)
        node = ops.conv2d_grad_input(
            core.cast(self._node, dtype),
            core.cast(weight.node, dtype),
            input_shape=(self.shape[0], weight.shape[1] * groups, *extents),
            stride=strides,
            padding=pads(cut),
            dilation=dilations,
            groups=groups,
        )
        result = self._result(node, weight)
        return result if bias is None else result + bias.reshape(-1, 1, 1)

    def max_pool2d(
        self, kernel: Pair, stride: Pair | None = None, padding: Padding = 0
    ) -> AnyTensor:
        """Return the largest value of each window of images [N, C, H, W]; NaN where there is one.

        Args:
            kernel: extents of the window.
            stride: its steps; the window's extents unless given.
            padding: minus infinity on each side, at most half of the window.
        """
        window = pair(kernel, "kernel")
        node = ops.max_pool2d(
            self._node,
            kernel=window,
            stride=window if stride is None else pair(stride, "stride"),
            padding=pads(padding),
        )
        return self._wrap(node)

    def avg_pool2d(
        self,
        kernel: Pair,
        stride: Pair | None = None,
        padding: Padding = 0,
        *,
        count_include_pad: bool = True,
    ) -> AnyTensor:
        """Return the mean of each window of images [N, C, H, W].

        Args:
            kernel: extents of the window.
            stride: its steps; the window's extents unless given.
            padding: zeros on each side, at most half of the window.
            count_include_pad: whether those zeros count in the mean.
        """
        window = pair(kernel, "kernel")
        node = ops.avg_pool2d(
            core.as_float(self._node),
            kernel=window,
            stride=window if stride is None else pair(stride, "stride"),
            padding=pads(padding),
            count_include_pad=count_include_pad,
        )
        return self._wrap(node)


def _matmul(
    multiply: Callable[..., Node], a: Node, b: Node, transpose_a: bool, transpose_b: bool
) -> Node:
    if not a.shape or not b.shape:
        raise ShapeError(
            f"matmul of {a.type} and {b.type}: a scalar is no matrix", hint="multiply with *"
        )
    if len(a.shape) == 1:
        row = _matmul(multiply, ops.reshape(a, (1, *a.shape)), b, False, transpose_b)
        return core.reshape(row, _without(row.shape, -1 if len(b.shape) == 1 else -2))
    if len(b.shape) == 1:
        column = _matmul(multiply, a, ops.reshape(b, (*b.shape, 1)), transpose_a, False)
        return core.reshape(column, column.shape[:-1])
    if len(b.shape) == 2 and len(a.shape) > 2 and not transpose_a:
        rows = core.reshape(a, (shapes.numel(a.shape[:-1]), a.shape[-1]))
        product = multiply(rows, b, transpose_b=transpose_b)
        return core.reshape(product, (*a.shape[:-1], product.shape[-1]))
    batch = core.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (core.expand(x, (*batch, *x.shape[-2:])) for x in (a, b))
    return multiply(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _without(shape: Shape, axis: int) -> Shape:
    place = axis % len(shape)
    return (*shape[:place], *shape[place + 1 :])


def pair(value: Pair, name: str) -> tuple[int, int]:
    """Return one int, or two, as two.

    Raises:
        ShapeError: for another number of them.
    """
    values = (value, value) if isinstance(value, int) else tuple(value)
    if len(values) != 2:
        raise ShapeError(f"{name} = {value}", hint="give one int, or two: (vertical, horizontal)")
    return values


def pads(padding: Padding) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return padding in any form as ((top, bottom), (left, right)).

    Raises:
        ShapeError: for a form that does not exist.
    """
    if isinstance(padding, int):
        return (padding, padding), (padding, padding)
    if isinstance(padding, str) or len(padding) != 2:
        raise ShapeError(
            f"padding = {padding!r}", hint="give an int, two, or ((top, bottom), (left, right))"
        )
    (top, bottom), (left, right) = (
        (side, side) if isinstance(side, int) else tuple(side) for side in padding
    )
    return (top, bottom), (left, right)


def _conv_padding(
    padding: Padding, kernel: Shape, stride: tuple[int, int], dilation: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    if padding == "valid":
        return (0, 0), (0, 0)
    if padding != "same":
        return pads(padding)
    if stride != (1, 1):
        raise ShapeError(f"padding 'same' with stride {stride}", hint="it needs stride 1")
    sides = [_same(extent, step) for extent, step in zip(kernel, dilation, strict=True)]
    return sides[0], sides[1]


def _same(extent: Dim, dilation: int) -> tuple[int, int]:
    if not isinstance(extent, int):
        raise OpError(f"padding 'same' with the symbolic window {extent}", hint="name the padding")
    total = dilation * (extent - 1)
    return total // 2, total - total // 2
