"""Requests about groups as their sender sees them, and the offsets that they commit or remove: what `answers` keeps of each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka_wire.errors import Err

__all__ = ["CommittedOffset", "SentRequest", "partitions_of", "value_of"]

_NEVER = 2**62


def value_of(body: object, name: str, default: object = None) -> Any:
    """A field of a message, or of one that the journal has decoded."""
    return body.get(name, default) if isinstance(body, dict) else getattr(body, name, default)


def partitions_of(body: object) -> Iterator[tuple[tuple[str, int], Any]]:
    """Topic and index of each partition of a message, with what it says of it."""
    for topic in value_of(body, "topics") or ():
        for partition in value_of(topic, "partitions"):
            yield (value_of(topic, "name"), value_of(partition, "partition_index")), partition


@dataclass(slots=True, eq=False)
class CommittedOffset:
    """A commit of ``value``, or its removal (-1)."""

    value: int
    sent: int
    done: float = math.inf
    acked: bool = False
    begun: int = 0
    """As ``sent``, which is put off for ever where it is refused."""

    def refused(self) -> None:
        """Record that the write never happened; a read that seemed to return it returned another one."""
        self.sent, self.done = _NEVER, math.inf


@dataclass(slots=True, eq=False)
class SentRequest:
    """A request. ``sent``, ``got``: counts of requests and responses; ``epoch``: the offsets partition's; ``led``: by ``broker``."""

    api: str
    version: int
    body: Any
    broker: int
    group: str
    member: str
    instance: str | None
    generation: int
    sent: int
    sent_s: float
    epoch: int
    led: bool
    started_s: float
    got: int | None = None
    got_s: float = math.inf
    error: Err | None = None
    writes: list[CommittedOffset] = field(default_factory=list)
    made: int = 0
    """Number of times that the group had been removed when the request was sent."""
    over: bool = False
    """Whether no response is awaited: the connection is lost, or the member has sent another request."""

    def __str__(self) -> str:
        result = "-" if self.error is None else self.error.name
        who = f"{self.member or self.instance or '-'} generation {self.generation}"
        return f"{self.sent_s:9.3f} {self.api} {who} at {self.broker}: {result}"

    def named(self) -> set[str]:
        """The members and instances that it names."""
        named = {self.member, f"instance {self.instance}" if self.instance else ""}
        for member in value_of(self.body, "members") or ():
            instance = value_of(member, "group_instance_id")
            named |= {value_of(member, "member_id"), f"instance {instance}" if instance else ""}
        return named - {""}

    def error_in(self, body: object) -> Err:
        """The error of its response: of the request, else of the first group or partition that has one."""
        code = value_of(body, "error_code", 0)
        if not code and self.api == "DeleteGroups":
            code = next((value_of(result, "error_code") for result in value_of(body, "results") or ()), 0)
        if not code and self.api == "OffsetCommit":
            code = next(
                (code for _, partition in partitions_of(body) if (code := value_of(partition, "error_code"))), 0
            )
        return Err(code)
