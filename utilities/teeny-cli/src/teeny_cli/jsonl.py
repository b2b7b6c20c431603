"""JSON for machines, one object a line."""

from __future__ import annotations

import json
import math
from typing import Any


def line(**fields: Any) -> str:
    """Return `fields` as one line of JSON; NaN and infinities, which JSON lacks, become null."""
    return json.dumps({name: _valid(value) for name, value in fields.items()}, allow_nan=False)


def _valid(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return [_valid(item) for item in value] if isinstance(value, (list, tuple)) else value
