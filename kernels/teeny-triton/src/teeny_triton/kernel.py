"""`@kernel`: a function of the kernel language, specialised and launched by calling it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from teeny_core import DType

from teeny_triton.frontend import Constexpr, KernelFunction, inline, specialise
from teeny_triton.ir import Function, Pointer, Type
from teeny_triton.language.control import Facts


class Kernel(KernelFunction):
    """A kernel. Inside another kernel a call inlines it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inline the kernel into the one that is being built."""
        return inline(self, args, kwargs)

    def function(
        self,
        facts: Mapping[str, Facts] | None = None,
        name: str | None = None,
        **parameters: Any,
    ) -> Function:
        """Specialise by parameter name: a type for a run-time parameter, else a Python value.

            add.function(x=Ptr[f32], y=Ptr[f32], out=Ptr[f32], n=i32, BLOCK=64)

        See `specialise`, which takes the same in two mappings.
        """
        signature: dict[str, Any] = {}
        constexprs: dict[str, Any] = {}
        for parameter, value in parameters.items():
            constant = isinstance(self.specs.get(parameter), Constexpr) or not _is_kind(value)
            (constexprs if constant else signature)[parameter] = value
        return specialise(self, signature, constexprs, facts, name=name)


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make a kernel of a Python function. `jit` is the same."""
    return Kernel(function)


jit = kernel


def _is_kind(value: object) -> bool:
    if isinstance(value, tuple | list):
        return bool(value) and all(map(_is_kind, value))
    return isinstance(value, DType | Pointer | Type)
