"""Lazy tensors: what is compiled, when, and how often."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import teeny_core as tn


def test_nothing_runs_until_a_value_is_asked_for(device: Any) -> None:
    x = tn.Tensor([1.0, 2.0])
    y = ((x + 1) * 3).sum()
    assert device.compiled == []
    assert y.item() == 15.0
    assert len(device.compiled) == 1
    assert y.item() == 15.0
    assert len(device.compiled) == 1


def test_one_program_for_one_structure(device: Any) -> None:
    for start in range(5):
        x = tn.Tensor([float(start), 2.0])
        assert (x * 2 + x).tolist() == [3.0 * start, 6.0]
    assert len(device.compiled) == 1
    assert (tn.Tensor([1.0, 2.0, 3.0]) * 2).tolist() == [2.0, 4.0, 6.0]
    assert len(device.compiled) == 2


def test_the_same_buffer_is_one_input(device: Any) -> None:
    x = tn.Tensor([1.0, 2.0])
    assert (x * x + x).tolist() == [2.0, 6.0]
    assert len(device.compiled[0].inputs) == 1


def test_values_are_not_computed_twice(device: Any) -> None:
    x = tn.Tensor([1.0, 2.0])
    hidden = x.exp()
    total = hidden.sum()
    hidden.numpy()
    np.testing.assert_allclose(total.item(), np.exp([1.0, 2.0]).sum(), rtol=1e-6)
    assert [[node.op for node in graph.nodes] for graph in device.compiled] == [
        ["input", "exp"],
        ["input", "sum"],
    ]


def test_several_tensors_are_computed_together(device: Any) -> None:
    x = tn.Tensor([1.0, 2.0])
    a, b = x.sum(), x.exp()
    tn.realize(a, b)  # type: ignore[arg-type]
    assert len(device.compiled) == 1
    assert len(device.compiled[0].outputs) == 2
    assert a.item() == 3.0


def test_constants_and_random_numbers_need_no_compiler(device: Any) -> None:
    tn.zeros(3).numpy()
    tn.arange(10).numpy()
    tn.randn(3, 4).numpy()
    (tn.rand(5) * 2 + tn.ones(5)).numpy()
    assert device.compiled == []


def test_random_values_with_data_share_one_program(device: Any) -> None:
    x = tn.ones(100).realize()  # type: ignore[attr-defined]
    masks = [(x * tn.bernoulli((100,)).cast("f32")).numpy() for _ in range(3)]
    assert len(device.compiled) == 1
    assert not np.array_equal(masks[0], masks[1])


def test_long_loops() -> None:
    x = tn.Tensor(0.0)
    for _ in range(3000):
        x = x + 1  # type: ignore[assignment]
    assert x.item() == 3000.0


def test_failed_computations_can_be_asked_for_again() -> None:
    wrong = tn.zeros(3).take(tn.Tensor([7]))
    for _ in range(2):
        with pytest.raises(IndexError):
            wrong.numpy()


def test_results_do_not_share_memory() -> None:
    x = tn.Tensor([1.0, 2.0])
    same = x.stop_gradient().reshape(2, 1).realize()  # type: ignore[attr-defined]
    x.assign(tn.Tensor([5.0, 6.0]))
    assert same.tolist() == [[1.0], [2.0]]


def test_data_is_copied() -> None:
    values = np.ones(3, np.float32)
    x = tn.Tensor(values)
    y = x * 2
    values[:] = 9
    assert y.tolist() == [2.0, 2.0, 2.0]
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_views_are_read_only() -> None:
    view = tn.Tensor([1.0]).numpy()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 2


def test_assign() -> None:
    x = tn.Tensor([1.0, 2.0])
    buffer = x.storage.buffer
    assert x.assign(x * 2 + 1).tolist() == [3.0, 5.0]
    assert x.assign(7.0).tolist() == [7.0, 7.0]
    assert x.assign(np.array([1.0], np.float32)).tolist() == [1.0, 1.0]
    assert x.storage.buffer is buffer
    with pytest.raises(tn.DTypeError, match=r"hint: cast it: value.cast\(tn.f32\)"):
        x.assign(tn.Tensor([1, 2]))
    with pytest.raises(tn.ShapeError, match="hint: reshape the value"):
        x.assign(tn.zeros(2, 2))


def test_memory_of_history_is_released() -> None:
    x = tn.Tensor(np.zeros(10))
    for _ in range(50):
        x = (x + 1).realize()  # type: ignore[attr-defined]
    gc.collect()
    assert len(tn.Graph("g", (), (), (x.node,)).nodes) == 1


def test_tensors_that_share_a_value_do_not_share_its_changes() -> None:
    x = tn.Tensor([1.0, 2.0])
    lazy = x * 1
    shared = [tn.Tensor(x), x.cast("f32"), x.reshape(2), x[:], +x, tn.Tensor(lazy), tn.Tensor(lazy)]
    lazy.numpy()
    tn.Tensor(lazy).assign(0.0)
    x.assign(9.0)
    assert [tensor.tolist() for tensor in (*shared, lazy)] == [[1.0, 2.0]] * 8
    assert x.tolist() == [9.0, 9.0]


def test_shared_values_outlive_updates_by_programs() -> None:
    x = tn.Tensor(1.0)

    def step(y: Any) -> Any:
        x.assign(x + y)
        return y

    before = x.reshape(())
    program = tn.compile(tn.trace(step, tn.SymTensor.input("f32", ()), parameters={"x": x}))
    program(np.float32(2))
    assert (before.item(), x.item()) == (1.0, 3.0)


def test_parameters_made_from_tensors_keep_the_buffer_that_programs_hold() -> None:
    source = tn.Tensor([1.0, 2.0])
    parameter = tn.Tensor(source)
    x = tn.SymTensor.input("f32", (2,))
    graph = tn.trace(lambda x: x + parameter, x, parameters={"p": parameter})
    program = tn.compile(graph)
    source.assign(5.0)
    parameter.assign(parameter * 10)
    assert np.asarray(program(np.zeros(2, np.float32))).tolist() == [10.0, 20.0]
    assert source.tolist() == [5.0, 5.0]
