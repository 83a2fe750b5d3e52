"""Assignments of members of consumer, share and streams groups over time, in partitions or tasks: from the records of
`__consumer_offsets`, or the steps of a journal.

Rules:
1. A member has what its current assignment says until the next one, or its tombstone. What it is to give up is in that record; what it
   waits for is in its target assignment, if its state says that others have not given that up.
2. Records name topics by their ids; a topic whose name is in no log has its id as its name.
3. Both sources give the same rows.

Source: ConsumerGroupCurrentMemberAssignmentValue, StreamsGroupCurrentMemberAssignmentValue, ShareGroupCurrentMemberAssignmentValue and
their target assignments (4.x).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from broker_sim.explain.epoch_steps import ACTIVE, EpochSteps, Holding, Unit, note_holdings
from broker_sim.pipeline.facts import Row
from broker_sim.pipeline.modern_groups import EPOCHS

__all__ = ["TYPES", "assignments"]

_RECORD = "(Consumer|Share|Streams)Group(MemberMetadata|TargetAssignmentMember|CurrentMemberAssignment)"
TYPES = rf"^({_RECORD}|{EPOCHS})$"
"""Types of the records that are read, as a regular expression."""
_TYPE = re.compile(rf"^{_RECORD}$")
_UNRELEASED = {"Consumer": 2, "Streams": 3}
"""A member's state in which it waits for what others have, as records have it (MemberState.java); share groups have none."""
_OTHERS = (("standbyTasks", "standby"), ("warmupTasks", "warm-up"))
_HAS = (("assignedPartitions", ""), ("activeTasks", ACTIVE), *_OTHERS)
_TARGET = (("topicPartitions", ""), ("activeTasks", ACTIVE), *_OTHERS)
_REVOKING = tuple(
    (f"{key}PendingRevocation", role) if role else ("partitionsPendingRevocation", role) for key, role in _HAS
)


class _GroupReader:
    """Reads the records of one group, in order."""

    def __init__(self, topics: Mapping[str, str]) -> None:
        self.holdings: dict[str, list[Holding]] = {}
        self.clients: dict[str, str] = {}
        self._topics = topics
        self._targets: dict[str, frozenset[Unit]] = {}
        self._steps = EpochSteps()

    def take(self, row: Row) -> None:
        if row["record_type"] == EPOCHS:
            step = self._steps.take(json.loads(row["detail"]))
            note_holdings(self.holdings, step)
            self.clients |= {name: member.client_id for name, member in step.after.items()}
            return
        value = None if row["detail"] is None else json.loads(row["detail"])
        kind, what = _TYPE.sub(r"\1 \2", row["record_type"]).split(" ")
        member = row["member"] or "?"
        if what == "MemberMetadata" and value is not None:
            self.clients[member] = value.get("clientId") or member
        elif what == "TargetAssignmentMember":
            self._targets[member] = frozenset() if value is None else self._units(value, _TARGET)
        elif what == "CurrentMemberAssignment":
            self._current(member, row["record_ts_ms"], value, _UNRELEASED.get(kind))

    def _current(self, member: str, at_ms: int, value: Mapping[str, Any] | None, unreleased: int | None) -> None:
        known = self.holdings.setdefault(member, [])
        if known and known[-1].to_ms is None:
            known[-1].to_ms = at_ms
        if value is None:
            return
        has, revoking = self._units(value, _HAS), self._units(value, _REVOKING)
        waits = unreleased is not None and value.get("state") == unreleased
        missing = self._targets.get(member, frozenset[Unit]()) - has if waits else frozenset[Unit]()
        if has or revoking or missing:
            same = known and (known[-1].has, known[-1].revoking, known[-1].missing) == (has, revoking, missing)
            if same and known[-1].to_ms == at_ms:
                known[-1].to_ms = None
            else:
                known.append(Holding(at_ms, None, has, revoking, missing))

    def _units(self, value: Mapping[str, Any], fields: Iterable[tuple[str, str]]) -> frozenset[Unit]:
        units = []
        for key, role in fields:
            for entry in value.get(key) or ():
                name = entry["subtopologyId"] if role else self._topics.get(entry["topicId"], entry["topicId"])
                units += [Unit(name, number, role) for number in entry["partitions"]]
        return frozenset(units)


def assignments(rows: Iterable[Row], topics: Mapping[str, str]) -> list[Row]:
    """Rows with group, member, client, from_ms, to_ms (None: to the end), and has, revoking, missing, each a set of `Unit`. ``rows``:
    records of `TYPES` of an offset_log, in order; ``topics``: topic id -> name."""
    groups: dict[str, _GroupReader] = {}
    for row in rows:
        reader = groups.get(row["group"])
        if reader is None:
            reader = groups[row["group"]] = _GroupReader(topics)
        reader.take(row)
    return [
        {
            "group": group,
            "member": member,
            "client": reader.clients.get(member) or member,
            "from_ms": holding.from_ms,
            "to_ms": holding.to_ms,
            "has": holding.has,
            "revoking": holding.revoking,
            "missing": holding.missing,
        }
        for group, reader in groups.items()
        for member, holdings in reader.holdings.items()
        for holding in holdings
    ]
