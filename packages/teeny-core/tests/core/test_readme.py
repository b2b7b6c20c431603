"""The examples of the README run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)
    printed = capsys.readouterr().out
    assert printed.startswith("graph loss(%w: f32[4, 3], %x: f32[n, 4]) -> (f32[], f32[4, 3])")
    assert printed.endswith("16.0 (4, 3)\n")
    assert str(namespace["slope"]) == "Tensor([[ 3., 12.],\n        [27., 48.]], dtype=f32)"
