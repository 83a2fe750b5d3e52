"""docs/faults.md: every fault, the incident behind it, the errors of the coordinator, and how each client reacted.

``render()`` puts it together out of broker_sim/faults (conditions.py, rules.py), the coordinator's own tables, the shipped scenarios
and observed.json, which `python -m tests.scenarios.observe` writes. `make docs` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from broker_sim.coordinator.policy import JAVA, SCALA, Policy
from broker_sim.faults.conditions import KINDS, PartitionFaultKind
from broker_sim.faults.rules import VERDICTS
from broker_sim.scenario.commands import shipped
from broker_sim.scenario.model import read
from kafka_wire.errors import Err
from tests.scenarios.cases import BACK_WITHIN_S, CASES, LASTS_S

OBSERVED = Path(__file__).with_name("observed.json")
CLIENTS = {"aiokafka": "aiokafka 0.14", "confluent": "confluent-kafka 2.16", "java-4.1": "Java 4.1"}

INCIDENTS = {
    "stuck": "A follower hangs (full disk, frozen virtual machine, dropped packets) and stays in the ISR, because "
    "`replica.lag.time.max.ms` is long or the controller can't shrink the ISR. Requests with acks=all wait; none is refused.",
    "under_min_isr": "Replicas have left the ISR, fewer than `min.insync.replicas` remain: brokers down during maintenance while "
    "another one failed.",
    "slow": "A slow disk, a follower in another region, an overloaded broker.",
    "storage_error": "The disk of a log directory fails; the broker takes the directory offline and serves its others.",
    "full": "The disk fills up. Existing records can be read.",
    "readonly": "The file system is remounted read-only after an I/O error.",
    "too_large": "`max.message.bytes` of `__consumer_offsets` was lowered, or an assignment or a commit has outgrown it.",
    "not_leader": "The leader has moved and metadata is out of date: the seconds of a controller failover.",
    "fenced": "A zombie leader: its epoch has ended, and it has not been notified.",
    "no_leader": "All replicas are down, or the last one in the ISR is, without unclean leader election.",
    "loading": "A broker has just become the coordinator, after a restart or a move, and loads its offsets partition. If the log was "
    "not compacted for a long time, loading takes minutes.",
    "error": "Any error of a broker: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, REBALANCE_IN_PROGRESS.",
    "error_after": "The request was applied and the response reports an error: a commit that timed out and is stored.",
    "delay": "A broker with a long request queue: the request waits before it is handled.",
    "reply_delay": "A slow network path to the client: handled at once, response delayed.",
    "hang": "A broker that accepts requests and never responds: a deadlock, a frozen disk, a firewall that lost the connection.",
    "drop": "The connection is reset before the request is handled: a broker crash, a load balancer's idle timeout.",
    "drop_after": "The connection is reset after the request was handled. The client can't know whether it was.",
    "truncate": "The connection ends within a response.",
    "split": "A response arrives in two TCP segments; the client must assemble it.",
    "throttle_ms": "A quota: the response says how long the client must pause, and the broker reads nothing from the connection "
    "meanwhile (KIP-219).",
}
"""Fault -> the incident on a real cluster."""

ANSWERS = {
    "stuck": (
        "OffsetCommit fails after `offsets.commit.timeout.ms` with REQUEST_TIMED_OUT, SyncGroup after the same time with "
        "REBALANCE_IN_PROGRESS: a rebalancing group does not become Stable. Heartbeat, JoinGroup and LeaveGroup work. A commit "
        "that timed out stays in the log, but this coordinator never returns it, not even after healing; the next one that loads "
        "the log does.",
        "OffsetCommit, SyncGroup, and every response that depends on them (Heartbeat, LeaveGroup, a deferred JoinGroup) fail after the "
        "same time with COORDINATOR_NOT_AVAILABLE, an OffsetFetch with require_stable with NOT_COORDINATOR. Error responses are not "
        "delayed. After healing, OffsetFetch returns commits that had timed out.",
    ),
    "under_min_isr": (
        "OffsetCommit and SyncGroup fail at once with COORDINATOR_NOT_AVAILABLE, and nothing is written. A commit that was pending "
        "when the ISR shrank gets the same error, but stays in the log.",
        "As `stuck`, in every measured case: written, not committed, failed after the timeout.",
    ),
    "slow": ("As usual, delayed.", "As usual, delayed; Heartbeats that follow a commit too."),
    "no_leader": (
        "FindCoordinator gets COORDINATOR_NOT_AVAILABLE, the former coordinator responds with NOT_COORDINATOR.",
        "The same.",
    ),
    "loading": (
        "COORDINATOR_LOAD_IN_PROGRESS; SyncGroup REBALANCE_IN_PROGRESS, Heartbeat NONE.",
        "COORDINATOR_LOAD_IN_PROGRESS; Heartbeat NONE.",
    ),
}
"""State of the offsets partition -> what the coordinator of 3.x and of 4.x answers, where it is no error of an append."""

ARGUMENTS = {
    "isr_shrinks_after": "the time after which the followers leave the ISR",
    "latency": "the delay of each append until it is committed",
    "jitter": "a random additional delay up to this",
    "free_bytes": "the remaining space in bytes (0)",
}
"""Argument of a state -> its meaning."""

DATA = {
    "stuck": "Produce with acks=all gets REQUEST_TIMED_OUT after the producer's timeout, and its records are in the log; with acks=1 "
    "it succeeds. Fetch returns records up to the high watermark, so no new ones.",
    "under_min_isr": "Produce with acks=all gets NOT_ENOUGH_REPLICAS, with acks=1 it succeeds. Fetch returns no new records.",
    "slow": "Produce with acks=all succeeds late, and Fetch returns the records late.",
    "fenced": "Produce gets FENCED_LEADER_EPOCH, and so does a Fetch with a leader epoch (librdkafka, Java).",
    "no_leader": "Metadata has LEADER_NOT_AVAILABLE for the partition, Produce gets NOT_LEADER_OR_FOLLOWER, a Fetch with a leader "
    "epoch FENCED_LEADER_EPOCH.",
}
"""State of a topic's partition -> the responses to Produce and Fetch, where they are not the state's own errors."""

HEAD = """\
# Faults

For authors of tests and scenarios: every fault, the corresponding incident on a real cluster, the coordinator's errors, and
how each client reacts. `make docs` writes this page; `python -m tests.scenarios.observe` measures the clients again.

There are two kinds of faults. A *partition state* is a lasting condition of one log partition: of a topic, of
`__consumer_offsets` (`offsets(GROUP)` is the partition that stores a group) or of `__transaction_state` (`transactions(ID)`). A
*request rule* acts on requests that match its selectors: it answers with an error, delays, drops ([Request actions](#request-actions)).
A state lasts until it is cleared, a rule until it is removed or used up.

| | partition state | request rule |
| --- | --- | --- |
| Python | `kafka.group("billing").offsets_log.stuck(for_="40s")`, `kafka.log("orders", 0).slow("200ms", jitter="50ms")` | \
`kafka.fault("OffsetCommit", group="billing", error="NOT_COORDINATOR", times=3)` |
| command line | `broker-sim state 'offsets(billing)' stuck --for 40s` | `broker-sim fault add OffsetCommit group=billing \
error=NOT_COORDINATOR times=3` |
| HTTP | `PUT /v1/logs/offsets(billing)/state`, `{{"state": "stuck", "for": "40s"}}` | `POST /v1/faults`, `{{"api": \
"OffsetCommit", "group": "billing", "error": "NOT_COORDINATOR", "times": 3}}` |
| scenario file | `do: {{log: offsets(billing), state: stuck, for: 40s}}` | `do: {{fault: {{api: OffsetCommit, group: billing, \
error: NOT_COORDINATOR, times: 3}}}}` |

Selectors and limits of rules (`group`, `client_id`, `topic`, `times`, `nth`, `probability`, ...):
[keys of rules and holds](api.md#keys-of-rules-and-holds). A rule that never matched is an error when it is removed, and at the end
of a test, unless it says `must_hit=False`.

Any string hashes to a partition, so a typo in `offsets(billing)` would break another group. On the command line and over HTTP it is
therefore refused until a group `billing` exists; `--ahead`, over HTTP `"ahead": true`, allows it earlier.

## Columns of the client tables

Tables under each fault show how clients react. One consumer reads a topic with two partitions; its application commits synchronously
after every poll. The fault lasts {lasts} s, `offsets.commit.timeout.ms` is 1 s, the request timeout 3 s. The clients ran on the
simulator.

| column, note | meaning |
| --- | --- |
| error on the wire | errors in the responses to this client; (repeatedly): 30 times or more, (thousands): 1000 or more, \
without a pause between retries |
| exception in the application | what its synchronous commit or its poll raised; none: the client retried by itself |
| keeps consuming | the application received records more than a second after the fault began; it receives none while it waits \
for a commit |
| looks up its coordinator | the client sent FindCoordinator during the fault |
| first commit after healing | time from the end of the fault to the first commit that the application knows to have succeeded; \
new connection: the client reconnected; rejoined: it sent JoinGroup |

The coordinator's errors were measured on Apache Kafka 3.4.0 and 4.1.0 for `stuck`, `under_min_isr`, `too_large` and a moved
coordinator (tests/stuck, tests/conformance); for the other states they follow from Kafka's error tables.
"""


LOST = """\
## Loss of committed records

`kafka.log("orders", 0).lose_tail(40)` and `.lose_head(40)` (operations `log.lose_tail` and `log.lose_head`) delete committed
records, as an unclean leader election or a disk restored from a backup does. Another replica becomes the leader in a new epoch;
with one replica the partition has no leader for a moment. Committed offsets are unchanged, so the lag is negative after a lost
tail.

The responses equal those of 3.4.0 and 4.1.0 brokers whose partition was restored from an earlier copy
(tests/cluster/test_data_loss.py):

| request | response |
| --- | --- |
| Fetch beyond the new end | OFFSET_OUT_OF_RANGE |
| Fetch, ListOffsets, OffsetForLeaderEpoch with the old epoch as current leader epoch | FENCED_LEADER_EPOCH |
| OffsetForLeaderEpoch for the old epoch | the new end: the point of divergence (KIP-320) |
| OffsetFetch, OffsetCommit beyond the end | success: coordinators don't read the log |
| Produce of an idempotent producer with its next sequence | OUT_OF_ORDER_SEQUENCE_NUMBER: its previous batches are lost |

A consumer that gets OFFSET_OUT_OF_RANGE applies its `auto.offset.reset`; clients with leader epoch support (Java, librdkafka)
detect the point of divergence. In a coordinator's log (`offsets(GROUP)`) a lost tail restores earlier committed offsets and
members.
"""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    return "\n".join(f"| {' | '.join(line)} |" for line in [titles, ["---"] * len(titles), *map(list, rows)])


def render() -> str:
    """The whole of docs/faults.md."""
    observed = json.loads(OBSERVED.read_text())
    parts = [HEAD.format(lasts=LASTS_S), "## Scenarios\n", _stories(), "\n## Partition states\n"]
    parts += [
        _section(kind.name, f"{_capital(kind.description)}.", observed, _answers(kind)) for kind in KINDS.values()
    ]
    parts += [LOST, "## Request actions\n"]
    parts += [_section(name, "", observed, "") for name in VERDICTS]
    return "\n".join(parts).rstrip() + "\n"


def _stories() -> str:
    rows = (
        [f"[{path.stem}](../scenarios/{path.name})", read(path).summary] for path in sorted(shipped().glob("*.yaml"))
    )
    known = (f"- {name}: {reason}." for name, reason in _known_breaks())
    return (
        "Included scenario files with faults; `broker-sim run NAME` runs one, `broker-sim scenario show NAME` prints it "
        "([scenarios.md](scenarios.md)).\n\n"
        + table(["scenario", "incident"], rows)
        + "\n\nAll expectations of each scenario hold with aiokafka, confluent-kafka and the Java client, with these exceptions:\n\n"
        + "\n".join(known)
        + "\n"
    )


def _known_breaks() -> Iterator[tuple[str, str]]:
    from tests.scenarios.test_shipped import KNOWN_BREAKS

    for (name, _), reason in KNOWN_BREAKS.items():
        yield name, reason


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _answers(kind: PartitionFaultKind) -> str:
    rows = ANSWERS.get(kind.name)
    if rows is None:
        rows = _refused(SCALA, kind.append_error), _refused(JAVA, kind.append_error)
    old, new = rows
    lines = [f"- **Coordinator of 3.x:** {old}", f"- **Coordinator of 4.x:** {new}"]
    if kind.arguments:
        lines.insert(0, f"- **Arguments:** {', '.join(f'`{name}`, {ARGUMENTS[name]}' for name in kind.arguments)}.")
    if not kind.coordinators_only:
        lines.append(f"- **Producers and consumers:** {_data_responses(kind)}")
    return "\n".join(lines) + "\n"


def _data_responses(kind: PartitionFaultKind) -> str:
    """The responses to Produce and Fetch for a partition in this state."""
    if kind.name in DATA:
        return DATA[kind.name]
    fetch = (
        f"Fetch gets {kind.read_error.name}"
        if kind.read_error is not Err.NONE
        else "Fetch returns the existing records"
    )
    return f"Produce gets {kind.append_error.name}, {fetch}."


def _refused(policy: Policy, error: Err) -> str:
    commit, sync = policy.commit_errors.get(error, error).name, policy.sync_errors.get(error, error).name
    errors = f"OffsetCommit and SyncGroup {commit}" if commit == sync else f"OffsetCommit {commit}, SyncGroup {sync}"
    return f"{errors}, at once; after a failed SyncGroup the group rebalances again."


def _section(name: str, story: str, observed: dict[str, Any], answers: str) -> str:
    lines = [f"### {name}\n", f"{story} {INCIDENTS[name]}".strip() + "\n"]
    if answers:
        lines.append(answers)
    for case in CASES[name]:
        seen = observed[f"{name}/{case.title}"]
        rows = [[title, *_row(seen[client])] for client, title in CLIENTS.items()]
        head = [
            "client",
            "error on the wire",
            "exception in the application",
            "keeps consuming",
            "looks up its coordinator",
            "first commit after healing",
        ]
        lines.append(f"*{_capital(case.title)}*\n\n{table(head, rows)}\n")
    return "\n".join(lines)


def _row(seen: dict[str, Any]) -> list[str]:
    hears = [f"{name}{_times(count)}" for name, count in seen["hears"].items()]
    notes = [_back(seen["back_ms"])]
    if seen["joined"]:
        notes.append("rejoined")
    if seen["reconnected"]:
        notes.append("new connection")
    if seen["read_again"]:
        notes.append("records consumed twice")
    if seen["went_back"]:
        notes.append("committed offsets decreased")
    return [
        "; ".join(hears) or "no error",
        ", ".join(seen["tells"]) or "none",
        "yes" if seen["read_meanwhile"] else "no",
        "yes" if seen["looked_up"] else "no",
        ", ".join(notes),
    ]


def _times(count: int) -> str:
    return " (thousands)" if count >= 1000 else " (repeatedly)" if count >= 30 else ""


def _back(ms: int | None) -> str:
    if ms is None:
        return f"**not within {BACK_WITHIN_S} s**"
    return f"within {ms // 1000 + 1} s"
