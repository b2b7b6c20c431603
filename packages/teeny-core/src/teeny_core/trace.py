"""Tracing: a function of tensors, or a layer, becomes a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from textwrap import shorten
from typing import Any, Protocol, TypeAlias, runtime_checkable

from teeny_core import ops
from teeny_core import random as randomness
from teeny_core.context import Trace, tracing, training
from teeny_core.device import Device, Program
from teeny_core.device import device as get_device
from teeny_core.device.base import Options
from teeny_core.errors import TraceError
from teeny_core.graph import Graph, Node, rebuild, topological
from teeny_core.specialize import specialized
from teeny_core.storage import Storage
from teeny_core.tensor import AnyTensor, SymTensor, Tensor, realize
from teeny_core.tree import LEAF, Structure, Tree, flatten

Function: TypeAlias = Callable[..., Any]


@runtime_checkable
class Parametric(Protocol):
    """Something with named tensors, such as a layer."""

    def named_tensors(self) -> Iterable[tuple[str, Tensor]]:
        """Return the tensors that it uses, with their qualified names."""


def trace(
    function: Function,
    *arguments: Tree,
    train: bool = False,
    parameters: Mapping[str, Tensor] | None = None,
    name: str | None = None,
) -> Graph:
    """Run a function on symbolic tensors and return what it did as a graph.

    Concrete tensors that it uses become parameters of the graph, under their names where they are
    known, else as `captured.0`, `captured.1`, … Tensors that it assigns become updates.

    Args:
        function: takes the arguments, returns a tensor or a tree of tensors; a layer, or anything
            with `named_tensors()`, brings the names of its tensors.
        arguments: what its inputs look like: `SymTensor.input(dtype, shape)`, alone or in tuples,
            lists, dicts and dataclasses. A program takes and gives arrays in the same structure.
        train: whether layers behave as in training.
        parameters: names of tensors, where `function` does not bring them.
        name: name of the graph; that of the function unless given.

    Raises:
        TraceError: when an argument or a result is no tensor, or a value is asked for.
    """
    named = _named(function, parameters)
    realize(*named.values())
    names = {tensor.storage: key for key, tensor in reversed(named.items())}  # the first one wins
    given, structure = flatten(arguments)
    leaves = _input_leaves(function, given, structure, named)
    with tracing() as run, training(train):
        value = function(*structure.tree(SymTensor(leaf) for leaf in leaves))
        updates = run.finish()
    results, returns = flatten(value)
    nodes = tuple(map(_node, results))
    updates = (*updates, *_next_state(run))
    graph = _lifted(name or _name(function), leaves, nodes, updates, named, names)
    plain = returns == LEAF or (returns.kind is tuple and _is_flat(returns) and len(results) != 1)
    return replace(
        graph,
        arguments=None if _is_flat(structure) else structure,
        returns=None if plain else returns,
    )


def compile(
    graph: Graph,
    device: str | Device | None = None,
    parameters: Mapping[str, Tensor] | None = None,
    options: Options | None = None,
    *,
    specialize: Mapping[str, Sequence[int]] | None = None,
) -> Program:
    """Compile a graph for a device.

    Args:
        graph: what to compile.
        device: a device or its name; the default one unless given.
        parameters: tensors that hold the parameters; those found by `trace` unless given. The
            program keeps their buffers, so that it sees what is assigned to them.
        options: settings of the compiler.
        specialize: by the names of symbolic sizes, values that are hot: each combination of them,
            at most 16, gets a program of its own, which calls with such inputs run; all others
            run the one for any size.

    Raises:
        TraceError: when it is no graph, but what one could be traced from.
        CompileError: when the device cannot compile it.
        ShapeError: when no input has a size to specialise, or the graph cannot have its value.
        ConfigError: when too many programs are asked for.
    """
    if not isinstance(graph, Graph):
        raise TraceError(
            f"compile takes a graph, not a {type(graph).__name__}",
            hint="trace it first: tn.trace(model, tn.SymTensor.input(tn.f32, (None, 784)))",
        )
    bound = {**graph.bindings, **(parameters or {})}
    target = get_device(device)

    def compiled(graph: Graph) -> Program:
        return target.compile(graph, bound, options)

    return specialized(graph, specialize, compiled) if specialize else compiled(graph)


def _named(function: Function, parameters: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    own: dict[str, Tensor] = {}
    if isinstance(function, Parametric):
        own.update(function.named_tensors())
    return {**own, **(parameters or {}), randomness.STATE: randomness.state()}


def _name(function: Function) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else name


def _input_leaves(
    function: Function,
    arguments: Sequence[Any],
    structure: Structure,
    named: Mapping[str, Tensor],
) -> tuple[Node, ...]:
    taken = set(named)
    leaves = []
    paths = [
        (number, path)
        for number, part in enumerate(structure.parts)
        for path in part.paths(_argument_name(function, number))
    ]
    for place, (argument, (number, path)) in enumerate(zip(arguments, paths, strict=True)):
        if not isinstance(argument, SymTensor) or argument.node.op != "input":
            raise TraceError(
                f"argument {number} of trace is {shorten(repr(argument), 60)}",
                hint="describe it: SymTensor.input(tn.f32, (None, 784))",
            )
        name = argument.node.attrs["name"] or path
        if name in taken:
            name = f"{name}_{place}"
        taken.add(name)
        leaves.append(ops.input(name, argument.shape, argument.dtype))
    return tuple(leaves)


def _argument_name(function: Function, place: int) -> str:
    target = getattr(function, "call", function)
    try:
        listed = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        listed = []
    plain = [p.name for p in listed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return plain[place] if place < len(plain) else f"x{place}"


def _node(value: Any) -> Node:
    if not isinstance(value, AnyTensor):
        raise TraceError(
            f"a traced function returned {type(value).__name__}",
            hint="return a tensor, or tuples, lists, dicts and dataclasses of tensors",
        )
    return value.node


def _is_flat(structure: Structure) -> bool:
    return all(part == LEAF for part in structure.parts)


def _next_state(run: Trace) -> tuple[tuple[Node, Node], ...]:
    """The random state moves on by one step in each run of a graph that uses it."""
    if not run.sites:
        return ()
    leaf = randomness.state().node
    return ((leaf, randomness.advanced(leaf)),)


def _lifted(
    name: str,
    inputs: tuple[Node, ...],
    results: tuple[Node, ...],
    updates: tuple[tuple[Node, Node], ...],
    named: Mapping[str, Tensor],
    names: Mapping[Storage, str],
) -> Graph:
    """Make the graph, with the buffers of concrete tensors as its parameters."""
    roots = (*results, *(node for update in updates for node in update))
    order = topological(roots)
    for node in order:
        if node.op == "input" and node not in inputs:
            raise TraceError(
                f"the function uses {node.attrs['name']!r}, an input of another trace",
                hint="pass it as an argument",
            )
    bindings: dict[str, Tensor] = {}
    leaves: dict[Storage, Node] = {}
    replacements: dict[Node, Node] = {}
    for node in order:
        if node.op != "data":
            continue
        storage = node.attrs["handle"]
        if storage not in leaves:
            key = names.get(storage) or f"captured.{sum(b not in named for b in bindings)}"
            leaves[storage] = ops.input(key, node.shape, node.dtype)
            bindings[key] = named[key] if key in named else Tensor.from_node(node)
        replacements[node] = leaves[storage]
    new = rebuild(roots, replacements)
    return Graph(
        name,
        inputs,
        tuple(leaves.values()),
        tuple(new[node] for node in results),
        tuple((new[leaf], new[value]) for leaf, value in updates),
        bindings,
    )
