"""Elementwise operations: each result from the operands at the same place.

Derivatives are those of PyTorch, at ties and at NaN too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from teeny_core import shape as shapes
from teeny_core.dtype import DType, bool_
from teeny_core.errors import DTypeError, ShapeError
from teeny_core.graph import Node, apply
from teeny_core.op import Array, Attrs, OpDef, TensorType, fail, register
from teeny_core.ops._define import (
    ANY,
    BITS,
    BOOLS,
    FLOATS,
    INTS,
    NUMBERS,
    Binary,
    Unary,
    binary,
    unary,
)
from teeny_core.ops.convert import convert
from teeny_core.ops.leaf import like

# --- functions that NumPy lacks or that the policy defines otherwise ----------------------------

_erf = np.frompyfunc(math.erf, 1, 1)


def _erf_array(x: Array) -> Array:
    return np.asarray(_erf(x)).astype(np.float64)


def _sigmoid(x: Array) -> Array:
    """1/(1 + exp(-x)) without overflow on either side."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _relu(x: Array) -> Array:
    return np.where(x <= 0, np.zeros((), x.dtype), x)


def _power(x: Array, y: Array) -> Array:
    return np.power(x, y) if x.dtype.kind == "f" else _integer_power(x, y)


def _integer_power(x: Array, y: Array) -> Array:
    """x**y, wrapping; for y < 0 the exact value rounded towards zero (0 for x = 0), as PyTorch."""
    bases = [np.ones_like(x), x]
    exponent = np.maximum(y, np.zeros_like(y))
    result, base = bases
    while exponent.any():
        result = np.where(exponent & 1, result * base, result)
        base = base * base
        exponent = exponent >> 1
    if y.dtype.kind == "u":
        return result
    odd = (y & 1) == 1
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(odd, -1, 1), 0))
    return np.where(y < 0, inverse, result).astype(x.dtype)


# --- unary --------------------------------------------------------------------------------------


def _no_gradient(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (None,) * len(node.inputs)


def _tan_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (mul(g, add(mul(node, node), like(node, 1))),)


def _tanh_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (mul(g, sub(like(node, 1), mul(node, node))),)


def _sigmoid_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (mul(g, mul(node, sub(like(node, 1), node))),)


def _erf_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x = node.inputs[0]
    slope = mul(exp(neg(mul(x, x))), like(x, 2 / math.sqrt(math.pi)))
    return (mul(g, slope),)


def _relu_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (where(le(node, like(node, 0)), like(g, 0), g),)


def _sqrt_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (div(g, mul(node, like(node, 2))),)


def _rsqrt_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    cubed = mul(mul(node, node), node)
    return (mul(g, mul(cubed, like(node, -0.5))),)


def _log2_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x = node.inputs[0]
    return (div(g, mul(x, like(x, math.log(2)))),)


neg: Unary = unary("neg", np.negative, NUMBERS, lambda node, g: (neg(g),), traits=("involution",))
abs_: Unary = unary(
    "abs",
    np.abs,
    NUMBERS,
    lambda node, g: (mul(g, sign(node.inputs[0])),),
    traits=("idempotent",),
)
sign: Unary = unary("sign", np.sign, NUMBERS, _no_gradient, traits=("idempotent",))
relu: Unary = unary("relu", _relu, NUMBERS, _relu_vjp, traits=("idempotent", "monotone"))
floor: Unary = unary("floor", np.floor, FLOATS, _no_gradient, traits=("idempotent", "monotone"))
ceil: Unary = unary("ceil", np.ceil, FLOATS, _no_gradient, traits=("idempotent", "monotone"))
round_: Unary = unary("round", np.rint, FLOATS, _no_gradient, traits=("idempotent", "monotone"))
trunc: Unary = unary("trunc", np.trunc, FLOATS, _no_gradient, traits=("idempotent", "monotone"))

exp: Unary = unary("exp", np.exp, FLOATS, lambda node, g: (mul(g, node),), precise=True)
exp2: Unary = unary(
    "exp2",
    np.exp2,
    FLOATS,
    lambda node, g: (mul(g, mul(node, like(node, math.log(2)))),),
    precise=True,
)
expm1: Unary = unary(
    "expm1", np.expm1, FLOATS, lambda node, g: (mul(g, add(node, like(node, 1))),), precise=True
)
log: Unary = unary("log", np.log, FLOATS, lambda node, g: (div(g, node.inputs[0]),), precise=True)
log2: Unary = unary("log2", np.log2, FLOATS, _log2_vjp, precise=True)
log1p: Unary = unary(
    "log1p",
    np.log1p,
    FLOATS,
    lambda node, g: (div(g, add(node.inputs[0], like(node, 1))),),
    precise=True,
)
sqrt: Unary = unary("sqrt", np.sqrt, FLOATS, _sqrt_vjp)
rsqrt: Unary = unary("rsqrt", lambda x: 1 / np.sqrt(x), FLOATS, _rsqrt_vjp, precise=True)
reciprocal: Unary = unary(
    "reciprocal",
    lambda x: 1 / x,
    FLOATS,
    lambda node, g: (neg(mul(g, mul(node, node))),),
)
sin: Unary = unary(
    "sin", np.sin, FLOATS, lambda node, g: (mul(g, cos(node.inputs[0])),), precise=True
)
cos: Unary = unary(
    "cos", np.cos, FLOATS, lambda node, g: (neg(mul(g, sin(node.inputs[0]))),), precise=True
)
tan: Unary = unary("tan", np.tan, FLOATS, _tan_vjp, precise=True)
tanh: Unary = unary("tanh", np.tanh, FLOATS, _tanh_vjp, precise=True)
sigmoid: Unary = unary("sigmoid", _sigmoid, FLOATS, _sigmoid_vjp, precise=True)
erf: Unary = unary("erf", _erf_array, FLOATS, _erf_vjp, precise=True)

isnan: Unary = unary("isnan", np.isnan, FLOATS, result=bool_)
isinf: Unary = unary("isinf", np.isinf, FLOATS, result=bool_)
logical_not: Unary = unary("logical_not", np.logical_not, BOOLS, traits=("involution",))
bitwise_not: Unary = unary("bitwise_not", np.invert, BITS, traits=("involution",))


# --- binary -------------------------------------------------------------------------------------


def _mul_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x, y = node.inputs
    return mul(g, y), mul(g, x)


def _div_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    y = node.inputs[1]
    return div(g, y), neg(mul(g, div(node, y)))


def _mod_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x, y = node.inputs
    return g, neg(mul(g, floordiv(x, y)))


def _pow_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x, y = node.inputs
    zero, one = like(x, 0), like(x, 1)
    slope = mul(y, pow_(x, sub(y, one)))
    by_base = where(eq(y, zero), zero, mul(g, slope))
    flat = logical_and(eq(x, zero), ge(y, zero))
    by_exponent = where(flat, zero, mul(g, mul(node, log(x))))
    return by_base, by_exponent


def _maximum_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x, y = node.inputs
    return _share(g, lt(x, y), eq(x, y)), _share(g, lt(y, x), eq(x, y))


def _minimum_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x, y = node.inputs
    return _share(g, gt(x, y), eq(x, y)), _share(g, gt(y, x), eq(x, y))


def _share(g: Node, loses: Node, ties: Node) -> Node:
    half = mul(g, like(g, 0.5))
    return where(loses, like(g, 0), where(ties, half, g))


_COMMUTES = ("commutative", "associative")
_COMPARES = ("comparison",)

add: Binary = binary("add", np.add, NUMBERS, lambda node, g: (g, g), traits=_COMMUTES)
sub: Binary = binary("sub", np.subtract, NUMBERS, lambda node, g: (g, neg(g)))
mul: Binary = binary("mul", np.multiply, NUMBERS, _mul_vjp, traits=_COMMUTES)
div: Binary = binary("div", np.true_divide, FLOATS, _div_vjp)
# Integers divided by 0 give 0, the remainder too; the smallest one divided by -1 wraps.
floordiv: Binary = binary("floordiv", np.floor_divide, NUMBERS, _no_gradient)
mod: Binary = binary("mod", np.mod, NUMBERS, _mod_vjp)
pow_: Binary = binary("pow", _power, NUMBERS, _pow_vjp, precise=True)
maximum: Binary = binary(
    "maximum", np.maximum, NUMBERS, _maximum_vjp, traits=(*_COMMUTES, "idempotent", "monotone")
)
minimum: Binary = binary(
    "minimum", np.minimum, NUMBERS, _minimum_vjp, traits=(*_COMMUTES, "idempotent", "monotone")
)
logical_and: Binary = binary(
    "logical_and", np.logical_and, BOOLS, traits=(*_COMMUTES, "idempotent")
)
logical_or: Binary = binary("logical_or", np.logical_or, BOOLS, traits=(*_COMMUTES, "idempotent"))
logical_xor: Binary = binary("logical_xor", np.logical_xor, BOOLS, traits=_COMMUTES)
bitwise_and: Binary = binary("bitwise_and", np.bitwise_and, BITS, traits=(*_COMMUTES, "idempotent"))
bitwise_or: Binary = binary("bitwise_or", np.bitwise_or, BITS, traits=(*_COMMUTES, "idempotent"))
bitwise_xor: Binary = binary("bitwise_xor", np.bitwise_xor, BITS, traits=_COMMUTES)
# Shifts by less than 0 or by the width and more give what all bits shifted out leave.
shl: Binary = binary("shl", np.left_shift, INTS)
shr: Binary = binary("shr", np.right_shift, INTS)

eq: Binary = binary("eq", np.equal, ANY, traits=("commutative", *_COMPARES), result=bool_)
ne: Binary = binary("ne", np.not_equal, ANY, traits=("commutative", *_COMPARES), result=bool_)
lt: Binary = binary("lt", np.less, NUMBERS, traits=_COMPARES, result=bool_)
le: Binary = binary("le", np.less_equal, NUMBERS, traits=_COMPARES, result=bool_)
gt: Binary = binary("gt", np.greater, NUMBERS, traits=_COMPARES, result=bool_)
ge: Binary = binary("ge", np.greater_equal, NUMBERS, traits=_COMPARES, result=bool_)


# --- others -------------------------------------------------------------------------------------


def where(cond: Node, x: Node, y: Node) -> Node:
    """Make x where `cond` is true, else y; the one not chosen does not reach the result."""
    return apply("where", cond, x, y)


def cast(x: Node, dtype: DType) -> Node:
    """Make the values of x as `dtype`: to nearest even, floats to integers saturating."""
    return apply("cast", x, dtype=dtype)


def bitcast(x: Node, dtype: DType) -> Node:
    """Make the bits of x read as `dtype`, a type of the same width."""
    return apply("bitcast", x, dtype=dtype)


def stop_gradient(x: Node) -> Node:
    """Make x, through which no gradient flows."""
    return apply("stop_gradient", x)


def _infer_where(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    cond, x, y = inputs
    if cond.dtype != bool_:
        fail(DTypeError, "where", inputs, f"the condition is {cond.dtype}", "compare: cond != 0")
    if x.dtype != y.dtype:
        fail(DTypeError, "where", inputs, "choices of different types", "cast one of them")
    if not (shapes.same(cond.shape, x.shape) and shapes.same(x.shape, y.shape)):
        fail(ShapeError, "where", inputs, "operands of different shapes", "broadcast_to one shape")
    return x


def _where(attrs: Attrs, cond: Array, x: Array, y: Array) -> Array:
    return np.where(cond, x, y)


def _where_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    cond = node.inputs[0]
    zero = like(g, 0)
    return None, where(cond, g, zero), where(cond, zero, g)


def _infer_cast(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    return TensorType(inputs[0].shape, attrs["dtype"])


def _infer_bitcast(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    source, target = inputs[0].dtype, attrs["dtype"]
    if source.bits != target.bits or source.is_bool or target.is_bool:
        fail(
            DTypeError,
            "bitcast",
            inputs,
            f"cannot read {source} as {target}",
            "the types are of one width, and none is bool",
        )
    return TensorType(inputs[0].shape, target)


def _bitcast(attrs: Attrs, x: Array) -> Array:
    target: Any = attrs["dtype"].numpy
    return np.ascontiguousarray(x).reshape(x.shape).view(target)


_ELEMENTWISE = frozenset({"elementwise"})

for _definition in (
    OpDef(
        "where",
        _infer_where,
        _where,
        _where_vjp,
        _ELEMENTWISE,
        3,
    ),
    OpDef(
        "cast",
        _infer_cast,
        lambda attrs, x: convert(x, attrs["dtype"]),
        lambda node, g: (cast(g, node.inputs[0].dtype),),
        _ELEMENTWISE,
        1,
        ("dtype",),
    ),
    OpDef("bitcast", _infer_bitcast, _bitcast, None, _ELEMENTWISE, 1, ("dtype",)),
    OpDef(
        "stop_gradient",
        lambda inputs, attrs: inputs[0],
        lambda attrs, x: x,
        _no_gradient,
        _ELEMENTWISE,
        1,
    ),
):
    register(_definition)
