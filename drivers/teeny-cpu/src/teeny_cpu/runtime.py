"""What native programs of this process share: loaded code and the thread pool.

The pool is one for the process. It outlives every program, so that code may hold its address; at
exit its workers are stopped and the memory is left to the system.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Sequence
from functools import cache
from importlib import resources

from llvmlite import binding
from teeny_compiler.internal import (
    Library,
    compile_object,
    compiler_key,
    default_cache,
    digest,
    emit_pool,
    host_target,
    target_machine,
)
from teeny_core import ConfigError

from teeny_cpu.threads import default_threads

_PARALLEL_FOR = "teeny_parallel_for"
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):  # a child must not inherit a lock that another thread holds
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


def load(objects: Sequence[bytes]) -> Library:
    """Load object files for this machine that may call each other and the thread pool."""
    pool()
    return _load(objects)


def _load(objects: Sequence[bytes]) -> Library:
    with _lock:
        machine = target_machine(host_target())
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        for data in objects:
            engine.add_object_file(binding.ObjectFileRef.from_data(data))
        engine.finalize_object()
    return Library(engine)


class Pool:
    """The thread pool, see `pool.ll`, and the ways into programs and kernels, see `enter.ll` and
    `relaunch.ll`.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._library = _load([_pool_object()])
        create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)
        resize = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)
        self._resize = resize(self._library.address("teeny_pool_resize"))
        address = create(self._library.address("teeny_pool_create"))(threads)
        if not address:
            raise MemoryError("no memory for the thread pool")
        self.address = int(address)
        entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
        self.enter = entry(self._library.address("teeny_enter"))
        launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self.launch = launch(self._library.address("teeny_launch"))
        self.relaunch = entry(self._library.address("teeny_relaunch"))
        binding.add_symbol(_PARALLEL_FOR, self._library.address(_PARALLEL_FOR))
        atexit.register(self._resize, self.address, 1)

    @property
    def threads(self) -> int:
        """Number of threads that work on a loop, the calling one included."""
        return self._threads

    def resize(self, threads: int) -> None:
        """Set the number of threads; waits for a running loop."""
        self._threads = threads
        self._resize(self.address, threads)


def _pool_object() -> bytes:
    target = host_target()
    files = [resources.files(__package__).joinpath(name) for name in ("enter.ll", "relaunch.ll")]
    head = f"@HEAD = internal constant i64 {object.__basicsize__}\n"
    enter = "\n".join([head, *(file.read_text(encoding="utf-8") for file in files)])
    key = digest("pool", compiler_key(), target.key, enter)
    stored = default_cache()
    found = stored.get(key)
    if found is None:
        found = compile_object(emit_pool(target) + "\n" + enter, target)
        stored.put(key, found)
    return found


@cache
def _pool() -> Pool:
    return Pool(default_threads())


def pool() -> Pool:
    """Return the pool of this process; made at the first call."""
    with _lock:
        return _pool()


def num_threads() -> int:
    """Return the number of threads that a program runs on."""
    return pool().threads


def set_num_threads(threads: int) -> None:
    """Run programs on `threads` threads from now on.

    Raises:
        ConfigError: the number is less than 1.
    """
    if threads < 1:
        raise ConfigError(f"cannot run on {threads} threads", hint="give a number of 1 or more")
    pool().resize(threads)
