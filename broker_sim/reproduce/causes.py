"""The cause of a finding, from the acts of a timeline: what happened, to whom, and where. The same code reads that of the log and
that of the simulation, so that "the same finding" means the same cause, and not only the same kind.

    cause_of(finding, timeline)     Cause("crash", {"app-2"}, set()); None where no act of the timeline explains the finding
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from broker_sim.explain.phrases import joined
from broker_sim.pipeline.finding import Finding
from broker_sim.reproduce.epoch_timeline import LEFT, NOT_REVOKED, REMOVED, SESSION
from broker_sim.reproduce.group_timeline import Act, GroupTimeline, log_text

__all__ = ["ABOUT_DELIVERIES", "Cause", "cause_of"]

ABOUT_MEMBERS = ("session expired", "poll timeout", "departed", "churn", "rebalance timeout")
ABOUT_OFFSETS = ("regression", "reset", "deleted offsets")
ABOUT_DELIVERIES = ("archived", "redelivered")
ABOUT_SERIES = ("static bounce", "storm", "frequent rebalances", "poison", "slow rebalance")
_ENDS = ("crash", "hang", "leave", "freeze", "not_revoked")
_OF_KIND = {
    "session expired": ("crash", "freeze"),
    "poll timeout": ("hang",),
    "rebalance timeout": ("not_revoked",),
}
"""The acts that a kind of finding is about, if there are some."""
_COMMITS = ("commit", "delete_offsets", "delete_group", "expire")
SLACK_MS = 1500
"""A finding's time is that of a record, or of a period; an act's is up to so much later."""
SERIES_MS = 60_000
"""Longest time between a series of rebalances, or a slow one, and the act before that began it: a session timeout."""
AGREE = 0.5
"""So large a share of the members, or of the partitions, must be the same."""


@dataclass(frozen=True)
class Cause:
    """Cause of a finding. ``what``: the act, with its own cause; ``who``: clients; ``where``: partitions."""

    what: str
    who: frozenset[str] = frozenset()
    where: frozenset[str] = frozenset()

    def same_as(self, other: Cause, *, less_known: bool = False) -> bool:
        """Whether what happened is the same, to at least half of the clients, in at least half of the partitions. A removal whose
        cause the log does not have is the same as any other one. ``less_known``: the other one is from a log without lines of
        clients, which does not distinguish a client that hangs from one that has crashed."""
        unknown = REMOVED in (self.what, other.what) and {self.what, other.what} <= {REMOVED, SESSION, LEFT}
        unknown |= less_known and {self.what, other.what} <= {"hang", "crash", "leave"}
        return (self.what == other.what or unknown) and _agree(self.who, other.who) and _agree(self.where, other.where)

    def text(self) -> str:
        """In words: ``crash of app-2``."""
        parts = [self.what.replace("_", " ")]
        if self.who:
            parts.append(f"of {joined(sorted(self.who))}")
        if self.where:
            parts.append(f"in {joined(sorted(self.where))}")
        return " ".join(parts)


def _agree(mine: frozenset[str], other: frozenset[str]) -> bool:
    return mine == other or len(mine & other) >= AGREE * len(mine | other) > 0


def cause_of(finding: Finding, timeline: GroupTimeline) -> Cause | None:
    """The cause of a finding about the timeline's group."""
    at_ms = finding.at_ms if finding.at_ms is not None else timeline.to_ms
    until_ms = finding.to_ms if finding.to_ms is not None else at_ms
    if finding.kind in ABOUT_MEMBERS:
        kinds = _OF_KIND.get(finding.kind, ())
        preferred = [act for act in timeline.acts if act.kind in kinds] or timeline.acts
        named = [
            act for act in preferred if act.kind in _ENDS and act.who is not None and _names(finding.text, act.who)
        ]
        return _of_end(_latest(named or preferred, _ENDS, at_ms))
    if finding.kind in ABOUT_OFFSETS:
        act = _nearest(timeline.acts, _COMMITS, at_ms)
        return None if act is None else Cause(f"{act.kind}{'' if act.who else ' from outside'}", where=_logs(act))
    if finding.kind == "stalled":
        act = _nearest(timeline.acts, ("hang",), at_ms)
        return None if act is None else Cause("hang", _who([act]))
    if finding.kind in ABOUT_DELIVERIES:
        archived = finding.kind == "archived"
        acts = [act for act in timeline.acts if act.kind == "delivery" and act.cause.startswith("archived") == archived]
        act = _nearest(acts, ("delivery",), at_ms)
        if act is None:
            return None
        same = [one for one in acts if one.cause == act.cause and one.at_ms <= max(until_ms, act.at_ms) + SLACK_MS]
        return Cause(act.cause, where=frozenset[str]().union(*map(_logs, same)))
    if finding.kind == "not ready":
        act = _nearest(timeline.acts, ("not_ready",), at_ms)
        return None if act is None else Cause("topology without its topics")
    if finding.kind in ABOUT_SERIES:
        return _of_series(timeline, at_ms, until_ms)
    if finding.kind == "stuck":  # its number depends on how many offsets partitions there are
        return Cause("appends are not committed", where=frozenset([f"the offsets partition of {timeline.group}"]))
    if finding.kind == "coordinator moved":
        return Cause("the leader of the offsets partition changed")
    return None


def _names(text: str, who: str) -> bool:
    """Whether a sentence names a member, and not only one whose name begins or ends like it."""
    return re.search(rf"(?<![\w.-]){re.escape(who)}(?![\w-]|\.\w)", text) is not None


def _of_end(act: Act | None) -> Cause | None:
    return None if act is None else Cause(_what(act), _who([act]))


def _what(act: Act) -> str:
    """A crash and a freeze both end as an expired session where a group has epochs."""
    return act.cause or act.kind


def _of_series(timeline: GroupTimeline, at_ms: int, until_ms: int) -> Cause | None:
    """The most frequent kind of act in the time of several rebalances: of ends of members, else of their joins; None without any."""
    until_ms = max(until_ms, at_ms + SERIES_MS)
    acts = [act for act in timeline.acts if at_ms - SERIES_MS <= act.at_ms <= until_ms]
    ends = [act for act in acts if act.kind in _ENDS]
    kept = [act for act in ends if act.cause == NOT_REVOKED] or ends or [act for act in acts if act.kind == "start"]
    if not kept:
        return None
    most, _ = Counter(_what(act) for act in kept).most_common(1)[0]
    return Cause(most, _who(act for act in kept if _what(act) == most))


def _who(acts: Iterable[Act]) -> frozenset[str]:
    return frozenset(act.who for act in acts if act.who is not None)


def _logs(act: Act) -> frozenset[str]:
    return frozenset(log_text(log) for log, _ in act.offsets)


def _latest(acts: list[Act], kinds: tuple[str, ...], at_ms: int) -> Act | None:
    """The last act of these kinds until a moment, else the first one."""
    mine = [act for act in acts if act.kind in kinds]
    before = [act for act in mine if act.at_ms <= at_ms + SLACK_MS]
    return before[-1] if before else next(iter(mine), None)


def _nearest(acts: list[Act], kinds: tuple[str, ...], at_ms: int) -> Act | None:
    mine = [act for act in acts if act.kind in kinds]
    return min(mine, key=lambda act: abs(act.at_ms - at_ms), default=None)
