"""Checkpointing: the same values and gradients, of values that are computed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import teeny_core as tn
from teeny_core import nn
from teeny_core.internal import evaluate_updates

RNG = np.random.default_rng(7)
X = RNG.standard_normal((3, 8)).astype(np.float32)
Function = Callable[..., Any]


def results(function: Function, arrays: tuple[Any, ...], layer: Any = None) -> tuple[Any, ...]:
    """Return the value of a scalar function, and its gradients by the arrays and the weights."""
    weights = dict(layer.named_parameters()) if layer else {}

    def both(*arguments: Any) -> Any:
        fresh = [x * 1 if x.dtype.is_float else x for x in arguments]
        value = function(*fresh)
        floats = [x for x in fresh if x.dtype.is_float]
        return value, *tn.gradients(value, [*floats, *weights.values()])

    kinds = [tn.SymTensor.input(tn.dtype(a.dtype), a.shape) for a in arrays]
    graph = tn.trace(both, *kinds, train=True, parameters=weights)
    graph.verify()
    bound = {name: tensor.numpy() for name, tensor in graph.bindings.items()}
    return graph, evaluate_updates(graph, arrays, bound)[0]


def apart(function: Function) -> Function:
    """Return a function whose arguments' gradients are summed before others are added."""
    return lambda *arguments: function(*(x * 1 for x in arguments))


def same(
    plain: Function, kept: Function, *arrays: Any, layer: Any = None, exact: bool = True
) -> None:
    before, wanted = results(plain, arrays, layer)
    after, found = results(kept, arrays, layer)
    assert sum(node.op == "after" for node in after.nodes) > 0
    assert not any(node.op == "after" for node in before.nodes)
    for one, other in zip(found, wanted, strict=True):
        if exact:
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_a_deep_model_with_dropout() -> None:
    tn.manual_seed(3)
    blocks = [
        nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.4),
                      nn.Linear(16, 8))
        for _ in range(3)
    ]  # fmt: skip
    model = nn.Sequential(*blocks)

    def loss(wrap: Function) -> Function:
        def function(x: Any) -> Any:
            for block in blocks:
                x = x + wrap(block)(x)
            return (x * x).mean()

        return function

    same(loss(apart), loss(tn.checkpoint), X, layer=model)


def test_trees_integers_and_settings() -> None:
    index = np.array([2, 0, 1], np.int64)

    def block(pair: dict[str, Any], index: Any, *, power: int) -> tuple[Any, Any]:
        y = pair["x"].take_along(index.reshape(3, 1), 1).exp() * pair["w"].sin()
        return (y**power).sum(), y.cos().mean()

    def loss(f: Function) -> Function:
        def function(x: Any, w: Any, index: Any) -> Any:
            a, b = f({"x": x, "w": w}, index, power=2)
            return a * b

        return function

    same(loss(block), loss(tn.checkpoint(block)), X, X[:1], index, exact=False)


def test_what_it_closes_over_has_its_gradient() -> None:
    def loss(wrap: Function) -> Function:
        def function(x: Any, w: Any) -> Any:
            v = w.exp()
            return (wrap(lambda y: (y * w).tanh() * v)(x) * w).sum()

        return function

    same(loss(lambda f: f), loss(tn.checkpoint), X, X + 1, exact=False)


def test_second_derivatives() -> None:
    def loss(wrap: Function) -> Function:
        def function(x: Any) -> Any:
            slope = tn.grad(lambda y: wrap(lambda z: (z * z).sin().exp())(y).sum())(x)
            return (slope * slope).sum()

        return function

    same(loss(apart), loss(tn.checkpoint), X)


def test_a_function_of_no_argument_is_left_as_it_is() -> None:
    constant = tn.checkpoint(lambda x: tn.ones((2,)))(tn.Tensor(X))
    np.testing.assert_array_equal(constant.numpy(), np.ones(2, np.float32))


def test_concrete_tensors() -> None:
    value, slope = tn.value_and_grad(tn.checkpoint(lambda x: (x.sin() * x).sum()))(tn.Tensor(X))
    wide = X.astype(np.float64)
    np.testing.assert_allclose(value.numpy(), (np.sin(wide) * wide).sum(), rtol=1e-5)
    wanted = np.sin(wide) + wide * np.cos(wide)
    np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-5, atol=1e-6)
