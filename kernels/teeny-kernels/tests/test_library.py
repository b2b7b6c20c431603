"""The plain kernels, launched as they are, against NumPy and PyTorch."""

import numpy as np
import pytest
from teeny_core import bf16, f16, f32, f64, i64
from teeny_kernels.kernels import index, pointwise, rows
from teeny_triton import Ptr, interpret
from teeny_triton import language as tl

SHAPES = [(3, 1), (2, 17), (4, 40)]
EPSILON = 1e-5


def random(shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def launch(kernel, grid, arrays, numbers=None, **constants):
    """Interpret a kernel over arrays; the numbers are constants of it."""
    kinds = {name: Ptr[_dtype(array)] for name, array in arrays.items()}
    numbers = numbers or {}
    function = kernel.function(**kinds, **{n: kernel.specs[n] for n in numbers}, **constants)
    interpret(function, grid, [*arrays.values(), *numbers.values()])


def _dtype(array):
    return next(d for d in (f32, f64, f16, bf16, i64) if d.numpy == array.dtype)


def softmax(x):
    raised = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape):
    x, y = random(shape, scale=30), np.empty(shape, np.float32)
    block = shape[1] + 3
    launch(rows.softmax, shape[:1], {"x": x, "y": y}, {"columns": shape[1]}, BLOCK=block)
    np.testing.assert_allclose(y, softmax(x), rtol=1e-5, atol=1e-7)
    launch(rows.log_softmax, shape[:1], {"x": x, "y": y}, {"columns": shape[1]}, BLOCK=block)
    np.testing.assert_allclose(y, np.log(softmax(x) + 1e-300), rtol=1e-5, atol=1e-5)


def test_softmax_of_half_precision():
    x, y = random((2, 20)).astype(bf16.numpy), np.empty((2, 20), bf16.numpy)
    launch(rows.softmax, (2,), {"x": x, "y": y}, {"columns": 20}, BLOCK=32)
    expected = softmax(x.astype(float))
    np.testing.assert_allclose(y.astype(float), expected, rtol=2**-8)  # rounded once


def test_softmax_of_special_values():
    x = np.array([[1, np.nan, 2], [np.inf, 0, 0], [-np.inf, 0, 0]], np.float32)
    y = np.empty_like(x)
    launch(rows.softmax, (3,), {"x": x, "y": y}, {"columns": 3}, BLOCK=4)
    assert np.isnan(y[0]).all()
    assert np.isnan(y[1, 0])
    np.testing.assert_array_equal(y[2], [0, 0.5, 0.5])


def test_cross_entropy():
    x, target = random((5, 9)), np.array([0, 8, 3, 3, 5])
    loss, dx = np.empty(5, np.float32), np.empty((5, 9), np.float32)
    arrays = {"x": x, "target": target, "loss": loss, "dx": dx}
    launch(rows.cross_entropy, (5,), arrays, {"columns": 9}, BLOCK=16)
    weights = softmax(x)
    np.testing.assert_allclose(loss, -np.log(weights[np.arange(5), target]), rtol=1e-5)
    np.testing.assert_allclose(dx, weights - np.eye(9)[target], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_norms(shape):
    x, w, b = random(shape) + 5, random(shape[1:], 1), random(shape[1:], 2)
    y, numbers = np.empty(shape, np.float32), {"columns": shape[1], "epsilon": EPSILON}
    arrays = {"x": x, "weight": w, "bias": b, "y": y}
    launch(rows.layer_norm, shape[:1], arrays, numbers, BLOCK=64)
    wide = x.astype(np.float64)
    mean, var = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    expected = (wide - mean) / np.sqrt(var + EPSILON) * w + b
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    launch(rows.rms_norm, shape[:1], {"x": x, "weight": w, "y": y}, numbers, BLOCK=64)
    square = (wide**2).mean(-1, keepdims=True)
    np.testing.assert_allclose(y, wide / np.sqrt(square + EPSILON) * w, rtol=1e-4, atol=1e-5)


def test_layer_norm_far_from_zero():
    x, y = random((2, 64)) + 1e4, np.empty((2, 64), np.float32)
    arrays = {"x": x, "weight": np.ones(64, np.float32), "bias": np.zeros(64, np.float32), "y": y}
    launch(rows.layer_norm, (2,), arrays, {"columns": 64, "epsilon": EPSILON}, BLOCK=64)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    np.testing.assert_allclose(y, expected, atol=2e-3)


def test_batch_norm():
    x = random((3, 4, 50)) * 2 + 7
    mean, variance = np.empty(4, np.float32), np.empty(4, np.float32)
    sizes = {"images": 3, "channels": 4, "pixels": 50}
    arrays = {"x": x, "mean": mean, "variance": variance}
    launch(rows.channel_statistics, (4,), arrays, sizes, BLOCK=16)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean((0, 2)), rtol=1e-5)
    np.testing.assert_allclose(variance, wide.var((0, 2)), rtol=1e-5)
    w, b, y = random(4, 1), random(4, 2), np.empty_like(x)
    arrays = {"x": x, "mean": mean, "variance": variance, "weight": w, "bias": b, "y": y}
    sizes = {"channels": 4, "pixels": 50, "epsilon": EPSILON}
    launch(rows.batch_norm, (12,), arrays, sizes, BLOCK=16)
    scaled = (wide - wide.mean((0, 2))[:, None]) / np.sqrt(wide.var((0, 2)) + EPSILON)[:, None]
    np.testing.assert_allclose(y, scaled * w[:, None] + b[:, None], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
def test_reduce_rows(kind):
    x, y = random((4, 21)), np.empty(4, np.float32)
    launch(rows.reduce_rows, (4,), {"x": x, "y": y}, {"columns": 21}, KIND=kind, BLOCK=32)
    expected = getattr(np, kind)(x.astype(np.float64), axis=1)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-6)


def test_argmax():
    x = np.array([[1, 5, 5, 2], [np.nan, 9, np.nan, 0], [-np.inf] * 4, [3, 2, 1, 4]], np.float32)
    y = np.empty(4, np.int64)
    launch(rows.argmax, (4,), {"x": x, "y": y}, {"columns": 4}, BLOCK=8)
    np.testing.assert_array_equal(y, x.argmax(1))


def test_pointwise():
    a, b, y = random(100), random(100, 1), np.empty(100, np.float32)
    function = pointwise.pointwise.function(
        inputs=(Ptr[f32], Ptr[f32]),
        y=Ptr[f32],
        size=i64,
        FUNCTION=lambda x, y: tl.maximum(x * y, 0.0),
        BLOCK=64,
    )
    interpret(function, (2,), [a, b, y, 100])
    np.testing.assert_array_equal(y, np.maximum(a * b, 0))


OPTIMISERS = {
    "momentum": ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {"weight_decay": 0.1}),
    "adamw": ("AdamW", {"weight_decay": 0.1}),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_as_in_pytorch(name):
    torch = pytest.importorskip("torch")
    kind, options = OPTIMISERS[name]
    weight, gradients = random(30), [random(30, 1), random(30, 2)]
    theirs = torch.nn.Parameter(torch.from_numpy(weight.copy()))
    optimiser = getattr(torch.optim, kind)([theirs], lr=0.1, **options)
    state = [np.zeros(30, np.float32) for _ in range(2)]
    for step, gradient in enumerate(gradients, 1):
        theirs.grad = torch.from_numpy(gradient)
        optimiser.step()
        arrays = {"weight": weight, "gradient": gradient}
        numbers = {"size": 30, "rate": 0.1}
        decay = {"decay": options.get("weight_decay", 0.0)}
        if kind == "SGD":
            nesterov = options.get("nesterov", False)
            arrays |= {"velocity": state[0]}
            numbers |= {"momentum": 0.9, **decay}
            launch(pointwise.sgd, (2,), arrays, numbers, NESTEROV=nesterov, BLOCK=16)
        else:
            arrays |= {"mean": state[0], "square": state[1]}
            numbers |= {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, **decay}
            numbers |= {"correction1": 1 - 0.9**step, "correction2": 1 - 0.999**step}
            launch(pointwise.adam, (2,), arrays, numbers, DECOUPLED=kind == "AdamW", BLOCK=16)
    np.testing.assert_allclose(weight, theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_take_and_its_gradient():
    table, numbers = random((7, 20)), np.array([3, 0, 3, 6, 3])
    y = np.empty((5, 20), np.float32)
    arrays = {"table": table, "index": numbers, "y": y}
    launch(index.take, (5,), arrays, {"columns": 20}, BLOCK=16)
    np.testing.assert_array_equal(y, table[numbers])
    total, dy = np.zeros((7, 20), np.float32), random((5, 20), 1)
    arrays = {"index": numbers, "dy": dy, "table": total}
    launch(index.take_grad, (2,), arrays, {"count": 5, "columns": 20}, BLOCK=16)
    expected = np.zeros((7, 20))
    np.add.at(expected, numbers, dy.astype(np.float64))
    np.testing.assert_allclose(total, expected, rtol=1e-6, atol=1e-6)
