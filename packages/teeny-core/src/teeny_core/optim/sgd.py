"""Stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

from teeny_core.errors import ConfigError
from teeny_core.optim.base import Optimizer, Tensors, require
from teeny_core.tensor import AnyTensor


@dataclass(frozen=True)
class SGD(Optimizer):
    """Go against the gradient, with momentum where asked for; the rule is PyTorch's.

    Attributes:
        momentum: share of the last direction that is kept.
        dampening: share of the gradient left out of the direction, from the second step on.
        weight_decay: factor of the parameter that is added to its gradient.
        nesterov: look ahead along the direction.

    Source: Sutskever, Martens, Dahl and Hinton, *On the importance of initialization and momentum
    in deep learning* (2013).
    """

    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require("momentum", self.momentum, self.momentum >= 0, "a finite number from 0")
        require("weight_decay", self.weight_decay, self.weight_decay >= 0, "a finite number from 0")
        if self.nesterov and (self.momentum <= 0 or self.dampening != 0):
            raise ConfigError(
                f"nesterov with momentum = {self.momentum}, dampening = {self.dampening}",
                hint="it needs momentum and no dampening",
            )

    @property
    def slots(self) -> tuple[str, ...]:
        """The direction, where there is momentum."""
        return ("momentum_buffer",) if self.momentum else ()

    def scalars(self, lr: AnyTensor, step: AnyTensor) -> Tensors:
        """Return the rate, and the share of the gradient that goes into the direction."""
        share = (step > 1).where(1 - self.dampening, 1.0)
        return {"lr": lr, "share": share}

    def rule(
        self, parameter: AnyTensor, gradient: AnyTensor, slots: Tensors, scalars: Tensors
    ) -> tuple[AnyTensor, dict[str, AnyTensor]]:
        """Return the parameter after a step, and with momentum the direction in which it moved."""
        if self.weight_decay:
            gradient = gradient + parameter * self.weight_decay
        if not self.momentum:
            return parameter - gradient * scalars["lr"], {}
        inflow = gradient * scalars["share"] if self.dampening else gradient
        direction = slots["momentum_buffer"] * self.momentum + inflow
        move = gradient + direction * self.momentum if self.nesterov else direction
        return parameter - move * scalars["lr"], {"momentum_buffer": direction}
