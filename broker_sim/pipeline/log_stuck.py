"""Offsets partitions without appends, or without committed ones, from logs: pure functions over signs, no Spark.

The effects of a follower that hangs, and their signs (measured on real brokers):

* While it is still in the ISR (replica.lag.time.max.ms, 30 s), appends go on and nothing is committed: each commit waits for
  offsets.commit.timeout.ms (5 s) and fails. The log has all records; of a client that commits every second it has one each five to ten.
* Then the leader shrinks the ISR, and logs its high watermark, up to which all records were replicated. The record there is the
  first that waited, and its time is the beginning of the period.
* With fewer in-sync replicas than min.insync.replicas, 3.x refuses appends (the broker's log has each, the offsets log is silent), 4.x
  appends and commits none (no line of a broker, but the ISR line has ``under-min-isr``). With enough of them commits succeed again.
* Clients log it each time: a commit timed out, or the coordinator is not available.

Rules:
1. A period is made of signs of one partition that are near each other. A line of a broker or of two groups' clients is certain; one
   group's clients alone are likely, for their network may be at fault; the log's rhythm alone is likely where two groups at least of
   the partition slowed down together while other partitions' groups did not, and a hint for one group, but for rule 6.
2. Slowing down counts where the offsets jumped afterwards: the consumers had read on. A group that has nothing to commit takes up again
   with its usual step.
3. Under 4.x a coordinator that can't commit answers no heartbeat either, so that sessions run out: a pause in which the group
   rebalanced shows nothing by itself, but one that began with a period of another partition belongs to the same matter, for a follower
   that hangs has replicas of many.
4. Where the partition got another leader epoch, it moved: what clients say then is no stuck partition.
5. A group that was slow, committed at its usual pace for REGAINED_MS, and was slow again, had its commits in between: two periods.
6. The only group of its partition is likely stuck if it made a commit again after offsets.commit.timeout.ms, and its offsets jumped
   later, to where its usual rate would have led: it had read on, so the commit that it repeated had not been answered. A group that
   idles repeats its offsets as well, but at its usual pace, and goes on from where it was; a backlog that comes at once leads farther.
   Where the leader epoch changed before the repetition, the repeated commit went to another leader: that is a move.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from broker_sim.common.text import first_words
from broker_sim.pipeline.log_causes import CERTAIN, LIKELY, POSSIBLE

__all__ = ["LEAST_MS", "TIMED_OUT_MS", "Pace", "Silences", "SlowPeriod", "periods_of", "slow_periods_of"]

TIMED_OUT_MS = 5000
"""offsets.commit.timeout.ms: an attempt that timed out began so long before."""
LEAST_MS = 4000
"""A group's pauses from so many ms on may be unusual: offsets.commit.timeout.ms less a little."""
APART_MS = 30_000
"""Signs farther apart belong to two periods: a client tries at least each 10 s."""
TOGETHER_MS = 15_000
"""Groups that slow down together begin and end within so much: a try of each, and its timeout."""

_MOVED = re.compile(r"NotLeader|only for the leader|NotCoordinator|not the correct coordinator")
_REFUSED = re.compile(r"NotEnoughReplicas|NOT_ENOUGH_REPLICAS|n-sync replicas")

REGAINED_MS = 10_000
"""Commits that time out come at a slower pace: so long at the usual one shows that they were committed."""
MOST_WORDS = 120
"""Characters of a client's error text that are kept."""
JUMP = 3
REPEATED_MS = (4500, 6000)
"""A commit is repeated so long after the one that was not answered: TIMED_OUT_MS, and a client's retry.backoff.ms; a little less behind
the last commit of another member."""
FARTHER = 1.5
"""Offsets that go on so many times as far as the usual rate leads had more to read than usual."""
BETWEEN_MS = 2000
"""So far apart pauses of one group may be to be one: two members' tries."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SlowPeriod:
    """A group that committed far more slowly than usual, from one commit to another. ``shows``: whether that is a sign by itself: its
    offsets jumped at the end, by more than three usual steps at once."""

    log_partition: int
    group: str
    from_ms: int
    to_ms: int
    from_offset: int
    to_offset: int
    shows: bool
    repeated_ms: int | None = None
    """Time at which the group repeated a commit that was not answered, if rule 6 holds; else None."""
    marked: bool = False
    """Whether all of its pauses are `MARKED`: the group had a reason of its own."""
    jumped: bool = True
    """Whether it had read on meanwhile."""


REPEATED = "repeated"
"""Evidence: rule 6."""
REGAINED = "regained"
MARKED = "marked"
"""Evidence: a pause in which the group rebalanced, or had no members."""
REGULAR = 15
"""So many pauses show a group's pace."""
UNUSUAL = 3
"""A pause is unusual from `LEAST_MS` on, and so many times as long as nine of ten of its group's."""


class Pace:
    """The pace of one group, put together of the summaries of its blocks (`condensing`), in the order of the log. What is committed at
    one moment is one commit."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, int], int] = {}
        self._pauses, self._steps = Counter[int](), Counter[int]()
        self._slow: list[dict[str, Any]] = []
        self._first_ms: int | None = None
        self._last: tuple[int, int] | None = None
        self._marked = True

    def add(self, summary: Mapping[str, Any]) -> None:
        """``summary``: ``moments`` (how many); and unless that is 0

        * ``pauses`` and ``steps``, [value, how often]: of moments that follow another one without a record of the group in between
        * ``slow`` pauses, [from ms, to ms, from place, to place, step, whether it follows, number of the moment]
        * ``open`` moments, [number, step, whether it follows]: the step lacks that of keys committed for the first time in the block
        * those ``keys``, [topic, partition, number of the first moment, its offset, the last offset]
        * ``first`` moment, [ms, place, whether no record of the group came before it], and ``last``: the same, behind it
        """
        if not summary["moments"]:
            self._marked = True
            return
        steps: Counter[int] = Counter()
        for topic, partition, moment, offset, last_offset in summary["keys"]:
            steps[moment] += abs(offset - self._offsets.get((topic, partition), offset))
            self._offsets[topic, partition] = last_offset
        first_ms, place, directly = summary["first"]
        follows = directly and not self._marked
        for moment, step, in_block in summary["open"]:
            steps[moment] += step
            if in_block or (moment == 0 and follows):
                self._steps[steps[moment]] += 1
        if self._last is None:
            self._first_ms = first_ms
        else:
            from_ms, from_place = self._last
            if follows:
                self._pauses[first_ms - from_ms] += 1
            if first_ms - from_ms >= LEAST_MS:
                self._add_slow(from_ms, first_ms, from_place, place, steps[0], follows)
        for value, times in summary["pauses"]:
            self._pauses[value] += times
        for value, times in summary["steps"]:
            self._steps[value] += times
        open_ = {moment for moment, *_ in summary["open"]}
        for from_ms, to_ms, from_place, to_place, step, in_block, moment in summary["slow"]:
            self._add_slow(from_ms, to_ms, from_place, to_place, steps[moment] if moment in open_ else step, in_block)
        *last, directly = summary["last"]
        self._last, self._marked = (last[0], last[1]), not directly

    def _add_slow(self, from_ms: int, to_ms: int, from_place: int, to_place: int, step: int, follows: bool) -> None:
        pause = {"from_ms": from_ms, "to_ms": to_ms, "from_offset": from_place, "to_offset": to_place, "advance": step}
        self._slow.append({"sort": 1, "detail": None if follows else MARKED, "number": len(self._slow), **pause})

    def signs(self) -> Iterator[dict[str, Any]]:
        """The unusual pauses, and then the pace, as rows of `stuck_in_logs.SIGNS`; nothing of a group that commits seldom."""
        times = self._pauses.total()
        if times < REGULAR:
            return
        least_ms = max(LEAST_MS, UNUSUAL * _at(self._pauses, times * 9 // 10))
        usual = _at(self._steps, times // 2)
        total_ms = max(sum(ms * number for ms, number in self._pauses.items()), 1)
        total = sum(step * number for step, number in self._steps.items())
        for pause in self._slow:
            pause_ms = pause["to_ms"] - pause["from_ms"]
            if pause_ms >= least_ms:
                yield {**pause, "usual": usual, "expected": total * pause_ms // total_ms}
        assert self._last is not None
        yield {"sort": 2, "from_ms": self._first_ms, "to_ms": self._last[0]}


class Silences:
    """The silences of one log partition, put together of the summaries of its blocks (`condensing`), in the order of the log: pauses
    between two commits that are neighbours."""

    BUSY = 20
    """Records that a partition must have for its pace to be known."""
    UNUSUAL = 10
    """A silence is so many times as long as nine of ten pauses of the partition."""

    def __init__(self, least_ms: int) -> None:
        self._least_ms = least_ms
        self._records = 0
        self._pauses = Counter[int]()
        self._silences: list[tuple[int, int]] = []
        self._last: tuple[int, int, bool] | None = None

    def add(self, summary: Mapping[str, Any]) -> None:
        """``summary``: see `condensing`."""
        first_ms, place, is_commit = summary["first"]
        if self._last is not None:
            last_ms, last_place, was_commit = self._last
            self._pauses[first_ms - last_ms] += 1
            if place - last_place == 1 and is_commit and was_commit and first_ms - last_ms >= self._least_ms:
                self._silences.append((last_ms, first_ms))
        for value, times in summary["pauses"]:
            self._pauses[value] += times
        self._records += summary["count"]
        self._silences += [(from_ms, to_ms) for from_ms, to_ms in summary["silences"]]
        last_ms, place, was_commit = summary["last"]
        self._last = (last_ms, place, was_commit)

    def found(self) -> list[tuple[int, int]]:
        """From when to when, ms."""
        times = self._pauses.total()
        if self._records < self.BUSY or not times:
            return []
        usual_ms = _at(self._pauses, -(-times * 9 // 10) - 1)
        return [silence for silence in self._silences if silence[1] - silence[0] >= self.UNUSUAL * usual_ms]


def _at(values: Counter[int], number: int) -> int:
    """The value with that number (from 0) among all of them in order."""
    for value in sorted(values):
        number -= values[value]
        if number < 0:
            return value
    raise IndexError(number)


def slow_periods_of(pauses: Iterable[Row]) -> list[SlowPeriod]:
    """From unusually long pauses of groups (log_partition, group, from_ms, to_ms, from_offset, to_offset, advance, usual, detail), in
    order: those that follow each other are one, for several members try at the pace of the timeout, each for itself."""
    result = []
    for (log_partition, group), rows in groupby(pauses, key=lambda row: (row["log_partition"], row["group"])):
        run: list[Row] = []
        for row in [*rows, None]:
            if run and (row is None or row["from_ms"] - run[-1]["to_ms"] > BETWEEN_MS):
                result.append(_slow_period(log_partition, group, run))
                run = []
            if row is not None:
                run.append(row)
    return result


def _slow_period(log_partition: int, group: str, run: list[Row]) -> SlowPeriod:
    plain = [row for row in run if row["detail"] != MARKED]
    jumped = max(row["advance"] for row in run) > JUMP * max(run[0]["usual"], 1)
    # a group that rebalanced meanwhile had its reason to pause, unless it tried again and again before
    shows = jumped and (len(plain) == len(run) or len(plain) > 1)
    first, last = run[0], run[-1]
    return SlowPeriod(
        log_partition,
        group,
        first["from_ms"],
        last["to_ms"],
        first["from_offset"],
        last["to_offset"],
        shows,
        _repeated_ms(run) if shows else None,
        not plain,
        jumped,
    )


def _repeated_ms(run: list[Row]) -> int | None:
    """Rule 6: when the first commit was repeated; None where the offsets went on otherwise than after commits that timed out."""
    least_ms, most_ms = REPEATED_MS
    for row in run:
        if row["detail"] != MARKED and row["advance"] == 0 and least_ms <= row["to_ms"] - row["from_ms"] <= most_ms:
            later = [other for other in run if other["from_ms"] >= row["to_ms"]]
            jump = sum(other["advance"] for other in later)
            expected = sum(other["expected"] for other in run)
            return int(row["to_ms"]) if JUMP * max(row["usual"], 1) < jump <= FARTHER * expected else None
    return None


def _regained(stretches: Iterable[SlowPeriod]) -> Iterator[Row]:
    """Signs of the moments from which a group committed at its usual pace again (rule 5), TIMED_OUT_MS later: a line may come late."""
    last: SlowPeriod | None = None
    for stretch in stretches:
        same = last is not None and (last.log_partition, last.group) == (stretch.log_partition, stretch.group)
        if last is not None and same and stretch.from_ms - last.to_ms >= REGAINED_MS:
            at_ms = last.to_ms
            yield {
                "log_partition": last.log_partition,
                "what": REGAINED,
                "ts_ms": at_ms + TIMED_OUT_MS,
                "waits_ms": at_ms,
            }
        last = stretch


@dataclass(slots=True)
class _Period:
    log_partition: int
    from_ms: int
    to_ms: int | None
    last_ms: int
    attempts: int = 0
    errors: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    of_broker: bool = False
    found_ms: int | None = None
    """time at which a client found its coordinator again, after the last failure."""
    under: bool = False
    """fewer in-sync replicas than are asked for, as far as is known."""
    evidence: str = ""


def periods_of(signs: Iterable[Row], pauses: Iterable[Row], paces: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Rows of `STUCK_PARTITIONS` but for their moments for people. ``signs``: lines about partitions, with log_partition, what
    (`refused`, `ISR shrinks`, `ISR grows`, `ISR`, `commit failed`, ..; `epoch`: the first record of another leader), ts_ms, offset,
    waits_ms (when the record at that offset was written), number, detail, group, at. ``pauses``: see `slow_periods_of`, in order, of
    `MARKED` as well. ``paces``: log_partition and group of those that commit regularly, from_ms, to_ms."""
    stretches, paces = slow_periods_of(pauses), list(paces)
    by_partition: dict[int, list[Row]] = defaultdict(list)
    for sign in (*signs, *_regained(stretches)):
        by_partition[sign["log_partition"]].append(sign)
    periods: list[_Period] = []
    for log_partition, mine in by_partition.items():
        periods += _of_lines(log_partition, sorted(mine, key=lambda row: row["ts_ms"]))
    periods += _joined(periods, stretches, paces)
    rhythms = list(_of_rhythm([stretch for stretch in stretches if stretch.shows], paces, _epochs(by_partition)))
    for period in periods:
        end_ms = period.to_ms if period.to_ms is not None else period.last_ms
        for other in rhythms:
            if (
                other.log_partition == period.log_partition
                and other.from_ms <= end_ms
                and period.from_ms <= other.last_ms
            ):
                period.groups |= other.groups
                period.records += other.records
    for period in rhythms:
        if not any(
            other.log_partition == period.log_partition
            and other.from_ms <= period.last_ms
            and period.from_ms <= (other.to_ms if other.to_ms is not None else other.last_ms)
            for other in periods
        ):
            periods.append(period)
    for period in sorted(periods, key=lambda period: (period.from_ms, period.log_partition)):
        yield _row(period)


def _epochs(signs: Mapping[int, list[Row]]) -> dict[int, list[int]]:
    """Times in ms at which the leader epoch of each log partition changed."""
    return {
        log_partition: [sign["ts_ms"] for sign in mine if sign["what"] == "epoch"]
        for log_partition, mine in signs.items()
    }


def _row(period: _Period) -> dict[str, Any]:
    if period.evidence in ("together", REPEATED):
        certainty = LIKELY
    elif period.evidence:
        certainty = LIKELY if len(period.groups) > 1 else POSSIBLE
    else:
        certainty = CERTAIN if period.of_broker or len(period.groups) > 1 else LIKELY
    return {
        "log": f"__consumer_offsets-{period.log_partition}",
        "log_partition": period.log_partition,
        "from_ms": period.from_ms,
        "to_ms": period.to_ms,
        "last_ms": period.last_ms,
        "attempts": period.attempts or None,
        "errors": sorted(period.errors),
        "groups": sorted(period.groups) or None,
        "evidence": period.evidence or ("broker log" if period.of_broker else "client log"),
        "certainty": certainty,
        "evidence_lines": list(dict.fromkeys(period.lines))[:20],
        "evidence_offsets": sorted(set(period.records))[:20],
    }


# ------------------------------------------------------------------------------------------------ lines


def _of_lines(log_partition: int, signs: list[Row]) -> list[_Period]:
    periods: list[_Period] = []
    open_: _Period | None = None
    for sign in signs:
        what, ts_ms = sign["what"], sign["ts_ms"]
        if open_ is not None and not open_.under and ts_ms - TIMED_OUT_MS > open_.last_ms + APART_MS:
            periods.append(open_)
            open_ = None
        began_ms = _begins(sign)
        if what == "epoch":
            if open_ is not None and not open_.of_broker and open_.last_ms + APART_MS >= ts_ms:
                open_ = None  # it moved
        elif what == REGAINED:
            if open_ is not None and not open_.under and open_.last_ms <= ts_ms and open_.from_ms <= sign["waits_ms"]:
                open_.to_ms = sign["waits_ms"]
                periods.append(open_)
                open_ = None
        elif what in ("coordinator found", "synced"):
            if open_ is not None and open_.found_ms is None:
                open_.found_ms = ts_ms
        elif began_ms is not None:
            if open_ is None:
                open_ = _Period(log_partition, began_ms, None, ts_ms)
            open_.found_ms = None
            open_.from_ms = min(open_.from_ms, began_ms)
            open_.last_ms = max(open_.last_ms, ts_ms)
            _add(open_, sign)
        elif open_ is not None and what in ("ISR grows", "ISR"):
            under = "under-min-isr" in (sign["detail"] or "")
            if under:
                open_.under = True
                open_.lines.append(sign["at"])
            elif what == "ISR grows" or "," in (sign["detail"] or ""):
                # 3.4 logs only the ISR: more than one replica counts as enough
                open_.to_ms, open_.under = ts_ms, False
                open_.lines.append(sign["at"])
                periods.append(open_)
                open_ = None
    if open_ is not None:
        periods.append(open_)
    for period in periods:
        if period.to_ms is None and not period.under:
            period.to_ms = period.found_ms
    return [period for period in periods if period.of_broker or period.attempts > 1]


def _joined(periods: list[_Period], stretches: list[SlowPeriod], paces: list[Row]) -> list[_Period]:
    """Rule 3: groups of the same partition are added to a period, those of others make periods of their own, where all of a partition's
    groups slowed down and had read on (rule 2)."""
    result: list[_Period] = []
    begun: dict[tuple[int, int], list[SlowPeriod]] = defaultdict(list)
    for stretch in stretches:
        for number, period in enumerate(periods):
            end_ms = period.to_ms if period.to_ms is not None else period.last_ms
            if abs(stretch.from_ms - period.from_ms) > TIMED_OUT_MS or stretch.to_ms < end_ms - TIMED_OUT_MS:
                continue
            if stretch.log_partition == period.log_partition:
                period.groups.add(stretch.group)
                period.records.append(stretch.from_offset)
            elif not stretch.marked and stretch.jumped:
                begun[number, stretch.log_partition].append(stretch)
            break
    known = {period.log_partition for period in periods}
    for (number, log_partition), mine in begun.items():
        from_ms, until = min(stretch.from_ms for stretch in mine), max(stretch.to_ms for stretch in mine)
        there = {
            row["group"] for row in paces if row["log_partition"] == log_partition and _spans(row, from_ms, from_ms)
        }
        hit = {stretch.group for stretch in mine}
        if log_partition in known or not there <= hit:
            continue
        known.add(log_partition)
        period = _Period(log_partition, from_ms, until, until, groups=hit, evidence="together")
        period.records = [stretch.from_offset for stretch in mine]
        period.lines = periods[number].lines[:4]
        result.append(period)
    return result


def _begins(sign: Row) -> int | None:
    """Since when no append was committed, if a sign shows that one was not; else None."""
    if sign["what"] == "refused":
        # a former leader also refuses: that is a move
        return None if _MOVED.search(sign["detail"] or "") else int(sign["ts_ms"])
    if sign["what"] == "ISR shrinks":
        waits = sign["number"] is not None and sign["offset"] is not None and sign["number"] > sign["offset"]
        return (
            None
            if not waits
            else int(sign["ts_ms"] if sign["waits_ms"] is None else min(sign["waits_ms"], sign["ts_ms"]))
        )
    if sign["what"] in ("commit failed", "coordinator lost"):
        # a timeout is also answered COORDINATOR_NOT_AVAILABLE (GroupMetadataManager.scala, GroupCoordinatorService.java)
        at_once = _REFUSED.search(sign["detail"] or "") is not None
        return int(sign["ts_ms"]) - (0 if at_once else TIMED_OUT_MS)
    return None


def _add(period: _Period, sign: Row) -> None:
    period.lines.append(sign["at"] if sign["group"] is None else f"{sign['at']} ({sign['group']})")
    if sign["what"] == "ISR shrinks":
        period.of_broker = True
        if sign["offset"] is not None:
            period.records.append(sign["offset"])
        return
    period.attempts += 1
    if sign["what"] == "refused":
        period.of_broker = period.under = True
    if sign["group"] is not None:
        period.groups.add(sign["group"])
    if sign["detail"]:
        period.errors.add(first_words(sign["detail"], MOST_WORDS))


# ------------------------------------------------------------------------------------------------ rhythm


def _of_rhythm(stretches: list[SlowPeriod], paces: list[Row], epochs: Mapping[int, list[int]]) -> Iterator[_Period]:
    """Periods in which groups of one partition slowed down together, while some group elsewhere kept its pace. ``epochs``: when the
    leader epoch of a partition changed."""
    by_partition: dict[int, list[SlowPeriod]] = defaultdict(list)
    for stretch in sorted(stretches, key=lambda stretch: (stretch.from_ms, stretch.group)):
        by_partition[stretch.log_partition].append(stretch)
    for log_partition, mine in by_partition.items():
        while mine:
            first = mine[0]
            together = [
                stretch
                for stretch in mine
                if abs(stretch.from_ms - first.from_ms) <= TOGETHER_MS
                and abs(stretch.to_ms - first.to_ms) <= TOGETHER_MS
            ]
            mine[:] = [stretch for stretch in mine if stretch not in together]
            from_ms, to_ms = max(stretch.from_ms for stretch in together), min(stretch.to_ms for stretch in together)
            there = {
                row["group"] for row in paces if row["log_partition"] == log_partition and _spans(row, from_ms, to_ms)
            }
            elsewhere = {
                (row["log_partition"], row["group"])
                for row in paces
                if row["log_partition"] != log_partition and _spans(row, from_ms, to_ms)
            }
            slowed = {
                (stretch.log_partition, stretch.group)
                for stretch in stretches
                if stretch.log_partition != log_partition and stretch.from_ms < to_ms and from_ms < stretch.to_ms
            }
            hit = {stretch.group for stretch in together}
            if from_ms >= to_ms or not elsewhere - slowed or len(hit) * 2 < len(there):
                continue
            yield _Period(
                log_partition,
                min(stretch.from_ms for stretch in together),
                max(stretch.to_ms for stretch in together),
                max(stretch.to_ms for stretch in together),
                groups=hit,
                records=[offset for stretch in together for offset in (stretch.from_offset, stretch.to_offset)],
                evidence=REPEATED
                if there <= hit and _is_repeated(together, epochs.get(log_partition, ()))
                else "rhythm",
            )


def _is_repeated(together: list[SlowPeriod], epochs: Iterable[int]) -> bool:
    """Rule 6, of the only group of a partition."""
    first, *others = together
    at_ms = first.repeated_ms
    return not others and at_ms is not None and not any(first.from_ms <= epoch_ms <= at_ms for epoch_ms in epochs)


def _spans(row: Row, from_ms: int, to_ms: int) -> bool:
    """Whether a group was there before and after."""
    return bool(row["from_ms"] <= from_ms and to_ms <= row["to_ms"])
