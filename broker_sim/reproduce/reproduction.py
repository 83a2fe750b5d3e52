"""A reproduction from beginning to end: a directory is read, an incident chosen, its scenario written, played, and compared."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from broker_sim.common.text import UsageError, clock, date, visible
from broker_sim.config.settings import parse_release
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.progress import Steps
from broker_sim.reproduce import page
from broker_sim.reproduce.again import evidence_of, played, stuck_findings
from broker_sim.reproduce.causes import Cause, cause_of
from broker_sim.reproduce.epoch_timeline import EPOCH_KINDS
from broker_sim.reproduce.evidence import Evidence, Row, read
from broker_sim.reproduce.generated_scenario import (
    BEGIN_MARK,
    GROUPS,
    PYTEST,
    SCENARIO,
    GeneratedScenario,
    scenario_of,
    test_of,
    without_failed,
)
from broker_sim.reproduce.group_timeline import Act, GroupTimeline, log_text
from broker_sim.reproduce.incident import (
    NEAR_MS,
    OF_COMMITS,
    PARTITIONED,
    Recurrence,
    SelectedIncident,
    choose,
    incident,
    recurs,
    seen,
)
from broker_sim.reproduce.share_acts import MOST_RECORDS, RESET
from broker_sim.reproduce.similarity import ENOUGH, TAIL_MS, Similarity, compare
from broker_sim.reproduce.timelines import NotReproducible, timeline_of
from broker_sim.reproduce.transaction_timeline import (
    HUNG,
    LATE_RECORDS,
    cause_of_transaction,
    read_transaction,
    row_of,
    unplayable,
    with_clients,
)
from broker_sim.scenario.model import read as read_scenario
from broker_sim.scenario.runner import ScenarioOutcome

__all__ = ["ReproduceOptions", "Reproduction", "StepFailed", "reproduce"]

VERDICT, PAGE = "verdict.txt", "page.html"
MEMBERS = ("start", "leave", "crash", "hang")
"""Kinds of acts of members."""
MADE = (SCENARIO, GROUPS, PYTEST, VERDICT, PAGE, "data")
CACHE = "__pycache__"
"""pytest writes it next to the test."""


@dataclass(frozen=True)
class ReproduceOptions:
    """Options of `broker-sim reproduce`, as a user sets them."""

    input: str
    out: str
    group: str | None = None
    at_ms: int | None = None
    until_ms: int | None = None
    as_version: str | None = None
    broker_logs: tuple[str, ...] = ()
    client_logs: tuple[str, ...] = ()


class StepFailed(UsageError):
    """A step of the scenario could not be taken: something else has happened in the simulation."""


@dataclass
class Reproduction:
    """``recurrence``: the finding in the simulated log, or what is there instead; ``dropped``: expectations that did not hold, and
    are not in the scenario."""

    incident: SelectedIncident
    recurrence: Recurrence
    outcome: ScenarioOutcome
    similarity: Similarity
    unknown: list[str]
    dropped: list[str]
    late: str = ""

    @property
    def again(self) -> Finding | None:
        return self.recurrence.again

    @property
    def happened(self) -> bool:
        """Whether the same finding, of the same group, with the same cause, is in a simulated history that is similar enough."""
        if (
            self.incident.finding.kind in PARTITIONED
        ):  # its time and duration were compared; what the group's members did is an effect
            return self.again is not None and self.similarity.both > 0
        return self.again is not None and self.similarity.is_enough

    def verdict(self) -> list[str]:
        """Lines: the finding in the log, in the simulation, and whether it was reproduced. Control characters in names are spelled
        out."""
        lines = [f"In the log: {_dated(self.incident.finding)}"]
        cause = self.recurrence.cause
        if self.again is not None:
            lines.append(f"Simulated: {self.again.text}")
        lines.append(self._conclusion("" if cause is None else f" ({cause.text()})"))
        lines += [f"Not as in the log: {text}" for text in self.dropped]
        return [visible(line) for line in lines]

    def _conclusion(self, cause: str) -> str:
        if self.happened:
            return f"The finding occurs again, with the same cause{cause}."
        least = f"a reproduction needs one pair of events or more, and {ENOUGH:.0%}"
        if self.again is not None:
            return f"The finding occurs again, with the same cause{cause}, but the histories are not similar: {least}."
        if self.late:
            return f"The finding does not occur again: {self.late}"
        if self.recurrence.other is None:
            return "The finding does not occur again: the simulated log has no such finding."
        other, its = self.recurrence.other
        if its is not None and its == self.recurrence.cause:
            return f"The finding does not occur again at its time, and for as long: {other.text}"
        what = "unknown" if its is None else its.text()
        return f"Something else occurs: {other.text} Its cause: {what}; in the log:{cause or ' unknown'}."


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
    """Do it, and write the files. Raises UsageError; NotReproducible with the reason, before anything is written."""
    out = Path(options.out)
    _check_out(out)
    with steps.step("reading the log") as step:
        plan = _plan(options, steps)
        step.done(f"{visible(plan.chosen.group)}, {plan.chosen.finding.kind}")
    chosen, timeline = plan.chosen, plan.timeline
    generated = scenario_of(chosen, timeline, plan.release)
    generated.changed.append(f"the brokers behave as Kafka {plan.release}: {plan.why_release}")
    _check_readable(chosen, generated)
    _write(out, chosen, generated)
    data = out / "data"
    with steps.step("playing it") as step:
        _emptied(data)
        try:
            outcome = played(read_scenario(out / SCENARIO), data)
        except UsageError as error:  # a step can't be taken: what it is about is not there
            raise StepFailed(f"{visible(chosen.group)}: a step of {out / SCENARIO} failed: {error}") from None
        dropped = without_failed(generated, outcome.results)
        if dropped:
            _write(out, chosen, generated)
        step.done(f"{outcome.seconds:.0f} s of virtual time")
    begin = next(
        (event["ts_ms"] for event in outcome.events if event["event"] == "mark" and event["text"] == BEGIN_MARK), None
    )
    if begin is None:
        late = f"the members did not form the group: {outcome.late}"
        nothing = Recurrence(None, cause_of(chosen.finding, timeline))
        similarity = Similarity([], (0.0, 0.0))
        made = Reproduction(chosen, nothing, outcome, similarity, _unknown(timeline, generated), dropped, late)
    else:
        findings, shifted = plan.simulated(data, begin)
        recurrence = plan.recurs(findings, shifted, begin - timeline.from_ms)
        similarity = compare(timeline, shifted)
        made = Reproduction(chosen, recurrence, outcome, similarity, _unknown(timeline, generated), dropped)
    _write_report(out, made, timeline, generated)
    return made


@dataclass
class _Plan:
    """Incident and timeline that are played and then searched for in the simulated log. ``row``: of a transaction."""

    chosen: SelectedIncident
    timeline: GroupTimeline
    release: str
    why_release: str
    row: Row | None = None

    def simulated(self, data: Path, begin_ms: int) -> tuple[list[Finding], GroupTimeline]:
        """The findings, and the timeline, of the simulated log. ``begin_ms``: its moment that is the timeline's first one."""
        group, timeline = self.chosen.group, self.timeline
        to_ms = begin_ms + timeline.to_ms - timeline.from_ms + TAIL_MS
        if self.row is not None:
            return _simulated_transaction(data, self.row, begin_ms, to_ms)
        kind = self.chosen.finding.kind
        again = evidence_of(data, group, journal=timeline.protocol in EPOCH_KINDS)
        findings = stuck_findings(data, group) if kind == "stuck" else seen(again, group)
        shifted = timeline_of(again, group, begin_ms, to_ms)
        if kind == "stuck":
            _add_stuck_act(findings, shifted)
        return findings, shifted

    def recurs(self, findings: list[Finding], shifted: GroupTimeline, later_ms: int) -> Recurrence:
        if self.row is None:
            return recurs(self.chosen.finding, self.timeline, findings, shifted, later_ms)
        return _transaction_recurs(self.row, self.timeline, findings, shifted)


def _plan(options: ReproduceOptions, steps: Steps) -> _Plan:
    """Choose an incident, and read its timeline. Raises UsageError, NotReproducible."""
    whole = _read(options, steps)
    group, of_all = choose(whole, options.group, options.at_ms)
    release, why = (options.as_version, "as it was asked for") if options.as_version else whole.release()
    if group is None:
        assert of_all is not None
        row = row_of(whole, of_all)
        assert row is not None
        if row["hangs"] and not options.as_version and whole.release_of_lines() is None:
            release, why = LATE_RECORDS, "its brokers accept records that arrive after the end of their transaction"
        reason = unplayable(row, release)
        if reason is not None:
            raise NotReproducible(f"{of_all.text} Not reproduced: {reason}")
        timeline = read_transaction(whole, row)
        with_clients(timeline, row, whole)
        timeline.acts.sort(key=lambda act: act.at_ms)
        owner = SelectedIncident(of_all, timeline.group, timeline.from_ms, timeline.to_ms)
        return _Plan(owner, timeline, release, why, row)
    mine = _read(options, steps, group)
    if not options.as_version:
        release, why = mine.release()
    chosen = incident(mine, group, of_all, options.at_ms)
    timeline = timeline_of(mine, group, chosen.from_ms, chosen.to_ms)
    if not options.as_version and timeline.protocol in ("share", "streams") and parse_release(release) < (4, 2):
        release, why = "4.2", f"{timeline.protocol} groups are no preview there"
    if chosen.finding.kind == "stuck":
        _stuck(chosen, timeline, mine, release)
    _check_playable(chosen, timeline)
    return _Plan(chosen, timeline, release, why)


def _check_playable(chosen: SelectedIncident, timeline: GroupTimeline) -> None:
    """Raise NotReproducible, before anything is written, for what no scenario brings about."""
    group, finding = chosen.group, chosen.finding
    if not timeline.members and not timeline.acts:
        raise NotReproducible(f"{group}: compaction has removed its records of that time")
    if finding.kind in PARTITIONED and not timeline.members:
        raise NotReproducible(
            f"{group}: its members at that time are not in the log, so no client that tries to commit can be simulated"
        )
    if timeline.protocol != "classic" and not timeline.members:
        raise NotReproducible(f"{group}: its members at that time are not in the log")
    if timeline.protocol != "classic" and not timeline.partitions:
        raise NotReproducible(f"{group}: the topics that its members subscribe to are not in the log")
    if max(timeline.records_before.values(), default=0) > MOST_RECORDS:
        raise NotReproducible(
            f"{group}: the offsets of its records are above {MOST_RECORDS:,}; a scenario appends at most so many"
        )
    cause = cause_of(finding, timeline)
    if cause is None:
        raise NotReproducible(f"{group}: {finding.text} Not reproduced: the log does not show what brought it about")
    if RESET in cause.what:
        raise NotReproducible(
            f"{group}: {finding.text} Not reproduced: no step of a scenario sets the start offset of a share group"
        )
    if (
        timeline.protocol in EPOCH_KINDS
        and finding.kind in (*OF_COMMITS, *PARTITIONED)
        and finding.kind != "coordinator moved"
    ):
        raise NotReproducible(
            f"{group}: {finding.text} Not reproduced: a scenario's members of {timeline.protocol} groups do not commit offsets"
        )


def _simulated_transaction(data: Path, row: Row, begin_ms: int, to_ms: int) -> tuple[list[Finding], GroupTimeline]:
    """The simulated transaction that is the most like the log's: with the same cause, the most partitions, and nearest in duration."""
    again = evidence_of(data, None, journal=False)
    cause = cause_of_transaction(row)
    rows = [other for other in again.rows("transactions") if other["from_ms"] >= begin_ms - NEAR_MS]
    rows.sort(
        key=lambda other: (cause_of_transaction(other) != cause, abs((other["open_ms"] or 0) - (row["open_ms"] or 0)))
    )
    findings = [finding for finding in again.findings if finding.kind == "transaction"]
    if not rows:
        return [], GroupTimeline(str(row["transactional_id"]), begin_ms, to_ms)
    shifted = read_transaction(again, rows[0], to_ms)
    shifted.from_ms = begin_ms
    return [finding for finding in findings if finding.at_ms == rows[0]["from_ms"]], shifted


def _transaction_recurs(row: Row, real: GroupTimeline, findings: list[Finding], shifted: GroupTimeline) -> Recurrence:
    """Recurrence of a transaction: with the same transactional id and end, in the same partitions, for a similar time."""
    mine, other = (
        next((act for act in timeline.acts if act.kind == "transaction"), None) for timeline in (real, shifted)
    )
    assert mine is not None
    cause = _transaction_cause(mine, real)
    if other is None or not findings:
        return Recurrence(None, cause)
    its = _transaction_cause(other, shifted if row["transactional_id"] is not None else real)
    apart_ms = abs(other.for_ms - mine.for_ms)
    if mine.cause == other.cause == HUNG:  # the simulated log is longer
        apart_ms = max(mine.for_ms - other.for_ms, 0)
    if cause.same_as(its) and apart_ms <= max(NEAR_MS, mine.for_ms // 4):
        return Recurrence(findings[0], cause)
    return Recurrence(None, cause, (findings[0], its))


def _transaction_cause(act: Act, timeline: GroupTimeline) -> Cause:
    logs = frozenset(log_text(log) for log, _ in act.offsets)
    return Cause(f"transaction, {act.cause}", frozenset([timeline.group]), logs)


def _check_readable(chosen: SelectedIncident, generated: GeneratedScenario) -> None:
    """Raise NotReproducible where a scenario file can't have the names of the log."""
    with tempfile.TemporaryDirectory(prefix="broker-sim-reproduce-") as scratch:
        _write(Path(scratch), chosen, generated)
        try:
            read_scenario(Path(scratch) / SCENARIO)
        except UsageError as error:
            reason = str(error).replace(f"{scratch}/", "")
            raise NotReproducible(f"{chosen.group}: no scenario has its names: {reason}") from None


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
    """Add the jam of the group's offsets partition. Acts of its members meanwhile were a consequence of it, and are left out,
    so that the simulation brings them about again."""
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
    """Add the jam of the simulated group's offsets partition to its timeline."""
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
