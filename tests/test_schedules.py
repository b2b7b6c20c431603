"""Facts about what models compile to, with the kernels of the library: launches, not times."""

from __future__ import annotations

from typing import Any

import pytest
import teeny_core as tn
from teeny_bench.zoo import ZOO
from teeny_compiler import FXGraph, Schedule, make_schedule
from teeny_compiler.internal import host_target
from teeny_compiler.optimise import optimise
from teeny_compiler.schedule import BufferRef
from teeny_core import nn, optim


class LeNet5(nn.Layer[Any, Any]):
    def __init__(self) -> None:
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.head = nn.Sequential(
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
            nn.Linear(84, 10),
        )  # fmt: skip

    def call(self, x: Any) -> Any:
        x = self.conv1(x).relu().max_pool2d(2)
        return self.head(self.conv2(x).relu().max_pool2d(2))


class Block(nn.Layer[Any, Any]):
    """A pre-norm transformer block."""

    def __init__(self, width: int) -> None:
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def call(self, x: Any) -> Any:
        y = self.norm1(x)
        x = x + self.attention(y, y, y)[0]
        return x + self.down(self.up(self.norm2(x)).gelu())


def scheduled(graph: tn.Graph, *, frozen: bool = False) -> Schedule:
    from teeny_compiler.lower.templates import serves

    target = host_target()
    fx = FXGraph.from_graph(graph, lambda node: serves(node, target))
    schedule = make_schedule(optimise(fx), target, frozen=frozen)
    schedule.verify()
    return schedule


def by_library(schedule: Schedule) -> int:
    """The number of kernels of the library in all steps."""
    return sum(step.label.count(" by ") for step in schedule.steps)


def test_lenet_infers_in_five_kernels() -> None:
    graph = tn.trace(LeNet5(), tn.SymTensor.input(tn.f32, ("n", 1, 28, 28)))
    schedule = scheduled(graph, frozen=True)  # filters are packed once, before the first run
    assert len(schedule.steps) == by_library(schedule) == 5


def test_lenet_trains_in_few_kernels() -> None:
    step = tn.train_step(LeNet5(), nn.CrossEntropyLoss(), optim.AdamW(lr=1e-3), device="null")
    graph = step.graph(
        tn.SymTensor.input(tn.f32, ("n", 1, 28, 28)), tn.SymTensor.input(tn.i64, ("n",))
    )
    schedule = scheduled(graph)
    assert len(schedule.steps) <= 22
    written = {schedule.buffers[i].name for step in schedule.steps for i in step.writes}
    assert {name for name, _ in step._model.named_parameters()} <= written
    at = {"n": 64}
    assert tn.substitute(schedule.arena, at) <= 1.25 * tn.substitute(schedule.arena_bound, at)


@pytest.mark.parametrize("width", [32, 64])
def test_a_transformer_block_is_seven_kernels(width: int) -> None:
    block = Block(width)
    block.eval()
    schedule = scheduled(tn.trace(block, tn.SymTensor.input(tn.f32, ("n", 16, width))))
    assert len(schedule.steps) <= 7
    assert by_library(schedule) == 5  # queries, keys and values are projected at once


def test_a_fused_kernel_reads_each_input_once() -> None:
    graph = tn.trace(
        lambda x: (x - x.mean(-1, keepdims=True)).softmax(-1) * x,
        tn.SymTensor.input(tn.f32, ("n", 300)),
    )
    (step,) = scheduled(graph).steps
    assert len(step.reads) == len(step.writes) == 1


@pytest.mark.parametrize("name", ["U-Net", "BERT-mini", "Llama blocks", "DLRM"])
def test_generated_kernels_of_the_zoo_read_each_input_once(name: str) -> None:
    entry = next(entry for entry in ZOO if entry.name == name)
    inputs, _ = entry.small.batch_of(2)
    handles = [tn.SymTensor.input(tn.dtype(x.dtype), x.shape) for x in inputs]
    schedule = scheduled(tn.trace(entry.make(**entry.small.arguments), *handles))
    generated = [s for s in schedule.steps if " by " not in s.label and " | " not in s.label]
    for step in generated:
        buffers = [a.buffer for a in step.arguments if isinstance(a, BufferRef)]
        assert len(buffers) == len({*buffers}) == len({*step.reads, *step.writes})
    assert isinstance(schedule.arena, int)
    assert isinstance(schedule.arena_bound, int)
    assert schedule.arena <= 1.05 * schedule.arena_bound
