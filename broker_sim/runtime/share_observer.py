"""Writes the events of share groups' records into the journal (KIP-932): acquisitions, acknowledgements, expired locks.

    shares.observe(ShareObserver(journal))        # from now on

Rules:
1. `SharePartitions` reports the events; the observer never changes its state.
2. An acquisition and an expired lock are written when they happen, as nothing waits until they are stored; an acknowledgement is
   written when the share coordinator has confirmed or refused it.
3. Neighbouring records with the same event are written as one event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from broker_sim.coordinator.share_partition.inflight import NO_MEMBER, Acquired, DeliveryState
from broker_sim.coordinator.share_partition.transition import Change, Reason, Transition
from kafka_wire.errors import Err
from kafka_wire.uuids import uuid_text

if TYPE_CHECKING:
    from broker_sim.journal import Journal
    from broker_sim.runtime.share_partitions import LivePartition

__all__ = ["ShareObserver", "member_text"]

_BECOMES = {
    DeliveryState.AVAILABLE: "available",
    DeliveryState.ACQUIRED: "acquired",
    DeliveryState.ACKNOWLEDGED: "acknowledged",
    DeliveryState.ARCHIVING: "archiving",
    DeliveryState.ARCHIVED: "archived",
}


def member_text(member: str, *, ids_are_uuids: bool) -> str:
    """A member as it named itself: 4.1's leaders know it by the bytes of its uuid."""
    if not ids_are_uuids or member == NO_MEMBER:
        return member
    return uuid_text(bytes.fromhex(member))


class ShareObserver:
    """The journal's eye on what share groups have of partitions."""

    def __init__(self, journal: Journal, *, ids_are_uuids: bool) -> None:
        self.journal, self._ids_are_uuids = journal, ids_are_uuids

    def loaded(self, live: LivePartition, reset: str = "") -> None:
        """The leader has loaded a share partition. ``reset``: the group's share.auto.offset.reset where the share coordinator
        has no start offset; else ""."""
        assert live.share is not None
        by = {"reset": reset} if reset else {}
        log_start = live.partition.log_start_offset
        start, most = live.share.start_offset, live.share.limits.in_flight
        self._of_partition(live, "loaded", start_offset=start, log_start_offset=log_start, max_record_locks=most, **by)

    def unloaded(self, live: LivePartition, error: Err) -> None:
        """The partition is not loaded for the group any more."""
        if live.share is None:
            self._of_partition(live, "not loaded", error=error.name)
        else:
            self._of_partition(live, "unloaded", start_offset=live.share.start_offset, error=error.name)

    def _of_partition(self, live: LivePartition, action: str, **fields: Any) -> None:
        self.journal.write(
            "share_partition",
            log=live.partition.name,
            group=live.key.group_id,
            action=action,
            leader_epoch=live.leader_epoch,
            **fields,
        )

    def acquired(
        self, live: LivePartition, member: str, acquired: Iterable[Acquired], request: int, now_ms: int
    ) -> None:
        """A member has acquired records until their lock ends."""
        share = live.share
        assert share is not None
        until_ms = now_ms + share.limits.lock_ms
        for part in acquired:
            self._write(
                live, "acquired", member, *part, request,
                becomes="acquired", until_ms=until_ms, log_start_offset=live.partition.log_start_offset,
            )  # fmt: skip

    def moved(
        self,
        live: LivePartition,
        moved: Transition,
        request: int,
        error: Err = Err.NONE,
        *,
        letter: tuple[str, str] = ("", ""),
    ) -> None:
        """A transition is confirmed, or refused and undone. ``letter``: the topic of a dead letter, and why it could not be written."""
        refused = {} if error is Err.NONE else {"error": error.name}
        for change in _runs(moved.changes):
            action = change.why.value if error is Err.NONE else "refused"
            state = change.delivery.state if error is Err.NONE else change.before.state
            fields = {"refused_action": change.why.value, **refused} if refused else {}
            if change.why is Reason.LETTER and not refused:
                fields = {name: what for name, what in zip(("to", "error"), letter, strict=True) if what}
            self._write(
                live, action, change.before.member, change.first, change.last, change.before.deliveries, request,
                becomes=_BECOMES[state], **fields,
            )  # fmt: skip
        for renewed in moved.renewed:
            member_id, until_ms = renewed.delivery.member, renewed.delivery.deadline_ms
            count = renewed.delivery.deliveries
            self._write(
                live,
                Reason.RENEWED.value,
                member_id,
                renewed.first,
                renewed.last,
                count,
                request,
                becomes="acquired",
                until_ms=until_ms,
            )

    def _write(
        self,
        live: LivePartition,
        action: str,
        member: str,
        first: int,
        last: int,
        deliveries: int,
        request: int,
        **fields: Any,
    ) -> None:
        assert live.share is not None
        self.journal.write(
            "delivery",
            log=live.partition.name,
            group=live.key.group_id,
            action=action,
            member=member_text(member, ids_are_uuids=self._ids_are_uuids) or None,
            first=first,
            last=last,
            deliveries=deliveries,
            start_offset=live.share.start_offset,
            **({"request": request} if request else {}),
            **fields,
        )


def _runs(changes: Iterable[Change]) -> list[Change]:
    """Joins neighbouring changes with the same event."""
    runs: list[Change] = []
    for change in changes:
        before = runs[-1] if runs else None
        if before is not None and before.last + 1 == change.first and _same(before, change):
            runs[-1] = Change(before.first, change.last, change.delivery, change.before, change.why)
        else:
            runs.append(change)
    return runs


def _same(change: Change, other: Change) -> bool:
    return (change.why, change.delivery.state, change.before.member, change.before.deliveries) == (
        other.why,
        other.delivery.state,
        other.before.member,
        other.before.deliveries,
    )
