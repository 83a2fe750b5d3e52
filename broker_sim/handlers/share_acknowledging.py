"""Acknowledgements of records, in a ShareFetch or in a ShareAcknowledge: their checks, and the answer for each partition.

Source: KafkaApis.validateAcknowledgementBatches and handleAcknowledgements, SharePartitionManager.acknowledge (4.x).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from broker_sim.common.slices import Pace
from broker_sim.coordinator.share.heartbeat import LONGEST_MEMBER_ID
from broker_sim.coordinator.share_partition.partition import NOT_IN_FLIGHT, RENEW, Acknowledgement, Refusal
from broker_sim.coordinator.share_partition.sessions import TopicPartition
from broker_sim.coordinator.share_partition.transition import Transition
from broker_sim.requests.context import RequestContext
from broker_sim.runtime.share_partitions import LivePartition
from kafka_wire.errors import Err

_IDS_ARE_FREE = (4, 2)
"""The first release for which a member id is any text: before, it is a uuid, and two texts of one uuid are one member."""

_GROUPS_ARE_NAMED = (4, 3)
"""The first release that refuses a request without a group's id; in 4.2 an exception is thrown."""

_UUID_BYTES = 16


_NOT_HERE = "This server does not host this topic-partition."
"""The message for a partition of which this broker has no records in flight."""


class AcknowledgedRange(Protocol):
    """A request's acknowledgement of a range of records."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


@dataclass(slots=True)
class PartitionAnswer:
    """The error and message for one partition's acknowledgements."""

    error: Err = Err.NONE
    words: str | None = None


def member_of(ctx: RequestContext, group_id: str | None, member_id: str | None) -> str | Err:
    """The member id in partitions' leaders, or the error; 4.1 fails with an exception at an id that is no uuid, and
    without a group's id."""
    release = ctx.broker.state.config.release
    if release >= _IDS_ARE_FREE:
        if len(member_id or "") > LONGEST_MEMBER_ID:
            return Err.INVALID_REQUEST
        if (group_id is None or member_id is None) and member_id != "" and release < _GROUPS_ARE_NAMED:
            return Err.UNKNOWN_SERVER_ERROR
        return Err.INVALID_REQUEST if group_id is None or not member_id else member_id
    if group_id is None:
        return Err.UNKNOWN_SERVER_ERROR
    try:
        raw = base64.urlsafe_b64decode((member_id or "") + "=" * (-len(member_id or "") % 4))
    except (binascii.Error, ValueError):
        return Err.UNKNOWN_SERVER_ERROR
    return raw.hex() if len(raw) == _UUID_BYTES else Err.UNKNOWN_SERVER_ERROR


_PIECE = 2000
"""Batches, types and records that are looked at before others are served."""


def parts_of(topics: Iterable[Any], pace: Pace) -> Generator[None, None, dict[TopicPartition, Sequence[Any]]]:
    """The partitions of a request, with what is acknowledged of each; of one that is named twice the last counts."""
    parts: dict[TopicPartition, Sequence[Any]] = {}
    for topic in topics:
        for part in topic.partitions:
            if pace.full():
                yield
            parts[TopicPartition(topic.topic_id, part.partition_index)] = part.acknowledgement_batches
    return parts


def is_well_formed(batches: Sequence[AcknowledgedRange], pace: Pace, *, renews: bool) -> Generator[None, None, bool]:
    """Whether the batches are in order, and each has one type for all its records or one for each."""
    before, most = -1, RENEW if renews else RENEW - 1
    for batch in batches:
        if pace.full():
            yield
        if batch.first_offset > batch.last_offset or batch.first_offset < before:
            return False
        before = batch.last_offset
        types = batch.acknowledge_types
        if not types or (len(types) > 1 and len(types) != batch.last_offset - batch.first_offset + 1):
            return False
        for at in range(0, len(types), _PIECE):
            piece = types[at : at + _PIECE]
            if min(piece) < 0 or max(piece) > most:
                return False
            if pace.full(len(piece) - 1):
                yield
    return True


class Acknowledging:
    """The acknowledgements of one request; ``finished`` is called when all of them are answered."""

    def __init__(self, ctx: RequestContext, group_id: str, member: str, *, renews: bool) -> None:
        self._ctx, self._group_id, self._member, self._renews = ctx, group_id, member, renews
        self.answers: dict[TopicPartition, PartitionAnswer] = {}
        self.failed = False
        """Whether the whole request gets UNKNOWN_SERVER_ERROR; what was acknowledged before is still stored."""
        self._pace = Pace(_PIECE)
        self._moved: list[tuple[LivePartition, Transition, PartitionAnswer]] = []
        self._waiting = 1
        self._finished: Callable[[], object] | None = None

    def adding(self, parts: Mapping[TopicPartition, Sequence[AcknowledgedRange]]) -> Generator[None, None, None]:
        """Apply the acknowledgements of each partition, in pieces, up to the one that fails the request; `store` stores them. A
        partition without any is answered only if another one has some."""
        topics, empty = self._ctx.broker.state.topics_by_id, list[TopicPartition]()
        any_valid = False
        for at, batches in parts.items():
            if self._pace.full():
                yield
            answer, topic = PartitionAnswer(), topics.get(at.topic_id)
            if topic is None:
                answer.error = Err.UNKNOWN_TOPIC_ID
            elif not (yield from is_well_formed(batches, self._pace, renews=self._renews)):
                answer.error = Err.INVALID_REQUEST
            elif not 0 <= at.partition < len(topic.partitions):
                answer.error = Err.UNKNOWN_TOPIC_OR_PARTITION
            elif not batches:
                empty.append(at)
                continue
            else:
                any_valid = True
                yield from self._add(at, batches, answer)
            if self.failed:
                break
            self.answers[at] = answer
        if any_valid:
            self.answers.update((at, PartitionAnswer()) for at in empty)

    def _add(
        self, at: TopicPartition, batches: Sequence[AcknowledgedRange], answer: PartitionAnswer
    ) -> Generator[None, None, None]:
        """Apply acknowledgements of one partition, which is not loaded for it: only records in flight on this broker can be meant."""
        shares = self._ctx.coordinators.shares
        live = shares.known(self._ctx.broker, self._group_id, at)
        if live is None:
            answer.error, answer.words = Err.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE
            return
        if live.share is None:
            answer.error, answer.words = NOT_IN_FLIGHT
            return
        acknowledgements = (
            Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches
        )
        moved = yield from live.share.acknowledging(self._member, acknowledgements, shares.clock.now_ms(), self._pace)
        if isinstance(moved, Refusal):
            answer.error, answer.words = moved
            self.failed = moved.error is Err.UNKNOWN_SERVER_ERROR
        else:
            self._moved.append((live, moved, answer))

    def store(self) -> None:
        """Store what was acknowledged."""
        moved, self._moved = self._moved, []
        self._waiting += len(moved)
        for live, transition, answer in moved:
            written = partial(self._written, answer)
            self._ctx.coordinators.shares.write(live, transition, written, self._ctx.request_id)

    def _written(self, answer: PartitionAnswer, error: Err) -> None:
        answer.error = error
        self._one_less()

    def then(self, finished: Callable[[], object]) -> None:
        """Store all; ``finished`` is called when all are answered, possibly now."""
        self.store()
        self._finished = finished
        self._one_less()

    def _one_less(self) -> None:
        self._waiting -= 1
        if not self._waiting and self._finished is not None:
            self._finished()
