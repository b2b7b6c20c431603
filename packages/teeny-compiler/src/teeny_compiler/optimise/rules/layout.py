"""Movement ops cancelled, composed, and moved past elementwise ops and into contractions.

Data is only moved, so nearly all of it is exact; what changes the order of a contraction's
operands is `real`.
"""

from __future__ import annotations

from teeny_compiler.optimise.rule import Rule, swapped_last

RANKS = (2, 3, 4, 5)


def _composed(rank: int) -> str:
    """(Tr (Tr x p) q): axis i of the result is axis p[q[i]] of x."""
    return f"(vec-of {' '.join(f'(vec-get p (vec-get q {i}))' for i in range(rank))})"


def _identity(rank: int) -> str:
    return f"(vec-of {' '.join(map(str, range(rank)))})"


CANCEL = (
    Rule("reshape(reshape(x)) -> reshape(x)", "(Rs (Rs x s) t)", "(Rs x t)"),
    Rule("reshape(x, its shape) -> x", "(Rs x t)", "x", ("(= t (sig x))",)),
    Rule("broadcast(broadcast(x)) -> broadcast(x)", "(Bc (Bc x s) t)", "(Bc x t)"),
    *(
        Rule(
            "permute(permute(x)) -> permute(x)",
            "(Tr (Tr x p) q)",
            f"(Tr x {_composed(rank)})",
            (f"(= (vec-length p) {rank})", f"(= (vec-length q) {rank})"),
        )
        for rank in RANKS
    ),
    *(Rule("permute(x, identity) -> x", f"(Tr x {_identity(rank)})", "x") for rank in RANKS),
)

HOIST = (
    # Elementwise work is done before its operand is repeated.
    Rule("f(broadcast(x)) -> broadcast(f(x))", "(Un f (Bc x t))", "(Bc (Un f x) u)",
         ("(= u (sig root))",)),
    Rule("cast(broadcast(x)) -> broadcast(cast(x))", "(Cast d (Bc x t))",
         "(Bc (Cast d x) (vec-set t 0 d))"),
    Rule("permute(broadcast(x)) -> broadcast(permute(x))", "(Tr (Bc x t) p)", "(Bc (Tr x p) u)",
         ("(= s (sig x))", "(= (vec-length s) (vec-length t))", "(= u (sig root))")),
    Rule("broadcast(x) o broadcast(y) -> broadcast(x o y)", "(Bin o (Bc x t) (Bc y t))",
         "(Bc (Bin o x y) u)",
         ("(= s (sig x))", "(= s (sig y))", "(= u (sig root))")),
)  # fmt: skip

_SAME = ("(= (vec-set r 0 0) (vec-set s 0 0))",)
_EACH_MATRIX = ("(= (vec-length r) 3)", "(= (vec-length s) 4)", "(= (vec-get r 1) (vec-get s 2))",
                "(= (vec-get r 2) (vec-get s 3))")  # fmt: skip
CHOICES = tuple(
    # A number under a mask, or under one for each of several matrices.
    Rule("broadcast(c) ? broadcast(x) : k -> broadcast(c ? x : k)",
         "(Sel (Bc c t) (Bc x u) (Bc (K d b) u))",
         "(Bc (Sel (Bc c (vec-set s 0 v)) x (Bc (K d b) s)) u)",
         ("(= r (sig c))", "(= s (sig x))", "(= v (vec-get r 0))", *fits))
    for fits in (_SAME, _EACH_MATRIX)
)  # fmt: skip

MOTION = (
    # Both directions: extraction decides where the movement costs least.
    Rule("f(permute(x)) -> permute(f(x))", "(Un f (Tr x p))", "(Tr (Un f x) p)", stage="layout"),
    Rule("permute(f(x)) -> f(permute(x))", "(Tr (Un f x) p)", "(Un f (Tr x p))", stage="layout"),
    Rule("permute(x) o permute(y) -> permute(x o y)", "(Bin o (Tr x p) (Tr y p))",
         "(Tr (Bin o x y) p)", stage="layout"),
    Rule("cast(permute(x)) -> permute(cast(x))", "(Cast d (Tr x p))", "(Tr (Cast d x) p)",
         stage="layout"),
    Rule("permute(cast(x)) -> cast(permute(x))", "(Tr (Cast d x) p)", "(Cast d (Tr x p))",
         stage="layout"),
    Rule("cast(reshape(x)) -> reshape(cast(x))", "(Cast d (Rs x t))",
         "(Rs (Cast d x) (vec-set t 0 d))", stage="layout"),
    Rule("f(reshape(x)) -> reshape(f(x))", "(Un f (Rs x t))", "(Rs (Un f x) u)",
         ("(= u (sig root))",), stage="layout"),
    Rule("reshape(x) o reshape(y) -> reshape(x o y)", "(Bin o (Rs x t) (Rs y t))",
         "(Rs (Bin o x y) u)",
         ("(= s (sig x))", "(= s (sig y))", "(= u (sig root))"), stage="layout"),
)  # fmt: skip


def _kept(before: int, after: int) -> Rule:
    """Of two orders to join or split batch axes and to transpose, transpose last."""
    kept = (f"(= (vec-get t {after}) (vec-get s {before - 1}))",
            f"(= (vec-get t {after - 1}) (vec-get s {before}))")  # fmt: skip
    turned = (
        f"(vec-set (vec-set t {after} (vec-get t {after - 1})) {after - 1} (vec-get t {after}))"
    )
    return Rule(
        "reshape(transpose(x)) -> transpose(reshape(x))",
        f"(Rs (Tr x {swapped_last(before)}) t)",
        f"(Tr (Rs x {turned}) {swapped_last(after)})",
        ("(= s (sig x))", f"(= (vec-length s) {before + 1})", f"(= (vec-length t) {after + 1})",
         *kept),
    )  # fmt: skip


BATCHES = tuple(_kept(before, after) for before, after in ((3, 4), (4, 3)))


def _contraction(rank: int) -> tuple[Rule, ...]:
    swap = swapped_last(rank)
    return (
        Rule("transpose(a) @ b -> matmul(a, b) with the flag", f"(Mm f g (Tr a {swap}) b)",
             "(Mm (- 1 f) g a b)"),
        Rule("a @ transpose(b) -> matmul(a, b) with the flag", f"(Mm f g a (Tr b {swap}))",
             "(Mm f (- 1 g) a b)"),
        Rule("transpose(a @ b) -> transpose(b) @ transpose(a)", f"(Tr (Mm f g a b) {swap})",
             "(Mm (- 1 g) (- 1 f) b a)", safety="real", stage="layout"),
    )  # fmt: skip


CONTRACTION = tuple(rule for rank in RANKS for rule in _contraction(rank))

RULES: tuple[Rule, ...] = (*CANCEL, *HOIST, *CHOICES, *MOTION, *BATCHES, *CONTRACTION)
