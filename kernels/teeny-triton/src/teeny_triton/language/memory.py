"""Loads and stores through pointers."""

from __future__ import annotations

from typing import Any

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import Pointer, Value
from teeny_triton.language import semantic
from teeny_triton.language.block_pointer import BlockPointer, checked_axes, padding
from teeny_triton.language.tile import Operand, Tile, raw
from teeny_triton.refining import refined, shape_before


def load(
    pointer: Operand | BlockPointer,
    mask: Operand | None = None,
    other: Operand | None = None,
    boundary_check: tuple[int, ...] = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> Tile:
    """Read the elements at `pointer`; lanes where `mask` is false give `other`, 0 by default.

    The pointer, the mask and `other` broadcast together. Masked-off lanes touch no memory.
    Through a block pointer a whole block is read; along the axes in `boundary_check` elements
    outside of the tensor give 0, or NaN by the `padding_option` "nan".

    Raises:
        KernelError: `pointer` is none, shapes do not broadcast, `other` comes without a mask, or a
            block pointer is given a mask, or a plain one a `boundary_check`.
    """
    if isinstance(pointer, BlockPointer):
        _no_mask(mask, other)
        mask = pointer.inside(checked_axes(pointer, boundary_check))
        other = None if mask is None else padding(padding_option, pointer.element)
        pointer = pointer.addresses()
    else:
        _no_boundaries(boundary_check, padding_option)
    address = address_of(pointer)
    parts = [address]
    if mask is not None:
        parts.append(semantic.truth(raw(mask)))
    if other is not None:
        parts.append(semantic.cast(raw(other), pointee_of(address)))
    address, *rest = semantic.broadcast(*parts)
    if other is not None and mask is None:
        raise KernelError("`other` needs a `mask`", hint="pass mask=..., or drop other=...")
    if rest:
        known = current().constant_of(rest[0])
        if known is True:
            rest = []
        elif known is False:
            zero = current().full(address.type.shape, 0, pointee_of(address))
            return Tile(rest[1] if len(rest) == 2 else zero)
    attrs = _hints(cache_modifier, eviction_policy, volatile)
    (result,) = current().emit("load", _before_merging((address, *rest)), attrs)
    return Tile(semantic.reshape(result, address.type.shape))


def store(
    pointer: Operand | BlockPointer,
    value: Operand,
    mask: Operand | None = None,
    boundary_check: tuple[int, ...] = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write `value`, converted to the pointer's type, where `mask` is true.

    Through a block pointer a whole block is written, along the axes in `boundary_check` as far as
    it lies in the tensor.

    Raises:
        KernelError: `pointer` is none, shapes do not broadcast, or a block pointer is given a mask,
            or a plain one a `boundary_check`.
    """
    if isinstance(pointer, BlockPointer):
        _no_mask(mask, None)
        mask = pointer.inside(checked_axes(pointer, boundary_check))
        pointer = pointer.addresses()
    else:
        _no_boundaries(boundary_check, "")
    operands = store_operands(pointer, value, mask)
    if operands:
        hints = _hints(cache_modifier, eviction_policy, False)
        current().emit("store", _before_merging(operands), hints)


def prefetch(pointer: Operand, level: int = 1, write: bool = False) -> None:
    """Ask for the cache lines at `pointer` in cache level 1, 2 or 3; never faults."""
    current().emit("prefetch", (address_of(pointer),), {"level": level, "write": write})


def store_operands(pointer: Operand, value: Operand, mask: Operand | None) -> tuple[Value, ...]:
    """Bring the operands to the pointer's shape; nothing when the mask is known to be false."""
    address = address_of(pointer)
    parts = [address, semantic.cast(raw(value), pointee_of(address))]
    if mask is not None:
        parts.append(semantic.truth(raw(mask)))
    shape = semantic.common_shape([part.type.shape for part in parts])
    operands = tuple(semantic.broadcast_to(part, shape) for part in parts)
    known = current().constant_of(operands[2]) if mask is not None else True
    if known is None:
        return operands
    return operands[:2] if known else ()


def _before_merging(operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """Bring addresses, and what goes with them, back to the shape before axes were merged."""
    shape = shape_before(current(), operands[0])
    address = None if shape is None else refined(current(), operands[0], shape)
    if shape is None or address is None:
        return operands
    return (address, *(semantic.reshape(operand, shape) for operand in operands[1:]))


def address_of(pointer: Operand) -> Value:
    """Return a pointer, or tile of pointers, as a value.

    Raises:
        KernelError: it is no pointer.
    """
    value = raw(pointer)
    if not isinstance(value, Value) or not value.type.is_pointer:
        found = value.type if isinstance(value, Value) else repr(value)
        raise KernelError(f"expected a pointer, not {found}")
    return value


def pointee_of(address: Value) -> Any:
    """Return the dtype of what a pointer points at."""
    assert isinstance(address.type.element, Pointer)
    return address.type.element.pointee


def _hints(cache: str, eviction: str, volatile: bool) -> dict[str, object]:
    hints = {"cache": cache, "eviction": eviction, "volatile": volatile}
    return {name: hint for name, hint in hints.items() if hint}


def _no_mask(mask: object, other: object) -> None:
    if mask is not None or other is not None:
        raise KernelError(
            "a block pointer takes no mask",
            hint="list the axes to check: tl.load(pointer, boundary_check=(0, 1))",
        )


def _no_boundaries(boundary_check: object, padding_option: object) -> None:
    if boundary_check or padding_option:
        raise KernelError(
            "only a block pointer knows its boundaries",
            hint="use a mask: tl.load(pointer, mask=...)",
        )
