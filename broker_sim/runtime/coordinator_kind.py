"""The description of a coordinator for its runtime: topic, shards, loader, observer. Data and interfaces only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from broker_sim.coordinator.outcome import Event, Outcome
from broker_sim.coordinator.shard_loader import ShardLoader
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.runtime.asking import Asking


class CoordinatorShard(Protocol):
    """The coordinator of one partition: a function of its events (rules in ``coordinator.outcome``)."""

    partition: int
    high_watermark: int
    last_written: int

    @property
    def in_flight(self) -> bool:
        """Whether appended records are not committed yet."""

    def step(self, event: Event, now_ms: int) -> Outcome:
        """Apply one event. Returns timers, appends and replies."""

    def stop(self) -> Outcome:
        """Unload the shard. Returns replies to its deferred requests."""


S = TypeVar("S", bound=CoordinatorShard)
Seen = TypeVar("Seen", bound=CoordinatorShard, contravariant=True)


@dataclass(frozen=True)
class CoordinatorKind(Generic[S]):
    """``topic``: the internal topic with the coordinator's state; ``partition_of(key, partitions)``: the partition that coordinates a
    key; ``load_error_disowns``: a log that can't be loaded leaves the partition without a coordinator, otherwise it is served as if it
    were empty; ``appends_need_min_isr``: appends use acks=all."""

    topic: str
    partition_of: Callable[[str, int], int]
    new_shard: Callable[[int], S]
    new_loader: Callable[[], ShardLoader[S]]
    load_error_disowns: bool = False
    appends_need_min_isr: bool = True


class ShardObserver(Protocol[Seen]):
    """Sees all events of shards and changes nothing."""

    def step(self, shard: Seen, log: str, event: Event, now_ms: int) -> Outcome:
        """Call ``shard.step(event, now_ms)`` and return its outcome."""

    def asked(self, token: int, ctx: Asking) -> None:
        """A request is about to be stepped."""

    def answered(self, token: int) -> None:
        """Called when the request with this token was answered."""

    def appended(self, log: str, shard: Seen, tickets: list[int], last_offset: int, error: Err, end: int) -> None:
        """An append was done, or failed; ``end`` is the high watermark. Called before the shard gets the result."""

    def committed(self, log: str, shard: Seen, high_watermark: int) -> None:
        """The high watermark has advanced. Called before the shard gets it."""

    def loading(self, log: str) -> None:
        """A log is being loaded."""

    def loaded(self, shard: Seen, log: str, records: int, skipped: int, *, failed: str) -> None:
        """The shard was loaded from its log; ``failed``: the error text of a load that failed, else ""."""

    def unloading(self, shard: Seen) -> Callable[[str], None]:
        """The shard is about to be unloaded; the returned function is called afterwards, with its log's name."""
