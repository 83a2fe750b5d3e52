"""What a coordinator is to its runtime: topic, shards, what loads them, and who may watch. Data and interfaces, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from broker_sim.coordinator.outcome import Event, Outcome
from broker_sim.coordinator.shard_loader import ShardLoader
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.handlers.context import RequestContext


class CoordinatorShard(Protocol):
    """The coordinator of one partition: a function of its events (``coordinator.outcome`` has the rules)."""

    partition: int
    high_watermark: int
    last_written: int

    @property
    def in_flight(self) -> bool:
        """Whether anything of it is appended and not committed."""

    def start(self, loaded: Any, now_ms: int) -> Outcome:
        """Take over what its loader made of the log."""

    def step(self, event: Event, now_ms: int) -> Outcome:
        """Apply one event and say what to do about it."""

    def stop(self) -> Outcome:
        """The partition moves away: answer whoever waits."""


S = TypeVar("S", bound=CoordinatorShard)
Seen = TypeVar("Seen", bound=CoordinatorShard, contravariant=True)


@dataclass(frozen=True)
class CoordinatorKind(Generic[S]):
    """What a coordinator is. ``topic``: the internal topic in which it keeps its state; ``partition_of(key, partitions)``: who
    coordinates a key; ``load_error_disowns``: a log that can't be loaded leaves the partition without a coordinator, else it is
    served as if it were empty; ``appends_need_min_isr``: appends ask for acks=all."""

    topic: str
    partition_of: Callable[[str, int], int]
    new_shard: Callable[[int], S]
    new_loader: Callable[[], ShardLoader]
    load_error_disowns: bool = False
    appends_need_min_isr: bool = True


class ShardObserver(Protocol[Seen]):
    """Who sees all that happens to shards, and changes nothing."""

    def step(self, shard: Seen, log: str, event: Event, now_ms: int) -> Outcome:
        """``shard.step(event, now_ms)``."""

    def asked(self, token: int, ctx: RequestContext) -> None:
        """A request is about to be stepped."""

    def answered(self, token: int) -> None:
        """A request has its answer."""

    def appended(self, log: str, shard: Seen, tickets: list[int], last_offset: int, error: Err, end: int) -> None:
        """An append got its answer; ``end`` is the high watermark. Called before the shard is told."""

    def committed(self, log: str, shard: Seen, high_watermark: int) -> None:
        """The high watermark has moved at last. Called before the shard is told."""

    def loading(self, log: str) -> None:
        """A log is being read."""

    def loaded(self, shard: Seen, log: str, records: int, skipped: int, *, failed: str) -> None:
        """The shard has read its log, or ``failed`` to."""

    def unloading(self, shard: Seen) -> Callable[[str], None]:
        """The shard is about to go; what is returned is called with its log's name when it has."""
