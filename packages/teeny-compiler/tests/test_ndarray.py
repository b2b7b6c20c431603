"""The NumPy device runs graphs and changes parameters in place."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import teeny_core as tn
from teeny_compiler.ndarray import NdarrayDevice
from teeny_core import nn, optim


@pytest.fixture
def device() -> NdarrayDevice:
    return NdarrayDevice()


def test_it_is_found_by_name() -> None:
    assert isinstance(tn.device("ndarray"), NdarrayDevice)


def test_a_program_sees_new_values_of_parameters(device: NdarrayDevice) -> None:
    layer = nn.Linear(3, 2)
    graph = tn.trace(layer, tn.SymTensor.input(tn.f32, ("n", 3)))
    program = device.compile(graph, graph.bindings)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = x @ layer.weight.numpy().T + layer.bias.numpy()
    np.testing.assert_allclose(program(x), wanted, rtol=1e-5)
    layer.bias.assign(np.array([1.0, 2.0], np.float32))
    np.testing.assert_allclose(
        program(x), x @ layer.weight.numpy().T + np.array([1.0, 2.0]), rtol=1e-5
    )
    np.testing.assert_array_equal(asyncio.run(program.run_async(x)), program(x))
    assert program.stats()["runs"] == 4
    assert "matmul" in program.emit("fxgraph")
    with pytest.raises(tn.DeviceError, match="no stage 'asm'"):
        program.emit("asm")


def test_training_changes_parameters_in_place() -> None:
    layer = nn.Linear(3, 2)
    step = tn.train_step(layer, nn.MSELoss(), optim.SGD(lr=0.1), device="ndarray")
    x, y = np.ones((4, 3), np.float32), np.zeros((4, 2), np.float32)
    losses = [float(step(x, y)) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_a_wrong_shape_is_named(device: NdarrayDevice) -> None:
    graph = tn.trace(nn.Linear(3, 2), tn.SymTensor.input(tn.f32, ("n", 3)))
    program = device.compile(graph, graph.bindings)
    with pytest.raises(tn.ShapeError):
        program(np.ones((2, 4), np.float32))
