"""Integer overflow on the way to an address: `pid * stride` that does not fit 32 bits.

Wrapped offsets are wrong wherever they point, often into the tensor itself. Which ops compute
offsets is known from the function; each of them is computed again in wider numbers. A lane that
has overflowed is followed to the access that uses it, so that lanes that a mask turns off, and
hashes that wrap on purpose, are no findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from teeny_core import DType

from teeny_triton.ir import Function, Op, Value, walk
from teeny_triton.memory import Array
from teeny_triton.passes import carried_arguments, carried_start

MOVES = frozenset({"splat", "broadcast", "expand_dims", "trans", "reshape", "join", "split", "cat"})
"""Ops whose results are their operands' elements, elsewhere."""

_WIDE: Mapping[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "shl": np.left_shift,
}
_FLOWS = MOVES | frozenset(_WIDE) | {"cast", "addptr", "where"}


def offset_ops(function: Function) -> frozenset[Op]:
    """Return the ops that an address may come from by arithmetic and movement."""
    sources: dict[Value, Sequence[Value]] = {}
    makers: dict[Value, Op] = {}
    for op in walk(function.body):
        if op.opcode in _FLOWS:
            makers.update(dict.fromkeys(op.results, op))
        _note_carried(op, sources)
    work = [op.result for op in walk(function.body) if op.opcode == "addptr"]
    seen: set[Value] = set()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        work += makers[value].operands if value in makers else sources.get(value, ())
    return frozenset(op for value, op in makers.items() if value in seen)


def _note_carried(op: Op, sources: dict[Value, Sequence[Value]]) -> None:
    """Note what the arguments of loops and the results of loops and branches may be."""
    if op.opcode == "if":
        yields = [region.ops[-1].operands for region in op.regions]
        for position, result in enumerate(op.results):
            sources[result] = [values[position] for values in yields]
    if op.opcode not in ("for", "while"):
        return
    inits = op.operands[carried_start(op) :]
    pairs = list(zip(inits, op.regions[-1].ops[-1].operands, strict=True))
    for values in (op.results, *(carried_arguments(op, region) for region in op.regions)):
        sources.update(zip(values, pairs, strict=True))


def overflows(op: Op, operands: Sequence[Array], result: Array) -> Array | None:
    """Return which lanes of an integer result are not the true number; None where none can be."""
    element = op.result.type.element
    if not isinstance(element, DType) or element.kind != "int":
        return None
    if op.opcode == "cast":
        source = operands[0]
        integers = source.dtype.kind in "iu"
        return np.asarray(source != result) if integers else None
    if op.opcode not in _WIDE:
        return None
    if element.itemsize < 8:
        exact = _WIDE[op.opcode](*(x.astype(np.int64) for x in operands))
        return np.asarray(exact != result)
    with np.errstate(all="ignore"):
        return np.asarray(_WIDE_64[op.opcode](*operands, result))


def _mul_64(a: Array, b: Array, result: Array) -> Array:
    return np.asarray(np.abs(a.astype(np.float64) * b.astype(np.float64)) >= 2.0**63)


_WIDE_64: Mapping[str, Callable[..., Array]] = {
    "add": lambda a, b, r: ((a ^ r) & (b ^ r)) < 0,
    "sub": lambda a, b, r: ((a ^ b) & (a ^ r)) < 0,
    "mul": _mul_64,
    "neg": lambda a, r: (a == r) & (a != 0),
    "shl": lambda a, b, r: (r >> b) != a,
}
