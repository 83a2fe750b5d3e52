"""Appends of coordinators as one record batch in a partition's log."""

from __future__ import annotations

from broker_sim.coordinator.outcome import NO_PRODUCER, Append
from broker_sim.metadata.cluster_state import Partition
from broker_sim.runtime.commit_batching import batch_of
from broker_sim.storage.errors import RecordTooLarge
from kafka_wire import record_batch

__all__ = ["BATCH_RECORDS", "append_to"]

BATCH_RECORDS = 4000
"""Records that one shared batch may hold: about 400 KB, below ``max.message.bytes``."""


def append_to(partition: Partition, appends: list[Append], now_ms: int) -> int:
    """One record batch with the records of all ``appends``; its last offset."""
    first = appends[0]
    if first.commits:
        return partition.append_records(*batch_of(first.commits), now_ms=now_ms)
    pairs = first.records if len(appends) == 1 else [pair for append in appends for pair in append.records]
    if len(pairs) > BATCH_RECORDS and partition.append_interceptor is None:
        most = partition.log.config.max_message_bytes
        if sum(len(k) + len(v or b"") for k, v in pairs) > most:
            raise RecordTooLarge(f"{len(pairs)} records are more than {most} bytes")  # spare the batch
    within = None if first.producer is NO_PRODUCER else first.producer
    bodies = record_batch.record_bodies(pairs)
    return partition.append_records(bodies, len(pairs), now_ms=now_ms, base_sequence=first.base_sequence, within=within)
