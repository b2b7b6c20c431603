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
