"""Rewrite rules as data: a line each, with the algebra that it stands for.

Terms are those of `encode`: `(Bin "add" x y)`, `(Tr x p)`, … A rule holds for any values of its
variables under the conditions in `when`. Its class says what it keeps:

- `exact`: every bit, NaN, infinities and signed zeros included (payloads of NaN excepted);
- `real`: the value over the real numbers, computed by the same operations in another order
  inside of a contraction or reduction, whose order is not promised anyway;
- `fast`: the value over the real numbers, rounded elsewhere; only where the policy allows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Safety = Literal["exact", "real", "fast"]
Stage = Literal["simplify", "layout", "recognise", "fold"]


@dataclass(frozen=True)
class Rule:
    """`left -> right` where `when` holds; `algebra` says it for people, and names the rule."""

    algebra: str
    left: str
    right: str
    when: tuple[str, ...] = ()
    safety: Safety = "exact"
    stage: Stage = "simplify"

    @property
    def ruleset(self) -> str:
        """The set of rules that run together."""
        return f"{self.stage}_{self.safety}"

    def text(self, number: int) -> str:
        """Return the rule as egglog; the number keeps names apart."""
        facts = " ".join((f"(= root {self.left})", *self.when))
        name = f"{self.algebra} #{number}"
        return (
            f'(rule ({facts}) ((union root {self.right})) :ruleset {self.ruleset} :name "{name}")'
        )


@dataclass(frozen=True)
class Fact:
    """`then` holds where `when` does: what rules that recognise something build on."""

    name: str
    then: str
    when: tuple[str, ...]
    safety: Safety = "real"

    def text(self, ruleset: str) -> str:
        """Return the fact as egglog."""
        return f"(rule ({' '.join(self.when)}) ({self.then}) :ruleset {ruleset})"


def both_ways(op: str, a: str, b: str) -> tuple[str, str]:
    """Return the two orders of a commutative op's operands."""
    return f'(Bin "{op}" {a} {b})', f'(Bin "{op}" {b} {a})'


def swapped_last(rank: int) -> str:
    """Return the permutation that swaps the last two of `rank` axes."""
    axes = (*range(rank - 2), rank - 1, rank - 2)
    return f"(vec-of {' '.join(map(str, axes))})"


def rulesets(rules: Iterable[Rule]) -> tuple[str, ...]:
    """Return the names of the rule sets of some rules, in order."""
    return tuple(dict.fromkeys(rule.ruleset for rule in rules))
