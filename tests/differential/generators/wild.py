"""Any API, any version, each field out of a hat by its type and name; and frames with bytes cut, changed and added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_wire.schema import FieldSpec
from tests.differential.catalogue import NULL, apis
from tests.differential.generators import data, edges
from tests.differential.generators.data import NO_ID
from tests.differential.generators.draw import Draw
from tests.differential.sequence import Step

LEFT_OUT = ("FindCoordinator", "DescribeTopicPartitions")
"""Coordinators of transactions would be made; a page of all topics shows those of others."""
OF_GROUPS = (
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "DescribeGroups", "ListGroups", "DeleteGroups"),
    *("OffsetCommit", "OffsetFetch", "OffsetDelete"),
)
"""Not beside 3.x: others delete topics meanwhile, which takes empty groups along."""
GROUPS = ("{p}g", "{p}g", "{p}h")
TOPICS = ("t0", "t1", "{p}made", "{p}compact", "{p}none", "")
TEXTS = ("", "x", "{p}x", "consumer", "range", "1")
SMALL_WAITS = (0, 1, 50)
KNOWN_ONLY: dict[str, tuple[Any, ...]] = {
    # a broker of that number would be believed to be a replica
    "replica_id": (-1, -2),
    # who waits longer than the play gives no answer
    "max_wait_ms": SMALL_WAITS,
    "min_bytes": (0, 1),
    "timeout_ms": (5000, 10_000),
    "session_timeout_ms": (30_000, 99, 60_001, -1),
    "rebalance_timeout_ms": (30_000,),
    "transactional_id": (None,),
    "retention_time_ms": (-1, 3_600_000),
    "num_partitions": (1, 2, 0, -1, -2),
    "count": (1, 2, 3, 0, -1),
    "resource_type": (2, 2, 2, 0, 3, 64, -1),
    "key_type": (0, 2, -1),
    "config_operation": (0, 1, 2, 3),
    "validate_only": (True, False),
    "transaction_timeout_ms": (60_000, 0, -1),
}
BY_NAME: dict[str, Callable[[Draw], Any]] = {
    "group_id": lambda draw: draw.one(GROUPS),
    "groups": lambda draw: draw.one(GROUPS),
    "groups_names": lambda draw: draw.one(GROUPS),
    "coordinator_keys": lambda draw: draw.one(GROUPS),
    "topic": lambda draw: draw.one(TOPICS),
    "topic_name": lambda draw: draw.one(TOPICS),
    "topic_names": lambda draw: draw.one(("{p}made", "{p}compact", "{p}none", "")),
    "member_id": lambda draw: draw.one(("$member:a", "$member:b", "", "nobody")),
    "generation_id": lambda draw: draw.one(("$generation:a", 0, 1, -1, 2**31 - 1)),
    "generation_id_or_member_epoch": lambda draw: draw.one(("$generation:a", 0, 1, -1, 2**31 - 1)),
    "group_instance_id": lambda draw: draw.one((None, None, "{p}i1", "")),
    "partition_index": lambda draw: draw.one((0, 0, 1, 2, -1, 7)),
    "partition": lambda draw: draw.one((0, 0, 1, 2, -1, 7)),
    "index": lambda draw: draw.one((0, 0, 1, 2, -1, 7)),
    "producer_id": lambda draw: draw.one(("$pid:a", -1, 5)),
    "session_id": lambda draw: draw.one(("$session:a", 0, 9)),
    "session_epoch": lambda draw: draw.one(("$sepoch:a", 0, -1, 1)),
    "broker_ids": lambda draw: draw.one((1, 1, 2, -1)),
}
WRITING = ("Produce", "DeleteRecords", "WriteTxnMarkers")
CREATED = ("CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs")
"""APIs whose topics are the sequence's own: others play with the shared ones."""


def sequence(draw: Draw) -> None:
    """5 to 25 requests of any kind, a third of them damaged."""
    if draw.often(0.6):
        data.make_topics(draw)
    out = LEFT_OUT if draw.has("Produce", 12) else (*LEFT_OUT, *OF_GROUPS)
    names = [name for name in apis() if name in draw.versions and name not in out]
    for _ in range(draw.rng.randint(5, 25)):
        name = draw.one(names)
        version = draw.version(name)
        step = Step(
            by=draw.one("ab"), api=name, version=version, body=_message(draw, name, apis()[name].request, version)
        )
        if name == "Produce" and _has_null_records(step.body):
            step.body["acks"] = 1  # without an answer Kafka keeps still on that connection for good
        if draw.often(0.35):
            _damage(draw, step)
        draw.steps.append(step)


def _has_null_records(body: dict[str, Any]) -> bool:
    parts = [part for topic in body.get("topic_data") or () for part in topic.get("partition_data") or ()]
    return any(part.get("records") is None for part in parts)


def _message(draw: Draw, api: str, cls: type[Any], version: int) -> dict[str, Any]:
    return {
        name: _value(draw, api, name, spec, version)
        for name, spec in cls.__fields__
        if version in spec.versions and not draw.often(0.05)
    }


def _value(draw: Draw, api: str, name: str, spec: FieldSpec, version: int) -> Any:
    if version in spec.nullable and draw.often(0.12):
        return None
    if name == "name" or (name == "topic" and api in WRITING):
        return _name(draw, api)
    if name in KNOWN_ONLY:
        return draw.one(KNOWN_ONLY[name])
    if spec.kind == "array":
        element = spec.element()
        count = draw.rng.choices([0, 1, 2, 3], [2, 6, 3, 1])[0]
        return [_value(draw, api, name, element, version) for _ in range(count)]
    if spec.kind == "struct":
        return _message(draw, api, spec.item, version)
    if name in BY_NAME:
        return BY_NAME[name](draw)
    return _primitive(draw, spec.kind)


def _name(draw: Draw, api: str) -> Any:
    if api in ("JoinGroup",):
        return draw.one(("range", "x", ""))
    if api in WRITING:
        return draw.one(("{p}made", "{p}compact", "{p}none", ""))
    if api in CREATED:
        return draw.one(("{p}made", "{p}compact", "{p}new", "{p}none", "retention.ms", ""))
    return draw.mostly(draw.one(TOPICS), NULL, odds=0.97)


def _primitive(draw: Draw, kind: str) -> Any:
    if kind == "bool":
        return draw.often(0.5)
    if kind in edges.BITS:
        return draw.one((*edges.ends(kind), 0, 2))
    if kind == "uuid":
        return draw.one([NO_ID, "$topic:{p}made", "$topic:{p}compact", "$topic:{p}none"])
    if kind == "string":
        return draw.one(TEXTS)
    if kind == "records":
        return {"batch": {"records": [{"key": "k", "value": "v"}]}}
    if kind == "bytes":
        return draw.one(["hex:", "hex:0001", "hex:00010000000000000000"])
    return 0


def _damage(draw: Draw, step: Step) -> None:
    """One or two things done to the frame."""
    for _ in range(draw.rng.choices([1, 2], [4, 1])[0]):
        kinds = draw.rng.choices(["cut", "set", "more", "insert", "version", "key", "size"], [5, 8, 3, 3, 1, 0.5, 0.3])
        kind = (
            "cut" if kinds[0] in ("set", "insert") and step.api in CREATED else kinds[0]
        )  # a number of partitions is soon too large
        if kind == "cut":
            step.damage.append(["cut", draw.rng.randint(1, 30)])
        elif kind == "set":
            step.damage.append(
                ["set", draw.rng.randint(0, 200), draw.one([0, 1, 2, 127, 128, 255, draw.rng.randint(0, 255)])]
            )
        elif kind == "more":
            step.damage.append(["more", "00" * draw.rng.randint(1, 9)])
        elif kind == "insert":
            step.damage.append(["insert", draw.rng.randint(0, 200), draw.one(["00", "ff", "0101", "ffffffff"])])
        elif kind == "version":
            step.damage.append(["version", draw.one([-1, 30, 99, 32767])])
        elif kind == "key":
            step.damage.append(["key", draw.one([-1, 300, 32767, 1000])])
        else:
            step.damage.append(["size", draw.one([-1, 0, 2**31 - 1])])
