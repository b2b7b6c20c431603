"""What an optimiser is: pure functions of tensors, traced into the graph of a training step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Self

import numpy as np

from teeny_core.errors import ConfigError
from teeny_core.tensor import AnyTensor, Tensor

Tensors = Mapping[str, AnyTensor]


@dataclass(frozen=True)
class Optimizer(ABC):
    """A rule by which parameters follow their gradients.

    It holds settings only. The state is a mapping from "SLOT.PARAMETER" to a tensor, which `init`
    makes and `update` maps to the next one. Learning rate and step number come as tensors, so that
    a compiled step serves for all of them.

    Attributes:
        lr: the base learning rate, which a schedule scales.
        groups: other settings for some parameters, by a pattern of their names, as in
            `{"*.bias": {"weight_decay": 0.0}}`; the first pattern that matches counts.

    Raises:
        ConfigError: a setting is out of range or does not exist.
    """

    lr: float = 1e-3
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        require("lr", self.lr, self.lr >= 0, "a finite number from 0")
        for options in self.groups.values():
            self._with(options)
            if "lr" in options and self.lr == 0:
                raise ConfigError("a group has a rate of its own, and lr = 0", hint="give lr > 0")

    @property
    @abstractmethod
    def slots(self) -> tuple[str, ...]:
        """Names of the tensors kept for each parameter, of its shape, zero at first."""

    @abstractmethod
    def scalars(self, lr: AnyTensor, step: AnyTensor) -> Tensors:
        """Return what the rule needs that is the same for all parameters.

        Args:
            lr: the learning rate, f32.
            step: the number of this step, f32, from 1.
        """

    @abstractmethod
    def rule(
        self, parameter: AnyTensor, gradient: AnyTensor, slots: Tensors, scalars: Tensors
    ) -> tuple[AnyTensor, dict[str, AnyTensor]]:
        """Return the next value of one parameter and of its slots, all in its accumulator type.

        Args:
            parameter: its value.
            gradient: of its shape.
            slots: its tensors by slot name.
            scalars: what `scalars` returned.
        """

    def init(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the state before the first step."""
        return {
            f"{slot}.{name}": Tensor(np.zeros(parameter.shape), parameter.dtype.accumulator)
            for name, parameter in parameters.items()
            for slot in self.of(name).slots
        }

    def update(
        self,
        parameters: Tensors,
        gradients: Tensors,
        state: Tensors,
        lr: AnyTensor,
        step: AnyTensor,
    ) -> tuple[dict[str, AnyTensor], dict[str, AnyTensor]]:
        """Return the parameters and the state after a step.

        Args:
            parameters: by name.
            gradients: by the same names.
            state: what `init` or the last `update` returned.
            lr: the learning rate of parameters outside of groups, a scalar f32.
            step: the number of this step, a scalar, from 1.
        """
        scalars: dict[str, Tensors] = {}
        next_parameters: dict[str, AnyTensor] = {}
        next_state: dict[str, AnyTensor] = {}
        for name, parameter in parameters.items():
            group = self._group(name)
            own = self.of(name)
            if group not in scalars:
                rate = lr if own.lr == self.lr else lr * (own.lr / self.lr)
                scalars[group] = own.scalars(rate, step.cast("f32"))
            wide = parameter.dtype.accumulator
            slots = {slot: state[f"{slot}.{name}"] for slot in own.slots}
            value, moved = own.rule(
                parameter.cast(wide), gradients[name].cast(wide), slots, scalars[group]
            )
            next_parameters[name] = value.cast(parameter.dtype)
            next_state |= {f"{slot}.{name}": tensor for slot, tensor in moved.items()}
        return next_parameters, next_state

    def of(self, name: str) -> Self:
        """Return the optimiser with the settings for the parameter `name`."""
        group = self._group(name)
        return self._with(self.groups[group]) if group else self

    def _group(self, name: str) -> str:
        """Return the first pattern that matches a name, "" for none."""
        return next((pattern for pattern in self.groups if fnmatchcase(name, pattern)), "")

    def _with(self, options: Mapping[str, Any]) -> Self:
        try:
            return replace(self, groups={}, **options)
        except TypeError as error:
            raise ConfigError(
                f"{type(self).__name__} has no setting for a group like {dict(options)}",
                hint="name settings of the optimiser itself",
            ) from error


def require(name: str, value: float, holds: bool, valid: str) -> None:
    """Check a setting, of which `valid` says what it may be.

    Raises:
        ConfigError: `value` is not finite or its condition does not hold.
    """
    if not (holds and math.isfinite(value)):
        raise ConfigError(f"{name} = {value}", hint=f"give {valid}")


def clip_by_global_norm(gradients: Tensors, limit: float) -> tuple[dict[str, AnyTensor], AnyTensor]:
    """Scale gradients so that the norm of all of them together is at most `limit`.

    Returns:
        The gradients, and their norm before (f32).

    Source: Pascanu, Mikolov and Bengio, *On the difficulty of training recurrent neural networks*
    (2013), as PyTorch computes it.
    """
    squares = [gradient.cast("f32").square().sum() for gradient in gradients.values()]
    norm = sum(squares[1:], start=squares[0]).sqrt()
    scale = (limit / (norm + 1e-6)).minimum(1.0)
    scaled = {name: gradient * scale.cast(gradient.dtype) for name, gradient in gradients.items()}
    return scaled, norm
