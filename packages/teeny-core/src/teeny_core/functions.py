"""Functions of several tensors, and the most used methods in the form of functions."""

from __future__ import annotations

from collections.abc import Sequence

from teeny_core import ops
from teeny_core.errors import ShapeError
from teeny_core.tensor import AnyTensor, Operand, Tensor, core
from teeny_core.tensor.windows import Padding, Pair


def as_tensor(value: Operand) -> AnyTensor:
    """Return a tensor as it is, anything else as a concrete tensor."""
    return value if isinstance(value, AnyTensor) else Tensor(value)


def where(cond: Operand, x: Operand, y: Operand) -> AnyTensor:
    """Return x where `cond` is not zero, else y; broadcast and promoted."""
    return as_tensor(cond).where(x, y)


def maximum(x: Operand, y: Operand) -> AnyTensor:
    """Return the larger of both at each place; NaN where one is NaN."""
    return as_tensor(x).maximum(y)


def minimum(x: Operand, y: Operand) -> AnyTensor:
    """Return the smaller of both at each place; NaN where one is NaN."""
    return as_tensor(x).minimum(y)


def concat(tensors: Sequence[Operand], axis: int = 0) -> AnyTensor:
    """Return tensors joined along an axis, promoted to one type.

    Raises:
        ShapeError: when there is none, or extents differ on another axis.
    """
    operands = [as_tensor(tensor) for tensor in tensors]
    if not operands:
        raise ShapeError("concat of no tensors", hint="pass at least one")
    dtype = core.common_dtype(operands)
    nodes = tuple(core.cast(operand.node, dtype) for operand in operands)
    place = core.normalize_axis(axis, operands[0].ndim)
    return operands[0]._result(ops.concat(nodes, place), *operands[1:])


def cat(tensors: Sequence[Operand], axis: int = 0) -> AnyTensor:
    """Return tensors joined along an axis: `concat` by the name that PyTorch has."""
    return concat(tensors, axis)


def stack(tensors: Sequence[Operand], axis: int = 0) -> AnyTensor:
    """Return tensors of one shape joined along a new axis, a place of the result.

    Raises:
        ShapeError: when there is none, or shapes differ.
    """
    return concat([as_tensor(tensor).unsqueeze(axis) for tensor in tensors], axis)


def matmul(x: Operand, y: Operand) -> AnyTensor:
    """Return the matrix product (..., M, K) @ (..., K, N): (..., M, N), leading axes broadcast.

    Vectors stand for a row at the left and a column at the right, whose axes the result lacks.

    Raises:
        ShapeError: the inner extents differ, or an operand is a scalar.
    """
    return as_tensor(x).matmul(as_tensor(y))


def conv2d(
    x: AnyTensor,
    weight: AnyTensor,
    bias: AnyTensor | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> AnyTensor:
    """Return the cross-correlation of images with filters: see `Tensor.conv2d`."""
    return x.conv2d(weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
