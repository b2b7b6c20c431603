from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

Teeny = Callable[..., Any]


@pytest.mark.parametrize("stage", ["schedule", "optimised"])
def test_a_model_is_drawn(teeny: Teeny, tmp_path: Path, stage: str) -> None:
    out = tmp_path / "mlp.svg"
    result = teeny("graph", "mlp", "--stage", stage, "--device", "cpu", "-o", str(out))
    assert (result.code, result.err) == (0, "")
    assert ElementTree.parse(out).getroot().tag.endswith("svg")
    assert "1.weight f32[256, 784]" in out.read_text()


def test_what_cannot_be_drawn_is_refused(teeny: Teeny, tmp_path: Path) -> None:
    out = str(tmp_path / "mlp.svg")
    result = teeny("graph", "mlp", "--stage", "asm", "--device", "cpu", "-o", out)
    assert result.code != 0
    assert "there is no picture of a stage 'asm'" in result.err
    assert teeny("graph", "mlp", "-o", str(tmp_path)).code == 2
