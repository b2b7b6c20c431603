"""The rewrite rules, by family."""

from teeny_compiler.optimise.rule import Fact, Rule
from teeny_compiler.optimise.rules import arith, attention, fold, layout, numeric

FAMILIES: dict[str, tuple[Rule, ...]] = {
    "arithmetic": arith.RULES,
    "layout": layout.RULES,
    "attention": attention.RULES,
    "numeric": numeric.RULES,
    "folding": fold.RULES,
}
RULES: tuple[Rule, ...] = tuple(rule for family in FAMILIES.values() for rule in family)
FACTS: tuple[Fact, ...] = attention.FACTS
