from collections.abc import Callable

import pytest
from teeny_bench import measure
from teeny_bench.measure import MIN_ROUNDS, Timing, alternate, repeats_for


class Clock:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def perf_counter(self) -> float:
        return self.now

    def work(self, name: str, *durations: float) -> Callable[[], None]:
        """Return a function whose calls take `durations` in turn, the last for ever."""
        remaining = list(durations)

        def call() -> None:
            self.log.append(name)
            self.now += remaining.pop(0) if len(remaining) > 1 else remaining[0]

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(measure, "time", clock)
    return clock


@pytest.mark.parametrize(("duration", "expected"), [(1e-3, 20), (5e-3, 4), (1.0, 1), (1e-5, 2000)])
def test_repeats_fill_a_round(clock: Clock, duration: float, expected: int) -> None:
    assert repeats_for(clock.work("f", duration)) == expected


def test_repeats_are_bounded(clock: Clock) -> None:
    assert repeats_for(clock.work("f", 0.0)) == measure.MAX_REPEATS


def test_a_slow_first_call_does_not_count(clock: Clock) -> None:
    assert repeats_for(clock.work("f", 9.0, 1e-3)) == 20


def test_sides_take_turns(clock: Clock) -> None:
    alternate([clock.work("ours", 1.0), clock.work("peer", 1.0)], seconds=0.0)
    assert clock.log[-2 * MIN_ROUNDS :] == ["ours", "peer"] * MIN_ROUNDS


def test_best_and_median_are_of_rounds(clock: Clock) -> None:
    # Two calls warm up; then five rounds of one call each.
    ours, peer = alternate(
        [clock.work("ours", 9.0, 9.0, 3.0, 1.0, 2.0, 5.0, 4.0), clock.work("peer", 2.0)],
        seconds=0.0,
    )
    assert ours == Timing(best=1.0, median=3.0)
    assert peer == Timing(best=2.0, median=2.0)


def test_rounds_go_on_until_the_time_is_spent(clock: Clock) -> None:
    alternate([clock.work("ours", 0.5), clock.work("peer", 0.5)], seconds=10.0)
    assert clock.log.count("ours") == 2 + 20


def test_short_calls_begin_each_round_untimed(clock: Clock) -> None:
    (timing,) = alternate([clock.work("f", 1e-3)], seconds=0.0)
    assert timing.best == pytest.approx(1e-3)
    assert clock.log.count("f") > MIN_ROUNDS * 20
