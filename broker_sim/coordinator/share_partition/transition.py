"""Changes of a share group's records that must be stored, with their reasons: `Transition`.

Source: PersisterStateBatch.java, and its use in SharePartition.java (4.x).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from broker_sim.coordinator.share_partition.inflight import Delivery, DeliveryState
from broker_sim.coordinator.share_state.batches import StateBatch


class Reason(enum.Enum):
    """Reason a record is in other hands than before."""

    GAP = "gap"
    ACCEPTED = "accepted"
    RELEASED = "released"
    REJECTED = "rejected"
    RENEWED = "renewed"
    EXPIRED = "expired"
    SESSION_CLOSED = "session closed"
    ABORTED = "aborted"
    DELETED = "deleted"
    LETTER = "dead letter"


class Change(NamedTuple):
    """Records ``first`` to ``last`` as they are now and as they were ``before``, and ``why``."""

    first: int
    last: int
    delivery: Delivery
    before: Delivery
    why: Reason


class Renewed(NamedTuple):
    """Records whose lock was renewed."""

    first: int
    last: int
    delivery: Delivery


@dataclass(slots=True)
class Transition:
    """Changes to store: runs of records with their new state. Without ``changes`` nothing is stored: locks were ``renewed``, which is
    state of the leader alone."""

    changes: list[Change] = field(default_factory=list)
    renewed: list[Renewed] = field(default_factory=list)
    start_offset: int = 0
    complete_count: int = 0

    @property
    def archiving(self) -> list[Change]:
        """Changes of records that wait for their dead letters."""
        return [change for change in self.changes if change.delivery.state is DeliveryState.ARCHIVING]

    @property
    def batches(self) -> list[StateBatch]:
        """The changes as batches for the share coordinator; neighbours with equal state are one batch, as stored."""
        runs: list[StateBatch] = []
        first, end, what = 0, -1, (-1, -1)
        for change in self.changes:
            became = change.delivery.state, change.delivery.deliveries
            if became == what and change.first == end:
                end = change.last + 1
                continue
            if end >= 0:
                runs.append(StateBatch(first, end - 1, *what))
            first, end, what = change.first, change.last + 1, became
        if end >= 0:
            runs.append(StateBatch(first, end - 1, *what))
        return runs
