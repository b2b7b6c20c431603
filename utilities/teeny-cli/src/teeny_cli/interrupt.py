"""Ctrl-C as a request that a loop grants where it can stop."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any


class Interrupt:
    """Within its context, and once `defer` was called, ctrl-C only sets `requested`.

    A second ctrl-C interrupts at once, as all do before `defer`.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: Any = None

    def __enter__(self) -> Interrupt:
        return self

    def defer(self) -> None:
        """Take ctrl-C over from now on."""
        if self._previous is None:
            self._previous = signal.signal(signal.SIGINT, self._request)

    def __exit__(self, *error: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
