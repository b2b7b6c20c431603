"""Optimisers against PyTorch's, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import optim

Run = Callable[..., Any]
Array = np.ndarray[Any, Any]
STEPS = 10
SHAPES = {"weight": (7, 5), "bias": (5,)}

PAIRS: dict[str, tuple[optim.Optimizer, Callable[[Any, Any], Any]]] = {
    "SGD": (optim.SGD(0.1), lambda o, p: o.SGD(p, 0.1)),
    "SGD, weight decay": (
        optim.SGD(0.1, weight_decay=0.2),
        lambda o, p: o.SGD(p, 0.1, weight_decay=0.2),
    ),
    "SGD, momentum": (optim.SGD(0.1, 0.9), lambda o, p: o.SGD(p, 0.1, 0.9)),
    "SGD, dampening": (
        optim.SGD(0.1, 0.9, 0.3, 0.01),
        lambda o, p: o.SGD(p, 0.1, 0.9, 0.3, 0.01),
    ),
    "SGD, Nesterov": (
        optim.SGD(0.1, 0.9, weight_decay=0.1, nesterov=True),
        lambda o, p: o.SGD(p, 0.1, 0.9, weight_decay=0.1, nesterov=True),
    ),
    "Adam": (optim.Adam(1e-2), lambda o, p: o.Adam(p, 1e-2)),
    "Adam, other settings": (
        optim.Adam(3e-2, (0.5, 0.9), 1e-4, 0.1),
        lambda o, p: o.Adam(p, 3e-2, (0.5, 0.9), 1e-4, 0.1),
    ),
    "Adam without a mean": (
        optim.Adam(1e-2, (0.0, 0.99)),
        lambda o, p: o.Adam(p, 1e-2, (0.0, 0.99)),
    ),
    "AdamW": (optim.AdamW(1e-2), lambda o, p: o.AdamW(p, 1e-2)),
    "AdamW, strong decay": (
        optim.AdamW(1e-2, weight_decay=0.5),
        lambda o, p: o.AdamW(p, 1e-2, weight_decay=0.5),
    ),
}


def gradients(step: int) -> dict[str, Array]:
    rng = np.random.default_rng(step)
    return {
        name: (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 2)).astype(np.float32)
        for name, shape in SHAPES.items()
    }


def steps_of(
    optimizer: optim.Optimizer,
    parameters: dict[str, Array],
    rate: Callable[[int], float],
    steps: int = STEPS,
) -> list[dict[str, Array]]:
    """Return the parameters after each step on `gradients(step)`."""
    held = {name: tn.Tensor(value) for name, value in parameters.items()}
    state = {name: value.numpy() for name, value in optimizer.init(held).items()}
    names, slots = list(parameters), list(state)

    def update(lr: Any, step: Any, *tensors: Any) -> Any:
        count = len(names)
        given = dict(zip(names, tensors[:count], strict=True))
        found = dict(zip(names, tensors[count : 2 * count], strict=True))
        kept = dict(zip(slots, tensors[2 * count :], strict=True))
        values, moved = optimizer.update(given, found, kept, lr, step)
        return *(values[name] for name in names), *(moved[slot] for slot in slots)

    def arguments(step: int) -> list[Array]:
        scalars = [np.array(rate(step), np.float32), np.array(step + 1)]
        found = [gradients(step)[n].astype(parameters[n].dtype) for n in names]
        return [*scalars, *parameters.values(), *found, *state.values()]

    types = [
        tn.SymTensor.input(tn.dtype(a.dtype), a.shape, f"x{i}") for i, a in enumerate(arguments(0))
    ]
    graph = tn.trace(update, *types)
    history = []
    for step in range(steps):
        outputs = tn.evaluate(graph, arguments(step))
        parameters = dict(zip(names, outputs[: len(names)], strict=True))
        state = dict(zip(slots, outputs[len(names) :], strict=True))
        history.append(parameters)
    return history


def peer_steps(
    make: Callable[[Any, Any], Any], start: dict[str, Array], rate: Callable[[int], float]
) -> list[dict[str, Array]]:
    import torch

    tensors = {name: torch.nn.Parameter(torch.from_numpy(v.copy())) for name, v in start.items()}
    optimizer = make(torch.optim, list(tensors.values()))
    history = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        for name, gradient in gradients(step).items():
            tensors[name].grad = torch.from_numpy(gradient)
        optimizer.step()
        history.append({name: t.detach().numpy().copy() for name, t in tensors.items()})
    return history


@pytest.mark.parametrize("name", PAIRS)
def test_equal_to_torch(name: str) -> None:
    pytest.importorskip("torch")
    ours, peer = PAIRS[name]
    start = gradients(100)

    def rate(step: int) -> float:
        return ours.lr * (1 + step % 3)

    expected = peer_steps(peer, start, rate)
    for got, wanted in zip(steps_of(ours, start, rate), expected, strict=True):
        for key, value in wanted.items():
            np.testing.assert_allclose(got[key], value, 1e-6, 1e-6, err_msg=key)


def test_many_steps_of_adam_stay_exact(run: Run) -> None:
    """The correction of the bias is as exact at step 10^6 as at step 1."""
    optimizer = optim.Adam(1.0, eps=0.0)
    for step in (1, 2, 10, 1000, 10**6):
        scalars, _ = run(
            lambda lr, step: tuple(optimizer.scalars(lr, step).values()),
            np.float32(1),
            np.float32(step),
        )
        exact = [1.0, 1 / (1 - 0.9**step), np.sqrt(1 - 0.999**step)]
        np.testing.assert_allclose(scalars, exact, 3e-7)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_narrow_parameters_keep_their_state_in_f32(dtype: str) -> None:
    optimizer = optim.AdamW(1e-2)
    narrow = {name: v.astype(tn.dtype(dtype).numpy) for name, v in gradients(100).items()}
    state = optimizer.init({name: tn.Tensor(value) for name, value in narrow.items()})
    assert {value.dtype for value in state.values()} == {tn.f32}
    after = steps_of(optimizer, narrow, lambda _: 1e-2, steps=1)[0]
    assert {tn.dtype(value.dtype).name for value in after.values()} == {dtype}


def test_groups_have_settings_of_their_own() -> None:
    torch = pytest.importorskip("torch")
    groups = {"b*": {"weight_decay": 0.0, "lr": 0.03}, "*": {"momentum": 0.5}}
    ours = optim.SGD(0.1, 0.9, weight_decay=0.2, groups=groups)
    start = gradients(100)

    weight, bias = (torch.nn.Parameter(torch.from_numpy(start[n].copy())) for n in SHAPES)
    peer = torch.optim.SGD(
        [
            {"params": [weight], "momentum": 0.5},
            {"params": [bias], "weight_decay": 0.0, "lr": 0.03},
        ],
        0.1,
        0.9,
        weight_decay=0.2,
    )
    for step, got in enumerate(steps_of(ours, start, lambda _: 0.1)):
        weight.grad, bias.grad = (torch.from_numpy(gradients(step)[n]) for n in SHAPES)
        peer.step()
        np.testing.assert_allclose(got["weight"], weight.detach().numpy(), 1e-6, 1e-6)
        np.testing.assert_allclose(got["bias"], bias.detach().numpy(), 1e-6, 1e-6)


@pytest.mark.parametrize("limit", [1e-3, 1.0, 1e6])
def test_clipping(run: Run, limit: float) -> None:
    torch = pytest.importorskip("torch")
    found = gradients(0)
    tensors = [torch.nn.Parameter(torch.zeros(shape)) for shape in SHAPES.values()]
    for tensor, gradient in zip(tensors, found.values(), strict=True):
        tensor.grad = torch.from_numpy(gradient.copy())
    expected = torch.nn.utils.clip_grad_norm_(tensors, limit)

    def clip(*given: Any) -> Any:
        scaled, norm = optim.clip_by_global_norm(dict(zip(found, given, strict=True)), limit)
        return *scaled.values(), norm

    (*scaled, norm), _ = run(clip, *found.values())
    np.testing.assert_allclose(norm, expected.item(), 1e-6)
    for got, tensor in zip(scaled, tensors, strict=True):
        np.testing.assert_allclose(got, tensor.grad.numpy(), 1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.SGD(-0.1), "lr = -0.1"),
        (lambda: optim.Adam(float("nan")), "lr = nan"),
        (lambda: optim.SGD(0.1, -1.0), "momentum = -1.0"),
        (lambda: optim.SGD(0.1, nesterov=True), "it needs momentum"),
        (lambda: optim.SGD(0.1, 0.9, 0.1, nesterov=True), "no dampening"),
        (lambda: optim.Adam(0.1, (1.0, 0.9)), "betas = 1.0"),
        (lambda: optim.AdamW(0.1, weight_decay=-1.0), "weight_decay = -1.0"),
        (lambda: optim.AdamW(0.1, eps=-1.0), "eps = -1.0"),
        (lambda: optim.SGD(0.1, groups={"*": {"beta": 1}}), "no setting for a group"),
        (lambda: optim.SGD(0.1, groups={"*": {"momentum": -1.0}}), "momentum = -1.0"),
        (lambda: optim.SGD(0.0, groups={"*": {"lr": 1.0}}), "give lr > 0"),
    ],
)
def test_senseless_settings(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(tn.ConfigError) as caught:
        make()
    assert message in str(caught.value)
    assert "\nhint: " in str(caught.value)
