"""The partition of `__consumer_offsets` for a group: Kafka's `Utils.abs(groupId.hashCode()) % n`."""

from __future__ import annotations

from kafka_wire.remembered import remembered


@remembered(entries=16384)
def java_hash(text: str) -> int:
    """String.hashCode of Java: over UTF-16 code units, h = 31 * h + unit, as a signed 32-bit number."""
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        value = (31 * value + (raw[at] << 8 | raw[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(group_id: str, partitions: int) -> int:
    """The partition of `__consumer_offsets`, which has `partitions` of them, for a group's records.

    Utils.abs returns 0 for the one number without a positive counterpart.
    """
    value = java_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % partitions
