"""Static members under a new member id, where that began no rebalance: a client that was restarted, or another client with its
group.instance.id.

Rules:
1. Who the old and the new one are is told by client id and host of their requests: the group itself keeps those of the first one, as
   Kafka does (replaceStaticMember). Another client, or one whose old id is refused with FENCED_INSTANCE_ID or UNKNOWN_MEMBER_ID
   afterwards, is a second process with the same group.instance.id.
2. Such processes fence each other again and again, as many clients join anew at once: that is told once, with how often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker_sim.common.text import clock
from broker_sim.explain.events import Call
from broker_sim.explain.model import History, Info, Replacement
from broker_sim.explain.phrases import joined

__all__ = ["TakenOver", "taken_over"]

_OUT = ("FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID")
"""What a static member that was replaced is answered: some requests name the instance, some the member id alone."""

_APART_MS = 60_000
"""Replacements that are longer apart are two stories."""


@dataclass(slots=True)
class TakenOver:
    """``text``: a sentence without its end; ``contested``: several processes have the group.instance.id at once; ``member``: the last
    new id."""

    ts_ms: int
    order: int
    text: str
    contested: bool
    member: str


def taken_over(past: History) -> Iterator[TakenOver]:
    """What became of static members without a rebalance, in order."""
    clients = _Clients(past)
    stories: dict[str, list[Replacement]] = {}
    for one in past.replacements:
        if one.rebalanced:
            continue
        story = stories.get(one.instance, [])
        if story and one.ts_ms - story[-1].ts_ms > _APART_MS:
            yield from _told(story, clients)
            story = []
        stories[one.instance] = [*story, one]
    for story in stories.values():
        yield from _told(story, clients)


class _Clients:
    """Which clients are behind member ids, and which ids are no longer good but still used."""

    def __init__(self, past: History) -> None:
        self._by_member: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        for call in past.calls:
            if call.member:
                self._by_member.setdefault(call.member, _client(call))
            if call.member and call.error in _OUT:
                self.refused.setdefault(call.member, call.error)
        for name, info in past.members.items():
            self._by_member.setdefault(name, _client(info))

    def whom(self, member: str) -> str:
        return self._by_member.get(member, "a client")


def _client(one: Call | Info) -> str:
    return f"{one.client_id or 'a client'} at {one.client_host or '?'}"


def _told(story: list[Replacement], clients: _Clients) -> Iterator[TakenOver]:
    rivals = [one for one in story if clients.whom(one.old) != clients.whom(one.new) or one.old in clients.refused]
    first, last = story[0], story[-1]
    if len(rivals) < 2:
        for one in story:
            words = (
                _once(one, clients) if one in rivals else f"the static member {one.instance} came back under a new id"
            )
            yield TakenOver(one.ts_ms, one.order, f"{words}; no rebalance was needed", False, one.new)
        return
    names = list(dict.fromkeys(clients.whom(name) for one in story for name in (one.old, one.new)))
    who = joined(names) if len(names) > 1 else f"several processes of {names[0]}"
    text = (
        f"the static member {first.instance} was taken over {len(story)} times until {clock(last.ts_ms)}, without a rebalance: "
        f"{who} have the same group.instance.id. It has to be unique in a group: who joins with it fences the one before"
    )
    yield TakenOver(first.ts_ms, first.order, text, True, last.new)


def _once(one: Replacement, clients: _Clients) -> str:
    error = clients.refused.get(one.old)
    refused = f", which was answered {error} after that" if error else ""
    return (
        f"{clients.whom(one.new)} took the place of {clients.whom(one.old)}{refused}: it joined with the same group.instance.id, "
        f"{one.instance}"
    )
