"""Findings about rebalances that took long, with what held them up and their effects: offsets do not advance, and the lag grows.

Rules:
1. Rebalances that follow each other without a Stable group between them are one: a member that died in the completing phase lets
   the next one begin.
2. What follows from such a rebalance is in its finding, and no finding of its own: offsets that did not advance, the lag that grew,
   sessions of members that held it.
3. A member whose connection was closed without a LeaveGroup is dead: nothing about its application can be seen, or advised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker_sim.common.text import duration_text
from broker_sim.explain.holdups import PERHAPS_ALIVE, dead_in_words, in_words
from broker_sim.explain.holdups import advice as advice_about
from broker_sim.explain.phrases import count, is_other, joined
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import LAGS, LONG_MS, NOTED_MS, Finding, by_group, certainty_of
from broker_sim.pipeline.phrases import (
    LATE_ASSIGNMENT,
    are_static,
    cause,
    lines_of,
    named,
    records_of,
    short_member,
    when,
)
from broker_sim.pipeline.streams_findings import late_revocation

__all__ = ["ABOUT_REBALANCES", "dead_members", "in_stuck", "is_rebalancing", "lag_grew", "rebalancing_ms"]


def in_stuck(facts: ReportFacts, group: str, at_ms: int) -> bool:
    """Whether a group could not commit at that moment, since its offsets partition was stuck."""
    return any(
        group in (row["groups"] or ()) and row["from_ms"] <= at_ms and (row["to_ms"] is None or at_ms <= row["to_ms"])
        for row in facts.stuck
    )


# ------------------------------------------------------------------------------------------------ rebalances and what covers them


def _series(rows: Iterable[Row]) -> list[list[Row]]:
    """Rebalances of one group in order (rule 1)."""
    series: list[list[Row]] = []
    for row in rows:
        last = series[-1][-1] if series else None
        if last is not None and last["end"] == "failed" and last["ended_ms"] == row["started_ms"]:
            series[-1].append(row)
        else:
            series.append([row])
    return series


def _lasted(row: Row) -> int:
    return int(row["ended_ms"] - row["started_ms"])


def _long(facts: ReportFacts, rows: Iterable[Row], least_ms: int = LONG_MS) -> list[list[Row]]:
    """The series of one group that took long (``least_ms``), or timed members out; not of a share group, whose members wait for no
    other one."""
    timed = [
        row
        for row in rows
        if row.get("kind") != "share"
        and row["started_ms"] is not None
        and row["ended_ms"] is not None
        and not in_stuck(facts, row["group"], row["started_ms"])
    ]
    return [run for run in _series(timed) if any(_lasted(row) >= least_ms or _timed_out(row) for row in run)]


def _dead_waits(run: list[Row]) -> list[Row]:
    """The waits of a series for members that had disconnected without a LeaveGroup, if most of its time; else []."""
    waits = [wait for row in run for wait in row.get("waits") or () if wait["who"]]
    dead = [wait for wait in waits if set(wait["who"]) <= set(wait["closed"] or ())]
    return dead if sum(wait["ms"] for wait in dead) * 2 >= run[-1]["ended_ms"] - run[0]["started_ms"] else []


def dead_members(facts: ReportFacts, group: str, *, expired: bool = False) -> set[str]:
    """Member ids of those that held long rebalances of a group after they had disconnected: a finding of `_slow` names them.
    ``expired``: only those whose sessions expired, as far as rows show it."""
    rows = facts.of_group(facts.rebalances, group)
    runs = _long(facts, rows)
    waits = [wait for run in runs for wait in _dead_waits(run)]
    waits += [wait for run in runs for _, wait in _removed_waits(run) if wait["what"] == "session"]
    names = {name for wait in waits for name in wait["who"]}
    if not expired:
        return names
    began = {name for row in rows if row["cause"] == "session timeout" for name in row["who"] or ()}
    return (names & began) | {name for wait in waits if wait["what"] == "session" for name in wait["who"]}


def rebalancing_ms(facts: ReportFacts, group: str, from_ms: int, to_ms: int) -> int:
    """Milliseconds of the time in which a classic group was not Stable: its members then commit only what they had read before."""
    spans = [
        (row["started_ms"], row["ended_ms"] if row["ended_ms"] is not None else to_ms)
        for row in facts.of_group(facts.rebalances, group)
        if row["started_ms"] is not None and row.get("kind") in (None, "classic")
    ]
    return sum(max(min(ended_ms, to_ms) - max(started_ms, from_ms), 0) for started_ms, ended_ms in spans)


def is_rebalancing(facts: ReportFacts, stall: Row) -> bool:
    """Whether an offset did not advance because its group rebalanced: little of that time is without a rebalance."""
    to_ms = stall["to_ms"] if stall["to_ms"] is not None else stall["from_ms"] + stall["stalled_ms"]
    covered_ms = rebalancing_ms(facts, stall["group"], stall["from_ms"], to_ms)
    return covered_ms > 0 and to_ms - stall["from_ms"] - covered_ms < LONG_MS


def lag_grew(facts: ReportFacts, group: str, peak: Row) -> bool:
    """Whether the highest lag of a group is an effect of a long rebalance: it grew meanwhile, and was low before."""
    return any(_grew_in(facts, run, peak) for run in _long(facts, facts.of_group(facts.rebalances, group)))


def _grew_in(facts: ReportFacts, run: list[Row], peak: Row) -> bool:
    from_ms, to_ms = run[0]["started_ms"], run[-1]["ended_ms"]
    if run[0].get("kind") not in (None, "classic") or not from_ms <= peak["window_start_ms"] <= to_ms + LONG_MS:
        return False
    before = [
        row["lag"]
        for row in facts.lag.get(run[0]["group"], ())
        if row["lag"] is not None and row["window_start_ms"] + row["window_ms"] <= from_ms
    ]
    return bool(before) and before[-1] * 2 <= peak["lag"]


def _effects(facts: ReportFacts, run: list[Row]) -> str:
    """Effects of a series of rebalances, as a sentence (rule 2); "" without one."""
    group, from_ms, to_ms = run[0]["group"], run[0]["started_ms"], run[-1]["ended_ms"]
    words = []
    stalls = [
        row
        for row in facts.of_group(facts.stalls, group)
        if row["from_ms"] < to_ms and (row["to_ms"] is None or row["to_ms"] > from_ms) and is_rebalancing(facts, row)
    ]
    if stalls:
        words.append(f"committed offsets of {count(len(stalls), 'partition')} did not advance")
    known = [row for row in facts.lag.get(group, ()) if row["lag"] is not None]
    peak = max(known, key=lambda row: row["lag"], default=None)
    if peak is not None and peak["lag"] >= LAGS and _grew_in(facts, run, peak):
        words.append(f"the lag grew to {peak['lag']:,} records")
    return f" Meanwhile {', and '.join(words)}." if words else ""


def _held_by_dead(run: list[Row], dead: list[Row]) -> str:
    """Clause about the dead members that delayed a series: how long, and by which waits."""
    clauses = []
    for wait in dead:
        names = _names(wait["clients"], wait["who"])
        clauses.append(f"{duration_text(wait['ms'])} of it {in_words(wait['what'], named(names), len(names) > 1)}")
    everyone = list(dict.fromkeys(name for wait in dead for name in _names(wait["clients"], wait["who"])))
    return f": {joined(clauses)}; the connections of {named(everyone)} had been closed without a LeaveGroup"


def _names(clients: Iterable[str | None] | None, members: Iterable[str] | None) -> list[str]:
    return [client or short_member(member) for client, member in zip(clients or (), members or (), strict=False)]


_LONG_EPOCH_MS = 2 * LONG_MS
"""Owners revoke with a heartbeat, and others receive with theirs: a healthy epoch takes up to two of their intervals, of 5 s each by
default, and more where several members move."""
_EPOCHS = ("consumer", "share", "streams")
_AFTER_DEATHS = (
    "No leaving heartbeat arrived: what a member owns that ends without one has no other owner until its session expires. A shutdown"
    " that closes the client, or a shorter session timeout of the group, avoids that."
)
_AFTER_REMOVALS = (
    "The log does not show which: a leave takes effect at once, an expired session after its timeout, in which what the member owned"
    " had no other owner."
)


def _removed_waits(run: list[Row]) -> list[tuple[Row, Row]]:
    """(epoch, wait) of the members of an epoch-based group that were removed before they had reached an epoch, if that was most of the
    time of a series, or all that it lacked at its end; else []."""
    waits = [(row, wait) for row in run if row.get("kind") in _EPOCHS for wait in row.get("waits") or ()]
    waits = [
        (row, wait) for row, wait in waits if wait["what"] in ("session", "removed") and row["ended_ms"] is not None
    ]
    covered_ms, until_ms = 0, 0
    for row, wait in waits:  # in the order of their ends
        covered_ms += max(row["ended_ms"] - max(row["ended_ms"] - wait["ms"], until_ms), 0)
        until_ms = row["ended_ms"]
    return waits if covered_ms * 2 >= run[-1]["ended_ms"] - run[0]["started_ms"] else []


def _without_removed(waits: list[tuple[Row, Row]]) -> str:
    """Clause about the members for which an epoch-based group waited, and until when."""
    until_reached = "the time until all members had reached its epoch"
    if _expired(waits):
        clauses = []
        for closed in (True, False):
            some = [(row, wait) for row, wait in waits if bool(wait["closed"]) is closed]
            if some:
                clauses.append(dead_in_words(*_ends(some), len(some) > 1, closed=closed))
        return f": {until_reached}. {'; '.join(clauses)}"
    names, until = _ends(waits)
    how = "they left, or their sessions expired," if len(waits) > 1 else "it left, or its session expired,"
    return f": {until_reached}. {names} had not reached it when {how} at {until}"


def _expired(waits: list[tuple[Row, Row]]) -> bool:
    """Whether the sessions of all of them have."""
    return all(wait["what"] == "session" for _, wait in waits)


def _ends(waits: list[tuple[Row, Row]]) -> tuple[str, str]:
    """The names of members that were removed, and when."""
    names = _names([wait["clients"][0] for _, wait in waits], [wait["who"][0] for _, wait in waits])
    ends = [when(row["ended_ms"]) for row, _ in waits]
    until = joined([f"{at} ({name})" for at, name in zip(ends, names, strict=True)]) if len(names) > 1 else ends[0]
    return named(names), until


def _timed_out(row: Row) -> bool:
    """Whether members were waited for to the end of the rebalance timeout."""
    return bool(row["timed_out"])


def _longest_wait(facts: ReportFacts, row: Row) -> tuple[str, str]:
    """Clause about a rebalance's longest wait, from the steps of the group (`explain.holdups`), and advice about it."""
    what = row.get("held_by")
    if what is None and row["timed_out"]:
        row = {**row, "held_by": "rebalance timeout", "held_ms": row["preparing_ms"] or 0, "held_who": row["timed_out"]}
        row["held_clients"] = [None] * len(row["timed_out"])
        what = row["held_by"]
    if what is None or what == "unknown":
        if row["preparing_ms"] is None or row["preparing_ms"] * 2 < row["ended_ms"] - row["started_ms"]:
            return ": most of it until the assignment was stored", LATE_ASSIGNMENT
        waited = f": {duration_text(row['preparing_ms'])} of it until the join phase ended"
        last = f"; {named(row['waited_for'])} committed last before that" if row.get("waited_for") else ""
        return (
            waited + last,
            "The group waits until its members rejoin or leave, or until their sessions or the rebalance timeout expire.",
        )
    names = _names(row["held_clients"], row["held_who"])
    consumers = not is_other(row.get("protocol_type"))
    closed = bool(row["held_closed"]) and set(row["held_who"] or ()) <= set(row["held_closed"] or ())
    words = f": {duration_text(row['held_ms'])} of it {in_words(what, named(names), len(names) > 1, closed)}"
    if what != "rebalance timeout" or closed:
        static = are_static(row["held_who"] or (), row["held_clients"] or ())
        return words, advice_about(what, closed, consumers=consumers, static=static)
    refused = [
        refusal
        for refusal in facts.refusals
        if refusal["member"] in (row["held_who"] or ())
        and refusal["last_ms"] >= row["started_ms"]
        and refusal["first_ms"] <= row["ended_ms"]
    ]
    if refused:
        refusals = named(f"{refusal['topic']} ({refusal['error']})" for refusal in refused)
        words += f"; commits of {named(names)} were refused then, for {refusals}"
    return words, advice_about(what, consumers=consumers)


def _slow(facts: ReportFacts) -> Iterable[Finding]:
    """The longest rebalance of each group that took long."""
    for group, rows in by_group(facts.rebalances):
        slow = _long(facts, rows) or _long(facts, [row for row in rows if row.get("kind") not in _EPOCHS], NOTED_MS)
        if not slow:
            continue
        run = max(slow, key=lambda some: max((_timed_out(row), _lasted(row)) for row in some))
        dead = _dead_waits(run)
        if len(dead) > 1:
            row, shown = run[0], run
            lasted = run[-1]["ended_ms"] - row["started_ms"]
        else:
            row = max(run, key=lambda one: (_timed_out(one), _lasted(one)))
            lasted, shown = _lasted(row), [row]
        words = f"{group} took {duration_text(lasted)} to rebalance at {when(row['started_ms'])}, as {cause(row)}"
        gone = _removed_waits(run)
        if gone:
            row, shown, lasted = run[0], run, run[-1]["ended_ms"] - run[0]["started_ms"]
            words = f"{group} took {duration_text(lasted)} to rebalance at {when(row['started_ms'])}, as {cause(row)}"
            words += _without_removed(gone)
            advice = _AFTER_REMOVALS
            if _expired(gone):
                advice = _AFTER_DEATHS + ("" if all(wait["closed"] for _, wait in gone) else PERHAPS_ALIVE)
        elif row.get("kind") in _EPOCHS:
            last = f" {named(row['waited_for'])} was the last to reach its assignment." if row["waited_for"] else ""
            last = late_revocation(row) or last
            words += f": the time until all members had reached its epoch.{last}".removesuffix(".")
            what = "Tasks" if row["kind"] == "streams" else "Partitions"
            advice = (
                f"{what} move once their owners have revoked them: a member that is slow to do so delays the members that wait for"
                " them, not the whole group."
            )
        elif len(dead) > 1:
            words += _held_by_dead(run, dead)
            pairs = [
                (name, client) for wait in dead for name, client in zip(wait["who"], wait["clients"], strict=False)
            ]
            static = are_static([name for name, _ in pairs], [client for _, client in pairs])
            consumers = not is_other(row.get("protocol_type"))
            advice = advice_about("session", closed=True, consumers=consumers, static=static)
        else:
            more, advice = _longest_wait(facts, row)
            words += more
        more = f" {count(len(slow) - 1, 'other')} also took long." if len(slow) > 1 else ""
        usual = lasted < (_LONG_EPOCH_MS if row.get("kind") in _EPOCHS else LONG_MS) and not any(map(_timed_out, shown))
        yield Finding(
            "slow rebalance",
            "note" if usual else "warn",
            (50 if usual else 100) + lasted / 1000,
            f"{words}.{_effects(facts, run)}{more}",
            advice,
            group,
            row["coordinator_partition"],
            row["started_ms"],
            shown[-1]["ended_ms"],
            certainty_of(shown),
            records_of(shown),
            lines_of(shown),
        )


ABOUT_REBALANCES: tuple[Callable[[ReportFacts], Iterable[Finding]], ...] = (_slow,)
