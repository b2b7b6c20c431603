import ast
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions

import pytest
from workspace import Member, distribution, members

MEMBERS = members()
PLUGINS = {member.name for member in MEMBERS if member.is_plugin}
DISTRIBUTIONS = packages_distributions()

each_member = pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)


def imported_modules(member: Member) -> Iterator[str]:
    """Yield the top-level name of each module that the package imports, lazily too."""
    for path in member.module.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(), path)):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]


def imported_distributions(member: Member) -> set[str]:
    foreign = set(imported_modules(member)) - sys.stdlib_module_names - {member.module.name}
    return {distribution(DISTRIBUTIONS.get(module, [module])[0]) for module in foreign}


@each_member
@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "LICENSE"])
def test_has_its_papers(member: Member, name: str) -> None:
    assert (member.folder / name).read_text().strip()


@each_member
def test_is_typed(member: Member) -> None:
    assert (member.module / "py.typed").is_file()


@each_member
def test_has_tests(member: Member) -> None:
    assert list(member.folder.glob("tests/**/test_*.py"))


@each_member
def test_changelog_speaks_of_its_version(member: Member) -> None:
    assert f"\n## {member.version}" in (member.folder / "CHANGELOG.md").read_text()


@each_member
def test_declares_all_that_it_imports(member: Member) -> None:
    missing = imported_distributions(member) - member.requirements
    assert not missing, f"{member.name} imports {missing}: a dependency, or an extra where optional"


@each_member
def test_declares_nothing_else(member: Member) -> None:
    # What entry points bring in needs no import.
    unused = member.requirements - PLUGINS - imported_distributions(member)
    assert not unused, f"{member.name} declares {set(unused)} and imports none of it"


@each_member
def test_gives_a_range_for_each_sibling(member: Member) -> None:
    siblings = {sibling.name: sibling for sibling in MEMBERS}
    for requirement in member.project.get("dependencies", []):
        if sibling := siblings.get(distribution(requirement)):
            major, minor, _ = sibling.version.split(".")
            expected = f"{sibling.name}>={major}.{minor},<{major}.{int(minor) + 1}"
            assert requirement == expected
