"""A device that evaluates by the references, so that these tests need the core alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core.device import Buffer, Device, HostBuffer, Options, Program
from teeny_core.internal import check_parameters, evaluate_updates, settle


class ReferenceProgram(Program):
    def __init__(self, graph: tn.Graph, buffers: Mapping[str, Buffer]) -> None:
        self._graph = graph
        self._buffers = buffers

    @property
    def graph(self) -> tn.Graph:
        return self._graph

    def __call__(self, *arrays: Any) -> Any:
        if self._graph.updates:
            settle()
        values = {name: buffer.numpy() for name, buffer in self._buffers.items()}
        outputs, updates = evaluate_updates(self._graph, self._graph.flat(arrays), values)
        for name, value in updates.items():
            self._buffers[name].write(value)
        return self._graph.packed(outputs)


class ReferenceDevice(Device):
    def __init__(self) -> None:
        self.compiled: list[tn.Graph] = []

    @property
    def name(self) -> str:
        return f"reference-{id(self)}"

    def compile(
        self, graph: tn.Graph, parameters: Mapping[str, tn.Tensor], options: Options | None = None
    ) -> Program:
        graph.verify()
        check_parameters(graph, parameters)
        self.compiled.append(graph)
        names = [node.attrs["name"] for node in graph.parameters]
        return ReferenceProgram(graph, {name: parameters[name].place(self) for name in names})

    def allocate(self, shape: tuple[int, ...], dtype: tn.DType) -> Buffer:
        return HostBuffer(np.empty(shape, dtype.numpy))

    def owns(self, buffer: Buffer) -> bool:
        return True


@pytest.fixture(autouse=True)
def device() -> Iterator[ReferenceDevice]:
    with tn.default_device(ReferenceDevice()) as chosen:
        assert isinstance(chosen, ReferenceDevice)
        yield chosen
