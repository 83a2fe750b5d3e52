"""docs/faults.md: every fault, the incident behind it, what the coordinator answers, and what each client was seen to do.

``render()`` puts it together out of broker_sim/faults (conditions.py, rules.py), the coordinator's own tables, the shipped scenarios
and observed.json, which `python -m tests.scenarios.observe` writes. `make docs` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from broker_sim.coordinator.policy import JAVA, SCALA, Policy
from broker_sim.faults.conditions import KINDS, Kind
from broker_sim.faults.rules import VERDICTS
from broker_sim.scenario.commands import shipped
from broker_sim.scenario.model import read
from kafka_wire.errors import Err
from tests.scenarios.cases import BACK_WITHIN_S, CASES, LASTS_S

OBSERVED = Path(__file__).with_name("observed.json")
CLIENTS = {"aiokafka": "aiokafka 0.14", "confluent": "confluent-kafka 2.16", "java-4.1": "Java 4.1"}

INCIDENTS = {
    "stuck": "A follower hangs - a full disk, a frozen virtual machine, a network that drops packets - and stays in the ISR, because "
    "`replica.lag.time.max.ms` is long or nobody can shrink the ISR. Writes with acks=all wait; nothing is refused.",
    "under_min_isr": "Replicas have left the ISR, fewer than `min.insync.replicas` are in it: brokers down during a maintenance that "
    "lost one more.",
    "slow": "A slow disk, a follower in another region, a broker that is busy with something else.",
    "storage_error": "The disk of a log directory fails; the broker takes the directory offline and goes on with its others.",
    "full": "The disk fills up. What is there can still be read.",
    "readonly": "The file system is remounted read-only after an I/O error.",
    "too_large": "`max.message.bytes` of `__consumer_offsets` was lowered, or an assignment or a commit has outgrown it.",
    "not_leader": "The leadership has moved and metadata doesn't say so yet: the seconds of a controller's failover.",
    "fenced": "A zombie leader: its epoch is over, and it doesn't know.",
    "no_leader": "All replicas are down, or the last one in the ISR is, without unclean election.",
    "loading": "A broker has just become the coordinator, after a restart or a move, and reads its offsets partition. With a log "
    "that was not compacted for long that takes minutes.",
    "error": "Whatever a broker answers in trouble: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, REBALANCE_IN_PROGRESS.",
    "error_after": "The request was applied and its answer says otherwise: a commit that timed out and is there nevertheless.",
    "delay": "A broker whose request queue is long: the request waits before it is handled.",
    "reply_delay": "A slow way back: handled at once, answered late.",
    "hang": "A broker that takes requests and never answers: a deadlock, a frozen disk, a firewall that has forgotten the connection.",
    "drop": "The connection is reset before the request is handled: a broker dies, a load balancer's idle timeout.",
    "drop_after": "The connection is reset after the request was handled. The client can't know whether it was.",
    "truncate": "The connection ends in the middle of an answer.",
    "split": "An answer comes in two pieces, as networks like to do; a client must put them together.",
    "throttle_ms": "A quota: the answer says how long the client shall be silent, and the broker reads nothing from it "
    "meanwhile (KIP-219).",
}
"""Fault -> what happens in real life."""

ANSWERS = {
    "stuck": (
        "OffsetCommit waits `offsets.commit.timeout.ms` and is answered REQUEST_TIMED_OUT, SyncGroup as long and "
        "REBALANCE_IN_PROGRESS: a group that rebalances never gets Stable. Heartbeats, joins and leaves are as always. A commit "
        "that timed out is in the log, and not served before another coordinator loads it, even after healing.",
        "OffsetCommit, SyncGroup, and every answer behind them - Heartbeat, LeaveGroup, a parked JoinGroup - wait as long and are "
        "answered COORDINATOR_NOT_AVAILABLE, a stable OffsetFetch NOT_COORDINATOR. Errors are answered at once. After healing what had "
        "timed out is served.",
    ),
    "under_min_isr": (
        "OffsetCommit and SyncGroup are answered COORDINATOR_NOT_AVAILABLE at once, and nothing is written. A commit that was under "
        "way when the ISR shrank is answered the same, and is in the log.",
        "As `stuck`, in every case that was measured: written, not committed, answered when the time is over.",
    ),
    "slow": ("As always, that much later.", "As always, that much later; heartbeats behind a commit, too."),
    "no_leader": (
        "FindCoordinator is answered COORDINATOR_NOT_AVAILABLE, the broker that was it NOT_COORDINATOR.",
        "The same.",
    ),
    "loading": (
        "COORDINATOR_LOAD_IN_PROGRESS; SyncGroup REBALANCE_IN_PROGRESS, Heartbeat NONE.",
        "COORDINATOR_LOAD_IN_PROGRESS; Heartbeat NONE.",
    ),
}
"""State of the offsets partition -> what the coordinator of 3.x and of 4.x answers, where it is no error of an append."""

HEAD = """\
# Faults

Written by `make docs`; a test keeps it current. What clients do was seen in a journal, and is seen anew by
`python -m tests.scenarios.observe`.

Every fault here can be had in Python, over HTTP, on the command line and in scenario files: the [README](../README.md) has one line of
each. A state lasts until it is healed; a rule hits the requests that it selects.

In the tables one consumer reads and commits all the time, the application commits after every poll and waits for it, the fault lasts
{lasts} s, `offsets.commit.timeout.ms` is 1 s, and the request timeout 3 s. *Works again* is the time from the end of the fault to
the first commit that the application knows to be done; *reads meanwhile* whether its application got records more than a second after
the fault began: where it waits for its commit it gets none. Clients were seen on the simulator. What the coordinator answers was
measured on Apache Kafka 3.4.0 and 4.1.0 for `stuck`, `under_min_isr`, `too_large` and a coordinator that moved (tests/stuck,
tests/conformance); for the other states it follows from the same tables of errors.
"""


LOST = """\
## Committed records that are lost

`kafka.log("orders", 0).lose_tail(40)` and `.lose_head(40)`, `log.lose_tail` and `log.lose_head` everywhere else, take records away
that were committed: an unclean leader election, or a disk that has come back as it was earlier. Another replica leads, in a new
epoch; with one replica the partition has no leader for a moment. Committed offsets stay where they were, so the lag is negative
after a lost tail.

What clients are answered then was compared with brokers of 3.4.0 and 4.1.0 whose partition was put back to an earlier copy
(tests/cluster/test_data_loss.py):

| request | answer |
| --- | --- |
| Fetch beyond the new end | OFFSET_OUT_OF_RANGE |
| Fetch, ListOffsets, OffsetForLeaderEpoch with the old leader epoch as the current one | FENCED_LEADER_EPOCH |
| OffsetForLeaderEpoch of the old epoch | the new end: here the logs part (KIP-320) |
| OffsetFetch, OffsetCommit beyond the end | as before: coordinators do not look at the log |
| Produce of an idempotent producer with its next sequence | OUT_OF_ORDER_SEQUENCE_NUMBER, as what came before it is lost |

A reader that is answered OFFSET_OUT_OF_RANGE goes by its `auto.offset.reset`; one that knows leader epochs (Java, librdkafka) sees
where the logs part. On a log that a coordinator keeps (`offsets(GROUP)`) a lost tail takes committed offsets and members back in time.
"""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    return "\n".join(f"| {' | '.join(line)} |" for line in [titles, ["---"] * len(titles), *map(list, rows)])


def render() -> str:
    """The whole of docs/faults.md."""
    observed = json.loads(OBSERVED.read_text())
    parts = [HEAD.format(lasts=LASTS_S), "## Stories\n", _stories(), "\n## States of a log partition\n"]
    parts += [_section(kind.name, f"{_capital(kind.story)}.", observed, _answers(kind)) for kind in KINDS.values()]
    parts += [LOST, "## Verdicts on requests\n"]
    parts += [_section(name, "", observed, "") for name in VERDICTS]
    return "\n".join(parts).rstrip() + "\n"


def _stories() -> str:
    rows = (
        [f"[{path.stem}](../scenarios/{path.name})", read(path).summary] for path in sorted(shipped().glob("*.yaml"))
    )
    known = (f"- {name}: {reason}." for name, reason in _known_breaks())
    return (
        table(["scenario", "story"], rows)
        + "\n\nEach of them holds with aiokafka, confluent-kafka and the Java client, but for what these clients do otherwise:\n\n"
        + "\n".join(known)
        + "\n"
    )


def _known_breaks() -> Iterator[tuple[str, str]]:
    from tests.scenarios.test_shipped import KNOWN_BREAKS

    for (name, _), reason in KNOWN_BREAKS.items():
        yield name, reason


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _answers(kind: Kind) -> str:
    rows = ANSWERS.get(kind.name)
    if rows is None:
        rows = _refused(SCALA, kind.append_error), _refused(JAVA, kind.append_error)
    old, new = rows
    return f"- **Coordinator of 3.x:** {old}\n- **Coordinator of 4.x:** {new}\n"


def _refused(policy: Policy, error: Err) -> str:
    commit, sync = policy.commit_errors.get(error, error).name, policy.sync_errors.get(error, error).name
    told = f"OffsetCommit and SyncGroup {commit}" if commit == sync else f"OffsetCommit {commit}, SyncGroup {sync}"
    return f"{told}, at once; the group of the SyncGroup begins its rebalance again."


def _section(name: str, story: str, observed: dict[str, Any], answers: str) -> str:
    lines = [f"### {name}\n", f"{story} {INCIDENTS[name]}".strip() + "\n"]
    if answers:
        lines.append(answers)
    for case in CASES[name]:
        seen = observed[f"{name}/{case.title}"]
        rows = [[title, *_row(seen[client])] for client, title in CLIENTS.items()]
        head = [
            "client",
            "is answered",
            "its application hears",
            "reads meanwhile",
            "asks for its coordinator",
            "works again",
        ]
        lines.append(f"*{_capital(case.title)}*\n\n{table(head, rows)}\n")
    return "\n".join(lines)


def _row(seen: dict[str, Any]) -> list[str]:
    hears = [f"{name}{_times(count)}" for name, count in seen["hears"].items()]
    notes = [_back(seen["back_ms"])]
    if seen["joined"]:
        notes.append("it joined again")
    if seen["reconnected"]:
        notes.append("over a new connection")
    if seen["read_again"]:
        notes.append("it read records twice")
    if seen["went_back"]:
        notes.append("committed offsets went back")
    return [
        "; ".join(hears) or "no error",
        ", ".join(seen["tells"]) or "nothing",
        "yes" if seen["read_meanwhile"] else "no",
        "yes" if seen["looked_up"] else "no",
        ", ".join(notes),
    ]


def _times(count: int) -> str:
    return " (thousands)" if count >= 1000 else " (again and again)" if count >= 30 else ""


def _back(ms: int | None) -> str:
    if ms is None:
        return f"**not within {BACK_WITHIN_S} s**"
    return f"within {ms // 1000 + 1} s"
