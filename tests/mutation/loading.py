"""Modules of broker_sim as somebody wants them: with one mutant in them, or with a note of every statement that is run.

load_with(mutant)           # before broker_sim is imported: that module is the mutant's
hits = note_statements(files)   # ... and hits.reached() are the (file, line) of statements that have run since it was asked last
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import CodeType, ModuleType

from tests.mutation.mutants import ROOT, Mutant, mutated

__all__ = ["Hits", "load_with", "note_statements"]

_HITS = "_statements_that_ran"

Change = Callable[[Path], ast.Module | None]
"""The tree of a module in the place of its source; None leaves it as it is."""


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles what ``change`` gives, past all caches."""

    def __init__(self, name: str, path: str, change: Change) -> None:
        super().__init__(name, path)
        self._change = change

    def get_code(self, fullname: str) -> CodeType | None:
        tree = self._change(Path(self.path))
        if tree is None:
            return super().get_code(fullname)
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, change: Change) -> None:
        self._change = change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("broker_sim"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path, self._change)
        return spec


def _install(change: Change) -> None:
    if "broker_sim" in sys.modules:
        raise RuntimeError("broker_sim has been imported already: a mutant needs a fresh process")
    sys.meta_path.insert(0, _Finder(change))


def load_with(mutant: Mutant) -> None:
    """Raises RuntimeError where broker_sim is there already, LookupError for a mutant of another source."""
    tree, _ = mutated(mutant)
    path = ROOT / mutant.file
    _install(lambda each: tree if each == path else None)


class Hits:
    """Record of the statements that have run."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []
        self._ran = bytearray()

    def begin(self) -> None:
        """All modules are imported; what has run until now ran for that."""
        self._ran[:] = bytes(len(self.lines))

    def take(self) -> bytes:
        """Return a byte for each of ``lines``, not 0 if the statement has run since the last call or `begin`, and begin anew."""
        ran = bytes(self._ran)
        self.begin()
        return ran

    def noted(self, file: str, tree: ast.Module, source: dict[str, object]) -> ast.Module:
        """The tree with a note before each statement of each function."""
        _note(tree.body, file, self, inside=False)
        source[_HITS] = self._ran
        return ast.fix_missing_locations(tree)

    def number(self, file: str, line: int) -> int:
        """Add a new statement; return its index in ``lines``."""
        self.lines.append((file, line))
        self._ran.append(0)
        return len(self.lines) - 1


def note_statements(files: Iterable[str]) -> Hits:
    """Instrument these files of broker_sim when they are imported; return the record of their statements. Raises as `load_with`."""
    import builtins

    hits, wanted = Hits(), {ROOT / file: file for file in files}

    def change(path: Path) -> ast.Module | None:
        file = wanted.get(path)
        return None if file is None else hits.noted(file, ast.parse(path.read_text()), vars(builtins))

    _install(change)
    return hits


def _note(body: list[ast.stmt], file: str, hits: Hits, *, inside: bool) -> None:
    """Put a note before each statement of a block and of those within it."""
    noted: list[ast.stmt] = []
    for at, statement in enumerate(body):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if inside and not (at == 0 and is_text):
            number = hits.number(file, statement.lineno)
            note = ast.parse(f"{_HITS}[{number}] = 1").body[0]
            for node in ast.walk(note):
                ast.copy_location(node, statement)
            noted.append(note)
        noted.append(statement)
        within = inside if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) else True
        if isinstance(statement, ast.ClassDef):
            within = False
        for field in ("body", "orelse", "finalbody"):
            block = getattr(statement, field, None)
            if block:
                _note(block, file, hits, inside=within)
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            _note(part.body, file, hits, inside=within)
    body[:] = noted
