"""The score of a general sweep: which of the mutants it finds, within a budget of CPU time each.

    scored = score(mutants, budget_s=60.0)
    print(report(scored))

Rules:
1. The sweep is the same for all: workloads in turn, seeds 0, 1, 2 ..., plans that the seeds draw; after some of them a small world
   (`broker-sim explore`), somewhere in it, with all that may happen from there. Nothing is chosen for a mutant. What is found in it
   is whatever fails a run of it, as in any sweep.
2. A first pass runs it without a mutant, as far as the budget goes, and notes which statements each run comes to. It must be clean.
3. A run that does not come to the mutant's statement is, on virtual time, the run of the first pass: it is left out, and its time is
   charged all the same. So ``after_s`` is what an ordinary sweep would have needed.
4. A mutant lives in a process of its own. One that uses up its budget twice over, or takes the memory, has been found: it hangs. One
   with which broker_sim can't be imported is none, as nobody would start such a broker.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutation.loading import load_with, note_statements
from tests.mutation.mutants import ROOT, Mutant, mutated, short

__all__ = ["SECONDS", "Baseline", "Scored", "baseline", "child_rows", "look_for", "report", "score", "table"]

SECONDS = 10.0
"""Virtual seconds of a run with faults, as in long sweeps."""

_EVERY, _STEPS = 3, 400
"""Every so many runs one is a small world, of so many steps: a third of a sweep's time."""

_MEMORY = 4 << 30
_GRACE_S = 20.0
_WALL, _WALL_S = 30, 120.0
"""Real seconds for a CPU second, and beside: on virtual time nobody waits, so what is slow is the machine; CPU time ends what hangs."""


@dataclass(slots=True)
class Baseline:
    """The sweep without a mutant. ``cpu_s``: of each run; ``reached``: statement -> the runs that came to it."""

    cpu_s: list[float] = field(default_factory=list)
    reached: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    failures: list[tuple[int, str]] = field(default_factory=list)
    imported: frozenset[str] | None = None
    """Files that the brokers have; None for any."""

    def runs_for(self, mutant: Mutant) -> list[int]:
        """Return the runs that can tell the mutant from the original."""
        if not mutant.statement:
            return list(range(len(self.cpu_s)))
        return self.reached.get((mutant.file, mutant.statement), [])


@dataclass(frozen=True, slots=True)
class Scored:
    """``verdict``: "found", "survived", "not reached" (no run comes to it), "stillborn" or
    "no part" (no broker has that module yet). ``after_s``: CPU seconds of the sweep until
    then; ``runs``: that were run for it; ``by``: what failed."""

    mutant: Mutant
    verdict: str
    after_s: float = 0.0
    runs: int = 0
    by: str = ""


# --- the sweep -------------------------------------------------------------------------------------------------------------


def _runner() -> Callable[[int], tuple[str | None, float]]:
    """Does a run by its number: what failed, and CPU seconds."""
    from broker_sim.simulation.exhaustive.catalogue import drawn
    from broker_sim.simulation.sweeps.trial import WORKLOADS, Case, run

    names = tuple(WORKLOADS)

    def one(number: int) -> tuple[str | None, float]:
        turn, place = divmod(number, _EVERY)
        if place == _EVERY - 1:
            began_s = time.process_time()
            broken = drawn(turn, steps=_STEPS).broken
            return (None if broken is None else f"small world: {broken.rule}"), time.process_time() - began_s
        at = turn * (_EVERY - 1) + place
        outcome = run(Case(names[at % len(names)], at, SECONDS))
        return outcome.failure, outcome.cpu_s

    return one


def _imported() -> list[str]:
    """Files of broker_sim that are in use, below its folder."""
    paths = (Path(module.__file__) for module in list(sys.modules.values()) if getattr(module, "__file__", None))
    return sorted(path.relative_to(ROOT).as_posix() for path in paths if path.is_relative_to(ROOT))


def _run_all(numbers: Iterable[int], told: Callable[[dict[str, Any]], None]) -> None:
    """Tell of each run. Ends with the first that fails, if ``told`` raises."""
    run = _runner()
    for number in numbers:
        failure, cpu_s = run(number)
        told({"run": number, "failure": failure, "cpu_s": cpu_s})


def baseline(budget_s: float, files: Iterable[str], progress: Callable[[str], object] = lambda text: None) -> Baseline:
    """The first pass."""
    found = Baseline()
    wanted = sorted(set(files))

    def child(tell: Callable[[dict[str, Any]], None]) -> None:
        hits = note_statements(wanted)
        run = _runner()
        tell({"lines": hits.lines})
        hits.begin()
        spent_s, number = 0.0, 0
        while spent_s < budget_s:
            known = len(hits.lines)
            failure, cpu_s = run(number)
            if len(hits.lines) > known:  # a module was imported on the way
                tell({"lines": hits.lines})
            ran = hits.take()
            spent_s += cpu_s
            tell(
                {
                    "run": number,
                    "failure": failure,
                    "cpu_s": cpu_s,
                    "ran": [at for at, one in enumerate(ran) if one],
                }
            )
            number += 1
        tell({"imported": _imported()})

    lines: list[tuple[str, int]] = []
    for row in child_rows(child, _WALL * budget_s + _WALL_S):
        if "lines" in row:
            lines = [(file, line) for file, line in row["lines"]]
        elif "imported" in row:
            found.imported = frozenset(row["imported"])
        elif "run" in row:
            found.cpu_s.append(row["cpu_s"])
            for at in row["ran"]:
                found.reached.setdefault(lines[at], []).append(row["run"])
            if row["failure"] is not None:
                found.failures.append((row["run"], row["failure"]))
            progress(f"first pass: {sum(found.cpu_s):.0f} of {budget_s:.0f} s, {len(found.cpu_s)} runs")
        else:
            raise RuntimeError(f"the first pass ended: {row}")
    return found


def look_for(mutant: Mutant, base: Baseline) -> Scored:
    """Let the sweep look for it."""
    numbers = base.runs_for(mutant)
    if base.imported is not None and mutant.file not in base.imported:
        return Scored(mutant, "no part")
    if not numbers:
        return Scored(mutant, "not reached", sum(base.cpu_s))
    allowed_s = 2 * sum(base.cpu_s) + _GRACE_S

    def child(tell: Callable[[dict[str, Any]], None]) -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (round(allowed_s), round(allowed_s) + 5))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        load_with(mutant)
        try:
            _runner()
        except Exception as error:
            tell({"stillborn": repr(error)})
            return
        tell({"born": True})
        _run_all(numbers, lambda row: _end_at_failure(tell, row))

    runs, born = 0, False
    for row in child_rows(child, _WALL * allowed_s + _WALL_S):
        if "stillborn" in row:
            return Scored(mutant, "stillborn", by=row["stillborn"])
        born = born or "born" in row
        if "run" in row:
            runs += 1
            if row["failure"] is not None:
                return Scored(mutant, "found", sum(base.cpu_s[: row["run"] + 1]), runs, row["failure"])
        elif "died" in row:
            if not born:
                return Scored(mutant, "stillborn", by=row["died"])
            at = numbers[min(runs, len(numbers) - 1)]
            return Scored(mutant, "found", sum(base.cpu_s[: at + 1]), runs + 1, f"the process died: {row['died']}")
    return Scored(mutant, "survived", sum(base.cpu_s), runs)


class _Found(Exception):
    """The first failure is enough."""


def _end_at_failure(tell: Callable[[dict[str, Any]], None], row: dict[str, Any]) -> None:
    tell(row)
    if row["failure"] is not None:
        raise _Found


def child_rows(work: Callable[[Callable[[dict[str, Any]], None]], None], wall_s: float) -> Iterator[dict[str, Any]]:
    """Run ``work`` in a forked process and yield the rows that it reports; ``{"died": why}`` if it does not end by itself."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            with os.fdopen(writing, "w") as out:

                def tell(row: dict[str, Any]) -> None:
                    out.write(json.dumps(row) + "\n")
                    out.flush()

                try:
                    work(tell)
                    code = 0
                except _Found:
                    code = 0
                except MemoryError:
                    tell({"died": "out of memory"})
                except BaseException as error:
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    tell({"died": f"{error!r} in {where.filename.rpartition('/')[2]}:{where.name}"})
        finally:
            os._exit(code)
    os.close(writing)
    ended = False
    killed: list[bool] = []

    def too_late(*_: object) -> None:
        killed.append(True)
        os.kill(child, signal.SIGKILL)

    previous = signal.signal(signal.SIGALRM, too_late)
    try:
        signal.setitimer(signal.ITIMER_REAL, wall_s)
        with os.fdopen(reading) as rows:
            for line in rows:
                row = json.loads(line)
                ended = ended or "died" in row
                yield row
        _, status = os.waitpid(child, 0)
        child = 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        if child:  # whoever asks has heard enough
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and not ended:
        yield {"died": f"nothing for {wall_s:.0f} s" if killed else signal.Signals(os.WTERMSIG(status)).name}


def score(
    mutants: Sequence[Mutant], base: Baseline, progress: Callable[[Scored], object] = lambda one: None
) -> list[Scored]:
    """Look for each of the mutants, one after the other."""
    found = []
    for mutant in mutants:
        one = look_for(mutant, base)
        found.append(one)
        progress(one)
    return found


# --- what came of it ---------------------------------------------------------------------------------------------------------


def table(scored: Sequence[Scored]) -> list[tuple[str, int, int, int, int, float]]:
    """By room and for all: name, mutants, found, survived, not reached, share found. The stillborn, and what is no part of a
    broker, are no mutants."""
    rows = []
    rooms = sorted({one.mutant.room for one in scored})
    for room in (*rooms, "all"):
        counts = Counter(one.verdict for one in scored if room in (one.mutant.room, "all"))
        count = counts["found"] + counts["survived"] + counts["not reached"]
        rows.append(
            (room, count, counts["found"], counts["survived"], counts["not reached"], counts["found"] / (count or 1))
        )
    return rows


def report(scored: Sequence[Scored], base: Baseline) -> str:
    """The score, and who survived."""
    lines = [
        f"{len(base.cpu_s)} runs of {SECONDS:g} s, {sum(base.cpu_s):.0f} CPU s for each mutant; equivalent mutants are counted, too"
    ]
    lines.append(f"{'room':14} {'mutants':>7} {'found':>6} {'survived':>9} {'not reached':>12} {'score':>6}")
    for room, count, found, survived, unreached, share in table(scored):
        lines.append(f"{room:14} {count:7} {found:6} {survived:9} {unreached:12} {share:6.0%}")
    lines.append("\nfound by")
    by = Counter(one.by.partition(" in ")[0] for one in scored if one.verdict == "found")
    lines += [f"  {count:4} {what}" for what, count in by.most_common()]
    for verdict in ("survived", "not reached"):
        lines.append(f"\n{verdict}")
        lines += [f"  {one.mutant.text}" for one in scored if one.verdict == verdict]
    return "\n".join(lines)


def told(one: Scored) -> str:
    """A line as it comes."""
    after = "" if one.verdict not in ("found", "survived") else f" after {one.after_s:.1f} s, {one.runs} runs"
    change = f"{short(one.mutant.before)}  ->  {short(mutated(one.mutant)[1])}"
    return (
        f"{one.verdict:11} {one.mutant.name} {one.mutant.where}: {one.mutant.kind}: {change}{after} {one.by}".rstrip()
    )


if __name__ == "__main__":
    sys.exit("python -m tests.mutation")
