"""Records that the coordinator writes into __consumer_offsets, read back through Fetch."""

from __future__ import annotations

from kafka_wire.errors import Err
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.conformance.driver import Kafka, subscription, sync_all
from tests.conformance.logs import Entry, log_of, log_until

T, T1 = ("t0", 0), ("t0", 1)
COMMIT, GROUP = 1, 2


def kinds(entries: list[Entry]) -> list[tuple[int, bool]]:
    """(record type, whether it is a tombstone) of each record."""
    return [(entry.record_type, entry.raw_value is None) for entry in entries]


async def test_s3_2_commit_record_of_a_simple_group(kafka: Kafka) -> None:
    await kafka.commit({T: (5, "meta")}, committed_leader_epoch=3)
    [entry] = await log_until(kafka, 1)
    name = kafka.group.encode()
    assert entry.raw_key == b"\0\x01" + len(name).to_bytes(2, "big") + name + b"\0\x02t0" + bytes(4)
    assert entry.version == kafka.pick(old=3, new=4)
    assert (entry.value.offset, entry.value.leader_epoch, entry.value.metadata) == (5, 3, "meta")
    batch = entry.batch
    assert (batch.magic, batch.attributes, batch.producer_id, batch.producer_epoch) == (2, 0, -1, -1)
    assert batch.base_sequence == 0


async def test_s3_2_value_bytes_of_a_commit(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    [entry] = await log_until(kafka, 1)
    raw = entry.raw_value
    assert raw is not None
    stamp = entry.value.commit_timestamp.to_bytes(8, "big")
    offset = (5).to_bytes(8, "big")
    old = b"\0\x03" + offset + b"\xff\xff\xff\xff" + b"\0\0" + stamp
    new = b"\0\x04" + offset + b"\xff\xff\xff\xff" + b"\x01" + stamp + b"\0"
    assert raw == kafka.pick(old=old, new=new)


async def test_s3_2_one_request_is_one_batch(kafka: Kafka) -> None:
    await kafka.commit({T: 5, T1: 6, ("t1", 0): 7})
    entries = await log_until(kafka, 3)
    assert len({entry.batch.base_offset for entry in entries}) == 1
    assert sorted((entry.key.topic, entry.key.partition) for entry in entries) == [T, T1, ("t1", 0)]


async def test_097_retention_time_is_written_as_an_expiry_time(kafka: Kafka) -> None:
    await kafka.commit({T: 5}, version=2, retention_time_ms=60_000)
    [entry] = await log_until(kafka, 1)
    assert entry.version == 1
    assert entry.value.expire_timestamp - entry.value.commit_timestamp == 60_000


async def test_s3_2_default_retention_writes_no_expiry_time(kafka: Kafka) -> None:
    await kafka.commit({T: 5}, version=4, retention_time_ms=-1)
    [entry] = await log_until(kafka, 1)
    assert entry.version == kafka.pick(old=3, new=4)


async def test_s3_2_retention_time_of_v5_does_not_exist(kafka: Kafka) -> None:
    await kafka.commit({T: 5}, version=5)
    [entry] = await log_until(kafka, 1)
    assert entry.version == kafka.pick(old=3, new=4)


async def test_s3_2_group_record_when_the_leader_synced(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, instances=["i1", None])
    entries = await log_of(kafka)
    last = entries[-1]
    value = last.value
    assert (last.record_type, last.version) == (GROUP, 3)
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 2, "range", m1.id)
    members = {member.member_id: member for member in value.members}
    assert set(members) == {m1.id, m2.id}
    assert (members[m1.id].group_instance_id, members[m2.id].group_instance_id) == ("i1", None)
    assert (members[m2.id].client_id, members[m2.id].client_host) == ("m2", "/127.0.0.1")
    assert (members[m2.id].session_timeout, members[m2.id].rebalance_timeout) == (20_000, 20_000)
    assert (members[m2.id].subscription, members[m2.id].assignment) == (subscription("t0"), b"to-m2")


async def test_s3_2_batch_of_a_group_record(kafka: Kafka) -> None:
    await kafka.stable()
    batch = (await log_of(kafka))[-1].batch
    assert (batch.attributes, batch.producer_id, batch.producer_epoch) == (0, -1, -1)
    assert batch.base_sequence == kafka.pick(old=-1, new=0)


async def test_s3_2_new_group_record_of_4_1(kafka: Kafka) -> None:
    """4.1 writes the group down when it hands out the first member id, 3.4 does not."""
    member = await kafka.member()
    await member.ask_id()
    await kafka.until("Empty")
    entries = await log_of(kafka)
    if kafka.old:
        assert entries == []
        return
    [entry] = entries
    raw = entry.raw_value
    assert raw is not None
    stamp = entry.value.current_state_timestamp.to_bytes(8, "big")
    assert raw == bytes.fromhex("0003000000000000ffffffff") + stamp + bytes(4)


async def test_s3_2_no_record_before_the_leader_synced(kafka: Kafka) -> None:
    await kafka.joined(2)
    entries = await log_of(kafka)
    assert [entry.value.generation for entry in entries] == kafka.pick(old=[], new=[0])


async def test_s3_2_heartbeats_and_followers_write_nothing(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    before = len(await log_of(kafka, note=False))
    await m1.heartbeat()
    await m2.sync()
    await m2.join()
    await kafka.committed([T])
    assert len(await log_of(kafka)) == before


async def test_s3_2_empty_group_record_when_the_last_member_left(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    before = len(await log_of(kafka, note=False))
    await m1.leave()
    last = (await log_until(kafka, before + 1))[-1]
    value = last.value
    assert (value.protocol_type, value.generation, value.members) == ("consumer", 2, [])
    assert (value.protocol, value.leader) == (None, None)
    assert value.current_state_timestamp > 0


async def test_s3_2_each_generation_is_written(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    for _ in range(2):
        await m1.join()
        await sync_all([m1])
    generations = [entry.value.generation for entry in await log_of(kafka)]
    assert generations == kafka.pick(old=[1, 2, 3], new=[0, 1, 2, 3])


async def test_042_replaced_static_member_rewrites_the_record(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, instances=["i1", "i2"])
    before = len(await log_of(kafka, note=False))
    again = await kafka.member("again", instance="i2")
    await again.join()
    entries = await log_until(kafka, before + 1)
    value = entries[-1].value
    assert len(entries) == before + 1
    assert value.generation == 2
    assert {member.member_id for member in value.members} == {m1.id, again.id} != {m1.id, m2.id}
    assert {member.assignment for member in value.members} == {b"to-m1", b"to-m2"}


async def test_130_deleting_a_group_writes_tombstones(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.commit({T: 5, T1: 6})
    await m1.leave()
    before = len(await log_until(kafka, kafka.pick(old=4, new=5)))
    await kafka.forget(kafka.group)
    entries = (await log_until(kafka, before + 3))[before:]
    assert sorted(kinds(entries)) == [(COMMIT, True), (COMMIT, True), (GROUP, True)]
    assert {entry.key.partition for entry in entries if entry.record_type == COMMIT} == {0, 1}


async def test_130_deleting_a_simple_group_writes_tombstones(kafka: Kafka) -> None:
    """3.4 has no record of it to delete: its generation is 0."""
    await kafka.commit({T: 5})
    await kafka.forget(kafka.group)
    entries = await log_until(kafka, kafka.pick(old=2, new=3))
    assert kinds(entries) == kafka.pick(
        old=[(COMMIT, False), (COMMIT, True)], new=[(COMMIT, False), (COMMIT, True), (GROUP, True)]
    )


async def test_s2_8_offset_delete_writes_a_tombstone(kafka: Kafka) -> None:
    await kafka.commit({T: 5, T1: 6})
    topics = [OffsetDeleteRequestTopic("t0", [OffsetDeleteRequestPartition(0)])]
    answer = await kafka.ask(OffsetDeleteRequest(kafka.group, topics), 0)
    assert answer.error_code == Err.NONE
    entries = await log_until(kafka, 3)
    assert kinds(entries)[2] == (COMMIT, True)
    assert (entries[2].key.topic, entries[2].key.partition) == T


async def test_s2_8_offset_delete_without_a_commit_writes_nothing_in_4_1(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    topics = [OffsetDeleteRequestTopic("t0", [OffsetDeleteRequestPartition(1)])]
    await kafka.ask(OffsetDeleteRequest(kafka.group, topics), 0)
    await kafka.commit({T: 6})
    assert kinds(await log_of(kafka)) == [(COMMIT, False), (COMMIT, False)]


async def test_098_too_large_metadata_is_not_written(kafka: Kafka) -> None:
    await kafka.commit({T: (5, "x" * 101), T1: 6})
    [entry] = await log_until(kafka, 1)
    assert entry.key.partition == 1


async def test_s2_6_offset_of_an_old_version_keeps_its_commit_time(kafka: Kafka) -> None:
    """v1 (3.4 only) brings its own timestamp."""
    if not kafka.old:
        await kafka.commit({T: 5})
        assert (await log_until(kafka, 1))[0].value.commit_timestamp > 1_600_000_000_000
        return
    await kafka.commit({T: 5}, version=1, commit_timestamp=1_234_567_890_123)
    await kafka.commit({T: 6}, version=1, commit_timestamp=-1)
    first, second = await log_until(kafka, 2)
    assert first.value.commit_timestamp == 1_234_567_890_123
    assert second.value.commit_timestamp > 1_600_000_000_000
