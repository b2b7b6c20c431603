"""Hierarchical names for the nodes made inside a `with name_scope(...)` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_scope: ContextVar[str] = ContextVar("teeny_name_scope", default="")


@contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Put nodes made in the block under `name`; scopes nest and are joined by dots.

    Yields:
        The full name, such as "encoder.layer0".
    """
    outer = _scope.get()
    full = f"{outer}.{name}" if outer and name else outer or name
    token = _scope.set(full)
    try:
        yield full
    finally:
        _scope.reset(token)


@contextmanager
def in_scope(full: str) -> Iterator[None]:
    """Put nodes made in the block under exactly the name `full`."""
    token = _scope.set(full)
    try:
        yield
    finally:
        _scope.reset(token)


def current_scope() -> str:
    """Return the name of the scope that is open now, "" outside of all."""
    return _scope.get()
