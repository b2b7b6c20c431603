"""The order of tasks: right in any case, and one that needs little memory."""

from __future__ import annotations

from collections.abc import Sequence

import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_compiler import FXGraph, make_schedule
from teeny_compiler.internal import host_target
from teeny_compiler.schedule.order import Work, ordered


@st.composite
def programs(draw: st.DrawFn) -> list[Work]:
    """Tasks that each write a storage of their number, and read those of some before them."""
    works: list[Work] = []
    for number in range(draw(st.integers(1, 12))):
        read = draw(st.frozensets(st.integers(0, number - 1), max_size=3)) if number else None
        works.append(Work(read or frozenset(), read or frozenset(), frozenset({number})))
    return works


def peak(works: Sequence[Work], order: Sequence[int], size: Sequence[int]) -> int:
    """The most bytes that live at one time where tasks run in some order."""
    position = {number: place for place, number in enumerate(order)}
    spans: dict[int, list[int]] = {}
    for number, work in enumerate(works):
        for storage in work.reads | work.writes:
            spans.setdefault(storage, []).append(position[number])
    return max(
        sum(size[s] for s, used in spans.items() if min(used) <= step <= max(used))
        for step in range(len(order))
    )


@settings(max_examples=60, deadline=None)
@given(programs(), st.lists(st.integers(0, 9), min_size=12, max_size=12))
def test_each_task_runs_once_after_what_it_needs(works: list[Work], size: list[int]) -> None:
    order = ordered(works, size)
    assert sorted(order) == list(range(len(works)))
    position = {number: place for place, number in enumerate(order)}
    for number, work in enumerate(works):
        assert all(position[other] < position[number] for other in work.after)


def backward(layers: int) -> list[Work]:
    """A chain of layers, the chain of their gradients, and only then all gradients of weights.

    Storages: activations 0 to `layers`, their gradients after these, then those of weights.
    """

    def work(reads: Sequence[int], writes: Sequence[int]) -> Work:
        after = frozenset(n for n, other in enumerate(works) if other.writes & {*reads})
        return Work(after, frozenset(reads), frozenset(writes))

    works: list[Work] = []
    works.append(work([], [0]))
    for layer in range(layers):
        works.append(work([layer], [layer + 1]))
    first = layers + 1
    works.append(work([layers], [first + layers]))
    for layer in reversed(range(layers)):
        works.append(work([first + layer + 1], [first + layer]))
    for layer in range(layers):
        weight = 2 * first + layer
        works.append(work([layer, first + layer + 1], [weight]))
        works.append(work([weight], []))  # its update
    return works


def test_a_weight_is_updated_as_soon_as_its_gradient_is_known() -> None:
    layers, size = 6, [100] * 14 + [30] * 6
    works = backward(layers)
    assert peak(works, range(len(works)), size) >= 1200
    assert peak(works, ordered(works, size), size) <= 930


def test_a_step_of_training_holds_few_gradients() -> None:
    """Of 8 layers of 256 x 64 values: the activations, and two gradients of one of them."""
    layers, rows, width = 8, 256, 64

    def step(x: tn.AnyTensor, *weights: tn.AnyTensor) -> object:
        y = x
        for weight in weights:
            y = (y @ weight).relu()
        slopes = tn.gradients((y * y).sum(), list(weights))
        return [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)]

    shapes = ((rows, width), *[(width, width)] * layers)
    graph = tn.trace(step, *(tn.SymTensor.input(tn.f32, shape) for shape in shapes))
    schedule = make_schedule(FXGraph.from_graph(graph), host_target())
    value = 4 * rows * width
    assert schedule.arena_bound <= (layers + 2) * value + (1 << 16)
