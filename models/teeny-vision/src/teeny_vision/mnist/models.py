"""The models for MNIST, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from teeny_core import ConfigError, LoadError, state

from teeny_vision.mnist.data import SIDE
from teeny_vision.models import LeNet5, Mlp

CLASSES = 10
STATE = "train."  # prefix in a checkpoint of all tensors that are no weights of the model

Model = LeNet5 | Mlp


def mnist_lenet5() -> LeNet5:
    """Return LeNet-5 with fresh weights: (N, 1, 28, 28) → logits (N, 10)."""
    return LeNet5(classes=CLASSES)


def mnist_mlp() -> Mlp:
    """Return a perceptron 784-256-128-10 with fresh weights: (N, 1, 28, 28) → logits (N, 10)."""
    return Mlp(SIDE * SIDE, hidden=(256, 128), classes=CLASSES)


MODELS: Mapping[str, Callable[[], Model]] = MappingProxyType(
    {"lenet5": mnist_lenet5, "mlp": mnist_mlp}
)


def build(name: str) -> Model:
    """Return the model called `name` with fresh weights.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in MODELS:
        raise ConfigError(f"no model is called {name!r}", hint=f"choose from {', '.join(MODELS)}")
    return MODELS[name]()


def load_model(path: Path | str) -> Model:
    """Return the model whose weights `path` holds; a checkpoint of its training serves too.

    Raises:
        LoadError: the file is damaged, or its tensors are not those of a model for MNIST.
    """
    tensors = {
        name: tensor for name, tensor in state.load(path).items() if not name.startswith(STATE)
    }
    for make in MODELS.values():
        model = make()
        if model.state_dict().keys() == tensors.keys():
            fill(model, tensors, path)
            return model
    raise LoadError(
        f"{path}: holds no model for MNIST, but {', '.join(list(tensors)[:3]) or 'nothing'}",
        hint=f"give a file that holds one of {', '.join(MODELS)}",
    )


def fill(model: Model, tensors: Mapping[str, Any], path: Path | str) -> None:
    """Give a model the weights that were read from `path`.

    Raises:
        LoadError: they are those of another model.
    """
    report = model.load_state_dict(tensors, strict=False)
    if report:
        raise LoadError(
            f"{path}: does not fit {type(model).__name__}: {report}",
            hint="give a file that `teeny train mnist` saved",
        )
