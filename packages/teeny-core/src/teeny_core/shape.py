"""Dimensions and shapes: integers, or exact symbolic expressions over named sizes.

A symbolic `Expr` is a polynomial with integer coefficients. Its atoms are symbols (integers >= 0),
floor divisions, remainders, maxima and minima of other dimensions; `(28*n)//28` is `n`. `equal`,
`divides` and `bounds` prove facts; "not proven" is not "false".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from teeny_core.errors import ShapeError
from teeny_core.expr import Atom as Atom
from teeny_core.expr import Bounds as Bounds
from teeny_core.expr import Dim as Dim
from teeny_core.expr import Expr as Expr
from teeny_core.expr import FloorDiv as FloorDiv
from teeny_core.expr import Max as Max
from teeny_core.expr import Min as Min
from teeny_core.expr import Mod as Mod
from teeny_core.expr import Symbol as Symbol
from teeny_core.expr import at_least as at_least
from teeny_core.expr import bounds as bounds
from teeny_core.expr import mapped, normal, of_atom, plain_symbol, remade
from teeny_core.expr import maximum as maximum
from teeny_core.expr import minimum as minimum

Shape: TypeAlias = tuple[Dim, ...]


def symbol(name: str) -> Expr:
    """Return the dimension named `name`.

    Raises:
        ShapeError: when the name is no identifier.
    """
    if not name.isidentifier():
        raise ShapeError(f"{name!r} cannot name a dimension", hint="use an identifier, like 'n'")
    return of_atom(Symbol(name))


_fresh: Counter[str] = Counter()


def fresh(prefix: str = "n") -> Expr:
    """Return a dimension with a name not given out before: n, n_1, n_2, …"""
    count = _fresh[prefix]
    _fresh[prefix] += 1
    return symbol(f"{prefix}_{count}" if count else prefix)


def ceildiv(numerator: Dim, denominator: Dim) -> Dim:
    """Return `numerator / denominator` rounded up, for a denominator > 0."""
    return (numerator + denominator - 1) // denominator


def numel(shape: Iterable[Dim]) -> Dim:
    """Return the number of elements of `shape`."""
    count: Dim = 1
    for extent in shape:
        count = count * extent
    return count


def text(shape: Iterable[Dim]) -> str:
    """Print a shape as `[n, 28]`."""
    return f"[{', '.join(map(str, shape))}]"


# --- facts --------------------------------------------------------------------------------------


def equal(left: Dim, right: Dim) -> bool:
    """Whether `left == right` is proven for all values of the symbols."""
    if left == right:
        return True
    if isinstance(left, int) and isinstance(right, int):
        return False
    return normal(left - right) == 0 or bounds(left - right) == (0, 0)


def same(left: Shape, right: Shape) -> bool:
    """Whether two shapes are proven equal."""
    return len(left) == len(right) and all(map(equal, left, right))


def divides(divisor: int, dim: Dim) -> bool:
    """Whether `divisor` is proven to divide `dim`."""
    return equal(dim % divisor, 0)


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
    def change(atom: Atom) -> Dim:
        found = env.get(atom.name) if isinstance(atom, Symbol) else None
        return remade(atom, lambda inner: _substitute(inner, env)) if found is None else found

    return mapped(dim, change)


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

    A symbol is found from an extent that is `n`, or `c*n + k` with constants.

    Raises:
        ShapeError: when an actual shape contradicts a declared one or another pair.
    """
    pairs = list(shapes)
    for declared, actual in pairs:
        if len(declared) != len(actual):
            raise ShapeError(f"expected rank {len(declared)}, {text(declared)}, got {text(actual)}")
    extents = [pair for shape in pairs for pair in zip(*shape, strict=True)]
    env: dict[str, int] = {}
    for dim, extent in sorted(extents, key=lambda pair: plain_symbol(pair[0]) is None):
        env.update(_solution(substitute(dim, env), int(extent)))
    for declared, actual in pairs:
        if substitute(declared, env) != tuple(actual):
            known = ", ".join(f"{name} = {value}" for name, value in env.items())
            where = f" with {known}" if known and symbols_of(declared) else ""
            raise ShapeError(f"expected shape {text(declared)}{where}, got {text(actual)}")
    return env


def _solution(dim: Dim, extent: int) -> dict[str, int]:
    """Solve `dim == extent` for the one symbol of a linear `dim`; nothing where that is not so."""
    names = symbols_of(dim)
    if len(names) != 1 or not isinstance(dim, Expr):
        return {}
    at_zero, at_one = (substitute(dim, {names[0]: value}) for value in (0, 1))
    slope = at_one - at_zero
    if slope == 0 or dim - slope * symbol(names[0]) != at_zero:
        return {}
    value, rest = divmod(extent - at_zero, slope)
    return {names[0]: value} if rest == 0 and value >= 0 else {}
