"""Attention recognised in its spelled-out form, and made to read no more than it has to.

Facts go from the softmax inwards. `(weights w s)` says that w is the softmax of s over the last
axis, as everybody writes it, with the maximum taken off. `(scores s e b c m)` says that s is e
times the number with bits b, hidden above the diagonal where c is 1, under the mask m, which is
`(Nil)` where there is none. `(product e q k b)` says that e is the product of queries q and
transposed keys k times the number with bits b. Where they meet, w·v is attention.

The composite means what it is spelled out as, so this is as `real` as spelling it out: a query that
sees no key gives NaN in both. The types are those in which the sums are made anyway: attention of
f16 accumulates in f32, a product of f16 with a softmax of f16 does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from teeny_compiler.optimise.encode import BOOL, bits
from teeny_compiler.optimise.rule import Fact, Rule, Safety, both_ways, swapped_last

ONE = bits(1.0)
HIDDEN = bits(-math.inf)
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
    for form in ("w", "(Cast d w)", "(Rs w t)")
)


# --- masks --------------------------------------------------------------------------------------

_ROWS = ("(rows i)", "(columns j)")
_ABOVE = '(Bin "add" i k)'
_PAIRS = {"both": ("logical_and", "bitwise_and"), "either": ("logical_or", "bitwise_or")}
_ONE_MORE = ('(neutral "mul" k)',)
CAUSAL = (
    # `rows x` and `columns x`: each element of x is its index along the last axis but one, or the
    # last.
    # `line x` is the index of a single axis.
    Fact("a line counts", "(line i)", ("(= i (Op0 x))", '(counts x "line")')),
    *(
        Fact(f"{name}, converted", f"({name} e)", (
            "(= e (Cast d i))", f"({name} i)", "(holds_indices d)"))
        for name in ("line", "rows", "columns")
    ),
    Fact("rows count", "(rows i)", ("(= i (Op0 x))", '(counts x "row")')),
    Fact("columns count", "(columns i)", ("(= i (Op0 x))", '(counts x "column")')),
    Fact("a count along columns", "(columns e)", (
        "(= e (Bc i t))", "(line i)", "(= s (sig i))",
        "(> (vec-length t) 2)", "(= (vec-get t (- (vec-length t) 1)) (vec-get s 1))")),
    Fact("a count in one row", "(columns e)", (
        "(= e (Rs i t))", "(line i)", "(= s (sig i))",
        "(> (vec-length t) 2)", "(= (vec-get t (- (vec-length t) 1)) (vec-get s 1))")),
    Fact("a count in one column", "(rows e)", (
        "(= e (Rs i t))", "(line i)", "(= s (sig i))",
        "(> (vec-length t) 2)", "(= (vec-get t (- (vec-length t) 2)) (vec-get s 1))")),
    Fact("a repeated column", "(rows e)", (
        "(= e (Bc i t))", "(rows i)", "(= s (sig i))",
        "(= (vec-get t (- (vec-length t) 2)) (vec-get s (- (vec-length s) 2)))")),
    Fact("a repeated row", "(columns e)", (
        "(= e (Bc i t))", "(columns i)", "(= s (sig i))",
        "(= (vec-get t (- (vec-length t) 1)) (vec-get s (- (vec-length s) 1)))")),
    # `causal m`: true up to the diagonal. `above m`: true above it. `hides_above m`: minus infinity
    # above it, and 0 elsewhere.
    Fact("row >= column", "(causal m)", ('(= m (Bin "ge" i j))', *_ROWS)),
    Fact("column <= row", "(causal m)", ('(= m (Bin "le" j i))', *_ROWS)),
    Fact("row + 1 > column", "(causal m)", (f'(= m (Bin "gt" {_ABOVE} j))', *_ONE_MORE, *_ROWS)),
    Fact("column < row + 1", "(causal m)", (f'(= m (Bin "lt" j {_ABOVE}))', *_ONE_MORE, *_ROWS)),
    Fact("column > row", "(above m)", ('(= m (Bin "gt" j i))', *_ROWS)),
    Fact("row < column", "(above m)", ('(= m (Bin "lt" i j))', *_ROWS)),
    Fact("column >= row + 1", "(above m)", (f'(= m (Bin "ge" j {_ABOVE}))', *_ONE_MORE, *_ROWS)),
    Fact("row + 1 <= column", "(above m)", (f'(= m (Bin "le" {_ABOVE} j))', *_ONE_MORE, *_ROWS)),
    *(
        Fact(f"{words}, by the difference", f"({name} m)", (
            f'(= m (Bin "{op}" (Bin "sub" {pair}) z))', "(integer_null z)", *_ROWS))
        for words, name, op, pair in (
            ("row >= column", "causal", "ge", "i j"), ("column <= row", "causal", "le", "j i"),
            ("column > row", "above", "gt", "j i"), ("row < column", "above", "lt", "i j"))
    ),
    *(
        Fact(f"not {name}", f"({other} m)", (f'(= m (Un "{negation}_not" n))', f"({name} n)"))
        for name, other in (("causal", "above"), ("above", "causal"))
        for negation in ("logical", "bitwise")
    ),
    Fact("0 up to the diagonal", "(hides_above e)", (
        "(= e (Sel m z h))", "(causal m)", '(neutral "sub" z)', "(hides h)")),
    Fact("minus infinity above", "(hides_above e)", (
        "(= e (Sel m h z))", "(above m)", '(neutral "sub" z)', "(hides h)")),
    # `both n a b`: n is a and b. `either n a b`: n is a or b.
    *(
        Fact(f"{name} of masks", f"({relation} n a b) ({relation} n b a)", (
            f'(= n (Bin "{name}" a b))', "(= s (sig n))", f"(= (vec-get s 0) {BOOL})"))
        for relation, names in _PAIRS.items() for name in names
    ),
    *(
        Fact(f"{relation}, repeated", f"({relation} e (Bc a t) (Bc b t))", (
            "(= e (Bc n t))", f"({relation} n a b)"))
        for relation in _PAIRS
    ),
    *(
        Fact("a repeated mask", f"({name} e)", (
            "(= e (Bc m t))", f"({name} m)", "(= s (sig m))",
            *(f"(= (vec-get t (- (vec-length t) {k})) (vec-get s (- (vec-length s) {k})))"
              for k in (1, 2))))
        for name in ("causal", "above", "hides_above")
    ),
)  # fmt: skip

_OF = "(scores s e b c m)"
_FLOATS = ("(= g (sig m))", f"(!= (vec-get g 0) {BOOL})")
_BOOLS = ("(= g (sig m))", f"(= (vec-get g 0) {BOOL})")
HIDING: tuple[tuple[str, Safety], ...] = (("(hides h)", "real"), ("(nearly_hides h)", "fast"))
_INFINITE = f"(Bc (K (vec-get u 0) {HIDDEN}) u)"

# What hides keys is `(Sel n x h)`, or with the mask turned round. After a positive factor it hides
# the same ones. Further out there may be a mask already.
_SHOWN = (
    ("(= e (Sel n x h))", "n"),
    ("(= e (Sel n h x))", '(Un "logical_not" n)'),
)
SCORES = (
    *(
        Fact("scores of a softmax", f"(scores s s {ONE} 0 (Nil))", (
            f"(= e (Mm f g {form} v))", "(weights w s)"))
        for form in ("w", "(Rs w t)")
    ),
    Fact("scores times a number", "(scores s x d c m)", (
        _OF, '(= e (Bin "mul" x (Bc (K y a) t)))', "(times a b d)")),
    Fact("a number times scores", "(scores s x d c m)", (
        _OF, '(= e (Bin "mul" (Bc (K y a) t) x))', "(times a b d)")),
    Fact("scores over a number", "(scores s x d c m)", (
        _OF, '(= e (Bin "div" x (Bc k t)))', "(quotient k a)", "(times a b d)")),
    # Each query sees a key up to the diagonal: a low score for the others is as good as none.
    *(
        fact
        for hides, safety in HIDING
        for fact in (
            Fact("scores hidden above the diagonal", "(scores s x b 1 m)", (
                _OF, "(> b 0)", "(= e (Sel n x h))", "(causal n)", hides), safety),
            Fact("scores not hidden up to the diagonal", "(scores s x b 1 m)", (
                _OF, "(> b 0)", "(= e (Sel n h x))", "(above n)", hides), safety),
        )
    ),
    Fact("scores hidden above the diagonal and by a mask", "(scores s (Sel o x h) b 1 m)", (
        _OF, "(> b 0)", "(= e (Sel n x h))", "(both n r o)", "(causal r)", "(hides h)")),
    Fact("scores hidden above the diagonal or by a mask", "(scores s (Sel o h x) b 1 m)", (
        _OF, "(> b 0)", "(= e (Sel n h x))", "(either n r o)", "(above r)", "(hides h)")),
    *(
        Fact("scores and what hides them above the diagonal", "(scores s x b 1 m)", (
            _OF, "(> b 0)", f"(= e {form})", "(hides_above n)"))
        for form in both_ways("add", "x", "n")
    ),
    *(
        fact
        for form, shown in _SHOWN
        for fact in (
            Fact("scores under a mask", f"(scores s x b c {shown})", (
                "(scores s e b c (Nil))", "(> b 0)", form, "(hides h)")),
            Fact("scores under two masks", f'(scores s x b c (Bin "logical_and" {shown} m))', (
                _OF, "(> b 0)", form, "(hides h)", *_BOOLS)),
            Fact("scores under a mask and a bias",
                 f"(scores s x b c (Sel {shown} m {_INFINITE}))", (
                     _OF, "(> b 0)", form, "(hides h)", *_FLOATS, "(= u (sig s))")),
        )
    ),
    *(
        fact
        for form in both_ways("add", "x", "n")
        for fact in (
            Fact("scores and a bias", f"(scores s x {ONE} c n)", (
                f"(scores s e {ONE} c (Nil))", f"(= e {form})")),
            Fact("scores and two biases", f'(scores s x {ONE} c (Bin "add" n m))', (
                f"(scores s e {ONE} c m)", f"(= e {form})", *_FLOATS)),
            Fact("scores and a bias under a mask", f"(scores s x {ONE} c (Sel m n {_INFINITE}))", (
                f"(scores s e {ONE} c m)", f"(= e {form})", *_BOOLS, "(= u (sig s))")),
            Fact("a multiple of scores and a bias",
                 '(scores s x b c (Bin "mul" n (Bc (K (vec-get u 0) b) u)))', (
                     "(scores s e b c (Nil))", f"(!= b {ONE})", f"(= e {form})", "(= u (sig s))")),
        )
    ),
    Fact("scores less a bias", f'(scores s x {ONE} c (Un "neg" n))', (
        f"(scores s e {ONE} c (Nil))", '(= e (Bin "sub" x n))')),
)  # fmt: skip


# --- products -----------------------------------------------------------------------------------


def _upright(operand: str, turned: int, rank: int) -> str:
    return f"(Tr {operand} {swapped_last(rank)})" if turned else operand


PRODUCTS = (
    *(
        Fact(
            "queries times keys",
            f"(product e {_upright('q', f, rank)} {_upright('k', 1 - g, rank)} {ONE})",
            ("(scores s e b c m)", f"(= e (Mm {f} {g} q k))", "(= u (sig e))",
             f"(= (vec-length u) {rank + 1})"),
        )
        for rank in RANKS for f in (0, 1) for g in (0, 1)
    ),
    *(
        Fact(
            "queries times keys, with batch axes joined",
            f"(product e (Rs {_upright('q', f, 3)} (vec-set t n x))"
            f" (Rs {_upright('k', 1 - g, 3)} (vec-set (vec-set t n x) (- n 1) y)) {ONE})",
            ("(scores s e b c m)", f"(= e (Rs (Mm {f} {g} q k) t))", "(= n (- (vec-length t) 1))",
             "(= u (sig q))", "(= (vec-length u) 4)", f"(= x (vec-get u {2 if f else 3}))",
             "(= r (sig k))", f"(= y (vec-get r {2 if g else 3}))", "(= y (vec-get t n))",
             f"(= (vec-get u {3 if f else 2}) (vec-get t (- n 1)))"),
        )
        for f in (0, 1) for g in (0, 1)
    ),
    *(
        fact
        for scaled, then in (("q", "(product e x k d)"), ("k", "(product e q x d)"))
        for fact in (
            *(
                Fact("a factor of queries or keys", then, (
                    "(product e q k b)", f"(= {scaled} {form})", "(times a b d)"))
                for form in both_ways("mul", "x", "(Bc (K y a) t)")
            ),
            Fact("a divisor of queries or keys", then, (
                "(product e q k b)", f'(= {scaled} (Bin "div" x (Bc n t)))', "(quotient n a)",
                "(times a b d)")),
        )
    ),
)  # fmt: skip


_FOUND = (
    "(weights w s)", "(accumulates (vec-get g 0))", "(scores s e a c m)", "(product e q k b)",
    "(times a b d)",
)  # fmt: skip


def _attention(form: str, values: str, *when: str) -> Rule:
    return Rule(
        f"softmax(mask(q @ k' * b)) @ {form} -> attention(q, k, v)",
        f"(Mm 0 {int(form != 'v')} w v)",
        f"(Att c d q k {values} m)",
        ("(= g (sig w))", *_FOUND, *when),
        "real",
        "recognise",
    )


def _joined(form: str, values: str) -> Rule:
    """What `einsum` makes: a product of matrices with all batch axes in one."""
    return Rule(
        f"reshape(softmax(mask(q @ k' * b))) @ {form} -> reshape(attention(q, k, v))",
        f"(Mm 0 {int(form != 'v')} (Rs w t) v)",
        f"(Rs (Att c d q k (Rs {values} (vec-set (vec-set g n o) (- n 1) (vec-get g n))) m) u)",
        ("(= g (sig w))", "(= n (- (vec-length g) 1))", "(= (vec-length t) 4)",
         "(= (vec-get t 3) (vec-get g n))", "(= (vec-get t 2) (vec-get g (- n 1)))",
         "(= u (sig root))", "(= o (vec-get u 3))", *_FOUND),
        "real",
        "recognise",
    )  # fmt: skip


ATTENTION = (
    _attention("v", "v"),
    *(
        _attention("v'", f"(Tr v {swapped_last(rank)})", f"(= (vec-length g) {rank + 1})")
        for rank in RANKS
    ),
    _joined("v", "v"),
    _joined("v'", f"(Tr v {swapped_last(3)})"),
)


# --- what it reads ------------------------------------------------------------------------------


def _repeats() -> Iterator[Fact]:
    """Yield how heads are repeated: `(repeats k x h)` where k is x with each of h heads repeated.

    They are repeated along an axis of their own, `x` with extent 1 there, which is then joined to
    that of the heads; or along that of the heads, if there is one; or before heads and rows change
    places.
    """
    for rank in (3, 4, 5):
        head = rank - 2  # in a signature, which starts with the dtype
        joined = (
            "(= s (sig x))", f"(= (vec-length s) {rank + 2})", f"(= (vec-get s {head + 1}) 1)",
            f"(= (vec-set t {head + 1} 1) s)", f"(= h (vec-get s {head}))",
            f"(= n (vec-get t {head + 1}))", "(> h 0)", "(> n 0)",
            f"(= (vec-length u) {rank + 1})", f"(= (vec-get u {head}) (* h n))",
            *(f"(= (vec-get u {i}) (vec-get s {i + (i > head)}))" for i in range(1, rank + 1)
              if i != head),
        )  # fmt: skip
        plain = f"(Rs x (vec-set u {head} h))"
        yield Fact(
            "heads repeated", f"(repeats k {plain} h)",
            ("(= e (Att f b q k v m))", "(= k (Rs (Bc x t) u))", *joined),
        )  # fmt: skip
        yield Fact(
            "heads of values repeated", f"(repeats v {plain} h)",
            ("(= e (Att f b q k v m))", "(= v (Rs (Bc x t) u))", *joined),
        )  # fmt: skip
        one = ("(= s (sig x))", f"(= (vec-length s) {rank + 1})", f"(= (vec-get s {head}) 1)",
               f"(= (vec-set t {head} 1) s)")  # fmt: skip
        yield Fact("a head repeated", "(repeats k x 1)", (
            "(= e (Att f b q k v m))", "(= k (Bc x t))", *one))  # fmt: skip
        yield Fact("a head of values repeated", "(repeats v x 1)", (
            "(= e (Att f b q k v m))", "(= v (Bc x t))", *one))  # fmt: skip
    # Rows before heads: [B, S, h, 1, E] -> [B, S, h, n, E] -> [B, S, h·n, E] -> [B, h·n, S, E]
    turned = (
        "(= p (vec-of 0 2 1 3))", "(= s (sig x))", "(= (vec-length s) 6)", "(= (vec-get s 4) 1)",
        "(= (vec-set t 4 1) s)", "(= h (vec-get s 3))", "(= n (vec-get t 4))", "(> h 0)", "(> n 0)",
        "(= u (vec-of (vec-get s 0) (vec-get s 1) (vec-get s 2) (* h n) (vec-get s 5)))",
    )  # fmt: skip
    plain = "(Tr (Rs x (vec-set u 3 h)) p)"
    for operand in ("k", "v"):
        yield Fact(
            "heads repeated behind rows", f"(repeats {operand} {plain} h)",
            ("(= e (Att f b q k v m))", f"(= {operand} (Tr (Rs (Bc x t) u) p))", *turned),
        )  # fmt: skip


REPEATS = tuple(_repeats())

READS = (
    Rule("attention(q, repeat(k), repeat(v)) -> attention(q, k, v)", "(Att f b q k v m)",
         "(Att f b q x y m)", ("(repeats k x h)", "(repeats v y h)"), "real", "recognise"),
    Rule("attention under broadcast(mask) -> attention under mask", "(Att f b q k v (Bc m t))",
         "(Att f b q k v m)", stage="recognise"),
)  # fmt: skip

FACTS: tuple[Fact, ...] = (*SOFTMAX, *MIXES, *CAUSAL, *SCORES, *PRODUCTS, *REPEATS)
RULES: tuple[Rule, ...] = (*ATTENTION, *READS)
