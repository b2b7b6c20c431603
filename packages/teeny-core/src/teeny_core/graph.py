"""The graph: immutable typed nodes, and a `Graph` that says what goes in and out of them."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from teeny_core import op as operations
from teeny_core import shape as shapes
from teeny_core.dtype import DType
from teeny_core.errors import GraphError, ShapeError, TeenyError
from teeny_core.name_scope import current_scope
from teeny_core.op import Attrs, OpDef, TensorType
from teeny_core.shape import Dim, Expr, Shape
from teeny_core.tree import Structure, Tree

if TYPE_CHECKING:
    from teeny_core.tensor import Tensor


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Node:
    """One operation on the results of others. Equality is identity; there is one result.

    Attributes:
        op: name of its `OpDef`.
        inputs: the operands.
        attrs: constants of the operation.
        type: shape and element type of the result.
        scope: dotted name of the place in the model that made it.
    """

    op: str
    inputs: tuple[Node, ...]
    attrs: Attrs
    type: TensorType
    scope: str = ""

    @property
    def shape(self) -> Shape:
        """Shape of the result."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """Element type of the result."""
        return self.type.dtype

    @property
    def definition(self) -> OpDef:
        """The definition of the operation."""
        return operations.get(self.op)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """Return the same operation on other operands of the same types."""
        if inputs == self.inputs:
            return self
        return Node(self.op, inputs, self.attrs, self.type, self.scope)

    def __repr__(self) -> str:
        operands = ", ".join(operand.op for operand in self.inputs)
        return f"<{self.op}({operands}): {self.type}>"


def apply(op: str, *inputs: Node, **attrs: Any) -> Node:
    """Make a node after checking its operands and attributes.

    Raises:
        TeenyError: of the type that fits, naming the operation and the types of its operands.
    """
    attributes = Attrs(attrs)
    result = operations.get(op).check(tuple(node.type for node in inputs), attributes)
    return Node(op, inputs, attributes, result, current_scope())


def topological(roots: Iterable[Node], stop: Container[Node] = ()) -> tuple[Node, ...]:
    """Return the roots and all they depend on, each after its operands; the order is stable.

    Nodes in `stop` are returned, what only they depend on is not.
    """
    done: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        if ready or node in stop or not node.inputs:
            done[node] = None
            continue
        stack.append((node, True))
        stack.extend((operand, False) for operand in reversed(node.inputs))
    return tuple(done)


def rebuild(roots: Iterable[Node], replacements: Mapping[Node, Node]) -> dict[Node, Node]:
    """Map each node under `roots` to its copy with `replacements` (used as they are) in place."""
    new: dict[Node, Node] = {}
    for node in topological(roots, stop=replacements):
        found = replacements.get(node)
        if found is None:
            found = node.with_inputs(tuple(new[operand] for operand in node.inputs))
        new[node] = found
    return new


@dataclass(frozen=True)
class Guard:
    """A node that has a value only where `large >= small`."""

    node: Node
    large: Dim
    small: Dim

    def check(self, name: str, sizes: Mapping[str, int]) -> None:
        """Check it for the sizes of a call of the graph `name`.

        Raises:
            ShapeError: naming the operation, and the sizes that it cannot have.
        """
        large, small = shapes.substitute((self.large, self.small), sizes)
        if large >= small:
            return
        node = self.node
        involved = shapes.symbols_of((self.large, self.small))
        given = ", ".join(f"{symbol} = {sizes[symbol]}" for symbol in involved)
        place = f" in {node.scope}" if node.scope else ""
        operands = ", ".join(str(operand.type) for operand in node.inputs)
        raise ShapeError(
            f"{name}: {node.op}{place} needs {self.large} >= {self.small}, got {given}",
            hint=f"it is {node.op}({operands}) -> {node.type}: pass larger inputs",
        )

    def __str__(self) -> str:
        return f"{self.large} >= {self.small}  # {self.node.op}"


@dataclass(frozen=True, eq=False)
class Graph:
    """A function of tensors.

    Attributes:
        name: what it computes, for people.
        inputs: `input` leaves in the order of the call.
        parameters: `input` leaves bound by name to persistent buffers.
        outputs: the nodes returned.
        updates: (parameter, new value), written in place when everything has run.
        bindings: the tensors that hold the parameters, by name; no part of the structure.
        arguments: the tree that a call takes, its leaves the inputs; None: one after another.
        returns: the tree that a call gives, its leaves the outputs; None: one alone, or a tuple.
    """

    name: str
    inputs: tuple[Node, ...]
    parameters: tuple[Node, ...]
    outputs: tuple[Node, ...]
    updates: tuple[tuple[Node, Node], ...] = ()
    bindings: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    arguments: Structure | None = None
    returns: Structure | None = None

    def flat(self, arguments: tuple[Tree, ...]) -> Sequence[Any]:
        """Return the values of the inputs from the arguments of a call.

        Raises:
            ShapeError: when the arguments have another structure.
        """
        return arguments if self.arguments is None else self.arguments.leaves(arguments)

    def packed(self, outputs: Sequence[Any]) -> Tree:
        """Return the values of the outputs as a call gives them."""
        if self.returns is not None:
            return self.returns.tree(iter(outputs))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, each after its operands; inputs and parameters first."""
        return topological((*self.inputs, *self.parameters, *self.results))

    @property
    def results(self) -> tuple[Node, ...]:
        """Outputs, then the new values of the updates."""
        return (*self.outputs, *(value for _, value in self.updates))

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbolic sizes, in the order in which the inputs bring them."""
        return shapes.symbols_of(tuple(node.shape for node in self.nodes))

    @cached_property
    def guards(self) -> tuple[Guard, ...]:
        """What the sizes of the inputs must fulfil, beyond what is proven; the first of equals."""
        found: dict[Dim, Guard] = {}
        for node in self.nodes:
            needs = node.definition.needs
            pairs = [*(needs(node) if needs else ()), *((extent, 0) for extent in node.shape)]
            for large, small in pairs:
                if isinstance(large - small, Expr):
                    found.setdefault(large - small, Guard(node, large, small))
        return tuple(guard for gap, guard in found.items() if not shapes.at_least(gap, 0))

    def replace(self, replacements: Mapping[Node, Node]) -> Graph:
        """Return the graph with nodes replaced by others of the same type.

        A replacement is used as it is: it may depend on the node it replaces. A parameter that is
        replaced by something other than an `input` leaf leaves the signature.

        Raises:
            GraphError: when a replacement has another type.
        """
        for old, new in replacements.items():
            if old.dtype != new.dtype or not shapes.same(old.shape, new.shape):
                raise GraphError(
                    f"cannot replace {old.op}: {old.type} by {new.op}: {new.type}",
                    hint="a replacement has the type of the node it stands for",
                )
        new_nodes = rebuild(self.nodes, replacements)
        parameters = tuple(new_nodes[node] for node in self.parameters)
        return Graph(
            self.name,
            tuple(_leaf_or(new_nodes[node], node) for node in self.inputs),
            tuple(node for node in parameters if node.op == "input"),
            tuple(new_nodes[node] for node in self.outputs),
            tuple((_leaf_or(new_nodes[p], p), new_nodes[value]) for p, value in self.updates),
            self.bindings,
            self.arguments,
            self.returns,
        )

    def verify(self) -> None:
        """Check the graph's rules.

        Raises:
            GraphError: naming the node that breaks one.
        """
        for node in self.nodes:
            _verify_node(node)
        self._verify_signature()

    def _verify_signature(self) -> None:
        leaves = (*self.inputs, *self.parameters)
        names = [leaf.attrs["name"] for leaf in leaves if leaf.op == "input"]
        if len(names) != len(leaves):
            raise GraphError(f"{self.name}: an input or parameter is no `input` leaf")
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise GraphError(f"{self.name}: two inputs or parameters are named {twice[0]!r}")
        for node in self.nodes:
            if node.op == "input" and node not in leaves:
                raise GraphError(
                    f"{self.name}: {node.attrs['name']!r} is used, but no input or parameter"
                )
            if node.op == "data":
                raise GraphError(
                    f"{self.name}: a lazy tensor's buffer {node.type} is part of the graph",
                    hint="make the graph by tn.trace, which lifts tensors to parameters",
                )
        for parameter, value in self.updates:
            if parameter not in self.parameters:
                raise GraphError(f"{self.name}: an update writes {parameter!r}, no parameter")
            if parameter.dtype != value.dtype or not shapes.same(parameter.shape, value.shape):
                raise GraphError(
                    f"{self.name}: the update of {parameter.attrs['name']!r}, {parameter.type}, "
                    f"has the type {value.type}"
                )
        bound = set(shapes.symbols_of(tuple(leaf.shape for leaf in leaves)))
        for name in self.symbols:
            if name not in bound:
                raise GraphError(f"{self.name}: no input or parameter has the extent {name!r}")

    def structural_hash(self) -> str:
        """Return a digest of the structure, the same in every process.

        Names of the graph, of its leaves, symbols and scopes do not count: symbols and leaves are
        numbered in the order of `symbols`, `inputs` and `parameters`.
        """
        return self._digest

    @cached_property
    def _digest(self) -> str:
        ids = {node: index for index, node in enumerate(self.nodes)}
        rename = {name: shapes.symbol(f"s{i}") for i, name in enumerate(self.symbols)}
        digest = hashlib.sha256()
        for node in self.nodes:
            attrs = {} if node.op == "input" else node.attrs
            key = (
                node.op,
                tuple(ids[operand] for operand in node.inputs),
                tuple((name, _canonical(value, rename)) for name, value in attrs.items()),
                _canonical(node.shape, rename),
                node.dtype.name,
            )
            digest.update(repr(key).encode())
        ends = (
            tuple(ids[node] for node in self.inputs),
            tuple(ids[node] for node in self.parameters),
            tuple(ids[node] for node in self.outputs),
            tuple((ids[parameter], ids[value]) for parameter, value in self.updates),
        )
        digest.update(repr(ends).encode())
        return digest.hexdigest()

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _leaf_or(node: Node, otherwise: Node) -> Node:
    return node if node.op == "input" else otherwise


def _verify_node(node: Node) -> None:
    if node.op == "input":  # its type is given, not inferred
        return
    try:
        inferred = node.definition.check(tuple(operand.type for operand in node.inputs), node.attrs)
    except TeenyError as error:
        raise GraphError(f"{node!r}: {error.message}", hint=error.hint) from error
    if inferred.dtype != node.dtype or not shapes.same(inferred.shape, node.shape):
        raise GraphError(f"{node!r} says {node.type}, its operation gives {inferred}")


@runtime_checkable
class Hashed(Protocol):
    """An attribute whose content is known by a digest, the same in every process."""

    @property
    def digest(self) -> str:
        """The digest."""


_PLAIN = (int, str, DType)
"""Kinds of attributes that are told apart by their text; most are, and asking for these is fast."""


def _canonical(value: Any, rename: Mapping[str, Dim]) -> object:
    if isinstance(value, tuple):
        return tuple([_canonical(item, rename) for item in value])
    if isinstance(value, Expr):
        return ("dim", str(shapes.substitute(value, rename)))
    if isinstance(value, float):
        return ("float", value.hex())
    if not isinstance(value, _PLAIN) and isinstance(value, Hashed):
        return ("digest", value.digest)
    return (type(value).__name__, str(value))


def node_names(graph: Graph) -> dict[Node, str]:
    """Return the name under which each node is printed: `%x` for leaves, `%0`, `%1`, … else."""
    names: dict[Node, str] = {}
    count = 0
    for node in graph.nodes:
        if node.op == "input":
            names[node] = f"%{node.attrs['name']}"
        else:
            names[node] = f"%{count}"
            count += 1
    return names


def _lines(graph: Graph) -> Iterator[str]:
    names = node_names(graph)
    inputs = ", ".join(f"{names[node]}: {node.type}" for node in graph.inputs)
    outputs = ", ".join(str(node.type) for node in graph.outputs)
    yield f"graph {graph.name}({inputs}) -> ({outputs}) {{"
    for node in graph.parameters:
        yield f"  parameter {names[node]}: {node.type}"
    for guard in graph.guards:
        yield f"  guard {guard}"
    for node in graph.nodes:
        if node.op != "input":
            yield f"  {_node_text(node, names)}"
    for parameter, value in graph.updates:
        yield f"  update {names[parameter]} <- {names[value]}"
    yield f"  return {', '.join(names[node] for node in graph.outputs)}"
    yield "}"


def _node_text(node: Node, names: Mapping[Node, str]) -> str:
    operands = ", ".join(names[operand] for operand in node.inputs)
    attrs = f" {{{node.attrs}}}" if node.attrs else ""
    scope = f"  # {node.scope}" if node.scope else ""
    return f"{names[node]} = {node.op}({operands}){attrs} : {node.type}{scope}"
