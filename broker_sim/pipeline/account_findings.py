"""Findings of a cluster without a journal besides its generations: members whose sessions expired, offsets that were set from outside
or stand still, partitions that moved, transactions that stayed open.

Rules:
1. Each sentence says how sure it is, and which records and lines show it. Evidence that fits two causes names neither.
2. Nothing here looks at names or at a cluster's size. Thresholds come from Kafka's own timers: a session, a commit's timeout, a
   transaction's timeout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from broker_sim.common.text import duration_text
from broker_sim.explain.phrases import count, is_other, times
from broker_sim.journal import INSIDE
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import LONG_MS, Finding, by_group, certainty_of
from broker_sim.pipeline.log_findings import is_orderly
from broker_sim.pipeline.move_findings import moved, unclean
from broker_sim.pipeline.phrases import at_of, lines_of, named, records_of, short_member, when
from broker_sim.pipeline.reset_findings import resets
from broker_sim.pipeline.slow_rebalances import dead_members, is_rebalancing, rebalancing_ms
from broker_sim.pipeline.stall_ends import (
    DISCONNECTED,
    FAILING,
    REBALANCED,
    commits_may_have_failed,
    disconnected,
    ended_with,
    generation_at_end,
    rebalanced,
    still_members,
)

__all__ = ["ABOUT_ACCOUNTS", "lost_members"]

APART_MS = 2000
"""So far apart may partitions of a group stop that stopped for one reason."""
COMMITS_MS = 5000
"""auto.commit.interval.ms: so far apart may commits of partitions be that stop or go on at one time."""
FEW = 3
"""More than that of one group are reported as churn."""


def lost_members(row: Row) -> list[str]:
    """Client ids of members with expired sessions, as far as a rebalance shows them: it began with their expiry, or waited for it."""
    if row["cause"] == "session timeout":
        names = list(row["who_clients"] or ())
        return [name or short_member(member) for name, member in zip(names, row["who"] or (), strict=False)]
    if row.get("held_by") == "session":
        return [short_member(member) for member in row["held_who"] or ()]
    return []


def _expired_ms(row: Row) -> int | None:
    """Time at which the sessions of `lost_members` had expired: the rebalance began with that, or began before and waited for it."""
    if row["cause"] != "session timeout" and row.get("held_by") == "session" and row["started_ms"] is not None:
        return int(row["started_ms"] + row["held_ms"])
    return at_of(row)


def _lost_ids(row: Row) -> set[str]:
    return set((row["who"] if row["cause"] == "session timeout" else row["held_who"]) or ())


def _lost(facts: ReportFacts) -> Iterable[Finding]:
    """Members whose sessions expired: one finding per group, as the causes (a crash, a cut) often hit several members. Groups that lose
    them often get other findings."""
    for group, rows in by_group(facts.rebalances):
        dead = dead_members(facts, group)  # a finding about a rebalance names them
        lost = [
            (row, names)
            for row in rows
            if (names := lost_members(row)) and at_of(row) is not None and not _lost_ids(row) <= dead
        ]
        if not lost or (len(lost) >= FEW and lost[0][0]["source"] == "journal"):
            continue  # so many are a finding about a group that rebalances often, or loses its members
        first, who = lost[0]
        expired_ms = first["started_ms"] if first["cause"] == "session timeout" else None
        words = (
            f"The session of {named(who)} in {group} expired {'at' if expired_ms else 'by'}"
            f" {when(expired_ms or _expired_ms(first) or 0)}, and the group rebalanced"
        )
        back = _returned(first, rows, set(who))
        if back == "same":
            words += (
                f"; a member with the same client id, {named(who)}, had joined by then, and waited for that session"
            )
        elif back == "later":
            words += "; a member with the same client id joined later"
        if first["size_after"] == 0:
            words += "; the group had no other member"
        if len(lost) > 1:
            words += (
                f". The same {times(len(lost) - 1)} more until {when(_expired_ms(lost[-1][0]) or 0)}:"
                f" {named(name for _, names in lost[1:] for name in names)}"
            )
        certainty = certainty_of(row for row, _ in lost)
        classic = first.get("kind") in (None, "classic")
        sent = "LeaveGroup" if classic else "leaving heartbeat"
        advice = f"No {sent} arrived: it may have crashed, been killed or lost its connection, or have had no time to send heartbeats."
        if classic and not is_other(first.get("protocol_type")):
            advice += (
                " A static member (group.instance.id) whose max.poll.interval.ms passed sends none either, and no heartbeats until it"
                " polls."
            )
        if certainty == "likely":
            advice += " Derived from its last commit, one session timeout before the group continued without it."
        yield Finding(
            "session expired",
            "warn",
            105 + len(lost),
            f"{words}.",
            advice,
            group,
            first["coordinator_partition"],
            expired_ms or at_of(first),
            _expired_ms(lost[-1][0]),
            certainty,
            records_of(row for row, _ in lost),
            lines_of(row for row, _ in lost),
        )


def _returned(row: Row, rows: Iterable[Row], who: set[str]) -> str | None:
    """Whether a new member has the name of one that was lost, in the same generation or in a later one."""
    before = set(row["members_before"] or ())
    fresh = {short_member(member) for member in row["members_after"] or () if member not in before}
    if row["size_after"] and who <= fresh:
        return "same"
    later = [other for other in rows if (at_of(other) or 0) > (at_of(row) or 0)]
    joined = {short_member(member) for other in later for member in other["members_after"] or ()}
    return "later" if who <= joined else None


def _polled(facts: ReportFacts) -> Iterable[Finding]:
    """Members that left after their poll timeout: the client logged it, or the time without commits fits."""
    for group, rows in by_group(facts.rebalances):
        late = [row for row in rows if row["cause"] == "poll timeout" and at_of(row) is not None]
        if not late:
            continue
        first = late[0]
        clients = [name or "a member" for row in late for name in row["who_clients"] or ()]
        is_certain = certainty_of(late) == "certain" and first["cause_certainty"] is not None
        what = (
            "reported that the poll timeout (max.poll.interval.ms) expired, and left"
            if is_certain
            else "committed nothing for about max.poll.interval.ms, and left"
        )
        words = f"{named(clients)} of {group} {what} at {when(at_of(first) or 0)}"
        if len(late) > 1:
            words += f"; so {times(len(late))} in all"
        yield Finding(
            "poll timeout",
            "warn",
            108 + len(late),
            f"{words}.",
            ("" if is_certain else "Its application may not have polled, or its process may have been paused. ")
            + "If the records of one poll take longer than max.poll.interval.ms: fewer records per poll (max.poll.records), faster"
            " work, or a longer max.poll.interval.ms. Other members get the records that it was processing, too.",
            group,
            first["coordinator_partition"],
            at_of(first),
            at_of(late[-1]),
            "certain" if is_certain else "likely",
            records_of(late),
            lines_of(late),
        )


# ------------------------------------------------------------------------------------------------ offsets


def _stalled(facts: ReportFacts) -> Iterable[Finding]:
    """Partitions whose committed offset did not advance: one finding per group, of the one that lags most. A group that rebalances
    meanwhile has another cause (a record that kills its consumers) than one that does not (a consumer that hangs)."""
    groups: dict[tuple[str, bool], list[Row]] = defaultdict(list)
    for row in facts.stalls:
        if not _explained(facts, row):
            groups[row["group"], row["generations"] >= FEW].append(row)
    for (group, again), rows in groups.items():
        worst = max(rows, key=lambda row: (row["pending"] or 0, row["stalled_ms"]))
        if _all_stood(facts, worst, rows):
            worst = {**worst, "moved": 0}  # others moved until they stopped as well
        where = f"{worst['topic']}-{worst['partition']}"
        until = f"until {when(worst['to_ms'])}" if worst["to_ms"] is not None else "to the end of the input"
        words = (
            f"{where} of {group} stayed at {worst['offset']:,} from {when(worst['from_ms'])} {until}"
            f" ({duration_text(worst['stalled_ms'])})"
        )
        if worst["pending"]:
            words += f", up to {count(worst['pending'], 'record')} behind"
        if len(rows) > 1:
            words += f"; so did {count(len(rows) - 1, 'other partition')}"
        evidence = tuple((row["log_partition"], row["log_offset"]) for row in rows if row["log_offset"] is not None)
        at = (group, worst["log_partition"], worst["from_ms"], worst["to_ms"])
        if again:
            yield _poison(facts, worst, words, at, evidence)
        elif worst["members"] and worst["pending"]:
            yield _stood(facts, worst, words, at, evidence)


def _all_stood(facts: ReportFacts, worst: Row, rows: list[Row]) -> bool:
    """Whether all partitions of a group stopped within COMMITS_MS of one of them, and went on at once with it."""
    state = facts.states.get(worst["group"])
    if worst["to_ms"] is None or state is None or not state["partitions"] or len(rows) < state["partitions"]:
        return False
    return all(
        row["to_ms"] is not None
        and abs(row["to_ms"] - worst["to_ms"]) <= APART_MS // 2
        and abs(row["from_ms"] - worst["from_ms"]) <= COMMITS_MS
        for row in rows
    )


_At = tuple[str, int | None, int, int | None]
"""Place and time of a finding: group, partition of `__consumer_offsets`, start and end."""
_Records = tuple[tuple[int, int], ...]


def _poison(facts: ReportFacts, worst: Row, words: str, at: _At, evidence: _Records) -> Finding:
    group = worst["group"]
    words += f", while the group began {count(worst['generations'], 'generation')}"
    died = _died(facts, group, worst)
    if died:
        words += f", and {times(died)} the session of a member expired"
    # members that send LeaveGroup are restarted by an operator; those whose sessions expire there crash on a record
    failing = commits_may_have_failed(facts, worst)
    waits = worst["pending"] is not None or worst["moved"]
    dies = died >= FEW or (worst["pending"] is not None and not _restarted(facts, group, worst))
    one_cause = waits and dies and not failing and _holds_up_all(facts, worst)
    return Finding(
        "poison",
        "bad" if one_cause else "note",
        310 if one_cause else 75,
        f"{words}.",
        "This is how it looks if the record at that offset crashes each consumer, which restarts and reads it again: look at that"
        " record, and at what the consumers logged last. Skip it (a reset by one), or make the application handle it."
        + (f" {FAILING}" if failing else ""),
        *at,
        "likely" if one_cause else "possible",
        evidence,
    )


def _holds_up_all(facts: ReportFacts, worst: Row) -> bool:
    """Whether no other partition of the group stood longer before it did, or after it. A record that kills its consumers holds up the
    others while it is there; members that are killed at any moment hold up now one, now the other."""
    end_ms = worst["to_ms"]
    return all(
        row["from_ms"] >= worst["from_ms"] - APART_MS
        and (end_ms is None or (row["to_ms"] is not None and row["to_ms"] <= end_ms + APART_MS))
        for row in facts.stalls
        if row["group"] == worst["group"]
    )


def _stood(facts: ReportFacts, worst: Row, words: str, at: _At, evidence: _Records) -> Finding:
    """An offset that did not advance while the group had members and records to read."""
    words += ", while other partitions moved on" if worst["moved"] else ", and none of its partitions moved"
    end_ms = worst["to_ms"] if worst["to_ms"] is not None else worst["from_ms"] + worst["stalled_ms"]
    holder = _holder(facts, worst)
    generation = None if holder else generation_at_end(facts, worst)
    if generation is not None:
        words += ended_with(generation)
    elif not rebalanced(facts, worst) and not rebalancing_ms(facts, worst["group"], worst["from_ms"], end_ms):
        words += "; the group did not rebalance"
    dead = [] if holder or generation is not None or worst["to_ms"] is not None else disconnected(facts, worst)
    advice = _HELD_ADVICE if holder else DISCONNECTED if dead else _ALONE if generation is None else REBALANCED
    if advice == _ALONE and (not worst["moved"] or commits_may_have_failed(facts, worst)):
        advice = f"{_ALONE} {FAILING}"
    return Finding(
        "stalled",
        "warn",
        160 + min(worst["stalled_ms"] / 10_000, 60),
        f"{words}{still_members(dead)}{holder}.",
        advice,
        *at,
        "certain",
        evidence + (() if generation is None else records_of([generation])),
    )


_ALONE = "Its owner may still process one record, retry it, have paused the partition, or wait for something: look at that member."
_HELD_ADVICE = (
    "read_committed consumers get no record after that transaction's first one before it ends: look at its producer."
)


def _holder(facts: ReportFacts, row: Row) -> str:
    """Clause that names the transaction which held the partition's last stable offset there; "" if none is known."""
    at = f"{row['topic']}-{row['partition']} at {row['offset']}"
    to_ms = row["to_ms"] if row["to_ms"] is not None else row["from_ms"] + row["stalled_ms"]
    for transaction in facts.transactions:
        if (
            at in (transaction["blocked"] or ())
            and transaction["from_ms"] <= to_ms
            and (transaction["to_ms"] or to_ms) >= row["from_ms"]
        ):
            whose = transaction["transactional_id"] or f"producer {transaction['producer_id']}"
            return f"; a transaction of {whose} held its last stable offset there"
    return ""


def _died(facts: ReportFacts, group: str, row: Row) -> int:
    """Number of rebalances of a group during a stall that began with, or waited for, an expired session."""
    to_ms = row["to_ms"] if row["to_ms"] is not None else row["from_ms"] + row["stalled_ms"]
    mine = [rebalance for rebalance in facts.rebalances if rebalance["group"] == group and lost_members(rebalance)]
    return sum(row["from_ms"] <= (at_of(rebalance) or 0) <= to_ms for rebalance in mine)


def _restarted(facts: ReportFacts, group: str, row: Row) -> bool:
    """Whether the group's members left and rejoined once during a stall, as in a release. A member that crashes on a record
    rejoins more often."""
    to_ms = row["to_ms"] if row["to_ms"] is not None else row["from_ms"] + row["stalled_ms"]
    run = [
        rebalance
        for rebalance in facts.rebalances
        if rebalance["group"] == group and row["from_ms"] - LONG_MS <= (at_of(rebalance) or 0) <= to_ms + LONG_MS
    ]
    return bool(run) and is_orderly(run)


def _explained(facts: ReportFacts, row: Row) -> bool:
    """Whether another finding covers that time: no commit was possible, a transaction held the offsets, a member was lost, a static
    member was away, the group rebalanced, or it was empty."""
    to_ms = row["to_ms"] if row["to_ms"] is not None else row["from_ms"] + row["stalled_ms"]
    for stuck in facts.stuck:
        open_ = stuck["to_ms"] is None or row["from_ms"] < stuck["to_ms"]
        if stuck["log_partition"] == row["log_partition"] and stuck["from_ms"] < to_ms and open_:
            return True
    for move in facts.moves:
        gone_ms = move["after_ms"] if move["after_ms"] is not None else move["at_ms"]
        mine = move["log_partition"] == row["log_partition"] and gone_ms is not None
        if mine and gone_ms <= to_ms and (move["at_ms"] or gone_ms) >= row["from_ms"]:
            return True
    for move in facts.transactions:
        over = move["to_ms"] is not None and move["to_ms"] <= row["from_ms"]
        if row["group"] in (move["groups"] or ()) and move["from_ms"] < to_ms and not over:
            return True
    for rebalance in facts.rebalances:
        departed = lost_members(rebalance) or rebalance["cause"] in ("poll timeout", "rebalance timeout")
        if (
            rebalance["group"] == row["group"]
            and departed
            and row["from_ms"] <= (at_of(rebalance) or 0) <= to_ms + LONG_MS
        ):
            return bool(row["generations"] < FEW)
    if any(_was_away(bounce, row["from_ms"], to_ms) for other in facts.of_group(facts.rebalances, row["group"])
           for bounce in other.get("bounces") or ()):  # fmt: skip
        return True
    return (row["members"] is False or is_rebalancing(facts, row)) and bool(row["generations"] < FEW)


def _was_away(bounce: Row, from_ms: int, to_ms: int) -> bool:
    """Whether that is the time between the last sign of a static member and its return: its partitions wait for it."""
    if bounce["removed"] or bounce["at_ms"] is None or bounce["away_ms"] is None:
        return False
    left_ms = bounce["at_ms"] - bounce["away_ms"]
    return bool(abs(left_ms - from_ms) <= COMMITS_MS and abs(bounce["at_ms"] - to_ms) <= COMMITS_MS)


# ------------------------------------------------------------------------------------------------ transactions


_IN_SPITE = ("fenced", "timed out")
"""Results that the producer did not request."""


def _readers_waited(row: Row) -> str:
    """Clause: partitions whose last stable offset the transaction held, for how long, and readers that waited; "" for less than 1 s."""
    if not row["blocked"] or (row["blocked_ms"] or 0) < 1000:
        return ""
    words = f"; it held the last stable offset of {named(row['blocked'])} for {duration_text(row['blocked_ms'])}"
    return words + (f", where {named(row['readers'])} waited" if row["readers"] else "")


def _markers_took(row: Row) -> str:
    if row["decided_ms"] is None:
        return ""
    if row["to_ms"] is None:
        return f"; its end was decided at {when(row['decided_ms'])}, and not all of its markers are written"
    late_ms = row["to_ms"] - row["decided_ms"]
    return (
        f"; its last marker was written {duration_text(late_ms)} after its end was decided" if late_ms >= 1000 else ""
    )


def _hanging(row: Row, who: str, where: str, lasted: str) -> Finding:
    words = f"{who[:1].upper()}{who[1:]} wrote to {where} in a transaction that no coordinator knows"
    if row["lost_abort"]:
        words += (
            f", at {when(row['from_ms'])}: the record arrived after its own transaction was aborted, and was"
            " committed with the next one at"
            f" {when(row['to_ms'])}"
        )
    elif row["to_ms"] is None:
        words += (
            f": it hangs since {when(row['from_ms'])} ({lasted}), and read_committed consumers get no later records"
        )
    else:
        words += f": it hung from {when(row['from_ms'])} to {when(row['to_ms'])} ({lasted})"
        words += f", until {row['ended_by']} sent a marker" if row["ended_by"] else ", until a marker ended it"
    certainty = "certain" if row["source"] == "journal" or row["end"] is None else "likely"
    weight = 820 if row["lost_abort"] else 810 if row["to_ms"] is None else 300
    return Finding(
        "transaction",
        "bad" if row["lost_abort"] or row["to_ms"] is None else "warn",
        weight + min((row["open_ms"] or 0) / 1000, 90),
        f"{words}{_readers_waited(row)}.",
        "Brokers before 4.0 accept a record that arrives after the end of its transaction (KIP-890): 4.x"
        " with transaction.version 2 refuses it."
        " kafka-transactions find-hanging and abort find and end hanging transactions; no coordinator does.",
        None,
        None,
        row["from_ms"],
        row["to_ms"],
        certainty,
    )


def _ended_for_it(row: Row, who: str, where: str, lasted: str) -> Finding:
    began = f" of {row['began_by']}" if row["began_by"] else ""
    words = f"The transaction{began} of {who} in {where}, begun at {when(row['from_ms'])}, was aborted after {lasted}"
    if row["result"] == "fenced":
        by = f" by {row['ended_by']}" if row["ended_by"] else ""
        words += (
            ", by an abort from the test, the command line or HTTP: its producer is fenced"
            if row["ended_by"] == INSIDE
            else f"{by}, as another producer initialized the same transactional.id: the first one is fenced"
        )
        advice = "This is correct if its process was replaced. Two running producers with one transactional.id fence each other."
        if row["ended_by"] == INSIDE:
            advice = "This is what the abort of a transactional id does, as Admin.fenceProducers."
    else:
        words += ", as its timeout had expired"
        if row["timeout_ms"] is not None:
            words += f" ({duration_text(row['timeout_ms'])})"
        advice = "Its producer may have hung or died, or its transactions take longer than transaction.timeout.ms."
        if row["cause"]:
            advice = "The coordinator aborts a transaction that is open for longer than transaction.timeout.ms."
    if row["groups"]:
        words += f"; pending offsets of {named(row['groups'])} were discarded with it"
    slow = (row["blocked_ms"] or 0) >= LONG_MS or row["result"] == "timed out"
    return Finding(
        "transaction",
        "warn" if slow else "note",
        (150 if slow else 60) + min((row["open_ms"] or 0) / 1000, 40),
        f"{words}{_markers_took(row)}{_readers_waited(row)}.{_cause(row)}",
        advice,
        row["groups"][0] if row["groups"] and len(row["groups"]) == 1 else None,
        row["log_partition"],
        row["from_ms"],
        row["to_ms"],
        "certain" if row["source"] == "journal" or row["result"] == "timed out" else "likely",
        ()
        if row["log_offset"] is None or row["log_partition"] is None
        else ((row["log_partition"], row["log_offset"]),),
        tuple(row["evidence_lines"] or ()),
    )


def _cause(row: Row) -> str:
    """Reason why a producer did not end its transaction, as a sentence of its own; "" if it is unknown."""
    cause = row["cause"]
    return f" {cause[:1].upper()}{cause[1:]}." if cause else ""


def _transactions(facts: ReportFacts) -> Iterable[Finding]:
    for row in facts.transactions:
        who = row["transactional_id"] or f"producer {row['producer_id']}"
        where = named(row["partitions"] or ())
        lasted = duration_text(row["open_ms"] or 0)
        if row["hangs"]:
            yield _hanging(row, who, where, lasted)
            continue
        if row["result"] in _IN_SPITE and row["end"] is not None:
            yield _ended_for_it(row, who, where, lasted)
            continue
        if row["end"] is None:
            words = f"The transaction of {who} is open since {when(row['from_ms'])} ({lasted})"
        else:
            words = (
                f"The transaction of {who} was open from {when(row['from_ms'])} to {when(row['to_ms'])} ({lasted}), and was"
                f" {row['end']}"
            )
        if where:
            words += f": read_committed consumers of {where} {'get' if row['end'] is None else 'got'} no later records"
        over = row["end"] is None and row["timeout_ms"] is not None and row["open_ms"] > row["timeout_ms"] + 15_000
        if over:
            words += f", although its timeout of {duration_text(row['timeout_ms'])} has expired"
        if row["groups"]:
            words += f"; offsets of {named(row['groups'])} are pending in it"
        words += _markers_took(row) + _readers_waited(row)
        yield Finding(
            "transaction",
            "bad" if over or row["end"] is None else "warn",
            (800 if over else 200) + min((row["open_ms"] or 0) / 1000, 90),
            f"{words}.{_cause(row)}",
            ("" if row["cause"] or row["end"] == "committed" else "Its producer may hang, or have died. ")
            + "The coordinator aborts a transaction after transaction.timeout.ms. One that"
            " stays open longer must be aborted by an operator: kafka-transactions find-hanging, and abort.",
            row["groups"][0] if row["groups"] and len(row["groups"]) == 1 else None,
            row["log_partition"],
            row["from_ms"],
            row["to_ms"],
            "certain",
            ()
            if row["log_offset"] is None or row["log_partition"] is None
            else ((row["log_partition"], row["log_offset"]),),
            tuple(row["evidence_lines"] or ()),
        )


ABOUT_ACCOUNTS: tuple[Callable[[ReportFacts], Iterable[Finding]], ...] = (
    *(_lost, _polled, resets, _stalled, moved, unclean, _transactions),
)
