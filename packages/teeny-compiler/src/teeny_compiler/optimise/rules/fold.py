"""Scales and shifts by frozen values folded into one, and into frozen weights.

`frozen x` holds for what depends on constants and frozen parameters only: such work is done once,
before the first run. Batch normalisation of an inference program is a scale and a shift, and ends
in the weights and the bias of the convolution or matmul before it. All of it rounds elsewhere.
"""

from __future__ import annotations

from teeny_compiler.optimise.rule import Rule

_BOTH = ("(frozen a)", "(frozen b)", "(= s (sig a))", "(= s (sig b))")


def _fast(algebra: str, left: str, right: str, *when: str) -> Rule:
    return Rule(algebra, left, right, when, "fast", "fold")


SCALES = (
    _fast("(y - a)*b -> y*b - a*b", '(Bin "mul" (Bin "sub" y (Bc a t)) (Bc b t))',
          '(Bin "sub" (Bin "mul" y (Bc b t)) (Bc (Bin "mul" a b) t))', *_BOTH),
    _fast("(y + a)*b -> y*b + a*b", '(Bin "mul" (Bin "add" y (Bc a t)) (Bc b t))',
          '(Bin "add" (Bin "mul" y (Bc b t)) (Bc (Bin "mul" a b) t))', *_BOTH),
    _fast("(y*a)*b -> y*(a*b)", '(Bin "mul" (Bin "mul" y (Bc a t)) (Bc b t))',
          '(Bin "mul" y (Bc (Bin "mul" a b) t))', *_BOTH),
    _fast("(y + a) + b -> y + (a + b)", '(Bin "add" (Bin "add" y (Bc a t)) (Bc b t))',
          '(Bin "add" y (Bc (Bin "add" a b) t))', *_BOTH),
    _fast("(y - a) + b -> y + (b - a)", '(Bin "add" (Bin "sub" y (Bc a t)) (Bc b t))',
          '(Bin "add" y (Bc (Bin "sub" b a) t))', *_BOTH),
    _fast("(y + a) - b -> y + (a - b)", '(Bin "sub" (Bin "add" y (Bc a t)) (Bc b t))',
          '(Bin "add" y (Bc (Bin "sub" a b) t))', *_BOTH),
)  # fmt: skip

_FROZEN = ("(frozen w)", "(frozen b)", "(= u (sig w))", "(= s (sig b))")
_CHANNELS = (
    *_FROZEN, "(= (vec-length u) 5)", "(= (vec-length s) 4)",
    "(= (vec-get s 1) (vec-get u 1))", "(= (vec-get s 2) 1)", "(= (vec-get s 3) 1)",
)  # fmt: skip
_COLUMNS = (*_FROZEN, "(= (vec-length u) 3)", "(= (vec-length s) 2)")

WEIGHTS = (
    _fast("conv(x, w) * b -> conv(x, w*b)", '(Bin "mul" (Conv k x w) (Bc b t))',
          '(Conv k x (Bin "mul" w (Bc (Rs b (vec-of (vec-get u 0) (vec-get u 1) 1 1 1)) u)))',
          *_CHANNELS),
    _fast("(x @ w) * b -> x @ (w*b)", '(Bin "mul" (Mm f 0 x w) (Bc b t))',
          '(Mm f 0 x (Bin "mul" w (Bc b u)))', *_COLUMNS, "(= (vec-get s 1) (vec-get u 2))"),
    _fast("(x @ w') * b -> x @ (w*b)'", '(Bin "mul" (Mm f 1 x w) (Bc b t))',
          '(Mm f 1 x (Bin "mul" w (Bc (Rs b (vec-of (vec-get u 0) (vec-get u 1) 1)) u)))',
          *_COLUMNS, "(= (vec-get s 1) (vec-get u 1))"),
    _fast("(x @ w) * k -> x @ (w*k)", '(Bin "mul" (Mm f g x w) (Bc b t))',
          '(Mm f g x (Bin "mul" w (Bc b u)))', *_FROZEN, "(= (vec-length s) 1)"),
)  # fmt: skip

RULES: tuple[Rule, ...] = (*SCALES, *WEIGHTS)
