"""Topics and partitions by their names, and records for them: what the handles of topics and of logs stand on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker_sim.common.text import UsageError, unknown
from kafka_wire.record_batch import build_batch

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import ClusterState, Partition, Topic

__all__ = ["Value", "fill_partition", "find_partition", "find_topic", "values"]

_BATCH_RECORDS = 500
_BATCH_BYTES = 256 * 1024

Value = Callable[[int], bytes]
"""Makes the n-th record's value, from 0."""


def find_topic(state: ClusterState, name: str) -> Topic:
    """The topic; raises UsageError with the nearest name."""
    topic = state.topics.get(name)
    if topic is None:
        raise unknown("topic", name, state.topics)
    return topic


def find_partition(state: ClusterState, topic: str, index: int) -> Partition:
    """The partition; raises UsageError that says which there are."""
    partitions = find_topic(state, topic).partitions
    if not 0 <= index < len(partitions):
        raise UsageError(f"no partition {index} of topic {topic!r}; expected 0 to {len(partitions) - 1}")
    return partitions[index]


def fill_partition(
    partition: Partition, count: int, now_ms: int, *, first: int = 0, step: int = 1, value: Value
) -> None:
    """Append ``count`` records as a producer would: numbers ``first``, ``first + step``, ...; key ``key-<number>``."""
    if partition.topic.internal:
        raise UsageError(f"{partition.name} is an internal partition; only the broker writes to it")
    pairs: list[tuple[bytes | None, bytes | None]] = []
    size = 0
    for number in range(first, first + count * step, step):
        pairs.append((b"key-%d" % number, value(number)))
        size += len(pairs[-1][1] or b"") + 32
        if len(pairs) == _BATCH_RECORDS or size >= _BATCH_BYTES:
            partition.append(build_batch(pairs, now_ms, base_sequence=-1), now_ms=now_ms)
            pairs, size = [], 0
    if pairs:
        partition.append(build_batch(pairs, now_ms, base_sequence=-1), now_ms=now_ms)


def values(topic: str, value: Value | None, value_bytes: int | None) -> Value:
    """Values of records: ``value`` if it is given, else ``orders-17``, cut or filled up to ``value_bytes``."""
    if value is not None:
        return value
    name = topic.encode()
    if value_bytes is None:
        return lambda number: b"%s-%d" % (name, number)
    return lambda number: (b"%s-%d" % (name, number))[:value_bytes].ljust(value_bytes, b".")
