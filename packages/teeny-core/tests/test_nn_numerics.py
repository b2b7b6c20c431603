"""Layers where naive formulas fail: large means, half precision, masks, statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import teeny_core as tn
from teeny_core import nn
from teeny_core.nn import functional

Run = Callable[..., Any]


def large_mean(axis: int, mean: float, deviation: float, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(axis)
    return (mean + deviation * rng.standard_normal(shape)).astype(np.float32)


def test_layer_norm_of_a_large_mean(run: Run) -> None:
    x = np.array([[40000, 40001, 40002, 40003]], np.float32)
    (y,), _ = run(nn.LayerNorm(4), x)
    np.testing.assert_allclose(y, [[-1.3416, -0.4472, 0.4472, 1.3416]], atol=1e-4)


def test_batch_norm_far_from_zero(run: Run) -> None:
    x = large_mean(0, 1e4, 1e-1, (16, 4, 6, 5))
    (y,), updates = run(nn.BatchNorm2d(4, momentum=1.0), x, train=True)
    wide, axes = x.astype(np.float64), (0, 2, 3)
    centred = wide - wide.mean(axes, keepdims=True)
    np.testing.assert_allclose(
        y, centred / np.sqrt(centred.var(axes, keepdims=True) + 1e-5), 0, 1e-3
    )
    variances = [value for value in updates.values() if value.shape == (4,) and (value < 1).all()]
    np.testing.assert_allclose(variances, [wide.var(axes, ddof=1)], 1e-4)


@pytest.mark.parametrize("value", [0.0, 1.0, -3e4, 1e15])
def test_batch_norm_of_a_constant(run: Run, value: float) -> None:
    x = np.full((4, 2, 3, 3), value, np.float32)
    (y,), _ = run(nn.BatchNorm2d(2), x, train=True)
    np.testing.assert_allclose(y, np.zeros_like(y), atol=1e-3)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_half_precision_norms_square_in_f32(run: Run, kind: str, dtype: str) -> None:
    x = np.array([[3000.0, -3000.0, 1000.0, -1000.0]])
    layers = {"layer": nn.LayerNorm(4, dtype=dtype), "rms": nn.RmsNorm(4, dtype=dtype)}
    given = x.astype(tn.dtype(dtype).numpy)
    (y,), _ = run(layers[kind], given)
    exact = given.astype(np.float64)
    exact /= np.sqrt((exact**2).mean())
    assert tn.dtype(y.dtype).name == dtype
    unit = float(ml_dtypes.finfo(given.dtype).eps)
    np.testing.assert_allclose(y.astype(np.float64), exact, rtol=unit)


@pytest.mark.parametrize("momentum", [0.1, 0.7, None])
def test_running_statistics_over_batches(run: Run, momentum: float | None) -> None:
    torch = pytest.importorskip("torch")
    ours = nn.BatchNorm2d(3, momentum=momentum)
    theirs = torch.nn.BatchNorm2d(3, momentum=momentum)
    for seed in range(3):
        x = large_mean(seed, 5.0, 2.0, (4, 3, 2, 3))
        _, updates = run(ours, x, train=True, parameters=dict(ours.named_buffers()))
        for name, value in updates.items():
            getattr(ours, name).assign(value)
        theirs(torch.from_numpy(x))
    assert ours.num_batches_tracked is not None
    assert ours.num_batches_tracked.item() == 3
    for name in ("running_mean", "running_var"):
        expected = getattr(theirs, name).numpy()
        np.testing.assert_allclose(getattr(ours, name).numpy(), expected, 1e-5)


def test_cumulative_statistics_are_means() -> None:
    layer = nn.BatchNorm2d(1, momentum=None)
    batches = [np.full((2, 1, 1, 2), value, np.float32) for value in (1, 2, 6)]
    for place, batch in enumerate(batches):
        batch[0] += place  # so that the variances differ
    means, variances = [b.mean() for b in batches], [b.var(ddof=1) for b in batches]

    graph = tn.trace(
        layer,
        tn.SymTensor.input(tn.f32, (None, 1, 1, 2)),
        train=True,
    )
    from teeny_core.internal import evaluate_updates

    for batch in batches:
        held = {name: tensor.numpy() for name, tensor in graph.bindings.items()}
        _, updates = evaluate_updates(graph, [batch], held)
        for name, value in updates.items():
            graph.bindings[name].assign(value)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    np.testing.assert_allclose(layer.running_mean.numpy(), [np.mean(means)], rtol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), [np.mean(variances)], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_statistics_of_another_type(run: Run, dtype: str) -> None:
    layer = nn.BatchNorm2d(2, momentum=1.0).to(dtype)
    x = (3 * np.random.default_rng(0).standard_normal((4, 2, 3, 3)) + 5).astype(
        tn.dtype(dtype).numpy
    )
    (y,), updates = run(layer, x, train=True, parameters=dict(layer.named_buffers()))
    assert tn.dtype(y.dtype).name == dtype
    assert tn.dtype(updates["running_var"].dtype).name == dtype
    exact = x.astype(np.float64).var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(updates["running_var"].astype(np.float64), exact, 1e-2)


def test_padding_gets_no_gradient(run: Run) -> None:
    layer = nn.Embedding(50, 8, padding_idx=3)
    assert not layer.weight.numpy()[3].any()
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 50, 1000)
    tokens[::2] = 3

    def gradient(index: tn.AnyTensor) -> tn.AnyTensor:
        return tn.gradients(layer(index).square().sum() + layer(index).sum(), [layer.weight])[0]

    (found,), _ = run(gradient, tokens)
    assert (found[3] == 0).all()
    assert found[4].any()


# --- attention ----------------------------------------------------------------------------------


def attention_inputs(dtype: str = "f32") -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4))
    return [rng.standard_normal(shape).astype(tn.dtype(dtype).numpy) for shape in shapes]


@pytest.mark.parametrize("mask", [None, "bool", "float"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention(run: Run, mask: str | None, scale: float | None) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    arrays = attention_inputs()
    masks = {"bool": rng.random((5, 7)) < 0.7, "float": rng.standard_normal((3, 5, 7), np.float32)}
    masks["bool"][:, 0] = True
    extra = [] if mask is None else [masks[mask]]
    peer = torch.nn.functional.scaled_dot_product_attention
    expected = peer(*map(torch.from_numpy, [*arrays, *extra]), scale=scale)

    def ours(*tensors: tn.AnyTensor) -> tn.AnyTensor:
        return functional.scaled_dot_product_attention(*tensors, scale=scale)

    got = tn.evaluate(
        tn.trace(ours, *(tn.SymTensor.input(a.dtype, a.shape) for a in [*arrays, *extra])),
        [*arrays, *extra],
    )
    np.testing.assert_allclose(got[0], expected.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("lengths", [(5, 5), (4, 7), (7, 4)])
def test_causal_attention(lengths: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    queries, keys = lengths
    shapes = ((2, queries, 8), (2, keys, 8), (2, keys, 8))
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    peer = torch.nn.functional.scaled_dot_product_attention
    expected = peer(*map(torch.from_numpy, arrays), is_causal=True)
    handles = [tn.SymTensor.input(tn.f32, a.shape) for a in arrays]
    graph = tn.trace(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True), *handles
    )
    np.testing.assert_allclose(tn.evaluate(graph, arrays)[0], expected.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_without_keys_gets_zeros(run: Run, kind: str, dtype: str) -> None:
    visible = np.ones((5, 7), bool)
    visible[2] = False
    mask = visible if kind == "bool" else np.where(visible, 0, -np.inf)
    if kind == "float":
        mask = mask.astype(tn.dtype(dtype).numpy)

    def gradients(q: Any, k: Any, v: Any, m: Any) -> Any:
        out = functional.scaled_dot_product_attention(q, k, v, m)
        return out, *tn.gradients(out.sum(), [q, k, v])

    arrays = [*attention_inputs(dtype), mask]
    handles = [tn.SymTensor.input(tn.dtype(a.dtype), a.shape) for a in arrays]
    out, *found = tn.evaluate(tn.trace(gradients, *handles), arrays)
    assert (out[:, :, 2] == 0).all()
    assert all(np.isfinite(array.astype(np.float32)).all() for array in (out, *found))


def test_a_mask_of_the_lowest_half(run: Run) -> None:
    lowest = float(np.finfo(np.float16).min)
    scores = np.full((1, 4), -20, np.float16)
    mask = np.array([[0, lowest, lowest, 0]], np.float16)
    (weights,), _ = run(lambda s, m: (s + m).softmax(-1), scores, mask)
    np.testing.assert_array_equal(weights, [[0.5, 0, 0, 0.5]])


def test_masks_of_multihead_attention() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    ours = nn.MultiheadAttention(8, 2, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 5, 8)).astype(np.float32)
    padding = np.zeros((3, 5), bool)
    padding[:, 4] = True
    hidden = np.triu(np.ones((5, 5), bool), 1)
    per_head = np.where(rng.random((6, 5, 5)) < 0.3, -1.0, 0.0).astype(np.float32)
    cases: list[tuple[Any, Any]] = [(padding, None), (None, hidden), (padding, hidden)]
    cases += [(None, per_head), (np.where(padding, -np.inf, 0).astype(np.float32), per_head)]
    for keys, attention in cases:
        given = {"key_padding_mask": keys, "attn_mask": attention}
        named = {name: value for name, value in given.items() if value is not None}
        expected = theirs(
            *[torch.from_numpy(x)] * 3,
            **{name: torch.from_numpy(value) for name, value in named.items()},
        )
        arrays = [x, *named.values()]
        graph = tn.trace(
            lambda x, *masks, names=tuple(named): ours(
                x, x, x, **dict(zip(names, masks, strict=True))
            ),
            *(tn.SymTensor.input(tn.dtype(a.dtype), a.shape) for a in arrays),
        )
        held = {name: tensor.numpy() for name, tensor in graph.bindings.items()}
        for got, wanted in zip(tn.evaluate(graph, arrays, held), expected, strict=True):
            np.testing.assert_allclose(got, wanted.detach().numpy(), 1e-5, 1e-5)


def test_gelu_forms(run: Run) -> None:
    x = np.array([-1.0], np.float32)
    (exact,), _ = run(lambda x: x.gelu(), x)
    (tanh,), _ = run(lambda x: x.gelu("tanh"), x)
    np.testing.assert_allclose([exact[0], tanh[0]], [-0.158655, -0.158808], atol=1e-6)


@pytest.mark.parametrize("x", [0.0, -0.0, 1e-30, 50.0, -50.0, 1e4, -1e4])
def test_softplus_and_its_slope(run: Run, x: float) -> None:
    def both(x: tn.AnyTensor) -> Any:
        value = x.softplus()
        return value, tn.gradients(value, [x])[0]

    (value, slope), _ = run(both, np.array([x], np.float32))
    wide = np.float64(np.float32(x))
    np.testing.assert_allclose(value, np.logaddexp(0, [wide]), 1e-6)
    np.testing.assert_allclose(slope, [1 / (1 + math.exp(min(-wide, 700)))], 1e-6, 1e-30)
