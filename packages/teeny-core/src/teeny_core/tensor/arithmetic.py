"""Operators and elementwise functions of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from teeny_core import ops
from teeny_core.dtype import DTypeLike, bool_, u8
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import DTypeError
from teeny_core.graph import Node
from teeny_core.tensor import core
from teeny_core.tensor.core import Core, Operand

if TYPE_CHECKING:
    from teeny_core.tensor.base import AnyTensor

Make2 = Callable[[Node, Node], Node]


def _on_bools(numbers: Make2, bools: Make2) -> Make2:
    """Sum and product of bools are `or` and `and`."""
    return lambda x, y: bools(x, y) if x.dtype.is_bool else numbers(x, y)


def _ordering(compare: Make2) -> Make2:
    """Order bools as 0 and 1."""
    return lambda x, y: compare(_as_number(x), _as_number(y))


def _as_number(x: Node) -> Node:
    return ops.cast(x, u8) if x.dtype.is_bool else x


def _on_floats(divide: Make2) -> Make2:
    return lambda x, y: divide(core.as_float(x), core.as_float(y))


def _truth(x: Node) -> Node:
    return x if x.dtype.is_bool else ops.cast(x, bool_)


def _on_truth(combine: Make2) -> Make2:
    return lambda x, y: combine(_truth(x), _truth(y))


def _cube(x: Node) -> Node:
    return ops.mul(ops.mul(x, x), x)


_POWERS: dict[float, Callable[[Node], Node]] = {  # those that PyTorch computes apart, too
    2: lambda x: ops.mul(x, x),
    3: _cube,
    0.5: ops.sqrt,
    -0.5: ops.rsqrt,
    -1: ops.reciprocal,
}

_add = _on_bools(ops.add, ops.logical_or)
_mul = _on_bools(ops.mul, ops.logical_and)
_div = _on_floats(ops.div)


class Arithmetic(Core):
    """Operators and elementwise functions."""

    __slots__ = ()
    __array_ufunc__ = None  # let NumPy's operators defer to ours

    # --- operators ----------------------------------------------------------

    def __add__(self, other: Operand) -> AnyTensor:
        return self._binary(other, _add)

    def __radd__(self, other: Operand) -> AnyTensor:
        return self._binary(other, _add, swap=True)

    def __sub__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.sub)

    def __rsub__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.sub, swap=True)

    def __mul__(self, other: Operand) -> AnyTensor:
        return self._binary(other, _mul)

    def __rmul__(self, other: Operand) -> AnyTensor:
        return self._binary(other, _mul, swap=True)

    def __truediv__(self, other: Operand) -> AnyTensor:
        return self._binary(other, _div)

    def __rtruediv__(self, other: Operand) -> AnyTensor:
        return self._binary(other, _div, swap=True)

    def __floordiv__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.floordiv)

    def __rfloordiv__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.floordiv, swap=True)

    def __mod__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.mod)

    def __rmod__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.mod, swap=True)

    def __pow__(self, other: Operand) -> AnyTensor:
        special = _POWERS.get(other) if isinstance(other, int | float) else None
        if special is not None and self.dtype.is_float:
            return self._unary(special)
        return self._binary(other, ops.pow)

    def __rpow__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.pow, swap=True)

    def __and__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.bitwise_and)

    def __rand__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.bitwise_and, swap=True)

    def __or__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.bitwise_or)

    def __ror__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.bitwise_or, swap=True)

    def __xor__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.bitwise_xor)

    def __rxor__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.bitwise_xor, swap=True)

    def __lshift__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.shl)

    def __rlshift__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.shl, swap=True)

    def __rshift__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.shr)

    def __rrshift__(self, other: Operand) -> AnyTensor:
        return self._binary(other, ops.shr, swap=True)

    def __neg__(self) -> AnyTensor:
        return self._unary(ops.neg)

    def __pos__(self) -> AnyTensor:
        return self._wrap(self._node)

    def __abs__(self) -> AnyTensor:
        return self._unary(ops.abs)

    def __invert__(self) -> AnyTensor:
        return self._unary(ops.bitwise_not)

    def __eq__(self, other: Operand) -> AnyTensor:  # type: ignore[override]
        return self._binary(other, ops.eq)

    def __ne__(self, other: Operand) -> AnyTensor:  # type: ignore[override]
        return self._binary(other, ops.ne)

    def __lt__(self, other: Operand) -> AnyTensor:
        return self._binary(other, _ordering(ops.lt))

    def __le__(self, other: Operand) -> AnyTensor:
        return self._binary(other, _ordering(ops.le))

    def __gt__(self, other: Operand) -> AnyTensor:
        return self._binary(other, _ordering(ops.gt))

    def __ge__(self, other: Operand) -> AnyTensor:
        return self._binary(other, _ordering(ops.ge))

    __hash__ = object.__hash__

    # --- functions of two operands ------------------------------------------

    def maximum(self, other: Operand) -> AnyTensor:
        """Return the larger of both at each place; NaN where one is NaN."""
        return self._binary(other, _on_bools(ops.maximum, ops.logical_or))

    def minimum(self, other: Operand) -> AnyTensor:
        """Return the smaller of both at each place; NaN where one is NaN."""
        return self._binary(other, _on_bools(ops.minimum, ops.logical_and))

    def pow(self, other: Operand) -> AnyTensor:
        """Return x to the power of `other`."""
        return self**other

    def logical_and(self, other: Operand) -> AnyTensor:
        """Return where both are not zero (bool)."""
        return self._binary(other, _on_truth(ops.logical_and))

    def logical_or(self, other: Operand) -> AnyTensor:
        """Return where at least one is not zero (bool)."""
        return self._binary(other, _on_truth(ops.logical_or))

    def logical_xor(self, other: Operand) -> AnyTensor:
        """Return where exactly one is not zero (bool)."""
        return self._binary(other, _on_truth(ops.logical_xor))

    def logical_not(self) -> AnyTensor:
        """Return where the value is zero (bool)."""
        return self._wrap(ops.logical_not(_truth(self._node)))

    # --- functions of one operand -------------------------------------------

    def abs(self) -> AnyTensor:
        """Return the absolute value."""
        return self._unary(ops.abs)

    def neg(self) -> AnyTensor:
        """Return the negative."""
        return self._unary(ops.neg)

    def sign(self) -> AnyTensor:
        """Return -1, 0 or 1 by the sign; NaN for NaN."""
        return self._unary(ops.sign)

    def square(self) -> AnyTensor:
        """Return x*x."""
        return self._wrap(ops.mul(self._node, self._node))

    def exp(self) -> AnyTensor:
        """Return e to the power of x."""
        return self._float_unary(ops.exp)

    def exp2(self) -> AnyTensor:
        """Return 2 to the power of x."""
        return self._float_unary(ops.exp2)

    def expm1(self) -> AnyTensor:
        """Return exp(x) - 1, exact near 0."""
        return self._float_unary(ops.expm1)

    def log(self) -> AnyTensor:
        """Return the natural logarithm."""
        return self._float_unary(ops.log)

    def log2(self) -> AnyTensor:
        """Return the logarithm to base 2."""
        return self._float_unary(ops.log2)

    def log10(self) -> AnyTensor:
        """Return the logarithm to base 10."""
        return self.log() * (1 / math.log(10))

    def log1p(self) -> AnyTensor:
        """Return log(1 + x), exact near 0."""
        return self._float_unary(ops.log1p)

    def sqrt(self) -> AnyTensor:
        """Return the square root."""
        return self._float_unary(ops.sqrt)

    def rsqrt(self) -> AnyTensor:
        """Return 1/sqrt(x)."""
        return self._float_unary(ops.rsqrt)

    def reciprocal(self) -> AnyTensor:
        """Return 1/x."""
        return self._float_unary(ops.reciprocal)

    def sin(self) -> AnyTensor:
        """Return the sine."""
        return self._float_unary(ops.sin)

    def cos(self) -> AnyTensor:
        """Return the cosine."""
        return self._float_unary(ops.cos)

    def tan(self) -> AnyTensor:
        """Return the tangent."""
        return self._float_unary(ops.tan)

    def tanh(self) -> AnyTensor:
        """Return the hyperbolic tangent."""
        return self._float_unary(ops.tanh)

    def sigmoid(self) -> AnyTensor:
        """Return 1/(1 + exp(-x))."""
        return self._float_unary(ops.sigmoid)

    def erf(self) -> AnyTensor:
        """Return the error function."""
        return self._float_unary(ops.erf)

    def floor(self) -> AnyTensor:
        """Return the next integer below or at x."""
        return self._rounded(ops.floor)

    def ceil(self) -> AnyTensor:
        """Return the next integer above or at x."""
        return self._rounded(ops.ceil)

    def round(self) -> AnyTensor:
        """Return the nearest integer, the even one at ties."""
        return self._rounded(ops.round)

    def trunc(self) -> AnyTensor:
        """Return the next integer towards zero."""
        return self._rounded(ops.trunc)

    def _rounded(self, make: Callable[[Node], Node]) -> AnyTensor:
        return self._wrap(make(self._node) if self.dtype.is_float else self._node)

    def isnan(self) -> AnyTensor:
        """Return where the value is NaN (bool)."""
        return self._classified(ops.isnan)

    def isinf(self) -> AnyTensor:
        """Return where the value is infinite (bool)."""
        return self._classified(ops.isinf)

    def isfinite(self) -> AnyTensor:
        """Return where the value is neither infinite nor NaN (bool)."""
        return ~(self.isnan() | self.isinf())

    def _classified(self, make: Callable[[Node], Node]) -> AnyTensor:
        is_float = self.dtype.is_float
        return self._wrap(make(self._node) if is_float else ops.full(self.shape, False, bool_))

    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> AnyTensor:
        """Return x limited to [min, max]; NaN stays NaN, and `max` wins where they cross.

        Raises:
            DTypeError: when both limits are missing.
        """
        if min is None and max is None:
            raise DTypeError("clamp got neither min nor max", hint="pass one of them")
        raised = self._wrap(self._node) if min is None else self.maximum(min)
        return raised if max is None else raised.minimum(max)

    # --- types --------------------------------------------------------------

    def cast(self, dtype: DTypeLike) -> AnyTensor:
        """Return x as another element type: to nearest even, floats to integers saturating."""
        return self._wrap(core.cast(self._node, to_dtype(dtype)))

    def to(self, dtype: DTypeLike) -> AnyTensor:
        """Return `cast(dtype)`."""
        return self.cast(dtype)

    def bitcast(self, dtype: DTypeLike) -> AnyTensor:
        """Return the bits of x read as an element type of the same width."""
        return self._wrap(ops.bitcast(self._node, to_dtype(dtype)))

    def stop_gradient(self) -> AnyTensor:
        """Return x, through which no gradient flows."""
        return self._unary(ops.stop_gradient)

    def detach(self) -> AnyTensor:
        """Return x, through which no gradient flows."""
        return self.stop_gradient()

    # --- choosing -----------------------------------------------------------

    def where(self, x: Operand, y: Operand) -> AnyTensor:
        """Return x where this is not zero, else y."""
        left, right = self._operand(x), self._operand(y)
        chosen, other = core.meet(left, right)
        shape = core.broadcast_shapes(self.shape, chosen.shape)
        cond, chosen, other = (
            core.expand(node, shape) for node in (_truth(self._node), chosen, other)
        )
        return self._result(ops.where(cond, chosen, other), left, right)

    def masked_fill(self, mask: AnyTensor, value: Operand) -> AnyTensor:
        """Return x with `value` where `mask` is not zero; `value` does not change the type."""
        return mask.where(value, self._wrap(self._node)).cast(self.dtype)
