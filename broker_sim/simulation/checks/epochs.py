"""What the records of a consumer group by epochs (KIP-848) must say, batch by batch, and what its members may be told on that ground.

A reader of its own of the offsets partition's log, which shares nothing with the coordinator but the format of the records. Whoever
looks calls `catch_up`: it takes what has been committed since, and tells the first batch that breaks a rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.checks.answers import InvariantBroken
from kafka_wire import offsets_log as types
from kafka_wire.offsets_log import GROUP_METADATA, decode_key, decode_value

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition

__all__ = ["EpochLog", "Standing", "Unit"]

Unit = tuple[bytes, int]
"""A topic's id and a partition of it."""

LEFT_FOR_NOW = -2

_MEMBER = types.CONSUMER_GROUP_MEMBER_METADATA
_GROUP = types.CONSUMER_GROUP_METADATA
_TARGET = types.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER
_TARGET_METADATA = types.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA
_CURRENT = types.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
_PATTERN = types.CONSUMER_GROUP_REGULAR_EXPRESSION
_ORDER = {_MEMBER: 0, _PATTERN: 1, _GROUP: 2, _TARGET: 3, _TARGET_METADATA: 4, _CURRENT: 5}
"""That of the records of one request: who it is, whether the group has moved, who should have what, where the member stands."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a member stands by its record (8)."""

    epoch: int
    previous: int
    assigned: frozenset[Unit]
    revoking: frozenset[Unit]


@dataclass(slots=True)
class EpochLog:
    """One group. ``first_epoch``: of both epochs before any record says so."""

    group_id: str
    partition: Callable[[], Partition]
    tell: Callable[[InvariantBroken], object]
    first_epoch: int
    epoch: int = field(init=False)
    target_epoch: int = field(init=False)
    metadata_hash: int = 0
    members: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, frozenset[Unit]] = field(default_factory=dict)
    standings: dict[str, Standing] = field(default_factory=dict)
    matched: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_classic: bool = False
    batches: int = 0
    """How many have been looked at."""
    moves: Counter[str] = field(default_factory=Counter)
    """What has happened, for who asks whether a run has seen it."""
    _next: int = 0
    _thinned: bool = False

    def __post_init__(self) -> None:
        self.epoch = self.target_epoch = self.first_epoch

    def catch_up(self) -> None:
        """Take what has been committed since. From a batch on that the cleaner has thinned out there is nothing to check before
        the end: the records that are missing there come later."""
        partition, thinned = self.partition(), False
        for batch in partition.log.batches(max(self._next, partition.log.log_start_offset)):
            if batch.header.next_offset > partition.high_watermark:
                return
            self._next = batch.header.next_offset
            if batch.header.is_control or batch.header.is_transactional:
                continue
            mine = []
            for record in batch.records():
                kind, key = decode_key(record.key or b"")
                if getattr(key, "group_id", getattr(key, "group", None)) == self.group_id and (
                    kind in _ORDER or kind == GROUP_METADATA
                ):
                    mine.append((kind, key, decode_value(kind, record.value)))
            whole = batch.header.next_offset - batch.header.base_offset
            thinned = thinned or sum(1 for _ in batch.records()) < whole
            if mine:
                self._take(mine, thinned)

    def reads(self) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
        """What each member names, and what its expression was found to match; a static one by its instance."""
        return {
            member.instance_id or member_id: (
                frozenset(member.subscribed_topic_names),
                frozenset(self.matched.get(member.subscribed_topic_regex or "", ())),
            )
            for member_id, member in self.members.items()
        }

    # --- one batch

    def _fail(self, name: str, what: str, records: Iterable[tuple[int, Any, Any]]) -> None:
        if self._thinned:
            return
        told = [f"{types.kind_name(kind)} {key} {value}" for kind, key, value in records]
        self.tell(InvariantBroken(name, f"group {self.group_id}: {what}", told))

    def _take(self, records: list[tuple[int, Any, Any]], thinned: bool) -> None:
        self._thinned = thinned
        self.batches += 1
        reads, epoch, metadata_hash, matched = self.reads(), self.epoch, self.metadata_hash, dict(self.matched)
        was_there = bool(self.members)
        converts = records[0][0] == GROUP_METADATA and any(kind == _GROUP and value for kind, _, value in records)
        if converts:
            self.epoch = self.target_epoch = -1  # its epoch begins with the generation that it had as a classic group
            self.moves["by epochs"] += 1
        for kind, key, value in records:
            self._apply(kind, key, value, records)
        written = [_ORDER[kind] for kind, _, value in records if value is not None and kind in _ORDER]
        if written != sorted(written) and not converts and not self._takes_over(records):
            self._fail("records stand in Kafka's order", "what is later in a request stands earlier", records)
        self._check_holders(records)
        if self.is_classic and self.members:
            self._fail("a group is of one kind", "it has a classic group's record and members by epochs", records)
        if was_there and self.epoch > epoch and self.members:
            why = reads != self.reads() or metadata_hash != self.metadata_hash or matched != self.matched
            if not why:
                self._fail(
                    "an epoch moves for a reason", f"from {epoch} to {self.epoch}, and nothing has changed", records
                )
        if was_there and not self.members:
            self.moves["classic again" if self.is_classic else "empty"] += 1

    def _apply(self, kind: int, key: Any, value: Any, records: list[tuple[int, Any, Any]]) -> None:
        if kind == GROUP_METADATA:
            self.is_classic = value is not None
            self.moves["classic"] += self.is_classic
        elif kind == _GROUP:
            if value is not None and value.epoch <= self.epoch and self.members:
                self._fail("epochs move forward", f"the group's from {self.epoch} to {value.epoch}", records)
            self.epoch = self.first_epoch if value is None else value.epoch
            self.metadata_hash = 0 if value is None else value.metadata_hash
        elif kind == _TARGET_METADATA:
            told = self.first_epoch if value is None else value.assignment_epoch
            if value is not None and not self.target_epoch <= told <= self.epoch and self.members:
                what = f"the target's from {self.target_epoch} to {told}, the group's is {self.epoch}"
                self._fail("epochs move forward", what, records)
            self.target_epoch = told
        elif kind == _MEMBER:
            if value is None:
                self.members.pop(key.member_id, None)
            else:
                self.members[key.member_id] = value
        elif kind == _TARGET:
            if value is None:
                self.targets.pop(key.member_id, None)
            else:
                self.targets[key.member_id] = _units(value.topic_partitions)
        elif kind == _PATTERN:
            if value is None:
                self.matched.pop(key.regular_expression, None)
            else:
                self.matched[key.regular_expression] = tuple(value.topics)
                self.moves["expression"] += 1
        elif value is None:
            self.standings.pop(key.member_id, None)
        else:
            self._stand(key.member_id, value, records)

    def _stand(self, member_id: str, value: Any, records: list[tuple[int, Any, Any]]) -> None:
        before, epoch = self.standings.get(member_id), value.member_epoch
        if before is not None and LEFT_FOR_NOW not in (before.epoch, epoch) and epoch < before.epoch:
            self._fail("epochs move forward", f"that of {member_id} from {before.epoch} to {epoch}", records)
        if epoch > self.target_epoch:
            what = f"{member_id} is at {epoch}, the target at {self.target_epoch}"
            self._fail("nobody is ahead of the target", what, records)
        if member_id not in self.members:
            self._fail("who stands somewhere is a member", f"{member_id} is none", records)
        assigned, revoking = _units(value.assigned_partitions), _units(value.partitions_pending_revocation)
        self.standings[member_id] = Standing(epoch, value.previous_member_epoch, assigned, revoking)
        if revoking:
            self.moves["revoking"] += 1
        if epoch == LEFT_FOR_NOW:
            self.moves["left for now"] += 1

    def _takes_over(self, records: list[tuple[int, Any, Any]]) -> bool:
        """A static member's place goes to another id: two sets of records in one request, and the group's epoch stays."""
        gone = [key.member_id for kind, key, value in records if kind == _CURRENT and value is None]
        come = [value.instance_id for kind, _, value in records if kind == _MEMBER and value is not None]
        if not gone or not any(come):
            return False
        self.moves["place taken"] += 1
        return True

    def _check_holders(self, records: list[tuple[int, Any, Any]]) -> None:
        held: dict[Unit, str] = {}
        for member_id, standing in self.standings.items():
            for unit in sorted(standing.assigned | standing.revoking):
                other = held.setdefault(unit, member_id)
                if other != member_id:
                    what = f"partition {unit[1]} is with {other} and {member_id}"
                    self._fail("one owner of a partition", what, records)
                    return
        wanted: dict[Unit, str] = {}
        for member_id, target in self.targets.items():
            for unit in sorted(target):
                other = wanted.setdefault(unit, member_id)
                if other != member_id:
                    what = f"partition {unit[1]} is to be with {other} and {member_id}"
                    self._fail("a target gives a partition once", what, records)
                    return

    # --- the end

    def unsettled(self, partitions: Mapping[str, tuple[bytes, int]]) -> str | None:
        """What is lacking where nothing more is to happen; None for nothing. ``partitions``: topic -> its id, how many it has."""
        if not self.members:
            return "it has no members"
        if self.target_epoch != self.epoch:
            return f"the target is that of epoch {self.target_epoch}, not {self.epoch}"
        for member_id, standing in self.standings.items():
            if standing.epoch != self.epoch or standing.revoking:
                return f"{member_id} is at epoch {standing.epoch}, not {self.epoch}"
            if standing.assigned != self.targets.get(member_id, frozenset()):
                return f"{member_id} has not what it is to have"
        read = frozenset[str]().union(*(names | matched for names, matched in self.reads().values()))
        wanted = {
            (topic_id, index)
            for name, (topic_id, count) in partitions.items()
            if name in read
            for index in range(count)
        }
        has = frozenset[Unit]().union(*(standing.assigned for standing in self.standings.values()))
        if has != wanted:
            return f"partitions without an owner, or that nobody reads: {sorted((unit[0].hex()[:8], unit[1]) for unit in has ^ wanted)}"
        return None


def _units(listed: Iterable[Any]) -> frozenset[Unit]:
    return frozenset((one.topic_id, index) for one in listed for index in one.partitions)
