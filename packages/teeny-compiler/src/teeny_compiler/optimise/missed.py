"""Why rules did not fire that nearly did, for people who wonder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from teeny_compiler.optimise.encode import DTYPES
from teeny_compiler.optimise.engine import Snapshot
from teeny_compiler.optimise.rule import Rule, Safety

SOFTMAX = "softmax(...) @ v"


def excluded(
    rules: Mapping[str, Rule], names: Set[str], safety: Set[Safety], *, frozen: bool
) -> dict[str, str]:
    """Return, for rules that only a wider policy lets fire, what they ask for."""
    return {name: _asks(rules.get(name), safety, frozen) for name in sorted(names)}


def _asks(rule: Rule | None, safety: Set[Safety], frozen: bool) -> str:
    wants = []
    if rule is not None and rule.safety not in safety:
        wants.append(f"{rule.safety}=on")
    weights = rule is None or any("(frozen" in fact for fact in rule.when)
    if weights and not frozen:
        wants.append("frozen=on")
    if wants:
        return f"needs {' and '.join(wants)}"
    return "builds on rules that need fast=on or frozen=on"


def attention(snapshot: Snapshot) -> Iterator[str]:
    """Yield, for each product with a softmax that is no attention, the reason."""
    whole = {node.cls for node in snapshot.nodes if node.op == "Att"}
    whole |= {x.cls for x in snapshot.nodes if x.op == "Rs" and x.inputs[0] in whole}
    for cls in sorted(snapshot.mixes - whole):
        dtype = DTYPES[snapshot.signatures[cls][0]]
        if dtype.accumulator != dtype:
            yield f"it sums in {dtype}, and attention in {dtype.accumulator}"
        else:
            yield (
                "its scores are no product of queries and keys, times a number, with a mask or a"
                " bias"
            )
