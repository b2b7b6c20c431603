"""First values of parameters: tensors (f32) from distributions that keep signals in scale.

The numbers come from teeny's own generator, `teeny_core.random`, seeded by `manual_seed`. `mode`
and `nonlinearity` are as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from teeny_core import random
from teeny_core.errors import ConfigError, ShapeError, TraceError
from teeny_core.tensor import AnyTensor, Tensor

Shape = Sequence[int]

_GAINS: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {
        "linear": lambda _: 1.0,
        "conv2d": lambda _: 1.0,
        "sigmoid": lambda _: 1.0,
        "tanh": lambda _: 5.0 / 3.0,
        "relu": lambda _: math.sqrt(2.0),
        "leaky_relu": lambda slope: math.sqrt(2.0 / (1.0 + slope**2)),
        "selu": lambda _: 0.75,
    }
)


def calculate_gain(nonlinearity: str, slope: float = 0.01) -> float:
    """Return the factor by which weights make up for what a nonlinearity takes from the signal.

    Raises:
        ConfigError: there is no such nonlinearity.
    """
    if nonlinearity not in _GAINS:
        raise ConfigError(
            f"no gain is known for {nonlinearity!r}", hint=f"choose from {', '.join(_GAINS)}"
        )
    return _GAINS[nonlinearity](slope)


def fans(shape: Shape) -> tuple[int, int]:
    """Return how many inputs an output of a weight (O, I, ...) has, and outputs an input.

    Raises:
        ShapeError: the shape has fewer than two axes.
    """
    if len(shape) < 2:
        raise ShapeError(
            f"a weight of shape {tuple(shape)} has no inputs and outputs",
            hint="give at least two axes, (outputs, inputs, ...)",
        )
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def zeros(shape: Shape) -> Tensor:
    """Return zeros (f32) of a shape."""
    return constant(shape, 0.0)


def ones(shape: Shape) -> Tensor:
    """Return ones (f32) of a shape."""
    return constant(shape, 1.0)


def constant(shape: Shape, value: float) -> Tensor:
    """Return a tensor (f32) of a shape that is `value` everywhere."""
    return Tensor(np.full(tuple(shape), value, np.float32))


def uniform(shape: Shape, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Return numbers (f32) uniform in [low, high).

    Raises:
        TraceError: while a function is traced, as by all that draw numbers here.
    """
    return _tensor(random.uniform(tuple(shape), low, high))


def normal(shape: Shape, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Return normal numbers (f32) with a mean and a standard deviation."""
    return _tensor(random.normal(tuple(shape), mean, std))


def trunc_normal(
    shape: Shape, mean: float = 0.0, std: float = 1.0, low: float = -2.0, high: float = 2.0
) -> Tensor:
    """Return normal numbers (f32) within [low, high]; what falls outside is drawn again."""
    values = normal(shape, mean, std).numpy().copy()
    outside = ~((low <= values) & (values <= high))
    while outside.any():
        values[outside] = normal((int(outside.sum()),), mean, std).numpy()
        outside = ~((low <= values) & (values <= high))
    return Tensor(values)


def xavier_uniform(shape: Shape, gain: float = 1.0) -> Tensor:
    """Return numbers uniform within gain·sqrt(6/(fan in + fan out)).

    Source: Glorot and Bengio, *Understanding the difficulty of training deep feedforward neural
    networks* (2010).
    """
    bound = gain * math.sqrt(6.0 / sum(fans(shape)))
    return uniform(shape, -bound, bound)


def xavier_normal(shape: Shape, gain: float = 1.0) -> Tensor:
    """Return normal numbers of deviation gain·sqrt(2/(fan in + fan out)); as `xavier_uniform`."""
    return normal(shape, 0.0, gain * math.sqrt(2.0 / sum(fans(shape))))


def kaiming_uniform(
    shape: Shape, slope: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Return numbers uniform within gain·sqrt(3/fan).

    Args:
        shape: of a weight (outputs, inputs, ...).
        slope: below zero, of the leaky ReLU that follows.
        mode: "fan_in" to keep the scale of signals, "fan_out" that of gradients.
        nonlinearity: what follows, a name that `calculate_gain` knows.

    Source: He, Zhang, Ren and Sun, *Delving Deep into Rectifiers* (2015).
    """
    bound = math.sqrt(3.0) * _kaiming_deviation(shape, slope, mode, nonlinearity)
    return uniform(shape, -bound, bound)


def kaiming_normal(
    shape: Shape, slope: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Return normal numbers of deviation gain/sqrt(fan); arguments as of `kaiming_uniform`."""
    return normal(shape, 0.0, _kaiming_deviation(shape, slope, mode, nonlinearity))


def fan_in_uniform(shape: Shape, fan_in: int | None = None) -> Tensor:
    """Return numbers uniform within 1/sqrt(fan_in), by which PyTorch starts dense layers."""
    bound = 1.0 / math.sqrt(fans(shape)[0] if fan_in is None else fan_in)
    return uniform(shape, -bound, bound)


def orthogonal(shape: Shape, gain: float = 1.0) -> Tensor:
    """Return a matrix, of all but the first axis together, with orthogonal rows or columns.

    Source: Saxe, McClelland and Ganguli, *Exact solutions to the nonlinear dynamics of learning in
    deep linear neural networks* (2014).
    """
    rows, columns = shape[0], fans(shape)[0]
    numbers = normal((max(rows, columns), min(rows, columns))).numpy().astype(np.float64)
    q, r = np.linalg.qr(numbers)
    q *= np.sign(np.diag(r))  # which makes the distribution uniform
    matrix = q if rows >= columns else q.T
    return Tensor((gain * matrix).reshape(tuple(shape)).astype(np.float32))


def _kaiming_deviation(shape: Shape, slope: float, mode: str, nonlinearity: str) -> float:
    modes = ("fan_in", "fan_out")
    if mode not in modes:
        raise ConfigError(f"mode = {mode!r}", hint=f"choose from {', '.join(modes)}")
    return calculate_gain(nonlinearity, slope) / math.sqrt(fans(shape)[modes.index(mode)])


def _tensor(numbers: AnyTensor) -> Tensor:
    if not isinstance(numbers, Tensor):
        raise TraceError(
            "parameters were made while a function was traced", hint="make the layer before"
        )
    return numbers
