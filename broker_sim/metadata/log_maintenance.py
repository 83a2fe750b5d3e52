"""What becomes of logs by themselves: retention and compaction.

Rules:
1. A round goes through all logs in pieces, one in a turn of the loop, beside the requests; most have one, which is done at once.
2. A round that comes due while the one before it is still on is left out.
3. A log whose disk fails is passed over with a log line; the others are done.
Source: LogManager.cleanupLogs, LogCleaner (storage).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker_sim.common.slices import Job, Pace, Slices, ended
from broker_sim.storage import StorageError
from broker_sim.storage.cleaner import PIECE

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import ClusterState

log = logging.getLogger("broker_sim.cluster")

_LOG_COST = 32
"""What a look at a log costs beside its compaction, in the records that `cleaner.PIECE` counts."""


class LogMaintenance:
    """The rounds over the logs of one cluster."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._slices = Slices()

    def run(self, now_ms: int) -> None:
        """Begin a round. Log starts that move wake the waiters."""
        if self.busy:
            return
        job = self._round(now_ms)
        if not ended(job):
            self._slices.add(job, ended)

    @property
    def busy(self) -> bool:
        """Whether a round is on."""
        return self._slices.busy

    def stop(self) -> None:
        """The round that is on ends where it is."""
        self._slices.clear()

    def _round(self, now_ms: int) -> Job:
        state = self._state
        state.disk.catch_up()
        cleaner = state.config.bool("log.cleaner.enable")
        pace = Pace(PIECE)
        for partition in list(state.partitions()):
            if pace.full(_LOG_COST):
                yield
            if partition.deleted:
                continue
            files = partition.log
            start = files.log_start_offset
            try:
                files.apply_retention(now_ms, high_watermark=partition.high_watermark)
                if files.log_start_offset != start:
                    partition.wake()
                if files.config.compacts and cleaner:
                    yield from files.compacting(now_ms, pace, high_watermark=partition.high_watermark)
            except StorageError as error:
                log.error("maintenance of %s failed and is tried again: %s", partition.name, error)
