"""Tasks: the groups in the order in which they run, and the storage that each value gets.

An update writes its parameter's own buffer as soon as the new value is computed, when everything
else that reads the old value can run before; otherwise the new value waits in the arena and is
copied at the end. The caller's outputs are written where the caller wants them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from teeny_core import DType, Shape, numel

from teeny_compiler.nest.estimate import estimate
from teeny_compiler.nest.group import Group
from teeny_compiler.nest.moves import template_bases
from teeny_compiler.nest.read import Storages
from teeny_compiler.schedule.fuse import Fusion, group_reads
from teeny_compiler.schedule.order import Work, ordered

Kind = Literal["input", "parameter", "output", "prepared", "constant", "arena"]


@dataclass(frozen=True)
class Storage:
    """Memory for one value."""

    name: str
    kind: Kind
    shape: Shape
    dtype: DType
    data: bytes = b""


@dataclass(frozen=True)
class Task:
    """A group that runs, where its stored roots go, and for a copy the storage it reads.

    It runs `once`, before the first run, when it computes fixed values only.
    """

    group: Group
    targets: dict[int, tuple[int, ...]] = field(default_factory=dict)
    source: int | None = None
    once: bool = False


@dataclass(frozen=True)
class Plan:
    """Tasks in order over storages; `home` names the storage from which a node is read."""

    fusion: Fusion
    storages: tuple[Storage, ...]
    home: dict[int, int]
    tasks: tuple[Task, ...]
    outputs: tuple[int, ...]

    def places(self, task: Task) -> Storages:
        """Return where a task reads and writes."""

        def home(node: int) -> int | None:
            return self.home.get(node) if task.source is None else task.source

        return Storages(home, lambda node: task.targets.get(node, ()))


def plan_tasks(fusion: Fusion) -> Plan:
    """Give every value its storage, and order the groups."""
    planner = _Planner(fusion)
    planner.place_leaves()
    planner.place_outputs()
    planner.place_updates()
    planner.place_rest()
    return planner.finish()


def reads_in_place(fusion: Fusion, group: Group, operand: int, result: int) -> bool:
    """Whether a group reads a value only at the place where it writes a result of its own."""
    template = group.template
    if template is not None and operand in template_bases(fusion.graph, template):
        return False
    if operand in group_reads(fusion.graph, fusion.roots, Group(group.made, group.domain)):
        return False
    nest = fusion.nest(group)
    (view,) = (s.view for s in nest.stores if nest.operands[s.operand] == result)
    reads = (i for i in nest.instructions if i.operand >= 0 and nest.operands[i.operand] == operand)
    return all(i.op == "load" and i.view == view for i in reads)


class _Planner:
    def __init__(self, fusion: Fusion) -> None:
        self.graph = fusion.graph
        self.fusion = fusion
        self.storages: list[Storage] = []
        self.home: dict[int, int] = {}
        self.groups = list(fusion.groups)
        self.targets: dict[int, dict[int, tuple[int, ...]]] = {}
        self.owner = {
            node: number for number, group in enumerate(self.groups) for node in group.stored
        }
        self.reads = [group_reads(self.graph, fusion.roots, group) for group in self.groups]
        self.after: list[set[int]] = [
            {self.owner[node] for node in reads if node in self.owner} - {number}
            for number, reads in enumerate(self.reads)
        ]
        self.outputs: dict[int, int] = {}
        self.sources: dict[int, int | None] = {}
        self.once: frozenset[int] = frozenset()

    # --- storage -----------------------------------------------------------------------------

    def storage(self, name: str, kind: Kind, node: int, data: bytes = b"") -> int:
        """Make a storage for a node's value."""
        type_ = self.graph.nodes[node].type
        self.storages.append(Storage(name, kind, type_.shape, type_.dtype, data))
        return len(self.storages) - 1

    def place_leaves(self) -> None:
        """Inputs and parameters lie in the caller's buffers, literal arrays in constants."""
        for number in self.graph.inputs:
            self.home[number] = self.storage(self._name(number), "input", number)
        for number in self.graph.parameters:
            self.home[number] = self.storage(self._name(number), "parameter", number)
        for number, node in enumerate(self.graph.nodes):
            if node.op == "array":
                data = node.attrs["data"].array.tobytes()
                self.home[number] = self.storage(f"array{number}", "constant", number, data)

    def _name(self, number: int) -> str:
        return str(self.graph.nodes[number].attrs["name"])

    def place_outputs(self) -> None:
        """Values that the caller asks for are written to the caller's memory."""
        for place, node in enumerate(self.graph.outputs):
            if node in self.outputs:
                continue
            self.outputs[node] = self.storage(f"output{place}", "output", node)
            self.write(node, self.outputs[node])

    def place_updates(self) -> None:
        """New values of parameters are written in place where nothing needs the old ones later."""
        changed = {parameter for parameter, value in self.graph.updates if value != parameter}
        late: list[tuple[int, int | None, int]] = []  # value, where it lies, where to
        for parameter, value in self.graph.updates:
            if value in changed and value != parameter:  # its own update may come first
                old = self.storage(f"old{value}", "arena", value)
                self.copy(value, old)
                late.append((value, old, self.home[parameter]))
        for parameter, value in self.graph.updates:
            if parameter not in changed or value in changed:
                continue
            if not self.write_in_place(parameter, value):
                late.append((value, None, self.home[parameter]))
        for value, source, storage in late:
            self.copy(value, storage, source=source, after_all=True)

    def place_rest(self) -> None:
        """Everything else that is stored lies in the arena, or is kept from run to run."""
        self.once = self.find_once()
        for node, number in self.owner.items():
            if node not in self.home:
                kind: Kind = "prepared" if number in self.once else "arena"
                self.write(node, self.storage(f"v{node}", kind, node))

    def find_once(self) -> frozenset[int]:
        """Return the groups of fixed values that the caller does not ask for."""
        once: set[int] = set()
        for number, group in enumerate(self.groups):
            fixed = group.members <= self.fusion.roots.fixed and not group.copy
            if fixed and number not in self.targets and self.after[number] <= once:
                once.add(number)
        return frozenset(once)

    # --- writing -----------------------------------------------------------------------------

    def write(self, node: int, storage: int) -> int:
        """Let the group that computes a node (or a copy, for a leaf) write it to a storage."""
        if node not in self.owner:
            return self.copy(node, storage)
        number = self.owner[node]
        found = self.targets.setdefault(number, {})
        found[node] = (*found.get(node, ()), storage)
        self.home.setdefault(node, storage)
        return number

    def copy(
        self, node: int, storage: int, *, source: int | None = None, after_all: bool = False
    ) -> int:
        """Add a group that copies a node, from where it lies or `source`, to a storage."""
        shape = self.graph.nodes[node].shape
        self.groups.append(Group((node,), shape, stored=frozenset({node}), copy=True))
        number = len(self.groups) - 1
        self.targets[number] = {node: (storage,)}
        self.sources[number] = source
        self.reads.append(frozenset({node} if source is None else ()))
        before = set(range(number)) if after_all else set()
        self.after.append(before | ({self.owner[node]} if node in self.owner else set()))
        return number

    def write_in_place(self, parameter: int, value: int) -> bool:
        """Try to let a parameter's new value be written over the old one as it is computed."""
        storage = self.home[parameter]
        if value not in self.owner:
            return False
        number = self.owner[value]
        others = [k for k, reads in enumerate(self.reads) if parameter in reads and k != number]
        if any(self.depends(k, number) for k in others):
            return False
        if parameter in self.reads[number] and not reads_in_place(
            self.fusion, self.groups[number], parameter, value
        ):
            return False
        self.after[number] |= set(others)
        self.write(value, storage)
        return True

    def depends(self, number: int, other: int) -> bool:
        """Whether a group runs after another in any case."""
        stack: list[int] = [number]
        seen: set[int] = set()
        while stack:
            k = stack.pop()
            if k == other:
                return True
            if k not in seen:
                seen.add(k)
                stack += self.after[k]
        return False

    # --- order -------------------------------------------------------------------------------

    def finish(self) -> Plan:
        """Order the tasks and return the plan."""
        works = [self._work(number) for number in range(len(self.groups))]
        order = ordered(works, [estimate(numel(s.shape)) * s.dtype.itemsize for s in self.storages])
        tasks = tuple(
            Task(self.groups[k], self.targets.get(k, {}), self.sources.get(k), k in self.once)
            for k in order
        )
        outputs = tuple(self.outputs[node] for node in self.graph.outputs)
        return Plan(self.fusion, tuple(self.storages), self.home, tasks, outputs)

    def _work(self, number: int) -> Work:
        """Return what the order of tasks depends on."""
        source = self.sources.get(number)
        read = {self.home[i] for i in self.reads[number] if i in self.home}
        written = {s for targets in self.targets.get(number, {}).values() for s in targets}
        return Work(
            frozenset(self.after[number]),
            self._in_arena(read if source is None else {source}),
            self._in_arena(written),
        )

    def _in_arena(self, storages: set[int]) -> frozenset[int]:
        return frozenset(s for s in storages if self.storages[s].kind == "arena")
