"""Decorators of functions that kernels call, and settings, that Triton has and teeny accepts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from teeny_triton.binding import unwrapped
from teeny_triton.errors import KernelError
from teeny_triton.language.tile import Tile

Function = TypeVar("Function", bound=Callable[..., Any])

knobs = SimpleNamespace(
    runtime=SimpleNamespace(launch_enter_hook=None, launch_exit_hook=None, interpret=False),
    compilation=SimpleNamespace(always_compile=False, store_binary_only=False),
    autotuning=SimpleNamespace(cache=False, print=False),
)
"""Accepted, for kernels that set them. The settings of teeny are `TEENY_*` variables."""


def constexpr_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that kernels call with Python values, while they are read.

    Raises:
        KernelError: when it is called with a tile.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if isinstance(value, Tile):
                raise KernelError(
                    f"{function.__name__} takes Python values, not {value.type}",
                    hint="it is decorated by constexpr_function",
                )
        named = {name: unwrapped(value) for name, value in kwargs.items()}
        return unwrapped(function(*map(unwrapped, args), **named))

    return call


def must_use_result(function: Any, s: str | bool = True) -> Any:
    """Accept a decorator of Triton, which warns when a result is dropped."""
    if callable(function):
        return function
    return lambda function: function


def set_allocator(allocator: Callable[..., Any]) -> None:
    """Accept the allocator of scratch memory that kernels on GPUs need; teeny brings its own."""
