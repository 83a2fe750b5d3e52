"""The moments of a history in a line each, in order, for ``recent`` and the tooltips of pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from broker_sim.common.text import clock, duration_text
from broker_sim.explain.events import Call, number
from broker_sim.explain.model import History, Rebalance
from broker_sim.explain.phrases import after, because, count, incident_words, listed, outcome_of, span_title
from broker_sim.explain.replacements import replacement_notes

__all__ = ["Moment", "failures", "is_trouble", "moments"]

MANNERS = {"MEMBER_ID_REQUIRED"}
"""Errors that are a step of the protocol and no failure."""


@dataclass(slots=True)
class Moment:
    """``rank`` orders moments of one ms: what was on, what began, what failed, what ended. ``request``: of what failed the number."""

    ts_ms: int
    text: str
    rank: int = 2
    members: list[str] = field(default_factory=list)
    request: int = 0


def is_trouble(call: Call) -> bool:
    """Whether a response is worth a line."""
    return call.failed and call.error not in MANNERS


def moments(past: History) -> list[Moment]:
    """Everything worth a line, in order."""
    result = [*_rebalances(past), *failures(past)]
    for span in past.spans:
        what = span_title(span)
        if span.from_ms > past.first_ms or span.to_ms is None:
            result.append(Moment(span.from_ms, f"{what}: on", 0))
        if span.to_ms is not None:
            result.append(Moment(span.to_ms, f"{what}: off after {duration_text(span.to_ms - span.from_ms)}", 0))
    result += [
        Moment(incident.ts_ms, incident_words(incident), 6 if incident.kind == "mark" else 0)
        for incident in past.incidents
    ]
    result += [
        Moment(replacement.ts_ms, replacement.text, members=[replacement.member])
        for replacement in replacement_notes(past)
    ]
    result += _waiting(past)
    result.sort(key=lambda moment: (moment.ts_ms, moment.rank))
    return result


def _rebalances(past: History) -> Iterator[Moment]:
    for rebalance in past.rebalances:
        if rebalance.whole:
            why = because(past, rebalance.cause, generation=rebalance.generation_before, brief=True)
            yield Moment(
                rebalance.began_ms, "rebalance begins" + (f": {why}" if why else ""), 1, list(rebalance.cause.members)
            )
        yield from _also(past, rebalance)
        for removal in rebalance.removals:
            if removal.why == "rebalance_timeout":
                yield Moment(
                    removal.ts_ms, f"{past.name(removal.member)} removed: it did not rejoin", 2, [removal.member]
                )
        if rebalance.closed_ms is not None and rebalance.end != "empty" and rebalance.whole:
            leader = f", leader {past.name(rebalance.leader)}" if rebalance.leader else ""
            yield Moment(
                rebalance.closed_ms,
                f"generation {rebalance.generation}: {count(len(rebalance.members), 'member')} joined{leader}",
                3,
            )
        if rebalance.ended_ms is not None and rebalance.end != "failed":
            yield Moment(rebalance.ended_ms, f"{_end(rebalance)} {after(rebalance.ended_ms - rebalance.began_ms)}", 5)


def _also(past: History, rebalance: Rebalance) -> Iterator[Moment]:
    """What happened while the window was open; who did the same one after the other shares a line."""
    causes = [cause for cause in rebalance.also if cause.kind in ("left", "session_expired", "joined", "replaced")]
    for kind, group in groupby(causes, key=lambda cause: cause.kind):
        run = list(group)
        members = [name for cause in run for name in cause.members]
        words = because(past, run[0], brief=True)
        if len(run) > 1:
            names = listed(past, members)
            did = {"joined": "joined", "left": "left"}.get(kind, "rejoined with new member ids")
            words = f"the sessions of {names} expired" if kind == "session_expired" else f"{names} {did}"
        lasted = run[-1].ts_ms - run[0].ts_ms
        until = f", until {clock(run[-1].ts_ms)}" if lasted >= 1000 else ""
        yield Moment(run[0].ts_ms, f"meanwhile {words}{until}", 1, members)


def _end(rebalance: Rebalance) -> str:
    return (
        f"generation {rebalance.generation} Stable"
        if rebalance.end == "stable"
        else f"rebalance ended: {outcome_of(rebalance)}"
    )


def failures(past: History) -> list[Moment]:
    """Failed answers; those that say the same one after the other share a line."""
    result: list[Moment] = []
    failed = sorted((call for call in past.calls if is_trouble(call)), key=lambda call: call.answered_ms or call.ts_ms)
    borders = sorted(rebalance.began_ms for rebalance in past.rebalances)
    run: list[Call] = []
    key: tuple[object, ...] = ()
    border = 0
    for call in failed:
        at = call.answered_ms or call.ts_ms
        while border < len(borders) and borders[border] < at:
            border += 1
        mine = (call.api, call.outcome, border, (call.took_ms or 0) // 1000)
        if run and mine != key:
            result.append(_failure(past, run))
            run = []
        key = mine
        run.append(call)
    if run:
        result.append(_failure(past, run))
    return result


def _failure(past: History, run: list[Call]) -> Moment:
    first, members = run[0], list(dict.fromkeys(call.member for call in run))
    named = [member for member in members if member]
    who = listed(past, named) if named else first.client_id or "a client"
    times = f" (×{len(run)})" if len(run) > len(members) else ""
    fault = f" [fault: {first.faults[-1]}]" if first.faults else ""
    at, last = first.answered_ms or first.ts_ms, run[-1].answered_ms or run[-1].ts_ms
    until = f", until {clock(last)}" if last - at >= 1000 else ""
    return Moment(
        at,
        f"{first.api} of {who}: {first.outcome} {after(first.took_ms)}{times}{until}{fault}",
        4,
        named,
        first.request,
    )


def _long_poll_ms(call: Call) -> int:
    """How long the client allows the broker to wait for records: a ShareFetch without a response until then is no trouble."""
    return number(call.body, "max_wait_ms") or 0


def _waiting(past: History) -> Iterator[Moment]:
    """Requests without a response, old ones first."""
    open_calls = [
        call
        for call in past.calls
        if call.answered_ms is None and call.action is None and past.last_ms - call.ts_ms >= 1000 + _long_poll_ms(call)
    ]
    for call in open_calls[:5]:
        who = past.name(call.member) if call.member else call.client_id or "a client"
        fault = f" [fault: {call.faults[-1]}]" if call.faults else ""
        waited = duration_text(past.last_ms - call.ts_ms)
        yield Moment(
            past.last_ms,
            f"{call.api} of {who} has had no response since {clock(call.ts_ms)} ({waited}){fault}",
            7,
            [call.member],
        )
