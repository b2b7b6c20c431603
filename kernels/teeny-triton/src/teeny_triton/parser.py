"""Reads the text form of tile IR back: `parse(str(function))` is the same function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from teeny_core import DTypeError, dtype

from teeny_triton.errors import CompilationError, Frame
from teeny_triton.ir import Block, Function, Op, Parameter, Pointer, Type, Value

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    | (?P<type>tile<(?:\d+x)+(?:ptr<\w+>|\w+)>|ptr<\w+>)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>-?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|inf\b|nan\b))
    | (?P<value>%\w+)
    | (?P<symbol>@[\w.]+)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<mark>[{}(),:=])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")

_T = TypeVar("_T")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int


def parse(text: str) -> Function:
    """Return the function that `text` describes. It is not verified.

    Raises:
        CompilationError: pointing at the text that does not fit the grammar.
    """
    return _Parser(text).function()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._scan())
        self.position = 0
        self.values: dict[str, Value] = {}

    def _scan(self) -> Iterator[_Token]:
        place = 0
        while place < len(self.text):
            found = _TOKEN.match(self.text, place)
            if found is None:
                raise self.error("unexpected character", place, 1)
            kind = found.lastgroup or ""
            if kind != "space":
                yield _Token(kind, found.group(), place)
            place = found.end()
        yield _Token("end", "", len(self.text))

    # --- tokens ---

    @property
    def next(self) -> _Token:
        return self.tokens[self.position]

    def take(self, kind: str, text: str | None = None) -> str:
        token = self.next
        if token.kind != kind or (text is not None and token.text != text):
            wanted = f"`{text}`" if text else f"a {kind}"
            found = f"`{token.text}`" if token.text else "the end"
            raise self.error(f"expected {wanted}, not {found}", token.start, len(token.text))
        self.position += 1
        return token.text

    def at(self, text: str, ahead: int = 0) -> bool:
        """Whether a mark or word stands `ahead` tokens from here."""
        token = self.tokens[min(self.position + ahead, len(self.tokens) - 1)]
        return token.text == text and token.kind in ("mark", "word")

    def accept(self, text: str) -> bool:
        found = self.at(text)
        self.position += found
        return found

    def sequence(self, item: Callable[[], _T], close: str) -> tuple[_T, ...]:
        """Read items separated by commas up to the mark `close`, which is taken."""
        items: list[_T] = []
        while not self.accept(close):
            if items:
                self.take("mark", ",")
            items.append(item())
        return tuple(items)

    def error(self, reason: str, start: int, width: int) -> CompilationError:
        before = self.text[:start]
        line, column = before.count("\n"), start - (before.rfind("\n") + 1)
        lines = self.text.split("\n")
        return CompilationError(reason, [Frame("<ir>", line + 1, column, width, lines[line])])

    # --- grammar ---

    def function(self) -> Function:
        self.take("word", "func")
        name = self.take("symbol")[1:]
        self.take("mark", "(")
        parameters = self.sequence(self.parameter, ")")
        body = self.block(())
        self.take("end")
        return Function(name, parameters, body)

    def parameter(self) -> Parameter:
        value = self.argument()
        facts = self.attributes() if self.at("{") else {}
        return Parameter(value, value.name, **facts)

    def argument(self) -> Value:
        name = self.take("value")
        self.take("mark", ":")
        return self.define(name, self.type())

    def block(self, arguments: tuple[Value, ...]) -> Block:
        self.take("mark", "{")
        ops = []
        while not self.accept("}"):
            ops.append(self.op())
        return Block(arguments, ops)

    def op(self) -> Op:
        names: tuple[str, ...] = ()
        if self.next.kind == "value":
            names = self.sequence(lambda: self.take("value"), "=")
        opcode = self.take("word")
        operands = []
        while self.next.kind == "value" and not self._starts_op():
            operands.append(self.use())
            if not self.accept(","):
                break
        attrs = self.attributes() if self._starts_attributes() else {}
        types = self.types() if self.accept(":") else []
        if len(types) != len(names):
            token = self.next
            raise self.error(f"{len(names)} results need as many types", token.start, 1)
        regions = []
        while self.at("{") or self.at("("):
            arguments = self.sequence(self.argument, ")") if self.accept("(") else ()
            regions.append(self.block(arguments))
        results = tuple(self.define(n, t) for n, t in zip(names, types, strict=True))
        return Op(opcode, tuple(operands), results, attrs, tuple(regions))

    def _starts_attributes(self) -> bool:
        """Whether `{name = …` comes next, and not a region that begins with `%a = …`."""
        named = self.at("{") and self.tokens[self.position + 1].kind == "word"
        return named and self.at("=", ahead=2)

    def _starts_op(self) -> bool:
        """Whether the value that comes next is a result of the next op: `%a = ` or `%a, %b = `."""
        ahead = 1
        while self.at(",", ahead):
            ahead += 2
        return self.at("=", ahead)

    def types(self) -> list[Type]:
        types = [self.type()]
        while self.accept(","):
            types.append(self.type())
        return types

    def type(self) -> Type:
        token = self.next
        self.position += 1
        try:
            return _type(token.text)
        except DTypeError as error:
            raise self.error(f"`{token.text}` is no type", token.start, len(token.text)) from error

    def use(self) -> Value:
        token = self.next
        name = self.take("value")
        if name not in self.values:
            raise self.error(f"{name} is not defined", token.start, len(name))
        return self.values[name]

    def define(self, name: str, kind: Type) -> Value:
        if name in self.values:
            token = self.tokens[self.position - 1]
            raise self.error(f"{name} is defined twice", token.start, len(token.text))
        value = Value(kind, "" if name[1:].isdigit() else name[1:])
        self.values[name] = value
        return value

    def attributes(self) -> dict[str, Any]:
        self.take("mark", "{")
        return dict(self.sequence(self.attribute, "}"))

    def attribute(self) -> tuple[str, Any]:
        name = self.take("word")
        self.take("mark", "=")
        return name, self.literal()

    def literal(self) -> Any:
        token = self.next
        if self.accept("("):
            return self.sequence(self.literal, ")")
        if token.kind == "string":
            self.position += 1
            return _ESCAPE.sub(lambda m: {"n": "\n"}.get(m[1], m[1]), token.text[1:-1])
        if token.kind == "number":
            self.position += 1
            whole = token.text.lstrip("-").isdigit()
            return int(token.text) if whole else float(token.text)
        if token.text in ("true", "false"):
            self.position += 1
            return token.text == "true"
        raise self.error("expected a constant", token.start, len(token.text))


def _type(text: str) -> Type:
    if not text.startswith("tile<"):
        return Type((), _element(text))
    *extents, element = text[5:-1].split("x")  # no element type has an x in its name
    return Type(tuple(map(int, extents)), _element(element))


def _element(text: str) -> Any:
    return Pointer(dtype(text[4:-1])) if text.startswith("ptr<") else dtype(text)
