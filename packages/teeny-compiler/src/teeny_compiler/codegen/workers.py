"""Compiling many modules at once, in processes of their own.

LLVM as llvmlite has it does one thing at a time in a process, so that more cores need more
processes. A worker reads LLVM IR on its standard input and writes object code on its output; the
calling process compiles too, and each takes the next module when it has done one.

Frames on the pipes: eight bytes of length, then the bytes. A worker first reads the target and
sends an empty frame when it is ready; to each module it answers with a frame that begins with
`OBJECT` or `ERROR`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import IO

from teeny_core import CompileError, config
from teeny_triton.target import Target

from teeny_compiler.codegen.llvm import compile_object

MOST_WORKERS = 7
OBJECT, ERROR = b"o", b"e"
PREFIX = 8


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(len(data).to_bytes(PREFIX, "little") + data)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    """Return the next frame, None at the end of the stream or within a torn frame."""
    prefix = stream.read(PREFIX)
    size = int.from_bytes(prefix, "little")
    data = stream.read(size) if len(prefix) == PREFIX else b""
    return data if len(prefix) == PREFIX and len(data) == size else None


# --- the worker -----------------------------------------------------------------------------------


def serve() -> None:
    """Compile what comes on the standard input until it ends."""
    source = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM prints must not mix with the answers
    first = _read(source)
    if first is None:
        return
    fields = json.loads(first)
    target = Target(**{**fields, "features": frozenset(fields["features"])})
    _write(answers, b"")
    while (text := _read(source)) is not None:
        try:
            _write(answers, OBJECT + compile_object(text.decode(), target))
        except CompileError as error:
            _write(answers, ERROR + error.message.encode())


# --- the caller -----------------------------------------------------------------------------------

_START = """
import sys
sys.path[:] = {path!r}
from teeny_compiler.codegen.workers import serve
serve()
"""


class _Worker:
    """A process that compiles one module at a time."""

    def __init__(self, target: Target) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt from the terminal is the caller's to handle
        )
        self._ready: bool | None = None
        self._stopped = False
        fields = {**asdict(target), "features": sorted(target.features)}
        self._send(json.dumps(fields))

    def _send(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            _write(self._process.stdin, text.encode())
        except BrokenPipeError:  # it died; the missing answer tells
            return

    def _receive(self) -> bytes | None:
        assert self._process.stdout is not None
        return _read(self._process.stdout)

    def is_ready(self) -> bool:
        """Wait for the process to start; whether it did and has not been stopped meanwhile."""
        if self._ready is None:
            self._ready = self._receive() is not None
        return self._ready and not self._stopped

    def compile(self, name: str, text: str) -> bytes:
        """Return the object code of a module.

        Raises:
            CompileError: when LLVM refuses the module, or ends the process, which it does when it
                cannot select instructions.
        """
        self._send(text)
        answer = self._receive()
        if answer is None:
            raise CompileError(
                f"LLVM crashed on the kernel {name} (exit code {self._process.wait()})",
                hint="this is a defect of the code generator: report it with the kernel",
            )
        if answer.startswith(ERROR):
            raise CompileError(f"{name}: {answer[1:].decode()}")
        return answer[1:]

    def stop(self) -> None:
        """End the process."""
        self._stopped = True
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the process and close its pipes."""
        self.stop()
        with suppress(BrokenPipeError), self._process:  # what it did not read is lost with it
            pass


class Workers:
    """Processes that compile for a target; started on entering the context, ended on leaving it."""

    def __init__(self, target: Target, count: int) -> None:
        self._target = target
        self._count = count
        self._workers: list[_Worker] = []

    def __enter__(self) -> Workers:
        with suppress(OSError):  # a system that grants no more processes: those there are will do
            for _ in range(self._count):
                self._workers.append(_Worker(self._target))
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.close()

    def compile(self, texts: Mapping[str, str]) -> dict[str, bytes]:
        """Return the object code of modules by name.

        Raises:
            CompileError: naming the module that LLVM refuses, or dies of.
        """
        waiting = sorted(texts, key=lambda name: len(texts[name]))  # the largest goes first
        made: dict[str, bytes] = {}
        failures: list[Exception] = []
        busy: set[_Worker] = set()

        def work(compile_one: Callable[[str, str], bytes]) -> None:
            while waiting and not failures:
                try:
                    name = waiting.pop()
                except IndexError:  # another thread took the last one
                    return
                try:
                    made[name] = compile_one(name, texts[name])
                except Exception as error:
                    failures.append(error)

        def work_when_ready(worker: _Worker) -> None:
            if worker.is_ready():
                busy.add(worker)
                work(worker.compile)

        threads = [threading.Thread(target=work_when_ready, args=(w,)) for w in self._workers]
        for thread in threads:
            thread.start()
        work(lambda name, text: compile_object(text, self._target))
        for worker in set(self._workers) - busy:  # nothing is left for those that start yet
            worker.stop()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return {name: made[name] for name in texts}


def spare_processors() -> int:
    """Return how many workers run beside this process without crowding the machine."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    wanted = config.get().num_threads or allowed or 1
    return max(0, min(wanted, allowed or 1, MOST_WORKERS + 1) - 1)
