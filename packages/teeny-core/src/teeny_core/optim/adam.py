"""Adam and AdamW."""

from __future__ import annotations

import math
from dataclasses import dataclass

from teeny_core.optim.base import Optimizer, Tensors, require
from teeny_core.tensor import AnyTensor


@dataclass(frozen=True)
class Adam(Optimizer):
    """Scale each element of the gradient by how large it has been; the rule is PyTorch's.

    Attributes:
        betas: shares of the last mean and mean square that are kept.
        eps: added to the root of the mean square.
        weight_decay: factor of the parameter that is added to its gradient.

    Source: Kingma and Ba, *Adam: A Method for Stochastic Optimization* (2015).
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for beta in self.betas:
            require("betas", beta, 0 <= beta < 1, "numbers from 0 to below 1, such as 0.9")
        require("eps", self.eps, self.eps >= 0, "a finite number from 0")
        require("weight_decay", self.weight_decay, self.weight_decay >= 0, "a finite number from 0")

    @property
    def slots(self) -> tuple[str, ...]:
        """Mean and mean square of the gradient."""
        return ("exp_avg", "exp_avg_sq")

    def scalars(self, lr: AnyTensor, step: AnyTensor) -> Tensors:
        """Return the rate, and what takes the bias of the zeros at first out of the means."""
        mean, square = (_unbiasing(beta, step) for beta in self.betas)
        return {"lr": lr, "rate": lr / mean, "root": square.sqrt()}

    def rule(
        self, parameter: AnyTensor, gradient: AnyTensor, slots: Tensors, scalars: Tensors
    ) -> tuple[AnyTensor, dict[str, AnyTensor]]:
        """Return the parameter after a step, and the running means of gradient and square."""
        if self.weight_decay:
            gradient = gradient + parameter * self.weight_decay
        return self._moved(parameter, gradient, slots, scalars)

    def _moved(
        self, parameter: AnyTensor, gradient: AnyTensor, slots: Tensors, scalars: Tensors
    ) -> tuple[AnyTensor, dict[str, AnyTensor]]:
        beta1, beta2 = self.betas
        mean, square = slots["exp_avg"], slots["exp_avg_sq"]
        mean = mean + (gradient - mean) * (1 - beta1)
        square = square * beta2 + gradient.square() * (1 - beta2)
        spread = square.sqrt() / scalars["root"] + self.eps
        moved = parameter - scalars["rate"] * (mean / spread)
        return moved, {"exp_avg": mean, "exp_avg_sq": square}


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with weight decay apart from the gradient: parameters shrink by lr·weight_decay.

    Source: Loshchilov and Hutter, *Decoupled Weight Decay Regularization* (2019).
    """

    weight_decay: float = 1e-2

    def rule(
        self, parameter: AnyTensor, gradient: AnyTensor, slots: Tensors, scalars: Tensors
    ) -> tuple[AnyTensor, dict[str, AnyTensor]]:
        """Return the parameter after a step, and the running means of gradient and square."""
        if self.weight_decay:
            parameter = parameter * (1 - scalars["lr"] * self.weight_decay)
        return self._moved(parameter, gradient, slots, scalars)


def _unbiasing(beta: float, step: AnyTensor) -> AnyTensor:
    """Return 1 - beta^step, which f32 holds to its last bits by way of expm1."""
    if beta == 0:
        return step / step
    return -(step * math.log(beta)).expm1()
