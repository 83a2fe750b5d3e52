"""Findings about rebalances from a log alone: without a journal the begin of the join phase and the cause are unknown.

Rules:
1. A generation's record has the time since which it is valid and its members. So generations can be counted, also those without a
   record, and joined and removed members are known; no sentence says more.
2. A deployment is no storm: in a rolling restart each member leaves and joins once, and in a scale-out members join. If members
   can't be distinguished by their client ids, their number is used.
3. The duration of a rebalance is known from the end of its join phase to its record: at least that long. A leave and an expired
   session look alike.

Source: what was seen in logs of Apache Kafka 3.4, 4.1 and 4.4 while such things were done to its consumers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise

from broker_sim.common.text import duration_text
from broker_sim.explain.phrases import count, late_to_rejoin, times
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import LONG_MS, NOTED_MS, OFTEN, OFTEN_MS, Finding, by_group, certainty_of
from broker_sim.pipeline.phrases import LATE_ASSIGNMENT, lines_of, named, records_of, when, who

__all__ = ["ABOUT_GENERATIONS", "is_orderly"]

MOST_RETURNS = 2
"""A member that joins more often than that in such a time does not just restart."""


def _since(row: Row) -> int | None:
    """Time at which a generation's window closed, else at which it opened, else at which its record was written."""
    for name in ("closed_ms", "started_ms", "ended_ms"):
        if row.get(name) is not None:
            return int(row[name])
    return None


def _generations(facts: ReportFacts) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each group from the log alone that have a time, in the order of their generations."""
    for group, rows in by_group(facts.rebalances):
        refused = [row for row in rows if row["source"] in ("log", "broker log") and _since(row) is not None]
        if refused:
            yield group, sorted(refused, key=lambda row: (_at(row), row["generation"] or 0))


def _at(row: Row) -> int:
    since_ms = _since(row)
    assert since_ms is not None
    return since_ms


def _begun(rows: list[Row]) -> int:
    """Number of these generations, with those before each that left no record; those before the first one belong to no run."""
    if not any(row["source"] == "broker log" for row in rows):
        return len(rows) + sum(row["missing_before"] or 0 for row in rows[1:])
    # brokers' lines have some without a record
    numbers = {_number(row) for row in rows}
    for row in rows[1:]:
        numbers |= {_number(row) - back for back in range(1, (row["missing_before"] or 0) + 1)}
    return len(numbers)


def _number(row: Row) -> int:
    """Generation of a rebalance, or the one that it would have become."""
    return int(row["generation"] if row["generation"] is not None else (row["generation_before"] or 0) + 1)


def _unstored(rows: list[Row]) -> int:
    """Number of generations that left no record."""
    return _begun(rows) - len([row for row in rows if row["source"] == "log"])


def _runs(rows: list[Row]) -> Iterator[list[Row]]:
    """Stretches of generations each of which is one of OFTEN within OFTEN_MS."""
    dense: dict[int, None] = {}
    for first, row in enumerate(rows):
        behind = next((at for at in range(first, len(rows)) if _at(rows[at]) - _at(row) > OFTEN_MS), len(rows))
        if _begun(rows[first:behind]) >= OFTEN:
            dense.update(dict.fromkeys(range(first, behind)))
    for _, run in groupby(enumerate(dense), key=lambda numbered: numbered[1] - numbered[0]):
        yield [rows[at] for _, at in run]


_SPARES = {
    "classic": ": start members together, or give them group.instance.id",
    **dict.fromkeys(("consumer", "streams"), "; group.instance.id spares a restart both epochs"),
}
"""Clauses of advice that avoids rebalances, by the kind of group."""


def _storms(facts: ReportFacts) -> Iterable[Finding]:
    """Groups with many generations in a short time."""
    for group, rows in _generations(facts):
        for run in _runs(rows):
            unstored = _unstored(run)
            joined_clients, removed_clients = _moves(run, came=True), _moves(run, came=False)
            begun, lasted_ms = _begun(run), _at(run[-1]) - _at(run[0])
            words = f"{group} had {count(begun, 'generation')} within {duration_text(lasted_ms)} from {when(_at(run[0]))} on"
            if unstored:
                words += f", {unstored} of them without a record: restarted before they were Stable, or removed by compaction"
            words += _moves_text(joined_clients, removed_clients) + _known_causes(run)
            orderly = is_orderly(run) and unstored * 2 < begun
            yield Finding(
                "storm",
                "note" if orderly else "bad" if unstored * 2 >= begun else "warn",
                (70 if orderly else 100) + begun + 5 * unstored,
                f"{words}.",
                f"This is how a restart or a scale-out one by one looks{_SPARES.get(run[0].get('kind') or 'classic', '')}."
                if orderly
                else _WHY_THEY_GO
                if not any(row["started_ms"] is not None for row in run)
                else "Look at the members that join and leave: what ends them, and how soon they are restarted.",
                group,
                run[0]["coordinator_partition"],
                _at(run[0]),
                _at(run[-1]),
                certainty_of(row for row in run if row["cause"] in _CAUSES),
                records_of(run),
                lines_of(run, 1),
            )


_WHY_THEY_GO = (
    "The log does not show why members are removed: look in their logs for expired sessions and max.poll.interval.ms."
)
_CAUSES = {
    "leave": "members that left",
    "session timeout": "expired sessions",
    "poll timeout": "poll timeouts",
    "sync failed": "assignments that were not stored, or missing SyncGroups",
}


def _known_causes(run: list[Row]) -> str:
    """The known causes of removed members."""
    known = Counter(row["cause"] for row in run if row.get("cause_certainty") and row["cause"] in _CAUSES)
    return (
        f"; of those that began with removed members {named(f'{number} by {_CAUSES[cause]}' for cause, number in known.most_common())}"
        if known
        else ""
    )


def _moves(run: list[Row], *, came: bool) -> Counter[str]:
    """Client id (else member id) -> how often it joined, or left, in these generations."""
    clients: Counter[str] = Counter()
    for row in run:
        before, after = row["members_before"], row["members_after"]
        if before is None or after is None:
            continue
        names = dict(zip(row["who"] or (), row["who_clients"] or (), strict=False))
        moved = (
            [member for member in after if member not in before]
            if came
            else [member for member in before if member not in after]
        )
        clients.update(names.get(member) or _client_of(member) for member in moved)
    return clients


def _client_of(member: str) -> str:
    """A member id is the client id, a hyphen and a UUID."""
    return member[:-37] if len(member) > 37 and member[-37] == "-" else member


def _moves_text(came: Counter[str], went: Counter[str]) -> str:
    if not came and not went:
        return "; the records show no member that joined or left"
    clauses = [
        f"; {verb}: {named(f'{name} {times(number)}' for name, number in moved.most_common())}"
        for moved, verb in ((came, "joined"), (went, "left or expired"))
        if moved
    ]
    return "".join(clauses)


def is_orderly(run: list[Row]) -> bool:
    """Whether members only joined, or each left and rejoined once or twice, in these rebalances. The first join of a client is no
    return: a group that is started and deployed twice, as for a change of its assignor, joins three times."""
    joined_clients, removed_clients = _moves(run, came=True), _moves(run, came=False)
    size = max((row["size_after"] or 0) for row in run)
    if len(joined_clients) <= 1 < size:  # all of one name
        return min(joined_clients.total(), removed_clients.total()) <= MOST_RETURNS * size
    return all(min(number, removed_clients[name]) <= MOST_RETURNS for name, number in joined_clients.items())


def _late(facts: ReportFacts) -> Iterable[Finding]:
    """The generation of each group whose assignment came latest, where that is late."""
    for group, rows in _generations(facts):
        late = [
            row
            for row in rows
            if row.get("started_ms") is None and max(row["completing_ms"] or 0, row.get("waited_ms") or 0) >= NOTED_MS
        ]
        if not late:
            continue
        row = max(late, key=lambda rebalance: max(rebalance["completing_ms"] or 0, rebalance.get("waited_ms") or 0))
        if (row.get("waited_ms") or 0) > (row["completing_ms"] or 0):
            yield _waited(group, row)
            continue
        words = (
            f"{group} took at least {duration_text(row['completing_ms'])} to rebalance at {when(_at(row))}: the time from the"
            f" end of the join phase until generation {row['generation']} was stored"
        )
        more = f" {count(len(late) - 1, 'other')} took long, too." if len(late) > 1 else ""
        is_long = row["completing_ms"] >= LONG_MS
        yield Finding(
            "slow rebalance",
            "warn" if is_long else "note",
            (100 if is_long else 50) + row["completing_ms"] / 1000,
            f"{words}.{more}",
            LATE_ASSIGNMENT,
            group,
            row["coordinator_partition"],
            _at(row),
            row["ended_ms"],
            "certain",
            records_of([row]),
        )


def _waited(group: str, row: Row) -> Finding:
    """A rebalance that waited for a member, as commits show it."""
    ms = row["waited_ms"]
    words = (
        f"{group} took about {duration_text(ms)} to rebalance until {when(_at(row))}: for so long members that commit regularly had"
        f" committed"
        f" nothing when generation {row['generation']} began; {named(row['waited_for'] or ())} committed last"
    )
    advice = f"Look at the member that committed last: {late_to_rejoin()}."
    began_ms = _at(row) - ms
    partition = row["coordinator_partition"]
    return Finding(
        "slow rebalance",
        "warn" if ms >= LONG_MS else "note",
        (100 if ms >= LONG_MS else 50) + ms / 1000,
        f"{words}.",
        advice,
        group,
        partition,
        began_ms,
        _at(row),
        "likely",
        records_of([row]),
    )


def _lost(facts: ReportFacts) -> Iterable[Finding]:
    """Members that were removed while others stayed: they did not rejoin, had joined as another member before, or rejoined as the same
    member."""
    stormy = {storm.group: storm.severity for storm in _storms(facts)}
    for group, rows in _generations(facts):
        if stormy.get(group, "note") != "note":
            continue
        clients = {
            name: client
            for row in rows
            for name, client in zip(row["who"] or (), row["who_clients"] or (), strict=False)
        }
        found = []
        for at, row in enumerate(rows):
            if row["cause"] not in ("departed", "leave") or not row["size_after"] or None in (row["who_clients"] or ()):
                continue  # a record of a member may be older than the log: another one may be the same client
            went = _whereabouts(rows, at, clients)
            if went is not None:
                found.append((row, went))
        many = group in stormy and sum(went.startswith(DID_NOT) for _, went in found) > 1  # a deployment with new names
        for row, went in found:
            if not (many and went.startswith(DID_NOT)):
                yield _departed(group, row, went)


def _departed(group: str, row: Row, went: str) -> Finding:
    left = row["cause"] == "leave"
    if went.startswith(SAME):
        advice = (
            "A process that starts again has another member id: this one went on. It exceeded max.poll.interval.ms, was suspended, or"
            " could not send heartbeats."
        )
    elif left:
        advice = "It left with a LeaveGroup."
    else:
        advice = "The log does not show which: a leave takes effect at once, an expired session after its timeout."
    return Finding(
        "departed",
        "note",
        72,
        f"{who(row)} left {group}{'' if left else ', or expired,'} by {when(_at(row))}{went}.",
        advice,
        group,
        row["coordinator_partition"],
        _at(row),
        None,
        "certain",
        records_of([row]),
    )


DID_NOT, SAME = ", and did not rejoin", ", and rejoined under the same member id"


def _whereabouts(rows: list[Row], at: int, clients: dict[str, str | None]) -> str | None:
    """Clause about the members that a row removed and about those that stayed; None if the removed ones' clients joined again, as in a
    restart."""
    row, later = rows[at], rows[at:]
    removed = set(row["who"] or ())
    again = next((one for one in later if removed and removed <= set(one["members_after"] or ())), None)
    if again is not None:
        return f"{SAME} at {when(_at(again))}; {row['size_after']} stayed"
    departed, back = _moves([row], came=False), _moves(later, came=True)
    returned = {bounce["former"] for other in later for bounce in other.get("bounces") or ()}
    if any(name in back for name in departed) or returned & removed:
        return None
    stay = {clients.get(member) or _client_of(member) for member in row["members_after"] or ()}
    here, gone = [name for name in departed if name in stay], [name for name in departed if name not in stay]
    if not here:
        return f"{DID_NOT}; {row['size_after']} stayed"
    words = f"; {row['size_after']} stayed, {named(here)} among them under another member id"
    return f"{words}; {named(gone)} did not rejoin" if gone else words


_PROTOCOLS = {
    "classic": "classic",
    "consumer": "consumer (KIP-848)",
    "streams": "streams (KIP-1071)",
    "share": "share (KIP-932)",
}


def _changed_over(facts: ReportFacts) -> Iterable[Finding]:
    """Groups that changed to another protocol: an upgrade to the consumer protocol, a downgrade to the classic one."""
    for group, rows in _generations(facts):
        stored = sorted((row for row in rows if row.get("log_offset") is not None), key=lambda row: row["log_offset"])
        for before, row in pairwise(stored):
            was, now = before.get("kind") or "classic", row.get("kind") or "classic"
            if was == now:
                continue
            what = "epoch" if now != "classic" else "generation"
            words = (
                f"{group} went from the {_PROTOCOLS[was]} protocol to the {_PROTOCOLS[now]} one: {what} {row['generation']} at"
                f" {when(_at(row))} is the first of it in the log"
            )
            advice = (
                "The group was converted, with its first member of the other protocol or without its last one of the former, or was"
                " deleted and created again. Brokers log a conversion."
            )
            partition = row["coordinator_partition"]
            at = (group, partition, _at(row), None, "certain", records_of([before, row]))
            yield Finding("protocol change", "note", 66, f"{words}.", advice, *at)


_GROWN = re.compile(r"(?P<topic>.+): (?P<before>\d+) to (?P<after>\d+) partitions")
"""An element of `cause_changes`."""


def _grew(facts: ReportFacts) -> Iterable[Finding]:
    """Topics that got partitions under a group, as its assignments show."""
    for group, rows in _generations(facts):
        for row in rows:
            for change in row.get("cause_changes") or () if row["source"] == "log" else ():
                match = _GROWN.fullmatch(change)
                if match is None:
                    continue
                what = "epoch" if row.get("kind") in ("consumer", "share") else "generation"
                words = (
                    f"{match['topic']} grew from {match['before']} to {match['after']} partitions while {group} was reading it:"
                    f" {what} {row['generation']} at {when(_at(row))} is the first in which they are assigned"
                )
                advice = (
                    "A group notices new partitions only after metadata.max.age.ms: with auto.offset.reset=latest it skips what was"
                    " written to them before. Records of a key may go to another partition than before."
                )
                at = (group, row["coordinator_partition"], _at(row), None, "likely", records_of([row]))
                yield Finding("grown topic", "note", 63, f"{words}.", advice, *at)


def _bounced(facts: ReportFacts) -> Iterable[Finding]:
    """Static members that came back under other member ids before they were removed."""
    for group, rows in _generations(facts):
        bounces = [
            (bounce, row)
            for row in rows
            for bounce in row.get("bounces") or ()
            if not bounce["removed"] and bounce["at_ms"] is not None
        ]
        if not bounces:
            continue
        bounces.sort(key=lambda pair: (pair[0]["at_ms"], pair[0]["instance"]))
        first, last = bounces[0][0], bounces[-1][0]
        names = list(dict.fromkeys(bounce["instance"] for bounce, _ in bounces))
        verb = f"came back under {'another member id' if len(bounces) == 1 else 'other member ids'}"
        span = f"at {when(first['at_ms'])}"
        if len(bounces) > 1:
            span = f"{times(len(bounces))} from {when(first['at_ms'])} until {when(last['at_ms'])}"
        away = [bounce["away_ms"] for bounce, _ in bounces if bounce["away_ms"] is not None]
        words = f"{count(len(names), 'static member')} of {group} {verb} {span}: {named(names)}"
        if away:
            longest = "" if len(away) == 1 else "at most "
            words += f"; away for {longest}{duration_text(max(away))}, from the last sign of its former process on"
        advice = (
            "So restarts of static members look: they keep their partitions. Two consumers with one group.instance.id also take each"
            " other's place again and again."
        )
        partition = bounces[0][1]["coordinator_partition"]
        shown = records_of({**row, "log_offset": bounce["log_offset"]} for bounce, row in bounces)
        at = (group, partition, first["at_ms"], last["at_ms"], "certain", shown)
        yield Finding("static bounce", "note", 64, f"{words}.", advice, *at)


ABOUT_GENERATIONS: tuple[Callable[[ReportFacts], Iterable[Finding]], ...] = (
    *(_storms, _late, _lost, _changed_over, _bounced, _grew),
)
