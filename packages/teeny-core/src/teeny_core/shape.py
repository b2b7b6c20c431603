"""Dimensions: integers, or exact symbolic expressions over named sizes.

An `Expr` is a polynomial with integer coefficients. Its atoms are symbols (integers >= 0), floor
divisions, remainders, maxima and minima of other dimensions. Arithmetic normalises: what is
constant becomes an int, `(28*n)//28` becomes `n`, and equal polynomials are structurally equal.
`equal`, `divides` and `bounds` prove facts; "not proven" is not "false".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from teeny_core.errors import ShapeError


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
Shape: TypeAlias = tuple[Dim, ...]


def symbol(name: str) -> Expr:
    """Return the dimension named `name`.

    Raises:
        ShapeError: when the name is no identifier.
    """
    if not name.isidentifier():
        raise ShapeError(f"{name!r} cannot name a dimension", hint="use an identifier, like 'n'")
    return _atom(Symbol(name))


_fresh: Counter[str] = Counter()


def fresh(prefix: str = "n") -> Expr:
    """Return a dimension with a name not given out before: n, n_1, n_2, …"""
    count = _fresh[prefix]
    _fresh[prefix] += 1
    return symbol(f"{prefix}_{count}" if count else prefix)


def maximum(left: Dim, right: Dim) -> Dim:
    """Return the larger of two dimensions."""
    if at_least(left, right):
        return left
    if at_least(right, left):
        return right
    return _atom(Max(*sorted((left, right), key=str)))


def minimum(left: Dim, right: Dim) -> Dim:
    """Return the smaller of two dimensions."""
    if at_least(left, right):
        return right
    if at_least(right, left):
        return left
    return _atom(Min(*sorted((left, right), key=str)))


def ceildiv(numerator: Dim, denominator: Dim) -> Dim:
    """Return `numerator / denominator` rounded up, for a denominator > 0."""
    return (numerator + denominator - 1) // denominator


def numel(shape: Iterable[Dim]) -> Dim:
    """Return the number of elements of `shape`."""
    count: Dim = 1
    for extent in shape:
        count = count * extent
    return count


# --- facts --------------------------------------------------------------------------------------


def equal(left: Dim, right: Dim) -> bool:
    """Whether `left == right` is proven for all values of the symbols."""
    if left == right:
        return True
    if isinstance(left, int) and isinstance(right, int):
        return False
    return _without_remainders(left - right) == 0 or bounds(left - right) == (0, 0)


def same(left: Shape, right: Shape) -> bool:
    """Whether two shapes are proven equal."""
    return len(left) == len(right) and all(map(equal, left, right))


def at_least(left: Dim, right: Dim) -> bool:
    """Whether `left >= right` is proven."""
    low, _ = bounds(left - right)
    return low is not None and low >= 0


def divides(divisor: int, dim: Dim) -> bool:
    """Whether `divisor` is proven to divide `dim`."""
    return equal(dim % divisor, 0)


Bounds: TypeAlias = tuple[int | None, int | None]


def bounds(dim: Dim) -> Bounds:
    """Return the proven inclusive range of `dim`; None is "unbounded"."""
    if isinstance(dim, int):
        return dim, dim
    return _expr_bounds(dim)


@lru_cache(maxsize=4096)
def _expr_bounds(dim: Expr) -> Bounds:
    low, high = _sum_bounds(dim)
    expanded = _without_remainders(dim)
    if isinstance(expanded, int):
        return expanded, expanded
    if expanded != dim:
        other_low, other_high = _sum_bounds(expanded)
        low, high = max(low, other_low), min(high, other_high)
    return _closed(low), _closed(high)


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


@lru_cache(maxsize=4096)
def _expanded(dim: Expr) -> Dim:
    total: Dim = 0
    for coefficient, powers in dim.terms:
        term: Dim = coefficient
        for atom, exponent in powers:
            term = term * _expanded_atom(atom) ** exponent
        total = total + term
    return total


def _without_remainders(dim: Dim) -> Dim:
    """Rewrite `a % b` as `a - b*(a//b)`, so that equal values meet in one form."""
    return dim if isinstance(dim, int) else _expanded(dim)


def _expanded_atom(atom: Atom) -> Dim:
    match atom:
        case Symbol():
            return _atom(atom)
        case FloorDiv(a, b):
            return _without_remainders(a) // _without_remainders(b)
        case Mod(a, b):
            numerator, denominator = _without_remainders(a), _without_remainders(b)
            return numerator - denominator * (numerator // denominator)
        case Max(a, b):
            return _ordered(Max, _without_remainders(a), _without_remainders(b))
        case Min(a, b):
            return _ordered(Min, _without_remainders(a), _without_remainders(b))


# --- substitution -------------------------------------------------------------------------------


def substitute(value: Any, env: Mapping[str, Dim]) -> Any:
    """Replace symbols by name in a dimension, or in dimensions nested in tuples and mappings.

    Anything else (dtypes, strings, floats) is returned as it is.
    """
    if isinstance(value, Expr):
        return _substitute(value, env)
    if isinstance(value, tuple):
        return tuple(substitute(item, env) for item in value)
    if isinstance(value, Mapping):
        return type(value)({name: substitute(item, env) for name, item in value.items()})  # type: ignore[call-arg]
    return value


def _substitute(dim: Dim, env: Mapping[str, Dim]) -> Dim:
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for coefficient, powers in dim.terms:
        term: Dim = coefficient
        for atom, exponent in powers:
            term = term * _substitute_atom(atom, env) ** exponent
        total = total + term
    return total


def _substitute_atom(atom: Atom, env: Mapping[str, Dim]) -> Dim:
    match atom:
        case Symbol(name):
            found = env.get(name)
            return _atom(atom) if found is None else found
        case FloorDiv(a, b):
            return _substitute(a, env) // _substitute(b, env)
        case Mod(a, b):
            return _substitute(a, env) % _substitute(b, env)
        case Max(a, b):
            return maximum(_substitute(a, env), _substitute(b, env))
        case Min(a, b):
            return minimum(_substitute(a, env), _substitute(b, env))


def symbols_of(value: Any) -> tuple[str, ...]:
    """Return the names of the symbols in a dimension, or in nested dimensions, in order seen."""
    return tuple(dict.fromkeys(_symbols(value)))


def _symbols(value: Any) -> Iterator[str]:
    if isinstance(value, Symbol):
        yield value.name
    elif isinstance(value, Expr):
        for _, powers in value.terms:
            for atom, _ in powers:
                yield from _symbols(atom)
    elif isinstance(value, FloorDiv | Mod):
        yield from _symbols((value.numerator, value.denominator))
    elif isinstance(value, Max | Min):
        yield from _symbols((value.left, value.right))
    elif isinstance(value, tuple):
        for item in value:
            yield from _symbols(item)
    elif isinstance(value, Mapping):
        yield from _symbols(tuple(value.values()))


def bind(shapes: Iterable[tuple[Shape, tuple[int, ...]]]) -> dict[str, int]:
    """Find the values of the symbols from (declared, actual) pairs of shapes.

    Raises:
        ShapeError: when an actual shape contradicts a declared one or another pair.
    """
    pairs = list(shapes)
    env: dict[str, int] = {}
    for declared, actual in pairs:
        if len(declared) != len(actual):
            raise ShapeError(f"expected rank {len(declared)}, {text(declared)}, got {text(actual)}")
        for dim, extent in zip(declared, actual, strict=True):
            name = _plain_symbol(dim)
            if name is not None:
                env.setdefault(name, int(extent))
    for declared, actual in pairs:
        wanted = substitute(declared, env)
        if wanted != tuple(actual):
            known = ", ".join(f"{name} = {value}" for name, value in env.items())
            where = f" with {known}" if known and symbols_of(declared) else ""
            raise ShapeError(f"expected shape {text(declared)}{where}, got {text(actual)}")
    return env


def _plain_symbol(dim: Dim) -> str | None:
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        coefficient, powers = dim.terms[0]
        if coefficient == 1 and len(powers) == 1 and powers[0][1] == 1:
            atom = powers[0][0]
            return atom.name if isinstance(atom, Symbol) else None
    return None


def text(shape: Iterable[Dim]) -> str:
    """Print a shape as `[n, 28]`."""
    return f"[{', '.join(map(str, shape))}]"


# --- arithmetic ---------------------------------------------------------------------------------


def _atom(atom: Atom) -> Expr:
    return Expr(((1, ((atom, 1),)),))


def _ordered(kind: type[Max] | type[Min], left: Dim, right: Dim) -> Dim:
    if left == right:
        return left
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right) if kind is Max else min(left, right)
    return _atom(kind(*sorted((left, right), key=str)))


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
            return (nested.numerator + nested.denominator * _constant(rest)) // (
                nested.denominator * denominator
            )
        shared = _content(rest, denominator)
        if shared > 1:
            return (rest // shared) // (denominator // shared)
    return _atom(FloorDiv(rest, denominator))


def _nested_quotient(rest: Expr) -> FloorDiv | None:
    """`a//b` of `a//b + c`, where b is a constant > 0: (a//b + c)//d = (a + b*c)//(b*d)."""
    (coefficient, powers), *others = rest.terms
    if coefficient != 1 or len(powers) != 1 or powers[0][1] != 1 or any(p for _, p in others):
        return None
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
        numerator = _drop_inner_remainders(numerator, denominator)
    _, rest = _divide(numerator, denominator)
    if rest == 0 or (isinstance(rest, int) and isinstance(denominator, int)):
        return rest
    if at_least(rest, 0) and at_least(denominator - rest, 1):
        return rest
    if isinstance(denominator, int) and isinstance(rest, Expr):
        shared = _content(rest, denominator)
        if shared > 1:
            return shared * ((rest // shared) % (denominator // shared)) + _constant(rest) % shared
    return _atom(Mod(rest, denominator))


def _drop_inner_remainders(dim: Dim, modulus: int) -> Dim:
    """Replace `x % m` by x in a value taken modulo a divisor of m."""
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for coefficient, powers in dim.terms:
        term: Dim = coefficient
        for atom, exponent in powers:
            inner = isinstance(atom, Mod) and isinstance(atom.denominator, int)
            if isinstance(atom, Mod) and inner and atom.denominator % modulus == 0:
                term = term * atom.numerator**exponent
            else:
                term = term * _atom(atom) ** exponent
        total = total + term
    return total


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
    return str(dim) if isinstance(dim, int) or _plain_symbol(dim) else f"({dim})"
