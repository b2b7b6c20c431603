"""The source text of a kernel: its AST, and places in the file for errors."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from teeny_triton.errors import Frame, KernelError
from teeny_triton.ir import Location


@dataclass(frozen=True)
class Source:
    """A function definition as written. `lines` start at `first_line` of `file`."""

    file: str
    first_line: int
    lines: tuple[str, ...]
    tree: ast.FunctionDef
    _locations: dict[ast.AST, Location] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Source:
        """Find and parse the definition of `function`.

        Raises:
            KernelError: its source is not in a file, or it is not made by `def`.
        """
        name = getattr(function, "__qualname__", repr(function))
        try:
            lines, first_line = inspect.getsourcelines(function)
            file = inspect.getsourcefile(function) or "<unknown>"
        except (OSError, TypeError) as error:
            raise KernelError(
                f"the source of {name} is not available", hint="define kernels in a file"
            ) from error
        definition = _definition(lines)
        if not isinstance(definition, ast.FunctionDef):
            raise KernelError(f"{name} is not made by `def`", hint="decorate a plain function")
        return cls(file, first_line, tuple(lines), definition)

    def frame(self, node: ast.AST) -> Frame:
        """Return the stretch of text of `node`, up to the end of its first line."""
        row, column, end = self._span(node)
        text = self.lines[row].rstrip("\n")
        return Frame(self.file, self.first_line + row, column, end - column, text)

    def location(self, node: ast.AST) -> Location:
        """Return the place of `node`, for an op that is made from it."""
        known = self._locations.get(node)
        if known is None:
            row, column, end = self._span(node)
            line = self.first_line + row
            known = Location(self.file, line, column, max(1, end - column))
            self._locations[node] = known
        return known

    def _span(self, node: ast.AST) -> tuple[int, int, int]:
        line, start = getattr(node, "lineno", 2), getattr(node, "col_offset", 0)
        row = line - 2  # see _definition
        text = self.lines[row].rstrip("\n")
        whole = getattr(node, "end_lineno", line) == line
        end = getattr(node, "end_col_offset", start) if whole else len(text.encode())
        return row, _characters(text, start), _characters(text, end)


def _definition(lines: list[str]) -> ast.stmt:
    """Parse one statement, behind a line that makes its indentation valid."""
    indented = lines[0][:1].isspace()
    try:
        tree = ast.parse(("if True:\n" if indented else "\n") + "".join(lines))
    except SyntaxError:  # a part of a statement, such as a lambda in a call
        return ast.Pass()
    (statement,) = tree.body
    return statement.body[0] if indented and isinstance(statement, ast.If) else statement


def _characters(text: str, position: int) -> int:
    """Turn a position in UTF-8 bytes, as the AST counts, into one in characters."""
    return len(text.encode()[:position].decode(errors="ignore"))
