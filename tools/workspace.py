"""The members of the workspace, for the tests and tools that go over all of them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Member:
    """A package of the workspace: its folder and the `[project]` table of its pyproject.toml."""

    folder: Path
    project: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of its distribution."""
        return str(self.project["name"])

    @property
    def version(self) -> str:
        """Its version."""
        return str(self.project["version"])

    @property
    def module(self) -> Path:
        """The folder of its import package."""
        (initial,) = self.folder.glob("src/*/__init__.py")
        return initial.parent

    @property
    def requirements(self) -> frozenset[str]:
        """The names of the distributions that it declares, those of its extras included."""
        extras = self.project.get("optional-dependencies", {}).values()
        declared = [self.project.get("dependencies", []), *extras]
        return frozenset(distribution(line) for group in declared for line in group) - {self.name}

    @property
    def is_plugin(self) -> bool:
        """Whether siblings find it by its entry points, without importing it."""
        return any(group.startswith("teeny.") for group in self.project.get("entry-points", {}))


def distribution(requirement: str) -> str:
    """Return the normalised name of the distribution in a requirement (PEP 503, PEP 508)."""
    name = re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def members() -> tuple[Member, ...]:
    """Return the members of the workspace, by folder."""
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["workspace"]
    folders = sorted(
        file.parent for glob in workspace["members"] for file in ROOT.glob(f"{glob}/pyproject.toml")
    )
    return tuple(
        Member(folder, tomllib.loads((folder / "pyproject.toml").read_text())["project"])
        for folder in folders
    )
