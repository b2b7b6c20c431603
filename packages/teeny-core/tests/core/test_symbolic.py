"""Graphs with symbolic sizes: one graph gives what PyTorch gives for each size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_core as tn

torch = pytest.importorskip("torch")
functional = torch.nn.functional

RNG = np.random.default_rng(11)
W = RNG.standard_normal((5, 2, 3, 3))
V = RNG.standard_normal((45, 7))
U = RNG.standard_normal((6, 6))

Both = tuple[Callable[..., Any], Callable[..., Any]]


def convolution(x: Any) -> Any:
    hidden = x.conv2d(tn.Tensor(W), padding=1).relu().max_pool2d(2)
    return hidden.reshape(x.shape[0], -1) @ tn.Tensor(V)


def convolution_peer(x: Any) -> Any:
    hidden = functional.max_pool2d(functional.conv2d(x, torch.tensor(W), padding=1).relu(), 2)
    return hidden.reshape(x.shape[0], -1) @ torch.tensor(V)


def attention(x: Any) -> Any:
    keys = x @ tn.Tensor(U)
    mask = tn.tril(tn.ones(x.shape[1], x.shape[1], dtype="f64")) > 0
    scores = mask.where(keys @ x.mT / 6**0.5, -np.inf)
    return scores.softmax(-1) @ x


def attention_peer(x: Any) -> Any:
    keys = x @ torch.tensor(U)
    mask = torch.tril(torch.ones(x.shape[1], x.shape[1])) > 0
    scores = torch.where(mask, keys @ x.mT / 6**0.5, -np.inf)
    return scores.softmax(-1) @ x


def shifts(x: Any) -> Any:
    double = tn.cat([x, x.flip(0)], 0)
    halves = double.reshape(2, x.shape[0], *x.shape[1:])
    return (halves[0] + halves[1][::-1])[:-1] * x[1:] + x.roll(1, 1)[1:].mean()


def shifts_peer(x: Any) -> Any:
    halves = torch.cat([x, x.flip(0)]).reshape(2, *x.shape)
    return (halves[0] + halves[1].flip(0))[:-1] * x[1:] + x.roll(1, 1)[1:].mean()


def statistics(x: Any) -> Any:
    flat = x.flatten(1)
    place = tn.arange(x.shape[0]).cast("f64") / x.shape[0]
    centred = (flat - flat.mean(1, keepdims=True)) / (flat.var(1, keepdims=True) + 1e-5).sqrt()
    return centred * place.unsqueeze(1) + flat.logsumexp(0)


def statistics_peer(x: Any) -> Any:
    flat = x.flatten(1)
    place = torch.arange(x.shape[0]).double() / x.shape[0]
    centred = (flat - flat.mean(1, keepdim=True)) / (flat.var(1, keepdim=True) + 1e-5).sqrt()
    return centred * place.unsqueeze(1) + flat.logsumexp(0)


PROGRAMS: dict[str, tuple[Both, tuple[Any, ...], list[tuple[int, ...]]]] = {
    "convolution": (
        (convolution, convolution_peer),
        (None, 2, 6, 6),
        [(1, 2, 6, 6), (4, 2, 6, 6)],
    ),
    "attention": (
        (attention, attention_peer),
        ("batch", "time", 6),
        [(1, 1, 6), (2, 5, 6), (3, 8, 6)],
    ),
    "shifts": ((shifts, shifts_peer), ("n", 4), [(2, 4), (5, 4)]),
    "statistics": ((statistics, statistics_peer), ("n", 3, 2), [(1, 3, 2), (6, 3, 2)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name: str) -> None:
    (ours, peer), declared, sizes = PROGRAMS[name]
    graph = tn.trace(
        lambda x: (ours(x), tn.grad(lambda y: (ours(y) ** 2).sum())(x)),
        tn.SymTensor.input("f64", declared),
    )
    graph.verify()
    program = tn.compile(graph)
    for size in sizes:
        x = RNG.standard_normal(size)
        value, gradient = program(x)
        tensor = torch.tensor(x, requires_grad=True)
        expected = peer(tensor)
        (slope,) = torch.autograd.grad((expected**2).sum(), tensor)
        np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(gradient, slope.numpy(), rtol=1e-8, atol=1e-8)


def test_sizes_are_values_too() -> None:
    graph = tn.trace(
        lambda x: (x.shape[0] * 2 - x, x.shape[0] / x.sum(), x.shape[0] < x),
        tn.SymTensor.input("i32", ("n",)),
    )
    double, ratio, below = tn.evaluate(graph, [np.array([1, 2, 5], np.int32)])
    assert double.tolist() == [5, 4, 1]
    assert ratio == np.float32(3 / 8)
    assert below.tolist() == [False, False, True]


def test_unequal_sizes_are_not_assumed_equal() -> None:
    x, y = (tn.SymTensor.input("f32", (name, 3)) for name in ("n", "m"))
    with pytest.raises(tn.ShapeError, match=r"cannot broadcast \[n, 3\] and \[m, 3\]: n and m"):
        x + y
    with pytest.raises(tn.ShapeError, match="name equal symbolic sizes alike"):
        x + tn.zeros(4, 3)
    with pytest.raises(tn.ShapeError, match="hint: use narrow"):
        x.split(2)
    assert (x + tn.zeros(1, 3)).shape == x.shape
    assert x.reshape(-1).shape[0] == 3 * x.shape[0]
    assert [piece.shape for piece in x.repeat(2, 1).chunk(2)] == [x.shape, x.shape]


@pytest.mark.parametrize("size", [0, 1])
def test_windows_beyond_the_image_are_refused(size: int) -> None:
    """Also where only a value on the way has a negative size: it would be memory past the end."""
    image = tn.SymTensor.input("f64", (1, 2, "h", "h"))
    graph = tn.trace(lambda x: x.conv2d(tn.Tensor(W)).sum(), image)
    assert {guard.node.op for guard in graph.guards} == {"conv2d"}
    with pytest.raises(tn.ShapeError, match=rf"conv2d needs h - 2 >= 1, got h = {size}\n.*larger"):
        tn.compile(graph, "null")(np.ones((1, 2, size, size)))
    with pytest.raises(tn.ShapeError, match="larger inputs"):
        tn.evaluate(graph, [np.ones((1, 2, size, size))], {"captured.0": W})


def test_sizes_that_are_never_negative_set_no_limit() -> None:
    image = tn.SymTensor.input("f64", ("n", 2, 6, 6))
    graph = tn.trace(lambda x: convolution(tn.cat([x[1:], x], 0)), image)
    assert graph.guards == ()


IMAGE = (1, 1, "n", 4)
NEEDS: dict[str, Any] = {
    "max": (lambda x: x.max(), ("n",), 1, "max needs n >= 1, got n = 0"),
    "min": (lambda x: x.min(1), (2, "n"), 1, "min needs n >= 1, got n = 0"),
    "argmax": (lambda x: x.argmax(), (2, "n"), 1, r"argmax needs 2\*n >= 1, got n = 0"),
    "argmin": (lambda x: x.argmin(0), ("n", 2), 1, "argmin needs n >= 1, got n = 0"),
    "softmax": (lambda x: x.softmax(-1), (2, "n"), 1, "max needs n >= 1, got n = 0"),
    "logsumexp": (lambda x: x.logsumexp(-1), (2, "n"), 1, "max needs n >= 1, got n = 0"),
    "norm": (lambda x: x.norm(math.inf), ("n",), 1, "max needs n >= 1, got n = 0"),
    "max_pool2d": (lambda x: x.max_pool2d(3), IMAGE, 3, "max_pool2d needs n//3 >= 1, got n = 2"),
    "avg_pool2d": (lambda x: x.avg_pool2d(2), IMAGE, 2, "avg_pool2d needs n//2 >= 1, got n = 1"),
    "first": (lambda x: x[0], ("n",), 1, "slice needs n >= 1, got n = 0"),
    "last": (lambda x: x[-1], ("n", 3), 1, "slice needs n - 1 >= 0, got n = 0"),
    "narrow": (lambda x: x.narrow(0, 2, 4), ("n",), 6, "slice needs n >= 6, got n = 5"),
}


@pytest.mark.parametrize("device", ["cpu", "ndarray", "null"])
@pytest.mark.parametrize("name", NEEDS)
def test_sizes_without_a_value_are_refused_on_every_device(name: str, device: str) -> None:
    """No value exists, and none is made up: the dimension and the operation are named."""
    function, shape, least, message = NEEDS[name]
    program = tn.compile(tn.trace(function, tn.SymTensor.input("f32", shape)), device)

    def image(size: int) -> Any:
        return np.ones([size if extent == "n" else extent for extent in shape], np.float32)

    for _ in range(2):
        with pytest.raises(tn.ShapeError, match=message) as raised:
            program(image(least - 1))
        assert "pass larger inputs" in str(raised.value)
    program(image(least))


@pytest.mark.parametrize("device", ["cpu", "ndarray"])
def test_sums_and_products_of_nothing_exist(device: str) -> None:
    x = tn.SymTensor.input("f32", (2, "n"))
    graph = tn.trace(lambda x: (x.sum(1), x.prod(1), x.mean(1), x.any(1), x.all(1), x[:, 1:]), x)
    assert graph.guards == ()
    empty = np.zeros((2, 0), np.float32)
    total, product, mean, some, every, rest = tn.compile(graph, device)(empty)
    assert (total == empty.sum(1)).all()
    assert (product == empty.prod(1)).all()
    assert np.isnan(mean).all()
    assert (some == empty.any(1)).all()
    assert (every == empty.all(1)).all()
    assert rest.shape == (2, 0)


def test_guards_are_printed_and_name_the_layer() -> None:
    model = tn.nn.Sequential(tn.nn.MaxPool2d(2), tn.nn.Flatten())
    graph = tn.trace(model, tn.SymTensor.input("f32", (1, 3, "h", 8), "x"))
    assert "\n  guard h//2 >= 1  # max_pool2d\n" in str(graph)
    with pytest.raises(tn.ShapeError, match=r"max_pool2d in .*0.* needs h//2 >= 1, got h = 1"):
        tn.compile(graph, "null")(np.zeros((1, 3, 1, 8), np.float32))
