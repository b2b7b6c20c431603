"""Embedding of integers."""

from __future__ import annotations

from teeny_core.dtype import DTypeLike, f32
from teeny_core.errors import ConfigError, ShapeError
from teeny_core.nn import functional, init
from teeny_core.nn.layer import Layer
from teeny_core.nn.parameter import Parameter
from teeny_core.tensor import AnyTensor, Tensor


class Embedding(Layer[[AnyTensor], AnyTensor]):
    """A row of the weight for each index: integers (...) → (..., embedding_dim).

    The weight (num_embeddings, embedding_dim) starts normal; the row `padding_idx`, where there is
    one, starts as zeros and gets no gradient. An index that does not exist is an error on the
    device `ndarray`; compiled code cannot raise, and gives a row of NaN.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        dtype: DTypeLike = f32,
    ) -> None:
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ShapeError(
                f"padding_idx = {padding_idx} with num_embeddings = {num_embeddings}",
                hint="give the number of a row",
            )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = Parameter(self._initial(), dtype)

    def _initial(self) -> Tensor:
        rows = init.normal((self.num_embeddings, self.embedding_dim))
        if self.padding_idx is None:
            return rows
        values = rows.numpy().copy()
        values[self.padding_idx] = 0
        return Tensor(values)

    def call(self, index: AnyTensor) -> AnyTensor:
        """Return the rows at `index`."""
        return functional.embedding(index, self.weight, self.padding_idx)

    def describe(self) -> str:
        """Return the extents of the weight, and the padding."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class EmbeddingBag(Layer[..., AnyTensor]):
    """The rows of each bag reduced to one: integers (N, B) → (N, embedding_dim).

    `mode` is "sum", "mean" or "max". The weight (num_embeddings, embedding_dim) starts normal.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, mode: str = "mean", *, dtype: DTypeLike = f32
    ) -> None:
        if mode not in functional.BAGS:
            raise ConfigError(f"mode = {mode!r}", hint=f"choose from {', '.join(functional.BAGS)}")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.mode = mode
        self.weight = Parameter(init.normal((num_embeddings, embedding_dim)), dtype)

    def call(self, index: AnyTensor, per_sample_weights: AnyTensor | None = None) -> AnyTensor:
        """Return the reduced rows at `index`; weights (N, B) scale those of a sum."""
        return functional.embedding_bag(index, self.weight, self.mode, per_sample_weights)

    def describe(self) -> str:
        """Return the extents of the weight, and the mode."""
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
