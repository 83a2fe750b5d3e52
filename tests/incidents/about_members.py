"""Claims about members and rebalances: whose session expired, who left, joined, or was waited for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.incidents.truth import HEARTBEAT_MS, LATE_MS, SLACK_MS, Truth
from tests.incidents.words import AT, LASTED, WINDOW_MS, Claim, Found, duration, moment, names_in, times_in

__all__ = ["departed", "poll_timeout", "session_expired", "slow_rebalance", "storm"]


def session_expired(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(
        rf"The session of (.+?) in (\S+) expired (at|by) ({AT}), and the group rebalanced(.*)$", found["text"]
    )
    if said is None:
        return
    group, exact, at_ms, rest = said[2], said[3] == "at", moment(said[4], found["at_ms"]), said[5]
    names = names_in(said[1])
    for name in names:
        true, why = truth.expired(group, name, at_ms, exact=exact)
        yield Claim(f"the session of {name} expired {said[3]} {said[4]}", true, why)
    yield from _came_back(truth, group, names, at_ms, rest)
    if "the group had no other member" in rest:
        others = [life for life in truth.lives(group) if life.client not in names and life.lives(at_ms)
                  and life.assigned_ms is not None and life.assigned_ms < at_ms]  # fmt: skip
        unknown = not truth.knows(group) or truth.troubled(group, at_ms)
        true = None if unknown else not others
        yield Claim("the group had no other member", true, f"members: {[life.client for life in others]}")
    more = re.search(rf"The same (once|twice|\d+ times) more until ({AT}): (.+)\.$", rest)
    if more:
        until_ms = moment(more[2], found["at_ms"])
        yield from _same_again(truth, group, times_in(more[1]) + 1, at_ms, until_ms, names_in(more[3]))


def _came_back(truth: Truth, group: str, names: list[str], at_ms: int, rest: str) -> Iterator[Claim]:
    for name in names:
        dead = [
            life.died_ms for life in truth.deaths(group, name) if life.died_ms is not None and life.died_ms <= at_ms
        ]
        starts = [life.start_ms for life in truth.lives(group, name)]
        troubled = truth.troubled(group, at_ms)  # a client then joins again by itself, under another member id
        known = truth.knows(group) and not (troubled and not dead)
        if "had joined by then, and waited for that session" in rest:
            true = (
                any(dead[-1] - 100 <= at <= at_ms for at in starts) if dead and known else None if not known else False
            )
            yield Claim(
                f"another {name} had joined by then", true or (None if troubled else true), f"started at {starts}"
            )
        elif "with the same client id joined later" in rest:
            true = any(at >= dead[-1] - 100 for at in starts) if dead and known else None if not known else False
            yield Claim(f"another {name} joined later", true, f"started at {starts}")


def _same_again(truth: Truth, group: str, all_: int, from_ms: int, to_ms: int, names: list[str]) -> Iterator[Claim]:
    if not truth.knows(group):
        yield Claim(f"{all_} sessions expired", None, "the ledger has no acts")
        return
    ends = [(life.client, life.died_ms + life.session_ms) for life in truth.deaths(group) if life.died_ms is not None]
    ends = [(name, end_ms) for name, end_ms in ends if from_ms - LATE_MS <= end_ms <= to_ms + LATE_MS]
    lines = [
        line.at_ms
        for line in truth.lines
        if line.what == "removed" and line.group == group and from_ms - LATE_MS <= line.at_ms <= to_ms + LATE_MS
    ]
    unknown = truth.troubled(group, from_ms)
    number = max(len(ends), len(lines))
    yield Claim(
        f"sessions expired in {all_} rebalances", number >= all_ or (None if unknown else False), f"{number} expired"
    )
    by_then = max(
        len([at_ms for at_ms in lines if at_ms <= to_ms + WINDOW_MS]),
        0 if lines else len([end_ms for _, end_ms in ends if end_ms - HEARTBEAT_MS <= to_ms + WINDOW_MS]),
    )
    last = max(lines or [end_ms for _, end_ms in ends], default=None)
    yield Claim(
        f"{all_} of them until {to_ms}",
        by_then >= all_ or (None if unknown else False),
        f"{by_then}, the last one at {last}",
    )
    for name in set(names):
        true = name in [client for client, _ in ends] or any(
            truth.expired(group, name, at_ms, exact=True)[0] for at_ms in lines
        )
        yield Claim(f"a session of {name} expired", true or (None if unknown else False), f"{ends}")


def departed(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(
        rf"(.+?) left (\S+?)(, or expired,)? by ({AT})(?:, and (?:did not rejoin|(rejoined) under.* at {AT}))?;"
        r" (\d+) stayed(?:, (.+?) among them under another member id)?",
        found["text"],
    )
    if said is None:
        return
    group, at_ms = said[2], moment(said[4], found["at_ms"])
    if not truth.knows(group):
        yield Claim("left", None, "the ledger has no acts")
        return
    unknown = truth.troubled(group, at_ms)
    again = set(names_in(said[7] or ""))
    for name in names_in(said[1]):
        lives = truth.lives(group, name)
        gone = [
            life
            for life in lives
            if life.assigned_ms is not None and life.end_ms is not None and life.end_ms <= at_ms + SLACK_MS
        ]
        busy = [act for act in truth.acts(group, "block") if act.client == name and act.at_ms <= at_ms]
        went = bool(gone or busy)
        if said[5]:
            yield Claim(f"{name} went on", bool(busy) and not gone, "it ended")
        yield Claim(f"{name} left{said[3] or ''} by {said[4]}", went or (None if unknown else False), "it lived")
        if said[3] is None and gone and not busy:
            closed = gone[-1].closing_ms is not None
            yield Claim(f"{name} left", closed or (None if unknown else False), "it was killed")
        if gone:
            back = [life for life in lives if life.start_ms > (gone[-1].end_ms or 0) and life.assigned_ms is not None]
            claim = f"{name} {'had joined again' if name in again else 'did not rejoin'}"
            yield Claim(claim, bool(back) == (name in again), f"started again at {[life.start_ms for life in back]}")
    stay = {life.client for life in truth.lives(group) if life.lives(at_ms) and life.start_ms < at_ms}
    yield Claim(
        f"{said[6]} stayed", (len(stay) >= int(said[6])) or (None if unknown else False), f"{sorted(stay)} lived"
    )


def storm(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(rf"(\S+) had (\d+) generations within ({LASTED}) from ({AT}) on(.*)$", found["text"])
    if said is None:
        return
    group, from_ms, to_ms = said[1], found["at_ms"], found["to_ms"]
    seen = truth.generations(group, from_ms - WINDOW_MS, to_ms + WINDOW_MS)
    if seen:
        real = max(seen) - min(seen) + 1
        yield Claim(f"{said[2]} generations", abs(real - int(said[2])) <= 2, f"brokers logged {real}")
    else:
        yield Claim(f"{said[2]} generations", None, "no line of a broker has generations")
    if not truth.knows(group) or truth.troubled(group, from_ms):
        yield Claim("who joined and left", None, "the ledger does not say")
        return
    wide = (from_ms - 30_000, to_ms + 2000)
    joined = re.search(r"; joined: (.+?)(?:;|\.$)", said[5])
    for name, number in _counted(joined[1] if joined else ""):
        lives = truth.lives(group, name)
        rejoined = len([act for act in truth.acts(group, "block", "restart") if act.client == name])
        most = len([life for life in lives if wide[0] <= life.start_ms <= wide[1]]) + rejoined
        least = len([life for life in lives if life.assigned_ms is not None and from_ms <= life.assigned_ms <= to_ms
                     and life.start_ms >= from_ms])  # fmt: skip
        yield Claim(f"{name} joined {number} times", least <= number <= most, f"between {least} and {most} times")
    went = re.search(r"; left or expired: (.+?)(?:;|\.$)", said[5])
    for name, number in _counted(went[1] if went else ""):
        ends = [life for life in truth.lives(group, name) if life.end_ms is not None]
        rejoined = len([act for act in truth.acts(group, "block", "restart") if act.client == name])
        most = len([life for life in ends if wide[0] <= (life.end_ms or 0) <= wide[1]]) + rejoined
        yield Claim(f"{name} left or expired {number} times", number <= most, f"{most} times at most")
    for number, what in re.findall(r"(\d+) by (members that left|expired sessions|poll timeouts)", said[5]):
        busy = len(truth.acts(group, "block"))
        closed = len([life for life in truth.lives(group) if life.closing_ms is not None])
        most = {
            "members that left": closed + busy,
            "expired sessions": len(truth.deaths(group)),
            "poll timeouts": busy,
        }[what]
        yield Claim(f"{number} by {what}", int(number) <= most, f"{most} at most")


def _counted(text: str) -> list[tuple[str, int]]:
    found = re.findall(r"(\S+) (once|twice|\d+ times)", text)
    return [(name, times_in(number)) for name, number in found]


def poll_timeout(truth: Truth, found: Found) -> Iterator[Claim]:
    said = re.match(
        rf"(.+?) of (\S+) (reported|committed nothing).* left at ({AT})(?:; so (.+) in all)?\.$", found["text"]
    )
    if said is None:
        return
    group, at_ms = said[2], moment(said[4], found["at_ms"])
    for name in set(names_in(said[1])):
        events = [event for event in truth.events(group, at_ms, "poll expiry") if event.detail.get("client") == name]
        ends = [event.start_ms + event.detail["max_poll_ms"] for event in events]
        near = any(end - SLACK_MS <= at_ms <= end + 2 * SLACK_MS for end in ends)
        yield Claim(
            f"{name} exceeded max.poll.interval.ms and left at {said[4]}", near, f"it did at {ends or 'no time'}"
        )


_ACCUSED = (
    (r"until the sessions? of (?P<who>.+?) expired", "died"),
    (r"[.:;] (?P<who>[^.:;]+?) (?:was|were) dead: ", "died"),
    (r"[.:;] (?P<who>[^.:;]+?) sent no heartbeat: ", "died"),
    (r"; the connections? of (?P<who>.+?) had been closed without", "died"),
    (r"until (?P<who>[^;.:]+?) rejoined last", "held"),
    (r"without a JoinGroup of (?P<who>[^;.:]+)", "held"),
    (r"[;] (?P<who>[^;.:]+?) committed last", "held"),
    (r"\. (?P<who>[^;.:]+?) kept partitions for", "held"),
    (r"\. (?P<who>[^;.:]+?) was the last to reach its assignment", "held"),
)


def slow_rebalance(truth: Truth, found: Found) -> Iterator[Claim]:
    text = found["text"]
    said = re.match(rf"(\S+) took (?:about |at least )?({LASTED}) to rebalance (?:at|until) ({AT})", text)
    if said is None:
        return
    group, from_ms, to_ms = said[1], found["at_ms"], found["to_ms"] or found["at_ms"] + duration(said[2])
    yield from _began_as(truth, group, from_ms, text)
    for pattern, did in _ACCUSED:
        for match in re.finditer(pattern, text):
            for name in names_in(match["who"]):
                true, why = _accused(truth, group, name, did, from_ms, to_ms)
                yield Claim(f"{name} {did} ({match[0].strip('.:; ')})", true, why)
    seen = truth.generations(group, from_ms + WINDOW_MS, to_ms - WINDOW_MS)
    stable = [line for line in truth.lines if line.group == group and line.what == "generation" and line.number in seen]
    if truth.lines and truth.ledger.groups[group].type == "classic":
        inside = {line.number for line in stable}
        yield Claim(f"it took {said[2]}", len(inside) <= 2, f"generations {sorted(inside)} came meanwhile")


def _began_as(truth: Truth, group: str, at_ms: int, text: str) -> Iterator[Claim]:
    said = re.search(
        r", as (the session of )?(.+?) (joined again|joined|left|expired)(, or (?:its|their) |:|\.|$)", text
    )
    if said is None or said[2].startswith("the "):
        return
    for name in names_in(said[2]):
        if not truth.knows(group):
            yield Claim(f"it began as {name} {said[3]}", None, "the ledger has no acts")
        elif said[3] == "joined":
            starts = [life.start_ms for life in truth.lives(group, name)]
            near = any(at - WINDOW_MS <= at_ms <= at + 2 * LATE_MS for at in starts)
            unknown = truth.troubled(group, at_ms)  # a client joins again by itself
            yield Claim(f"it began as {name} joined", near or (None if unknown else False), f"started at {starts}")
        elif said[3] == "expired":
            true, why = truth.expired(group, name, at_ms, exact=True)
            yield Claim(f"it began as the session of {name} expired", true, why)
        elif said[3] == "left":
            ends = [life.end_ms for life in truth.lives(group, name) if life.end_ms is not None]
            ends += [act.at_ms for act in truth.acts(group, "block") if act.client == name]
            near = any(end - SLACK_MS <= at_ms <= end + LATE_MS for end in ends)
            yield Claim(f"it began as {name} left", near, f"ended at {ends}")


def _accused(truth: Truth, group: str, name: str, did: str, from_ms: int, to_ms: int) -> tuple[bool | None, str]:
    """Whether a member that a slow rebalance is put down to is the one to which something was done."""
    events = [event for event in truth.events(group, to_ms, late_ms=2 * LATE_MS) if not event.healthy]
    if did == "died":
        true, why = truth.expired(group, name, to_ms, exact=False)
        if true:
            return true, why
        between = [
            life.died_ms
            for life in truth.deaths(group, name)
            if life.died_ms and from_ms - LATE_MS <= life.died_ms <= to_ms
        ]
        return bool(between) or true, why
    acted = {event.detail["client"] for event in events if "client" in event.detail}
    busy = {act.client for act in truth.acts(group, "block", "hang") if act.at_ms <= to_ms}
    if name in acted | busy:
        return True, "it was the one that was acted on"
    if any("client" not in event.detail for event in events) or truth.troubled(group, to_ms) or not truth.knows(group):
        return None, "the ledger does not say which client it was"
    return False, f"acted on were {sorted(acted | busy) or 'none'}"
