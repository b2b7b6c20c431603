"""Using a trained model: the digit that an image shows, and how often a model is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import teeny_core as tn
from numpy.typing import NDArray
from teeny_core import AnyTensor

from teeny_vision.mnist.data import SIDE, normalise
from teeny_vision.mnist.models import Model

CHUNK = 500  # images of one call, so that activations stay small


@dataclass(frozen=True)
class Prediction:
    """What an image shows: the probability of each digit."""

    probabilities: tuple[float, ...]

    @property
    def label(self) -> int:
        """The most probable digit."""
        return self.probabilities.index(self.probability)

    @property
    def probability(self) -> float:
        """The probability of the most probable digit."""
        return max(self.probabilities)


class Classifier:
    """A model compiled for inference; what is trained or loaded into it later counts too."""

    def __init__(self, model: Model, device: str | None = None) -> None:
        def classify(images: AnyTensor) -> AnyTensor:
            return model(images).softmax(-1)

        images = tn.SymTensor.input(tn.f32, (None, 1, SIDE, SIDE))
        graph = tn.trace(classify, images, parameters=model.state_dict())
        self._program = tn.compile(graph, device=device)

    def __call__(self, images: Sequence[NDArray[Any]] | NDArray[Any]) -> list[Prediction]:
        """Return a prediction for each image (28, 28) with pixels of 0 to 255."""
        return [
            Prediction(tuple(row.tolist())) for row in self.probabilities(np.stack(list(images)))
        ]

    def probabilities(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Return the probabilities (N, 10) of images (N, 28, 28) with pixels of 0 to 255."""
        parts = [images[start : start + CHUNK] for start in range(0, len(images), CHUNK)]
        return np.concatenate([np.asarray(self._program(normalise(part))) for part in parts])


def accuracy(
    model: Model, images: NDArray[np.uint8], labels: NDArray[Any], device: str | None = None
) -> float:
    """Return the share of images (N, 28, 28) of which `model` tells the label."""
    probabilities = Classifier(model, device).probabilities(images)
    return float((probabilities.argmax(1) == labels).mean())
