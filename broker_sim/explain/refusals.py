"""Reasons why requests to an epoch-based group were refused: the error as a reason, with the members, limits and times concerned.

Rules:
1. What the journal shows of the group comes first: who holds a group.instance.id and until when, when a member was removed and why,
   which epoch it has. Else the broker's own words are the reason, if the response has any.
2. A rule of a fault that answered has no reason but itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from broker_sim.common.text import clock
from broker_sim.explain.epoch_steps import EpochStep, MemberSnapshot
from broker_sim.explain.events import Call, Event, number, table, text
from broker_sim.explain.last_requests import HEARTBEATS, KEEP_ALIVE, LEFT_FOR_A_WHILE
from broker_sim.explain.phrases import count

__all__ = ["Refusals"]

_REMOVED = {
    "session_expired": "its session expired",
    "revocation_timeout": "it did not revoke, or rejoin, within its rebalance timeout",
    "left": "it left",
}
_NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class _Held:
    """A call that was refused because ``holder`` has the group.instance.id, whose session lasts for ``session_ms``."""

    call: Call
    holder: str
    session_ms: int | None


class Refusals:
    """Reads one group's steps, requests and responses; gives refused calls their ``why``."""

    def __init__(self) -> None:
        self._members: Mapping[str, MemberSnapshot] = {}
        self._removed: dict[str, tuple[int, str]] = {}
        """Member -> when it was removed last, and why."""
        self._taken_over: dict[str, tuple[int, str]] = {}
        """Member -> when another member took its group.instance.id over, and the id of that one."""
        self._asked_ms: dict[str, int] = {}
        """Member -> when it sent its last heartbeat."""
        self._held: list[_Held] = []

    def stepped(self, step: EpochStep) -> None:
        """A step of the group."""
        for name in step.removed:
            self._removed[name] = step.ts_ms, _REMOVED.get(step.removed_by, "")
        for new, old in step.back.items():
            self._taken_over[old] = step.ts_ms, new
        for name, holder in step.after.items():
            if holder.epoch == LEFT_FOR_A_WHILE and step.before.get(name, holder).epoch != LEFT_FOR_A_WHILE:
                self._released(name, step.ts_ms, "it left for a while")
        for name in (*step.removed, *step.back.values()):
            self._released(name, step.ts_ms, _REMOVED.get(step.removed_by, "") if name in step.removed else "")
        self._members = step.after

    def _released(self, holder: str, ts_ms: int, why: str) -> None:
        for held in [held for held in self._held if held.holder == holder]:
            self._held.remove(held)
            held.call.why += f" until {clock(ts_ms)}" + (f", when {why}" if why else "")

    def asked(self, call: Call) -> None:
        """A request of a member."""
        if call.api in KEEP_ALIVE:
            self._asked_ms[call.member] = call.ts_ms

    def answered(self, call: Call, event: Event, size: int | None) -> None:
        """The response of a call; ``size``: number of members of a classic group."""
        if call.error is None or call.faults or call.action is not None:
            return
        said = text(table(event, "body"), "error_message") or ""
        kind = HEARTBEATS.get(call.api)
        if kind is not None or self._members or call.member in self._removed:
            call.why = self._why(call, kind or "consumer", said)
        elif call.error == "GROUP_MAX_SIZE_REACHED" and size is not None:
            call.why = _full(size, "group.max.size", "")

    def _why(self, call: Call, kind: str, said: str) -> str:
        error, known = call.error, self._members.get(call.member)
        if error in ("UNRELEASED_INSTANCE_ID", "FENCED_INSTANCE_ID") and call.instance is not None:
            return self._who_holds(call, said)
        if error == "UNKNOWN_MEMBER_ID" and known is None:
            return self._unknown(call.member) or _own(said)
        if error in ("FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH") and known is not None:
            epoch = number(call.body, "member_epoch")
            epoch = call.generation if epoch is None else epoch
            if epoch is not None and epoch != known.epoch:
                return f"it named epoch {epoch}, its member epoch is {known.epoch}"
        if error == "GROUP_MAX_SIZE_REACHED":
            return _full(len(self._members), f"group.{kind}.max.size", said)
        if error == "UNSUPPORTED_VERSION" and call.api in HEARTBEATS and not said:
            return f"the broker has no {kind} groups (a matter of its release, or of group.coordinator.rebalance.protocols)"
        return _own(said)

    def _who_holds(self, call: Call, said: str) -> str:
        holder = next((one for one in self._members.values() if one.instance == call.instance), None)
        if holder is None:
            return _own(said)
        whom = f"{holder.client_id or 'a client'} at {holder.client_host or '?'}"
        if (holder.client_id, holder.client_host) == (call.client_id, call.client_host):
            whom += f", as another process of the same client (member {holder.member})"
        words = f"the group.instance.id {call.instance} is held by {whom}"
        if call.error == "FENCED_INSTANCE_ID":
            since_ms, new = self._taken_over.get(call.member, (0, ""))
            return words + (f", which took it over at {clock(since_ms)}" if new == holder.member else "")
        self._held.append(_Held(call, holder.member, number(holder.shown, "session_timeout_ms")))
        return words

    def _unknown(self, member: str) -> str:
        if member in self._taken_over:
            ts_ms, new = self._taken_over[member]
            return f"at {clock(ts_ms)} its group.instance.id was taken over by member {new}"
        if member in self._removed:
            ts_ms, why = self._removed[member]
            return f"it was removed at {clock(ts_ms)}" + (f": {why}" if why else "")
        return "the group has no member of this id"

    def finish(self) -> None:
        """The end of the journal: who still holds an id holds it until its session expires."""
        for held in self._held:
            asked_ms = self._asked_ms.get(held.holder)
            if held.session_ms is not None and asked_ms is not None:
                ends = clock(asked_ms + held.session_ms)
                held.call.why += f", whose session ends at {ends} unless it sends a heartbeat before"
        self._held.clear()


def _full(size: int, setting: str, said: str) -> str:
    """Reason why a group takes no more members; ``said``: the broker's words, which may have the limit."""
    limit = _NUMBER.findall(said)
    allows = f"{setting} is {limit[-1]}" if limit else f"{setting} allows no more"
    return f"the group has {count(size, 'member')}, and {allows}"


def _own(said: str) -> str:
    """The broker's words as the end of a sentence."""
    words = said.rstrip(".")
    return words[:1].lower() + words[1:] if words.split(" ", 1)[0][1:].islower() else words
