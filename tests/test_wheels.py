"""Build the wheel of each package, install it alone in a fresh environment, and import it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from workspace import ROOT, Member, members

pytestmark = pytest.mark.slow

MEMBERS = members()
MNIST_BYTES = 12_000_000

# Run in the fresh environment: import the package and whatever its entry points name.
PROBE = """
import importlib, importlib.metadata, sys
name, module = sys.argv[1:]
importlib.import_module(module)
for entry in importlib.metadata.distribution(name).entry_points:
    entry.load()
"""


def uv(*arguments: str | Path) -> None:
    """Run uv outside the environment of this process; a failure shows what uv said."""
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    result = subprocess.run(
        [os.environ.get("UV", "uv"), *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    if result.returncode:
        pytest.fail(
            f"uv {arguments[0]} failed; it needs a package index, or a cache that holds what it "
            f"asks for:\n{result.stderr}",
            pytrace=False,
        )


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each package, built from its source distribution."""
    folder = tmp_path_factory.mktemp("wheels")
    uv("build", "--all-packages", "--out-dir", folder)
    return {path.name.partition("-")[0].replace("_", "-"): path for path in folder.glob("*.whl")}


def test_each_package_has_a_wheel(wheels: dict[str, Path]) -> None:
    assert wheels.keys() == {member.name for member in MEMBERS}


def test_the_data_wheel_is_small(wheels: dict[str, Path]) -> None:
    assert wheels["teeny-mnist"].stat().st_size <= MNIST_BYTES


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_a_wheel_stands_alone(member: Member, wheels: dict[str, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(wheels[member.name]) as wheel:
        names = wheel.namelist()
    assert f"{member.module.name}/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)

    environment = tmp_path / "environment"
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    uv("venv", "--python", sys.executable, environment)
    # Siblings come from the fresh wheels, never from an index that has their names too.
    siblings = tmp_path / "siblings.txt"
    siblings.write_text("".join(f"{name} @ {path.as_uri()}\n" for name, path in wheels.items()))
    uv("pip", "install", "--python", python, "--constraints", siblings, wheels[member.name])
    probe = subprocess.run(
        [python, "-I", "-c", PROBE, member.name, member.module.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    if probe.returncode:
        pytest.fail(f"{member.name} does not import alone:\n{probe.stderr}", pytrace=False)
