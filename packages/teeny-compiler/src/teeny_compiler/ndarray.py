"""The NumPy device: runs a graph node by node, by the reference of each op.

It is slow and always there: the meaning against which compiled devices are tested.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from teeny_core import DeviceError, DType, Graph, Tensor
from teeny_core.device import Buffer, Device, HostBuffer, Options, Program
from teeny_core.internal import Tree, check_parameters, evaluate_updates, settle

from teeny_compiler.fxgraph import FXGraph


class NdarrayProgram(Program):
    """A graph with the tensors that hold its parameters."""

    def __init__(self, graph: Graph, parameters: Mapping[str, Tensor], device: Device) -> None:
        self._graph = graph
        self._device = device
        names = [node.attrs["name"] for node in graph.parameters]
        self._storages = {name: parameters[name].storage for name in names}
        self._runs = 0
        self._seconds = 0.0

    @property
    def graph(self) -> Graph:
        """The graph that runs."""
        return self._graph

    def __call__(self, *arguments: Tree) -> Tree:
        """Evaluate the graph, then write the updates into the parameters' buffers."""
        start = time.perf_counter()
        if self._graph.updates:
            settle()
        buffers = {name: s.place(self._device) for name, s in self._storages.items()}
        values = {name: buffer.numpy() for name, buffer in buffers.items()}
        outputs, updates = evaluate_updates(self._graph, self._graph.flat(arguments), values)
        for name, value in updates.items():
            buffers[name].write(value)
        self._runs += 1
        self._seconds += time.perf_counter() - start
        return self._graph.packed(outputs)

    def emit(self, stage: str) -> str:
        """Return the text of the stage "graph" or "fxgraph".

        Raises:
            DeviceError: for any other stage.
        """
        if stage == "graph":
            return str(self._graph)
        if stage == "fxgraph":
            return str(FXGraph.from_graph(self._graph))
        raise DeviceError(
            f"the device 'ndarray' has no stage {stage!r}",
            hint="its stages are graph and fxgraph; the device 'cpu' has more",
        )

    def stats(self) -> Mapping[str, Any]:
        """Return the number of nodes by op, of runs, and of seconds spent in them."""
        ops = Counter(node.op for node in self._graph.nodes)
        return {"nodes": dict(ops), "runs": self._runs, "seconds": self._seconds}


class NdarrayDevice(Device):
    """Host memory and NumPy."""

    @property
    def name(self) -> str:
        """The name, ndarray."""
        return "ndarray"

    def compile(
        self, graph: Graph, parameters: Mapping[str, Tensor], options: Options | None = None
    ) -> NdarrayProgram:
        """Verify the graph and its bindings."""
        graph.verify()
        check_parameters(graph, parameters)
        return NdarrayProgram(graph, parameters, self)

    def allocate(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """Return memory of the host."""
        return HostBuffer(np.empty(shape, dtype.numpy))

    def owns(self, buffer: Buffer) -> bool:
        """Whether a buffer lies in the host's memory."""
        return isinstance(buffer, HostBuffer)

    def properties(self) -> Mapping[str, str]:
        """Say what computes."""
        return {"kind": "reference, one node at a time", "numpy": np.__version__}
