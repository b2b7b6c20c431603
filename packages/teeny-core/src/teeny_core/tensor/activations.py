"""Activation functions and softmax, made from primitives.

Narrow floats are evaluated in f32 and rounded once at the end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from teeny_core import ops
from teeny_core.errors import OpError
from teeny_core.tensor import core
from teeny_core.tensor.reductions import Reductions

if TYPE_CHECKING:
    from teeny_core.tensor.base import AnyTensor


class Activations(Reductions):
    """Activation functions."""

    __slots__ = ()

    def relu(self) -> AnyTensor:
        """Return x where it is above 0, else 0; NaN stays NaN."""
        return self._unary(ops.relu)

    def relu6(self) -> AnyTensor:
        """Return x limited to [0, 6]."""
        return self.relu().minimum(6)

    def leaky_relu(self, slope: float = 0.01) -> AnyTensor:
        """Return x where it is above 0, else slope*x."""
        return (self > 0).where(self._wrap(self._node), self * slope)

    def elu(self, alpha: float = 1.0) -> AnyTensor:
        """Return x where it is above 0, else alpha*(exp(x) - 1)."""
        below = self.minimum(0).expm1() * alpha
        return (self > 0).where(self._wrap(self._node), below)

    def silu(self) -> AnyTensor:
        """Return x*sigmoid(x)."""
        wide = self._float()
        return self._narrowed(wide * wide.sigmoid())

    def gelu(self, approximate: str = "none") -> AnyTensor:
        """Return x times the normal distribution function at x.

        Args:
            approximate: "none" for the exact form with erf, "tanh" for
                x/2*(1 + tanh(sqrt(2/pi)*(x + 0.044715*x^3))).

        Source: Hendrycks, Gimpel, https://arxiv.org/abs/1606.08415.

        Raises:
            OpError: for another form.
        """
        x = self._float()
        if approximate == "none":
            cdf = ((x * math.sqrt(0.5)).erf() + 1) * 0.5
        elif approximate == "tanh":
            inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
            cdf = (inner.tanh() + 1) * 0.5
        else:
            raise OpError(
                f"gelu has no form named {approximate!r}", hint="approximate is 'none' or 'tanh'"
            )
        return self._narrowed(x * cdf)

    def softplus(self) -> AnyTensor:
        """Return log(1 + exp(x)) without overflow."""
        x = self._float()
        below = (x > 0).where(-x, x)  # -|x|, with the slope 1 at 0: that of the sum is then 1/2
        return self._narrowed(x.relu() + below.exp().log1p())

    def logsigmoid(self) -> AnyTensor:
        """Return log(sigmoid(x)) without overflow."""
        return -(-self).softplus()

    def hardsigmoid(self) -> AnyTensor:
        """Return (x + 3)/6 limited to [0, 1]."""
        return (self + 3).clamp(0, 6) / 6

    def hardswish(self) -> AnyTensor:
        """Return x*hardsigmoid(x)."""
        return self * self.hardsigmoid()

    def softmax(self, axis: int = -1) -> AnyTensor:
        """Return exp(x)/sum(exp(x)) along `axis` without overflow."""
        core.check_float(self, "softmax")
        wide = self._float()
        shifted = (wide - wide.max(axis, keepdims=True).stop_gradient()).exp()
        return self._narrowed(shifted / shifted.sum(axis, keepdims=True))

    def log_softmax(self, axis: int = -1) -> AnyTensor:
        """Return log(softmax(x)) along `axis` without loss of precision."""
        core.check_float(self, "log_softmax")
        wide = self._float()
        shifted = wide - wide.max(axis, keepdims=True).stop_gradient()
        return self._narrowed(shifted - shifted.exp().sum(axis, keepdims=True).log())

    def _float(self) -> AnyTensor:
        """Return the tensor as floats of 32 bits or more."""
        return self._accumulated()

    def _narrowed(self, wide: AnyTensor) -> AnyTensor:
        return wide.cast(self.dtype) if self.dtype.is_float else wide
