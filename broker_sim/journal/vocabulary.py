"""The contents of a journal: every kind of event and every field of it. docs/journal.md is generated from this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_wire.group_states import GROUP_STATES

__all__ = [
    "ALWAYS",
    "DESCRIPTIONS",
    "EVENTS",
    "PARTS",
    "Event",
    "problems",
]

Event = dict[str, Any]

ALWAYS = {
    "seq": "number of the event, from 1 on, without a gap",
    "ts_ms": "the broker's clock, ms since 1970",
    "event": "kind of the event: one of the headings below",
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
        "action": "`opened`; `refused`: the client can't be served (`reason`), and its connection is closed; `closed`",
        "host?": "in a simulation the name of the client's host: `app-1`",
        "listener?": "of `refused`: the name of the listener",
        "client_id?": "of `refused`: as the client sent it; absent before its first request",
        "user?": "of `refused` at a SASL listener: the user that the client authenticated as, or tried to",
        "mechanism?": "of `refused` at a SASL listener: the SASL mechanism that the client asked for",
        "reason?": "of `refused`, and of `closed` if the broker closed it: why; a failed authentication or TLS handshake, an expired "
        "session, an invalid or too large frame, `idle for` (connections.max.idle.ms)",
    },
    "request": {
        "request": _REQUEST,
        "broker": "node id of the broker that received it",
        "connection": "number of its connection",
        "api": "Kafka's name of the API: `OffsetCommit`",
        "version": "API version",
        "correlation_id": "as the client sent it",
        "client_id": "as the client sent it; null if it has none",
        "client_host": "as Kafka shows it: `/127.0.0.1`",
        "group?": "group id, if the request has one",
        "member?": "member id, or else the group instance id, if the request has one",
        "transactional_id?": "transactional id, if the request has one",
        "topics?": "partitions in the request: `orders-0`; topics without partitions by their name",
        "body": "the decoded request, Kafka's field names in snake_case; bytes as `{base64: ..}`, decoded where their format is known",
    },
    "response": {
        "request": "number of the request that it belongs to",
        "api": "as in the request",
        "error?": "name of the first error other than NONE; the body has each partition's error",
        "took_ms": "between request and response on the broker's clock",
        "body": "the decoded response, as in the request; null if no response is sent (acks=0)",
        "action?": "`dropped`, `truncated`, `not answered`: why the response was not sent completely",
    },
    "fault_added": {"fault": "number of the rule", "rule": "the rule as text", "hits": "0"},
    "fault": {
        "fault": "number of the rule",
        "rule": "the rule as text",
        "request?": "number of the matched request",
        "verdict": "the action of the rule",
    },
    "fault_removed": {"fault": "number of the rule", "rule": "the rule as text", "hits": "number of matched requests"},
    "group": {
        "log": _LOG,
        "group": "group id",
        "cause": "what changed it: see *cause*",
        "before": "the group before: see *snapshot*; null if it did not exist",
        "after": "the group after; null if it is deleted",
    },
    "epochs": {
        "log": _LOG,
        "group": "group id",
        "cause": "what changed it: see *cause*",
        "state": "`Empty`, `Assigning`, `Reconciling`, `Stable`; `Dead` if it was deleted or converted to a classic group",
        "group_epoch": "group epoch: increases when members, subscriptions or topic metadata change",
        "target_epoch": "assignment epoch: the group epoch of the target assignment",
        "assignor": "assignor of the target assignment; null before the first, and after a load",
        "size": "number of members",
        "members": "see *holder*, in the order of joining; of more than 64 members only those that changed",
        "topology?": "of a streams group (KIP-1071): `epoch`, and `problem` (`status` and `detail` if no task can be assigned, else "
        "null); null before a member has sent it",
    },
    "timer": {
        "log": _LOG,
        "timer": "`session`, `pending` (got MEMBER_ID_REQUIRED and did not rejoin), `rebalance`, `sync`; of consumer groups "
        "`revocation` (asked to revoke partitions), `join` (a classic member, asked to rejoin), `unsynced` (a classic "
        "member that has joined), `patterns` (regular expressions are resolved again), of streams groups `initial` "
        "(group.streams.initial.rebalance.delay.ms); `append` (offsets.commit.timeout.ms), `unwritable` (records that "
        "cannot be encoded are refused), "
        "`expire` (of offsets), `transactions` (left open by a loaded log); of transactions `timeout` (transaction.timeout.ms), "
        "`markers` (sent again), `append`, `expire` (of ids)",
        "group?": "group id",
        "transactional_id?": "transactional id",
        "member?": "member id",
        "ticket?": "number of the pending append",
        "due_ms": "when it was due",
    },
    "append": {
        "log": _LOG,
        "requests": "numbers of the requests that the records belong to",
        "kinds": "`offsets`, `group`, `transaction`, `tombstone`",
        "groups": "group ids",
        "transactional_ids?": "in `__transaction_state` the transactional ids",
        "records": "number of records",
        "base_offset": "offset of the first record; -1 if nothing was written",
        "last_offset": "offset of the last record; -1 if nothing was written",
        "error?": "the log's error; absent if the records were appended",
        "high_watermark": "high watermark after the append; if it is not above `last_offset`, the append is not committed yet",
    },
    "committed": {
        "log": _LOG,
        "high_watermark": "the new high watermark",
        "groups": "groups whose writes are committed with it",
        "transactional_ids?": "in `__transaction_state` the transactional ids",
    },
    "offsets": {
        "log": _LOG,
        "group": "group id",
        "request?": "number of the OffsetCommit",
        "producer_id?": "of a committed transaction: the producer of its marker",
        "offsets": "partition -> committed offset, returned by OffsetFetch from now on",
    },
    "offsets_deleted": {
        "log": _LOG,
        "group": "group id",
        "reason": "`expired` (offsets.retention.minutes), `requested` (OffsetDelete, DeleteGroups), `topic deleted`, `unknown`",
        "request?": "number of the request that deleted them",
        "partitions": "partitions, as `orders-0`, for which OffsetFetch returns no offset from now on",
    },
    "pending_offsets": {
        "log": _LOG,
        "group": "group id",
        "action": "`pending`: until the marker of their transaction; `aborted`: the transaction was aborted; `superseded`: it was "
        "committed, and a later commit is stored",
        "producer_id": "producer id of the transaction",
        "request?": "number of the TxnOffsetCommit",
        "offsets": "partition -> offset",
    },
    "transaction": {
        "log": _TRANSACTION_LOG,
        "transactional_id": "transactional id",
        "action": "`producer` (InitProducerId returned a new epoch), `begun`, `added` (partitions), `prepared` (commit or abort is "
        "decided), `completed` (every marker is written), `expired`, `refused` (the append failed, nothing changed), `found` (by a "
        "loading coordinator: begun, or decided)",
        "state": "Kafka's name of the new state; of `refused` the state that was not stored",
        "result?": "of `prepared`: `commit`, `abort`, `fenced` (aborted by an InitProducerId for the same id), `timed out`",
        "producer_id": "producer id; -1 of `expired`",
        "epoch": "its epoch",
        "partitions": "partitions of the transaction; of `added` the new ones, of `completed` those with a marker",
        "timeout_ms": "transaction.timeout.ms of its producer",
        "started_ms": "start of the transaction, ms since 1970; -1 before the first",
        "cause": "see *cause*",
        "error?": "of `refused`: the log's error",
    },
    "marker": {
        "log": _TRANSACTION_LOG + "; of `sent by hand` the partition of the marker",
        "transactional_id?": "transactional id; absent of `sent by hand`",
        "partition": "partition of the marker",
        "action": "`sent`, `written` (committed there), `failed` (it is sent again, unless the transaction was ended otherwise; "
        "reported once per error), `sent by hand` (by the test, the command line or HTTP, without a coordinator)",
        "tries?": "of `written` and `failed`: number of attempts of this coordinator",
        "result": "`commit` or `abort`",
        "producer_id": "producer id",
        "epoch": "its epoch",
        "error?": "of `failed`",
    },
    "last_stable_offset": {
        "log": "partition",
        "action": "`blocked`: an open transaction holds it; `unblocked`: none does",
        "last_stable_offset": "the last stable offset",
        "high_watermark": "the high watermark",
        "producer_id": "producer id of that transaction; null for none",
        "epoch": "its epoch; null for none",
    },
    "share_partition": {
        "log": "partition of data",
        "group": "share group",
        "action": "`loaded`: its leader has read the group's state from the share coordinator; `not loaded`: that failed; "
        "`unloaded`: the leader discarded the state: another leader, no member left, or an error of the share coordinator",
        "leader_epoch": "leader epoch of the partition at that leader",
        "start_offset?": "share partition start offset: the earliest record in flight or available",
        "log_start_offset?": "of `loaded`: the log start offset",
        "max_record_locks?": "of `loaded`: group.share.partition.max.record.locks, the number of records in flight at most",
        "reset?": "of `loaded`: share.auto.offset.reset, by which the group begins where the share coordinator has no start offset",
        "error?": "the error in the members' responses",
    },
    "delivery": {
        "log": "partition of data",
        "group": "share group",
        "action": "`acquired`; acknowledged by the member as `accepted`, `released`, `rejected`, `gap`, `renewed`; `expired`: the lock "
        "ended; `session closed`: the share session was closed; `aborted`: records of an aborted transaction; `deleted`: records below "
        "the start of the log; `dead letter`: written to the dead letter queue, or given up; `refused`: the share coordinator returned "
        "an error, nothing changed",
        "member": "member id of the present or former owner; null for none",
        "first": "offset of the first record",
        "last": "offset of the last record (inclusive)",
        "deliveries": "delivery count of each record, this delivery included",
        "becomes": "`acquired`, `available`, `acknowledged`, `archiving` (a dead letter is to be "
        "written), `archived`: the new state. Released or expired records become `archived` at the group's limit of deliveries",
        "start_offset": "share partition start offset after this change",
        "log_start_offset?": "of `acquired`: the log start offset",
        "until_ms?": "of `acquired` and `renewed`: end of the lock, ms since 1970",
        "request?": "number of the ShareFetch or ShareAcknowledge",
        "refused_action?": "of `refused`: the action that failed",
        "to?": "of `dead letter`: the partition that it was written to",
        "error?": "of `refused`: the error in the member's response; of `dead letter`: why it was not written",
    },
    "topic": {
        "topic": "name of the topic",
        "action": "`created`, `partitions added`, `deleted`",
        "partitions": "number of its partitions now; 0 of `deleted`",
        "partitions_before": "number of its partitions before; 0 of `created`",
        "request?": "number of the request that did it; absent if the test, a command or HTTP did",
        "api?": "the API of this request",
        "client_id?": "the client of this request; null if it has no name",
        "automatic?": "of `created`: true if no CreateTopics asked for it: a Metadata request named a missing topic "
        "(auto.create.topics.enable), an internal topic was needed",
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
    "data_loss": {
        "log": "partition",
        "part": "`tail`: the new leader lacks the last records; `head`: it lacks the first ones",
        "first": "offset of the first lost record",
        "last": "offset of the last lost record",
    },
    "broker": {
        "broker": "node id",
        "action": "`down`, `up`, `restarted`; `advertises`: clients receive another address from now on",
        "listener?": "of `advertises`: the name of the listener",
        "address?": "of `advertises`: host and port, `localhost:32768`",
    },
    "cluster": {
        "action": "`killed`: the process of all brokers; `power lost`: all their machines; `started`: again from their disk",
        "process": "number of the process, from 1 on",
        "synced?": "of `power lost`: whether everything acknowledged was on the disk",
    },
    "load": {
        "log": _LOG,
        "action": "`started`, `finished`, `failed`, `unloaded`",
        "groups?": "number of groups",
        "transactional_ids?": "number of transactional ids",
        "records?": "number of records read",
        "skipped?": "number of records of types that a classic coordinator does not support",
        "error?": "the error that ended it",
    },
    "clock": {
        "action": "`advance`",
        "ms": "by how many ms",
        "expire": "members whose sessions were not kept alive",
    },
    "order": {
        "action": "`held`, `released`, `diverged`",
        "request?": "number of the request",
        "text": "the request as text",
    },
    "client": {
        "client": "name of a scenario's client",
        "reports": "`started`, `exited`, or what its program reported: `assigned`, `revoked`, `lost`, `read`, `committed`, "
        "`commit_failed`, `error`, `left`; in transactions `begun`, `aborted`, `fenced`",
        "text": "the message of an error, else empty",
        "details": "further details: `partitions`, `tasks`, `log` and `offset`, `offsets`, `code`",
    },
    "mark": {"text": "a note of the user, or a step of a scenario"},
}
"""Every kind of event: field -> what it is. A name that ends in ``?`` may be absent. ``ALWAYS`` comes on top."""

DESCRIPTIONS = {
    "connection": "A client connected, can't be served, or left.",
    "request": "A broker received a request. Its number is in all events that follow from it.",
    "response": "A response was sent, or was not sent because of a fault.",
    "fault_added": "A request rule was added.",
    "fault": "A rule matched a request.",
    "fault_removed": "A rule was removed or ended.",
    "group": "A classic group changed.",
    "epochs": "The committed state of a consumer group (KIP-848), share group (KIP-932) or streams group (KIP-1071) changed.",
    "timer": "One of the coordinator's timers fired.",
    "append": "A coordinator appended records to its log: `__consumer_offsets`, `__transaction_state`.",
    "committed": "The high watermark advanced after the append: pending requests continue.",
    "offsets": "Offsets of a group were committed.",
    "offsets_deleted": "Committed offsets of a group were deleted.",
    "pending_offsets": "Pending transactional offsets of a group were added or discarded.",
    "transaction": "The state of a transactional id changed.",
    "marker": "A transaction marker was sent to a partition, written, or failed.",
    "last_stable_offset": "The open transaction that holds the last stable offset of a partition changed.",
    "share_partition": "A partition's leader loaded or discarded the state of a share group.",
    "delivery": "Records of a share group were acquired, acknowledged or released.",
    "topic": "A topic was created, got partitions, or was deleted. Topics that are there when the journal begins have no event.",
    "state": "A fault state of a log partition was set or cleared.",
    "leader": "The leader or leader epoch of a partition changed.",
    "data_loss": "A log lost committed records, as in an unclean election or after a restored backup.",
    "broker": "A broker was stopped or started, or advertises another address.",
    "cluster": "All brokers of a simulation failed at once, or were started again from their disk.",
    "load": "A coordinator loaded or unloaded its partition.",
    "clock": "The test advanced the clock.",
    "order": "A request was held, released, or arrived in place of the expected one.",
    "client": "A client of a scenario reported something.",
    "mark": "A note of the user.",
}
"""Kind of event -> its description."""

PARTS: dict[str, dict[str, str]] = {
    "snapshot": {
        "state": ", ".join(f"`{state}`" for state in GROUP_STATES),
        "generation": "generation id",
        "protocol_type?": "`consumer`; of other users of groups their own: `connect`, `sr`; null before",
        "protocol": "the selected assignor, null before",
        "leader": "member id of the leader, null without members",
        "size": "number of members",
        "members": "see *member*, in the order of joining; of more than 64 members only those that changed",
        "pending": "member ids that got MEMBER_ID_REQUIRED and have not rejoined",
    },
    "member": {
        "member": "member id",
        "client_id": "as the client sent it",
        "client_host": "as Kafka shows it",
        "instance": "group.instance.id, null for a dynamic member",
        "deferred": "`JoinGroup` or `SyncGroup` while that request is deferred, else null",
        "session_timeout_ms": "session timeout",
        "rebalance_timeout_ms": "rebalance timeout",
        "topics": "subscription of a consumer; null if undecodable, and for other protocol types",
        "assignment": "topic -> partitions of a consumer; null without one, if undecodable, and for other protocol types",
        "worker?": "of a worker of Connect: `url`, `config_offset`, the `connectors` and `tasks` (connector -> numbers) that run on "
        "it, and `delay_ms` if those of lost workers wait so long for their return (scheduled.rebalance.max.delay.ms); null if its "
        "metadata is undecodable",
    },
    "holder": {
        "member": "member id",
        "client_id": "as the client sent it",
        "client_host": "as Kafka shows it",
        "instance": "group.instance.id, null for a dynamic member",
        "protocol": "`consumer`, `classic`, `share` or `streams`: its protocol",
        "epoch": "its member epoch; -2 for a static member that left temporarily",
        "session_timeout_ms": "session timeout",
        "rebalance_timeout_ms": "rebalance timeout: time to revoke partitions",
        "topics": "its subscription",
        "assignment": "topic -> partitions that it owns",
        "pending_revocation": "topic -> partitions that it was asked to revoke and has not confirmed",
        "pending_assignment": "topic -> partitions of its target assignment that it does not own yet",
        "process?": "of a member of a streams group the process id",
        "topology_epoch?": "of a member of a streams group the epoch of the topology that it has",
        "tasks?": "of a member of a streams group `active`, `standby`, `warm-up` -> ids of the tasks that it has: `0_3`",
        "tasks_pending_revocation?": "the same for tasks that it was asked to revoke and has not confirmed",
        "tasks_pending_assignment?": "the same for tasks of its target assignment that it does not own yet",
    },
    "cause": {
        "kind": "`request`, `timer`, `append` (an append failed), `committed`, `topics` (topics were deleted), `marker` (a "
        "marker was appended), `markers` (all markers of a transaction are written), `load`, `unload`",
        "request?": "number of the request; 0 if no client sent it",
        "api?": "its API",
        "client_id?": "of a request that no client sent: `broker-sim`, an abort from the test, the command line or HTTP",
        "member?": "member id of the request or timer",
        "timer?": "which timer, as in *timer*",
        "group?": "group id of the timer",
        "error?": "the log's error",
        "high_watermark?": "the new high watermark",
    },
}
"""The objects inside of events."""


def problems(event: Mapping[str, Any]) -> list[str]:
    """Deviations of an event from the vocabulary: unknown kinds and fields, missing ones. [] without any."""
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
