"""Writing LLVM IR as text: blocks, phis, intrinsics, with common subexpressions found at once.

A pure instruction is written once for each scope, and as far out of the enclosing loops as its
operands allow. So neither redundancy elimination nor loop-invariant code motion is left to LLVM.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple


class LType(NamedTuple):
    """An LLVM first-class type: `lanes` scalars; one lane is a scalar, not a vector."""

    scalar: str
    lanes: int = 1

    def __str__(self) -> str:
        return self.scalar if self.lanes == 1 else f"<{self.lanes} x {self.scalar}>"

    def of(self, scalar: str) -> LType:
        """Return the type with as many lanes of another scalar."""
        return LType(scalar, self.lanes)

    @property
    def suffix(self) -> str:
        """The type as it is spelled in names of intrinsics, such as `v16f32`."""
        name = _SUFFIX.get(self.scalar, self.scalar)
        return name if self.lanes == 1 else f"v{self.lanes}{name}"


class Operand(NamedTuple):
    """A typed operand: a register or a constant."""

    type: LType
    text: str

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    @property
    def is_constant(self) -> bool:
        """Whether this is a literal, the same everywhere."""
        return not self.text.startswith(("%", "@"))


_SUFFIX = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "float": 32, "double": 64}
INT = {8: "i8", 16: "i16", 32: "i32", 64: "i64"}
I1, I8, I16, I32, I64, PTR = (LType(s) for s in ("i1", "i8", "i16", "i32", "i64", "ptr"))
VOID = LType("void")
TRUE, FALSE = Operand(I1, "true"), Operand(I1, "false")


def literal(scalar: str, value: float | int | bool) -> str:
    """Spell a number as a constant of an LLVM scalar type (floats as exact bit patterns)."""
    if scalar == "i1":
        return "true" if value else "false"
    if scalar in ("float", "double"):
        if scalar == "float":
            value = round_to_float(value)
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
    bits = BITS[scalar]
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def round_to_float(value: float) -> float:
    """Round to single precision; values beyond its range become infinite."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def constant(type: LType, value: float | int | bool) -> Operand:
    """Return a constant with the same number in every lane."""
    text = literal(type.scalar, value)
    return Operand(type, text if type.lanes == 1 else f"splat ({type.scalar} {text})")


def constants(scalar: str, values: Sequence[float | int | bool]) -> Operand:
    """Return a constant vector (a scalar when there is one value)."""
    if all(value == values[0] for value in values):
        return constant(LType(scalar, len(values)), values[0])
    items = ", ".join(f"{scalar} {literal(scalar, value)}" for value in values)
    return Operand(LType(scalar, len(values)), f"<{items}>")


@dataclass(eq=False, slots=True)
class Phi:
    """A phi whose incoming values may come later."""

    result: Operand
    incoming: list[tuple[Operand, str]] = field(default_factory=list)

    def __str__(self) -> str:
        edges = ", ".join(f"[{value.text}, %{label}]" for value, label in self.incoming)
        return f"  {self.result.text} = phi {self.result.type} {edges}"


@dataclass(eq=False, slots=True)
class CodeBlock:
    """A basic block under construction."""

    label: str
    phis: list[Phi] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    terminator: str = ""


@dataclass(eq=False, slots=True)
class Scope:
    """A region of control flow: where outer code can be added, and what is already computed."""

    entry: CodeBlock  # the block of the enclosing scope from which this one is entered
    is_loop: bool
    known: dict[str, Operand] = field(default_factory=dict)
    values: dict[object, object] = field(default_factory=dict)


class Builder:
    """One LLVM function body under construction."""

    def __init__(self) -> None:
        self.blocks = [CodeBlock("entry")]
        self.block = self.blocks[0]
        self.scopes = [Scope(self.block, is_loop=False)]
        self.declarations: dict[str, str] = {}
        self.constants: list[str] = []
        self._home: dict[str, int] = {}
        self._count = 0

    # -- structure

    def name(self) -> str:
        """Return a fresh register or label name, without its sigil."""
        self._count += 1
        return f"v{self._count}"

    def new_block(self) -> CodeBlock:
        """Return a fresh block that is not placed yet."""
        return CodeBlock(f"b{self.name()}")

    def place(self, block: CodeBlock) -> None:
        """Continue writing in `block`."""
        self.blocks.append(block)
        self.block = block

    def jump(self, target: CodeBlock) -> None:
        """End the block with a jump."""
        self.block.terminator = f"br label %{target.label}"

    def branch(self, condition: Operand, yes: CodeBlock, no: CodeBlock) -> None:
        """End the block with a conditional jump."""
        labels = f"label %{yes.label}, label %{no.label}"
        self.block.terminator = f"br i1 {condition.text}, {labels}"

    def phi(self, type: LType) -> Phi:
        """Add a phi to the block."""
        phi = Phi(Operand(type, f"%{self.name()}"))
        self.block.phis.append(phi)
        self._home[phi.result.text] = len(self.scopes) - 1
        return phi

    @contextmanager
    def scope(self, is_loop: bool) -> Iterator[None]:
        """Write a region that is entered from the current block."""
        self.scopes.append(Scope(self.block, is_loop))
        yield
        self.scopes.pop()

    def discard_after(self, count: int, block: CodeBlock) -> None:
        """Drop all blocks but the first `count` and go on in `block` (pure code stays there)."""
        del self.blocks[count:]
        self.block = block
        block.terminator = ""

    def home(self, operand: Operand) -> int:
        """Return the index of the outermost scope in which a register is available."""
        return self._home.get(operand.text, 0)

    def available(self, operand: Operand) -> Operand:
        """Say that a register from an inner scope may be used in this one: its code is passed."""
        self._home[operand.text] = len(self.scopes) - 1
        return operand

    def remember(self, key: object, make: Callable[[], object]) -> object:
        """Return what `make` gave for `key` earlier in this scope or an outer one."""
        for scope in reversed(self.scopes):
            if key in scope.values:
                return scope.values[key]
        made = make()
        self.scopes[-1].values[key] = made
        return made

    # -- instructions

    def parameter(self, type: LType, name: str) -> Operand:
        """Return a parameter of the function as an operand."""
        return Operand(type, f"%{name}")

    def effect(self, text: str) -> None:
        """Write an instruction without a result."""
        self.block.lines.append(f"  {text}")

    def ordered(self, type: LType, text: str) -> Operand:
        """Write an instruction that must stay in its place, such as a load."""
        result = Operand(type, f"%{self.name()}")
        self.block.lines.append(f"  {result.text} = {text}")
        self._home[result.text] = len(self.scopes) - 1
        return result

    def pure(
        self, type: LType, text: str, *operands: Operand, speculatable: bool = True
    ) -> Operand:
        """Write an instruction without side effects, once and as far out as it may go."""
        for scope in reversed(self.scopes):
            known = scope.known.get(text)
            if known is not None:
                return known
        home = len(self.scopes) - 1
        if speculatable:
            needed = max((self._home.get(operand.text, 0) for operand in operands), default=0)
            while home > needed and self.scopes[home].is_loop:
                home -= 1
        inner = home + 1 < len(self.scopes)
        block = self.scopes[home + 1].entry if inner else self.block
        result = Operand(type, f"%{self.name()}")
        block.lines.append(f"  {result.text} = {text}")
        self._home[result.text] = home
        self.scopes[home].known[text] = result
        return result

    def call(
        self, name: str, type: LType, *operands: Operand, flags: str = "", pure: bool = True
    ) -> Operand:
        """Call an intrinsic, which is declared by the way."""
        kinds = ", ".join(str(operand.type) for operand in operands)
        self.declarations[name] = f"declare {type} @{name}({kinds})"
        arguments = ", ".join(map(str, operands))
        text = f"call {flags}{' ' if flags else ''}{type} @{name}({arguments})"
        if type == VOID:
            self.effect(text)
            return Operand(VOID, "")
        return self.pure(type, text, *operands) if pure else self.ordered(type, text)

    def binary(self, opcode: str, a: Operand, b: Operand) -> Operand:
        """Write a two-operand instruction; `opcode` may carry flags."""
        safe = "div" not in opcode.partition(" ")[0][1:] and "rem" not in opcode
        speculatable = safe or opcode.startswith("f") or _nonzero_literal(b.text)
        return self.pure(a.type, f"{opcode} {a}, {b.text}", a, b, speculatable=speculatable)

    def compare(self, opcode: str, a: Operand, b: Operand) -> Operand:
        """Write a comparison such as `icmp slt`."""
        return self.pure(a.type.of("i1"), f"{opcode} {a}, {b.text}", a, b)

    def select(self, condition: Operand, a: Operand, b: Operand) -> Operand:
        """Choose `a` or `b`, lane by lane or as a whole (scalar condition)."""
        if condition.text == "true" or a == b:
            return a
        if condition.text == "false":
            return b
        return self.pure(a.type, f"select {condition}, {a}, {b}", condition, a, b)

    def convert(self, opcode: str, a: Operand, scalar: str) -> Operand:
        """Write a conversion such as `sext` or `bitcast` to lanes of `scalar`."""
        if a.type.scalar == scalar:
            return a
        type = a.type.of(scalar)
        return self.pure(type, f"{opcode} {a} to {type}", a)

    def intrinsic(self, name: str, *operands: Operand, flags: str = "") -> Operand:
        """Call an elementwise intrinsic overloaded on the type of its first operand."""
        type = operands[0].type
        return self.call(f"llvm.{name}.{type.suffix}", type, *operands, flags=flags)

    def offset(self, pointer: Operand, scalar: str, index: Operand | int) -> Operand:
        """Return the address of element `index` (of type `scalar`) from `pointer`."""
        if isinstance(index, int):
            if index == 0:
                return pointer
            index = Operand(I64, str(index))
        lanes = max(pointer.type.lanes, index.type.lanes)
        text = f"getelementptr {scalar}, {pointer}, {index}"
        return self.pure(LType("ptr", lanes), text, pointer, index)

    def string(self, text: str) -> Operand:
        """Return the address of a constant, zero-terminated string."""
        data = text.encode() + b"\0"
        name = f"@text.{zlib.crc32(data):08x}.{len(self.constants)}"
        escaped = "".join(f"\\{byte:02X}" for byte in data)
        self.constants.append(
            f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{escaped}"'
        )
        return Operand(PTR, name)

    def table(self, scalar: str, values: Sequence[float]) -> Operand:
        """Return the address of a constant array."""
        items = ", ".join(f"{scalar} {literal(scalar, value)}" for value in values)
        text = f"private unnamed_addr constant [{len(values)} x {scalar}] [{items}], align 64"
        name = f"@table.{zlib.crc32(text.encode()):08x}"
        line = f"{name} = {text}"
        if line not in self.constants:
            self.constants.append(line)
        return Operand(PTR, name)

    # -- lanes

    def splat(self, a: Operand, lanes: int) -> Operand:
        """Repeat a scalar in every lane."""
        if lanes == 1:
            return a
        type = LType(a.type.scalar, lanes)
        if a.is_constant:
            return Operand(type, a.text if a.text == "poison" else f"splat ({a})")
        first = self.pure(type, f"insertelement {type} poison, {a}, i64 0", a)
        return self.shuffle(first, None, (0,) * lanes)

    def extract(self, a: Operand, lane: int) -> Operand:
        """Return one lane as a scalar."""
        if a.type.lanes == 1:
            return a
        return self.pure(LType(a.type.scalar), f"extractelement {a}, i64 {lane}", a)

    def insert(self, a: Operand, value: Operand, lane: int) -> Operand:
        """Replace one lane."""
        if a.type.lanes == 1:
            return value
        return self.pure(a.type, f"insertelement {a}, {value}, i64 {lane}", a, value)

    def shuffle(self, a: Operand, b: Operand | None, mask: Sequence[int]) -> Operand:
        """Pick lanes of `a` followed by `b` (of the same type); -1 leaves a lane undefined."""
        lanes = a.type.lanes
        type = LType(a.type.scalar, len(mask))
        if len(mask) == lanes and all(pick in (-1, lane) for lane, pick in enumerate(mask)):
            return a
        if lanes == 1 or len(mask) == 1:
            return self._rebuild(a, b, mask)
        other = Operand(a.type, "poison") if b is None else b
        if max(mask) == 0:
            picks = "zeroinitializer"
        else:
            items = ", ".join("i32 poison" if pick < 0 else f"i32 {pick}" for pick in mask)
            picks = f"<{items}>"
        text = f"shufflevector {a}, {other}, <{len(mask)} x i32> {picks}"
        return self.pure(type, text, a, other)

    def _rebuild(self, a: Operand, b: Operand | None, mask: Sequence[int]) -> Operand:
        lanes = a.type.lanes
        result = Operand(LType(a.type.scalar, len(mask)), "poison")
        for lane, pick in enumerate(mask):
            if pick >= 0:
                source = a if pick < lanes or b is None else b
                result = self.insert(result, self.extract(source, pick % lanes), lane)
        return result

    # -- text

    def body(self) -> str:
        """Return the blocks as text."""
        lines: list[str] = []
        for block in self.blocks:
            lines.append(f"{block.label}:")
            lines.extend(map(str, block.phis))
            lines.extend(block.lines)
            lines.append(f"  {block.terminator}")
        return "\n".join(lines)


def _nonzero_literal(text: str) -> bool:
    """Whether a divisor is a constant that neither traps nor overflows."""
    inner = text.removeprefix("splat (").rstrip(")").rpartition(" ")[2]
    return inner.lstrip("-").isdigit() and int(inner) not in (0, -1)
