"""`teeny --version`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import distributions

PREFIX = "teeny-"


def installed() -> Mapping[str, str]:
    """Return the version of each installed package of teeny, by name."""
    found = {
        distribution.name: distribution.version
        for distribution in distributions()
        if distribution.name.startswith(PREFIX)
    }
    return dict(sorted(found.items()))
