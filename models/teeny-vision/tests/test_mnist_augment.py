import math

import numpy as np
import pytest
from teeny_core import DataError
from teeny_vision.mnist import Augment
from teeny_vision.mnist.augment import sample


def images(count: int = 3, size: int = 28) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, size, size), np.uint8)


def test_no_motion_changes_nothing() -> None:
    moved = Augment(rotation=0, shift=0)(images(), np.random.default_rng(0))
    assert moved.dtype == np.float32
    np.testing.assert_allclose(moved, images(), atol=1e-3)


def test_sample_matches_torch() -> None:
    torch = pytest.importorskip("torch")
    size = 9
    random = np.random.default_rng(1)
    rows, columns = random.uniform(-4, size + 4, (2, 3, 7, 5)).astype(np.float32)
    grid = np.stack([columns, rows], -1) / (size - 1) * 2 - 1  # torch counts from -1 to 1
    expected = torch.nn.functional.grid_sample(
        torch.from_numpy(images(size=size).astype(np.float32))[:, None],
        torch.from_numpy(grid.astype(np.float32)),
        align_corners=True,
    )
    sampled = sample(images(size=size), rows, columns)
    np.testing.assert_allclose(sampled, expected[:, 0].numpy(), atol=2e-2)


def test_whole_shifts_move_pixels() -> None:
    class Drawn:
        def uniform(self, low: float, high: float, size: object) -> np.ndarray:
            down_and_right = np.array([[2.0], [-3.0]])
            return down_and_right if size == (2, 1) else np.zeros(1)

    source = images(1)
    moved = Augment()(source, Drawn())  # type: ignore[arg-type]
    expected = np.zeros_like(source)
    expected[:, 2:, :-3] = source[:, :-2, 3:]
    np.testing.assert_allclose(moved, expected, atol=1e-3)


@pytest.mark.parametrize("degrees", [90, -90, 180])
def test_quarter_turns_match_rot90(degrees: int) -> None:
    class Drawn:
        def uniform(self, low: float, high: float, size: object) -> np.ndarray:
            return np.zeros((2, 3)) if size == (2, 3) else np.full(3, float(degrees))

    moved = Augment()(images(), Drawn())  # type: ignore[arg-type]
    expected = np.rot90(images(), degrees // 90, axes=(1, 2))
    np.testing.assert_allclose(moved, expected, atol=1e-2)


@pytest.mark.parametrize("limit", [-1.0, math.nan, math.inf])
def test_bad_limits_are_refused(limit: float) -> None:
    with pytest.raises(DataError, match="rotation"):
        Augment(rotation=limit)
    with pytest.raises(DataError, match="shift"):
        Augment(shift=limit)
