"""What a graph is turned into before fusion, so that more of it is elementwise.

All rewrites are exact. A sum or product of no elements is a constant. Of an index along one axis
of extent 1 (the class of each row, say)

- gathering from an elementwise value gathers from what that is computed of;
- scattering is a choice at each place: `where(iota == index, dy + 0, 0)`, where `+ 0` gives the
  zero that a sum with 0 has.
"""

from __future__ import annotations

from teeny_core import TensorType, equal, numel, ops

from teeny_compiler.fxgraph import FxBuilder, FXGraph

NEUTRAL = {"sum": 0, "prod": 1}
REWRITTEN = frozenset(("take_along", "take_along_grad", *NEUTRAL))


def prepare(graph: FXGraph) -> FXGraph:
    """Rewrite indexing of single elements along an axis, and folds of no elements."""
    if not any(node.op in REWRITTEN for node in graph.nodes):
        return graph
    builder = FxBuilder(graph.name)
    new: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        inputs = [new[i] for i in node.inputs]
        if node.op == "input":
            new[number] = builder.leaf(node.attrs["name"], node.type)
        elif node.op == "take_along":
            new[number] = _take_along(builder, inputs[0], inputs[1], node.attrs["axis"])
        elif node.op == "take_along_grad" and _is_single(builder, inputs[0], node.attrs["axis"]):
            new[number] = _choose(builder, inputs, number, graph)
        elif node.op in NEUTRAL and numel(builder.type(inputs[0]).shape) == 0:
            new[number] = _filled(builder, NEUTRAL[node.op], node.type)
        else:
            new[number] = builder.add(node.op, inputs, node.attrs, node.scope)
    return builder.finish(
        [new[i] for i in graph.inputs],
        [new[i] for i in graph.parameters],
        [new[i] for i in graph.outputs],
        [(new[parameter], new[value]) for parameter, value in graph.updates],
    )


def _filled(builder: FxBuilder, value: int, kind: TensorType) -> int:
    scalar = builder.add("constant", [], {"value": value, "dtype": kind.dtype})
    return builder.add("broadcast_to", [scalar], {"shape": kind.shape})


def _is_single(builder: FxBuilder, index: int, axis: int) -> bool:
    return equal(builder.type(index).shape[axis], 1)


def _take_along(builder: FxBuilder, x: int, index: int, axis: int) -> int:
    """Gather single elements of an elementwise value by gathering from its operands."""
    node = builder.nodes[x]
    shape = builder.type(index).shape
    if not _is_single(builder, index, axis):
        return builder.add("take_along", [x, index], {"axis": axis})
    if node.op == "constant" or "elementwise" in ops.get(node.op).traits:
        inputs = [_take_along(builder, i, index, axis) for i in node.inputs]
        return builder.add(node.op, inputs, node.attrs, node.scope)
    if node.op == "broadcast_to" and _repeats(builder, x, axis):
        inner = node.inputs[0]
        return builder.add("broadcast_to", [inner], {"shape": shape})
    return builder.add("take_along", [x, index], {"axis": axis})


def _repeats(builder: FxBuilder, number: int, axis: int) -> bool:
    """Whether a broadcast makes `axis`, so that all its elements are the same."""
    node = builder.nodes[number]
    inner = builder.type(node.inputs[0]).shape
    place = axis - (len(node.shape) - len(inner))
    return place < 0 or equal(inner[place], 1)


def _choose(builder: FxBuilder, inputs: list[int], number: int, graph: FXGraph) -> int:
    node = graph.nodes[number]
    index, dy = inputs
    shape, axis = node.shape, node.attrs["axis"]
    dtype = builder.type(index).dtype
    places = builder.add("iota", [], {"shape": shape, "axis": axis, "dtype": dtype})
    wanted = builder.add("broadcast_to", [index], {"shape": shape})
    zero = builder.add("constant", [], {"value": 0, "dtype": node.dtype})
    zero = builder.add("broadcast_to", [zero], {"shape": shape})
    value = builder.add("add", [builder.add("broadcast_to", [dy], {"shape": shape}), zero])
    here = builder.add("eq", [places, wanted])
    return builder.add("where", [here, value, zero], {}, node.scope)
