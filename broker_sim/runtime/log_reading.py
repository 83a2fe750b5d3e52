"""Reads a coordinator's log, for a shard of a broker or an import of groups."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any

from broker_sim.coordinator.shard_loader import ShardLoader
from broker_sim.metadata.topics import Partition
from broker_sim.storage.results import LogBatch
from kafka_wire import record_batch
from kafka_wire.last_values import BatchLayouts, is_plain

LogRecord = tuple[int, bytes | None, bytes | None, int, bool | None]
"""Offset, key, value, producer id of a transaction (else -1), and for an end-of-transaction marker whether it commits."""


def feeding(loader: ShardLoader[Any], partition: Partition) -> Generator[None, None, None]:
    """Give ``loader`` all records of a partition's log, from its start to its end (beyond the high watermark, as Kafka loads). Yields
    after each that it reads, and after some of those that others supersede. Raises what reading and `ShardLoader.add` raise."""
    latest = loader.latest
    layouts = BatchLayouts({} if latest is None else latest, loader.versions)
    for batch in log_batches(partition):
        header = batch.header
        if latest is None or not is_plain(header):
            for offset, key, value, producer_id, marker in records_of(batch):
                if marker is not None:
                    loader.end_transaction(producer_id, committed=marker)
                else:
                    loader.add(offset, key, value, producer_id)
                yield
            continue
        superseded = header.record_count
        for record in layouts.last_values(batch.data, batch.position, header):
            if record is not None:
                loader.add(*record)
                superseded -= 1
            yield
        loader.records += superseded
        yield
    yield from loader.settling()


def read_slice(work: Iterator[None], at_most: int) -> bool:
    """Do so much of the work; whether there may be more."""
    return sum(1 for _ in islice(work, at_most)) == at_most


def log_batches(partition: Partition) -> Iterator[LogBatch]:
    """Every batch of a partition's log."""
    return partition.log.batches()


def records_of(batch: LogBatch) -> Iterator[LogRecord]:
    """Every record of a batch."""
    header = batch.header
    producer_id = header.producer_id if header.is_transactional else -1
    for record in batch.records():
        if header.is_control:
            kind = record_batch.control_type(record.key)
            yield record.offset, None, None, header.producer_id, kind == record_batch.ControlType.COMMIT
        else:
            yield record.offset, record.key, record.value, producer_id, None
