"""Rules of a streams group's records (KIP-1071), checked batch by batch: as in `epochs` for a consumer group, with tasks.

An active task has one owner; a process has a task once, in whatever role; the topology stays as it is until the group is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker_sim.simulation.checks.epochs import EpochLog, Records, Unit
from kafka_wire import offsets_log as types

__all__ = ["ACTIVE", "STANDBY", "StreamsLog", "StreamsTaskKey", "tasks"]

ACTIVE, STANDBY, WARMUP = "active", "standby", "warm-up"
_ROLES = (ACTIVE, STANDBY, WARMUP)
_FIRST_EPOCH = 1


class StreamsTaskKey(NamedTuple):
    """A role and a subtopology: the tasks under it are numbers."""

    role: str
    subtopology: str

    def __str__(self) -> str:
        return f"{self.role} task {self.subtopology}"


def tasks(*roles: Iterable[Any] | None) -> frozenset[Unit]:
    """The tasks of a request's, response's or record's lists: active ones, standby ones, warm-up ones."""
    return frozenset(
        (StreamsTaskKey(role, task.subtopology_id), number)
        for role, listed in zip(_ROLES, roles, strict=True)
        for task in listed or ()
        for number in task.partitions
    )


@dataclass(slots=True)
class StreamsLog(EpochLog):
    """One group. ``standbys``: how many standby tasks each task of a subtopology with state is to have at most."""

    RECORDS = Records(
        types.STREAMS_GROUP_MEMBER_METADATA,
        types.STREAMS_GROUP_TOPOLOGY,
        types.STREAMS_GROUP_METADATA,
        types.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
        types.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
        types.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    )

    standbys: int = 0
    topology: Any = None
    validated: int = -1
    """The epoch of the topology that was found to fit the topics; -1 for none."""
    settings: dict[str, str] = field(default_factory=dict)

    def reads(self) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
        """Properties of each member whose change bumps the group's epoch, by the instance of a static member, else its id."""
        return {
            member.instance_id or member_id: (
                frozenset((f"process {member.process_id}", f"rack {member.rack_id}")),
                frozenset(
                    (f"topology {member.topology_epoch}", *(f"{tag.key}={tag.value}" for tag in member.client_tags))
                ),
            )
            for member_id, member in self.members.items()
        }

    def reasons(self) -> object:
        return self.reads(), self.metadata_hash, self.validated, dict(self.settings)

    def furthest(self) -> int:
        """A member has the first epoch before there is a target: the initial rebalance delay runs."""
        return max(self.target_epoch, _FIRST_EPOCH)

    def _wanted(self, value: Any) -> frozenset[Unit]:
        return tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks)

    def _held(self, value: Any) -> tuple[frozenset[Unit], frozenset[Unit]]:
        revoking = (
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        )
        return self._wanted(value), tasks(*revoking)

    def _apply(self, kind: int, key: Any, value: Any, records: list[tuple[int, Any, Any]]) -> None:
        if kind == self.RECORDS.group:
            self.validated = -1 if value is None else value.validated_topology_epoch
            self.settings = (
                {} if value is None else {setting.key: setting.value for setting in value.last_assignment_configs or ()}
            )
        EpochLog._apply(self, kind, key, value, records)

    def _apply_other(self, key: Any, value: Any, records: list[tuple[int, Any, Any]]) -> None:
        if value is not None and self.topology is not None:
            self._fail(
                "the stored topology never changes", f"from epoch {self.topology.epoch} to {value.epoch}", records
            )
        self.topology = value

    def clash(self, unit: Unit, member_id: str, others: Mapping[Unit, str]) -> str | None:
        """An active task is with one member; a process has a task once."""
        key, number = unit
        for role in _ROLES:
            other = others.get((StreamsTaskKey(role, key.subtopology), number))
            if other in (None, member_id):
                continue
            if role == key.role == ACTIVE or self._process(other) == self._process(member_id):
                return other
        return None

    def _process(self, member_id: str | None) -> object:
        """A member that has none counts for itself."""
        member = self.members.get(member_id or "")
        return member_id if member is None or not member.process_id else member.process_id

    # --- the end

    def _unassigned(self, partitions: Mapping[str, tuple[bytes, int]]) -> str | None:
        if self.topology is None or self.validated != self.topology.epoch:
            return f"the topology fits no topics: {self.validated}"
        processes = len({self._process(member_id) for member_id in self.members})
        copies = min(self.standbys, processes - 1)
        wanted: list[Unit] = []
        for subtopology in self.topology.subtopologies:
            names = [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]
            numbers = range(max(partitions.get(name, (b"", 0))[1] for name in names))
            wanted += [(StreamsTaskKey(ACTIVE, subtopology.subtopology_id), number) for number in numbers]
            kept = copies if subtopology.state_changelog_topics else 0
            wanted += [
                (StreamsTaskKey(STANDBY, subtopology.subtopology_id), number) for number in numbers for _ in range(kept)
            ]
        has = sorted(unit for standing in self.standings.values() for unit in standing.assigned)
        if has != sorted(wanted):
            return (
                f"tasks without an owner, or too many: {[f'{key}_{number}' for key, number in set(has) ^ set(wanted)]}"
            )
        return None
