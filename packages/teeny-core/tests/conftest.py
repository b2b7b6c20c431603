"""Fixtures: functions and programs run by the reference of each operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core.internal import evaluate_updates, settle

Array = np.ndarray[Any, Any]


class ReferenceProgram(tn.Program):
    """A graph evaluated by the reference of each operation; parameters change in place."""

    def __init__(self, graph: tn.Graph, parameters: Mapping[str, tn.Tensor]) -> None:
        self._graph = graph
        self._parameters = parameters

    @property
    def graph(self) -> tn.Graph:
        return self._graph

    def __call__(self, *arrays: Any) -> Any:
        settle()
        buffers = {name: tensor.storage.buffer for name, tensor in self._parameters.items()}
        values = {name: buffer.numpy() for name, buffer in buffers.items()}
        outputs, updates = evaluate_updates(self._graph, self._graph.flat(arrays), values)
        for name, value in updates.items():
            buffers[name].write(value)
        return self._graph.packed(outputs)


class ReferenceDevice(tn.Device):
    """The device that the tests of this package run on. It counts what it compiles."""

    def __init__(self) -> None:
        self.compiled = 0

    @property
    def name(self) -> str:
        return "reference"

    def compile(
        self, graph: tn.Graph, parameters: Mapping[str, tn.Tensor], options: Any = None
    ) -> tn.Program:
        graph.verify()
        self.compiled += 1
        return ReferenceProgram(graph, parameters)

    def allocate(self, shape: tuple[int, ...], dtype: tn.DType) -> tn.Buffer:
        return tn.HostBuffer(np.zeros(shape, dtype.numpy))

    def owns(self, buffer: tn.Buffer) -> bool:
        return True


def _inputs_like(*arrays: Array) -> list[tn.SymTensor]:
    """Return handles of the types of arrays; equal first extents are one symbol."""
    symbols: dict[int, str] = {}
    handles = []
    for array in arrays:
        shape: list[int | str] = list(array.shape)
        if shape:
            shape[0] = symbols.setdefault(array.shape[0], f"n{len(symbols)}")
        handles.append(tn.SymTensor.input(tn.dtype(array.dtype), shape))
    return handles


def _run(
    function: Callable[..., Any],
    *arrays: Array,
    train: bool = False,
    parameters: Mapping[str, tn.Tensor] | None = None,
) -> tuple[tuple[Array, ...], dict[str, Array]]:
    """Trace a function for inputs like `arrays`; return its outputs and updates."""
    graph = tn.trace(function, *_inputs_like(*arrays), train=train, parameters=parameters)
    graph.verify()
    values = {name: tensor.numpy() for name, tensor in graph.bindings.items()}
    return evaluate_updates(graph, arrays, values)


@pytest.fixture(scope="session")
def run() -> Callable[..., tuple[tuple[Array, ...], dict[str, Array]]]:
    """Trace a function for arrays and evaluate it."""
    return _run


@pytest.fixture
def reference() -> ReferenceDevice:
    """Return a device that evaluates graphs in NumPy."""
    return ReferenceDevice()
