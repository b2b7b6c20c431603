"""Atomic operations, an element at a time: lanes may share an address, and all of them count.

Integers take LLVM's `atomicrmw`, as do sums of f32 and f64; what it has no exact form of, such as
a sum of bf16, is computed between a load and a compare-and-swap, until no one has come between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from teeny_core import DType
from teeny_triton.ir import Op

from teeny_compiler.codegen.arith import floating
from teeny_compiler.codegen.builder import BITS, FALSE, INT, TRUE, LType, Operand
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.elementwise import rounded, wide
from teeny_compiler.codegen.cpu.emitter import EmitOp, Emitter
from teeny_compiler.codegen.cpu.place import (
    Place,
    from_memory,
    place_of,
    root_of,
    to_memory,
    zero_of,
)
from teeny_compiler.codegen.cpu.types import is_signed_int
from teeny_compiler.codegen.cpu.values import Items, Uniform

Change = Callable[[Operand, Operand], Operand]

_ORDERS = {sem: sem for sem in ("acquire", "release", "acq_rel")} | {"relaxed": "monotonic"}
_AFTER_FAILURE = {"acquire": "acquire", "acq_rel": "acquire"}  # a failed swap stores nothing


@dataclass(frozen=True)
class _Atomics:
    """Writes atomic operations on elements of one place in one memory order."""

    c: Context
    place: Place
    order: str

    def change(self, kind: str, pointer: Operand, item: Operand) -> Operand:
        """Combine memory with a value by `kind` and return the old element."""
        element = self.place.element
        is_float = isinstance(element, DType) and element.is_float
        if is_float and (kind in ("max", "min") or (kind == "add" and item.type.scalar in _INT)):
            return self._swapping(pointer, lambda old: self._combined(kind, old, item))
        opcode = f"f{kind}" if is_float and kind == "add" else kind
        if kind in ("max", "min") and not is_signed_int(element):
            opcode = f"u{kind}"
        value = to_memory(self.c, item)
        text = f"atomicrmw {opcode} {pointer}, {value} {self.order}"
        return from_memory(self.c, self.c.b.ordered(value.type, text), element)

    def _combined(self, kind: str, old: Operand, item: Operand) -> Operand:
        c, element = self.c, self.place.element
        opcode = kind if kind == "add" else f"{kind}num"
        result = floating.BINARY[opcode](
            c.b, c.target, wide(c, old, element), wide(c, item, element)
        )
        return rounded(c, result, element)

    def _swapping(self, pointer: Operand, change: Callable[[Operand], Operand]) -> Operand:
        """Swap in a function of what memory holds, until nothing has come between."""
        b, type = self.c.b, LType(self.place.scalar)
        bits = INT[BITS[type.scalar]]
        text = f"load atomic {bits}, {pointer} monotonic, align {self.place.align}"
        first = b.ordered(LType(bits), text)
        loop, after, before = b.new_block(), b.new_block(), b.block
        with b.scope(is_loop=True):
            b.jump(loop)
            b.place(loop)
            phi = b.phi(LType(bits))
            old = b.convert("bitcast", phi.result, type.scalar)
            new = b.convert("bitcast", change(old), bits)
            seen, swapped = self._compare_and_swap(pointer, phi.result, new)
            phi.incoming = [(first, before.label), (seen, b.block.label)]
            b.branch(swapped, after, loop)
        b.place(after)
        return b.convert("bitcast", b.available(phi.result), type.scalar)

    def swap(self, pointer: Operand, expected: Operand, item: Operand) -> Operand:
        """Store `item` where memory holds the bits of `expected`; return the old element."""
        b = self.c.b
        scalar = self.place.scalar
        bits = INT[BITS[scalar]]
        wanted, new = (b.convert("bitcast", to_memory(self.c, x), bits) for x in (expected, item))
        old, _ = self._compare_and_swap(pointer, wanted, new)
        return from_memory(self.c, b.convert("bitcast", old, scalar), self.place.element)

    def _compare_and_swap(
        self, pointer: Operand, expected: Operand, new: Operand
    ) -> tuple[Operand, Operand]:
        b, type = self.c.b, expected.type
        failure = _AFTER_FAILURE.get(self.order, "monotonic")
        pair = LType(f"{{ {type}, i1 }}")
        both = b.ordered(pair, f"cmpxchg {pointer}, {expected}, {new} {self.order} {failure}")
        old = b.ordered(type, f"extractvalue {both}, 0")
        return old, b.ordered(LType("i1"), f"extractvalue {both}, 1")


_INT = frozenset(INT.values())


def atomic_rmw(e: Emitter, op: Op) -> None:
    """Emit `atomic_rmw`."""
    kind = op.attrs["kind"]
    _each(e, op, 2, lambda atomics, pointer, item: atomics.change(kind, pointer, item))


def atomic_cas(e: Emitter, op: Op) -> None:
    """Emit `atomic_cas`."""
    _each(e, op, 3, lambda atomics, pointer, old, new: atomics.swap(pointer, old, new))


def _each(e: Emitter, op: Op, mask_at: int, act: Callable[..., Operand]) -> None:
    """Act on every element under its mask, and define the old elements."""
    c = e.c
    place = place_of(e, op, mask_at)
    values = [e.tile(operand) for operand in op.operands[1:mask_at]]
    order = _ORDERS[op.attrs["sem"]]
    # What was loaded before must not be read later, when others may have passed.
    c.settle(root_of(c, place.pointers) if order == "monotonic" else None)
    atomics = _Atomics(c, place, order)
    old = []
    for flat in range(op.operands[1].type.size):
        pointer, items = place.pointers.item(c, flat), [value.item(c, flat) for value in values]
        condition = place.condition(c, flat)
        old.append(_act_if(c, condition, items[0].type, lambda: act(atomics, pointer, *items)))  # noqa: B023
    kind = op.result.type
    if not kind.shape:
        e.define(op.result, Uniform((), place.element, old[0]))
    else:
        e.define(op.result, Items(kind.shape, place.element, tuple(old)))


def _act_if(c: Context, condition: Operand, type: LType, act: Callable[[], Operand]) -> Operand:
    """Return what `act` gives, or zero where it is not done because a condition fails."""
    if condition == TRUE:
        return act()
    if condition == FALSE:
        return zero_of(type)
    then, after, before = c.b.new_block(), c.b.new_block(), c.b.block
    c.b.branch(condition, then, after)
    with c.b.scope(is_loop=False):
        c.b.place(then)
        old = act()
        end = c.b.block
        c.b.jump(after)
    c.b.place(after)
    phi = c.b.phi(type)
    phi.incoming = [(zero_of(type), before.label), (old, end.label)]
    return phi.result


EMITTERS: Mapping[str, EmitOp] = {"atomic_rmw": atomic_rmw, "atomic_cas": atomic_cas}
