"""Atomic operations on memory: nothing comes between their read and their write.

All return the old value. Elements of a tile that share an address take effect one after another.
`sem` is the memory order: "acq_rel" by default, "acquire", "release" or "relaxed". `scope` names
who must see it on a GPU ("cta", "gpu", "sys"); here everyone does.
"""

from __future__ import annotations

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import ORDERS
from teeny_triton.language import semantic
from teeny_triton.language.memory import address_of, pointee_of, store_operands
from teeny_triton.language.tile import Operand, Tile, raw

SCOPES = ("gpu", "cta", "sys")


def atomic_add(
    pointer: Operand,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tile:
    """Add to memory and return the old value; 0 where `mask` is false."""
    return _change("add", pointer, val, mask, sem, scope)


def atomic_and(
    pointer: Operand,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tile:
    """Keep the bits that both have, of integers; see `atomic_add`."""
    return _change("and", pointer, val, mask, sem, scope)


def atomic_or(
    pointer: Operand,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tile:
    """Set the bits that either has, of integers; see `atomic_add`."""
    return _change("or", pointer, val, mask, sem, scope)


def atomic_xor(
    pointer: Operand,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tile:
    """Flip bits of integers; see `atomic_add`."""
    return _change("xor", pointer, val, mask, sem, scope)


def atomic_max(
    pointer: Operand,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tile:
    """Leave the larger of the two, a number rather than NaN; see `atomic_add`."""
    return _change("max", pointer, val, mask, sem, scope)


def atomic_min(
    pointer: Operand,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tile:
    """Leave the smaller of the two, a number rather than NaN; see `atomic_add`."""
    return _change("min", pointer, val, mask, sem, scope)


def atomic_xchg(
    pointer: Operand,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tile:
    """Store a value; see `atomic_add`."""
    return _change("xchg", pointer, val, mask, sem, scope)


def atomic_cas(
    pointer: Operand,
    cmp: Operand,
    val: Operand,
    sem: str | None = None,
    scope: str | None = None,
) -> Tile:
    """Store `val` where memory holds the bits of `cmp`, and return the old value."""
    address = address_of(pointer)
    parts = (address, *(semantic.cast(raw(x), pointee_of(address)) for x in (cmp, val)))
    return Tile(current().op("atomic_cas", *semantic.broadcast(*parts), sem=_order(sem, scope)))


def _change(
    kind: str,
    pointer: Operand,
    value: Operand,
    mask: Operand | None,
    sem: str | None,
    scope: str | None,
) -> Tile:
    order = _order(sem, scope)
    operands = store_operands(pointer, value, mask)
    if operands:
        return Tile(current().op("atomic_rmw", *operands, kind=kind, sem=order))
    address = address_of(pointer)
    return Tile(current().full(address.type.shape, 0, pointee_of(address)))


def _order(sem: str | None, scope: str | None) -> str:
    if scope is not None and scope not in SCOPES:
        raise KernelError(f"{scope!r} is no scope", hint=f"scopes are {', '.join(SCOPES)}")
    if sem is not None and sem not in ORDERS:
        raise KernelError(f"{sem!r} is no memory order", hint=f"orders are {', '.join(ORDERS)}")
    return sem or "acq_rel"
