"""Elementwise ops on constants, computed when the graph is compiled."""

from __future__ import annotations

import numpy as np
from teeny_core import ops

from teeny_compiler.fxgraph import FxBuilder, FXGraph, FxNode


def fold_constants(graph: FXGraph) -> FXGraph:
    """Replace elementwise ops on scalar constants by their value."""
    if not any(_is_constant_work(graph.nodes, node) for node in graph.nodes):
        return graph
    builder = FxBuilder(graph.name)
    new: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        inputs = [new[i] for i in node.inputs]
        if node.op == "input":
            new[number] = builder.leaf(node.attrs["name"], node.type)
            continue
        moved = FxNode(node.op, tuple(inputs), node.attrs, node.type, node.scope)
        if _is_constant_work(builder.nodes, moved):
            new[number] = _folded(builder, moved)
        else:
            new[number] = builder.add(node.op, inputs, node.attrs, node.scope)
    return builder.finish(
        [new[i] for i in graph.inputs],
        [new[i] for i in graph.parameters],
        [new[i] for i in graph.outputs],
        [(new[parameter], new[value]) for parameter, value in graph.updates],
    )


def _is_constant_work(nodes: tuple[FxNode, ...] | list[FxNode], node: FxNode) -> bool:
    elementwise = "elementwise" in ops.get(node.op).traits
    return bool(node.inputs) and elementwise and all(nodes[i].op == "constant" for i in node.inputs)


def _folded(builder: FxBuilder, node: FxNode) -> int:
    operands = [
        np.asarray(builder.nodes[i].attrs["value"]).astype(builder.type(i).dtype.numpy)
        for i in node.inputs
    ]
    with np.errstate(all="ignore"):
        value = np.asarray(ops.get(node.op).reference(node.attrs, *operands))
    plain = value.astype(np.float64) if node.dtype.is_float else value
    return builder.add("constant", [], {"value": plain.item(), "dtype": node.dtype})
