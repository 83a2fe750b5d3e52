"""Claims about offsets partitions and their leaders, transactions, and records of share groups."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.incidents.truth import LATE_MS, Truth
from tests.incidents.words import AT, LASTED, WINDOW_MS, Claim, Found, duration, moment, names_in, number_in

__all__ = ["archived", "moved", "redelivered", "stuck", "transaction", "unclean"]


def stuck(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(
        rf"(.+?) could (?:not )?commit between ({AT}) and ({AT})( at the latest)?: (?:its|their) offsets partition (\d+)",
        found["text"],
    )
    if said is None:
        return
    from_ms, to_ms, partition = moment(said[2], found["at_ms"]), moment(said[3], found["at_ms"]), int(said[5])
    events = [event for event in truth.ledger.events if event.kind == "stuck" and partition in event.log_partitions]
    near = [event for event in events if event.start_ms - 2000 <= from_ms and to_ms <= event.end_ms + LATE_MS]
    yield Claim(f"partition {partition} was stuck between {said[2]} and {said[3]}", bool(near),
                f"{[(event.start_ms, event.end_ms) for event in events]}")  # fmt: skip
    if said[4]:
        to_ms = min([to_ms, *(event.detail.get("resumed_ms", to_ms) for event in near)])
    for group in names_in(said[1]):
        if group not in truth.ledger.groups:
            continue
        home = truth.ledger.groups[group].log_partition
        yield Claim(f"{group} is in partition {partition}", home == partition, f"in {home}")
        done = [
            act.at_ms for act in truth.acts(group, "committed") if from_ms + WINDOW_MS <= act.at_ms <= to_ms - WINDOW_MS
        ]
        yield Claim(f"{group} could not commit then", not done if truth.knows(group) else None, f"it did at {done[:3]}")


def moved(truth: Truth, found: Found) -> Iterator[Claim]:
    partitions = {int(number) for number in re.findall(r"__consumer_offsets-(\d+)", found["text"])}
    events = [
        event
        for event in truth.ledger.events
        if event.kind in ("move", "unclean election")
        and event.start_ms - 5000 <= found["at_ms"] <= event.end_ms + LATE_MS
    ]
    if events and partitions:
        hit = {at for event in events for at in event.log_partitions}
        yield Claim(
            f"partitions {sorted(partitions)} moved", bool(partitions & hit) or None, f"moved were {sorted(hit)}"
        )


def unclean(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(
        rf"__consumer_offsets-(\d+) got a leader from outside of the in-sync replicas at ({AT})", found["text"]
    )
    if said is None:
        return
    at_ms, partition = moment(said[2], found["at_ms"]), int(said[1])
    fits = [event for event in truth.ledger.events if event.kind == "unclean election" and partition in event.log_partitions
            and event.start_ms <= at_ms <= event.end_ms]  # fmt: skip
    yield Claim(f"partition {partition} had an unclean election then", bool(fits), "it had none")
    for group in names_in((re.search(r"as are commits of (.+?)\.$", found["text"]) or ["", ""])[1]):
        if group in truth.ledger.groups:
            home = truth.ledger.groups[group].log_partition
            yield Claim(f"{group} is in partition {partition}", home == partition, f"in {home}")


def transaction(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(r"The transaction of (\S+) ", found["text"])
    if said is None:
        return
    events = [event for event in truth.ledger.events if event.detail.get("transactional_id") == said[1]]
    if not events:
        yield Claim(f"the transaction of {said[1]}", None, "the ledger has nothing of that transactional id")
        return
    event = events[0]
    at = re.search(rf"(?:open since|begun at|open from) ({AT})", found["text"])
    if at:
        at_ms = moment(at[1], found["at_ms"])
        yield Claim(
            f"begun at {at[1]}",
            event.start_ms - 2000 <= at_ms <= event.start_ms + 5000,
            f"told to begin at {event.start_ms}",
        )
    timed = re.search(rf"was aborted after ({LASTED}), as its timeout had expired(?: \(({LASTED})\))?", found["text"])
    if timed:
        timeout = event.detail.get("timeout_ms")
        real = timeout is not None and timeout <= duration(timed[1]) <= timeout + LATE_MS
        yield Claim("it was aborted by its timeout", real, f"its timeout is {timeout}")
        if timed[2]:
            yield Claim(f"its timeout is {timed[2]}", duration(timed[2]) == timeout, f"{timeout}")
    for name in re.findall(r"offsets of (\S+) (?:are|were)", found["text"]):
        yield Claim(f"offsets of {name}", name == event.group, f"of {event.group}")


def archived(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(
        r"(\S+) archived (\d+) records? after (\w+) deliveries: offsets? ([\d,]+)(?: to [\d,]+)? of (\S+)-(\d+) at",
        found["text"],
    )
    if said is None:
        return
    events = truth.events(said[1], found["at_ms"], "given up")
    if not events:
        yield Claim(f"{said[1]} archived {said[2]} records", False, "no record was given up then")
    for event in events:
        place = (event.detail["topic"], event.detail["partition"])
        yield Claim(f"a record of {said[5]}-{said[6]}", place == (said[5], int(said[6])), f"of {place}")
        if "offset" in event.detail:
            yield Claim(f"offset {said[4]}", number_in(said[4]) == event.detail["offset"], f"{event.detail['offset']}")
        yield Claim(f"{said[2]} records", int(said[2]) == 1, "1 was")
        yield Claim(f"{said[3]} deliveries", said[3] in ("5", "five"), "5 is the limit")


def redelivered(truth: Truth, found: Found) -> Iterator[Claim]:
    group, at_ms = found["group"], found["at_ms"]
    events = truth.events(group, at_ms)
    yield Claim("records became available again", bool(events) or None, "nothing happened to it then")
    dead = [life.died_ms for life in truth.deaths(group) if life.died_ms is not None] if truth.knows(group) else []
    near = [died_ms for died_ms in dead if at_ms - LATE_MS <= died_ms <= (found["to_ms"] or at_ms) + LATE_MS]
    if "no member had been removed" in found["text"] and truth.knows(group):
        yield Claim(
            "no member had been removed", not [died for died in near if abs(died - at_ms) < 12_000], f"died at {near}"
        )
    if "a member was removed then" in found["text"] and truth.knows(group):
        ends = [
            life.end_ms
            for life in truth.lives(group)
            if life.end_ms is not None and abs(life.end_ms - at_ms) <= LATE_MS
        ]
        yield Claim("a member was removed then", bool(ends), "none ended")
