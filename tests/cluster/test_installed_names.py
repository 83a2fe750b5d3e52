"""Installed packages take no name away from a user's own project."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_a_project_with_a_protocol_of_its_own_keeps_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(protocol="WORD = 'mine'")
    folder = pytester.mkpydir("tests") / "protocol"
    folder.mkdir()
    for file, text in {
        "__init__.py": "",
        "test_mine.py": """
import protocol

def test_mine(kafka_server):
    assert protocol.WORD == "mine"
    assert kafka_server.group("billing").state == "Dead"

async def test_mine_too(kafka):
    assert protocol.WORD == "mine"
    assert (await kafka.group("billing").commit_probe()).ok
""",
    }.items():
        (folder / file).write_text(text)
    options = ("-p", "no:randomly", "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
    result = pytester.runpytest_subprocess(*options, "-W", "error", "-o", "pythonpath=.", "tests", timeout=300)
    result.assert_outcomes(passed=2)


def test_two_packages_are_installed_and_no_other() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert set(setuptools) == {"packages", "package-data"}  # no modules besides
    found = setuptools["packages"]["find"]
    folders = [
        each.name for where in found["where"] for each in (ROOT / where).iterdir() if (each / "__init__.py").exists()
    ]
    installed = {name for name in folders if any(fnmatch(name, pattern) for pattern in found["include"])}
    assert installed == {"broker_sim", "kafka_wire"}
    files = {path.name for path in (ROOT / "broker_sim").iterdir() if path.suffix in (".typed", ".pyi")}
    assert files == {"py.typed", "sync.pyi"}  # package-data of pyproject.toml has both
