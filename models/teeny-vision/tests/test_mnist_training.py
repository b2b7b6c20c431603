import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from teeny_core import ConfigError, DataError, LoadError, optim, state
from teeny_vision import mnist
from teeny_vision.mnist import Recipe, Training

DEVICE = "ndarray"
RECIPE = Recipe(model="mlp", epochs=2, batch_size=16, seed=3, augment=True)
STEPS = 7  # batches of an epoch of the 100 images, the last of four


@pytest.fixture(scope="module")
def data() -> mnist.Mnist:
    whole = mnist.load()
    return mnist.Mnist(
        whole.x_train[:100], whole.y_train[:100], whole.x_test[:30], whole.y_test[:30]
    )


def weights(training: Training) -> dict[str, np.ndarray]:
    return {name: np.array(t.numpy()) for name, t in training.model.state_dict().items()}


def assert_equal(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


def figures(training: Training) -> list[tuple[float, ...]]:
    """Train to the end; return what each step reports, without times."""
    return [(p.epoch, p.batch, p.batches, p.loss, p.accuracy) for p in training]


@pytest.fixture(scope="module")
def whole(data: mnist.Mnist) -> tuple[list[tuple[float, ...]], dict[str, np.ndarray]]:
    """An uninterrupted run: its figures and its weights."""
    training = Training(RECIPE, data, DEVICE)
    return figures(training), weights(training)


def test_progress(whole: Any, data: mnist.Mnist) -> None:
    steps, _ = whole
    assert [step[:3] for step in steps] == [
        (epoch, batch, STEPS) for epoch in (1, 2) for batch in range(1, STEPS + 1)
    ]
    assert steps[-1][3] < steps[STEPS - 1][3]  # the loss falls
    counts = [accuracy * min(16 * batch, 100) for _, batch, _, _, accuracy in steps]
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)


def test_a_recipe_determines_the_weights(whole: Any, data: mnist.Mnist) -> None:
    steps, final = whole
    again = Training(RECIPE, data, DEVICE)
    assert figures(again) == steps
    assert_equal(weights(again), final)
    other = Training(Recipe(model="mlp", epochs=2, batch_size=16, seed=4), data, DEVICE)
    assert figures(other) != steps


@pytest.mark.parametrize("done", [1, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS])
def test_interrupted_and_resumed_is_uninterrupted(
    whole: Any, data: mnist.Mnist, tmp_path: Path, done: int
) -> None:
    steps, final = whole
    training = Training(RECIPE, data, DEVICE)
    for count, _ in enumerate(training, 1):
        if count == done:
            break
    training.save(tmp_path / "run.safetensors")

    resumed = Training.resume(tmp_path / "run.safetensors", data, DEVICE)
    assert resumed.recipe == RECIPE
    assert figures(resumed) == steps[done:]
    assert_equal(weights(resumed), final)


def test_the_first_step_matches_pytorch(data: mnist.Mnist) -> None:
    torch = pytest.importorskip("torch")
    recipe = Recipe(model="mlp", epochs=1, batch_size=100)
    training = Training(recipe, data, DEVICE)
    model = torch.nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(784, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )
    model.load_state_dict({name: torch.tensor(w) for name, w in weights(training).items()})
    rate = recipe.lr * optim.OneCycle(1)(0)
    adam = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=recipe.weight_decay)
    order = mnist.Batches(data.x_train, data.y_train, batch_size=100).batch(0)
    images, labels = (torch.from_numpy(array) for array in order)
    output = model(images)
    loss = torch.nn.functional.cross_entropy(output, labels)
    loss.backward()
    adam.step()

    (progress,) = training
    assert progress.loss == pytest.approx(loss.item(), rel=1e-5)
    assert progress.accuracy == pytest.approx((output.argmax(1) == labels).double().mean().item())
    for name, tensor in model.state_dict().items():
        np.testing.assert_allclose(weights(training)[name], tensor.numpy(), atol=2e-5)


def test_a_checkpoint_and_the_saved_model_are_models(data: mnist.Mnist, tmp_path: Path) -> None:
    training = Training(RECIPE, data, DEVICE)
    next(iter(training))
    training.save(tmp_path / "run.safetensors")
    training.save_model(tmp_path / "model.safetensors")
    for name in ("run", "model"):
        loaded = mnist.load_model(tmp_path / f"{name}.safetensors")
        assert_equal({k: t.numpy() for k, t in loaded.state_dict().items()}, weights(training))
    assert state.load(tmp_path / "model.safetensors").keys() == weights(training).keys()


def test_test_accuracy(data: mnist.Mnist) -> None:
    training = Training(RECIPE, data, DEVICE)
    want = mnist.accuracy(training.model, data.x_test, data.y_test, DEVICE)
    assert training.test_accuracy() == want


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"model": "vgg"}, "no model is called 'vgg'"),
        ({"epochs": 0}, "epochs is 0\nhint: give a whole number >= 1"),
        ({"batch_size": 0}, "batch_size is 0\nhint: give a whole number >= 1"),
        ({"seed": -1}, "seed is -1\nhint: give a whole number >= 0"),
        ({"lr": float("nan")}, "lr is nan\nhint: give a finite number >= 0"),
        ({"lr": float("inf")}, "lr is inf"),
        ({"weight_decay": -0.1}, "weight_decay is -0.1"),
    ],
)
def test_settings_out_of_range(setting: dict[str, Any], text: str, data: mnist.Mnist) -> None:
    with pytest.raises(ConfigError, match=text):
        Training(Recipe(**setting), data, DEVICE)


def test_a_label_that_is_no_digit(data: mnist.Mnist) -> None:
    other = replace(data, y_test=np.full_like(data.y_test, 17))
    with pytest.raises(DataError, match="a label is 17, and the models have 10 classes\nhint: "):
        Training(RECIPE, other, DEVICE)


@pytest.fixture
def parts(data: mnist.Mnist, tmp_path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The tensors and the notes of a checkpoint."""
    training = Training(RECIPE, data, DEVICE)
    next(iter(training))
    training.save(tmp_path / "whole.safetensors")
    return (
        state.load(tmp_path / "whole.safetensors"),
        state.metadata(tmp_path / "whole.safetensors"),
    )


@pytest.mark.parametrize(
    ("notes", "what"),
    [
        ({"recipe": None}, "no valid recipe"),
        ({"recipe": "{"}, "no valid recipe"),
        ({"recipe": "[]"}, "no valid recipe"),
        ({"recipe": json.dumps({"epochs": 0})}, "no valid recipe"),
        ({"recipe": json.dumps({"colour": "red"})}, "no valid recipe"),
        ({"recipe": json.dumps({"epochs": "3"})}, "no valid recipe"),
        ({"position": None}, "no valid position"),
        ({"position": json.dumps({"page": 3})}, "no valid position"),
    ],
)
def test_a_checkpoint_with_other_notes(
    parts: Any, data: mnist.Mnist, tmp_path: Path, notes: dict[str, str | None], what: str
) -> None:
    tensors, held = parts
    changed = {name: text for name, text in (held | notes).items() if text is not None}
    state.save(tmp_path / "changed.safetensors", tensors, metadata=changed)
    with pytest.raises(LoadError, match=what):
        Training.resume(tmp_path / "changed.safetensors", data, DEVICE)


def test_a_checkpoint_without_the_optimiser(parts: Any, data: mnist.Mnist, tmp_path: Path) -> None:
    tensors, notes = parts
    kept = {name: t for name, t in tensors.items() if "exp_avg" not in name}
    state.save(tmp_path / "changed.safetensors", kept, metadata=notes)
    with pytest.raises(LoadError, match="does not fit this training step: missing: "):
        Training.resume(tmp_path / "changed.safetensors", data, DEVICE)


def test_a_checkpoint_of_more_data(parts: Any, tmp_path: Path, data: mnist.Mnist) -> None:
    tensors, notes = parts
    far = notes | {"position": json.dumps({"batch": 50})}
    state.save(tmp_path / "changed.safetensors", tensors, metadata=far)
    with pytest.raises(DataError, match="start is 50, and the epoch has 7 batches"):
        next(iter(Training.resume(tmp_path / "changed.safetensors", data, DEVICE)))
