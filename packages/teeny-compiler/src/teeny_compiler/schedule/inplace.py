"""Results in the memory of operands that nothing reads later.

A kernel that reads each element of a value only where it writes one of its result can write over
it. The scores of an attention become their softmax in place, a residual stream takes its next
summand, and what is returned to the caller may be made in the caller's memory from the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from teeny_core import numel
from teeny_core import shape as shapes

from teeny_compiler.nest.estimate import estimate
from teeny_compiler.schedule.fuse import group_reads
from teeny_compiler.schedule.tasks import Plan, Task, reads_in_place

LEAST_BYTES = 4096
"""Smaller values keep memory of their own, which orders their kernels less."""


def with_reuse(plan: Plan) -> Plan:
    """Let results take the memory of operands of their size that die where they are made."""
    last = _last_reads(plan)
    moved: dict[int, int] = {}

    def place(storage: int) -> int:
        while storage in moved:
            storage = moved[storage]
        return storage

    for position, task in enumerate(plan.tasks):
        if task.once or task.group.copy:
            continue
        dying = [node for node in sorted(_read(plan, task)) if last[plan.home[node]] == position]
        for node, target in _results(plan, task):
            operand = next((i for i in dying if _fits(plan, task, i, node, target)), None)
            if operand is None:
                continue
            dying.remove(operand)
            source = place(plan.home[operand])
            if plan.storages[target].kind == "arena":
                moved[target] = source
            else:
                moved[source] = target
    return _moved(plan, {storage: place(storage) for storage in moved})


def _read(plan: Plan, task: Task) -> frozenset[int]:
    """The nodes that a task reads from memory."""
    if task.source is not None:
        return frozenset()
    if task.group.copy:
        return task.group.members
    return group_reads(plan.fusion.graph, plan.fusion.roots, task.group)


def _last_reads(plan: Plan) -> dict[int, int]:
    """For each storage, the position of the last task that reads it."""
    last: dict[int, int] = {}
    for position, task in enumerate(plan.tasks):
        last.update(dict.fromkeys((plan.home[node] for node in _read(plan, task)), position))
        if task.source is not None:
            last[task.source] = position
    return last


def _results(plan: Plan, task: Task) -> Iterator[tuple[int, int]]:
    """Yield the results of a task that go to one place, not a parameter's, with the place."""
    for node, targets in task.targets.items():
        if len(targets) == 1 and plan.storages[targets[0]].kind in ("arena", "output"):
            yield node, targets[0]


def _fits(plan: Plan, task: Task, operand: int, result: int, target: int) -> bool:
    """Whether a result may lie in the memory of an operand, and is large enough for that."""
    source, new = plan.storages[plan.home[operand]], plan.storages[target]
    if source.kind != "arena" or source.dtype != new.dtype:
        return False
    size = numel(new.shape)
    if not shapes.equal(numel(source.shape), size):
        return False
    large = estimate(size) * new.dtype.itemsize >= LEAST_BYTES
    return large and reads_in_place(plan.fusion, task.group, operand, result)


def _moved(plan: Plan, place: Mapping[int, int]) -> Plan:
    """Return the plan with storages in the places of others."""

    def moved(targets: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(place.get(storage, storage) for storage in targets)

    tasks = tuple(
        replace(task, targets={node: moved(targets) for node, targets in task.targets.items()})
        for task in plan.tasks
    )
    home = {node: place.get(storage, storage) for node, storage in plan.home.items()}
    return replace(plan, home=home, tasks=tasks)
