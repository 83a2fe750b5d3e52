"""Options for running a scenario, and the result of a run.

ScenarioOptions(seed=7)
outcome.code                        # HELD, BROKEN, LATE
print(outcome.report())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker_sim.common.text import duration_text

__all__ = ["BROKEN", "HELD", "LATE", "WRONG", "ExpectationResult", "ScenarioOptions", "ScenarioOutcome"]

HELD, BROKEN, WRONG, LATE = 0, 1, 2, 3
"""Exit codes: all expectations held; one failed; the file is invalid; the condition of a step timed out."""
VERDICTS = {HELD: "held", BROKEN: "broken", LATE: "late"}

Event = dict[str, Any]


@dataclass(slots=True)
class ScenarioOptions:
    """Options for a run of a scenario. ``clients``: command lines in place of the apps, by kind, client or "*"; ``attach``: the user's
    own program; ``data``: a new directory in which the logs stay; ``progress`` is called with one line for each thing that happens."""

    clock: str | None = None
    as_version: str | None = None
    seed: int | None = None
    clients: Mapping[str, str] = field(default_factory=dict)
    attach: list[str] = field(default_factory=list)
    journal: Path | None = None
    data: Path | None = None
    progress: Callable[[str], object] = lambda line: None


@dataclass(slots=True)
class ExpectationResult:
    """One line of the verdict."""

    held: bool
    text: str
    where: str


@dataclass(slots=True)
class ScenarioOutcome:
    """The result of a run. ``group_states``: a line for each state of each group, in order; equal runs have equal lines. ``seconds``:
    those of the run's event loop, virtual ones in virtual time."""

    name: str
    code: int
    results: list[ExpectationResult]
    late: str
    seconds: float
    events: list[Event]
    groups: list[str]
    group_states: list[str]
    ended: dict[str, str] = field(default_factory=dict)
    """Clients that ended without a request, and the last lines of their stderr."""
    known: list[str] = field(default_factory=list)
    """Reasons why the verdict is known not to hold with these clients, from ``known`` of the file; empty where the verdict held."""
    journal_hash: str | None = None
    """SHA-256 of all events, and the next of all turns of the loop; None outside virtual time."""
    schedule_hash: str | None = None

    def report(self, *, width: int = 100, color: bool = False) -> str:
        """The verdict, and where it is broken what happened to the groups."""
        from broker_sim.explain import explain

        marks = [f"  {'held  ' if result.held else 'BROKEN'}  {result.text}" for result in self.results]
        lines = [*marks, *([f"  LATE    {self.late}"] if self.late else [])]
        lines += [f"  CLIENT  {name} {why}" for name, why in self.ended.items()]
        lines += [f"  KNOWN   {what}" for what in self.known]
        words = {HELD: "held", BROKEN: "broken", LATE: "a deadline passed"}[self.code]
        virtual = " of virtual time" if self.journal_hash is not None else ""
        lines.append(f"{self.name}: {words} after {duration_text(self.seconds * 1000)}{virtual}")
        if self.code:
            lines += [f"\n{group}:\n{explain(self.events, group, width=width)}" for group in self.groups]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The outcome as an object that can be written as JSON."""
        return {
            "scenario": self.name,
            "verdict": VERDICTS[self.code],
            "results": [{"held": result.held, "text": result.text, "where": result.where} for result in self.results],
            "late": self.late or None,
            "ended": self.ended,
            "known": self.known,
            "seconds": round(self.seconds, 3),
            "group_states": self.group_states,
            **({} if self.journal_hash is None else _hashes(self)),
        }


def _hashes(outcome: ScenarioOutcome) -> dict[str, Any]:
    return {"virtual": True, "journal_hash": outcome.journal_hash, "schedule_hash": outcome.schedule_hash}
