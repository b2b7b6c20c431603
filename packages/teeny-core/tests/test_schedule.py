"""Schedules against PyTorch's, step by step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from teeny_core.errors import ConfigError
from teeny_core.optim import schedule as schedules

STEPS = 40
Peer = Callable[[Any, Any], Any]  # torch.optim.lr_scheduler, optimiser -> scheduler

PAIRS: dict[str, tuple[schedules.Schedule, Peer, int]] = {
    "constant": (schedules.Constant(0.5), lambda s, o: s.LambdaLR(o, lambda _: 0.5), STEPS),
    "step": (schedules.Step(7, 0.3), lambda s, o: s.StepLR(o, 7, 0.3), STEPS),
    "linear": (schedules.Linear(9, 0.2, 0.9), lambda s, o: s.LinearLR(o, 0.2, 0.9, 9), STEPS),
    "cosine": (schedules.Cosine(STEPS), lambda s, o: s.CosineAnnealingLR(o, STEPS), STEPS + 1),
    "cosine to a floor": (
        schedules.Cosine(STEPS, 0.1),
        lambda s, o: s.CosineAnnealingLR(o, STEPS, eta_min=0.1 * 0.02),
        STEPS + 1,
    ),
    "one cycle": (schedules.OneCycle(STEPS), lambda s, o: s.OneCycleLR(o, 0.02, STEPS), STEPS),
    "one cycle, other shape": (
        schedules.OneCycle(STEPS, warm=0.5, div=10.0, final_div=50.0),
        lambda s, o: s.OneCycleLR(
            o, 0.02, STEPS, pct_start=0.5, div_factor=10.0, final_div_factor=50.0
        ),
        STEPS,
    ),
    "chained": (
        schedules.Chained(schedules.Step(5, 0.5), schedules.Linear(8, 0.1, 1.0)),
        lambda s, o: s.ChainedScheduler([s.StepLR(o, 5, 0.5), s.LinearLR(o, 0.1, 1.0, 8)]),
        STEPS,
    ),
    "sequential": (
        schedules.Sequential((schedules.Linear(5, 0.1, 1.0), schedules.Step(4, 0.5)), (6,)),
        lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 5), s.StepLR(o, 4, 0.5)], [6]),
        STEPS,
    ),
    "warm-up": (
        schedules.warmup(6, schedules.Cosine(20), start=0.25),
        lambda s, o: s.SequentialLR(
            o, [s.LinearLR(o, 0.25, 1.0, 6), s.CosineAnnealingLR(o, 20)], [6]
        ),
        26,
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_equal_to_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, peer, steps = PAIRS[name]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its own SequentialLR
        theirs = peer(torch.optim.lr_scheduler, optimizer)
        for step in range(steps):
            rate = optimizer.param_groups[0]["lr"]
            assert 0.02 * ours(step) == pytest.approx(rate, rel=1e-9, abs=1e-15), f"step {step}"
            optimizer.step()
            if step + 1 < steps:
                theirs.step()


@given(st.integers(1, 500), st.floats(0, 1))
def test_one_cycle_stays_between_its_ends(steps: int, warm: float) -> None:
    cycle = schedules.OneCycle(steps, warm)
    rates = [cycle(step) for step in range(steps + 5)]
    assert all(1 / 25e4 * (1 - 1e-9) <= rate <= 1 for rate in rates)
    assert rates[steps] == pytest.approx(1 / 25e4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: schedules.Step(0),
        lambda: schedules.Cosine(-1),
        lambda: schedules.Linear(0),
        lambda: schedules.OneCycle(0),
        lambda: schedules.OneCycle(10, warm=1.5),
        lambda: schedules.Sequential((schedules.Constant(),), (1,)),
        lambda: schedules.Sequential((schedules.Constant(),) * 3, (5, 2)),
    ],
)
def test_senseless_arguments(make: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError, match="hint: "):
        make()
