"""Initial values: distributions and bounds as PyTorch's, and reproducible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core import nn
from teeny_core.nn import init

SHAPE = (96, 40, 3, 2)

PAIRS: dict[str, tuple[Callable[[], tn.Tensor], Callable[[Any, Any], Any]]] = {
    "uniform": (lambda: init.uniform(SHAPE, -2, 3), lambda i, w: i.uniform_(w, -2, 3)),
    "normal": (lambda: init.normal(SHAPE, 2, 0.5), lambda i, w: i.normal_(w, 2, 0.5)),
    "trunc_normal": (
        lambda: init.trunc_normal(SHAPE, 0.2, 1.5, -1.0, 2.0),
        lambda i, w: i.trunc_normal_(w, 0.2, 1.5, -1.0, 2.0),
    ),
    "xavier_uniform": (lambda: init.xavier_uniform(SHAPE), lambda i, w: i.xavier_uniform_(w)),
    "xavier_normal": (
        lambda: init.xavier_normal(SHAPE, 2.0),
        lambda i, w: i.xavier_normal_(w, 2.0),
    ),
    "kaiming_uniform": (
        lambda: init.kaiming_uniform(SHAPE, 0.3),
        lambda i, w: i.kaiming_uniform_(w, 0.3),
    ),
    "kaiming_normal": (
        lambda: init.kaiming_normal(SHAPE, mode="fan_out", nonlinearity="relu"),
        lambda i, w: i.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
    ),
    "fan_in_uniform": (
        lambda: init.fan_in_uniform(SHAPE),
        lambda i, w: i.kaiming_uniform_(w, 5**0.5),
    ),
}


def assert_same_distribution(ours: Any, theirs: Any) -> None:
    """Compare the ends, mean, deviation and quantiles of two samples."""
    spread = theirs.std()
    shares = np.linspace(0.01, 0.99, 25)
    got, expected = np.quantile(ours, shares), np.quantile(theirs, shares)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(got, expected, atol=0.06 * spread)
    np.testing.assert_allclose(ours.mean(), theirs.mean(), atol=0.03 * spread)
    np.testing.assert_allclose(ours.std(), spread, rtol=0.03)


@pytest.mark.parametrize("name", PAIRS)
def test_distribution(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, peer = PAIRS[name]
    tn.manual_seed(0)
    torch.manual_seed(0)
    got = ours().numpy()
    expected = peer(torch.nn.init, torch.empty(SHAPE)).numpy()
    assert got.dtype == np.float32
    assert_same_distribution(got, expected)
    if name != "normal" and not name.endswith("_normal"):
        assert abs(got).max() <= abs(expected).max() * 1.01


DEFAULTS: dict[str, tuple[Callable[[], nn.Layer[..., Any]], Callable[[Any], Any]]] = {
    "Linear": (lambda: nn.Linear(300, 200), lambda t: t.Linear(300, 200)),
    "Conv2d": (
        lambda: nn.Conv2d(16, 200, (3, 5), groups=2),
        lambda t: t.Conv2d(16, 200, (3, 5), groups=2),
    ),
    "Embedding": (lambda: nn.Embedding(300, 40, 5), lambda t: t.Embedding(300, 40, 5)),
    "LayerNorm": (lambda: nn.LayerNorm((20, 30)), lambda t: t.LayerNorm((20, 30))),
    "RmsNorm": (lambda: nn.RmsNorm(30), lambda t: t.RMSNorm(30)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 30), lambda t: t.GroupNorm(2, 30)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(30), lambda t: t.BatchNorm2d(30)),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(96, 4),
        lambda t: t.MultiheadAttention(96, 4),
    ),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(64, 4, 300),
        lambda t: t.TransformerEncoderLayer(64, 4, 300),
    ),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    tn.manual_seed(0)
    torch.manual_seed(0)
    ours, theirs = DEFAULTS[name][0](), DEFAULTS[name][1](torch.nn)
    expected = theirs.state_dict()
    state = ours.state_dict()
    assert list(state) == list(expected)
    for key, value in state.items():
        got, wanted = value.numpy(), expected[key].numpy()
        assert got.shape == wanted.shape
        assert got.dtype == wanted.dtype
        if wanted.std() == 0:
            np.testing.assert_array_equal(got, wanted, err_msg=key)
        elif wanted.size >= 5000:
            assert_same_distribution(got, wanted)
        else:
            bound = abs(wanted).max()
            assert 0.9 * bound < abs(got).max() < 1.1 * bound, key
            np.testing.assert_allclose(got.mean(), 0, atol=0.2 * bound, err_msg=key)


def test_padding_starts_as_zeros() -> None:
    rows = nn.Embedding(6, 3, padding_idx=-2).weight.numpy()
    assert not rows[4].any()
    assert rows[[0, 1, 2, 3, 5]].all()


@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (30, 5, 2, 2)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    matrix = init.orthogonal(shape, 2.0).numpy().reshape(shape[0], -1)
    short = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    np.testing.assert_allclose(short @ short.T, 4 * np.eye(len(short)), atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.floats(-2, 1), st.floats(0.1, 3), st.integers(0, 2**64 - 1))
def test_trunc_normal_stays_inside(low: float, width: float, seed: int) -> None:
    tn.manual_seed(seed)
    numbers = init.trunc_normal((500,), low=low, high=low + width).numpy()
    assert (numbers >= np.float32(low)).all()
    assert (numbers <= np.float32(low + width)).all()


def test_a_seed_gives_the_same_model() -> None:
    def weights(seed: int) -> list[Any]:
        tn.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 5), nn.Conv2d(2, 3, 3), nn.Embedding(4, 4))
        return [parameter.numpy() for parameter in model.parameters()]

    assert all((a == b).all() for a, b in zip(weights(3), weights(3), strict=True))
    assert not any((a == b).all() for a, b in zip(weights(3), weights(4), strict=True))


def test_gains_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "selu"):
        assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    peer = torch.nn.init.calculate_gain("leaky_relu", 0.2)
    assert init.calculate_gain("leaky_relu", 0.2) == pytest.approx(peer)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: init.xavier_uniform((3,)), "at least two axes"),
        (lambda: init.kaiming_normal((3, 3), mode="fan"), "choose from fan_in, fan_out"),
        (lambda: init.kaiming_normal((3, 3), nonlinearity="swish"), "choose from linear"),
        (
            lambda: tn.trace(lambda x: nn.Linear(2, 2)(x), tn.SymTensor.input("f32", (1, 2))),
            "make the layer before",
        ),
    ],
)
def test_senseless_arguments(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(tn.TeenyError, match=message):
        make()
