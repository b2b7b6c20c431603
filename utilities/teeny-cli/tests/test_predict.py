import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from teeny_core import state
from teeny_vision import mnist

Teeny = Callable[..., Any]
DEVICE = "ndarray"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model that tells sevens: its last bias outweighs all else."""
    made = mnist.build("mlp")
    tensors = {name: np.array(tensor.numpy()) for name, tensor in made.state_dict().items()}
    *_, bias = [name for name in tensors if name.endswith("bias")]
    tensors[bias][7] = 20.0
    state.save(tmp_path / "model.st", tensors)
    return tmp_path / "model.st"


def test_label_and_probability_below_the_digit(teeny: Teeny, model: Path, seven: Path) -> None:
    result = teeny("predict", model, seven, seven, "--device", DEVICE)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert len(lines) == 2 * (14 + 1)
    assert lines[14] == lines[29] == f"{seven}: 7  (100.00%)"
    drawn = lines[:14]
    assert all(len(line) == 28 for line in drawn)
    assert sum(line.count("█") for line in drawn) > 10
    assert set("".join(drawn)) <= set(" ▀▄█")


def test_json_is_one_object_an_image(teeny: Teeny, model: Path, seven: Path) -> None:
    result = teeny("predict", model, seven, "--device", DEVICE, "--json")
    assert (result.code, result.err) == (0, "")
    (line,) = result.out.splitlines()
    parsed = json.loads(line)
    assert parsed.keys() == {"image", "label", "probability", "probabilities"}
    assert (parsed["image"], parsed["label"]) == (str(seven), 7)
    assert parsed["probability"] == max(parsed["probabilities"])
    assert sum(parsed["probabilities"]) == pytest.approx(1.0, abs=1e-6)


def test_a_file_that_is_no_image(teeny: Teeny, model: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a picture")
    result = teeny("predict", model, "notes.txt", "--device", DEVICE)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "error: notes.txt is no image that can be read: unknown format\n"
        "hint: give a PNG, JPEG, BMP, GIF or TIFF file\n"
    )


def test_one_bad_image_among_good_ones(teeny: Teeny, model: Path, seven: Path) -> None:
    Image.new("L", (40, 40), 255).save("blank.png")
    result = teeny("predict", model, seven, "blank.png", "--device", DEVICE)
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: blank.png is blank\nhint: give a picture that shows one digit\n"


def test_a_truncated_image(teeny: Teeny, model: Path, seven: Path, tmp_path: Path) -> None:
    data = seven.read_bytes()
    (tmp_path / "half.png").write_bytes(data[: len(data) // 2])
    result = teeny("predict", model, "half.png", "--device", DEVICE)
    assert (result.code, result.out) == (2, "")
    error, hint = result.err.splitlines()
    assert error.startswith("error: half.png is no image that can be read: ")
    assert hint == "hint: give a PNG, JPEG, BMP, GIF or TIFF file"


def test_missing_files(teeny: Teeny, model: Path, seven: Path) -> None:
    result = teeny("predict", "none.st", seven)
    assert result.err == (
        "error: none.st: cannot read the file (No such file or directory)\nhint: check the path\n"
    )
    result = teeny("predict", model, "none.png", "--device", DEVICE)
    assert result.err == "error: none.png: no such file\nhint: check the path\n"


def test_a_model_of_something_else(teeny: Teeny, seven: Path) -> None:
    state.save("other.st", {"embedding.weight": np.zeros((3, 2), np.float32)})
    result = teeny("predict", "other.st", seven)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "error: other.st: holds no model for MNIST, but embedding.weight\n"
        "hint: give a file that holds one of lenet5, mlp\n"
    )


def test_an_image_in_place_of_the_model(teeny: Teeny, seven: Path) -> None:
    result = teeny("predict", seven, seven)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {seven}: not a valid safetensors checkpoint: ")


def test_a_device_that_computes_nothing_predicts_nothing(
    teeny: Teeny, model: Path, seven: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEENY_DEVICE", "null")
    result = teeny("predict", model, seven)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "error: the device 'null' computes nothing, so it predicts nothing\n"
        "hint: pass --device cpu, or unset TEENY_DEVICE; see `teeny devices`\n"
    )
    assert teeny("predict", model, seven, "--device", DEVICE).code == 0
