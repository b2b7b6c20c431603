"""The order of tasks: as the graph has them, but what gives memory back runs as soon as it can.

A task is *relieving* when no more memory is in use after it than before it, be it by what it reads
for the last time, or because a task that alone waits for its result is relieving in turn. So a
weight is updated as soon as its gradient is known, and the gradient computed as soon as that lets
go of an activation.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence, Set
from dataclasses import dataclass

CHAIN = 4
"""Tasks, each the only one that waits for the one before it, that are looked at together."""


@dataclass(frozen=True)
class Work:
    """A task to order: those that it runs after, and the storages of the arena that it touches."""

    after: frozenset[int]
    reads: frozenset[int]
    writes: frozenset[int]


def ordered(works: Sequence[Work], size: Sequence[int]) -> list[int]:
    """Return the numbers of tasks in the order in which they run.

    Args:
        works: the tasks in the order of the graph.
        size: the bytes of each storage, about.
    """
    order = _Order(works, size)
    while order.ready:
        _, number = heapq.heappop(order.ready)
        if number not in order.done:
            order.run(number)
    return order.sequence


class _Order:
    """Tasks under way. What is relieving stays so, as fewer tasks are left to read anything."""

    def __init__(self, works: Sequence[Work], size: Sequence[int]) -> None:
        self.works = works
        self.size = size
        self.waiting = [set(work.after) for work in works]
        self.users: list[list[int]] = [[] for _ in works]
        self.readers: dict[int, set[int]] = {}
        self.written: set[int] = set()
        self.done: set[int] = set()
        self.sequence: list[int] = []
        for number, work in enumerate(works):
            for other in work.after:
                self.users[other].append(number)
            for storage in work.reads:
                self.readers.setdefault(storage, set()).add(number)
        self.ready: list[tuple[int, int]] = []
        for number, waiting in enumerate(self.waiting):
            if not waiting:
                self.offer(number)

    def offer(self, number: int) -> None:
        """Note that a task can run, or that it relieves more: what relieves most comes first."""
        heapq.heappush(self.ready, (min(self.growth(number, frozenset()), 1), number))

    def growth(self, number: int, chain: Set[int]) -> int:
        """Return the bytes by which more memory is in use after a task and those that follow it.

        The tasks of `chain` are taken for done.
        """
        work, chain = self.works[number], chain | {number}
        grown = sum(self.size[s] for s in work.writes - self.written)
        grown -= sum(self.size[s] for s in work.reads if self.readers[s] <= chain)
        if len(chain) < CHAIN:
            alone = {u for s in work.writes for u in self.readers.get(s, ()) if u not in chain}
            freed = (self.growth(u, chain) for u in alone if self.waiting[u] <= chain)
            grown += min(0, min(freed, default=0))
        return grown

    def run(self, number: int) -> None:
        """Put a task next, and offer those that it concerns."""
        work = self.works[number]
        self.sequence.append(number)
        self.done.add(number)
        self.written |= work.writes
        concerned = {number}
        for storage in work.reads:
            readers = self.readers[storage]
            readers.discard(number)
            concerned |= readers if len(readers) == 1 else set()
        for user in self.users[number]:
            waiting = self.waiting[user]
            waiting.discard(number)
            concerned |= waiting if len(waiting) == 1 else {user} if not waiting else set()
        for other in concerned - {number}:
            if not self.waiting[other] and other not in self.done:
                self.offer(other)
