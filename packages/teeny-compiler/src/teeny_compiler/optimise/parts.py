"""Graphs too large to be searched as a whole, part by part: the time grows with the size only."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from teeny_compiler.fxgraph import FxBuilder, FXGraph


def in_parts(
    graph: FXGraph, size: int, fixed: Set[int], rewrite: Callable[[FXGraph], FXGraph]
) -> FXGraph:
    """Rewrite each run of `size` nodes as a graph of its own, and put the results together.

    What a part reads from before is an input of it, or, for `fixed` values, a parameter. Values
    without operands, such as constants, are known in each part that reads them.
    """
    builder = FxBuilder(graph.name)
    new = {
        number: builder.leaf(graph.nodes[number].attrs["name"], graph.nodes[number].type)
        for number in (*graph.inputs, *graph.parameters)
    }
    rest = [number for number, node in enumerate(graph.nodes) if node.op != "input"]
    for start in range(0, len(rest), size):
        members = rest[start : start + size]
        part, sources, results = _part(graph, members, fixed)
        done = rewrite(part)
        leaves = dict(zip((*done.inputs, *done.parameters), sources, strict=True))
        numbers: list[int] = []
        for number, node in enumerate(done.nodes):
            if number in leaves:
                numbers.append(new[leaves[number]])
                continue
            operands = [numbers[i] for i in node.inputs]
            numbers.append(builder.add(node.op, operands, node.attrs, node.scope))
        for old, output in zip(results, done.outputs, strict=True):
            new[old] = numbers[output]
    return builder.finish(
        [new[i] for i in graph.inputs],
        [new[i] for i in graph.parameters],
        [new[i] for i in graph.outputs],
        [(new[parameter], new[value]) for parameter, value in graph.updates],
    )


def _part(
    graph: FXGraph, members: Sequence[int], fixed: Set[int]
) -> tuple[FXGraph, list[int], list[int]]:
    """Return some nodes as a graph, the nodes behind its leaves, and those of its outputs."""
    inside, wanted = set(members), set(graph.results)
    outside = sorted({i for number in members for i in graph.nodes[number].inputs} - inside)
    builder = FxBuilder(graph.name)
    new: dict[int, int] = {}
    for number in outside:
        node = graph.nodes[number]
        if node.inputs or node.op == "input":
            new[number] = builder.leaf(f"%{number}", node.type)
        else:
            new[number] = builder.add(node.op, [], node.attrs, node.scope)
    leaves = [number for number in outside if builder.nodes[new[number]].op == "input"]
    inputs = [number for number in leaves if number not in fixed]
    parameters = [number for number in leaves if number in fixed]
    for number in members:
        node = graph.nodes[number]
        operands = [new[i] for i in node.inputs]
        new[number] = builder.add(node.op, operands, node.attrs, node.scope)
    results = [
        number
        for number in members
        if number in wanted or not inside.issuperset(graph.users[number])
    ]
    part = builder.finish(
        [new[i] for i in inputs], [new[i] for i in parameters], [new[i] for i in results]
    )
    return part, [*inputs, *parameters], results
