"""Losses as layers: `loss(prediction, target)`, a scalar unless `reduction` is "none"."""

from __future__ import annotations

from teeny_core.nn import functional
from teeny_core.nn.layer import Layer
from teeny_core.nn.parameter import Buffer
from teeny_core.tensor import AnyTensor, Operand, Tensor


class CrossEntropyLoss(Layer[[AnyTensor, AnyTensor], AnyTensor]):
    """-log softmax(logits)[target], see `functional.cross_entropy`; `weight` is no parameter."""

    def __init__(
        self,
        weight: Operand | None = None,
        *,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
    ) -> None:
        self.weight = _constant(weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.reduction = reduction

    def call(self, logits: AnyTensor, target: AnyTensor) -> AnyTensor:
        """Return the loss of logits (N, C, ...) and classes (N, ...)."""
        return functional.cross_entropy(
            logits,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )


class NLLLoss(Layer[[AnyTensor, AnyTensor], AnyTensor]):
    """-log_probabilities[target], see `functional.nll_loss`; `weight` is no parameter."""

    def __init__(
        self,
        weight: Operand | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        self.weight = _constant(weight)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def call(self, log_probabilities: AnyTensor, target: AnyTensor) -> AnyTensor:
        """Return the loss of log-probabilities (N, C, ...) and classes (N, ...)."""
        return functional.nll_loss(
            log_probabilities,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class MSELoss(Layer[[AnyTensor, AnyTensor], AnyTensor]):
    """(x - target)², reduced over all elements, see `functional.mse_loss`."""

    def __init__(self, *, reduction: str = "mean") -> None:
        self.reduction = reduction

    def call(self, x: AnyTensor, target: AnyTensor) -> AnyTensor:
        """Return the loss of two tensors of one shape."""
        return functional.mse_loss(x, target, reduction=self.reduction)


class L1Loss(Layer[[AnyTensor, AnyTensor], AnyTensor]):
    """|x - target|, reduced over all elements, see `functional.l1_loss`."""

    def __init__(self, *, reduction: str = "mean") -> None:
        self.reduction = reduction

    def call(self, x: AnyTensor, target: AnyTensor) -> AnyTensor:
        """Return the loss of two tensors of one shape."""
        return functional.l1_loss(x, target, reduction=self.reduction)


class BCEWithLogitsLoss(Layer[[AnyTensor, AnyTensor], AnyTensor]):
    """Cross-entropy of logits with probabilities: `functional.binary_cross_entropy_with_logits`."""

    def __init__(
        self,
        weight: Operand | None = None,
        *,
        pos_weight: Operand | None = None,
        reduction: str = "mean",
    ) -> None:
        self.weight = _constant(weight)
        self.pos_weight = _constant(pos_weight)
        self.reduction = reduction

    def call(self, logits: AnyTensor, target: AnyTensor) -> AnyTensor:
        """Return the loss of logits and probabilities of one shape."""
        return functional.binary_cross_entropy_with_logits(
            logits,
            target,
            self.weight,
            pos_weight=self.pos_weight,
            reduction=self.reduction,
        )


def _constant(value: Operand | None) -> Tensor | None:
    return None if value is None else Buffer(value)
