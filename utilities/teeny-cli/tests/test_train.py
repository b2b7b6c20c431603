import errno
import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from teeny_cli import checkpoint as checkpoints
from teeny_cli import train
from teeny_core import state
from teeny_core.train import TrainStep
from teeny_vision import mnist

Teeny = Callable[..., Any]
DEVICE = "ndarray"  # needs no compilation
EPOCH = {"epoch", "loss", "accuracy", "images_per_s", "seconds"}


@pytest.fixture
def run(teeny: Teeny, data: Path) -> Teeny:
    """Run `teeny train mnist` with a small model on a little data."""
    options = {"--data": data, "--device": DEVICE}

    def run(*arguments: object) -> Any:
        model = () if "--resume" in arguments or "--model" in arguments else ("--model", "mlp")
        fixed = [word for pair in options.items() for word in pair]
        return teeny("train", "mnist", *fixed, *model, *arguments)

    return run


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_defaults_shown_are_those_of_the_recipe() -> None:
    parameters = inspect.signature(train.mnist, eval_str=True).parameters
    for name, default in vars(mnist.Recipe()).items():
        if name in parameters and name != "augment":
            assert parameters[name].default is None
            (option,) = parameters[name].annotation.__metadata__
            assert option.help.endswith(rf"\[default: {default}][/]")


def test_a_line_for_each_epoch_and_a_model_at_the_end(run: Teeny, tmp_path: Path) -> None:
    result = run("--epochs", 2)
    assert (result.code, result.err) == (0, "")
    first, second, accuracy, saved = result.out.splitlines()
    for number, line in ((1, first), (2, second)):
        assert re.fullmatch(
            rf"epoch {number}/2  loss \d\.\d{{4}}  accuracy +\d+\.\d\d%"
            r"  +[\d,]+ images/s  [\d.]+ s",
            line,
        )
    assert re.fullmatch(r"test accuracy \d+\.\d\d%", accuracy)
    assert saved == "saved mnist-mlp.safetensors"
    assert names(tmp_path) == {"mnist-mlp.safetensors"}


def test_json_is_an_object_a_line(run: Teeny, digits: mnist.Mnist) -> None:
    result = run("--epochs", 3, "--json", "--out", "model.safetensors")
    assert (result.code, result.err) == (0, "")
    *epochs, last = lines(result.out)
    assert [epoch["epoch"] for epoch in epochs] == [1, 2, 3]
    assert all(epoch.keys() == EPOCH for epoch in epochs)
    assert epochs[2]["loss"] < epochs[0]["loss"]
    assert last["file"] == "model.safetensors"
    model = mnist.load_model("model.safetensors")
    assert last["test_accuracy"] == mnist.accuracy(model, digits.x_test, digits.y_test, DEVICE)


def test_a_seed_determines_the_weights(run: Teeny, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run("--epochs", 1, "--augment", "--seed", seed, "--out", f"{name}.st").code == 0
    a, b, c = ((tmp_path / f"{name}.st").read_bytes() for name in "abc")
    assert a == b
    assert a != c


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make a run press ctrl-C in the middle of a step of the given number."""
    original = TrainStep.__call__

    def at(number: int) -> None:
        def step(self: TrainStep, *arrays: Any) -> Any:
            if self.count + 1 == number:
                os.kill(os.getpid(), signal.SIGINT)
            return original(self, *arrays)

        monkeypatch.setattr(TrainStep, "__call__", step)

    return at


@pytest.mark.parametrize("number", [2, 10, 13, 30])  # 10 steps an epoch, 30 in all
def test_an_interrupted_run_goes_on_exactly(
    run: Teeny, interrupt: Callable[[int], None], tmp_path: Path, number: int
) -> None:
    recipe = ("--epochs", 3, "--batch-size", 16, "--augment", "--json")
    whole = run(*recipe, "--out", "whole.st")
    assert whole.code == 0

    interrupt(number)
    first = run(*recipe, "--out", "a b.st")
    *epochs, last = lines(first.out)
    assert (first.code, first.err) == (130, "")
    assert [epoch["epoch"] for epoch in epochs] == list(range(1, number // 10 + 1))
    assert (last["interrupted"], last["checkpoint"]) == (True, "a b.checkpoint.st")
    assert names(tmp_path) == {"whole.st", "a b.checkpoint.st"}

    interrupt(0)
    teeny, train, mnist_, *rest = shlex.split(last["resume"])
    assert (teeny, train, mnist_) == ("teeny", "train", "mnist")
    second = run(*rest, "--json")
    assert (second.code, second.err) == (0, "")
    assert (tmp_path / "a b.st").read_bytes() == (tmp_path / "whole.st").read_bytes()
    for one, other in zip([*epochs, *lines(second.out)], lines(whole.out), strict=True):
        for figure in ("epoch", "loss", "accuracy", "test_accuracy"):
            assert one.get(figure) == other.get(figure)


@pytest.mark.parametrize("model", ["lenet5", "mlp"])
def test_on_the_processor(
    run: Teeny, interrupt: Callable[[int], None], tmp_path: Path, model: str
) -> None:
    recipe = ("--model", model, "--device", "cpu", "--epochs", 4, "--batch-size", 32, "--json")
    whole = run(*recipe, "--out", "whole.st")
    assert (whole.code, whole.err) == (0, "")
    *epochs, last = lines(whole.out)
    assert epochs[3]["loss"] < epochs[0]["loss"]
    reference = run(*recipe, "--device", DEVICE)
    for ours, theirs in zip(epochs, lines(reference.out), strict=False):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=2e-2)

    interrupt(8)
    assert run(*recipe, "--out", "part.st").code == 130
    interrupt(0)
    rest = run("--device", "cpu", "--resume", "part.checkpoint.st", "--out", "part.st", "--json")
    assert lines(rest.out)[-1]["test_accuracy"] == last["test_accuracy"]
    assert (tmp_path / "part.st").read_bytes() == (tmp_path / "whole.st").read_bytes()


def test_a_second_ctrl_c_ends_without_a_checkpoint(
    run: Teeny, interrupt: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(self: object, path: Path) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(mnist.Training, "save", press)
    interrupt(2)
    result = run()
    assert (result.code, result.out, result.err) == (130, "", "")
    assert names(tmp_path) == set()


def command(data: Path, *arguments: object) -> list[str]:
    fixed = ("train", "mnist", "--data", data, "--device", DEVICE, "--model", "mlp")
    return [sys.executable, "-m", "teeny_cli", *map(str, (*fixed, *arguments))]


def test_ctrl_c_from_outside_saves_and_says_how_to_go_on(data: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(data, "--epochs", 100_000),
        cwd=tmp_path,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("epoch 1/100000 ")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, err) == (130, "")
    saved, resume = out.splitlines()[-2:]
    assert saved == "interrupted; saved mnist-mlp.checkpoint.safetensors"
    assert resume == (
        "go on with: teeny train mnist --resume mnist-mlp.checkpoint.safetensors "
        f"--out mnist-mlp.safetensors --data {shlex.quote(str(data))} --device {DEVICE}"
    )
    assert names(tmp_path) == {"mnist-mlp.checkpoint.safetensors"}


def test_ctrl_c_before_the_first_step_ends_at_once(data: Path, tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, teeny_core.train as t\n"
        "t.TrainStep.__call__ = lambda *a: os.kill(os.getpid(), signal.SIGINT)\n"
        "from teeny_cli.main import main\n"
        "main()"
    )
    words = [sys.executable, "-c", program, *command(data)[3:]]
    result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")
    assert names(tmp_path) == set()


@pytest.fixture
def checkpoint(data: Path, tmp_path: Path) -> Path:
    """The checkpoint of a run after three steps."""
    recipe = mnist.Recipe(model="mlp", epochs=2)
    training = mnist.Training(recipe, mnist.load(data, verify=False), DEVICE)
    for progress in training:
        if progress.batch == 2:
            break
    training.save(tmp_path / "half.st")
    return tmp_path / "half.st"


def test_settings_come_from_the_checkpoint(run: Teeny, checkpoint: Path) -> None:
    result = run("--resume", "half.st", "--json")
    assert result.code == 0
    assert [line.get("epoch") for line in lines(result.out)] == [1, 2, None]


def test_a_checkpoint_is_a_model_too(teeny: Teeny, checkpoint: Path, seven: Path) -> None:
    assert teeny("predict", checkpoint, seven, "--device", DEVICE).code == 0


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["--lr", "0.1"], "half.st is of a run with --lr 0.003, not 0.1", "leave --lr out"),
        (
            ["--batch-size", 8],
            "half.st is of a run with --batch-size 64, not 8",
            "leave --batch-size out",
        ),
    ],
)
def test_settings_that_differ_are_refused(
    run: Teeny, checkpoint: Path, arguments: list[object], error: str, hint: str
) -> None:
    result = run("--resume", "half.st", *arguments)
    assert (result.code, result.out) == (2, "")
    first, second = result.err.splitlines()
    assert first == f"error: {error}"
    assert second == f"hint: {hint}, or start anew without --resume"


def bad_files(folder: Path, checkpoint: Path) -> dict[str, bytes]:
    whole = checkpoint.read_bytes()
    state.save(folder / "foreign.st", {"weight": np.zeros(3, np.float32)})
    return {
        "truncated.st": whole[: len(whole) // 2],
        "picture.st": b"\x89PNG\r\n\x1a\n" + bytes(100),
        "empty.st": b"",
        "foreign.st": (folder / "foreign.st").read_bytes(),
    }


@pytest.mark.parametrize("name", ["truncated.st", "picture.st", "empty.st", "foreign.st", "none"])
def test_a_file_that_is_no_checkpoint(
    run: Teeny, checkpoint: Path, tmp_path: Path, name: str
) -> None:
    for file, contents in bad_files(tmp_path, checkpoint).items():
        (tmp_path / file).write_bytes(contents)
    before = names(tmp_path)
    result = run("--resume", name)
    assert (result.code, result.out) == (2, "")
    error, hint = result.err.splitlines()
    assert error.startswith(f"error: {name}: ")
    assert hint.startswith("hint: ")
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--device", "gpu"],
            "error: no device is named 'gpu'\nhint: installed devices: cpu, ndarray, null\n",
        ),
        (["--model", "vgg"], "error: no model is called 'vgg'\nhint: choose from lenet5, mlp\n"),
        (["--epochs", "0"], "error: epochs is 0\nhint: give a whole number >= 1\n"),
        (["--batch-size", "-1"], "error: batch_size is -1\nhint: give a whole number >= 1\n"),
        (["--lr", "nan"], "error: lr is nan\nhint: give a finite number >= 0, such as 0.003\n"),
        (["--lr", "-1"], "error: lr is -1.0\nhint: give a finite number >= 0, such as 0.003\n"),
        (["--seed", "-1"], "error: seed is -1\nhint: give a whole number >= 0\n"),
        (
            ["--out", "missing/model.st"],
            "error: cannot write missing/model.st: No such file or directory\n"
            "hint: name a file in a folder that exists, that you may write, and that has space\n",
        ),
        (["--out", "."], "error: cannot write .: it is a folder\nhint: give the name of a file\n"),
    ],
)
def test_bad_input(run: Teeny, tmp_path: Path, arguments: list[str], text: str) -> None:
    result = run(*arguments)
    assert (result.code, result.out, result.err) == (2, "", text)
    assert names(tmp_path) == set()


def test_a_folder_without_data(teeny: Teeny) -> None:
    result = teeny("train", "mnist", "--data", "nowhere")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: nowhere holds none of train-images-idx3-ubyte, ")


def test_a_wrong_number_of_threads(teeny: Teeny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_NUM_THREADS", "abc")
    result = teeny("train", "mnist")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "error: TEENY_NUM_THREADS=abc is not valid\n"
        "hint: set it to a whole number from 1, such as 4, or unset it\n"
    )


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the disk be full for some folders, from the save of a given number on."""
    original = state.save

    def fill(*folders: Path, after: int = 0) -> None:
        saves = 0

        def save(path: Path, *arguments: Any, **more: Any) -> None:
            nonlocal saves
            saves += 1
            if saves > after and Path(path).resolve().parent in folders:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            original(path, *arguments, **more)

        monkeypatch.setattr(state, "save", save)

    return fill


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path.parent / f"{tmp_path.name}-temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_disk_that_is_full_at_the_end_loses_no_weights(
    run: Teeny,
    teeny: Teeny,
    full: Callable[..., None],
    tmp_path: Path,
    temporary: Path,
    seven: Path,
) -> None:
    recipe = ("--epochs", 2, "--seed", 5)
    assert run(*recipe, "--out", "whole.st").code == 0
    full(tmp_path)
    result = run(*recipe, "--out", "model.st")
    assert result.code == 2
    error, hint = result.err.splitlines()
    assert error == "error: cannot write model.st: No space left on device"
    (spare,) = temporary.iterdir()
    assert hint == (
        f"hint: the weights are in {spare} instead: move it before that folder is emptied"
    )
    assert spare.read_bytes() == (tmp_path / "whole.st").read_bytes()
    assert names(tmp_path) == {"whole.st"}


def test_a_full_disk_leaves_the_last_checkpoint(
    run: Teeny,
    full: Callable[..., None],
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoints, "INTERVAL_SECONDS", 0.0)
    recipe = ("--epochs", 4, "--augment")
    assert run(*recipe, "--out", "whole.st").code == 0
    assert names(tmp_path) == {"whole.st"}  # those on the way are gone
    full(tmp_path, temporary, after=2)
    with pytest.warns(RuntimeWarning, match="model.checkpoint.st: No space left .*goes on"):
        result = run(*recipe, "--out", "model.st")
    assert result.code == 2
    assert result.err.splitlines()[-1] == (
        "hint: free some space and go on from the last checkpoint: --resume model.checkpoint.st"
    )
    assert names(tmp_path) == {"whole.st", "model.checkpoint.st"}
    assert list(temporary.iterdir()) == []
    full()
    rest = run("--resume", "model.checkpoint.st")
    assert rest.code == 0
    assert "saved model.st" in rest.out
    assert (tmp_path / "model.st").read_bytes() == (tmp_path / "whole.st").read_bytes()


def test_a_disk_that_is_full_from_the_start(
    run: Teeny, full: Callable[..., None], tmp_path: Path, temporary: Path
) -> None:
    full(tmp_path, temporary)
    result = run("--epochs", 1)
    assert result.code == 2
    assert "no space for temporary files either" in result.err


def test_resuming_saves_where_the_run_would_have(run: Teeny, checkpoint: Path) -> None:
    folder = checkpoint.parent / "runs"
    folder.mkdir()
    for name, saved in (("a.checkpoint.st", "a.st"), ("b.st", "b.st")):
        (folder / name).write_bytes(checkpoint.read_bytes())
        assert f"saved {Path('runs', saved)}\n" in run("--resume", Path("runs", name)).out
    assert (folder / "a.st").read_bytes() == (folder / "b.st").read_bytes()
    assert names(folder) == {"a.checkpoint.st", "a.st", "b.st"}


def test_weights_of_another_model_are_refused_without_talk_of_code(
    run: Teeny, teeny: Teeny, checkpoint: Path, seven: Path
) -> None:
    tensors = dict(state.load(checkpoint))
    name = next(name for name in tensors if name.endswith("bias") and "train" not in name)
    tensors[name] = np.zeros(3, np.float32)
    state.save("wrong.st", tensors, metadata=state.metadata(checkpoint))
    for result in (run("--resume", "wrong.st"), teeny("predict", "wrong.st", seven)):
        assert (result.code, result.out) == (2, "")
        error, hint = result.err.splitlines()
        assert error.startswith(f"error: wrong.st: does not fit Mlp: mismatched: {name} has the sh")
        assert hint == "hint: give a file that `teeny train mnist` saved"
