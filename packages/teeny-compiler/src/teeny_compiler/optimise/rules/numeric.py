"""Equal over the real numbers, and rounded elsewhere: only where the policy allows it.

Most of it makes what was written down step by step into the form in which it is computed best:
the logarithm of a softmax, quotients by a number for each row, the root of a normalisation. Chains
of products go in the order that takes the least work, and scales to where there is least to scale.
"""

from __future__ import annotations

from teeny_compiler.optimise.rule import Rule, Stage


def _fast(algebra: str, left: str, right: str, *when: str, stage: Stage = "simplify") -> Rule:
    return Rule(algebra, left, right, when, "fast", stage)


ROOTS = (
    _fast("1/sqrt(x) -> rsqrt(x)", '(Un "reciprocal" (Un "sqrt" x))', '(Un "rsqrt" x)'),
    _fast("x / sqrt(y) -> x * rsqrt(y)", '(Bin "div" x (Un "sqrt" y))',
          '(Bin "mul" x (Un "rsqrt" y))'),
    _fast("x / broadcast(sqrt(y)) -> x * broadcast(rsqrt(y))",
          '(Bin "div" x (Bc (Un "sqrt" y) t))', '(Bin "mul" x (Bc (Un "rsqrt" y) t))'),
)  # fmt: skip

QUOTIENTS = (
    # One division for each row, and none for each element.
    _fast("x / broadcast(y) -> x * broadcast(1/y)", '(Bin "div" x (Bc y t))',
          '(Bin "mul" x (Bc (Un "reciprocal" y) t))', "(= s (sig x))", "(floating (vec-get s 0))"),
    _fast("x * (1/y) -> x / y", '(Bin "mul" x (Un "reciprocal" y))', '(Bin "div" x y)'),
)  # fmt: skip

LOGARITHMS = (
    _fast("log(exp(x)) -> x", '(Un "log" (Un "exp" x))', "x"),
    # Of a softmax, exp(s - max) / sum, it is the log-softmax, which does not underflow.
    _fast("log(exp(x) / y) -> x - log(y)", '(Un "log" (Bin "div" (Un "exp" x) y))',
          '(Bin "sub" x (Un "log" y))'),
    _fast("log(exp(x) * y) -> x + log(y)", '(Un "log" (Bin "mul" (Un "exp" x) y))',
          '(Bin "add" x (Un "log" y))'),
)  # fmt: skip

_SCALAR = ("(= s (sig k))", "(= (vec-length s) 1)")
SCALES = (
    # The result may be larger or smaller than the operand: both ways, and costs decide.
    _fast("(x*k) @ y -> (x @ y)*k", '(Mm f g (Bin "mul" x (Bc k t)) y)',
          '(Bin "mul" (Mm f g x y) (Bc k u))', *_SCALAR, "(= u (sig root))", stage="fold"),
    _fast("x @ (y*k) -> (x @ y)*k", '(Mm f g x (Bin "mul" y (Bc k t)))',
          '(Bin "mul" (Mm f g x y) (Bc k u))', *_SCALAR, "(= u (sig root))", stage="fold"),
    _fast("(x @ y)*k -> (x*k) @ y", '(Bin "mul" (Mm f g x y) (Bc k t))',
          '(Mm f g (Bin "mul" x (Bc k u)) y)', *_SCALAR, "(= u (sig x))", stage="fold"),
)  # fmt: skip

_RESULT = "(= u (sig root))"
_COLUMN = ("(= s (sig k))", "(= (vec-length s) 3)", "(= (vec-get s 2) 1)")
DEQUANTISATION = (
    # Weights of few bits have a factor for each channel, which is less work at the result: of k
    # [n], [n, 1] or [1, n], nothing is repeated but along the depth of the product.
    _fast("(x * rows) @ y -> (x @ y) * rows", '(Mm 0 g (Bin "mul" x (Bc k t)) y)',
          '(Bin "mul" (Mm 0 g x y) (Bc k u))', *_COLUMN, _RESULT, "(= (vec-length t) 3)",
          stage="fold"),
    _fast("x @ (y * columns) -> (x @ y) * columns", '(Mm f 0 x (Bin "mul" y (Bc k t)))',
          '(Bin "mul" (Mm f 0 x y) (Bc k u))', "(= s (sig k))", _RESULT, "(= (vec-length s) 2)",
          stage="fold"),
    _fast("x @ (y * rows)' -> (x @ y') * rows", '(Mm f 1 x (Bin "mul" y (Bc k t)))',
          '(Bin "mul" (Mm f 1 x y) (Bc (Rs k (vec-of (vec-get s 0) (vec-get s 1))) u))',
          *_COLUMN, _RESULT, "(= (vec-length t) 3)", stage="fold"),
)  # fmt: skip

CHAINS = (
    # With the flags of transposed operands, of which f and h stay and g crosses over.
    _fast("(a @ b) @ c -> a @ (b @ c)", "(Mm 0 g (Mm f h a b) c)", "(Mm f 0 a (Mm h g b c))",
          stage="fold"),
    _fast("a @ (b @ c) -> (a @ b) @ c", "(Mm f 0 a (Mm h g b c))", "(Mm 0 g (Mm f h a b) c)",
          stage="fold"),
    _fast("(a @ b)' @ c -> b' @ (a' @ c)", "(Mm 1 g (Mm f h a b) c)",
          "(Mm (- 1 h) 0 b (Mm (- 1 f) g a c))", stage="fold"),
    _fast("a @ (b @ c)' -> (a @ c') @ b'", "(Mm f 1 a (Mm h g b c))",
          "(Mm 0 (- 1 h) (Mm f (- 1 g) a c) b)", stage="fold"),
)  # fmt: skip

RULES: tuple[Rule, ...] = (
    *ROOTS,
    *QUOTIENTS,
    *LOGARITHMS,
    *SCALES,
    *DEQUANTISATION,
    *CHAINS,
)
