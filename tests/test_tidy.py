"""House rules that no linter knows: sizes, what the core may import, waiting in tests, what may not be committed, current docs."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import broker_sim
from broker_sim.faults.conditions import KINDS
from broker_sim.faults.rules import VERDICTS
from broker_sim.requests.routes import handler_modules
from tests.support.imports import Modules
from tests.support.source_text import docstrings, statements

ROOT = Path(__file__).resolve().parent.parent
MAX_FUNCTION_LINES = 70
MAX_MODULE_LINES = 600

IMPURE = {
    *(
        "asyncio",
        "datetime",
        "logging",
        "os",
        "pathlib",
        "random",
        "secrets",
        "select",
        "signal",
        "socket",
        "subprocess",
    ),
    *("tempfile", "threading", "time", "uuid"),
}
"""Modules that would make the coordinator depend on more than its events."""

OPTIONAL = frozenset(
    (
        "aiohttp",
        "aiokafka",
        "cramjam",
        "kafka",
        "pandas",
        "py4j",
        "pyarrow",
        "pyspark",
        "pytest_asyncio",
        "trustme",
        "uvloop",
        "yaml",
    )
)
"""Libraries that a user may not have, or most uses do without."""

DEFERRED = {
    "broker_sim/cli/": "a verb loads what it needs: the others, and --help, are there at once",
    "broker_sim/scenario/commands.py": "likewise",
    "broker_sim/simulation/commands.py": "likewise",
    "broker_sim/reproduce/commands.py": "likewise",
    "broker_sim/simulation/exhaustive/commands.py": "likewise",
    "broker_sim/control/": "the command line knows every operation; the server alone loads what carries them out",
    "broker_sim/testing/": "a plugin is loaded by every run of pytest on the machine",
    "broker_sim/api/": "what watches, breaks and explains is loaded when somebody asks for it",
    "broker_sim/metadata/cluster_state.py": "a broker that starts creates no topic",
    "broker_sim/scenario/": "a scenario is read and checked without a cluster",
    "broker_sim/demo/": "its processes load one part each",
    "broker_sim/pipeline/": "drivers and executors load what their step needs",
    "broker_sim/simulation/sweeps/": "executors likewise, and pictures are drawn of failures alone",
    "broker_sim/simulation/sync/programs.py": "most simulations have no program that blocks",
    "broker_sim/metadata/persistence.py": "most clusters are in memory, and directories of other brokers are rare",
    "broker_sim/storage/log.py": "few logs are ever compacted",
    "broker_sim/storage/files.py": "few clusters are on disk",
    "broker_sim/runtime/coordinators.py": "coordinators are a third of the time of a start, and are made at their first request",
    "broker_sim/authentication/": "most clusters are PLAINTEXT: neither hashes nor certificates are needed",
    "broker_sim/network/": "likewise",
    "broker_sim/handlers/k36_sasl_authenticate.py": "likewise",
    "broker_sim/handlers/k50_describe_user_scram_credentials.py": "likewise",
    "broker_sim/handlers/k51_alter_user_scram_credentials.py": "likewise",
    "broker_sim/common/text.py": "errors are rare, and every command loads this module",
}
"""Modules whose functions may import what everybody has, and why: the time of a start."""

SLEEPS = {
    "tests/clients/python/aiokafka_driver.py": "an application that pauses after an error",
    "tests/conformance/test_authentication_again.py": "sessions of a real broker pass in real time",
    "tests/conformance/test_harness.py": "a loop is held up and idles to see what its time makes of it",
    "tests/conformance/test_heartbeat.py": "sessions of a real broker pass in real time",
    "tests/stuck/real.py": "a real broker's timeouts pass in real time",
    "tests/incidents/member.py": "a consumer's work takes time",
    "tests/incidents/stage.py": "records are written in real time",
    "tests/durability/test_sigkill.py": "the seed draws the moment of the kill",
}
"""Files that may sleep otherwise than in a loop that looks at a deadline, and why; sleep(0), one turn of the loop, is free."""

READS_CLOCK = re.compile(r"\b(monotonic|clock_s|get_running_loop\(\)\.time|loop\.time)\(\)")
MAY_READ_CLOCK = re.compile(r"\b(?:time|datetime)\s*\.\s*(?:time|monotonic|perf_counter|now)")
MACHINE_PATHS = re.compile(r"(?<![\w.$}~-])/(?:root|work|home/\w+|Users/\w+|tmp)/")
KAFKAS_OWN_PATHS = {
    "broker_sim/config/definitions.py": "the default of log.dir",
    "tests/cluster/test_image.py": "where modules of Testcontainers copy a script to",
}
HOSTS = re.compile(
    r"\b(?:pypi|pythonhosted|test\.pypi)\.org\b|\bnpmjs\.(?:org|com)\b|\bmaven\.(?:org|apache\.org)\b|\bmaven\.google\.com\b"
    r"|\b(?:proxy|sum)\.golang\.org\b|\bgoproxy\.\w+\b|\bdocker\.io\b|\bghcr\.io\b|\bquay\.io\b",
)


@cache
def committed() -> list[Path]:
    """The files under version control and those that are about to be; all files where this is no clone."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    names = listed.stdout.splitlines() if listed.returncode == 0 else []
    paths = [ROOT / name for name in names] or [
        p for p in ROOT.rglob("*") if not p.relative_to(ROOT).parts[0].startswith(".")
    ]
    return sorted(path for path in paths if path.is_file())


def modules(*folders: str) -> list[Path]:
    """The Python files of these folders."""
    return [p for p in committed() if p.suffix == ".py" and p.relative_to(ROOT).parts[0] in folders]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Outline:
    """Facts of a module's tree: all the trees at once would take hundreds of megabytes."""

    lines: int
    says_what_it_is: bool
    long_functions: tuple[str, ...]
    nameless: tuple[str, ...]


@cache
def outline(path: Path) -> Outline:
    text = path.read_text()
    tree = ast.parse(text)
    long = [
        f"{name_of(path)}:{node.lineno} {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in statements(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    nameless = [f"{name_of(path)}:{line} {text[:60]}" for line, text in docstrings(tree) if begins_without_a_name(text)]
    return Outline(len(text.splitlines()), ast.get_docstring(tree) is not None, tuple(long), tuple(nameless))


PRONOUNS = frozenset(
    (
        *("it", "its", "it's", "they", "them", "their", "theirs", "he", "his", "she", "her"),
        *("this", "that", "that's", "these", "those", "another"),
        *("who", "whom", "whose", "which", "what", "whatever", "where", "when", "how", "why", "of"),
    )
)
LEFT_OPEN = frozenset(("one", "all", "each", "none", "both", "some", "any", "such"))
RELATIVE = frozenset(("of", "that", "which", "who", "whose"))


def begins_without_a_name(docstring: str) -> bool:
    """Whether it begins with a pronoun or a relative clause: "Of one connection.", "What may not come now", "One that has ended"."""
    first, second, *_ = [word.strip("`,.:;()'\"").lower() for word in docstring.split()[:2]] + ["", ""]
    return first in PRONOUNS or (first in LEFT_OPEN and second in RELATIVE)


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Every call of ``module.function``."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            yield node, f"{node.func.value.id}.{node.func.attr}"


CODE = ("broker_sim", "protocol", "tests", "benchmarks", "docs", "examples")


def test_no_function_is_longer_than_a_screen() -> None:
    long = [function for path in modules(*CODE) for function in outline(path).long_functions]
    assert long == [], f"more than {MAX_FUNCTION_LINES} lines: divide them"


def test_no_module_is_longer_than_a_sitting() -> None:
    sizes = {name_of(path): outline(path).lines for path in modules(*CODE)}
    assert {name: size for name, size in sizes.items() if size > MAX_MODULE_LINES} == {}


def test_every_module_opens_with_what_it_is() -> None:
    silent = [
        name_of(path)
        for path in modules("broker_sim", "protocol")
        if path.stat().st_size and not outline(path).says_what_it_is
    ]
    assert silent == []


def test_docstrings_begin_with_what_they_name() -> None:
    nameless = [found for path in modules(*CODE) for found in outline(path).nameless]
    assert nameless == [], "a reader sees one alone: begin with a noun, or with what the function does"


@pytest.mark.parametrize("text", ["Of one connection.", "What may not come now.", "One that has ended", "its members"])
def test_a_docstring_without_a_name_would_be_found(text: str) -> None:
    assert begins_without_a_name(text)
    assert not begins_without_a_name(f"Members, {text}")


def test_the_core_imports_nothing_that_knows_the_world() -> None:
    found = []
    for path in modules("broker_sim"):
        if "coordinator" not in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{name_of(path)}: {name}" for name in names if name.partition(".")[0] in IMPURE]
    assert found == []


def test_only_the_clock_reads_the_time() -> None:
    readers = {"time.time", "time.monotonic", "time.time_ns", "time.monotonic_ns", "time.perf_counter", "datetime.now"}
    found = [
        f"{name_of(path)}:{call.lineno} {function}"
        for path in modules("broker_sim", "protocol")
        if path.name != "clock.py" and "demo" not in path.parts
        if MAY_READ_CLOCK.search(text := path.read_text())
        for call, function in calls(ast.parse(text))
        if function in readers
    ]
    assert found == []


@cache
def program() -> Modules:
    sources = {}
    for path in modules("broker_sim", "protocol"):
        parts = path.relative_to(ROOT / "protocol" if "protocol" in path.parts else ROOT).with_suffix("").parts
        sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return Modules(sources)


def may_wait(name: str) -> bool:
    """Whether a module's functions may import what everybody has."""
    place = name.replace(".", "/")
    return f"{place}.py" in DEFERRED or f"{place}/".startswith(tuple(one for one in DEFERRED if one.endswith("/")))


def test_functions_import_late_where_a_start_is_the_faster_for_it() -> None:
    found = [
        f"{name}:{one.line} {', '.join(one.modules) or one.library}"
        for name, imports in program().late.items()
        for one in imports
        if one.library not in OPTIONAL and not may_wait(name)
    ]
    assert found == [], "import it at the top (or give the place its reason in DEFERRED)"


def test_no_import_inside_a_function_hides_a_circle_or_is_there_for_nothing() -> None:
    assert program().circles() == [], "move what both need to a third module, or say what is needed in a protocol"
    assert program().idle() == [], "it is loaded when the module is: import it at the top"


def test_hidden_circles_are_seen() -> None:
    late = "def f():\n    from p import b\n"
    planted = {"p": "", "p.a": late, "p.b": "import p.c", "p.c": "if 1:\n    from p.a import f"}
    assert Modules(planted).circles() == ["p.a:2 p.b"]
    assert (
        Modules(planted | {"p.c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.a"}).circles()
        == []
    )
    assert Modules({"p.a": f"import p.c\n{late}", "p.b": "", "p.c": "import p.b"}).idle() == ["p.a:3 p.b"]


def sleeps(tree: ast.AST) -> set[int]:
    """The lines that call sleep with anything but 0."""
    return {
        call.lineno
        for call, function in calls(tree)
        if function in ("time.sleep", "asyncio.sleep")
        and not (len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
    }


def test_tests_do_not_sleep_to_wait() -> None:
    found = []
    for path in modules("tests"):
        if name_of(path) in SLEEPS or name_of(path).startswith("tests/simulation/"):  # whose time is virtual
            continue
        if ".sleep" not in (text := path.read_text()):
            continue
        tree = ast.parse(text)
        polls = [
            loop for loop in ast.walk(tree) if isinstance(loop, ast.While) and READS_CLOCK.search(ast.unparse(loop))
        ]
        bare = sleeps(tree).difference(*(sleeps(loop) for loop in polls))
        found += [f"{name_of(path)}:{line}" for line in sorted(bare)]
    assert found == [], "wait for the event, with a deadline (or give the file its reason in SLEEPS)"


def test_nothing_committed_names_a_registry_or_a_path_of_one_machine() -> None:
    found = []
    for path in committed():
        if path.suffix in {".log", ".index", ".timeindex"} or path.name in ("LICENSE", Path(__file__).name):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        lines = text.splitlines() if HOSTS.search(text) or MACHINE_PATHS.search(text) else []
        for number, line in enumerate(lines, 1):
            sums = path.name == "go.sum" or path.name == "go.mod"  # module paths, not hosts
            if (HOSTS.search(line) and not sums) or (
                MACHINE_PATHS.search(line) and name_of(path) not in KAFKAS_OWN_PATHS
            ):
                found.append(f"{name_of(path)}:{number}: {line.strip()[:100]}")
    assert found == []


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_docs_are_current() -> None:
    assert generator().outdated() == [], "run `make docs`"


def test_every_handler_stands_in_the_coverage() -> None:
    text = (ROOT / "docs" / "coverage.md").read_text()
    assert [name for name in handler_modules().values() if f"`handlers/{name}.py`" not in text] == []


def test_every_handler_has_tests_that_use_its_messages() -> None:
    assert "none yet" not in (ROOT / "docs" / "coverage.md").read_text()


def test_every_fault_stands_in_the_faults() -> None:
    headings = re.findall(r"^### (\S+)$", (ROOT / "docs" / "faults.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted([*KINDS, *VERDICTS])


def test_the_import_contract_knows_every_module() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = {name.strip() for line in contracts[0]["layers"] for name in line.split("|")}
    present = {f"broker_sim.{info.name}" for info in pkgutil.iter_modules(broker_sim.__path__)} | {"kafka_wire"}
    assert layers == present - {"broker_sim.__main__"}


# --- architecture.md speaks of what is there ----------------------------------------------------------------------------


@cache
def homes() -> dict[str, list[object]]:
    """Modules by their last name and classes by their name."""
    found: dict[str, list[object]] = {}
    for info in pkgutil.walk_packages(broker_sim.__path__, "broker_sim."):
        if info.name.endswith("__main__") or ".demo" in info.name or ".apps." in info.name:
            continue
        module = importlib.import_module(info.name)
        found.setdefault(info.name.rpartition(".")[2], []).append(module)
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == info.name:
                found.setdefault(name, []).append(value)
    return found


def architecture() -> str:
    return (ROOT / "docs" / "architecture.md").read_text()


ANY = 59
"""Greatest number of parameters and fields of any type in the rooms that a request passes; it is lowered, and never raised."""


def test_what_a_request_passes_has_types() -> None:
    rooms = [ROOT / "broker_sim" / room for room in ("coordinator", "handlers", "network", "requests", "runtime")]
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in modules("broker_sim")
        if any(path.is_relative_to(room) for room in rooms)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None and is_any(node.annotation)
    ]
    assert len(found) <= ANY, found


def is_any(annotation: ast.expr) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def test_functions_that_the_architecture_names_exist() -> None:
    names = re.findall(r"`((?:\w+\.)?\w+)\.(\w+)\(\)`", architecture())
    assert len(names) > 20
    missing = [
        f"{home}.{name}()"
        for home, name in names
        if not any(hasattr(one, name) for one in homes().get(home.rpartition(".")[2], []))
    ]
    assert missing == []


@pytest.mark.parametrize("document", ["README.md", "docs/architecture.md", "CHANGELOG.md"])
def test_files_that_a_document_names_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    named = re.findall(r"`((?:broker_sim|protocol|tests|docs|benchmarks|examples)/[\w./]*)`", text)
    folder = (ROOT / document).parent
    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [link for link in re.findall(r"\]\((?!http)([^)#]+)", text) if not (folder / link).exists()]
    assert missing == []
