"""A case of a sweep, stopped at a moment and looked at: a prompt that reads commands, from a terminal or from a file.

    Shell(case, until_s=12.3, read=sys.stdin.readline, write=sys.stdout.write).run()

Rules:
1. The world is stopped between two points in time: everything due up to that time is done, and nothing later has begun.
2. Forth is letting it run on; back is running it again from its beginning, which virtual time makes the same run.
3. Looking changes nothing. An expression may: then what comes is no longer the case, until the next step back.
4. Where it fails, and where it ends, it can be inspected once more before it is closed.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from broker_sim.common.text import UsageError, duration_ms
from broker_sim.explain import explain
from broker_sim.explain.terminal import timeline
from broker_sim.journal import groups_in
from broker_sim.simulation.cluster import SimCluster
from broker_sim.simulation.reports.moment import groups, hosts, logs, under_way, value_at
from broker_sim.simulation.reports.parting import event_text, names_of
from broker_sim.simulation.reports.records import in_question
from broker_sim.simulation.sweeps.trial import Case, CaseOutcome, run
from broker_sim.simulation.world import EPOCH_MS, Simulation

__all__ = ["HELP", "Shell"]

HELP = """\
until TIME     continue to that virtual time since the start (12.5, 13s, 2m); for an earlier time the run is repeated
step [N]       continue until N more events are in the journal (1)
back [TIME]    repeat the run up to TIME before now (1s)
on             continue until the run fails or ends
hosts [HOST]   hosts and the lines at which their programs wait; all tasks of one
flight         requests without a response
groups         the groups, from the state of their coordinators
explain GROUP, timeline GROUP
               the history of a group, in words or as a timeline
logs           partitions: leader, end offset, fault states
records        suspicious records: lost, skipped, delivered twice
events [N]     the last events of the journal (10)
faults         the fault plan: past and future faults
EXPRESSION     a Python expression with the names sim and kafka: kafka.group("billing").members
quit           end, as does the end of the input
"""

_WIDTH = 100


class _Again(BaseException):
    """The world is left: it is to be run again up to a moment."""

    def __init__(self, until_s: float) -> None:
        super().__init__(until_s)
        self.until_s = until_s


class _Left(BaseException):
    """Somebody has seen enough of a world that goes on."""


class Shell:
    """The prompt of a simulation, see the module. ``read``: returns the next line with its newline, "" at the end of the input;
    ``until_s``: virtual seconds at which it stops first, inf: at the failure or the end."""

    def __init__(
        self,
        case: Case,
        until_s: float = math.inf,
        *,
        read: Callable[[], str],
        write: Callable[[str], object],
        prompt: bool = False,
    ) -> None:
        self.case = replace(case, journal=True)
        self._until_s, self._read, self._write, self._prompt = until_s, read, write, prompt
        self._now_s = 0.0
        """The position in virtual time; it may be later than the last event."""
        self._more = 0
        """Events that the journal is to have; 0 for any."""
        self._sim: Simulation
        self.over = False
        """Whether it has failed or ended: there is nothing to go on to."""

    def run(self) -> CaseOutcome | None:
        """Until the input ends; returns what came of the last run, None where it was left midway."""
        while True:
            try:
                return run(self.case, visitor=self)
            except _Again as again:
                self._until_s, self._more = again.until_s, 0
            except _Left:
                return None

    # --- called by the run

    def begins(self, sim: Simulation) -> None:
        """A world, before anything is in it."""
        self._sim, self.over = sim, False
        self._aim()

    def ends(self, failure: str | None, text: str) -> None:
        """Report the end of the run, failed or clean, and read commands; the world still exists."""
        self.over, self._now_s = True, self._sim.elapsed_s
        self._say(
            f"{self._sim.elapsed_s:.3f} s: " + (f"it fails: {failure}" if failure is not None else "it ends, clean")
        )
        if failure is not None:
            self._say("\n".join(text.splitlines()[:20]))
        self._talk()

    # --- position

    @property
    def kafka(self) -> SimCluster:
        return self._sim.clusters[0]

    def _events(self) -> list[dict[str, Any]]:
        return list(self.kafka.journal.events) if self._sim.clusters and self.kafka.observed else []

    def _aim(self) -> None:
        sim = self._sim
        at = -math.inf if self._more else sim.loop.time() - sim.elapsed_s + self._until_s
        sim.loop.pause(at, self._paused)

    def _paused(self) -> None:
        if not self._sim.clusters or (self._more and len(self._events()) < self._more):
            self._aim()
            return
        now_s = self._sim.elapsed_s if self._more else max(self._until_s, self._sim.elapsed_s)
        self._now_s = now_s
        self._say(f"{now_s:.3f} s: the last of {len(self._events())} events was")
        self._last_events(1)
        self._until_s, self._more = now_s, 0
        self._talk()
        self._aim()

    def _talk(self) -> None:
        while True:
            if self._prompt:
                self._write(f"{self._now_s:.3f} s> ")
            line = self._read()
            if (not line or line.strip() == "quit") and self.over:
                return
            if not line:
                raise _Left
            if line.strip():
                try:
                    if self._do(line.strip()):
                        return
                except UsageError as error:
                    self._say(str(error))

    def _do(self, line: str) -> bool:
        """Execute a command; returns whether the run continues, which ends the prompt."""
        name, _, rest = line.partition(" ")
        command = getattr(self, f"_do_{name}", None)
        if command is None:
            self._evaluate(line)
            return False
        return bool(command(rest.strip()))

    def _say(self, text: str) -> None:
        self._write(text.rstrip("\n") + "\n")

    def _lines(self, lines: list[str]) -> None:
        self._say("\n".join(lines) if lines else "(nothing)")

    # --- commands

    def _do_until(self, rest: str) -> bool:
        until_s = _seconds(rest)
        if until_s < self._now_s:
            raise _Again(until_s)
        return self._go(until_s, 0)

    def _do_step(self, rest: str) -> bool:
        return self._go(math.inf, len(self._events()) + _count(rest, 1))

    def _do_on(self, rest: str) -> bool:
        return self._go(math.inf, 0)

    def _go(self, until_s: float, more: int) -> bool:
        if self.over:
            raise UsageError("the run has ended; use back, or until with an earlier time")
        self._until_s, self._more = until_s, more
        return True

    def _do_back(self, rest: str) -> bool:
        raise _Again(max(0.0, self._now_s - (_seconds(rest) if rest else 1.0)))

    def _do_hosts(self, rest: str) -> None:
        self._lines(hosts(self._sim, rest or None))

    def _do_flight(self, rest: str) -> None:
        self._lines(under_way(self._events(), self._sim.now_ms))

    def _do_groups(self, rest: str) -> None:
        self._lines(groups(self.kafka, self._events()))

    def _do_explain(self, rest: str) -> None:
        self._say(explain(self._events(), self._group(rest)))

    def _do_timeline(self, rest: str) -> None:
        self._say(timeline(self._events(), self._group(rest), _WIDTH))

    def _group(self, name: str) -> str:
        known = sorted(groups_in(self._events()))
        if name not in known:
            raise UsageError(f"the group is missing; expected one of {', '.join(known) or '(none exists yet)'}")
        return name

    def _do_logs(self, rest: str) -> None:
        self._lines(logs(self.kafka))

    def _do_records(self, rest: str) -> None:
        self._lines(in_question(self._events(), EPOCH_MS, lambda log, offset: value_at(self.kafka, log, offset)))

    def _do_events(self, rest: str) -> None:
        self._last_events(_count(rest, 10))

    def _last_events(self, count: int) -> None:
        events = self._events()
        self._lines([f"  {event_text(event, EPOCH_MS, names_of(events))}" for event in events[-count:]])

    def _do_faults(self, rest: str) -> None:
        now_s = self._now_s
        self._lines([f"{'came' if fault.t_s <= now_s else 'to come'}: {fault.text}" for fault in self.case.plan or ()])

    def _do_help(self, rest: str) -> None:
        self._say(HELP)

    def _do_quit(self, rest: str) -> bool:
        raise _Left

    def _evaluate(self, line: str) -> None:
        """Evaluate a line as Python code: the prompt trusts its user, as Python's own does."""
        try:
            code = compile(ast.parse(line, mode="eval"), "<shell>", "eval")
        except SyntaxError:
            raise UsageError(
                f"{line.split()[0]!r} is not a command or an expression; help lists the commands"
            ) from None
        try:
            self._say(repr(eval(code, {"sim": self._sim, "kafka": self.kafka})))
        except Exception as error:
            self._say(f"{type(error).__name__}: {error}")


def _seconds(text: str) -> float:
    if not text:
        raise UsageError("the time is missing (expected e.g. until 12.5s)")
    return duration_ms(float(text) if _is_number(text) else text, "the time") / 1000


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _count(text: str, usual: int) -> int:
    if text and not text.isdigit():
        raise UsageError(f"{text!r} is not a number")
    return int(text) if text else usual
