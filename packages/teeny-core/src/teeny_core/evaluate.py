"""Evaluating a graph in NumPy by the reference of each operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from teeny_core import shape as shapes
from teeny_core.device.calling import check_arguments
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import GraphError
from teeny_core.graph import Graph, Node
from teeny_core.op import Array


def evaluate(
    graph: Graph,
    inputs: Sequence[ArrayLike],
    parameters: Mapping[str, Array] | None = None,
) -> tuple[Array, ...]:
    """Return the outputs of a graph, as new arrays.

    Args:
        graph: the graph.
        inputs: values of its inputs, in order; they bind its symbolic sizes.
        parameters: values of its parameters by name.

    Raises:
        ShapeError, DTypeError: when an input does not fit.
        GraphError: when a parameter is missing.
    """
    outputs, _ = evaluate_updates(graph, inputs, parameters)
    return outputs


def evaluate_updates(
    graph: Graph,
    inputs: Sequence[ArrayLike],
    parameters: Mapping[str, Array] | None = None,
) -> tuple[tuple[Array, ...], dict[str, Array]]:
    """Return the outputs of a graph and the new values of the parameters that it updates."""
    arrays, env = check_arguments(graph, inputs)
    values: dict[Node, Array] = dict(zip(graph.inputs, arrays, strict=True))
    values.update(_bound(graph, parameters or {}))
    uses = Counter(operand for node in graph.nodes for operand in node.inputs)
    uses.update(graph.results)
    for node in graph.nodes:
        if node not in values:
            values[node] = _value(node, values, env)
        for operand in node.inputs:
            uses[operand] -= 1
            if not uses[operand]:
                values.pop(operand, None)
    outputs = tuple(np.array(values[node], order="C") for node in graph.outputs)
    updates = {
        parameter.attrs["name"]: np.array(values[value], order="C")
        for parameter, value in graph.updates
    }
    return outputs, updates


def _bound(graph: Graph, parameters: Mapping[str, Array]) -> dict[Node, Array]:
    bound = {}
    for node in graph.parameters:
        name = node.attrs["name"]
        if name not in parameters:
            raise GraphError(
                f"{graph.name}: no value for the parameter {name!r}",
                hint=f"pass parameters={{{name!r}: array}}",
            )
        bound[node] = np.asarray(parameters[name])
    return bound


def _value(node: Node, values: Mapping[Node, Array], env: Mapping[str, int]) -> Array:
    attrs = shapes.substitute(node.attrs, env) if env else node.attrs
    operands = (values[operand] for operand in node.inputs)
    value = np.asarray(node.definition.reference(attrs, *operands))
    expected = shapes.substitute(node.shape, env)
    if value.shape != expected or to_dtype(value.dtype) != node.dtype:
        raise GraphError(
            f"{node!r} was evaluated to {value.dtype}{shapes.text(value.shape)}, "
            f"expected {node.dtype}{shapes.text(expected)}"
        )
    return value
