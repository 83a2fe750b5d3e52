"""Timeline of a transaction that was long, hung, or was ended by something else than its producer, from a log, and a scenario's
steps for it.

    timeline = read_transaction(evidence, row)     row: of the table `transactions`

Rules:
1. A producer writes a record to each partition of the transaction, and hangs in it for as long as the transaction was open; what
   ended it follows: the producer itself, the coordinator after transaction.timeout.ms, or a second producer with the same
   transactional.id.
2. A transaction that is unknown to its coordinator is a record that arrives after its transaction was aborted (KIP-890): the request is
   delayed for longer than its producer waits. Brokers since 4.0 refuse it, so that only 3.x is simulated.
3. Markers that were written late waited for a partition without a leader.
4. A transaction with a group's offsets is one of a consumer that reads the group's topics and writes to another one; it ends, or
   freezes, in its next transaction. Which partition of that topic it writes to, and which offsets partition is the group's, depends on
   numbers that the scenario does not share with the log: the topic and the group are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker_sim.common.text import duration_text
from broker_sim.config.settings import parse_release
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.segments import OFFSETS_TOPIC
from broker_sim.reproduce.evidence import Evidence, Row
from broker_sim.reproduce.group_timeline import ANY, Act, GroupTimeline, Log, ScenarioMember
from broker_sim.reproduce.timelines import NotReproducible

__all__ = [
    "HUNG",
    "IN_TRANSACTION",
    "LATE_RECORDS",
    "cause_of_transaction",
    "read_transaction",
    "row_of",
    "unplayable",
    "what_is_done",
    "with_clients",
]

TRANSACTION = "transaction"
SLOW_MARKERS_MS = 5000
"""Markers so much later than the decision waited for something."""
NEAR_MS = 2000
BEGIN_MS = 1500
"""The producer's first transaction after a scenario's begin is in progress by then."""
MOST_OPEN_MS = 900_000
EXPIRY_CHECK_MS = 10_000
"""transaction.abort.timed.out.transaction.cleanup.interval.ms: a transaction times out so much later at most."""
LATE_RECORDS, FIRST_VERIFYING = "3.4", (3, 5)
"""The last release that accepts a record after the end of its transaction, and the first one that asks the coordinator about it."""
REQUEST_MS, DELAY_MS = 1000, 3000
IN_TRANSACTION = "in its transaction"
"""Cause of an act that waits for the client's next transaction."""
SESSION_MS = 45_000
HUNG, LATE_RECORD, LOST_ABORT, SLOW_MARKERS = "unended", "late record", "lost abort", "slow markers"


def row_of(evidence: Evidence, finding: Finding) -> Row | None:
    """The transaction that a finding reports."""
    rows = [row for row in evidence.rows("transactions") if row["from_ms"] == finding.at_ms]
    mine = [row for row in rows if row["to_ms"] == finding.to_ms] or rows
    named = [row for row in mine if (row["transactional_id"] or f"roducer {row['producer_id']}") in finding.text]
    return next(iter(named or mine), None)


def cause_of_transaction(row: Row) -> str:
    """Cause that ended the transaction, or keeps it open."""
    if row["lost_abort"]:
        return LOST_ABORT
    if row["hangs"]:
        return LATE_RECORD
    if row["end"] is None:
        return HUNG
    if row["decided_ms"] is not None and row["to_ms"] - row["decided_ms"] >= SLOW_MARKERS_MS:
        return SLOW_MARKERS
    return str(row["result"] or row["end"])


def unplayable(row: Row, release: str | None) -> str | None:
    """Reason why no scenario has the transaction; None if one has. ``release``: of the brokers, None if that is not decided yet."""
    cause = cause_of_transaction(row)
    if not row["partitions"]:
        return "its partitions are not in the input"
    if row["groups"]:
        reason = _unplayable_with_offsets(row, cause)
        if reason is not None:
            return reason
    elif any(name.startswith("__") for name in row["partitions"]):
        return "it wrote to an internal topic"
    if cause in (LATE_RECORD, LOST_ABORT) and release is not None and parse_release(release) >= FIRST_VERIFYING:
        return f"brokers of Kafka {release} refuse a record that arrives after the end of its transaction (KIP-890)"
    if (row["open_ms"] or 0) > MOST_OPEN_MS:
        return f"it was open for {duration_text(row['open_ms'])}; at most {duration_text(MOST_OPEN_MS)} are simulated"
    over = row["timeout_ms"] is not None and (row["open_ms"] or 0) > row["timeout_ms"] + EXPIRY_CHECK_MS + NEAR_MS
    if cause == HUNG and over:
        return "it is open although its timeout has expired: no request of a client brings that about"
    if cause in ("abort", "aborted"):
        return "its producer aborted it, for a reason that the log does not have"
    return None


def _unplayable_with_offsets(row: Row, cause: str) -> str | None:
    if len(row["groups"]) > 1:
        return f"it has offsets of {len(row['groups'])} groups; a scenario's consumer commits those of one"
    outputs = {_log(name)[0] for name in row["partitions"]} - {OFFSETS_TOPIC}
    if len(outputs) != 1:
        return f"it wrote to {len(outputs)} topics; a scenario's consumer that commits in transactions writes to one"
    if any(topic.startswith("__") for topic in outputs):
        return "it wrote to an internal topic"
    if cause in (LATE_RECORD, LOST_ABORT, SLOW_MARKERS):
        return f"its cause ({cause}) is only simulated in transactions without offsets of groups"
    return None


def read_transaction(evidence: Evidence, row: Row, to_ms: int | None = None) -> GroupTimeline:
    """The timeline of one transaction. Its `GroupTimeline.group` is the transactional id."""
    owner = row["transactional_id"] or f"producer-{row['producer_id']}"
    end_ms = row["to_ms"] if row["to_ms"] is not None else evidence.to_ms or row["from_ms"]
    if row["end"] is None:
        end_ms = max(end_ms, row["from_ms"] + (row["open_ms"] or 0))
    timeline = GroupTimeline(owner, row["from_ms"] - BEGIN_MS, to_ms or end_ms + NEAR_MS, protocol=TRANSACTION)
    if row["groups"]:
        timeline.partitions = {topic: 1 for topic, _ in map(_log, row["partitions"]) if topic != OFFSETS_TOPIC}
    else:
        for topic, index in map(_log, row["partitions"] or ()):
            known = max(timeline.partitions.get(topic, 0), evidence.partitions.get(topic, 0))
            timeline.partitions[topic] = max(known, index + 1)
    cause = cause_of_transaction(row)
    logs = tuple((log, 0) for log in _places(row))
    lasted = duration_text(row["open_ms"] or 0)
    timeline.acts.append(
        Act(row["from_ms"], "transaction", owner, row["open_ms"] or 0, logs, f"open for {lasted}: {cause}", cause=cause)
    )
    if row["decided_ms"] is not None and cause == SLOW_MARKERS:
        timeline.acts.append(
            Act(
                row["decided_ms"],
                "decided",
                owner,
                end_ms - row["decided_ms"],
                logs,
                f"its end was decided: {row['result']}",
            )
        )
    if row["to_ms"] is not None:
        timeline.acts.append(
            Act(row["to_ms"], "ended", owner, 0, logs, f"{row['end']}: {cause}", cause=str(row["end"]))
        )
    return timeline


def _places(row: Row) -> list[Log]:
    """Partitions of a transaction; of one with offsets its topics and its groups, in place of partitions."""
    logs = [_log(name) for name in row["partitions"] or ()]
    if not row["groups"]:
        return logs
    topics = sorted({topic for topic, _ in logs} - {OFFSETS_TOPIC})
    return [(name, ANY) for name in (*topics, *(f"offsets of {group}" for group in sorted(row["groups"])))]


def _log(name: str) -> Log:
    topic, _, index = name.rpartition("-")
    return topic, int(index)


def with_clients(timeline: GroupTimeline, row: Row, evidence: Evidence) -> None:
    """Add the producers, and the steps that bring the transaction about. Every second of the log is a second of the scenario. Raises
    NotReproducible."""
    cause, open_ms = cause_of_transaction(row), row["open_ms"] or 0
    owner = timeline.group
    if row["groups"]:
        _with_consumers(timeline, row, evidence)
        return
    settings: dict[str, Any] = {
        "transactional_id": owner,
        "interval": duration_text(PAUSE_MS),
        "transaction_timeout": duration_text(row["timeout_ms"] or 60_000),
    }
    first = ScenarioMember(f"{owner}-1", owner, None, 0, 0, first=False, settings=settings)
    timeline.members = [first]
    if cause in (LATE_RECORD, LOST_ABORT):
        _late_record(timeline, row, first)
        return
    hang_ms = open_ms
    if cause == "timed out":
        hang_ms = open_ms + 2 * EXPIRY_CHECK_MS
    elif cause == HUNG or cause == "fenced":
        hang_ms = open_ms + 60_000
    elif cause == SLOW_MARKERS and row["decided_ms"] is not None:
        hang_ms = max(row["decided_ms"] - row["from_ms"], 1000)
        at_ms = row["from_ms"] + hang_ms // 2 + PAUSE_MS // 2
        last = _log((row["partitions"] or ["-0"])[-1])
        timeline.acts.append(
            Act(at_ms, "no_leader", None, row["to_ms"] - at_ms, ((last, 0),), "markers came late", is_certain=False)
        )
    timeline.from_ms = row["from_ms"] - EARLIER_MS - BEGIN_MS
    why = "transactions before it, which are short: a long one is long beside others"
    timeline.acts.append(Act(row["from_ms"] - EARLIER_MS, "start", first.name, why=why))
    why = "its transaction was open for so long"
    timeline.acts.append(Act(row["from_ms"] - PAUSE_MS // 2, "hang", first.name, hang_ms, why=why))
    if cause == "fenced":
        second = ScenarioMember(f"{owner}-2", owner, None, 0, 0, settings=dict(settings))
        timeline.members.append(second)
        why = "another producer initialized the same transactional.id"
        timeline.acts.append(Act(row["to_ms"] - START_MS, "start", second.name, why=why))


def _with_consumers(timeline: GroupTimeline, row: Row, evidence: Evidence) -> None:
    """The consumer whose transaction it is: it ends in it, or is frozen for as long as it was open and commits it then."""
    cause, open_ms, owner, group = cause_of_transaction(row), row["open_ms"] or 0, timeline.group, row["groups"][0]
    rows = [one for one in evidence.of_group("offset_log", group) if one["kind"] == "commit" and one["topic"]]
    (output,) = timeline.partitions
    sources: dict[str, int] = {}
    for one in rows:
        if one["topic"] != output:
            known = max(sources.get(one["topic"], 0), evidence.partitions.get(one["topic"], 0))
            sources[one["topic"]] = max(known, one["partition"] + 1)
    if not sources:
        raise NotReproducible(f"{group}: the log has no committed offset that shows which topics its consumers read")
    timeline.partitions |= sources
    timeline.rates = dict.fromkeys(sources, RATE)
    settings: dict[str, Any] = {
        "kind": "aiokafka",
        "group": group,
        "topics": sorted(sources),
        "transactional_id": owner,
        "to": output,
        "transaction_timeout": duration_text(row["timeout_ms"] or 60_000),
        "work": duration_text(PAUSE_MS),
        "session_timeout": duration_text(max(SESSION_MS, open_ms + SESSION_MS)),
        "config": {"isolation_level": "read_committed"},
    }
    first = ScenarioMember(f"{owner}-1", owner, None, 0, 0, settings=settings)
    timeline.members = [first]
    timeline.from_ms = row["from_ms"] - EARLIER_MS - BEGIN_MS
    timeline.acts.append(
        Act(row["from_ms"] - EARLIER_MS, "start", first.name, why="transactions before it, which are short")
    )
    at_ms = row["from_ms"] - PAUSE_MS // 2
    if cause == "commit":
        why = "its transaction was open for so long, and was committed"
        timeline.acts.append(Act(at_ms, "freeze", first.name, open_ms, why=why, cause=IN_TRANSACTION))
    else:
        why = "its transaction was not ended by it: it crashed, or was frozen"
        timeline.acts.append(Act(at_ms, "crash", first.name, why=why, is_certain=False, cause=IN_TRANSACTION))
    if cause == "fenced":
        second = ScenarioMember(f"{owner}-2", owner, None, 0, 0, settings=dict(settings))
        timeline.members.append(second)
        why = "another producer initialized the same transactional.id"
        timeline.acts.append(Act(max(row["to_ms"] - START_MS, row["from_ms"]), "start", second.name, why=why))
    timeline.notes.append(
        f"Other members of {group} are not simulated. Its consumer writes to one partition of {output}, and its topics get"
        f" {RATE:.0f} records per second."
    )


RATE = 5.0
"""Records per second of each topic that a consumer with transactions reads: there is always a next transaction."""
PAUSE_MS, EARLIER_MS = 1000, 6000
"""Between two transactions of the producer, and how long before the incident it begins its first one."""
START_MS = 400
"""A producer's process starts so long before its first record."""


def _late_record(timeline: GroupTimeline, row: Row, producer: ScenarioMember) -> None:
    """A Produce to one partition is answered too late; the producer has aborted by then, and waits, or begins its next transaction."""
    topic, index = _log(row["partitions"][0])
    if timeline.partitions[topic] < 2:
        timeline.partitions[topic] = 2
    producer.settings["request_timeout"] = duration_text(REQUEST_MS)
    producer.settings["interval"] = "1h"
    at_ms = row["from_ms"] - DELAY_MS - START_MS
    timeline.from_ms = at_ms - BEGIN_MS
    why = "a record arrives after the end of its transaction"
    timeline.acts.append(Act(at_ms - 100, "delay_produce", producer.name, DELAY_MS, (((topic, index), 0),), why))
    timeline.acts.append(Act(at_ms, "start", producer.name, why="its transaction is aborted"))
    if row["lost_abort"]:
        ended_ms = row["to_ms"] or row["from_ms"]
        producer.settings["interval"] = duration_text(max(ended_ms - row["from_ms"] + DELAY_MS - REQUEST_MS, 1000))
    elif row["to_ms"] is not None:
        why = "an operator ended it with a marker"
        timeline.acts.append(Act(row["to_ms"], "abort_hanging", None, 0, (((topic, index), 0),), why))


def what_is_done(act: Act) -> Iterator[dict[str, Any]]:
    """The actions of a scenario for an act about transactions."""
    if act.kind == "no_leader":
        topic, index = act.offsets[0][0]
        log = f"{topic}-{index}"
        yield {"op": "state.set", "log": log, "state": "no_leader", "for": duration_text(act.for_ms), "must_hit": False}
    elif act.kind == "delay_produce":
        topic, index = act.offsets[0][0]
        rule = {
            "api": "Produce",
            "topic": topic,
            "partition": index,
            "client_id": act.who,
            "delay": duration_text(act.for_ms),
            "times": 1,
        }
        yield {"fault": rule, "as": "late"}
    elif act.kind == "abort_hanging":
        topic, index = act.offsets[0][0]
        yield {"op": "transaction.abort_hanging", "log": f"{topic}-{index}", "producer_id": 0}
