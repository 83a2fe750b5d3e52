"""The files of a reproduction: the scenario, the offsets that it begins with, and the pytest file that plays it.

Rules:
1. The scenario is a timeline: each step comes so long after the one before as it did in the log. Nothing in it waits for what the log
   only shows the outcome of, but for the group's being together at the start.
2. Names, partitions, timeouts and offsets are the log's own. `GeneratedScenario.changed` lists what was changed for the reproduction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from broker_sim.common.text import duration_text, visible
from broker_sim.reproduce.group_timeline import Act, GroupTimeline, Log, ScenarioMember, log_text
from broker_sim.reproduce.incident import SelectedIncident
from broker_sim.reproduce.similarity import TAIL_MS
from broker_sim.reproduce.transaction_timeline import IN_TRANSACTION, what_is_done
from broker_sim.scenario.outcome import ExpectationResult

__all__ = [
    "BEGIN_MARK",
    "GROUPS",
    "PYTEST",
    "SCENARIO",
    "GeneratedScenario",
    "scenario_of",
    "test_of",
    "without_failed",
]

SCENARIO, GROUPS, PYTEST = "incident.yaml", "before.json", "test_incident.py"
BEGIN = "the moment before"
"""The step whose mark is the real log's first moment."""
BEGIN_MARK = "as the log begins"
MOST_EXPIRY_MS = 3_600_000
"""A longer retention is played as a minute."""
BEHIND = 100_000


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes a text with other than printable characters in double quotes: PyYAML does not escape all line breaks without them."""


def _represented(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, None if text.isprintable() else '"')


_Dumper.add_representer(str, _represented)


@dataclass
class GeneratedScenario:
    """``table``: the scenario as a YAML table; ``changed``: what is not as it was."""

    table: dict[str, Any]
    groups: dict[str, Any]
    changed: list[str] = field(default_factory=list)

    def scenario(self, verdict: str) -> str:
        """The scenario file as YAML text."""
        return f"# {visible(verdict)}\n{yaml.dump(self.table, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=130)}"

    def begin(self) -> str:
        return json.dumps(self.groups, indent=1) + "\n"


def scenario_of(incident: SelectedIncident, timeline: GroupTimeline, as_version: str) -> GeneratedScenario:
    """The scenario of what the log shows."""
    generated = GeneratedScenario({}, {})
    moved = any(
        act.kind == "move" for act in timeline.acts
    )  # where leadership goes to a broker and back: two are enough
    config = dict(timeline.config)
    for act in timeline.acts:
        if act.kind == "expire":
            minutes = act.for_ms // 60_000 if act.for_ms <= MOST_EXPIRY_MS else 1
            config |= {"offsets.retention.minutes": str(minutes), "offsets.retention.check.interval.ms": "1000"}
    table: dict[str, Any] = {
        "name": f"{incident.group}: {incident.finding.kind}",
        "description": incident.finding.text,
        "cluster": {"brokers": 2 if moved else 1, "as_version": as_version, "seed": 1, "min_session_timeout": "1s"},
    }
    generated.groups = {"groups": [_before(timeline)]}
    if timeline.protocol in ("classic", "consumer") and (timeline.protocol == "classic" or timeline.before):
        table["import"] = {"describe": GROUPS}
    if config:
        table["cluster"]["config"] = config
    table["topics"] = [
        {"name": topic, "partitions": number, **_records(timeline, topic), **_rate(timeline.rates.get(topic, 0.0))}
        for topic, number in sorted(timeline.partitions.items())
        if topic not in timeline.missing
    ]
    if timeline.missing:
        table["external"] = {"topics": list(timeline.missing)}
    table["clients"] = [_client(timeline, index) for index in range(len(timeline.members))]
    if timeline.protocol == "transaction":
        table["clients"].append(
            {
                "name": "reader",
                "group": f"readers of {incident.group}",
                "topics": sorted(timeline.partitions),
                "config": {"isolation_level": "read_committed"},
            }
        )
    first = [member for member in timeline.members if member.first]
    begin: dict[str, Any] = {"name": BEGIN}
    if first:
        stable = {} if timeline.missing else {"state": "Stable"}
        begin["when"] = {"group": incident.group, **stable, "members": len(first)}
        begin["within"] = "60s"
    else:
        begin["after"] = "1s"
    begin["do"] = {"mark": BEGIN_MARK}
    table["steps"] = [begin, *_steps(timeline, generated)]
    table["expect"] = list(_expected(incident, timeline))
    generated.table = table
    return generated


def _records(timeline: GroupTimeline, topic: str) -> dict[str, int]:
    records = timeline.records_before.get(topic, 0)
    return {"records": records} if records else {}


def _rate(rate: float) -> dict[str, str]:
    return {"rate": f"{min(rate, 10_000):.3g}/s"} if rate > 0.01 else {}


def _client(timeline: GroupTimeline, index: int) -> dict[str, Any]:
    member = timeline.members[index]
    topics = sorted(
        {log[0] for record in timeline.records for entry in record.entries for log in entry.logs} or timeline.partitions
    )
    if timeline.protocol == "transaction":
        client = {"name": member.name, "kind": "transactional", "topics": sorted(timeline.partitions), "start": False}
        return {**client, **member.settings}
    if timeline.protocol != "classic":
        return _epoch_client(timeline, member)
    beat = min(3000, member.session_ms // 3)
    client = {"name": member.name, "group": timeline.group, "topics": topics}
    if member.instance is not None:
        client["instance_id"] = member.instance
    client |= {
        "session_timeout": duration_text(member.session_ms),
        "heartbeat_interval": duration_text(beat),
        "max_poll_interval": duration_text(member.rebalance_ms),
        "commit": "poll",
        "auto_commit_interval": duration_text(timeline.rhythm_ms),
    }
    if not member.first:
        client |= {"start": False, "joins": False}
    return client


def _epoch_client(timeline: GroupTimeline, member: ScenarioMember) -> dict[str, Any]:
    """A member of a consumer, share or streams group."""
    client: dict[str, Any] = {
        "name": member.name,
        "kind": timeline.protocol,
        "group": timeline.group,
        "topics": sorted(timeline.partitions),
    }
    if member.instance is not None and timeline.protocol != "share":
        client["instance_id"] = member.instance
    shortest = min([member.session_ms, *(other.session_ms for other in timeline.members), member.rebalance_ms])
    client["heartbeat_interval"] = duration_text(max(min(BEAT_MS, shortest // 4), 200))
    if timeline.protocol != "share":
        client["max_poll_interval"] = duration_text(member.rebalance_ms)
    client |= member.settings
    if not member.first:
        client |= {"start": False, "joins": False}
    return client


BEAT_MS = 3000
"""Members of groups with epochs send a heartbeat each five seconds by default; a shorter interval is nearer to the log's moments."""


def _before(timeline: GroupTimeline) -> dict[str, Any]:
    """The group without members, with the offsets that it had, and where its logs ended."""
    logs = sorted({*timeline.ends, *timeline.before})
    offsets = [{"topic": topic, "partition": index, **_offset(timeline, (topic, index))} for topic, index in logs]
    return {"group": timeline.group, "state": "Empty", "offsets": [offset for offset in offsets if len(offset) > 2]}


def _offset(timeline: GroupTimeline, log: Log) -> dict[str, int]:
    """Offset and end. A log whose end is unknown ends where the group is."""
    row = {}
    if log in timeline.before:
        row["offset"] = timeline.before[log]
    end = max(timeline.ends.get(log, 0), timeline.before.get(log, 0))
    if log in timeline.before:
        row["end"] = end
    return row


def _steps(timeline: GroupTimeline, generated: GeneratedScenario) -> Iterator[dict[str, Any]]:
    now_ms = timeline.from_ms
    running = {member.name for member in timeline.members if member.first}
    for number, act in enumerate(timeline.acts, 1):
        doing = list(_doing(act, timeline, running, generated))
        if not doing:
            continue
        wait = max(0, act.at_ms - now_ms)
        now_ms = max(now_ms, act.at_ms)
        name = f"{number}: {act.kind} {act.who}" if act.who else f"{number}: {act.kind}"
        if act.cause == IN_TRANSACTION:
            yield {"name": f"{number}: its next transaction", **_after(wait), "do": {"mark": "its next transaction"}}
            begun = {"client": act.who, "reports": "begun"}
            yield {"name": name, "when": begun, "within": "60s", "do": doing if len(doing) > 1 else doing[0]}
            continue
        yield {
            "name": name,
            **_after(wait),
            "do": doing if len(doing) > 1 else doing[0],
        }
    rest = max(1000, timeline.to_ms - now_ms) + (TAIL_MS if timeline.protocol != "classic" else 0)
    yield {"name": "the log ends", "after": duration_text(rest), "do": {"mark": "as far as the log was played"}}


def _after(wait_ms: int) -> dict[str, str]:
    return {"after": duration_text(wait_ms)} if wait_ms else {}


def _doing(
    act: Act, timeline: GroupTimeline, running: set[str], generated: GeneratedScenario
) -> Iterator[dict[str, Any]]:
    group = timeline.group
    if act.kind == "start":
        if act.who not in running:
            running.add(str(act.who))
            yield {"client": act.who, "action": "start"}
    elif act.kind in ("leave", "crash"):
        if act.who in running:
            running.discard(str(act.who))
            yield {"client": act.who, "action": act.kind}
    elif act.kind in ("hang", "freeze"):
        if act.who in running:
            yield {"client": act.who, "action": act.kind, "for": duration_text(act.for_ms)}
    elif act.kind == "fill":
        (topic, index), records = act.offsets[0]
        yield {"op": "log.fill", "log": f"{topic}-{index}", "records": records}
    elif act.kind == "create":
        topic = str(act.who)
        yield {"op": "topic.create", "topic": topic, "partitions": timeline.partitions.get(topic, 1)}
    elif act.kind in ("commit", "delete_group", "delete_offsets"):
        yield from _about_offsets(act, timeline, act.who in running, generated)
    elif act.kind == "expire" and act.for_ms > MOST_EXPIRY_MS:
        generated.changed.append(f"offsets.retention.minutes is 1 here, not {duration_text(act.for_ms)}")
    elif act.kind == "move":
        yield {"op": "leader.move", "log": f"offsets({group})"}
    elif act.kind == "epoch":
        yield {"op": "leader.elect", "log": f"offsets({group})"}
    elif act.kind == "jam":
        yield _stuck_step(act, group)
    else:
        yield from what_is_done(act)


def _about_offsets(
    act: Act, timeline: GroupTimeline, is_member: bool, generated: GeneratedScenario
) -> Iterator[dict[str, Any]]:
    """The requests for a commit or a deletion. Members of groups with epochs do not commit: the offsets that stood before are
    committed first."""
    group, logs = timeline.group, [log_text(log) for log, _ in act.offsets]
    who = {"member": act.who, "generation": "now"} if is_member else {}
    if timeline.protocol != "classic" and act.stood:
        stood = {log_text(log): offset for log, offset in act.stood}
        yield {"send": "OffsetCommit", "group": group, **who, "offsets": stood, "answer": "*"}
        generated.changed.append("members of the simulation do not commit: the offsets before are committed for them")
    if act.kind == "commit":
        offsets = {log_text(log): offset for log, offset in act.offsets}
        yield {"send": "OffsetCommit", "group": group, **who, "offsets": offsets, "answer": "*"}
        if who:
            generated.changed.append(
                f"a commit of {', '.join(logs)} is sent in the name of {act.who}, whose own position does not change"
            )
    elif act.kind == "delete_group":
        yield {"send": "DeleteGroups", "group": group, "answer": "*"}
    else:
        yield {"send": "OffsetDelete", "group": group, "partitions": logs, "answer": "*"}


def _stuck_step(act: Act, group: str) -> dict[str, Any]:
    """A state of the group's offsets partition. A follower that hangs is in the ISR at first; once it is out, 3.x refuses appends."""
    state: dict[str, Any] = {
        "log": f"offsets({group})",
        "state": "stuck",
        "for": duration_text(act.for_ms),
        "must_hit": False,
    }
    if act.refused_ms is not None and act.refused_ms <= act.at_ms:
        state["state"] = "under_min_isr"
    elif act.refused_ms is not None:
        state["isr_shrinks_after"] = duration_text(act.refused_ms - act.at_ms)
    return state


def _expected(incident: SelectedIncident, timeline: GroupTimeline) -> Iterator[dict[str, Any]]:
    """The verdict: how the group stood at the end; and what the incident consists of, as far as events of a run show it. What does not
    hold when the scenario is played is left out again: `without_failed`."""
    if timeline.protocol == "transaction":
        yield {"happened": {"event": "transaction", "transactional_id": incident.group}}
        return
    last = next((record for record in reversed(timeline.records)), None)
    if last is not None and last.entries:
        yield {
            "within": "60s",
            "group": {
                incident.group: {
                    "state": "Stable",
                    "members": len({timeline.names[entry.member_id] for entry in last.entries}),
                }
            },
        }
    kinds = {act.kind for act in timeline.acts}
    if timeline.protocol == "classic" and "crash" in kinds and not any(member.instance for member in timeline.members):
        yield {"happened": {"event": "timer", "timer": "session", "group": incident.group}}
    if timeline.protocol == "classic" and incident.finding.kind in ("storm", "frequent rebalances", "poison"):
        many = max(3, len(timeline.records) // 2)
        yield {"happened": {"group": incident.group, "generation": f">={many}"}}
    if timeline.protocol != "classic":
        yield {"happened": {"event": "epochs", "group": incident.group}}
    elif not kinds or (last is None or not last.entries):
        yield {"happened": {"event": "group", "group": incident.group}}


def without_failed(generated: GeneratedScenario, results: list[ExpectationResult]) -> list[str]:
    """Remove the expectations that did not hold from the scenario. Returns their texts."""
    expected = generated.table["expect"]
    failed = [result.held for result in results[: len(expected)]]
    if len(failed) < len(expected) or all(failed):
        return []
    texts = [result.text for result in results[: len(expected)] if not result.held]
    kept = [one for one, held in zip(expected, failed, strict=True) if held]
    generated.table["expect"] = kept or [{"happened": {"event": "mark", "text": "*"}}]
    return texts


TEST = '''"""{title}

Runs {scenario} in virtual time: some seconds, the same result each time. Written by broker-sim reproduce.
"""

from pathlib import Path

from broker_sim.reproduce.again import findings_of, play_file

HERE = Path(__file__).parent

# ---- the one place to change: your consumer ---------------------------------------------------------------------------
# A coroutine function of (settings, line) that consumes settings.topics in settings.group from settings.bootstrap, as
# settings.client_id, until it is cancelled: see docs/reproduce.md. This one is the aiokafka client of scenario files.
from broker_sim.scenario.apps.aiokafka_app import live as consumer
# -----------------------------------------------------------------------------------------------------------------------


def test_it_happens_again() -> None:
    """Passes while the incident occurs. Once your consumer, or its settings, prevent it, invert the last line."""
    outcome, data = play_file(HERE / "{scenario}", consumer)
    assert outcome.code == 0, outcome.report()
    assert "{kind}" in findings_of(data, {group})
'''


def test_of(incident: SelectedIncident) -> str:
    """The pytest file, whatever characters the group's name has."""
    title = visible(f"{incident.group}: {incident.finding.kind}").replace("\\", "\\\\").replace('"', "'")
    # all that JSON escapes in a text Python reads as JSON does, and JSON leaves out no character that Python refuses
    group = json.dumps(incident.group, ensure_ascii=False)
    return TEST.format(title=title, scenario=SCENARIO, kind=incident.finding.kind, group=group)
