"""The tree in architecture.md: the layers of the import contract, each package with what its docstring says it is, and its modules."""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 128
_COLUMN = 36
"""Column at which the description of a package begins."""
_LAYERS = "imports run one way"
_ROOMS = "a simulation's rooms"


def _contract(name: str) -> dict[str, Any]:
    """A contract of `pyproject.toml`."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found: dict[str, Any] = next(contract for contract in contracts if contract["name"] == name)
    return found


def _place(dotted: str) -> Path:
    """Path of a package or module."""
    above = ROOT / "protocol" if dotted.startswith("kafka_wire") else ROOT
    path = above / dotted.replace(".", "/")
    return path if path.is_dir() else path.with_suffix(".py")


def _says(path: Path) -> str:
    """The first sentence of a package's or module's docstring."""
    source = path / "__init__.py" if path.is_dir() else path
    text = " ".join((ast.get_docstring(ast.parse(source.read_text())) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[a-z`)])[.] ", text.replace("``", "`"))[0].rstrip(".")


def _modules(package: Path) -> str:
    """The modules and packages of a package in a line; of handlers and messages the scheme alone, there is one for each API."""
    names = [path.stem for path in sorted(package.glob("*.py")) if path.stem != "__init__"]
    names += [f"{path.name}/" for path in sorted(package.iterdir()) if (path / "__init__.py").exists()]
    apis = [name for name in names if re.match(r"k\d\d_", name)]
    return ", ".join([*(["kNN_name, one for each API"] if apis else []), *(name for name in names if name not in apis)])


def _drawn(dotted: str) -> list[str]:
    """A package's lines: its path and what it is, then what is in it."""
    path = _place(dotted)
    head = path.relative_to(ROOT).as_posix() + ("/" if path.is_dir() else "")
    lines = _wrapped(f"{head:<{_COLUMN - 1}} {_says(path)}", "", " " * _COLUMN)
    if path.is_dir():
        lines += _wrapped(_modules(path), "    ", "    ")
    return lines


def _wrapped(text: str, first: str, others: str) -> list[str]:
    """Lines of at most `WIDTH` characters."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False, fix_sentence_endings=False
    )


def _layers(name: str, prefix: str = "") -> list[list[str]]:
    """The layers of a contract, from top to bottom: each a list of dotted names."""
    return [[f"{prefix}{one.strip()}" for one in layer.split("|")] for layer in _contract(name)["layers"]]


def layers() -> str:
    """The packages, from top to bottom; a line between those that may not import one another and those beneath."""
    blocks = ["\n".join(line for one in layer for line in _drawn(one)) for layer in _layers(_LAYERS)]
    return "```text\n" + "\n\n".join(blocks) + "\n```"


def simulation_rooms() -> str:
    """The rooms of the simulation, likewise."""
    prefix = f"{_contract(_ROOMS)['containers'][0]}."
    return (
        "```text\n"
        + "\n".join(line for layer in _layers(_ROOMS, prefix) for one in layer for line in _drawn(one))
        + "\n```"
    )
