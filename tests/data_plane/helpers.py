"""Short ways to build the requests of the data plane, and to read what matters of the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_wire.messages.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafka_wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafka_wire.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.record_batch import build_batch
from tests.support.ctx import Sim

NOW_MS = 1_000_000


def batch(
    count: int = 1, *, timestamp_ms: int = NOW_MS, value: bytes = b"v", key: bytes | None = b"k", **options: int
) -> bytes:
    """One uncompressed batch of `count` equal records."""
    return build_batch([(key, value)] * count, timestamp_ms, **options)


def produce(
    topic: str = "t",
    records: bytes | None = None,
    *,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 1000,
    topic_id: bytes = bytes(16),
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A Produce request for one partition; `records` None stands for a batch of one record."""
    data = PartitionProduceData(partition, batch() if records is None else records)
    return ProduceRequest(transactional_id, acks, timeout_ms, [TopicProduceData(topic, topic_id, [data])])


def produced(response: ProduceResponse) -> PartitionProduceResponse:
    """The only partition's answer."""
    [topic] = response.responses
    [partition] = topic.partition_responses
    return partition


def fill(sim: Sim, topic: str, *counts: int, partition: int = 0, value: bytes = b"v") -> None:
    """Append one batch for each of `counts`, with as many records."""
    log = sim.state.partition(topic, partition)
    assert log is not None
    for count in counts:
        log.append(batch(count, value=value), now_ms=sim.clock.now_ms())


def fetch(
    offsets: Mapping[tuple[str, int], int] | None = None,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
    **options: object,
) -> FetchRequest:
    """A Fetch request: (topic, partition) -> offset; `session` is id and epoch; `options` are fields of FetchPartition
    (current_leader_epoch, last_fetched_epoch) or of the request (isolation_level, replica_id).
    """
    of_request = {name: options.pop(name) for name in ("isolation_level", "replica_id") if name in options}
    topics: dict[str, FetchTopic] = {}
    for (name, index), offset in ({("t", 0): 0} if offsets is None else offsets).items():
        one = FetchPartition(index, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **options)  # type: ignore[arg-type]
        topics.setdefault(name, FetchTopic(name)).partitions.append(one)
    request = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=list(topics.values())
    )
    request.session_id, request.session_epoch = session
    for field, value in of_request.items():
        setattr(request, field, value)
    return request


def fetched(response: FetchResponse) -> dict[tuple[str, int], PartitionData]:
    """The answer's partitions by topic and index, in its order."""
    return {(topic.topic, one.partition_index): one for topic in response.responses for one in topic.partitions}


def only(response: FetchResponse) -> PartitionData:
    """The only partition's answer."""
    [one] = fetched(response).values()
    return one


def list_offset(
    sim: Sim,
    timestamp: int,
    *,
    version: int = 7,
    topic: str = "t",
    partition: int = 0,
    epoch: int = -1,
    isolation_level: int = 0,
    replica_id: int = -1,
    broker: int = 1,
    max_num_offsets: int = 1,
) -> ListOffsetsPartitionResponse:
    """Ask for one offset."""
    asked = ListOffsetsPartition(partition, epoch, timestamp, max_num_offsets)
    request = ListOffsetsRequest(replica_id, isolation_level, [ListOffsetsTopic(topic, [asked])])
    [answer] = sim.call(request, version, broker=broker).topics[0].partitions
    assert isinstance(answer, ListOffsetsPartitionResponse)
    return answer


def creatable(
    name: str, partitions: int = 1, factor: int = 1, configs: Mapping[str, str | None] | None = None
) -> CreatableTopic:
    """One topic to create."""
    settings = [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()]
    return CreatableTopic(name, partitions, factor, [], settings)


def create(
    sim: Sim, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> Sequence[tuple[int, str | None]]:
    """(error, message) of every topic."""
    answer = sim.call(CreateTopicsRequest(list(topics), 1000, validate_only), version)
    return [(topic.error_code, topic.error_message) for topic in answer.topics]
