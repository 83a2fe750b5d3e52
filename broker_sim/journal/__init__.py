"""The journal: everything that happened to a cluster's requests, groups and logs, in order, as flat JSON objects.

    journal = kafka.observe()
    answer = journal.next("OffsetCommit", group="billing", answered=True)   # listens from here on
    (await answer).error                                                    # Err.REQUEST_TIMED_OUT

Rules:
1. ``EVENTS`` (vocabulary.py) has every kind of event and every field of it. docs/journal.md is drawn from it, and the test suite fails
   on a field that isn't there. ``seq`` counts from 1 without a gap; ``ts_ms`` is the broker's clock.
2. What is written is never changed afterwards. The last ``keep`` events stay in memory, all go to the files.
3. Writing never hurts the broker: no file, a full disk, a listener that raises cost one line in the log and nothing else.
4. A file is called ``journal-000001.ndjson.part`` while it grows and loses ``.part`` when it is whole. Every line is written at once,
   so who follows a file sees whole lines; only a killed process can leave a torn last one, which ``read`` passes over.
5. A journal belongs to the event loop of its cluster.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_sim.common.answers import errors_of, named_topics, rows
from broker_sim.common.text import UsageError, duration_ms, duration_text, unknown
from broker_sim.journal.files import JournalError, JournalFiles, plain, read
from broker_sim.journal.vocabulary import (
    ALWAYS,
    DESCRIPTIONS,
    EVENTS,
    PARTS,
    Event,
    problems,
)
from kafka_wire.api_keys import API_NAMES
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.common.clock import Clock

__all__ = [
    "ALWAYS",
    "DESCRIPTIONS",
    "EVENTS",
    "PARTS",
    "Event",
    "Journal",
    "JournalError",
    "Seen",
    "WaitTimeout",
    "about",
    "api_name",
    "problems",
    "read",
    "request_text",
]

log = logging.getLogger("broker_sim.journal")

Listener = Callable[[Event], object]

# --- what is read out of it ------------------------------------------------------------------------------------------


class Seen(dict[str, Any]):
    """An event of the journal with its fields as attributes: ``seen.api``, ``seen.group``.

    ``error`` is an `Err`: the first one of the response, that of the append or the load, NONE without an error; ``errors`` has each
    partition's own. An answered request has the request's fields, and ``answer`` (the response's body), ``took_ms``, ``action``.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the event {self.get('event')!r} has no {name!r}; it has {', '.join(self)}") from None

    @property
    def error(self) -> Err:
        """The first error, or NONE. Other partitions of the request may have other results: see `errors`."""
        name = self.get("error")
        return Err.NONE if name is None else Err[name]

    @property
    def errors(self) -> dict[str, Err]:
        """The error of each partition (``orders-0``), topic, member or group; {} for a response with a single error."""
        names = named_topics(self.get("body") or {}, self.get("topics") or ())
        return {row.what: Err[row.error or "NONE"] for row in rows(self.get("answer") or {}, names, self.get("group"))}

    @property
    def ok(self) -> bool:
        """Whether there was no error, and a response was sent completely."""
        return self.get("error") is None and not ("answer" in self and "action" in self)


PROBE = "__commit_probe"
"""The prefix of the groups of `GroupHandle.commit_probe`, which no client uses and no list of groups contains."""

INSIDE = "broker-sim"
"""The client id of requests that no client sent: aborts, commits and heartbeats from the test, the command line or HTTP."""


def groups_in(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """The groups that events speak of, in the order in which they appear; without those of probes."""
    names = dict.fromkeys(str(event["group"]) for event in events if event.get("group"))
    return [name for name in names if not name.startswith(PROBE)]


class WaitTimeout(AssertionError):
    """A wait timed out. ``what``: its condition; ``now``: the present state; ``history``: the recent events."""

    def __init__(self, what: str, timeout_ms: int, now: str = "", history: str = "") -> None:
        lines = [f"{what}: not within {duration_text(timeout_ms)}"]
        if now:
            lines.append(f"now: {now}")
        if history:
            lines.append(history)
        super().__init__("\n".join(lines))
        self.what, self.timeout_ms, self.now, self.history = what, timeout_ms, now, history


# --- the journal -----------------------------------------------------------------------------------------------------


class Journal:
    """The events of a cluster. ``keep``: number of events in memory. ``directory``: directory of its files (created if missing), each
    of about ``file_bytes``; ``files``: number of complete files that are kept, the newest ones (None: all). Raises UsageError for an
    unusable directory."""

    def __init__(
        self,
        clock: Clock,
        directory: str | os.PathLike[str] | None = None,
        keep: int = 100_000,
        file_bytes: int = 16 << 20,
        files: int | None = None,
    ) -> None:
        self.events: deque[Event] = deque(maxlen=keep)
        """The last ones, the oldest first. Not to be changed."""
        self.seq = 0
        """The number of the last event."""
        self.open_requests: dict[int, Event] = {}
        """The requests that have no response yet, by number, the oldest first."""
        self.described_since = 0
        """Number of the event after which `describe` begins: for one of several tests that share a cluster, its own events."""
        self.generations: dict[str, set[int]] = {}
        """The generations of each group that were seen."""
        self.describe: Callable[[str | None], str] = self.last_events
        """``describe(group)``: describes the last events, for the text of a WaitTimeout; may be replaced by a better description."""
        self.failed: Callable[[Exception], object] | None = None
        """Called with the exception of a listener; None: it is logged."""
        self._now_ms = clock.now_ms
        self._listeners: dict[int, Listener] = {}
        self._numbers = 0
        self._files = None if directory is None else JournalFiles(Path(directory), file_bytes, files)

    # writing

    def write(self, event: str, **fields: Any) -> Event:
        """Add an event of the kind ``event``; returns it."""
        self.seq += 1
        record: Event = {"seq": self.seq, "ts_ms": self._now_ms(), "event": event, **fields}
        self.events.append(record)
        note = _NOTES.get(event)
        if note is not None:
            note(self, record)
        if self._files is not None and not self._files.write(record):
            self._files = None
        if self._listeners:
            self._call(record)
        if event == "response":
            self.open_requests.pop(record.get("request", 0), None)  # listeners have been shown both
        return record

    def _call(self, record: Event) -> None:
        for number, listener in list(self._listeners.items()):
            try:
                listener(record)
            except Exception as error:
                self._listeners.pop(number, None)
                if self.failed is None:
                    log.exception("a listener of the journal failed and was removed")
                else:
                    self.failed(error)

    def _note_request(self, record: Event) -> None:
        self.open_requests[record.get("request", 0)] = record

    def _note_generation(self, record: Event) -> None:
        seen = self.generations.setdefault(record["group"], set())
        seen.update(
            snapshot["generation"]
            for snapshot in (record["before"], record["after"])
            if snapshot and snapshot["generation"] > 0
        )

    def go_on(self, clock: Clock) -> None:
        """Use the clock of restarted brokers for later events."""
        self._now_ms = clock.now_ms

    def close(self) -> None:
        """Finish the file; later events stay in memory."""
        files, self._files = self._files, None
        if files is not None:
            files.close()

    # listening and reading

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener(event)`` for every event from now on, from inside ``write``: it may look and note, and not act on the broker.
        Returns what ends it."""
        self._numbers += 1
        number = self._numbers
        self._listeners[number] = listener

        def unsubscribe() -> None:
            self._listeners.pop(number, None)

        return unsubscribe

    def since(self, seq: int) -> list[Event]:
        """The events after number ``seq`` that are still in memory, the oldest first."""
        last = list(islice(reversed(self.events), max(0, self.seq - seq)))
        last.reverse()
        return last

    def request(self, number: int) -> Event | None:
        """The request event with that number, or None if it is no longer in memory."""
        opened = self.open_requests.get(number)
        if opened is None:
            wanted = (e for e in reversed(self.events) if e["event"] == "request" and e["request"] == number)
            opened = next(wanted, None)
        return opened

    def next(
        self,
        api: str | None = None,
        *,
        event: str | None = None,
        group: str | None = None,
        answered: bool = False,
        since: int | None = None,
        timeout: object = "10s",
        **fields: object,
    ) -> Coroutine[Any, Any, Seen]:
        """The next event that fits, counted from this call, not from its ``await``; with ``since``, from behind that number.

        ``api``: a request of that API, with ``answered`` its response. ``event``: another kind of event. ``group``: it is about that
        group. ``fields``: other fields with these values. Raises WaitTimeout after ``timeout`` of real time, and UsageError for names
        that aren't.
        """
        wanted = _Wanted(self, api, event, group, answered, fields)
        timeout_ms = duration_ms(timeout, "timeout")
        return self._next(wanted, self.seq if since is None else since, timeout_ms)

    async def _next(self, wanted: _Wanted, since: int, timeout_ms: int) -> Seen:
        past = self.since(since)
        requests = {record["request"]: record for record in past if record["event"] == "request"}
        for record in past:
            matched = wanted.in_(record, requests)
            if matched is not None:
                return matched
        done: asyncio.Future[Seen] = asyncio.get_running_loop().create_future()

        def look(record: Event) -> None:
            if not done.done():
                match = wanted.in_(record)
                if match is not None:
                    done.set_result(match)

        unsubscribe = self.subscribe(look)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await done
        except TimeoutError:
            raise WaitTimeout(str(wanted), timeout_ms, wanted.now(), self.describe(wanted.group)) from None
        finally:
            unsubscribe()

    def last_events(self, group: str | None = None) -> str:
        """The last few events (of a group), a line each; "" without any."""
        events = [e for e in self.since(self.described_since) if group is None or about(e, group)]
        return "\n".join(["last in the journal:", *(f"  {_line(e)}" for e in events[-12:])]) if events else ""


_NOTES: dict[str, Callable[[Journal, Event], None]] = {
    "request": Journal._note_request,
    "group": Journal._note_generation,
}
"""Functions by which the journal itself notes an event."""


def about(event: Event, group: str) -> bool:
    """Whether an event speaks of a group."""
    if event.get("group") == group:
        return True
    groups = event.get("groups", ())
    return not isinstance(groups, int) and group in groups  # of `load` it is the number of groups


def _line(event: Event) -> str:
    """One event as a line for readers, cut at a screen's width."""
    rest = {name: value for name, value in event.items() if name not in ALWAYS}
    text = json.dumps(rest, default=plain, ensure_ascii=False)
    return f"{event['seq']:6} {event['event']:<10} {text if len(text) <= 160 else text[:157] + '...'}"


class _Wanted:
    """The event type and field values that `Journal.next` waits for, validated."""

    def __init__(
        self,
        journal: Journal,
        api: str | None,
        event: str | None,
        group: str | None,
        answered: bool,
        fields: Mapping[str, object],
    ) -> None:
        if event is not None and event not in EVENTS:
            raise unknown("event", event, EVENTS)
        if answered and event not in (None, "response"):
            raise UsageError(f"answered=True looks for a response, not for {event!r}")
        self.event = event or ("response" if answered else "request" if api is not None else None)
        self.journal, self.group, self.fields = journal, group, fields
        self.api = None if api is None else api_name(api)
        kinds = EVENTS if self.event is None else {self.event: {**EVENTS["request"], **EVENTS[self.event]}}
        names = {name.rstrip("?") for kind in kinds.values() for name in kind} | set(ALWAYS)
        for name in fields:
            if name not in names:
                raise unknown("field", name, sorted(names))

    def in_(self, record: Event, requests: Mapping[int, Event] | None = None) -> Seen | None:
        """The event as it is given to the user, None where it is another one. ``requests``: those that are at hand, by number."""
        if self.event is not None and record["event"] != self.event:
            return None
        if self.api is not None and record.get("api") != self.api:
            return None
        if record["event"] == "response":
            number = record["request"]
            request = (requests or {}).get(number) or self.journal.request(number) or {}
            record = {**request, **record, "body": request.get("body"), "answer": record["body"]}
        if self.group is not None and not about(record, self.group):
            return None
        if any(not self._fits(record, name, value) for name, value in self.fields.items()):
            return None
        return Seen(record)

    def _fits(self, record: Event, name: str, value: object) -> bool:
        """Whether a field has that value; of an answer any of its errors may be the one that is looked for."""
        if name == "error" and record["event"] == "response" and record.get(name) is not None:
            return value in errors_of({**record, "body": record["answer"]})
        return bool(record.get(name) == value)

    def now(self) -> str:
        """The requests of that kind that wait for their answer."""
        if self.event != "response":
            return ""
        waiting = [
            request
            for request in self.journal.open_requests.values()
            if self.api in (None, request["api"]) and (self.group is None or about(request, self.group))
        ]
        return f"unanswered: {', '.join(map(request_text, waiting))}" if waiting else "no such request is unanswered"

    def __str__(self) -> str:
        parts = [f"{name}={value!r}" for name, value in self.fields.items()]
        if self.group is not None:
            parts.insert(0, f"group={self.group!r}")
        what = (
            self.api or "request" if self.event in ("request", "response") else f"event {self.event or 'of any kind'}"
        )
        what = f"an answered {what}" if self.event == "response" else f"the next {what}"
        return f"{what} with {', '.join(parts)}" if parts else what


def request_text(request: Event) -> str:
    """A request in a few words: ``request 17, OffsetCommit v9 of 'app' (group 'billing')``."""
    group = f" (group {request['group']!r})" if "group" in request else ""
    return f"request {request['request']}, {request['api']} v{request['version']} of {request['client_id']!r}{group}"


def api_name(name: str) -> str:
    """Kafka's name of an API, in any case. Raises UsageError with the most similar name."""
    api = {known.lower(): known for known in API_NAMES}.get(name.replace("_", "").lower())
    if api is None:
        raise unknown("API", name, API_NAMES)
    return api
