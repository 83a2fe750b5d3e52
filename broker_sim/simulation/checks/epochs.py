"""Rules for the records of a consumer group (KIP-848), batch by batch, and for the responses that follow from them; ``streams_log`` has
those of streams groups.

An independent reader of the offsets partition's log, which shares only the format of the records with the coordinator. `catch_up` reads
what was committed since the last call, and reports the first batch that violates a rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from broker_sim.simulation.checks.answers import InvariantBroken
from kafka_wire import offsets_log as types
from kafka_wire.offsets_log import GROUP_METADATA, decode_key, decode_value

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition

__all__ = ["EpochLog", "Records", "StoredAssignment", "Unit", "unit_name"]

Unit = tuple[Any, int]
"""A topic's id and a partition of it; or another key under which a kind of group counts what it shares out."""

LEFT_FOR_NOW = -2


@dataclass(frozen=True, slots=True)
class Records:
    """The record types of a group type, in the order in which one request writes them: member metadata, records of this type only,
    group metadata (epoch), target assignment, current assignment of the member."""

    member: int
    other: int
    group: int
    target: int
    target_metadata: int
    current: int

    def place(self, kind: int) -> int:
        """The position of a record type in that order, -1 for another type."""
        kinds = (self.member, self.other, self.group, self.target, self.target_metadata, self.current)
        return kinds.index(kind) if kind in kinds else -1


@dataclass(frozen=True, slots=True)
class StoredAssignment:
    """The current assignment record of a member: member epoch, previous epoch, assigned and revoking partitions."""

    epoch: int
    previous: int
    assigned: frozenset[Unit]
    revoking: frozenset[Unit]


@dataclass(slots=True)
class EpochLog:
    """One group. ``first_epoch``: of both epochs before any record says so."""

    RECORDS: ClassVar[Records] = Records(
        types.CONSUMER_GROUP_MEMBER_METADATA,
        types.CONSUMER_GROUP_REGULAR_EXPRESSION,
        types.CONSUMER_GROUP_METADATA,
        types.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
        types.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
        types.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    )

    group_id: str
    partition: Callable[[], Partition]
    report: Callable[[InvariantBroken], object]
    first_epoch: int
    epoch: int = field(init=False)
    target_epoch: int = field(init=False)
    metadata_hash: int = 0
    members: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, frozenset[Unit]] = field(default_factory=dict)
    standings: dict[str, StoredAssignment] = field(default_factory=dict)
    matched: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_classic: bool = False
    batches: int = 0
    """Number of batches that were checked."""
    moves: Counter[str] = field(default_factory=Counter)
    """Count of each kind of step, by which tests find out whether a run has had it."""
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
            thinned = (
                thinned or batch.header.base_offset > self._next
            )  # of a batch without a record that is kept nothing is left
            self._next = batch.header.next_offset
            if batch.header.is_control or batch.header.is_transactional:
                continue
            mine = []
            for record in batch.records():
                kind, key = decode_key(record.key or b"")
                if getattr(key, "group_id", getattr(key, "group", None)) == self.group_id and (
                    self.RECORDS.place(kind) >= 0 or kind == GROUP_METADATA
                ):
                    mine.append((kind, key, decode_value(kind, record.value)))
            whole = batch.header.next_offset - batch.header.base_offset
            thinned = thinned or sum(1 for _ in batch.records()) < whole
            if mine:
                self._take(mine, thinned)

    def reads(self) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
        """Topics that each member names, and those that its expression matched; by the instance of a static member, else by its id."""
        return {
            member.instance_id or member_id: (
                frozenset(member.subscribed_topic_names),
                frozenset(self.matched.get(member.subscribed_topic_regex or "", ())),
            )
            for member_id, member in self.members.items()
        }

    # --- what a kind of group says in its own way

    def reasons(self) -> object:
        """Inputs of the assignment, which must have changed where the group's epoch is bumped."""
        expressions = {
            member.instance_id or member_id: member.subscribed_topic_regex or ""
            for member_id, member in self.members.items()
        }
        return self.reads(), self.metadata_hash, dict(self.matched), expressions

    def furthest(self) -> int:
        """The highest epoch that a member may have."""
        return self.target_epoch

    def _wanted(self, value: Any) -> frozenset[Unit]:
        """Partitions in a member's target assignment, from its record."""
        return _units(value.topic_partitions)

    def _held(self, value: Any) -> tuple[frozenset[Unit], frozenset[Unit]]:
        """Partitions assigned to a member, and those that it is to revoke, from its record."""
        return _units(value.assigned_partitions), _units(value.partitions_pending_revocation)

    def _apply_other(self, key: Any, value: Any, records: list[tuple[int, Any, Any]]) -> None:
        """A record that only this kind has."""
        if value is None:
            self.matched.pop(key.regular_expression, None)
        else:
            self.matched[key.regular_expression] = tuple(value.topics)
            self.moves["expression"] += 1

    def clash(self, unit: Unit, member_id: str, others: Mapping[Unit, str]) -> str | None:
        """Member other than ``member_id`` that ``others`` has as owner of a unit, which may have one at a time; None for none."""
        other = others.get(unit)
        return None if other in (None, member_id) else other

    # --- one batch

    def _fail(self, name: str, what: str, records: Iterable[tuple[int, Any, Any]]) -> None:
        if self._thinned:
            return
        lines = [f"{types.kind_name(kind)} {key} {value}" for kind, key, value in records]
        self.report(InvariantBroken(name, f"group {self.group_id}: {what}", lines))

    def _take(self, records: list[tuple[int, Any, Any]], thinned: bool) -> None:
        self._thinned = thinned
        self.batches += 1
        reasons, epoch = self.reasons(), self.epoch
        was_there = bool(self.members)
        converts = records[0][0] == GROUP_METADATA and any(
            kind == self.RECORDS.group and value for kind, _, value in records
        )
        if converts:
            self.epoch = self.target_epoch = -1  # its epoch begins with the generation that it had as a classic group
            self.moves["by epochs"] += 1
        for kind, key, value in records:
            self._apply(kind, key, value, records)
        places = [self.RECORDS.place(kind) for kind, _, value in records if value is not None]
        written = [place for place in places if place >= 0]
        if written != sorted(written) and not converts and not self._takes_over(records):
            self._fail("records are written in Kafka's order", "what is later in a request stands earlier", records)
        self._check_holders(records)
        if self.is_classic and self.members:
            self._fail("a group has one type", "it has a classic group's record and members with epochs", records)
        if was_there and self.epoch > epoch and self.members and reasons == self.reasons():
            self._fail(
                "the group epoch changes only when the group changes",
                f"from {epoch} to {self.epoch}, and nothing has changed",
                records,
            )
        if was_there and not self.members:
            self.moves["classic again" if self.is_classic else "empty"] += 1

    def _apply(self, kind: int, key: Any, value: Any, records: list[tuple[int, Any, Any]]) -> None:
        kinds = self.RECORDS
        if kind == GROUP_METADATA:
            self.is_classic = value is not None
            self.moves["classic"] += self.is_classic
        elif kind == kinds.group:
            if value is not None and value.epoch <= self.epoch and self.members:
                self._fail(
                    "group and member epochs never decrease", f"the group's from {self.epoch} to {value.epoch}", records
                )
            self.epoch = self.first_epoch if value is None else value.epoch
            self.metadata_hash = 0 if value is None else value.metadata_hash
        elif kind == kinds.target_metadata:
            assigned_epoch = self.first_epoch if value is None else value.assignment_epoch
            if value is not None and not self.target_epoch <= assigned_epoch <= self.epoch and self.members:
                what = f"the target's from {self.target_epoch} to {assigned_epoch}, the group's is {self.epoch}"
                self._fail("group and member epochs never decrease", what, records)
            self.target_epoch = assigned_epoch
        elif kind == kinds.member:
            if value is None:
                self.members.pop(key.member_id, None)
            else:
                self.members[key.member_id] = value
        elif kind == kinds.target:
            if value is None:
                self.targets.pop(key.member_id, None)
            else:
                self.targets[key.member_id] = self._wanted(value)
        elif kind == kinds.other:
            self._apply_other(key, value, records)
        elif value is None:
            self.standings.pop(key.member_id, None)
        else:
            self._stand(key.member_id, value, records)

    def _stand(self, member_id: str, value: Any, records: list[tuple[int, Any, Any]]) -> None:
        before, epoch = self.standings.get(member_id), value.member_epoch
        if before is not None and LEFT_FOR_NOW not in (before.epoch, epoch) and epoch < before.epoch:
            self._fail(
                "group and member epochs never decrease", f"that of {member_id} from {before.epoch} to {epoch}", records
            )
        if epoch > self.furthest():
            what = f"{member_id} is at {epoch}, the target at {self.target_epoch}"
            self._fail("no member epoch is ahead of the target assignment", what, records)
        if member_id not in self.members:
            self._fail("a current assignment belongs to a member", f"{member_id} is none", records)
        assigned, revoking = self._held(value)
        self.standings[member_id] = StoredAssignment(epoch, value.previous_member_epoch, assigned, revoking)
        if revoking:
            self.moves["revoking"] += 1
        if epoch == LEFT_FOR_NOW:
            self.moves["left for now"] += 1

    def _takes_over(self, records: list[tuple[int, Any, Any]]) -> bool:
        """A static member's place goes to another id: two sets of records in one request, and the group's epoch stays."""
        gone = [key.member_id for kind, key, value in records if kind == self.RECORDS.current and value is None]
        come = [value.instance_id for kind, _, value in records if kind == self.RECORDS.member and value is not None]
        if not gone or not any(come):
            return False
        self.moves["place taken"] += 1
        return True

    def _check_holders(self, records: list[tuple[int, Any, Any]]) -> None:
        held: dict[Unit, str] = {}
        for member_id, standing in self.standings.items():
            for unit in sorted(standing.assigned | standing.revoking):
                other = self.clash(unit, member_id, held)
                if other is not None:
                    self._fail(
                        "a partition has one owner", f"{unit_name(unit)} is with {other} and {member_id}", records
                    )
                    return
                held[unit] = member_id
        wanted: dict[Unit, str] = {}
        for member_id, target in self.targets.items():
            for unit in sorted(target):
                other = self.clash(unit, member_id, wanted)
                if other is not None:
                    what = f"{unit_name(unit)} is to be with {other} and {member_id}"
                    self._fail("the target assignment assigns a partition once", what, records)
                    return
                wanted[unit] = member_id

    # --- the end

    def unsettled(self, partitions: Mapping[str, tuple[bytes, int]]) -> str | None:
        """Describe what a group's final state lacks; None for nothing. ``partitions``: topic -> its id, number of its partitions."""
        if not self.members:
            return "it has no members"
        if self.target_epoch != self.epoch:
            return f"the target is that of epoch {self.target_epoch}, not {self.epoch}"
        for member_id, standing in self.standings.items():
            if standing.epoch != self.epoch or standing.revoking:
                return f"{member_id} is at epoch {standing.epoch}, not {self.epoch}"
            if standing.assigned != self.targets.get(member_id, frozenset()):
                return f"{member_id} has not what it is to have"
        return self._unassigned(partitions)

    def _unassigned(self, partitions: Mapping[str, tuple[bytes, int]]) -> str | None:
        """Describe subscribed partitions without an owner, and assigned ones without a reader; None for none."""
        read = frozenset[str]().union(*(names | matched for names, matched in self.reads().values()))
        wanted = {
            (topic_id, index)
            for name, (topic_id, count) in partitions.items()
            if name in read
            for index in range(count)
        }
        has = frozenset[Unit]().union(*(standing.assigned for standing in self.standings.values()))
        if has != wanted:
            return f"partitions without an owner or a reader: {sorted((unit[0].hex()[:8], unit[1]) for unit in has ^ wanted)}"
        return None


def unit_name(unit: Unit) -> str:
    """A unit in words: ``partition 2``, or by its key."""
    key, number = unit
    return f"partition {number}" if isinstance(key, bytes) else f"{key}_{number}"


def _units(listed: Iterable[Any]) -> frozenset[Unit]:
    return frozenset((topic.topic_id, index) for topic in listed for index in topic.partitions)
