"""The contents of a journal: every kind of event and every field of it. docs/journal.md is generated from this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_wire.group_states import GROUP_STATES

__all__ = ["ALWAYS", "EVENTS", "PARTS", "STORIES", "Event", "problems"]

Event = dict[str, Any]

ALWAYS = {
    "seq": "number of the event, from 1 on, without a gap",
    "ts_ms": "the broker's clock, ms since 1970",
    "event": "which kind: one of the headings here",
}
"""The fields of every event."""

_LOG = "partition, as its directory is called: `__consumer_offsets-12`"
_TRANSACTION_LOG = "partition of the coordinator's log: `__transaction_state-12`"
_REQUEST = "number of the request, from 1 on, unique in the cluster"

EVENTS: dict[str, dict[str, str]] = {
    "connection": {
        "broker": "node id",
        "connection": "number of the connection, from 1 on, unique in the cluster",
        "peer": "the client's address",
        "action": "`opened` or `closed`",
        "host?": "in a simulation the name of the client's host: `app-1`",
    },
    "request": {
        "request": _REQUEST,
        "broker": "node id of the broker that was asked",
        "connection": "number of its connection",
        "api": "Kafka's name of the API: `OffsetCommit`",
        "version": "API version",
        "correlation_id": "as the client sent it",
        "client_id": "as the client sent it; null if it has none",
        "client_host": "as Kafka shows it: `/127.0.0.1`",
        "group?": "group id, where the request has one",
        "member?": "member id, where the request has one (the instance id where that alone is given)",
        "transactional_id?": "transactional id, where the request has one",
        "topics?": "partitions that it speaks of: `orders-0`; topics without partitions by their name",
        "body": "the decoded request, Kafka's field names in snake_case; bytes as `{base64: ..}`, decoded where their format is known",
    },
    "response": {
        "request": "number of the request that is answered",
        "api": "as in the request",
        "error?": "name of the first error other than NONE; the body has each partition's error",
        "took_ms": "between request and response on the broker's clock",
        "body": "the decoded response, as in the request; null where nothing is written (acks=0)",
        "action?": "`dropped`, `truncated`, `not answered`: what became of it where it did not go out whole",
    },
    "fault_added": {"fault": "number of the rule", "rule": "what it says", "hits": "0"},
    "fault": {
        "fault": "number of the rule",
        "rule": "what it says",
        "request?": "the request that it hit",
        "verdict": "what is done to it",
    },
    "fault_removed": {"fault": "number of the rule", "rule": "what it says", "hits": "how many requests it hit"},
    "group": {
        "log": _LOG,
        "group": "group id",
        "cause": "what changed it: see *cause*",
        "before": "the group before: see *snapshot*; null if it wasn't there",
        "after": "the group after; null if it is gone",
    },
    "epochs": {
        "log": _LOG,
        "group": "group id",
        "cause": "what changed it: see *cause*",
        "state": "`Empty`, `Assigning`, `Reconciling`, `Stable`; `Dead` when it was deleted or became a classic group",
        "group_epoch": "moves when what is to be shared out, or among whom, has changed",
        "target_epoch": "of which group epoch the assignment is that members are on their way to",
        "assignor": "which one made that, null before, and after a load",
        "size": "how many members it has",
        "members": "see *holder*, in the order in which they came; of more than 64 only those that the step changed",
        "topology?": "of a streams group (KIP-1071) `epoch`, and `problem`: `status` and `detail` where no task can be assigned, "
        "null where they can; null before a member has brought it",
    },
    "timer": {
        "log": _LOG,
        "timer": "`session`, `pending` (got MEMBER_ID_REQUIRED and did not rejoin), `rebalance`, `sync`; of consumer groups "
        "`revocation` (asked to revoke partitions), `join` (a classic member, asked to rejoin), `patterns` (regular "
        "expressions are looked at); `append` (offsets.commit.timeout.ms), `expire` (of offsets), `transactions` (that a loaded "
        "log left open); of transactions `timeout` (of an open one), `markers` (they are sent again), `append`, `expire` (of ids)",
        "group?": "whose group",
        "transactional_id?": "whose transaction",
        "member?": "whose session",
        "ticket?": "number of the write that waits for the log",
        "due_ms": "when it was due",
    },
    "append": {
        "log": _LOG,
        "requests": "the requests whose records these are",
        "kinds": "`offsets`, `group`, `transaction`, `tombstone`",
        "groups": "group ids",
        "transactional_ids?": "in `__transaction_state` the transactional ids",
        "records": "how many",
        "base_offset": "of the first record; -1 where nothing was written",
        "last_offset": "of the last record; -1 where nothing was written",
        "error?": "the log's error; absent where it took them",
        "high_watermark": "of the partition, after it: not above `last_offset` means that it waits to be committed",
    },
    "committed": {
        "log": _LOG,
        "high_watermark": "it moved here, later than the append",
        "groups": "groups whose writes are committed with it",
        "transactional_ids?": "in `__transaction_state` the transactional ids",
    },
    "offsets": {
        "log": _LOG,
        "group": "group id",
        "request?": "the commit that they came with",
        "producer_id?": "of a transaction that is committed: whose marker published them",
        "offsets": "partition -> committed offset; from now on OffsetFetch shows them",
    },
    "offsets_deleted": {
        "log": _LOG,
        "group": "group id",
        "reason": "`expired` (offsets.retention.minutes), `requested` (OffsetDelete, DeleteGroups), `topic deleted`, `unknown`",
        "request?": "the request that deletes them",
        "partitions": "`orders-0`; from now on OffsetFetch shows no offset of them",
    },
    "staged": {
        "log": _LOG,
        "group": "group id",
        "action": "`staged`: they wait for the marker of their transaction; `aborted`: it was an abort; `passed over`: it was a "
        "commit, and a later commit is stored",
        "producer_id": "whose transaction",
        "request?": "the TxnOffsetCommit that they came with",
        "offsets": "partition -> offset",
    },
    "transaction": {
        "log": _TRANSACTION_LOG,
        "transactional_id": "transactional id",
        "action": "`producer` (one has it, in a new epoch), `begun`, `added` (partitions), `prepared` (how it ends is decided), "
        "`completed` (every marker is written), `expired`, `refused` (the log did not take it: all is as before), `found` (by a "
        "coordinator that loads: begun, or decided)",
        "state": "Kafka's name of the state that the log has now, of `refused` that it has not",
        "ends?": "of `prepared`: `commit`, `abort`, `fenced` (aborted, as a producer came with the same id), `timed out`",
        "producer_id": "producer id; -1 of `expired`",
        "epoch": "its epoch",
        "partitions": "those in it; of `added` the new ones, of `completed` those that got a marker",
        "timeout_ms": "transaction.timeout.ms of its producer",
        "started_ms": "when it began, -1 before the first",
        "cause": "who asked for it: see *cause*",
        "error?": "of `refused`: the log's error",
    },
    "marker": {
        "log": _TRANSACTION_LOG,
        "transactional_id": "transactional id",
        "partition": "where it goes",
        "action": "`sent`, `written` (committed there), `failed` (it is sent again, but where somebody else has ended the transaction; "
        "reported once per error)",
        "tries?": "of `written` and `failed`: how often this coordinator has sent it",
        "ends": "`commit` or `abort`",
        "producer_id": "producer id",
        "epoch": "its epoch",
        "error?": "of `failed`",
    },
    "stable": {
        "log": "partition",
        "action": "`held`: read_committed readers wait for a transaction; `free`: for none",
        "last_stable_offset": "they get what is before it",
        "high_watermark": "what is committed to the log",
        "producer_id": "whose transaction they wait for; null for none",
        "epoch": "its epoch; null for none",
    },
    "share": {
        "log": "partition of data",
        "group": "share group",
        "action": "`loaded`: its leader has the group's state from the share coordinator; `not loaded`: it did not receive it; "
        "`dropped`: it no longer keeps the partition's state for the group, as there is another leader, no member reads, or the share "
        "coordinator has refused",
        "leader_epoch": "of the partition, as that leader has it",
        "start_offset?": "the earliest record that isn't done with",
        "error?": "the error that members get",
    },
    "delivery": {
        "log": "partition of data",
        "group": "share group",
        "action": "`acquired`; what the member said: `accepted`, `released`, `rejected`, `gap`, `renewed`; `expired`: its lock ended; "
        "`given back`: its share session did; `aborted`: they are of an aborted transaction; `deleted`: they lie below the start of "
        "the log; `dead letter`: a letter of them is written, or given up; `refused`: the share coordinator "
        "did not take it, and all is as before",
        "member": "the member that had or has them; null for none",
        "first": "offset of the first record",
        "last": "offset of the last record, which is one of them",
        "deliveries": "how often each of them has been delivered, with this delivery",
        "becomes": "`acquired`, `available`, `acknowledged`, `archiving` (a dead letter is to be "
        "written), `archived`: what they are now. Released or expired and `archived`: "
        "they were delivered as often as the group allows",
        "start_offset": "the earliest record of the partition that isn't done with, when that is settled",
        "until_ms?": "of `acquired` and `renewed`: when the lock ends",
        "request?": "the ShareFetch or ShareAcknowledge that it came with",
        "said?": "of `refused`: what it would have been",
        "to?": "of `dead letter`: the partition that it was written to",
        "error?": "of `refused`: the error that the member gets; of `dead letter`: why it was not written",
    },
    "state": {
        "log": "partition",
        "state": "`stuck`, `loading`, ...: see faults.md",
        "args": "its arguments",
        "action": "`set` or `healed`",
    },
    "leader": {
        "log": "partition",
        "leader": "node id, -1 for none",
        "epoch": "leader epoch",
        "reason": "why, in words",
    },
    "lost": {
        "log": "partition",
        "part": "`tail`: a leader has come that does not have the last records; `head`: one that does not have the first",
        "first": "offset of the first record that is lost",
        "last": "offset of the last one",
    },
    "broker": {"broker": "node id", "action": "`down`, `up`, `restarted`"},
    "cluster": {
        "action": "`killed`: the process of all brokers; `power lost`: on all their machines; `started`: again, from their disk",
        "process": "number of the process, from 1 on",
        "synced?": "of `power lost`: whether everything acknowledged was on the disk",
    },
    "load": {
        "log": _LOG,
        "action": "`started`, `finished`, `failed`, `unloaded`",
        "groups?": "how many groups it holds",
        "transactional_ids?": "how many transactional ids it holds",
        "records?": "how many records were read",
        "skipped?": "how many of them are of kinds that a classic coordinator doesn't know",
        "error?": "what stopped it",
    },
    "clock": {
        "action": "`advance`",
        "ms": "how far",
        "expire": "members whose sessions were not kept fresh",
    },
    "order": {
        "action": "`held`, `released`, `diverged`",
        "request?": "which request",
        "text": "what it was about",
    },
    "client": {
        "client": "name of a scenario's client",
        "says": "`started`, `exited`, or what its program reported: `assigned`, `revoked`, `lost`, `read`, `committed`, "
        "`commit_failed`, `error`, `left`; in transactions `begun`, `aborted`, `fenced`",
        "text": "the error in its words, else empty",
        "details": "further details: `partitions`, `tasks`, `log` and `offset`, `offsets`, `code`",
    },
    "mark": {"text": "a note of the user, or a step of a scenario"},
}
"""Every kind of event: field -> what it is. A name that ends in ``?`` may be absent. ``ALWAYS`` comes on top."""

STORIES = {
    "connection": "A client connected or left.",
    "request": "A request was read. Its `request` number goes through all that follows from it.",
    "response": "It was answered, or lost its answer.",
    "fault_added": "A rule on requests was installed.",
    "fault": "A rule hit.",
    "fault_removed": "A rule is gone.",
    "group": "A step of the coordinator changed a classic group.",
    "epochs": "A step of the coordinator changed a group by epochs (KIP-848, KIP-932, KIP-1071), as far as the log has it.",
    "timer": "One of the coordinator's timers fired.",
    "append": "A coordinator appended records to its log: `__consumer_offsets`, `__transaction_state`.",
    "committed": "The high watermark moved after the append: what waited for it goes on.",
    "offsets": "Offsets of a group are published.",
    "offsets_deleted": "Committed offsets of a group are deleted.",
    "staged": "Offsets of a group are in a transaction, or are dropped with it.",
    "transaction": "The log has another state of a transactional id.",
    "marker": "What becomes of the marker that ends a transaction in a partition.",
    "stable": "The last stable offset of a partition of data is held by a transaction, by another one, or by none any more.",
    "share": "A partition's leader begins or ceases to hold it for a share group.",
    "delivery": "Records of a share group changed owner, or have no owner any more.",
    "state": "A lasting state of a log partition began or ended.",
    "leader": "A partition has another leader.",
    "lost": "A log lost records that were committed: an unclean election, or a disk as it was earlier.",
    "broker": "A broker went or came.",
    "cluster": "All brokers of a simulation went at once, or came again: nothing is left of them but their disk.",
    "load": "A coordinator reads its partition, or gives it away.",
    "clock": "The user moved the clock.",
    "order": "A request was held back, let go, or came when another one was expected.",
    "client": "A client of a scenario reported something.",
    "mark": "A note.",
}
"""Kind of event -> its description."""

PARTS: dict[str, dict[str, str]] = {
    "snapshot": {
        "state": ", ".join(f"`{state}`" for state in GROUP_STATES),
        "generation": "generation id",
        "protocol_type?": "`consumer`; of other users of groups their own: `connect`, `sr`; null before",
        "protocol": "the assignor that was voted, null before",
        "leader": "member id of the leader, null without members",
        "size": "how many members it has",
        "members": "see *member*, in the order in which they came; of more than 64 only those that the step changed",
        "pending": "member ids that got MEMBER_ID_REQUIRED and have not rejoined",
    },
    "member": {
        "member": "member id",
        "client_id": "as the client sent it",
        "client_host": "as Kafka shows it",
        "instance": "group.instance.id, null for a dynamic member",
        "waits": "`JoinGroup` or `SyncGroup`, where that request of it is parked; else null",
        "session_timeout_ms": "how long it may be silent",
        "rebalance_timeout_ms": "how long it may take to rejoin",
        "topics": "what a consumer subscribes to, null where that can't be read, and of other protocol types",
        "assignment": "topic -> partitions of a consumer, null where it has none or can't be read, and of other protocol types",
        "worker?": "of a worker of Connect: `url`, `config_offset`, `connectors` and `tasks` (connector -> numbers) that it has; null "
        "where its metadata can't be read",
    },
    "holder": {
        "member": "member id",
        "client_id": "as the client sent it",
        "client_host": "as Kafka shows it",
        "instance": "group.instance.id, null for a dynamic member",
        "protocol": "`consumer`, `classic`, `share` or `streams`: which one it speaks",
        "epoch": "its member epoch; -2 for a static member that has left for now",
        "session_timeout_ms": "how long it may be silent",
        "rebalance_timeout_ms": "how long it may take to give something up",
        "topics": "what it reads",
        "assignment": "topic -> partitions that it has",
        "gives_up": "topic -> partitions that it was asked to revoke and has not confirmed",
        "lacks": "topic -> partitions that it should have and has not",
        "process?": "of a member of a streams group the process id",
        "topology_epoch?": "of a member of a streams group the epoch of the topology that it has",
        "tasks?": "of a member of a streams group `active`, `standby`, `warm-up` -> ids of the tasks that it has: `0_3`",
        "tasks_given_up?": "the same for tasks that it was asked to revoke and has not confirmed",
        "tasks_lacking?": "the same of the tasks that it should have and has not",
    },
    "cause": {
        "kind": "`request`, `timer`, `append` (the log refused a write), `committed`, `topics` (some were deleted), `marker` (one "
        "is in the log), `markers` (all of a transaction are written), `load`, `unload`",
        "request?": "number of the request",
        "api?": "its API",
        "member?": "whose request, or whose timer",
        "timer?": "which timer, as in *timer*",
        "group?": "whose timer",
        "error?": "the log's error",
        "high_watermark?": "what is committed now",
    },
}
"""The objects inside of events."""


def problems(event: Mapping[str, Any]) -> list[str]:
    """Where an event does not keep to the vocabulary: unknown kinds and fields, missing ones. [] where it does."""
    kind = event.get("event")
    known = EVENTS.get(str(kind))
    if known is None:
        return [f"no event is called {kind!r}"]
    result = _fields(str(kind), event, {**ALWAYS, **known})
    if kind == "transaction":
        result += _fields("cause", event.get("cause"), PARTS["cause"])
    if kind == "epochs":
        result += _fields("cause", event.get("cause"), PARTS["cause"])
        for member in event.get("members", ()):
            result += _fields("holder", member, PARTS["holder"])
    if kind == "group":
        result += _fields("cause", event.get("cause"), PARTS["cause"])
        for name in ("before", "after"):
            snapshot = event.get(name)
            if snapshot is not None:
                result += _fields(f"{name}: snapshot", snapshot, PARTS["snapshot"])
                for member in snapshot.get("members", ()):
                    result += _fields(f"{name}: member", member, PARTS["member"])
    return result


def _fields(what: str, value: object, known: Mapping[str, str]) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{what}: {value!r} is not an object"]
    required = {name for name in known if not name.endswith("?")}
    names = required | {name.rstrip("?") for name in known}
    unknown = [f"{what}: no field is called {name!r}" for name in value if name not in names]
    return unknown + [f"{what}: {name} is missing" for name in known if name in required and name not in value]
