"""Which values of a graph are the same in every run: those of constants and frozen parameters.

They are computed once, before the first run, by the schedule's `prepare` steps. Values of symbolic
shape are not among them, since their size is known only in a run.
"""

from __future__ import annotations

from teeny_core import ops, symbols_of

from teeny_compiler.fxgraph import FXGraph


def fixed_values(graph: FXGraph, *, frozen: bool) -> frozenset[int]:
    """Return the fixed nodes; with `frozen`, parameters that the graph does not update are."""
    fixed = set(frozen_parameters(graph)) if frozen else set()
    for number, node in enumerate(graph.nodes):
        if node.op == "input" or "random" in ops.get(node.op).traits:
            continue
        if not symbols_of((node.shape, node.attrs)) and fixed.issuperset(node.inputs):
            fixed.add(number)
    return frozenset(fixed)


def frozen_parameters(graph: FXGraph) -> frozenset[int]:
    """Return the parameters that no run changes: not updated, and no state of random numbers."""
    changed = {parameter for parameter, _ in graph.updates}
    for node in graph.nodes:
        if "random" in ops.get(node.op).traits:
            changed.update(node.inputs)
    return frozenset(graph.parameters) - changed
