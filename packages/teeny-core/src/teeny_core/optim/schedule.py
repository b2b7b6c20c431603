"""Learning-rate schedules: pure functions from the step number to a factor of the base rate.

`schedule(0)` belongs to the first update. A schedule knows nothing of an optimiser: the rate of a
step is `optimizer.lr * schedule(step)`, so that schedules multiply (`Chained`) and follow one
another (`Sequential`), and a run resumes from the step number alone.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from teeny_core.errors import ConfigError

Schedule: TypeAlias = Callable[[int], float]


def _positive(name: str, value: int) -> None:
    if value <= 0:
        raise ConfigError(
            f"{name} must be a positive number of steps, got {value}",
            hint=f"pass {name} >= 1",
        )


@dataclass(frozen=True)
class Constant:
    """The same factor for ever."""

    factor: float = 1.0

    def __call__(self, step: int) -> float:
        """Return the factor for the update numbered `step`."""
        return self.factor


@dataclass(frozen=True)
class Step:
    """Multiply by `gamma` after every `every` steps."""

    every: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        _positive("every", self.every)

    def __call__(self, step: int) -> float:
        """Return the factor for the update numbered `step`."""
        return self.gamma ** (step // self.every)


@dataclass(frozen=True)
class Linear:
    """A straight line from `start` to `end` over `steps` steps, then `end`."""

    steps: int
    start: float = 1.0
    end: float = 0.0

    def __post_init__(self) -> None:
        _positive("steps", self.steps)

    def __call__(self, step: int) -> float:
        """Return the factor for the update numbered `step`."""
        return self.start + (self.end - self.start) * min(step / self.steps, 1.0)


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from 1 down to `floor` over `steps` steps, then `floor`.

    Source: Loshchilov and Hutter, *SGDR: Stochastic Gradient Descent with Warm Restarts* (2017),
    equation 5, without restarts.
    """

    steps: int
    floor: float = 0.0

    def __post_init__(self) -> None:
        _positive("steps", self.steps)

    def __call__(self, step: int) -> float:
        """Return the factor for the update numbered `step`."""
        return _cosine(1.0, self.floor, min(step / self.steps, 1.0))


@dataclass(frozen=True)
class OneCycle:
    """Rise by half a cosine to 1, then fall by half a cosine almost to 0.

    The rise takes the share `warm` of `steps` and begins at `1 / div`; the fall ends at
    `1 / (div * final_div)`.

    Source: Smith and Topin, *Super-Convergence* (2018), with PyTorch's cosine phases.
    """

    steps: int
    warm: float = 0.3
    div: float = 25.0
    final_div: float = 1e4

    def __post_init__(self) -> None:
        _positive("steps", self.steps)
        if not 0.0 <= self.warm <= 1.0:
            raise ConfigError(
                f"warm must be a share of the steps, got {self.warm}",
                hint="pass a number from 0 to 1",
            )

    def __call__(self, step: int) -> float:
        """Return the factor for the update numbered `step`."""
        peak = self.warm * self.steps - 1.0
        start = 1.0 / self.div
        if step <= peak:
            return _cosine(start, 1.0, step / peak if peak > 0 else 1.0)
        fall = max(self.steps - 1.0 - peak, 1.0)
        return _cosine(1.0, start / self.final_div, min((step - peak) / fall, 1.0))


@dataclass(frozen=True)
class Chained:
    """The product of several schedules."""

    schedules: tuple[Schedule, ...]

    def __init__(self, *schedules: Schedule) -> None:
        object.__setattr__(self, "schedules", schedules)

    def __call__(self, step: int) -> float:
        """Return the factor for the update numbered `step`."""
        return math.prod(schedule(step) for schedule in self.schedules)


@dataclass(frozen=True)
class Sequential:
    """Schedules one after another; number i + 1 begins, from its own step 0, at `milestones[i]`."""

    schedules: tuple[Schedule, ...]
    milestones: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.schedules) != len(self.milestones) + 1:
            raise ConfigError(
                f"{len(self.schedules)} schedules with {len(self.milestones)} milestones",
                hint="give one milestone between each two schedules",
            )
        if list(self.milestones) != sorted(self.milestones):
            raise ConfigError(f"milestones fall: {self.milestones}", hint="sort them")

    def __call__(self, step: int) -> float:
        """Return the factor for the update numbered `step`."""
        index = bisect.bisect_right(self.milestones, step)
        begin = self.milestones[index - 1] if index else 0
        return self.schedules[index](step - begin)


def warmup(steps: int, after: Schedule | None = None, start: float = 0.0) -> Sequential:
    """Rise in a straight line from `start` to 1 over `steps` steps, then follow `after`."""
    return Sequential((Linear(steps, start, 1.0), after or Constant()), (steps,))


def _cosine(begin: float, end: float, share: float) -> float:
    """Interpolate by half a cosine; `share` runs from 0 to 1."""
    return end + (begin - end) * (1.0 + math.cos(math.pi * share)) / 2.0
