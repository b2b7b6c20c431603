"""A Python function as the front end sees it."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from teeny_triton.frontend.annotations import Spec, specs
from teeny_triton.frontend.source import Source


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
