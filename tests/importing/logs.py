"""Log directories as a real broker leaves them, built out of batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from broker_sim.metadata.meta_files import uuid_text
from broker_sim.storage import partition_for
from kafka_wire.codec import encode
from kafka_wire.messages.consumer_protocol import ConsumerProtocolSubscription
from kafka_wire.messages.offsets_log import GroupMetadataValue, MemberMetadata
from kafka_wire.offsets_log import group_key, group_value, offset_commit_key, offset_commit_value
from kafka_wire.record_batch import Codec, Record, encode_batch

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(1, 17))
Pair = tuple[bytes | None, bytes | None]


def commit(group: str, topic: str, partition: int, offset: int | None, version: int = 3) -> Pair:
    """An offset commit, or with None its tombstone."""
    value = None if offset is None else offset_commit_value(version, offset, 2, "note", NOW_MS)
    return offset_commit_key(group, topic, partition), value


def group_of(group: str, generation: int, *members: str) -> Pair:
    """A group's record with these members, who want `orders` and have their names for an assignment."""
    subscription = b"\x00\x01" + encode(ConsumerProtocolSubscription(["orders"]), 1)
    stored = [
        MemberMetadata(
            member_id=name,
            group_instance_id=None,
            client_id=f"client-{name}",
            client_host="/10.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=600_000,
            subscription=subscription,
            assignment=name.encode(),
        )
        for name in members
    ]
    leader = members[0] if members else None
    protocol = "range" if members else None
    return group_key(group), group_value(
        3, GroupMetadataValue("consumer", generation, protocol, leader, NOW_MS, stored)
    )


def gone(group: str) -> Pair:
    return group_key(group), None


def batch_of(pairs: Sequence[Pair], at: int, *, codec: Codec = Codec.NONE, **options: int) -> bytes:
    """A batch of these records from offset `at` on."""
    rows = [Record(at + index, NOW_MS + index, key, value) for index, (key, value) in enumerate(pairs)]
    return encode_batch(rows, base_offset=at, leader_epoch=5, codec=codec, **options)


def write_log(directory: Path, topic: str, index: int, *segments: tuple[int, bytes], epochs: str = "5 0") -> Path:
    """A partition's directory: segments by base offset, epochs, topic id."""
    path = directory / f"{topic}-{index}"
    path.mkdir(parents=True)
    for base, data in segments:
        (path / f"{base:020d}.log").write_bytes(data)
        (path / f"{base:020d}.index").write_bytes(b"")
        (path / f"{base:020d}.timeindex").write_bytes(b"")
    (path / "leader-epoch-checkpoint").write_text(f"0\n1\n{epochs}\n")
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(TOPIC_ID)}")
    return path


def write_groups(directory: Path, pairs: Sequence[Pair], *, partitions: int = 50, all_of_them: bool = False) -> None:
    """The offsets partitions of these records, each where its group hashes; `all_of_them`: the empty ones, too."""
    logs: dict[int, list[Pair]] = {}
    for pair in pairs:
        assert pair[0] is not None
        size = int.from_bytes(pair[0][2:4], "big")
        group = pair[0][4 : 4 + size].decode()
        logs.setdefault(partition_for(group, partitions), []).append(pair)
    for index in range(partitions) if all_of_them else logs:
        mine = logs.get(index)
        write_log(directory, "__consumer_offsets", index, (0, batch_of(mine, 0) if mine else b""))
