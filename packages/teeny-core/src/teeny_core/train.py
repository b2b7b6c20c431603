"""A training step: forward, backward and update as one graph, compiled once and run in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from teeny_core import random as randomness
from teeny_core.autodiff import gradients
from teeny_core.device import Device, Program
from teeny_core.device import device as get_device
from teeny_core.dtype import DType, f32, i64
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import GradientError, LoadError, TraceError
from teeny_core.graph import Graph
from teeny_core.nn import Layer
from teeny_core.op import Array
from teeny_core.optim import Optimizer, Schedule, clip_by_global_norm
from teeny_core.state import LoadReport
from teeny_core.tensor import AnyTensor, SymTensor, Tensor
from teeny_core.trace import compile as compile_graph
from teeny_core.trace import trace

AnyLayer: TypeAlias = Layer[..., Any]
Objective: TypeAlias = Callable[[Any, AnyTensor], AnyTensor]

_Types: TypeAlias = tuple[tuple[DType, tuple[int | str, ...]], ...]

PREFIX = "optimizer."
STEP = PREFIX + "step"
RATE = PREFIX + "lr"


def train_step(
    model: AnyLayer,
    loss: Objective,
    optimizer: Optimizer,
    *,
    schedule: Schedule | None = None,
    metrics: Mapping[str, Objective] | None = None,
    clip_norm: float | None = None,
    seed: int | None = None,
    device: str | Device | None = None,
) -> TrainStep:
    """Return a function that trains a model by one step on the batch that it is called with.

    Args:
        model: takes all arguments of the step but the last.
        loss: takes the model's output and the last argument of the step; returns a scalar.
        optimizer: how parameters follow their gradients.
        schedule: factor of `optimizer.lr` at each step; always 1 unless given.
        metrics: more functions of what the loss gets, computed on the way.
        clip_norm: limit of the norm of all gradients together.
        seed: of the random numbers that the model draws; those of `manual_seed` unless given.
        device: where to run; the default device unless given.
    """
    return TrainStep(
        model,
        loss,
        optimizer,
        schedule=schedule,
        metrics=metrics,
        clip_norm=clip_norm,
        seed=seed,
        device=device,
    )


class TrainStep:
    """`step(*inputs, target)` trains by one batch and returns the loss; see `train_step`.

    The first axis of every input is a batch of any size. The size that comes first, of which most
    batches are, gets a program of its own, and all others share one. Parameters, running statistics
    and the optimiser's state change in place.

    Attributes:
        metrics: the metrics of the last batch, by name.
        count: how many steps have been made.
    """

    def __init__(
        self,
        model: AnyLayer,
        loss: Objective,
        optimizer: Optimizer,
        *,
        schedule: Schedule | None = None,
        metrics: Mapping[str, Objective] | None = None,
        clip_norm: float | None = None,
        seed: int | None = None,
        device: str | Device | None = None,
    ) -> None:
        self.metrics: Mapping[str, Array] = MappingProxyType({})
        self.count = 0
        self._model = model
        self._loss = loss
        self._optimizer = optimizer
        self._schedule = schedule
        self._metrics = dict(metrics or {})
        self._clip_norm = clip_norm
        self._device = get_device(device)
        self._parameters = dict(model.named_parameters())
        self._slots = optimizer.init(self._parameters)
        self._step = Tensor(0, i64)
        self._rate = Tensor(optimizer.lr, f32)
        self._random = randomness.state() if seed is None else Tensor(randomness.seeded(seed))
        self._programs: dict[_Types, Program] = {}
        self._sizes: dict[_Types, _Types] = {}

    def __call__(self, *arrays: ArrayLike) -> Array:
        """Train on one batch; return its loss, before the update, as an array of shape ().

        Raises:
            ShapeError, DTypeError: the batch does not fit the model, or the one before.
        """
        batch = [np.asarray(array) for array in arrays]
        program = self._program(batch)
        self._set_rate()
        loss: Array
        loss, metrics = program(*batch)
        self.count += 1
        self.metrics = MappingProxyType(metrics)
        return loss

    @property
    def lr(self) -> float:
        """The learning rate of the next step."""
        factor = 1.0 if self._schedule is None else self._schedule(self.count)
        return self._optimizer.lr * factor

    def graph(self, *arguments: SymTensor) -> Graph:
        """Return the graph of a step on inputs of the types of `arguments`."""
        if len(arguments) < 2:
            raise TraceError(
                "a training step needs an input and a target", hint="call step(images, labels)"
            )
        return trace(
            self._traced, *arguments, train=True, parameters=self._named(), name="train_step"
        )

    def compile(self, *arrays: ArrayLike) -> Program:
        """Compile the step for batches like `arrays` without making one, and return it."""
        return self._program([np.asarray(array) for array in arrays])

    def state_dict(self) -> dict[str, Tensor]:
        """Return what the next steps depend on besides the model: optimiser, count, random state.

        The tensors are the step's own, not copies.
        """
        slots = {PREFIX + name: tensor for name, tensor in self._slots.items()}
        return {STEP: self._step, **slots, randomness.STATE: self._random}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state: with the model's of the same time, exactly as it was left.

        Raises:
            LoadError: a tensor is missing, too many, or of another shape; nothing changes then.
        """
        own = self.state_dict()
        arrays = {name: np.asarray(state[name]) for name in own if name in state}
        report = LoadReport(
            tuple(name for name in own if name not in state),
            tuple(name for name in state if name not in own),
            tuple(
                f"{name} is {own[name].type}, not {array.dtype}{list(array.shape)}"
                for name, array in arrays.items()
                if (array.shape, to_dtype(array.dtype)) != (own[name].shape, own[name].dtype)
            ),
        )
        if report:
            raise LoadError(
                f"the state does not fit this training step: {report}",
                hint="use the model and the optimiser it was saved with",
            )
        for name, array in arrays.items():
            own[name].assign(array)
        self.count = int(self._step.item())

    def _named(self) -> dict[str, Tensor]:
        """Return all tensors that persist between steps, by the names of the graph."""
        loss = dict(self._loss.named_tensors("loss")) if isinstance(self._loss, Layer) else {}
        slots = {PREFIX + name: tensor for name, tensor in self._slots.items()}
        model = dict(self._model.named_tensors())
        return {**model, **loss, **slots, STEP: self._step, RATE: self._rate}

    def _traced(self, *inputs: AnyTensor) -> tuple[AnyTensor, dict[str, AnyTensor]]:
        """Make one step on symbolic inputs; assignments become the updates of the graph."""
        *features, target = inputs
        prediction = self._model(*features)
        loss = self._loss(prediction, target)
        if loss.shape != ():
            raise GradientError(
                f"the loss is {loss.type}, no scalar", hint="reduce it: .mean() or .sum()"
            )
        metrics = {name: metric(prediction, target) for name, metric in self._metrics.items()}
        found = gradients(loss, list(self._parameters.values()))
        by_name: dict[str, AnyTensor] = dict(zip(self._parameters, found, strict=True))
        if self._clip_norm is not None:
            by_name, _ = clip_by_global_norm(by_name, self._clip_norm)
        self._step.assign(self._step + 1)
        parameters, slots = self._optimizer.update(
            self._parameters, by_name, self._slots, self._rate, self._step
        )
        for name, value in parameters.items():
            self._parameters[name].assign(value)
        for name, value in slots.items():
            self._slots[name].assign(value)
        return loss, metrics

    def _program(self, batch: list[Array]) -> Program:
        """Return the program for batches like this one.

        It is made for exactly this size if no other was; else for any, where equal first extents
        are one symbol.
        """
        symbols: dict[int, str] = {}
        dtypes = [to_dtype(array.dtype) for array in batch]
        exact = tuple(zip(dtypes, (array.shape for array in batch), strict=True))
        general = tuple(zip(dtypes, (_extents(a, symbols) for a in batch), strict=True))
        types = exact if self._sizes.setdefault(general, exact) == exact else general
        if types not in self._programs:
            names = [*(f"x{i}" for i in range(len(batch) - 1)), "target"]
            arguments = [
                SymTensor.input(dtype, shape, name)
                for (dtype, shape), name in zip(types, names, strict=True)
            ]
            graph = self.graph(*arguments)
            bound = {randomness.STATE: self._random}
            self._programs[types] = compile_graph(graph, self._device, bound)
        return self._programs[types]

    def _set_rate(self) -> None:
        rate = np.asarray(self.lr, np.float32)
        if self._rate.storage.array() != rate:
            self._rate.storage.buffer.write(rate)


def _extents(array: Array, symbols: dict[int, str]) -> tuple[int | str, ...]:
    if not array.ndim:
        return ()
    count, *rest = array.shape
    first = symbols.setdefault(count, f"batch{len(symbols) or ''}")
    return (first, *rest)
