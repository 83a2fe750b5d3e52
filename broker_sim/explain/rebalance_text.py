"""One rebalance, or a series of them, in sentences."""

from __future__ import annotations

from collections import Counter

from broker_sim.common.text import clock, duration_text
from broker_sim.explain.commit_text import commit_words, commits_between
from broker_sim.explain.events import Call
from broker_sim.explain.holdups import chief, holdups, in_words
from broker_sim.explain.model import Arrival, History, Rebalance, RebalanceSeries, Removal, commits_of
from broker_sim.explain.phrases import (
    after,
    because,
    count,
    fault_words,
    joined,
    late_to_rejoin,
    listed,
    member,
    quoted,
    span_words,
    times,
)
from broker_sim.explain.rebalances import DEAD

__all__ = ["life_of", "rebalance_text", "series_text"]

FEW = 3
"""So many members are described one by one."""
LONG_WAIT_MS = 3000
"""Longer waits are described with their reason."""
SAME_MS = 20
"""Arrivals nearer to each other than this are described as one."""


def rebalance_text(past: History, rebalance: Rebalance, *, dated: bool = True) -> str:
    """Paragraph about a rebalance: why it began (``dated``: and when), who held it up, how it ended."""
    sentences = [_beginning(past, rebalance, dated), *_window(past, rebalance), *_assignment(past, rebalance)]
    sentences += [
        _ending(past, rebalance),
        *_delayed(rebalance),
        _longest_wait(past, rebalance),
        *_meanwhile(past, rebalance),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def title(rebalance: Rebalance) -> str:
    """``Generation 7``, or what there is of it."""
    if rebalance.generation is not None:
        return f"Generation {rebalance.generation}"
    return f"The rebalance after generation {rebalance.generation_before}"


def _beginning(past: History, rebalance: Rebalance, dated: bool) -> str:
    if not rebalance.whole:
        return f"{title(rebalance)} had begun before the journal, which starts at {clock(rebalance.began_ms)}."
    why = because(past, rebalance.cause, generation=rebalance.generation_before)
    words = f"{title(rebalance)} began" + (f" at {clock(rebalance.began_ms)}" if dated else "")
    return f"{words} because {why}." if why else f"{words}; the journal does not have the cause."


# --- the window -----------------------------------------------------------------------------------------------------------


def _window(past: History, rebalance: Rebalance) -> list[str]:
    sentences = []
    late = [arrival for arrival in rebalance.arrivals.values() if arrival.member not in rebalance.cause.members]
    late.sort(key=lambda arrival: arrival.ts_ms)
    clauses = _arrivals(past, rebalance, late)
    clauses += _leavers(past, rebalance)
    clauses += [_removed(past, rebalance, removal) for removal in _other_removals(rebalance)[:FEW]]
    more = len(_other_removals(rebalance)) - FEW
    if more > 0:
        clauses.append(f"{more} more members were removed")
    if rebalance.closed_ms is not None and late and not rebalance.from_empty and not _other_removals(rebalance):
        clauses.append("no other member was removed" if rebalance.removals else "no member was removed")
    if clauses:
        sentences.append(_sentence("; ".join(clauses)))
    sentences += _cut_joins(past, rebalance)
    for pending, held_ms in rebalance.pending_waits_ms.items():
        if held_ms >= 50:
            sentences.append(
                f"All members had joined, but the rebalance waited {duration_text(held_ms)} for {member(past, pending)}, "
                "which had got a member id and not joined with it."
            )
    if rebalance.silent_static:
        names = listed(past, rebalance.silent_static)
        several = len(rebalance.silent_static) > 1
        sentences.append(
            f"{names} did not join: {'static members keep their places' if several else 'a static member keeps its place'} "
            f"until {'their sessions expire' if several else 'its session expires'}."
        )
    sentences.append(_closing(rebalance))
    if rebalance.closed_ms is None and rebalance.end == "":
        missing = [member for member in rebalance.expected if past.now is not None and member in past.now.members]
        missing = [member for member in missing if member not in rebalance.arrivals]
        if missing:
            sentences.append(f"It waits for {listed(past, missing)} to join again.")
        elif past.now is not None and past.now.pending:
            have = "have" if len(past.now.pending) > 1 else "has"
            who = listed(past, past.now.pending)
            sentences.append(f"It waits for {who}, which {have} got a member id and not joined with it.")
    return sentences


OPENINGS = ("no ", "the ", "meanwhile ", "so were ")
"""Clauses that begin with a word; the others begin with a member's name, which stays as it is."""


def _sentence(words: str) -> str:
    return (words[:1].upper() + words[1:] if words.startswith(OPENINGS) else words) + "."


def _arrivals(past: History, rebalance: Rebalance, late: list[Arrival]) -> list[str]:
    if not late:
        return []
    began = rebalance.began_ms
    verb = {True: "rejoined", False: "joined"}
    together = _together(past, rebalance, late)
    if together:
        return [together]
    if len(late) <= FEW:
        clauses = [_arrival(past, rebalance, arrival, verb[arrival.member in rebalance.expected]) for arrival in late]
        if len(late) > 1:
            last = late[-1]
            prompted = (
                f" (its {last.prompted_by} got REBALANCE_IN_PROGRESS {after((last.prompted_ms or 0) - began)})"
                if last.prompted_by
                else ""
            )
            clauses[-1] = f"{past.name(last.member)} was the last, {after(last.ts_ms - began)}{prompted}"
        return clauses
    rejoined = sum(arrival.member in rebalance.expected for arrival in late)
    what = "rejoined" if rejoined == len(late) else "joined" if not rejoined else f"joined, {rejoined} of them again"
    half, last = late[(len(late) - 1) // 2], late[-1]
    clauses = [f"{len(late)} members {what}, half of them within {duration_text(half.ts_ms - began)}"]
    prompted = (
        f", whose {last.prompted_by} got REBALANCE_IN_PROGRESS after {duration_text(last.prompted_ms - began)}"
        if last.prompted_ms is not None
        else ""
    )
    clauses.append(f"{past.name(last.member)} was the last, {after(last.ts_ms - began)}{prompted}")
    return clauses


def _arrival(past: History, rebalance: Rebalance, arrival: Arrival, verb: str) -> str:
    name, began = past.name(arrival.member), rebalance.began_ms
    if arrival.prompted_ms is None or arrival.prompted_by is None:
        return f"{name} {verb} {after(arrival.ts_ms - began)}"
    since = arrival.ts_ms - arrival.prompted_ms
    then = f"{verb} {duration_text(since)} later" if since >= 3 else f"{verb} at once"
    return f"{name} got REBALANCE_IN_PROGRESS for its {arrival.prompted_by} {after(arrival.prompted_ms - began)} and {then}"


def _together(past: History, rebalance: Rebalance, late: list[Arrival]) -> str:
    """Members that learned of it in the same way and came at the same time: a clause for all."""
    first, last = late[0], late[-1]
    same = {(arrival.prompted_by, arrival.member in rebalance.expected) for arrival in late}
    if len(late) < 2 or len(same) > 1 or last.ts_ms - first.ts_ms > SAME_MS:
        return ""
    who, verb = (
        listed(past, (arrival.member for arrival in late)),
        "rejoined" if first.member in rebalance.expected else "joined",
    )
    if first.prompted_ms is None:
        return f"{who} {verb} {after(last.ts_ms - rebalance.began_ms)}"
    since = last.ts_ms - first.prompted_ms
    then = f"{verb} {duration_text(since)} later" if since >= 3 else f"{verb} at once"
    return f"{who} got REBALANCE_IN_PROGRESS for their {first.prompted_by}s {after(first.prompted_ms - rebalance.began_ms)} and {then}"


def _cut_joins(past: History, rebalance: Rebalance) -> list[str]:
    """JoinGroups that did not wait for the window's end."""
    joins = Counter((call.member, call.outcome, _rounded(call) + fault_words(call)) for call in rebalance.cut_joins)
    clauses = [
        f"the deferred JoinGroup of {past.name(who)} was answered {outcome} {took}{f' {times(number)}' if number > 1 else ''}"
        for (who, outcome, took), number in joins.most_common(FEW)
    ]
    if len(joins) > FEW:
        clauses.append(f"so were those of {len(joins) - FEW} more")
    return [_sentence("; ".join(clauses))] if clauses else []


def _leavers(past: History, rebalance: Rebalance) -> list[str]:
    """Members that left or expired during the join phase; `_arrivals` has those that joined."""
    began = rebalance.began_ms
    left = [cause for cause in rebalance.also if cause.kind == "left" and not cause.by]
    others = [
        cause
        for cause in rebalance.also
        if cause.kind in ("session_expired", "replaced") or (cause.kind == "left" and cause.by)
    ]
    clauses = [f"meanwhile {because(past, cause)} ({after(cause.ts_ms - began)})" for cause in others]
    expired = [member for cause in others if cause.kind == "session_expired" for member in cause.members]
    if len(others) > 1 and len(expired) == len(others):
        clauses = [
            f"meanwhile the sessions of {listed(past, expired)} also expired ({after(others[-1].ts_ms - began)})"
        ]
    elif len(clauses) > FEW:
        clauses = [*clauses[:FEW], f"{len(others) - FEW} more members expired or rejoined with a new member id"]
    leavers = [member for cause in left for member in cause.members]
    if leavers:
        reasons = list(dict.fromkeys(cause.reason for cause in left if cause.reason))
        reason = f" (reason: {quoted(reasons[0])})" if len(reasons) == 1 else ""
        clauses.append(f"{listed(past, leavers)} also left{reason}, {after(left[-1].ts_ms - began)}")
    return clauses


def _other_removals(rebalance: Rebalance) -> list[Removal]:
    """Removals that are neither the cause nor among the causes of the join phase."""
    explained = set(rebalance.cause.members).union(*(cause.members for cause in rebalance.also))
    return [removal for removal in rebalance.removals if removal.member not in explained]


def _removed(past: History, rebalance: Rebalance, removal: Removal) -> str:
    name = member(past, removal.member)
    if removal.why == "rebalance_timeout":
        limit = duration_text(removal.ts_ms - rebalance.began_ms)
        words = f"{name} did not rejoin within the rebalance timeout ({limit}) and was removed"
        return words + _seen_of(past, rebalance, removal)
    if removal.why == "max_size_reached":
        return f"{name} was removed: the group is as large as group.max.size allows"
    return f"{name} was removed"


def _seen_of(past: History, rebalance: Rebalance, removal: Removal) -> str:
    """Clause about the requests of a member that did not rejoin, and their possible reasons: no broker sees what its process did."""
    calls = [call for call in removal.calls if call.api != "SyncGroup"]  # of the generation before, in the same ms
    beats = [call for call in calls if call.api == "Heartbeat"]
    refused = [call for call in calls if call.api in ("OffsetCommit", "TxnOffsetCommit") and call.failed]
    if not calls:
        return "; no request of it arrived meanwhile"
    arrived = [count(len(beats), "heartbeat")] if beats else []
    arrived += _refused_commits(past, removal, refused)
    others = Counter(call.api for call in calls if call not in beats and call not in refused)
    arrived += [f"{number} {api}" for api, number in others.most_common(FEW)]
    words = f"; meanwhile {joined(arrived)} of it arrived, and no JoinGroup"
    if removal.member in rebalance.prompted:
        at_ms, by = rebalance.prompted[removal.member]
        prompted = f", though its {by} was answered REBALANCE_IN_PROGRESS {after(at_ms - rebalance.began_ms)}"
        return (
            f"{words}{prompted}: {late_to_rejoin(retries=bool(refused), protocol_type=rebalance.cause.protocol_type)}"
        )
    answers = Counter(call.outcome for call in beats if call.outcome != "NONE")
    if not answers:
        return words
    its = f"its {len(beats)} heartbeats were" if len(beats) > 1 else "its heartbeat was"
    return f"; it never got REBALANCE_IN_PROGRESS: {its} answered {joined([outcome for outcome, _ in answers.most_common(FEW)])}"


def _refused_commits(past: History, removal: Removal, refused: list[Call]) -> list[str]:
    if not refused:
        return []
    kinds = Counter(call.outcome for call in refused)
    topics = dict.fromkeys(row.topic for call in refused for row in call.rows if row.error)
    deleted = [
        f"{topic} was deleted at {clock(removal.deleted[topic])}" for topic in topics if topic in removal.deleted
    ]
    parts = [*(f"{outcome} {times(number)}" for outcome, number in kinds.most_common(FEW)), *deleted]
    return [f"{count(len(refused), 'refused commit')} ({'; '.join(parts)})"]


def _closing(rebalance: Rebalance) -> str:
    if rebalance.closed_ms is None or not rebalance.whole:
        return ""
    lasted = rebalance.closed_ms - rebalance.began_ms
    if rebalance.from_empty and rebalance.closed_by == "timer":
        prolonged = max(rebalance.timer_fired - 1, 0)
        words = f"The join phase ended {after(lasted)} with the initial rebalance delay"
        return f"{words}, prolonged {times(prolonged)} for late joiners." if prolonged else f"{words}."
    if rebalance.closed_by == "timer" and not any(removal.why == "rebalance_timeout" for removal in rebalance.removals):
        return f"The join phase ended {after(lasted)} with the rebalance timeout."
    return ""


# --- the assignment -------------------------------------------------------------------------------------------------------


def _assignment(past: History, rebalance: Rebalance) -> list[str]:
    if rebalance.closed_ms is None or rebalance.leader is None or rebalance.end == "empty":
        return []
    leader, sync = past.name(rebalance.leader), rebalance.leader_sync
    if sync is None:
        if rebalance.end in ("", "failed", "moved"):
            verb = "has not sent" if rebalance.end == "" else "never sent"
            gone = rebalance.leader in rebalance.disconnected
            why = "; its connection had been closed without a LeaveGroup" if gone else ""
            return [f"The leader {leader} {verb} the assignment{why}."]
        return []
    words = f"The leader {leader} sent the assignment {after(sync.ts_ms - rebalance.closed_ms)}"
    if sync.faults:
        words += f", and a fault hit it ({sync.faults[-1]})"
    if rebalance.end == "stable" and rebalance.ended_ms is not None:
        return [f"{words}; it was stored {after(rebalance.ended_ms - sync.ts_ms)}."]
    if rebalance.end == "":
        held = rebalance.appended_ms is not None and not rebalance.append_committed
        return [words + ("; it is appended, but not committed." if held else ".")]
    if rebalance.ended_by is not None and rebalance.ended_by.kind == "append_failed":
        return [f"{words}; {_not_stored(rebalance, sync)}."]
    return [f"{words}."]


def _delayed(rebalance: Rebalance) -> list[str]:
    if not rebalance.delay_ms:
        return []
    words = f"The leader delays its next assignment by {duration_text(rebalance.delay_ms)}: until then the connectors and tasks of lost"
    return [f"{words} workers wait for their return (scheduled.rebalance.max.delay.ms)."]


def _not_stored(rebalance: Rebalance, sync: Call) -> str:
    states = list(
        dict.fromkeys(
            f"{condition.key} was {condition.label}" for condition in rebalance.conditions if condition.kind == "state"
        )
    )
    error = rebalance.append_error or (rebalance.ended_by.error if rebalance.ended_by is not None else None)
    words = "it was not stored" + (f" ({error})" if error else "") + (f" because {joined(states)}" if states else "")
    return words + (f", and its SyncGroup was answered {sync.error} {after(sync.took_ms)}" if sync.error else "")


# --- the end --------------------------------------------------------------------------------------------------------------


def _ending(past: History, rebalance: Rebalance) -> str:
    ended = rebalance.ended_ms
    lasted = None if ended is None else ended - rebalance.began_ms
    if rebalance.end == "stable":
        again = "" if rebalance.from_empty else " again"
        size = f" with {count(len(rebalance.members), 'member')}" if rebalance.from_empty else ""
        return f"Stable{again} {after(lasted)}{size}."
    if rebalance.end == "empty":
        return "The group has been Empty since then." if not lasted else f"The group was Empty {after(lasted)}."
    if rebalance.end == "dead":
        return f"The group became Dead {after(lasted)}."
    if rebalance.end == "moved":
        return f"It ended {after(lasted)} because the coordinator was unloaded."
    if rebalance.end == "failed":
        return _failure(past, rebalance)
    return f"It has not ended after {duration_text(past.last_ms - rebalance.began_ms)}."


def failure_reason(past: History, rebalance: Rebalance) -> str:
    """Reason why a rebalance never became Stable: a clause that is the same for the same reason."""
    sync = rebalance.leader_sync
    stored_late = rebalance.ended_by is not None and rebalance.ended_by.kind == "append_failed"
    states = [span for span in rebalance.conditions if span.kind == "state"]
    if stored_late and sync is not None and sync.error is not None:
        why = (
            f" because {joined(list(dict.fromkeys(f'{span.key} was {span.label}' for span in states)))}"
            if states
            else ""
        )
        return f"the SyncGroup of the leader was answered {sync.error} {_rounded(sync)}{why}"
    if stored_late:
        return "the assignment could not be stored"
    if rebalance.ended_by is not None:
        kind = rebalance.ended_by.kind
        topics = rebalance.ended_by.added_topics or rebalance.ended_by.lost_topics
        other = "another subscription" if topics else "other metadata"
        what = {
            "joined": "another member joined before the assignment was stored",
            "left": "a member left before the assignment was stored",
            "session_expired": "a member's session expired before the assignment was stored",
            "metadata_changed": f"a member joined with {other} before the assignment was stored",
            "replaced": "a static member rejoined before the assignment was stored",
            "sync_timeout": "members sent no SyncGroup within the rebalance timeout",
        }.get(kind)
        if what is not None:
            return what
    return "it began again before the assignment was stored"


def _rounded(call: Call) -> str:
    """After how long, so that 4998 ms and 5003 ms are the same."""
    took = call.took_ms
    return "at once" if took is None or took < 50 else f"after {duration_text(round(took, -2))}"


def _failure(past: History, rebalance: Rebalance) -> str:
    cause = rebalance.ended_by
    began_again = f"The group began again {after((rebalance.ended_ms or 0) - rebalance.began_ms)}"
    if cause is not None and cause.kind == "append_failed" and rebalance.leader_sync is not None:
        return f"{began_again}."
    why = "" if cause is None else because(past, cause, generation=rebalance.generation)
    return began_again + (f", before it was Stable, because {why}." if why else ", before it was Stable.")


def _longest_wait(past: History, rebalance: Rebalance) -> str:
    """Sentences about long waits: for expired sessions, if they are the longest, and for members that had disconnected."""
    waits = holdups(rebalance)
    dead = [held for held in waits if held.members and set(held.members) <= set(held.closed)]
    held = chief(waits)
    if held is not None and held.what == "session":
        dead = [held, *(other for other in dead if other.what != "session")]
    words = [
        f"{duration_text(wait.ms)} it waited"
        f" {in_words(wait.what, listed(past, wait.members), len(wait.members) > 1, set(wait.members) <= set(wait.closed))}"
        for wait in dead
        if wait.ms >= LONG_WAIT_MS
    ]
    return " ".join(f"For {clause}." for clause in words)


def _meanwhile(past: History, rebalance: Rebalance) -> list[str]:
    sentences = []
    on = [span_words(past, span, past.last_ms) for span in rebalance.conditions[:FEW]]
    if on:
        sentences.append(f"Meanwhile {joined(on)}.")
    if rebalance.faults:
        hit = Counter((call.api, call.faults[-1]) for call in rebalance.faults if call.faults)
        words = [f"{api} {times(number)} ({verdict})" for (api, verdict), number in hit.most_common(FEW)]
        sentences.append(f"Faults hit {joined(words)}.")
    return sentences + commits_between(past, rebalance.began_ms, rebalance.ended_ms)


def life_of(past: History, rebalance: Rebalance) -> str:
    """Sentences about a generation that became Stable: how long it was, its commits, and requests that failed."""
    if rebalance.end != "stable" or rebalance.ended_ms is None:
        return ""
    following = rebalance.following
    until = past.last_ms if following is None else following.began_ms
    calls = past.calls_between(rebalance.ended_ms, None if following is None else until)
    dead_ms = next((ts_ms for ts_ms, state, _ in past.states if state == DEAD and ts_ms >= rebalance.ended_ms), None)
    lasted = f"Stable for {duration_text(until - rebalance.ended_ms)}"
    if dead_ms is not None and dead_ms <= until:
        words = [
            f"It was Stable for {duration_text(dead_ms - rebalance.ended_ms)}, until {_end_of_group(past, dead_ms)}."
        ]
    elif following is None:
        words = [f"It has been {lasted}."]
    else:
        words = [f"It was {lasted}, until {clock(until)}."]
    words += commit_words(past, commits_of(calls))
    errors = Counter(
        (call.api, call.outcome + fault_words(call))
        for call in calls
        if call.failed and call.api not in ("OffsetCommit", "TxnOffsetCommit", "JoinGroup")
    )
    if errors:
        parts = [f"{api} {error} {times(number)}" for (api, error), number in errors.most_common(FEW)]
        words.append(f"Errors besides: {joined(parts)}.")
    return " ".join(words)


def _end_of_group(past: History, ts_ms: int) -> str:
    """End of the group at this time: deleted, converted to the other protocol, or unloaded from this coordinator."""
    ends = (incident.text for incident in past.incidents if incident.kind == "deleted" and incident.ts_ms == ts_ms)
    return next(ends, "its coordinator was unloaded")


def series_text(past: History, stretch: RebalanceSeries) -> str:
    """``Rebalanced 8 times between .. and .. without becoming Stable: every time ..``"""
    run, last = stretch.rebalances, stretch.last
    lasted = duration_text((stretch.to_ms or past.last_ms) - stretch.from_ms)
    when = f"since {clock(stretch.from_ms)}"
    if stretch.to_ms is not None:
        when = f"between {clock(stretch.from_ms)} and {clock(stretch.to_ms)}"
    words = [f"Rebalanced {times(len(run))} {when} ({lasted}) {unstable(stretch)}: {_reasons(past, stretch)}."]
    cause = because(past, run[0].cause, generation=run[0].generation_before)
    if cause:
        words.append(f"It had begun because {cause}.")
    if last is not None and last.end == "stable":
        healed = [
            span
            for span in run[0].conditions
            if span.to_ms is not None and last.began_ms - 6000 <= span.to_ms <= (stretch.to_ms or 0)
        ]
        ends = [
            f"{span.key or span.label} was healed at {clock(span.to_ms)}" for span in healed if span.to_ms is not None
        ]
        stays = "became Stable" if stretch.stable_ms is None else "stayed Stable"
        words.append(f"Generation {last.generation} {stays}" + (f" after {joined(ends)}." if ends else "."))
    elif last is not None and last.end == "empty":
        words.append("Then the group was Empty.")
    ends_ms = last.began_ms if last is not None and last.end == "stable" else None
    words += commits_between(past, stretch.from_ms, ends_ms)
    return " ".join(words)


def unstable(stretch: RebalanceSeries) -> str:
    if stretch.stable_ms is None:
        return "without becoming Stable"
    return f"without being Stable for longer than {duration_text(stretch.stable_ms)}"


def _reasons(past: History, stretch: RebalanceSeries) -> str:
    """Reasons why the rebalances failed; if some became Stable, why the next ones began."""
    run, last = stretch.rebalances, stretch.last
    if stretch.stable_ms is None:
        reasons = Counter(failure_reason(past, rebalance) for rebalance in run)
    else:
        following = [*run[1:], *([last] if last is not None else [])]
        causes = (
            because(past, rebalance.cause, generation=rebalance.generation_before, brief=True)
            for rebalance in following
        )
        reasons = Counter(
            f"because {cause}" if cause else "for a reason that the journal does not have" for cause in causes
        )
    if len(reasons) == 1:
        return f"every time {next(iter(reasons))}"
    most = reasons.most_common(FEW)
    rest = sum(reasons.values()) - sum(number for _, number in most)
    return "; ".join(
        [
            *(f"{times(number)} {reason}" for reason, number in most),
            *([f"{times(rest)} for other reasons"] if rest else []),
        ]
    )
