"""Unusual changes of a group's committed offsets: they decreased, skipped records that no member was given, were set by a client
that is no member, or were deleted.

Rules:
1. Only observed facts count: an offset by the journal's ``offsets`` and ``offsets_deleted``, what a client was given by its Fetches. A
   Fetch counts only with its answer: what was refused, or brought nothing, delivered nothing.
2. A client read over records where it fetches from an offset behind the one at which it fetched last, and was given nothing in between.
   The same where its first Fetch of a partition is behind the group's committed offset: what its OffsetFetch was answered before is
   given, if that was an error. A client that commits without being a member,
   and fetches the partition itself, is a consumer without a group's assignment, and no tool.
3. A difference of offsets is not a number of records: compacted records and markers of transactions have offsets too. "Up to".
4. A reader is known by client id and host. Who is no member, and reads the same topics, has no say.
5. Where the group had no committed offset, and a member asked where the log ends, `beginnings` says what lies before: a finding, or the
   user's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from broker_sim.common.answers import whole_error
from broker_sim.explain.beginnings import LATEST, Beginning, Beginnings, Reader
from broker_sim.explain.events import Call, Event, items, names_in, number, table, text
from broker_sim.explain.model import History, Incident
from broker_sim.explain.phrases import caller, count, shortened

__all__ = ["Offsets"]


_REASONS = {
    "expired": "expired: the group had been without members, or without a subscription to the topic, for offsets.retention.minutes",
    "topic deleted": "were deleted with their topic",
    "requested": "were deleted by a request",
}

_START_OFFSETS = ("AlterShareGroupOffsets", "DeleteShareGroupOffsets")

_ONE_START_MS = 1000
"""Partitions that a client begins to read within that time are one incident."""


@dataclass(slots=True)
class _Position:
    """Position of a client in a partition. ``given``: whether a response since then had records; ``error``: the last response's."""

    offset: int
    given: bool = False
    error: str = ""
    log_start: int | None = None
    end: int | None = None


@dataclass(slots=True)
class _Skip:
    """A client read over something. ``committed``: whether ``from_offset`` was the group's committed offset."""

    reader: Reader
    log: str
    from_offset: int
    position: _Position
    to_offset: int
    ts_ms: int
    order: int
    committed: bool
    lookup: str
    """The error of its last OffsetFetch, if it had one: then it did not get the committed offset."""


class Offsets:
    """Reads the journal, event by event; ``finish`` puts what it found into the group's history."""

    def __init__(self, past: History) -> None:
        self.past = past
        self._committed: dict[str, int] = {}
        self._positions: dict[tuple[Reader, str], _Position] = {}
        self._tried: dict[tuple[Reader, str], tuple[_Position, _Skip | None]] = {}
        """Positions from which clients go on to read, before they are answered."""
        self._asked: dict[int, tuple[Reader, list[str]]] = {}
        self._lookups: dict[Reader, str] = {}
        """The error that a client's last OffsetFetch for the group was answered as a whole, "" for none."""
        self._ends: dict[str, int] = {}
        """The highest high watermark of a Fetch response, by partition."""
        self._skips: list[_Skip] = []
        self._topics: dict[str, str] = {}
        """Topic id -> name, of Fetches by id (v13)."""
        self._owners: dict[str, str] = {}
        """Partition -> the member that it was assigned to last."""
        self._tails: dict[str, tuple[int, int]] = {}
        """Partition -> the first and the last offset of the tail that its log has lost since the group committed there."""
        self._readers: dict[Reader, str] = {}
        """The members of a consumer group (KIP-848)."""
        self._begins = Beginnings()
        self._begun: list[Beginning] = []
        self._ends_asked: dict[int, tuple[Reader, dict[str, int]]] = {}
        """ListOffsets by request: who asked, and the timestamp by partition."""
        self._found: list[tuple[int, int, Callable[[], str]]] = []
        """Time, order of the event, and a function for the text: members have their names only at the end."""

    def take(self, event: Event, call: Call | None, ts_ms: int, order: int) -> None:
        """An event of any kind; ``call``: the group's request that it came with."""
        kind = event.get("event")
        if kind == "request":
            if event.get("api") == "Fetch":
                self._fetch(event, ts_ms, order)
            elif event.get("api") == "ListOffsets":
                self._list(event)
        elif kind == "response":
            if event.get("api") == "Fetch":
                self._fetched(event, ts_ms, order)
            elif event.get("api") == "ListOffsets":
                self._listed(event)
            elif event.get("api") == "Metadata":
                self._sized(event)
            elif event.get("api") == "OffsetFetch" and call is not None:
                self._lookups[call.client_id, call.client_host] = whole_error(event, self.past.group)
            elif call is not None and call.api in _START_OFFSETS and text(event, "error") is None:
                self._found.append((ts_ms, order, partial(_start_offsets, call)))
        elif kind == "data_loss":
            loss = self._data_loss(event)
            if loss is not None:
                self._found.append((ts_ms, order, loss))
        elif text(event, "group") != self.past.group:
            return
        elif kind == "group":
            self._own(items(table(event, "after"), "members"))
        elif kind == "epochs":
            self._own(items(event, "members"))
            for row in items(event, "members"):
                if isinstance(row, Mapping) and (member := text(row, "member")):
                    self._readers[text(row, "client_id") or "", text(row, "client_host") or ""] = member
        elif kind in ("offsets", "offsets_deleted"):
            self._stored(event, ts_ms, order)
            words = self._moved(event, call) if kind == "offsets" else self._deleted(event, call)
            if words is not None:
                self._found.append((ts_ms, order, words))

    def _own(self, members: Iterable[object]) -> None:
        """Note the owners of partitions, and the topics of clients, from these members."""
        for row in members:
            member = text(row, "member") if isinstance(row, Mapping) else None
            if member is None or not isinstance(row, Mapping):
                continue
            who = text(row, "client_id") or "", text(row, "client_host") or ""
            self._begins.member(who, names_in(row, "topics"))
            for topic, partitions in table(row, "assignment").items():
                for index in partitions if isinstance(partitions, list) else ():
                    self._owners[f"{topic}-{index}"] = member

    # what is committed

    def _moved(self, event: Event, call: Call | None) -> Callable[[], str] | None:
        offsets = {str(log): at for log, at in table(event, "offsets").items() if isinstance(at, int)}
        before: dict[str, int | None] = {log: self._committed.get(log) for log in offsets}
        self._committed.update(offsets)
        tails = {
            log: self._tails.pop(log) for log in offsets if log in self._tails
        }  # what is committed next is of the new records
        if call is not None and call.is_outsiders:
            reader = call.client_id, call.client_host
            moved = {
                log: (before[log], at)
                for log, at in offsets.items()
                if before[log] != at and (reader, log) not in self._positions
            }
            if moved:
                return lambda: f"{_who(call)}, no member of the group, set committed offsets: {_moves(moved)}"
        back = {log: (old, offsets[log]) for log, old in before.items() if old is not None and offsets[log] < old}
        if not back:
            return None

        member = "" if call is None else call.member
        lost = [log for log, (_, new) in back.items() if (tail := tails.get(log)) and tail[0] <= new <= tail[1]]
        then = "a member that starts there reads the records between again"
        if lost:
            rest = "" if len(lost) == len(back) else f"; else {then}"
            then = f"the records between are lost{'' if len(lost) == len(back) else f' of {shortened(sorted(lost))}'}{rest}"
        others = (
            {log: owner for log in sorted(back) if (owner := self._owners.get(log, member)) != member} if member else {}
        )

        def words() -> str:
            change = "committed offsets decreased"
            if call is not None:
                change = f"{self.past.name(member) if member else _who(call)} decreased committed offsets"
            theirs = [f"{log} is assigned to {self.past.name(owner)}" for log, owner in others.items()]
            whose = f" ({shortened(theirs)}, not to {self.past.name(member)})" if theirs else ""
            return f"{change}: {_moves(back)}{whose}; {then}"

        return words

    def _deleted(self, event: Event, call: Call | None) -> Callable[[], str]:
        logs = names_in(event, "partitions")
        shown = [f"{log} ({self._committed[log]})" if log in self._committed else log for log in sorted(logs)]
        for log in logs:
            self._committed.pop(log, None)
        reason = text(event, "reason") or "unknown"
        if call is not None:
            why = f"were deleted by {_who(call)} ({call.api})"
        else:
            why = _REASONS.get(reason, "were deleted; the journal doesn't say why")
        words = f"committed offsets {why}: {shortened(shown)}; a member that starts there uses its auto.offset.reset"
        return lambda: words

    def _data_loss(self, event: Event) -> Callable[[], str] | None:
        """Committed records that a log has lost, where the group has a committed offset in it."""
        log, first, last = text(event, "log") or "", number(event, "first"), number(event, "last")
        if event.get("part") == "tail" and first is not None and last is not None:
            self._tails[log] = first, last
        committed = self._committed.get(log)
        if committed is None or first is None or last is None:
            return None
        if event.get("part") == "tail":
            what = f"{log} lost its last records, which were committed: offsets {first} to {last}"
            beyond = committed - first
            where = f", {beyond} beyond the log end; new records get these offsets" if beyond > 0 else ""
        else:
            what = f"{log} lost its first records: offsets {first} to {last}"
            missed = last + 1 - committed
            where = f", before the log start: up to {missed} records can no longer be read" if missed > 0 else ""
        return lambda: f"{what}; the group's committed offset is {committed}{where}"

    # what was read

    def _fetch(self, event: Event, ts_ms: int, order: int) -> None:
        reader = text(event, "client_id") or "", text(event, "client_host") or ""
        named = []
        for log, offset in self._named(event):
            named.append(log)
            last = self._positions.get((reader, log))
            if last is not None and last.offset == offset:
                self._tried.pop((reader, log), None)
                continue
            committed = self._committed.get(log, -1)
            # who was given the partition anew starts at what others have committed meanwhile
            base = committed if last is None else max(committed, last.offset)
            skip = None
            if 0 <= base < offset and (last is None or not last.given):
                position = last if last is not None and last.offset == base else _Position(base)
                lookup = self._lookups.get(reader, "") if last is None else ""
                skip = _Skip(reader, log, base, position, offset, ts_ms, order, base == committed, lookup)
            self._tried[reader, log] = _Position(offset), skip
        self._asked[number(event, "request") or 0] = reader, named

    def _named(self, event: Event) -> Iterator[tuple[str, int]]:
        """Partitions and offsets that a Fetch names; by topic id (v13) the event's ``topics`` has the names, in the same order."""
        names = iter(names_in(event, "topics"))
        for topic in items(table(event, "body"), "topics"):
            for partition in items(topic, "partitions") if isinstance(topic, Mapping) else ():
                log, offset, index = next(names, ""), number(partition, "fetch_offset"), number(partition, "partition")
                name, topic_id = text(topic, "topic"), text(topic, "topic_id")
                if not name and topic_id and log.endswith(f"-{index}"):
                    self._topics[topic_id] = log.removesuffix(f"-{index}")
                log = f"{name}-{index}" if name else log
                if log and offset is not None:
                    yield log, offset

    def _fetched(self, event: Event, ts_ms: int, order: int) -> None:
        reader, named = self._asked.pop(number(event, "request") or 0, (None, []))
        if reader is None:
            return
        answers = dict(self._answers(event))
        if not number(table(event, "body"), "error_code"):
            for log in {**dict.fromkeys(named), **answers}:
                begun = self._begin(reader, log, answers.get(log, {}), ts_ms, order)
                self._answered(reader, log, answers.get(log, {}), begun=begun)

    def _begin(self, reader: Reader, log: str, answer: Event, ts_ms: int, order: int) -> bool:
        """Whether it begins to read there, at the log's end."""
        position = self._tried.get((reader, log), (self._positions.get((reader, log)), None))[0]
        if position is None or number(answer, "error_code"):
            return False
        records = number(table(answer, "records"), "records") or 0
        start = number(answer, "log_start_offset")
        beginning = self._begins.fetched(reader, log, position.offset, records, start, ts_ms, order)
        self._begun += [beginning] if beginning is not None else []
        return beginning is not None

    def _answered(self, reader: Reader, log: str, answer: Event, *, begun: bool) -> None:
        """``answer`` {}: nothing new, in a session. ``begun``: `beginnings` has found it."""
        tried, skip = self._tried.pop((reader, log), (None, None))
        skip = None if begun else skip
        error, records = number(answer, "error_code"), answer.get("records")
        # a position that is refused was one all the same if the log has reached so far: what was there is deleted
        reached = max(self._ends.get(log, -1), self._committed.get(log, -1))
        if tried is not None and (not error or tried.offset <= reached):
            self._positions[reader, log] = tried
            if skip is not None:
                self._skips.append(skip)
                if skip.lookup or skip.committed:  # nothing was known of the log where it did not read
                    skip.position.end = _known(number(answer, "high_watermark"), skip.position.end)
        self._ends[log] = max(self._ends.get(log, -1), number(answer, "high_watermark") or -1)
        position = self._positions.get((reader, log))
        if position is None or (tried is not None and position is not tried):
            return
        if error:
            position.error = "OFFSET_OUT_OF_RANGE" if error == 1 else position.error
        elif isinstance(records, Mapping) and (number(records, "bytes") or 0) > 0:
            position.given = True
        position.log_start = _known(number(answer, "log_start_offset"), position.log_start)
        position.end = _known(number(answer, "high_watermark"), position.end)

    def _answers(self, event: Event) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The partitions of a Fetch response, each with its log's name."""
        for topic in items(table(event, "body"), "responses"):
            if isinstance(topic, Mapping):
                name = text(topic, "topic") or self._topics.get(text(topic, "topic_id") or "", "")
                for partition in items(topic, "partitions") if name else ():
                    if isinstance(partition, Mapping):
                        yield f"{name}-{number(partition, 'partition_index')}", partition

    # where the log ends

    def _list(self, event: Event) -> None:
        """Note the timestamps that a ListOffsets request asks for."""
        reader = text(event, "client_id") or "", text(event, "client_host") or ""
        asked = {
            f"{text(topic, 'name')}-{number(partition, 'partition_index')}": stamp
            for topic in items(table(event, "body"), "topics")
            for partition in (items(topic, "partitions") if isinstance(topic, Mapping) else ())
            if isinstance(partition, Mapping) and (stamp := number(partition, "timestamp")) is not None
        }
        self._ends_asked[number(event, "request") or 0] = reader, asked

    def _listed(self, event: Event) -> None:
        reader, asked = self._ends_asked.pop(number(event, "request") or 0, (None, {}))
        for topic in items(table(event, "body"), "topics") if reader is not None else ():
            for partition in items(topic, "partitions") if isinstance(topic, Mapping) else ():
                name, index = (
                    text(topic, "name"),
                    number(partition, "partition_index") if isinstance(partition, Mapping) else None,
                )
                if reader is not None and name and index is not None:
                    latest = asked.get(f"{name}-{index}") == LATEST and not number(partition, "error_code")
                    self._begins.listed(reader, f"{name}-{index}", number(partition, "offset") if latest else None)

    def _sized(self, event: Event) -> None:
        """Note partition counts from a Metadata response."""
        for topic in items(table(event, "body"), "topics"):
            if (
                isinstance(topic, Mapping)
                and (name := text(topic, "name"))
                and (size := len(items(topic, "partitions")))
            ):
                self._begins.has(name, size)

    def _stored(self, event: Event, ts_ms: int, order: int) -> None:
        """Offsets of the group that are published, or deleted."""
        for log, offset in table(event, "offsets").items():
            if isinstance(offset, int):
                beginning = self._begins.committed(str(log), offset, ts_ms, order)
                self._begun += [beginning] if beginning is not None else []
        for log in names_in(event, "partitions"):
            self._begins.deleted(log, text(event, "reason") or "unknown")

    # the end

    def finish(self) -> None:
        """Everything that concerns the group: records that its members skipped, changes of its offsets."""
        names = {(info.client_id, info.client_host): member for member, info in self.past.members.items()}
        names |= self._readers
        for skip in self._skips:
            member = names.get(skip.reader)
            if member is not None and (skip.log in self._committed or skip.committed):
                words = _skipped(self.past.name(member), skip)
                self.past.incidents.append(Incident("offsets", skip.ts_ms, words, skip.order))
        for some in _together(self._begun):
            if (member := names.get(some[0].reader)) is not None:
                words = _began(self.past.name(member), some)
                self.past.incidents.append(Incident("offsets", some[0].ts_ms, words, some[0].order))
        self.past.incidents += [Incident("offsets", ts_ms, words(), order) for ts_ms, order, words in self._found]


def _together(begun: Iterable[Beginning]) -> list[list[Beginning]]:
    """Beginnings in groups: those of one client at the same time, and for the same reason."""
    together: list[list[Beginning]] = []
    last: dict[tuple[Reader, str], list[Beginning]] = {}
    for beginning in begun:
        some = last.get((beginning.reader, beginning.how))
        if some is None or beginning.ts_ms - some[0].ts_ms > _ONE_START_MS:
            some = last[beginning.reader, beginning.how] = []
            together.append(some)
        some.append(beginning)
    return together


def _began(name: str, some: list[Beginning]) -> str:
    """Sentence about a member that begins at the log's end, and about the records before."""
    some = sorted(some, key=lambda beginning: beginning.log)
    where = shortened(f"{beginning.log} from {beginning.to_offset}" for beginning in some)
    words = (
        f"{name} begins to read {where} on: the group had no committed offset there, and the log ended there"
        " (auto.offset.reset=latest, or a seek to the end)"
    )
    most = count(sum(beginning.to_offset - beginning.from_offset for beginning in some), "record")
    if some[0].how == "first":
        was = "is" if most == "1 record" else "are"
        there = "partition was" if len(some) == 1 else "partitions were"
        return f"{words}; up to {most} before that {was} not read: the {there} there before the group read the topic"
    lost = shortened(
        f"offsets {beginning.from_offset} to {beginning.to_offset - 1} of {beginning.log}" for beginning in some
    )
    why = "the group had read up to these offsets before"
    if some[0].how == "grown":
        why = (
            f"the topic got {'this partition' if len(some) == 1 else 'these partitions'} while the group was reading it"
        )
    return f"{words}: {lost}, up to {most}, were delivered to no member; {why}"


def _skipped(name: str, skip: _Skip) -> str:
    first, last, position = skip.from_offset, skip.to_offset - 1, skip.position
    most = skip.to_offset - first
    lost = f"offset {first} was" if most == 1 else f"offsets {first} to {last}, up to {most} records, were"
    began = f"the group's committed offset {first}" if skip.committed else f"{first}, where it had read up to"
    words = f"{name} reads {skip.log} from {skip.to_offset} on, not from {began}: {lost} not delivered to it"
    if skip.lookup:
        words += f"; its last OffsetFetch before got {skip.lookup}"
    if position.error:
        words += f"; its Fetch at {first} got {position.error}"
        if position.log_start is not None and position.log_start > first:
            words += f", as the log start offset was {position.log_start}"
    if skip.to_offset == position.log_start:
        words += "; it continued at the log start offset, as with auto.offset.reset=earliest"
    elif skip.to_offset == position.end:
        words += "; it continued at the log end offset, as with auto.offset.reset=latest"
    return words


def _start_offsets(call: Call) -> str:
    """Sentence about a client's change, or deletion, of a share group's start offsets."""
    topics = [topic for topic in items(call.body, "topics") if isinstance(topic, Mapping)]
    if call.api == "DeleteShareGroupOffsets":
        names = shortened(text(topic, "topic_name") or "?" for topic in topics)
        then = "a group that reads there begins by its share.auto.offset.reset"
        return f"start offsets were deleted by {_who(call)} ({call.api}): {names}; {then}"
    moves = shortened(
        f"{text(topic, 'topic_name')}-{number(partition, 'partition_index')} {number(partition, 'start_offset')}"
        for topic in topics
        for partition in items(topic, "partitions")
        if isinstance(partition, Mapping)
    )
    return f"start offsets were set by {_who(call)} ({call.api}): {moves}"


def _known(new: int | None, old: int | None) -> int | None:
    return old if new is None or new < 0 else new


def _who(call: Call) -> str:
    return caller(call.client_id, call.client_host)


def _moves(moves: Mapping[str, tuple[int | None, int]]) -> str:
    return shortened(f"{log} {new if old is None else f'{old} → {new}'}" for log, (old, new) in sorted(moves.items()))
