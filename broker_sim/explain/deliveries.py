"""Deliveries of the records of a share group (KIP-932): who had which, how often, who let its lock expire, and what is archived.

    found = deliveries(events, "shippers")     # of every partition that it has read, every record that was delivered

It is read from the journal's events ``delivery`` and ``share_partition``. A record's delivery begins when a member acquires it and ends
when the member says what became of it, its lock ends or its share session does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from broker_sim.explain.events import Event, items, number, text

__all__ = [
    "REDELIVERED_AFTER",
    "RecordDelivery",
    "ShareGroupReader",
    "SharePartitionHistory",
    "Skipped",
    "deliveries",
    "read",
]

REDELIVERED_AFTER = ("released", "expired", "session closed")
"""Ends of deliveries after which a record is to be delivered again, as long as the group's limit allows."""


@dataclass(slots=True, eq=False)
class RecordDelivery:
    """One delivery of a record. ``count``: the how many-th; ``end``: what ended it (`accepted`, `released`, `rejected`, `gap`,
    `expired`, `session closed`, `aborted`, `deleted`), "" while the member has it; ``becomes``: what it was then. ``renewed``: how
    often its lock began anew; ``letter``: the partition with its dead letter. Times in ms of the brokers' clock."""

    member: str
    ts_ms: int
    count: int
    end: str = ""
    ended_ms: int | None = None
    becomes: str = "acquired"
    renewed: int = 0
    letter: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Offsets that the group passed over: ``first`` to ``to_offset`` - 1. ``reset``: the share.auto.offset.reset by which it began
    there, "" where the log start offset moved on; ``anew``: it had begun to read the partition before; ``acquired``: how many of them
    members had acquired."""

    log: str
    ts_ms: int
    first: int
    to_offset: int
    reset: str = ""
    anew: bool = False
    acquired: int = 0


@dataclass(slots=True, eq=False)
class SharePartitionHistory:
    """A partition as a share group has had it. ``records``: offset -> its deliveries in their order. ``refused``: (when, of which
    records, the error) where the share coordinator did not take what a member said. ``reached``: the first offset that no member was
    given yet, None before the journal shows where the group begins."""

    log: str
    start_offset: int | None = None
    records: dict[int, list[RecordDelivery]] = field(default_factory=dict)
    loads: list[tuple[int, int]] = field(default_factory=list)  # when, the leader epoch
    refused: list[tuple[int, int, int, str]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    losses: list[tuple[int, str, int, int, int]] = field(default_factory=list)
    """Committed records that the log has lost: when, ``head`` or ``tail``, first and last offset, the group's start offset then."""
    reached: int | None = None
    most_locks: int | None = None
    """group.share.partition.max.record.locks when its leader loaded it."""

    def full(self) -> Iterator[tuple[int, int | None, Counter[str]]]:
        """Stretches in which members had as many records as ``most_locks``: from when to when (None: to the end), and how many each
        member had at its beginning."""
        if self.most_locks is None:
            return
        steps: list[tuple[int, int, str]] = []
        for all_ in self.records.values():
            for one in all_:
                steps.append((one.ts_ms, 1, one.member))
                steps += [(one.ended_ms or one.ts_ms, -1, one.member)] if one.end else []
        had: Counter[str] = Counter()
        since: tuple[int, Counter[str]] | None = None
        for ts_ms, number_, member in sorted(steps, key=lambda step: step[:2]):
            had[member] += number_
            if since is None and had.total() >= self.most_locks:
                since = ts_ms, +had
            elif since is not None and had.total() < self.most_locks:
                yield since[0], ts_ms, since[1]
                since = None
        if since is not None:
            yield since[0], None, since[1]

    def ends(self) -> Counter[str]:
        """Number of deliveries by their end; "" for those that have not ended."""
        return Counter(delivery.end for deliveries in self.records.values() for delivery in deliveries)

    def held(self) -> Iterator[tuple[int, RecordDelivery]]:
        """Records that members have acquired now: (offset, delivery)."""
        for offset, all_ in self.records.items():
            if not all_[-1].end:
                yield offset, all_[-1]


class ShareGroupReader:
    """Reads them, event by event. ``partitions`` by their logs; ``names``: what members are called, by their ids."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.partitions: dict[str, SharePartitionHistory] = {}
        self.names: dict[str, str] = {}
        self.state, self.epoch, self.size = "", 0, 0
        self.last_ms = 0

    def take(self, event: Event) -> None:
        """An event of any kind."""
        self.last_ms = max(self.last_ms, number(event, "ts_ms") or 0)
        if event.get("event") == "data_loss":
            self._data_loss(event)
        if text(event, "group") != self.group:
            return
        kind = event.get("event")
        if kind == "epochs":
            self._epochs(event)
        elif kind in ("share_partition", "delivery"):
            log = text(event, "log")
            if log is not None:
                partition = self.partitions.setdefault(log, SharePartitionHistory(log))
                if kind == "share_partition" and event.get("action") == "loaded":
                    self._begins(event, partition)
                partition.start_offset = (
                    number(event, "start_offset") if "start_offset" in event else partition.start_offset
                )
                (self._share_partition if kind == "share_partition" else self._delivery)(event, partition)

    def _epochs(self, event: Event) -> None:
        rows = [row for row in items(event, "members") if isinstance(row, Mapping)]
        clients = Counter(text(row, "client_id") for row in rows)
        for row in rows:
            member, client = text(row, "member"), text(row, "client_id")
            if member is not None:
                self.names[member] = client if client and clients[client] == 1 else member
        self.state, self.size = text(event, "state") or "", number(event, "size") or 0
        self.epoch = number(event, "group_epoch") or 0

    def _share_partition(self, event: Event, partition: SharePartitionHistory) -> None:
        ts_ms = number(event, "ts_ms") or 0
        if event.get("action") == "loaded":
            partition.most_locks = number(event, "max_record_locks")
            partition.loads.append((ts_ms, number(event, "leader_epoch") or 0))
        elif event.get("action") == "unloaded":
            for _, delivery in list(
                partition.held()
            ):  # the next leader finds them free, and counts no delivery that wasn't written
                delivery.end, delivery.ended_ms, delivery.becomes = "unloaded", ts_ms, "available"

    def _data_loss(self, event: Event) -> None:
        partition = self.partitions.get(text(event, "log") or "")
        first, last = number(event, "first"), number(event, "last")
        start = None if partition is None else partition.start_offset
        if partition is not None and first is not None and last is not None and start is not None:
            partition.losses.append((self.last_ms, text(event, "part") or "", first, last, start))

    def _begins(self, event: Event, partition: SharePartitionHistory) -> None:
        """The leader has loaded the partition: where the group begins, and what it passes over if it has no start offset."""
        start, reset = number(event, "start_offset"), text(event, "reset") or ""
        if start is None:
            return
        before = partition.start_offset if partition.loads else None
        first = max(before or 0, number(event, "log_start_offset") or 0)
        if reset and first < start:
            had = sum(first <= offset < start for offset in partition.records)
            ts_ms, anew = number(event, "ts_ms") or 0, before is not None
            partition.skipped.append(Skipped(partition.log, ts_ms, first, start, reset, anew, had))
        partition.reached = start if reset or partition.reached is None else max(start, partition.reached)

    def _delivery(self, event: Event, partition: SharePartitionHistory) -> None:
        first, last, ts_ms = number(event, "first"), number(event, "last"), number(event, "ts_ms") or 0
        action, becomes = text(event, "action") or "", text(event, "becomes") or ""
        if first is None or last is None or last < first or last - first > 1_000_000:
            return
        if action == "refused":
            partition.refused.append((ts_ms, first, last, text(event, "error") or ""))
            return
        member, how_often = text(event, "member") or "", number(event, "deliveries") or 0
        if action == "acquired" and partition.reached is not None:
            log_start = number(event, "log_start_offset") or 0
            if partition.reached < min(log_start, first):
                partition.skipped.append(Skipped(partition.log, ts_ms, partition.reached, log_start))
            partition.reached = max(partition.reached, last + 1)
        for offset in range(first, last + 1):
            known = partition.records.setdefault(offset, [])
            if action == "acquired":
                known.append(RecordDelivery(member, ts_ms, how_often))
            elif action == "renewed" and known:
                known[-1].renewed += 1
            elif action == "dead letter" and known:
                known[-1].becomes, known[-1].letter = becomes, text(event, "to") or ""
            elif action not in ("renewed", "dead letter"):
                if not known or (known[-1].end and known[-1].end != "unloaded"):
                    known.append(RecordDelivery(member, ts_ms, how_often))  # it was delivered before the journal began
                known[-1].end, known[-1].ended_ms, known[-1].becomes = action, ts_ms, becomes

    def by_member(self) -> dict[str, dict[str, list[tuple[int, RecordDelivery]]]]:
        """Member -> partition -> (offset, delivery), in the order of offsets: of all members that have had records."""
        by_member: dict[str, dict[str, list[tuple[int, RecordDelivery]]]] = {}
        for log, partition in self.partitions.items():
            for offset, all_ in sorted(partition.records.items()):
                for delivery in all_:
                    by_member.setdefault(delivery.member, {}).setdefault(log, []).append((offset, delivery))
        return by_member


def read(events: Iterable[Event], group: str) -> ShareGroupReader:
    """The deliveries of a share group's records in a journal."""
    reader = ShareGroupReader(group)
    for event in events:
        if isinstance(event, Mapping):
            reader.take(event)
    return reader


def deliveries(events: Iterable[Event], group: str) -> dict[str, SharePartitionHistory]:
    """By partition (``orders-0``) what became of every record that the group was given."""
    return read(events, group).partitions
