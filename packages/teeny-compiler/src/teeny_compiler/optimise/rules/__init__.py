"""The rewrite rules, by family."""

from teeny_compiler.optimise.rule import Rule
from teeny_compiler.optimise.rules import arith, fold, layout

FAMILIES: dict[str, tuple[Rule, ...]] = {
    "arithmetic": arith.RULES,
    "layout": layout.RULES,
    "folding": fold.RULES,
}
RULES: tuple[Rule, ...] = tuple(rule for family in FAMILIES.values() for rule in family)
