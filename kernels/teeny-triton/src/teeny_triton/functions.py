"""Decorators of functions that kernels call, and settings, that Triton has and teeny accepts."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from teeny_triton.language.static import constexpr_function as constexpr_function

Function = TypeVar("Function", bound=Callable[..., Any])

knobs = SimpleNamespace(
    runtime=SimpleNamespace(launch_enter_hook=None, launch_exit_hook=None, interpret=False),
    compilation=SimpleNamespace(always_compile=False, store_binary_only=False),
    autotuning=SimpleNamespace(cache=False, print=False),
)
"""Accepted, for kernels that set them. The settings of teeny are `TEENY_*` variables."""


def must_use_result(function: Any, s: str | bool = True) -> Any:
    """Accept a decorator of Triton, which warns when a result is dropped."""
    if callable(function):
        return function
    return lambda function: function


def set_allocator(allocator: Callable[..., Any]) -> None:
    """Accept the allocator of scratch memory that kernels on GPUs need; teeny brings its own."""
