"""What a coordinator's log holds, record by record, for whoever loads it: a shard of a broker, or an import of groups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from broker_sim.coordinator.shard_loader import ShardLoader
from broker_sim.metadata.topics import Partition
from kafka_wire import record_batch

LogRecord = tuple[int, bytes | None, bytes | None, int, bool | None]
"""Offset, key, value, producer id of a transaction (else -1), and for an end-of-transaction marker whether it commits."""


def feed(loader: ShardLoader, records: Iterator[LogRecord], at_most: int | None = None) -> bool:
    """Give ``loader`` so many of the records, or all; whether there may be more. Raises what reading and `ShardLoader.add` raise."""
    fed = 0
    for fed, (offset, key, value, producer_id, marker) in enumerate(islice(records, at_most), 1):  # noqa: B007
        if marker is not None:
            loader.end_transaction(producer_id, committed=marker)
        else:
            loader.add(offset, key, value, producer_id)
    return fed == at_most


def log_records(partition: Partition) -> Iterator[LogRecord]:
    """Every record of a partition's log, from its start to its end (beyond the high watermark, as Kafka loads)."""
    for batch in partition.log.batches():
        header = batch.header
        producer_id = header.producer_id if header.is_transactional else -1
        for record in batch.records():
            if header.is_control:
                kind = record_batch.control_type(record.key)
                yield record.offset, None, None, header.producer_id, kind == record_batch.ControlType.COMMIT
            else:
                yield record.offset, record.key, record.value, producer_id, None
