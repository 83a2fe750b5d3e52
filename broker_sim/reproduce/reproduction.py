"""A reproduction from beginning to end: a directory is read, an incident chosen, its scenario written, played, and compared."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from broker_sim.common.text import UsageError, clock, date, visible
from broker_sim.config.settings import parse_release
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.progress import Steps
from broker_sim.reproduce import page
from broker_sim.reproduce.again import evidence_of, played, stuck_findings
from broker_sim.reproduce.evidence import Evidence, read
from broker_sim.reproduce.generated_scenario import (
    BEGIN,
    GROUPS,
    PYTEST,
    SCENARIO,
    GeneratedScenario,
    scenario_of,
    test_of,
)
from broker_sim.reproduce.group_timeline import Act, GroupTimeline, read_timeline
from broker_sim.reproduce.incident import (
    NEAR_MS,
    PARTITIONED,
    NotReproducible,
    SelectedIncident,
    choose,
    incident,
    recurs,
    seen,
)
from broker_sim.reproduce.similarity import Similarity, compare
from broker_sim.scenario.model import read as read_scenario
from broker_sim.scenario.runner import ScenarioOutcome

__all__ = ["ReproduceOptions", "Reproduction", "reproduce"]

VERDICT, PAGE = "verdict.txt", "page.html"
MEMBERS = ("start", "leave", "crash", "hang")
"""Kinds of acts of members."""
MADE = (SCENARIO, GROUPS, PYTEST, VERDICT, PAGE, "data")
CACHE = "__pycache__"
"""pytest writes it next to the test."""


@dataclass(frozen=True)
class ReproduceOptions:
    """What a user may say."""

    input: str
    out: str
    group: str | None = None
    at_ms: int | None = None
    until_ms: int | None = None
    as_version: str | None = None
    broker_logs: tuple[str, ...] = ()
    client_logs: tuple[str, ...] = ()


@dataclass
class Reproduction:
    """``again``: the finding in the simulated log, None where it is not there."""

    incident: SelectedIncident
    again: Finding | None
    outcome: ScenarioOutcome
    similarity: Similarity
    unknown: list[str]

    @property
    def happened(self) -> bool:
        return self.again is not None and self.outcome.code == 0

    def verdict(self) -> list[str]:
        """Lines: the finding in the log, in the simulation, and whether it was reproduced. Control characters in names are spelled
        out."""
        finding = self.incident.finding
        lines = [f"In the log: {_dated(finding)}"]
        if self.again is not None:
            lines.append(f"Simulated: {self.again.text}")
        held = (
            "and all expectations of the scenario held"
            if self.outcome.code == 0
            else "but an expectation of the scenario failed"
        )
        lines.append(
            f"The finding occurs again, {held}."
            if self.again is not None
            else "The finding does not occur again: the simulated log has no such finding."
        )
        return [visible(line) for line in lines]


def _check_out(out: Path) -> None:
    """Raise UsageError if ``out`` is a file, or has entries that an earlier reproduction, or a run of its test, did not write."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: is not a directory")
    others = sorted(entry.name for entry in out.iterdir() if entry.name not in (*MADE, CACHE)) if out.exists() else []
    if others:
        raise UsageError(
            f"--out {out}: contains {others[0]}, which is not the output of a reproduction; nothing was changed. "
            "Choose another directory"
        )


def _dated(finding: Finding) -> str:
    at_ms = finding.at_ms
    if at_ms is None:
        return finding.text
    return f"{date(at_ms)} {clock(at_ms)}  {finding.text.replace(chr(0xA0), ' ')}"


def reproduce(options: ReproduceOptions, steps: Steps) -> Reproduction:
    """Do it, and write the files. Raises UsageError; NotReproducible with the reason."""
    out = Path(options.out)
    _check_out(out)
    with steps.step("reading the log") as step:
        whole = _read(options, steps)
        group, of_all = choose(whole, options.group, options.at_ms)
        mine = _read(options, steps, group)
        chosen = incident(mine, group, of_all, options.at_ms)
        step.done(f"{visible(group)}, {chosen.finding.kind}")
    release, why = (options.as_version, "as it was asked for") if options.as_version else mine.release()
    timeline = read_timeline(mine, group, chosen.from_ms, chosen.to_ms)
    if chosen.finding.kind == "stuck":
        _stuck(chosen, timeline, mine, release)
    if not timeline.members and not timeline.acts:
        raise NotReproducible(f"{group}: compaction has removed its records of that time")
    if chosen.finding.kind in PARTITIONED and not timeline.members:
        raise NotReproducible(
            f"{group}: its members at that time are not in the log, so no client that tries to commit can be simulated"
        )
    generated = scenario_of(chosen, timeline, release)
    generated.changed.append(f"the brokers behave as Kafka {release}: {why}")
    _write(out, chosen, generated)
    try:
        scenario = read_scenario(out / SCENARIO)
    except UsageError as error:
        raise NotReproducible(f"{group}: no scenario has its names: {error}") from None
    with steps.step("playing it") as step:
        data = out / "data"
        _emptied(data)
        outcome = played(scenario, data)
        step.done(f"{outcome.seconds:.0f} s of virtual time")
    again = evidence_of(data, group)
    findings = stuck_findings(data, group) if chosen.finding.kind == "stuck" else seen(again, group)
    begin = next(
        (event["ts_ms"] for event in outcome.events if event["event"] == "mark" and event["text"] == BEGIN), None
    )
    if begin is None:
        raise NotReproducible(f"{group}: its members did not form the group: {outcome.late}")
    shifted = read_timeline(again, group, begin, begin + timeline.to_ms - timeline.from_ms)
    if chosen.finding.kind == "stuck":
        _add_stuck_act(findings, shifted)
    similarity = compare(timeline, shifted)
    again_found = recurs(chosen.finding, findings, begin - timeline.from_ms)
    made = Reproduction(chosen, again_found, outcome, similarity, _unknown(timeline, generated))
    _write_report(out, made, timeline, generated)
    return made


def _read(options: ReproduceOptions, steps: Steps, group: str | None = None) -> Evidence:
    return read(
        options.input,
        steps_of(steps),
        until_ms=options.until_ms,
        group=group,
        broker_logs=options.broker_logs,
        client_logs=options.client_logs,
    )


def steps_of(steps: Steps) -> Steps:
    return Steps(steps.stream, quiet=True)


def _stuck(chosen: SelectedIncident, timeline: GroupTimeline, mine: Evidence, release: str) -> None:
    """What happened to the group's offsets partition. What its members did meanwhile came of it, and is left to come of it again."""
    finding = chosen.finding
    assert finding.at_ms is not None
    to_ms = finding.to_ms if finding.to_ms is not None else chosen.to_ms
    at_ms = max(finding.at_ms, timeline.from_ms)
    jam = Act(at_ms, "jam", None, max(to_ms - at_ms, 1000), (), _shown(finding), finding.certainty == "certain")
    lines = mine.lines_of(finding.log_partition) if finding.log_partition is not None else []
    within = [row for row in lines if finding.at_ms - NEAR_MS <= row["ts_ms"] < to_ms - 1000]
    shrinks = [row["ts_ms"] for row in within if row["what"] == "ISR shrinks"]
    refused = [row["ts_ms"] for row in within if row["what"] == "refused"]
    # of what the controller does to the ISR 3.x has no line of its own, but a new epoch
    epochs = [act.at_ms for act in timeline.acts if act.kind == "epoch" and at_ms <= act.at_ms < to_ms - 1000]
    if refused or (shrinks and parse_release(release) >= (4, 0)):
        jam = replace(jam, refused_ms=min([*shrinks, *refused, *epochs]))
    kept = list(_not_of_it(timeline, jam))
    if len(kept) < len(timeline.acts):
        timeline.notes.append(
            "What members did while nothing was committed (expired sessions, missing commits, a new epoch) is not played: it was a"
            " consequence."
        )
    timeline.acts = sorted([*kept, jam], key=lambda act: act.at_ms)


def _add_stuck_act(findings: list[Finding], shifted: GroupTimeline) -> None:
    """The same of the simulated group's life."""
    for finding in findings:
        if finding.at_ms is None or not shifted.from_ms <= finding.at_ms <= shifted.to_ms:
            continue
        lasted_ms = (shifted.to_ms if finding.to_ms is None else finding.to_ms) - finding.at_ms
        jam = Act(finding.at_ms, "jam", None, lasted_ms, why="the journal's appends")
        shifted.acts = sorted([*_not_of_it(shifted, jam), jam], key=lambda act: act.at_ms)


def _shown(finding: Finding) -> str:
    if finding.lines:
        return f"no append was committed, by {finding.lines[0]}" + (
            f" and {len(finding.lines) - 1} more" if len(finding.lines) > 1 else ""
        )
    return "no append was committed, by how its groups' commits came"


def _not_of_it(timeline: GroupTimeline, jam: Act) -> Iterator[Act]:
    """The acts but for those of members that were back behind it, and for new epochs of the same leader."""
    until = jam.at_ms + jam.for_ms + NEAR_MS
    mine = [
        act
        for act in timeline.acts
        if jam.at_ms - 1000 <= act.at_ms + (act.for_ms if act.kind == "hang" else 0) and act.at_ms <= until
    ]
    runs = {member.name: member.first for member in timeline.members}
    for act in timeline.acts:
        if act not in mine and act.at_ms < jam.at_ms and act.kind in MEMBERS:
            runs[str(act.who)] = act.kind not in ("leave", "crash")
    last = {str(act.who): act for act in mine if act.kind in MEMBERS}
    for act in timeline.acts:
        if act not in mine or act.kind not in (*MEMBERS, "epoch"):
            yield act
            continue
        who = str(act.who)
        if act.kind in MEMBERS and act is last[who] and (act.kind in ("start", "hang")) != runs[who]:
            yield act


def _unknown(timeline: GroupTimeline, generated: GeneratedScenario) -> list[str]:
    unsure = [act for act in timeline.acts if not act.is_certain]
    unknowns = [f"{act.kind} {act.who or ''}".strip() + f": {act.why}; other causes are possible." for act in unsure]
    unknowns += timeline.notes
    unknowns += [f"{change[0].upper()}{change[1:]}." for change in dict.fromkeys(generated.changed)]
    return [
        *unknowns,
        "The log does not contain heartbeats, or how long a member processes a record: clients send a heartbeat every 3 s here.",
        "The clients are aiokafka's; another library rejoins, commits and leaves at other times.",
    ]


def _emptied(data: Path) -> None:
    shutil.rmtree(data, ignore_errors=True)


def _write(out: Path, chosen: SelectedIncident, generated: GeneratedScenario) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / SCENARIO).write_text(generated.scenario(_dated(chosen.finding)), encoding="utf-8")
        (out / GROUPS).write_text(generated.begin(), encoding="utf-8")
        (out / PYTEST).write_text(test_of(chosen), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror or error}") from None


def _write_report(out: Path, made: Reproduction, timeline: GroupTimeline, generated: GeneratedScenario) -> None:
    lines = [*made.verdict(), made.similarity.text()]
    (out / VERDICT).write_text("\n".join(lines) + "\n\n" + made.outcome.report() + "\n", encoding="utf-8")
    title = f"{made.incident.group}: {made.incident.finding.kind}"
    (out / PAGE).write_text(page.html(title, made.verdict(), made.similarity, timeline, made.unknown), encoding="utf-8")
