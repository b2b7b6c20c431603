"""Errors of the kernel language, with the source they point at."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass

from teeny_core import errors

from teeny_triton.ir import Location

KernelError = errors.KernelError


@dataclass(frozen=True)
class Frame:
    """A stretch of source text: `column` counts from 0, `width` characters are underlined."""

    file: str
    line: int
    column: int
    width: int
    text: str

    @classmethod
    def of(cls, place: Location) -> Frame:
        """Read the line of an op's place from its file; the text is empty if there is none."""
        text = linecache.getline(place.file, place.line).rstrip("\n")
        return cls(place.file, place.line, place.column, place.width, text)

    def __str__(self) -> str:
        indent = len(self.text) - len(self.text.lstrip())
        caret = " " * (4 + self.column - indent) + "^" * max(1, self.width)
        return f"    {self.text.strip()}\n{caret}"

    @property
    def position(self) -> str:
        """`file:line:column`, the column counted from 1 as editors do."""
        return f"{self.file}:{self.line}:{self.column + 1}"


def in_program(message: str, place: Location | None, index: tuple[int, int, int]) -> str:
    """Say where in the grid and in the source something has happened."""
    if place is None:
        return f"program {index}: {message}"
    frame = Frame.of(place)
    source = f"\n{frame}" if frame.text else ""
    return f"{frame.position}: program {index}: {message}{source}"


def assertion_failed(
    message: str, place: Location | None, index: tuple[int, int, int]
) -> KernelError:
    """Return the error of a `device_assert` that fails in a program of the grid."""
    text = f"device_assert failed: {message}" if message else "device_assert failed"
    return KernelError(in_program(text, place, index))


class CompilationError(KernelError):
    """A kernel that does not compile: what is wrong, where, and through which calls.

    `frames` run from the place of the error outwards along the chain of inlined helpers.
    """

    def __init__(self, reason: str, frames: Sequence[Frame], *, hint: str | None = None) -> None:
        place, *callers = frames
        lines = [f"{place.position}: {reason}", str(place)]
        for caller in callers:
            lines += [f"inlined at {caller.position}:", str(caller)]
        super().__init__("\n".join(lines), hint=hint)
        self.reason = reason
        self.frames = tuple(frames)
