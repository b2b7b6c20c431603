"""What a sanitised run finds, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teeny_triton.errors import Frame, KernelError
from teeny_triton.ir import Location

Program = tuple[int, int, int]


@dataclass(frozen=True)
class Finding:
    """One defect of a kernel, where it was first met.

    Attributes:
        kind: bounds, gap, pointer, alignment, uninitialised, overflow, race, assertion or error.
        message: what happens, in words.
        location: the expression that does it, None where the kernel has no source.
        program: the index in the grid of the first program that does it.
        tensor: the argument whose memory it concerns, or scratch.
        index: the element of the tensor; one number, counted in elements, where it has none.
        lane: the index in the tile of the first lane that does it.
        hint: what may help.
        count: how many programs do it.
    """

    kind: str
    message: str
    location: Location | None
    program: Program
    tensor: str | None = None
    index: tuple[int, ...] | None = None
    lane: tuple[int, ...] = ()
    hint: str | None = None
    count: int = 1

    def __str__(self) -> str:
        frame = Frame.of(self.location) if self.location else None
        lines = [f"{frame.position}: {self.message}" if frame else self.message]
        if frame is not None and frame.text:
            lines.append(str(frame))
        where = f"program {self.program}"
        if self.lane:
            where += f", lane {self.lane[0] if len(self.lane) == 1 else self.lane}"
        if self.count > 1:
            where += f"; {self.count} programs do so"
        lines.append(f"    in {where}")
        if self.hint is not None:
            lines.append(f"    hint: {self.hint}")
        return "\n".join(lines)


class SanitizerError(KernelError):
    """Defects that a sanitised run has found, all of them in `findings` and in the message."""

    def __init__(self, kernel: str, findings: Sequence[Finding], limit: int) -> None:
        count = len(findings)
        head = f"{kernel}: {count} finding{'s' if count > 1 else ''}"
        if count == limit:
            head += ", and there may be more"
        super().__init__("\n".join([head, *(f"{finding}" for finding in findings)]))
        self.findings = tuple(findings)
