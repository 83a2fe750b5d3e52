"""Coverage of the sweeps, for docs/sweeps.md: the rules that probers hold answers against, and which APIs nobody watches."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from broker_sim.requests.routes import handler_modules
from broker_sim.simulation.checks import answers, epochs, leaders, rules, share_log, streams_log
from broker_sim.simulation.workloads import bank, by_epochs, by_shares, by_streams, probing
from kafka_wire.api_keys import ApiKey

__all__ = ["apis", "prober_rules"]

_TELLS = {"expect": 0, "breach": 0, "fail": 0, "_fail": 0}
"""Methods that name a rule, and at which place."""


def _modules() -> Iterator[tuple[str, Path]]:
    """Modules of the probers and of the bank, with the names that the tables have for them."""
    for room, within in ((probing, ""), (bank, "bank/")):
        yield from ((within + path.stem, path) for path in sorted(Path(inspect.getfile(room)).parent.glob("*.py")))


def _names(tree: ast.AST) -> dict[str, str]:
    """Texts that have a name."""
    return {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _rules_in(source: str) -> list[str]:
    tree = ast.parse(source)
    of_module = _names(ast.Module([node for node in tree.body if isinstance(node, ast.Assign)], []))
    found: dict[str, None] = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        known = {**of_module, **_names(function)}
        for node in ast.walk(function):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called not in _TELLS:
                continue
            first = node.args[0]
            text = first.value if isinstance(first, ast.Constant) else known.get(getattr(first, "id", ""))
            if isinstance(text, str):
                found[text] = None
    return sorted(found)


def prober_rules() -> list[list[str]]:
    """Rule, and who watches it."""
    sources = [(name, path.read_text()) for name, path in _modules()]
    sources.append(("checks/leaders", inspect.getsource(leaders)))
    for room, modules in (("checks/", (epochs, share_log, streams_log)), ("", (by_epochs, by_shares, by_streams))):
        sources += [(room + one.__name__.rpartition(".")[2], inspect.getsource(one)) for one in modules]
    by_rule: dict[str, list[str]] = {}
    for name, source in sources:
        for rule in _rules_in(source):
            by_rule.setdefault(rule, []).append(name)
    return [[rule, ", ".join(who)] for rule, who in sorted(by_rule.items())]


def _asked(path: Path) -> set[str]:
    """The APIs whose requests a module sends."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kafka_wire.messages.k"):
            found |= {each.name.removesuffix("Request") for each in node.names if each.name.endswith("Request")}
    return found


def _table_of(module: ModuleType, name: str) -> set[str]:
    return set(getattr(module, name))


def apis() -> list[list[str]]:
    """Each API that is answered, and who holds its answers against something; nobody: it is not watched."""
    by_api: dict[str, list[str]] = {}
    of_bank = set().union(*(_asked(path) for name, path in _modules() if "/" in name))
    for who, names in (
        ("`answers`", _table_of(answers, "CHECKS")),
        ("`rules`", _table_of(rules, "_RULES")),
        ("`by_epochs`", _asked(Path(inspect.getfile(by_epochs)))),
        ("`by_streams`", _asked(Path(inspect.getfile(by_streams)))),
        ("`by_shares`", _asked(Path(inspect.getfile(by_shares)))),
        *((f"`probing/{name}`", _asked(path)) for name, path in _modules() if "/" not in name),
        ("`bank`", of_bank),
    ):
        for name in names:
            by_api.setdefault(name, []).append(who)
    keys = sorted(handler_modules())
    return [
        [ApiKey(key).kafka_name, ", ".join(by_api.get(ApiKey(key).kafka_name, [])) or "**not watched**"] for key in keys
    ]
