"""Writes to groups by epochs: `Changes` collects a request's records, `submit` hands them to the log.

Records are applied to the group's ``latest`` as they are made, so that what comes next in the same request, and the next request, is
checked against them; to ``stored`` when the log has committed them. Where the log refuses them ``latest`` is made anew from what is
stored and what is still on its way.
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
    """The records of one request, each applied as it is made. ``before``: the group of another kind whose place ``group`` has taken
    for this request; ``records`` may begin with what ends that one."""

    def __init__(
        self, group: EpochGroup[Any], records: list[Record] | None = None, before: Group | None = None
    ) -> None:
        self.group, self.before = group, before
        self.reads_otherwise = False  # members read other topics than before, or have them shared otherwise
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
        if not changes.group.stored.is_known:
            changes.group.visible_from = max(changes.group.visible_from, shard.last_written + 2)
        shard.write(EpochWrite(token, changes, answer, refusal))
    elif token is not None:
        shard.answer(token, answer, refusal)


def rewind(shard: ShardState, group: EpochGroup[Any], refused: Write) -> None:
    """The group's ``latest`` as it would be had ``refused`` never been written."""
    latest = group.stored.copy()
    for write in shard.writes.values():
        for record in write.records if write is not refused else ():
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

    def failed(self, shard: ShardState, error: Err) -> None:
        """Nothing of it was written, or not in time; or it was, and too few replicas have it, which is told and undoes nothing."""
        if error is Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self.publish(shard)
            self.refuse(shard, error)
        else:
            super().failed(shard, error)

    def failure(self, error: Err) -> Any:
        return error if self.refusal is None else self.refusal(error)

    def revert(self, shard: ShardState) -> None:
        """The group is what is stored of it, and what is on its way still; one that has never been is no more."""
        group = self.group
        rewind(shard, group, self)
        latest = group.latest
        for member_id in {
            str(getattr(record.key, "member_id", "")): None
            for record in self.records
            if isinstance(record, EpochRecord)
        }:
            for key, timeout_ms in group.timers_of(member_id) if member_id in latest.members else ():
                shard.arm(key, timeout_ms)  # whoever was to leave stays
        if latest.is_known or shard.groups.get(group.group_id) is not group:
            return
        if self.before is None:
            shard.store.forget(group)
        else:
            shard.store.undo(self.before, group)
