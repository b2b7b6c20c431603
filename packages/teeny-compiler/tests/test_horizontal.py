"""Small launches as one: the same results, in a right order, and fewer of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
import teeny_triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_compiler import FXGraph, make_schedule
from teeny_compiler.internal import host_target
from teeny_compiler.lower.call import Call, StorageArg
from teeny_compiler.lower.combine import Part, combine
from teeny_compiler.schedule import horizontal as module
from teeny_compiler.schedule.horizontal import Launch, horizontal
from teeny_core import ops, optim
from teeny_triton import Ptr, constexpr, f32, i32, interpret, kernel, verify
from teeny_triton.ir import Function
from teeny_triton.parser import parse


@kernel
def places(x: Ptr[f32], y: Ptr[f32], n: i32):
    """Add to element i of x what program i of the grid knows of its place."""
    i, j, k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    a, b = tl.num_programs(0), tl.num_programs(1)
    place = i + a * (j + b * k)
    if place < n:
        known = 100 * i + 10 * j + k + 1000 * (a + b + tl.num_programs(2))
        tl.store(y + place, tl.load(x + place) + known)


@kernel
def total(x: Ptr[f32], y: Ptr[f32], n: i32, factor: constexpr):
    row = tl.program_id(0)
    found = 0.0
    for i in range(n):
        found += tl.load(x + row * n + i) * factor
    tl.store(y + row, found)


GRIDS = [(5,), (3, 2), (2, 3, 4), (1, 4, 1), (1, 1, 3), (1,)]


@pytest.mark.parametrize("symbolic", [False, True])
def test_each_program_does_its_part(symbolic: bool) -> None:
    n, rng = tn.symbol("n"), np.random.default_rng(0)
    grids: list[tuple[Any, ...]] = [*GRIDS, (0, 2), (4,)]
    if symbolic:
        grids = [tuple(extent * n if extent == 3 else extent for extent in grid) for grid in grids]
    functions = [places.function()] * (len(grids) - 1) + [total.function(factor=2.0)]
    made = combine([Part(f, grid) for f, grid in zip(functions, grids, strict=True)])
    verify(made.function)
    assert str(parse(str(made.function))) == str(made.function)
    assert len(made.function.parameters) == 3 * len(grids) + len(made.scalars)
    assert bool(made.scalars) == symbolic

    sizes = {"n": 2}
    concrete = [tn.substitute(grid, sizes) for grid in grids]
    inputs = [rng.standard_normal(64).astype(np.float32) for _ in grids]
    wanted, found = ([np.zeros(64, np.float32) for _ in grids] for _ in range(2))
    counts = [4 if f is functions[-1] else 50 for f in functions]
    for f, grid, *arguments in zip(functions, concrete, inputs, wanted, counts, strict=True):
        interpret(f, grid, arguments)
    together = [a for part in zip(inputs, found, counts, strict=True) for a in part]
    numbers = tn.substitute(made.scalars, sizes)
    interpret(made.function, tn.substitute(made.grid, sizes), [*together, *numbers])
    np.testing.assert_array_equal(found, wanted)
    assert sum(map(np.count_nonzero, found)) == sum(map(np.prod, concrete))


ADD = """func @add(%x: ptr<f32>, %y: ptr<f32> {written = true}) {
  %0 = load %x : f32
  %1 = load %y : f32
  %2 = const {value = 0.5} : f32
  %3 = mul %1, %2 : f32
  %4 = add %0, %3 : f32
  store %y, %4
}
"""


def launch(function: Function, *buffers: int, cost: int = 4) -> Launch:
    arguments = tuple(StorageArg(buffer) for buffer in buffers)
    return Launch(Call("add", function, (1,), arguments, cost, cost), buffers)


def run(launches: Sequence[Launch], count: int) -> list[float]:
    """Return what launches leave in memory, each of whose buffers is a number."""
    memory = [np.full(1, i + 1, np.float32) for i in range(count)]
    for item in launches:
        arguments = [
            argument.value if buffer is None else memory[buffer]  # type: ignore[union-attr]
            for argument, buffer in zip(item.call.arguments, item.buffers, strict=True)
        ]
        interpret(item.call.function, item.call.grid, arguments)
    return [float(array[0]) for array in memory]


PAIRS = st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda p: p[0] != p[1])


@given(st.lists(st.tuples(PAIRS, st.booleans()), max_size=14))
@settings(max_examples=150, deadline=None)
def test_the_order_is_right(steps: list[tuple[tuple[int, int], bool]]) -> None:
    """Each step reads and writes: what any two of one buffer leave depends on their order."""
    add = parse(ADD)
    big = module.MOST_BYTES + 1
    before = [launch(add, *pair, cost=4 if small else big) for pair, small in steps]
    after = horizontal(before)
    assert run(after, 6) == run(before, 6)
    assert sum(len(item.buffers) for item in after) == 2 * len(before)
    for one, other in product(after, after):
        if one is not other and one.writes & other.writes:
            assert not one.writes & one.reads


def test_what_is_independent_is_one_launch() -> None:
    add = parse(ADD)
    (one,) = horizontal([launch(add, 2 * i, 2 * i + 1) for i in range(5)])
    assert one.call.grid == (5,)
    assert one.call.bytes == one.call.flops == 20
    assert one.call.label == " | ".join(["add"] * 5)
    chain = [launch(add, i, i + 1) for i in range(5)]
    assert horizontal(chain) == chain


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    add = parse(ADD)
    wide = parse(ADD.replace("f32", "f64"))
    launches = [launch(add, 2 * i, 2 * i + 1) for i in range(6)]
    assert len(horizontal([*launches, launch(wide, 20, 21)])) == 2  # vectors of another width
    monkeypatch.setattr(module, "MOST_PARAMETERS", 4)
    assert [item.call.grid for item in horizontal(launches)] == [(2,)] * 3
    monkeypatch.undo()
    monkeypatch.setattr(module, "MOST_OPS", 18)
    assert [item.call.grid for item in horizontal(launches)] == [(3,)] * 2
    monkeypatch.undo()
    monkeypatch.setattr(module, "MOST_FLOPS", 3)
    assert horizontal(launches) == launches


def test_what_fills_much_of_the_arena_joins_nothing_before_it() -> None:
    add = parse(ADD)
    filling = replace(launch(add, 2, 3), made=module.MOST_MADE_BYTES + 1)
    assert horizontal([launch(add, 0, 1), filling]) == [launch(add, 0, 1), filling]
    assert len(horizontal([filling, launch(add, 0, 1)])) == 1


SHAPES = [(4, 3), (7,), (2, 3, 5), (), (33,), (1, 40)]


@pytest.mark.parametrize("device", ["cpu", "ndarray"])
def test_updates_of_many_parameters(device: str) -> None:
    """AdamW on parameters of any shapes, against its rule in float64."""
    rng = np.random.default_rng(3)
    tensors = {f"p{i}": tn.Tensor(rng.standard_normal(s), "f32") for i, s in enumerate(SHAPES)}
    start = {name: tensor.numpy().astype(np.float64) for name, tensor in tensors.items()}
    rule = optim.AdamW(lr=0.1)
    slots = rule.init(tensors)

    def step(x: Any) -> Any:
        found = {name: tensor * x for name, tensor in tensors.items()}
        new, state = rule.update(tensors, found, slots, tn.Tensor(0.1), tn.Tensor(1))
        for name, value in new.items():
            tensors[name].assign(value)
        for name, value in state.items():
            slots[name].assign(value)
        return x + 1

    names = {**tensors, **slots}
    graph = tn.trace(step, tn.SymTensor.input("f32", ()), parameters=names)
    schedule = make_schedule(FXGraph.from_graph(graph), host_target(), templates=())
    assert len(schedule.steps) <= 2
    tn.compile(graph, device)(np.float32(3))
    for name, before in start.items():
        gradient = 3 * before
        moved = 0.1 * gradient / (np.abs(gradient) + 1e-8)  # the first step of Adam
        wanted = before * (1 - 0.1 * rule.weight_decay) - moved
        np.testing.assert_allclose(tensors[name].numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_reductions_go_along(check: Any) -> None:
    widths = (3, 8, 40)
    leaves = tuple(ops.input(f"x{k}", (tn.symbol("n"), k), tn.f32) for k in widths)
    sums = tuple(ops.sum(node, (axis,)) for node in leaves for axis in (0, 1))
    graph = tn.Graph("sums", leaves, (), sums)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((5, k)).astype(np.float32) for k in widths]
    assert len(check(graph, arrays).steps) == 1
    check(graph, [array[:0] for array in arrays])


def test_branches_run_side_by_side() -> None:
    """Four products of few programs each, and what four others make of their results."""
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal((32, 256), np.float32)]
    shapes = [(256, 512)] * 4 + [(512, 256)] * 4
    arrays += [rng.standard_normal(shape, np.float32) / 16 for shape in shapes]

    def branches(x: Any, *weights: Any) -> Any:
        return [(x @ a).relu() @ b for a, b in zip(weights[:4], weights[4:], strict=True)]

    graph = tn.trace(branches, *(tn.SymTensor.input(tn.f32, array.shape) for array in arrays))
    program = tn.compile(graph, "cpu")
    assert program.stats()["kernels"] == 2
    x, *weights = (array.astype(np.float64) for array in arrays)
    for found, a, b in zip(program(*arrays), weights[:4], weights[4:], strict=True):
        np.testing.assert_allclose(found, np.maximum(x @ a, 0) @ b, rtol=1e-4, atol=1e-4)
