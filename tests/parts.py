"""The tests of `make test` in parts, each with the source that it is about: a change runs the parts that it concerns.

    python -m tests.parts broker                  # one part; make test-part PART=broker
    python -m tests.parts --since main            # the parts of what has changed since a revision of git, or is not committed
    python -m tests.parts --since main --list     # their names

`broker` is what a client meets: frames, handlers, coordinators, logs. `interfaces` are the ways to drive a cluster and to read what
happened. A part's source is what a change must be in to run it, not all that its tests load: simulations load every broker module, and
find what the broker's own tests don't; `make test` and `.ci/run`, which judge a change, run everything. A changed file that belongs to
no part (pyproject.toml, tests/support) runs all of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOREIGN = "real_kafka or clients or real_time or spark or browser"
"""Marks of tests that `make test` leaves to `make test-foreign`."""


@dataclass(frozen=True)
class Part:
    """``tests``: folders and files below tests/; ``source``: paths from the root, of which a change runs these tests."""

    tests: tuple[str, ...]
    source: tuple[str, ...]


PARTS = {
    "broker": Part(
        (
            *("authentication", "conformance", "coordinator", "data_plane", "faults", "protocol", "runtime", "server"),
            *("shares", "storage", "stuck", "transactions"),
        ),
        (
            *("protocol/", "broker_sim/authentication/", "broker_sim/common/", "broker_sim/config/"),
            *("broker_sim/coordinator/", "broker_sim/faults/", "broker_sim/handlers/", "broker_sim/metadata/"),
            *("broker_sim/network/", "broker_sim/requests/", "broker_sim/runtime/", "broker_sim/storage/"),
        ),
    ),
    "interfaces": Part(
        (
            *("clock", "cluster", "control", "drawing", "durability", "explain", "fields", "handles", "importing"),
            *("journal", "metrics", "scenarios", "test_demo.py", "test_hangs.py", "test_leftovers.py"),
            *("test_migration.py", "test_packaging.py", "test_recipes.py"),
        ),
        (
            *("broker_sim/__init__.py", "broker_sim/__main__.py", "broker_sim/api/", "broker_sim/cli/"),
            *("broker_sim/control/", "broker_sim/demo/", "broker_sim/drawing/", "broker_sim/explain/"),
            *("broker_sim/fields/", "broker_sim/journal/", "broker_sim/metrics/", "broker_sim/migration/"),
            *("broker_sim/scenario/", "broker_sim/sync.py", "broker_sim/sync.pyi", "broker_sim/testing/"),
            *("examples/", "image/", "packages/", "scenarios/"),
        ),
    ),
    "simulation": Part(
        (
            "differential",
            "mutation",
            "simulation",
            "test_benchmarks.py",
            "test_orders.py",
            "test_parts.py",
            "test_stages.py",
        ),
        ("benchmarks/", "broker_sim/simulation/", "broker_sim/common/", "broker_sim/storage/files.py"),
    ),
    "pipeline": Part(
        ("incidents", "pipeline", "reproduce"),
        (
            *("broker_sim/explain/", "broker_sim/journal/", "broker_sim/pipeline/", "broker_sim/reproduce/"),
            *("protocol/kafka_wire/offsets_log.py", "protocol/kafka_wire/transaction_log.py", "scenarios/"),
        ),
    ),
}
ELSEWHERE = ("beside", "clients", "from_go", "from_java", "from_node", "from_spring")
"""Folders whose tests are all of `make test-foreign`."""
CHECKED = ("test_docs.py", "test_readme.py", "test_tidy.py")
"""Test modules that `make check` runs."""
_CHECKED = ("docs/", ".ci/", ".md", "mkdocs.yml")
"""Beginnings and ends of paths that `make check` alone is about."""


def concerned(changed: Iterable[str]) -> list[str]:
    """The names of the parts that changed files belong to, in the order of `PARTS`."""
    found: set[str] = set()
    for path in changed:
        folder = path.removeprefix("tests/") if path.startswith("tests/") else None
        if folder is not None and folder.partition("/")[0] in (*ELSEWHERE, *CHECKED):
            continue
        if folder is None and (path.startswith(_CHECKED) or path.endswith(_CHECKED)):
            continue
        parts = {
            name
            for name, part in PARTS.items()
            if (path.startswith(part.source) if folder is None else folder.partition("/")[0] in part.tests)
        }
        found |= parts or set(PARTS)
    return [name for name in PARTS if name in found]


def changed_since(revision: str, root: Path = ROOT) -> list[str]:
    """Files that differ from a revision, and new ones that git does not ignore. Raises CalledProcessError for an unknown revision."""

    def lines(*words: str) -> list[str]:
        return subprocess.run(
            ("git", *words), cwd=root, stdout=subprocess.PIPE, text=True, check=True
        ).stdout.splitlines()

    return sorted({*lines("diff", "--name-only", revision), *lines("ls-files", "--others", "--exclude-standard")})


def command(names: Iterable[str], processes: int, arguments: Iterable[str]) -> list[str]:
    """Return the command with which pytest runs these parts."""
    paths = [f"tests/{path}" for name in names for path in PARTS[name].tests]
    return [sys.executable, "-m", "pytest", "-n", str(processes), "-m", f"not ({FOREIGN})", *arguments, *paths]


def main() -> int:
    """pytest's exit code; 0 where no part is concerned."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m tests.parts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--since", metavar="REVISION", help="the parts that changes since this revision concern")
    parser.add_argument("--list", action="store_true", help="print the names of the parts instead")
    parser.add_argument("-n", "--processes", type=int, default=(os.cpu_count() or 2) + 1, help="side by side")
    own, more = parser.parse_known_args()
    names = [*own.parts, *(concerned(changed_since(own.since)) if own.since else ())]
    if not names and not own.since:
        parser.error(f"name a part ({', '.join(PARTS)}) or --since REVISION")
    if own.list or not names:
        print(" ".join(names) or f"nothing that make test runs has changed since {own.since}")
        return 0
    return subprocess.run(command(dict.fromkeys(names), own.processes, more), cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
