"""Assertions and prints of running kernels, through the C library of the process.

A failed assertion ends the range of programs that a thread runs. Who launches the kernel gives it
the address of a record by `@NAME.listen`; the first failure writes there that it has happened, the
address of the text of its place and message, and the index of its program, 8 bytes each. A kernel
without a listener prints the text and ends the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from teeny_triton.ir import Op, Pointer

from teeny_compiler.codegen.builder import I32, I64, PTR, Operand, constant
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.elementwise import wide
from teeny_compiler.codegen.cpu.emitter import EmitOp, Emitter
from teeny_compiler.codegen.cpu.memory import SCRATCH
from teeny_compiler.codegen.cpu.values import Tile

STDOUT, STDERR = 1, 2
TOGETHER = 16
"""Most elements that one call prints."""

WIDEST = 24
"""Bytes that an element may take."""

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
    """Emit `device_assert` of a scalar: note the failure and leave the function."""
    b = e.c.b
    message = f"{op.attrs.get('place', '')}\n{op.attrs['message']}"
    holds = e.tile(op.operands[0]).item(e.c, 0)
    good, bad = b.new_block(), b.new_block()
    b.branch(holds, good, bad)
    with b.scope(is_loop=False):
        b.place(bad)
        b.declarations["dprintf"] = DPRINTF
        programs = ", ".join(f"{e.programs[axis]}" for axis in sorted(e.programs))
        b.effect(f"call void @assertion.fail({b.string(message)}, {programs})")
        b.block.terminator = "ret void"
    b.place(good)


def device_print(e: Emitter, op: Op) -> None:
    """Emit `device_print`: one write of a line for each program."""
    c, b = e.c, e.c.b
    b.declarations["dprintf"] = DPRINTF
    prefix = op.attrs["prefix"].replace("%", "%%")
    head = f"pid ({', '.join('%lld' for _ in e.programs)}) {prefix}"
    programs = [e.programs[axis] for axis in sorted(e.programs)]
    printed = _bits if op.attrs.get("hex", False) else _printed
    elements = [(operand, i) for operand in op.operands for i in range(operand.type.size)]
    if len(elements) <= TOGETHER:
        forms, values = _joined(printed(c, e.tile(operand), i) for operand, i in elements)
        _call(c, "dprintf", [constant(I32, STDOUT)], f"{head}{forms}\n", [*programs, *values])
        return
    size = len(prefix.encode()) + WIDEST * (len(elements) + 4)
    line = _Line(c, b.offset(SCRATCH, "i8", e.reserve(op, size)), size)
    line.append(head, programs)
    for start in range(0, len(elements), TOGETHER):
        some = elements[start : start + TOGETHER]
        line.append(*_joined(printed(c, e.tile(operand), i) for operand, i in some))
        following = b.new_block()  # LLVM takes the square of the length of a block
        b.jump(following)
        b.place(following)
    length = b.convert("trunc", line.length, "i32")
    _call(c, "dprintf", [constant(I32, STDOUT)], "%.*s\n", [length, line.start])


class _Line:
    """A line of text that is put together in memory."""

    def __init__(self, c: Context, start: Operand, size: int) -> None:
        self.start = start
        self.length = constant(I64, 0)
        self._c = c
        self._size = constant(I64, size)
        c.b.declarations["snprintf"] = "declare i32 @snprintf(ptr, i64, ptr, ...)"

    def append(self, text: str, values: list[Operand]) -> None:
        """Write more of the line."""
        b = self._c.b
        place = b.ordered(PTR, f"getelementptr i8, {self.start}, {self.length}")
        left = b.binary("sub", self._size, self.length)
        written = _call(self._c, "snprintf", [place, left], text, values)
        self.length = b.binary("add", self.length, b.convert("sext", written, "i64"))


def _joined(parts: Iterable[tuple[str, Operand]]) -> tuple[str, list[Operand]]:
    found = list(parts)
    return "".join(f" {form}" for form, _ in found), [value for _, value in found]


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


def _call(
    c: Context, function: str, before: list[Operand], text: str, values: list[Operand]
) -> Operand:
    """Call a function of the printf family."""
    kinds = ", ".join(str(operand.type) for operand in before)
    arguments = ", ".join(map(str, [*before, c.b.string(text), *values]))
    return c.b.ordered(I32, f"call i32 ({kinds}, ptr, ...) @{function}({arguments})")


EMITTERS: Mapping[str, EmitOp] = {"device_assert": device_assert, "device_print": device_print}
