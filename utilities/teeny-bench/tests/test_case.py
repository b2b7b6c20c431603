import numpy as np
import pytest
from teeny_bench.case import Arrays, Case, MismatchError, Sides, check, difference


def check_arrays(ours: Arrays, theirs: Arrays, tolerance: float = 1e-4) -> None:
    sides = Sides(lambda: None, lambda: None, lambda: (ours, theirs))
    check(Case("sum", lambda: sides, tolerance=tolerance), sides)


def test_equal_values_pass() -> None:
    values = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    check_arrays([values, values], [values, values.copy()])


def test_the_tolerance_is_relative_to_the_largest_value() -> None:
    want = np.array([1e-3, 1000.0], np.float32)
    check_arrays([want + np.float32(0.05)], [want])
    with pytest.raises(MismatchError) as caught:
        check_arrays([want + np.float32(0.2)], [want])
    assert str(caught.value) == (
        "sum: output 0 differs by 2.00e-04 of its largest value\nhint: at most 1e-04 is expected"
    )


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_a_mismatch(wrong: float) -> None:
    with pytest.raises(MismatchError):
        check_arrays([np.array([1.0, wrong])], [np.array([1.0, 2.0])])


def test_shapes_and_numbers_of_outputs_must_match() -> None:
    with pytest.raises(MismatchError, match=r"output 0 is \(3,\), not \(1, 3\)"):
        check_arrays([np.ones(3)], [np.ones((1, 3))])
    with pytest.raises(MismatchError, match="1 outputs, and the peer gives 2"):
        check_arrays([np.ones(3)], [np.ones(3), np.ones(3)])


def test_difference_of_nothing_and_of_zeros() -> None:
    assert difference(np.zeros(0), np.zeros(0)) == 0.0
    assert difference(np.full(2, 0.5), np.zeros(2)) == 0.5
