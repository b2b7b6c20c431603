"""Losses. `reduction` is "mean", "sum" or "none", as in PyTorch.

Losses of f16 and bf16 are computed in f32 and have the type of the prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from teeny_core import shape as shapes
from teeny_core.errors import DTypeError, OpError, ShapeError
from teeny_core.nn.functional.basic import is_class
from teeny_core.tensor import AnyTensor

Reduction = Callable[[AnyTensor], AnyTensor]

_REDUCTIONS: Mapping[str, Reduction] = MappingProxyType(
    {"mean": AnyTensor.mean, "sum": AnyTensor.sum, "none": lambda loss: loss}
)


def cross_entropy(
    logits: AnyTensor,
    target: AnyTensor,
    weight: AnyTensor | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> AnyTensor:
    """Return -log softmax(logits)[target].

    Args:
        logits: (N, C, ...) or (C,).
        target: classes as integers, of the shape of `logits` without C, or a probability for each
            class as floats, of the shape of `logits`. A class that does not exist makes NaN.
        weight: (C,), a factor for each class.
        ignore_index: a target that counts neither in the sum nor in the mean.
        label_smoothing: share of the probability that goes to all classes alike.
        reduction: the mean is over targets that are not ignored, weighted; NaN where there is none.

    Raises:
        ShapeError: the target does not fit the logits.
        OpError: an argument has no such value.
    """
    log_probabilities = _wide(logits).log_softmax(_class_axis(logits))
    loss = nll_loss(
        log_probabilities,
        target,
        weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )
    return loss.cast(logits.dtype)


def nll_loss(
    log_probabilities: AnyTensor,
    target: AnyTensor,
    weight: AnyTensor | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> AnyTensor:
    """Return -log_probabilities[target]; arguments and errors as those of `cross_entropy`.

    Args:
        log_probabilities: (N, C, ...) or (C,), what `log_softmax` gives over the classes.
        target: see `cross_entropy`.
        weight: see `cross_entropy`.
        ignore_index: see `cross_entropy`.
        label_smoothing: see `cross_entropy`.
        reduction: see `cross_entropy`.
    """
    _check_reduction(reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise OpError(f"label_smoothing = {label_smoothing}", hint="give a share from 0 to 1")
    axis = _class_axis(log_probabilities)
    if target.dtype.is_float:
        return _soft_loss(log_probabilities, target, weight, label_smoothing, reduction)
    _check_target(log_probabilities, target, axis)
    return _hard_loss(log_probabilities, target, weight, ignore_index, label_smoothing, reduction)


def _hard_loss(
    log_probabilities: AnyTensor,
    target: AnyTensor,
    weight: AnyTensor | None,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
) -> AnyTensor:
    """Reduce over integer targets. The chosen class is summed out of a `where`, which fuses."""
    axis = _class_axis(log_probabilities)
    classes = log_probabilities.shape[axis]
    chosen = is_class(target, classes, axis)
    scores = _weighted(log_probabilities, weight)
    loss = _smoothed(-chosen.where(scores, 0.0).sum(axis), scores, label_smoothing)
    counted = target != ignore_index
    exists = (target >= 0) & (target < classes)
    loss = counted.where(exists.where(loss, float("nan")), 0.0)
    if reduction != "mean":
        return _REDUCTIONS[reduction](loss)
    if weight is None:
        return loss.sum() / counted.cast(loss.dtype).sum()
    shares = chosen.where(_by_class(weight, log_probabilities), 0.0).sum(axis)
    return loss.sum() / counted.where(shares, 0.0).sum()


def _soft_loss(
    log_probabilities: AnyTensor,
    target: AnyTensor,
    weight: AnyTensor | None,
    label_smoothing: float,
    reduction: str,
) -> AnyTensor:
    """Reduce over a probability for each class."""
    _check_equal(
        "cross_entropy",
        log_probabilities,
        target,
        hint="floats are a probability for each class; classes are integers: target.cast(tn.i64)",
    )
    scores = _weighted(log_probabilities, weight)
    chosen = (scores * target).sum(_class_axis(scores))
    loss = _smoothed(-chosen, scores, label_smoothing)
    return _REDUCTIONS[reduction](loss)


def _smoothed(loss: AnyTensor, scores: AnyTensor, label_smoothing: float) -> AnyTensor:
    """Give a share of the target's probability to all classes alike."""
    if not label_smoothing:
        return loss
    spread = -scores.mean(_class_axis(scores))
    return loss * (1 - label_smoothing) + spread * label_smoothing


def mse_loss(x: AnyTensor, target: AnyTensor, *, reduction: str = "mean") -> AnyTensor:
    """Return (x - target)² of two tensors of one shape, reduced over all elements.

    Raises:
        ShapeError: the shapes differ; they do not broadcast.
        OpError: there is no such reduction.
    """
    return _reduced("mse_loss", x, target, reduction, lambda x, y: (x - y).square())


def l1_loss(x: AnyTensor, target: AnyTensor, *, reduction: str = "mean") -> AnyTensor:
    """Return |x - target| of two tensors of one shape, reduced over all elements.

    Raises:
        ShapeError: the shapes differ; they do not broadcast.
        OpError: there is no such reduction.
    """
    return _reduced("l1_loss", x, target, reduction, lambda x, y: (x - y).abs())


def binary_cross_entropy_with_logits(
    logits: AnyTensor,
    target: AnyTensor,
    weight: AnyTensor | None = None,
    *,
    pos_weight: AnyTensor | None = None,
    reduction: str = "mean",
) -> AnyTensor:
    """Return -(target·log σ(logits) + (1 - target)·log(1 - σ(logits))) without overflow.

    Args:
        logits: of any shape.
        target: of the same shape, probabilities.
        weight: factor of the loss, broadcastable.
        pos_weight: factor of its first term, broadcastable.
        reduction: the mean is over all elements.

    Raises:
        ShapeError: the shapes of logits and target differ.
        OpError: there is no such reduction.
    """

    def loss(x: AnyTensor, y: AnyTensor) -> AnyTensor:
        positive = (-x).softplus()  # -log σ(x), and -log(1 - σ(x)) is x + that
        if pos_weight is not None:
            positive = positive * ((pos_weight - 1) * y + 1)
        total = (1 - y) * x + positive
        return total if weight is None else total * weight

    return _reduced("binary_cross_entropy_with_logits", logits, target, reduction, loss)


def _reduced(
    name: str,
    x: AnyTensor,
    target: AnyTensor,
    reduction: str,
    loss: Callable[[AnyTensor, AnyTensor], AnyTensor],
) -> AnyTensor:
    _check_reduction(reduction)
    _check_equal(name, x, target)
    wide = loss(_wide(x), _wide(target))
    return _REDUCTIONS[reduction](wide).cast(x.dtype)


def _class_axis(x: AnyTensor) -> int:
    return 0 if x.ndim == 1 else 1


def _by_class(weight: AnyTensor, x: AnyTensor) -> AnyTensor:
    """Shape a vector of classes so that it meets the class axis of `x`."""
    return weight.reshape(-1, *[1] * max(x.ndim - 2, 0))


def _weighted(x: AnyTensor, weight: AnyTensor | None) -> AnyTensor:
    return x if weight is None else x * _by_class(weight, x)


def _wide(x: AnyTensor) -> AnyTensor:
    if not x.dtype.is_float:
        raise DTypeError(f"a loss of {x.type}", hint="cast it to floats: x.cast(tn.f32)")
    return x.cast(x.dtype.accumulator)


def _check_reduction(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise OpError(f"reduction = {reduction!r}", hint=f"choose from {', '.join(_REDUCTIONS)}")


def _check_equal(
    name: str,
    x: AnyTensor,
    target: AnyTensor,
    hint: str = "give both one shape; broadcast on purpose, by x.expand(...)",
) -> None:
    if not shapes.same(x.shape, target.shape):
        raise ShapeError(
            f"{name}: the prediction is {x.type}, the target {target.type}",
            hint=hint,
        )


def _check_target(x: AnyTensor, target: AnyTensor, axis: int) -> None:
    wanted = (*x.shape[:axis], *x.shape[axis + 1 :])
    if not target.dtype.is_int or not shapes.same(wanted, target.shape):
        raise ShapeError(
            f"cross_entropy: the logits are {x.type}, the target {target.type}",
            hint=f"the target holds a class as an integer for each of {shapes.text(wanted)}",
        )
