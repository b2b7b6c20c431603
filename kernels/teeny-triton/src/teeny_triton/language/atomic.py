"""Atomic operations on memory: nothing comes between their read and their write.

All return the old value. Elements of a tile that share an address take effect one after another.
`sem` is the memory order: "acq_rel" by default, "acquire", "release" or "relaxed". `scope` names
who must see it on a GPU ("cta", "gpu", "sys"); here everyone does.
"""

from __future__ import annotations

from dataclasses import dataclass

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import ORDERS
from teeny_triton.language import semantic
from teeny_triton.language.memory import address_of, pointee_of, store_operands
from teeny_triton.language.tile import Operand, Tile, raw

SCOPES = ("gpu", "cta", "sys")


@dataclass(frozen=True)
class Change:
    """A function that changes memory by a value, as its `kind` of atomic op does."""

    kind: str

    def __call__(
        self,
        pointer: Operand,
        val: Operand,
        mask: Operand | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tile:
        """Change memory where `mask` holds and return the old value, 0 where it does not.

        Raises:
            KernelError: an order or scope that does not exist, or what is no pointer.
        """
        order = _order(sem, scope)
        operands = store_operands(pointer, val, mask)
        if operands:
            return Tile(current().op("atomic_rmw", *operands, kind=self.kind, sem=order))
        address = address_of(pointer)
        return Tile(current().full(address.type.shape, 0, pointee_of(address)))


atomic_add = Change("add")
"""Add to memory and return the old value; 0 where `mask` is false."""

atomic_and = Change("and")
"""Keep the bits that both have, of integers; see `atomic_add`."""

atomic_or = Change("or")
"""Set the bits that either has, of integers; see `atomic_add`."""

atomic_xor = Change("xor")
"""Flip bits of integers; see `atomic_add`."""

atomic_max = Change("max")
"""Leave the larger of the two, a number rather than NaN; see `atomic_add`."""

atomic_min = Change("min")
"""Leave the smaller of the two, a number rather than NaN; see `atomic_add`."""

atomic_xchg = Change("xchg")
"""Store a value; see `atomic_add`."""


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


def _order(sem: str | None, scope: str | None) -> str:
    if scope is not None and scope not in SCOPES:
        raise KernelError(f"{scope!r} is no scope", hint=f"scopes are {', '.join(SCOPES)}")
    if sem is not None and sem not in ORDERS:
        raise KernelError(f"{sem!r} is no memory order", hint=f"orders are {', '.join(ORDERS)}")
    return sem or "acq_rel"
