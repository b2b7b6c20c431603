"""Run each ```python block of the documentation.

The blocks of a page run in order in one namespace, in an empty working folder. A fragment that only
illustrates is fenced as ```python { .no-run }. What is fenced as ```text { .printed } must be what
they print, in this order; a line of three dots stands for any others.
"""

import ast
import asyncio
import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from workspace import ROOT, members

FENCE = re.compile(r"(?P<indent>\s*)(?P<marks>`{3,})\s*(?P<info>[^`]*)$")

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(member.folder / "README.md" for member in members()),
    *sorted((ROOT / "book" / "docs").rglob("*.md")),
]


def runnable(info: str) -> bool:
    """Tell whether a block with this info string is Python that stands for itself."""
    language, _, options = info.partition(" ")
    return language in ("python", "py") and "no-run" not in options


def code_lines(page: str) -> Iterator[str]:
    """Yield a line for each line of the page: that of a runnable block, else an empty one."""
    fence: re.Match[str] | None = None
    for line in page.splitlines():
        closes = fence is not None and line.strip() == fence["marks"]
        if fence is not None and not closes:
            yield line.removeprefix(fence["indent"]) if runnable(fence["info"]) else ""
        else:
            fence = None if closes else FENCE.match(line)
            yield ""


def printed_lines(page: str) -> Iterator[list[str]]:
    """Yield the lines of each block of the page that shows what is printed."""
    fence: re.Match[str] | None = None
    block: list[str] = []
    for line in page.splitlines():
        closes = fence is not None and line.strip() == fence["marks"]
        if fence is not None and not closes:
            block.append(line.removeprefix(fence["indent"]))
            continue
        if fence is not None and ".printed" in fence["info"].split():
            yield block
        fence, block = None if closes else FENCE.match(line), []


def check_printed(page: str, output: str) -> None:
    """Find the printed blocks of the page in the output, one after another."""
    start = 0
    for block in printed_lines(page):
        lines = (
            "(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + r"\n" for line in block
        )
        found = re.compile("^" + "".join(lines), re.MULTILINE).search(output, start)
        shown = "\n".join(block)
        assert found is not None, f"the page shows\n{shown}\nbut prints\n{output[start:]}"
        start = found.end()


def run(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of the page as one module; its line numbers are those of the page."""
    source = "\n".join(code_lines(page.read_text()))
    path = folder / f"{page.stem}.py"  # a real file, so that inspect finds the source of kernels
    path.write_text(source)
    module = types.ModuleType("snippet")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    code = compile(source, path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, vars(module))
    if inspect.iscoroutine(result):
        asyncio.run(result)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.exists() and any(code_lines(page.read_text()))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_snippets_run(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    run(page, tmp_path, monkeypatch)
    check_printed(page.read_text(), capfd.readouterr().out)


def test_blocks_keep_their_lines() -> None:
    page = """\
# Title
```python
x = 1
```
  - item

    ```python title="a.py"
    y = [
        x,
    ]
    ```

```python { .no-run }
never(
```
````markdown
```python
never(
```
````
"""
    lines = list(code_lines(page))
    expected = {2: "x = 1", 7: "y = [", 8: "    x,", 9: "]"}
    assert {number: line for number, line in enumerate(lines) if line} == expected
    assert len(lines) == len(page.splitlines())


def test_what_is_printed_is_compared() -> None:
    page = (
        "```text { .printed }\na\n...\nc\n```\n```text\nnever\n```\n```text { .printed }\nd\n```\n"
    )
    check_printed(page, "a\nb\nc\nd\n")
    check_printed(page, "0\na\nc\n1\nd\n")
    for output in ("a\nb\nd\n", "d\na\nc\n", "a\nc\ndd\n"):
        with pytest.raises(AssertionError, match="the page shows"):
            check_printed(page, output)


def test_await_and_source_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Text\n```python\nimport asyncio, inspect\ndef f():\n    return 1\n```\n"
        "```python\nawait asyncio.sleep(0)\n"
        "assert inspect.getsource(f) == 'def f():\\n    return 1\\n'\nassert f() == 2\n```\n"
    )
    with pytest.raises(AssertionError) as caught:
        run(page, tmp_path, monkeypatch)
    assert caught.traceback[-1].lineno == 9  # counted from 0: the tenth line of the page
