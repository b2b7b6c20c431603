"""Fusion: roots gathered into groups, each computed by one kernel.

Every root starts as a group of its own. Then, in this order,

1. a template takes in the elementwise group that alone reads its raw result (its epilogue);
2. groups merge with those that they read from, where the merged group is still one pass over one
   index space: producers into consumers, reductions over the same axes with what follows them;
   light ones become epilogues now that they are one (the update of a weight by its gradient);
3. a template's epilogue takes in more elementwise groups that read what it computes;
4. a template makes an operand that it alone reads, where a pass over memory costs more than that;
5. groups over one index space that read the same memory merge side by side.

Whether a merge is possible is asked of the nest itself: it is read, and what cannot be expressed
is not fused. Groups form a graph without cycles throughout.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from teeny_core import CompileError, Shape
from teeny_core import shape as shapes

from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.nest.estimate import estimate, size
from teeny_compiler.nest.group import Group
from teeny_compiler.nest.moves import awaited, template_bases
from teeny_compiler.nest.nest import COSTS, REDUCTIONS, Nest
from teeny_compiler.nest.read import InexpressibleError, Storages, read_group
from teeny_compiler.nest.view import View
from teeny_compiler.schedule.places import Places
from teeny_compiler.schedule.roots import LEAVES, Roots, find_roots, is_template

MAX_OPERANDS = 24
MAX_STORES = 8
MAX_INSTRUCTIONS = 160

REPEATED = frozenset({"gather", "random"})
"""Instructions that are not done again for each program that reads an operand."""

STRIDED_RESULTS = frozenset({"matmul", "attention"})
"""Templates whose result may be written in another order of axes."""

LIGHT = 12
"""Operations of an update that is made from the gradient while that is in registers. A costlier
one, as Adam's with its root and quotients, needs more registers than a product leaves."""

Makes: TypeAlias = Callable[[int, int], bool]
"""Whether a library's kernel for a template node can make an operand, by number, itself."""

FEW_ROWS = 4
"""Rows of a product that reads its matrix once, so that what makes that is done once, too."""
MUCH_WORK = 32 * 1024
"""A group of fewer rows than the first and more elements than the second keeps its elementwise
results out: they would lose their parallelism."""


@dataclass(frozen=True)
class Fusion:
    """The groups of a graph, each after those that it reads from."""

    graph: FXGraph
    roots: Roots
    groups: tuple[Group, ...]
    nests: Mapping[Group, Nest] = field(default_factory=dict, repr=False)

    def nest(self, group: Group) -> Nest:
        """Return what a group computes, with every node in memory under its own name."""
        found = self.nests.get(group)
        return _nest(self.graph, self.roots.nodes, group) if found is None else found

    def __str__(self) -> str:
        lines = [f"fusion of {self.graph.name}"]
        for number, group in enumerate(self.groups):
            lines.append(f"  group {number}: {describe(self.graph, group)}")
        return "\n".join(lines)


def fuse(
    graph: FXGraph,
    fixed: Set[int] = frozenset(),
    makes: Makes = lambda template, operand: False,
) -> Fusion:
    """Partition the computing nodes of a graph into groups, `fixed` ones apart from others."""
    fuser = _Fuser(graph, expressible(graph, find_roots(graph, fixed)))
    fuser.first_epilogues()
    fuser.chains()
    fuser.first_epilogues(most=LIGHT)
    fuser.more_epilogues()
    fuser.prologues(makes)
    fuser.siblings()
    return Fusion(graph, fuser.roots, fuser.finish(), fuser.nests)


def describe(graph: FXGraph, group: Group) -> str:
    """Return a line that says what a group computes, over which axes, and where in the model."""
    template = [] if group.template is None else [graph.nodes[group.template].op]
    template = [*(f"{graph.nodes[i].op} into" for i in group.made), *template]
    ops = [graph.nodes[i].op for i in group.roots]
    domain = ", ".join(
        f"{extent}{'↓' if axis in group.reduced else ''}"
        for axis, extent in enumerate(group.domain)
    )
    stored = ", ".join(f"%{i}" for i in sorted(group.stored))
    members = (graph.nodes[i] for i in sorted({*group.members, *group.roots}))
    scopes = dict.fromkeys(" ".join(node.scope.split()) for node in members if node.scope)
    place = f" in {', '.join(scopes)}" if scopes else ""
    names = " + ".join((*template, *ops)).replace("into +", "into")
    return f"{names} over [{domain}] -> {stored}{place}"


class _Fuser:
    """Groups under way, numbered; `owner` says which one computes a root."""

    def __init__(self, graph: FXGraph, roots: Roots) -> None:
        self.graph = graph
        self.roots = roots
        self.groups: dict[int, Group] = {}
        self.owner: dict[int, int] = {}
        self.nests: dict[Group, Nest] = {}
        self.reads: dict[int, frozenset[int]] = {}
        self.read_by: dict[int, set[int]] = defaultdict(set)
        self.places = Places(sorted(roots.nodes), self.sources)
        for number in sorted(roots.nodes):
            self.put(number, _single(graph, number))

    # --- the graph of groups -----------------------------------------------------------------

    def put(self, number: int, group: Group | None) -> None:
        """Make a group the one of a number, or drop the number."""
        for node in self.reads.pop(number, frozenset()):
            self.read_by[node].discard(number)
        if group is None:
            del self.groups[number]
            self.places.discard(number)
            return
        self.groups[number] = group
        self.owner.update(dict.fromkeys(group.members, number))
        self.reads[number] = group_reads(self.graph, self.roots, group)
        for node in self.reads[number]:
            self.read_by[node].add(number)

    def sources(self, number: int) -> set[int]:
        """Return the groups that a group reads from."""
        owners = {self.owner[i] for i in self.reads[number] if i in self.owner}
        owners.discard(number)
        return owners

    def producers(self, number: int) -> list[int]:
        """Return the groups that a group reads from, the latest first."""
        return sorted(self.sources(number), reverse=True)

    def readers(self, nodes: Iterable[int], but: int) -> list[int]:
        """Return the groups, other than `but`, that read any of some nodes."""
        return sorted(set().union(*(self.read_by[node] for node in nodes)) - {but})

    # --- the four steps ----------------------------------------------------------------------

    def first_epilogues(self, most: int | None = None) -> None:
        """Let each template take in the one elementwise group that reads its result.

        Of at most `most` operations for each element, when that is given.
        """
        for number in sorted(self.groups):
            group = self.groups.get(number)
            if group is None or group.template is None or group.template in self.roots.forced:
                continue
            readers = self.readers((group.template,), number)
            if len(readers) == 1 and (most is None or self.is_light(readers[0], most)):
                self.take_epilogue(number, readers[0])

    def is_light(self, number: int, most: int) -> bool:
        """Whether a group takes at most some operations for each element."""
        if self.groups[number].template is not None:
            return False
        nest = self.nest(self.groups[number])
        return sum(COSTS.get(i.op, 1) for i in nest.instructions) <= most

    def more_epilogues(self) -> None:
        """Let templates compute further results from what is in their registers."""
        for number in sorted(self.groups):
            group = self.groups.get(number)
            if group is None or group.template is None or not group.roots:
                continue
            for reader in self.readers(group.roots, number):
                self.take_epilogue(number, reader)

    def take_epilogue(self, number: int, reader: int) -> bool:
        """Try to compute an elementwise group in the registers of a template."""
        group, other = self.groups[number], self.groups[reader]
        if other.reduced or other.template is not None:
            return False
        if not shapes.equal(size(group.domain), size(other.domain)):
            return False
        return self.merge(number, reader, replace(group, roots=(*group.roots, *other.roots)))

    def prologues(self, makes: Makes) -> None:
        """Let templates make operands that nothing else reads, where that pays."""
        for number in sorted(self.groups):
            group = self.groups.get(number)
            if group is None or group.template is None:
                continue
            bases = template_bases(self.graph, group.template)
            for operand, base in enumerate(bases):
                alone = bases.count(base) == 1 and self.read_by[base] == {number}
                if alone and base in self.owner and makes(group.template, operand):
                    self.take_prologue(number, self.owner[base], base)

    def take_prologue(self, number: int, producer: int, base: int) -> bool:
        """Try to make a value where a template reads it, instead of in memory."""
        group, other = self.groups[number], self.groups[producer]
        plain = other.template is None and not other.reduced and other.roots == (base,)
        if not plain or base in self.roots.forced or not self.pays(group, other):
            return False
        self.put(producer, None)
        self.put(number, replace(group, made=(*group.made, base)))
        return True

    def pays(self, group: Group, other: Group) -> bool:
        """Whether to make what `other` computes as it is read takes less than to read it.

        A value that is the same in every run is read packed, but for products of few rows, which
        are bound by what they read.
        """
        assert group.template is not None
        nest = self.nest(replace(other, stored=frozenset()))
        made = estimate(size(other.domain)) * self.graph.nodes[other.roots[0]].dtype.itemsize
        read = estimate(nest.traffic)
        work = sum(COSTS.get(i.op, 1) for i in nest.instructions)
        simple = all(i.op not in REPEATED for i in nest.instructions)
        if not simple or work > LIGHT or not 0 < read <= 2 * made:
            return False
        if other.members <= self.roots.fixed and not group.members <= self.roots.fixed:
            few = estimate(self.graph.nodes[group.template].shape[-2]) <= FEW_ROWS
            return few and 2 * read <= made
        return True

    def chains(self) -> None:
        """Merge groups with those that they read from."""
        for number in sorted(self.groups):
            if number not in self.groups or self.groups[number].template is not None:
                continue
            changed = True
            while changed:
                changed = any(
                    self.merge(producer, number, self.joined(producer, number))
                    for producer in self.producers(number)
                )

    def siblings(self) -> None:
        """Merge groups over one index space that read the same memory."""
        for source in sorted(self.read_by):
            extent = size(self.graph.nodes[source].shape)
            readers = [
                number
                for number in sorted(self.read_by[source])
                if self.groups[number].template is None
                and shapes.equal(extent, size(self.groups[number].domain))
            ]
            for first, second in itertools.combinations(readers, 2):
                if first in self.groups and second in self.groups:
                    self.merge_siblings(first, second)

    def merge_siblings(self, first: int, second: int) -> bool:
        """Try to merge two groups over one index space, none of which reads from the other."""
        if bool(self.groups[first].reduced) != bool(self.groups[second].reduced):
            return False
        if self.places.reaches(first, second) or self.places.reaches(second, first):
            return False
        return self.merge(first, second, self.joined(first, second))

    # --- merging -----------------------------------------------------------------------------

    def joined(self, first: int, second: int) -> Group | None:
        """Return the union of two groups over the index space of one of them, if there is one."""
        a, b = self.groups[first], self.groups[second]
        if a.template is not None or b.template is not None:
            return None
        wide, narrow = (a, b) if (a.reduced or not b.reduced) else (b, a)
        roots = (*a.roots, *b.roots)
        if shapes.equal(size(wide.domain), size(narrow.domain)):
            if narrow.reduced and len(narrow.domain) != len(wide.domain):
                return None
            domain = wide.domain
            if not wide.reduced and len(narrow.domain) > len(domain):
                domain = narrow.domain
            return replace(wide, roots=roots, domain=domain, rows=wide.rows | narrow.rows)
        by_rows = shapes.equal(size(wide.kept), size(narrow.domain))
        if wide.reduced and not narrow.reduced and by_rows:
            return replace(wide, roots=roots, rows=wide.rows | set(narrow.roots))
        return None

    def merge(self, first: int, second: int, merged: Group | None) -> bool:
        """Replace two groups by one, if it makes no cycle and is one pass that pays."""
        if merged is None or self.is_fixed(first) != self.is_fixed(second):
            return False
        if self.places.reaches(first, second, directly=False):
            return False
        if self.places.reaches(second, first):
            return False
        merged = replace(merged, stored=self.stored(merged, {first, second}))
        if not self.possible(merged):
            return False
        keep, drop = (first, second) if merged.template is not None else (second, first)
        self.places.join(keep, drop)
        self.put(drop, None)
        self.put(keep, merged)
        return True

    def is_fixed(self, number: int) -> bool:
        """Whether all that a group computes is the same in every run."""
        return self.groups[number].members <= self.roots.fixed

    def stored(self, group: Group, numbers: set[int]) -> frozenset[int]:
        """Return the members of a group that others read, or that must be in memory."""
        return frozenset(
            member
            for member in group.members
            if member in self.roots.forced or not self.read_by[member] <= numbers
        )

    def possible(self, group: Group) -> bool:
        """Whether a group is one pass over its domain, small enough, and parallel enough."""
        if group.template is not None and group.template in group.stored:
            return False
        if len(group.stored) > MAX_STORES or self.loses_parallelism(group):
            return False
        try:
            nest = self.nest(group)
        except InexpressibleError:
            return False
        if group.template is not None and not self.writes_in_order(group, nest):
            return False
        length = len(nest.instructions)
        return length <= MAX_INSTRUCTIONS and len(nest.operands) <= MAX_OPERANDS

    def writes_in_order(self, group: Group, nest: Nest) -> bool:
        """Whether a template can write the results of its group: row-major, or by axis."""
        assert group.template is not None
        if self.graph.nodes[group.template].op in STRIDED_RESULTS:
            return all(s.view.reaxed(nest.axes).flat_strides() is not None for s in nest.stores)
        in_order = View.contiguous(group.domain).simplified()
        return all(s.view.reaxed(nest.axes).simplified() == in_order for s in nest.stores)

    def loses_parallelism(self, group: Group) -> bool:
        """Whether large elementwise results would be computed by a few programs only."""
        large = any(root not in group.rows for root in group.stored)
        few = estimate(size(group.kept)) < FEW_ROWS
        return bool(group.reduced) and large and few and estimate(size(group.domain)) > MUCH_WORK

    def nest(self, group: Group) -> Nest:
        """Read a group with every node under its own name."""
        if group not in self.nests:
            self.nests[group] = _nest(self.graph, self.roots.nodes, group)
        return self.nests[group]

    def finish(self) -> tuple[Group, ...]:
        """Return the groups, each after those that it reads from."""
        done: dict[int, Group] = {}
        stack = [(number, False) for number in sorted(self.groups, reverse=True)]
        while stack:
            number, ready = stack.pop()
            if ready:
                group = self.groups[number]
                done[number] = replace(group, stored=self.stored(group, {number}))
            elif number not in done:
                stack.append((number, True))
                stack += [(p, False) for p in self.producers(number) if p not in done]
        return tuple(done.values())


def expressible(graph: FXGraph, roots: Roots) -> Roots:
    """Add roots until each is computed in one pass from what is in memory."""
    nodes = set(roots.nodes)
    pending = [number for number in nodes if not is_template(graph.nodes[number].op)]
    while pending:
        number = pending[-1]
        group = _single(graph, number)
        try:
            _nest(graph, nodes, replace(group, stored=group.members))
        except InexpressibleError as error:
            blocker = error.node if error.node is not None else _last_reshape(graph, nodes, number)
            if blocker in nodes:
                raise CompileError(
                    f"{graph.name}: %{number} {graph.nodes[number].op} fits no kernel: {error}",
                    hint="this is a defect of the scheduler; report the graph that shows it",
                ) from error
            nodes.add(blocker)
            pending.append(blocker)
        else:
            pending.pop()
    return Roots(frozenset(nodes), roots.forced, roots.fixed)


def _last_reshape(graph: FXGraph, roots: Set[int], number: int) -> int:
    """The operand of the latest reshape that a root computes on its way."""
    stack, cone = list(graph.nodes[number].inputs), {number}
    while stack:
        i = stack.pop()
        if i not in cone and i not in roots and graph.nodes[i].op not in LEAVES:
            cone.add(i)
            stack += graph.nodes[i].inputs
    return max(
        operand for i in cone if graph.nodes[i].op == "reshape" for operand in graph.nodes[i].inputs
    )


def _nest(graph: FXGraph, roots: Set[int], group: Group) -> Nest:
    def home(i: int) -> int | None:
        held = i in roots or graph.nodes[i].op in LEAVES
        return i if held and i != group.template else None

    return read_group(graph, group, Storages(home, lambda i: (i,)))


def group_reads(graph: FXGraph, roots: Roots, group: Group) -> frozenset[int]:
    """Return the roots and leaves outside of a group that it reads or waits for."""
    found = set() if group.template is None else set(template_bases(graph, group.template))
    found -= {*group.made}
    computed = group.members - {group.template}
    stack = [i for member in computed for i in graph.nodes[member].inputs]
    stack += () if group.template is None else awaited(graph, group.template)
    seen: set[int] = set()
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if i in roots.nodes or graph.nodes[i].op in LEAVES:
            found.add(i)
        else:
            stack += graph.nodes[i].inputs
    return frozenset(found - group.members)


def _single(graph: FXGraph, number: int) -> Group:
    node = graph.nodes[number]
    if is_template(node.op):
        return Group((), node.shape, template=number)
    if node.op in REDUCTIONS:
        shape: Shape = graph.nodes[node.inputs[0]].shape
        axes = node.attrs["axes"] if "axes" in node.attrs else (node.attrs["axis"],)
        return Group((number,), shape, tuple(axes), frozenset({number}))
    return Group((number,), node.shape)
