"""A hash of a group's topics, whose change shows that they have changed: equal to Kafka's, bit by bit.

A group that was loaded from a real broker's log must not regard its topics as changed, nor a real broker that loads ours: another hash
causes a rebalance. Source: KIP-1101, ``Utils.computeTopicHash`` and ``computeGroupHash`` of group-coordinator (4.1 and later), which
pass to XXH3, as hash4j does, numbers with the low byte first, and texts as UTF-16 with the low byte first and the length in characters
at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack

from broker_sim.common.xxh3 import xxh3_64
from broker_sim.coordinator.topics import TopicImage, Topics

_MAGIC = b"\0"  # which way of hashing a topic it is


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Metadata hash of those of the named topics that exist, as a signed number of 64 bits; 0 if none exists. It combines the topics'
    hashes in the order of their names, without the names themselves."""
    existing = sorted(topics.by_name.keys() & names)
    if not existing:
        return 0
    for name in existing:
        if name not in topics.hashes:
            topics.hashes[name] = topic_hash(name, topics.by_name[name])
    return _signed(pack(f"<{len(existing)}q", *(topics.hashes[name] for name in existing)))


def topic_hash(name: str, image: TopicImage) -> int:
    """Hash of one topic: of its id, its name, its partitions and the sorted racks of each."""
    most, least = image.topic_id[:8][::-1], image.topic_id[8:][::-1]
    parts = [_MAGIC, most, least, _text(name), pack("<i", image.partitions)]
    for partition in range(image.partitions):
        parts.append(pack("<i", partition))
        for rack in image.racks[partition] if partition < len(image.racks) else ():
            parts += (pack("<i", _length(rack)), _text(rack))
    return _signed(b"".join(parts))


def _text(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + pack("<i", _length(text))


def _length(text: str) -> int:
    """The length in UTF-16 code units, as Java counts characters."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _signed(data: bytes) -> int:
    return int.from_bytes(xxh3_64(data).to_bytes(8, "big"), "big", signed=True)
