"""Each model of the zoo, small, against its twin in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_bench.zoo import ZOO, Entry
from teeny_core.nn import testing

torch = pytest.importorskip("torch")

ISSUE = [
    *("MLP", "LeNet-5", "ResNet-18", "MobileNetV2", "U-Net", "ViT-tiny", "BERT-mini"),
    *("GPT-2 blocks", "Llama blocks", "LSTM", "DLRM"),
]
SLOW = pytest.param("cpu", marks=pytest.mark.slow)  # compiles forward and backward
EACH = pytest.mark.parametrize("entry", ZOO, ids=lambda entry: entry.name)


def close(got: Any, wanted: Any, name: str = "") -> None:
    """Compare to what f32 allows at the scale of the largest value.

    Sums that cancel, such as the gradient of a scale before a normalisation, keep the error of
    their terms.
    """
    expected = wanted.detach().numpy()
    scale = float(np.max(np.abs(expected), initial=1e-2))
    np.testing.assert_allclose(got, expected, 2e-4, 2e-5 * scale, err_msg=name)


def test_all_models_are_there() -> None:
    assert [entry.name for entry in ZOO] == ISSUE


@EACH
def test_the_usual_size_has_the_same_tensors(entry: Entry) -> None:
    ours, theirs = entry.pair(entry.usual)
    state = theirs.state_dict()
    types = {name: str(value.dtype).removeprefix("torch.") for name, value in state.items()}
    found = {name: str(np.asarray(value).dtype) for name, value in ours.state_dict().items()}
    assert list(found.items()) == list(types.items())
    inputs, target = entry.usual.batch_of(1)
    handles = [tn.SymTensor.input(tn.dtype(a.dtype), ("n", *a.shape[1:])) for a in inputs]
    (output,) = tn.trace(ours, *handles).outputs
    assert output.dtype == tn.f32
    if entry.loss == "CrossEntropyLoss":  # classes are axis 1, of which the target has one
        assert (output.shape[0], *output.shape[2:]) == (handles[0].shape[0], *target.shape[1:])
    else:
        assert output.shape[1:] == target.shape[1:]


@EACH
@pytest.mark.parametrize("device", ["cpu", "ndarray"])
def test_outputs_equal_pytorchs(entry: Entry, device: str) -> None:
    ours, theirs = entry.pair(entry.small)
    inputs, _ = entry.small.batch_of(entry.small.batch)
    handles = [tn.SymTensor.input(tn.dtype(a.dtype), a.shape) for a in inputs]
    with torch.inference_mode():
        expected = theirs.eval()(*map(torch.from_numpy, inputs))
    close(tn.compile(tn.trace(ours, *handles), device)(*inputs), expected)


@EACH
@pytest.mark.parametrize("device", [SLOW, "ndarray"])
def test_gradients_and_statistics_equal_pytorchs(entry: Entry, device: str) -> None:
    ours, theirs = entry.pair(entry.small)
    inputs, _ = entry.small.batch_of(entry.small.train_batch)
    step = testing.step_of(ours, inputs, train=True)
    seed = step.seed(inputs)
    results = tn.compile(step.graph, device)(*inputs, seed)
    exact = [torch.from_numpy(x.astype("f8") if x.dtype == "f4" else x) for x in inputs]
    expected = theirs.double().train()(*exact)
    expected.backward(torch.from_numpy(seed.astype("f8")))

    assert isinstance(results, tuple)
    close(results[0], expected, "output")
    gradients = {name: value.grad for name, value in theirs.named_parameters()}
    found = dict(zip(step.wrt, results[1:], strict=True))
    assert gradients.keys() <= found.keys()
    for name, gradient in gradients.items():
        close(found[name], gradient, name)
    _statistics(step.values(), dict(theirs.named_buffers()))


def _statistics(found: Mapping[str, Any], buffers: Mapping[str, Any]) -> None:
    """Compare the running statistics after a step in training."""
    for name, value in buffers.items():
        if "running" in name or "tracked" in name:
            close(found[name], value, name)


@EACH
def test_a_step_gives_the_loss_of_pytorch(entry: Entry) -> None:
    ours, theirs = entry.pair(entry.small)
    inputs, target = entry.small.batch_of(entry.small.train_batch)
    loss = getattr(tn.nn, entry.loss)()
    step = tn.train_step(ours, loss, tn.optim.AdamW(lr=1e-3), device="ndarray")
    criterion = getattr(torch.nn, entry.loss)()
    expected = criterion(theirs.train()(*map(torch.from_numpy, inputs)), torch.from_numpy(target))
    close(step(*inputs, target), expected)
