"""Attention recognised in its spelled-out form.

`(weights w s)` says that w is the softmax of s over the last axis, as everybody writes it, with the
maximum taken off. `(scores s e b c)` says that s is the score e times the number with bits b, and
hidden above the diagonal where c is 1. Where e is a product of queries and keys, w·v is attention.
The composite means what it is spelled out as, so this is as `real` as spelling it out.

The types are those in which the sums are made anyway: attention of f16 accumulates in f32, a
product of f16 with a softmax of f16 does not.
"""

from __future__ import annotations

from teeny_compiler.optimise.encode import bits
from teeny_compiler.optimise.rule import Fact, Rule, swapped_last

ONE = bits(1.0)
RANKS = (2, 3, 4, 5)

_LAST = (
    "(= g (sig s))", "(= (vec-length g) (+ a 2))",
    "(= t (vec-set g (+ a 1) 1))", "(folds i \"max\" a)", "(folds j \"sum\" a)",
)  # fmt: skip
_RAISED = '(= p (Un "exp" (Bin "sub" s (Bc (Rs (Op1 i s) t) g))))'

SOFTMAX = (
    Fact("softmax: exp(s - max s) / sum", "(weights w s)", (
        '(= w (Bin "div" p (Bc (Rs (Op1 j p) t) g)))', _RAISED, *_LAST)),
    Fact("softmax: exp(s - max s) * (1/sum)", "(weights w s)", (
        '(= w (Bin "mul" p (Bc (Un "reciprocal" (Rs (Op1 j p) t)) g)))', _RAISED, *_LAST)),
)  # fmt: skip

MIXES = tuple(
    Fact(
        "a mean of values by a softmax", "(mixes e)", (f"(= e (Mm f g {form} v))", "(weights w s)")
    )
    for form in ("w", "(Cast d w)")
)

_ANY = f"(scores s e {ONE} c)"
SCORES = (
    Fact("scores of a softmax", f"(scores s s {ONE} 0)", ("(weights w s)",)),
    Fact("scores hidden above the diagonal", f"(scores s x {ONE} 1)", (
        f"(scores s e {ONE} 0)", "(= e (Sel m x h))", "(causal m)", "(hides h)")),
    Fact("scores times a number", "(scores s x b c)", (
        _ANY, '(= e (Bin "mul" x (Bc (K d b) t)))')),
    Fact("a number times scores", "(scores s x b c)", (
        _ANY, '(= e (Bin "mul" (Bc (K d b) t) x))')),
    Fact("scores over a number", "(scores s x b c)", (
        _ANY, '(= e (Bin "div" x (Bc k t)))', "(quotient k b)")),
)  # fmt: skip

_ROWS = ("(= i (Op0 x))", "(= j (Op0 y))", '(counts x "row")', '(counts y "column")')
CAUSAL = (
    Fact("row >= column", "(causal m)", ('(= m (Bin "ge" i j))', *_ROWS)),
    Fact("column <= row", "(causal m)", ('(= m (Bin "le" j i))', *_ROWS)),
    Fact("a repeated mask", "(causal e)", ("(= e (Bc m t))", "(causal m)")),
)

_WANTED = ("(weights w s)", "(= g (sig w))", "(accumulates (vec-get g 0))")


def _attention(algebra: str, product: str, right: str, scale: str, *when: str) -> Rule:
    return Rule(
        algebra, "(Mm 0 0 w v)", right,
        (*_WANTED, f"(scores s e {scale} c)", f"(= e {product})", *when), "real", "recognise",
    )  # fmt: skip


ATTENTION = (
    _attention("softmax(mask(q @ k' * b)) @ v -> attention(q, k, v)",
               "(Mm 0 1 q k)", "(Att c b q k v)", "b"),
    *(_attention("softmax(mask(q @ k * b)) @ v -> attention(q, k', v)",
                 "(Mm 0 0 q k)", f"(Att c b q (Tr k {swapped_last(rank)}) v)", "b",
                 f"(= (vec-length g) {rank + 1})") for rank in RANKS),
    _attention("softmax(mask((q*b) @ k')) @ v -> attention(q, k, v)",
               '(Mm 0 1 (Bin "mul" q (Bc (K d b) t)) k)', "(Att c b q k v)", str(ONE)),
    _attention("softmax(mask((q/b) @ k')) @ v -> attention(q, k, v)",
               '(Mm 0 1 (Bin "div" q (Bc x t)) k)', "(Att c b q k v)", str(ONE),
               "(quotient x b)"),
    *(_attention("softmax(mask((q*b) @ k)) @ v -> attention(q, k', v)",
                 '(Mm 0 0 (Bin "mul" q (Bc (K d b) t)) k)',
                 f"(Att c b q (Tr k {swapped_last(rank)}) v)", str(ONE),
                 f"(= (vec-length g) {rank + 1})") for rank in RANKS),
    *(_attention("softmax(mask((q/b) @ k)) @ v -> attention(q, k', v)",
                 '(Mm 0 0 (Bin "div" q (Bc x t)) k)',
                 f"(Att c b q (Tr k {swapped_last(rank)}) v)", str(ONE),
                 "(quotient x b)", f"(= (vec-length g) {rank + 1})") for rank in RANKS),
)  # fmt: skip

FACTS: tuple[Fact, ...] = (*SOFTMAX, *MIXES, *SCORES, *CAUSAL)
RULES: tuple[Rule, ...] = ATTENTION
