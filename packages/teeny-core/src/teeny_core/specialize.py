"""Specialisation: one program for all sizes, and beside it others for sizes that are hot.

A program for a fixed size knows its trip counts and needs no masks where they divide; that for all
sizes serves the rest. Which one runs is decided at each call by the extents of its inputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from teeny_core.device import Buffer, Program
from teeny_core.errors import ConfigError, ShapeError
from teeny_core.expr import plain_symbol
from teeny_core.graph import Graph, Guard, Node
from teeny_core.op import Attrs, TensorType
from teeny_core.ops import constant
from teeny_core.shape import substitute, symbols_of
from teeny_core.tree import Tree

MOST_PROGRAMS = 16
"""Programs beside that for all sizes."""


class SpecializedProgram(Program):
    """A program for all sizes, and programs for some values of some of them."""

    def __init__(
        self, general: Program, places: Sequence[Place], special: Mapping[Sizes, Program]
    ) -> None:
        self._general = general
        self._places = places
        self._special = special

    @property
    def graph(self) -> Graph:
        """The graph for all sizes."""
        return self._general.graph

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards of the program for all sizes."""
        return self._general.guards

    def __call__(self, *arguments: Tree) -> Tree:
        """Run the program for the sizes of the arguments.

        Raises:
            TeenyError: when an array does not fit its input.
        """
        return self._for(arguments)(*arguments)

    def run(self, *buffers: Buffer) -> tuple[Buffer, ...]:
        """Run the program for the sizes of the buffers."""
        return self._chosen(buffers).run(*buffers)

    def emit(self, stage: str) -> str:
        """Return the text of a stage for each of the programs, under the sizes that it serves.

        Raises:
            TeenyError: when there is no stage of that name.
        """
        named = [(self._guard(sizes), program) for sizes, program in self._special.items()]
        named.append(("any other size", self._general))
        return "\n\n".join(f"# {guard}\n{program.emit(stage)}" for guard, program in named)

    def to_svg(self, stage: str = "schedule") -> str:
        """Draw a stage of the program for all sizes.

        Raises:
            TeenyError: when the device does not draw a stage of that name.
        """
        return self._general.to_svg(stage)

    def profile(self, *arguments: Tree, runs: int = 20) -> Any:
        """Run the program for the sizes of the arguments several times, and say where time goes.

        Raises:
            TeenyError: when an array does not fit, or the device takes no times.
        """
        return self._for(arguments).profile(*arguments, runs=runs)

    def stats(self) -> Mapping[str, Any]:
        """Return the figures of the program for all sizes, and under `special` those of others."""
        special = {self._guard(sizes): program.stats() for sizes, program in self._special.items()}
        return {**self._general.stats(), "special": special}

    def _for(self, arguments: tuple[Tree, ...]) -> Program:
        return self._chosen(self.graph.flat(arguments))

    def _chosen(self, values: Sequence[Any]) -> Program:
        """Return the program for some inputs; that for all sizes says what does not fit."""
        try:
            sizes = tuple(np.shape(values[place.input])[place.axis] for place in self._places)
        except IndexError:
            return self._general
        return self._special.get(sizes, self._general)

    def _guard(self, sizes: Sizes) -> str:
        pairs = zip(self._places, sizes, strict=True)
        return ", ".join(f"{place.name} = {size}" for place, size in pairs)


class Place:
    """Where a call shows a size: an axis of an input."""

    __slots__ = ("axis", "input", "name")

    def __init__(self, graph: Graph, name: str) -> None:
        self.name = name
        places = (
            (number, axis)
            for number, node in enumerate(graph.inputs)
            for axis, extent in enumerate(node.shape)
            if plain_symbol(extent) == name
        )
        found = next(places, None)
        if found is None:
            shown = [plain_symbol(extent) for node in graph.inputs for extent in node.shape]
            known = ", ".join(dict.fromkeys(filter(None, shown))) or "none"
            raise ShapeError(
                f"{graph.name}: no input has the symbolic size {name!r}, so none is special",
                hint=f"the symbolic sizes of its inputs are: {known}",
            )
        self.input, self.axis = found


Sizes: TypeAlias = tuple[int, ...]


def specialized(
    graph: Graph, wanted: Mapping[str, Sequence[int]], compiled: Callable[[Graph], Program]
) -> Program:
    """Compile a graph for all sizes, and for each combination of some values of some.

    Args:
        graph: what to compile.
        wanted: the values of each size, by its name.
        compiled: compiles a graph.

    Raises:
        ShapeError: no input has a size of that name, or the graph cannot have the value.
        ConfigError: these are too many programs.
    """
    places = [Place(graph, name) for name in wanted]
    values = [dict.fromkeys(_checked(graph, name, sizes)) for name, sizes in wanted.items()]
    combinations = list(itertools.product(*values))
    if len(combinations) > MOST_PROGRAMS:
        raise ConfigError(
            f"{graph.name}: specialize asks for {len(combinations)} programs",
            hint=f"name at most {MOST_PROGRAMS} combinations of sizes",
        )
    fixed = [with_sizes(graph, dict(zip(wanted, sizes, strict=True))) for sizes in combinations]
    special = dict(zip(combinations, map(compiled, fixed), strict=True))
    return SpecializedProgram(compiled(graph), places, special)


def _checked(graph: Graph, name: str, sizes: Sequence[int]) -> Sequence[int]:
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ShapeError(
                f"{graph.name}: {name} cannot be {size!r}",
                hint="a size is a whole number, 0 or more",
            )
    return sizes


def with_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """Return a graph with numbers in place of some symbolic sizes.

    Raises:
        ShapeError: when it cannot have such sizes.
    """
    for guard in graph.guards:
        if sizes.keys() >= {*symbols_of((guard.large, guard.small))}:
            guard.check(graph.name, sizes)
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        inputs = tuple(new[operand] for operand in node.inputs)
        kind = TensorType(substitute(node.shape, sizes), node.dtype)
        attrs: Attrs = substitute(node.attrs, sizes)
        if node.op == "size" and isinstance(attrs["dim"], int):
            new[node] = constant(node.definition.reference(attrs).item(), node.dtype)
        else:
            new[node] = Node(node.op, inputs, attrs, kind, node.scope)
    return Graph(
        graph.name,
        tuple(new[node] for node in graph.inputs),
        tuple(new[node] for node in graph.parameters),
        tuple(new[node] for node in graph.outputs),
        tuple((new[parameter], new[value]) for parameter, value in graph.updates),
        graph.bindings,
        graph.arguments,
        graph.returns,
    )
