"""Rules proven by z3: those of arithmetic for every integer, those of movement for every size.

Both sides of a rule of arithmetic are read from its own text, as expressions of bit vectors. For
movement, a tensor is a function from indices to numbers, its extents are unknown positive integers,
and a product of matrices is known by any of its summands, so that equal ones are equal sums.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import teeny_core as tn
import z3
from teeny_compiler.optimise.encode import NUMBER, lossless_casts, neutral_elements
from teeny_compiler.optimise.rule import Rule
from teeny_compiler.optimise.rules import arith, layout
from teeny_core import DType, ops

Term = Any  # a name, a number, or a list of terms


def parsed(text: str) -> Term:
    """Read one s-expression."""
    stack: list[list[Term]] = [[]]
    for token in re.findall(r'[()]|"[^"]*"|[^\s()]+', text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(int(token) if re.fullmatch(r"-?\d+", token) else token)
    (term,) = stack[0]
    return term


def proven(claim: Any, *given: Any) -> None:
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(*given, z3.Not(claim))
    assert solver.check() == z3.unsat, solver


# --- arithmetic ---------------------------------------------------------------------------------

DTYPES = (tn.i8, tn.u8, tn.i32, tn.u32)
FLOATS_ONLY = {
    "(-x) / y -> -(x/y)",
    "x / (-y) -> -(x/y)",
    "|-x| -> |x|",
    "x / 2^k -> x * 2^-k",
}


def signed(dtype: DType, yes: Any, no: Any) -> Any:
    return yes if dtype.is_signed else no


def choose(condition: Any, x: Any, y: Any) -> Any:
    return z3.If(condition, x, y)


def shift(by: Callable[[Any, Any], Any], rest: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Shift by a number of places that there are; else return what is left of x."""
    return lambda x, y: choose(z3.ULT(y, x.size()), by(x, y), rest(x))


def none(x: Any) -> Any:
    return z3.BitVecVal(0, x.size())


def quotient(dtype: DType) -> Callable[[Any, Any], Any]:
    """Divide and round down; 0 for a divisor of 0."""

    def divide(x: Any, y: Any) -> Any:
        if not dtype.is_signed:
            return choose(y == 0, none(x), z3.UDiv(x, y))
        down = z3.And(z3.SRem(x, y) != 0, (x < 0) != (y < 0))
        return choose(y == 0, none(x), x / y - choose(down, z3.BitVecVal(1, x.size()), none(x)))

    return divide


def table(dtype: DType) -> dict[str, Callable[..., Any]]:
    """What integer ops mean."""
    less = signed(dtype, lambda x, y: x < y, z3.ULT)
    negative = signed(dtype, lambda x: x < 0, lambda x: z3.BoolVal(False))
    return {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "neg": lambda x: -x,
        "abs": lambda x: choose(negative(x), -x, x),
        "relu": lambda x: choose(negative(x), none(x), x),
        "sign": lambda x: choose(x == 0, none(x), choose(negative(x), none(x) - 1, none(x) + 1)),
        "maximum": lambda x, y: choose(less(x, y), y, x),
        "minimum": lambda x, y: choose(less(x, y), x, y),
        "bitwise_and": lambda x, y: x & y,
        "bitwise_or": lambda x, y: x | y,
        "bitwise_xor": lambda x, y: x ^ y,
        "bitwise_not": lambda x: ~x,
        "shl": shift(lambda x, y: x << y, none),
        "shr": shift(signed(dtype, lambda x, y: x >> y, z3.LShR),
                     lambda x: choose(negative(x), none(x) - 1, none(x))),
        "floordiv": quotient(dtype),
        "eq": lambda x, y: x == y,
        "ne": lambda x, y: x != y,
        "gt": lambda x, y: less(y, x),
    }  # fmt: skip


LOGIC: dict[str, Callable[..., Any]] = {
    "logical_not": z3.Not,
    "bitwise_not": z3.Not,
    "logical_and": z3.And,
    "bitwise_and": z3.And,
    "logical_or": z3.Or,
    "bitwise_or": z3.Or,
}


@dataclass
class Numbers:
    """Reads terms as numbers of a dtype; movement moves them to where they are asked for."""

    dtype: DType
    known: dict[str, Any]

    def leaf(self, name: str) -> Any:
        if name not in self.known:
            is_bool = name == "c"
            bits = z3.Bool(name) if is_bool else z3.BitVec(name, self.dtype.bits)
            self.known[name] = bits
        return self.known[name]

    def __call__(self, term: Term) -> Any:
        match term:
            case str():
                return self.leaf(term)
            case ["Un", op, x]:
                return self.op(op, self(x))
            case ["Bin", op, x, y]:
                return self.op(op, self(x), self(y))
            case ["Sel", c, x, y]:
                return choose(self(c), self(x), self(y))
            case ["Bc", x, _]:
                return self(x)
            case ["Cast", int(), x]:  # to bool
                return self(x) != 0
            case ["Cast", target, x]:
                return self.cast(self(x), self.known[target])
        raise AssertionError(f"a proof must be taught to read {term}")

    def op(self, name: str, *operands: Any) -> Any:
        name = self.known.get(name, name).strip('"')
        if z3.is_bool(operands[0]):
            return LOGIC[name](*operands)
        return table(self.dtype)[name](*operands)

    def cast(self, x: Any, target: DType) -> Any:
        """Widen by the sign of what x is a number of; narrow by dropping bits."""
        more = target.bits - x.size()
        if more <= 0:
            return z3.Extract(target.bits - 1, 0, x)
        return z3.SignExt(more, x) if self.dtype.is_signed else z3.ZeroExt(more, x)


def instances(rule: Rule, dtype: DType) -> Iterator[Numbers]:
    """Yield what the conditions of a rule allow its variables to be."""
    facts = [parsed(fact) for fact in rule.when]
    traits = {
        relation: [
            op.name for op in ops.all_ops() if trait in op.traits and op.name in table(dtype)
        ]
        for relation, trait in (("involution", "involution"), ("idempotent", "idempotent"),
                                ("commutes", "commutative"))
    }  # fmt: skip
    arity = 1 if "(Un f" in rule.left else 2
    names = {
        fact[1]: [name for name in traits[fact[0]] if ops.get(name).arity == arity]
        for fact in facts
        if fact[0] in traits
    }
    values: dict[str, Any] = {}
    neutral = None
    for fact in facts:
        match fact:
            case ["neutral", str(op), str(k)] if op.startswith('"'):
                value = neutral_elements(tn.bool_ if "logical" in op else dtype)[op.strip('"')]
                is_bool = isinstance(value, bool)
                values[k] = z3.BoolVal(value) if is_bool else z3.BitVecVal(value, dtype.bits)
            case ["neutral", str(op), str(k)]:
                neutral = (op, k)
            case [("integer_null" | "null"), str(k)]:
                values[k] = z3.BitVecVal(0, dtype.bits)
    if neutral is not None:
        op, k = neutral
        allowed = names.get(op, list(table(dtype)))
        for name, value in neutral_elements(dtype).items():
            if name in allowed:
                yield Numbers(dtype, {**values, op: name, k: z3.BitVecVal(value, dtype.bits)})
        return
    for chosen in itertools.product(*names.values()):
        for widths in _widths(rule, dtype):
            yield Numbers(dtype, {**values, **dict(zip(names, chosen, strict=True)), **widths})


def _widths(rule: Rule, dtype: DType) -> list[dict[str, DType]]:
    """Types that x is converted through, `b` of them wider than its own, `c` wider still."""
    if "widens" not in " ".join(rule.when):
        return [{}]
    integers = [d for d in NUMBER if d.is_int]
    wider = set(lossless_casts())
    return [
        {"a": dtype, "b": b, "c": c}
        for b in integers
        for c in integers
        if (NUMBER[dtype], NUMBER[b]) in wider
        and (NUMBER[b], NUMBER[c]) in wider | {(NUMBER[b],) * 2}
    ]


EXACT = {rule.algebra: rule for rule in arith.RULES if rule.algebra not in FLOATS_ONLY}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_integers(name: str, dtype: DType) -> None:
    rules = [rule for rule in arith.RULES if rule.algebra == name]
    found = [(rule, numbers) for rule in rules for numbers in instances(rule, dtype)]
    assert found
    for rule, read in found:
        proven(read(parsed(rule.left)) == read(parsed(rule.right)))


def test_a_wrong_rule_is_found_out() -> None:
    x, y = z3.BitVecs("x y", 8)
    with pytest.raises(AssertionError):
        proven(quotient(tn.i8)(-x, y) == -quotient(tn.i8)(x, y))


# --- movement -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tensor:
    """Extents, and the element at an index."""

    shape: tuple[Any, ...]
    at: Callable[[Sequence[Any]], Any]


def leaf(name: str, shape: Sequence[Any]) -> Tensor:
    """An unknown tensor: what lies at each place of its memory, row by row."""
    memory = z3.Function(name, z3.IntSort(), z3.RealSort())
    return Tensor(tuple(shape), lambda index: memory(ravel(index, shape)))


def ravel(index: Sequence[Any], shape: Sequence[Any]) -> Any:
    place: Any = z3.IntVal(0)
    for i, extent in zip(index, shape, strict=True):
        place = place * extent + i
    return place


def permuted(x: Tensor, axes: Sequence[int]) -> Tensor:
    def at(index: Sequence[Any]) -> Any:
        return x.at([index[axes.index(axis)] for axis in range(len(axes))])

    return Tensor(tuple(x.shape[axis] for axis in axes), at)


def spread(x: Tensor, shape: Sequence[Any]) -> Tensor:
    def at(index: Sequence[Any]) -> Any:
        near = index[len(index) - len(x.shape) :]
        return x.at([z3.If(e == 1, 0, i) for e, i in zip(x.shape, near, strict=True)])

    return Tensor(tuple(shape), at)


def mapped(name: str, *xs: Tensor) -> Tensor:
    sorts = (z3.RealSort(),) * (len(xs) + 1)
    function = z3.Function(name, *sorts)
    return Tensor(xs[0].shape, lambda index: function(*(x.at(index) for x in xs)))


DEPTH = z3.Int("depth")


def product(f: int, g: int, a: Tensor, b: Tensor) -> Tensor:
    """A product, by its summand at DEPTH."""
    a = permuted(a, swapped(len(a.shape))) if f else a
    b = permuted(b, swapped(len(b.shape))) if g else b

    def at(index: Sequence[Any]) -> Any:
        *batch, row, column = index
        return a.at([*batch, row, DEPTH]) * b.at([*batch, DEPTH, column])

    return Tensor((*a.shape[:-1], b.shape[-1]), at)


def swapped(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]


def equal(left: Tensor, right: Tensor, *given: Any) -> None:
    """Prove that two tensors agree in every extent and at every index."""
    assert len(left.shape) == len(right.shape)
    index = z3.Ints(" ".join(f"i{k}" for k in range(len(left.shape))))
    inside = [c for i, e in zip(index, left.shape, strict=True) for c in (i >= 0, i < e)]
    same = [a == b for a, b in zip(left.shape, right.shape, strict=True)]
    proven(z3.And(*same), *given)
    proven(left.at(index) == right.at(index), *inside, *given)


def extents(name: str, rank: int) -> tuple[list[Any], list[Any]]:
    """Unknown extents, and that they are positive."""
    found = [z3.Int(f"{name}{k}") for k in range(rank)]
    return found, [extent > 0 for extent in found]


def vector(term: Term, known: dict[str, Sequence[int]]) -> list[int]:
    """Evaluate a `vec-of` with `vec-get` in it."""

    def number(item: Term) -> int:
        return item if isinstance(item, int) else known[item[1]][number(item[2])]

    assert term[0] == "vec-of"
    return [number(item) for item in term[1:]]


@pytest.mark.parametrize("rank", layout.RANKS)
def test_permutations_compose(rank: int) -> None:
    """By the vector that the rule itself computes."""
    right = parsed(layout._composed(rank))
    every = list(itertools.permutations(range(rank)))
    shape, positive = extents("e", rank)
    x = leaf("x", shape)
    for p, q in list(itertools.product(every, every))[:: 1 if rank < 4 else 997]:
        composed = vector(right, {"p": p, "q": q})
        equal(permuted(permuted(x, p), q), permuted(x, composed), *positive)
    identity = vector(parsed(layout._identity(rank)), {})
    equal(permuted(x, identity), x, *positive)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_broadcasts_compose_and_are_moved_past_elementwise_work(rank: int) -> None:
    small, positive = extents("s", rank)
    middle, more = extents("m", rank)
    large, most = extents("l", rank + 1)
    fits = [z3.Or(s == 1, s == m) for s, m in zip(small, middle, strict=True)]
    fits += [z3.Or(m == 1, m == e) for m, e in zip(middle, large[1:], strict=True)]
    given = (*positive, *more, *most, *fits)
    x, y = leaf("x", small), leaf("y", small)
    equal(spread(spread(x, middle), large), spread(x, large), *given)
    equal(mapped("f", spread(x, large)), spread(mapped("f", x), large), *given)
    both = mapped("o", spread(x, large), spread(y, large))
    equal(both, spread(mapped("o", x, y), large), *given)


@pytest.mark.parametrize("rank", [2, 3])
def test_permutations_are_moved_past_broadcasts_and_elementwise_work(rank: int) -> None:
    small, positive = extents("s", rank)
    large, most = extents("l", rank)
    fits = [z3.Or(s == 1, s == e) for s, e in zip(small, large, strict=True)]
    x, y = leaf("x", small), leaf("y", small)
    for p in itertools.permutations(range(rank)):
        turned = [large[axis] for axis in p]
        equal(permuted(spread(x, large), p), spread(permuted(x, p), turned),
              *positive, *most, *fits)  # fmt: skip
        equal(mapped("f", permuted(x, p)), permuted(mapped("f", x), p), *positive)
        equal(mapped("o", permuted(x, p), permuted(y, p)), permuted(mapped("o", x, y), p),
              *positive)  # fmt: skip


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("f", [0, 1])
@pytest.mark.parametrize("g", [0, 1])
def test_transposes_of_products(rank: int, f: int, g: int) -> None:
    batch, positive = extents("n", rank - 2)
    (rows, depth, columns), more = extents("e", 3)
    given = (*positive, *more, DEPTH >= 0, depth > DEPTH)
    swap = swapped(rank)
    left = {0: (rows, depth), 1: (depth, rows)}
    right = {0: (depth, columns), 1: (columns, depth)}
    a, b = leaf("a", (*batch, *left[f])), leaf("b", (*batch, *right[g]))
    equal(product(1 - f, g, permuted(a, swap), b), product(f, g, a, b), *given)
    equal(product(f, 1 - g, a, permuted(b, swap)), product(f, g, a, b), *given)
    equal(permuted(product(f, g, a, b), swap), product(1 - g, 1 - f, b, a), *given)


def test_an_index_and_its_place_are_one() -> None:
    """So a reshape, which leaves memory as it is, is known by its extents, and composes."""
    (rows, columns), positive = extents("e", 2)
    i, j, place = z3.Ints("i j n")
    inside = (i >= 0, i < rows, j >= 0, j < columns)
    proven(i * columns + j < rows * columns, *positive, *inside)
    proven((i * columns + j) / columns == i, *positive, *inside)
    proven((i * columns + j) % columns == j, *positive, *inside)
    whole = (place >= 0, place < rows * columns)
    proven((place / columns) * columns + place % columns == place, *positive, *whole)
    proven(z3.And(place / columns >= 0, place / columns < rows), *positive, *whole)


def test_batch_axes_joined_before_or_after_transposing() -> None:
    """x[(a, b), i, j] at ((a, b), j, i) and at (a, b, j, i) is one place."""
    (outer, inner, rows, columns), positive = extents("e", 4)
    x = leaf("x", (outer * inner, rows, columns))

    def split(t: Tensor) -> Tensor:
        shape = (outer, inner, *t.shape[1:])
        return Tensor(shape, lambda index: t.at([index[0] * inner + index[1], *index[2:]]))

    equal(split(permuted(x, swapped(3))), permuted(split(x), swapped(4)), *positive)
