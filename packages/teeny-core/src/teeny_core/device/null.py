"""The null device: checks everything, computes nothing, returns zeros."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from teeny_core import shape as shapes
from teeny_core.device.base import Buffer, Device, HostBuffer, Options, Program
from teeny_core.device.calling import check_arguments, check_parameters
from teeny_core.dtype import DType
from teeny_core.graph import Graph
from teeny_core.tree import Tree

if TYPE_CHECKING:
    from teeny_core.tensor import Tensor


class NullProgram(Program):
    """A program that returns zeros of the right shapes and types."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @property
    def graph(self) -> Graph:
        """The graph that was checked."""
        return self._graph

    def __call__(self, *arguments: Tree) -> Tree:
        """Check the arguments and return zeros."""
        _, env = check_arguments(self._graph, self._graph.flat(arguments))
        outputs = tuple(
            np.zeros(shapes.substitute(node.shape, env), node.dtype.numpy)
            for node in self._graph.outputs
        )
        return self._graph.packed(outputs)


class NullDevice(Device):
    """A device without hardware: the whole pipeline up to the arithmetic."""

    @property
    def name(self) -> str:
        """The name, null."""
        return "null"

    @property
    def computes(self) -> bool:
        """It does not."""
        return False

    def compile(
        self, graph: Graph, parameters: Mapping[str, Tensor], options: Options | None = None
    ) -> NullProgram:
        """Verify the graph and its bindings."""
        graph.verify()
        check_parameters(graph, parameters)
        return NullProgram(graph)

    def allocate(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """Return zeros in host memory."""
        return HostBuffer(np.zeros(shape, dtype.numpy))

    def owns(self, buffer: Buffer) -> bool:
        """Any buffer will do."""
        return True

    def properties(self) -> Mapping[str, str]:
        """Say what it is."""
        return {"kind": "no hardware, returns zeros"}
