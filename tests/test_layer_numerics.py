"""Numbers that naive kernels get wrong, through layers on the compiled device."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import teeny_core as tn
from teeny_core import nn

Array = np.ndarray[Any, Any]


def run(function: Any, *arrays: Array, train: bool = False) -> Any:
    handles = [tn.SymTensor.input(tn.dtype(a.dtype), a.shape) for a in arrays]
    return tn.compile(tn.trace(function, *handles, train=train), device="cpu")(*arrays)


@pytest.mark.parametrize("shape", [(64, 3, 32, 32), (16, 5, 7, 3)])
def test_batch_norm_far_from_zero(shape: tuple[int, ...]) -> None:
    x = (1e4 + 1e-1 * np.random.default_rng(0).standard_normal(shape)).astype(np.float32)
    layer = nn.BatchNorm2d(shape[1], momentum=1.0)
    y = run(layer, x, train=True)
    wide, axes = x.astype(np.float64), (0, 2, 3)
    centred = wide - wide.mean(axes, keepdims=True)
    exact = centred / np.sqrt(centred.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, exact, 0, 1e-3)
    assert layer.running_var is not None
    np.testing.assert_allclose(layer.running_var.numpy(), wide.var(axes, ddof=1), 1e-3)


def test_layer_norm_of_a_large_mean() -> None:
    x = np.array([[40000, 40001, 40002, 40003]], np.float32)
    y = run(nn.LayerNorm(4), x)
    np.testing.assert_allclose(y, [[-1.3416, -0.4472, 0.4472, 1.3416]], atol=1e-4)


@pytest.mark.parametrize(("reduction", "expected"), [("mean", math.nan), ("sum", 0.0)])
def test_every_target_ignored(reduction: str, expected: float) -> None:
    loss = nn.CrossEntropyLoss(reduction=reduction)
    np.testing.assert_equal(
        float(run(loss, np.ones((3, 5), np.float32), np.full(3, -100))), expected
    )


def test_padding_gets_no_gradient() -> None:
    layer = nn.Embedding(50, 8, padding_idx=3)
    tokens = np.random.default_rng(0).integers(0, 50, 1000)
    tokens[::2] = 3
    found = run(lambda index: tn.gradients(layer(index).square().sum(), [layer.weight])[0], tokens)
    assert (found[3] == 0).all()
    assert found[4].any()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_without_keys_gets_zeros(kind: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    target = tn.dtype(dtype).numpy
    q, k, v = (rng.standard_normal((2, 5, 8)).astype(target) for _ in range(3))
    visible = np.ones((5, 5), bool)
    visible[2] = False
    mask = visible if kind == "bool" else np.where(visible, 0, -np.inf).astype(target)
    out = run(nn.functional.scaled_dot_product_attention, q, k, v, mask)
    assert (out[:, 2] == 0).all()
    assert np.isfinite(out.astype(np.float32)).all()


def test_a_mask_of_the_lowest_half() -> None:
    lowest = float(np.finfo(np.float16).min)
    scores = np.full((1, 4), -20, np.float16)
    mask = np.array([[0, lowest, lowest, 0]], np.float16)
    np.testing.assert_array_equal(
        run(lambda s, m: (s + m).softmax(-1), scores, mask), [[0.5, 0, 0, 0.5]]
    )


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_precision_norms_square_in_f32(dtype: str) -> None:
    x = np.array([[3000.0, -3000.0, 1000.0, -1000.0]]).astype(tn.dtype(dtype).numpy)
    exact = x.astype(np.float64) / np.sqrt((x.astype(np.float64) ** 2).mean())
    unit = float(ml_dtypes.finfo(x.dtype).eps)  # type: ignore[no-untyped-call]
    for layer in (nn.LayerNorm(4, dtype=dtype), nn.RmsNorm(4, dtype=dtype)):
        y = run(layer, x)
        np.testing.assert_allclose(y.astype(np.float64), exact, rtol=unit)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("width", [64, 1000, 4096])
def test_layer_and_group_norm_far_from_zero(width: int, groups: int) -> None:
    """The variance is exact; the mean, rounded to f32, is off by half a unit in the last place."""
    x = (1e4 + np.random.default_rng(0).standard_normal((8, width))).astype(np.float32)
    layer = nn.LayerNorm(width) if groups == 1 else nn.GroupNorm(groups, width)
    y = run(layer, x).astype(np.float64).reshape(8, groups, -1)
    wide = x.astype(np.float64).reshape(y.shape)
    centred = wide - wide.mean(-1, keepdims=True)
    exact = centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, exact, rtol=0, atol=2 * np.spacing(np.float32(1e4)))
    np.testing.assert_allclose(y - y.mean(-1, keepdims=True), exact, rtol=1e-5, atol=1e-6)
