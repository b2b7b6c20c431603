"""Indexing against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_basic_indices(data: st.DataObject) -> None:
    shape = data.draw(array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    index = data.draw(basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    got = tn.Tensor(values)[index].numpy()
    np.testing.assert_array_equal(got, values[index])


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_slices_of_a_symbolic_axis(data: st.DataObject) -> None:
    extent = data.draw(st.integers(0, 7))
    bounds = st.one_of(st.none(), st.integers(-9, 9))
    step = data.draw(st.one_of(st.none(), st.integers(-3, 3).filter(bool)))
    index = slice(data.draw(bounds), data.draw(bounds), step)
    graph = tn.trace(lambda x: x[index], tn.SymTensor.input("f32", (None, 2)))
    graph.verify()
    values = np.arange(extent * 2, dtype=np.float32).reshape(extent, 2)
    (got,) = tn.evaluate(graph, [values])
    np.testing.assert_array_equal(got, values[index])


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_gradient_of_indexing(data: st.DataObject) -> None:
    shape = data.draw(array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=5))
    index = data.draw(basic_indices(shape))
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    expected = np.zeros(shape)
    expected[index] = 2 * values[index]
    got = tn.grad(lambda x: x[index].square().sum())(tn.Tensor(values))
    np.testing.assert_array_equal(got.numpy(), expected)


VALUES = np.arange(4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)
ROWS = np.array([[0, -1, 2], [3, 3, -4]])
COLUMNS = np.array([1, 0, -2])


@pytest.mark.parametrize(
    "index",
    [
        (ROWS,),
        (slice(None), ROWS),
        (..., COLUMNS),
        (slice(1, 3), slice(None, None, -2), COLUMNS),
        (None, COLUMNS),
        (ROWS, COLUMNS),
        (slice(None), ROWS, COLUMNS),
        (2, COLUMNS),
        (slice(None), COLUMNS, 3),
        (ROWS, None),
        (np.array(2), slice(1)),
        (ROWS, COLUMNS, np.array([0, 1, 2])),
        (np.zeros((0,), np.int64),),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_integer_tensors(index: tuple[Any, ...], dtype: Any) -> None:
    ours = tuple(
        tn.Tensor(item.astype(dtype)) if isinstance(item, np.ndarray) else item for item in index
    )
    np.testing.assert_array_equal(tn.Tensor(VALUES)[ours].numpy(), VALUES[index])


def test_lists_and_arrays() -> None:
    x = tn.Tensor(VALUES)
    np.testing.assert_array_equal(x[[2, 0]].numpy(), VALUES[[2, 0]])
    np.testing.assert_array_equal(x[:, np.array([2, -1])].numpy(), VALUES[:, [2, -1]])
    np.testing.assert_array_equal(x[np.int64(-1)].numpy(), VALUES[-1])
    unsigned = tn.Tensor([1, 3], tn.u8)
    np.testing.assert_array_equal(x[unsigned].numpy(), VALUES[[1, 3]])


def test_repeated_places_add_up_in_the_gradient() -> None:
    index = tn.Tensor([0, 2, 0, -1])
    got = tn.grad(lambda x: (x[index] * tn.Tensor([1.0, 2.0, 3.0, 4.0])).sum())(tn.zeros(3))
    assert got.tolist() == [4.0, 0.0, 6.0]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("place", [0, -1, 5])
def test_empty_axes_name_axis_and_size(shape: tuple[int, ...], place: int) -> None:
    axis = shape.index(0)
    index = (*(slice(None),) * axis, place)
    for wrong in (index, (*index[:-1], tn.Tensor([0]))):
        with pytest.raises(IndexError, match=rf"axis {axis} with size 0"):
            tn.zeros(shape)[wrong]


def test_out_of_range() -> None:
    x = tn.zeros(3, 4)
    with pytest.raises(tn.IndexingError, match="index 4 is out of range for axis 1 with size 4"):
        x[0, 4]
    with pytest.raises(IndexError, match="hint: indices go from -3 to 2"):
        x[-4]
    with pytest.raises(IndexError, match="index 7 is out of range for axis 0 with size 3"):
        x[tn.Tensor([0, 7])].numpy()


@pytest.mark.parametrize(
    "mask", [True, np.array([True, False, True]), [True, False, True]], ids=str
)
def test_bool_masks_say_what_to_do(mask: Any) -> None:
    x = tn.zeros(3)
    with pytest.raises(tn.IndexingError, match=r"hint: keep the shape: mask.where"):
        x[mask]
    with pytest.raises(tn.IndexingError, match="a bool mask"):
        x[x > 0]


def test_wrong_indices() -> None:
    x = tn.zeros(3, 4)
    for index, message in (
        ((0, 0, 0), "3 indices for f32"),
        ((..., ...), "two `...`"),
        (slice(None, None, 0), "step 0"),
        ("a", "cannot index with str"),
        (1.5, "cannot index with float"),
        (tn.Tensor([0.0]), r"cannot index with f32\[1\]"),
    ):
        with pytest.raises(tn.IndexingError, match=message):
            x[index]
    with pytest.raises(tn.IndexingError, match="slices or None between"):
        tn.zeros(2, 3, 4)[tn.Tensor([0]), :, tn.Tensor([0])]
    with pytest.raises(tn.IndexingError, match="hint: make a new tensor"):
        x[0] = 1.0
    with pytest.raises(IndexError, match="a scalar has no length"):
        len(tn.Tensor(1.0))
