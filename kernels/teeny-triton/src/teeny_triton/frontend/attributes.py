"""What types are asked in kernels, by Triton's names: `x.dtype.is_floating()`, `x.type.scalar`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from teeny_core import (
    DType,
    bf16,
    bool_,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)

from teeny_triton.errors import KernelError
from teeny_triton.ir import Pointer, Type
from teeny_triton.language.constants import constexpr
from teeny_triton.language.dtypes import TRITON_NAMES
from teeny_triton.language.tile import tile


class Answer(int):
    """A truth value that may also be called: `dtype.is_int` and `dtype.is_int()` are one."""

    def __call__(self) -> bool:
        """Return the truth value."""
        return bool(self)


def attribute(owner: Any, name: str) -> Any:
    """Return what `owner.name` is in a kernel.

    Raises:
        KernelError: there is no such thing.
    """
    if isinstance(owner, DType | Pointer | Type):
        known = _of_type(owner, name)
        if known is not None:
            return known
    if name == "value" and isinstance(owner, _CONSTANTS):
        return owner  # constants are not wrapped while a kernel is read
    if isinstance(owner, bool | int | float) and not hasattr(owner, name):
        owner = tile(owner)  # a specialised argument is used like a tile: n.to(tl.int64)
    try:
        value = getattr(owner, name)
    except AttributeError as error:
        raise KernelError(str(error)) from error
    return value.value if isinstance(value, constexpr) else value


_CONSTANTS = (bool, int, float, str, tuple, DType, type(None))


def _of_type(owner: DType | Pointer | Type, name: str) -> Any:
    """Return the answer to a question of Triton's, None where it is none."""
    element = owner.element if isinstance(owner, Type) else owner
    shape = owner.shape if isinstance(owner, Type) else ()
    if name == "scalar":
        return element
    if name == "element_ty":
        return element if shape or isinstance(element, DType) else element.pointee
    if name == "is_block":
        return Answer(bool(shape))
    if name == "is_ptr":
        return Answer(isinstance(element, Pointer) and not shape)
    if name in _BITS:
        return element.bits if isinstance(element, DType) else 64
    if name in _QUESTIONS:
        return Answer(isinstance(element, DType) and _QUESTIONS[name](element))
    return None


_BITS = frozenset({"primitive_bitwidth", "int_bitwidth"})
_FOREIGN = ("fp8e4b8", "fp8e4b15", "fp8e5b16")  # formats of other chips, which nothing has

_TYPES: Mapping[str, tuple[DType, ...]] = {
    **{f"is_{name}": (of,) for name, of in TRITON_NAMES.items() if name[0] not in "iu"},
    **{f"is_int{of.bits}": (of,) for of in (i8, i16, i32, i64)},
    **{f"is_uint{of.bits}": (of,) for of in (u8, u16, u32, u64)},
    **{f"is_{name}": () for name in _FOREIGN},
    "is_fp8": (f8e4m3, f8e5m2),
    "is_standard_floating": (f16, bf16, f32, f64),
    "is_int1": (bool_,),
    "is_bool": (bool_,),
}

_QUESTIONS: Mapping[str, Callable[[DType], bool]] = {
    **{name: types.__contains__ for name, types in _TYPES.items()},
    "is_floating": lambda dtype: dtype.is_float,
    "is_float": lambda dtype: dtype.is_float,
    "is_int": lambda dtype: dtype.is_int,
    "is_int_signed": lambda dtype: dtype.kind == "int",
    "is_int_unsigned": lambda dtype: dtype.kind in ("uint", "bool"),
}
