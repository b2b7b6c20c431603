"""Functions that combine two elements, as the region of a `reduce_by` or a `scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import Block, Op, Value
from teeny_triton.language.control import as_results, like, yield_
from teeny_triton.language.tile import Tile, tile
from teeny_triton.rules import COMBINING

Combine = Callable[..., Any]


def tiles_of(x: Any) -> list[Tile]:
    """Return the tiles of an operand that is one tile or several of one shape.

    Raises:
        KernelError: the shapes differ.
    """
    parts = [tile(part) for part in (x if isinstance(x, tuple | list) else (x,))]
    shapes = dict.fromkeys(part.shape for part in parts)
    if len(shapes) != 1:
        raise KernelError(f"tiles of shapes {', '.join(map(str, shapes))} cannot be combined")
    return parts


def as_given(x: Any, results: Sequence[Tile]) -> Any:
    """Return one tile where one was given, else a tuple."""
    return tuple(results) if isinstance(x, tuple | list) else results[0]


def combination(parts: Sequence[Tile], combine: Combine) -> Block:
    """Return `combine(a0, a1, ..., b0, b1, ...)` as a region on scalars.

    Raises:
        KernelError: it does more than elementwise work, or gives other types than it takes.
    """
    types = tuple(part.type.with_shape(()) for part in parts)
    region = Block(tuple(Value(kind) for kind in types * 2))
    with current().inside(region):
        values = as_results(combine(*map(Tile, region.arguments)))
        yield_(*like(values, types, "combining function"))
    ops = list(_straight(region))
    wrong = next((op.opcode for op in ops if op.opcode not in COMBINING), None)
    if wrong is not None:
        raise KernelError(
            f"a combining function works on two elements, it cannot use {wrong}",
            hint="use arithmetic, comparisons, tl.where and conversions only",
        )
    return Block(region.arguments, ops)


def _straight(block: Block) -> list[Op]:
    """Return the ops with branches computed on both sides, and chosen from."""
    ops: list[Op] = []
    for op in block.ops:
        if op.opcode != "if":
            ops.append(op)
            continue
        sides = [_straight(region) for region in op.regions]
        yields = [side.pop() for side in sides]
        ops.extend(inner for side in sides for inner in side)
        chosen = zip(op.results, *(last.operands for last in yields), strict=True)
        for result, yes, no in chosen:
            operands = (op.operands[0], yes, no)
            ops.append(
                replace(op, opcode="where", operands=operands, results=(result,), regions=())
            )
    return ops
