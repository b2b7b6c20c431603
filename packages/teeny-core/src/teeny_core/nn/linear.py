"""Dense layers and changes of shape."""

from __future__ import annotations

from teeny_core.dtype import DTypeLike, f32
from teeny_core.errors import ShapeError
from teeny_core.nn import functional, init
from teeny_core.nn.layer import Layer
from teeny_core.nn.parameter import Parameter
from teeny_core.tensor import AnyTensor


class Linear(Layer[[AnyTensor], AnyTensor]):
    """x·weightᵀ + bias: (..., in_features) → (..., out_features).

    Weight (out_features, in_features) and bias start uniform within 1/sqrt(in_features).
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, dtype: DTypeLike = f32
    ) -> None:
        for name, value in (("in_features", in_features), ("out_features", out_features)):
            if value < 1:
                raise ShapeError(f"Linear: {name} = {value}", hint=f"give {name} >= 1")
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(init.fan_in_uniform((out_features, in_features)), dtype)
        self.bias = (
            Parameter(init.fan_in_uniform((out_features,), in_features), dtype) if bias else None
        )

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the products of the rows of `x` with those of the weight."""
        return functional.linear(x, self.weight, self.bias)

    def describe(self) -> str:
        """Return the numbers of features."""
        bias = "" if self.bias is not None else ", bias=False"
        return f"{self.in_features}, {self.out_features}{bias}"


class Flatten(Layer[[AnyTensor], AnyTensor]):
    """Merge the axes from `start` to `end`: (N, ...) → (N, D) unless told otherwise."""

    def __init__(self, start: int = 1, end: int = -1) -> None:
        self.start = start
        self.end = end

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the elements in fewer axes."""
        return x.flatten(self.start, self.end)

    def describe(self) -> str:
        """Return the axes, where they are not the usual ones."""
        return "" if (self.start, self.end) == (1, -1) else f"{self.start}, {self.end}"


class Identity(Layer[[AnyTensor], AnyTensor]):
    """The input as it is."""

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return `x`."""
        return x
