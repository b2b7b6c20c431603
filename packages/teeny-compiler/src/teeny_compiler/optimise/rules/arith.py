"""Arithmetic that is exact in IEEE 754 and in wrapping integers.

Not here, because they are not exact: x + (+0.0) -> x (for x = -0), x*0 -> 0, x - x -> 0 and
x/x -> 1 for floats, -(a - b) -> b - a (for a = b), 1/sqrt(x) -> rsqrt(x), and any reassociation.
"""

from __future__ import annotations

from teeny_compiler.optimise.encode import BOOL
from teeny_compiler.optimise.rule import Rule, both_ways

NEUTRAL = (
    # `neutral o k` holds for 0 in add and sub (-0.0 and +0.0 for floats), 1 in mul and div, …
    Rule("x o neutral -> x", "(Bin o x k)", "x", ("(neutral o k)",)),
    Rule("neutral o x -> x", "(Bin o k x)", "x", ("(neutral o k)", "(commutes o)")),
)

NEGATION = (
    Rule("x + (-y) -> x - y", '(Bin "add" x (Un "neg" y))', '(Bin "sub" x y)'),
    Rule("(-x) + y -> y - x", '(Bin "add" (Un "neg" x) y)', '(Bin "sub" y x)'),
    Rule("x - (-y) -> x + y", '(Bin "sub" x (Un "neg" y))', '(Bin "add" x y)'),
    Rule("(-x) * y -> -(x*y)", '(Bin "mul" (Un "neg" x) y)', '(Un "neg" (Bin "mul" x y))'),
    Rule("x * (-y) -> -(x*y)", '(Bin "mul" x (Un "neg" y))', '(Un "neg" (Bin "mul" x y))'),
    Rule("(-x) / y -> -(x/y)", '(Bin "div" (Un "neg" x) y)', '(Un "neg" (Bin "div" x y))'),
    Rule("x / (-y) -> -(x/y)", '(Bin "div" x (Un "neg" y))', '(Un "neg" (Bin "div" x y))'),
    Rule(
        "|-x| -> |x|",
        '(Un "abs" (Un "neg" x))',
        '(Un "abs" x)',
        ("(= s (sig x))", "(floating (vec-get s 0))"),
    ),
)

POWERS_OF_TWO = (
    # Both are x*2^k rounded once; `inverse k r` is given only where r = 1/k is exact.
    Rule("x / 2^k -> x * 2^-k", '(Bin "div" x k)', '(Bin "mul" x r)', ("(inverse k r)",)),
)

TRAITS = (
    # From the traits of the op definitions.
    Rule("f(f(x)) -> x", "(Un f (Un f x))", "x", ("(involution f)",)),
    Rule("f(f(x)) -> f(x)", "(Un f (Un f x))", "(Un f x)", ("(idempotent f)",)),
    Rule("x o x -> x", "(Bin o x x)", "x", ("(idempotent o)",)),
)

CHOICE = (
    Rule("c ? x : x -> x", "(Sel c x x)", "x"),
    Rule("!c ? x : y -> c ? y : x", '(Sel (Un "logical_not" c) x y)', "(Sel c y x)"),
    Rule("~c ? x : y -> c ? y : x", '(Sel (Un "bitwise_not" c) x y)', "(Sel c y x)"),
    Rule(
        "broadcast(~c) ? x : y -> broadcast(c) ? y : x",
        '(Sel (Bc (Un "bitwise_not" c) t) x y)',
        "(Sel (Bc c t) y x)",
    ),
    Rule(
        "broadcast(!c) ? x : y -> broadcast(c) ? y : x",
        '(Sel (Bc (Un "logical_not" c) t) x y)',
        "(Sel (Bc c t) y x)",
    ),
    Rule("c ? (c ? x : y) : z -> c ? x : z", "(Sel c (Sel c x y) z)", "(Sel c x z)"),
    Rule("c ? x : (c ? y : z) -> c ? x : z", "(Sel c x (Sel c y z))", "(Sel c x z)"),
)

_ONE_OR_NONE = ('(neutral "mul" k)', "(null z)")
FLAGS = (
    # A mask that was kept as numbers, as of a triangle of ones.
    Rule("(c ? 1 : 0) != 0 -> c", '(Bin "ne" (Sel c k z) y)', "c", (*_ONE_OR_NONE, "(null y)")),
    Rule("(c ? 1 : 0) > 0 -> c", '(Bin "gt" (Sel c k z) y)', "c", (*_ONE_OR_NONE, "(null y)")),
    Rule(
        "(c ? 1 : 0) == 0 -> !c",
        '(Bin "eq" (Sel c k z) y)',
        '(Un "logical_not" c)',
        (*_ONE_OR_NONE, "(null y)"),
    ),
    Rule(
        "(c ? 1 : 0) == 1 -> c",
        '(Bin "eq" (Sel c k z) y)',
        "c",
        (*_ONE_OR_NONE, '(neutral "mul" y)'),
    ),
    Rule("bool(c ? 1 : 0) -> c", f"(Cast {BOOL} (Sel c k z))", "c", _ONE_OR_NONE),
    Rule(
        "c ? true : false -> c",
        "(Sel c k z)",
        "c",
        ('(neutral "logical_and" k)', '(neutral "logical_or" z)'),
    ),
)

CASTS = (
    # `widens a b`: every value of type a has one of type b, and comes back unchanged.
    Rule(
        "narrow(widen(x)) -> x",
        "(Cast a (Cast b x))",
        "x",
        ("(= s (sig x))", "(= a (vec-get s 0))", "(widens a b)"),
    ),
    Rule(
        "widen(widen(x)) -> widen(x)",
        "(Cast c (Cast b x))",
        "(Cast c x)",
        ("(= s (sig x))", "(= a (vec-get s 0))", "(widens a b)", "(widens b c)"),
    ),
)

INTEGERS = tuple(
    Rule("x * 0 -> 0", form, "k", ("(integer_null k)",)) for form in both_ways("mul", "x", "k")
)

RULES: tuple[Rule, ...] = (
    *NEUTRAL,
    *NEGATION,
    *POWERS_OF_TWO,
    *TRAITS,
    *CHOICE,
    *FLAGS,
    *CASTS,
    *INTEGERS,
)
