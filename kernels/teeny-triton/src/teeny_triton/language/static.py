"""Functions of Python values, for kernels to call while they are read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from teeny_triton.errors import KernelError
from teeny_triton.language.constants import constexpr
from teeny_triton.language.tile import Tile


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


def unwrapped(value: Any) -> Any:
    """Return what a constexpr holds, anything else as it is."""
    return value.value if isinstance(value, constexpr) else value
