"""How library kernels are asked: operands, epilogues, and what happens when they refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.lower import templates as lowering
from teeny_compiler.schedule import Schedule, make_schedule
from teeny_compiler.schedule.run import run_schedule
from teeny_core import Graph, Node, f32, ops
from teeny_core.internal import evaluate_updates
from teeny_triton import Facts, Ptr, Target, build_function
from teeny_triton import language as tl
from teeny_triton.launch import BufferArg, Launch, Plan, Request

TARGET = Target("x86_64-unknown-linux-gnu", "", frozenset(), 128, 16)
RNG = np.random.default_rng(4)


class Products:
    """A plain f32 matmul kernel: a program computes one row in one tile."""

    name = "products"
    ops: tuple[str, ...] = ("matmul",)

    def __init__(self, accepts: Callable[[Request], bool] = lambda request: True) -> None:
        self.accepts = accepts
        self.asked: list[Request] = []

    def plan(self, request: Request, target: Target) -> Plan | None:
        self.asked.append(request)
        a, b = request.inputs
        swapped_a, swapped_b = request.attrs["transpose_a"], request.attrs["transpose_b"]
        if len(a.shape) != 2 or not self.accepts(request):
            return None
        (rows, columns), depth = request.output.shape, a.shape[0 if swapped_a else 1]
        assert isinstance(rows, int)
        assert isinstance(columns, int)
        epilogue = request.epilogue
        more = [] if epilogue is None else epilogue.operands
        shared = Facts(noalias=False)  # the result may replace what the epilogue reads
        parameters = [("a", Ptr[f32]), ("b", Ptr[f32]), ("y", Ptr[f32], shared)]
        parameters += [(f"e{i}", Ptr[operand.dtype], shared) for i, operand in enumerate(more)]
        with build_function("products", parameters) as build:
            left, right, out, *extra = build.arguments
            row = tl.program_id(0)
            lanes = tl.arange(0, 8)
            mask = lanes < columns
            steps_a = a.strides[::-1] if swapped_a else a.strides
            steps_b = b.strides[::-1] if swapped_b else b.strides
            with (loop := tl.loop(0, depth, 1, [tl.zeros((8,), f32)])) as (k, (total,)):
                factor = tl.load(left + row * steps_a[0] + k * steps_a[1])
                value = tl.load(right + k * steps_b[0] + lanes * steps_b[1], mask)
                tl.yield_(total + factor * value)
            (result,) = loop.results
            if epilogue is not None:
                result = epilogue.apply(result, [row, lanes], mask, extra)
            step, lane = request.output.strides
            tl.store(out + row * step + lanes * lane, result, mask)
        arguments = (BufferArg("input", 0), BufferArg("input", 1), BufferArg("output"))
        extras = () if epilogue is None else epilogue.arguments
        return Plan((Launch(build.function, (rows,), (*arguments, *extras)),))


def run(graph: Graph, templates: Sequence[Any], arrays: Sequence[Any]) -> Schedule:
    schedule = make_schedule(FXGraph.from_graph(graph), TARGET, templates)
    schedule.verify()
    wanted, _ = evaluate_updates(graph, arrays, {})
    for have, want in zip(run_schedule(schedule, arrays, {}, {}), wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)
    return schedule


def leaf(name: str, *shape: int) -> Node:
    return ops.input(name, shape, f32)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def test_bias_activation_and_residual_are_one_launch() -> None:
    x, w, b = leaf("x", 5, 6), leaf("w", 6, 7), leaf("b", 7)
    y = ops.add(ops.matmul(x, w), ops.broadcast_to(b, (5, 7)))
    graph = Graph("linear", (x, w, b), (), (ops.mul(ops.relu(y), y),))
    schedule = run(graph, [Products()], [normal(5, 6), normal(6, 7), normal(7)])
    assert len(schedule.steps) == 1


def test_a_value_before_the_activation_is_stored_by_the_epilogue() -> None:
    x, w = leaf("x", 5, 6), leaf("w", 6, 7)
    y = ops.mul(ops.matmul(x, w), ops.full((5, 7), 0.5, f32))
    graph = Graph("both", (x, w), (), (y, ops.tanh(y)))
    assert len(run(graph, [Products()], [normal(5, 6), normal(6, 7)]).steps) == 1


def test_an_epilogue_that_is_refused_is_a_kernel_of_its_own() -> None:
    x, w = leaf("x", 5, 6), leaf("w", 6, 7)
    graph = Graph("apart", (x, w), (), (ops.tanh(ops.matmul(x, w)),))
    template = Products(lambda request: request.epilogue is None)
    assert len(run(graph, [template], [normal(5, 6), normal(6, 7)]).steps) == 2


def test_transposes_become_flags() -> None:
    x, w = leaf("x", 6, 5), leaf("w", 7, 6)
    product = ops.matmul(ops.permute(x, (1, 0)), ops.permute(w, (1, 0)))
    template = Products()
    run(Graph("flags", (x, w), (), (product,)), [template], [normal(6, 5), normal(7, 6)])
    assert template.asked[-1].attrs["transpose_a"]
    assert template.asked[-1].attrs["transpose_b"]
    assert all(operand.contiguous for operand in template.asked[-1].inputs)


def test_slices_are_read_in_place() -> None:
    x, w = leaf("x", 8, 9), leaf("w", 6, 7)
    part = ops.slice(x, (2, 3), (7, 9), (1, 1))
    template = Products()
    schedule = run(
        Graph("slice", (x, w), (), (ops.matmul(part, w),)), [template],
        [normal(8, 9), normal(6, 7)],
    )  # fmt: skip
    assert template.asked[-1].inputs[0].strides == (9, 1)
    assert len(schedule.steps) == 1


def test_without_a_library_a_plain_nest_computes() -> None:
    x, w = leaf("x", 5, 6), leaf("w", 6, 7)
    graph = Graph("plain", (x, w), (), (ops.tanh(ops.matmul(x, w)),))
    assert (
        len(run(graph, [Products(lambda request: False)], [normal(5, 6), normal(6, 7)]).steps) == 1
    )


def test_operands_are_copied_for_a_kernel_that_wants_them_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lowering, "body_of", lambda graph, number: None)
    x, w = leaf("x", 5, 12), leaf("w", 6, 7)
    every_other = ops.slice(x, (0, 0), (5, 12), (1, 2))
    graph = Graph("copy", (x, w), (), (ops.relu(ops.matmul(every_other, w)),))
    in_order = Products(lambda request: all(operand.contiguous for operand in request.inputs))
    schedule = run(graph, [in_order], [normal(5, 12), normal(6, 7)])
    assert [step.label.rpartition(", ")[2] for step in schedule.steps][::2] == ["copy", "apart"]


def test_an_op_that_nothing_computes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "body_of", lambda graph, number: None)
    x, w = leaf("x", 5, 6), leaf("w", 6, 7)
    graph = Graph("none", (x, w), (), (ops.matmul(x, w),))
    with pytest.raises(tn.CompileError, match=r"no kernel computes matmul of type f32\[5, 7\]"):
        make_schedule(FXGraph.from_graph(graph), TARGET, [])


def test_a_permuted_result_is_written_in_its_place() -> None:
    x, w, b = leaf("x", 5, 6), leaf("w", 6, 7), leaf("b", 5)
    turned = ops.permute(ops.matmul(x, w), (1, 0))
    y = ops.relu(ops.add(turned, ops.broadcast_to(b, (7, 5))))
    arrays = [normal(5, 6), normal(6, 7), normal(5)]
    schedule = run(Graph("turned", (x, w, b), (), (y,)), [Products()], arrays)
    assert len(schedule.steps) == 1
    assert len(run(Graph("moved", (x, w, b), (), (turned,)), [Products()], arrays).steps) == 1


def test_a_permuted_result_whose_epilogue_is_refused_is_written_in_its_place() -> None:
    x, w, r = leaf("x", 5, 6), leaf("w", 6, 7), leaf("r", 5, 7)
    y = ops.permute(ops.add(ops.matmul(x, w), r), (1, 0))
    template = Products(lambda request: request.epilogue is None)
    arrays = [normal(5, 6), normal(6, 7), normal(5, 7)]
    assert len(run(Graph("turned", (x, w, r), (), (ops.tanh(y),)), [template], arrays).steps) == 2


def test_row_and_column_values_meet_in_an_epilogue() -> None:
    x, w, b, c = leaf("x", 5, 6), leaf("w", 6, 7), leaf("b", 7), leaf("c", 5, 1)
    scale = ops.mul(ops.broadcast_to(ops.exp(c), (5, 7)), ops.broadcast_to(b, (5, 7)))
    y = ops.where(
        ops.lt(ops.iota((5, 7), 0, f32), ops.iota((5, 7), 1, f32)), ops.matmul(x, w), scale
    )
    arrays = [normal(5, 6), normal(6, 7), normal(7), normal(5, 1)]
    run(Graph("outer", (x, w, b, c), (), (y,)), [Products()], arrays)


def test_a_light_update_is_made_while_the_gradient_is_in_registers() -> None:
    x, dy, p, v = leaf("x", 6, 5), leaf("dy", 6, 7), leaf("p", 5, 7), leaf("v", 5, 7)
    gradient = ops.matmul(x, dy, transpose_a=True)
    speed = ops.add(ops.mul(v, ops.full((5, 7), 0.9, f32)), gradient)
    new = ops.sub(p, ops.mul(speed, ops.full((5, 7), 0.1, f32)))
    graph = Graph("sgd", (x, dy), (p, v), (), ((p, new), (v, speed)))
    schedule = make_schedule(FXGraph.from_graph(graph), TARGET, [Products()])
    assert len(schedule.steps) == 1
    arrays = [normal(6, 5), normal(6, 7)]
    parameters = {"p": normal(5, 7), "v": normal(5, 7)}
    _, wanted = evaluate_updates(graph, arrays, parameters)
    run_schedule(schedule, arrays, parameters, {})
    for name, value in wanted.items():
        np.testing.assert_allclose(parameters[name], value, rtol=1e-5, atol=1e-6)
