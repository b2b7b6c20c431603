"""Worker processes: the same objects, errors that name the kernel, crashes that do not spread."""

import os
import signal

import pytest
from teeny_compiler.codegen.llvm import compile_object
from teeny_compiler.codegen.workers import Workers, spare_processors
from teeny_compiler.target import host_target
from teeny_core import CompileError

TARGET = host_target()


def module(name: str, lines: int) -> str:
    body = "\n".join(f"  store volatile i64 {i}, ptr %p" for i in range(lines))
    return f"define void @{name}(ptr %p) {{\n{body}\n  ret void\n}}\n"


TEXTS = {f"f{i}": module(f"f{i}", 1 + i * 37 % 200) for i in range(40)}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_objects_do_not_depend_on_who_compiles(count: int) -> None:
    with Workers(TARGET, count) as workers:
        made = workers.compile(TEXTS)
        again = workers.compile(TEXTS)
    assert list(made) == list(TEXTS)
    assert made == {name: compile_object(text, TARGET) for name, text in TEXTS.items()}
    assert again == made


def test_a_module_that_llvm_refuses_is_named() -> None:
    with (
        Workers(TARGET, 1) as workers,
        pytest.raises(CompileError, match="LLVM refuses the generated code"),
    ):
        workers.compile({**TEXTS, "wrong": "define void @wrong() { ret i32 0 }"})


def test_a_worker_that_dies_is_an_error_and_not_the_end() -> None:
    with Workers(TARGET, 1) as workers:
        (worker,) = workers._workers
        assert worker.is_ready()
        os.kill(worker._process.pid, signal.SIGKILL)
        with pytest.raises(CompileError, match=r"crashed on the kernel f1 \(exit code -9\)"):
            worker.compile("f1", TEXTS["f1"])


def test_workers_end_with_their_context() -> None:
    with Workers(TARGET, 2) as workers:
        processes = [worker._process for worker in workers._workers]
    assert all(process.poll() is not None for process in processes)


def test_one_thread_needs_no_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_NUM_THREADS", "1")
    assert spare_processors() == 0
