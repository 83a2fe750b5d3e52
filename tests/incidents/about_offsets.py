"""Claims about committed offsets: they stayed, decreased, were set or deleted; and about lag."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.incidents.truth import LATE_MS, SLACK_MS, Truth, drops
from tests.incidents.words import AT, LASTED, WINDOW_MS, Claim, Found, duration, moment, number_in, times_in

__all__ = ["deleted", "lag", "regression", "reset", "stayed"]


def stayed(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(
        rf"(\S+)-(\d+) of (\S+) stayed at ([\d,]+) from ({AT}) (?:until ({AT})|to the end of the input) \(({LASTED})\)(.*)$",
        found["text"],
    )
    if said is None:
        return
    topic, partition, group, offset, rest = said[1], int(said[2]), said[3], number_in(said[4]), said[8]
    from_ms = moment(said[5], found["at_ms"])
    to_ms = moment(said[6], found["at_ms"]) if said[6] else from_ms + duration(said[7])
    yield Claim(
        f"{topic} is the topic of {group}",
        truth.ledger.groups[group].topic == topic or False,
        truth.ledger.groups[group].topic,
    )
    commits = truth.commits(group, partition)
    if not commits:
        yield Claim(f"{partition} stayed at {offset}", None, "the ledger has no commits")
        return
    inside = [row for row in commits if from_ms + 2 * WINDOW_MS <= row[0] <= to_ms - WINDOW_MS and row[1] != offset]
    yield Claim(f"{partition} stayed at {offset} from {said[5]} until {said[6]}", not inside, f"committed {inside[:3]}")
    others = [row for other in truth.partitions(group) - {partition} for row in truth.commits(group, other)]
    moved = [row for row in others if from_ms + WINDOW_MS <= row[0] <= to_ms]
    if "while other partitions moved on" in rest:
        yield Claim("other partitions moved on", bool(moved), "none did")
    if "none of its partitions moved" in rest:
        late = [row for row in moved if (from_ms + to_ms) / 2 + WINDOW_MS <= row[0] <= to_ms - WINDOW_MS]
        yield Claim("none of its partitions moved", not late, f"committed {late[:3]}")
    if "the group did not rebalance" in rest:
        yield from _no_rebalance(truth, group, from_ms + WINDOW_MS, to_ms - WINDOW_MS)
    began = re.search(
        r"while the group began (\d+) generations?(?:, and (once|twice|\d+ times) the session of a member expired)?",
        rest,
    )
    if began:
        seen = truth.generations(group, from_ms - WINDOW_MS, to_ms + WINDOW_MS)
        real = max(seen) - min(seen) + 1 if seen else 0
        yield Claim(f"{began[1]} generations", int(began[1]) <= real if seen else None, f"brokers logged {real}")
        dead = [life for life in truth.deaths(group)
                if from_ms - LATE_MS <= (life.died_ms or 0) + life.session_ms <= to_ms + LATE_MS]  # fmt: skip
        if began[2]:
            expired = {"once": 1, "twice": 2}.get(began[2]) or int(began[2].partition(" ")[0])
            yield Claim(f"{began[2]} a session expired", len(dead) >= expired, f"{len(dead)} died")


def _no_rebalance(truth: Truth, group: str, from_ms: float, to_ms: float) -> Iterator[Claim]:
    seen = truth.generations(group, from_ms, to_ms)
    yield Claim(
        "the group did not rebalance", not seen if truth.lines else None, f"brokers logged generations {sorted(seen)}"
    )


def regression(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(
        rf"(\S+) (was reset from outside|started again|committed a lower offset)(.*?) on (\S+)-(\d+): from ([\d,]+) to ([\d,]+)"
        rf" at ({AT})(.*)$",
        found["text"],
    )
    if said is None:
        return
    group, at_ms, rest = said[1], moment(said[8], found["at_ms"]), said[9]
    high, low, partition = number_in(said[6]), number_in(said[7]), int(said[5])
    if said[2] == "was reset from outside":
        yield Claim(
            "it was reset from outside", bool(truth.events(group, at_ms, "reset", late_ms=2000)), "no reset then"
        )
    elif said[2] == "started again":
        gone = truth.events(group, at_ms, "expiry", "group deletion", "offset deletion")
        yield Claim("its offset had been deleted", bool(gone), "nothing was deleted")
    commits = truth.commits(group, partition)
    if not commits and said[2] == "committed a lower offset":
        yield from _by_events(truth, group, at_ms, high - low)
    elif not commits or said[2] == "was reset from outside":
        yield Claim(f"from {high} to {low}", None, "the ledger has no such commits")
    else:
        near = [pair for pair in drops(commits) if abs(pair[1][0] - at_ms) <= 2 * WINDOW_MS]
        fits = [(before, row) for before, row in near if (before[1], row[1]) == (high, low)]
        unclean = truth.events(group, at_ms, "unclean election", late_ms=3 * LATE_MS)
        yield Claim(
            f"partition {partition} from {high} to {low} at {said[8]}",
            bool(fits) or (None if unclean else False),
            f"{near[:3]}",
        )
        if fits and "within a generation" in said[3]:
            yield Claim("within a generation", fits[0][0][2] == fits[0][1][2], "another client committed it")
    if "logged a seek of the application" in rest:
        seeks = [act for act in truth.acts(group, "seek") if abs(act.at_ms - at_ms) <= LATE_MS]
        yield Claim("its application sought", bool(seeks) if truth.knows(group) else None, "no client was told to seek")
    yield from _next_commit(commits, at_ms, rest)
    more = re.search(r"It did so (once|twice|\d+ times)", rest)
    if more and commits and said[2] == "committed a lower offset":
        back = [pair for other in truth.partitions(group) for pair in drops(truth.commits(group, other))]
        back = [pair for pair in back if found["at_ms"] - 2000 <= pair[1][0] <= found["to_ms"] + 2000]
        yield Claim(f"it did so {more[1]}", len(back) == times_in(more[1]), f"{len(back)} times")


def _by_events(truth: Truth, group: str, at_ms: int, by: int) -> Iterator[Claim]:
    """A decrease of which the ledger has no commits, but may have who sought."""
    events = truth.events(group, at_ms, "rewind", "old commit", late_ms=3000)
    if not events:
        yield Claim(f"a committed offset decreased by {by}", None, "the ledger has no commits")
    for event in events:
        yield Claim(
            f"a committed offset decreased by {by}", by <= event.detail["back"], f"by {event.detail['back']} at most"
        )


def _next_commit(commits: list[tuple[int, int, str]], at_ms: int, rest: str) -> Iterator[Claim]:
    following = re.search(rf"; the next commit, ({LASTED}) later, was at ([\d,]+) again", rest)
    if following and commits:
        then_ms = at_ms + duration(following[1])
        real = [row for row in commits if abs(row[0] - then_ms) <= WINDOW_MS]
        yield Claim(
            f"the next commit was at {following[2]}",
            any(row[1] == number_in(following[2]) for row in real),
            f"{real[:3]}",
        )


def reset(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(
        rf"Offsets of (\S+) were (set from outside|committed) at ({AT})(?:, while it had no members)?: (\d+) partitions?"
        rf"(?:, (\S+)-(\d+) from ([\d,]+) to ([\d,]+))?(.*)$",
        found["text"],
    )
    if said is None:
        return
    group, at_ms = said[1], moment(said[3], found["at_ms"])
    events = truth.events(group, at_ms, "reset", late_ms=2000)
    if said[2] == "set from outside":
        yield Claim("they were set from outside", bool(events), "no tool did that then")
    if said[6] is not None and truth.commits(group, int(said[6])):
        before = [row for row in truth.commits(group, int(said[6])) if row[0] <= at_ms + 500]
        fits = bool(before) and before[-1][1] == number_in(said[7])
        yield Claim(f"from {said[7]}", fits, f"committed before: {before[-1:]}")
    for event in events:
        to = event.detail.get("offsets", {}).get(said[6] or "")
        if to is None and event.detail.get("to") == "--to-earliest":
            to = 0
        if to is None and event.detail.get("to", "").startswith("--shift-by") and said[7] is not None:
            to = max(0, number_in(said[7]) + int(event.detail["to"].split(" ")[1]))
        if said[8] is not None and to is not None:
            yield Claim(f"to {said[8]}", number_in(said[8]) == to, f"to {to}")


def deleted(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(
        rf"(\S+) lost its committed offsets? of (?:(\d+) partitions, such as )?(\S+)-(\d+) at ({AT})(.*)$",
        found["text"],
    )
    if said is None:
        return
    group, at_ms, rest = said[1], moment(said[5], found["at_ms"]), said[6]
    events = truth.events(group, at_ms, "expiry", "group deletion", "offset deletion", late_ms=3000)
    retention_ms = 60_000 * int(truth.ledger.settings.get("offsets.retention.minutes", 10_080))
    idle = re.search(rf"({LASTED}) after the last commit", rest)
    expired = idle is not None and duration(idle[1]) >= retention_ms  # of a group that nothing was done to
    yield Claim(f"offsets were deleted at {said[5]}", bool(events) or expired, "nothing was deleted then")
    kinds = {event.kind for event in events}
    for words, cause in (
        ("the group was deleted by a request", "group deletion"),
        ("they were deleted by a request", "offset deletion"),
        ("the broker logged that they expired", "expiry"),
        ("they expired (offsets.retention.minutes)", "expiry"),
        ("; the group itself was deleted with them", "group deletion"),
    ):
        if words in rest and events:  # a group without members is deleted with its last offsets, by whatever they are
            fits = cause in kinds or words.startswith("; the group itself")
            yield Claim(words.strip("; "), fits, f"it was {sorted(kinds)}")
    commits = [row for row in truth.commits(group, int(said[4])) if row[0] <= at_ms + 500] if truth.knows(group) else []
    if idle and commits:
        every = [row[0] for other in truth.partitions(group) for row in truth.commits(group, other) if row[0] <= at_ms]
        real = {round((at_ms - ms) / 1000) for ms in (commits[-1][0], max(every, default=commits[-1][0]))}
        near = any(abs(duration(idle[1]) / 1000 - ago) <= 3 for ago in real)
        yield Claim(f"{idle[1]} after the last commit", near, f"{sorted(real)} s")
    if "committed again later" in rest and truth.knows(group):
        later = [row for other in truth.partitions(group) for row in truth.commits(group, other) if row[0] > at_ms]
        yield Claim("offsets were committed again later", bool(later), "none were")


def lag(truth: Truth, found: Found) -> Iterator[Claim]:
    text, group = found["text"], found["group"]
    if not truth.knows(group):
        return
    empty = re.match(rf"\S+ has no members since ({AT})", text)
    if empty:
        at_ms = moment(empty[1], found["at_ms"])
        ends = [life.end_ms for life in truth.lives(group)]
        gone = [end for end in ends if end is not None]
        alive = [life.client for life in truth.lives(group) if life.lives(truth.ledger.to_ms - 1000)]
        yield Claim("it has no members at the end", not alive, f"{alive} live")
        fits = bool(gone) and at_ms <= truth.ledger.to_ms + LATE_MS
        yield Claim(f"since {empty[1]}", fits, f"its processes ended at {gone}")
    last = re.match(rf"\S+ committed for the last time at ({AT}), while its logs grew", text)
    if last:
        at_ms = moment(last[1], found["at_ms"])
        real = max(
            (act.at_ms for act in truth.acts(group, "committed") if act.at_ms <= truth.ledger.to_ms), default=None
        )
        yield Claim(
            f"its last commit was at {last[1]}",
            real is not None and abs(real - at_ms) <= 2 * SLACK_MS,
            f"it was at {real}",
        )
