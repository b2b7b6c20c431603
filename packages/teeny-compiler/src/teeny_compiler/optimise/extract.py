"""Extraction: choose an e-node for each class so that the graph is cheap, shared parts once.

Tree costs, as egglog's own extraction has them, grow exponentially along residual connections and
miss what sharing makes good or bad. Instead a greedy pass keeps for each class the set of classes
that its best choice needs, and a local search on reference counts then flips choices: one, or all
that would share a class that nothing uses yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from teeny_compiler.optimise.engine import Snapshot

MARGIN = 1e-9
ROUNDS = 4


@dataclass(frozen=True)
class Choice:
    """The e-node chosen for each class, and the cost of what the roots need."""

    picks: dict[int, int]
    cost: float


@dataclass
class Problem:
    """The part of an e-graph that the roots can reach, with the cost of each e-node."""

    snapshot: Snapshot
    costs: Sequence[float]
    roots: Sequence[int]
    options: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        by_class: dict[int, list[int]] = {}
        for i, node in enumerate(self.snapshot.nodes):
            if self.costs[i] != float("inf"):
                by_class.setdefault(node.cls, []).append(i)
        stack = list(dict.fromkeys(self.roots))
        seen = set(stack)
        while stack:
            cls = stack.pop()
            self.options[cls] = by_class.get(cls, [])
            for i in self.options[cls]:
                for child in self.snapshot.nodes[i].inputs:
                    if child not in seen:
                        seen.add(child)
                        stack.append(child)

    def inputs(self, enode: int) -> tuple[int, ...]:
        """Return the operand classes of an e-node."""
        return self.snapshot.nodes[enode].inputs


def extract(problem: Problem) -> Choice:
    """Return a cheap choice."""
    picks = greedy(problem)
    return LocalSearch(problem, picks).run()


def greedy(problem: Problem) -> dict[int, int]:
    """Choose bottom-up by the cost of all classes that a choice needs, each counted once."""
    index = {cls: k for k, cls in enumerate(sorted(problem.options))}
    count = len(index)
    needs = np.zeros((count, count), bool)
    own, total = np.zeros(count), np.full(count, np.inf)
    parents: dict[int, list[int]] = {}
    for enodes in problem.options.values():
        for i in enodes:
            for child in set(problem.inputs(i)):
                parents.setdefault(child, []).append(i)
    queue = deque(i for enodes in problem.options.values() for i in enodes if not problem.inputs(i))
    queued = set(queue)
    picks: dict[int, int] = {}
    while queue:
        i = queue.popleft()
        queued.discard(i)
        cls = problem.snapshot.nodes[i].cls
        children = [index[child] for child in problem.inputs(i)]
        if any(total[child] == np.inf for child in children):
            continue
        used = np.zeros(count, bool)
        for child in children:
            used |= needs[child]
        k = index[cls]
        if used[k]:
            continue  # it would need itself
        cost = problem.costs[i] + float(own[used].sum())
        if cost < total[k] - MARGIN:
            total[k], own[k], picks[cls] = cost, problem.costs[i], i
            needs[k] = used
            needs[k, k] = True
            fresh = [p for p in parents.get(cls, ()) if p not in queued]
            queue.extend(fresh)
            queued.update(fresh)
    return picks


class LocalSearch:
    """Flips choices while that makes the shared graph cheaper, on reference counts."""

    def __init__(self, problem: Problem, picks: dict[int, int]) -> None:
        self.problem = problem
        self.picks = dict(picks)
        self.uses = dict.fromkeys(problem.options, 0)
        self.cost = 0.0
        self.components = _components(problem)
        for root in dict.fromkeys(problem.roots):
            self._use(root)

    def run(self) -> Choice:
        """Try all flips of live classes, until a round brings nothing."""
        for _ in range(ROUNDS):
            gains = [self._try(flips) for flips in self._moves()]
            if not any(gains):
                break
        return Choice(self.picks, self.cost)

    def _moves(self) -> list[list[tuple[int, int]]]:
        """Single flips of live classes, then for each unused class all flips that would use it."""
        singles = [
            (cls, i)
            for cls, enodes in self.problem.options.items()
            if self.uses[cls] and len(enodes) > 1
            for i in enodes
        ]
        sharing: dict[int, dict[int, int]] = {}
        for cls, i in singles:
            for child in self.problem.inputs(i):
                if not self.uses[child]:
                    sharing.setdefault(child, {}).setdefault(cls, i)
        joint = [list(flips.items()) for flips in sharing.values() if len(flips) > 1]
        return [[flip] for flip in singles] + joint

    def _try(self, flips: list[tuple[int, int]]) -> bool:
        """Make flips together, and take them back when that is no gain."""
        before = self.cost
        done: list[tuple[int, int]] = []
        for cls, enode in flips:
            old = self.picks[cls]
            children = self.problem.inputs(enode)
            usable = all(child in self.picks for child in children)
            if not self.uses[cls] or enode == old or not usable or self._reaches(children, cls):
                continue
            done.append((cls, old))
            self._flip(cls, enode)
        if done and self.cost < before - MARGIN:
            return True
        for cls, old in reversed(done):
            self._flip(cls, old)
        self.cost = before
        return False

    def _flip(self, cls: int, enode: int) -> None:
        old = self.picks[cls]
        for child in self.problem.inputs(enode):
            self._use(child)
        self.picks[cls] = enode
        self.cost += self.problem.costs[enode] - self.problem.costs[old]
        for child in self.problem.inputs(old):
            self._release(child)

    def _use(self, cls: int) -> None:
        stack = [cls]
        while stack:
            cls = stack.pop()
            self.uses[cls] += 1
            if self.uses[cls] == 1:
                self.cost += self.problem.costs[self.picks[cls]]
                stack += self.problem.inputs(self.picks[cls])

    def _release(self, cls: int) -> None:
        stack = [cls]
        while stack:
            cls = stack.pop()
            self.uses[cls] -= 1
            if self.uses[cls] == 0:
                self.cost -= self.problem.costs[self.picks[cls]]
                stack += self.problem.inputs(self.picks[cls])

    def _reaches(self, start: Iterable[int], goal: int) -> bool:
        """Whether the choices lead from `start` to `goal`; a cycle stays in one component."""
        component = self.components[goal]
        stack = [cls for cls in start if self.components[cls] == component]
        seen = set(stack)
        while stack:
            cls = stack.pop()
            if cls == goal:
                return True
            for child in self.problem.inputs(self.picks[cls]):
                if self.components[child] == component and child not in seen:
                    seen.add(child)
                    stack.append(child)
        return False


def ordered(problem: Problem, choice: Choice) -> list[int]:
    """Return the classes that the roots need, operands first."""
    done: dict[int, None] = {}
    stack = [(root, False) for root in reversed(list(dict.fromkeys(problem.roots)))]
    while stack:
        cls, ready = stack.pop()
        if ready:
            done[cls] = None
        elif cls not in done:
            stack.append((cls, True))
            children = problem.inputs(choice.picks[cls])
            stack += [(child, False) for child in reversed(children) if child not in done]
    return list(done)


def _components(problem: Problem) -> dict[int, int]:
    """Number the strongly connected components of the classes (Tarjan, without recursion)."""
    children = {
        cls: list(dict.fromkeys(child for i in enodes for child in problem.inputs(i)))
        for cls, enodes in problem.options.items()
    }
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    component: dict[int, int] = {}
    open_: list[int] = []
    for start in problem.options:
        if start in order:
            continue
        work = [(start, iter(children[start]))]
        order[start] = low[start] = len(order)
        open_.append(start)
        while work:
            cls, rest = work[-1]
            child = next(rest, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[cls])
                if low[cls] == order[cls]:
                    _close(cls, open_, component)
            elif child not in order:
                order[child] = low[child] = len(order)
                open_.append(child)
                work.append((child, iter(children[child])))
            elif child not in component:
                low[cls] = min(low[cls], order[child])
    return component


def _close(root: int, open_: list[int], component: dict[int, int]) -> None:
    while True:
        cls = open_.pop()
        component[cls] = root
        if cls == root:
            return
