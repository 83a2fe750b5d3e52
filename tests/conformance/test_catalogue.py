"""Every item of the coordinator's catalogue is asserted by a test here, or it is said why not."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from tests.conformance.fidelity import MODULES, TARGET, title
from tests.conformance.known_differences import NOT_COVERED

CATALOGUE = range(1, 174)
LEAST_BEHAVIOURS = 150


@functools.cache
def behaviours() -> list[str]:
    """Names of all conformance tests."""
    found = []
    for module in MODULES:
        tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text())
        found += [node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)]
    return [name for name in found if name.startswith("test_")]


@functools.cache
def items() -> dict[int, list[str]]:
    """Catalogue number -> tests."""
    found: dict[int, list[str]] = {}
    for name in behaviours():
        number = re.match(r"test_(\d{3})_", name)
        if number:
            found.setdefault(int(number[1]), []).append(name)
    return found


def test_every_item_is_covered_or_explained() -> None:
    missing = [number for number in CATALOGUE if number not in items() and number not in NOT_COVERED]
    assert missing == []


def test_what_is_covered_is_not_explained_away() -> None:
    assert sorted(set(items()) & set(NOT_COVERED)) == []


def test_every_module_has_its_section() -> None:
    modules = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert modules - set(MODULES) == {"test_catalogue", "test_harness"}


def test_names_are_unique() -> None:
    names = behaviours()
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_document_lists_every_behaviour() -> None:
    """docs/fidelity.md is generated (`python -m tests.conformance.fidelity`); this tells that it was."""
    document = TARGET.read_text()
    rows = {name: "| {} | {} |".format(*title(name)) for name in behaviours()}
    assert [name for name, row in rows.items() if row not in document] == []


def test_there_are_enough() -> None:
    assert len(behaviours()) >= LEAST_BEHAVIOURS
