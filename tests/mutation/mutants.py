"""Mutants of a module: every small change of its rules that a program can think of, each by its place in the syntax tree.

    for mutant in mutants_of(path): ...
    tree, after = mutated(mutant)       # the module's tree with that one change, and what stands there now

Rules:
1. What is changed is a rule: a condition, a comparison, a number, a field, an error, a statement that has an effect. Texts, log lines,
   annotations, ``__repr__`` and the order of imports are none.
2. The same source gives the same mutants in the same order; a mutant is named by file, line and number.
3. A mutant that no run could tell from the original (an equivalent one) is made all the same: only a person can argue that.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["KINDS", "ROOMS", "ROOT", "Mutant", "all_mutants", "mutants_of", "mutated", "short"]

ROOT = Path(__file__).parents[2] / "broker_sim"

ROOMS = ("coordinator", "storage", "metadata", "handlers", "runtime")

OUTSIDE = {
    "metadata/foreign_directory.py": "reads the directories of real brokers",
    "metadata/kraft_metadata.py": "reads the directories of real brokers",
    "handlers/k29_describe_acls.py": "a constant refusal",
    "handlers/k30_create_acls.py": "a constant refusal",
    "handlers/k31_delete_acls.py": "a constant refusal",
    "runtime/journal_observer.py": "what the journal shows, no client sees",
    "runtime/transaction_observer.py": "what the journal shows, no client sees",
}
"""Files of the rooms without rules that a client of a simulated cluster can meet, and why."""

KINDS = (
    "negated",
    "and/or",
    "condition dropped",
    "off by one",
    "dropped",
    "stale",
    "wrong field",
    "wrong constant",
    "swapped",
)

_SILENT = ("log", "logger", "logging", "warnings")
_TOLD = ("__repr__", "__str__", "why_never", "text")
_FORGETS = ("clear", "pop", "discard", "remove", "cancel", "popitem", "invalidate")
_FAMILIES = (
    (
        "log_start_offset",
        "log_end_offset",
        "high_watermark",
        "last_stable_offset",
        "base_offset",
        "last_offset",
        "next_offset",
        "fetch_offset",
        "offset",
        "committed_offset",
        "end",
        "start",
        "recovery_point",
    ),
    ("replicas", "isr", "eligible"),
    ("min_bytes", "max_bytes", "size", "limit", "partition_max_bytes", "read_bytes", "waiting_bytes", "appended_bytes"),
    ("leader", "node_id", "index", "partition", "partition_index"),
    ("members", "pending", "offsets", "static"),
    ("session_timeout_ms", "rebalance_timeout_ms", "max_wait_ms", "timeout_ms"),
)
"""Fields that hold the same kind of thing under other names."""

_STRICTER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """``number``: of its module's. ``line``: where the change is; ``statement``: the line on which the statement around it
    begins, 0 for one that runs when the module is imported. ``where``: the function."""

    room: str
    file: str
    number: int
    kind: str
    where: str
    line: int
    statement: int
    before: str

    @property
    def name(self) -> str:
        """``coordinator/offsets.py:112#7``."""
        return f"{self.file}:{self.line}#{self.number}"

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.name} {self.where}: {self.kind}: {short(self.before)}  ->  {short(mutated(self)[1])}"


def short(code: str) -> str:
    """In one line."""
    line = " ".join(code.split())
    return line if len(line) <= 110 else line[:107] + "..."


Edit = Callable[[], ast.AST]
"""Makes the change in the tree that it was made for; gives what stands there now."""


@dataclass(slots=True)
class _Place:
    """A change that can be made. ``shown``: the node that tells it best."""

    kind: str
    shown: ast.AST
    edit: Edit
    where: str
    statement: int


def all_mutants(rooms: tuple[str, ...] = ROOMS) -> list[Mutant]:
    """Return the mutants of all modules in these folders, in order of file and position."""
    found: list[Mutant] = []
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            if path.relative_to(ROOT).as_posix() not in OUTSIDE:
                found += mutants_of(path)
    return found


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of one module."""
    file = path.relative_to(ROOT).as_posix()
    tree = ast.parse(path.read_text())
    for number, place in enumerate(_places(tree)):
        line = getattr(place.shown, "lineno", place.statement)
        before = ast.unparse(place.shown)
        yield Mutant(file.split("/")[0], file, number, place.kind, place.where, line, place.statement, before)


def mutated(mutant: Mutant) -> tuple[ast.Module, str]:
    """The module's tree with the change in it, and what stands there now. Raises LookupError where the source has moved on."""
    tree = ast.parse((ROOT / mutant.file).read_text())
    for number, place in enumerate(_places(tree)):
        if number == mutant.number:
            if place.kind != mutant.kind or ast.unparse(place.shown) != mutant.before:
                break
            after = ast.unparse(place.edit())
            return ast.fix_missing_locations(tree), after
    raise LookupError(f"{mutant.name} is not there any more")


# --- where something can be changed ---------------------------------------------------------------------------------------


def _places(tree: ast.Module) -> list[_Place]:
    finder = _Finder(tree)
    finder.block(tree.body, "", runs=False)
    return finder.found


class _Finder:
    def __init__(self, tree: ast.Module) -> None:
        self.found: list[_Place] = []
        self.fields = _fields(tree)
        self._where = ""
        self._statement = 0

    def add(self, kind: str, shown: ast.AST, edit: Edit) -> None:
        self.found.append(_Place(kind, shown, edit, self._where or "(module)", self._statement))

    # statements

    def block(self, body: list[ast.stmt], where: str, *, runs: bool) -> None:
        """``runs``: when its function is called, not when the module is imported."""
        for at, statement in enumerate(body):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if statement.name not in _TOLD and not _is_typing(statement):
                    inner = f"{where}.{statement.name}".strip(".")
                    self.block(statement.body, inner, runs=not isinstance(statement, ast.ClassDef))
                continue
            if _is_silent(statement) or (
                isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)
            ):
                continue
            self._where, self._statement = where, statement.lineno if runs else 0
            self._dropped(body, at)
            self._expressions(statement, runs=runs)
            for inner_body in _bodies(statement):
                self.block(inner_body, where, runs=runs)
                self._where, self._statement = where, statement.lineno if runs else 0

    def _dropped(self, body: list[ast.stmt], at: int) -> None:
        statement = body[at]
        if not self._statement:
            return

        def drop() -> ast.AST:
            body[at] = ast.copy_location(ast.Pass(), statement)
            return body[at]

        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call | ast.YieldFrom | ast.Await):
            call = statement.value
            forgets = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _FORGETS
            self.add("stale" if forgets else "dropped", statement, drop)
        elif isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if (
                all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
                and statement.value is not None
            ):
                self.add("stale" if _is_nothing(statement.value) else "dropped", statement, drop)
        elif isinstance(statement, ast.Delete):
            self.add("stale", statement, drop)
        elif isinstance(statement, ast.Raise | ast.Continue | ast.Break):
            self.add("dropped", statement, drop)

    # expressions

    def _expressions(self, statement: ast.stmt, *, runs: bool) -> None:
        for owner, name, node in _nodes(statement):
            if isinstance(node, ast.Constant | ast.Attribute):
                self._leaf(owner, name, node, runs=runs)
            elif runs:
                self._node(owner, name, node)
        if isinstance(statement, ast.If | ast.While) and runs:
            self._negated(statement, "test", statement.test)
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add | ast.Sub) and runs:
            self._other_sign(statement)

    def _node(self, owner: ast.AST, name: _Field, node: ast.AST) -> None:
        if isinstance(node, ast.IfExp):
            self._negated(node, "test", node.test)
        elif isinstance(node, ast.comprehension):
            for at, test in enumerate(node.ifs):
                self._put("negated", test, node, ("ifs", at), _not(test))
        elif isinstance(node, ast.BoolOp):
            other = ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
            self._put("and/or", node, owner, name, other)
            for at in range(len(node.values)):
                rest = [value for number, value in enumerate(node.values) if number != at]
                less = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
                self._put("condition dropped", node, owner, name, less)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            op = type(node.ops[0])
            other_op = _STRICTER.get(op) or _OPPOSITE.get(op)
            if other_op is not None:
                kind = "off by one" if op in _STRICTER else "negated"
                self._put(kind, node, owner, name, ast.Compare(node.left, [other_op()], node.comparators))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and _is_one(node.right):
            self._put("off by one", node, owner, name, node.left)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            self._put("swapped", node, owner, name, ast.BinOp(node.left, ast.Add(), node.right))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            other_name = ast.Name("max" if node.func.id == "min" else "min", ast.Load())
            self._put("swapped", node, owner, name, ast.Call(other_name, node.args, node.keywords))

    def _leaf(self, owner: ast.AST, name: _Field, node: ast.Constant | ast.Attribute, *, runs: bool) -> None:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                self._put("wrong constant", owner, owner, name, ast.Constant(not node.value))
            elif isinstance(node.value, int) and runs and not (isinstance(owner, ast.BinOp) and _is_one(node)):
                self._put("off by one", owner, owner, name, ast.Constant(node.value + 1))
        elif isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            if isinstance(owner, ast.Call) and name[0] == "func":
                return
            others = self.fields[node.value.id]
            if not node.value.id[0].isupper():
                others = [each for each in others if each == node.attr or _alike(each, node.attr)]
            other = others[(others.index(node.attr) + 1) % len(others)] if node.attr in others else node.attr
            if other != node.attr and (runs or node.value.id[0].isupper()):
                kind = "wrong constant" if node.value.id[0].isupper() else "wrong field"
                self._put(kind, owner, owner, name, ast.Attribute(node.value, other, ast.Load()))

    def _negated(self, owner: ast.AST, field: str, test: ast.expr) -> None:
        if not isinstance(test, ast.Constant):
            self._put("negated", test, owner, (field, None), _not(test))

    def _other_sign(self, statement: ast.AugAssign) -> None:
        op = ast.Sub() if isinstance(statement.op, ast.Add) else ast.Add()

        def edit() -> ast.AST:
            statement.op = op
            return statement

        if not isinstance(statement.value, ast.List | ast.ListComp | ast.JoinedStr):
            self.add("swapped", statement, edit)

    def _put(self, kind: str, shown: ast.AST, owner: ast.AST, place: _Field, new: ast.expr) -> None:
        field, at = place

        def edit() -> ast.AST:
            old = getattr(owner, field) if at is None else getattr(owner, field)[at]
            ast.copy_location(new, old)
            if at is None:
                setattr(owner, field, new)
            else:
                getattr(owner, field)[at] = new
            return owner if shown is owner else new

        self.add(kind, shown, edit)


_Field = tuple[str, int | None]
"""A field of a node, and the place in it where it is a list."""

_SKIPPED = ("annotation", "returns", "decorator_list", "type_params")


def _nodes(statement: ast.stmt) -> Iterator[tuple[ast.AST, _Field, ast.AST]]:
    """Yield the nodes of a statement except those in its blocks: owner, field, node."""
    todo: list[ast.AST] = [statement]
    while todo:
        owner = todo.pop()
        for field, value in ast.iter_fields(owner):
            if field in _SKIPPED or isinstance(owner, ast.JoinedStr):
                continue
            entries = (
                [(None, value)]
                if isinstance(value, ast.AST)
                else list(enumerate(value))
                if isinstance(value, list)
                else []
            )
            for at, node in entries:
                if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case) or not isinstance(node, ast.AST):
                    continue
                yield owner, (field, at), node
                todo.append(node)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, None)
        if block:
            yield block
    for handler in getattr(statement, "handlers", ()):
        yield handler.body
    for case in getattr(statement, "cases", ()):
        yield case.body


def _fields(tree: ast.Module) -> dict[str, list[str]]:
    """Name -> the fields that the module reads of what is called so, in the order of the alphabet. Methods are none."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = found.setdefault(node.value.id, set())
            if id(node) not in called and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
    return {name: sorted(fields) for name, fields in found.items()}


def _alike(one: str, other: str) -> bool:
    """Whether somebody could take one field for the other: the rest is a matter of types, which mypy sees."""
    if one.rpartition("_")[2] == other.rpartition("_")[2]:
        return True
    return any(one.lstrip("_") in family and other.lstrip("_") in family for family in _FAMILIES)


def _is_silent(statement: ast.stmt) -> bool:
    """A text, a log line, an import, an assertion."""
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.Assert | ast.Global | ast.Nonlocal | ast.Pass):
        return True
    if not isinstance(statement, ast.Expr):
        return isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "").startswith("__")
    value = statement.value
    if isinstance(value, ast.Constant):
        return True
    if not isinstance(value, ast.Call):
        return False
    name = value.func
    while isinstance(name, ast.Attribute):
        name = name.value
    return isinstance(name, ast.Name) and name.id in _SILENT


def _is_typing(statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """A protocol, an overload: nothing of it runs."""
    if isinstance(statement, ast.ClassDef):
        return any(getattr(base, "id", "") == "Protocol" for base in statement.bases)
    return any(getattr(one, "id", "") == "overload" for one in statement.decorator_list)


def _is_nothing(value: ast.expr) -> bool:
    """None, an empty list: what is forgotten by setting it."""
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return not value.elts
    return (isinstance(value, ast.Dict) and not value.keys) or (isinstance(value, ast.Constant) and value.value is None)


def _is_one(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1 and not isinstance(node.value, bool)


def _not(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)
