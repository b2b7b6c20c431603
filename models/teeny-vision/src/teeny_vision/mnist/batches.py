"""Batches of one epoch, prepared ahead of their use in a thread of their own."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from teeny_core import DataError

from teeny_vision.mnist.augment import Augment
from teeny_vision.mnist.data import normalise

AHEAD = 3  # batches in preparation or ready, while the consumer works on another
ORDER, MOTION = range(2)  # the streams of random numbers of an epoch

Batch = tuple[NDArray[np.float32], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of one epoch: pairs of normalised images (B, 1, 28, 28) and int64 labels (B,).

    What a batch holds follows from the arguments and its index alone, so that an epoch can be
    repeated, and resumed at any batch. Each iteration runs its own thread, which ends with it.

    Attributes:
        images: uint8, (N, 28, 28).
        labels: integers, (N,).
        batch_size: how many images a batch has; the last may have fewer.
        seed: of the order and of the augmentation, together with `epoch`.
        epoch: the number of the epoch.
        shuffle: whether the images come in random order.
        drop_last: whether a last, smaller batch is left out.
        augment: random motions of the images; none by default.
        start: the index of the first batch to give.

    Raises:
        DataError: an argument is out of range, or there is not one label for each image.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.integer]
    batch_size: int = 64
    seed: int = 0
    epoch: int = 0
    shuffle: bool = True
    drop_last: bool = False
    augment: Augment | None = None
    start: int = 0

    def __post_init__(self) -> None:
        if self.labels.shape != self.images.shape[:1]:
            raise DataError(
                f"{len(self.images)} images come with labels of shape {self.labels.shape}",
                hint="give one label for each image",
            )
        if self.batch_size < 1:
            raise DataError(f"a batch size of {self.batch_size}", hint="give at least 1")
        for name, value in (("seed", self.seed), ("epoch", self.epoch)):
            if value < 0:
                raise DataError(f"{name} is {value}", hint="give a whole number >= 0")
        if not 0 <= self.start <= self.count:
            raise DataError(
                f"start is {self.start}, and the epoch has {self.count} batches",
                hint="was it made with another batch size or data set?",
            )

    @property
    def count(self) -> int:
        """The number of batches in the whole epoch, those before `start` included."""
        full, rest = divmod(len(self.images), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __len__(self) -> int:
        """Return the number of batches from `start` on."""
        return self.count - self.start

    def __iter__(self) -> Iterator[Batch]:
        """Give the batches in turn; an error in preparing one is raised in its place."""
        remaining = iter(range(self.start, self.count))
        worker = ThreadPoolExecutor(1, "teeny-batches")
        try:
            ahead = deque(worker.submit(self.batch, index) for index in islice(remaining, AHEAD))
            while ahead:
                batch = ahead.popleft().result()
                ahead.extend(worker.submit(self.batch, index) for index in islice(remaining, 1))
                yield batch
        finally:
            worker.shutdown(cancel_futures=True)

    def batch(self, index: int) -> Batch:
        """Prepare the batch with the given index in the epoch, in the calling thread."""
        if not 0 <= index < self.count:
            raise DataError(
                f"no batch {index} in an epoch of {self.count}", hint="count the batches from 0"
            )
        begin = index * self.batch_size
        rows = self._order[begin : begin + self.batch_size]
        images = self.images[rows]
        labels = self.labels[rows].astype(np.int64)
        if self.augment is None:
            return normalise(images), labels
        return normalise(self.augment(images, self._random(MOTION, index))), labels

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        count = len(self.images)
        return self._random(ORDER).permutation(count) if self.shuffle else np.arange(count)

    def _random(self, *stream: int) -> np.random.Generator:
        # A spawn key keeps the streams apart; zeros at the end of an entropy list would not.
        return np.random.default_rng(
            np.random.SeedSequence(self.seed, spawn_key=(self.epoch, *stream))
        )
