"""The thread pool in LLVM IR: every index once, whatever the threads of the process do."""

import ctypes
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from teeny_compiler.codegen.llvm import Library, jit
from teeny_compiler.pool import emit_pool
from teeny_compiler.target import host_target
from teeny_core import CompileError

KERNELS = """
; counts[i] += 1
define void @count(ptr %args, i64 %lo, i64 %hi, ptr %scratch) {
entry:
  %counts = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [ %lo, %entry ], [ %next, %loop ]
  %place = getelementptr i64, ptr %counts, i64 %i
  %old = load i64, ptr %place
  %new = add i64 %old, 1
  store i64 %new, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %loop, label %done
done:
  ret void
}

; places[i] = scratch, after filling the first 100 000 bytes of it
define void @where(ptr %args, i64 %lo, i64 %hi, ptr %scratch) {
entry:
  call void @llvm.memset.p0.i64(ptr %scratch, i8 1, i64 100000, i1 false)
  %places = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [ %lo, %entry ], [ %next, %loop ]
  %place = getelementptr ptr, ptr %places, i64 %i
  store ptr %scratch, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %loop, label %done
done:
  ret void
}

; a loop of a loop: args = { counts, pool }
define void @nest(ptr %args, i64 %lo, i64 %hi, ptr %scratch) {
  %pool.p = getelementptr ptr, ptr %args, i64 1
  %pool = load ptr, ptr %pool.p
  %counts = load ptr, ptr %args
  %start = getelementptr i64, ptr %counts, i64 %lo
  %inner = alloca ptr
  store ptr %start, ptr %inner
  %n = sub i64 %hi, %lo
  call void @teeny_parallel_for(ptr %pool, ptr @count, ptr %inner, i64 %n, i64 1, ptr %scratch, i64 0)
  ret void
}
"""  # noqa: E501


class Native:
    """The functions of the pool and of the kernels above, through ctypes."""

    def __init__(self, library: Library) -> None:
        self.library = library
        pointer, i64, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        self.create = self.bind("teeny_pool_create", pointer, i32)
        self.resize = self.bind("teeny_pool_resize", None, pointer, i32)
        self.destroy = self.bind("teeny_pool_destroy", None, pointer)
        self.parallel_for = self.bind(
            "teeny_parallel_for", None, pointer, pointer, pointer, i64, i64, pointer, i64
        )

    def bind(self, name: str, result: object, *arguments: object) -> object:
        return ctypes.CFUNCTYPE(result, *arguments)(self.library.address(name))

    def run(self, pool, kernel, arrays, n, chunk=1, scratch=0):  # type: ignore[no-untyped-def]
        slots = (ctypes.c_void_p * len(arrays))(
            *(a.ctypes.data if isinstance(a, np.ndarray) else a for a in arrays)
        )
        block = np.zeros(scratch + 64, np.uint8)
        start = block.ctypes.data + (-block.ctypes.data) % 64
        address = self.library.address(kernel)
        self.parallel_for(pool, address, slots, n, chunk, start, scratch)
        return start


@pytest.fixture(scope="module")
def native() -> Native:
    target = host_target()
    return Native(jit(emit_pool(target) + KERNELS, target))


@pytest.fixture(params=[1, 2, 5])
def pool(request: pytest.FixtureRequest, native: Native) -> Iterator[int]:
    address = native.create(request.param)
    yield address
    native.destroy(address)


@pytest.mark.parametrize("n", [0, 1, 2, 63, 1000, 100_003])
@pytest.mark.parametrize("chunk", [0, 1, 7, 5000])
def test_every_index_runs_once(native: Native, pool: int, n: int, chunk: int) -> None:
    counts = np.zeros(n + 8, np.int64)
    native.run(pool, "count", [counts], n, chunk)
    assert (counts[:n] == 1).all()
    assert (counts[n:] == 0).all()


def test_thousands_of_tiny_loops(native: Native, pool: int) -> None:
    counts = np.zeros(64, np.int64)
    for _ in range(5000):
        native.run(pool, "count", [counts], 64)
    assert (counts == 5000).all()


def test_loops_after_pauses_wake_the_workers(native: Native, pool: int) -> None:
    counts = np.zeros(5000, np.int64)
    for _ in range(30):
        time.sleep(0.001)
        native.run(pool, "count", [counts], 5000, 10)
    assert (counts == 30).all()


def test_many_python_threads_share_a_pool(native: Native, pool: int) -> None:
    counts = np.zeros((8, 1000), np.int64)

    def work(row: int) -> None:
        for _ in range(500):
            native.run(pool, "count", [counts[row]], 1000, 10)

    threads = [threading.Thread(target=work, args=(row,)) for row in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (counts == 500).all()


def test_nested_loops_run_serially(native: Native, pool: int) -> None:
    counts = np.zeros(4096, np.int64)
    native.run(pool, "nest", [counts, pool], 4096, 16)
    assert (counts == 1).all()


def test_scratch_is_aligned_private_and_grown(native: Native, pool: int) -> None:
    for size in (100_000, 200_000, 1_000_000):
        for _ in range(20):
            places = np.zeros(4000, np.int64)
            own = native.run(pool, "where", [places], 4000, 1, size)
            blocks = np.union1d(places, [own])
            assert (blocks % 64 == 0).all()
            assert (np.diff(blocks) >= size).all()
            assert len(blocks) <= 5


def test_the_number_of_threads_changes_between_loops(native: Native, pool: int) -> None:
    counts = np.zeros(2000, np.int64)
    for threads in (4, 1, 2, 3, 0, 2):
        native.resize(pool, threads)
        native.run(pool, "count", [counts], 2000, 3)
    assert (counts == 6).all()


def test_the_number_of_threads_changes_under_load(native: Native, pool: int) -> None:
    counts = np.zeros((3, 500), np.int64)

    def work(row: int) -> None:
        for _ in range(2000):
            native.run(pool, "count", [counts[row]], 500, 5)

    threads = [threading.Thread(target=work, args=(row,)) for row in range(3)]
    for thread in threads:
        thread.start()
    for number in range(40):
        native.resize(pool, 1 + number % 4)
    for thread in threads:
        thread.join()
    assert (counts == 2000).all()


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_loops_end_while_other_processes_hold_the_cores(native: Native, pool: int) -> None:
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_spin, args=(1.5,)) for _ in range(os.cpu_count() or 1)]
    for other in others:
        other.start()
    counts = np.zeros(4000, np.int64)
    start = time.monotonic()
    for _ in range(300):
        native.run(pool, "count", [counts], 4000, 40)
    elapsed = time.monotonic() - start
    for other in others:
        other.join()
    assert (counts == 300).all()
    assert elapsed < 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_makes_its_own_workers(native: Native, pool: int) -> None:
    counts = np.zeros(2000, np.int64)
    native.run(pool, "count", [counts], 2000, 3)
    child = os.fork()
    if child == 0:
        for _ in range(50):
            native.run(pool, "count", [counts], 2000, 3)
        native.destroy(pool)
        os._exit(0 if (counts == 51).all() else 1)
    deadline = time.monotonic() + 20
    status = None
    while status is None and time.monotonic() < deadline:
        pid, code = os.waitpid(child, os.WNOHANG)
        status = code if pid else None
        time.sleep(0.005)
    if status is None:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert status == 0
    native.run(pool, "count", [counts], 2000, 3)
    assert (counts == 2).all()


def test_systems_without_threads_are_a_readable_error() -> None:
    target = replace(host_target(), triple="thumbv7em-unknown-none-eabihf", pointer_bits=32)
    with pytest.raises(CompileError, match="hint: "):
        emit_pool(target)


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "arm64-apple-macosx13.0"])
def test_the_pool_compiles_for_other_machines(triple: str) -> None:
    from teeny_compiler.codegen.llvm import compile_object

    target = replace(host_target(), triple=triple, cpu="", features=frozenset())
    assert len(compile_object(emit_pool(target), target)) > 1000
