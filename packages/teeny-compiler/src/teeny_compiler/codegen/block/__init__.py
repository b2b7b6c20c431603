"""Blocking: functions on tiles larger than the register file become loops over register tiles.

A function in the style of a GPU, whose tiles have thousands of elements, is rewritten as a function
of the same tile IR whose tiles fit in registers: elementwise work is computed where a store, a
reduction or a product wants it, block by block, and scratch memory holds what several loops need.
"""

from __future__ import annotations

from dataclasses import replace

from teeny_core import CompileError
from teeny_triton import Builder, Target
from teeny_triton.ir import Block, Function, Op, walk
from teeny_triton.passes import simplify

from teeny_compiler.codegen.block.facts import Facts
from teeny_compiler.codegen.block.program import Program, UnsupportedError
from teeny_compiler.codegen.block.sums import merge_sums

MOST_STEPS = 512  # instructions of a product that may be written out
MOST_UNROLLED = 20_000  # instructions of a function that may be written out


def block(function: Function, target: Target, lanes: int) -> Function:
    """Return the function with tiles of at most a few vectors, itself where they are so already.

    Functions that this pass does not know (branches that choose pointers, say) are left as they are
    too, and compiled by unrolling, within reason.

    Raises:
        CompileError: a function that this pass does not know is too large to unroll.
    """
    if not is_large(function, target, lanes):
        return function
    body = Block()
    builder = Builder(body)
    try:
        with builder.active():
            merged = replace(function, body=merge_sums(function.body))
            Program(Facts(merged), target, lanes, builder).run(merged.body)
    except UnsupportedError as error:
        if _unrolled(function, lanes) > MOST_UNROLLED:
            raise CompileError(
                f"the tiles of {function.name} are too large here: {error}",
                hint=f"use tiles of at most {target.vector_registers * lanes} elements",
            ) from error
        return function
    return replace(function, body=simplify(body))


def is_large(function: Function, target: Target, lanes: int) -> bool:
    """Whether some tile does not fit in the register file, or some product is long."""
    most = max(target.vector_registers, 8) * max(lanes, 1)
    return any(_is_large(op, most, lanes) for op in walk(function.body))


def _unrolled(function: Function, lanes: int) -> int:
    """Return about how many instructions a function has when its tiles are written out."""
    total = 0
    for op in walk(function.body):
        size = max((x.type.size for x in op.results), default=1)
        depth = op.operands[0].type.shape[1] if op.opcode == "dot" else 1
        total += -(-size // max(lanes, 1)) * depth
    return total


def _is_large(op: Op, most: int, lanes: int) -> bool:
    if op.opcode == "dot":
        (rows, depth), (_, columns) = (x.type.shape for x in op.operands[:2])
        if rows * depth * columns > MOST_STEPS * lanes:
            return True
    return any(x.type.size > most for x in (*op.operands, *op.results))
