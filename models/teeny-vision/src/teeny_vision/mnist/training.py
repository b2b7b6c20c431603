"""Training on MNIST: a run that reports after every step, and can stop and resume at any."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import teeny_core as tn
from teeny_core import AnyTensor, ConfigError, DataError, LoadError, nn, optim, state

from teeny_vision.mnist.augment import Augment
from teeny_vision.mnist.batches import Batches
from teeny_vision.mnist.data import Mnist
from teeny_vision.mnist.models import CLASSES, STATE, build, fill
from teeny_vision.mnist.prediction import accuracy

Record = TypeVar("Record", "Recipe", "Position")


@dataclass(frozen=True)
class Recipe:
    """What determines a run: on one device, two runs of one recipe give the same weights.

    The learning rate rises to `lr` and falls again, in one cycle over all steps.

    Raises:
        ConfigError: there is no such model, or a number is out of range.
    """

    model: str = "lenet5"
    epochs: int = 3
    batch_size: int = 64
    lr: float = 3e-3
    weight_decay: float = 0.05
    seed: int = 0
    augment: bool = False

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 1), ("seed", 0)):
            value = getattr(self, name)
            if value < least:
                raise ConfigError(f"{name} is {value}", hint=f"give a whole number >= {least}")
        for name in ("lr", "weight_decay"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                usual = getattr(Recipe, name)
                raise ConfigError(
                    f"{name} is {value}", hint=f"give a finite number >= 0, such as {usual}"
                )


@dataclass(frozen=True)
class Position:
    """Where a run stands: `batch` batches of epoch `epoch` are done; sums are over those."""

    epoch: int = 0
    batch: int = 0
    images: int = 0
    correct: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Progress:
    """What a step reports.

    Attributes:
        epoch: the epoch of the step, from 1.
        batch: how many batches of the epoch are done.
        batches: how many batches the epoch has.
        loss: mean over the images of the epoch so far.
        accuracy: share of those that the model got right before it learnt from them.
        images_per_s: images per second in this epoch, without time between runs.
        seconds: time in this epoch.
    """

    epoch: int
    batch: int
    batches: int
    loss: float
    accuracy: float
    images_per_s: float
    seconds: float

    @property
    def ends_epoch(self) -> bool:
        """Whether the step was the last of its epoch."""
        return self.batch == self.batches


class Training:
    """A run of a recipe.

    Iterating it trains, one step an item; leave the loop at any item, `save`, and `resume` goes on
    as if nothing had been.

    Attributes:
        recipe: what determines the run.
        model: the model in training.
        position: where the run stands.

    Raises:
        DataError: a label is none of the classes that the models tell apart.
    """

    def __init__(self, recipe: Recipe, data: Mnist, device: str | None = None) -> None:
        highest = int(max(labels.max(initial=0) for labels in (data.y_train, data.y_test)))
        if highest >= CLASSES:
            raise DataError(
                f"a label is {highest}, and the models have {CLASSES} classes",
                hint=f"give labels of 0 to {CLASSES - 1}",
            )
        self.recipe = recipe
        self.position = Position()
        self._data = data
        self._device = device
        tn.manual_seed(recipe.seed)
        self.model = build(recipe.model)
        steps = recipe.epochs * self._batches().count
        self._step = tn.train_step(
            self.model,
            nn.CrossEntropyLoss(),
            optim.AdamW(lr=recipe.lr, weight_decay=recipe.weight_decay),
            schedule=optim.OneCycle(steps),
            metrics={"correct": count_correct},
            seed=recipe.seed,
            device=device,
        )

    @classmethod
    def resume(cls, path: Path | str, data: Mnist, device: str | None = None) -> Training:
        """Return the run that `save` wrote to `path`.

        Raises:
            LoadError: the file is damaged, or no checkpoint of such a run.
        """
        notes = state.metadata(path)
        training = cls(_record(Recipe, notes, path), data, device)
        training.position = _record(Position, notes, path)
        tensors = state.load(path)
        rest = {name: tensors.pop(name) for name in list(tensors) if name.startswith(STATE)}
        fill(training.model, tensors, path)
        training._step.load_state_dict(
            {name.removeprefix(STATE): tensor for name, tensor in rest.items()}
        )
        return training

    def save(self, path: Path | str) -> None:
        """Write everything that the rest of the run depends on.

        The weights have their plain names, so that the file serves as a model too.

        Raises:
            OSError: the file cannot be written; an older one of that name stays whole.
        """
        rest = {STATE + name: value for name, value in self._step.state_dict().items()}
        notes = {
            "model": self.recipe.model,
            "recipe": json.dumps(asdict(self.recipe)),
            "position": json.dumps(asdict(self.position)),
        }
        state.save(path, {**self.model.state_dict(), **rest}, metadata=notes)

    def save_model(self, path: Path | str) -> None:
        """Write the weights alone.

        Raises:
            OSError: the file cannot be written; an older one of that name stays whole.
        """
        state.save(path, self.model, metadata={"model": self.recipe.model})

    def __iter__(self) -> Generator[Progress, None, None]:
        """Train until the recipe's last epoch ends; give the progress after every step."""
        while self.position.epoch < self.recipe.epochs:
            batches = self._batches()
            started = time.perf_counter() - self.position.seconds
            for images, labels in batches:
                yield self._train(images, labels, batches.count, started)
            self.position = Position(self.position.epoch + 1)

    def test_accuracy(self) -> float:
        """Return the share of the test images that the model gets right as it is now."""
        return accuracy(self.model, self._data.x_test, self._data.y_test, self._device)

    def _batches(self) -> Batches:
        """Return what remains of the epoch at work."""
        return Batches(
            self._data.x_train,
            self._data.y_train,
            batch_size=self.recipe.batch_size,
            seed=self.recipe.seed,
            epoch=self.position.epoch,
            augment=Augment() if self.recipe.augment else None,
            start=self.position.batch,
        )

    def _train(self, images: Any, labels: Any, batches: int, started: float) -> Progress:
        loss = float(self._step(images, labels))
        correct = int(self._step.metrics["correct"])
        before = self.position
        self.position = now = replace(
            before,
            batch=before.batch + 1,
            images=before.images + len(images),
            correct=before.correct + correct,
            loss_sum=before.loss_sum + loss * len(images),
            seconds=time.perf_counter() - started,
        )
        return Progress(
            now.epoch + 1,
            now.batch,
            batches,
            now.loss_sum / now.images,
            now.correct / now.images,
            now.images / now.seconds,
            now.seconds,
        )


def count_correct(logits: AnyTensor, labels: AnyTensor) -> AnyTensor:
    """Count the rows of `logits` (N, classes) whose largest is at the label: a scalar i64."""
    return (logits.argmax(axis=1) == labels).sum()


def _record(kind: type[Record], notes: Mapping[str, str], path: Path | str) -> Record:
    """Read a recipe or a position from the notes of a checkpoint."""
    name = kind.__name__.lower()
    try:
        return kind(**json.loads(notes[name]))
    except (KeyError, ValueError, TypeError) as error:
        raise LoadError(
            f"{path}: not the checkpoint of a run on MNIST: no valid {name} in it",
            hint="give the file that an interrupted run left",
        ) from error
