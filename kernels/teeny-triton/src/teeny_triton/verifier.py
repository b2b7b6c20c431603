"""Holds a function against the rules of tile IR: types, dominance, regions, names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from teeny_core import bool_

from teeny_triton.errors import KernelError
from teeny_triton.ir import Block, Function, Op, Type, Value, printed
from teeny_triton.rules import ATTRIBUTES, COMBINING, Signature, result_types

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def verify(function: Function) -> Function:
    """Return `function` when it is well formed.

    Raises:
        KernelError: naming the function, the op as printed in it, and what is wrong.
    """
    if not _SYMBOL.fullmatch(function.name):
        raise KernelError(f"{function.name!r} is not a valid name of a function")
    names = [parameter.name for parameter in function.parameters]
    if len(set(names)) != len(names):
        raise KernelError(f"@{function.name}: two parameters share a name")
    values = [parameter.value for parameter in function.parameters]
    if any(value.type.shape for value in values):
        raise KernelError(f"@{function.name}: a parameter is a tile")
    _Verifier(function).block(function.body, frozenset(values), inside=False)
    return function


class _Verifier:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.seen: set[Value] = {parameter.value for parameter in function.parameters}

    def block(self, block: Block, visible: frozenset[Value], *, inside: bool) -> None:
        """Check the ops of a block; `visible` are the values defined before it."""
        defined = set(visible)
        for argument in block.arguments:
            self.define(argument, defined, None)
        for position, op in enumerate(block.ops):
            last = position == len(block.ops) - 1
            self.require(op.opcode != "yield" or (inside and last), op, "ends no region here")
            self.op(op, frozenset(defined))
            for result in op.results:
                self.define(result, defined, op)

    def op(self, op: Op, visible: frozenset[Value]) -> None:
        """Check one op and the regions in it."""
        for position, operand in enumerate(op.operands):
            known = operand in visible
            self.require(known, op, f"operand {position} is not defined before it is used")
        unknown = sorted(set(op.attrs) - ATTRIBUTES.get(op.opcode, frozenset()))
        self.require(not unknown, op, f"has no attribute `{', '.join(unknown)}`")
        operands = tuple(operand.type for operand in op.operands)
        results = tuple(result.type for result in op.results)
        try:
            found = result_types(Signature(op.opcode, operands, op.attrs, results))
        except KernelError as error:
            raise self.error(op, error.message) from error
        self.require(found == results, op, f"has {len(results)} results, not {len(found)}")
        check = _REGIONS.get(op.opcode, _no_regions)
        check(self, op)
        for region in op.regions:
            self.block(region, visible, inside=True)

    def define(self, value: Value, defined: set[Value], op: Op | None) -> None:
        """Enter a new value."""
        if value in self.seen:
            where = self.error(op, "defines a value twice") if op else None
            raise where or KernelError(f"@{self.function.name}: an argument is defined twice")
        self.seen.add(value)
        defined.add(value)

    def region(
        self, op: Op, index: int, arguments: tuple[Type, ...], yields: tuple[Type, ...]
    ) -> None:
        """Check the arguments of a region and what it yields."""
        region = op.regions[index]
        found = tuple(argument.type for argument in region.arguments)
        self.require(found == arguments, op, f"region {index} takes {_list(found)}")
        ends = bool(region.ops) and region.ops[-1].opcode == "yield"
        self.require(ends, op, f"region {index} does not end in `yield`")
        given = tuple(operand.type for operand in region.ops[-1].operands)
        self.require(
            given == yields, op, f"region {index} yields {_list(given)} instead of {_list(yields)}"
        )

    def require(self, condition: bool, op: Op, message: str) -> None:
        """Raise about `op` unless `condition` holds."""
        if not condition:
            raise self.error(op, message)

    def error(self, op: Op, message: str) -> KernelError:
        """Return an error about `op`."""
        where = f"{op.location.file}:{op.location.line}: " if op.location else ""
        return KernelError(
            f"{where}@{self.function.name}: `{printed(self.function, op)}`: {message}"
        )


def _no_regions(v: _Verifier, op: Op) -> None:
    v.require(not op.regions, op, "has no regions")


def _for(v: _Verifier, op: Op) -> None:
    v.require(len(op.regions) == 1, op, "has one region")
    carried = tuple(operand.type for operand in op.operands[3:])
    v.region(op, 0, (op.operands[0].type, *carried), carried)


def _while(v: _Verifier, op: Op) -> None:
    v.require(len(op.regions) == 2, op, "has two regions")
    carried = tuple(operand.type for operand in op.operands)
    v.region(op, 0, carried, (Type((), bool_),))
    v.region(op, 1, carried, carried)


def _if(v: _Verifier, op: Op) -> None:
    v.require(len(op.regions) == 2, op, "has two regions")
    results = tuple(result.type for result in op.results)
    v.region(op, 0, (), results)
    v.region(op, 1, (), results)


def _combine(v: _Verifier, op: Op) -> None:
    v.require(len(op.regions) == 1, op, "has one region")
    elements = tuple(operand.type.with_shape(()) for operand in op.operands)
    v.region(op, 0, elements * 2, elements)
    for inner in op.regions[0].ops:
        v.require(inner.opcode in COMBINING, op, f"cannot combine by {inner.opcode}")
        v.require(not any(x.type.shape for x in inner.operands), op, "combines by a tile")


def _list(types: tuple[Type, ...]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"


_Check: TypeAlias = Callable[[_Verifier, Op], None]
_REGIONS: Mapping[str, _Check] = {
    "for": _for,
    "while": _while,
    "if": _if,
    "reduce_by": _combine,
    "scan": _combine,
}
