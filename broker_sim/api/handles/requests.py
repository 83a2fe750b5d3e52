"""The requests that the brokers received: to read, to count, to wait for.

    commits = kafka.requests("OffsetCommit", client_id="app-1")
    await commits.wait(2)
    assert [commit.error for commit in commits] == [Err.NONE, Err.NONE]

They are the journal's: those since recording began (`Cluster.observe`), as many as it keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from broker_sim.api.wait import TIMEOUT, until
from broker_sim.faults.selectors import Asked, Selector
from broker_sim.fields.kinds import Count
from broker_sim.journal import Seen, request_text
from broker_sim.requests.facts import RequestFacts, carried_by
from kafka_wire.api_keys import API_NAMES

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.journal import Event

__all__ = ["RequestHistory"]

_COUNT = Count(0)
_NEAR_MISSES = 5
_NAMES = ("groups", "group_ids", "groups_names")
"""Fields of requests that name several groups: with texts, or rows with a ``group_id``."""


class RequestHistory:
    """The received requests of ``cluster`` that fit a selector, the oldest first; looked up anew at each use."""

    def __init__(self, cluster: Cluster, selector: Selector) -> None:
        self._journal, self.selector = cluster.observe(), selector

    def all(self) -> list[Seen]:
        """A `Seen` for each: the fields of the journal's event ``request``. An answered one also has ``answer`` (the body of the
        response), ``error``, ``errors``, ``took_ms`` and ``action``."""
        return list(self)

    def __iter__(self) -> Iterator[Seen]:
        events = list(self._journal.events)
        responses = {event["request"]: event for event in events if event["event"] == "response"}
        for event in events:
            if event["event"] == "request" and self.selector.matches(_asked(event)):
                yield _seen(event, responses.get(event["request"]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return any(True for _ in self)

    async def wait(self, count: int = 1, *, answered: bool = False, timeout: object = TIMEOUT) -> Self:
        """Wait until there are so many, those before this call included; ``answered``: with a response. Raises WaitTimeout after
        ``timeout`` of real time, with what was received instead. Returns the handle."""
        wanted = _COUNT.read(count, "count")

        def there() -> int:
            return sum(1 for one in self if not answered or "answer" in one)

        def now() -> str:
            return "; ".join([f"{there()} so far", *self._others()])

        what = f"{wanted} {'answered ' * answered}request{'s'[: wanted - 1]}: {self.selector.text()}"
        await until(lambda: there() >= wanted, self._journal, timeout, what, now=now, group=self._group())
        return self

    def _group(self) -> str | None:
        """The group whose history an error of a wait has."""
        group = self.selector.group
        return None if group is None or "*" in group else group

    def _others(self) -> list[str]:
        """Requests that were received instead: those of the same APIs and why they don't fit, or else the number of each API."""
        received = [event for event in self._journal.events if event["event"] == "request"]
        apis = self.selector.apis
        same = [event for event in received if apis is not None and API_NAMES[event["api"]] in apis]
        misfits = [(event, self.selector.misfit(_asked(event))) for event in same[-_NEAR_MISSES:]]
        if misfits:
            return [f"{request_text(event)}: {why}" for event, why in misfits if why is not None]
        came = Counter(event["api"] for event in received)
        return [
            f"requests that arrived: {', '.join(f'{api} {number}' for api, number in came.most_common(8)) or 'none'}"
        ]

    def __repr__(self) -> str:
        return f"<requests {self.selector.text()}>"


def _seen(request: Event, response: Event | None) -> Seen:
    if response is None:
        return Seen(request)
    more: dict[str, Any] = {name: response[name] for name in ("error", "took_ms", "action") if name in response}
    return Seen({**request, "answer": response["body"], **more})


def _asked(event: Event) -> Asked:
    """The request of an event as selectors see it."""
    key = API_NAMES[event["api"]]
    body: Mapping[str, Any] = event.get("body") or {}
    groups = [event.get("group"), *(_first(row, "group_id") for name in _NAMES for row in _rows(body, name))]
    members = [event.get("member"), body.get("member_id"), body.get("group_instance_id")]
    for row in _rows(body, "members"):
        members += [_first(row, "member_id"), _first(row, "group_instance_id")]
    by_partition = "partition" in carried_by(key)
    topics = []
    for name in event.get("topics", ()):
        topic, dash, index = name.rpartition("-")
        whole = not (by_partition and dash and index.isdecimal())
        topics.append((name, -1) if whole else (topic, int(index)))
    transactional_id = event.get("transactional_id")
    facts = RequestFacts(
        groups=tuple(dict.fromkeys(group for group in groups if isinstance(group, str))),
        members=tuple(dict.fromkeys(member for member in members if member and isinstance(member, str))),
        topics=tuple(topics),
        every_topic=event["api"] == "Metadata" and "topics" in body and body["topics"] is None,
        transactional_ids=() if transactional_id is None else (transactional_id,),
    )
    return Asked(key, event["version"], event["client_id"], event["broker"], facts)


def _rows(body: Mapping[str, Any], name: str) -> list[Any]:
    rows = body.get(name)
    return rows if isinstance(rows, list) else []


def _first(row: object, name: str) -> object:
    """The field ``name`` of a row, or the row itself if it is a text."""
    return row.get(name) if isinstance(row, Mapping) else row
