"""Every operation of the op test table, for every element type, against its reference."""

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
