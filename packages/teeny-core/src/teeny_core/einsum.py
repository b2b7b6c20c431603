"""Einstein summation, by permutations, sums and matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from teeny_core import shape as shapes
from teeny_core.errors import ShapeError
from teeny_core.shape import Shape
from teeny_core.tensor import AnyTensor


class _Term(NamedTuple):
    """A tensor and the label of each of its axes."""

    tensor: AnyTensor
    labels: str


def einsum(equation: str, *operands: AnyTensor) -> AnyTensor:
    """Return the sum of products that an equation like "bij,bjk->bik" says.

    Labels that are missing in the result are summed over. Without "->" the result has the labels
    that occur once, in alphabetical order. Operands are multiplied from left to right.

    Raises:
        ShapeError: when the equation is malformed, or a label stands for two extents.
    """
    sources, result = _parsed(equation, operands)
    _check_extents(equation, sources, operands)
    terms = [_Term(tensor, labels) for tensor, labels in zip(operands, sources, strict=True)]
    product = reduce(
        lambda left, right: _multiplied(left, right, _needed(terms, right, result)), terms
    )
    return _ordered(_summed(product, set(result)), result)


def _parsed(equation: str, operands: Sequence[AnyTensor]) -> tuple[list[str], str]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    sources = left.split(",")
    every = "".join(sources)
    result = right if arrow else "".join(sorted(c for c in set(every) if every.count(c) == 1))
    plain = all(c.isalpha() for c in every + result)
    repeated = any(len(set(labels)) != len(labels) for labels in (*sources, result))
    if not plain or repeated or not set(result) <= set(every) or len(sources) != len(operands):
        raise ShapeError(
            f"einsum cannot read {equation!r} for {len(operands)} operands",
            hint="one letter for each axis, no letter twice in one operand: 'bij,bjk->bik'",
        )
    return sources, result


def _check_extents(equation: str, sources: list[str], operands: Sequence[AnyTensor]) -> None:
    extents: dict[str, shapes.Dim] = {}
    for labels, tensor in zip(sources, operands, strict=True):
        if len(labels) != tensor.ndim:
            raise ShapeError(
                f"einsum {equation!r}: {labels!r} names {len(labels)} axes of {tensor.type}",
                hint="one letter for each axis",
            )
        for label, extent in zip(labels, tensor.shape, strict=True):
            if not shapes.equal(extents.setdefault(label, extent), extent):
                raise ShapeError(
                    f"einsum {equation!r}: {label!r} is {extents[label]} and {extent}",
                    hint="a letter stands for one extent",
                )


def _needed(terms: Sequence[_Term], last: _Term, result: str) -> set[str]:
    """Return the labels of the result and of the operands after `last`."""
    place = next(i for i, term in enumerate(terms) if term is last)
    return set(result).union(*(term.labels for term in terms[place + 1 :]))


def _multiplied(left: _Term, right: _Term, needed: set[str]) -> _Term:
    """Return the product of two terms, summed over the labels that are not needed any more."""
    left = _summed(left, needed | set(right.labels))
    right = _summed(right, needed | set(left.labels))
    shared = [label for label in left.labels if label in right.labels]
    batch = "".join(label for label in shared if label in needed)
    inner = "".join(label for label in shared if label not in needed)
    rows = "".join(label for label in left.labels if label not in shared)
    columns = "".join(label for label in right.labels if label not in shared)
    a, b = _ordered(left, batch + rows + inner), _ordered(right, batch + inner + columns)
    lead, height = a.shape[: len(batch)], a.shape[len(batch) : len(batch + rows)]
    depth, width = a.shape[len(batch + rows) :], b.shape[len(batch + inner) :]
    matrices = _merged(a, lead, height, depth) @ _merged(b, lead, depth, width)
    return _Term(matrices.reshape(*lead, *height, *width), batch + rows + columns)


def _merged(tensor: AnyTensor, *groups: Shape) -> AnyTensor:
    """Return the tensor with each group of axes merged into one."""
    return tensor.reshape(*(shapes.numel(group) for group in groups))


def _summed(term: _Term, needed: set[str]) -> _Term:
    axes = [axis for axis, label in enumerate(term.labels) if label not in needed]
    kept = "".join(label for label in term.labels if label in needed)
    return _Term(term.tensor.sum(axes).cast(term.tensor.dtype), kept) if axes else term


def _ordered(term: _Term, labels: str) -> AnyTensor:
    return term.tensor.permute(*(term.labels.index(label) for label in labels))
