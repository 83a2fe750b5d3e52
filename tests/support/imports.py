"""Imports inside functions: what a module loads as it is imported, and what its functions load later.

A later import is there for the time of a start, or because somebody may not have the library. It must not hide a circle - the module
that it loads stands on the one that loads it - nor be there for nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Late:
    """An import inside a function. ``modules``: what of the program it loads, ``library`` what else."""

    line: int
    modules: tuple[str, ...]
    library: str


def _imports(node: ast.AST, late: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import that is carried out, and whether in a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, late
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:  # of ``if not TYPE_CHECKING`` both: nothing is carried out there but definitions
                yield from _imports(ast.Module([other], []), late)
        else:
            yield from _imports(child, late or isinstance(child, FUNCTIONS))


class Modules:
    """A program's modules, by their names. ``sources``: name -> text; a package has its own name."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.names = set(sources)
        self._loads: dict[str, set[str]] = {}
        self.late: dict[str, list[Late]] = {}
        for name, text in sources.items():
            self._read(name, ast.parse(text))
        self._reached = {name: self._all_from(name) for name in self.names}

    def _read(self, name: str, tree: ast.AST) -> None:
        loads: set[str] = set()
        late: list[Late] = []
        for node, in_function in _imports(tree):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else self._named(node)
            found = tuple(one for one in named if one in self.names)
            if in_function:
                late.append(Late(node.lineno, found, "" if found else named[0].partition(".")[0]))
            else:
                loads.update(found)
        packages = {one.rpartition(".")[0] for one in loads} & self.names
        self._loads[name] = {one for one in loads | packages if not f"{name}.".startswith(f"{one}.")}
        self.late[name] = late

    def _named(self, node: ast.ImportFrom) -> list[str]:
        home = node.module or ""
        return [inner if (inner := f"{home}.{alias.name}") in self.names else home for alias in node.names]

    def _all_from(self, name: str) -> set[str]:
        reached: set[str] = set()
        waiting = [name]
        while waiting:
            new = self._loads.get(waiting.pop(), set()) - reached
            reached |= new
            waiting += new
        return reached

    def circles(self) -> list[str]:
        """Late imports of modules that are imported by what imports this one, or stand on it."""
        return [
            f"{name}:{one.line} {module}"
            for name in sorted(self.names)
            for one in self.late[name]
            for module in one.modules
            if module == name or name in self._reached[module]
        ]

    def idle(self) -> list[str]:
        """Late imports of what is there already when the module is."""
        return [
            f"{name}:{one.line} {', '.join(one.modules)}"
            for name in sorted(self.names)
            for one in self.late[name]
            if one.modules and self._reached[name].issuperset(one.modules)
        ]
