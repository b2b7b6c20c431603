"""Losses against PyTorch's: values and gradients, every option, and the cases at the edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core import nn
from teeny_core.nn import functional

Array = np.ndarray[Any, Any]
Run = Callable[..., Any]

WEIGHT = np.array([0.5, 2.0, 1.0, 0.25, 3.0], np.float32)


def both(loss: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """Return a function that gives a loss and the gradient of its sum by the prediction."""

    def evaluated(x: Any, target: Any) -> tuple[Any, Any]:
        value = loss(x, target)
        return value, tn.gradients(value.sum(), [x])[0]

    return evaluated


def peer(loss: Any, x: Array, target: Array) -> tuple[Array, Array]:
    import torch

    prediction = torch.from_numpy(x).requires_grad_()
    value = loss(prediction, torch.from_numpy(target))
    value.sum().backward()
    return value.detach().numpy(), prediction.grad.numpy()


def compare(run: Run, ours: Any, theirs: Any, x: Array, target: Array) -> None:
    (value, gradient), _ = run(both(ours), x, target)
    expected, expected_gradient = peer(theirs, x, target)
    np.testing.assert_allclose(value, expected, 1e-5, 1e-6)
    np.testing.assert_allclose(gradient, expected_gradient, 1e-5, 1e-6)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    ("shape", "weighted"),
    [
        ((6, 5), False),
        ((6, 5), True),
        ((4, 5, 3), False),
        ((2, 5, 3, 2), True),
        ((5,), False),
    ],
)
def test_cross_entropy(
    run: Run, shape: tuple[int, ...], weighted: bool, smoothing: float, reduction: str
) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32) * 3
    target = rng.integers(0, 5, shape[:1] + shape[2:] if len(shape) > 1 else ())
    target = np.asarray(target)
    if target.ndim:
        target.reshape(-1)[::3] = -100
    weight = WEIGHT if weighted else None
    compare(
        run,
        nn.CrossEntropyLoss(weight, label_smoothing=smoothing, reduction=reduction),
        torch.nn.CrossEntropyLoss(
            None if weight is None else torch.from_numpy(weight),
            label_smoothing=smoothing,
            reduction=reduction,
        ),
        x,
        target,
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_with_probabilities(run: Run, reduction: str, smoothing: float) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 5, 2)).astype(np.float32)
    target = rng.dirichlet(np.ones(5), (4, 2)).transpose(0, 2, 1).astype(np.float32)
    compare(
        run,
        nn.CrossEntropyLoss(WEIGHT, label_smoothing=smoothing, reduction=reduction),
        torch.nn.CrossEntropyLoss(
            torch.from_numpy(WEIGHT), label_smoothing=smoothing, reduction=reduction
        ),
        x,
        target,
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_loss_of_log_probabilities(run: Run, reduction: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = np.log(rng.dirichlet(np.ones(5), 6)).astype(np.float32)
    target = np.array([0, 4, 2, 2, 1, 3])
    ours = nn.NLLLoss(WEIGHT, ignore_index=1, reduction=reduction)
    weight = torch.from_numpy(WEIGHT)
    theirs = torch.nn.NLLLoss(weight, ignore_index=1, reduction=reduction)
    compare(run, ours, theirs, x, target)


ELEMENTWISE: dict[str, tuple[Callable[..., Any], Callable[[Any], Callable[..., Any]]]] = {
    "mse": (nn.MSELoss, lambda torch: torch.nn.MSELoss),
    "l1": (nn.L1Loss, lambda torch: torch.nn.L1Loss),
    "bce": (nn.BCEWithLogitsLoss, lambda torch: torch.nn.BCEWithLogitsLoss),
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_losses(run: Run, name: str, reduction: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = ELEMENTWISE[name]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 3)).astype(np.float32) * 20
    x[0, 0] = 0  # where a formula with |x| has the wrong slope
    target = rng.random((4, 3)).astype(np.float32)
    compare(run, ours(reduction=reduction), theirs(torch)(reduction=reduction), x, target)


def test_bce_with_weights(run: Run) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 5)).astype(np.float32)
    target = (rng.random((4, 5)) < 0.5).astype(np.float32)
    positive = np.array([1, 2, 3, 4, 5], np.float32)
    ours = nn.BCEWithLogitsLoss(WEIGHT, pos_weight=positive)
    theirs = torch.nn.BCEWithLogitsLoss(
        torch.from_numpy(WEIGHT), pos_weight=torch.from_numpy(positive)
    )
    compare(run, ours, theirs, x, target)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(("reduction", "expected"), [("mean", math.nan), ("sum", 0.0)])
def test_every_target_ignored(run: Run, dtype: str, reduction: str, expected: float) -> None:
    loss = nn.CrossEntropyLoss(reduction=reduction)
    x = np.ones((3, 5)).astype(tn.dtype(dtype).numpy)
    (value,), _ = run(loss, x, np.full(3, -100))
    assert tn.dtype(value.dtype).name == dtype
    np.testing.assert_equal(float(value), expected)


@pytest.mark.parametrize("bad", [-1, 5, 100])
def test_a_class_that_does_not_exist_makes_nan(run: Run, bad: int) -> None:
    (value,), _ = run(nn.CrossEntropyLoss(), np.zeros((3, 5), np.float32), np.array([1, bad, 2]))
    assert math.isnan(value)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=2, max_size=6), st.data())
def test_cross_entropy_of_any_logits(run: Run, logits: list[float], data: st.DataObject) -> None:
    label = data.draw(st.integers(0, len(logits) - 1))
    x = np.array(logits, np.float32).astype(np.float64)
    exact = np.log(np.exp(x - x.max()).sum()) + (x.max() - x[label])
    (got,), _ = run(functional.cross_entropy, x.astype(np.float32)[None], np.array([label]))
    np.testing.assert_allclose(got, exact, 1e-5, 1e-5)


def test_half_precision_losses_are_computed_in_f32(run: Run) -> None:
    x = np.full((1, 4096), 60000, np.float16)
    (value,), _ = run(nn.MSELoss(), x, np.full((1, 4096), 60001.0, np.float16))
    assert value.dtype == np.float16
    assert float(value) == 0  # 60001 is 60000 in f16; the square of a sum would have overflowed
    (value,), _ = run(nn.L1Loss(), x, np.zeros((1, 4096), np.float16))
    assert float(value) == 60000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: functional.mse_loss(tn.Tensor([1.0]), tn.Tensor([[1.0]])), "one shape"),
        (
            lambda: functional.cross_entropy(tn.zeros(2, 3), tn.Tensor([1, 2, 0])),
            "integer for each",
        ),
        (lambda: functional.cross_entropy(tn.zeros(2, 3), tn.zeros(2)), "classes are integers"),
        (
            lambda: functional.cross_entropy(tn.Tensor([[1, 2]]), tn.Tensor([1])),
            "cast it to floats",
        ),
        (
            lambda: functional.cross_entropy(
                tn.zeros(2, 3), tn.Tensor([1, 2]), label_smoothing=2.0
            ),
            "label_smoothing = 2.0",
        ),
        (
            lambda: functional.l1_loss(tn.zeros(2), tn.zeros(2), reduction="avg"),
            "choose from mean, sum, none",
        ),
    ],
)
def test_senseless_arguments(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(tn.TeenyError, match=message):
        make()
