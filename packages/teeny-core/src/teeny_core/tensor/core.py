"""What all tensors are: a handle on a node, and how operands meet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from teeny_core import ops
from teeny_core import shape as shapes
from teeny_core.dtype import DType, bool_, f32, promote, weak
from teeny_core.errors import DTypeError, ShapeError
from teeny_core.graph import Node
from teeny_core.op import TensorType
from teeny_core.shape import Dim, Expr, Shape

if TYPE_CHECKING:
    from teeny_core.tensor.base import AnyTensor

Scalar: TypeAlias = bool | int | float
Operand: TypeAlias = "AnyTensor | Scalar | Expr | np.ndarray[Any, np.dtype[Any]]"
Weak: TypeAlias = Scalar | Expr
"""Operands that raise the category of a type, but not its width. A symbolic size is an integer."""

Axes: TypeAlias = int | Sequence[int] | None


class Core(ABC):
    """A handle on a node; the base of the method families."""

    __slots__ = ("__weakref__", "_node")

    _node: Node

    @property
    def node(self) -> Node:
        """The node that makes the value."""
        return self._node

    @property
    def type(self) -> TensorType:
        """Shape and element type."""
        return self._node.type

    @property
    def shape(self) -> Shape:
        """Extents of the axes; symbolic ones while tracing."""
        return self._node.type.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._node.type.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._node.type.shape)

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return shapes.numel(self.shape)

    @property
    @abstractmethod
    def is_symbolic(self) -> bool:
        """Whether this is a handle while tracing, without a value."""

    @abstractmethod
    def _wrap(self, node: Node) -> AnyTensor:
        """Return a tensor of this kind for another node."""

    @abstractmethod
    def _constant(self, value: Operand) -> AnyTensor:
        """Return an array as a tensor that can meet this one."""

    def _result(self, node: Node, *others: AnyTensor | Weak) -> AnyTensor:
        """Wrap a node made from this tensor and others: symbolic where one of them is."""
        for other in others:
            if isinstance(other, Core) and other.is_symbolic:
                return other._wrap(node)
        return self._wrap(node)

    def _unary(self, make: Callable[[Node], Node]) -> AnyTensor:
        return self._wrap(make(self._node))

    def _float_unary(self, make: Callable[[Node], Node]) -> AnyTensor:
        """Apply a function of floats; integers and bools become f32 first."""
        return self._wrap(make(as_float(self._node)))

    def _binary(
        self, other: Operand, make: Callable[[Node, Node], Node], *, swap: bool = False
    ) -> AnyTensor:
        """Apply a function of two operands after they met in one type and shape."""
        tensor = self._operand(other)
        x, y = meet(self, tensor)
        node = make(y, x) if swap else make(x, y)
        return self._result(node, tensor)

    def _operand(self, value: Operand) -> AnyTensor | Weak:
        """Return an operand as a tensor, or as the scalar that it is."""
        if isinstance(value, Core | bool | int | float | Expr):
            return value
        return self._constant(value)


def meet(*operands: Core | Weak) -> tuple[Node, ...]:
    """Return operands as nodes of one type and shape: promoted and broadcast."""
    dtype = common_dtype(operands)
    shape = broadcast_shapes(*(x.shape for x in operands if isinstance(x, Core)))
    nodes = (cast(x.node, dtype) if isinstance(x, Core) else scalar(x, dtype) for x in operands)
    return tuple(expand(node, shape) for node in nodes)


def scalar(value: Weak, dtype: DType) -> Node:
    """Return a scalar of `dtype`; a symbolic size is known when the program runs."""
    return ops.size(value, dtype) if isinstance(value, Expr) else ops.constant(value, dtype)


def common_dtype(operands: Sequence[Core | Weak]) -> DType:
    """Return the type in which operands meet; scalars only raise the category."""
    dtypes = [x.dtype for x in operands if isinstance(x, Core)]
    found = reduce(promote, dtypes, dtypes[0]) if dtypes else bool_
    for x in operands:
        if not isinstance(x, Core):
            found = weak(1 if isinstance(x, Expr) else x, found)
    return found


def cast(node: Node, dtype: DType) -> Node:
    """Convert a node where it is of another type."""
    return node if node.dtype == dtype else ops.cast(node, dtype)


def as_float(node: Node) -> Node:
    """Convert integers and bools to f32."""
    return node if node.dtype.is_float else ops.cast(node, f32)


def reshape(node: Node, shape: Shape) -> Node:
    """Reshape a node where it has another shape."""
    return node if shapes.same(node.shape, shape) else ops.reshape(node, shape)


def expand(node: Node, shape: Shape) -> Node:
    """Broadcast a node where it has another shape."""
    return node if shapes.same(node.shape, shape) else ops.broadcast_to(node, shape)


def broadcast_shapes(*all_shapes: Shape) -> Shape:
    """Return the shape to which all broadcast, aligned at their last axes.

    Raises:
        ShapeError: naming the axis on which two extents differ.
    """
    rank = max(map(len, all_shapes), default=0)
    result: list[Dim] = [1] * rank
    for shape in all_shapes:
        for axis, extent in enumerate(shape, start=rank - len(shape)):
            have = result[axis]
            if have == 1:
                result[axis] = extent
            elif extent != 1 and not shapes.equal(have, extent):
                listed = " and ".join(map(shapes.text, all_shapes))
                raise ShapeError(
                    f"cannot broadcast {listed}: {have} and {extent} on axis {axis - rank}",
                    hint="extents must be equal or 1; name equal symbolic sizes alike",
                )
    return tuple(result)


def normalize_axis(axis: int, rank: int) -> int:
    """Return an axis counted from the front.

    Raises:
        ShapeError: when it does not exist.
    """
    if not -rank <= axis < rank:
        raise ShapeError(
            f"axis {axis} does not exist, the rank is {rank}",
            hint=f"axes go from {-rank} to {rank - 1}" if rank else "a scalar has no axes",
        )
    return axis % rank


def normalize_axes(axes: Axes, rank: int) -> tuple[int, ...]:
    """Return sorted axes counted from the front; None means all.

    Raises:
        ShapeError: when one does not exist or is named twice.
    """
    if axes is None:
        return tuple(range(rank))
    listed = (axes,) if isinstance(axes, int) else tuple(axes)
    found = sorted(normalize_axis(axis, rank) for axis in listed)
    if len(set(found)) != len(found):
        raise ShapeError(f"an axis is named twice in {listed}", hint="name each axis once")
    return tuple(found)


def check_float(tensor: Core, name: str) -> None:
    """Check that a tensor holds floats.

    Raises:
        DTypeError: when it does not.
    """
    if not tensor.dtype.is_float:
        raise DTypeError(f"{name} takes floats, got {tensor.type}", hint="cast it: x.cast(tn.f32)")
