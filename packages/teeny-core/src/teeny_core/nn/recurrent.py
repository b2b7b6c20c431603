"""Recurrent layers; the steps of a sequence are laid out one after another in the graph."""

from __future__ import annotations

from teeny_core.creation import zeros
from teeny_core.dtype import DTypeLike, f32
from teeny_core.errors import ShapeError
from teeny_core.functions import concat, stack
from teeny_core.nn import functional, init
from teeny_core.nn.layer import Layer
from teeny_core.nn.parameter import Parameter
from teeny_core.tensor import AnyTensor, Tensor

State = tuple[AnyTensor, AnyTensor]

GATES = 4


class LSTMCell(Layer[..., State]):
    """One step of a long short-term memory: x (N, I) and the state → the state h, c (N, H).

    Weights (4H, I) and (4H, H), biases (4H,), in the order of the gates i, f, g, o, start uniform
    within 1/sqrt(H).

    Source: Hochreiter and Schmidhuber, *Long short-term memory* (1997), with the forget gate of
    Gers, Schmidhuber and Cummins, *Learning to forget* (2000).
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *, dtype: DTypeLike = f32
    ) -> None:
        _check_sizes(input_size, hidden_size)
        self.input_size = input_size
        self.hidden_size = hidden_size
        rows = GATES * hidden_size
        self.weight_ih = Parameter(_initial((rows, input_size), hidden_size), dtype)
        self.weight_hh = Parameter(_initial((rows, hidden_size), hidden_size), dtype)
        self.bias_ih = Parameter(_initial((rows,), hidden_size), dtype) if bias else None
        self.bias_hh = Parameter(_initial((rows,), hidden_size), dtype) if bias else None

    def call(self, x: AnyTensor, state: State | None = None) -> State:
        """Return the next h and c (..., H) for x (..., I); they start as zeros unless given."""
        if state is None:
            start = zeros(*x.shape[:-1], self.hidden_size, dtype=x.dtype)
            state = start, start
        h, c = state
        given = functional.linear(x, self.weight_ih, self.bias_ih)
        return _step(given + functional.linear(h, self.weight_hh, self.bias_hh), c)

    def describe(self) -> str:
        """Return the sizes."""
        bias = "" if self.bias_ih is not None else ", bias=False"
        return f"{self.input_size}, {self.hidden_size}{bias}"


class LSTM(Layer[..., tuple[AnyTensor, State]]):
    """Long short-term memories over a sequence of a fixed length, one layer on another.

    Parameters and conventions are PyTorch's: sequences are (L, N, I) unless `batch_first`, and
    `dropout` applies between the layers, in training. What the inputs contribute to the gates is
    one product for the whole sequence.

    Source: see `LSTMCell`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: DTypeLike = f32,
    ) -> None:
        _check_sizes(input_size, hidden_size)
        if num_layers < 1:
            raise ShapeError(f"num_layers = {num_layers}", hint="give num_layers >= 1")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        rows, directions = GATES * hidden_size, len(self._suffixes())
        for layer in range(num_layers):
            width = input_size if layer == 0 else directions * hidden_size
            for suffix in self._suffixes():
                shapes = {"weight_ih": (rows, width), "weight_hh": (rows, hidden_size)}
                biases = {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                for name, shape in {**shapes, **biases}.items():
                    start = Parameter(_initial(shape, hidden_size), dtype)
                    setattr(self, f"{name}_l{layer}{suffix}", start)

    def _suffixes(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def call(self, x: AnyTensor, state: State | None = None) -> tuple[AnyTensor, State]:
        """Run through a sequence.

        Args:
            x: (L, N, I), or (N, L, I) with `batch_first`; L is a number.
            state: h and c at the start, (layers·directions, N, H) each; zeros unless given.

        Returns:
            The outputs of the last layer, (L, N, directions·H), or batch first as `x`, and the
            last h and c.

        Raises:
            ShapeError: the length is symbolic or 0, or `x` has other axes.
        """
        if x.ndim != 3:
            raise ShapeError(f"LSTM of {x.type}", hint="give three axes: (L, N, I)")
        if self.batch_first:
            x = x.transpose(0, 1)
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.in_training:
                x = functional.dropout(x, self.dropout)
            passes = []
            for suffix in self._suffixes():
                start = None if state is None else (state[0][len(last)], state[1][len(last)])
                outputs, end = self._pass(x, f"_l{layer}{suffix}", start, bool(suffix))
                passes.append(outputs)
                last.append(end)
            x = passes[0] if len(passes) == 1 else concat(passes, -1)
        h, c = (stack(parts) for parts in zip(*last, strict=True))
        return (x.transpose(0, 1) if self.batch_first else x), (h, c)

    def _pass(
        self, x: AnyTensor, suffix: str, state: State | None, reverse: bool
    ) -> tuple[AnyTensor, State]:
        """Return the outputs (L, N, H) of one layer in one direction, and its last state."""
        length = x.shape[0]
        if not isinstance(length, int) or length < 1:
            raise ShapeError(
                f"LSTM over {length} steps", hint="trace it for a fixed length, of one or more"
            )
        weight_ih, weight_hh = (self._part(name, suffix) for name in ("weight_ih", "weight_hh"))
        bias = self._part("bias_ih", suffix) + self._part("bias_hh", suffix) if self.bias else None
        given = functional.linear(x, weight_ih, bias)
        steps = range(length)[:: -1 if reverse else 1]
        states: dict[int, State] = {}
        for step in steps:
            gates = given[step]
            if state is not None:
                gates = gates + functional.linear(state[0], weight_hh)
            states[step] = state = _step(gates, None if state is None else state[1])
        return stack([states[step][0] for step in range(length)]), states[steps[-1]]

    def _part(self, name: str, suffix: str) -> Parameter:
        parameter: Parameter = getattr(self, f"{name}{suffix}")
        return parameter

    def describe(self) -> str:
        """Return the sizes, and what is not usual."""
        usual = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        options = {**usual, "bidirectional": False}
        shown = [
            f"{name}={getattr(self, name)}"
            for name, value in options.items()
            if getattr(self, name) != value
        ]
        return ", ".join([str(self.input_size), str(self.hidden_size), *shown])


def _check_sizes(input_size: int, hidden_size: int) -> None:
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
        if value < 1:
            raise ShapeError(f"LSTM: {name} = {value}", hint=f"give {name} >= 1")


def _step(gates: AnyTensor, c: AnyTensor | None) -> State:
    """Return the next h and c for gates (N, 4H), before their activations; no `c` means zeros."""
    i, f, g, o = gates.chunk(GATES, -1)
    new = i.sigmoid() * g.tanh()
    if c is not None:
        new = f.sigmoid() * c + new
    return o.sigmoid() * new.tanh(), new


def _initial(shape: tuple[int, ...], hidden_size: int) -> Tensor:
    return init.fan_in_uniform(shape, hidden_size)
