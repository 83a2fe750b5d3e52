"""Waits that delayed a rebalance: for which members it waited, in which order, for how long. Explanations and the pipeline's findings
both use this.

Rules:
1. The cause is read from the steps that ended a wait, never from how long a phase took: an expired session, a member that rejoined,
   the rebalance timeout, the assignment that came, the log that stored it.
2. An expired session is its own cause, whatever else happened in its join phase: the phase could not end before it expired.
3. What a client did meanwhile is not in the steps: advice about a client says what may be.
4. A member whose connection was closed before, without a LeaveGroup, neither rejoins nor computes: it was waited for until a timer
   removed it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from broker_sim.common.text import clock
from broker_sim.explain.rebalances import Cause, Phases

__all__ = [
    "HOLDUPS",
    "LEAVING_HEARTBEAT",
    "PERHAPS_ALIVE",
    "Holdup",
    "advice",
    "chief",
    "dead_in_words",
    "holdups",
    "in_words",
]

What = Literal[
    "session",
    "rebalance timeout",
    "rejoin",
    "leave",
    "pending member",
    "initial delay",
    "leader",
    "sync",
    "log",
    "unknown",
]

HOLDUPS: dict[What, str] = {
    "session": "until a session expired",
    "rebalance timeout": "until the rebalance timeout, for members that did not rejoin",
    "rejoin": "for a member that rejoined last",
    "leave": "until a member left, or was removed",
    "pending member": "for a member id that was given and not used",
    "initial delay": "group.initial.rebalance.delay.ms",
    "leader": "for the leader's assignment",
    "sync": "for members that sent no SyncGroup",
    "log": "for the log to store the assignment",
    "unknown": "unknown",
}
"""Kinds of waits of a rebalance, in words."""


@dataclass(frozen=True, slots=True)
class Holdup:
    """``ms``: how long; ``members``: ids; ``closed``: those of them whose connections had been closed before, so that
    only a timer could end the wait: of expired sessions, missing JoinGroups and SyncGroups."""

    what: What
    ms: int
    members: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)


def holdups(phases: Phases) -> list[Holdup]:
    """The waits of a rebalance in their order; those of no time are left out. [] where neither its beginning nor its end is known."""
    waits: list[Holdup] = []
    if phases.whole:
        waits += _of_window(phases)
    if phases.closed_ms is not None and phases.ended_ms is not None and phases.found_in == "":
        waits += _of_assignment(phases, phases.closed_ms, phases.ended_ms)
    return [holdup for holdup in waits if holdup.ms > 0]


def chief(holdups: list[Holdup]) -> Holdup | None:
    """The longest wait; the waits for sessions count together."""
    sessions = [holdup for holdup in holdups if holdup.what == "session"]
    whole = [_together(sessions)] if sessions else []
    return max(
        [*whole, *(holdup for holdup in holdups if holdup.what != "session")],
        key=lambda holdup: holdup.ms,
        default=None,
    )


def _together(holdups: list[Holdup]) -> Holdup:
    members = list(dict.fromkeys(name for holdup in holdups for name in holdup.members))
    closed = list(dict.fromkeys(name for holdup in holdups for name in holdup.closed))
    return Holdup("session", sum(holdup.ms for holdup in holdups), members, closed)


def _session(causes: list[Cause], ms: int) -> Holdup:
    members = [name for cause in causes for name in cause.members]
    closed = [name for cause in causes if cause.closed_ms is not None for name in cause.members]
    return Holdup("session", ms, members, closed)


def _of_window(phases: Phases) -> list[Holdup]:
    until_ms = phases.closed_ms if phases.closed_ms is not None else phases.ended_ms
    if until_ms is None:
        return []
    expired = [cause for cause in phases.within if cause.kind == "session_expired"]
    result, since_ms = [], phases.began_ms
    if expired:
        since_ms = expired[-1].ts_ms
        result.append(_session(expired, since_ms - phases.began_ms))
    rest = until_ms - since_ms
    closing = phases.closing_cause
    if phases.closed_ms is None or closing is None or closing.kind == "session_expired":
        return result if result else [Holdup("unknown", rest)]
    kind: What = "rejoin"
    if closing.kind == "rebalance_timer":
        kind = "initial delay" if phases.from_empty else "rebalance timeout"
    elif closing.kind == "pending_expired":
        kind = "pending member"
    elif closing.kind == "left":
        kind = "leave"
    elif closing.kind in ("unknown", "loaded", "appended", "max_size_reached"):
        kind = "unknown"
    if kind == "rebalance timeout":
        return [*result, Holdup(kind, rest, phases.late, _closed(phases, phases.late))]
    return [*result, Holdup(kind, rest, list(closing.members))]


def _closed(phases: Phases, members: list[str]) -> list[str]:
    return [name for name in members if name in phases.disconnected]


def _of_assignment(phases: Phases, closed_ms: int, ended_ms: int) -> list[Holdup]:
    if phases.end == "empty":
        return []
    by = phases.ended_by
    leader = [phases.leader] if phases.leader is not None else []
    lasted = ended_ms - closed_ms
    dead = _closed(phases, phases.unsynced)
    if by is not None and by.kind == "session_expired":
        # sessions of members that got their JoinGroup responses together expire one after the other: the first one ends the phase
        names = list(dict.fromkeys([*by.members, *dead]))
        return [_session([by], lasted) if len(names) == len(by.members) else Holdup("sync", lasted, names, dead)]
    if by is not None and by.kind == "sync_timeout":
        return [Holdup("sync", lasted, list(by.members), _closed(phases, by.members))]
    if phases.synced_ms is None:
        if by is not None and by.kind == "append_failed":
            return [Holdup("log", lasted)]
        return [Holdup("sync", lasted, leader, leader) if set(leader) & set(dead) else Holdup("leader", lasted, leader)]
    return [Holdup("leader", phases.synced_ms - closed_ms, leader), Holdup("log", ended_ms - phases.synced_ms)]


PERHAPS_ALIVE = (
    " If the process was alive and only sent its heartbeats late, look at its machine and its garbage collections."
)
"""Advice about an expired session whose connection was not closed."""
LEAVING_HEARTBEAT = "leaving heartbeat"
"""Name of the request with which a member of an epoch-based group leaves, in place of a LeaveGroup."""


def in_words(what: str, who: str, several: bool, closed: bool = False, leave: str = "LeaveGroup") -> str:
    """Wait of a rebalance, as a clause: ``until the session of app-1 expired``. ``who``: the members' names; ``several``: more than
    one; ``closed``: whether their connections had been closed before, without a ``leave``."""
    if what in _ENDED_BY_TIMERS:
        plural = "s" if several else ""
        words = {
            "session": f"until the session{plural} of {who} expired",
            "rebalance timeout": f"until the rebalance timeout expired, without a JoinGroup of {who}",
            "sync": f"without a SyncGroup of {who}",
        }[what]
        return words + (f", whose connection{plural} had been closed without a {leave}" if closed else "")
    return {
        "rejoin": f"until {who} rejoined last",
        "leave": f"until {who} left, or {'were' if several else 'was'} removed",
        "pending member": "for a member id that was given and not used",
        "initial delay": "for the initial rebalance delay",
        "leader": f"until the leader {who} sent the assignment" if who else "until the leader sent the assignment",
        "log": "until the log had stored the assignment",
    }.get(what, "")


def dead_in_words(who: str, until: str, several: bool, *, closed: bool = True, ended: bool = True) -> str:
    """Clause about dead members of an epoch-based group, and ``until`` when their sessions ran. ``closed``: whether their
    connections had been closed; else only their heartbeats were missing. ``ended``: whether the sessions have."""
    its = "their sessions" if several else "its session"
    ran = ("ran" if ended else "run" if several else "runs") + f" until {until}"
    was = ("were" if several else "was") if ended else ("are" if several else "is")
    return f"{who} {was} dead: {its} {ran}" if closed else f"{who} sent no heartbeat: {its} {ran}"


def kept_in_words(
    who: str, closed_ms: int, kept: str, several: bool, ends_ms: int | None, leave: str = "LeaveGroup"
) -> str:
    """A member whose connection was closed and that is still one, as a sentence: what it keeps (``kept``, "" for nothing;
    ``several``: more than one) and until when its session ends, if that is known."""
    words = f"{kept} stay{'' if several else 's'} assigned to it" if kept else "it is a member"
    until = "its session ends" + ("" if ends_ms is None else f" at {clock(ends_ms)}")
    return f"the connection of {who} was closed at {clock(closed_ms)} without a {leave}: {words} until {until}"


def advice(what: str, closed: bool = False, *, consumers: bool = True, static: bool = False) -> str:
    """Advice about a wait: ``what`` of a Holdup, ``closed``: whether connections were closed before sessions expired;
    ``consumers``: whether the group's members are consumers; ``static``: whether all members waited for have a group.instance.id."""
    if what == "session" or (closed and what in _ENDED_BY_TIMERS):
        words = (
            "No LeaveGroup arrived: if a member ends without one, its group waits until its session expires. A shutdown that closes"
            " the client, a shorter session.timeout.ms, or group.instance.id, with which a restarted process keeps its assignment,"
            " avoid that."
        )
        if static:  # they send no LeaveGroup when they are closed, either
            words = (
                "Static members send no LeaveGroup, so that a process that returns with its group.instance.id keeps its assignment."
                " The group waits for one that does not return until its session expires: a shorter session.timeout.ms, or an"
                " administrator who removes it, avoids that."
            )
        return words if closed else words + PERHAPS_ALIVE
    return _ADVICE.get(what, "") if consumers else _OF_OTHERS.get(what, _ADVICE.get(what, ""))


_ENDED_BY_TIMERS = ("session", "rebalance timeout", "sync")
_ADVICE = {
    "sync": "They had their JoinGroup responses and sent no SyncGroup: their processes may hang, or have been paused. See their own"
    " logs.",
    "rebalance timeout": "Their rebalance timeout (max.poll.interval.ms) is the longest wait. Their applications may not have polled,"
    " rebalance callbacks may have taken long, or their clients may have retried something before they rejoined: see their own logs.",
    "rejoin": "Clients rejoin when they are polled: the last one's application may have been busy between two polls, or its callback"
    " slow.",
    "leave": "The member that was waited for left, or was removed by an administrator, instead of rejoining.",
    "pending member": "A client got a member id and did not join with it: it may have ended, or joined again without it.",
    "initial delay": "group.initial.rebalance.delay.ms waits for the first members of an empty group, and each new member prolongs it.",
    "leader": "The leader computes the assignment and sends it: look at that client.",
    "log": "The assignment arrived in time and was stored late: look at the group's offsets partition.",
}
_OF_OTHERS = {
    "rebalance timeout": "Their rebalance timeout (of Connect's workers rebalance.timeout.ms) is the longest wait. Their processes may"
    " have been busy stopping their work: see their own logs.",
    "rejoin": "The last one may have been busy stopping its work before it could rejoin: see its own log.",
}
"""For groups whose members are no consumers: they do not poll."""
