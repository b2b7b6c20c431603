"""Horizontal fusion: small launches that do not depend on one another become one.

A launch costs more than a small kernel does, and a kernel of few programs leaves threads idle. The
updates of a model's parameters are such kernels, one for each. They wait for the last of them; then
all run as one kernel, in whose grid each has programs of its own.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from teeny_core import Dim, i64
from teeny_triton.ir import Function, Pointer, walk
from teeny_triton.launch import ScalarArg

from teeny_compiler.lower.call import Call
from teeny_compiler.lower.combine import Combined, Part, combine
from teeny_compiler.nest.estimate import estimate

MOST_BYTES = 4 << 20
"""Traffic of a kernel above which its launch does not count."""

MOST_FLOPS = 32 << 20
"""Arithmetic of a kernel above which it has programs enough for all threads, or nearly."""

MOST_PARAMETERS = 160
"""Parameters of a combined kernel."""

MOST_OPS = 1500
"""Operations in a combined kernel, lest its compilation take long."""

NEAR, MOST_FAR_BYTES = 32, 1 << 18
"""Launches further apart are combined only with little traffic: what they read or write is kept."""

MOST_MADE_BYTES = 1 << 18
"""Memory of the arena that a launch may fill to join others before it: it is filled longer then."""

MOST_OPEN = 16
"""Combined kernels at a time that further launches may join."""


@dataclass(frozen=True)
class Launch:
    """A call, and the buffer behind each of its arguments, None for a scalar.

    `made` are the bytes of the arena that it writes, about.
    """

    call: Call
    buffers: tuple[int | None, ...]
    made: int = 0

    @property
    def writes(self) -> frozenset[int]:
        """The buffers that it writes."""
        return self._touched(written=True)

    @property
    def reads(self) -> frozenset[int]:
        """The buffers that it reads only."""
        return self._touched(written=False)

    def _touched(self, *, written: bool) -> frozenset[int]:
        pairs = zip(self.call.function.parameters, self.buffers, strict=True)
        return frozenset(b for p, b in pairs if b is not None and p.written == written)


def horizontal(launches: Sequence[Launch]) -> list[Launch]:
    """Return launches that do the same, in an order that is right, with small ones combined."""
    fuser = _Fuser(launches)
    for number in range(len(launches)):
        fuser.place(number)
    return [fuser.launch(unit) for unit in fuser.order()]


@dataclass
class _Unit:
    """Launches that become one; sets of launches are the bits of integers.

    `floats` are those in memory: kernels of others are best in vectors of another width.
    """

    members: list[int]
    floats: frozenset[str]
    parameters: int
    ops: int

    @property
    def bits(self) -> int:
        """The members as a set."""
        return sum(1 << i for i in self.members)


class _Fuser:
    """The units so far, by their first members; `before` is what each launch waits for."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = launches
        self.direct, self.before = _dependencies(launches)
        self.units: dict[int, _Unit] = {}
        self.open: deque[int] = deque(maxlen=MOST_OPEN)
        self.known: dict[Function, tuple[frozenset[str], int, int]] = {}
        self.combined: dict[tuple[Part, ...], Combined] = {}

    def place(self, number: int) -> None:
        """Put a launch into a unit that it may run with, or into one of its own."""
        call = self.launches[number].call
        unit = self.units[number] = _Unit([number], *self.facts(call.function))
        if not _is_small(call):
            return
        for first in self.open:
            if self.fits(first, number):
                self.join(first, unit)
                return
        self.open.append(number)

    def facts(self, function: Function) -> tuple[frozenset[str], int, int]:
        """Return floats in memory, number of parameters and length of a kernel."""
        if function not in self.known:
            types = (p.value.type.element for p in function.parameters)
            memory = (t.pointee for t in types if isinstance(t, Pointer))
            floats = frozenset(dtype.name for dtype in memory if dtype.is_float)
            length = sum(1 for _ in walk(function.body))
            self.known[function] = floats, len(function.parameters), length
        return self.known[function]

    def fits(self, first: int, number: int) -> bool:
        """Whether a launch and a unit are alike enough, and neither waits for the other."""
        unit, other = self.units[first], self.units[number]
        if unit.floats != other.floats or unit.ops + other.ops > MOST_OPS:
            return False
        if unit.parameters + other.parameters > MOST_PARAMETERS:
            return False
        if self.launches[number].made > MOST_MADE_BYTES:
            return False
        if number - first > NEAR and max(map(self.traffic, (first, number))) > MOST_FAR_BYTES:
            return False
        return not self.before[number] & unit.bits and not self.before[first] >> number & 1

    def traffic(self, number: int) -> int:
        """Return the bytes that a launch moves, about."""
        return estimate(self.launches[number].call.bytes)

    def join(self, first: int, other: _Unit) -> None:
        """Add a launch to a unit: what waits for one of them now waits for all."""
        unit = self.units[first]
        (number,) = other.members
        needed = self.before[first] | self.before[number]
        unit.members.append(number)
        unit.parameters += other.parameters
        unit.ops += other.ops
        del self.units[number]
        bits = unit.bits
        for i in unit.members:
            self.before[i] = needed
        for i, before in enumerate(self.before):
            if before & bits:
                self.before[i] = before | bits | needed

    def order(self) -> list[list[int]]:
        """Return the units, each after those that it waits for, else as their first launches came.

        So nothing runs early only because what comes before it waits for a unit's last launch.
        """
        unit_of = {i: first for first, unit in self.units.items() for i in unit.members}
        waiting = {
            first: {unit_of[i] for k in unit.members for i in _members(self.direct[k])} - {first}
            for first, unit in self.units.items()
        }
        users: dict[int, list[int]] = {first: [] for first in self.units}
        for first, needed in waiting.items():
            for other in needed:
                users[other].append(first)
        ready = [unit for unit, needed in waiting.items() if not needed]
        heapq.heapify(ready)
        done = []
        while ready:
            unit = heapq.heappop(ready)
            done.append(self.units[unit].members)
            for user in users[unit]:
                waiting[user].discard(unit)
                if not waiting[user]:
                    heapq.heappush(ready, user)
        return done

    def launch(self, unit: Sequence[int]) -> Launch:
        """Return the launch that does what a unit's launches do."""
        members = [self.launches[i] for i in unit]
        if len(members) == 1:
            return members[0]
        parts = tuple(Part(launch.call.function, launch.call.grid) for launch in members)
        if parts not in self.combined:
            self.combined[parts] = combine(parts)
        return _combined(members, self.combined[parts])


def _dependencies(launches: Sequence[Launch]) -> tuple[list[int], list[int]]:
    """Return for each launch those whose buffers it needs, and all that must run before it."""
    needed: list[int] = []
    before: list[int] = []
    writers: dict[int, int] = {}
    readers: dict[int, int] = {}
    for number, launch in enumerate(launches):
        direct = 0
        for buffer in launch.reads | launch.writes:
            direct |= writers.get(buffer, 0)
        for buffer in launch.writes:
            direct |= readers.get(buffer, 0)
        needed.append(direct)
        before.append(direct)
        for i in _members(direct):
            before[number] |= before[i]
        for buffer in launch.reads:
            readers[buffer] = readers.get(buffer, 0) | 1 << number
        for buffer in launch.writes:
            writers[buffer] = writers.get(buffer, 0) | 1 << number
    return needed, before


def _combined(launches: Sequence[Launch], kernel: Combined) -> Launch:
    calls = [launch.call for launch in launches]
    scalars = tuple(ScalarArg(dim, i64) for dim in kernel.scalars)
    arguments = (*(a for call in calls for a in call.arguments), *scalars)
    flops: Dim = sum((call.flops for call in calls), start=0)
    traffic: Dim = sum((call.bytes for call in calls), start=0)
    label = " | ".join(call.label for call in calls)
    buffers = (*(b for launch in launches for b in launch.buffers), *(None for _ in scalars))
    return Launch(Call(label, kernel.function, kernel.grid, arguments, flops, traffic), buffers)


def _is_small(call: Call) -> bool:
    return estimate(call.bytes) <= MOST_BYTES and estimate(call.flops) <= MOST_FLOPS


def _members(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
