"""The zoo: inference, and steps of training, with what compilation and memory cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import teeny_core as tn
from numpy.typing import NDArray

from teeny_bench.case import Case, Sides
from teeny_bench.costs import Costs, cold_caches, our_peak, peer_peak, timed
from teeny_bench.peers import compiled, torch_module
from teeny_bench.programs import CONSTANT, outputs, peer_call, program_of, sides
from teeny_bench.training import our_step, peer_step
from teeny_bench.zoo import ZOO, Entry

CHECKED_STEPS = 3


def cases(peer: str) -> Iterator[Case]:
    """Yield inference of each model."""
    with cold_caches():
        for entry in ZOO:
            yield Case(entry.name, partial(_inference, peer, entry), tolerance=1e-3)


def training(peer: str) -> Iterator[Case]:
    """Yield a step of training of each model."""
    with cold_caches():
        for entry in ZOO:
            yield Case(f"train {entry.name}", partial(_training, peer, entry), tolerance=5e-3)


def _inference(peer: str, entry: Entry) -> Sides:
    size = entry.usual
    ours, theirs = entry.pair(size)
    arrays, _ = size.batch_of(size.batch)
    (program, given), seconds = timed(lambda: _started(program_of(ours, arrays, CONSTANT), arrays))
    call = peer_call(compiled(peer, theirs.eval(), constant=True), arrays)
    _, peer_seconds = timed(call)
    costs = Costs(seconds, our_peak(program, given)), _peer_costs(peer, peer_seconds, call)
    return replace(sides(lambda: program(*arrays), call), costs=costs)


def _training(peer: str, entry: Entry) -> Sides:
    """Take steps on one batch; the losses of the first are compared."""
    size = entry.usual
    inputs, target = size.batch_of(size.train_batch)
    arrays = [*inputs, target]
    tensors = [torch_module().from_numpy(array) for array in arrays]
    ours, theirs = entry.pair(size)
    step, their_step = our_step(ours, entry.loss), peer_step(peer, theirs, entry.loss)

    def call() -> Any:
        return their_step(*tensors)

    first, seconds = timed(lambda: step(*arrays))
    their_first, peer_seconds = timed(call)
    more = range(CHECKED_STEPS - 1)
    losses = np.array([first, *(step(*arrays) for _ in more)], np.float64)
    their_losses = np.array([their_first, *(call() for _ in more)], np.float64)
    peak = our_peak(step.compile(*arrays), [first])
    costs = Costs(seconds, peak), _peer_costs(peer, peer_seconds, call)
    return Sides(lambda: step(*arrays), call, lambda: ([losses], [their_losses]), costs)


def _started(
    program: tn.Program, arrays: Sequence[NDArray[Any]]
) -> tuple[tn.Program, list[NDArray[Any]]]:
    """Return a program after its first call, and what it gave."""
    return program, outputs(program(*arrays))


def _peer_costs(peer: str, seconds: float, call: Callable[[], object]) -> Costs:
    """Return what the peer takes; eager torch compiles nothing."""
    return Costs(None if peer == "torch" else seconds, peer_peak(call))
