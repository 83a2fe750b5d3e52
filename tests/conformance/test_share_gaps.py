"""Share groups (KIP-932): acknowledgements of offsets before, between and behind the batches in flight, and of deleted records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.messages.k84_read_share_group_state import PartitionData as ReadPartition
from kafka_wire.messages.k84_read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from kafka_wire.messages.k85_write_share_group_state import (
    PartitionData,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from kafka_wire.record_batch import Record, batches, encode_batch
from tests.conformance.driver import Kafka
from tests.conformance.logs import fetch_all, produce
from tests.conformance.test_share_groups import (
    ACCEPT,
    ANN,
    BOB,
    GAP,
    REJECT,
    RELEASE,
    Said,
    Shares,
    acquired,
    until,
)
from tests.support.wire import Wire

pytestmark = [pytest.mark.generations("4.1", "4.4"), pytest.mark.profile("share")]

DONE, BAD, WRONG, FAILS = Err.NONE, Err.INVALID_REQUEST, Err.INVALID_RECORD_STATE, Err.UNKNOWN_SERVER_ERROR
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.ms": "100"}
AVAILABLE, ACKNOWLEDGED = 0, 2


class Members:
    """Ann and Bob, each with a session and a connection; records come five at a time, a batch of the log."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka, self.shares = kafka, Shares(kafka)
        self._wires: dict[str, Wire] = {}
        self._epochs: dict[str, int] = {}

    async def join(self) -> None:
        for member in (ANN, BOB):
            await self.shares.join(member)
            self._wires[member] = await self.kafka.wire(member, record=False)

    async def compacted(self) -> Members:
        """Both, and a log with the offsets 0 to 4, 10 to 14, 15 to 19 and 20 to 24: the others were compacted away."""
        await self.shares.begin()
        topic = self.shares.topic = await self.kafka.topic(self.kafka.name("compacted"), **COMPACTED)
        wire = await self.kafka.wire("producer", record=False)
        begin_ms = int(time.time() * 1000) - 10_000
        for second, keys in ((0, "abcde"), (0, "vwxyz"), (0, "fghij"), (1, "vwxyz"), (2, "klmno")):
            rows = [Record(at, begin_ms + 1000 * second, key.encode(), b"value") for at, key in enumerate(keys)]
            assert (await produce(wire.send, topic, 0, encode_batch(rows))).error_code == Err.NONE

        async def cleaned() -> bool:
            log = await fetch_all(wire.send, topic, 0)
            return [header.base_offset for _, header in batches(log)] == [0, 10, 15, 20]

        await until("the log to be compacted", cleaned)
        await self.join()
        return self

    async def loaded(self, *stored: StateBatch) -> Members:
        """Both, and a log of 25 records, of which the share coordinator has this state before anything is fetched."""
        await self.shares.begin()
        await self.shares.produce(5, 5, 5, 5, 5)
        await self.join()
        group, topic_id = self.kafka.group, self.shares.topic_id
        reading = ReadShareGroupStateRequest(group, [ReadStateData(topic_id, [ReadPartition(0, 0)])])
        [row] = (await self.kafka.watch(reading, 0)).results[0].partitions
        data = PartitionData(0, row.state_epoch, 0, 0, state_batches=list(stored))
        writing = WriteShareGroupStateRequest(group, [WriteStateData(topic_id, [data])])
        [row] = (await self.kafka.watch(writing, 0)).results[0].partitions
        assert row.error_code == Err.NONE
        return self

    async def fetch(self, member: str = ANN) -> list[tuple[int, int, int]]:
        epoch = self._epochs[member]
        self._epochs[member] += 1
        return acquired(await self.shares.fetch(self._wires[member], member, epoch, max_records=1))

    async def first(self, member: str = ANN) -> list[tuple[int, int, int]]:
        """The first records in a new session, not recorded: how many fetches it takes is chance."""
        got: list[tuple[int, int, int]] = []

        async def records() -> bool:
            self._epochs[member] = 0
            got[:] = await self.fetch(member)
            return bool(got)

        await until("records", records)
        self._wires[member].recording = self.kafka.recording
        return got

    async def say(self, rows: Sequence[tuple[str, Said, Err]]) -> None:
        """Acknowledgements one after the other, with the errors that they get."""
        for member, said, error in rows:
            epoch = self._epochs[member]
            self._epochs[member] += 1
            got = await self.shares.say(self._wires[member], member, epoch, said)
            assert got is error, (member, said, got)

    async def delete(self, below: int) -> None:
        delete = DeleteRecordsRequest([DeleteRecordsTopic(self.shares.topic, [DeleteRecordsPartition(0, below)])], 5000)
        answer: Any = await self.kafka.watch(delete, 2)
        assert answer.topics[0].partitions[0].low_watermark == below


async def test_s20_acknowledgements_around_a_gap_of_the_log(kafka: Kafka) -> None:
    members = await Members(kafka).compacted()
    assert [await members.first(), await members.fetch()] == [[(0, 4, 1)], [(10, 14, 1)]]
    await members.say(
        [
            *((ANN, said, BAD) for said in ((5, 7, [ACCEPT]), (5, 9, [GAP]), (5, 7, [GAP, GAP, GAP]))),
            *((ANN, said, BAD) for said in ((3, 6, [ACCEPT]), (4, 9, [ACCEPT]))),
            *((ANN, said, BAD) for said in ((20, 22, [ACCEPT]), (14, 22, [ACCEPT]), (15, 15, [ACCEPT]))),
            (ANN, (7, 11, [ACCEPT]), DONE),
            (ANN, (9, 12, [RELEASE, RELEASE, RELEASE, ACCEPT]), WRONG),
            (ANN, (2, 12, [RELEASE] + [GAP] * 7 + [RELEASE] * 3), WRONG),
            (ANN, (3, 12, [GAP, RELEASE] + [GAP] * 5 + [ACCEPT] * 3), WRONG),
            (ANN, (0, 1, [ACCEPT]), DONE),
            (ANN, (0, 14, [RELEASE]), WRONG),
            (ANN, (2, 9, [ACCEPT]), BAD),
            (ANN, (9, 14, [REJECT]), WRONG),
            (ANN, (12, 14, [RELEASE]), DONE),
            (ANN, (5, 8, [ACCEPT]), BAD),
        ]
    )
    assert (await members.fetch())[:3] == (
        [(12, 12, 2), (13, 13, 2), (14, 14, 2)] if members.shares.old else [(12, 14, 2)]
    )
    await members.say([(ANN, (2, 4, [ACCEPT]), DONE), (ANN, (5, 8, [ACCEPT]), DONE), (ANN, (7, 14, [ACCEPT]), DONE)])


async def test_s21_the_batch_before_a_gap_counts(kafka: Kafka) -> None:
    """The batch must be the member's own, though the acknowledgement has no offset of it, and is kept record by record then."""
    members = await Members(kafka).compacted()
    assert [await members.first(), await members.first(BOB)] == [[(0, 4, 1)], [(10, 14, 1)]]
    await members.say(
        [
            (BOB, (7, 11, [ACCEPT]), WRONG),
            (ANN, (7, 11, [ACCEPT]), WRONG),
            (BOB, (10, 11, [ACCEPT]), DONE),
            (ANN, (0, 4, [RELEASE]), DONE),
            (BOB, (8, 12, [ACCEPT]), WRONG),
            (BOB, (9, 9, [ACCEPT]), BAD),
        ]
    )
    again = [(at, at, 2) for at in range(5)] if members.shares.old else [(0, 4, 2)]
    assert await members.fetch() == again
    await members.say(
        [
            (ANN, (0, 4, [ACCEPT]), DONE),
            (BOB, (8, 12, [ACCEPT]), DONE),
            (BOB, (9, 9, [ACCEPT]), DONE),
            (BOB, (4, 13, [ACCEPT]), DONE),
            (BOB, (14, 14, [ACCEPT]), DONE),
            (BOB, (5, 15, [ACCEPT]), FAILS),
            (BOB, (15, 15, [ACCEPT]), WRONG),
        ]
    )
    assert await members.fetch() == [(15, 19, 1)]


async def test_s22_a_gap_behind_the_start_offset(kafka: Kafka) -> None:
    members = await Members(kafka).compacted()
    assert await members.first() == [(0, 4, 1)]
    assert [await members.fetch() for _ in range(3)] == [[(10, 14, 1)], [(15, 19, 1)], [(20, 24, 1)]]
    await members.say(
        [
            (ANN, (10, 14, [ACCEPT]), DONE),
            (ANN, (7, 16, [ACCEPT]), WRONG),
            (ANN, (15, 16, [ACCEPT]), DONE),
            (ANN, (0, 4, [ACCEPT]), DONE),
            (ANN, (3, 6, [ACCEPT]), DONE),
            (ANN, (7, 16, [ACCEPT]), DONE),
            (ANN, (3, 18, [ACCEPT]), DONE),
            (ANN, (18, 25, [ACCEPT]), BAD),
            (ANN, (18, 24, [ACCEPT]), DONE),
            (ANN, (25, 25, [ACCEPT]), WRONG),
            (ANN, (23, 26, [ACCEPT]), FAILS),
        ]
    )


async def test_s23_gaps_that_are_loaded(kafka: Kafka) -> None:
    """Records that nothing was stored of are acquired in their turn; until then they are not in flight."""
    members = await Members(kafka).loaded(StateBatch(5, 9, AVAILABLE, 1), StateBatch(15, 19, AVAILABLE, 1))
    assert await members.first() == [(0, 4, 1)]
    out: list[tuple[str, Said, Err]] = [(ANN, (10, 16, [ACCEPT]), WRONG), (ANN, (18, 20, [ACCEPT]), BAD)]
    out += [(ANN, said, BAD) for said in ((10, 11, [ACCEPT]), (13, 13, [ACCEPT]), (8, 13, [ACCEPT]))]
    await members.say([(ANN, (5, 6, [ACCEPT]), WRONG), *out])
    assert await members.fetch() == [(5, 9, 2)]
    await members.say(out)
    assert [await members.fetch() for _ in range(3)] == [[(10, 14, 1)], [(15, 19, 2)], [(20, 24, 1)]]
    await members.say(
        [(ANN, (10, 11, [ACCEPT]), DONE), (ANN, (8, 13, [ACCEPT]), WRONG), (ANN, (13, 16, [ACCEPT]), DONE)]
    )


async def test_s24_a_gap_at_the_start(kafka: Kafka) -> None:
    members = await Members(kafka).loaded(StateBatch(5, 9, ACKNOWLEDGED, 1), StateBatch(15, 19, AVAILABLE, 1))
    assert await members.first() == [(0, 4, 1)]
    await members.say(
        [
            (ANN, (0, 1, [ACCEPT]), DONE),
            (ANN, (2, 6, [ACCEPT]), WRONG),
            (ANN, (8, 11, [ACCEPT]), BAD),
            (ANN, (0, 4, [ACCEPT]), DONE),
            (ANN, (10, 11, [ACCEPT]), BAD),
            (ANN, (12, 15, [ACCEPT]), WRONG),
            (ANN, (3, 12, [ACCEPT]), BAD),
        ]
    )
    assert [await members.fetch() for _ in range(3)] == [[(10, 14, 1)], [(15, 19, 2)], [(20, 24, 1)]]


async def test_s25_records_that_are_deleted_before_they_were_fetched(kafka: Kafka) -> None:
    """The start offset goes with the log's, past records that members have; those are not in question any more."""
    members = Members(kafka)
    await members.shares.begin()
    await members.shares.produce(5, 5, 5, 5)
    await members.join()
    assert await members.first() == [(0, 4, 1)]
    await members.delete(3)
    assert await members.first(BOB) == [(5, 9, 1)]
    await members.say([(BOB, (0, 2, [ACCEPT]), WRONG), (ANN, (1, 3, [ACCEPT]), DONE)])
    await members.delete(12)
    await members.say([(ANN, (5, 6, [ACCEPT]), WRONG), (ANN, (8, 11, [ACCEPT]), BAD)])
    assert [await members.fetch(), await members.fetch()] == [[], [(10, 14, 1)]]
    await members.say(
        [
            (BOB, (5, 6, [ACCEPT]), DONE),
            (ANN, (5, 6, [ACCEPT]), DONE),
            (ANN, (8, 12, [ACCEPT]), DONE),
            (ANN, (8, 17, [ACCEPT]), BAD),
            (BOB, (9, 13, [ACCEPT]), WRONG),
        ]
    )
    assert await members.fetch() == [(15, 19, 1)]
