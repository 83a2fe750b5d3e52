"""Boundary values: now and then each integer and each text of a request is given one, whichever generator drew the request.

An integer is given the ends of its type, -2 to 1, its value less one and more one, and each constant that Kafka's code or ours compares
it with (`CONSTANTS`), less one and more one. A text is given "", null (also where the schema has none), the longest that Kafka
reads, and the lengths that Kafka checks. `WITHHELD` lists the values whose answer would be chance, or that would disturb other plays.

`bend` changes a whole sequence after its generator has drawn it, and has dice of its own: the rest of the sequence is as it was.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

from kafka_wire.schema import NONE, FieldSpec, Versions
from tests.differential.catalogue import NULL, apis
from tests.differential.sequence import Step

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
LONGEST = 32767
"""Bytes of a text: Kafka's generated readers refuse more in every encoding (MessageDataGenerator.java)."""
RATES = (0.0, 0.2, 0.5)
"""Rates of bent steps in a sequence; each sequence has one of these."""
TEXTS = 0.3
"""The share of texts, where a request has both."""


def ends(kind: str) -> tuple[int, ...]:
    """The boundary values that every field of this type has."""
    most = 1 << (BITS[kind] - 1)
    return (-2, -1, 0, 1, -most, most - 1)


CONSTANTS: dict[str, tuple[tuple[int, ...], str]] = {
    # the whole path where names mean several things, else the name alone
    "session_id": ((0, -268_435_455, 2_147_483_640), "FetchSession.scala: the shards of the cache since 3.8"),
    "session_epoch": ((0, -1), "FetchMetadata.java: INITIAL_EPOCH, FINAL_EPOCH"),
    "share_session_epoch": ((0, -1), "ShareRequestMetadata.java: INITIAL_EPOCH, FINAL_EPOCH"),
    "replica_id": ((-1, -2, -3), "FetchRequest.java: CONSUMER, DEBUGGING, FUTURE_LOCAL_REPLICA_ID"),
    "isolation_level": ((0, 1), "IsolationLevel.java"),
    "Fetch.max_bytes": ((57_671_680,), "fetch.max.bytes of the broker"),
    "Fetch.topics.partitions.partition_max_bytes": ((300, 1000, 1_048_588), "max.message.bytes of the plays' topics"),
    "fetch_offset": ((-1, 2, 5), "UnifiedLog.scala: the ends of the log"),
    "acks": ((-1, 0, 1), "ProduceRequest / UnifiedLog: isValidRequiredAcks"),
    "timestamp": ((-1, -2, -3, -4, -5, -6), "ListOffsetsRequest.java: LATEST to EARLIEST_PENDING_UPLOAD"),
    "max_num_offsets": ((1, 2), "LogOffsetsListing: legacyFetchOffsetsBefore"),
    "current_leader_epoch": ((-1, 0), "RecordBatch.java: NO_PARTITION_LEADER_EPOCH; the epoch of a new partition"),
    "leader_epoch": ((-1, 0), "OffsetsForLeaderEpochResponse.java: UNDEFINED_EPOCH"),
    "DeleteRecords.topics.partitions.offset": ((-1, 2, 5), "DeleteRecordsRequest.java: HIGH_WATERMARK"),
    "session_timeout_ms": ((100, 60_000), "group.min/max.session.timeout.ms of the plays"),
    "generation_id": ((-1, 0), "JoinGroupRequest.java: UNKNOWN_GENERATION_ID; the generation of a new group"),
    "generation_id_or_member_epoch": ((-1, 0), "OffsetCommitRequest.java: DEFAULT_GENERATION_ID"),
    "retention_time_ms": ((-1, 0), "OffsetCommitRequest.java: DEFAULT_RETENTION_TIME"),
    "commit_timestamp": ((-1,), "OffsetCommitRequest.java: DEFAULT_TIMESTAMP"),
    "committed_offset": ((-1, 0), "OffsetFetchResponse.java: INVALID_OFFSET"),
    "committed_leader_epoch": ((-1, 0), "RecordBatch.java: NO_PARTITION_LEADER_EPOCH"),
    "transaction_timeout_ms": ((0, 900_000), "transaction.max.timeout.ms"),
    "producer_id": ((-1,), "RecordBatch.java: NO_PRODUCER_ID"),
    "v3_and_below_producer_id": ((-1,), "RecordBatch.java: NO_PRODUCER_ID"),
    "producer_epoch": ((-1, 32_766), "RecordBatch.java: NO_PRODUCER_EPOCH; TransactionMetadata: an exhausted epoch"),
    "v3_and_below_producer_epoch": ((-1, 32_766), "as producer_epoch"),
    "coordinator_epoch": ((-1, 0), "ProducerAppendInfo.java: checkCoordinatorEpoch"),
    "transaction_version": ((0, 1, 2), "TransactionVersion.java"),
    "duration_filter": ((0,), "ListTransactionsRequest: no filter below it"),
    "key_type": ((0, 1, 2), "FindCoordinatorRequest.java: CoordinatorType"),
    "member_epoch": ((0, -1, -2), "ConsumerGroupHeartbeatRequest.java: JOIN, LEAVE, LEAVE_GROUP_STATIC_MEMBER_EPOCH"),
    "ConsumerGroupHeartbeat.rebalance_timeout_ms": ((-1,), "ConsumerGroupHeartbeatRequest.json: not changed"),
    "StreamsGroupHeartbeat.rebalance_timeout_ms": ((-1,), "StreamsGroupHeartbeatRequest.json: not changed"),
    "endpoint_information_epoch": ((0, 1), "StreamsGroup.java: the epoch of a new group's endpoints"),
    "num_partitions": ((-1, 1), "CreateTopicsRequest.java: NO_NUM_PARTITIONS"),
    "replication_factor": ((-1, 1), "CreateTopicsRequest.java: NO_REPLICATION_FACTOR; the number of brokers"),
    "broker_ids": ((1,), "the broker that there is"),
    "CreatePartitions.topics.count": ((1, 2), "ReplicationControlManager.java: the number that there is"),
    "resource_type": ((0, 2, 4, 8, 16, 32), "ConfigResource.java: Type"),
    "config_operation": ((0, 1, 2, 3), "AlterConfigOp.java: OpType"),
    "endpoint_type": ((1, 2), "EndpointType.java"),
    "response_partition_limit": ((1, 2000), "max.request.partition.size.limit"),
    "partition": ((0, 3), "the partitions that there are"),
    "partition_index": ((0, 3), "the partitions that there are"),
    "partition_indexes": ((0, 3), "the partitions that there are"),
    "partitions": ((0, 3), "the partitions that there are"),
    "index": ((0, 2), "the partitions that there are"),
    **dict.fromkeys(
        ("resource_type_filter", "CreateAcls.creations.resource_type"), ((1, 2, 6, 7), "ResourceType.java")
    ),
    **dict.fromkeys(("pattern_type_filter", "resource_pattern_type"), ((1, 2, 3, 4), "PatternType.java")),
    "operation": ((1, 2, 12, 15), "AclOperation.java"),
    "permission_type": ((1, 2, 3), "AclPermissionType.java"),
    "acknowledge_types": ((0, 1, 3, 4), "AcknowledgeType.java"),
    "share_acquire_mode": ((0, 1), "ShareAcquireMode.java"),
    "delivery_state": ((0, 2, 4), "PersisterStateBatch.java, RecordState.java"),
    # of record batches and records (payloads.py)
    "batch.seq": ((0, 2**31 - 2), "DefaultRecordBatch.java: NO_SEQUENCE, and after the last one 0 again"),
    "batch.epoch": ((0, -1), "RecordBatch.java: NO_PRODUCER_EPOCH"),
    "batch.pid": ((0, -1), "RecordBatch.java: NO_PRODUCER_ID"),
    "batch.length": ((14, 49, 1000), "Records.java: LOG_OVERHEAD, RECORD_OVERHEAD_V0; a batch's own head"),
    "batch.attributes": ((8, 16, 32, 64), "DefaultRecordBatch.java: its masks"),
    "batch.base_timestamp": ((-1,), "RecordBatch.java: NO_TIMESTAMP"),
    "batch.max_timestamp": ((-1,), "RecordBatch.java: NO_TIMESTAMP"),
    "subscription.claim": ((0, 3), "ConsumerProtocolSubscription.java: its versions"),
}
"""Field -> what its values are compared with, and where."""

PAYLOADS = {
    "batch": dict.fromkeys(("base_offset", "base_timestamp", "max_timestamp", "pid"), "int64")
    | dict.fromkeys(("leader_epoch", "length", "last_delta", "seq", "count"), "int32")
    | dict.fromkeys(("attributes", "epoch"), "int16"),
    "record": dict.fromkeys(("delta", "size", "key_size", "value_size", "header_count"), "int32")
    | {"at": "int64", "attributes": "int8"},
    "subscription": {"claim": "int16"},
}
"""The numbers in byte fields that steps describe (payloads.py)."""

LENGTHS = {
    "committed_metadata": (100, 101),  # offset.metadata.max.bytes of the plays
    **dict.fromkeys(("topic", "name", "topic_name", "topic_names"), (249, 250)),  # Topic.java: MAX_NAME_LENGTH
}

_SOON_MS = range(1, 20_000)


class _ButFirst(Container[Any]):
    """All numbers but that of the first partition."""

    def __contains__(self, value: object) -> bool:
        return value != 0


WITHHELD: dict[str, tuple[Container[Any], str]] = {
    "Fetch.replica_id": (range(2**31), "a broker of that number would be believed to be a replica"),
    "Fetch.replica_state.replica_id": (range(2**31), "a broker of that number would be believed to be a replica"),
    "num_partitions": (range(5, 2**31), "a real broker makes them"),
    "CreatePartitions.topics.count": (range(5, 2**31), "a real broker makes them"),
    "session_timeout_ms": (range(100, 20_000), "a member is removed while the play goes on"),
    "JoinGroup.rebalance_timeout_ms": (range(20_000), "a join phase ends while the play goes on"),
    "ConsumerGroupHeartbeat.rebalance_timeout_ms": (range(20_000), "a member is fenced while the play goes on"),
    "StreamsGroupHeartbeat.rebalance_timeout_ms": (range(20_000), "a member is fenced while the play goes on"),
    **dict.fromkeys(
        [
            f"StreamsGroupHeartbeat.topology.subtopologies.{kind}_topics.partitions"
            for kind in ("state_changelog", "repartition_source")
        ],
        (range(5, 2**31), "a real broker makes them"),
    ),
    "StreamsGroupHeartbeat.topology.subtopologies.state_changelog_topics.topic_configs.key": (
        ("{p}{to 32767}",),
        "whether the status, which would be too long, is there already is chance",
    ),
    "StreamsGroupHeartbeat.topology.subtopologies.repartition_source_topics.topic_configs.key": (
        ("{p}{to 32767}",),
        "whether the status, which would be too long, is there already is chance",
    ),
    "transaction_timeout_ms": (range(1, 60_000), "a transaction is aborted while the play goes on"),
    **dict.fromkeys(
        [
            f"{api}.timeout_ms"
            for api in ("CreateTopics", "DeleteTopics", "CreatePartitions", "DeleteRecords", "Produce")
        ],
        (_SOON_MS, "whether time is up is chance"),
    ),
    **dict.fromkeys(("Fetch.max_wait_ms", "ShareFetch.max_wait_ms"), (range(201, 2**31), "an answer has to come")),
    "AlterConfigs.resources.resource_type": ((4, 8), "settings of the broker are everybody's"),
    "IncrementalAlterConfigs.resources.resource_type": ((4, 8), "settings of the broker are everybody's"),
    "AlterConfigs.resources.resource_name": (("",), "settings of all brokers are everybody's"),
    "IncrementalAlterConfigs.resources.resource_name": (("",), "settings of all brokers are everybody's"),
    "FindCoordinator.key_type": ((2,), "the log of share groups' states is made while the play goes on"),
    **dict.fromkeys(
        [f"{api}.group_id" for api in ("OffsetCommit", "TxnOffsetCommit", "OffsetDelete")],
        (("",), "the group without a name is everybody's"),
    ),
    **dict.fromkeys(
        [f"{api}.group_id" for api in ("ShareFetch", "ShareAcknowledge")],
        (("", None, NULL), "the sessions of the group without a name are everybody's"),
    ),
    "DeleteGroups.groups_names": (("",), "the group without a name is everybody's"),
    "CreateTopics.topics.configs.value": (("{p}{to 32767}",), "the controller's log takes no larger record"),
    "DescribeShareGroupOffsets.groups.topics.partitions": (
        _ButFirst(),
        "Kafka has no answer for partitions that do not exist",
    ),
    "AlterShareGroupOffsets.topics.partitions.partition_index": (
        _ButFirst(),
        "a group without partitions is deleted with one record less in Kafka",
    ),
    "subscribed_topic_regex": (("{p}{to 32767}",), "expressions are resolved a moment later"),
}
"""Field -> values that it is not given, and why."""


@dataclass(frozen=True)
class Place:
    """A field of a step's body: `keys` lead to it, `path` is without indexes, `value` is None where the body leaves it out."""

    keys: tuple[str | int, ...]
    path: str
    kind: str
    nullable: bool
    value: Any


def bend(seed: int, steps: list[Step]) -> None:
    """Gives fields of some steps a value at an edge; `Step.bent` names them."""
    rng = random.Random(f"{seed} edges")
    rate = rng.choice(RATES)
    in_rows = any(step.held for step in steps)
    for step in steps:
        if (
            not step.api
            or rng.random() > rate
            or (step.by == "look" and step.api == "CreateTopics" and rng.random() < 0.9)
        ):
            continue
        body, bent = copy.deepcopy(step.body), []
        for _ in range(2 if rng.random() < 0.2 else 1):
            if (place := _place(rng, step, body)) is None:
                continue
            values = values_at(place)
            if values:
                put(body, place.keys, rng.choice(rng.choice(values)))
                bent.append(place.path)
        if step.held and step.api == "Fetch" and "Fetch.max_wait_ms" in bent:
            continue
        if in_rows and NULL in str(body):
            continue  # Kafka closes the connection, and with it may be lost what it has answered to those before in the row
        if "Produce.acks" in bent and body["acks"] == 0 and _unsound(body):
            continue  # Kafka keeps still on that connection for good
        step.body, step.bent = body, sorted(set(bent))


def _unsound(body: dict[str, Any]) -> bool:
    parts = [part for topic in body.get("topic_data") or () for part in topic.get("partition_data") or ()]
    return any(part.get("records") is None for part in parts)


def _place(rng: random.Random, step: Step, body: dict[str, Any]) -> Place | None:
    """A field of the step, more often a number than a text: every name as likely, be there one or many of it."""
    found: dict[bool, dict[str, list[Place]]] = {}
    for place in places(step.api, step.version, body):
        found.setdefault(place.kind == "string", {}).setdefault(place.path, []).append(place)
    if not found:
        return None
    some = found.get(rng.random() < TEXTS) or next(iter(found.values()))
    return rng.choice(some[rng.choice(sorted(some))])


def places(api: str, version: int, body: dict[str, Any]) -> Iterator[Place]:
    """The integers and texts of a request in that version that the body reaches, those included that it leaves out."""
    yield from _of_struct(apis()[api].request, version, body, (), api)


def _of_struct(cls: type[Any], version: int, tree: Any, keys: tuple[str | int, ...], path: str) -> Iterator[Place]:
    if not isinstance(tree, dict):
        return
    for name, spec in cls.__fields__:
        if version in spec.versions:
            yield from _of_field(spec, version, tree.get(name, _MISSING), (*keys, name), f"{path}.{name}")


_MISSING = object()


def _of_field(spec: FieldSpec, version: int, value: Any, keys: tuple[str | int, ...], path: str) -> Iterator[Place]:
    if spec.kind == "array":
        items = value if isinstance(value, list) else []
        for index, item in enumerate(items):
            yield from _of_field(spec.element(), version, item, (*keys, index), path)
    elif spec.kind == "struct":
        yield from _of_struct(
            spec.item, version, {} if value is _MISSING and not _nulls(spec.nullable) else value, keys, path
        )
    elif spec.kind in BITS or spec.kind == "string":
        yield Place(keys, path, spec.kind, version in spec.nullable, None if value is _MISSING else value)
    elif isinstance(value, dict):
        yield from _of_payload(value, keys)


def _nulls(nullable: Versions) -> bool:
    return nullable != NONE


def _of_payload(tree: dict[str, Any], keys: tuple[str | int, ...]) -> Iterator[Place]:
    [(kind, given)] = tree.items()
    if kind == "batches":
        kind, given, keys = "batch", given[0], (*keys, "batches", 0)
    else:
        keys = (*keys, kind)
    for name, number in PAYLOADS.get(kind, {}).items():
        yield Place((*keys, name), f"{kind}.{name}", number, False, given.get(name))
    for index, row in enumerate(given.get("records", []) if kind == "batch" else []):
        for name, number in PAYLOADS["record"].items():
            yield Place((*keys, "records", index, name), f"record.{name}", number, False, row.get(name))


def values_at(place: Place) -> list[list[Any]]:
    """Values that the field may be given, in groups that are as likely: ends of the type, constants, neighbours of its value."""
    groups = _texts(place) if place.kind == "string" else _numbers(place)
    name = place.path.rpartition(".")[2]
    kept = []
    for values in groups:
        left = [
            value
            for value in values
            if not any(value in WITHHELD[key][0] for key in (place.path, name) if key in WITHHELD)
        ]
        kept += [left] if left else []
    return kept


def _numbers(place: Place) -> list[list[Any]]:
    most = 1 << (BITS[place.kind] - 1)
    constants, _ = CONSTANTS.get(place.path) or CONSTANTS.get(place.path.rpartition(".")[2]) or ((), "")
    near = [constant + shift for constant in constants for shift in (-1, 0, 1)]
    here: list[Any] = []
    if isinstance(place.value, str):
        here = [f"{place.value}:{shift}" for shift in (-1, 1)] if place.value.count(":") == 1 else []
    elif place.value is not None:
        here = [place.value - 1, place.value + 1]
    groups = [list(ends(place.kind)), near, here]
    return [[one for one in group if isinstance(one, str) or -most <= one < most] for group in groups]


def _texts(place: Place) -> list[list[Any]]:
    name = place.path.rpartition(".")[2]
    lengths = [f"{{p}}{{to {length}}}" for length in (*LENGTHS.get(name, ()), LONGEST)]
    return [[""], [None if place.nullable else NULL], lengths]


def put(body: Any, keys: tuple[str | int, ...], value: Any) -> None:
    """Lays a value where `keys` lead; structs that are not there yet are made."""
    *way, last = keys
    for key in way:
        body = body.setdefault(key, {}) if isinstance(body, dict) and isinstance(key, str) else body[key]
    body[last] = value
