"""Reading a journal's events without trusting them: a journal may begin in the middle, lack fields, or be of a later version.

Rules:
1. Whatever is missing or of another type reads as None or empty, never as an exception.
2. A ``Call`` is a request with its answer. Its member is the id that the coordinator knows: where a JoinGroup came without one, the
   id that its answer brought.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from broker_sim.common.answers import Row, in_words, named_topics, rows
from broker_sim.common.text import visible

__all__ = ["Call", "Event", "GroupSnapshot", "flag", "items", "names_in", "number", "table", "text"]

Event = Mapping[str, Any]

_NOTHING: Mapping[str, Any] = {}


def text(event: Event, key: str) -> str | None:
    """A field that is text and not empty, ``visible``."""
    value = event.get(key)
    return visible(value) if isinstance(value, str) and value else None


def number(event: Event, key: str) -> int | None:
    """A field that is a number, as an int."""
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > 2**62:
        return None
    return int(value)


def flag(event: Event, key: str) -> bool:
    return event.get(key) is True


def table(event: Event, key: str) -> Mapping[str, Any]:
    """A field that is an object."""
    value = event.get(key)
    return value if isinstance(value, Mapping) else _NOTHING


def items(event: Event, key: str) -> list[Any]:
    """A field that is an array."""
    value = event.get(key)
    return value if isinstance(value, list) else list(value) if isinstance(value, tuple) else []


def names_in(event: Event, key: str) -> list[str]:
    """The texts of an array, ``visible``."""
    return [visible(name) for name in items(event, key) if isinstance(name, str)]


@dataclass(slots=True, eq=False)
class Call:
    """A request of a group and what became of it. Times in ms of the broker's clock; ``answered_ms`` None: not answered yet."""

    request: int
    api: str
    ts_ms: int
    member: str = ""
    instance: str | None = None
    group: str | None = None
    client_id: str = ""
    client_host: str = ""
    connection: int | None = None
    generation: int | None = None
    reason: str | None = None
    topics: list[str] = field(default_factory=list)
    answered_ms: int | None = None
    error: str | None = None
    action: str | None = None
    faults: list[str] = field(default_factory=list)
    stored_ms: int | None = None
    stored: set[str] = field(default_factory=set)
    """The partitions whose offsets were published for it."""
    rows: list[Row] = field(default_factory=list)
    """Results of the response for each partition, member or group; empty if it has one result for all, or is not known."""
    why: str = ""
    """Reason of a refusal, as a clause; "" if it is unknown, or if the error is reason enough."""
    creates_topic: bool = False
    """Whether it is the FindCoordinator that creates the internal topic: Kafka answers it COORDINATOR_NOT_AVAILABLE."""
    body: Event = field(default_factory=dict, repr=False)

    @property
    def names(self) -> dict[str, str]:
        """Topic id -> name, where it names topics by id."""
        return named_topics(self.body, self.topics)

    @property
    def offsets(self) -> dict[str, int]:
        """Offsets that an OffsetCommit or TxnOffsetCommit commits: ``orders-0`` -> offset."""
        result: dict[str, int] = {}
        names = self.names
        for topic in items(self.body, "topics"):
            for partition in items(topic, "partitions") if isinstance(topic, Mapping) else ():
                if isinstance(partition, Mapping) and (offset := number(partition, "committed_offset")) is not None:
                    name = text(topic, "name") or names.get(text(topic, "topic_id") or "", "?")
                    result[f"{name}-{number(partition, 'partition_index')}"] = offset
        return result

    @property
    def took_ms(self) -> int | None:
        """From its arrival to its answer."""
        return None if self.answered_ms is None else max(self.answered_ms - self.ts_ms, 0)

    @property
    def failed(self) -> bool:
        return self.error is not None or self.action is not None

    @property
    def is_outsiders(self) -> bool:
        """Whether it is an OffsetCommit of a client that names no member: of a tool, or of a consumer without a group."""
        return self.api == "OffsetCommit" and not self.member and self.generation == -1

    @property
    def in_part(self) -> bool:
        """Whether it was refused for some, and served for others."""
        return self.action is None and len({bool(row.error) for row in self.rows}) > 1

    @property
    def errors(self) -> set[str]:
        """All errors in its answer."""
        return {row.error for row in self.rows if row.error} | ({self.error} if self.error else set())

    @property
    def outcome(self) -> str:
        """The error's name, and for what where it does not stand for all; what was done to the answer; "NONE"; or "unanswered"."""
        if self.error:
            return in_words(self.error, self.rows)
        return self.action or ("NONE" if self.answered_ms is not None else "unanswered")

    def answered(self, event: Event, ts_ms: int) -> None:
        """Take the ``response`` event of it."""
        self.answered_ms = ts_ms
        self.error, self.action = text(event, "error"), text(event, "action")
        if self.error is not None:
            self.rows = rows(table(event, "body"), self.names, self.group)

    @classmethod
    def of(cls, event: Event, ts_ms: int) -> Call:
        """The call that a ``request`` event begins."""
        body = table(event, "body")
        leavers = [leaver for leaver in items(body, "members") if isinstance(leaver, Mapping)]
        leaver: Mapping[str, Any] = leavers[0] if len(leavers) == 1 else _NOTHING
        generation = number(body, "generation_id")
        if generation is None:
            generation = number(body, "generation_id_or_member_epoch")
        return cls(
            request=number(event, "request") or 0,
            api=text(event, "api") or "?",
            ts_ms=ts_ms,
            member=text(event, "member") or text(body, "member_id") or text(leaver, "member_id") or "",
            instance=text(body, "group_instance_id") or text(body, "instance_id") or text(leaver, "group_instance_id"),
            group=text(event, "group"),
            client_id=text(event, "client_id") or "",
            client_host=text(event, "client_host") or "",
            connection=number(event, "connection"),
            generation=generation,
            reason=text(body, "reason") or text(leaver, "reason"),
            topics=names_in(event, "topics"),
            body=body,
        )


@dataclass(slots=True)
class GroupSnapshot:
    """A group as a ``group`` event shows it. ``members``: id -> the event's own object, read with the functions above.

    Of a large group an event shows only the members that changed; ``size`` says how many there are. ``whole``: all are known.
    """

    state: str
    generation: int
    leader: str | None
    protocol: str | None
    members: dict[str, Mapping[str, Any]]
    pending: list[str]
    size: int = 0
    protocol_type: str = ""
    """"consumer", "connect" ..; "" where it isn't known."""

    @classmethod
    def of(cls, value: object) -> GroupSnapshot | None:
        """The group as an event shows it; None if the group did not exist."""
        if not isinstance(value, Mapping):
            return None
        members = {
            name: member
            for member in items(value, "members")
            if isinstance(member, Mapping) and (name := text(member, "member"))
        }
        return cls(
            text(value, "state") or "?",
            number(value, "generation") or 0,
            text(value, "leader"),
            text(value, "protocol"),
            members,
            names_in(value, "pending"),
            max(number(value, "size") or 0, len(members)),
            text(value, "protocol_type") or "",
        )

    @property
    def whole(self) -> bool:
        return len(self.members) >= self.size

    def completed(self, before: GroupSnapshot | None, shown: GroupSnapshot | None) -> None:
        """Add the members that the event did not show: those of ``before``, without the removed ones in ``shown``."""
        if self.whole or before is None:
            return
        removed = set() if shown is None or shown.whole else shown.members.keys() - self.members.keys()
        self.members = {name: member for name, member in before.members.items() if name not in removed} | self.members

    def waiting(self, api: str) -> list[str]:
        """The members with a parked request of this API."""
        return [name for name, member in self.members.items() if member.get("deferred") == api]
