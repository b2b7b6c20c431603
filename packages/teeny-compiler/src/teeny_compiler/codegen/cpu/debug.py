"""Assertions and prints of running kernels, through the C library of the process."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_triton.ir import Op, Pointer

from teeny_compiler.codegen.builder import I32, VOID, LType, Operand, constant
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.elementwise import wide
from teeny_compiler.codegen.cpu.emitter import EmitOp, Emitter
from teeny_compiler.codegen.cpu.values import Tile

STDOUT, STDERR = 1, 2


def device_assert(e: Emitter, op: Op) -> None:
    """Emit `device_assert`: report the first failure and end the process."""
    c, b = e.c, e.c.b
    tile = e.tile(op.operands[0])
    message = f"device_assert failed: {op.attrs['message']}"
    if op.location is not None:
        message = f"{op.location.file}:{op.location.line}: {message}"
    count = op.operands[0].type.size
    failures = [
        b.binary("xor", tile.item(c, i), Operand(LType("i1"), "true")) for i in range(count)
    ]
    failed = failures[0]
    for failure in failures[1:]:
        failed = b.binary("or", failed, failure)
    bad, good = b.new_block(), b.new_block()
    b.branch(failed, bad, good)
    with b.scope(is_loop=False):
        b.place(bad)
        _print(c, STDERR, f"{message}\n", [])
        b.call("abort", VOID)
        b.block.terminator = "unreachable"
    b.place(good)


def device_print(e: Emitter, op: Op) -> None:
    """Emit `device_print`: a line for each program."""
    c = e.c
    programs = ", ".join("%lld" for _ in e.programs)
    text = f"pid ({programs}) {op.attrs['prefix'].replace('%', '%%')}"
    values = [e.programs[axis] for axis in sorted(e.programs)]
    for operand in op.operands:
        for flat in range(operand.type.size):
            form, value = _printed(c, e.tile(operand), flat)
            text += f" {form}"
            values.append(value)
    _print(c, STDOUT, f"{text}\n", values)


def _printed(c: Context, tile: Tile, flat: int) -> tuple[str, Operand]:
    """Return the format and the value of an element as C's varargs take it."""
    element, item = tile.element, tile.item(c, flat)
    if isinstance(element, Pointer):
        return "%p", item
    if element.is_float:
        return "%g", c.b.convert("fpext", wide(c, item, element), "double")
    signed = element.kind == "int"
    return "%lld" if signed else "%llu", c.b.convert("sext" if signed else "zext", item, "i64")


def _print(c: Context, descriptor: int, text: str, values: list[Operand]) -> None:
    c.b.declarations["dprintf"] = "declare i32 @dprintf(i32, ptr, ...)"
    pointer = c.b.string(text)
    arguments = [constant(I32, descriptor), pointer, *values]
    c.b.effect(f"call i32 (i32, ptr, ...) @dprintf({', '.join(map(str, arguments))})")


EMITTERS: Mapping[str, EmitOp] = {"device_assert": device_assert, "device_print": device_print}
