import threading
import time
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from teeny_core import DataError
from teeny_vision.mnist import Augment, Batches, load, normalise

# Each image holds its own index, and so does its label.
LABELS = np.arange(100, dtype=np.uint8)
IMAGES = np.broadcast_to(LABELS[:, None, None], (100, 28, 28))


def batches(**options: object) -> Batches:
    return Batches(IMAGES, LABELS, **({"batch_size": 16} | options))  # type: ignore[arg-type]


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "teeny-batches" in thread.name]


def assert_equal(first: object, second: object) -> None:
    for (x, y), (other_x, other_y) in zip(first, second, strict=True):  # type: ignore[call-overload]
        np.testing.assert_array_equal(x, other_x)
        np.testing.assert_array_equal(y, other_y)


@given(
    batch_size=st.integers(1, 120),
    seed=st.integers(0, 2**64),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
)
def test_an_epoch_holds_each_image_once(
    batch_size: int, seed: int, shuffle: bool, drop_last: bool
) -> None:
    epoch = batches(batch_size=batch_size, seed=seed, shuffle=shuffle, drop_last=drop_last)
    parts = list(epoch)
    assert len(parts) == len(epoch)
    seen = np.concatenate([labels for _, labels in parts]) if parts else np.zeros(0, np.int64)
    kept = 100 // batch_size * batch_size if drop_last else 100
    assert len(seen) == kept
    assert len(np.unique(seen)) == kept
    assert shuffle or seen.tolist() == list(range(kept))
    for images, labels in parts:
        assert (images.dtype, labels.dtype) == (np.float32, np.int64)
        assert images.shape == (len(labels), 1, 28, 28)
        np.testing.assert_array_equal(images, normalise(IMAGES[labels]))


@pytest.mark.parametrize("augment", [None, Augment()])
def test_an_epoch_repeats_and_resumes(augment: Augment | None) -> None:
    whole = list(batches(seed=3, epoch=5, augment=augment))
    assert_equal(batches(seed=3, epoch=5, augment=augment), whole)
    for start in range(len(whole) + 1):
        rest = batches(seed=3, epoch=5, augment=augment, start=start)
        assert len(rest) == len(whole) - start
        assert_equal(rest, whole[start:])


@pytest.mark.parametrize("other", [{"seed": 4}, {"epoch": 6}])
def test_seed_and_epoch_change_the_order_and_the_motions(other: dict[str, int]) -> None:
    place = {"seed": 3, "epoch": 5}
    (first, labels), (second, other_labels) = (
        batches(**options).batch(0) for options in (place, place | other)
    )
    assert labels.tolist() != other_labels.tolist()
    first, second = (
        batches(shuffle=False, augment=Augment(), **options).batch(0)[0]
        for options in (place, place | other)
    )
    assert (first != second).any()


def test_batches_are_prepared_ahead_in_another_thread() -> None:
    iterator = iter(batches())
    next(iterator)
    assert len(workers()) == 1
    assert workers()[0] is not threading.current_thread()
    list(iterator)
    assert workers() == []


def test_an_abandoned_epoch_ends_its_thread() -> None:
    for _ in batches():
        break
    assert workers() == []


def test_preparation_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[int] = []
    prepare = Batches.batch

    def counting(self: Batches, index: int) -> object:
        prepared.append(index)
        return prepare(self, index)

    monkeypatch.setattr(Batches, "batch", counting)
    iterator = iter(batches(batch_size=1))
    next(iterator)
    time.sleep(0.05)
    assert len(prepared) <= 5
    assert len(list(iterator)) == 99


def test_an_error_surfaces_at_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Batches.batch

    def failing(self: Batches, index: int) -> object:
        if index == 2:
            raise OSError("no such batch")
        return prepare(self, index)

    monkeypatch.setattr(Batches, "batch", failing)
    iterator = iter(batches())
    assert len(list(islice(iterator, 2))) == 2
    with pytest.raises(OSError, match="no such batch"):
        next(iterator)
    assert workers() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch size of 0"),
        ({"seed": -1}, "seed is -1"),
        ({"epoch": -1}, "epoch is -1"),
        ({"start": 8}, "start is 8, and the epoch has 7 batches"),
        ({"start": -1}, "start is -1"),
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=f"{message}.*\nhint: "):
        batches(**options)


def test_other_lengths_and_indices_are_refused() -> None:
    with pytest.raises(DataError, match=r"100 images come with labels of shape \(99,\)"):
        Batches(IMAGES, LABELS[:-1])
    for index in (-1, 7):
        with pytest.raises(DataError, match=f"no batch {index} in an epoch of 7"):
            batches().batch(index)


def test_an_epoch_of_mnist_takes_well_under_300_ms_of_cpu() -> None:
    mnist = load()

    def cpu_seconds() -> float:
        began = time.process_time()
        assert sum(1 for _ in Batches(mnist.x_train, mnist.y_train)) == 938
        return time.process_time() - began

    assert min(cpu_seconds() for _ in range(3)) < 0.3
