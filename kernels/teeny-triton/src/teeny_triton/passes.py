"""Clean-up and facts of a finished function body. Passes return new blocks; values are shared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from teeny_core import DType

from teeny_triton.ir import Block, Op, Value, walk
from teeny_triton.repeats import repeated

WRITES = frozenset({"store", "atomic_rmw", "atomic_cas"})
"""Opcodes that may change memory."""

EFFECTS = WRITES | {"prefetch", "device_assert", "device_print", "breakpoint"}
"""Opcodes that are kept even when nothing uses their results."""


def has_effect(op: Op) -> bool:
    """Whether an op does more than give results; a volatile load may wait for others."""
    return op.opcode in EFFECTS or bool(op.attrs.get("volatile"))


def simplify(block: Block, known: Mapping[Value, Value] | None = None) -> Block:
    """Replace values by the equal ones that are `known`, drop carried values that never change
    and index arithmetic that is repeated, then everything that nothing uses."""
    forwarded = _forward(block, dict(known or {}))
    return _sweep(_forward(forwarded, repeated(forwarded)), set())


def written(block: Block, pointers: Iterable[Value]) -> frozenset[Value]:
    """Return those of `pointers` through which `block` may store."""
    roots: dict[Value, set[Value]] = {pointer: {pointer} for pointer in pointers}
    grown = True
    while grown:  # carried pointers need another round
        before = sum(map(len, roots.values()))
        for op in walk(block):
            for source, target in _flows(op):
                if source in roots:
                    roots.setdefault(target, set()).update(roots[source])
        grown = sum(map(len, roots.values())) > before
    stores = (op for op in walk(block) if op.opcode in WRITES)
    return frozenset().union(*(roots.get(op.operands[0], set()) for op in stores))


def carried_start(op: Op) -> int:
    """Index of the first carried operand of a loop."""
    return 3 if op.opcode == "for" else 0


def carried_arguments(op: Op, region: Block) -> tuple[Value, ...]:
    """The arguments of a loop's region that hold carried values (all but the induction value)."""
    return region.arguments[1:] if op.opcode == "for" else region.arguments


def _flows(op: Op) -> Iterable[tuple[Value, Value]]:
    """Pairs (from, to) along which a pointer may travel through `op`."""
    if op.opcode in ("for", "while"):
        inits = op.operands[carried_start(op) :]
        yields = op.regions[-1].ops[-1].operands
        for region in op.regions:
            arguments = carried_arguments(op, region)
            yield from zip(inits, arguments, strict=True)
            yield from zip(yields, arguments, strict=True)
        yield from zip(inits, op.results, strict=True)
        yield from zip(yields, op.results, strict=True)
    elif op.opcode == "if":
        for region in op.regions:
            yield from zip(region.ops[-1].operands, op.results, strict=True)
    else:
        for result in op.results:
            if result.type.is_pointer or (op.opcode not in ("load", "dot") and _is_wide(result)):
                yield from ((operand, result) for operand in op.operands)


def _is_wide(value: Value) -> bool:
    """Whether a value may be an address that was turned into a number."""
    element = value.type.element
    return isinstance(element, DType) and element.is_int and element.bits == 64


# --- carried values that never change ---


def _forward(block: Block, known: dict[Value, Value]) -> Block:
    """Rewrite uses by `known`, which grows by the carried values found constant on the way."""
    return Block(block.arguments, [_forward_op(op, known) for op in block.ops])


def _forward_op(op: Op, known: dict[Value, Value]) -> Op:
    operands = tuple([known.get(operand, operand) for operand in op.operands])
    if not op.regions:
        return op if operands == op.operands else replace(op, operands=operands)
    regions = tuple(_forward(region, known) for region in op.regions)
    op = replace(op, operands=operands, regions=regions)
    if op.opcode not in ("for", "while"):
        return op
    kept = []
    for i, (init, result) in enumerate(zip(operands[carried_start(op) :], op.results, strict=True)):
        arguments = [carried_arguments(op, region)[i] for region in op.regions]
        if op.regions[-1].ops[-1].operands[i] in (arguments[-1], init):
            known.update(dict.fromkeys((result, *arguments), init))
        else:
            kept.append(i)
    if len(kept) == len(op.results):
        return op
    narrowed = _keep_carried(op, kept)
    return replace(narrowed, regions=tuple(_forward(region, known) for region in narrowed.regions))


def _keep_carried(op: Op, kept: list[int]) -> Op:
    """Return the loop with only the carried values at the places `kept`."""
    start = carried_start(op)
    operands = (*op.operands[:start], *(op.operands[start + i] for i in kept))
    regions = []
    for region in op.regions:
        arguments = carried_arguments(op, region)
        leading = region.arguments[: len(region.arguments) - len(arguments)]
        ops = list(region.ops)
        if region is op.regions[-1]:
            last = ops[-1]
            ops[-1] = replace(last, operands=tuple(last.operands[i] for i in kept))
        regions.append(Block((*leading, *(arguments[i] for i in kept)), ops))
    results = tuple(op.results[i] for i in kept)
    return replace(op, operands=operands, results=results, regions=tuple(regions))


# --- what nothing uses ---


def _sweep(block: Block, live: set[Value]) -> Block:
    """Return the ops that have effects or reach `live`, which grows by what they use."""
    kept: list[Op] = []
    for op in reversed(block.ops):
        handler = _SWEEPERS.get(op.opcode)
        swept = handler(op, live) if handler else _sweep_plain(op, live)
        if swept is not None:
            kept.append(swept)
            live.update(swept.operands)
    return Block(block.arguments, kept[::-1])


def _sweep_plain(op: Op, live: set[Value]) -> Op | None:
    needed = has_effect(op) or op.opcode == "yield"
    return op if needed or not live.isdisjoint(op.results) else None


def _sweep_if(op: Op, live: set[Value]) -> Op | None:
    kept = [i for i, result in enumerate(op.results) if result in live]
    if not kept and not _has_effects(op):
        return None
    regions = []
    for region in op.regions:
        last = region.ops[-1]
        narrowed = replace(last, operands=tuple(last.operands[i] for i in kept))
        regions.append(_sweep(Block(region.arguments, [*region.ops[:-1], narrowed]), live))
    results = tuple(op.results[i] for i in kept)
    return replace(op, results=results, regions=tuple(regions))


def _sweep_loop(op: Op, live: set[Value]) -> Op | None:
    kept = {i for i, result in enumerate(op.results) if result in live}
    if not kept and not _has_effects(op):
        return None
    while True:
        narrowed = _keep_carried(op, sorted(kept))
        inside = set(live)
        regions = tuple(_sweep(region, inside) for region in narrowed.regions)
        used = {
            i
            for region in op.regions
            for i, argument in enumerate(carried_arguments(op, region))
            if argument in inside
        }
        if used <= kept:
            live |= inside
            return replace(narrowed, regions=regions)
        kept |= used


def _sweep_combine(op: Op, live: set[Value]) -> Op | None:
    if live.isdisjoint(op.results):
        return None
    return replace(op, regions=tuple(_sweep(region, live) for region in op.regions))


def _has_effects(op: Op) -> bool:
    return any(has_effect(inner) for region in op.regions for inner in walk(region))


_SWEEPERS: Mapping[str, Callable[[Op, set[Value]], Op | None]] = {
    "if": _sweep_if,
    "for": _sweep_loop,
    "while": _sweep_loop,
    "reduce_by": _sweep_combine,
    "scan": _sweep_combine,
}
