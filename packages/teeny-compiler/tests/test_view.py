"""Views against NumPy: the elements that a view names are those that the movement ops give."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_compiler.nest.view import Guard, View, common_factors, refine
from teeny_core import symbol

MISSING = -1


def read(view: View) -> np.ndarray:
    """Return the element number at each logical index, MISSING where a guard fails."""
    result = np.full(view.extents, MISSING)
    for index in itertools.product(*map(range, view.extents)):
        at = zip(view.strides, index, strict=True)
        if all(_inside(guard, index) for guard in view.guards):
            result[index] = view.offset + sum(stride * i for stride, i in at)
    return result.reshape(view.shape)


def _inside(guard: Guard, index: tuple[int, ...]) -> bool:
    value = guard.offset + sum(s * i for s, i in zip(guard.strides, index, strict=True))
    return 0 <= value < guard.limit


@st.composite
def moved(draw: st.DrawFn) -> tuple[View | None, np.ndarray]:
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    view: View | None = View.contiguous(shape)
    array = np.arange(np.prod(shape)).reshape(shape)
    for _ in range(draw(st.integers(0, 5))):
        if view is None:
            break
        view, array = _step(draw, view, array)
    return view, array


def _step(draw: st.DrawFn, view: View, array: np.ndarray) -> tuple[View | None, np.ndarray]:
    rank = array.ndim
    kind = draw(st.sampled_from(["permute", "reshape", "slice", "flip", "pad", "broadcast"]))
    if kind == "permute":
        axes = draw(st.permutations(range(rank)))
        return view.permute(axes), array.transpose(axes)
    if kind == "reshape":
        size = array.size
        first = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        shape = (first, size // first)
        return view.reshape(shape), array.reshape(shape)
    if kind == "slice":
        starts = tuple(draw(st.integers(0, n - 1)) for n in array.shape)
        limits = tuple(
            draw(st.integers(s + 1, n)) for s, n in zip(starts, array.shape, strict=True)
        )
        steps = tuple(draw(st.integers(1, 3)) for _ in starts)
        index = tuple(map(slice, starts, limits, steps))
        return view.slice(starts, limits, steps), array[index]
    if kind == "flip":
        axes = tuple(draw(st.sets(st.integers(0, rank - 1))))
        return view.flip(axes), np.flip(array, axes)
    if kind == "pad":
        low = tuple(draw(st.integers(0, 2)) for _ in range(rank))
        high = tuple(draw(st.integers(0, 2)) for _ in range(rank))
        pairs = list(zip(low, high, strict=True))
        return view.pad(low, high), np.pad(array, pairs, constant_values=MISSING)
    shape = (2, *(3 if n == 1 else n for n in array.shape))
    return view.broadcast(shape), np.broadcast_to(array, shape)


@settings(max_examples=200, deadline=None)
@given(moved())
def test_views_name_the_elements_of_numpy(pair: tuple[View | None, np.ndarray]) -> None:
    view, expected = pair
    if view is not None:
        np.testing.assert_array_equal(read(view), expected)
        np.testing.assert_array_equal(read(view.simplified()), expected)
        factors = tuple(view.extents[a:b] for a, b in view.spans)
        np.testing.assert_array_equal(read(view.refined(factors)), expected)


def test_a_split_of_a_permuted_and_merged_axis_is_free() -> None:
    heads = View.contiguous((2, 5, 4, 3)).permute((0, 2, 1, 3)).reshape((2, 4, 15))
    assert heads is not None
    assert heads.reshape((2, 4, 5, 3)) == View.contiguous((2, 5, 4, 3)).permute((0, 2, 1, 3))


def test_a_merged_axis_of_two_factors_cannot_be_sliced() -> None:
    merged = View.contiguous((4, 3)).permute((1, 0)).reshape((12,))
    assert merged is not None
    assert merged.slice((1,), (5,), (1,)) is None


def test_symbolic_extents_split_and_merge() -> None:
    n = symbol("n")
    view = View.contiguous((n, 28, 28)).reshape((n, 784))
    assert view is not None
    assert view.flat_strides() == (784, 1)
    flat = view.reshape((n * 784,))
    assert flat is not None
    assert flat.flat_strides() == (1,)
    again = flat.reshape((n, 7, 112))
    assert again is not None
    assert again.simplified() == View.contiguous((n, 7, 112))


@pytest.mark.parametrize(
    ("left", "right", "factors"),
    [
        ((6, 4), (6, 4), (6, 4)),
        ((24,), (2, 3, 4), (2, 3, 4)),
        ((2, 12), (6, 4), (2, 3, 4)),
        ((1, 6), (6, 1, 1), (6,)),
        ((), (1, 1), ()),
        ((6, 4), (8, 3), None),
    ],
)
def test_refine(left: tuple[int, ...], right: tuple[int, ...], factors: object) -> None:
    found = refine(left, right)
    assert (None if found is None else found[0]) == factors


def test_guards_that_always_hold_vanish() -> None:
    view = View.contiguous((4,)).pad((2,), (2,))
    assert view is not None
    assert len(view.guards) == 1
    inner = view.slice((2,), (6,), (1,))
    assert inner is not None
    assert inner == View.contiguous((4,))


def test_common_factors_refine_all_views() -> None:
    one = View.contiguous((6, 4)).reshape((24,))
    two = View.contiguous((4, 6)).permute((1, 0)).reshape((24,))
    assert one is not None
    assert two is not None
    assert common_factors([one, two]) == ((6, 4),)
