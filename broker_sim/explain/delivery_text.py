"""The deliveries of a share group's records, in sentences: to which members, how often, expired locks, archived records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from broker_sim.common.text import clock, duration_text, durations_text
from broker_sim.explain.deliveries import (
    REDELIVERED_AFTER,
    RecordDelivery,
    ShareGroupReader,
    SharePartitionHistory,
    Skipped,
    read,
)
from broker_sim.explain.events import Event
from broker_sim.explain.phrases import count, joined, shortened, times

__all__ = ["lines", "summary"]

_SHOWN = 6
"""Deliveries of one record that are printed one by one."""
_MOST = 30
"""Entries of a group that are printed; the rest is counted."""
_WORTH_TELLING_MS = 1000
"""Stretches that are shorter are the usual time of work on what a member was given."""
_ALIKE_MS = 1000
"""Deliveries that ended the same way are one entry if their durations differ by less."""
_SETTLED = ("acknowledged", "archiving", "archived")


Story = tuple[int, list[RecordDelivery]]
"""An offset, and its record's deliveries in their order."""


def summary(events: Iterable[Event], group: str) -> tuple[str, list[tuple[int, str]]] | None:
    """The state of a share group and its exceptional deliveries; None if the journal has no share group of that name."""
    reader = read(events, group)
    if not reader.partitions:
        return None
    things: list[tuple[int, str]] = []
    for partition in reader.partitions.values():
        things += _of(partition, reader)
    things.sort()
    if len(things) > _MOST:
        things = [*things[:_MOST], (things[_MOST][0], f"... {len(things) - _MOST} more ...")]
    things += _skipped(skipped for partition in reader.partitions.values() for skipped in partition.skipped)
    things += [entry for partition in reader.partitions.values() for entry in _full(partition, reader)]
    things.sort()
    standing = f"{reader.state}, epoch {reader.epoch}, {count(reader.size, 'member')}" if reader.state else "not seen"
    head = [
        f"Share group {group}: {standing}.",
        *(_summary(partition, reader) for partition in reader.partitions.values()),
    ]
    return " ".join(head), things


def _summary(partition: SharePartitionHistory, reader: ShareGroupReader) -> str:
    ends = partition.ends()
    records = len(partition.records)
    done = {
        "accepted": ends["accepted"],
        "rejected": ends["rejected"],
        "gaps": ends["gap"],
        "archived at the limit": sum(1 for _ in _at_the_limit(partition)),
    }
    clauses = [f"{number} {what}" for what, number in done.items() if number]
    again = sum(len(deliveries) > 1 for deliveries in partition.records.values())
    clauses += [f"{again} delivered more than once"] if again else []
    held: dict[str, list[int]] = {}
    for offset, delivery in partition.held():
        held.setdefault(delivery.member, []).append(offset)
    clauses += [f"{reader.names.get(member, member)} has {_ranges(offsets)}" for member, offsets in held.items()]
    begins = "" if partition.start_offset is None else f", start offset {partition.start_offset}"
    return (
        f"Of {partition.log}{begins}: {count(records, 'record')} delivered{', ' + joined(clauses) if clauses else ''}."
    )


def _at_the_limit(partition: SharePartitionHistory) -> Iterator[tuple[int, list[RecordDelivery]]]:
    for offset, all_ in partition.records.items():
        if all_[-1].becomes == "archived" and all_[-1].end in REDELIVERED_AFTER:
            yield offset, all_


def _of(partition: SharePartitionHistory, reader: ShareGroupReader) -> list[tuple[int, str]]:
    """The exceptional deliveries: repeated ones, expired locks, new leaders, refused acknowledgements."""
    lines: list[tuple[int, str]] = []
    worth = [
        (offset, all_)
        for offset, all_ in sorted(partition.records.items())
        if len(all_) > 1 or all_[-1].end in ("expired", "session closed", "rejected", "released")
    ]
    for rows in _alike(worth):
        stories = [all_ for _, all_ in rows]
        what = f"record{'s' if len(rows) > 1 else ''} {_ranges(offset for offset, _ in rows)} of {partition.log}"
        words = f"{what} {'were' if len(rows) > 1 else 'was'} {_deliveries(stories, reader)}{_fate(stories)}"
        lines.append((min(all_[0].ts_ms for all_ in stories), words))
    for ts_ms, epoch in partition.loads[1:]:
        lines.append(
            (ts_ms, f"{partition.log} got another leader in epoch {epoch}: records in flight are available again")
        )
    lines += [(loss[0], _lost(partition.log, *loss[1:])) for loss in partition.losses]
    lines += [
        (
            ts_ms,
            f"the share coordinator refused the acknowledgement of {_range(first, last)} of {partition.log} ({error})",
        )
        for ts_ms, first, last, error in partition.refused
    ]
    return lines


def _full(partition: SharePartitionHistory, reader: ShareGroupReader) -> Iterator[tuple[int, str]]:
    """Sentences, with times, about periods in which no member was given records, as the limit of records in flight was reached."""
    for from_ms, to_ms, had in partition.full():
        lasted = (reader.last_ms if to_ms is None else to_ms) - from_ms
        if lasted < _WORTH_TELLING_MS:
            continue
        is_over = to_ms is not None
        has, are, is_ = ("had", "were", "was") if is_over else ("has", "are", "is")
        whose = joined([f"{reader.names.get(member, member)} {has} {number}" for member, number in had.most_common(3)])
        when = f"until {clock(to_ms)}" if to_ms is not None else f"since {clock(from_ms)}"
        words = f"no member {is_} given more records of {partition.log} {when} ({duration_text(lasted)})"
        limit = f"{partition.most_locks} {are} in flight, as many as group.share.partition.max.record.locks allows"
        yield from_ms, f"{words}: {limit}; {whose}"


def _lost(log: str, part: str, first: int, last: int, start: int) -> str:
    """Records that a log has lost, of which the group has a start offset."""
    lost = f"{log} lost its {'last' if part == 'tail' else 'first'} records: offsets {first} to {last}"
    words = f"{lost}; the group's share partition start offset is {start}"
    if part == "tail" and start > first:
        return f"{words}, {start - first} beyond the log end; new records get these offsets"
    missed = last + 1 - max(start, first)
    return words + (f": up to {count(missed, 'record')} can no longer be delivered" if missed > 0 else "")


def _skipped(skipped: Iterable[Skipped]) -> list[tuple[int, str]]:
    """Sentences, with times, about records that the group passed over; partitions with the same reason and time share an entry."""
    alike: dict[tuple[object, ...], list[Skipped]] = {}
    for one in sorted(skipped, key=lambda one: (one.ts_ms, one.log)):
        alike.setdefault((one.ts_ms, one.reset, one.anew, one.acquired > 0), []).append(one)
    return [(some[0].ts_ms, _passed_over(some)) for some in alike.values()]


def _passed_over(some: list[Skipped]) -> str:
    first, reset = some[0], some[0].reset
    where = shortened(f"{one.log} from {one.to_offset}" for one in some)
    lost = shortened(f"{_range(one.first, one.to_offset - 1)} of {one.log}" for one in some)
    many = sum(one.to_offset - one.first for one in some)
    most = f"offset{'s' if many > 1 else ''} {lost}, up to {count(many, 'record')}"
    are = "are" if many > 1 else "is"
    if not reset:
        return f"{most}, {are} delivered to no member: the log start offset moved to {shortened(str(one.to_offset) for one in some)}"
    setting = f"share.auto.offset.reset={reset}" + (", its default" if reset == "latest" else "")
    if not first.anew:
        return f"the group begins to read {where} on, as it had no start offset there ({setting}): {most}, {are} delivered to no member"
    had = sum(one.acquired for one in some)
    acquired = f"; {had} of them had been acquired, and not acknowledged" if had else ""
    return (
        f"the group begins anew to read {where} on, as no acknowledgement was stored before its state was unloaded"
        f" ({setting}): {most}, {are} delivered to no member{acquired}"
    )


def _alike(rows: Iterable[Story]) -> Iterator[list[Story]]:
    """Neighbours whose deliveries went the same way and took about as long."""
    run: list[Story] = []
    for row in rows:
        if run and not _is_alike(row[1], run[0][1]):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _is_alike(all_: list[RecordDelivery], others: list[RecordDelivery]) -> bool:
    return len(all_) == len(others) and all(
        (one.member, one.end, one.becomes, one.renewed, one.letter)
        == (other.member, other.end, other.becomes, other.renewed, other.letter)
        and abs(_lasted(one) - _lasted(other)) < _ALIKE_MS
        for one, other in zip(all_, others, strict=True)
    )


def _deliveries(stories: list[list[RecordDelivery]], reader: ShareGroupReader) -> str:
    """The deliveries of records that went the same way, in words."""
    steps, number = [], len(stories[0])
    for same in list(zip(*stories, strict=True))[:_SHOWN]:
        member = same[0].member
        steps.append(f"to {reader.names.get(member, member) or 'an unknown member'}, {_ending(same)}")
    if number > _SHOWN:
        steps.append(f"and {number - _SHOWN} more times")
    return f"delivered {times(number)}: {'; '.join(steps)}"


def _lasted(delivery: RecordDelivery) -> int:
    return (delivery.ended_ms or delivery.ts_ms) - delivery.ts_ms


def _ending(same: Sequence[RecordDelivery]) -> str:
    delivery = same[0]
    if not delivery.end:
        return "which still has it"
    lasted = durations_text(_lasted(one) for one in same)
    renewed = f" renewed {times(delivery.renewed)}," if delivery.renewed else ""
    words = {
        "expired": f"whose acquisition lock expired after {lasted}",
        "session closed": f"whose share session was closed after {lasted}",
        "unloaded": "until the partition got another leader",
        "gap": "which acknowledged it as a gap",
        "aborted": "whose transaction was aborted",
        "deleted": "until the log was deleted up to there",
    }
    return words.get(delivery.end, f"which {delivery.end} it after{renewed} {lasted}")


def _fate(stories: list[list[RecordDelivery]]) -> str:
    last = stories[0][-1]
    letter = f". Its dead letter is in {last.letter}" if last.letter else ""
    if last.becomes in ("archived", "archiving") and last.end in REDELIVERED_AFTER:
        took = durations_text((all_[-1].ended_ms or all_[0].ts_ms) - all_[0].ts_ms for all_ in stories)
        return f". That was the group's delivery limit: archived after {took}{letter}"
    return ("" if last.becomes in (*_SETTLED, "acquired") else ". It is available for delivery again") + letter


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _ranges(offsets: Iterable[int]) -> str:
    """Offsets as ranges: ``1 to 4, 7``."""
    runs: list[list[int]] = []
    for offset in sorted(offsets):
        if runs and runs[-1][1] == offset - 1:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
    shown = [_range(first, last) for first, last in runs[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(runs) - _SHOWN} more runs" if len(runs) > _SHOWN else "")


def lines(things: Iterable[tuple[int, str]]) -> list[str]:
    """The entries as lines, each with its time."""
    return [f"{clock(ts_ms)}  {words}" for ts_ms, words in things]
