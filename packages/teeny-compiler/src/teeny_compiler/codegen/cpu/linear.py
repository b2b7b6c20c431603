"""Integer and pointer tiles as linear forms over scalar registers.

Index arithmetic in kernels is linear: `pid * BLOCK + arange`, `rows[:, None] * stride + columns`.
Such a tile is kept as a sum of 64-bit scalar registers, each times a constant table over the tile.
What a chunk of it is (one number, consecutive addresses, a stride, all below a bound) is then read
off the tables, and the registers never hold vectors of indices or addresses.

Signed index arithmetic must not overflow its type: it is done in 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from teeny_compiler.codegen.builder import BITS, I64, Builder, Operand, constant
from teeny_compiler.codegen.cpu.layout import Indices

ONE = constant(I64, 1)
Bounds = tuple[float, float]
ANY: Bounds = (-math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class Linear:
    """The sum of register times table, over a tile of `shape`, plus an address.

    Tables have the rank of the tile and extent 1 along axes on which they are constant. The
    register `ONE` carries what is known at compile time.
    """

    shape: tuple[int, ...]
    terms: Mapping[Operand, Indices]
    pointer: Operand | None = None
    _flat: dict[Operand, Indices] = field(default_factory=dict, repr=False)

    @property
    def is_static(self) -> bool:
        """Whether every element is known at compile time."""
        return self.pointer is None and all(register == ONE for register in self.terms)

    @property
    def is_uniform(self) -> bool:
        """Whether all elements are equal."""
        return all(table.size == 1 for table in self.terms.values())

    def table(self, register: Operand) -> Indices:
        """Return the factors of a register for each element of the tile, flat."""
        flat = self._flat.get(register)
        if flat is None:
            table = self.terms.get(register, np.zeros((1,) * len(self.shape), np.int64))
            flat = np.broadcast_to(table, self.shape).reshape(-1)
            self._flat[register] = flat
        return flat

    def values(self) -> Indices:
        """Return the elements of a static form, flat."""
        return self.table(ONE)

    def at(self, flat: int) -> Linear:
        """Return one element, as a scalar form."""
        index = np.unravel_index(flat, self.shape)
        picked = {}
        for register, table in self.terms.items():
            place = tuple(min(i, extent - 1) for i, extent in zip(index, table.shape, strict=True))
            picked[register] = table[place].reshape(())
        return Linear((), _compact(picked), self.pointer)

    def split(self) -> tuple[Linear, Linear]:
        """Return the first element as a scalar, and the differences from it over the tile."""
        varying = {}
        for register, table in self.terms.items():
            if table.size > 1:
                varying[register] = table - table.reshape(-1)[0]
        return self.at(0), Linear(self.shape, _compact(varying))

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for register, table in other.terms.items():
            terms[register] = terms[register] + table if register in terms else table
        return Linear(self.shape, _compact(terms), self.pointer or other.pointer)

    def __neg__(self) -> Linear:
        return self.scale(np.full((1,) * len(self.shape), -1, np.int64))

    def __sub__(self, other: Linear) -> Linear:
        return self + -other

    def scale(self, factors: Indices) -> Linear:
        """Multiply by a constant table."""
        terms = {register: table * factors for register, table in self.terms.items()}
        return Linear(self.shape, _compact(terms), self.pointer)

    def moved(self, shape: tuple[int, ...], index: Indices) -> Linear:
        """Return the tile whose flat element i is element index[i] of this one."""
        terms = {}
        for register, table in self.terms.items():
            if table.size == 1:
                terms[register] = table.reshape((1,) * len(shape))
            else:
                flat = np.broadcast_to(table, self.shape).reshape(-1)
                terms[register] = thin(flat[index].reshape(shape))
        return Linear(shape, terms, self.pointer)

    def splat(self, shape: tuple[int, ...]) -> Linear:
        """Repeat a scalar form over a tile."""
        ones = (1,) * len(shape)
        terms = {register: table.reshape(ones) for register, table in self.terms.items()}
        return Linear(shape, terms, self.pointer)


def static(shape: tuple[int, ...], table: Indices) -> Linear:
    """Return the form of constant elements."""
    return Linear(shape, _compact({ONE: thin(table)}))


def scalar(register: Operand) -> Linear:
    """Return the form of one 64-bit register or constant."""
    if register.is_constant:
        return static((), np.array(int(register.text), np.int64))
    return Linear((), {register: np.array(1, np.int64)})


def thin(table: Indices) -> Indices:
    """Drop the repetition along axes on which a table is constant."""
    for axis, extent in enumerate(table.shape):
        if extent > 1:
            first = table.take([0], axis)
            if (table == first).all():
                table = first
    return table


def _compact(terms: Mapping[Operand, Indices]) -> dict[Operand, Indices]:
    return {register: table for register, table in terms.items() if table.any()}


def product(b: Builder, x: Linear, y: Linear) -> Linear:
    """Multiply two forms; products of registers become new registers."""
    terms: dict[Operand, Indices] = {}
    for p, left in x.terms.items():
        for q, right in y.terms.items():
            register = q if p == ONE else p if q == ONE else b.binary("mul", *sorted((p, q)))
            table = left * right
            terms[register] = terms[register] + table if register in terms else table
    return Linear(x.shape, _compact(terms))


def total(b: Builder, terms: Iterable[tuple[Operand, int]]) -> Operand:
    """Write the sum of 64-bit registers times constants, outer registers first."""
    result: Operand | None = None
    offset = 0
    for register, factor in sorted(terms, key=lambda term: (b.home(term[0]), term[0].text)):
        if register == ONE:
            offset += factor
            continue
        part = register if factor == 1 else b.binary("mul", register, constant(I64, factor))
        result = part if result is None else b.binary("add", result, part)
    if result is None:
        return constant(I64, offset)
    return b.binary("add", result, constant(I64, offset)) if offset else result


def integer(b: Builder, form: Linear) -> Operand:
    """Write a scalar form without a pointer as a 64-bit operand."""
    return total(b, ((register, int(table)) for register, table in form.terms.items()))


def address(b: Builder, form: Linear, scalar: str) -> Operand:
    """Write a scalar pointer form: inner registers and the constant last, as x86 addresses go."""
    assert form.pointer is not None
    pointer = form.pointer
    levels: dict[int, list[tuple[Operand, int]]] = {}
    for register, table in form.terms.items():
        if register != ONE:
            levels.setdefault(b.home(register), []).append((register, int(table)))
    for level in sorted(levels):
        pointer = b.offset(pointer, scalar, total(b, levels[level]))
    constant_part = form.terms.get(ONE)
    return pointer if constant_part is None else b.offset(pointer, scalar, int(constant_part))


def bounds(form: Linear, known: Mapping[Operand, Bounds]) -> Bounds:
    """Return the least and the greatest value that any element can take."""
    low = high = 0.0
    for register, table in form.terms.items():
        least, most = (1.0, 1.0) if register == ONE else known.get(register, ANY)
        small, large = float(table.min()), float(table.max())
        corners = [_times(bound, factor) for bound in (least, most) for factor in (small, large)]
        low += min(corners)
        high += max(corners)
    return low, high


def divisor(multiples: Mapping[Operand, int], *forms: Linear) -> int:
    """Return the largest number that all elements are known to be multiples of; 0: they are 0."""
    terms = [term for form in forms for term in form.terms.items()]
    return math.gcd(*(int(np.gcd.reduce(t, axis=None)) * multiples.get(r, 1) for r, t in terms))


def _times(bound: float, factor: float) -> float:
    return 0.0 if factor == 0 else bound * factor


def fits(value: Bounds, scalar: str) -> bool:
    """Whether bounds lie within a signed integer type."""
    limit = 1 << (BITS[scalar] - 1)
    return -limit <= value[0] and value[1] < limit
