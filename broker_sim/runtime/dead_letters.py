"""Dead letters of share groups (KIP-1191, 4.4): rejected records, and those that reach the delivery limit, are written to a topic of
the group.

Rules:
1. A record is stored as ARCHIVING, then its dead letter is written, then it is ARCHIVED. If the broker dies in between its successor
   writes the letter again: at least once.
2. If a letter can't be written, that is logged and the record is archived nevertheless.
3. A letter has the record's topic, partition and offset in headers, and its key and value if the group asks for a copy, but never its
   own headers. Its partition is that of the record, modulo the topic's number of partitions.

Source: DefaultShareGroupDLQManager.java, ShareGroupDLQStateManager.java, SharePartition.initiateDLQAndArchive (4.4).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from broker_sim.metadata.cluster_state import ClusterState, KafkaError, Partition, Topic
from broker_sim.metadata.entity_configs import Entity
from broker_sim.storage import StorageError
from broker_sim.storage.errors import OffsetOutOfRange
from kafka_wire import record_batch
from kafka_wire.errors import Err
from kafka_wire.record_batch import Record

__all__ = ["REJECTED", "TOO_OFTEN", "DeadLetters", "Letters"]

log = logging.getLogger("broker_sim.coordinator")

REJECTED, TOO_OFTEN = "Offset rejected by client.", "Offset delivery count exceeded the threshold."
TOPIC_NAME = "errors.deadletterqueue.topic.name"
_COPIES = "errors.deadletterqueue.copy.record.enable"
_ENABLED = "errors.deadletterqueue.group.enable"
_MAKES_TOPICS = "errors.deadletterqueue.auto.create.topics.enable"
_PREFIX = "errors.deadletterqueue.topic.name.prefix"
_ATTEMPTS = 5
_BACKOFF_MS = 1000
"""Doubled at each attempt, as towards the share coordinator."""


@dataclass(frozen=True, slots=True)
class Letters:
    """Records ``first`` to ``last`` of a partition that reached the delivery limit, or why else they were archived."""

    group_id: str
    partition: Partition
    first: int
    last: int
    deliveries: int
    why: str


Sent = Callable[[str, str], object]
"""``sent(where, problem)``: the partition with the letters, as in ``dlq.orders-0``, or why they were not written."""


class _Refused(Exception):
    """There will be no letter."""


class DeadLetters:
    """Dead letters of a cluster's share groups."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def wanted(self, group_id: str) -> bool:
        """Whether a group has its dead letters kept."""
        return bool(self._own(group_id, TOPIC_NAME))

    def _own(self, group_id: str, name: str) -> str:
        return self._state.entity_configs[Entity.GROUP].get(group_id, {}).get(name, "")

    def send(self, letters: Letters, sent: Sent) -> None:
        """Call ``sent`` once they are committed, or will never be."""
        try:
            topic = self._topic(letters.group_id)
        except _Refused as refused:
            log.error("failed to write to DLQ, proceeding to ARCHIVED regardless: %s", refused)
            sent("", str(refused))
            return
        target = topic.partitions[letters.partition.index % len(topic.partitions)]
        self._attempt(letters, target, sent, 1)

    def _topic(self, group_id: str) -> Topic:
        """The topic for a group's dead letters, created if that is allowed. Raises _Refused."""
        config, name = self._state.config, self._own(group_id, TOPIC_NAME)
        of = f"share group: {group_id}, topic: {name}"
        prefix = config.str(_PREFIX)
        if not name:
            raise _Refused(f"Configured DLQ topic name in share group: {group_id} is empty.")
        if prefix and not name.startswith(prefix):
            raise _Refused(
                f"Configured DLQ topic name does not comply with the DLQ topic prefix in {of}, prefix: {prefix}."
            )
        topic = self._state.topics.get(name)
        if topic is not None:
            if topic.configs.get(_ENABLED, "false") != "true":
                raise _Refused(f"DLQ is not enabled on configured DLQ topic for {of}.")
            return topic
        if not config.bool(_MAKES_TOPICS):
            raise _Refused(f"DLQ topic does not exist and auto create is disabled on cluster for {of}.")
        try:
            made = {_ENABLED: "true", "message.timestamp.type": "CreateTime"}
            return self._state.create_topic(name, configs=made)
        except KafkaError as failure:
            raise _Refused(f"DLQ topic could not be created for {of}: {failure.message}") from None

    def _attempt(self, letters: Letters, target: Partition, sent: Sent, attempt: int) -> None:
        now_ms = self._state.clock.now_ms()
        copies = self._own(letters.group_id, _COPIES) == "true"
        if target.leader < 0:
            error = Err.UNKNOWN_TOPIC_OR_PARTITION if target.deleted else Err.LEADER_NOT_AVAILABLE
            self._failed(letters, target, sent, attempt, error.name)
            return
        try:
            batch = record_batch.encode_batch(list(_records(letters, now_ms, copies=copies)))
            target.append(batch, now_ms=now_ms)
        except StorageError as failure:
            self._failed(letters, target, sent, attempt, type(failure).__name__, str(failure))
            return

        def settled(error: Err) -> None:
            if error is Err.NONE:
                sent(target.name, "")
            else:
                self._failed(letters, target, sent, attempt, error.name)

        target.when_committed(target.log.log_end_offset, settled)

    def _failed(
        self, letters: Letters, target: Partition, sent: Sent, attempt: int, kind: str, message: str = ""
    ) -> None:
        """Try again, or give up."""
        if attempt == _ATTEMPTS:
            log.error("failed to write to DLQ %s, proceeding to ARCHIVED regardless: %s", target.name, message or kind)
            sent("", f"{target.name}: {kind}")
            return
        wire = self._state.clock.wire
        pause_ms = _BACKOFF_MS << (attempt - 1)
        wire.call_at_ms(wire.now_ms() + pause_ms, self._attempt, letters, target, sent, attempt + 1)


def _records(letters: Letters, now_ms: int, *, copies: bool) -> Iterator[Record]:
    contents = _contents(letters) if copies else {}
    for at, offset in enumerate(range(letters.first, letters.last + 1)):
        key, value = contents.get(offset, (None, None))
        fields = {
            "topic": letters.partition.topic.name,
            "partition": letters.partition.index,
            "offset": offset,
            "group": letters.group_id,
            "delivery.count": letters.deliveries,
            "message": letters.why,
        }
        headers = [(f"__dlq.errors.{name}", str(what).encode()) for name, what in fields.items()]
        yield Record(at, now_ms, key, value, headers)


def _contents(letters: Letters) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Keys and values, as far as the log has them and they can be read."""
    contents: dict[int, tuple[bytes | None, bytes | None]] = {}
    try:
        for batch in letters.partition.log.batches(max(letters.first, letters.partition.log.log_start_offset)):
            if batch.header.base_offset > letters.last:
                break
            for record in batch.records():
                if letters.first <= record.offset <= letters.last:
                    contents[record.offset] = record.key, record.value
    except (StorageError, OffsetOutOfRange, ValueError) as problem:
        log.warning("records %s to %s of %s: %s", letters.first, letters.last, letters.partition.name, problem)
    return contents
