"""The calling convention that all programs share: what fits an input, what fits a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from teeny_core import shape as shapes
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import DTypeError, GraphError, ShapeError
from teeny_core.graph import Graph
from teeny_core.op import Array

if TYPE_CHECKING:
    from teeny_core.tensor import Tensor


def check_arguments(
    graph: Graph, arrays: Sequence[ArrayLike]
) -> tuple[tuple[Array, ...], dict[str, int]]:
    """Return the arguments as NumPy arrays, and the values of the symbolic sizes.

    Raises:
        ShapeError: for a wrong number of arguments, or a shape that does not fit.
        DTypeError: for an element type that is not that of the input.
    """
    if len(arrays) != len(graph.inputs):
        names = ", ".join(node.attrs["name"] for node in graph.inputs)
        raise ShapeError(
            f"{graph.name} takes {len(graph.inputs)} inputs, got {len(arrays)}",
            hint=f"pass, in order: {names}" if names else "call it without arguments",
        )
    values = tuple(np.asarray(array) for array in arrays)
    for node, value in zip(graph.inputs, values, strict=True):
        have = to_dtype(value.dtype)
        if have != node.dtype:
            raise DTypeError(
                f"{graph.name}: the input {node.attrs['name']!r} is {node.type}, got {have}",
                hint=f"convert it: x.astype({str(node.dtype.numpy)!r})",
            )
    try:
        env = shapes.bind(
            (node.shape, value.shape) for node, value in zip(graph.inputs, values, strict=True)
        )
    except ShapeError as error:
        wanted = ", ".join(f"{node.attrs['name']}: {node.type}" for node in graph.inputs)
        raise ShapeError(
            f"{graph.name}: {error.message}", hint=f"the inputs are {wanted}"
        ) from error
    for guard in graph.guards:
        guard.check(graph.name, env)
    return values, env


def check_parameters(graph: Graph, parameters: Mapping[str, Tensor]) -> None:
    """Check that each parameter of the graph is bound to a tensor of its type.

    Raises:
        GraphError: when one is missing or of another type.
    """
    for node in graph.parameters:
        name = node.attrs["name"]
        tensor = parameters.get(name)
        if tensor is None:
            known = ", ".join(sorted(parameters)) or "none"
            raise GraphError(
                f"{graph.name}: no tensor is bound to the parameter {name!r}",
                hint=f"bound are: {known}",
            )
        if tensor.shape != node.shape or tensor.dtype != node.dtype:
            raise GraphError(
                f"{graph.name}: the parameter {name!r} is {node.type}, "
                f"it is bound to {tensor.dtype}{shapes.text(tensor.shape)}",
                hint="trace the model again after changing its parameters",
            )
