"""Merged groups stay without a cycle: places in a row, and random graphs with far neighbours."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_compiler.schedule.places import Places
from teeny_core import AnyTensor


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_places_tell_what_depends_on_what(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randrange(2, 24)
    sources = {i: {j for j in range(i) if chance.random() < 0.15} for i in range(count)}
    places = Places(range(count), lambda number: sources[number])
    for _ in range(3 * count):
        if len(sources) < 2:
            break
        first, last = chance.sample(sorted(sources), 2)
        assert places.reaches(first, last) == (last in below(sources, first))
        around = any(
            middle != first and middle in below(sources, first) for middle in sources[last]
        )
        assert places.reaches(first, last, directly=False) == around
        if around or places.reaches(last, first):
            continue
        places.join(first, last)
        merged = sources.pop(last) | sources[first]
        sources[first] = merged - {first, last}
        for number, read in sources.items():
            sources[number] = {first if i == last else i for i in read} - {number}
        assert first not in below(sources, first)


def below(sources: dict[int, set[int]], first: int) -> set[int]:
    """Return the groups that depend on one, by the definition."""
    found: set[int] = set()
    new = {first}
    while new:
        new = {number for number, read in sources.items() if read & new} - found
        found |= new
    return found


@pytest.mark.parametrize("seed", [2, 46])
def test_far_neighbours_are_merged_without_a_cycle(check: Any, seed: int) -> None:
    """These two graphs once became groups that wait for each other."""

    def function(x: AnyTensor, y: AnyTensor) -> tuple[AnyTensor, AnyTensor]:
        values = [x, y]
        for _ in range(60):
            values.append(step(chance, chance.choice(values[-12:]), chance.choice(values[-40:])))
        return values[-1], values[-5]

    chance = random.Random(seed)
    leaves = [tn.SymTensor.input(tn.f32, (SIDE, SIDE))] * 2
    graph = tn.trace(function, *leaves)
    numbers = np.random.default_rng(seed).uniform(-1, 1, (2, SIDE, SIDE)).astype(np.float32)
    check(graph, list(numbers), rtol=1e-3, atol=1e-3)


SIDE = 16


def step(chance: random.Random, a: AnyTensor, b: AnyTensor) -> AnyTensor:
    """Return one of some operations on two matrices, with values of about 1."""
    half = SIDE // 2
    choices = (
        lambda: (a + b) * 0.5,
        lambda: a * b,
        lambda: (a @ b).tanh(),
        lambda: a.transpose(0, 1),
        lambda: a.softmax(-1),
        lambda: a - a.mean(1, keepdims=True),
        lambda: a.tanh(),
        lambda: (a.reshape(half, 2 * SIDE).sum(1, keepdims=True).sum(0) + b).tanh(),
        lambda: a.relu(),
        lambda: tn.concat([a[:half], b[half:]], 0),
    )
    return choices[chance.randrange(len(choices))]()
