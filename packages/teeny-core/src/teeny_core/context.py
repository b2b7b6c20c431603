"""What is being traced now, and whether in training mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from teeny_core.graph import Node
    from teeny_core.tensor import Tensor


class Trace:
    """One run of a function on symbolic tensors.

    Attributes:
        sites: calls of random functions so far; each is a stream of its own.
    """

    def __init__(self) -> None:
        self.sites = 0
        self._updated: dict[int, tuple[Tensor, Node]] = {}

    def update(self, tensor: Tensor, value: Node) -> None:
        """Let `tensor` stand for another value until the trace ends."""
        if id(tensor) not in self._updated:
            self._updated[id(tensor)] = tensor, tensor.own().node
        tensor._node = value

    def next_site(self) -> int:
        """Return the number of the next call of a random function."""
        self.sites += 1
        return self.sites - 1

    def finish(self) -> tuple[tuple[Node, Node], ...]:
        """Give the tensors back their nodes; return (node, new value) of the updated ones."""
        updates = tuple((node, tensor.node) for tensor, node in self._updated.values())
        for tensor, node in self._updated.values():
            tensor._node = node
        self._updated.clear()
        return updates


_trace: ContextVar[Trace | None] = ContextVar("teeny_trace", default=None)
_training: ContextVar[bool] = ContextVar("teeny_training", default=False)


def current_trace() -> Trace | None:
    """Return the trace that is running, None outside of one."""
    return _trace.get()


@contextmanager
def tracing() -> Iterator[Trace]:
    """Trace what runs in the block; tensors updated in it get their values back at its end."""
    trace = Trace()
    token = _trace.set(trace)
    try:
        yield trace
    finally:
        trace.finish()
        _trace.reset(token)


def is_training() -> bool:
    """Return whether layers behave as in training (dropout, batch statistics)."""
    return _training.get()


@contextmanager
def training(mode: bool = True) -> Iterator[None]:
    """Let layers in the block behave as in training, or as in inference."""
    token = _training.set(mode)
    try:
        yield
    finally:
        _training.reset(token)
