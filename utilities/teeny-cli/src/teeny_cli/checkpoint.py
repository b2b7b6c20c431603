"""Saving what a run of training has reached, also where the disk is full."""

from __future__ import annotations

import secrets
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from teeny_core import ConfigError

from teeny_cli.files import writing

if TYPE_CHECKING:
    from teeny_vision.mnist import Training

INTERVAL_SECONDS = 10.0
"""Least time between two checkpoints of a run."""


class Checkpoint:
    """The file beside `target` from which an unfinished run goes on.

    Attributes:
        path: its name.
        kept: the same, once it exists.
    """

    def __init__(self, training: Training, target: Path, resumed: Path | None) -> None:
        self.path = target.with_suffix(f".checkpoint{target.suffix}")
        self.kept = resumed
        self._training = training
        self._resumed = resumed
        self._last = time.monotonic()

    def keep(self) -> None:
        """Write it, unless that was just done; a full disk costs a warning, not the run."""
        now = time.monotonic()
        if now - self._last < INTERVAL_SECONDS:
            return
        self._last = now
        try:
            with writing(self.path):
                self._training.save(self.path)
        except ConfigError as error:
            warnings.warn(f"{error.message}; training goes on", RuntimeWarning)
        else:
            self.kept = self.path

    def discard(self) -> None:
        """Remove it after the end of the run, but not what the user gave."""
        if self.kept == self.path != self._resumed:
            self.path.unlink(missing_ok=True)


def save(write: Callable[[Path], None], path: Path, what: str, older: Path | None) -> None:
    """Save by `write` at `path`, or where there is space: hours of work hang on it.

    Args:
        write: writes the file that it is given.
        path: where the user wants it.
        what: what is written, with its verb, for people.
        older: an earlier checkpoint of the run, if there is one.

    Raises:
        ConfigError: it could not be written there; the hint says where it is.
    """
    try:
        with writing(path):
            write(path)
    except ConfigError as error:
        raise ConfigError(error.message, hint=_rescued(write, path, what, older)) from error


def _rescued(write: Callable[[Path], None], path: Path, what: str, older: Path | None) -> str:
    """Save in the folder for temporary files; return what to tell the user."""
    name = f"{path.stem}-{secrets.token_hex(4)}{path.suffix}"
    spare = Path(tempfile.gettempdir()) / name
    try:
        write(spare)
    except OSError:
        if older is None:
            return "there is no space for temporary files either: free some, and train again"
        return f"free some space and go on from the last checkpoint: --resume {older}"
    return f"{what} in {spare} instead: move it before that folder is emptied"
