"""Exact arithmetic of dimensions: polynomials over symbols, quotients, remainders, extremes.

Arithmetic normalises, so that what is constant becomes an int and equal polynomials are
structurally equal. `bounds` proves ranges, on which further simplification rests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias


@dataclass(frozen=True)
class Symbol:
    """A named size, an integer >= 0 that is known when a program runs."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FloorDiv:
    """`numerator // denominator`, rounded down."""

    numerator: Dim
    denominator: Dim

    def __str__(self) -> str:
        return f"{_group(self.numerator)}//{_group(self.denominator)}"


@dataclass(frozen=True)
class Mod:
    """`numerator % denominator`, with the sign of the denominator."""

    numerator: Dim
    denominator: Dim

    def __str__(self) -> str:
        return f"{_group(self.numerator)}%{_group(self.denominator)}"


@dataclass(frozen=True)
class Max:
    """The larger of two dimensions."""

    left: Dim
    right: Dim

    def __str__(self) -> str:
        return f"max({self.left}, {self.right})"


@dataclass(frozen=True)
class Min:
    """The smaller of two dimensions."""

    left: Dim
    right: Dim

    def __str__(self) -> str:
        return f"min({self.left}, {self.right})"


Atom: TypeAlias = Symbol | FloorDiv | Mod | Max | Min
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]


@dataclass(frozen=True, eq=False)
class Expr:
    """A dimension that is not a constant: `terms` are (coefficient, powers of atoms).

    Terms are in a fixed order, highest degree first, the constant last. Structural `==`.
    """

    terms: tuple[tuple[int, Monomial], ...]

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.terms == other.terms

    def __add__(self, other: Dim) -> Dim:
        return _combine(self, other, 1)

    def __radd__(self, other: int) -> Dim:
        return _combine(self, other, 1)

    def __sub__(self, other: Dim) -> Dim:
        return _combine(self, other, -1)

    def __rsub__(self, other: int) -> Dim:
        return _combine(-self, other, 1)

    def __neg__(self) -> Expr:
        return Expr(tuple((-coefficient, powers) for coefficient, powers in self.terms))

    def __mul__(self, other: Dim) -> Dim:
        return _multiply(self, other)

    def __rmul__(self, other: int) -> Dim:
        return _multiply(self, other)

    def __pow__(self, exponent: int) -> Dim:
        power: Dim = 1
        for _ in range(exponent):
            power = power * self
        return power

    def __floordiv__(self, other: Dim) -> Dim:
        return _floordiv(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return _floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return _mod(self, other)

    def __rmod__(self, other: int) -> Dim:
        return _mod(other, self)

    def __str__(self) -> str:
        text = " + ".join(_term_text(coefficient, powers) for coefficient, powers in self.terms)
        return text.replace("+ -", "- ")

    def __repr__(self) -> str:
        return str(self)


Dim: TypeAlias = int | Expr


# --- arithmetic ---------------------------------------------------------------------------------


def of_atom(atom: Atom) -> Expr:
    """Return an atom as a dimension."""
    return Expr(((1, ((atom, 1),)),))


def _polynomial(dim: Dim) -> dict[Monomial, int]:
    if isinstance(dim, int):
        return {(): int(dim)}
    return {powers: coefficient for coefficient, powers in dim.terms}


def _dim(polynomial: Mapping[Monomial, int]) -> Dim:
    kept = {powers: coefficient for powers, coefficient in polynomial.items() if coefficient}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    ordered = sorted(kept.items(), key=lambda item: _rank(item[0]))
    return Expr(tuple((coefficient, powers) for powers, coefficient in ordered))


@lru_cache(maxsize=4096)
def _rank(powers: Monomial) -> tuple[int, list[tuple[str, int]]]:
    return -sum(exponent for _, exponent in powers), [(str(atom), -exp) for atom, exp in powers]


def _combine(left: Dim, right: Dim, sign: int) -> Dim:
    if not isinstance(right, int | Expr):
        return NotImplemented
    total = dict(_polynomial(left))
    for powers, coefficient in _polynomial(right).items():
        total[powers] = total.get(powers, 0) + sign * coefficient
    return _dim(total)


def _multiply(left: Dim, right: Dim) -> Dim:
    if not isinstance(right, int | Expr):
        return NotImplemented
    total: dict[Monomial, int] = {}
    for a, x in _polynomial(left).items():
        for b, y in _polynomial(right).items():
            powers = _join(a, b)
            total[powers] = total.get(powers, 0) + x * y
    return _dim(total)


def _join(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for atom, exponent in right:
        powers[atom] = powers.get(atom, 0) + exponent
    return tuple(sorted(powers.items(), key=lambda item: str(item[0])))


def _quotient(left: Monomial, right: Monomial) -> Monomial | None:
    powers = dict(left)
    for atom, exponent in right:
        rest = powers.get(atom, 0) - exponent
        if rest < 0:
            return None
        powers[atom] = rest
    return tuple((atom, exponent) for atom, exponent in powers.items() if exponent)


def _divide(numerator: Dim, denominator: Dim) -> tuple[Dim, Dim]:
    """Polynomial division: q and r with `numerator == q*denominator + r`, r's coefficients >= 0."""
    divisor = _polynomial(denominator)
    lead = min(divisor, key=_rank)
    quotient: dict[Monomial, int] = {}
    remainder: dict[Monomial, int] = {}
    work = _polynomial(numerator)
    while work:
        powers = min(work, key=_rank)
        coefficient = work.pop(powers)
        shared = _quotient(powers, lead)
        times = 0 if shared is None else coefficient // divisor[lead]
        rest = coefficient - times * divisor[lead]
        if rest:
            remainder[powers] = rest
        if shared is None or not times:
            continue
        quotient[shared] = quotient.get(shared, 0) + times
        for other, factor in divisor.items():
            if other != lead:
                moved = _join(other, shared)
                work[moved] = work.get(moved, 0) - times * factor
    return _dim(quotient), _dim(remainder)


def _floordiv(numerator: Dim, denominator: Dim) -> Dim:
    if not isinstance(denominator, int | Expr):
        return NotImplemented
    if isinstance(denominator, int) and isinstance(numerator, int):
        return numerator // denominator
    if isinstance(denominator, int) and denominator < 0:
        return _floordiv(-numerator, -denominator)
    if denominator == 0:
        raise ZeroDivisionError(f"({numerator}) // 0")
    quotient, rest = _divide(numerator, denominator)
    return quotient + _proper_floordiv(rest, denominator)


def _proper_floordiv(rest: Dim, denominator: Dim) -> Dim:
    if rest == 0:
        return 0
    if isinstance(rest, int) and isinstance(denominator, int):
        return rest // denominator
    if at_least(rest, 0) and at_least(denominator - rest, 1):
        return 0
    if isinstance(denominator, int) and isinstance(rest, Expr):
        nested = _nested_quotient(rest)
        if nested is not None:
            inner = nested.denominator
            return (nested.numerator + inner * (rest - of_atom(nested))) // (inner * denominator)
        shared = _content(rest, denominator)
        if shared > 1:
            return (rest // shared) // (denominator // shared)
    return of_atom(FloorDiv(rest, denominator))


def _nested_quotient(rest: Expr) -> FloorDiv | None:
    """Return a term a//b of `rest` with a constant b: (a//b + c)//d = (a + b*c)//(b*d)."""
    for coefficient, powers in rest.terms:
        if coefficient == 1 and len(powers) == 1 and powers[0][1] == 1:
            atom = powers[0][0]
            if isinstance(atom, FloorDiv) and isinstance(atom.denominator, int):
                return atom
    return None


def _constant(dim: Expr) -> int:
    return dim.terms[-1][0] if not dim.terms[-1][1] else 0


def _content(dim: Expr, divisor: int) -> int:
    """Greatest common divisor of `divisor` and all coefficients but the constant."""
    return math.gcd(divisor, *(coefficient for coefficient, powers in dim.terms if powers))


def _mod(numerator: Dim, denominator: Dim) -> Dim:
    if not isinstance(denominator, int | Expr):
        return NotImplemented
    if isinstance(denominator, int) and isinstance(numerator, int):
        return numerator % denominator
    if isinstance(denominator, int) and denominator < 0:
        return -_mod(-numerator, -denominator)
    if denominator == 0:
        raise ZeroDivisionError(f"({numerator}) % 0")
    if isinstance(denominator, int):
        numerator = _without_inner_remainders(numerator, denominator)
    _, rest = _divide(numerator, denominator)
    if rest == 0 or (isinstance(rest, int) and isinstance(denominator, int)):
        return rest
    if at_least(rest, 0) and at_least(denominator - rest, 1):
        return rest
    if isinstance(denominator, int) and isinstance(rest, Expr):
        shared = _content(rest, denominator)
        if shared > 1:
            return shared * ((rest // shared) % (denominator // shared)) + _constant(rest) % shared
    return of_atom(Mod(rest, denominator))


def _without_inner_remainders(dim: Dim, modulus: int) -> Dim:
    """Replace `x % m` by x in a value that is taken modulo a divisor of m."""

    def change(atom: Atom) -> Dim:
        inner = atom.denominator if isinstance(atom, Mod) else 1
        if isinstance(atom, Mod) and isinstance(inner, int) and inner % modulus == 0:
            return atom.numerator
        return of_atom(atom)

    return mapped(dim, change)


def maximum(left: Dim, right: Dim) -> Dim:
    """Return the larger of two dimensions."""
    if at_least(left, right):
        return left
    return right if at_least(right, left) else _extreme(Max, left, right)


def minimum(left: Dim, right: Dim) -> Dim:
    """Return the smaller of two dimensions."""
    if at_least(left, right):
        return right
    return left if at_least(right, left) else _extreme(Min, left, right)


def _extreme(kind: type[Max] | type[Min], left: Dim, right: Dim) -> Dim:
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right) if kind is Max else min(left, right)
    return of_atom(kind(*sorted((left, right), key=str)))


# --- rewriting ----------------------------------------------------------------------------------


def mapped(dim: Dim, change: Callable[[Atom], Dim]) -> Dim:
    """Return a dimension with each of its atoms replaced."""
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for coefficient, powers in dim.terms:
        term: Dim = coefficient
        for atom, exponent in powers:
            term = term * change(atom) ** exponent
        total = total + term
    return total


def remade(atom: Atom, change: Callable[[Dim], Dim]) -> Dim:
    """Return an atom with its operands replaced."""
    match atom:
        case Symbol():
            return of_atom(atom)
        case FloorDiv(a, b):
            return change(a) // change(b)
        case Mod(a, b):
            return change(a) % change(b)
        case Max(a, b):
            return maximum(change(a), change(b))
        case Min(a, b):
            return minimum(change(a), change(b))


def normal(dim: Dim) -> Dim:
    """Return the form in which values meet that are equal by the laws of division and order.

    `a % b` becomes `a - b*(a//b)`, maxima and minima become sums with `max(0, d)`, where d starts
    with a positive coefficient.
    """
    return dim if isinstance(dim, int) else _normal(dim)


@lru_cache(maxsize=4096)
def _normal(dim: Expr) -> Dim:
    return mapped(dim, _normal_atom)


def _normal_atom(atom: Atom) -> Dim:
    match atom:
        case Mod(a, b):
            numerator, denominator = normal(a), normal(b)
            return numerator - denominator * (numerator // denominator)
        case Max(a, b):
            left, right = normal(a), normal(b)
            return left + _excess(right, left)
        case Min(a, b):
            left, right = normal(a), normal(b)
            return right - _excess(right, left)
        case _:
            return remade(atom, normal)


def _excess(left: Dim, right: Dim) -> Dim:
    """Return `max(0, left - right)`."""
    difference = left - right
    if isinstance(difference, int):
        return max(0, difference)
    if difference.terms[0][0] < 0:
        return difference + _excess(right, left)
    low, high = _sum_bounds(difference)  # not `bounds`, which asks for the normal form
    if low >= 0 or high <= 0:
        return difference if low >= 0 else 0
    return of_atom(Max(0, difference))


# --- ranges -------------------------------------------------------------------------------------


def at_least(left: Dim, right: Dim) -> bool:
    """Whether `left >= right` is proven."""
    low, _ = bounds(left - right)
    return low is not None and low >= 0


Bounds: TypeAlias = tuple[int | None, int | None]


def bounds(dim: Dim) -> Bounds:
    """Return the proven inclusive range of `dim`; None is "unbounded"."""
    if isinstance(dim, int):
        return dim, dim
    return _expr_bounds(dim)


@lru_cache(maxsize=4096)
def _expr_bounds(dim: Expr) -> Bounds:
    low, high = -math.inf, math.inf
    for form in _forms(dim):
        form_low, form_high = (form, form) if isinstance(form, int) else _sum_bounds(form)
        low, high = max(low, form_low), min(high, form_high)
    return _closed(low), _closed(high)


def _forms(dim: Expr) -> Iterator[Dim]:
    """Yield forms of one value: each bounds it, and one may do so where another does not."""
    yield dim
    plain = normal(dim)
    yield plain
    if isinstance(plain, int):
        return
    atoms = {atom for _, powers in plain.terms for atom, _ in powers}
    for excess in atoms:
        if isinstance(excess, Max):  # max(0, d) = d + max(0, -d)
            turned = excess.right + of_atom(Max(0, -excess.right))
            yield _swapped(plain, excess, turned)


def _swapped(dim: Expr, old: Atom, new: Dim) -> Dim:
    return mapped(dim, lambda atom: new if atom == old else of_atom(atom))


Interval: TypeAlias = tuple[float, float]  # ints, or an infinity


def _sum_bounds(dim: Expr) -> Interval:
    low: float = 0
    high: float = 0
    for coefficient, powers in dim.terms:
        term: Interval = (coefficient, coefficient)
        for atom, exponent in powers:
            for _ in range(exponent):
                term = _product_bounds(term, _atom_bounds(atom))
        low, high = low + term[0], high + term[1]
    return low, high


def _product_bounds(left: Interval, right: Interval) -> Interval:
    corners = [0 if 0 in (a, b) else a * b for a in left for b in right]
    return min(corners), max(corners)


def _interval(dim: Dim) -> Interval:
    low, high = bounds(dim)
    return (-math.inf if low is None else low), (math.inf if high is None else high)


def _closed(end: float) -> int | None:
    return None if math.isinf(end) else int(end)


def _atom_bounds(atom: Atom) -> Interval:
    match atom:
        case Symbol():
            return 0, math.inf
        case FloorDiv(numerator, denominator):
            return _floordiv_bounds(_interval(numerator), _interval(denominator))
        case Mod(numerator, denominator):
            return _mod_bounds(_interval(numerator), _interval(denominator))
        case Max(left, right):
            (a, b), (c, d) = _interval(left), _interval(right)
            return max(a, c), max(b, d)
        case Min(left, right):
            (a, b), (c, d) = _interval(left), _interval(right)
            return min(a, c), min(b, d)


def _floordiv_bounds(numerator: Interval, denominator: Interval) -> Interval:
    if denominator[0] < 0:
        return -math.inf, math.inf
    small = max(denominator[0], 1)  # where the quotient exists the denominator is not 0
    corners = [_floor(n, d) for n in numerator for d in (small, denominator[1])]
    return min(corners), max(corners)


def _floor(numerator: float, denominator: float) -> float:
    if math.isinf(numerator):
        return numerator
    if math.isinf(denominator):
        return -1 if numerator < 0 else 0
    return numerator // denominator


def _mod_bounds(numerator: Interval, denominator: Interval) -> Interval:
    if denominator[0] < 0:
        return -math.inf, math.inf
    high = denominator[1] - 1
    return 0, min(high, numerator[1]) if numerator[0] >= 0 else high


# --- text ---------------------------------------------------------------------------------------


def _term_text(coefficient: int, powers: Monomial) -> str:
    if not powers:
        return str(coefficient)
    alone = coefficient == 1 and len(powers) == 1 and powers[0][1] == 1
    if alone:
        return str(powers[0][0])
    factors = [f"{_factor(atom)}**{exp}" if exp > 1 else _factor(atom) for atom, exp in powers]
    if abs(coefficient) != 1:
        return "*".join([str(coefficient), *factors])
    return ("-" if coefficient < 0 else "") + "*".join(factors)


def _factor(atom: Atom) -> str:
    return f"({atom})" if isinstance(atom, FloorDiv | Mod) else str(atom)


def _group(dim: Dim) -> str:
    return str(dim) if isinstance(dim, int) or plain_symbol(dim) else f"({dim})"


def plain_symbol(dim: Dim) -> str | None:
    """Return the name of a dimension that is one symbol and nothing else."""
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        coefficient, powers = dim.terms[0]
        if coefficient == 1 and len(powers) == 1 and powers[0][1] == 1:
            atom = powers[0][0]
            return atom.name if isinstance(atom, Symbol) else None
    return None
