"""Programs: what they accept, what they share, what they change; values against NumPy."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import CompileError, ConfigError, DTypeError, ShapeError, SymTensor, nn
from teeny_cpu import num_threads, program, set_num_threads

Array = np.ndarray[Any, Any]


def compiled(function: Callable[..., Any], *arguments: SymTensor, **options: str) -> Any:
    return tn.compile(tn.trace(function, *arguments), "cpu", options=options)


def rows(*shape: int | str | None, name: str | None = None) -> SymTensor:
    return SymTensor.input(tn.f32, shape, name=name)


def affine(x: Any, y: Any) -> Any:
    return x * 2 + y.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def affine_program() -> Any:
    return compiled(affine, rows("n", 5), rows("n", "m"))


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def expected(x: Array, y: Array) -> Array:
    return (x.astype(np.float64) * 2 + y.astype(np.float64).sum(1, keepdims=True)).astype(
        np.float32
    )


# --- shapes and layouts ---------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 17, 3000])
@pytest.mark.parametrize("m", [0, 1, 33])
def test_symbolic_sizes(affine_program: Any, n: int, m: int) -> None:
    x, y = values(n, 5), values(n, m, seed=1)
    found = affine_program(x, y)
    assert found.shape == (n, 5)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(x, y), rtol=1e-5, atol=1e-5)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "column-major": np.asfortranarray,
    "reversed": lambda a: a[::-1],
    "every second": lambda a: np.repeat(a, 2, axis=0)[::2],
    "column of a wider array": lambda a: np.hstack([a, a])[:, : a.shape[1]],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
    "tensor": tn.Tensor,
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_is_accepted(affine_program: Any, layout: str) -> None:
    x, y = values(8, 5), values(8, 3, seed=1)
    shown = LAYOUTS[layout](x)
    for _ in range(2):
        affine_program(x, y)  # the next call goes the short way, where it is open to it
        found = affine_program(shown, y)
        seen = np.asarray(shown).astype(np.float32)
        np.testing.assert_allclose(found, expected(seen, y), rtol=1e-5)


class Named(np.ndarray[Any, Any]):
    """An array of a type of its own."""


def read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def test_calls_of_changing_shapes_and_kinds_of_arrays(affine_program: Any) -> None:
    kinds: list[Callable[[Array], Any]] = [
        lambda a: a,
        read_only,
        lambda a: a.view(Named),
        np.ndarray.tolist,
    ]
    double = compiled(lambda x: x * 2, SymTensor.input(tn.f64, ("n", "m")))
    for n, m in [(3, 4), (3, 4), (4, 3), (3, 4), (1, 12), (0, 4), (4, 0), (3, 4)]:
        for kind in kinds:
            array = values(n, m).astype(np.float64)
            if array.size:  # a list without elements has no element type
                np.testing.assert_array_equal(double(kind(array)), 2 * array)
        x, y = values(n, 5), values(n, m, seed=1)
        np.testing.assert_allclose(affine_program(x, y), expected(x, y), rtol=1e-5, atol=1e-5)


def test_lists_and_scalars_are_converted() -> None:
    double = compiled(lambda x: x * 2, SymTensor.input(tn.i64, ("n",)))
    assert double([1, 2, 3]).tolist() == [2, 4, 6]
    negate = compiled(lambda x: -x, SymTensor.input(tn.f64, ()))
    assert negate(0.25) == -0.25


def test_outputs_are_new_at_every_call(affine_program: Any) -> None:
    x, y = values(4, 5), values(4, 3)
    first = affine_program(x, y)
    kept = first.copy()
    second = affine_program(x + 1, y)
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second)


def test_graphs_may_return_inputs_constants_and_one_value_twice() -> None:
    weight = tn.Tensor([1.0, 2.0])

    def many(x: Any) -> Any:
        y = x + weight
        return y, x, weight, y, x * 0 + 3

    run = compiled(many, rows(2))
    x = values(2)
    outputs = run(x)
    total = x + np.array([1, 2], np.float32)
    for found, wanted in zip(outputs, (total, x, [1, 2], total, [3, 3]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    outputs[1][:] = 0
    outputs[2][:] = 0
    assert weight.tolist() == [1, 2]
    assert x.any()


def test_a_graph_without_inputs() -> None:
    run = compiled(lambda: tn.Tensor([1.0, 2.0]) * 3)
    assert run().tolist() == [3, 6]


# --- wrong inputs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((values(2, 5),), ShapeError, "takes 2 inputs, got 1"),
        ((values(2, 5), values(2, 3), values(1)), ShapeError, "takes 2 inputs, got 3"),
        ((values(2, 4), values(2, 3)), ShapeError, "5"),
        ((values(2, 5), values(3, 3)), ShapeError, "n"),
        ((values(2, 5), values(2)), ShapeError, "rank"),
        ((values(2, 5).astype(np.float64), values(2, 3)), DTypeError, "'x'.*f64"),
        ((values(2, 5), values(2, 3).astype(np.int32)), DTypeError, "'y'.*i32"),
        ((np.array([["a"]]), values(1, 3)), DTypeError, "is no element type"),
        ((None, values(1, 3)), DTypeError, "is no element type"),
    ],
)
def test_wrong_inputs_are_named(
    affine_program: Any, arguments: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    for _ in range(2):
        affine_program(values(2, 5), values(2, 3))  # what follows must not pass for the same
        with pytest.raises(error, match=text) as raised:
            affine_program(*arguments)
        assert "hint: " in str(raised.value)


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (1, 9)])
def test_windows_beyond_the_image_are_refused(shape: tuple[int, int]) -> None:
    image = tn.SymTensor.input("f32", (1, 1, "h", "w"))
    weight = tn.SymTensor.input("f32", (1, 1, 3, 3))
    program = tn.compile(tn.trace(lambda x, w: x.conv2d(w).sum(), image, weight), "cpu")
    filters = np.ones((1, 1, 3, 3), np.float32)
    assert program(np.ones((1, 1, 3, 4), np.float32), filters) == 18
    with pytest.raises(tn.ShapeError, match="larger inputs"):
        program(np.ones((1, 1, *shape), np.float32), filters)


def test_options_and_stages_have_names(affine_program: Any) -> None:
    with pytest.raises(ConfigError, match=r"hint: options are optimise=on\|off"):
        compiled(lambda x: x + 1, rows(2), speed="on")
    with pytest.raises(CompileError, match="hint: stages are graph"):
        affine_program.emit("nonsense")
    for stage in ("graph", "fxgraph", "schedule", "tile", "llvm", "asm", "object"):
        assert affine_program.emit(stage)
    assert "define i32 @teeny_program" in affine_program.emit("llvm")
    assert affine_program.stats()["kernels"] >= 1


# --- parameters -----------------------------------------------------------------------------------


def counter() -> tuple[Any, tn.Tensor]:
    state = tn.Tensor(np.zeros((1000,), np.float32))

    def count(x: Any) -> Any:
        state.assign(state + x)
        return state.sum()

    return compiled(count, rows(1000)), state


def test_updates_are_written_in_place_and_seen_by_tensors() -> None:
    run, state = counter()
    x = np.ones(1000, np.float32)
    lazy = state * 2
    for _ in range(3):
        run(x)
    assert (state.numpy() == 3).all()
    assert (lazy.numpy() == 0).all()  # it was asked for before the updates


def test_programs_see_parameters_that_others_change() -> None:
    weight = tn.Tensor([1.0, 2.0, 3.0])
    run = compiled(lambda x: x * weight, rows("n", 3))
    x = values(4, 3)
    np.testing.assert_array_equal(run(x), x * np.array([1, 2, 3], np.float32))
    weight.assign(tn.Tensor([5.0, 5.0, 5.0]))
    np.testing.assert_array_equal(run(x), x * 5)
    other = tn.compile(tn.trace(lambda x: x * weight, rows("n", 3)), "ndarray")
    np.testing.assert_array_equal(other(x), x * 5)  # moves the tensor to another device
    weight.assign(tn.Tensor([7.0, 7.0, 7.0]))
    np.testing.assert_array_equal(run(x), x * 7)


def test_an_input_may_share_memory_with_a_parameter_that_is_written() -> None:
    state = tn.Tensor(np.arange(64, dtype=np.float32))

    def mix(x: Any) -> Any:
        state.assign(state + x[::-1])
        return x * 1

    run = compiled(mix, rows(64))
    run(np.zeros(64, np.float32))  # the tensor is on the device now
    view = state.numpy()
    old = view.copy()
    np.testing.assert_array_equal(run(view), old)
    np.testing.assert_array_equal(state.numpy(), old + old[::-1])


def test_work_on_frozen_parameters_is_done_once() -> None:
    weight = tn.Tensor(values(8, 8))
    graph = tn.trace(lambda x: x @ (weight * 2 + 1).exp(), rows("n", 8))
    run = tn.compile(graph, "cpu", options={"frozen": "on"})
    assert "prepare" in run.emit("schedule")
    x = values(3, 8, seed=1)
    wanted = tn.compile(graph, "ndarray")(x)
    np.testing.assert_allclose(run(x), wanted, rtol=1e-5)
    weight.assign(weight * 0)  # against the promise
    np.testing.assert_allclose(run(x), wanted, rtol=1e-5)


def test_batch_normalisation_folds_into_frozen_weights() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    graph = tn.trace(net, rows("n", 3, 12, 12))
    run = tn.compile(graph, "cpu", options={"frozen": "on", "fast": "on"})
    x = values(2, 3, 12, 12)
    np.testing.assert_allclose(run(x), tn.compile(graph, "ndarray")(x), rtol=1e-4, atol=1e-5)


def test_options_decide_how_convolutions_round() -> None:
    """By definition infinities stay where they are; the transforms may make NaN of them."""
    graph = tn.trace(nn.Conv2d(64, 64, 3, padding=1, bias=False), rows("n", 64, 28, 28))
    x = values(1, 64, 28, 28)
    wanted = tn.compile(graph, "ndarray")(x)
    found = {name: tn.compile(graph, "cpu", options={name: "on"}) for name in ("direct", "fast")}
    assert "conv_winograd" not in found["direct"].emit("schedule")
    assert "conv_winograd" in found["fast"].emit("schedule")
    for run in found.values():
        np.testing.assert_allclose(run(x), wanted, atol=2e-5)
    x[0, 3, 9, 10] = np.inf
    wanted = tn.compile(graph, "ndarray")(x)
    np.testing.assert_allclose(found["direct"](x), wanted, atol=2e-5)
    assert np.isposinf(wanted).any()
    assert not np.isnan(wanted).any()
    both = tn.compile(graph, "cpu", options={"fast": "on", "direct": "on"})
    assert "conv_winograd" not in both.emit("schedule")


# --- threads, tasks, processes --------------------------------------------------------------------


def together(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_calls_from_many_threads_do_not_mix(affine_program: Any) -> None:
    def work(number: int) -> None:
        for repeat in range(60):
            x, y = values(20 + number, 5, seed=number), values(20 + number, 3, seed=repeat)
            np.testing.assert_allclose(affine_program(x, y), expected(x, y), rtol=1e-4, atol=1e-4)

    together(6, work)


def test_updates_from_many_threads_all_count() -> None:
    run, state = counter()
    together(6, lambda _: [run(np.ones(1000, np.float32)) for _ in range(50)] and None)
    assert (state.numpy() == 300).all()


def test_runs_gather_in_asyncio(affine_program: Any) -> None:
    async def main() -> None:
        inputs = [(values(9, 5, seed=i), values(9, 3, seed=i + 50)) for i in range(20)]
        found = await asyncio.gather(*(affine_program.run_async(x, y) for x, y in inputs))
        for result, (x, y) in zip(found, inputs, strict=True):
            np.testing.assert_allclose(result, expected(x, y), rtol=1e-4, atol=1e-4)

    asyncio.run(main())


def test_the_interpreter_is_free_while_code_runs() -> None:
    slow = compiled(lambda x: (x @ x) @ x, rows(900, 900))
    x = values(900, 900)
    slow(x)
    ticks = []

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    done = threading.Event()
    ticker = threading.Thread(target=tick)
    ticker.start()
    for _ in range(3):
        slow(x)
    done.set()
    ticker.join()
    assert len(ticks) > 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_runs_programs(affine_program: Any) -> None:
    x, y = values(3000, 5), values(3000, 300)
    wanted = affine_program(x, y)
    child = os.fork()
    if child == 0:
        found = affine_program(x, y)
        os._exit(0 if np.array_equal(found, wanted) else 1)
    deadline = time.monotonic() + 20
    status = None
    while status is None and time.monotonic() < deadline:
        pid, code = os.waitpid(child, os.WNOHANG)
        status = code if pid else None
        time.sleep(0.002)
    if status is None:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert status == 0


EXIT = """
import threading, time
import numpy as np
import teeny_core as tn
import teeny_cpu

teeny_cpu.set_num_threads(3)
x = tn.SymTensor.input(tn.f32, ("n", 1024))
run = tn.compile(tn.trace(lambda x: x.softmax(-1), x), "cpu")
rows = np.zeros((512, 1024), np.float32)
run(rows)

def forever():
    while True:
        run(rows)

for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
time.sleep(0.1)
"""


def test_a_process_ends_cleanly_while_programs_run() -> None:
    done = subprocess.run([sys.executable, "-c", EXIT], timeout=60, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture
def restored_threads() -> Any:
    before = num_threads()
    yield
    set_num_threads(before)


@pytest.mark.usefixtures("restored_threads")
def test_any_number_of_threads_gives_equal_bits(affine_program: Any) -> None:
    x, y = values(5000, 5), values(5000, 64)
    found = []
    for threads in (1, 2, 5):
        set_num_threads(threads)
        assert num_threads() == threads
        found.append(affine_program(x, y))
    assert all(np.array_equal(found[0], other) for other in found)


def test_a_number_of_threads_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="hint: "):
        set_num_threads(0)


# --- memory ---------------------------------------------------------------------------------------


def network(x: Any) -> Any:
    hidden = (x @ tn.Tensor(values(7, 33))).relu()
    scores = hidden @ tn.Tensor(values(33, 13, seed=2))
    return scores.softmax(axis=-1), hidden.sum(axis=0), x.transpose(), scores[:, ::3]


@pytest.mark.parametrize("n", [1, 3, 31, 64, 257])
def test_nothing_is_touched_past_the_end(
    guarded: Any, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    monkeypatch.setattr(program, "empty", guarded.empty)
    monkeypatch.setattr(program, "maker", lambda shape, dtype: guarded.empty)
    graph = tn.trace(network, rows("n", 7))
    x = guarded.copy(values(n, 7, seed=3))
    found = tn.compile(graph, "cpu")(x)
    wanted = tn.compile(graph, "ndarray")(x)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_buffers_begin_at_a_cache_line() -> None:
    device = tn.device("cpu")
    for size in (1, 3, 1000):
        buffer = device.allocate((size,), tn.f32)
        assert buffer.numpy().ctypes.data % 64 == 0
        assert device.owns(buffer)
    assert set(device.properties()) >= {"processor", "vectors", "caches", "threads"}
