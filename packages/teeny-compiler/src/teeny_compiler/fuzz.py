"""What fuzzing compares: a random graph with its gradients on a device, with float64.

Where a value depends on its inputs by a jump, as the gradient of a maximum of close values does,
rounding decides it; such elements show in runs on inputs that differ in their last bits, and are
allowed what these differ by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import teeny_core as tn
from teeny_core import DType, GradientError, Graph, Node, backward, f32, f64, ops
from teeny_core.internal import Array, apply, evaluate_updates

from teeny_compiler.testing import Case

RELATIVE, ABSOLUTE = 1e-3, 1e-4
NUDGE = 1e-6
SPREAD = 8


def with_gradients(case: Case) -> Case:
    """Return the case with gradients of its outputs, where they have any, as outputs."""
    graph = case.graph
    leaves = [x for x in (*graph.inputs, *graph.parameters) if x.dtype.is_float]
    try:
        found = backward([x for x in graph.outputs if x.dtype.is_float], leaves)
    except GradientError:
        return case
    return replace(case, graph=replace(graph, outputs=(*graph.outputs, *found)))


def widened(graph: Graph) -> Graph:
    """Return the graph with every f32 in it an f64."""

    def wide(value: Any) -> Any:
        return f64 if value == f32 else value

    new: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.op == "input":
            new[node] = ops.input(node.attrs["name"], node.shape, wide(node.dtype))
            continue
        attrs = {k: wide(v) if isinstance(v, DType) else v for k, v in node.attrs.items()}
        new[node] = apply(node.op, *(new[x] for x in node.inputs), **attrs)
    return replace(
        graph,
        inputs=tuple(new[x] for x in graph.inputs),
        parameters=tuple(new[x] for x in graph.parameters),
        outputs=tuple(new[x] for x in graph.outputs),
        updates=tuple((new[parameter], new[value]) for parameter, value in graph.updates),
    )


def check_case(case: Case, device: str) -> None:
    """Compile a case for a device, run it, and compare with float64.

    Raises:
        AssertionError: an output or an updated parameter differs.
    """
    graph = case.graph
    tensors = {name: tn.Tensor(array) for name, array in case.parameters.items()}
    program = tn.compile(graph, device, parameters=tensors)
    made: Any = program(*case.inputs)
    outputs = made if isinstance(made, tuple) else (made,)
    updated = [parameter.attrs["name"] for parameter, _ in graph.updates]
    found = [*outputs, *(tensors[name].numpy() for name in updated)]
    wide = widened(graph)
    wanted = _values(wide, case.inputs, case.parameters, 0)
    others = [_values(wide, case.inputs, case.parameters, seed) for seed in (1, 2)]
    for place, (value, reference) in enumerate(zip(found, wanted, strict=True)):
        spread = sum(np.abs(other[place].astype(float) - reference) for other in others)
        limit = ABSOLUTE + RELATIVE * np.abs(reference) + SPREAD * spread
        error = np.abs(value.astype(float) - reference)
        assert value.shape == reference.shape
        assert (error <= limit).all(), f"value {place} differs by {(error - limit).max()}\n{graph}"


def _values(
    graph: Graph, inputs: Sequence[Array], parameters: Mapping[str, Array], seed: int
) -> list[Array]:
    """Evaluate in float64, on inputs that a seed other than 0 changes in their last bits."""
    rng = np.random.default_rng(seed)

    def near(array: Array) -> Array:
        if array.dtype.kind != "f":
            return array
        change = rng.uniform(-NUDGE, NUDGE, array.shape) if seed else 0.0
        return np.asarray(array * (1.0 + np.asarray(change)), np.float64)

    outputs, updates = evaluate_updates(
        graph, [near(x) for x in inputs], {name: near(x) for name, x in parameters.items()}
    )
    return [*outputs, *updates.values()]
