"""What tuning has measured, kept on disk from one process to the next."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = "tune"


def key(*parts: object) -> str:
    """Return a name for what a choice depends on."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]


def read(folder: Path, name: str) -> dict[str, Any] | None:
    """Return what was kept under a name, None if nothing was or it is damaged."""
    try:
        found = json.loads(_path(folder, name).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write(folder: Path, name: str, record: dict[str, Any]) -> None:
    """Keep a record under a name, in one step; a folder that is full costs a warning only."""
    path = _path(folder, name)
    temporary = path.with_suffix(f".{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(record))
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        warnings.warn(f"tuning: cannot write {path}: {error.strerror}", RuntimeWarning)


def clear(folder: Path) -> int:
    """Forget all records; return how many there were."""
    paths = list((folder / FOLDER).glob("*.json"))
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def _path(folder: Path, name: str) -> Path:
    return folder / FOLDER / f"{name}.json"
