"""Functions of the language that are methods of tiles too: `x.cumsum(0)` is `tl.cumsum(x, 0)`."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teeny_triton.language.combination import Combine
    from teeny_triton.language.tile import DTypeLike, Operand, Tile


def _language() -> ModuleType:
    """The functions, which are built on tiles and so cannot be imported before them."""
    import teeny_triton.language as tl

    return tl


class Methods:
    """What a tile can do along its axes; each method is documented at the function of its name."""

    __slots__ = ()

    def sum(
        self, axis: int | None = None, keep_dims: bool = False, dtype: DTypeLike | None = None
    ) -> Tile:
        """Sum over an axis, or over all."""
        return _tile(_language().sum(self, axis, keep_dims, dtype))

    def prod(self, axis: int | None = None, keep_dims: bool = False) -> Tile:
        """Multiply over an axis, or over all."""
        return _tile(_language().prod(self, axis, keep_dims))

    def max(
        self,
        axis: int | None = None,
        return_indices: bool = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> Any:
        """Take the largest over an axis, or over all; NaN propagates."""
        tie = return_indices_tie_break_left
        return _language().max(self, axis, return_indices, tie, keep_dims)

    def min(
        self,
        axis: int | None = None,
        return_indices: bool = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> Any:
        """Take the smallest over an axis, or over all; NaN propagates."""
        tie = return_indices_tie_break_left
        return _language().min(self, axis, return_indices, tie, keep_dims)

    def argmax(
        self, axis: int | None = None, tie_break_left: bool = True, keep_dims: bool = False
    ) -> Tile:
        """Find the largest over an axis."""
        return _tile(_language().argmax(self, axis, tie_break_left, keep_dims))

    def argmin(
        self, axis: int | None = None, tie_break_left: bool = True, keep_dims: bool = False
    ) -> Tile:
        """Find the smallest over an axis."""
        return _tile(_language().argmin(self, axis, tie_break_left, keep_dims))

    def xor_sum(self, axis: int | None = None, keep_dims: bool = False) -> Tile:
        """Exclusive or over an axis, or over all."""
        return _tile(_language().xor_sum(self, axis, keep_dims))

    def reduce_or(self, axis: int | None = None, keep_dims: bool = False) -> Tile:
        """Bitwise or over an axis, or over all."""
        return _tile(_language().reduce_or(self, axis, keep_dims))

    def reduce(self, axis: int | None, combine_fn: str | Combine, keep_dims: bool = False) -> Tile:
        """Reduce by a kind or by a function of two elements."""
        return _tile(_language().reduce(self, axis, combine_fn, keep_dims))

    def associative_scan(self, axis: int, combine_fn: Combine, reverse: bool = False) -> Tile:
        """Combine every element with those before it."""
        return _tile(_language().associative_scan(self, axis, combine_fn, reverse))

    def cumsum(self, axis: int = 0, reverse: bool = False, dtype: DTypeLike | None = None) -> Tile:
        """Sum every element and those before it."""
        return _tile(_language().cumsum(self, axis, reverse, dtype))

    def cumprod(self, axis: int = 0, reverse: bool = False, dtype: DTypeLike | None = None) -> Tile:
        """Multiply every element and those before it."""
        return _tile(_language().cumprod(self, axis, reverse, dtype))

    def sort(self, dim: int | None = None, descending: bool = False) -> Tile:
        """Sort along an axis."""
        return _tile(_language().sort(self, dim, descending))

    def topk(self, k: int, dim: int | None = None, descending: bool = True) -> Tile:
        """Take the largest elements along an axis."""
        return _tile(_language().topk(self, k, dim, descending))

    def flip(self, dim: int | None = None) -> Tile:
        """Reverse an axis."""
        return _tile(_language().flip(self, dim))

    def gather(self, index: Operand, axis: int) -> Tile:
        """Look elements up along an axis."""
        return _tile(_language().gather(self, index, axis))

    def histogram(self, num_bins: int, mask: Operand | None = None) -> Tile:
        """Count the elements 0, 1, ..."""
        return _tile(_language().histogram(self, num_bins, mask))

    def ravel(self) -> Tile:
        """Return the elements as one axis."""
        return _tile(_language().ravel(self))

    def split(self) -> tuple[Tile, Tile]:
        """Take apart the last axis, of extent 2."""
        first, second = _language().split(self)
        return _tile(first), _tile(second)


class Functions:
    """What a tile can do elementwise; each method is documented at the function of its name."""

    __slots__ = ()

    def abs(self) -> Tile:
        """Magnitude."""
        return _tile(_language().abs(self))

    def exp(self) -> Tile:
        """e to the power of this."""
        return _tile(_language().exp(self))

    def exp2(self) -> Tile:
        """2 to the power of this."""
        return _tile(_language().exp2(self))

    def log(self) -> Tile:
        """Natural logarithm."""
        return _tile(_language().log(self))

    def log2(self) -> Tile:
        """Logarithm to base 2."""
        return _tile(_language().log2(self))

    def sqrt(self) -> Tile:
        """Square root."""
        return _tile(_language().sqrt(self))

    def sqrt_rn(self) -> Tile:
        """Square root."""
        return _tile(_language().sqrt_rn(self))

    def rsqrt(self) -> Tile:
        """1 / sqrt(this)."""
        return _tile(_language().rsqrt(self))

    def sin(self) -> Tile:
        """Sine."""
        return _tile(_language().sin(self))

    def cos(self) -> Tile:
        """Cosine."""
        return _tile(_language().cos(self))

    def erf(self) -> Tile:
        """Error function."""
        return _tile(_language().erf(self))

    def sigmoid(self) -> Tile:
        """1 / (1 + exp(-this))."""
        return _tile(_language().sigmoid(self))

    def floor(self) -> Tile:
        """Largest whole number not above."""
        return _tile(_language().floor(self))

    def ceil(self) -> Tile:
        """Smallest whole number not below."""
        return _tile(_language().ceil(self))

    def fdiv(self, y: Operand, ieee_rounding: bool = False) -> Tile:
        """Divide."""
        return _tile(_language().fdiv(self, y, ieee_rounding))

    def div_rn(self, y: Operand) -> Tile:
        """Divide."""
        return _tile(_language().div_rn(self, y))

    def cdiv(self, div: Operand) -> Tile:
        """Divide, rounding up."""
        return _tile(_language().cdiv(self, div))

    def fma(self, y: Operand, z: Operand) -> Tile:
        """Multiply and add, rounding once."""
        return _tile(_language().fma(self, y, z))

    def umulhi(self, y: Operand) -> Tile:
        """High half of the unsigned product."""
        return _tile(_language().umulhi(self, y))

    def logical_and(self, other: Operand) -> Tile:
        """Whether both are nonzero."""
        return _tile(_language().logical_and(self, other))

    def logical_or(self, other: Operand) -> Tile:
        """Whether either is nonzero."""
        return _tile(_language().logical_or(self, other))

    def softmax(
        self, dim: int | None = None, keep_dims: bool = False, ieee_rounding: bool = False
    ) -> Tile:
        """exp(this - max) / sum over an axis, the first by default."""
        return _tile(_language().softmax(self, dim, keep_dims, ieee_rounding))


def _tile(x: Any) -> Tile:
    result: Tile = x
    return result
