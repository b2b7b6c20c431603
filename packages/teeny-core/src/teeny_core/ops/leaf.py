"""Leaves: values that come from outside or from constants."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from teeny_core import shape as shapes
from teeny_core.dtype import DType, dtype
from teeny_core.errors import OpError, ShapeError
from teeny_core.graph import Node, apply
from teeny_core.name_scope import current_scope
from teeny_core.op import Array, Attrs, OpDef, TensorType, fail, register
from teeny_core.shape import Dim, Shape


class Literal:
    """An immutable array that is part of a graph; equal to another with the same bytes."""

    def __init__(self, array: Array) -> None:
        self.array = np.array(array, order="C")
        self.array.flags.writeable = False
        self.type = TensorType(self.array.shape, dtype(self.array.dtype))

    @cached_property
    def digest(self) -> str:
        """Digest of type and bytes."""
        return hashlib.sha256(str(self.type).encode() + self.array.tobytes()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self.digest == other.digest

    def __str__(self) -> str:
        return f"<{self.type} {self.digest[:12]}>"


class Stored(Protocol):
    """What a `data` leaf refers to: a realised value."""

    @property
    def type(self) -> TensorType:
        """Shape and element type of the value."""

    def array(self) -> Array:
        """The value in host memory."""


def input_(name: str, shape: Shape, dtype: DType) -> Node:
    """Make a leaf that is bound when the graph is called, or to a parameter's buffer."""
    return Node("input", (), Attrs(name=name), TensorType(shape, dtype), current_scope())


def constant(value: bool | int | float, dtype: DType) -> Node:
    """Make a scalar of shape ()."""
    kind = bool if dtype.is_bool else float if dtype.is_float else int
    return apply("constant", value=kind(value), dtype=dtype)


def full(shape: Shape, value: bool | int | float, dtype: DType) -> Node:
    """Make a value of `shape` that is `value` everywhere."""
    scalar = constant(value, dtype)
    return apply("broadcast_to", scalar, shape=shape) if shape else scalar


def like(node: Node, value: bool | int | float) -> Node:
    """Make a value with the type of `node` that is `value` everywhere."""
    return full(node.shape, value, node.dtype)


def array(data: Array) -> Node:
    """Make a small literal array."""
    return apply("array", data=Literal(data))


def data(handle: Stored) -> Node:
    """Make a leaf that stands for a realised value."""
    return apply("data", handle=handle)


def size(dim: Dim, dtype: DType) -> Node:
    """Make a scalar of a dimension's value."""
    return apply("size", dim=dim, dtype=dtype)


def iota(shape: Shape, axis: int, dtype: DType) -> Node:
    """Make a value whose element is its index along `axis`."""
    return apply("iota", shape=shape, axis=axis, dtype=dtype)


def _infer_input(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    raise OpError(
        f"the type of the input {attrs['name']!r} is given, not inferred", hint="use ops.input"
    )


def _unbound(attrs: Attrs) -> Array:
    raise OpError(f"the input {attrs['name']!r} has no value", hint="use teeny_core.evaluate")


def _infer_constant(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    value, dtype = attrs["value"], attrs["dtype"]
    if not dtype.is_float and not dtype.min <= value <= dtype.max:
        fail(
            OpError,
            "constant",
            inputs,
            f"{value} is outside of {dtype}, {dtype.min} to {dtype.max}",
            "use a wider type",
        )
    return TensorType((), dtype)


def _infer_size(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    return TensorType((), attrs["dtype"])


def _infer_held(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    held = attrs["data"] if "data" in attrs else attrs["handle"]
    return held.type  # type: ignore[no-any-return]


def _infer_iota(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    shape, axis = attrs["shape"], attrs["axis"]
    if not 0 <= axis < len(shape):
        fail(ShapeError, "iota", inputs, f"axis {axis} is outside of {shapes.text(shape)}")
    return TensorType(shape, attrs["dtype"])


def _constant(attrs: Attrs) -> Array:
    return np.asarray(attrs["value"]).astype(attrs["dtype"].numpy)


def _size(attrs: Attrs) -> Array:
    return np.asarray(attrs["dim"]).astype(attrs["dtype"].numpy)


def _iota(attrs: Attrs) -> Array:
    shape: tuple[int, ...] = attrs["shape"]
    axis: int = attrs["axis"]
    column = np.arange(shape[axis]).astype(attrs["dtype"].numpy)
    return np.broadcast_to(column.reshape([-1] + [1] * (len(shape) - axis - 1)), shape)


def _held(attrs: Attrs) -> Array:
    held: Any = attrs["data"] if "data" in attrs else attrs["handle"]
    return held.array if isinstance(held, Literal) else held.array()


_LEAF = frozenset({"leaf"})

for _definition in (
    OpDef("input", _infer_input, _unbound, traits=_LEAF, arity=0, attributes=("name",)),
    OpDef("constant", _infer_constant, _constant, None, _LEAF, 0, ("dtype", "value")),
    OpDef("array", _infer_held, _held, None, _LEAF, 0, ("data",)),
    OpDef("data", _infer_held, _held, None, _LEAF, 0, ("handle",)),
    OpDef("size", _infer_size, _size, None, _LEAF, 0, ("dim", "dtype")),
    OpDef("iota", _infer_iota, _iota, None, _LEAF, 0, ("axis", "dtype", "shape")),
):
    register(_definition)
