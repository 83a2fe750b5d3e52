"""State of one shard in a coordinator's runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from broker_sim.coordinator.outcome import Append, AppendedElsewhere
from broker_sim.metadata.cluster_state import Partition
from broker_sim.runtime.coordinator_kind import S


class ShardContext(Generic[S]):
    """A shard with its partition, its open batch, its queued requests and its loading state (CoordinatorRuntime.CoordinatorContext)."""

    __slots__ = (
        "elsewhere",
        "failed",
        "loading",
        "open_batch",
        "open_batch_records",
        "partition",
        "queued_bytes",
        "queued_requests",
        "shard",
        "waiter",
    )

    def __init__(self, shard: S, partition: Partition) -> None:
        self.shard, self.partition = shard, partition
        self.open_batch: list[Append] = []  # appends of this iteration of the event loop, which share a batch
        self.open_batch_records = 0
        self.queued_requests: list[Any] = []  # requests that wait for the end of the iteration (`flush_requests`)
        self.queued_bytes = 0  # the size of their batch, at most
        self.elsewhere: list[AppendedElsewhere] = []  # results of appends to other topics, reported after this step
        self.loading = False
        self.failed = False
        self.waiter: Callable[[], object] | None = None  # called by the partition when its high watermark moves
