"""Shared ways of defining elementwise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from teeny_core import shape as shapes
from teeny_core.dtype import DType
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import DTypeError, ShapeError
from teeny_core.graph import Node, apply
from teeny_core.op import Array, Attrs, Infer, OpDef, Reference, TensorType, Vjp, fail, register
from teeny_core.ops.convert import convert

Unary: TypeAlias = Callable[[Node], Node]
Binary: TypeAlias = Callable[[Node, Node], Node]
Function: TypeAlias = Callable[..., Array]

NUMBERS = ("int", "uint", "float")
INTS = ("int", "uint")
FLOATS = ("float",)
BOOLS = ("bool",)
BITS = ("bool", "int", "uint")
ANY = ("bool", "int", "uint", "float")

_KIND_NAMES = {
    NUMBERS: "numbers",
    INTS: "integers",
    FLOATS: "floats",
    BOOLS: "bools",
    BITS: "integers or bools",
}


def elementwise(
    name: str,
    arity: int,
    function: Function,
    kinds: tuple[str, ...],
    vjp: Vjp | None = None,
    *,
    traits: tuple[str, ...] = (),
    result: DType | None = None,
    precise: bool = False,
) -> None:
    """Register an elementwise operation on operands of one shape and one type.

    Args:
        name: name of the operation.
        arity: number of operands.
        function: its value in NumPy, on f32 for narrower floats, on f64 where `precise`.
        kinds: kinds of element types that it takes.
        vjp: its derivative.
        traits: its properties besides "elementwise".
        result: element type of the result where it is not that of the operands.
        precise: whether floats are evaluated in f64 and rounded once.
    """
    infer = _infer(name, kinds, result)
    reference = _reference(function, result, precise)
    register(OpDef(name, infer, reference, vjp, frozenset({"elementwise", *traits}), arity))


def unary(
    name: str,
    function: Function,
    kinds: tuple[str, ...],
    vjp: Vjp | None = None,
    *,
    traits: tuple[str, ...] = (),
    result: DType | None = None,
    precise: bool = False,
) -> Unary:
    """Register a unary operation and return the function that makes its nodes."""
    elementwise(name, 1, function, kinds, vjp, traits=traits, result=result, precise=precise)

    def make(x: Node) -> Node:
        return apply(name, x)

    return make


def binary(
    name: str,
    function: Function,
    kinds: tuple[str, ...],
    vjp: Vjp | None = None,
    *,
    traits: tuple[str, ...] = (),
    result: DType | None = None,
    precise: bool = False,
) -> Binary:
    """Register a binary operation and return the function that makes its nodes."""
    elementwise(name, 2, function, kinds, vjp, traits=traits, result=result, precise=precise)

    def make(x: Node, y: Node) -> Node:
        return apply(name, x, y)

    return make


def _infer(name: str, kinds: tuple[str, ...], result: DType | None) -> Infer:
    def infer(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
        first = inputs[0]
        if any(other.dtype != first.dtype for other in inputs):
            fail(DTypeError, name, inputs, "operands of different types", "cast one of them")
        if not all(shapes.same(other.shape, first.shape) for other in inputs):
            fail(ShapeError, name, inputs, "operands of different shapes", "broadcast_to one shape")
        if first.dtype.kind not in kinds:
            fail(
                DTypeError,
                name,
                inputs,
                f"takes {_KIND_NAMES[kinds]}, got {first.dtype}",
                "cast the operands first",
            )
        return TensorType(first.shape, result or first.dtype)

    return infer


def _reference(function: Function, result: DType | None, precise: bool) -> Reference:
    @np.errstate(all="ignore")
    def reference(attrs: Attrs, *arrays: Array) -> Array:
        dtype = to_dtype(arrays[0].dtype)
        if dtype.is_float:
            work = np.dtype(np.float64) if precise else dtype.accumulator.numpy
            arrays = tuple(array.astype(work, copy=False) for array in arrays)
        value = np.asarray(function(*arrays))
        return convert(value, result or dtype)

    return reference
