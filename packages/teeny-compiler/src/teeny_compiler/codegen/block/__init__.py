"""Blocking: functions on tiles larger than the register file become loops over register tiles.

A function in the style of a GPU, whose tiles have thousands of elements, is rewritten as a function
of the same tile IR whose tiles fit in registers: elementwise work is computed where a store, a
reduction or a product wants it, block by block, and scratch memory holds what several loops need.
"""

from __future__ import annotations

from dataclasses import replace

from teeny_triton import Builder, Target
from teeny_triton.ir import Block, Function, walk
from teeny_triton.passes import simplify

from teeny_compiler.codegen.block.facts import Facts
from teeny_compiler.codegen.block.program import Program
from teeny_compiler.codegen.block.small import is_large_op, register_elements
from teeny_compiler.codegen.block.sums import merge_sums


def block(function: Function, target: Target, lanes: int) -> Function:
    """Return the function with tiles of at most a few vectors, itself where they are so already.

    Raises:
        CompileError: an op on tiles that this pass does not know.
    """
    if not is_large(function, target, lanes):
        return function
    body = Block()
    builder = Builder(body)
    merged = replace(function, body=merge_sums(function.body))
    with builder.active():
        Program(Facts(merged), target, lanes, builder).run(merged.body)
    return replace(function, body=simplify(body))


def is_large(function: Function, target: Target, lanes: int) -> bool:
    """Whether some tile does not fit in the register file, or some product is long."""
    most = register_elements(target, lanes)
    return any(is_large_op(op, most, lanes) for op in walk(function.body))
