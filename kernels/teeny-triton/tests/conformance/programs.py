"""Random kernels: programs over tiles, made of a list of numbers.

Values are whole numbers that stay small, so that floats are exact however sums are grouped, and
compiled code must leave bit for bit what the interpreter leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import teeny_triton.language as tl
from teeny_core import DType, i32

Step = tuple[int, int, int, int]
"""What to do, with which two values, and how."""

LARGEST = 8


@dataclass(frozen=True)
class Plan:
    """A kernel over matrices of [rows, columns]."""

    rows: int
    columns: int
    dtype: DType
    steps: tuple[Step, ...]


class Machine:
    """Runs a plan, while a kernel is built: `values` are the tiles so far."""

    def __init__(self, plan: Plan, inputs: Sequence[Any]) -> None:
        self.plan = plan
        row = tl.arange(0, plan.rows)[:, None]
        column = tl.arange(0, plan.columns)[None, :]
        self.index = row * plan.columns + column
        self.inputs = inputs
        program = tl.program_id(0)
        self.values = [self.small(tl.load(x + self.index) + program.to(plan.dtype)) for x in inputs]
        self.values += [self.small(row + 0 * program), self.small(column - row)]

    def small(self, x: Any) -> Any:
        """Bring numbers back into range and type."""
        wide = x.to(i32) if x.dtype.is_bool else x
        return tl.clamp(wide, -LARGEST, LARGEST).to(self.plan.dtype)

    def pick(self, number: int) -> Any:
        """A value of any shape."""
        return self.values[number % len(self.values)]

    def matrix(self, number: int) -> Any:
        """A value as [rows, columns]."""
        return self.pick(number).broadcast_to(self.plan.rows, self.plan.columns)

    def run(self) -> list[Any]:
        """Take all steps; return the last values, each as a matrix."""
        for what, first, second, how in self.plan.steps:
            step = STEPS[what % len(STEPS)]
            self.values.append(self.small(step(self, first, second, how)))
        return [self.matrix(-number) for number in (1, 2, 3)]

    def elementwise(self, first: int, second: int, how: int) -> Any:
        a, b = self.pick(first), self.pick(second)
        functions: tuple[Callable[..., Any], ...] = (
            tl.add, tl.sub, tl.mul, tl.maximum, tl.minimum,
            lambda a, b: abs(a) - b,
            lambda a, b: tl.where(a < b, a, b + 1),
            lambda a, b: (a == b) | (a > 2),
        )  # fmt: skip
        return functions[how % len(functions)](a, b)

    def reduction(self, first: int, second: int, how: int) -> Any:
        kinds = (tl.sum, tl.max, tl.min, tl.argmax, tl.argmin)
        return kinds[second % len(kinds)](self.matrix(first), how % 2, keep_dims=True)

    def reduction_by(self, first: int, second: int, how: int) -> Any:
        x, y = self.matrix(first), self.matrix(second)

        def later(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
            keep = a >= c
            return tl.where(keep, a, c), tl.where(keep, b, d)

        found = tl.reduce((x, y), how % 2, later, keep_dims=True)
        return found[0] - found[1]

    def scan(self, first: int, second: int, how: int) -> Any:
        x, axis = self.matrix(first), how % 2
        if second % 2:
            return tl.cumsum(x, axis, reverse=how % 3 == 0)
        return tl.associative_scan(x, axis, tl.maximum, reverse=how % 3 == 0)

    def order(self, first: int, second: int, how: int) -> Any:
        x, axis = self.matrix(first), how % 2
        if second % 3 == 0:
            return tl.sort(x, axis, descending=how % 3 == 0)
        if second % 3 == 1:
            return tl.flip(x, axis)
        index = abs(self.matrix(second)).to(i32) % x.shape[axis]
        return tl.gather(x, index, axis)

    def product(self, first: int, second: int, how: int) -> Any:
        x, y = (self.matrix(number).to(tl.f32) for number in (first, second))
        if how % 2:
            return tl.sum(tl.dot(x, y.T), axis=1, keep_dims=True)
        return tl.dot(tl.dot(x, y.T), self.small(y + 1).to(tl.f32))

    def loop(self, first: int, second: int, how: int) -> Any:
        start, other = self.matrix(first), self.pick(second)

        def body(i: Any, x: Any) -> Any:
            return self.small(x + other * (i % 2).to(other.dtype) - 1)

        end = tl.program_id(0) + how % 4 if second % 2 else how % 4
        return tl.for_(0, end, 1, (start,), body)[0]

    def branch(self, first: int, second: int, how: int) -> Any:
        a, b = self.matrix(first), self.matrix(second)
        test = tl.program_id(0) == how % 2 if how % 3 else tl.max(a, None) > tl.min(b, None) + 4
        return tl.if_(test, lambda: self.small(a - b), lambda: tl.flip(b, how % 2))[0]

    def memory(self, first: int, second: int, how: int) -> Any:
        place = self.inputs[first % len(self.inputs)] + self.index
        limit = self.plan.rows * self.plan.columns - second % 20
        inside = self.index < limit
        if how % 2:
            inside = inside & (self.matrix(second) > 0)
        return tl.load(place, mask=inside, other=3)

    def turned(self, first: int, second: int, how: int) -> Any:
        """Write to memory of the program's own, read it back along the other axis."""
        x = self.matrix(first)
        held = tl.scratch(x.numel, x.dtype)
        tl.store(held + self.index, x)
        columns, rows = self.plan.columns, self.plan.rows
        down, across = tl.arange(0, columns)[:, None], tl.arange(0, rows)[None, :]
        back = tl.load(held + across * columns + down)
        if how % 2:
            return back.trans() + self.pick(second)
        return back.reshape(rows, columns)


STEPS: tuple[Callable[..., Any], ...] = (
    Machine.elementwise,
    Machine.elementwise,
    Machine.reduction,
    Machine.reduction_by,
    Machine.scan,
    Machine.order,
    Machine.product,
    Machine.loop,
    Machine.branch,
    Machine.memory,
    Machine.turned,
)
