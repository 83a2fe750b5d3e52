"""The order of the records that a commit of several partitions writes, where Kafka keeps the partitions in a hash map (3.x).

Source: GroupMetadataManager.storeOffsets, which maps its argument to records. 3.4 builds that as an immutable map of Scala
(KafkaApis.handleOffsetCommitRequest), later releases and TxnOffsetCommit from a mutable one (GroupCoordinatorAdapter.commitOffsets,
KafkaApis.handleTxnOffsetCommitRequest). An immutable map of up to four keys has the order in which they were put into it; a larger one
that of their hashes, whichever way it was built.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Protocol

from broker_sim.common.slices import Pace
from broker_sim.coordinator.classic.vote import scala_mutable_order, scala_ordering, string_hash
from broker_sim.coordinator.outcome import Offset
from broker_sim.coordinator.policy import Policy

_PIECE = 2000
_IN_ORDER = 4
"""Most keys of an immutable map that has no hashes (scala.collection.immutable.Map.Map4)."""
_NO_TOPIC_ID = 31 * 31
"""Number that TopicIdPartition.hashCode adds to its TopicPartition's hash if the id is zero, as in these maps."""

Committed = tuple[str, int, Offset]


class _Part(Protocol):
    @property
    def partition_index(self) -> int: ...


class _Topic(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> Sequence[_Part]: ...


def in_map_order(
    offsets: list[Committed],
    refused: Iterable[tuple[str, int]],
    requested: Sequence[_Topic],
    policy: Policy,
    *,
    transactional: bool = False,
) -> Generator[None, None, list[Committed]]:
    """``offsets`` in the order of the release's map, if it has one, in pieces. ``refused``: partitions that are in it, too, but not
    written; ``requested``: the topics of the request, in whose order partitions are put into the map."""
    if not policy.commit_map_keys:
        return offsets
    pace = Pace(_PIECE)
    known = {(name, index): offset for name, index, offset in offsets}
    inside = {*known, *refused}
    placed: dict[tuple[str, int], None] = {}
    for topic in requested:
        for part in topic.partitions:
            if pace.full():
                yield
            if (topic.name, part.partition_index) in inside:
                placed[topic.name, part.partition_index] = None
    more = _NO_TOPIC_ID if policy.commit_map_keys == "TopicIdPartition" else 0

    def hash_of(key: tuple[str, int]) -> int:
        topic, partition = key
        return ((31 + partition) * 31 + string_hash(topic) + more) & 0xFFFF_FFFF

    if len(placed) > _IN_ORDER:
        # a map without the refused ones is a trie of its own, but stays one however few are left
        order = yield from scala_ordering([key for key in placed if key in known], hash_of)
    else:
        is_hashed = transactional or policy.small_commits_are_hashed
        order = scala_mutable_order(placed, hash_of) if is_hashed else list(placed)
    return [(*key, known[key]) for key in order if key in known]
