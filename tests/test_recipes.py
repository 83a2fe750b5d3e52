"""Recipes of docs/architecture.md for adding an API, or a version of one, carried out in a copy of the tree.

The code blocks of the document are the files; `tests/support/recipe_check.py` runs in the copy and tells what it saw.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from kafka_wire.errors import Err
from tests.support import processes

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"^```(python|diff)\n ?# ((?:protocol|broker_sim)/\S+/k1000_\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
NOT_COORDINATOR, NOT_LEADER = int(Err.NOT_COORDINATOR), int(Err.NOT_LEADER_OR_FOLLOWER)


def blocks(kind: str) -> list[tuple[str, str]]:
    """(file, text) of the document's code blocks for the invented API."""
    document = (ROOT / "docs" / "architecture.md").read_text()
    return [(file, text) for found, file, text in BLOCK.findall(document) if found == kind]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The source again, where nothing is lost."""
    for folder in ("broker_sim", "protocol", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    return tmp_path


def add_the_api(tree: Path) -> None:
    files = blocks("python")
    assert [Path(file).parent.as_posix() for file, _ in files] == [
        "protocol/kafka_wire/messages",
        "broker_sim/handlers",
    ]
    for file, text in files:
        assert not (tree / file).exists()
        (tree / file).write_text(text)


def add_the_version(tree: Path) -> None:
    changes = blocks("diff")
    assert len(changes) == 3
    for file, text in changes:
        lines = text.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        source = (tree / file).read_text()
        assert source.count(before) == 1, before
        (tree / file).write_text(source.replace(before, after))


def run(tree: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (tree, tree / "protocol")))}
    done = processes.run([sys.executable, *command], cwd=tree, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def seen(tree: Path, version: int) -> dict[str, Any]:
    """As `make docs` does; then a broker of the copy, and clients of version ``version``."""
    run(tree, "docs/api_table.py")
    told: dict[str, Any] = json.loads(run(tree, "-m", "tests.support.recipe_check", str(version)))
    assert told["tree"] == str(tree)
    return told


def test_an_api_is_two_files(tree: Path) -> None:
    add_the_api(tree)
    told = seen(tree, 0)
    assert told["advertised"] == {"3.9": None, "4.0": [0, 0], "4.4": [0, 0]}
    assert told["plain"] == [["orders", 0, 0, 5], ["orders", 1, 0, 5], ["bills", 0, 0, 2], ["bills", 9, 3, -1]]
    failed = [["orders", 0, NOT_COORDINATOR, -1], ["orders", 1, NOT_COORDINATOR, -1]]
    assert told["whole"] == [*failed, ["bills", 0, NOT_COORDINATOR, -1], ["bills", 9, NOT_COORDINATOR, -1]]
    assert told["part"] == [["orders", 0, 0, 5], ["orders", 1, NOT_LEADER, -1], *told["plain"][2:]]
    assert told["of another group"] == told["plain"]
    assert told["refused"].endswith("can't be selected by member: they select by group, partition, topic")
    assert told["journal"]["topics"] == ["orders-0", "orders-1", "bills-0", "bills-9"]
    assert (told["journal"]["group"], told["journal"]["api"], told["journal"]["version"]) == (
        "billing",
        "CountRecords",
        0,
    )
    assert told["journal"]["body"]["topics"][0] == {"name": "orders", "partitions": [0, 1]}
    versions, files = told["coverage"]
    assert re.fullmatch(r"\| 1000 \| CountRecords( \| -){6}( \| 0-0)+ \|", versions), "six columns before 4.0"
    assert files == "| 1000 | CountRecords | `handlers/k1000_count_records.py` | test_recipes |"


@pytest.mark.slow
def test_a_version_is_a_range_and_its_fields(tree: Path) -> None:
    add_the_api(tree)
    add_the_version(tree)
    told = seen(tree, 1)
    assert told["advertised"] == {"3.9": None, "4.0": [0, 0], "4.4": [0, 1]}
    assert [row[:4] for row in told["plain"]] == [
        ["orders", 0, 0, 5],
        ["orders", 1, 0, 5],
        ["bills", 0, 0, 2],
        ["bills", 9, 3, -1],
    ]
    assert [row[4] for row in told["plain"]] == [0, 0, 0, -1]
    assert [row[2:] for row in told["whole"]] == [[NOT_COORDINATOR, -1, -1]] * 4
    assert told["journal"]["version"] == 1
