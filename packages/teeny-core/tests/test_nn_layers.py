"""Every layer against PyTorch's of the same state, and its gradients against slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core.internal import evaluate_updates
from teeny_core.nn import testing
from teeny_core.nn.testing import LayerCase

Array = np.ndarray[Any, Any]

# PyTorch draws other random numbers: test_train.py looks at dropout by itself
DETERMINISTIC = [case for case in testing.CASES if case.name != "Dropout"]
# whose gradient is zero on purpose where the slope is not
SMOOTH = [case for case in testing.CASES if case.name != "Embedding with padding"]
MODES = pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])

# name of a case: the same layer, given torch.nn
PEERS: dict[str, Callable[[Any], Any]] = {
    "Linear": lambda t: t.Linear(7, 5),
    "Linear without bias": lambda t: t.Linear(7, 5, bias=False),
    "Linear of 3 axes": lambda t: t.Linear(4, 6),
    "Conv2d": lambda t: t.Conv2d(3, 4, 3),
    "Conv2d with all arguments": lambda t: t.Conv2d(
        4, 6, (3, 2), (2, 1), (1, 2), (1, 2), 2, bias=False
    ),
    "Conv2d that keeps the extents": lambda t: t.Conv2d(2, 3, (4, 3), padding="same", dilation=2),
    "depthwise Conv2d": lambda t: t.Conv2d(4, 4, 3, padding=1, groups=4),
    "ConvTranspose2d": lambda t: t.ConvTranspose2d(3, 4, 2, 2),
    "ConvTranspose2d with all arguments": lambda t: t.ConvTranspose2d(
        4, 6, (3, 2), (2, 3), (1, 0), (1, 2), 2, False, (1, 2)
    ),
    "MaxPool2d": lambda t: t.MaxPool2d(2),
    "MaxPool2d that overlaps": lambda t: t.MaxPool2d(3, 2, 1),
    "AvgPool2d": lambda t: t.AvgPool2d((2, 3), padding=1),
    "AvgPool2d without its padding": lambda t: t.AvgPool2d(3, 2, 1, count_include_pad=False),
    "AdaptiveAvgPool2d": lambda t: t.AdaptiveAvgPool2d(1),
    "AdaptiveAvgPool2d to a grid": lambda t: t.AdaptiveAvgPool2d((3, 2)),
    "LayerNorm": lambda t: t.LayerNorm(6),
    "LayerNorm of 2 axes": lambda t: t.LayerNorm((3, 6), eps=1e-3),
    "LayerNorm without weights": lambda t: t.LayerNorm(6, elementwise_affine=False),
    "RmsNorm": lambda t: t.RMSNorm(6),
    "RmsNorm with eps": lambda t: t.RMSNorm((3, 6), eps=1e-2),
    "GroupNorm": lambda t: t.GroupNorm(2, 6),
    "BatchNorm2d": lambda t: t.BatchNorm2d(3),
    "BatchNorm2d, cumulative": lambda t: t.BatchNorm2d(3, momentum=None),
    "BatchNorm2d without weights": lambda t: t.BatchNorm2d(3, affine=False),
    "BatchNorm2d without statistics": lambda t: t.BatchNorm2d(3, track_running_stats=False),
    "Embedding": lambda t: t.Embedding(9, 4),
    "Embedding with padding": lambda t: t.Embedding(9, 4, padding_idx=-7),
    "EmbeddingBag": lambda t: t.EmbeddingBag(9, 4),
    "EmbeddingBag of sums": lambda t: t.EmbeddingBag(9, 4, mode="sum"),
    "EmbeddingBag of maxima": lambda t: t.EmbeddingBag(9, 4, mode="max"),
    "Flatten": lambda t: t.Flatten(),
    "Flatten of the last axes": lambda t: t.Flatten(2, 3),
    "Identity": lambda t: t.Identity(),
    "ReLU": lambda t: t.ReLU(),
    "ReLU6": lambda t: t.ReLU6(),
    "LeakyReLU": lambda t: t.LeakyReLU(0.2),
    "ELU": lambda t: t.ELU(0.7),
    "GELU": lambda t: t.GELU(),
    "GELU by tanh": lambda t: t.GELU("tanh"),
    "SiLU": lambda t: t.SiLU(),
    "Sigmoid": lambda t: t.Sigmoid(),
    "Tanh": lambda t: t.Tanh(),
    "Softplus": lambda t: t.Softplus(),
    "Hardswish": lambda t: t.Hardswish(),
    "Hardsigmoid": lambda t: t.Hardsigmoid(),
    "Softmax": lambda t: t.Softmax(1),
    "LogSoftmax": lambda t: t.LogSoftmax(-1),
    "MultiheadAttention": lambda t: t.MultiheadAttention(8, 2),
    "MultiheadAttention, batch first, without bias": lambda t: t.MultiheadAttention(
        8, 4, bias=False, batch_first=True
    ),
    "TransformerEncoderLayer": lambda t: t.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, batch_first=True
    ),
    "TransformerEncoderLayer, norm first": lambda t: t.TransformerEncoderLayer(
        8, 2, 16, 0.0, "gelu", norm_first=True
    ),
    "LSTMCell": lambda t: t.LSTMCell(4, 3),
    "LSTM": lambda t: t.LSTM(4, 3, batch_first=True),
    "LSTM, both ways, of two layers, batch first": lambda t: t.LSTM(
        4, 3, 2, bias=False, batch_first=True, bidirectional=True
    ),
    "Sequential": lambda t: t.Sequential(t.Linear(6, 5), t.ReLU(), t.Sequential(t.Linear(5, 4))),
}


def test_every_case_has_a_peer() -> None:
    assert [case.name for case in DETERMINISTIC] == list(PEERS)


@MODES
@pytest.mark.parametrize("case", DETERMINISTIC, ids=str)
def test_equal_to_torch(case: LayerCase, train: bool) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs = PEERS[case.name](torch.nn).train(train)
    with torch.no_grad():  # weights of 1 and biases of 0 would hide mistakes
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    ours, arrays = case.make(), case.arrays()
    ours.load_state_dict(theirs.state_dict())

    tensors = [torch.from_numpy(array.copy()) for array in arrays]
    for tensor in tensors:
        tensor.requires_grad_(tensor.is_floating_point())
    expected = testing.flat(theirs(*tensors))
    step = testing.step_of(ours, arrays, train=train)
    seed = step.seed(arrays)
    if expected[0].requires_grad:
        (expected[0] * torch.from_numpy(seed)).sum().backward()
    peers = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    peers |= {f"input.{place}": tensor.grad for place, tensor in enumerate(tensors)}

    outputs, updates = evaluate_updates(step.graph, [*arrays, seed], step.values())
    for got, wanted in zip(outputs[: step.outputs], expected, strict=True):
        np.testing.assert_allclose(got, wanted.detach().numpy(), 1e-5, 1e-5)
    for name, got in zip(step.wrt, outputs[step.outputs :], strict=True):
        np.testing.assert_allclose(got, peers[name].numpy(), 1e-5, 1e-4, err_msg=name)
    buffers = dict(theirs.named_buffers())
    for name, value in updates.items():
        np.testing.assert_allclose(value, buffers[name].numpy(), 1e-5, 1e-5, err_msg=name)


@MODES
@pytest.mark.parametrize("case", SMOOTH, ids=str)
def test_gradients_are_slopes(case: LayerCase, train: bool) -> None:
    """The change of a sum of outputs along a random direction is what the gradients say."""
    tn.manual_seed(0)
    layer = case.make().to("f64")
    arrays = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in case.arrays()]
    step = testing.step_of(layer, arrays, train=train)
    seed = step.seed(arrays)
    start = {**step.values(), **{f"input.{place}": a for place, a in enumerate(arrays)}}
    rng = np.random.default_rng(2)
    direction = {name: rng.standard_normal(start[name].shape) for name in step.wrt}

    def outputs(distance: float) -> tuple[Array, ...]:
        moved = {name: start[name] + distance * d for name, d in direction.items()}
        inputs = [moved.get(f"input.{place}", array) for place, array in enumerate(arrays)]
        values = {name: moved.get(name, start[name]) for name in step.graph.bindings}
        return tn.evaluate(step.graph, [*inputs, seed], values)

    def total(distance: float) -> float:
        return float((outputs(distance)[0] * seed).sum())

    pairs = zip(outputs(0.0)[step.outputs :], direction.values(), strict=True)
    exact = sum(float((gradient * d).sum()) for gradient, d in pairs)
    measured = (total(1e-5) - total(-1e-5)) / 2e-5
    assert exact == pytest.approx(measured, rel=1e-6, abs=1e-6)
