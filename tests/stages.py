"""Everything that is to be green before a change lands, stage by stage, and at the end one list of what was not.

    python -m tests.stages                     # all stages, as .ci/run has them
    python -m tests.stages clients brokers     # some; make test-foreign: clients, brokers, spark
    python -m tests.stages spark -- -k lag     # behind -- arguments for pytest, in the stages of real time

Each stage runs, whatever became of those before it. What fails in `check` or in `test` is red: nothing there depends on how busy
the machine is, and nothing is run twice. The other stages live in real time - real brokers, clients in processes of their own,
Spark -, and a machine that stalls can make any of them late. So a test that fails there is run again, alone, when the others of its
stage have ended, at most twice. One that then passes is *unsteady*: it is listed, and the run stays green. Red are a test that fails
three times, and more than UNSTEADY unsteady ones in all: so many are no chance.

The last stage, `seeds`, is a sweep of the simulation over seeds that no run has had: the date draws them. What it finds is listed
and is worth a look, but makes nothing red: whether a change may land doesn't depend on the day.

Retries by a plugin would come at once, in the midst of the load that made the test late.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.outcomes import FOLDER, Outcomes

ROOT = Path(__file__).resolve().parent.parent
AGAIN = 2
"""Greatest number of times that a failed test of real time is run again."""

UNSTEADY = 5
"""As many tests of real time may fail and then pass."""

NOTHING_TO_RUN = 5
"""pytest's exit code where no test was selected."""


@dataclass(frozen=True)
class Stage:
    """A command that runs tests or checks.

    ``again``: how one test of it is run again, before the test's id; None where nothing is run twice. ``is_listed``: what it finds is
    listed and makes nothing red.
    """

    name: str
    command: tuple[str, ...]
    again: tuple[str, ...] | None = None
    is_listed: bool = False


@dataclass
class Result:
    """Outcome of a stage."""

    stage: Stage
    code: int = 0
    seconds: float = 0.0
    passed: int = 0
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    unsteady: dict[str, int] = field(default_factory=dict)
    """Number of failures of each test that passed in the end."""

    @property
    def found(self) -> bool:
        """Whether anything in it failed."""
        return bool(self.failed) or self.code != 0

    @property
    def red(self) -> bool:
        return self.found and not self.stage.is_listed


def test_command(readme: str) -> str:
    """The README's own test command: what stands in the block behind its marker."""
    found = re.search(r"^<!-- the test command.*?^```sh$\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit("README.md: no test command behind its marker")
    return found[1].strip()


def stages(processes: int, arguments: Sequence[str] = ()) -> dict[str, Stage]:
    """Return all stages, in their order; ``processes``: number of processes that run tests of real time side by side."""

    def real_time(name: str, marks: str) -> Stage:
        durations = ("--durations=15",) if os.environ.get("CI") == "true" else ()
        pytest = (sys.executable, "-m", "pytest")
        side_by_side = ("-n", str(processes), "-m", marks)
        return Stage(name, (*pytest, *durations, *side_by_side, *arguments), again=(*pytest, *arguments))

    every = [
        Stage("check", ("make", "--no-print-directory", "--keep-going", "-j2", "--output-sync=target", "check")),
        Stage("test", ("bash", "-euo", "pipefail", "-c", test_command((ROOT / "README.md").read_text()))),
        real_time("clients", "(clients or real_time) and not (real_kafka or spark or browser)"),
        real_time("brokers", "real_kafka and not (recorded or spark or browser)"),
        real_time("spark", "spark or browser"),
        Stage("seeds", _sweep(datetime.date.today(), processes), is_listed=True),
    ]
    return {stage.name: stage for stage in every}


def _sweep(day: datetime.date, processes: int) -> tuple[str, ...]:
    """A sweep of a minute over seeds that begin with the day: 20261129000000."""
    first = int(f"{day:%Y%m%d}") * 1_000_000
    simulate = (sys.executable, "-m", "broker_sim", "simulate", "--quiet", "--jobs", str(processes))
    return (*simulate, "--seeds", f"{first}..{first + 1_000_000}", "--seconds", "10", "--for", "60s")


def run(stage: Stage, root: Path = ROOT, say: Callable[[str], None] = print) -> Result:
    """Runs it, and again what may be run again."""
    result = Result(stage)
    began_s = time.monotonic()
    result.code, outcomes = _run(stage.command, root)
    for each in outcomes:
        result.passed += each.passed
        result.skipped += each.skipped
        result.failed |= each.failed
    if stage.again is not None:
        if result.code == NOTHING_TO_RUN and os.environ.get("CI") != "true":  # -k names a test of another stage
            result.code = 0
        if result.code == 1 and 0 < len(result.failed) <= UNSTEADY:
            for test in list(result.failed):
                _again(result, stage.again, test, root, say)
            result.code = 1 if result.failed else 0
    result.seconds = time.monotonic() - began_s
    return result


def _again(result: Result, command: Sequence[str], test: str, root: Path, say: Callable[[str], None]) -> None:
    """Runs one test that has failed, alone, until it passes or has failed too often."""
    for failures in range(1, AGAIN + 1):
        say(f"\n==> again, alone: {test}")
        code, _ = _run((*command, test), root)
        if code == 0:
            del result.failed[test]
            result.passed += 1
            result.unsteady[test] = failures
            return


def _run(command: Sequence[str], root: Path) -> tuple[int, list[Outcomes]]:
    """A command's exit code, and what the runs of pytest in it came to."""
    with tempfile.TemporaryDirectory(prefix="outcomes-") as folder:
        code = subprocess.run(command, cwd=root, env={**os.environ, FOLDER: folder}, check=False).returncode
        return code, Outcomes.read(Path(folder))


def report(results: Sequence[Result]) -> tuple[list[str], bool]:
    """The lines at the end, and whether all is green."""
    unsteady = sum(len(result.unsteady) for result in results)
    lines = []
    for result in results:
        counts = f"{result.passed} passed, {len(result.failed)} failed, {result.skipped} skipped"
        word = "red" if result.red else "found" if result.found else "green"
        lines.append(f"{result.stage.name:8} {word:5} {result.seconds:5.0f} s  {counts}".rstrip())
        lines += [f"    FAILED {test}: {error}" for test, error in sorted(result.failed.items())]
        if result.found and not result.failed:
            lines.append(f"    FAILED exit code {result.code}: {shlex.join(result.stage.command)}")
        if result.stage.again is not None and len(result.failed) > UNSTEADY:
            lines.append(f"    none of them was run again: more than {UNSTEADY} at once are no chance")
        for test, failures in sorted(result.unsteady.items()):
            lines.append(f"    unsteady: {test} failed {'once' if failures == 1 else 'twice'}, then passed alone")
    if unsteady > UNSTEADY:
        lines.append(f"red: {unsteady} unsteady tests, more than {UNSTEADY} are no chance")
    return lines, unsteady <= UNSTEADY and not any(result.red for result in results)


def main() -> int:
    """The exit code: 0 where every stage is green."""
    own, more = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = stages(1)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"{', '.join(every)}; without one: all")
    parser.add_argument("-n", "--processes", type=int, default=min(os.cpu_count() or 2, 4), help="side by side")
    options = parser.parse_args(own)
    if unknown := [name for name in options.stages if name not in every]:
        parser.error(f"no stage {unknown[0]!r}: {', '.join(every)}")
    chosen = stages(options.processes, more)
    results = []
    for name in options.stages or every:
        print(f"\n==> {name}: {shlex.join(chosen[name].command)}", flush=True)
        results.append(run(chosen[name], say=lambda line: print(line, flush=True)))
    lines, green = report(results)
    print("\n==> " + ("green" if green else "RED"))
    print("\n".join(lines), flush=True)
    return 0 if green else 1


def _split(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words before and behind ``--``."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


if __name__ == "__main__":
    sys.exit(main())
