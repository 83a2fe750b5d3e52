"""Questionable records, from a journal: records that clients got by Fetches, commits, and the ends of processes between them.

    for line in in_question(events, EPOCH_MS, value_of):
        print(line)

Three kinds of records are listed, the most suspicious first:

* **committed, perhaps not done**: a process committed records and ended soon after. They are not delivered again, so records that
  it had not processed are lost. Commits before the processing cause that.
* **passed by**: committed by the group, though no Fetch has given them to anybody.
* **delivered twice**: to two processes, as the first had not committed them. At least once allows it; programs must bear it.

What an application does with a record no broker can see: these are the records to look at, not a verdict. A Fetch gives its client what
it asked for and as many as the answer has; a client may have read ahead of its application.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["in_question"]

Event = Mapping[str, Any]
_ENDED = re.compile(r"(crash|restart) (\S+)")
_UNDONE = "committed by a process that ended soon after, and delivered to no process since; lost unless it had processed them:"
_SHOWN = 4
"""Stretches of each kind."""
_SOON_S = 30.0
"""A process that ends later than so long after its last commit has done what it committed."""


@dataclass(slots=True)
class _Taken:
    """Records from ``start`` up to ``end`` of a partition, given to the process number ``life`` of a host."""

    at_s: float
    host: str
    life: int
    start: int
    end: int


@dataclass(slots=True)
class _Committed:
    at_s: float
    group: str
    host: str
    life: int
    offset: int


@dataclass(slots=True)
class _Book:
    """Deliveries and commits in the journal, by partition. ``ended``: (when, host, life) of processes."""

    taken: dict[str, list[_Taken]] = field(default_factory=dict)
    committed: dict[str, list[_Committed]] = field(default_factory=dict)
    ended: list[tuple[float, str, int]] = field(default_factory=list)


def in_question(
    events: Iterable[Event], begun_ms: int, value_of: Callable[[str, int], str] = lambda log, offset: ""
) -> list[str]:
    """Lines about suspicious records, an empty list without any. ``begun_ms``: the wall clock time of the run's start, ms since 1970;
    ``value_of``: returns the value at an offset of a log, shortened."""
    book = _read(events, begun_ms)
    lines: list[str] = []
    for title, texts in (
        (
            _UNDONE,
            _undone(book, value_of),
        ),
        ("committed, but delivered to no consumer:", _passed_by(book, value_of)),
        ("delivered to two processes:", _twice(book, value_of)),
    ):
        if texts:
            lines += [title, *(f"  {line}" for line in texts[:_SHOWN])]
            if len(texts) > _SHOWN:
                lines.append(f"  and {len(texts) - _SHOWN} more")
    return lines


# --- reading --------------------------------------------------------------------------------------------------------------


def _read(events: Iterable[Event], begun_ms: int) -> _Book:
    book, asked = _Book(), {}
    hosts: dict[int, str] = {}
    lives: dict[str, int] = {}
    for event in events:
        kind = event["event"]
        at_s = (event["ts_ms"] - begun_ms) / 1000
        if kind == "connection":
            hosts[event["connection"]] = event.get("host") or event["peer"]
        elif kind == "request" and event["api"] in ("Fetch", "OffsetCommit"):
            asked[event["request"]] = event
        elif kind == "response" and event["api"] == "Fetch":
            request = asked.pop(event["request"], None)
            if request is not None and event["body"] is not None:
                host = hosts.get(request["connection"], str(request["client_id"]))
                _note_given(book, at_s, host, lives.get(host, 1), request, event["body"])
        elif kind == "offsets":
            request = asked.get(event.get("request", -1))
            host = "" if request is None else hosts.get(request["connection"], str(request["client_id"]))
            for log, offset in event["offsets"].items():
                if isinstance(offset, int):
                    commit = _Committed(at_s, event["group"], host, lives.get(host, 1), offset)
                    book.committed.setdefault(log, []).append(commit)
        elif kind == "mark":
            ended = _ENDED.match(event["text"])
            if ended is not None and (ended[1] == "crash"):
                book.ended.append((at_s, ended[2], lives.get(ended[2], 1)))
            if ended is not None and ended[1] == "restart":
                lives[ended[2]] = lives.get(ended[2], 1) + 1
    return book


def _note_given(book: _Book, at_s: float, host: str, life: int, request: Event, body: Event) -> None:
    starts = {
        (topic.get("topic") or topic.get("topic_id"), partition["partition"]): partition["fetch_offset"]
        for topic in (request.get("body") or {}).get("topics", ())
        for partition in topic["partitions"]
    }
    names = list(dict.fromkeys(name.rpartition("-")[0] for name in request.get("topics", ())))
    for number, topic in enumerate(body.get("responses", ())):
        key = topic.get("topic") or topic.get("topic_id")
        name = topic.get("topic") or (names[number] if number < len(names) else str(key))
        for row in topic["partitions"]:
            count = (row.get("records") or {}).get("records", 0)
            start = starts.get((key, row["partition_index"]))
            if count and start is not None:
                end = min(start + count, max(row["high_watermark"], start + 1))
                log = f"{name}-{row['partition_index']}"
                book.taken.setdefault(log, []).append(_Taken(at_s, host, life, start, end))


# --- what is in question ----------------------------------------------------------------------------------------------------


def _undone(book: _Book, value_of: Callable[[str, int], str]) -> list[str]:
    losses = []
    for ended_s, host, life in book.ended:
        for log, commits in book.committed.items():
            mine = [
                commit for commit in commits if (commit.host, commit.life) == (host, life) and commit.at_s <= ended_s
            ]
            if not mine or ended_s - mine[-1].at_s > _SOON_S:
                continue
            last = mine[-1]
            given = [delivery for delivery in book.taken.get(log, ()) if (delivery.host, delivery.life) == (host, life)]
            earlier = max(
                (commit.offset for commit in commits if commit.at_s < last.at_s and commit.offset < last.offset),
                default=0,
            )
            start = max(earlier, min((delivery.start for delivery in given), default=last.offset))
            others = [
                delivery
                for delivery in book.taken.get(log, ())
                if (delivery.host, delivery.life) != (host, life) and delivery.at_s > last.at_s
            ]
            again = min((delivery.start for delivery in others if delivery.end > start), default=last.offset)
            end = min(last.offset, max(again, start))
            if start < end:
                given_s = max((delivery.at_s for delivery in given if delivery.start < end), default=last.at_s)
                text = (
                    f"{_stretch(log, start, end, value_of)}: delivered to {host} at {given_s:.3f} s, committed ({last.offset}) at "
                    f"{last.at_s:.3f} s, its process ended at {ended_s:.3f} s"
                )
                losses.append((ended_s - last.at_s, text))
    return [text for _, text in sorted(losses, key=lambda loss: loss[0])]


def _passed_by(book: _Book, value_of: Callable[[str, int], str]) -> list[str]:
    texts = []
    for log, commits in book.committed.items():
        if log not in book.taken:
            continue
        given = sorted((delivery.start, delivery.end) for delivery in book.taken[log])
        end = given[0][0]
        for delivered in given:
            if delivered[0] > end and any(commit.offset >= delivered[0] for commit in commits):
                commit = next(candidate for candidate in commits if candidate.offset >= delivered[0])
                who = commit.host or "another client"
                texts.append(
                    f"{_stretch(log, end, delivered[0], value_of)}: committed ({commit.offset}) by {who} at {commit.at_s:.3f} s"
                )
            end = max(end, delivered[1])
    return texts


def _twice(book: _Book, value_of: Callable[[str, int], str]) -> list[str]:
    texts = []
    for log, given in book.taken.items():
        for at, later in enumerate(given):
            for earlier in reversed(given[:at]):
                start, end = max(earlier.start, later.start), min(earlier.end, later.end)
                if (earlier.host, earlier.life) == (later.host, later.life) or start >= end:
                    continue
                said = [
                    commit.offset
                    for commit in book.committed.get(log, ())
                    if (commit.host, commit.life) == (earlier.host, earlier.life) and commit.at_s <= later.at_s
                ]
                last_commit = f"whose last commit was {said[-1]}" if said else "which committed nothing"
                texts.append(
                    f"{_stretch(log, start, end, value_of)}: {_who(earlier)} at {earlier.at_s:.3f} s, {last_commit}, "
                    f"and {_who(later)} at {later.at_s:.3f} s"
                )
                break
    return list(dict.fromkeys(texts))


def _who(delivery: _Taken) -> str:
    return delivery.host if delivery.life == 1 else f"{delivery.host} (process {delivery.life})"


def _stretch(log: str, start: int, end: int, value_of: Callable[[str, int], str]) -> str:
    value = value_of(log, start)
    shown = f" ({value}{' ...' if end - start > 1 else ''})" if value else ""
    return f"{log} [{start}]{shown}" if end - start == 1 else f"{log} [{start} to {end - 1}]{shown}"
