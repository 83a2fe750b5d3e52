"""The shapes of answers, in a shorthand that openapi.py turns into JSON Schema.

``"string"``, ``"integer"``, ``"number"``, ``"boolean"``, ``"object"``, ``"any"``; with a ``?`` behind it null, too.
``[shape]`` is a list of them, ``{name: shape}`` an object; a name that ends in ``?`` may be absent. A ``Shape`` has a name of its
own in the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Map", "Maybe", "Shape"]


@dataclass(frozen=True, slots=True)
class Shape:
    """An object that several operations answer with."""

    name: str
    doc: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    more: bool = False
    """Whether other fields may be there."""


@dataclass(frozen=True, slots=True)
class Map:
    """An object whose names are not known beforehand, all of whose values have one shape."""

    values: Any


@dataclass(frozen=True, slots=True)
class Maybe:
    """A list or a `Map`, or null."""

    values: Any


STATE = Shape(
    "State",
    "a lasting state of a log partition",
    {
        "id": "integer",
        "log": "string",
        "state": "string",
        "args": "object",
        "active": "boolean",
    },
)
LOG = Shape(
    "Log",
    "the present state of a log partition",
    {
        "log": "string",
        "leader": "integer",
        "leader_epoch": "integer",
        "replicas": ["integer"],
        "isr": ["integer"],
        "log_start_offset": "integer",
        "high_watermark": "integer",
        "log_end_offset": "integer",
        "states": [STATE],
    },
)
FAULT = Shape(
    "Fault",
    "a rule on requests: in words and as the parameters that make it, its hits, and the requests that it hangs or delays now",
    {
        "id": "integer",
        "text": "string",
        "rule": "object",
        "hits": "integer",
        "spent": "boolean",
        "removed": "boolean",
        "waiting": ["string"],
    },
)
MEMBER = Shape(
    "Member",
    "a member of a group; deferred: JoinGroup or SyncGroup if that request of it is deferred",
    {
        "member_id": "string",
        "client_id": "string",
        "client_host": "string",
        "instance_id": "string?",
        "session_timeout_ms": "integer",
        "rebalance_timeout_ms": "integer",
        "deferred": "string?",
        "leader": "boolean",
        "topics": Maybe(["string"]),
        "assignment": Maybe(Map(["integer"])),
        "worker": "object?",
        "tasks": "object?",
    },
)
GROUP = Shape(
    "Group",
    "a consumer group as its coordinator knows it; by partition, as in orders-0: committed offsets, lag (negative where one is beyond"
    " the log's end) and how much of it is deleted from the log; unassigned: subscribed, but assigned to no member",
    {
        "group": "string",
        "state": "string",
        "generation": "integer",
        "leader": "string?",
        "members": [MEMBER],
        "coordinator": "integer?",
        "log": "string?",
        "offsets": Map("integer"),
        "lag": Map("integer"),
        "deleted": Map("integer"),
        "unassigned": ["string"],
    },
)
TRANSACTION = Shape(
    "Transaction",
    "a transactional id as its coordinator knows it; partitions: those of its transaction that have no marker yet, as in orders-0",
    {
        "transactional_id": "string",
        "state": "string",
        "producer_id": "integer",
        "epoch": "integer",
        "partitions": ["string"],
        "timeout_ms": "integer?",
        "coordinator": "integer?",
        "log": "string?",
    },
)
LOCK = Shape(
    "Lock",
    "records first to last of a partition that a share group's member has; until_ms: when the lock ends",
    {
        "log": "string",
        "first": "integer",
        "last": "integer",
        "member_id": "string",
        "deliveries": "integer",
        "until_ms": "integer",
    },
)
SHARE = Shape(
    "ShareGroup",
    "a share group as the leaders of its partitions know it; start_offset -1: it has read nothing there",
    {
        "group": "string",
        "state": "string",
        "epoch": "integer",
        "partitions": Map(
            {
                "start_offset": "integer",
                "next_offset": "integer",
                "in_flight": "integer",
                "locked": "integer",
                "backlog": "integer",
                "loaded": "boolean",
            }
        ),
        "locks": [LOCK],
    },
)
DELIVERY = Shape(
    "Delivery",
    "one delivery of a record; end: accepted, released, rejected, gap, expired, session closed, ...; empty while the member has it",
    {
        "member": "string",
        "ts_ms": "integer",
        "count": "integer",
        "end": "string",
        "ended_ms": "integer?",
        "becomes": "string",
        "renewed": "integer",
        "letter": "string",
    },
)
HANGING = Shape(
    "Hanging",
    "a transaction that is open in a partition and that no coordinator knows; last_ms: when its producer wrote last",
    {
        "log": "string",
        "producer_id": "integer",
        "epoch": "integer",
        "first_offset": "integer",
        "last_ms": "integer",
        "last_stable_offset": "integer",
        "high_watermark": "integer",
    },
)
BROKER = Shape(
    "Broker",
    "a broker of the cluster",
    {
        "broker": "integer",
        "host": "string",
        "port": "integer",
        "rack": "string?",
        "alive": "boolean",
        "leads": "integer",
    },
)
TOPIC = Shape(
    "Topic",
    "a topic",
    {
        "topic": "string",
        "partitions": "integer",
        "replication_factor": "integer",
        "records": "integer",
        "internal": "boolean",
    },
)
RECORD = Shape(
    "Record",
    "a record of a topic; producer_id: -1 without an idempotent producer",
    {
        "partition": "integer",
        "offset": "integer",
        "timestamp_ms": "integer",
        "key": "string?",
        "value": "string?",
        "headers": [{"key": "string", "value": "string?"}],
        "producer_id": "integer",
        "transactional": "boolean",
    },
)
CLUSTER = Shape(
    "Cluster",
    "a virtual cluster of this process; listeners: the bootstrap address of each by name; ca: the certificate authority that its "
    "clients trust, in PEM",
    {
        "id": "string",
        "bootstrap": "string",
        "listeners": Map("string"),
        "brokers": "integer",
        "as_version": "string",
        "security_protocol": "string",
        "ca": "string?",
        "clock": "string",
        "topics": ["string"],
    },
)
CLOCK = Shape(
    "Clock",
    "the time that the brokers live in; next_timer has due_ms and, in words, what it is for",
    {"mode": "string", "rate": "number", "now_ms": "integer", "next_timer": "object?"},
)
HOLD = Shape(
    "Hold",
    "what is held back at the brokers: which requests, and those that wait, in the order in which they came",
    {"id": "integer", "text": "string", "ended": "boolean", "waiting": ["string"]},
)
ENTRY = Shape(
    "Entry",
    "a request of a recorded order; members are called m1, m2, .. in the order in which they appear",
    {
        "n": "integer",
        "api": "string",
        "client_id": "string?",
        "group": "string?",
        "member": "string?",
        "topics": ["string"],
    },
)
REPLAY = Shape(
    "Replay",
    "how far a replay has come: the entries that have passed, the next one, the requests that wait; diverged: what came in its place",
    {"position": "integer", "expected": "string?", "waiting": ["string"], "ended": "boolean", "diverged": "string?"},
)
REQUEST = Shape(
    "Request",
    "a request that a broker received; topics: partitions that it names; answered: whether a response was sent, or can't be any more; "
    "answer: the body of the response",
    {
        "request": "integer",
        "ts_ms": "integer",
        "api": "string",
        "version": "integer",
        "broker": "integer",
        "client_id": "string?",
        "client_host": "string",
        "group?": "string",
        "member?": "string",
        "transactional_id?": "string",
        "topics?": ["string"],
        "body": "object?",
        "answered": "boolean",
        "error": "string?",
        "took_ms": "integer?",
        "answer": "object?",
    },
)
SCENARIO = Shape(
    "Scenario",
    "a scenario file that runs on the cluster; verdict: held, broken, late (the condition of a step timed out), error (a step can't be "
    "done), cancelled, null while it runs; done: the steps that are done; waiting: what it waits for",
    {
        "id": "integer",
        "name": "string",
        "running": "boolean",
        "verdict": "string?",
        "steps": ["string"],
        "done": ["string"],
        "waiting": "string?",
        "results": [{"held": "boolean", "text": "string", "where": "string"}],
        "error": "string?",
        "progress": ["string"],
    },
)
EVENT = Shape("Event", "an event of the journal", {"seq": "integer", "ts_ms": "integer", "event": "string"}, more=True)
