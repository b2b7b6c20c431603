"""Errors of the kernel language, with the source they point at."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
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

    `frames` run from the place of the error outwards along the chain of inlined helpers; `related`
    are other places that have to do with it, each with what happens there.
    """

    def __init__(
        self,
        reason: str,
        frames: Sequence[Frame],
        *,
        hint: str | None = None,
        related: Sequence[tuple[str, Frame]] = (),
    ) -> None:
        place, *callers = frames
        lines = [f"{place.position}: {reason}", str(place)]
        for what, frame in related:
            lines += [f"{what} at {frame.position}:", str(frame)]
        for caller in callers:
            lines += [f"inlined at {caller.position}:", str(caller)]
        super().__init__("\n".join(lines), hint=hint)
        self.reason = reason
        self.frames = tuple(frames)


class CompileTimeAssertionFailure(CompilationError):  # noqa: N818 - Triton's name
    """A kernel whose `tl.static_assert` does not hold."""


class UnsupportedLanguageConstruct(CompilationError):  # noqa: N818 - Triton's name
    """A kernel with Python in it that is not part of the kernel language."""


class StaticAssertion(KernelError):  # noqa: N818 - becomes an error where its place is known
    """A `tl.static_assert` that does not hold."""


class Unsupported(KernelError):  # noqa: N818 - becomes an error where its place is known
    """Python that is not part of the kernel language."""


_LOCATED: Mapping[type[errors.TeenyError], type[CompilationError]] = {
    StaticAssertion: CompileTimeAssertionFailure,
    Unsupported: UnsupportedLanguageConstruct,
}


def located(error: errors.TeenyError, frames: Sequence[Frame]) -> CompilationError:
    """Return an error of the place that `frames` tell, and of the chain of calls to it."""
    kind = _LOCATED.get(type(error), CompilationError)
    return kind(error.message, frames, hint=error.hint)


class TritonError(KernelError):
    """Root of the errors of running and tuning kernels."""


class OutOfResources(TritonError):  # noqa: N818 - Triton's name
    """A kernel that needs more of something than there is; tuners pass over it."""

    def __init__(self, required: int, limit: int, name: str) -> None:
        super().__init__(
            f"out of {name}: {required} are needed, there are {limit}",
            hint="make the blocks smaller",
        )
        self.required, self.limit, self.name = required, limit, name


class PTXASError(TritonError):
    """A kernel that an assembler refuses. Nothing here raises it; kernels may name it."""


class InterpreterError(TritonError):
    """A kernel that fails in an interpreter. Nothing here raises it; kernels may name it."""


class AutotunerError(TritonError):
    """A tuner without a configuration that works."""
