"""Symbolic dimensions against integer arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core import shape as shapes
from teeny_core.shape import Dim, Expr

NAMES = ("n", "m", "k")

Tree = tuple[str, "Tree", "Tree"] | int | str

leaves = st.one_of(st.integers(-9, 40), st.sampled_from(NAMES))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*"]), inner, inner),
        st.tuples(st.sampled_from(["//", "%"]), inner, st.integers(1, 12)),
        st.tuples(st.sampled_from(["max", "min"]), inner, inner),
    ),
    max_leaves=7,
)
polynomials = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from(["+", "-", "*"]), inner, inner),
    max_leaves=7,
)
values = st.fixed_dictionaries({name: st.integers(0, 50) for name in NAMES})

OPERATIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": shapes.maximum,
    "min": shapes.minimum,
}
INTEGERS = {**OPERATIONS, "max": max, "min": min}


def symbolic(tree: Tree) -> Dim:
    if isinstance(tree, tuple):
        return OPERATIONS[tree[0]](symbolic(tree[1]), symbolic(tree[2]))
    return tn.symbol(tree) if isinstance(tree, str) else tree


def value(tree: Tree, env: dict[str, int]) -> int:
    if isinstance(tree, tuple):
        return INTEGERS[tree[0]](value(tree[1], env), value(tree[2], env))
    return env[tree] if isinstance(tree, str) else tree


@given(trees, values)
@settings(max_examples=400, deadline=None)
def test_substitution_is_evaluation(tree: Tree, env: dict[str, int]) -> None:
    assert tn.substitute(symbolic(tree), env) == value(tree, env)


@given(trees, values)
@settings(max_examples=300, deadline=None)
def test_bounds_hold(tree: Tree, env: dict[str, int]) -> None:
    low, high = tn.bounds(symbolic(tree))
    number = value(tree, env)
    assert low is None or low <= number
    assert high is None or number <= high


@given(trees, trees, values)
@settings(max_examples=300, deadline=None)
def test_what_is_proven_is_true(left: Tree, right: Tree, env: dict[str, int]) -> None:
    a, b = symbolic(left), symbolic(right)
    if tn.equal(a, b):
        assert value(left, env) == value(right, env)
    if shapes.at_least(a, b):
        assert value(left, env) >= value(right, env)


@given(trees, st.integers(1, 12), values)
@settings(max_examples=200, deadline=None)
def test_divisors_divide(tree: Tree, divisor: int, env: dict[str, int]) -> None:
    if tn.divides(divisor, symbolic(tree)):
        assert value(tree, env) % divisor == 0


@given(trees, trees, trees)
@settings(max_examples=200, deadline=None)
def test_ring_laws_are_structural(left: Tree, middle: Tree, right: Tree) -> None:
    a, b, c = symbolic(left), symbolic(middle), symbolic(right)
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert a * (b + c) == a * b + a * c
    assert a - a == 0
    assert hash(a + b) == hash(b + a)


@given(polynomials, st.integers(1, 20))
@settings(max_examples=200, deadline=None)
def test_quotient_and_remainder_make_the_whole(tree: Tree, divisor: int) -> None:
    dim = symbolic(tree)
    assert tn.equal(dim // divisor * divisor + dim % divisor, dim)


@given(trees, values, st.integers(0, 30))
@settings(max_examples=100, deadline=None)
def test_partial_substitution(tree: Tree, env: dict[str, int], n: int) -> None:
    half = tn.substitute(symbolic(tree), {"n": n})
    assert "n" not in tn.symbols_of(half)
    assert tn.substitute(half, env) == value(tree, {**env, "n": n})


def test_sizes_print_as_they_are_written() -> None:
    n, m = tn.symbol("n"), tn.symbol("m")
    assert str(28 * n) == "28*n"
    assert str(tn.ceildiv(n, 32)) == "(n + 31)//32"
    assert str(n * m * 2 - 3) == "2*m*n - 3"
    assert str(n % 4 * 2) == "2*(n%4)"
    assert str(-n) == "-n"
    assert str(n**2 + 1) == "n**2 + 1"
    assert str(shapes.minimum(n, 5)) == "min(5, n)"
    assert shapes.text((n, 28)) == "[n, 28]"


def test_constants_fold_to_integers() -> None:
    n = tn.symbol("n")
    for folded, expected in (
        (n - n, 0),
        (n * 0, 0),
        ((n + 3) - n, 3),
        (28 * n // n, 28),
        ((8 * n + 5) % 4, 1),
        (n % 1, 0),
        (n % 8 // 8, 0),
        (tn.numel((0, n)), 0),
    ):
        assert folded == expected
        assert isinstance(folded, int)


def test_exact_quotients() -> None:
    n, m = tn.symbol("n"), tn.symbol("m")
    assert 28 * n // 28 == n
    assert n * 28 * 28 // n == 784
    assert (n * m + m) // m == n + 1
    assert n // 4 // 8 == n // 32
    assert (6 * n + 4) // 9 == (2 * n + 1) // 3
    assert (n % 8) % 4 == n % 4
    assert tn.equal((n - 1) // 32 + 1, tn.ceildiv(n, 32))


def test_facts() -> None:
    n, m = tn.symbol("n"), tn.symbol("m")
    assert not tn.equal(n, m)
    assert not tn.equal(n, 4)
    assert tn.divides(4, n - n % 4)
    assert not tn.divides(4, n)
    assert tn.bounds(n) == (0, None)
    assert tn.bounds(n - n % 4) == (0, None)
    assert tn.bounds(n % 8) == (0, 7)
    assert tn.bounds(3 - n) == (None, 3)
    assert tn.bounds(shapes.minimum(n, 5)) == (0, 5)
    assert tn.bounds(tn.ceildiv(n + 1, 32)) == (1, None)


def test_fresh_names_differ() -> None:
    names = {str(tn.fresh("batch")) for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("batch") for name in names)


def test_symbols_in_the_order_seen() -> None:
    n, m = tn.symbol("n"), tn.symbol("m")
    assert tn.symbols_of((m, (n * m, 3), "text")) == ("m", "n")


def test_bind_solves_and_checks() -> None:
    n = tn.symbol("n")
    assert shapes.bind([((n, 28), (5, 28)), ((2 * n,), (10,))]) == {"n": 5}
    assert shapes.bind([((3 * n + 1,), (16,)), ((n, 2), (5, 2))]) == {"n": 5}
    assert shapes.bind([((3 * n + 1, n * tn.symbol("m")), (16, 20))]) == {"n": 5, "m": 4}
    assert shapes.bind([((0 * n + 4,), (4,))]) == {}
    for declared, actual in ((2 * n, 5), (n + 3, 2), (n // 2, 3), (n * n, 4)):
        with pytest.raises(tn.ShapeError, match="expected shape"):
            shapes.bind([((declared,), (actual,))])
    with pytest.raises(tn.ShapeError, match=r"expected shape \[2\*n\] with n = 5, got \[11\]"):
        shapes.bind([((n,), (5,)), ((2 * n,), (11,))])
    with pytest.raises(tn.ShapeError, match="rank 2"):
        shapes.bind([((n, 28), (5,))])


@pytest.mark.parametrize("divide", [operator.floordiv, operator.mod])
def test_division_by_zero(divide: Callable[[Dim, Dim], Dim]) -> None:
    with pytest.raises(ZeroDivisionError):
        divide(tn.symbol("n"), 0)


def test_names_are_identifiers() -> None:
    with pytest.raises(tn.ShapeError, match="hint: use an identifier"):
        tn.symbol("2n")


def test_terms_are_open_to_native_code() -> None:
    n = tn.symbol("n")
    dim = 3 * n * n + 2 * n - 7
    assert isinstance(dim, Expr)
    assert [(c, [(str(a), e) for a, e in p]) for c, p in dim.terms] == [
        (3, [("n", 2)]),
        (2, [("n", 1)]),
        (-7, []),
    ]


def test_order_is_understood() -> None:
    n, m = tn.symbol("n"), tn.symbol("m")
    least, most = shapes.minimum, shapes.maximum
    assert tn.equal(n - least(n, 1), most(n - 1, 0))
    assert tn.equal(least(n, m) + most(n, m), n + m)
    assert tn.equal(most(least(1, n), n), n)
    assert tn.equal(least(n, m) - n, least(0, m - n))
    assert shapes.at_least(n, least(n, m))
    assert shapes.at_least(most(n, m), m)
    assert not tn.equal(least(n, m), n)
