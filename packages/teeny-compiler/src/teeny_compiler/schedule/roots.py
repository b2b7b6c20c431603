"""Which values of a graph get a place of their own, and which are computed where they are read.

A *root* is a node that a kernel computes under its own name: the result of a template or a
reduction, what the caller asks for, what a template or an indexed load reads from memory, and an
elementwise value that several kernels would otherwise compute again at too high a price. Every
other elementwise node, and every movement node, is evaluated inside of its readers.

A large value is computed again where that takes less time than writing and reading it: so a step of
training keeps what goes into an activation or a normalisation, and not what lies within.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence, Set
from dataclasses import dataclass

from teeny_core import numel, ops

from teeny_compiler.fxgraph import FXGraph, FxNode
from teeny_compiler.nest.estimate import estimate
from teeny_compiler.nest.moves import MOVEMENT, template_bases
from teeny_compiler.nest.nest import COSTS, REDUCTIONS

LEAVES = frozenset({"input", "array"})
GENERATORS = frozenset({"constant", "size", "iota", "random_bits"})
GATHERS = frozenset({"take", "take_along"})

REPEAT_COST = 3
"""Operations for each element that are rather repeated in every reader than kept in memory."""

SPREAD_COST = 8
"""Operations that are not repeated for each place to which a small value is broadcast."""

COLD = 1 << 20
"""Bytes of values, from one to where it is read last, after which it is in no near cache."""

LEAST = 1 << 16
"""Bytes of a value below which it is kept: it takes little memory."""

KEPT_COST = 20
"""Operations in the time in which a large value is written, or read, for each element."""

CONE_LIMIT = 100
"""Nodes that one root may compute on its way."""


def is_template(op: str) -> bool:
    """Whether a library kernel, not a generated one, computes an op."""
    inline = op in MOVEMENT | REDUCTIONS | LEAVES | GENERATORS | GATHERS
    return not inline and "elementwise" not in ops.get(op).traits


@dataclass(frozen=True)
class Roots:
    """The decisions for a graph: `nodes` have values of their own, `forced` ones in memory
    because the caller asks for them. What a kernel reads from memory lies there as well."""

    nodes: frozenset[int]
    forced: frozenset[int]
    fixed: frozenset[int] = frozenset()


def find_roots(graph: FXGraph, fixed: Set[int] = frozenset()) -> Roots:
    """Decide what has a place of its own; values that are `fixed` are computed apart."""
    forced = _forced(graph)
    costs = _costs(graph, forced)
    roots = {number for number in forced if graph.nodes[number].op not in LEAVES}
    readers: list[set[int]] = [set() for _ in graph.nodes]
    spread = [False] * len(graph.nodes)
    for number in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[number]
        for user in graph.users[number]:
            readers[number] |= {user} if user in roots else readers[user]
            if user not in roots and graph.nodes[user].op in MOVEMENT:
                spread[number] |= spread[user] or _repeats(graph, user)
        if node.op in LEAVES or not readers[number]:
            continue
        cost = costs[number]
        once = number in fixed and not readers[number] <= fixed and cost.pays_once
        place = once or _needs_place(cost, readers[number], spread[number])
        if cost.apart or (place and node.op not in MOVEMENT):
            roots.add(number)
    until = _bytes_until(graph, roots)
    for number in sorted(roots - forced - fixed):
        if _is_better_repeated(graph, roots, number, until):
            roots.remove(number)
    return Roots(frozenset(roots), frozenset(roots & set(graph.results)), frozenset(fixed))


@dataclass(frozen=True)
class _Cost:
    """What computing a node again takes.

    Operations and nodes down to values in memory; whether it reads any of these (`loads`);
    whether it reads results that need not go to memory (`raw`); whether it is computed apart in
    any case.
    """

    operations: int
    nodes: int
    loads: bool = True
    raw: bool = False
    apart: bool = False

    @property
    def pays_once(self) -> bool:
        """Whether a fixed value is better read from memory than computed in every run."""
        return self.operations > (0 if self.loads else REPEAT_COST)


def _needs_place(cost: _Cost, readers: set[int], spread: bool) -> bool:
    if spread and cost.operations >= SPREAD_COST:
        return True
    return len(readers) > 1 and (cost.raw or cost.operations > REPEAT_COST)


def _is_better_repeated(graph: FXGraph, roots: set[int], number: int, until: Sequence[int]) -> bool:
    """Whether every kernel that reads a value, once it is cold, rather computes it again.

    It does so from one value as large. `until` says for each node how many bytes are made up to it.
    """
    node = graph.nodes[number]
    if "elementwise" not in ops.get(node.op).traits or _nbytes(node) < LEAST:
        return False
    readers = _readers(graph, roots, number)
    if not readers or until[max(readers)] - until[number] + _nbytes(node) < COLD:
        return False
    cone, sources = _cone(graph, roots, number)
    operations = sum(COSTS.get(graph.nodes[i].op, 1) for i in cone if _computes(graph.nodes[i].op))
    large = [i for i in sources if 2 * _nbytes(graph.nodes[i]) > _nbytes(node)]
    if len(cone) > CONE_LIMIT or len(large) > 1:
        return False
    for i in large:
        if is_template(graph.nodes[i].op) and _readers(graph, roots, i) == {number}:
            return False  # it need not be in memory where its epilogue makes this of it
    if operations > REPEAT_COST and any(graph.nodes[i].op in REDUCTIONS for i in readers):
        return False  # it would be computed for the sum, and again for what follows
    return operations * (len(readers) - 1) <= KEPT_COST * len(readers)


def _computes(op: str) -> bool:
    return op not in MOVEMENT


def _readers(graph: FXGraph, roots: set[int], number: int) -> set[int] | None:
    """Return the roots that compute with a value; None where it is repeated on the way."""
    found: set[int] = set()
    stack, seen = list(graph.users[number]), set[int]()
    while stack:
        user = stack.pop()
        if user in seen:
            continue
        seen.add(user)
        if _repeats(graph, user):
            return None
        if user in roots:
            found.add(user)
        else:
            stack += graph.users[user]
    return found


def _cone(graph: FXGraph, roots: set[int], number: int) -> tuple[set[int], set[int]]:
    """Return the nodes that compute a value, itself included, and those that they read."""
    cone, sources = {number}, set[int]()
    stack = list(graph.nodes[number].inputs)
    while stack and len(cone) <= CONE_LIMIT:
        i = stack.pop()
        if i in cone or i in sources:
            continue
        if i in roots or graph.nodes[i].op in LEAVES:
            sources.add(i)
        else:
            cone.add(i)
            stack += graph.nodes[i].inputs
    return cone, sources


def _bytes_until(graph: FXGraph, roots: set[int]) -> list[int]:
    """Return for each node the bytes of all that has a place of its own up to it, itself too."""
    own = (_nbytes(node) if i in roots else 0 for i, node in enumerate(graph.nodes))
    return list(itertools.accumulate(own))


def _nbytes(node: FxNode) -> int:
    return estimate(numel(node.shape)) * node.dtype.itemsize


def _costs(graph: FXGraph, forced: set[int]) -> list[_Cost]:
    costs: list[_Cost] = []
    for number, node in enumerate(graph.nodes):
        parts = [costs[i] for i in dict.fromkeys(node.inputs)]
        nodes = 1 + sum(part.nodes for part in parts)
        if number in forced or node.op in LEAVES:
            costs.append(_Cost(0, 1))
        elif node.op in REDUCTIONS or is_template(node.op):
            costs.append(_Cost(0, 1, raw=True, apart=True))
        elif nodes > CONE_LIMIT:
            costs.append(_Cost(0, 1, apart=True))
        else:
            own = 0 if node.op in MOVEMENT else COSTS.get(node.op, 1)
            operations = own + sum(part.operations for part in parts)
            loads, raw = any(part.loads for part in parts), any(part.raw for part in parts)
            costs.append(_Cost(operations, nodes, loads, raw))
    return costs


def _repeats(graph: FXGraph, number: int) -> bool:
    node = graph.nodes[number]
    inner = numel(graph.nodes[node.inputs[0]].shape)
    return node.op == "broadcast_to" and estimate(numel(node.shape)) > 4 * estimate(inner)


def _forced(graph: FXGraph) -> set[int]:
    """Nodes that must lie in memory, whatever is fused."""
    forced = set(graph.results)
    for number, node in enumerate(graph.nodes):
        if is_template(node.op):
            forced.update(template_bases(graph, number))
        elif node.op in GATHERS or node.op == "random_bits":
            forced.add(node.inputs[0])
    return forced
