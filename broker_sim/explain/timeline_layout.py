"""Layout of a timeline, for every kind of drawing: lanes for members, bands for generations, marks for what happened.

Rules:
1. Ids of one static member, and of clients with the same client id that were there one after the other, share a lane.
   Beneath the members stand the transactional ids that commit for the group, or whose transactions its members waited for.
2. More lanes than there is room for: those in which something went wrong, or which held others up, stay; the rest is folded into one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from broker_sim.common.text import clock, duration_text
from broker_sim.drawing.scale import Scale
from broker_sim.explain.causes import HANDLE
from broker_sim.explain.deliveries import RecordDelivery
from broker_sim.explain.epoch_steps import Holding
from broker_sim.explain.epochs import holding_words
from broker_sim.explain.events import Call
from broker_sim.explain.model import History, Incident, Rebalance, Span
from broker_sim.explain.moments import is_trouble
from broker_sim.explain.phrases import because, call_words, incident_words, times
from broker_sim.explain.rebalances import DEAD, EMPTY, STABLE
from broker_sim.explain.transaction_requests import request_runs, run_text
from broker_sim.explain.transaction_text import transaction_text
from broker_sim.explain.transactions import BlockedStableOffset

__all__ = ["Band", "Lane", "Mark", "TimelineLayout", "timeline_layout"]

PARKING = ("JoinGroup", "SyncGroup")
COMMITS = ("OffsetCommit", "TxnOffsetCommit")
SLOW_MS = 1000
PLAIN_LANES = 8
"""So many lanes stay in any case where others are folded."""


@dataclass(slots=True)
class Band:
    """A generation, or what there was instead. ``closed_ms`` and ``ended_ms`` divide it: preparing, completing, then ``rest``. Of an
    epoch these are assigning and reconciling; ``words`` describe it."""

    label: str
    from_ms: int
    to_ms: int
    closed_ms: int
    ended_ms: int
    rest: str  # Stable, Empty, Dead, failed, open
    number: int
    rebalance: Rebalance | None = None
    words: str = ""


@dataclass(slots=True)
class Mark:
    """``kind``: removed, left, replaced, fault, heartbeat (REBALANCE_IN_PROGRESS), trouble (another error), failed (commit), join,
    sync, slow, unanswered (commit), lock (records that are acquired), redelivered (that were delivered before), unlocked (released or
    rejected), expired (lock or share session), archived (no member gets them any more), owned (partitions or tasks), revoking (some of
    them), awaiting (some that another member has)."""

    kind: str
    ts_ms: int
    text: str
    to_ms: int | None = None
    call: Call | None = None


@dataclass(slots=True)
class Lane:
    """A member's line. ``present``: (from, to) as a member; ``bars``: its JoinGroups and SyncGroups while they waited."""

    name: str
    detail: str
    members: list[str]
    present: list[tuple[int, int]] = field(default_factory=list)
    bars: list[Mark] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)  # when commits were answered without an error
    folded: int = 0
    leads: bool = False


@dataclass(slots=True)
class TimelineLayout:
    past: History
    from_ms: int
    to_ms: int
    bands: list[Band]
    lanes: list[Lane]
    log_spans: list[Span]
    fault_spans: list[Span]
    incidents: list[Incident]
    active: list[tuple[int, int]]

    @property
    def by_epochs(self) -> bool:
        """Whether it is a consumer, share or streams group, and never was a classic one."""
        return bool(self.past.epochs) and not self.past.existed

    def scale(self, width: float) -> Scale:
        return Scale(self.from_ms, self.to_ms, width, self.active)


def timeline_layout(past: History, most_lanes: int = 40) -> TimelineLayout:
    """The picture of a history, with at most so many lanes."""
    firsts = [changes[0][0] for changes in (past.states, past.epochs) if changes]
    firsts += [call.ts_ms for call in past.calls[:1]]
    from_ms = max(min(firsts, default=past.first_ms), past.first_ms)
    spans = [span for span in past.spans if span.to_ms is None or span.to_ms >= from_ms]
    from_ms = min([from_ms, *(max(span.from_ms, past.first_ms) for span in spans)])
    from_ms = min([from_ms, *(incident.ts_ms for incident in past.incidents if incident.kind == "topic")])
    incidents = [incident for incident in past.incidents if incident.ts_ms >= from_ms and incident.kind != "client"]
    lanes = _lanes(past)
    return TimelineLayout(
        past,
        from_ms,
        past.last_ms,
        _bands(past, from_ms),
        [*_folded(past, lanes, most_lanes), *_transaction_lanes(past, from_ms)],
        [*(span for span in spans if span.kind != "fault"), *map(_stable_offset_span, past.blocked)],
        [span for span in spans if span.kind == "fault"],
        incidents,
        _active(past, spans, incidents),
    )


def _active(past: History, spans: list[Span], incidents: list[Incident]) -> list[tuple[int, int]]:
    intervals = [
        (rebalance.began_ms, past.last_ms if rebalance.ended_ms is None else rebalance.ended_ms)
        for rebalance in past.rebalances
    ]
    intervals += [
        (c.ts_ms, c.answered_ms or c.ts_ms) for c in past.calls if is_trouble(c) or (c.took_ms or 0) >= SLOW_MS
    ]
    for span in spans:
        intervals.append((span.from_ms, span.from_ms))
        intervals += [(span.to_ms, span.to_ms)] if span.to_ms is not None else []
    intervals += [
        (transaction.begun_ms, transaction.completed_ms or past.last_ms)
        for transaction in past.transactions
        if transaction.begun_ms is not None
    ]
    return (
        intervals
        + [(event.ts_ms, event.ts_ms) for event in incidents]
        + [(event.ts_ms, event.ts_ms) for event in past.replacements]
        + [(since, since) for since, _, _ in past.epochs]
    )


# --- bands ----------------------------------------------------------------------------------------------------------------


def _bands(past: History, from_ms: int) -> list[Band]:
    bands = [*_without_rebalance(past), *_epochs(past)]
    dead = [ts_ms for ts_ms, state, _ in past.states if state == DEAD]
    for position, rebalance in enumerate(past.rebalances):
        following = past.rebalances[position + 1].began_ms if position + 1 < len(past.rebalances) else past.last_ms
        following = min([following, *(ts_ms for ts_ms in dead if ts_ms > rebalance.began_ms)])
        ended = following if rebalance.ended_ms is None else min(rebalance.ended_ms, following)
        closed = ended if rebalance.closed_ms is None else rebalance.closed_ms
        rest = {"stable": STABLE, "empty": EMPTY, "failed": "failed", "": "open"}.get(rebalance.end, DEAD)
        number = rebalance.generation if rebalance.generation is not None else rebalance.generation_before + 1
        label = "" if rebalance.generation is None else str(rebalance.generation)
        bands.append(Band(label, rebalance.began_ms, max(following, ended), closed, ended, rest, number, rebalance))
    return sorted((band for band in bands if band.to_ms >= from_ms), key=lambda band: band.from_ms)


def _epochs(past: History) -> list[Band]:
    """Bands of the epochs of an epoch-based group: assigning, then reconciling, then Stable, in the places of a rebalance's phases."""
    bands = []
    for epoch, changes in groupby(past.epochs, key=lambda change: change[2]):
        states = list(changes)
        after = next((ts_ms for ts_ms, _, later in past.epochs if later > epoch), past.last_ms)
        closed = next((ts_ms for ts_ms, state, _ in states if state != "Assigning"), after)
        ended, rest = next(((ts_ms, state) for ts_ms, state, _ in states if state in (STABLE, EMPTY)), (after, "open"))
        if epoch > 0:
            closed = min(closed, ended)
            words = _epoch_words(epoch, states[0][0], closed, ended, rest)
            bands.append(Band(str(epoch), states[0][0], after, closed, ended, rest, epoch, words=words))
    return bands


def _epoch_words(epoch: int, from_ms: int, closed_ms: int, ended_ms: int, rest: str) -> str:
    phases = [("assigning", closed_ms - from_ms), ("reconciling", ended_ms - closed_ms)]
    parts = [f"{what} for {duration_text(ms)}" for what, ms in phases if ms > 0]
    parts.append("never Stable" if rest == "open" else f"{'then' if parts else 'at once'} {rest}")
    return f"{clock(from_ms)}  epoch {epoch}: {', '.join(parts)}"


def _without_rebalance(past: History) -> list[Band]:
    """Generations that were there when the journal began, or that a coordinator found in its log."""
    ended = {rebalance.ended_ms for rebalance in past.rebalances}
    bands = []
    for (start, state, generation), following in zip(past.states, [*past.states[1:], None], strict=False):
        if state == STABLE and start not in ended:
            end = past.last_ms if following is None else following[0]
            bands.append(Band(str(generation), start, end, start, start, STABLE, generation))
    return bands


# --- lanes ----------------------------------------------------------------------------------------------------------------


def _lanes(past: History) -> list[Lane]:
    lanes: list[Lane] = []
    free: dict[tuple[str, str], list[Lane]] = defaultdict(list)
    of_member: dict[str, Lane] = {}
    for info in sorted(past.members.values(), key=lambda info: info.first_ms):
        base = (info.instance or info.client_id, info.instance or info.client_host)
        until = past.last_ms if info.last_ms is None else info.last_ms
        lane = next(
            (candidate for candidate in free[base] if info.instance or candidate.present[-1][1] <= info.first_ms), None
        )
        if lane is None:
            detail = " at ".join(part for part in (info.client_id, info.client_host) if part)
            lane = Lane(past.name(info.member), detail, [])
            lanes.append(lane)
            free[base].append(lane)
        elif not info.instance:
            lane.name = past.hosts.get(info.client_host) or info.client_id or lane.name
        lane.members.append(info.member)
        lane.present.append((info.first_ms, until))
        of_member[info.member] = lane
        lane.leads = lane.leads or (past.now is not None and past.now.leader == info.member)
    for call in past.calls:
        lane = of_member.get(call.member)
        if lane is not None:
            _draw_call(past, lane, call)
    _draw_ends(past, of_member)
    _draw_client_events(past, lanes)
    for member, holdings in past.holdings.items():
        if member in of_member:
            _draw_holdings(past, of_member[member], holdings)
    _draw_locks(past, of_member)
    return lanes


def _draw_holdings(past: History, lane: Lane, holdings: list[Holding]) -> None:
    """Draw the partitions or tasks that a member of an epoch-based group has, is to give up, or waits for."""
    for holding in holdings:
        words = holding_words(lane.name, holding.has, holding.revoking, holding.missing)
        kind = "revoking" if holding.revoking else "awaiting" if holding.missing else "owned"
        to_ms = past.last_ms if holding.to_ms is None else holding.to_ms
        lane.bars.append(Mark(kind, holding.from_ms, f"{clock(holding.from_ms)}  {words}", to_ms))


def _draw_locks(past: History, of_member: dict[str, Lane]) -> None:
    """Draw deliveries to members of a share group: a bar from a delivery to its end for records with equal times, count and outcome."""
    for member, logs in () if past.deliveries is None else past.deliveries.by_member().items():
        lane = of_member.get(member)
        if lane is None:
            continue
        for log, rows in logs.items():
            for (since, until, end, nth, becomes), same in groupby(rows, key=_fate_of):
                offsets = [offset for offset, _ in same]
                what = f"{log} {offsets[0]}" + (f" to {offsets[-1]}" if len(offsets) > 1 else "")
                ends = end if becomes != "archived" or end == "rejected" else f"{end}, archived"
                words = f"{clock(since)}  {lane.name} has {what}" + (f", delivered {times(nth)}" if nth > 1 else "")
                words += f": {ends}" if end else ""
                lane.present.append((since, past.last_ms if until is None else until))
                kind = "redelivered" if nth > 1 else "lock"
                lane.bars.append(Mark(kind, since, words, past.last_ms if until is None else until))
                if until is not None and end in ("expired", "session closed", "rejected", "released"):
                    mark = "unlocked" if end in ("released", "rejected") else "expired"
                    lane.marks.append(Mark("archived" if becomes in _GIVEN_UP else mark, until, words))


_GIVEN_UP = ("archived", "archiving")


def _fate_of(row: tuple[int, RecordDelivery]) -> tuple[int, int | None, str, int, str]:
    """Start, end, reason of the end and number of a record's delivery, and the record's state after it."""
    delivery = row[1]
    return delivery.ts_ms, delivery.ended_ms, delivery.end, delivery.count, delivery.becomes


MOST_TRANSACTION_LANES = 8


def _transaction_lanes(past: History, from_ms: int) -> list[Lane]:
    """A lane for each transactional id: while a transaction is open, and while its markers are pending."""
    lanes: dict[str, Lane] = {}
    for transaction in past.transactions:
        if transaction.transactional_id not in lanes and len(lanes) == MOST_TRANSACTION_LANES:
            continue
        lane = lanes.setdefault(
            transaction.transactional_id,
            Lane(transaction.transactional_id, f"transactional id on {transaction.log}", []),
        )
        words = transaction_text(transaction, past.last_ms)
        begun_ms = max(from_ms, past.first_ms if transaction.begun_ms is None else transaction.begun_ms)
        decided_ms = past.last_ms if transaction.decided_ms is None else transaction.decided_ms
        over_ms = past.last_ms if transaction.completed_ms is None else transaction.completed_ms
        lane.present.append((begun_ms, over_ms))
        lane.bars.append(Mark("open", begun_ms, words, decided_ms))
        if transaction.decided_ms is not None:
            lane.bars.append(Mark("marking", decided_ms, words, over_ms))
        if transaction.result == "commit" and transaction.over:
            lane.commits.append(over_ms)
        elif transaction.result:
            lane.marks.append(
                Mark("left" if transaction.result in ("commit", "abort") else "removed", decided_ms, words)
            )
    for run in request_runs(past.transaction_requests):
        lane_of_id = lanes.get(run[0].transactional_id)
        if lane_of_id is not None:
            at_ms = run[0].call.answered_ms or run[0].call.ts_ms
            lane_of_id.marks.append(Mark("trouble", at_ms, f"{clock(at_ms)}  {run_text(run, past.last_ms)}"))
    return list(lanes.values())


def _stable_offset_span(blocked: BlockedStableOffset) -> Span:
    who = (
        blocked.transaction.transactional_id
        if blocked.transaction is not None
        else f"producer {blocked.producer_id}, hanging"
    )
    label = f"read_committed blocked at {blocked.offset} by {who}"
    return Span("blocked", label, blocked.from_ms, blocked.to_ms, key=blocked.log, order=blocked.order)


def _draw_call(past: History, lane: Lane, call: Call) -> None:
    answered = call.answered_ms
    words = f"{clock(call.ts_ms)}  {call_words(past, call)}" + (f" [fault: {call.faults[-1]}]" if call.faults else "")
    if call.api in PARKING:
        to_ms = answered if answered is not None else past.last_ms
        lane.bars.append(Mark("join" if call.api == "JoinGroup" else "sync", call.ts_ms, words, to_ms, call))
    elif call.api == "LeaveGroup" and not call.failed:
        info = past.members.get(call.member)
        itself = info is None or not (info.client_id and call.client_id) or info.client_id == call.client_id
        lane.marks.append(Mark("left" if itself else "removed", call.ts_ms, words, answered, call))
    elif call.api in COMMITS and not call.failed and answered is not None and (call.took_ms or 0) < SLOW_MS:
        lane.commits.append(answered)
    elif call.api in COMMITS:
        kind = "failed" if call.failed else "unanswered" if answered is None else "slow"
        lane.marks.append(Mark(kind, call.ts_ms, words, answered, call))
    elif call.api == "Heartbeat" and call.error == "REBALANCE_IN_PROGRESS":
        lane.marks.append(Mark("heartbeat", answered or call.ts_ms, words, None, call))
    elif is_trouble(call):
        lane.marks.append(Mark("trouble", call.ts_ms, words, answered, call))
    elif answered is not None and (call.took_ms or 0) >= SLOW_MS:
        lane.marks.append(Mark("slow", call.ts_ms, words, answered, call))
    if call.faults:
        lane.marks.append(Mark("fault", call.ts_ms, words, None, call))


def _draw_ends(past: History, of_member: dict[str, Lane]) -> None:
    for rebalance in past.rebalances:
        causes = {name: cause for cause in (rebalance.cause, *rebalance.also) for name in cause.members}
        for removal in rebalance.removals:
            lane = of_member.get(removal.member)
            cause = causes.get(removal.member)
            by_handle = cause is not None and cause.by == HANDLE
            if lane is None or (removal.why == "left" and not by_handle):  # else it has the mark of its request
                continue
            why = because(past, cause) if cause is not None else f"{past.name(removal.member)} was removed"
            if removal.why == "rebalance_timeout":
                why = f"{past.name(removal.member)} did not rejoin within the rebalance timeout and was removed"
            lane.marks.append(Mark("removed", removal.ts_ms, f"{clock(removal.ts_ms)}  {why}"))
    for replacement in past.replacements:
        lane = of_member.get(replacement.new)
        if lane is not None:
            words = f"{clock(replacement.ts_ms)}  {replacement.instance} rejoined with a new member id"
            lane.marks.append(Mark("replaced", replacement.ts_ms, words))


def _draw_client_events(past: History, lanes: list[Lane]) -> None:
    by_client = {past.members[name].client_id: lane for lane in lanes for name in lane.members}
    by_client |= {past.members[name].instance or "": lane for lane in lanes for name in lane.members}
    for incident in past.incidents:
        if incident.kind == "client" and incident.client in by_client:
            by_client[incident.client].marks.append(
                Mark("client_error", incident.ts_ms, f"{clock(incident.ts_ms)}  {incident_words(incident)}")
            )


def _folded(past: History, lanes: list[Lane], most: int) -> list[Lane]:
    """At most ``most`` lanes, in the order in which the members came."""
    most = max(most, 2)
    if len(lanes) <= most:
        return lanes
    held_up = {arrival.member for rebalance in past.rebalances if (arrival := rebalance.last_arrival) is not None}
    leaders = {rebalance.leader for rebalance in past.rebalances}

    def interest(lane: Lane) -> int:
        bad = sum(
            mark.kind in ("removed", "failed", "trouble", "fault", "unanswered", "expired", "archived")
            for mark in lane.marks
        )
        members = set(lane.members)
        return 1000 * lane.leads + 20 * min(bad, 20) + 10 * bool(members & held_up) + 5 * bool(members & leaders)

    ranked = sorted(lanes, key=interest, reverse=True)[: most - 1]
    kept = {id(lane) for position, lane in enumerate(ranked) if position < PLAIN_LANES or interest(lane)}
    rest = [lane for lane in lanes if id(lane) not in kept]
    fold = Lane(f"{len(rest)} more", "folded", [name for lane in rest for name in lane.members], folded=len(rest))
    fold.present = [span for lane in rest for span in lane.present]
    fold.commits = sorted(ts_ms for lane in rest for ts_ms in lane.commits)
    fold.bars = _in_order(mark for lane in rest for mark in lane.bars)
    fold.marks = _in_order(mark for lane in rest for mark in lane.marks)
    return [lane for lane in lanes if id(lane) in kept] + [fold]


def _in_order(marks: Iterable[Mark]) -> list[Mark]:
    return sorted(marks, key=lambda mark: mark.ts_ms)
