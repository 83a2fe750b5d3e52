"""Writes to epoch-based groups: `Changes` collects a request's records, `submit` appends them.

Records are applied to the group's ``latest`` as they are made, so that the rest of the request, and the next request, are checked
against them; and to ``stored`` when they are committed. If the append fails ``latest`` is computed again from the stored and the other
pending records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.records import EpochRecord, Record
from broker_sim.coordinator.state import ShardState, Write
from kafka_wire.errors import Err


class Changes:
    """The records of one request, each applied as it is made. ``before``: the group of another kind that ``group`` replaces with this
    request; ``records`` may begin with its tombstones."""

    def __init__(
        self, group: EpochGroup[Any], records: list[Record] | None = None, before: Group | None = None
    ) -> None:
        self.group, self.before = group, before
        self.subscription_changed = False  # members read other topics than before, or have them shared otherwise
        self.topics_changed = True  # the topics that the group reads may be others than those of its epoch
        # what a target counts with unless the group is looked at anew; None: as it is
        self.is_homogeneous: bool | None = None
        self.records: list[Record] = records or []

    def add(self, kind: int, key: Any, value: Any | None, encoded: bytes | None = None) -> None:
        """One more record; None removes. ``encoded``: the value, where that is known already."""
        record = EpochRecord(kind, key, value, encoded)
        self.records.append(record)
        self.group.apply(record)


def submit(
    shard: ShardState, token: int | None, changes: Changes, answer: Any, refusal: Callable[[Err], Any] | None = None
) -> None:
    """Hand a request's records to the log and answer when it has them; without any, answer as a request that could write."""
    if changes.records:
        append(shard, EpochWrite(token, changes, answer, refusal))
    elif token is not None:
        shard.answer(token, answer, refusal)


def append(shard: ShardState, write: EpochWrite) -> None:
    """Request the append of a write. Readers of committed state see a new group from the first of its records on."""
    group = write.group
    if not group.stored.is_known and not any(
        isinstance(pending, EpochWrite) and pending.group is group for pending in shard.writes.values()
    ):
        group.visible_at_high_watermark = max(group.visible_at_high_watermark, shard.next_high_watermark)
    shard.write(write)


def rewind(shard: ShardState, group: EpochGroup[Any]) -> None:
    """Compute the group's ``latest`` again from the stored and the pending records."""
    latest = group.stored.copy()
    for write in shard.writes.values():
        for record in write.records:
            if isinstance(record, EpochRecord) and record.group_id == group.group_id:
                latest.replay(record)
    group.latest = latest
    group.version += 1


class EpochWrite(Write):
    """A request's records. ``refusal(error)``: the answer where the log doesn't take them."""

    __slots__ = ("before", "group", "refusal")

    def __init__(
        self, token: int | None, changes: Changes, answer: Any, refusal: Callable[[Err], Any] | None = None
    ) -> None:
        super().__init__(token, changes.records, answer)
        self.group, self.before, self.refusal = changes.group, changes.before, refusal

    def failure(self, error: Err) -> Any:
        return error if self.refusal is None else self.refusal(error)

    def revert(self, shard: ShardState) -> None:
        """Set the group's latest state to the stored one with the other pending records; a group that was never stored is removed."""
        group = self.group
        rewind(shard, group)
        latest = group.latest
        for member_id in {
            str(getattr(record.key, "member_id", "")): None
            for record in self.records
            if isinstance(record, EpochRecord)
        }:
            for key, timeout_ms in group.timers_of(member_id) if member_id in latest.members else ():
                shard.arm(key, timeout_ms)  # members that were to leave stay
        if latest.is_known or shard.groups.get(group.group_id) is not group:
            return
        if self.before is None:
            shard.store.discard(group)
        else:
            shard.store.revert(self.before, group)
