"""Reading and writing partition logs over the wire: __consumer_offsets above all.

Records go into __consumer_offsets as the client that Kafka lets write there, whose client id is `__admin_client`
(AdminUtils.ADMIN_CLIENT_ID); the coordinator sees them only when it loads the partition again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.offsets_log import decode_key, decode_value
from kafka_wire.record_batch import BatchHeader, Record, batches, encode_batch, records
from tests.conformance.driver import GIVE_UP_S, Kafka, clock_s

OFFSETS = "__consumer_offsets"
ADMIN_CLIENT = "__admin_client"
Send = Callable[[Any, int], Awaitable[Any]]


def offsets_partition(group: str, partitions: int) -> int:
    """Return the partition with the records of a group: by Java's String.hashCode, made positive."""
    value = 0
    units = group.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


async def produce(send: Send, topic: str, partition: int, batch: bytes, *, acks: int = -1) -> Any:
    """Produce v9 of one batch; the partition's answer."""
    request = ProduceRequest(
        None, acks, 10_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
    )
    answer = await send(request, 9)
    return answer.responses[0].partition_responses[0]


async def produce_values(send: Send, topic: str, partition: int, stamped: Sequence[tuple[int, bytes]]) -> int:
    """One batch of (timestamp ms, value) records; its base offset."""
    rows = [Record(index, stamp, None, value) for index, (stamp, value) in enumerate(stamped)]
    answer = await produce(send, topic, partition, encode_batch(rows))
    assert answer.error_code == Err.NONE, Err(answer.error_code)
    offset: int = answer.base_offset
    return offset


async def fetch_all(send: Send, topic: str, partition: int) -> bytes:
    """Every batch of the partition up to its high watermark."""
    found, offset = b"", 0
    while True:
        wanted = FetchTopic(
            topic, partitions=[FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)]
        )
        answer = (await send(FetchRequest(max_wait_ms=0, topics=[wanted]), 12)).responses[0].partitions[0]
        assert answer.error_code == Err.NONE, Err(answer.error_code)
        if not answer.records:
            return found
        found += answer.records
        for _, header in batches(answer.records):
            offset = header.next_offset


@dataclass(frozen=True)
class Entry:
    """One record of __consumer_offsets: the batch it came in, its key and its value (None: a tombstone), read and raw."""

    batch: BatchHeader
    record_type: int
    key: Any
    raw_key: bytes
    version: int | None
    value: Any
    raw_value: bytes | None

    def plain(self) -> dict[str, Any]:
        """Fields that are compared between targets."""
        value = None
        if self.value is not None:
            value = {name: getattr(self.value, name) for name, _ in type(self.value).__fields__}
            value["members"] = [
                {name: getattr(member, name) for name, _ in type(member).__fields__}
                for member in value.get("members", [])
            ]
        return {
            "key": self.raw_key,
            "version": self.version,
            "value": value,
            "size": None if self.raw_value is None else len(self.raw_value),
            "attributes": self.batch.attributes,
            "producer": [self.batch.producer_id, self.batch.producer_epoch, self.batch.base_sequence],
        }


async def log_of(kafka: Kafka, group: str | None = None, *, partitions: int = 4, note: bool = True) -> list[Entry]:
    """Every record of the group in __consumer_offsets, oldest first; noted for the comparison between targets.

    Within a batch by key: what deletes a group, or expires its offsets, goes through a hash map.
    """
    group = kafka.group if group is None else group
    raw = await fetch_all(kafka.watch, OFFSETS, offsets_partition(group, partitions))
    found = []
    for position, header in batches(raw):
        if header.is_control:
            continue
        for record in records(raw, position, header):
            assert record.key is not None
            record_type, key = decode_key(record.key)
            if key is None or getattr(key, "group", None) != group:
                continue
            value = decode_value(record_type, record.value)
            version = None if record.value is None else int.from_bytes(record.value[:2], "big")
            found.append(Entry(header, record_type, key, record.key, version, value, record.value))
    found.sort(key=lambda entry: (entry.batch.base_offset, entry.raw_key))
    if note:
        kafka.recording.note("log", [entry.plain() for entry in found])
    return found


async def log_until(kafka: Kafka, count: int, group: str | None = None) -> list[Entry]:
    """Polls until the group has this many records in the log (a record may follow the answer it belongs to)."""
    give_up = clock_s() + GIVE_UP_S
    while True:
        found = await log_of(kafka, group, note=False)
        if len(found) >= count:
            return await log_of(kafka, group)
        if clock_s() > give_up:
            raise TimeoutError(f"waited {GIVE_UP_S:g} s for {count} records of the group, there are {len(found)}")
