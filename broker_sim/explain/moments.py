"""The moments of a history in a line each, in order, for ``recent`` and the tooltips of pictures."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from broker_sim.common.text import clock, duration_text
from broker_sim.explain.events import Call, number
from broker_sim.explain.holdups import kept_in_words
from broker_sim.explain.model import History, Rebalance
from broker_sim.explain.phrases import (
    Advance,
    advance_of,
    after,
    because,
    count,
    fault_words,
    incident_words,
    listed,
    outcome_of,
    shortened,
    span_title,
    with_advances_joined,
)
from broker_sim.explain.replacements import replacement_notes

__all__ = ["Moment", "disconnected_words", "failures", "is_trouble", "moments", "single_moments"]

MANNERS = {"MEMBER_ID_REQUIRED"}
"""Errors that are a step of the protocol and no failure."""

_APART_MS = 60_000
"""Equal answers that are further apart are two runs."""


@dataclass(slots=True)
class Moment:
    """``rank`` orders moments of one ms: what was on, what began, what failed, what ended. ``request``: of what failed the number,
    of an incident that of the last request before it."""

    ts_ms: int
    text: str
    rank: int = 2
    members: list[str] = field(default_factory=list)
    request: int = 0
    advance: Advance | None = None


def is_trouble(call: Call) -> bool:
    """Whether a response is worth a line. A long poll whose connection was closed meanwhile is none: it waited for records."""
    polled = call.action == "not answered" and (call.took_ms or 0) <= _long_poll_ms(call)
    return call.failed and call.error not in MANNERS and not call.creates_topic and not polled


def moments(past: History) -> list[Moment]:
    """Everything worth a line, in order; steps of the clock with nothing in between share one."""
    return with_advances_joined(single_moments(past))


def single_moments(past: History) -> list[Moment]:
    """As `moments`, each step of the clock apart: for those who have more to put in between."""
    result = [*_rebalances(past), *failures(past)]
    for span in past.spans:
        what = span_title(span)
        if span.from_ms > past.first_ms or span.to_ms is None:
            result.append(Moment(span.from_ms, f"{what}: on", 0))
        if span.to_ms is not None:
            result.append(Moment(span.to_ms, f"{what}: off after {duration_text(span.to_ms - span.from_ms)}", 0))
    begun = {rebalance.began_ms: rebalance.order for rebalance in reversed(past.rebalances)}
    result += [
        Moment(
            incident.ts_ms,
            incident_words(incident),
            # the clock may be advanced again, at the same ms, after what its first step led to
            6 if incident.kind == "mark" or begun.get(incident.ts_ms, incident.order) < incident.order else 0,
            request=incident.request,
            advance=advance_of(incident),
        )
        for incident in past.incidents
    ]
    result += [
        Moment(replacement.ts_ms, replacement.text, members=[replacement.member])
        for replacement in replacement_notes(past)
    ]
    result += _waiting(past)
    result += [Moment(past.last_ms, words, 7) for words in disconnected_words(past)]
    return sorted(result, key=lambda moment: (moment.ts_ms, moment.rank))


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
    """Moments while the window was open; members that did the same one after the other share a line."""
    causes = [cause for cause in rebalance.also if cause.kind in ("left", "session_expired", "joined", "replaced")]
    for (kind, by), group in groupby(causes, key=lambda cause: (cause.kind, cause.by)):
        run = list(group)
        members = [name for cause in run for name in cause.members]
        words = because(past, run[0], brief=True)
        if len(run) > 1:
            names = listed(past, members)
            left = f"were removed by {by}" if by else "left"
            did = {"joined": "joined", "left": left}.get(kind, "rejoined with new member ids")
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


@dataclass(slots=True)
class _Run:
    """Equal answers: of the same API, with the same outcome and cause, between the same rebalances."""

    calls: list[Call]

    @property
    def last_ms(self) -> int:
        return _answered_ms(self.calls[-1])


def failures(past: History) -> list[Moment]:
    """Failed answers; equal ones with one cause share a line. A client's other answer in between, or a minute without one, ends it."""
    result: list[_Run] = []
    borders = sorted(rebalance.began_ms for rebalance in past.rebalances)
    open_runs: dict[tuple[object, ...], _Run] = {}
    last: dict[tuple[str, tuple[str, ...]], tuple[object, ...]] = {}
    for call in sorted(filter(is_trouble, past.calls), key=_answered_ms):
        at = _answered_ms(call)
        key = (
            call.api,
            call.outcome,
            call.why,
            fault_words(call),
            bisect_left(borders, at),
            (call.took_ms or 0) // 1000,
        )
        before = last.get((call.api, _process(call)))
        if before is not None and before != key:
            open_runs.pop(before, None)
        last[call.api, _process(call)] = key
        run = open_runs.get(key)
        if run is None or at - run.last_ms > _APART_MS:
            run = open_runs[key] = _Run([])
            result.append(run)
        run.calls.append(call)
    return [_failure(past, run) for run in result]


def _answered_ms(call: Call) -> int:
    return call.answered_ms or call.ts_ms


def _process(call: Call) -> tuple[str, ...]:
    """The process of a request, as far as it shows: its member, else its client id and host."""
    return (call.member,) if call.member else ("", call.client_id, call.client_host)


def _whose(past: History, calls: list[Call]) -> str:
    """The processes of a run by name, each with its number of calls unless these are equal."""
    counts = Counter(map(_process, calls))
    clients = Counter(process[1] for process in counts if not process[0])
    names = {
        process: past.name(process[0])
        if process[0]
        else (process[1] or "a client") + (f" at {process[2]}" if clients[process[1]] > 1 else "")
        for process in counts
    }
    equal = len(set(counts.values())) == 1
    return shortened(name if equal else f"{name} (×{counts[process]})" for process, name in names.items())


def _failure(past: History, run: _Run) -> Moment:
    first = run.calls[0]
    processes = Counter(map(_process, run.calls))
    total = len(run.calls)
    times = f" (×{total})" if total > len(processes) and len(set(processes.values())) == 1 else ""
    at = _answered_ms(first)
    until = f", until {clock(run.last_ms)}" if run.last_ms - at >= 1000 else ""
    why = f": {first.why}" if first.why else ""
    return Moment(
        at,
        f"{first.api} of {_whose(past, run.calls)}: {first.outcome} {after(first.took_ms)}{times}{until}{fault_words(first)}{why}",
        4,
        [process[0] for process in processes if process[0]],
        first.request,
    )


def disconnected_words(past: History) -> list[str]:
    """A sentence for each member at the journal's end whose connection was closed."""
    return [
        kept_in_words(
            past.name(one.member),
            one.closed_ms,
            shortened(one.partitions) if one.partitions else "",
            len(one.partitions) != 1,
            one.ends_ms,
        )
        for one in past.disconnected
    ]


def _long_poll_ms(call: Call) -> int:
    """Milliseconds that the client allows the broker to wait for records: a ShareFetch without a response until then is no trouble."""
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
        waited = duration_text(past.last_ms - call.ts_ms)
        yield Moment(
            past.last_ms,
            f"{call.api} of {who} has had no response since {clock(call.ts_ms)} ({waited}){fault_words(call)}",
            7,
            [call.member],
        )
