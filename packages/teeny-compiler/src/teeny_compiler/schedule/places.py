"""Places of groups in a row in which each stands after those that it reads from.

Whether one group depends on another is asked for each merge that is tried. The answer lies between
their places, so that the rest of a large graph is not looked at. A merge moves what lies between:
what depends on the first of the two comes after both. (After Pearce and Kelly, *A dynamic
topological sort algorithm for directed acyclic graphs*, ACM JEA 11, 2006.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set


class Places:
    """The places of numbered groups; `sources` says which groups one reads from."""

    def __init__(self, numbers: Iterable[int], sources: Callable[[int], Set[int]]) -> None:
        self._row: list[int | None] = list(numbers)
        self._place = {
            number: place for place, number in enumerate(self._row) if number is not None
        }
        self._sources = sources

    def reaches(self, first: int, last: int, directly: bool = True) -> bool:
        """Whether `last` depends on `first`; `directly`: reading from it counts, too."""
        place, low = self._place, self._place[first]
        if place[last] < low:
            return False
        stack = [number for number in self._sources(last) if directly or number != first]
        seen: set[int] = set()
        while stack:
            number = stack.pop()
            if number == first:
                return True
            if place[number] > low and number not in seen:
                seen.add(number)
                stack += self._sources(number)
        return False

    def join(self, keep: int, drop: int) -> None:
        """Give two groups one place; asked before they are one, and no way leads around it."""
        start, stop = sorted((self._place[keep], self._place[drop]))
        dependent = {self._row[start]}
        before, after = [], []
        for number in self._row[start + 1 : stop]:
            if number is None:
                continue
            if dependent.isdisjoint(self._sources(number)):
                before.append(number)
            else:
                dependent.add(number)
                after.append(number)
        del self._place[drop]
        row = [*before, keep, *after]
        self._place.update((number, place) for place, number in enumerate(row, start))
        self._row[start : stop + 1] = [*row, *[None] * (stop + 1 - start - len(row))]

    def discard(self, number: int) -> None:
        """Forget a group that has become a part of another."""
        place = self._place.pop(number, None)
        if place is not None:
            self._row[place] = None
