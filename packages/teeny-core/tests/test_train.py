"""The training step: one graph, PyTorch's results, any batch size, exact resumption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import nn, optim

Array = np.ndarray[Any, Any]
Reference = Any  # the device of the tests


def correct(logits: tn.AnyTensor, labels: tn.AnyTensor) -> tn.AnyTensor:
    return (logits.argmax(1) == labels).sum()


def small_net(dropout: float = 0.0) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, bias=False),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(27, 4),
    )


def batches(count: int, size: int = 6) -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(0)
    return [
        (rng.standard_normal((size, 1, 8, 8)).astype(np.float32), rng.integers(0, 4, size))
        for _ in range(count)
    ]


def weights(model: nn.Layer[..., Any]) -> dict[str, Array]:
    return {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}


def assert_same(one: dict[str, Array], two: dict[str, Array]) -> None:
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name], err_msg=name)


def test_equal_to_torch(reference: Reference) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = torch.nn
    theirs = layers.Sequential(
        layers.Conv2d(1, 3, 3, bias=False),
        layers.BatchNorm2d(3),
        layers.ReLU(),
        layers.MaxPool2d(2),
        layers.Flatten(),
        layers.Identity(),
        layers.Linear(27, 4),
    )
    ours = small_net()
    ours.load_state_dict(theirs.state_dict())
    schedule = optim.OneCycle(8)
    step = tn.train_step(
        ours,
        nn.CrossEntropyLoss(label_smoothing=0.1),
        optim.AdamW(lr=1e-2),
        schedule=schedule,
        metrics={"correct": correct},
        clip_norm=0.5,
        device=reference,
    )
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-2)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, 8, cycle_momentum=False)
    objective = layers.CrossEntropyLoss(label_smoothing=0.1)
    for images, labels in batches(6):
        assert step.lr == pytest.approx(optimizer.param_groups[0]["lr"])
        logits = theirs(torch.from_numpy(images))
        loss = objective(logits, torch.from_numpy(labels))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        optimizer.step()
        rates.step()
        assert float(step(images, labels)) == pytest.approx(loss.item(), rel=1e-5)
        assert step.metrics["correct"] == (logits.argmax(1) == torch.from_numpy(labels)).sum()
    for name, value in theirs.state_dict().items():
        got = ours.state_dict()[name].numpy()
        np.testing.assert_allclose(got, value.numpy(), 1e-4, 1e-5, err_msg=name)


def test_the_usual_size_has_a_program_and_all_others_share_one(reference: Reference) -> None:
    step = tn.train_step(small_net(), nn.CrossEntropyLoss(), optim.SGD(), device=reference)
    for count, size in enumerate((6, 6, 3, 1, 7, 6), 1):
        for images, labels in batches(1, size):
            loss = step(images, labels)
            assert loss.shape == ()
            assert np.isfinite(loss)
        assert reference.compiled == min(-(-count // 2), 2)
    assert step.count == 6
    assert step.compile(*batches(1, 6)[0]).graph.symbols == ()
    assert len(step.compile(*batches(1, 9)[0]).graph.symbols) == 1
    step(images, labels.astype(np.int32))
    assert reference.compiled == 3


def test_the_step_is_one_graph_that_updates_in_place(reference: Reference) -> None:
    model = small_net(0.5)
    held = {name: tensor.storage.buffer for name, tensor in model.state_dict().items()}
    step = tn.train_step(model, nn.CrossEntropyLoss(), optim.AdamW(), seed=1, device=reference)
    graph = step.compile(*batches(1)[0]).graph
    updated = {parameter.attrs["name"] for parameter, _ in graph.updates}
    moments = {f"optimizer.{slot}.{name}" for slot in ("exp_avg", "exp_avg_sq")
               for name, _ in model.named_parameters()}  # fmt: skip
    assert updated == {*model.state_dict(), *moments, "optimizer.step", "random.state"}
    step(*batches(1)[0])
    for name, tensor in model.state_dict().items():
        assert tensor.storage.buffer is held[name]


def run(step: tn.TrainStep, data: Sequence[tuple[Array, Array]]) -> list[float]:
    return [float(step(images, labels)) for images, labels in data]


def make(reference: Reference, seed: int = 7) -> tuple[nn.Sequential, tn.TrainStep]:
    tn.manual_seed(seed)
    model = small_net(0.5)
    step = tn.train_step(
        model,
        nn.CrossEntropyLoss(),
        optim.AdamW(lr=1e-2),
        schedule=optim.Cosine(10),
        seed=seed,
        device=reference,
    )
    return model, step


def test_a_seed_decides_everything(reference: Reference) -> None:
    outcomes = []
    for seed in (7, 7, 8):
        model, step = make(reference, seed)
        losses = run(step, batches(4))
        tn.rand(3).numpy()  # other random numbers do not matter
        outcomes.append((losses, weights(model)))
    assert outcomes[0][0] == outcomes[1][0]
    assert_same(outcomes[0][1], outcomes[1][1])
    assert outcomes[0][0] != outcomes[2][0]


def test_resumed_is_uninterrupted(reference: Reference, tmp_path: Any) -> None:
    data = batches(8)
    whole, step = make(reference)
    losses = run(step, data)

    first, step = make(reference)
    run(step, data[:3])
    state = {f"step.{name}": value for name, value in step.state_dict().items()}
    tn.state.save(tmp_path / "x.safetensors", {**first.state_dict(), **state})

    saved = tn.state.load(tmp_path / "x.safetensors")
    second, step = make(reference, seed=99)
    step.load_state_dict({n[5:]: v for n, v in saved.items() if n.startswith("step.")})
    second.load_state_dict({n: v for n, v in saved.items() if not n.startswith("step.")})
    assert step.count == 3
    assert run(step, data[3:]) == losses[3:]
    assert_same(weights(second), weights(whole))


def test_dropout_differs_by_step_and_agrees_with_its_gradient(reference: Reference) -> None:
    """Through dropout alone the gradient of a sum is the mask itself, scaled."""

    class Scaled(nn.Layer[[tn.AnyTensor], tn.AnyTensor]):
        def __init__(self) -> None:
            self.weight = nn.Parameter(np.zeros(1000), tn.f32)
            self.drop = nn.Dropout(0.25)

        def call(self, x: tn.AnyTensor) -> tn.AnyTensor:
            return self.drop(self.weight + x)

    model = Scaled()
    step = tn.train_step(
        model,
        lambda y, target: (y * target).sum(),
        optim.SGD(1.0),
        metrics={"y": lambda y, target: y},
        seed=3,
        device=reference,
    )
    ones, masks = np.ones((1, 1000), np.float32), []
    for _ in range(3):
        model.weight.assign(0.0)
        step(ones, ones)
        mask = step.metrics["y"][0]
        np.testing.assert_array_equal(-model.weight.numpy(), mask)
        np.testing.assert_allclose(np.unique(mask), [0, 4 / 3], rtol=1e-6)
        assert 700 < np.count_nonzero(mask) < 800
        masks.append(mask)
    assert (masks[0] != masks[1]).any()
    assert (masks[1] != masks[2]).any()


def test_shared_weights_get_one_gradient(reference: Reference) -> None:
    layer = nn.Linear(3, 3, bias=False)
    layer.weight.assign(np.eye(3, dtype=np.float32))
    step = tn.train_step(
        nn.Sequential(layer, layer),
        nn.MSELoss(reduction="sum"),
        optim.SGD(0.5),
        device=reference,
    )
    step(np.array([[1, 0, 0]], np.float32), np.zeros((1, 3), np.float32))
    # loss = |W·W·e1|², of which the gradient at the identity is 4·e1·e1ᵀ
    expected = np.eye(3) - 0.5 * 4 * np.diag([1, 0, 0])
    np.testing.assert_allclose(layer.weight.numpy(), expected)


def test_several_inputs(reference: Reference) -> None:
    class Product(nn.Layer[[tn.AnyTensor, tn.AnyTensor], tn.AnyTensor]):
        def __init__(self) -> None:
            self.scale = nn.Parameter([2.0])

        def call(self, x: tn.AnyTensor, y: tn.AnyTensor) -> tn.AnyTensor:
            return x * y * self.scale

    step = tn.train_step(Product(), nn.L1Loss(), optim.SGD(), device=reference)
    x, y = np.full((5, 2), 3, np.float32), np.full((5, 2), 4, np.float32)
    assert float(step(x, y, np.zeros((5, 2), np.float32))) == 24


BAD: list[tuple[Callable[[tn.TrainStep], Any], type[Exception], str]] = [
    (lambda step: step(np.zeros((2, 1, 8, 8), np.float32)), tn.TraceError, "step(images, labels)"),
    (
        lambda step: step(np.zeros((2, 1, 8, 8), np.float32), np.zeros(3, np.int64)),
        tn.ShapeError,
        "target",
    ),
    (
        lambda step: step(np.zeros((2, 3, 8, 8), np.float32), np.zeros(2, np.int64)),
        tn.ShapeError,
        "conv2d",
    ),
    (lambda step: step.load_state_dict({}), tn.LoadError, "missing: optimizer.step"),
    (
        lambda step: step.load_state_dict({**step.state_dict(), "optimizer.step": np.zeros(2)}),
        tn.LoadError,
        "optimizer.step is i64[]",
    ),
]


@pytest.mark.parametrize(("act", "error", "message"), BAD, ids=[m for _, _, m in BAD])
def test_what_does_not_fit(
    reference: Reference,
    act: Callable[[tn.TrainStep], Any],
    error: type[Exception],
    message: str,
) -> None:
    step = tn.train_step(small_net(), nn.CrossEntropyLoss(), optim.AdamW(), device=reference)
    before = weights(step._model)
    with pytest.raises(error) as caught:
        act(step)
    assert message in str(caught.value)
    assert "\nhint: " in str(caught.value)
    assert_same(weights(step._model), before)


def test_a_loss_that_is_no_scalar(reference: Reference) -> None:
    step = tn.train_step(
        small_net(), nn.CrossEntropyLoss(reduction="none"), optim.AdamW(), device=reference
    )
    with pytest.raises(tn.GradientError, match="scalar"):
        step(*batches(1)[0])
