"""Operations on the journal: read it, follow it, write a note."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.control.shapes import EVENT
from broker_sim.control.table import OPERATIONS, TIMEOUT, operation
from broker_sim.fields.field import Field
from broker_sim.fields.kafka import ApiName, ErrorCode
from broker_sim.fields.kinds import Choice, Count, Flag, Text
from broker_sim.journal import EVENTS, groups_in, request_text
from broker_sim.journal.files import plain

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.journal import Event, Journal

MAX_BEHIND = 100_000
"""Events that a reader may be behind before it is given up."""
_CHUNK = 500
"""Events that are written at once, before the brokers get their turn."""


def _event_names() -> Iterable[str]:
    return EVENTS


@operation(
    "journal.read",
    "GET /journal",
    Field("since", Count(0), "only events after this sequence number", default=0),
    Field("limit", Count(1, 1_000_000), "maximum number of events; the latest are returned"),
    Field("event", Choice(_event_names), "only this kind of event", example="request"),
    Field(
        "api",
        ApiName(),
        "only events of requests of this API; * matches anything",
        example="OffsetCommit",
    ),
    Field("group", Text(), "only events of this group; * matches anything", example="billing"),
    Field("request", Count(1), "only events of this request"),
    Field("follow", Flag(), "continue with new events until the client disconnects"),
    answer={"events": [EVENT]},
)
async def read_journal(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List events, oldest first; over HTTP one JSON object per line."""
    if given.get("follow"):
        raise UsageError("follow: available over HTTP only")
    wanted = JournalQuery(given)
    return {"events": [json.loads(_line(event)) for event in wanted.of(cluster.observe().events)]}


def _examine_next(given: dict[str, Any]) -> None:
    names = ("event", "api", "group", "error")
    if not any(name in given for name in names):
        raise UsageError(f"no condition to wait for; expected one of {', '.join(names)}")
    kind = given.get("event", "response")
    if "api" in given and kind not in ("request", "response"):
        raise UsageError("api: an API's request or response; other events have none")
    if "error" in given and kind not in ("response", "append", "load"):
        raise UsageError(f"error: an event {kind!r} has none; a response has, an append, a load")


@operation(
    "journal.next",
    "GET /journal/next",
    Field(
        "event",
        Choice(_event_names),
        "this kind of event (default: response)",
        example="response",
    ),
    Field("api", ApiName(pattern=False), "a request of this API, or its response", example="OffsetCommit"),
    Field("group", Text(), "it is about this group", example="billing"),
    Field("error", ErrorCode(none=True), "the response has this error; NONE: success", example="NOT_COORDINATOR"),
    Field("since", Count(0), "only events after this sequence number (default: all)", default=0),
    TIMEOUT,
    answer=EVENT,
    waits=True,
    examine=_examine_next,
)
async def next_of_journal(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait for the first matching event and return it; the event of an answered request contains the response."""
    outcome: dict[str, Any] = {"error": given["error"].name} if "error" in given else {}
    if outcome == {"error": "NONE"}:  # a dropped response has no error, and is none
        outcome = {"error": None} if given.get("event", "response") != "response" else {"error": None, "action": None}
    event = await cluster.observe().next(
        given.get("api"),
        event=given.get("event", "response"),
        group=given.get("group"),
        since=given["since"],
        timeout=given["timeout"],
        **outcome,
    )
    return json.loads(_line(event))


def recent_histories(journal: Journal, since: int = 0) -> str:
    """The recent history of each group, the clients that could not be served, and the unanswered requests: for the report of a failed
    test. ``since``: only of what came after the event with this number."""
    from broker_sim.explain import recent
    from broker_sim.explain.parts import events_after
    from broker_sim.explain.refused_clients import refused_lines

    events = events_after(journal.events, since)
    lines = [recent(events, group) for group in groups_in(journal.since(since))]
    lines += [line for line in refused_lines(events) if not any(line in of_group for of_group in lines)]
    waiting = [
        request_text(request)
        for request in journal.open_requests.values()
        if request["api"] != "Fetch" and request["seq"] > since
    ]
    return "\n".join([*lines, f"unanswered: {', '.join(waiting)}"] if waiting else lines)


@operation("journal.recent", "GET /journal/recent", answer={"text": "string"})
async def describe_journal(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Describe the recent history of every group, refused clients and unanswered requests: for a failed test's report."""
    return {"text": recent_histories(cluster.observe())}


@operation(
    "journal.mark",
    "POST /journal/marks",
    Field("text", Text(), "the note", required=True, example="deploy began"),
    answer=EVENT,
)
async def mark_journal(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Write a note into the journal; timelines show it."""
    return dict(cluster.observe().write("mark", text=given["text"]))


class JournalQuery:
    """Filter of events for a client. Call ``takes(event)`` with every event in order: responses are found by their requests."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.since: int = given.get("since", 0)
        self.limit: int | None = given.get("limit")
        self._event, self._request = given.get("event"), given.get("request")
        self._group: str | None = given.get("group")
        api = given.get("api")
        self._api = None if api is None else api.lower().replace("_", "")
        self._requests: dict[int, Event] = {}  # those whose answer is to come

    def takes(self, event: Event) -> bool:
        kind, number = event["event"], event.get("request")
        asked = event
        if number is not None:
            if kind == "request":
                self._requests[number] = event
            else:
                asked = self._requests.get(number, event)
                if kind == "response":
                    self._requests.pop(number, None)
        if self._event is not None and kind != self._event:
            return False
        if self._request is not None and self._request != number and self._request not in event.get("requests", ()):
            return False
        if self._api is not None and not _fits(self._api, str(asked.get("api", event.get("api", ""))).lower()):
            return False
        return self._group is None or any(_fits(self._group, name) for name in {*_groups(event), *_groups(asked)})

    def of(self, events: Iterable[Event]) -> list[Event]:
        """The past events that match, newer than ``since``: all, or the last ``limit`` of them."""
        matches = [event for event in events if self.takes(event) and event["seq"] > self.since]
        return matches if self.limit is None else matches[-self.limit :]


def _groups(event: Event) -> list[str]:
    group = event.get("group")
    return [*([group] if group is not None else []), *event.get("groups", ())]


def _fits(glob: str, value: str) -> bool:
    from broker_sim.faults.selectors import fits  # imported at the first search

    return fits(glob, value)


def _line(event: Mapping[str, Any]) -> str:
    return json.dumps(event, default=plain, separators=(",", ":"))


def lines(cluster: Cluster, given: Mapping[str, Any], until: asyncio.Event) -> AsyncGenerator[bytes, None]:
    """The journal as lines of JSON, several at a time; with ``follow`` without end but ``until``. ``given``: as for journal.read.

    A reader that is too slow gets an ``error`` line, and the end. Raises UsageError at once.
    """
    checked = OPERATIONS["journal.read"].checked(given)
    return _lines(cluster, JournalQuery(checked), bool(checked.get("follow")), until)


async def _lines(
    cluster: Cluster, wanted: JournalQuery, follow: bool, until: asyncio.Event
) -> AsyncGenerator[bytes, None]:
    waiting: deque[Event] = deque(wanted.of(cluster.observe().events))
    news = asyncio.Event()

    def listen(event: Event) -> None:
        if wanted.takes(event) and len(waiting) <= MAX_BEHIND:
            waiting.append(event)
            news.set()

    with contextlib.ExitStack() as stack:
        if follow:
            stack.callback(cluster.observe().subscribe(listen))
            yield b""  # the client knows that it gets every event from now on
        stopped = asyncio.ensure_future(until.wait())
        stack.callback(stopped.cancel)
        while True:
            while waiting:
                if len(waiting) > MAX_BEHIND and follow:
                    lost = {
                        "error": f"more than {MAX_BEHIND} events behind",
                        "kind": "TooSlow",
                        "seq": waiting[0]["seq"],
                    }
                    yield _line(lost).encode() + b"\n"
                    return
                chunk = [waiting.popleft() for _ in range(min(len(waiting), _CHUNK))]
                yield "".join(f"{_line(event)}\n" for event in chunk).encode()
            if not follow or until.is_set():
                return
            news.clear()
            happened = asyncio.ensure_future(news.wait())
            try:
                await asyncio.wait({happened, stopped}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                happened.cancel()
