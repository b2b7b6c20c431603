import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import teeny_core as tn

Teeny = Callable[..., Any]


def test_lists_all_with_their_properties(teeny: Teeny) -> None:
    result = teeny("devices", "--json")
    assert (result.code, result.err) == (0, "")
    found = {device["name"]: device for device in map(json.loads, result.out.splitlines())}
    assert tuple(found) == tn.device_names()
    assert [name for name, device in found.items() if device["default"]] == [tn.device().name]
    for name, device in found.items():
        assert device["properties"] == dict(tn.device(name).properties())
        assert device["error"] is None


def test_the_table_says_the_same(teeny: Teeny) -> None:
    text = teeny("devices").out
    for name in tn.device_names():
        assert f"│ {name}" in text
        for key in tn.device(name).properties():
            assert f" {key} " in text


def test_the_default_follows_the_environment(teeny: Teeny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_DEVICE", "null")
    found = map(json.loads, teeny("devices", "--json").out.splitlines())
    assert [device["name"] for device in found if device["default"]] == ["null"]


def test_an_unknown_default(teeny: Teeny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_DEVICE", "gpu")
    result = teeny("devices")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: no device is named 'gpu'\nhint: installed devices: cpu")


def test_a_wrong_setting(teeny: Teeny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_NUM_THREADS", "abc")
    result = teeny("devices")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: TEENY_NUM_THREADS=abc is not valid\nhint: ")


def test_a_broken_device_leaves_the_others_alone(
    teeny: Teeny, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object) -> Mapping[str, str]:
        raise tn.DeviceError("the driver is too old", hint="update it")

    monkeypatch.setattr(type(tn.device("null")), "properties", fail)
    result = teeny("devices", "--json")
    errors = {line["name"]: line["error"] for line in map(json.loads, result.out.splitlines())}
    assert errors["null"] == "the driver is too old"
    assert errors["ndarray"] is None
    assert "the driver is too old" in teeny("devices").out
