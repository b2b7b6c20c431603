"""Every layer against PyTorch's of the same state: outputs, gradients and updated buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import nn

Array = np.ndarray[Any, Any]
Case = tuple[Callable[[], Any], Callable[[Any], Any], Callable[[np.random.Generator], list[Array]]]


def images(*shape: int) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.standard_normal(shape).astype(np.float32)]


def ids(high: int, *shape: int) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.integers(0, high, shape)]


def sequences(count: int, *shape: int) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.standard_normal(shape).astype(np.float32) for _ in range(count)]


# name: our layer, PyTorch's (given torch.nn), the inputs
CASES: dict[str, Case] = {
    "Linear": (lambda: nn.Linear(7, 5), lambda t: t.Linear(7, 5), images(3, 7)),
    "Linear without bias": (
        lambda: nn.Linear(7, 5, bias=False),
        lambda t: t.Linear(7, 5, bias=False),
        images(3, 7),
    ),
    "Linear of 3 axes": (lambda: nn.Linear(4, 6), lambda t: t.Linear(4, 6), images(2, 3, 4)),
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3), lambda t: t.Conv2d(3, 4, 3), images(2, 3, 8, 7)),
    "Conv2d with all arguments": (
        lambda: nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 2), (1, 2), 2, bias=False),
        lambda t: t.Conv2d(4, 6, (3, 2), (2, 1), (1, 2), (1, 2), 2, bias=False),
        images(2, 4, 9, 8),
    ),
    "Conv2d that keeps the extents": (
        lambda: nn.Conv2d(2, 3, (4, 3), padding="same", dilation=2),
        lambda t: t.Conv2d(2, 3, (4, 3), padding="same", dilation=2),
        images(2, 2, 9, 8),
    ),
    "depthwise Conv2d": (
        lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4),
        lambda t: t.Conv2d(4, 4, 3, padding=1, groups=4),
        images(2, 4, 5, 6),
    ),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), lambda t: t.MaxPool2d(2), images(2, 3, 6, 7)),
    "MaxPool2d that overlaps": (
        lambda: nn.MaxPool2d(3, 2, 1),
        lambda t: t.MaxPool2d(3, 2, 1),
        images(2, 3, 7, 8),
    ),
    "AvgPool2d": (
        lambda: nn.AvgPool2d((2, 3), padding=1),
        lambda t: t.AvgPool2d((2, 3), padding=1),
        images(2, 3, 6, 7),
    ),
    "AvgPool2d without its padding": (
        lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        lambda t: t.AvgPool2d(3, 2, 1, count_include_pad=False),
        images(2, 3, 6, 7),
    ),
    "AdaptiveAvgPool2d": (
        lambda: nn.AdaptiveAvgPool2d(1),
        lambda t: t.AdaptiveAvgPool2d(1),
        images(2, 3, 6, 7),
    ),
    "AdaptiveAvgPool2d to a grid": (
        lambda: nn.AdaptiveAvgPool2d((3, 2)),
        lambda t: t.AdaptiveAvgPool2d((3, 2)),
        images(2, 3, 6, 4),
    ),
    "LayerNorm": (lambda: nn.LayerNorm(6), lambda t: t.LayerNorm(6), images(2, 3, 6)),
    "LayerNorm of 2 axes": (
        lambda: nn.LayerNorm((3, 6), eps=1e-3),
        lambda t: t.LayerNorm((3, 6), eps=1e-3),
        images(2, 3, 6),
    ),
    "LayerNorm without weights": (
        lambda: nn.LayerNorm(6, elementwise_affine=False),
        lambda t: t.LayerNorm(6, elementwise_affine=False),
        images(2, 6),
    ),
    "RmsNorm": (lambda: nn.RmsNorm(6), lambda t: t.RMSNorm(6), images(2, 3, 6)),
    "RmsNorm with eps": (
        lambda: nn.RmsNorm((3, 6), eps=1e-2),
        lambda t: t.RMSNorm((3, 6), eps=1e-2),
        images(2, 3, 6),
    ),
    "GroupNorm": (lambda: nn.GroupNorm(2, 6), lambda t: t.GroupNorm(2, 6), images(2, 6, 4, 3)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), lambda t: t.BatchNorm2d(3), images(4, 3, 5, 6)),
    "BatchNorm2d, cumulative": (
        lambda: nn.BatchNorm2d(3, momentum=None),
        lambda t: t.BatchNorm2d(3, momentum=None),
        images(4, 3, 5, 6),
    ),
    "BatchNorm2d without weights": (
        lambda: nn.BatchNorm2d(3, affine=False),
        lambda t: t.BatchNorm2d(3, affine=False),
        images(4, 3, 5, 6),
    ),
    "BatchNorm2d without statistics": (
        lambda: nn.BatchNorm2d(3, track_running_stats=False),
        lambda t: t.BatchNorm2d(3, track_running_stats=False),
        images(4, 3, 5, 6),
    ),
    "Embedding": (lambda: nn.Embedding(9, 4), lambda t: t.Embedding(9, 4), ids(9, 5, 3)),
    "Embedding with padding": (
        lambda: nn.Embedding(9, 4, padding_idx=-7),
        lambda t: t.Embedding(9, 4, padding_idx=-7),
        ids(4, 50, 3),
    ),
    "Flatten": (lambda: nn.Flatten(), lambda t: t.Flatten(), images(2, 3, 4)),
    "Flatten of the last axes": (
        lambda: nn.Flatten(2, 3),
        lambda t: t.Flatten(2, 3),
        images(2, 3, 4, 5),
    ),
    "Identity": (lambda: nn.Identity(), lambda t: t.Identity(), images(2, 3)),
    "ReLU": (lambda: nn.ReLU(), lambda t: t.ReLU(), images(4, 5)),
    "ReLU6": (lambda: nn.ReLU6(), lambda t: t.ReLU6(), images(4, 5)),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.2), lambda t: t.LeakyReLU(0.2), images(4, 5)),
    "ELU": (lambda: nn.ELU(0.7), lambda t: t.ELU(0.7), images(4, 5)),
    "GELU": (lambda: nn.GELU(), lambda t: t.GELU(), images(4, 5)),
    "GELU by tanh": (lambda: nn.GELU("tanh"), lambda t: t.GELU("tanh"), images(4, 5)),
    "SiLU": (lambda: nn.SiLU(), lambda t: t.SiLU(), images(4, 5)),
    "Sigmoid": (lambda: nn.Sigmoid(), lambda t: t.Sigmoid(), images(4, 5)),
    "Tanh": (lambda: nn.Tanh(), lambda t: t.Tanh(), images(4, 5)),
    "Softplus": (lambda: nn.Softplus(), lambda t: t.Softplus(), images(4, 5)),
    "Hardswish": (lambda: nn.Hardswish(), lambda t: t.Hardswish(), images(4, 5)),
    "Hardsigmoid": (lambda: nn.Hardsigmoid(), lambda t: t.Hardsigmoid(), images(4, 5)),
    "Softmax": (lambda: nn.Softmax(1), lambda t: t.Softmax(1), images(4, 5, 3)),
    "LogSoftmax": (lambda: nn.LogSoftmax(-1), lambda t: t.LogSoftmax(-1), images(4, 5)),
    "Dropout of nothing": (lambda: nn.Dropout(0.0), lambda t: t.Dropout(0.0), images(4, 5)),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(8, 2),
        lambda t: t.MultiheadAttention(8, 2),
        sequences(3, 5, 3, 8),
    ),
    "MultiheadAttention, batch first, without bias": (
        lambda: nn.MultiheadAttention(8, 4, bias=False, batch_first=True),
        lambda t: t.MultiheadAttention(8, 4, bias=False, batch_first=True),
        sequences(3, 2, 5, 8),
    ),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        lambda t: t.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        images(2, 5, 8),
    ),
    "TransformerEncoderLayer, norm first": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True),
        lambda t: t.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True),
        images(5, 2, 8),
    ),
    "Sequential": (
        lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 4))),
        lambda t: t.Sequential(t.Linear(6, 5), t.ReLU(), t.Sequential(t.Linear(5, 4))),
        images(3, 6),
    ),
}


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", CASES)
def test_layer(name: str, train: bool, check_against_torch: Callable[..., None]) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    make, peer, inputs = CASES[name]
    theirs = peer(torch.nn)
    with torch.no_grad():  # weights of 1 and biases of 0 would hide mistakes
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    check_against_torch(make(), theirs, *inputs(np.random.default_rng(0)), train=train)


def directional(layer: nn.Layer[..., Any], arrays: list[Array], train: bool) -> tuple[float, float]:
    """Return the slope of a random sum of outputs along a random direction: exact, and measured."""
    rng = np.random.default_rng(2)
    named = dict(layer.named_parameters())
    handles = [tn.SymTensor.input(tn.dtype(array.dtype), array.shape) for array in arrays]

    def total(*inputs: tn.AnyTensor) -> tuple[tn.AnyTensor, ...]:
        result = layer(*inputs)
        output = result[0] if isinstance(result, tuple) else result
        seed = np.random.default_rng(1).standard_normal(output.shape)
        value = (output * seed).sum()
        floats = [x for x in inputs if x.dtype.is_float]
        return value, *tn.gradients(value, [*named.values(), *floats])

    tensors = dict(layer.named_tensors())
    graph = tn.trace(total, *handles, train=train, parameters=tensors)
    start = {name: tensor.numpy() for name, tensor in graph.bindings.items()}
    points = [*(start[name] for name in named), *(a for a in arrays if a.dtype.kind == "f")]
    direction = [rng.standard_normal(point.shape) for point in points]

    def evaluate(distance: float) -> tuple[Array, ...]:
        moved = [p + distance * d for p, d in zip(points, direction, strict=True)]
        parameters = {**start, **dict(zip(named, moved, strict=False))}
        rest = iter(moved[len(named) :])
        inputs = [next(rest) if a.dtype.kind == "f" else a for a in arrays]
        return tn.evaluate(graph, inputs, parameters)

    found = evaluate(0.0)[1:]
    exact = sum(float((g * d).sum()) for g, d in zip(found, direction, strict=True))
    step = 1e-5
    measured = (float(evaluate(step)[0]) - float(evaluate(-step)[0])) / (2 * step)
    return exact, measured


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", [name for name in CASES if name != "Embedding with padding"])
def test_gradients_are_slopes(name: str, train: bool) -> None:
    tn.manual_seed(0)
    make, _, inputs = CASES[name]
    arrays = inputs(np.random.default_rng(0))
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
    exact, measured = directional(make().to("f64"), wide, train)
    assert exact == pytest.approx(measured, rel=1e-6, abs=1e-6)
