"""The answer to a request that fails as a whole, and the first error in an answer.

``error_response(request, api_key, version, err)`` is what Kafka's own request classes answer when a broker gives up on a
request (``AbstractRequest.getErrorResponse``): the error stands wherever the API has a place for it in that version - for each
partition, topic, group or resource asked for, at the top, or both - and what was asked for is named again. A test compares it with
Kafka's classes.

Fetch alone differs, where the error is one that brokers find at a partition: see :func:`_fetch`. Texts that go with an error are its
name, where Kafka writes a sentence.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from broker_sim.faults.selectors import NAMES
from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err
from kafka_wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from kafka_wire.messages.k00_produce import ProduceRequest
    from kafka_wire.messages.k01_fetch import FetchRequest
    from kafka_wire.messages.k03_metadata import MetadataRequest
    from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest
    from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
    from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest

__all__ = ["AT_PARTITIONS", "error_response", "first_error"]

AT_PARTITIONS = frozenset(
    {
        Err.OFFSET_OUT_OF_RANGE,
        Err.CORRUPT_MESSAGE,
        Err.UNKNOWN_TOPIC_OR_PARTITION,
        Err.LEADER_NOT_AVAILABLE,
        Err.NOT_LEADER_OR_FOLLOWER,
        Err.REPLICA_NOT_AVAILABLE,
        Err.TOPIC_AUTHORIZATION_FAILED,
        Err.KAFKA_STORAGE_ERROR,
        Err.FENCED_LEADER_EPOCH,
        Err.UNKNOWN_LEADER_EPOCH,
        Err.UNSUPPORTED_COMPRESSION_TYPE,
        Err.OFFSET_NOT_AVAILABLE,
        Err.UNKNOWN_TOPIC_ID,
        Err.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors that a Fetch meets at a partition; all others end the whole fetch."""

Builder = Callable[[Any, Any, int, Err], Any]
"""From the API's messages, a request, its version and the error: the response."""

SessionRows = Iterable[tuple[str, bytes, int]]
"""Topic name, id and partition of what a Fetch session holds."""


WellRow = Callable[[str, bytes, int], tuple[int, int] | None]
"""The log start offset and the high watermark of a partition that does not fail, by its topic's name and id; None: it fails."""


def error_response(
    request: Any,
    api_key: int,
    version: int,
    err: Err,
    *,
    session: SessionRows = (),
    well: WellRow | None = None,
) -> Any | None:
    """The response to ``request`` when all of it fails with ``err``; None where Kafka sends none but closes (Produce, acks=0).

    ``request`` may be None for ApiVersions alone (a version that is not known). ``session``: the partitions that a Fetch goes on with.
    ``well``: which of a Fetch's partitions do not fail, where the error is one of ``AT_PARTITIONS``.
    """
    module = _messages(api_key)
    if api_key == ApiKey.FETCH:
        return _fetch(module, request, version, err, session, well)
    build = _BUILDERS.get(api_key)
    if build is not None:
        return build(module, request, version, err)
    return getattr(module, f"{NAMES[api_key]}Response")(error_code=err, **_TOP.get(api_key, {}))


@cache
def _messages(api_key: int) -> Any:
    name = ApiKey(api_key).name.lower()
    return importlib.import_module(f"kafka_wire.messages.k{api_key:02}_{name}")


_TOP: dict[int, dict[str, Any]] = {
    ApiKey.INIT_PRODUCER_ID: {"producer_epoch": -1},
    ApiKey.DESCRIBE_ACLS: {"error_message": None},
}
"""APIs whose error stands at the top alone: what else their failed answer says, where it isn't the default."""


# --- by partition -----------------------------------------------------------------------------------------------------


def _by_partition(response: str, topic: str, row: str, named: str, index: str, **failed: Any) -> Builder:
    """A builder for topics with partitions: the classes of the answer, the topic's and the partition's fields of the request (the
    partition's is called the same in the answer), and what else a failed partition says."""

    def build(module: Any, request: Any, version: int, err: Err) -> Any:
        topic_class, row_class = getattr(module, topic), getattr(module, row)
        topics = []
        for asked in request.topics:
            rows = [row_class(**{index: getattr(one, index)}, error_code=err, **failed) for one in asked.partitions]
            topics.append(topic_class(**{named: getattr(asked, named)}, partitions=rows))
        return getattr(module, response)(topics=topics)

    return build


def _produce(module: Any, request: ProduceRequest, version: int, err: Err) -> Any:
    if request.acks == 0:
        return None
    return module.ProduceResponse(
        responses=[
            module.TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [module.PartitionProduceResponse(one.index, err, base_offset=-1) for one in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(
    module: Any, request: FetchRequest, version: int, err: Err, session: SessionRows, well: WellRow | None
) -> Any:
    """A top-level error makes a client ask again and think no further. What brokers find at a partition (another leader, an
    offset out of range) therefore goes out as they would say it: for each partition of the request and of its session, which ends
    with it (id 0).
    """
    at_partitions = err in AT_PARTITIONS
    asked = [(topic.topic, topic.topic_id, one.partition) for topic in request.topics for one in topic.partitions]
    if at_partitions:
        asked = list(dict.fromkeys([*asked, *session]))
    topics: dict[tuple[str, bytes], list[Any]] = {}
    if at_partitions or version < 13:
        for name, topic_id, index in asked:
            offsets = well(name, topic_id, index) if well is not None and at_partitions else None
            if offsets is None:
                row = module.PartitionData(index, err, high_watermark=-1)
            else:
                log_start, high_watermark = offsets
                row = module.PartitionData(index, Err.NONE, high_watermark, high_watermark, log_start)
            topics.setdefault((name, topic_id), []).append(row)
    return module.FetchResponse(
        error_code=Err.NONE if at_partitions else err,
        session_id=0 if at_partitions else request.session_id,
        responses=[module.FetchableTopicResponse(name, topic_id, rows) for (name, topic_id), rows in topics.items()],
    )


def _metadata(module: Any, request: MetadataRequest, version: int, err: Err) -> Any:
    topics = [module.MetadataResponseTopic(err, topic.name or "", topic.topic_id) for topic in request.topics or ()]
    return module.MetadataResponse(topics=topics, error_code=err)


def _offset_fetch(module: Any, request: OffsetFetchRequest, version: int, err: Err) -> Any:
    if version >= 8:
        groups = [module.OffsetFetchResponseGroup(group.group_id, error_code=err) for group in request.groups]
        return module.OffsetFetchResponse(groups=groups)
    if version >= 2:
        return module.OffsetFetchResponse(error_code=err)
    return module.OffsetFetchResponse(
        topics=[
            module.OffsetFetchResponseTopic(
                topic.name,
                [module.OffsetFetchResponsePartition(index, -1, error_code=err) for index in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ]
    )


# --- by group, topic, resource ----------------------------------------------------------------------------------------


def _by_row(response: str, row: str, asked: str, told: str, **fields: str) -> Builder:
    """A builder for a flat list: the classes of the answer, the lists in the request and in the answer, and the fields of a row with
    where they come from: a field of the item, or the item itself ("")."""

    def build(module: Any, request: Any, version: int, err: Err) -> Any:
        row_class = getattr(module, row)
        silent = {"error_message": None} if hasattr(row_class(), "error_message") else {}  # whatever its default is
        rows = [
            row_class(
                error_code=err,
                **silent,
                **{name: getattr(item, source) if source else item for name, source in fields.items()},
            )
            for item in getattr(request, asked)
        ]
        return getattr(module, response)(**{told: rows})

    return build


def _describe_configs(module: Any, request: Any, version: int, err: Err) -> Any:
    rows = [
        module.DescribeConfigsResult(err, err.name, one.resource_type, one.resource_name) for one in request.resources
    ]
    return module.DescribeConfigsResponse(results=rows)


def _altered(response: str) -> Builder:
    def build(module: Any, request: Any, version: int, err: Err) -> Any:
        rows = [
            module.AlterConfigsResourceResponse(err, None, one.resource_type, one.resource_name)
            for one in request.resources
        ]
        return getattr(module, response)(responses=rows)

    return build


def _create_topics(module: Any, request: Any, version: int, err: Err) -> Any:
    rows = [module.CreatableTopicResult(topic.name, error_code=err, error_message=None) for topic in request.topics]
    return module.CreateTopicsResponse(topics=rows)


def _find_coordinator(module: Any, request: FindCoordinatorRequest, version: int, err: Err) -> Any:
    if version >= 4:
        found = [module.Coordinator(key, -1, "", -1, err, err.name) for key in request.coordinator_keys]
        return module.FindCoordinatorResponse(coordinators=found)
    return module.FindCoordinatorResponse(error_code=err, error_message=err.name, node_id=-1, host="", port=-1)


def _delete_topics(module: Any, request: DeleteTopicsRequest, version: int, err: Err) -> Any:
    if version >= 6:
        rows = [module.DeletableTopicResult(topic.name, topic.topic_id, err) for topic in request.topics]
    else:
        rows = [module.DeletableTopicResult(name, ZERO_UUID, err) for name in request.topic_names]
    return module.DeleteTopicsResponse(responses=rows)


def _join_group(module: Any, request: Any, version: int, err: Err) -> Any:
    return module.JoinGroupResponse(error_code=err, protocol_name=None if version >= 7 else "")


_BUILDERS: dict[int, Builder] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.LIST_OFFSETS: _by_partition(
        "ListOffsetsResponse", "ListOffsetsTopicResponse", "ListOffsetsPartitionResponse", "name", "partition_index"
    ),
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _by_partition(
        "OffsetCommitResponse", "OffsetCommitResponseTopic", "OffsetCommitResponsePartition", "name", "partition_index"
    ),
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _by_partition(
        "DeleteRecordsResponse",
        "DeleteRecordsTopicResult",
        "DeleteRecordsPartitionResult",
        "name",
        "partition_index",
        low_watermark=-1,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _by_partition(
        "OffsetForLeaderEpochResponse", "OffsetForLeaderTopicResult", "EpochEndOffset", "topic", "partition"
    ),
    ApiKey.DESCRIBE_GROUPS: _by_row("DescribeGroupsResponse", "DescribedGroup", "groups", "groups", group_id=""),
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.CREATE_ACLS: _by_row("CreateAclsResponse", "AclCreationResult", "creations", "results"),
    ApiKey.DELETE_ACLS: _by_row("DeleteAclsResponse", "DeleteAclsFilterResult", "filters", "filter_results"),
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _altered("AlterConfigsResponse"),
    ApiKey.CREATE_PARTITIONS: _by_row(
        "CreatePartitionsResponse", "CreatePartitionsTopicResult", "topics", "results", name="name"
    ),
    ApiKey.DELETE_GROUPS: _by_row(
        "DeleteGroupsResponse", "DeletableGroupResult", "groups_names", "results", group_id=""
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _altered("IncrementalAlterConfigsResponse"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _by_row(
        "DescribeTopicPartitionsResponse", "DescribeTopicPartitionsResponseTopic", "topics", "topics", name="name"
    ),
}


# --- the first error --------------------------------------------------------------------------------------------------

_Finder = Callable[[Any], int]
_finders: dict[type, _Finder | None] = {}


def first_error(response: Any) -> Err | None:
    """The first error in a response that is not NONE: at the top, else in the order of its rows. None where there is none."""
    if response is None:
        return None
    find = _finder(type(response))
    code = 0 if find is None else find(response)
    if not code:
        return None
    try:
        return Err(code)
    except ValueError:
        return Err.UNKNOWN_SERVER_ERROR


def _finder(cls: type) -> _Finder | None:
    """What finds the first error code in a struct of this class; None where it has no place for one."""
    if cls not in _finders:
        _finders[cls] = _made_finder(cls)
    return _finders[cls]


def _made_finder(cls: Any) -> _Finder | None:
    own = any(name == "error_code" for name, _ in cls.__fields__)
    inner = [
        (name, found)
        for name, spec in cls.__fields__
        if spec.kind == "array" and not isinstance(spec.item, str) and (found := _finder(spec.item)) is not None
    ]
    if not own and not inner:
        return None

    def find(value: Any) -> int:
        if own and value.error_code:
            return int(value.error_code)
        for name, nested in inner:
            for one in getattr(value, name) or ():
                code = nested(one)
                if code:
                    return code
        return 0

    return find
