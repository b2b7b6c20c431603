"""Assertions and prints of running kernels, through the C library of the process.

A failed assertion ends the range of programs that a thread runs. Who launches the kernel gives it
the address of a record by `@NAME.listen`; the first failure writes there that it has happened, the
address of the text of its place and message, and the index of its program, 8 bytes each. A kernel
without a listener prints the text and ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping

from teeny_triton.ir import Op, Pointer

from teeny_compiler.codegen.builder import I32, LType, Operand, constant
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.elementwise import wide
from teeny_compiler.codegen.cpu.emitter import EmitOp, Emitter
from teeny_compiler.codegen.cpu.values import Tile

STDOUT, STDERR = 1, 2
DPRINTF = "declare i32 @dprintf(i32, ptr, ...)"
_ABORT = "device_assert failed: %s\n"


def listener(name: str) -> str:
    """Return the functions that a module with assertions has besides its kernel."""
    text = "".join(f"\\{byte:02X}" for byte in _ABORT.encode() + b"\0")
    return f"""
@assertion.record = internal global ptr null
@assertion.text = private unnamed_addr constant [{len(_ABORT) + 1} x i8] c"{text}"
declare void @abort()

define void @{name}.listen(ptr %record) nounwind {{
  store ptr %record, ptr @assertion.record
  ret void
}}

define internal void @assertion.fail(ptr %text, i64 %x, i64 %y, i64 %z) nounwind noinline {{
  %record = load ptr, ptr @assertion.record
  %alone = icmp eq ptr %record, null
  br i1 %alone, label %die, label %claim
die:
  call i32 (i32, ptr, ...) @dprintf(i32 {STDERR}, ptr @assertion.text, ptr %text)
  call void @abort()
  unreachable
claim:
  %pair = cmpxchg ptr %record, i64 0, i64 1 seq_cst seq_cst
  %first = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %first, label %write, label %done
write:
  %text.slot = getelementptr i64, ptr %record, i64 1
  store ptr %text, ptr %text.slot
  %x.slot = getelementptr i64, ptr %record, i64 2
  store i64 %x, ptr %x.slot
  %y.slot = getelementptr i64, ptr %record, i64 3
  store i64 %y, ptr %y.slot
  %z.slot = getelementptr i64, ptr %record, i64 4
  store i64 %z, ptr %z.slot
  br label %done
done:
  ret void
}}
"""


def device_assert(e: Emitter, op: Op) -> None:
    """Emit `device_assert`: note the failure and leave the function."""
    c, b = e.c, e.c.b
    tile = e.tile(op.operands[0])
    message = f"{op.attrs.get('place', '')}\n{op.attrs['message']}"
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
        b.declarations["dprintf"] = DPRINTF
        programs = ", ".join(f"{e.programs[axis]}" for axis in sorted(e.programs))
        b.effect(f"call void @assertion.fail({b.string(message)}, {programs})")
        b.block.terminator = "ret void"
    b.place(good)


def device_print(e: Emitter, op: Op) -> None:
    """Emit `device_print`: a line for each program."""
    c = e.c
    programs = ", ".join("%lld" for _ in e.programs)
    text = f"pid ({programs}) {op.attrs['prefix'].replace('%', '%%')}"
    values = [e.programs[axis] for axis in sorted(e.programs)]
    printed = _bits if op.attrs.get("hex", False) else _printed
    for operand in op.operands:
        for flat in range(operand.type.size):
            form, value = printed(c, e.tile(operand), flat)
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


def _bits(c: Context, tile: Tile, flat: int) -> tuple[str, Operand]:
    """Return the format and the bits of an element as C's varargs take it."""
    element, item = tile.element, tile.item(c, flat)
    if isinstance(element, Pointer):
        return "0x%016llx", c.b.convert("ptrtoint", item, "i64")
    size = 8 if element.is_bool else element.bits
    if element.is_float:
        item = c.b.convert("bitcast", item, f"i{size}")
    whole = item if size == 64 else c.b.convert("zext", item, "i64")
    return f"0x%0{size // 4}llx", whole


def _print(c: Context, descriptor: int, text: str, values: list[Operand]) -> None:
    c.b.declarations["dprintf"] = DPRINTF
    pointer = c.b.string(text)
    arguments = [constant(I32, descriptor), pointer, *values]
    c.b.effect(f"call i32 (i32, ptr, ...) @dprintf({', '.join(map(str, arguments))})")


EMITTERS: Mapping[str, EmitOp] = {"device_assert": device_assert, "device_print": device_print}
