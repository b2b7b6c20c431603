import ast
import re
import subprocess
import sys

from workspace import ROOT

MACHINE_PATH = re.compile(r"(?<![\w.~}])/(?:home|root|tmp|work)/")
CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
RELATIVE_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")
CORE_NEEDS = {"numpy", "teeny_core"}


def tracked_texts() -> dict[str, str]:
    """Return the text files that git tracks, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    contents = {
        name: (ROOT / name).read_bytes()
        for name in listed.split("\0")
        if name and (ROOT / name).is_file()
    }
    return {name: data.decode() for name, data in contents.items() if b"\0" not in data}


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{name}: {line.strip()}"
        for name, text in tracked_texts().items()
        for line in text.splitlines()
        if MACHINE_PATH.search(line)
    ]
    assert found == []


def test_links_between_files_lead_somewhere() -> None:
    found = [
        f"{name}: {target}"
        for name, text in tracked_texts().items()
        if name.endswith(".md")
        for target in RELATIVE_LINK.findall(CODE.sub("", text))
        if not ((ROOT / name).parent / target).exists()
    ]
    assert found == []


def test_core_imports_nothing_heavy() -> None:
    listing = "import sys, teeny_core; print({name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    ).stdout
    imported = set(ast.literal_eval(found)) - sys.stdlib_module_names
    assert {name for name in imported if not name.startswith("_")} == CORE_NEEDS
