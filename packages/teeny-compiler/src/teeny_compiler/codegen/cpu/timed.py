"""A program that writes down when each of its launches, and each thread's piece of it, ran.

    void @teeny_record(ptr record)

`record` points to words: 0 the number of events, which the caller sets to 0, 1 the number that
there is room for, then the events, of four words: the step, the thread (0 for the whole launch),
the start and the end, both in nanoseconds of the system's monotonic clock. Events without room
are counted only. Two calls must not run at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from teeny_triton.ir import Function
from teeny_triton.target import Target

from teeny_compiler.codegen.cpu.program import Body, Kernel, emit_program
from teeny_compiler.pool import system_constants
from teeny_compiler.profile import EVENT_WORDS, HEAD_WORDS
from teeny_compiler.schedule.plan import Schedule, Step

PRELUDE = """\
@record = internal global ptr null
declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()

define void @teeny_record(ptr %record) nounwind {{
  store ptr %record, ptr @record
  ret void
}}

define internal i64 @now() nounwind {{
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 {clock}, ptr %time)
  %rest.p = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time
  %rest = load i64, ptr %rest.p
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}

define internal void @note(i64 %step, i64 %thread, i64 %start) nounwind {{
entry:
  %end = call i64 @now()
  %record = load ptr, ptr @record
  %index = atomicrmw add ptr %record, i64 1 monotonic
  %capacity.p = getelementptr i64, ptr %record, i64 1
  %capacity = load i64, ptr %capacity.p
  %room = icmp ult i64 %index, %capacity
  br i1 %room, label %write, label %exit

write:
  %words = mul i64 %index, {event}
  %place = add i64 %words, {head}
  %step.p = getelementptr i64, ptr %record, i64 %place
  %thread.p = getelementptr i64, ptr %step.p, i64 1
  %start.p = getelementptr i64, ptr %step.p, i64 2
  %end.p = getelementptr i64, ptr %step.p, i64 3
  store i64 %step, ptr %step.p
  store i64 %thread, ptr %thread.p
  store i64 %start, ptr %start.p
  store i64 %end, ptr %end.p
  br label %exit

exit:
  ret void
}}
"""

PIECE = """\
define internal void @piece.{number}(ptr %args, i64 %low, i64 %high, ptr %scratch) nounwind {{
  %start = call i64 @now()
  call void @{symbol}(ptr %args, i64 %low, i64 %high, ptr %scratch)
  %thread = call i64 @pthread_self()
  call void @note(i64 {number}, i64 %thread, i64 %start)
  ret void
}}
"""


def emit_timed(schedule: Schedule, kernels: Mapping[Function, Kernel], target: Target) -> str:
    """Return the LLVM module of `schedule`, as `emit_program` does, that takes its times.

    Raises:
        CompileError: the target's operating system has no clock that we know of.
    """
    clock, _ = system_constants(target)
    prelude = PRELUDE.format(clock=clock, head=HEAD_WORDS, event=EVENT_WORDS)
    return "\n".join((emit_program(schedule, kernels, target, TimedBody), prelude))


@dataclass
class TimedBody(Body):
    """Emits steps between two looks at the clock, which call kernels through `@piece.STEP`."""

    pieces: list[str] = field(default_factory=list)

    def emit(self, name: str, steps: Sequence[Step]) -> str:
        """Return the text of the function, and of the pieces that it calls."""
        body = super().emit(name, steps)
        return "\n".join((*self.pieces, body))

    def step(self, step: Step) -> None:
        """Emit a step."""
        number = len(self.pieces)
        start = self.value("call i64 @now()")
        super().step(step)
        self.line(f"call void @note(i64 {number}, i64 0, i64 {start})")
        kernel = self.kernels[step.function]
        self.pieces.append(PIECE.format(number=number, symbol=kernel.symbol))

    def symbol(self, step: Step) -> str:
        """Return the function that a step calls."""
        return f"piece.{len(self.pieces)}"
