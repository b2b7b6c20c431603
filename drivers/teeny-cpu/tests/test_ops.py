"""Every operation of the op test table, for every element type, against its reference."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import Graph, ops, testing
from teeny_core.internal import apply, evaluate_updates


@pytest.mark.slow
@pytest.mark.parametrize("case", testing.cases(), ids=str)
def test_operations_agree_with_their_references(case: testing.OpCase) -> None:
    """All element types are outputs of one program, which compiles faster than many."""
    inputs, outputs, arrays = [], [], []
    for dtype in case.dtypes:
        leaves = [
            ops.input(f"x{i}_{dtype}", sample.shape, sample.dtype or dtype)
            for i, sample in enumerate(case.samples)
        ]
        inputs += leaves
        outputs.append(apply(case.op, *leaves, **case.attrs))
        arrays += case.arrays(dtype)
    graph = Graph(str(case), tuple(inputs), (), tuple(outputs))
    found = tn.compile(graph, "cpu")(*arrays)
    wanted, _ = evaluate_updates(graph, arrays, {})
    results = found if isinstance(found, tuple) else (found,)
    for node, result, expected in zip(outputs, results, wanted, strict=True):
        assert isinstance(result, np.ndarray)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        testing.assert_close(result, expected, node.dtype, case.scale)


def product(x: Any, w: Any) -> Any:
    return (x @ w.mT).relu()


def convolution(x: Any, w: Any) -> Any:
    return x.conv2d(w, padding=1).relu().max_pool2d(2)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (product, [(0, 4), (5, 4)]),
        (product, [(3, 0), (5, 0)]),
        (product, [(3, 4), (0, 4)]),
        (product, [(0, 3, 4), (0, 5, 4)]),
        (convolution, [(0, 3, 6, 6), (4, 3, 3, 3)]),
        (convolution, [(2, 0, 6, 6), (4, 0, 3, 3)]),
        (convolution, [(2, 3, 6, 6), (0, 3, 3, 3)]),
        (lambda x: x.avg_pool2d(3, 1, 1), [(0, 3, 6, 6)]),
    ],
)
def test_empty_operands(function: Callable[..., Any], shapes: Sequence[tuple[int, ...]]) -> None:
    """Sizes of 0 that are known when the program is compiled, and the gradients."""

    def call(*operands: Any) -> Any:
        slopes = tn.grad(lambda *inner: function(*inner).square().sum(), range(len(shapes)))
        return function(*operands), *slopes(*operands)

    inputs = [tn.SymTensor.input(tn.f32, shape) for shape in shapes]
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    graph = tn.trace(call, *inputs)
    for found, expected in zip(
        tn.compile(graph, "cpu")(*arrays), tn.evaluate(graph, arrays), strict=True
    ):
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("dtype", [tn.f64, tn.f32, tn.f16, tn.bf16, tn.i32])
@pytest.mark.parametrize("along", [False, True], ids=["take", "take_along"])
def test_an_index_that_does_not_exist_is_seen(dtype: tn.DType, along: bool) -> None:
    table = np.arange(12).reshape(4, 3).astype(dtype.numpy)
    index = np.array([0, 4, 3, -1, 2**40])
    if along:
        index = np.repeat(index[:, None], 3, 1)
    node = (ops.take_along if along else ops.take)(
        rows := ops.input("x", table.shape, dtype), at := ops.input("i", index.shape, tn.i64), 0
    )
    found = tn.compile(Graph("rows", (rows, at), (), (node,)), "cpu")(table, index)
    missing = np.nan if dtype.is_float else 0
    wanted = np.stack([table[0], table[3]]).astype(np.float64)
    got = np.asarray(found).astype(np.float64)
    np.testing.assert_array_equal(got[[0, 2]], wanted)
    np.testing.assert_array_equal(got[[1, 3, 4]], np.full((3, 3), missing))
