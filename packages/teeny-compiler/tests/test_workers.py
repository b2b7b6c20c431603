"""Worker processes: the same objects, errors that name the kernel, crashes that do not spread."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from teeny_compiler.codegen.llvm import assembly, compile_object, machine_of
from teeny_compiler.codegen.workers import MOST_WORKERS, Worker, Workers, processors
from teeny_compiler.target import host_target
from teeny_core import CompileError

TARGET = host_target()


def module(name: str, lines: int) -> str:
    body = "\n".join(f"  store volatile i64 {i}, ptr %p" for i in range(lines))
    return f"define void @{name}(ptr %p) {{\n{body}\n  ret void\n}}\n"


TEXTS = {f"f{i}": module(f"f{i}", 1 + i * 37 % 200) for i in range(40)}
# Without SSE 4.2 there is no instruction for this.
UNSELECTABLE = """
declare i32 @llvm.x86.sse42.pcmpestri128(<16 x i8>, i32, <16 x i8>, i32, i8)
define i32 @bad(<16 x i8> %x) {
  %r = call i32 @llvm.x86.sse42.pcmpestri128(<16 x i8> %x, i32 1, <16 x i8> %x, i32 1, i8 1)
  ret i32 %r
}
"""


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.close()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_objects_do_not_depend_on_who_compiles(workers: Workers, count: int) -> None:
    workers.start(count)
    made = workers.compile(TEXTS, TARGET)
    again = workers.compile(TEXTS, TARGET)
    assert list(made) == list(TEXTS)
    assert made == {name: compile_object(text, TARGET) for name, text in TEXTS.items()}
    assert again == made


def test_workers_serve_any_target(workers: Workers) -> None:
    other = replace(TARGET, triple="aarch64-unknown-linux-gnu", cpu="generic", features=frozenset())
    for target in (TARGET, other, TARGET):
        assert workers.compile(TEXTS, target)["f3"] == compile_object(TEXTS["f3"], target)


def test_assembly_has_comments_and_leaves_the_worker_as_it_was(workers: Workers) -> None:
    assert workers.assembly("f3", TEXTS["f3"], TARGET) == assembly(TEXTS["f3"], TARGET)
    assert "# @f3" in workers.assembly("f3", TEXTS["f3"], replace(TARGET, triple="x86_64-linux"))
    with pytest.raises(CompileError, match="LLVM has no target 'nowhere'"):
        workers.assembly("f3", TEXTS["f3"], replace(TARGET, triple="nowhere"))
    with pytest.raises(CompileError, match="LLVM refuses the generated code: wrong: "):
        workers.assembly("wrong", "define void @wrong() { ret i32 0 }", TARGET)
    assert workers.compile(TEXTS, TARGET)["f3"] == compile_object(TEXTS["f3"], TARGET)


def test_a_module_that_llvm_refuses_is_named(workers: Workers) -> None:
    with pytest.raises(CompileError, match="LLVM refuses the generated code: wrong: "):
        workers.compile({**TEXTS, "wrong": "define void @wrong() { ret i32 0 }"}, TARGET)
    assert list(workers.compile(TEXTS, TARGET)) == list(TEXTS)


def test_modules_come_while_others_are_compiled(workers: Workers) -> None:
    workers.start(2)
    with workers.compilation(TARGET) as compilation:
        for name, text in TEXTS.items():
            compilation.add(name, text)
            if name == "f20":
                while "f0" not in compilation._made:
                    time.sleep(0.001)
        made = compilation.result()
    assert made == {name: compile_object(text, TARGET) for name, text in TEXTS.items()}


def test_what_is_compiled_in_vain_is_dropped(workers: Workers) -> None:
    def fail() -> None:
        with workers.compilation(TARGET) as compilation:
            for name, text in TEXTS.items():
                compilation.add(name, text)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(workers.compile(TEXTS, TARGET)) == list(TEXTS)


def test_an_unknown_triple_is_refused(workers: Workers) -> None:
    with pytest.raises(CompileError, match="LLVM has no target 'nowhere'"):
        workers.compile(TEXTS, replace(TARGET, triple="nowhere"))


@pytest.mark.skipif(not TARGET.triple.startswith("x86_64"), reason="an intrinsic of x86")
def test_what_llvm_dies_of_is_an_error_and_not_the_end(workers: Workers) -> None:
    plain = replace(TARGET, features=frozenset())
    with pytest.raises(CompileError, match=r"LLVM crashed on the kernel bad \(exit code -"):
        workers.compile({"bad": UNSELECTABLE}, plain)
    with pytest.raises(CompileError, match=r"LLVM crashed on the kernel bad \(exit code -"):
        workers.assembly("bad", UNSELECTABLE, plain)
    assert list(workers.compile(TEXTS, TARGET)) == list(TEXTS)


def test_a_worker_that_dies_is_an_error_and_not_the_end() -> None:
    worker = Worker()
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(CompileError, match=r"crashed on the kernel f1 \(exit code -9\)"):
        worker.compile("f1", TEXTS["f1"], machine_of(TARGET))
    worker.close()


def test_a_worker_that_died_idle_is_replaced(workers: Workers) -> None:
    workers.compile(TEXTS, TARGET)
    (worker,) = workers._idle
    os.kill(worker.pid, signal.SIGKILL)
    worker._process.wait()
    assert list(workers.compile(TEXTS, TARGET)) == list(TEXTS)


def test_one_worker_is_kept(workers: Workers) -> None:
    workers.start(3)
    processes = [worker._process for worker in workers._idle]
    workers.compile(TEXTS, TARGET)
    assert [process.poll() is None for process in processes] == [True, False, False]


def test_an_interrupt_leaves_no_answer_behind(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(worker: Worker, *arguments: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "compile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            workers.compile({"f1": TEXTS["f1"]}, TARGET)
    assert workers.compile(TEXTS, TARGET)["f2"] == compile_object(TEXTS["f2"], TARGET)


def test_threads_compile_at_once(workers: Workers) -> None:
    made: list[dict[str, bytes]] = []
    threads = [
        threading.Thread(target=lambda: made.append(workers.compile(TEXTS, TARGET)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert all(item == made[0] for item in made)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_has_workers_of_its_own(workers: Workers) -> None:
    workers.start(1)
    parents = workers._idle[0].pid
    child = os.fork()
    if child == 0:
        workers.start(1)
        own = workers._idle[0].pid
        workers.close()
        os._exit(0 if own != parents else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert list(workers.compile(TEXTS, TARGET)) == list(TEXTS)


def test_processors_follow_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_NUM_THREADS", "1")
    assert processors() == 1
    monkeypatch.delenv("TEENY_NUM_THREADS")
    assert 1 <= processors() <= MOST_WORKERS
