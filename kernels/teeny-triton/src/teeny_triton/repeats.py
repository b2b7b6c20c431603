"""Which index arithmetic of a function says the same again.

A mask that is written twice, for a load and for a store, is one mask afterwards: a loop that is
cut short for one is then cut short for both.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from teeny_core import DType

from teeny_triton import semantics
from teeny_triton.ir import Block, Op, Value

_PURE = semantics.ELEMENTWISE | {
    "const", "program_id", "num_programs", "arange", "splat", "expand_dims", "broadcast", "trans",
    "reshape", "cast", "bitcast", "addptr",
}  # fmt: skip

Key: TypeAlias = tuple[Any, ...]


def repeated(block: Block) -> dict[Value, Value]:
    """Return for each integer, truth value or address that is computed again its first copy."""
    known: dict[Value, Value] = {}
    _find(block, {}, known)
    return known


def _find(block: Block, outer: dict[Key, Value], known: dict[Value, Value]) -> None:
    """Read a block in which the values of `outer` are visible."""
    seen = dict(outer)
    for op in block.ops:
        for region in op.regions:
            _find(region, seen, known)
        if op.opcode in _PURE and _is_index(op):
            operands = tuple(known.get(operand, operand) for operand in op.operands)
            attrs = tuple((name, type(x), x) for name, x in sorted(op.attrs.items()))
            first = seen.setdefault((op.opcode, operands, attrs, op.result.type), op.result)
            if first is not op.result:
                known[op.result] = first


def _is_index(op: Op) -> bool:
    element = op.result.type.element
    return not isinstance(element, DType) or not element.is_float
