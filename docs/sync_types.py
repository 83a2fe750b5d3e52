"""Writes broker_sim/sync.pyi: how the handles look to synchronous code, drawn from the asyncio ones.

A class of `FACES` loses what is asynchronous in it: ``async def f() -> T`` and ``def f() -> Coroutine[Any, Any, T]`` become
``def f() -> T``, ``async with`` becomes ``with``, and a class of `FACES` in an annotation is the one of sync.pyi.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "broker_sim" / "sync.pyi"

FACES: dict[str, tuple[str, ...]] = {
    "Cluster": ("broker_sim.api.cluster.Cluster",),
    "GroupHandle": ("broker_sim.api.handles.groups.GroupHandle",),
    "ShareGroupHandle": (
        "broker_sim.api.handles.shares.ShareGroupHandle",
        "broker_sim.api.handles.groups.GroupHandle",
    ),
    "TransactionHandle": ("broker_sim.api.handles.transactions.TransactionHandle",),
    "LogHandle": ("broker_sim.api.handles.logs.LogHandle",),
    "StateGuard": ("broker_sim.api.handles.logs.StateGuard",),
    "Pending": ("broker_sim.api.handles.logs.Pending",),
    "TopicHandle": ("broker_sim.api.handles.topics.TopicHandle",),
    "BrokerHandle": ("broker_sim.api.handles.brokers.BrokerHandle",),
    "Down": ("broker_sim.api.handles.brokers.Down",),
    "RequestHistory": ("broker_sim.api.handles.requests.RequestHistory",),
    "Fault": ("broker_sim.faults.registry.Fault",),
    "Faults": ("broker_sim.faults.registry.Faults",),
    "Order": ("broker_sim.faults.order.Order",),
    "Hold": ("broker_sim.faults.order.Hold",),
    "Recording": ("broker_sim.faults.recorded.Recording",),
    "Replay": ("broker_sim.faults.recorded.Replay",),
    "TimeControl": ("broker_sim.api.time_control.TimeControl",),
    "Journal": ("broker_sim.journal.Journal",),
}
"""Name -> the classes whose members it has."""

INNER = {
    "Cluster": {"start", "stop", "bootstrap", "create_topic", "watch_loop"},  # `ClusterThread` has its own
    "Fault": {"takes", "hold", "let_go"},
    "Faults": {"install", "forget", "match"},
    "Hold": {"add", "drop"},
    "Order": {"selector", "must_wait", "client_disconnected", "resume_later", "forget", "write_event"},
    "Recording": {"note"},
    "Replay": {"must_wait", "drop"},
    "Journal": {"write", "close", "go_on", "failed"},
    "TimeControl": {"journal"},
    "LogHandle": {"about"},
    "GroupHandle": {"obstacle_to_reading"},
    "ShareGroupHandle": {"obstacle_to_reading"},
}
"""Names that are public in a class only for the packages beside it."""

ATTRIBUTES = {
    "LogHandle": {"topic": "str", "index": "int", "name": "str"},
    "Cluster": {"config": "BrokerConfig", "seed": "int | None", "host": "str"},
}
"""Attributes whose types no annotation tells."""

HEAD = """\
# Written by `make docs` (docs/sync_types.py) out of the asyncio handles; sync.py says what it is for.
# ruff: noqa
# fmt: off
"""

BUILTIN = {"str", "int", "float", "bool", "bytes", "object", "None", "dict", "list", "tuple", "set", "type"}
KEPT = ("__len__", "__getattr__")


class Source:
    """A module's classes, and where the names in it come from."""

    def __init__(self, module: str) -> None:
        path = ROOT / (module.replace(".", "/") + ".py")
        self.tree = ast.parse((path if path.exists() else path.with_suffix("") / "__init__.py").read_text())
        self.homes: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                self.homes.update({alias.asname or alias.name: node.module for alias in node.names})
            elif isinstance(node, ast.Import):
                self.homes.update({alias.name: "" for alias in node.names})
        for node in self.tree.body:
            names = [node.name] if isinstance(node, ast.ClassDef) else _assigned(node)
            self.homes.update(dict.fromkeys(names, module))

    def members(self, name: str) -> list[ast.stmt]:
        """The body of a class."""
        return next(node.body for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _assigned(node: ast.stmt) -> list[str]:
    return [each.id for each in node.targets if isinstance(each, ast.Name)] if isinstance(node, ast.Assign) else []


class Face:
    """One class of the stub."""

    def __init__(self, name: str, imports: dict[str, str]) -> None:
        self.name, self.imports = name, imports
        self.lines: list[str] = []
        self.seen: set[str] = set()

    def draw(self) -> str:
        """Return the text of the class."""
        for place in FACES[self.name]:
            module, _, name = place.rpartition(".")
            self.source = Source(module)
            for node in self.source.members(name):
                self._member(node)
        for name, kind in ATTRIBUTES.get(self.name, {}).items():
            self.lines.append(f"    {name}: {self._type(ast.parse(kind, mode='eval').body)}")
        return "\n".join([f"class {self.name}:", *self.lines])

    def _hidden(self, name: str) -> bool:
        return name.startswith("_") or name in INNER.get(self.name, ()) or name in self.seen

    def _member(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            for name in _assigned(node):
                if not self._hidden(name) and isinstance(node.value, ast.Name):
                    self.lines.append(f"    {name} = {node.value.id}")
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        if node.name == "__init__":
            self._attributes(node)
        elif node.name in ("__enter__", "__aenter__"):
            if "__enter__" not in self.seen:
                self.imports["Self"] = "typing"
                self.lines.append("    def __enter__(self) -> Self: ...")
                exit_types = "type[BaseException] | None, BaseException | None, TracebackType | None"
                names = [
                    f"{name}: {kind}"
                    for name, kind in zip(("kind", "error", "trace"), exit_types.split(", "), strict=True)
                ]
                self.lines.append(f"    def __exit__(self, {', '.join(names)}) -> None: ...")
                self.imports["TracebackType"] = "types"
            self.seen.add("__enter__")
        elif node.name in KEPT or not self._hidden(node.name):
            self.seen.add(node.name)
            if any(ast.unparse(each) == "property" for each in node.decorator_list):
                self.lines.append("    @property")
            self.lines.append(self._function(node))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
        arguments = node.args
        for each in (*arguments.args, *arguments.kwonlyargs, arguments.kwarg, arguments.vararg):
            if each is not None and each.annotation is not None:
                each.annotation = ast.parse(self._type(each.annotation), mode="eval").body
        arguments.defaults = [_default(each) for each in arguments.defaults]
        arguments.kw_defaults = [None if each is None else _default(each) for each in arguments.kw_defaults]
        assert node.returns is not None, node.name
        return f"    def {node.name}({ast.unparse(arguments)}) -> {self._type(node.returns)}: ..."

    def _attributes(self, init: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        given = {each.arg: each.annotation for each in (*init.args.args, *init.args.kwonlyargs)}
        for node in init.body:
            for target, kind in _stored(node, given):
                if not self._hidden(target) and target not in ATTRIBUTES.get(self.name, ()):
                    if kind is None:
                        raise SystemExit(f"{self.name}.{target}: of which type is it? see ATTRIBUTES")
                    self.seen.add(target)
                    self.lines.append(f"    {target}: {self._type(kind)}")

    def _type(self, node: ast.expr) -> str:
        """An annotation as synchronous code has it."""
        text = ast.unparse(node)
        if text.startswith("Coroutine["):
            assert isinstance(node, ast.Subscript)
            assert isinstance(node.slice, ast.Tuple)
            return self._type(node.slice.elts[2])
        text = text.replace("deque[", "list[")
        for each in ast.walk(ast.parse(text, mode="eval")):
            if isinstance(each, ast.Name) and each.id not in BUILTIN and each.id not in FACES:
                self.imports[each.id] = self.source.homes[each.id]
        return text


def _default(node: ast.expr) -> ast.expr:
    return node if isinstance(node, ast.Constant) else ast.Constant(...)


def _stored(node: ast.stmt, given: dict[str, ast.expr | None]) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the attributes that a statement of an ``__init__`` assigns, each with its type."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
        yield node.target.attr, node.annotation
    if isinstance(node, ast.Assign):
        for target in node.targets:
            pairs = (
                zip(target.elts, node.value.elts, strict=True)
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                else [(target, node.value)]
            )
            for place, value in pairs:
                if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name):
                    yield place.attr, _type_of(value, given)


def _type_of(value: ast.expr, given: dict[str, ast.expr | None]) -> ast.expr | None:
    if isinstance(value, ast.Name):
        return given.get(value.id)
    if isinstance(value, ast.JoinedStr):
        return ast.Name("str")
    return ast.Name(type(value.value).__name__) if isinstance(value, ast.Constant) else None


def render() -> str:
    """The whole of sync.pyi."""
    imports: dict[str, str] = {}
    classes = [Face(name, imports).draw() for name in FACES]
    lines = [f"import {name}" for name, home in sorted(imports.items()) if not home]
    for home in sorted({home for home in imports.values() if home}):
        names = ", ".join(sorted(name for name, each in imports.items() if each == home))
        lines += [f"from {home} import {names}"]
    return HEAD + "\n".join(lines) + "\n\n" + "\n\n".join(classes) + "\n"
