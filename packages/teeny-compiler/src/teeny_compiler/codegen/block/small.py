"""What fits registers: loops and branches of such tiles only are copied as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from teeny_triton import Target
from teeny_triton.ir import Block, Op, Value, walk

MOST_STEPS = 512  # instructions of a product that may be written out
MOST_REDUCED = 4  # vectors that a reduction takes at once; a loop over more sheds their masks


def register_elements(target: Target, lanes: int) -> int:
    """Return how many elements the register file holds."""
    return max(target.vector_registers, 8) * max(lanes, 1)


def is_large_op(op: Op, most: int, lanes: int) -> bool:
    """Whether an op has a tile of more than `most` elements, or is a long sum or product."""
    if op.opcode == "dot":
        (rows, depth), (_, columns) = (x.type.shape for x in op.operands[:2])
        if rows * depth * columns > MOST_STEPS * lanes:
            return True
    if op.opcode == "reduce":
        (x,) = op.operands
        if x.type.shape[op.attrs["axis"]] > MOST_REDUCED * lanes > MOST_REDUCED:
            return True
    return any(x.type.size > most for x in (*op.operands, *op.results))


def is_small(op: Op, target: Target, lanes: int) -> bool:
    """Whether an op with regions takes and gives scalars, and all tiles in it fit registers."""
    most = register_elements(target, lanes)
    if any(x.type.shape for x in (*op.operands, *op.results)):
        return False
    inner = (other for region in op.regions for other in walk(region))
    return not any(is_large_op(x, most, lanes) for x in inner)


def captured(op: Op) -> list[Value]:
    """Return the tiles from outside that the regions of an op use."""
    inside = {result for region in op.regions for inner in walk(region) for result in inner.results}
    inside.update(argument for region in _regions(op) for argument in region.arguments)
    used = [x for region in op.regions for inner in walk(region) for x in inner.operands]
    return [x for x in dict.fromkeys(used) if x.type.shape and x not in inside]


def renamed(op: Op, name: Callable[[Value], Value]) -> Op:
    """Return an op with other operands, in its regions too."""
    return replace(
        op,
        operands=tuple(map(name, op.operands)),
        regions=tuple(
            Block(region.arguments, [renamed(inner, name) for inner in region.ops])
            for region in op.regions
        ),
    )


def _regions(op: Op) -> list[Block]:
    """Return the regions of an op and of the ops in them."""
    inner = [region for body in op.regions for other in walk(body) for region in other.regions]
    return [*op.regions, *inner]
