"""Static members under a new member id, where that began no rebalance: a client that was restarted, or another client with its
group.instance.id.

Rules:
1. The old and the new one are identified by client id and host of their requests: the group itself keeps those of the first one, as
   Kafka does (replaceStaticMember). Another client, or one whose old id is refused with FENCED_INSTANCE_ID or UNKNOWN_MEMBER_ID
   afterwards, is a second process with the same group.instance.id.
2. Such processes fence each other again and again, as many clients join anew at once: that is one note, with the number of times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker_sim.common.text import clock
from broker_sim.explain.events import Call
from broker_sim.explain.model import History, MemberInfo, Replacement
from broker_sim.explain.phrases import joined, shortened

__all__ = ["ReplacementNote", "replacement_notes"]

_OUT = ("FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID")
"""Errors of a static member that was replaced: some requests name the instance, some the member id alone."""

_APART_MS = 60_000
"""Replacements that are further apart are two series."""


@dataclass(slots=True)
class ReplacementNote:
    """``text``: a sentence without its end; ``contested``: several processes have the group.instance.id at once; ``member``: the last
    new id."""

    ts_ms: int
    order: int
    text: str
    contested: bool
    member: str


def replacement_notes(past: History) -> Iterator[ReplacementNote]:
    """Notes about static members that were replaced without a rebalance, in order."""
    clients = _Clients(past)
    series_of: dict[str, list[Replacement]] = {}
    for replacement in past.replacements:
        if replacement.rebalanced:
            continue
        series = series_of.get(replacement.instance, [])
        if series and replacement.ts_ms - series[-1].ts_ms > _APART_MS:
            yield from _notes(series, clients)
            series = []
        series_of[replacement.instance] = [*series, replacement]
    for series in series_of.values():
        yield from _notes(series, clients)


class _Clients:
    """Clients by member id, and the errors of member ids that are used although they are no longer valid."""

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


def _client(source: Call | MemberInfo) -> str:
    return f"{source.client_id or 'a client'} at {source.client_host or '?'}"


def _notes(series: list[Replacement], clients: _Clients) -> Iterator[ReplacementNote]:
    rivals = [
        replacement
        for replacement in series
        if clients.whom(replacement.old) != clients.whom(replacement.new) or replacement.old in clients.refused
    ]
    first, last = series[0], series[-1]
    if len(rivals) < 2:
        for replacement in series:
            words = (
                _replaced(replacement, clients)
                if replacement in rivals
                else f"the static member {replacement.instance} rejoined with a new member id"
            )
            yield ReplacementNote(
                replacement.ts_ms,
                replacement.order,
                f"{words}; {_without_rebalance(replacement)}",
                False,
                replacement.new,
            )
        return
    names = list(
        dict.fromkeys(clients.whom(name) for replacement in series for name in (replacement.old, replacement.new))
    )
    who = joined(names) if len(names) > 1 else f"several processes of {names[0]}"
    text = (
        f"the static member {first.instance} was replaced {len(series)} times until {clock(last.ts_ms)}, without a rebalance: "
        f"{who} have the same group.instance.id. It has to be unique in a group: each client that joins with it fences the previous one"
    )
    yield ReplacementNote(first.ts_ms, first.order, text, True, last.new)


def _without_rebalance(replacement: Replacement) -> str:
    """Clause about the missing rebalance: Kafka begins none unless the group's assignor changes (updateStaticMemberAndRebalance)."""
    added, lost = replacement.added, replacement.lost
    if not added and not lost:
        return "no rebalance was needed"
    changes = [f"with {shortened(added)} added to its subscription"] if added else []
    changes += [f"without {shortened(lost)} in its subscription"] if lost else []
    words = f"no rebalance was made, although it joined {joined(changes)}: until the next one it keeps the assignment that it had"
    unread = replacement.unread
    return words + (f", and no member reads {shortened(unread)}" if unread else "")


def _replaced(replacement: Replacement, clients: _Clients) -> str:
    error = clients.refused.get(replacement.old)
    refused = f", which then got {error}" if error else ""
    return (
        f"{clients.whom(replacement.new)} replaced {clients.whom(replacement.old)}{refused}: "
        f"it joined with the same group.instance.id, {replacement.instance}"
    )
