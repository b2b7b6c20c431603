"""Elementwise ops on constants, computed when the graph is compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from teeny_core import ops

from teeny_compiler.fxgraph import FxBuilder, FXGraph, FxNode, rewritten


def fold_constants(graph: FXGraph) -> FXGraph:
    """Replace elementwise ops on scalar constants by their value."""

    def change(builder: FxBuilder, number: int, new: Sequence[int]) -> int | None:
        node = graph.nodes[number]
        return _folded(builder, node, [builder.nodes[new[i]] for i in node.inputs])

    return rewritten(graph, change)


def _folded(builder: FxBuilder, node: FxNode, operands: Sequence[FxNode]) -> int | None:
    elementwise = "elementwise" in ops.get(node.op).traits
    if not elementwise or not operands or any(x.op != "constant" for x in operands):
        return None
    values = [np.asarray(x.attrs["value"]).astype(x.dtype.numpy) for x in operands]
    with np.errstate(all="ignore"):
        value = np.asarray(ops.get(node.op).reference(node.attrs, *values))
    plain = value.astype(np.float64) if node.dtype.is_float else value
    return builder.add("constant", [], {"value": plain.item(), "dtype": node.dtype})
