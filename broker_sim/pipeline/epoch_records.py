"""A step of an epoch-based group, from a journal, as the records that its coordinator wrote: what `modern_groups` reads of a log.

Rules:
1. Records come in Kafka's order: tombstones of removed members, records of members, the group's epoch, the assignment of each member.
2. Only what `modern_groups` reads of a record is in it, under Kafka's names. The group's record has the ``step`` besides.
3. A classic group goes over with its own generation as the epoch (``over``); the step in which it does raises that by one. A journal
   that begins with a group shows it (``found``: its state).

Source: ConsumerGroup.fromClassicGroup, GroupMetadataManager.removeMember.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from broker_sim.explain.epoch_steps import ACTIVE, EpochStep, MemberSnapshot, Unit

__all__ = ["records_of"]

_UNRELEASED = 99
"""State of a member that is not settled: any number but that of the settled state."""

Row = Mapping[str, Any]


def records_of(step: EpochStep, row: Row) -> Iterator[dict[str, Any]]:
    """Rows as `ModernGroup.take` reads them, with group, place and time of ``row``, the step's."""
    if step.unloaded:
        return

    def record(what: str, member: str | None, detail: Any = None, **more: Any) -> dict[str, Any]:
        text = None if detail is None else json.dumps(detail)
        name = f"{step.kind.capitalize()}Group{what}"
        return {**row, "what": name, "cause_members": member, "detail": text, "generation": None, **more}

    for name in step.before:
        if name not in step.after:
            yield record("CurrentMemberAssignment", name)
            yield record("MemberMetadata", name)
    if step.epoch is None:
        yield record("Metadata", None, step=step, stays=step.classic_members)
        return
    if step.over:
        for name in step.over:
            yield record("MemberMetadata", name, _member(step.after[name]))
        yield record("Metadata", None, {}, generation=step.epoch - 1, over=True, place=row["place"] - 1)
    for name, holder in step.after.items():
        was = step.before.get(name)
        if name not in step.over and (was is None or _member(was) != _member(holder)):
            yield record("MemberMetadata", name, _member(holder))
    made = step.epoch_before is None and not step.after and not step.found  # which writes nothing
    if step.moved and not made:
        state = step.state if step.found else None
        yield record("Metadata", None, _topology(row), generation=step.epoch, step=step, found=state)
    for name, holder in step.after.items():
        was = step.before.get(name)
        if was is None or _current(was, step.kind) != _current(holder, step.kind):
            yield record("CurrentMemberAssignment", name, _current(holder, step.kind))


def _member(holder: MemberSnapshot) -> dict[str, Any]:
    return {
        "clientId": holder.client_id,
        "clientHost": holder.client_host,
        "instanceId": holder.instance,
        "subscribedTopicNames": list(holder.topics),
    }


def _current(holder: MemberSnapshot, kind: str) -> dict[str, Any]:
    settled = not holder.revoking and not holder.missing
    assignment: dict[str, Any] = {"memberEpoch": holder.epoch}
    if not settled:
        assignment["state"] = _UNRELEASED
    if kind == "streams":
        active = [unit for unit in holder.revoking if unit.role == ACTIVE]
        tasks = [{"subtopologyId": name, "partitions": numbers} for name, numbers in _by_name(active)]
        return assignment | {"activeTasksPendingRevocation": tasks}
    some = [{"topic": name, "partitions": numbers} for name, numbers in _by_name(holder.revoking)]
    return assignment | {"partitionsPendingRevocation": some}


def _by_name(units: Iterable[Unit]) -> list[tuple[str, list[int]]]:
    by_name: dict[str, list[int]] = {}
    for unit in sorted(units):
        by_name.setdefault(unit.name, []).append(unit.number)
    return list(by_name.items())


def _topology(row: Row) -> dict[str, Any]:
    """Fields of a streams group's record that show whether its topology is valid: validatedTopologyEpoch, -1 if it is not."""
    topology = json.loads(row["detail"]).get("topology") or {}
    ready = bool(topology) and topology.get("problem") is None
    return {"validatedTopologyEpoch": topology.get("epoch", 0) if ready else -1}
