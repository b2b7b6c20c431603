from collections.abc import Callable

import pytest
from teeny_bench import measure
from teeny_bench.measure import MIN_ROUNDS, alternate, repeats_for


class Clock:
    """A clock that only work moves; each call leaves a thread that spins for `spins` seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.spins = self.spinning = self.used = 0.0
        self.log: list[str] = []

    def process_time(self) -> float:
        return self.used

    def sleep(self, seconds: float) -> None:
        self.log.append("wait")
        spun = min(seconds, self.spinning)
        self.used += spun
        self.spinning -= spun

    def perf_counter(self) -> float:
        return self.now

    def work(self, name: str, *durations: float) -> Callable[[], None]:
        """Return a function whose calls take `durations` in turn, the last for ever."""
        remaining = list(durations)

        def call() -> None:
            self.log.append(name)
            self.spinning = self.spins
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
        [clock.work("ours", 0.9, 0.9, 0.3, 0.1, 0.2, 0.5, 0.4), clock.work("peer", 0.2)],
        seconds=0.0,
    )
    assert (ours.best, ours.median) == pytest.approx((0.1, 0.3))
    assert (peer.best, peer.median) == pytest.approx((0.2, 0.2))


def test_two_rounds_are_enough_of_a_side_that_takes_long(clock: Clock) -> None:
    alternate([clock.work("ours", 0.1), clock.work("peer", 6.0)], seconds=0.0)
    assert clock.log.count("peer") == 2 + measure.LONG_ROUNDS


def test_rounds_go_on_until_the_time_is_spent(clock: Clock) -> None:
    alternate([clock.work("ours", 0.5), clock.work("peer", 0.5)], seconds=10.0)
    assert clock.log.count("ours") == 2 + 20


def test_short_calls_begin_each_round_untimed(clock: Clock) -> None:
    (timing,) = alternate([clock.work("f", 1e-3)], seconds=0.0)
    assert timing.best == pytest.approx(1e-3)
    assert clock.log.count("f") > MIN_ROUNDS * 20


def test_rounds_of_several_threads_wait_for_those_that_spin(clock: Clock) -> None:
    clock.spins = 2.5 * measure.IDLE_SECONDS
    alternate([clock.work("ours", 1.0), clock.work("peer", 1.0)], seconds=0.0, threads=2)
    waits = ["wait"] * 4  # three in which a thread spins, one in which none does
    assert clock.log[-12:] == [*waits, "ours", "ours", *waits, "peer", "peer"]


def test_a_thread_that_never_sleeps_is_not_waited_for_long(clock: Clock) -> None:
    clock.spins = 1e9
    alternate([clock.work("f", 1.0)], seconds=0.0, threads=2)
    assert clock.log.count("wait") == MIN_ROUNDS * measure.MOST_WAITS
