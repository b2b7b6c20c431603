import json

from teeny_cli import jsonl


def test_one_line() -> None:
    fields = {"text": "a\nb", "number": 1.5, "list": [1, 2], "flag": True, "none": None}
    line = jsonl.line(**fields)
    assert "\n" not in line
    assert json.loads(line) == fields


def test_what_json_lacks_is_null() -> None:
    line = jsonl.line(loss=float("nan"), all=(1.0, float("inf")))
    assert line == '{"loss": null, "all": [1.0, null]}'
