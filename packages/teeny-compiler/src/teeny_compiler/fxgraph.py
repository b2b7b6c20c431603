"""FXGraph: the flat canonical form of a graph on which the compiler works.

Nodes are numbered by position, each after its operands. Two nodes never compute the same value
(common subexpressions are shared), nothing is dead, and movement ops that move nothing are gone;
so is `stop_gradient`, which has done its work by now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from teeny_core import (
    Attrs,
    CompileError,
    DType,
    Graph,
    Node,
    Shape,
    TeenyError,
    TensorType,
    equal,
    ops,
    symbols_of,
)
from teeny_core import shape as shapes
from teeny_core.internal import topological

UNSHARED = frozenset({"input"})
"""Ops whose nodes are distinct even when they look the same."""


@dataclass(frozen=True)
class FxNode:
    """One primitive op on the results of earlier nodes, given by their numbers."""

    op: str
    inputs: tuple[int, ...]
    attrs: Attrs
    type: TensorType
    scope: str = field(default="", compare=False)

    @property
    def shape(self) -> Shape:
        """Shape of the result."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """Element type of the result."""
        return self.type.dtype


@dataclass(frozen=True)
class FXGraph:
    """A function of tensors over `nodes`; everything else refers to them by number.

    `inputs` are bound in the order of the call, `parameters` to persistent buffers, and each of
    `updates` is a parameter with the value that its buffer has when everything has run.
    """

    name: str
    nodes: tuple[FxNode, ...]
    inputs: tuple[int, ...]
    parameters: tuple[int, ...]
    outputs: tuple[int, ...]
    updates: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def from_graph(graph: Graph, keep: Callable[[Node], bool] | None = None) -> FXGraph:
        """Bring a graph into canonical form.

        Args:
            graph: the graph.
            keep: whether a composite op stays one, since a kernel computes it; else it is spelled
                out.

        Raises:
            CompileError: when it holds a lazy tensor's buffer, which only lifting makes an input.
        """
        builder = FxBuilder(graph.name)
        ids: dict[Node, int] = {}

        def number(node: Node) -> int:
            expand = node.definition.expand
            if expand is None or (keep is not None and keep(node)):
                operands = [ids[operand] for operand in node.inputs]
                return builder.add(node.op, operands, node.attrs, node.scope)
            spelled = expand(node)
            visit(topological((spelled,)))
            return ids[spelled]

        def visit(nodes: Iterable[Node]) -> None:
            for node in nodes:
                if node not in ids:
                    ids[node] = number(node)

        for node in (*graph.inputs, *graph.parameters):
            ids[node] = builder.leaf(node.attrs["name"], node.type)
        visit(graph.nodes)
        return builder.finish(
            inputs=[ids[node] for node in graph.inputs],
            parameters=[ids[node] for node in graph.parameters],
            outputs=[ids[node] for node in graph.outputs],
            updates=[(ids[parameter], ids[value]) for parameter, value in graph.updates],
        )

    def to_graph(self) -> Graph:
        """Return the same function as a graph of the core."""
        nodes: list[Node] = []
        for node in self.nodes:
            operands = tuple(nodes[i] for i in node.inputs)
            nodes.append(Node(node.op, operands, node.attrs, node.type, node.scope))
        return Graph(
            self.name,
            tuple(nodes[i] for i in self.inputs),
            tuple(nodes[i] for i in self.parameters),
            tuple(nodes[i] for i in self.outputs),
            tuple((nodes[parameter], nodes[value]) for parameter, value in self.updates),
        )

    @property
    def results(self) -> tuple[int, ...]:
        """Outputs, then the new values of the updates."""
        return (*self.outputs, *(value for _, value in self.updates))

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the nodes that read it, in order and without repetition."""
        users: list[dict[int, None]] = [{} for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            for operand in node.inputs:
                users[operand][number] = None
        return tuple(map(tuple, users))

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbolic sizes, in the order in which the inputs bring them."""
        return symbols_of(tuple(node.shape for node in self.nodes))

    def verify(self) -> None:
        """Check the form and infer every type anew.

        Raises:
            CompileError: naming the node that breaks a rule.
        """
        for problem in _problems(self):
            raise CompileError(
                f"FXGraph {self.name!r}: {problem}",
                hint="this is a defect of the compiler; report the graph that shows it",
            )

    def __str__(self) -> str:
        names = [_name(i, node) for i, node in enumerate(self.nodes)]
        inputs = ", ".join(f"{names[i]}: {self.nodes[i].type}" for i in self.inputs)
        lines = [f"fxgraph {self.name}({inputs}) {{"]
        lines += [f"  parameter {names[i]}: {self.nodes[i].type}" for i in self.parameters]
        for i, node in enumerate(self.nodes):
            if node.op == "input":
                continue
            operands = ", ".join(names[operand] for operand in node.inputs)
            attrs = f" {{{node.attrs}}}" if node.attrs else ""
            lines.append(f"  {names[i]} = {node.op}({operands}){attrs} : {node.type}")
        lines += [f"  update {names[p]} <- {names[value]}" for p, value in self.updates]
        lines.append(f"  return {', '.join(names[i] for i in self.outputs)}")
        return "\n".join((*lines, "}"))


class FxBuilder:
    """Adds nodes one by one, sharing equal ones; `finish` drops what nothing needs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[FxNode] = []
        self._known: dict[tuple[str, tuple[int, ...], Attrs, TensorType], int] = {}

    def leaf(self, name: str, kind: TensorType) -> int:
        """Add an input or parameter."""
        self.nodes.append(FxNode("input", (), Attrs(name=name), kind))
        return len(self.nodes) - 1

    def add(
        self,
        name: str,
        inputs: Sequence[int] = (),
        attrs: Mapping[str, Any] | None = None,
        scope: str = "",
    ) -> int:
        """Add an op and return the number of the node that holds its result.

        Raises:
            CompileError: for a leaf that the compiler cannot bind.
            TeenyError: when the op does not take these operands.
        """
        if name in ("data", "input"):
            raise CompileError(
                f"{self.name}: a {name!r} leaf is neither input nor parameter of the graph",
                hint="trace the function, so that the tensors it uses become parameters",
            )
        attributes = _canonical(name, attrs if isinstance(attrs, Attrs) else Attrs(attrs or {}))
        types = tuple(self.nodes[i].type for i in inputs)
        kind = ops.get(name).check(types, attributes)
        if name == "stop_gradient" or _moves_nothing(name, types, attributes, kind):
            return inputs[0]
        key = (name, tuple(inputs), attributes, kind)
        found = self._known.get(key)
        if found is not None:
            return found
        self.nodes.append(FxNode(name, tuple(inputs), attributes, kind, scope))
        self._known[key] = len(self.nodes) - 1
        return self._known[key]

    def type(self, node: int) -> TensorType:
        """Return the type of a node."""
        return self.nodes[node].type

    def finish(
        self,
        inputs: Sequence[int],
        parameters: Sequence[int],
        outputs: Sequence[int],
        updates: Sequence[tuple[int, int]] = (),
    ) -> FXGraph:
        """Return the graph of what outputs and updates need, and of all inputs and parameters."""
        live = {*inputs, *parameters, *outputs, *(value for _, value in updates)}
        for number in range(len(self.nodes) - 1, -1, -1):
            if number in live:
                live.update(self.nodes[number].inputs)
        new = {old: number for number, old in enumerate(sorted(live))}
        nodes = tuple(_renumbered(self.nodes[old], new) for old in new)
        return FXGraph(
            self.name,
            nodes,
            tuple(new[i] for i in inputs),
            tuple(new[i] for i in parameters),
            tuple(new[i] for i in outputs),
            tuple((new[parameter], new[value]) for parameter, value in updates),
        )


Change: TypeAlias = Callable[[FxBuilder, int, Sequence[int]], int | None]
"""From the number of a node, and the new numbers of all before it, to that of the node in its
place; None: the same op on the new operands."""


def rewritten(graph: FXGraph, change: Change) -> FXGraph:
    """Return a graph with nodes replaced one by one, operands first."""
    builder = FxBuilder(graph.name)
    new: list[int] = []
    for number, node in enumerate(graph.nodes):
        if node.op == "input":
            new.append(builder.leaf(node.attrs["name"], node.type))
            continue
        found = change(builder, number, new)
        if found is None:
            inputs = [new[i] for i in node.inputs]
            found = builder.add(node.op, inputs, node.attrs, node.scope)
        new.append(found)
    return builder.finish(
        [new[i] for i in graph.inputs],
        [new[i] for i in graph.parameters],
        [new[i] for i in graph.outputs],
        [(new[parameter], new[value]) for parameter, value in graph.updates],
    )


def _renumbered(node: FxNode, new: Mapping[int, int]) -> FxNode:
    return FxNode(node.op, tuple(new[i] for i in node.inputs), node.attrs, node.type, node.scope)


def _canonical(name: str, attrs: Attrs) -> Attrs:
    """Round a constant to its dtype, so that equal values are equal nodes."""
    if name != "constant":
        return attrs
    dtype: DType = attrs["dtype"]
    with np.errstate(all="ignore"):
        value = np.asarray(attrs["value"]).astype(dtype.numpy)
    kind = bool if dtype.is_bool else int if dtype.is_int else float
    return Attrs({**attrs, "value": kind(value)})


def _moves_nothing(
    name: str, types: Sequence[TensorType], attrs: Attrs, result: TensorType
) -> bool:
    match name:
        case "reshape" | "broadcast_to":
            return shapes.same(types[0].shape, result.shape)
        case "permute":
            return tuple(attrs["axes"]) == tuple(range(types[0].rank))
        case "cast" | "bitcast":
            return types[0].dtype == result.dtype
        case "flip":
            return all(equal(types[0].shape[axis], 1) for axis in attrs["axes"])
        case "slice":
            return all(step == 1 for step in attrs["steps"]) and shapes.same(
                types[0].shape, result.shape
            )
        case "pad":
            return all(equal(extent, 0) for extent in (*attrs["low"], *attrs["high"]))
        case "concat":
            return len(types) == 1
        case "sum" | "prod" | "max" | "min":
            return not attrs["axes"] and types[0].dtype == result.dtype
    return False


def _name(number: int, node: FxNode) -> str:
    return f"%{node.attrs['name']}" if node.op == "input" else f"%{number}"


def _problems(graph: FXGraph) -> Iterator[str]:
    leaves = (*graph.inputs, *graph.parameters)
    for number, node in enumerate(graph.nodes):
        if any(not 0 <= operand < number for operand in node.inputs):
            yield f"%{number} {node.op} reads a later node"
            continue
        if node.op == "input":
            if number not in leaves:
                yield f"%{number} is neither input nor parameter"
            continue
        types = tuple(graph.nodes[i].type for i in node.inputs)
        try:
            found = ops.get(node.op).check(types, node.attrs)
        except TeenyError as error:
            yield f"%{number}: {error.message}"
            continue
        if found.dtype != node.dtype or not shapes.same(found.shape, node.shape):
            yield f"%{number} {node.op} says {node.type}, its op gives {found}"
    for number in (*leaves, *graph.results, *(parameter for parameter, _ in graph.updates)):
        if not 0 <= number < len(graph.nodes):
            yield f"%{number} does not exist"
    for number in leaves:
        if graph.nodes[number].op != "input":
            yield f"%{number} is no leaf"
    for parameter, value in graph.updates:
        old, new = graph.nodes[parameter].type, graph.nodes[value].type
        if parameter not in graph.parameters:
            yield f"%{parameter} is updated but no parameter"
        elif old.dtype != new.dtype or not shapes.same(old.shape, new.shape):
            yield f"%{parameter}: {old} is updated by {new}"
