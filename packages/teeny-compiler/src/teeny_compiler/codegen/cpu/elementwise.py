"""Elementwise ops: arithmetic, comparisons, choices, conversions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from teeny_core import DType, f32, f64
from teeny_triton import semantics
from teeny_triton.ir import COMPARISONS, UNARY, UNARY_FLOAT, Op, Pointer, Type

from teeny_compiler.codegen import math
from teeny_compiler.codegen.arith import floating, integer, narrow
from teeny_compiler.codegen.builder import Operand, constant
from teeny_compiler.codegen.cpu import linear, quotients
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.emitter import EmitOp, Emitter
from teeny_compiler.codegen.cpu.linear import Linear
from teeny_compiler.codegen.cpu.place import root_of
from teeny_compiler.codegen.cpu.predicate import Both, Predicate
from teeny_compiler.codegen.cpu.types import Element, element_constant, is_narrow, register_scalar
from teeny_compiler.codegen.cpu.values import Computed, Index, Lazy, Tile, Uniform, index_of

Compute = Callable[..., Operand]  # of one operand a tile, all of one number of lanes


def apply(e: Emitter, op: Op, compute: Compute) -> None:
    """Define the result of an op by a function of scalars or vectors of its operands."""
    tiles = tuple(map(e.tile, op.operands))
    e.define(op.result, mapped(e.c, op.result.type, tiles, compute, e.is_repeated(op.result)))


def mapped(
    c: Context, kind: Type, tiles: tuple[Tile, ...], compute: Compute, as_items: bool = False
) -> Tile:
    """Apply a function to tiles of equal shapes, at once where they are scalars."""
    if not kind.shape:
        return Uniform((), kind.element, compute(*(tile.item(c, 0) for tile in tiles)))
    return Computed(kind.shape, kind.element, tiles, compute, as_items)


def wide(c: Context, x: Operand, element: Element) -> Operand:
    """Return a narrow float as f32, anything else as it is."""
    if is_narrow(element):
        assert isinstance(element, DType)
        return narrow.widen(c.b, c.target, x, element)
    return x


def rounded(c: Context, x: Operand, element: Element) -> Operand:
    """Round f32 to a narrow float; anything else is as it is."""
    if is_narrow(element):
        assert isinstance(element, DType)
        return narrow.round_to(c.b, c.target, x, element)
    return x


def _float_op(e: Emitter, op: Op, compute: Compute) -> None:
    """Compute in f32 when the elements are narrower."""
    element = op.result.type.element

    def run(*operands: Operand) -> Operand:
        return rounded(e.c, compute(*(wide(e.c, x, element) for x in operands)), element)

    apply(e, op, run)


# -- arithmetic


def unary(e: Emitter, op: Op) -> None:
    """Emit a unary op."""
    element = op.result.type.element
    assert isinstance(element, DType)
    c, opcode = e.c, op.opcode
    if element.is_float:
        if opcode in floating.UNARY:
            _float_op(e, op, lambda x: floating.UNARY[opcode](c.b, c.target, x))
        else:
            _float_op(e, op, lambda x: math.unary(opcode, c.b, c.target, x))
        return
    form = _index(e, op, 0) if opcode == "neg" else None
    if form is not None:
        e.define(op.result, Index(op.result.type.shape, element, -form))
        return
    signed = element.kind == "int"
    apply(e, op, lambda x: integer.UNARY[opcode](c.b, x, signed))


def binary(e: Emitter, op: Op) -> None:
    """Emit a binary op."""
    element = op.result.type.element
    assert isinstance(element, DType)
    c, opcode = e.c, op.opcode
    if element.is_float:
        if opcode == "pow":
            _float_op(e, op, lambda x, y: math.power(c.b, c.target, x, y))
        else:
            _float_op(e, op, lambda x, y: floating.BINARY[opcode](c.b, c.target, x, y))
        return
    if element.is_bool:
        _logic(e, op)
        return
    if element.kind == "int" and element.bits >= 32 and _linear(e, op):
        return
    signed = element.kind == "int"
    if opcode in ("floordiv", "mod"):
        _divide(e, op, signed)
        return
    apply(e, op, lambda x, y: integer.BINARY[opcode](c.b, x, y, signed))


def _logic(e: Emitter, op: Op) -> None:
    if op.opcode == "and":
        a, b = map(e.tile, op.operands)
        e.define(op.result, Both(op.result.type.shape, op.result.type.element, a, b))
    else:
        apply(e, op, lambda x, y: e.c.b.binary(op.opcode, x, y))


def _index(e: Emitter, op: Op, position: int) -> Linear | None:
    """Return a signed operand of at least 32 bits in linear form."""
    element = op.operands[position].type.element
    if not isinstance(element, DType) or element.kind != "int" or element.bits < 32:
        return None
    return index_of(e.c, e.tile(op.operands[position]))


def _linear(e: Emitter, op: Op) -> bool:
    """Keep index arithmetic in linear form; whether that was possible."""
    x, y = _index(e, op, 0), _index(e, op, 1)
    if x is None or y is None:
        return False
    element = op.result.type.element
    assert isinstance(element, DType)
    rule = _LINEAR.get(op.opcode)
    form = rule(e.c, x, y) if rule else None
    if form is None and x.is_static and y.is_static:
        form = _folded(op.opcode, element, x, y)
    if form is None:
        return False
    e.define(op.result, Index(op.result.type.shape, element, form))
    return True


def _folded(opcode: str, element: DType, x: Linear, y: Linear) -> Linear:
    """Compute on elements that are known."""
    operands = (form.values().astype(element.numpy) for form in (x, y))
    values = semantics.elementwise(opcode, *operands).astype(np.int64)
    return linear.static(x.shape, values.reshape(x.shape))


_LINEAR: Mapping[str, Callable[[Context, Linear, Linear], Linear | None]] = {
    "add": lambda c, x, y: x + y,
    "sub": lambda c, x, y: x - y,
    "mul": lambda c, x, y: linear.product(c.b, x, y),
    "floordiv": quotients.floordiv,
    "mod": quotients.mod,
    "shr": quotients.shift_right,
    "and": quotients.low_bits,
}


def _divide(e: Emitter, op: Op, signed: bool) -> None:
    """Divide integers; by unsigned instructions where both operands are known to be positive."""
    c = e.c
    x, y = e.tile(op.operands[0]), e.tile(op.operands[1])
    low = [_least(c, tile) for tile in (x, y)]
    if signed and low[0] >= 0 and low[1] > 0:
        opcode = "udiv" if op.opcode == "floordiv" else "urem"
        a, b = x.uniform(c), y.uniform(c)
        if a is not None and b is not None:
            value = c.b.pure(a.type, f"{opcode} {a}, {b.text}", a, b)
            shape, element = op.result.type.shape, op.result.type.element
            e.define(op.result, Uniform(shape, element, value))
            _remember_bounds(c, op.opcode, value, x, y)
            return
    pieces = c.pieces(op.result.type.shape)
    padded = any(not piece.is_full for piece in pieces)

    def compute(a: Operand, b: Operand) -> Operand:
        if padded and not b.is_constant:
            b = c.b.pure(b.type, f"freeze {b}", b)
        return integer.BINARY[op.opcode](c.b, a, b, signed)

    apply(e, op, compute)


def _least(c: Context, tile: Tile) -> float:
    form = index_of(c, tile)
    return linear.ANY[0] if form is None else linear.bounds(form, c.known)[0]


def _remember_bounds(c: Context, opcode: str, value: Operand, x: Tile, y: Tile) -> None:
    """Note the range of a quotient or remainder of positive numbers."""
    forms = [form for form in (index_of(c, x), index_of(c, y)) if form is not None]
    (_, x_most), (y_least, y_most) = (linear.bounds(form, c.known) for form in forms)
    unbounded = x_most == float("inf")  # and inf // y is NaN
    quotient = x_most if unbounded else x_most // max(y_least, 1)
    most = quotient if opcode == "floordiv" else min(x_most, y_most - 1)
    wide_value = c.b.convert("sext", value, "i64")
    c.known[wide_value] = (0.0, most)


def fma(e: Emitter, op: Op) -> None:
    """Emit `fma`."""
    _float_op(e, op, lambda x, y, z: floating.fused(e.c.b, e.c.target, x, y, z))


# -- comparisons and choices

_FLOAT_RELATION = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


def compare(e: Emitter, op: Op) -> None:
    """Emit a comparison."""
    c, kind = e.c, op.operands[0].type
    x, y = _index(e, op, 0), _index(e, op, 1)
    if x is not None and y is not None:
        e.define(op.result, _predicate(op, x, y))
        return
    element = kind.element
    if isinstance(element, DType) and element.is_float:
        opcode = f"fcmp {_FLOAT_RELATION[op.opcode]}"
    else:
        signed = isinstance(element, DType) and element.kind == "int"
        order = op.opcode if op.opcode in ("eq", "ne") else ("s" if signed else "u") + op.opcode
        opcode = f"icmp {order}"
    apply(e, op, lambda a, b: c.b.compare(opcode, wide(c, a, element), wide(c, b, element)))


def _predicate(op: Op, x: Linear, y: Linear) -> Predicate:
    """Bring a comparison of linear forms to the difference's relation to zero."""
    shape, element = op.result.type.shape, op.result.type.element
    if op.opcode in ("eq", "ne"):
        return Predicate(shape, element, x - y, op.opcode)
    difference = x - y if op.opcode in ("lt", "le") else y - x
    if op.opcode in ("le", "ge"):
        one = linear.static((), np.array(1, np.int64)).splat(shape)
        difference = difference - one
    return Predicate(shape, element, difference, "lt")


def where(e: Emitter, op: Op) -> None:
    """Emit `where`; a whole vector whose condition is known costs nothing."""
    c, kind = e.c, op.result.type
    condition, x, y = map(e.tile, op.operands)
    scalars = [tile.uniform(c) for tile in (condition, x, y)]
    if all(scalar is not None for scalar in scalars):
        value = c.b.select(*scalars)  # type: ignore[arg-type]
        e.define(op.result, Uniform(kind.shape, kind.element, value))
        return
    e.define(op.result, Lazy(kind.shape, kind.element, lambda k: _chosen(c, condition, x, y, k)))


def _chosen(c: Context, condition: Tile, x: Tile, y: Tile, k: int) -> Operand:
    mask = condition.mask(c, k)
    if mask.is_full:
        return x.vector(c, k)
    if mask.is_empty:
        return y.vector(c, k)
    if mask.vector is None and mask.bits is None:
        assert mask.scalar is not None
        return c.b.select(mask.scalar, x.vector(c, k), y.vector(c, k))
    return c.b.select(mask.to_vector(c), x.vector(c, k), y.vector(c, k))


# -- conversions


def cast(e: Emitter, op: Op) -> None:
    """Emit `cast`."""
    source, target = op.operands[0].type.element, op.result.type.element
    assert isinstance(source, DType)
    assert isinstance(target, DType)
    form = _index(e, op, 0)
    if form is not None and target.kind == "int" and target.bits >= 32:
        e.define(op.result, Index(op.result.type.shape, target, form))
        return
    apply(e, op, lambda x: convert(e.c, x, source, target))


def convert(c: Context, x: Operand, source: DType, target: DType) -> Operand:
    """Convert values between element types."""
    b = c.b
    if source == target:
        return x
    if source.is_float:
        x = wide(c, x, source)
        return _from_float(c, x, target)
    scalar = register_scalar(target)
    if target.is_bool:
        return b.compare("icmp ne", x, constant(x.type, 0))
    signed = source.kind == "int"
    if not target.is_float:
        grows = target.bits > source.bits or source.is_bool
        return b.convert(("sext" if signed else "zext") if grows else "trunc", x, scalar)
    if is_narrow(target) and source.bits >= 32:
        return rounded(c, narrow.round_to_odd(b, narrow.double_of(b, x, signed)), target)
    through = "float" if is_narrow(target) else scalar
    return rounded(c, b.convert("sitofp" if signed else "uitofp", x, through), target)


def _from_float(c: Context, x: Operand, target: DType) -> Operand:
    b = c.b
    if target.is_bool:
        return b.compare("fcmp une", x, constant(x.type, 0.0))
    if target.is_int:
        type = x.type.of(register_scalar(target))
        name = "fptosi" if target.kind == "int" else "fptoui"
        return b.call(f"llvm.{name}.sat.{type.suffix}.{x.type.suffix}", type, x)
    if target == f64:
        return b.convert("fpext", x, "double")
    if x.type.scalar == "double":
        if target == f32:
            return b.convert("fptrunc", x, "float")
        x = narrow.round_to_odd(b, x)
    return rounded(c, x, target)


def bitcast(e: Emitter, op: Op) -> None:
    """Emit `bitcast`."""
    source, target = op.operands[0].type.element, op.result.type.element
    scalar = register_scalar(target)
    addresses = isinstance(source, Pointer), isinstance(target, Pointer)
    opcode = {(True, False): "ptrtoint", (False, True): "inttoptr"}.get(addresses, "bitcast")

    def compute(x: Operand) -> Operand:
        if register_scalar(source) == "i1":
            return e.c.b.convert("zext", x, scalar)
        if scalar == "i1":
            return e.c.b.compare("icmp ne", x, constant(x.type, 0))
        return e.c.b.convert(opcode, x, scalar)

    apply(e, op, compute)
    if all(addresses) and not op.result.type.shape:
        pointer = e.tile(op.result).item(e.c, 0)
        e.c.roots.setdefault(pointer, root_of(e.c, e.tile(op.operands[0])))


# -- constants and splats


def const(e: Emitter, op: Op) -> None:
    """Emit `const`."""
    element = op.result.type.element
    assert isinstance(element, DType)
    value = element_constant(element, op.attrs["value"])
    e.define(op.result, Uniform((), element, value))


def splat(e: Emitter, op: Op) -> None:
    """Emit `splat`."""
    kind, tile = op.result.type, e.tile(op.operands[0])
    if isinstance(tile, Index):
        e.define(op.result, Index(kind.shape, kind.element, tile.form.splat(kind.shape)))
    else:
        e.define(op.result, Uniform(kind.shape, kind.element, tile.item(e.c, 0)))


def arange(e: Emitter, op: Op) -> None:
    """Emit `arange`."""
    values = np.arange(op.attrs["start"], op.attrs["end"], dtype=np.int64)
    kind = op.result.type
    e.define(op.result, Index(kind.shape, kind.element, linear.static(kind.shape, values)))


EMITTERS: Mapping[str, EmitOp] = {
    "const": const,
    "splat": splat,
    "arange": arange,
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(UNARY_FLOAT, unary),
    **dict.fromkeys(integer.BINARY, binary),
    **dict.fromkeys(floating.BINARY, binary),
    **dict.fromkeys(COMPARISONS, compare),
    "fma": fma,
    "where": where,
    "cast": cast,
    "bitcast": bitcast,
}
