"""FXGraph → facts for egglog: one row a node, loaded in bulk.

Node `i` of the graph is the term `(N i)`, which loader rules make equal to its op on operands:

    (In i) (K dtype bits) (Un op x) (Bin op x y) (Sel c x y) (Cast dtype x)
    (Tr x perm) (Rs x sig) (Bc x sig) (Mm ta tb x y) (Conv attrs x w)
    (Att flags scale q k v mask) (Op0 key) (Op1 key x) (Op2 key x y) (Cons x rest) (Nil)

The mask of attention is `(Nil)` where there is none. `Op…` stands for any other op with its
attributes; more than two operands form a list. A signature is a vector of a dtype's number and the
extents. Attributes and symbolic extents are interned in Python: egglog sees their numbers, for
symbolic extents negative ones.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Hashable, Set
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, TypeVar

from teeny_core import (
    Attrs,
    Dim,
    DType,
    Expr,
    TensorType,
    bf16,
    bool_,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    ops,
    symbols_of,
    u8,
    u16,
    u32,
    u64,
)

from teeny_compiler.fxgraph import FXGraph, FxNode
from teeny_compiler.optimise import hints

DTYPES = (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, f8e4m3, f8e5m2)
NUMBER = {dtype: number for number, dtype in enumerate(DTYPES)}
BOOL = NUMBER[bool_]

LOW = -1e9
"""A score that is no larger makes nothing of its key beside one of usual size."""

CAUSAL, SAFE = 1, 2
"""Flags of attention."""

T = TypeVar("T", bound=Hashable)
Vector = tuple[int, ...]
Key = tuple[str, Attrs]


class Interned(Generic[T]):
    """Values numbered in the order in which they are met."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def number(self, value: T) -> int:
        """Return the number of a value, a new one if it is new."""
        if value not in self._numbers:
            self._numbers[value] = len(self.values)
            self.values.append(value)
        return self._numbers[value]


@dataclass
class Facts:
    """The rows of each relation, and the tables behind the numbers in them."""

    rows: dict[str, list[tuple[int | str, ...]]] = field(default_factory=lambda: defaultdict(list))
    keys: Interned[Key] = field(default_factory=Interned)
    dims: Interned[Expr] = field(default_factory=Interned)
    vectors: Interned[Vector] = field(default_factory=Interned)

    def dim(self, dim: Dim) -> int:
        """Return a dimension as egglog sees it."""
        return -1 - self.dims.number(dim) if isinstance(dim, Expr) else dim

    def real_dim(self, number: int) -> Dim:
        """Return the dimension behind a number."""
        return number if number >= 0 else self.dims.values[-1 - number]

    def signature(self, kind: TensorType) -> Vector:
        """Return the vector of a type."""
        return (NUMBER[kind.dtype], *map(self.dim, kind.shape))

    def real_type(self, signature: Vector) -> TensorType:
        """Return the type behind a vector."""
        return TensorType(tuple(map(self.real_dim, signature[1:])), DTYPES[signature[0]])

    def key(self, number: int) -> Key:
        """Return the op and attributes behind a number."""
        return self.keys.values[number]


def encode(graph: FXGraph, frozen: Set[int] = frozenset()) -> Facts:
    """Return the facts of a graph; `frozen` parameters never change."""
    facts = Facts()
    extra = len(graph.nodes)
    for number, node in enumerate(graph.nodes):
        signature = facts.vectors.number(facts.signature(node.type))
        facts.rows["sig"].append((number, signature))
        extra = _encode_node(facts, graph, number, extra)
        if number in frozen or is_fixed(node):
            facts.rows["frozen"].append((number,))
    _hints(facts, graph)
    return facts


def _hints(facts: Facts, graph: FXGraph) -> None:
    """Say what rules ask of constants that recognise attention; it is made of products."""
    if not any(node.op == "matmul" for node in graph.nodes):
        return
    products = hints.products(hints.factors(graph))
    facts.rows["times"] += [(bits(a), bits(b), bits(c)) for a, b, c in products]
    for number, node in enumerate(graph.nodes):
        mask = hints.triangle(node.attrs["data"].array) if node.op == "array" else None
        if mask is not None:
            facts.rows[mask].append((number,))


def is_fixed(node: FxNode) -> bool:
    """Whether a leaf has one value for ever, known when the graph is compiled."""
    if node.op in ("constant", "array"):
        return True
    return node.op == "iota" and not symbols_of(node.shape)


def _encode_node(facts: Facts, graph: FXGraph, number: int, extra: int) -> int:
    node = graph.nodes[number]
    rows, inputs = facts.rows, node.inputs
    elementwise = "elementwise" in ops.get(node.op).traits and not node.attrs
    match node.op:
        case "input":
            rows["in"].append((number,))
        case "constant":
            rows["k"].append((number, NUMBER[node.dtype], bits(node.attrs["value"])))
            _constant_facts(facts, number, node)
        case "where":
            rows["sel"].append((number, *inputs))
        case "cast":
            rows["cast"].append((number, NUMBER[node.dtype], *inputs))
        case "reshape" | "broadcast_to":
            vector = facts.vectors.number(facts.signature(node.type))
            rows[MOVES[node.op]].append((number, *inputs, vector))
        case "permute":
            vector = facts.vectors.number(tuple(node.attrs["axes"]))
            rows["tr"].append((number, *inputs, vector))
        case "matmul":
            flags = (int(node.attrs["transpose_a"]), int(node.attrs["transpose_b"]))
            rows["mm"].append((number, *flags, *inputs))
        case "attention":
            causal, safe = node.attrs["causal"], node.attrs["safe"]
            flags = CAUSAL * causal + SAFE * safe
            if len(inputs) == 3:
                rows["nil"].append((extra,))
                inputs = (*inputs, extra)
                extra += 1
            rows["att"].append((number, flags, bits(node.attrs["scale"]), *inputs))
        case "conv2d":
            rows["conv"].append((number, facts.keys.number((node.op, node.attrs)), *inputs))
        case _ if elementwise and len(inputs) <= 2:
            rows["un" if len(inputs) == 1 else "bin"].append((number, node.op, *inputs))
        case _:
            key = facts.keys.number((node.op, node.attrs))
            if len(inputs) > 2:
                rows["nil"].append((extra,))
                for operand in reversed(inputs):
                    rows["cons"].append((extra + 1, operand, extra))
                    extra += 1
                inputs = (extra,)
                extra += 1
            rows[f"op{len(inputs)}"].append((number, key, *inputs))
            _key_facts(facts, key, node)
    return extra


MOVES = {"reshape": "rs", "broadcast_to": "bc"}


def _key_facts(facts: Facts, key: int, node: FxNode) -> None:
    """Say what rules ask of ops that they know only by the number of their attributes."""
    axes = node.attrs.get("axes", ())
    if node.op in ("sum", "max") and len(axes) == 1:
        facts.rows["folds"].append((key, node.op, *axes))
    if node.op == "iota":
        counted = _counted(len(node.shape), node.attrs["axis"])
        facts.rows["counts"].append((key, counted))


def _counted(rank: int, axis: int) -> str:
    """What an iota counts."""
    if rank == 1:
        return "line"
    return {1: "column", 2: "row"}.get(rank - axis, "matrix")


# --- constants ----------------------------------------------------------------------------------


def bits(value: bool | int | float) -> int:
    """Return a constant as an i64: for floats the bits of the double, so that -0 is not 0."""
    if isinstance(value, float):
        return int.from_bytes(struct.pack("<d", value), "little", signed=True)
    return int(value) if value < 1 << 63 else value - (1 << 64)


def value_of(number: int, dtype: DType) -> bool | int | float:
    """Return the constant behind its bits."""
    if dtype.is_float:
        (value,) = struct.unpack("<d", number.to_bytes(8, "little", signed=True))
        return float(value)
    if dtype.is_bool:
        return bool(number)
    return number if dtype.is_signed or number >= 0 else number + (1 << 64)


def _constant_facts(facts: Facts, number: int, node: FxNode) -> None:
    value, dtype = node.attrs["value"], node.dtype
    for op, neutral in neutral_elements(dtype).items():
        if bits(value) == bits(neutral):
            facts.rows["neutral"].append((op, number))
    if dtype.is_float and value == -math.inf:
        facts.rows["hides"].append((number,))
    if dtype.is_float and math.isfinite(value) and value:
        facts.rows["quotient"].append((number, bits(1 / value)))
    if dtype.is_float and math.isfinite(value) and value <= LOW:
        facts.rows["nearly_hides"].append((number,))
    if not dtype.is_bool and value == 0:
        facts.rows["null"].append((number,))
    if dtype.is_int and value == 0:
        facts.rows["integer_null"].append((number,))
    inverse = exact_inverse(value, dtype) if dtype.is_float else None
    if inverse is not None:
        facts.rows["inverse"].append((number, NUMBER[dtype], bits(inverse)))


def neutral_elements(dtype: DType) -> dict[str, bool | int | float]:
    """Return for ops the right operand that changes nothing, not even the sign of a zero."""
    if dtype.is_bool:
        return {"logical_and": True, "logical_or": False, "logical_xor": False}
    if dtype.is_float:
        extremes = {"maximum": -math.inf, "minimum": math.inf}
        return {"add": -0.0, "sub": 0.0, "mul": 1.0, "div": 1.0, "pow": 1.0, **extremes}
    zeros = dict.fromkeys(("add", "sub", "bitwise_or", "bitwise_xor", "shl", "shr"), 0)
    ones = dict.fromkeys(("mul", "floordiv", "pow"), 1)
    every_bit = -1 if dtype.is_signed else int(dtype.max)
    extremes = {"maximum": dtype.min, "minimum": dtype.max}
    return {**zeros, **ones, "bitwise_and": every_bit, **extremes}


def exact_inverse(value: float, dtype: DType) -> float | None:
    """Return 1/value where both are normal powers of two of a type, so that it is exact."""
    if not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5:
        return None
    inverse = 1 / Fraction(value)
    with_margin = Fraction(dtype.max) / 2
    if not 1 / with_margin <= abs(inverse) <= with_margin:
        return None
    if not 1 / with_margin <= abs(Fraction(value)) <= with_margin:
        return None
    return float(inverse)


def lossless_casts() -> list[tuple[int, int]]:
    """Return the pairs (a, b) of dtypes where each value of a is one of b."""
    pairs = [(a, b) for a in DTYPES for b in DTYPES if a != b and _holds(b, a)]
    return [(NUMBER[a], NUMBER[b]) for a, b in pairs]


_PRECISION = {f16: 11, bf16: 8, f32: 24, f64: 53}
"""Bits of the significand."""


def _holds(wide: DType, narrow: DType) -> bool:
    if narrow.is_bool:
        return wide.is_int or wide in _PRECISION
    if narrow.is_int and wide.is_int:
        return wide.min <= narrow.min and narrow.max <= wide.max
    if narrow.is_int and wide in _PRECISION:
        return narrow.bits - narrow.is_signed <= _PRECISION[wide] and narrow.bits <= wide.bits
    return narrow in _PRECISION and wide in (f32, f64) and narrow.bits < wide.bits
