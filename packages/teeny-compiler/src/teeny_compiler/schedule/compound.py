"""Compounds: several ops for which a kernel library has one kernel.

A compound is an op like any other, with a meaning and a type of its own; `expand` spells it out.
It is put in the place of its parts only where a library serves it and nothing else reads what
lies between the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from teeny_core import Attrs, Node, OpDef, TensorType, equal, ops
from teeny_core.internal import Array

from teeny_compiler.fxgraph import FxBuilder, FXGraph, FxNode, rewritten

Serves: TypeAlias = Callable[[str, Mapping[str, Any], Sequence[TensorType]], bool]

CONV_POOL = "conv2d_relu_max_pool2d"
POOL: Mapping[str, Any] = {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0))}


def with_compounds(graph: FXGraph, serves: Serves) -> FXGraph:
    """Return the graph with compounds that a library serves."""
    if not any(node.op == "max_pool2d" for node in graph.nodes):
        return graph
    results = frozenset(graph.results)

    def change(builder: FxBuilder, number: int, new: Sequence[int]) -> int | None:
        found = _conv_pool(graph, number, results)
        if found is None:
            return None
        conv, operands = found
        nodes = graph.nodes
        types = (*(nodes[i].type for i in operands), nodes[number].type)
        if not serves(CONV_POOL, conv.attrs, types):
            return None
        inputs = [new[i] for i in operands]
        return builder.add(CONV_POOL, inputs, conv.attrs, nodes[number].scope)

    return rewritten(graph, change)


def _conv_pool(
    graph: FXGraph, number: int, results: frozenset[int]
) -> tuple[FxNode, tuple[int, ...]] | None:
    """Match max_pool2d(relu(conv2d(x, w) + bias)); return the convolution and (x, w, bias)."""
    node = graph.nodes[number]
    if node.op != "max_pool2d" or dict(node.attrs) != dict(POOL):
        return None
    relu = _only_read_once(graph, node.inputs[0], "relu", results)
    total = relu and _only_read_once(graph, relu.inputs[0], "add", results)
    if not total:
        return None
    for product, spread in (total.inputs, total.inputs[::-1]):
        conv = _only_read_once(graph, product, "conv2d", results)
        bias = None if conv is None else _bias(graph, spread)
        if conv is not None and bias is not None:
            return conv, (*conv.inputs, bias)
    return None


def _only_read_once(graph: FXGraph, number: int, op: str, results: frozenset[int]) -> FxNode | None:
    node = graph.nodes[number]
    private = len(graph.users[number]) == 1 and number not in results
    return node if private and node.op == op else None


def _bias(graph: FXGraph, number: int) -> int | None:
    """The vector that a value repeats along all axes but the second."""
    spread = graph.nodes[number]
    if spread.op != "broadcast_to":
        return None
    column = graph.nodes[spread.inputs[0]]
    channels = spread.shape[1]
    if column.op != "reshape" or column.shape[-3:] != (channels, 1, 1):
        return None
    vector = column.inputs[0]
    shape = graph.nodes[vector].shape
    return vector if len(shape) == 1 and equal(shape[0], channels) else None


# --- the op -------------------------------------------------------------------------------------


def _infer(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    image = ops.get("conv2d").check(inputs[:2], attrs)
    return ops.get("max_pool2d").check((image,), Attrs(POOL))


def _reference(attrs: Attrs, x: Array, w: Array, bias: Array) -> Array:
    y = ops.get("conv2d").reference(attrs, x, w)
    with np.errstate(all="ignore"):
        y = y + bias[:, None, None]
    return ops.get("max_pool2d").reference(Attrs(POOL), ops.get("relu").reference(Attrs(), y))


def _expand(node: Node) -> Node:
    x, w, bias = node.inputs
    y = ops.conv2d(x, w, **node.attrs)
    column = ops.reshape(bias, (*bias.shape, 1, 1))
    y = ops.relu(ops.add(y, ops.broadcast_to(column, y.shape)))
    return ops.max_pool2d(y, **POOL)


ops.register(
    OpDef(
        CONV_POOL,
        _infer,
        _reference,
        None,
        frozenset({"contraction", "compound"}),
        3,
        ("dilation", "groups", "padding", "stride"),
        _expand,
    )
)
