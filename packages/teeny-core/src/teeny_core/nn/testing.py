"""The layer test table, and the check that every device is put through with it.

@pytest.mark.parametrize("case", testing.CASES, ids=str)
def test_device(case):
    testing.check_device(device, case)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from teeny_core import nn
from teeny_core import shape as shapes
from teeny_core.autodiff import gradients
from teeny_core.device import Device
from teeny_core.dtype import dtype as to_dtype
from teeny_core.evaluate import evaluate_updates
from teeny_core.graph import Graph
from teeny_core.op import Array
from teeny_core.tensor import AnyTensor, SymTensor
from teeny_core.trace import compile as compile_graph
from teeny_core.trace import trace


@dataclass(frozen=True)
class LayerCase:
    """A layer and the inputs that it is tried with.

    Attributes:
        name: what it is, unique.
        make: makes the layer, with fresh parameters.
        shape: of each input.
        inputs: how many inputs there are.
        classes: inputs are whole numbers below this; floats where it is 0.
    """

    name: str
    make: Callable[[], nn.Layer[..., Any]]
    shape: tuple[int, ...]
    inputs: int = 1
    classes: int = 0

    def arrays(self, seed: int = 0) -> list[Array]:
        """Return inputs, f32 or i64."""
        rng = np.random.default_rng(seed)
        if self.classes:
            return [rng.integers(0, self.classes, self.shape) for _ in range(self.inputs)]
        return [rng.standard_normal(self.shape, np.float32) for _ in range(self.inputs)]

    def __str__(self) -> str:
        return self.name


CASES = (
    LayerCase("Linear", lambda: nn.Linear(7, 5), (3, 7)),
    LayerCase("Linear without bias", lambda: nn.Linear(7, 5, bias=False), (3, 7)),
    LayerCase("Linear of 3 axes", lambda: nn.Linear(4, 6), (2, 3, 4)),
    LayerCase("Conv2d", lambda: nn.Conv2d(3, 4, 3), (2, 3, 8, 7)),
    LayerCase(
        "Conv2d with all arguments",
        lambda: nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 2), (1, 2), 2, bias=False),
        (2, 4, 9, 8),
    ),
    LayerCase(
        "Conv2d that keeps the extents",
        lambda: nn.Conv2d(2, 3, (4, 3), padding="same", dilation=2),
        (2, 2, 9, 8),
    ),
    LayerCase("depthwise Conv2d", lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4), (2, 4, 5, 6)),
    LayerCase("ConvTranspose2d", lambda: nn.ConvTranspose2d(3, 4, 2, 2), (2, 3, 5, 4)),
    LayerCase(
        "ConvTranspose2d with all arguments",
        lambda: nn.ConvTranspose2d(4, 6, (3, 2), (2, 3), (1, 0), (1, 2), 2, False, (1, 2)),
        (2, 4, 5, 4),
    ),
    LayerCase("MaxPool2d", lambda: nn.MaxPool2d(2), (2, 3, 6, 7)),
    LayerCase("MaxPool2d that overlaps", lambda: nn.MaxPool2d(3, 2, 1), (2, 3, 7, 8)),
    LayerCase("AvgPool2d", lambda: nn.AvgPool2d((2, 3), padding=1), (2, 3, 6, 7)),
    LayerCase(
        "AvgPool2d without its padding",
        lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        (2, 3, 6, 7),
    ),
    LayerCase("AdaptiveAvgPool2d", lambda: nn.AdaptiveAvgPool2d(1), (2, 3, 6, 7)),
    LayerCase("AdaptiveAvgPool2d to a grid", lambda: nn.AdaptiveAvgPool2d((3, 2)), (2, 3, 6, 4)),
    LayerCase("LayerNorm", lambda: nn.LayerNorm(6), (2, 3, 6)),
    LayerCase("LayerNorm of 2 axes", lambda: nn.LayerNorm((3, 6), eps=1e-3), (2, 3, 6)),
    LayerCase(
        "LayerNorm without weights", lambda: nn.LayerNorm(6, elementwise_affine=False), (2, 6)
    ),
    LayerCase("RmsNorm", lambda: nn.RmsNorm(6), (2, 3, 6)),
    LayerCase("RmsNorm with eps", lambda: nn.RmsNorm((3, 6), eps=1e-2), (2, 3, 6)),
    LayerCase("GroupNorm", lambda: nn.GroupNorm(2, 6), (2, 6, 4, 3)),
    LayerCase("BatchNorm2d", lambda: nn.BatchNorm2d(3), (4, 3, 5, 6)),
    LayerCase("BatchNorm2d, cumulative", lambda: nn.BatchNorm2d(3, momentum=None), (4, 3, 5, 6)),
    LayerCase("BatchNorm2d without weights", lambda: nn.BatchNorm2d(3, affine=False), (4, 3, 5, 6)),
    LayerCase(
        "BatchNorm2d without statistics",
        lambda: nn.BatchNorm2d(3, track_running_stats=False),
        (4, 3, 5, 6),
    ),
    LayerCase("Embedding", lambda: nn.Embedding(9, 4), (5, 3), classes=9),
    LayerCase(
        "Embedding with padding", lambda: nn.Embedding(9, 4, padding_idx=-7), (50, 3), classes=4
    ),
    LayerCase("EmbeddingBag", lambda: nn.EmbeddingBag(9, 4), (5, 3), classes=9),
    LayerCase("EmbeddingBag of sums", lambda: nn.EmbeddingBag(9, 4, "sum"), (5, 3), classes=9),
    LayerCase("EmbeddingBag of maxima", lambda: nn.EmbeddingBag(9, 4, "max"), (5, 3), classes=9),
    LayerCase("Flatten", lambda: nn.Flatten(), (2, 3, 4)),
    LayerCase("Flatten of the last axes", lambda: nn.Flatten(2, 3), (2, 3, 4, 5)),
    LayerCase("Identity", lambda: nn.Identity(), (2, 3)),
    LayerCase("ReLU", lambda: nn.ReLU(), (4, 5)),
    LayerCase("ReLU6", lambda: nn.ReLU6(), (4, 5)),
    LayerCase("LeakyReLU", lambda: nn.LeakyReLU(0.2), (4, 5)),
    LayerCase("ELU", lambda: nn.ELU(0.7), (4, 5)),
    LayerCase("GELU", lambda: nn.GELU(), (4, 5)),
    LayerCase("GELU by tanh", lambda: nn.GELU("tanh"), (4, 5)),
    LayerCase("SiLU", lambda: nn.SiLU(), (4, 5)),
    LayerCase("Sigmoid", lambda: nn.Sigmoid(), (4, 5)),
    LayerCase("Tanh", lambda: nn.Tanh(), (4, 5)),
    LayerCase("Softplus", lambda: nn.Softplus(), (4, 5)),
    LayerCase("Hardswish", lambda: nn.Hardswish(), (4, 5)),
    LayerCase("Hardsigmoid", lambda: nn.Hardsigmoid(), (4, 5)),
    LayerCase("Softmax", lambda: nn.Softmax(1), (4, 5, 3)),
    LayerCase("LogSoftmax", lambda: nn.LogSoftmax(-1), (4, 5)),
    LayerCase("Dropout", lambda: nn.Dropout(0.3), (4, 5)),
    LayerCase("MultiheadAttention", lambda: nn.MultiheadAttention(8, 2), (5, 3, 8), inputs=3),
    LayerCase(
        "MultiheadAttention, batch first, without bias",
        lambda: nn.MultiheadAttention(8, 4, bias=False, batch_first=True),
        (2, 5, 8),
        inputs=3,
    ),
    LayerCase(
        "TransformerEncoderLayer",
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        (2, 5, 8),
    ),
    LayerCase(
        "TransformerEncoderLayer, norm first",
        lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True),
        (5, 2, 8),
    ),
    LayerCase("LSTMCell", lambda: nn.LSTMCell(4, 3), (5, 4)),
    LayerCase("LSTM", lambda: nn.LSTM(4, 3, batch_first=True), (2, 5, 4)),
    LayerCase(
        "LSTM, both ways, of two layers, batch first",
        lambda: nn.LSTM(4, 3, 2, bias=False, batch_first=True, bidirectional=True),
        (2, 3, 4),
    ),
    LayerCase(
        "Sequential",
        lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 4))),
        (3, 6),
    ),
)


@dataclass(frozen=True)
class Step:
    """The graph of a layer and its gradients.

    Inputs are those of the layer, then a gradient of its first output. Outputs are those of the
    layer, then the gradients of what `wrt` names: parameters, and "input.0", "input.1", … for
    inputs of floats.
    """

    graph: Graph
    outputs: int
    wrt: tuple[str, ...]

    def seed(self, arrays: list[Array]) -> Array:
        """Return a gradient of the first output for the inputs `arrays`."""
        *inputs, seed = self.graph.inputs
        env = shapes.bind((x.shape, a.shape) for x, a in zip(inputs, arrays, strict=True))
        shape: tuple[int, ...] = shapes.substitute(seed.shape, env)
        numbers: Array = np.random.default_rng(1).standard_normal(shape)
        return numbers.astype(seed.dtype.numpy)

    def values(self) -> dict[str, Array]:
        """Return copies of the values of all tensors that the graph is bound to."""
        return {name: tensor.numpy().copy() for name, tensor in self.graph.bindings.items()}


def step_of(layer: nn.Layer[..., Any], arrays: list[Array], *, train: bool = False) -> Step:
    """Trace a layer and its gradients for inputs like `arrays`, of any first extent.

    Args:
        layer: the layer.
        arrays: its inputs.
        train: whether the layer behaves as in training.
    """
    named = dict(layer.named_parameters())
    floats = [place for place, array in enumerate(arrays) if to_dtype(array.dtype).is_float]

    def both(*inputs: AnyTensor) -> tuple[AnyTensor, ...]:
        *given, seed = inputs
        outputs = flat(layer(*given))
        total = (outputs[0] * seed).sum()
        return *outputs, *gradients(total, [*named.values(), *(given[i] for i in floats)])

    handles = [SymTensor.input(to_dtype(a.dtype), ("n", *a.shape[1:])) for a in arrays]
    outputs = trace(layer, *handles).outputs
    seed = SymTensor.input(outputs[0].dtype, outputs[0].shape, "seed")
    graph = trace(both, *handles, seed, train=train, parameters=dict(layer.named_tensors()))
    return Step(graph, len(outputs), (*named, *(f"input.{place}" for place in floats)))


def flat(result: Any) -> tuple[Any, ...]:
    """Return what a layer gives, tuples in tuples, as one tuple."""
    if not isinstance(result, tuple):
        return (result,)
    return tuple(leaf for part in result for leaf in flat(part))


def check_device(
    device: Device, case: LayerCase, *, train: bool = False, tolerance: float = 1e-5
) -> None:
    """Check outputs, gradients and updates of a layer on a device against the references.

    Raises:
        AssertionError: a value differs.
    """
    layer, arrays = case.make(), case.arrays()
    step = step_of(layer, arrays, train=train)
    given = [*arrays, step.seed(arrays)]
    outputs, updates = evaluate_updates(step.graph, given, step.values())
    found = flat(compile_graph(step.graph, device)(*given))
    for got, expected in zip(found, outputs, strict=True):
        np.testing.assert_allclose(got, expected, tolerance, tolerance)
    after = step.values()
    for name, expected in updates.items():
        np.testing.assert_allclose(after[name], expected, tolerance, tolerance, err_msg=name)
