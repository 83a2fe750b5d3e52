"""A reproduction's scenario, played: in virtual time, with the logs kept, and what the tables say of them.

outcome, data = play_file(Path("incident/incident.yaml"), consumer)
findings_of(data, "billing")        # the kinds of findings about the group
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.progress import Steps
from broker_sim.reproduce.epoch_timeline import EPOCH_KINDS, kinds_of
from broker_sim.reproduce.evidence import Evidence, read
from broker_sim.reproduce.incident import SAME, seen
from broker_sim.scenario.model import Scenario
from broker_sim.scenario.model import read as read_scenario
from broker_sim.scenario.runner import ScenarioOptions, ScenarioOutcome
from broker_sim.scenario.virtual import play

TOUCHING_MS = 1000
"""Between two periods that are one: a client's next try."""

if TYPE_CHECKING:
    from broker_sim.scenario.apps.common import Live

__all__ = ["evidence_of", "findings_of", "play_file", "played", "stuck_findings"]


def play_file(path: Path, consumer: Live | None = None) -> tuple[ScenarioOutcome, Path]:
    """Play a scenario file; ``consumer``: in place of each of its clients. The logs are in the directory until the process ends."""
    data = Path(tempfile.mkdtemp(prefix="broker-sim-again-"))
    atexit.register(shutil.rmtree, data, ignore_errors=True)
    return played(read_scenario(path), data / "data", consumer), data / "data"


def played(scenario: Scenario, data: Path, consumer: Live | None = None, **more: Any) -> ScenarioOutcome:
    """Play it, with the logs in a new directory, and the journal among them."""
    return play(scenario, ScenarioOptions(data=data, journal=data / "journal", **more), consumer=consumer)


def evidence_of(data: Path, group: str | None, *, journal: bool = False) -> Evidence:
    """The evidence about a group (None: about all) in the log of a directory, with ``journal`` also that in the journal there."""
    return read(str(data), Steps(sys.stderr, quiet=True), group=group, journal=journal)


def stuck_findings(data: Path, group: str) -> list[Finding]:
    """Findings about periods in which the group's offsets partition was stuck: from the journal of the simulated log, as from lines of
    a real one. Appends that waited before the ISR shrank, and those refused then, are two periods of a journal, and one of lines."""
    evidence = read(str(data), Steps(sys.stderr, quiet=True), group=group, journal=True)
    home, merged = evidence.partition_of(group), list[Finding]()
    mine = [finding for finding in evidence.findings if finding.kind == "stuck" and finding.log_partition == home]
    for finding in sorted(mine, key=lambda finding: finding.at_ms or 0):
        before = merged[-1] if merged else None
        if before is not None and before.to_ms is not None and (finding.at_ms or 0) - before.to_ms <= TOUCHING_MS:
            merged[-1] = replace(before, to_ms=finding.to_ms, text=f"{before.text} {finding.text}")
        else:
            merged.append(finding)
    return merged


def findings_of(data: Path, group: str) -> set[str]:
    """The kinds of findings about a group, or a transactional id, with what each may be called where less is known."""
    of_all = evidence_of(data, None)
    kinds = {finding.kind for finding in of_all.findings if finding.kind == "transaction"}
    if group in of_all.groups():
        mine = evidence_of(data, group)
        if any(kind in EPOCH_KINDS for kind in kinds_of(mine, group)):
            mine = evidence_of(data, group, journal=True)
        kinds |= {finding.kind for finding in (*seen(mine, group), *stuck_findings(data, group))}
    return kinds | {kind for kind, others in SAME.items() if kinds & set(others)}
