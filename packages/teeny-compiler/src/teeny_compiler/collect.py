"""Compilation without the collection of cycles.

A compilation makes hundreds of thousands of small objects that live until it ends, and hardly a
cycle among them. Python's collector would walk all of them again and again: 40 % of the time.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pause:
    """Pauses the collector while any thread is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._resumes = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._resumes = gc.isenabled()
                gc.disable()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside and self._resumes:
                    gc.enable()


collection_paused = _Pause()
"""A context, and a decorator: cycles are collected when the last one inside has left."""
