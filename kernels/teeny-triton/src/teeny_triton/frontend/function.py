"""A Python function as the front end sees it."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from teeny_triton.frontend.annotations import Spec, specs
from teeny_triton.frontend.source import Source
from teeny_triton.language.constants import constexpr

_PLAIN = (bool, int, float, str)
_CONSTANTS = (*_PLAIN, tuple, type(None), constexpr)


@dataclass(frozen=True)
class Read:
    """A constant that a kernel took from outside while it was read."""

    function: KernelFunction
    name: str
    value: Any

    def is_current(self) -> bool:
        """Whether the name still has that value."""
        _, value = self.function.find(self.name)
        equal = isinstance(value, _PLAIN) and type(value) is type(self.value)
        return value is self.value or (equal and value == self.value)


_reads: ContextVar[list[Read] | None] = ContextVar("teeny_triton_reads", default=None)


@contextmanager
def recording() -> Iterator[list[Read]]:
    """Collect the constants that kernels take from outside."""
    reads: list[Read] = []
    token = _reads.set(reads)
    try:
        yield reads
    finally:
        _reads.reset(token)


class KernelFunction:
    """A function whose body is read, not run. Base of `Kernel`; helpers are inlined by it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.fn = function
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    @cached_property
    def source(self) -> Source:
        """The definition in its file."""
        return Source.of(self.fn)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters with their defaults."""
        return inspect.signature(self.fn)

    @cached_property
    def specs(self) -> Mapping[str, Spec]:
        """The annotation of each parameter."""
        return specs(self.fn)

    def lookup(self, name: str) -> tuple[bool, Any]:
        """Find a name outside the function: in its closure, its module, or the built-ins."""
        found, value = self.find(name)
        reads = _reads.get()
        if reads is not None and found and isinstance(value, _CONSTANTS):
            reads.append(Read(self, name, value))
        return found, value

    def find(self, name: str) -> tuple[bool, Any]:
        """Do as `lookup`, unrecorded."""
        code, cells = self.fn.__code__, self.fn.__closure__ or ()
        for free, cell in zip(code.co_freevars, cells, strict=True):
            if free == name:
                return True, cell.cell_contents
        for namespace in (self.fn.__globals__, vars(builtins)):
            if name in namespace:
                return True, namespace[name]
        return False, None

    def __repr__(self) -> str:
        return f"<kernel {self.__qualname__}>"
