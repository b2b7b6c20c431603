"""Shadow memory: which programs have read, written and updated each element.

Programs of a grid run at the same time unless something orders them, so two of them may not touch
one element when one of the two writes it plainly. What orders them here are atomics on scalars,
which acquire and release unless their `sem` says otherwise (locks and counters are made of them):
what a program does before one comes before what another does after a later one at that address.
Each program has a vector clock of what it has acquired; see Flanagan and Freund, "FastTrack:
efficient and precise dynamic race detection", 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from teeny_triton.ir import Op
from teeny_triton.memory import Array, Region

READ, WRITE, ATOMIC = "read", "write", "atomic"
_SLOTS = {READ: 2, WRITE: 1, ATOMIC: 2}
_CONFLICTS = {READ: (WRITE, ATOMIC), WRITE: (WRITE, READ, ATOMIC), ATOMIC: (WRITE, READ)}


@dataclass(frozen=True)
class Access:
    """An op of one program, between two of its releases: `epoch` counts them."""

    program: int
    epoch: int
    op: Op


class Accesses:
    """All accesses of a run by number; 0 stands for none."""

    def __init__(self) -> None:
        self._known: dict[Access, int] = {}
        self._list: list[Access | None] = [None]
        self._table = np.zeros((2, 256), np.int64)  # program and epoch of each

    def number(self, access: Access) -> int:
        """Return the number of an access."""
        found = self._known.get(access)
        if found is None:
            found = self._known[access] = len(self._list)
            self._list.append(access)
            if found >= self._table.shape[1]:
                self._table = np.concatenate([self._table, np.zeros_like(self._table)], axis=1)
            self._table[:, found] = access.program, access.epoch
        return found

    def __getitem__(self, number: int) -> Access:
        access = self._list[number]
        assert access is not None
        return access

    def programs(self, numbers: Array | int) -> Array:
        """Return the programs of accesses."""
        return np.asarray(self._table[0, numbers])

    def unordered(self, numbers: Array, clock: Clock) -> Array:
        """Tell which accesses are of another program, and not known to come before it."""
        programs, epochs = self._table[0, numbers], self._table[1, numbers]
        foreign = (numbers > 0) & (programs != clock.program)
        return np.asarray(foreign & (epochs > clock.seen(programs)))


class Clock:
    """The time of one program: its epoch, and those of the others up to which it has acquired."""

    def __init__(self, program: int, programs: int) -> None:
        self.program = program
        self.epoch = 1
        self._programs = programs
        self._seen: Array | None = None

    def seen(self, programs: Array) -> Array | int:
        """Return the epochs of other programs that come before this one's next op."""
        return 0 if self._seen is None else self._seen[programs]

    def meet(self, released: dict[int, Array], address: int, order: str) -> None:
        """Acquire and release at an address, as far as the memory order says."""
        if self._seen is None:
            self._seen = np.zeros(self._programs, np.int64)
        if address in released and order in ("acquire", "acq_rel"):
            np.maximum(self._seen, released[address], out=self._seen)
        if order in ("release", "acq_rel"):
            self._seen[self.program] = self.epoch
            before = released.get(address, self._seen)
            released[address] = np.maximum(self._seen, before)
            self.epoch += 1


class Block:
    """The shadow of arrays that overlap: the last accesses of each kind to each granule."""

    def __init__(self, start: int, size: int, granule: int) -> None:
        self.start = start
        self.granule = granule
        self._count = -(-size // granule)
        self._last: dict[str, list[Array]] = {}

    def touch(
        self, kind: str, places: Array, access: Access, accesses: Accesses, clock: Clock
    ) -> tuple[int, Access] | None:
        """Record an access to granules; return the position in `places` of one that it races for,
        and with what.
        """
        race = None
        for other in _CONFLICTS[kind]:
            for last in self._last.get(other, ()):
                numbers = last[places]
                bad = accesses.unordered(numbers, clock)
                if race is None and bad.any():
                    lane = int(np.argmax(bad))
                    race = lane, accesses[int(numbers[lane])]
        self._record(kind, places, accesses.number(access), accesses)
        return race

    def _record(self, kind: str, places: Array, number: int, accesses: Accesses) -> None:
        """Keep the latest accesses: of readers the latest two, for one may be the next writer."""
        if kind not in self._last:
            self._last[kind] = [np.zeros(self._count, np.int32) for _ in range(_SLOTS[kind])]
        latest, *earlier = self._last[kind]
        for slot in earlier:
            moved = places[accesses.programs(latest[places]) != accesses.programs(number)]
            slot[moved] = latest[moved]
        latest[places] = number


def blocks(regions: Sequence[Region]) -> dict[Region, Block]:
    """Return the shadow of each region; regions that overlap share one."""
    result: dict[Region, Block] = {}
    group: list[Region] = []
    end = 0
    for region in sorted(regions, key=physical):
        if group and physical(region) >= end:
            result.update(dict.fromkeys(group, _shadow(group, end)))
            group = []
        end = max(end, _end(region)) if group else _end(region)
        group.append(region)
    if group:
        result.update(dict.fromkeys(group, _shadow(group, end)))
    return result


def physical(region: Region) -> int:
    """Return the address in the process of the first element."""
    return int(region.elements.__array_interface__["data"][0])


def _end(region: Region) -> int:
    return physical(region) + region.elements.nbytes


def _shadow(group: Sequence[Region], end: int) -> Block:
    start = physical(group[0])
    sizes = [region.elements.itemsize for region in group]
    granule = math.gcd(*sizes, *(physical(region) - start for region in group))
    return Block(start, end - start, granule)
