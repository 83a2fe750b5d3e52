"""Heartbeats of consumer and share groups that name very many topics: the member's record is encoded in pieces before the step that
writes it, and the step goes over the names few times. A name counts how often it is hashed, compared or encoded."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from broker_sim.coordinator.consumer import heartbeat as consumer
from broker_sim.coordinator.kinds import KIND_OF_RECORD
from broker_sim.coordinator.outcome import Client, Request
from broker_sim.coordinator.records import EpochRecord, decode
from broker_sim.coordinator.share import heartbeat as share
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.coordinator.consumer.crowd import Crowd
from tests.coordinator.harness import Core
from tests.support.counted_names import Name

COUNT = 20_000
MOST = 8
"""Number of times that a step may touch each name: it is compared with the next one, hashed where it is counted, looked up, and
taken from the count."""
CLIENT = Client("c", "/127.0.0.1", 1)


class EncodedName(Name):
    """Encoding it counts as well."""

    __slots__ = ()

    def encode(self, *how: Any) -> bytes:
        Name.touched += COUNT  # not one of them in the step
        return str.encode(self, *how)


def names(first: int = 0) -> list[str]:
    return [EncodedName(f"{number:06x}") for number in range(first, first + COUNT)]


def consumer_beat(epoch: int, named: list[str]) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        "g", "m", epoch, rebalance_timeout_ms=5000, subscribed_topic_names=named, topic_partitions=[]
    )


def share_beat(epoch: int, named: list[str]) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest("g", "m", epoch, subscribed_topic_names=named)


class Kind:
    """Functions that consumer and share groups both have, by a kind's own names."""

    def __init__(self, room: Any, long: Callable[..., Any], beat: Callable[[int, list[str]], Any]) -> None:
        self.expecting, self.long, self.beat = room.expecting, long, beat


KINDS = {
    "consumer": Kind(consumer, consumer.LongConsumerHeartbeat, consumer_beat),
    "share": Kind(share, share.LongShareHeartbeat, share_beat),
}
BOTH = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def last_member(core: Core) -> tuple[bytes | None, Any]:
    """The last record of a member that was written: its bytes, and what it says."""
    for key, value in reversed(core.log):
        record = decode(key, value, later=True, epochs=KIND_OF_RECORD)
        if isinstance(record, EpochRecord) and hasattr(record.value, "subscribed_topic_names"):
            return value, record.value
    raise AssertionError("no record of a member")


def prepared(core: Core, kind: Kind, request: Any) -> tuple[Any, int]:
    """The heartbeat as its handler hands it on, and in how many pieces that was made."""
    job: Generator[None, None, Any] = kind.expecting(core.shard, CLIENT, request)
    pieces = 1
    while True:
        try:
            next(job)
            pieces += 1
        except StopIteration as done:
            return kind.long(request, done.value), pieces


@BOTH
def test_the_members_record_is_encoded_in_pieces_before_the_step(kind: Kind) -> None:
    core = Crowd((4, 4), topics={})
    for epoch, first in ((0, 0), (2, 1), (3, 2)):
        body, pieces = prepared(core, kind, kind.beat(epoch, names(first)))
        assert pieces >= COUNT // 4000
        core.now_ms += 10_000
        Name.touched = 0
        core.step(Request(next(core.tokens), CLIENT, body))
        assert Name.touched <= MOST * COUNT
        value, said = last_member(core)
        assert value == body.expected.encoded
        assert said.subscribed_topic_names == [str(name) for name in names(first)]


@BOTH
def test_a_record_that_says_something_else_by_then_is_encoded_as_it_is(kind: Kind) -> None:
    core = Crowd((4, 4), topics={})
    core.step(Request(next(core.tokens), CLIENT, kind.beat(0, ["a"])))
    body, _ = prepared(core, kind, kind.beat(2, names()))
    other = kind.beat(2, ["b"])
    other.rack_id = "r"
    core.step(Request(next(core.tokens), CLIENT, other))
    core.now_ms += 10_000
    core.step(Request(next(core.tokens), CLIENT, body))
    value, said = last_member(core)
    assert (said.rack_id, len(said.subscribed_topic_names)) == ("r", COUNT)
    assert value != body.expected.encoded
