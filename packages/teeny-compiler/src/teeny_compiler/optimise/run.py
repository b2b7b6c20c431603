"""Optimising a graph: load, saturate in stages, extract, rebuild."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from teeny_core import CompileError

from teeny_compiler.collect import collection_paused
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.optimise import missed
from teeny_compiler.optimise.constants import fold_constants
from teeny_compiler.optimise.cost import CostModel, Peaks
from teeny_compiler.optimise.encode import Facts, encode
from teeny_compiler.optimise.engine import Engine, Snapshot
from teeny_compiler.optimise.extract import Problem, extract
from teeny_compiler.optimise.merge import MERGE, merge_products
from teeny_compiler.optimise.native import bindings
from teeny_compiler.optimise.parts import in_parts
from teeny_compiler.optimise.pieces import Joined, join_pieces
from teeny_compiler.optimise.rebuild import rebuild
from teeny_compiler.optimise.rule import Fact, Rule, Safety
from teeny_compiler.optimise.rules import FACTS, RULES
from teeny_compiler.schedule.fixed import fixed_values, frozen_parameters

MAX_NODES = 8000
"""Larger graphs are not searched as a whole, but in parts."""

PART = 4000
"""Nodes of a part."""

MAX_STEPS = 24
GROWTH = 8
"""A stage stops when the e-graph has this many times the nodes of the graph."""

_log = logging.getLogger("teeny.optimise")


@dataclass(frozen=True)
class Policy:
    """What the optimiser may do.

    `safety` are the classes of rules that may be used; with `frozen`, parameters that the graph
    does not update are taken as constants; with `composites`, ops that
    kernels may compute as a whole, as attention, are recognised where they are spelled out. `peaks`
    are those of the machine, by which costs are estimated.
    """

    safety: frozenset[Safety] = frozenset(("exact", "real"))
    frozen: bool = False
    composites: bool = False
    peaks: Peaks = field(default_factory=Peaks)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that the policy allows."""
        allowed = (rule for rule in RULES if rule.safety in self.safety)
        return tuple(rule for rule in allowed if self.composites or rule.stage != "recognise")

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts that the policy allows."""
        return tuple(fact for fact in FACTS if fact.safety in self.safety)


@dataclass(frozen=True)
class Report:
    """The optimised graph, what it cost before and after, and the rules that matched, by name.

    `problem` says why the graph was left as it was, where that happened; `snapshot` is the e-graph
    that was searched. `missed` says of rules that nearly fired why they did not.
    """

    graph: FXGraph
    before: float = 0.0
    after: float = 0.0
    fired: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    snapshot: Snapshot | None = field(default=None, repr=False)
    missed: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"cost {self.before:.0f} -> {self.after:.0f}", self.problem]
        lines += [f"  {count:5d} x {name}" for name, count in sorted(self.fired.items())]
        lines += [f"      not {name}: {reason}" for name, reason in self.missed.items()]
        return "\n".join(line for line in lines if line)


def optimise(graph: FXGraph, policy: Policy | None = None) -> FXGraph:
    """Return a graph of the same meaning that is cheaper to run."""
    return _optimised(graph, policy or Policy(), compare=False).graph


def explain(graph: FXGraph, policy: Policy | None = None) -> Report:
    """Optimise a graph and say what was done, and what was nearly done."""
    policy = policy or Policy()
    report = _optimised(graph, policy, compare=True)
    return replace(report, missed=_missed(graph, policy, report))


def _missed(graph: FXGraph, policy: Policy, report: Report) -> dict[str, str]:
    """Return what the widest policy would do besides, and products that are nearly attention."""
    widest = replace(policy, safety=frozenset(("exact", "real", "fast")), frozen=True)
    others: set[str] = set()
    if policy != widest:
        others = set(_optimised(graph, widest, compare=False).fired) - set(report.fired)
    rules = {rule.algebra: rule for rule in RULES}
    found = missed.excluded(rules, others, policy.safety, frozen=policy.frozen)
    if report.snapshot is not None and policy.composites:
        found.update((missed.SOFTMAX, reason) for reason in missed.attention(report.snapshot))
    return found


@collection_paused()
def _optimised(graph: FXGraph, policy: Policy, *, compare: bool) -> Report:
    folded = fold_constants(graph)
    joined = join_pieces(folded) if "real" in policy.safety else Joined(folded)
    large = len(joined.graph.nodes) > MAX_NODES
    report = (_in_parts if large else _whole)(joined.graph, policy, compare=compare)
    if not joined.fired:
        return report
    before = _whole(folded, policy, compare=True).before if compare and not large else report.before
    return replace(report, before=before, fired={**joined.fired, **report.fired})


def _in_parts(graph: FXGraph, policy: Policy, *, compare: bool) -> Report:
    """Optimise the parts of a graph and add up what is reported of them."""
    reports: list[Report] = []

    def rewrite(part: FXGraph) -> FXGraph:
        reports.append(_whole(part, policy, compare=compare))
        return reports[-1].graph

    fixed = fixed_values(graph, frozen=True) if policy.frozen else frozenset()
    result = in_parts(graph, PART, fixed, rewrite)
    fired: Counter[str] = Counter()
    for report in reports:
        fired.update(report.fired)
    problem = next((report.problem for report in reports if report.problem), "")
    costs = sum(report.before for report in reports), sum(report.after for report in reports)
    return Report(result, *costs, fired, problem)


def _whole(folded: FXGraph, policy: Policy, *, compare: bool) -> Report:
    facts = encode(folded, frozen_parameters(folded) if policy.frozen else frozenset())
    try:
        return _search(folded, facts, policy, compare=compare)
    except (bindings().EggSmolError, CompileError) as error:
        _log.warning("%s is compiled as it is: a rule went wrong: %s", folded.name, error)
        return Report(folded, problem=f"a rule went wrong: {error}")


ATTENTIVE = frozenset({"exp", "attention"})
"""Ops of which every graph has one in which attention is recognised."""


class _Engines(threading.local):
    """Engines by policy. An e-graph may be used, and dropped, only by the thread that made it."""

    def __init__(self) -> None:
        self.made: dict[Policy, Engine] = {}


_engines = _Engines()


def _engine(policy: Policy, graph: FXGraph) -> Engine:
    """Return the engine for a graph.

    What recognises attention takes as long to load as everything else, and is left out where
    nothing in the graph is near it.
    """
    policy = replace(policy, peaks=Peaks())  # which no rule asks for
    if policy not in _engines.made and not any(node.op in ATTENTIVE for node in graph.nodes):
        policy = replace(policy, composites=False)
    if policy not in _engines.made:
        _engines.made[policy] = Engine(policy.rules, policy.facts)
    return _engines.made[policy]


def _search(graph: FXGraph, facts: Facts, policy: Policy, *, compare: bool) -> Report:
    engine = _engine(policy, graph)
    with engine.loaded(facts):
        _repeat(engine, 0, "analyse")
        before = _cost(graph, facts, engine.snapshot(), policy.peaks) if compare else 0.0
        saturate(engine, len(graph.nodes))
        snapshot = engine.snapshot()
    problem = _problem(graph, facts, snapshot, policy.peaks)
    choice = extract(problem)
    rebuilt = fold_constants(rebuild(graph, facts, snapshot, problem, choice))
    fixed = fixed_values(rebuilt, frozen=True) if policy.frozen else frozenset()
    merged = merge_products(rebuilt, fixed)
    fired: dict[str, int] = {}
    for name, count in snapshot.fired.items():
        algebra = name.rpartition(" #")[0]
        fired[algebra] = fired.get(algebra, 0) + count
    if merged.count:
        fired[MERGE] = merged.count
    after = choice.cost - merged.saved
    return Report(merged.graph, before, after, fired, snapshot=snapshot)


def _problem(graph: FXGraph, facts: Facts, snapshot: Snapshot, peaks: Peaks) -> Problem:
    costs = CostModel(facts, snapshot, peaks).costs
    return Problem(snapshot, costs, [snapshot.classes[i] for i in graph.results])


def _cost(graph: FXGraph, facts: Facts, snapshot: Snapshot, peaks: Peaks) -> float:
    """The cost of a graph before any rewrite, when each class has one e-node."""
    problem = _problem(graph, facts, snapshot, peaks)
    return sum(problem.costs[enodes[0]] for enodes in problem.options.values())


def saturate(engine: Engine, nodes: int) -> None:
    """Run the stages: simplify, twice layout and simplification, then recognition, then folds."""
    simplify = tuple(name for name in engine.rulesets if name.startswith("simplify"))
    layout = tuple(name for name in engine.rulesets if name.startswith("layout"))
    recognise = tuple(name for name in engine.rulesets if name.startswith("recognise"))
    fold = tuple(name for name in engine.rulesets if name.startswith("fold"))
    limit = GROWTH * nodes + 1000
    _repeat(engine, limit, "analyse", *simplify)
    for _ in range(2):
        if layout:
            engine.step(*layout)
            _repeat(engine, limit, "analyse", *simplify)
    if recognise:
        _repeat(engine, limit, "analyse", *simplify, *recognise)
    if fold:
        _repeat(engine, limit, "analyse", *simplify, *fold)
    _repeat(engine, 0, "analyse")


def _repeat(engine: Engine, limit: int, *names: str) -> None:
    for _ in range(MAX_STEPS):
        if not engine.step(*names) or (limit and engine.size() > limit):
            return
