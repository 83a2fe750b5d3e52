"""Times of retention and compaction of logs: as LogManager and LogCleaner schedule them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_sim import Cluster
from broker_sim.common.clock import ManualClock
from broker_sim.metadata.topics import Partition
from kafka_wire.record_batch import Record, build_batch, encode_batch

CLEANED = {"cleanup.policy": "compact", "segment.bytes": "100", "min.cleanable.dirty.ratio": "0"}


class Looks:
    """A cluster on a clock that stands still, and when which work was done, in ms from its start."""

    def __init__(self, config: dict[str, object] | None = None, as_version: str = "3.9") -> None:
        self.clock = ManualClock()
        self.kafka = Cluster(clock=self.clock, as_version=as_version, config=config or {})
        self.retention: list[int] = []

    async def __aenter__(self) -> Looks:
        await self.kafka.start()
        self.began_ms = self.clock.now_ms()
        self.kafka.state.maintenance.retain = self._retain  # type: ignore[method-assign]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kafka.stop()

    def _retain(self, now_ms: int) -> None:
        self.retention.append(now_ms - self.began_ms)

    def topic(self, **configs: str) -> Partition:
        return self.kafka.state.create_topic("t", 1, configs={**CLEANED, **configs}).partitions[0]

    def append(self, partition: Partition, count: int) -> None:
        for _ in range(count):
            now_ms = self.clock.now_ms()
            partition.append(build_batch([(b"k", b"v" * 20)], now_ms), now_ms=now_ms)

    @staticmethod
    def offsets(partition: Partition) -> list[int]:
        return [record.offset for batch in partition.log.batches() for record in batch.records()]


@pytest.mark.parametrize("as_version", ["3.4", "3.9", "4.4"])
async def test_retention_first_looks_after_30_s_and_then_every_5_minutes(as_version: str) -> None:
    async with Looks(as_version=as_version) as looks:
        looks.clock.advance(29_999)
        assert looks.retention == []
        looks.clock.advance(600_001)
        assert looks.retention == [30_000, 330_000, 630_000]


async def test_both_are_settings() -> None:
    config: dict[str, object] = {"log.initial.task.delay.ms": 0, "log.retention.check.interval.ms": 1000}
    async with Looks(config) as looks:
        looks.clock.advance(2500)
        assert looks.retention == [0, 1000, 2000]


async def test_a_look_that_fails_is_followed_by_the_next(caplog: pytest.LogCaptureFixture) -> None:
    async with Looks() as looks:

        def fail(now_ms: int) -> None:
            looks.retention.append(now_ms - looks.began_ms)
            raise ZeroDivisionError

        looks.kafka.state.maintenance.retain = fail  # type: ignore[method-assign]
        looks.clock.advance(400_000)
        assert looks.retention == [30_000, 330_000]
    assert caplog.text.count("log maintenance failed") == 2
    assert looks.clock.next_deadline_ms() is None


async def test_the_cleaner_looks_every_15_s_counted_from_the_start() -> None:
    async with Looks() as looks:
        looks.clock.advance(20_000)
        partition = looks.topic()
        looks.append(partition, 4)
        looks.clock.advance(9_999)
        assert looks.offsets(partition) == [0, 1, 2, 3]
        looks.clock.advance(1)
        assert looks.offsets(partition) == [2, 3]  # the active segment is left


async def test_looks_without_work_are_left_out() -> None:
    async with Looks() as looks:
        partition = looks.topic()
        looks.append(partition, 4)
        looks.clock.advance(15_000)
        assert looks.offsets(partition) == [2, 3]
        assert looks.clock.next_deadline_ms() == looks.began_ms + 30_000  # retention: nothing is left to clean
        looks.append(partition, 1)
        looks.clock.advance(15_000)
        assert looks.offsets(partition) == [3, 4]


async def test_a_log_that_is_compacted_from_now_on_is_looked_at() -> None:
    async with Looks() as looks:
        partition = looks.topic(**{"cleanup.policy": "delete"})
        looks.append(partition, 4)
        looks.clock.advance(40_000)
        assert looks.offsets(partition) == [0, 1, 2, 3]
        looks.kafka.state.alter_topic("t", CLEANED)
        looks.clock.advance(5_000)
        assert looks.offsets(partition) == [2, 3]


async def test_no_cleaner_where_it_is_off() -> None:
    async with Looks({"log.cleaner.enable": False}) as looks:
        partition = looks.topic()
        looks.append(partition, 4)
        looks.clock.advance(120_000)
        assert looks.offsets(partition) == [0, 1, 2, 3]


@pytest.mark.parametrize("backoff_ms", [0, 1, 2500])
async def test_the_backoff_is_a_setting(backoff_ms: int) -> None:
    async with Looks({"log.cleaner.backoff.ms": backoff_ms}) as looks:
        partition = looks.topic()
        looks.append(partition, 4)
        looks.clock.advance(max(backoff_ms, 1))
        assert looks.offsets(partition) == [2, 3]


# --- idle producers

DAY_MS = 86_400_000


def produce(looks: Looks, partition: Partition, producer_id: int) -> None:
    now_ms = looks.clock.now_ms()
    rows = [Record(0, now_ms, b"k", b"v")]
    batch = encode_batch(rows, producer_id=producer_id, producer_epoch=0, base_sequence=0)
    partition.append(batch, now_ms=now_ms)


async def test_idle_producers_are_looked_for_every_10_minutes_from_when_their_log_was_opened() -> None:
    async with Looks() as looks:
        looks.clock.advance(7_000)
        partition = looks.topic()
        looks.clock.advance(120_000)
        produce(looks, partition, 1)
        looks.clock.advance(DAY_MS + 600_000 - 120_001)  # it has been idle for a day at 120 s: the next look finds that
        assert list(partition.log.producers.entries) == [1]
        looks.clock.advance(1)
        assert not partition.log.producers.entries


async def test_retention_forgets_no_producers() -> None:
    async with Looks({"producer.id.expiration.ms": 1000, "log.retention.check.interval.ms": 1000}) as looks:
        partition = looks.topic()
        produce(looks, partition, 1)
        looks.kafka.state.run_log_maintenance(looks.clock.now_ms() + 2000)
        looks.clock.advance(599_999)
        assert list(partition.log.producers.entries) == [1]
        looks.clock.advance(1)
        assert not partition.log.producers.entries


async def test_how_often_idle_producers_are_looked_for_is_a_setting() -> None:
    config: dict[str, object] = {"producer.id.expiration.ms": 1, "producer.id.expiration.check.interval.ms": 5000}
    async with Looks(config) as looks:
        partition = looks.topic()
        for producer_id in (1, 2):  # a look that found all idle is followed by others once there is a producer again
            produce(looks, partition, producer_id)
            looks.clock.advance(4_999)
            assert list(partition.log.producers.entries) == [producer_id]
            looks.clock.advance(1)
            assert not partition.log.producers.entries


async def test_a_log_that_lost_its_tail_looks_for_those_that_it_knows_again() -> None:
    async with Looks({"producer.id.expiration.ms": 1000}) as looks:
        partition = looks.topic()
        produce(looks, partition, 1)
        produce(looks, partition, 2)
        looks.clock.advance(600_000)
        assert not partition.log.producers.entries
        partition.log.truncate_to(1)
        assert list(partition.log.producers.entries) == [1]
        looks.clock.advance(600_000)
        assert not partition.log.producers.entries


async def test_no_looks_without_producers_nor_in_a_topic_that_is_deleted() -> None:
    config = {"log.retention.check.interval.ms": 9 * DAY_MS, "producer.id.expiration.check.interval.ms": 40_000}
    async with Looks(config) as looks:
        partition = looks.topic(**{"cleanup.policy": "delete"})
        looks.append(partition, 1)
        looks.clock.advance(35_000)
        assert looks.clock.next_deadline_ms() == looks.began_ms + 30_000 + 9 * DAY_MS
        produce(looks, partition, 1)
        assert looks.clock.next_deadline_ms() == looks.began_ms + 40_000
        looks.kafka.state.delete_topic("t")
        looks.clock.advance(5_000)
        assert looks.clock.next_deadline_ms() == looks.began_ms + 30_000 + 9 * DAY_MS


async def test_a_log_from_a_disk_forgets_at_once_who_is_idle(tmp_path: Path) -> None:
    config: dict[str, object] = {"producer.id.expiration.ms": 10_000}
    known = []
    for clock_ms in (0, 9_999, 10_000):
        async with Cluster(clock=ManualClock(1_700_000_000_000 + clock_ms), config=config, data_dir=tmp_path) as kafka:
            if not clock_ms:
                partition = kafka.state.create_topic("t", 1).partitions[0]
                rows = [Record(0, 1_700_000_000_000, b"k", b"v")]
                batch = encode_batch(rows, producer_id=1, producer_epoch=0, base_sequence=0)
                partition.append(batch, now_ms=1_700_000_000_000)
            known.append(list(kafka.state.topic("t").partitions[0].log.producers.entries))
    assert known == [[1], [1], []]
