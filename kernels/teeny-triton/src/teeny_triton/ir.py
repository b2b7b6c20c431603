"""Tile IR: a typed SSA over blocks of values ("tiles").

A `Function` is one program of a launch grid. Its body is a `Block` of `Op`s; each op has
operands, results, attributes and, for control flow, regions (blocks with arguments). A tile has a
static shape and an element type; a scalar is a tile of shape `()`. Printed, it reads as

    func @add(%x: ptr<f32>, %n: i32) {
      %0 = program_id {axis = 0} : i32
      %1 = arange {start = 0, end = 64} : tile<64xi32>
      ...
    }

Opcodes are listed in `OPCODES`, with the number of operands and what they mean. Integers wrap;
integer division by zero gives 0. `semantics` defines every opcode exactly.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from teeny_core import DType


@dataclass(frozen=True)
class Pointer:
    """Element type of an address of `pointee` elements."""

    pointee: DType

    @property
    def element_ty(self) -> DType:
        """The pointee, by Triton's name."""
        return self.pointee

    def __or__(self, other: None) -> Any:
        """Return the annotation of a pointer that may be None: `Ptr[f32] | None`."""
        return Optional[self] if other is None else NotImplemented  # noqa: UP045

    __ror__ = __or__

    def __str__(self) -> str:
        return f"ptr<{self.pointee.name}>"


@dataclass(frozen=True)
class Type:
    """A tile type: static `shape` (empty for a scalar) of `element`s."""

    shape: tuple[int, ...]
    element: DType | Pointer

    @property
    def is_pointer(self) -> bool:
        """Whether the elements are addresses."""
        return isinstance(self.element, Pointer)

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        """Return the type of another shape and the same element."""
        return Type(shape, self.element)

    def __str__(self) -> str:
        element = str(self.element) if isinstance(self.element, Pointer) else self.element.name
        if not self.shape:
            return element
        return f"tile<{'x'.join(map(str, self.shape))}x{element}>"


@dataclass(frozen=True)
class Location:
    """Where in the source a value was made: `width` characters from `column`, counted from 0."""

    file: str
    line: int
    column: int
    width: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}:{self.width}"

    @classmethod
    def parse(cls, text: str) -> Location:
        """Read what `str` has written."""
        file, *numbers = text.rsplit(":", 3)
        return cls(file, *map(int, numbers))


@dataclass(eq=False, slots=True)
class Value:
    """One SSA value; compared by identity. `name` is a hint for the printer."""

    type: Type
    name: str = ""


@dataclass(eq=False, slots=True)
class Block:
    """A straight list of ops with block arguments; the last op of a region is `yield`."""

    arguments: tuple[Value, ...] = ()
    ops: list[Op] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Op:
    """One operation. `attrs` hold Python constants (ints, floats, strings, tuples, dtypes)."""

    opcode: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attrs: Mapping[str, Any]
    regions: tuple[Block, ...] = ()
    location: Location | None = None

    @property
    def result(self) -> Value:
        """The only result."""
        (result,) = self.results
        return result


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function: a pointer or a scalar, with the facts a launch guarantees.

    `alignment` is in bytes (pointers), `divisibility` a known divisor (integers). `noalias`
    says that no other pointer parameter reaches the same memory; `written` that the function
    stores through it.
    """

    value: Value
    name: str
    alignment: int = 0
    divisibility: int = 1
    noalias: bool = True
    written: bool = False


@dataclass(frozen=True, eq=False)
class Function:
    """A kernel: one program instance over `parameters`; `name` is a valid symbol name."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Block

    def __str__(self) -> str:
        return "\n".join(_Printer().function(self)) + "\n"

    @property
    def key(self) -> str:
        """A stable hexadecimal digest of the whole text: what the function does and may assume."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:16]


def walk(block: Block) -> Iterator[Op]:
    """Yield every op of `block` and of the regions in it, outer ops first."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)


UNARY_FLOAT = (
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "erf", "sigmoid",
    "floor", "ceil", "round", "trunc", "expm1", "log1p",
)  # fmt: skip
UNARY = ("neg", "abs", "not", *UNARY_FLOAT)
BINARY = (
    "add", "sub", "mul", "div", "floordiv", "mod", "pow", "and", "or", "xor", "shl", "shr",
    "maximum", "minimum", "maxnum", "minnum", "umulhi",
)  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ATOMICS = ("add", "and", "or", "xor", "max", "min", "xchg")
ORDERS = ("relaxed", "acquire", "release", "acq_rel")
REDUCTIONS = ("sum", "prod", "max", "min", "xor_sum", "argmax", "argmin")

# opcode -> meaning. Operands in order; attributes in braces; results after the arrow.
OPCODES: Mapping[str, str] = {
    "const": "{value} -> a scalar of the result's dtype",
    "program_id": "{axis} -> i32 scalar, index of this program",
    "num_programs": "{axis} -> i32 scalar, size of the grid",
    "arange": "{start, end} -> 1-d i32 tile start, start+1, ... end-1",
    "splat": "scalar -> tile of the result's shape",
    "expand_dims": "x {axis} -> x with an axis of extent 1",
    "broadcast": "x -> x repeated along axes of extent 1 (same rank)",
    "trans": "x {order} -> x with axes permuted",
    "reshape": "x -> the elements in row-major order, another shape",
    "join": "a, b -> a new last axis of extent 2",
    "split": "x[..., 2] -> a, b (two results)",
    "cat": "a, b {axis} -> the two along an axis",
    **dict.fromkeys(UNARY, "x -> elementwise"),
    **dict.fromkeys(
        BINARY,
        "a, b -> elementwise, equal types; integers: floordiv and mod floor; "
        "maximum and minimum propagate NaN, maxnum and minnum drop it",
    ),
    **dict.fromkeys(COMPARISONS, "a, b -> bool tile"),
    "fma": "a, b, c -> a*b+c rounded once",
    "where": "cond, a, b -> elementwise choice",
    "cast": "x -> value conversion to the result's dtype (float to int saturates, NaN to 0)",
    "bitcast": "x -> the same bits as the result's element; an address is an integer of 64 bits",
    "addptr": "pointer, integer offset in elements -> pointer",
    "load": "pointer [, mask [, other]] -> elements; masked-off lanes read nothing, "
    "and give other or else 0",
    "store": "pointer, value [, mask] -> nothing",
    "atomic_rmw": "pointer, value [, mask] {kind, sem} -> the old value, 0 where masked off; lanes "
    "follow one another; float max and min drop NaN",
    "atomic_cas": "pointer, expected, value {sem} -> the old value; stores where its bits are "
    "those of `expected`",
    "prefetch": "pointer {level: 1|2|3, write: bool} -> nothing; never faults",
    "scratch": "{size} -> pointer to `size` elements of thread-private, 64-byte-aligned memory",
    "reduce": "x {kind, axis} -> x without the axis; f16 and bf16 accumulate in f32; max and min "
    "propagate NaN; argmax and argmin give i32, the first of equals, or the first NaN",
    "reduce_by": "x... {axis} {region (a..., b...) of scalars yields combined} -> each x without "
    "the axis; elementwise and associative: back ends may group elements, but keep their order",
    "scan": "x... {axis, reverse} {region as of reduce_by} -> each x with every element combined "
    "with all before it (after it, from the last one on, in reverse)",
    "sort": "x {axis, descending, keep} -> the first `keep` elements along the axis in order: "
    "-0 before +0, NaN (as one quiet NaN) above all numbers",
    "gather": "x, index {axis} -> x at an index (i32 or i64, inside the axis) along the axis",
    "flip": "x {axis} -> x in reverse order along the axis",
    "histogram": "x[N] [, mask] -> i32, how many active elements are 0, 1, ...; others not counted",
    "dot": "a[M,K], b[K,N], acc[M,N] -> acc + a @ b; a leading axis of all three is a batch",
    "dot_words": "a, b, acc (i32, one shape) {left, right: i16, or i8|u8} -> acc + the sum of the "
    "products of the 2 or 4 small integers that lie in each word of a and b, the first lowest",
    "for": "lb, ub, step > 0 (i32 or i64), inits... {region(iv, carried...) yields carried}",
    "while": "inits... {region 0 (carried...) yields cond; region 1 (carried...) yields carried}",
    "if": "cond {region 0, region 1, each yields the results}",
    "yield": "values of the region",
    "device_assert": "cond {message, place: the printed Location} -> nothing; no program that "
    "fails it goes on",
    "breakpoint": "values... {names, function} -> nothing; an interpreter stops in a debugger",
    "device_print": "values... {prefix, hex} -> nothing; a line, see `debugging`",
}


# --- the text form; `parser.parse` reads it back ---


def printed(function: Function, op: Op) -> str:
    """Return the line of `op` in the text of `function`."""
    printer = _Printer()
    for _ in printer.function(function):  # names all values
        pass
    return next(printer.op(op, "")).removesuffix(" {")


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Printer:
    """Writes a function as lines; every value gets a name that is unique in the function."""

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.unnamed = 0

    def function(self, function: Function) -> Iterator[str]:
        parameters = ", ".join(
            self.typed(p.value, p.name) + _attributes(_facts(p)) for p in function.parameters
        )
        yield f"func @{function.name}({parameters}) {{"
        yield from self.block(function.body, "  ")
        yield "}"

    def block(self, block: Block, indent: str) -> Iterator[str]:
        for op in block.ops:
            yield from self.op(op, indent)

    def op(self, op: Op, indent: str) -> Iterator[str]:
        operands = ", ".join(self.name(operand) for operand in op.operands)
        results = ", ".join(self.name(result) for result in op.results)
        types = ", ".join(str(result.type) for result in op.results)
        text = indent + (f"{results} = " if results else "") + op.opcode
        text += (f" {operands}" if operands else "") + _attributes(op.attrs)
        text += f" : {types}" if types else ""
        for region in op.regions:
            arguments = ", ".join(self.typed(argument) for argument in region.arguments)
            yield text + (f" ({arguments})" if arguments else "") + " {"
            yield from self.block(region, indent + "  ")
            text = indent + "}"
        yield text

    def typed(self, value: Value, hint: str = "") -> str:
        return f"{self.name(value, hint)}: {value.type}"

    def name(self, value: Value, hint: str = "") -> str:
        if value not in self.names:
            self.names[value] = self.fresh(hint or value.name)
        return "%" + self.names[value]

    def fresh(self, hint: str) -> str:
        if not _NAME.fullmatch(hint):
            self.unnamed += 1
            return str(self.unnamed - 1)
        name, copy = hint, 0
        while name in self.taken:
            copy += 1
            name = f"{hint}_{copy}"
        self.taken.add(name)
        return name


def _facts(parameter: Parameter) -> dict[str, int | bool]:
    """The facts of a parameter that differ from what is assumed of any."""
    facts: dict[str, int | bool] = {}
    if parameter.alignment:
        facts["alignment"] = parameter.alignment
    if parameter.divisibility != 1:
        facts["divisibility"] = parameter.divisibility
    if not parameter.noalias:
        facts["noalias"] = False
    if parameter.written:
        facts["written"] = True
    return facts


def _attributes(attrs: Mapping[str, Any]) -> str:
    if not attrs:
        return ""
    return " {" + ", ".join(f"{name} = {_literal(attrs[name])}" for name in sorted(attrs)) + "}"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_literal, value)) + ")"
    return str(value)
