"""Fixtures: layers run by the reference of each operation, and compared with PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import nn
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
        outputs, updates = evaluate_updates(self._graph, arrays, values)
        for name, value in updates.items():
            buffers[name].write(value)
        return outputs[0] if len(outputs) == 1 else outputs


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


def _forward_and_gradients(
    layer: nn.Layer[..., Any],
    arrays: Sequence[Array],
    seeds: Sequence[Array],
    train: bool,
) -> tuple[tuple[Array, ...], dict[str, Array], dict[str, Array]]:
    """Return outputs, gradients of the sum of outputs times `seeds` by name, and updates.

    Gradients are of all parameters, and of float inputs as "input.0", "input.1", …
    """
    named = dict(layer.named_parameters())
    floats = [place for place, array in enumerate(arrays) if array.dtype.kind == "f"]
    counts = []

    def both(*inputs: tn.AnyTensor) -> tuple[tn.AnyTensor, ...]:
        given, weights = inputs[: len(arrays)], inputs[len(arrays) :]
        result = layer(*given)
        outputs = result if isinstance(result, tuple) else (result,)
        counts.append(len(outputs))
        total = sum((o * w).sum() for o, w in zip(outputs, weights, strict=False))
        wrt = [*named.values(), *(given[place] for place in floats)]
        return *outputs, *tn.gradients(total, wrt)

    values, updates = _run(
        both, *arrays, *seeds, train=train, parameters=dict(layer.named_tensors())
    )
    names = [*named, *(f"input.{place}" for place in floats)]
    outputs, gradients = values[: counts[0]], values[counts[0] :]
    return outputs, dict(zip(names, gradients, strict=True)), updates


def _check_against_torch(
    ours: nn.Layer[..., Any],
    theirs: Any,
    *arrays: Array,
    train: bool = False,
    tolerance: float = 1e-5,
) -> None:
    """Load the peer's state into `ours`; compare outputs, gradients and updated buffers."""
    import torch

    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    theirs.train(train)
    tensors = [torch.from_numpy(array.copy()) for array in arrays]
    for tensor in tensors:
        if tensor.is_floating_point():
            tensor.requires_grad_()
    result = theirs(*tensors)
    expected = result if isinstance(result, tuple) else (result,)
    rng = np.random.default_rng(1)
    seeds = [rng.standard_normal(tuple(e.shape)).astype(np.float32) for e in expected[:1]]
    (expected[0] * torch.from_numpy(seeds[0])).sum().backward()

    outputs, gradients, updates = _forward_and_gradients(ours, arrays, seeds, train)
    for got, wanted in zip(outputs, expected, strict=False):
        np.testing.assert_allclose(got, wanted.detach().numpy(), tolerance, tolerance)
    peers = {name: p.grad for name, p in theirs.named_parameters()}
    peers |= {f"input.{i}": tensor.grad for i, tensor in enumerate(tensors)}
    for name, got in gradients.items():
        assert peers[name] is not None, name
        wanted = peers[name].numpy()
        np.testing.assert_allclose(got, wanted, tolerance, 10 * tolerance, err_msg=name)
    buffers = dict(theirs.named_buffers())
    for name, got in updates.items():
        np.testing.assert_allclose(got, buffers[name].numpy(), tolerance, tolerance, err_msg=name)


@pytest.fixture(scope="session")
def run() -> Callable[..., tuple[tuple[Array, ...], dict[str, Array]]]:
    """Trace a function for arrays and evaluate it."""
    return _run


@pytest.fixture(scope="session")
def check_against_torch() -> Callable[..., None]:
    """Compare outputs, gradients and updated buffers of a layer with those of PyTorch's."""
    pytest.importorskip("torch")
    return _check_against_torch


@pytest.fixture
def reference() -> ReferenceDevice:
    """Return a device that evaluates graphs in NumPy."""
    return ReferenceDevice()
