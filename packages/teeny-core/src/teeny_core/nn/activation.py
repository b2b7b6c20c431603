"""Activations as layers. They have no parameters."""

from __future__ import annotations

from teeny_core.nn.layer import Layer
from teeny_core.tensor import AnyTensor


class ReLU(Layer[[AnyTensor], AnyTensor]):
    """max(x, 0)."""

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it elementwise."""
        return x.relu()


class ReLU6(Layer[[AnyTensor], AnyTensor]):
    """min(max(x, 0), 6)."""

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it elementwise."""
        return x.relu6()


class LeakyReLU(Layer[[AnyTensor], AnyTensor]):
    """The larger of x and slope·x."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it elementwise."""
        return x.leaky_relu(self.negative_slope)

    def describe(self) -> str:
        """Return the slope."""
        return str(self.negative_slope)


class ELU(Layer[[AnyTensor], AnyTensor]):
    """Return x where it is above 0, else alpha·(exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it elementwise."""
        return x.elu(self.alpha)

    def describe(self) -> str:
        """Return alpha."""
        return str(self.alpha)


class GELU(Layer[[AnyTensor], AnyTensor]):
    """Return x times the normal distribution function at x; `approximate` is "none" or "tanh"."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it elementwise."""
        return x.gelu(self.approximate)

    def describe(self) -> str:
        """Return the form."""
        return "" if self.approximate == "none" else repr(self.approximate)


class SiLU(Layer[[AnyTensor], AnyTensor]):
    """Return x·sigmoid(x)."""

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it elementwise."""
        return x.silu()


class Sigmoid(Layer[[AnyTensor], AnyTensor]):
    """1/(1 + exp(-x))."""

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it elementwise."""
        return x.sigmoid()


class Tanh(Layer[[AnyTensor], AnyTensor]):
    """The hyperbolic tangent."""

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it elementwise."""
        return x.tanh()


class Softplus(Layer[[AnyTensor], AnyTensor]):
    """log(1 + exp(x))."""

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it elementwise."""
        return x.softplus()


class Hardswish(Layer[[AnyTensor], AnyTensor]):
    """Return x·min(max(x + 3, 0), 6)/6."""

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it elementwise."""
        return x.hardswish()


class Hardsigmoid(Layer[[AnyTensor], AnyTensor]):
    """min(max(x + 3, 0), 6)/6."""

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it elementwise."""
        return x.hardsigmoid()


class Softmax(Layer[[AnyTensor], AnyTensor]):
    """exp(x)/sum(exp(x)) along an axis."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it along the axis."""
        return x.softmax(self.axis)

    def describe(self) -> str:
        """Return the axis."""
        return str(self.axis)


class LogSoftmax(Layer[[AnyTensor], AnyTensor]):
    """log(softmax(x)) along an axis."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def call(self, x: AnyTensor) -> AnyTensor:
        """Apply it along the axis."""
        return x.log_softmax(self.axis)

    def describe(self) -> str:
        """Return the axis."""
        return str(self.axis)
