"""Keep hosts out of the committed `uv.lock`.

`clean` reads a lock file from standard input and writes it without the address of any package
index; `check A B` says whether two locks name the same packages, versions and file hashes.

A cleaned lock has no `[manifest]` table. The next `uv sync` therefore resolves again, takes the
locked versions as its preferences, and writes the sources of the machine it runs on into the
working copy, which the git filter cleans once more before a commit.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

REGISTRY = re.compile(r'registry = "[^"]*"')
FILE_URL = re.compile(r'url = "[^"]*/([^"/]+)"')


def clean(text: str) -> str:
    """Return the lock `text` with neither hosts nor the `[manifest]` table."""
    kept: list[str] = []
    in_manifest = False
    for line in text.splitlines():
        if line.startswith("["):
            in_manifest = line.strip() == "[manifest]" or line.startswith("[manifest.")
        if not in_manifest:
            kept.append(FILE_URL.sub(r'path = "\1"', REGISTRY.sub('registry = "index"', line)))
    return "\n".join(kept) + "\n"


def contents(text: str) -> tuple[set[tuple[str, str]], dict[str, str]]:
    """Return the (name, version) pairs of a lock and the hash of each file name."""
    packages: set[tuple[str, str]] = set()
    hashes: dict[str, str] = {}
    for package in tomllib.loads(text).get("package", []):
        packages.add((package["name"], package.get("version", "")))
        for file in [*package.get("wheels", []), package.get("sdist", {})]:
            if "hash" in file:
                name = file.get("path") or file["url"]
                hashes[name.rsplit("/", 1)[-1]] = file["hash"]
    return packages, hashes


def differences(first: str, second: str) -> list[str]:
    """List what two locks disagree on, a line each."""
    packages, hashes = contents(first)
    other_packages, other_hashes = contents(second)
    found = [f"only in one: {name} {version}" for name, version in packages ^ other_packages]
    found += [
        f"another hash: {name}"
        for name in hashes.keys() & other_hashes.keys()
        if hashes[name] != other_hashes[name]
    ]
    return sorted(found)


def main(arguments: list[str]) -> int:
    """Run `clean` or `check A B`; return the exit code."""
    match arguments:
        case ["clean"]:
            sys.stdout.write(clean(sys.stdin.read()))
            return 0
        case ["check", first, second]:
            found = differences(Path(first).read_text(), Path(second).read_text())
            print("\n".join(found) or "the locks agree")
            return 1 if found else 0
        case _:
            print("usage: lockfile.py clean < uv.lock | lockfile.py check A B", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
