"""The commits of an offsets log that matter, and a summary of the rest: what one pass over its records keeps, with NumPy, no engine.

    for batch in condensed(batches, window_ms=10_000, silence_ms=10_000, outside={}): ...

Of a hundred million commits nearly all follow a lower one of the same partition of the same group, and are followed by a higher one; no
table needs more of them than how many there were. The pass takes blocks of records, each by itself, in the order of the log.

Rules:
1. A commit is left out if it comes between two commits of its key (group, topic, partition) in the block that are plain, do not go
   back in offset or time, and lie in the same window of time; if no record of its group lies between it and either of them; and if its
   group has members then. The first two and the last one of a key in a block are kept, so that what comes of the union of all blocks
   is what comes of the whole log. Records of other kinds are kept.
2. A commit in a transaction has its place where that ended, if it began and ended in the block, and what was aborted or committed again
   has none (`_NEVER`): both are said in columns, and ends that settle nothing else are left out. Near the first end of a producer in a
   block nothing is left out: what it ends may have begun before.
3. A commit that is kept has in ``records`` how many it represents: itself, and those of its key that were left out before it.
4. The pauses of a log partition and of a group are counted by their length (`PARTITION`, `GROUP`: JSON in ``detail``, one for each
   block): a histogram, the long ones themselves, and what is needed at the seams. `log_stuck` puts them together.
5. A block ends with its segment: records of one segment come one after the other wherever a reader gets them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow
from pyarrow import compute

from broker_sim.pipeline.log_stuck import LEAST_MS
from broker_sim.pipeline.modern_groups import EPOCHS, WITH_MEMBERS
from broker_sim.pipeline.record_batches import gathered
from broker_sim.pipeline.schemas import LONG, OFFSET_LOG, STRING, ColumnSpec, TableSchema

__all__ = ["CONDENSED", "GROUP", "NEEDED", "PARTITION", "SUMMARIES", "condensed"]

BLOCK = 1 << 18
"""Records of a block, more or less."""

_NEVER, _OPEN = -1, -2
"""Effect offsets of commits in transactions: of one without effect, and of one whose effect, if any, is not in the block."""

PARTITION, GROUP = "pauses of a partition", "pauses of a group"
"""Kinds of summaries."""

NEEDED = (
    *("run_id", "log_partition", "log_offset", "record_ts_ms", "commit_ts_ms", "leader_epoch", "producer_id"),
    *(
        "is_txn",
        "kind",
        "record_type",
        "group",
        "topic",
        "partition",
        "committed_offset",
        "committed_leader_epoch",
        "segment",
    ),
)
"""Columns of OFFSET_LOG that a pass reads."""

_RECORDS = ColumnSpec(
    "records", LONG, "records of the log that the row represents: itself, and commits of its key left out before it"
)
_EFFECT = (
    ColumnSpec(
        "effect_offset", LONG, "of a commit in a transaction whose end is known: its log offset, -1 if it has no effect"
    ),
    ColumnSpec("effect_ms", LONG, "when that was, ms since 1970"),
)
CONDENSED = TableSchema(
    "condensed",
    (*OFFSET_LOG.columns, *_EFFECT, _RECORDS),
    "The records of an offset_log without commits that tell nothing.",
)
SUMMARIES = TableSchema(
    "summaries",
    (*(OFFSET_LOG[name] for name in NEEDED), *_EFFECT, _RECORDS, ColumnSpec("detail", STRING, "JSON of a summary")),
    "What one pass yields: commits that are kept, and summaries.",
)

Outside = Mapping[tuple[str, int, str], tuple[Any, Any]]
"""Run, log partition, group -> the log offsets from which it had no members, and up to which; ascending."""


def condensed(
    batches: Iterable[Any], *, window_ms: int, silence_ms: int, outside: Outside, block: int = BLOCK
) -> Iterator[Any]:
    """Record batches with the columns NEEDED, in the order of the log, to those of SUMMARIES. ``window_ms``: of the table lag;
    ``silence_ms``: pauses of a partition from so many ms on are kept themselves; ``block``: so many records are looked at together."""
    schema = SUMMARIES.arrow()
    for table in gathered(batches, block):
        one = _Block(table.combine_chunks(), window_ms, silence_ms, outside)
        if one.size:
            yield from one.kept(schema)
            rows = [*one.partitions(), *one.groups()]
            if rows:
                yield pyarrow.RecordBatch.from_pylist(rows, schema)


@dataclass(slots=True)
class _Commits:
    """Commits by group and in the order of the log, and the moments that they make: what is committed at one time is one."""

    rows: Any
    """Numbers of rows in the block."""
    starts: Any
    """Numbers in ``rows`` at which moments begin."""
    ts: Any
    places: Any
    marks: Any
    steps: Any
    open: Any
    """Whether a key is committed in it for the first time in the block: its step there is not known yet."""
    group: Any
    moment_of: Any


class _Block:
    """Consecutive records, perhaps of several logs."""

    def __init__(self, table: Any, window_ms: int, silence_ms: int, outside: Outside) -> None:
        self.table, self.silence_ms, self.size = table, silence_ms, table.num_rows
        if not self.size:
            return
        self.log_partition = _numbers(table["log_partition"])
        self.place = _numbers(table["log_offset"])
        self.ts, self.has_ts = _numbers(table["record_ts_ms"]), _valid(table["record_ts_ms"])
        self.offset, has_offset = _numbers(table["committed_offset"]), _valid(table["committed_offset"])
        kind = table["kind"]
        self.commit = _mask(compute.equal(kind, "commit"))
        self.of_key = self.commit | _mask(compute.equal(kind, "commit_tombstone"))
        self.transactional = _mask(compute.fill_null(table["is_txn"], False))
        self.runs, run = _codes(table["run_id"])
        self.names, self.group = _codes(table["group"])
        self.log = numpy.cumsum(
            _changes(run)
            | _changes(self.log_partition)
            | _changes(_numbers(table["segment"]))
            | numpy.concatenate(([True], self.place[1:] <= self.place[:-1]))
        )
        """Number of the log, or of the piece of one, that a record belongs to."""
        self.run = run
        self.of_group = self.log * (len(self.names) + 1) + self.group + 1
        self.in_groups = numpy.argsort(self.of_group, kind="stable")
        topics, topic = _codes(table["topic"])
        self.topics, self.topic, self.partition = topics, topic, _numbers(table["partition"])
        partitions, partition = _codes(table["partition"])
        self.key = (self.of_group * (len(topics) + 1) + topic + 1) * (len(partitions) + 1) + partition + 1
        self.plain = self.commit & has_offset & self.has_ts
        self.counted = self.commit & self.has_ts & has_offset & (self.group >= 0)
        self.window = self.ts - numpy.mod(self.ts, max(window_ms, 1))
        self.ends = _mask(compute.is_in(kind, pyarrow.array(["txn_commit", "txn_abort"])))
        self.effect, self.first_ends = self._settle(self.ends, _mask(compute.equal(kind, "txn_commit")))
        self.keep, self.records = self._kept(outside)

    # --- commits ----------------------------------------------------------------------------------------------------------

    def _settle(self, ends: Any, committed: Any) -> tuple[Any, Any]:
        """(the row at which each commit takes effect, the first end of a transaction of each producer). Of a commit outside of a
        transaction that is its own row; within one that begins and ends in the block, the row of its end, or `_NEVER`; else
        `_OPEN`."""
        effect = numpy.arange(self.size)
        inside = self.transactional & self.of_key
        effect[inside] = _OPEN
        first_ends = numpy.zeros(self.size, bool)
        rows = numpy.flatnonzero(inside | ends)
        if not rows.size:
            return effect, first_ends
        producer = _numbers(self.table["producer_id"])
        order = rows[numpy.lexsort((producer[rows], self.log[rows]))]
        numbers = numpy.arange(order.size)
        begins = _changes(self.log[order]) | _changes(producer[order])
        start = numpy.maximum.accumulate(numpy.where(begins, numbers, 0))
        is_end = ends[order]
        ended = numpy.cumsum(is_end) - is_end
        later = ended > ended[start]  # the producer ended one in the block before: this one began here
        behind = numpy.minimum.accumulate(numpy.where(is_end, numbers, order.size)[::-1])[::-1]
        end = numpy.minimum(behind, order.size - 1)
        known = ~is_end & later & (behind < order.size) & (start[end] == start) & self.has_ts[order[end]]
        first_ends[order[is_end & ~later]] = True
        mine, marker = order[known], order[end[known]]
        effect[mine] = numpy.where(committed[marker], marker, _NEVER)
        taken = mine[committed[marker]]  # of a transaction the last commit of each key counts
        taken = taken[numpy.lexsort((taken, self.key[taken], effect[taken]))]
        again = ~(_changes(effect[taken]) | _changes(self.key[taken]))[1:]
        effect[taken[:-1][again]] = _NEVER
        return effect, first_ends

    def _kept(self, outside: Outside) -> tuple[Any, Any]:
        keep = ~(self.of_key | self.ends) | (self.of_key & (self.effect < 0)) | self.first_ends
        self._keep_epochs(keep)
        records = numpy.ones(self.size, numpy.int64)
        self._count_ends(keep, records)
        rows = numpy.flatnonzero(self.of_key & (self.effect >= 0))
        order = rows[numpy.lexsort((rows, self.effect[rows], self.key[rows]))]
        if not order.size:
            return keep, records
        before, behind = order[:-1], order[1:]
        then, now = self.effect[before], self.effect[behind]
        same = self.key[before] == self.key[behind]
        fell = same & (self.offset[behind] < self.offset[before])
        marks = self._marks_at(order, self.effect[order])
        strange = ~self.plain[order] | (marks != self._marks_at(order, order))
        odd = fell | strange[:-1] | strange[1:] | (marks[:-1] != marks[1:])
        odd |= (self.ts[now] < self.ts[then]) | (self.ts[behind] < self.ts[before])
        odd |= self._outside(outside, order)[1:]
        odd &= same
        # what a commit fell from may be in another block: its next one is kept, too
        odd[1:] |= odd[:-1].copy() & same[1:]
        keep[before[odd]] = True
        keep[behind[odd]] = True
        keep[before[same & (self.window[then] != self.window[now])]] = True
        first = numpy.concatenate(([True], ~same))
        keep[order[first]] = True
        keep[order[numpy.concatenate((~same, [True]))]] = True
        keep[behind[first[:-1] & same]] = True
        at = numpy.flatnonzero(keep[order])
        starts = numpy.maximum.accumulate(numpy.where(first, numpy.arange(order.size), 0))[at]
        previous = numpy.concatenate(([-1], at[:-1]))
        records[order[at]] = at - numpy.maximum(previous, starts - 1)
        return keep, records

    def _keep_epochs(self, keep: Any) -> None:
        """Keep the records between which the leader's epoch changed or a log begins, of those that have a time, and the last one."""
        rows = numpy.flatnonzero(self.has_ts)
        if not rows.size:
            return
        changes = _changes(_numbers(self.table["leader_epoch"])[rows]) | _changes(self.log[rows])
        keep[rows[changes]] = True
        keep[rows[numpy.append(changes[1:], True)]] = True

    def _count_ends(self, keep: Any, records: Any) -> None:
        """The ends of transactions that are left out, as records of the first one of their log: all of them belong to no group."""
        dropped = numpy.flatnonzero(self.ends & ~keep)
        if dropped.size:
            firsts = numpy.flatnonzero(self.first_ends)
            _, at = numpy.unique(self.log[firsts], return_index=True)
            logs = self.log[firsts[at]]
            numpy.add.at(records, firsts[at][numpy.searchsorted(logs, self.log[dropped])], 1)

    def _marks_at(self, rows: Any, places: Any) -> Any:
        """For each of ``rows``, a number that is another one for two of one group if between their ``places`` (rows, too) lies a record
        of their group, or the first end of a transaction of a producer: what that ends may have begun in another block."""
        width = self.size + 1
        marks = numpy.sort((self.of_group * width + numpy.arange(self.size))[~self.of_key & (self.group >= 0)])
        firsts = numpy.cumsum(self.first_ends)
        return numpy.searchsorted(marks, self.of_group[rows] * width + places) + firsts[places]

    def _marks(self, which: Any) -> Any:
        """For each record, how many records of its group that are ``which`` came before it, or anything else that changes when one
        comes."""
        marks = numpy.empty(self.size, numpy.int64)
        marks[self.in_groups] = numpy.cumsum(which[self.in_groups])
        return marks

    def _outside(self, outside: Outside, commits: Any) -> Any:
        """Whether the groups of ``commits`` have no members when these take effect."""
        result = numpy.zeros(self.size, bool)
        if not outside:
            return result[commits]
        in_groups = commits[numpy.argsort(self.of_group[commits], kind="stable")]
        starts = numpy.flatnonzero(_changes(self.of_group[in_groups]))
        for rows in numpy.split(in_groups, starts[1:]):
            one = rows[0]
            if self.group[one] < 0:
                continue
            known = outside.get((self.runs[self.run[one]], int(self.log_partition[one]), self.names[self.group[one]]))
            if known is not None:
                places = self.place[self.effect[rows]]
                period = numpy.searchsorted(known[0], places, side="right") - 1
                result[rows] = (period >= 0) & (places < numpy.asarray(known[1])[period])
        return result[commits]

    def kept(self, schema: Any) -> Iterator[Any]:
        """The commits and ends of transactions that are kept, as SUMMARIES."""
        rows = numpy.flatnonzero(self.keep & (self.of_key | self.ends))
        if rows.size:
            effect = self.effect[rows]
            settled = self.transactional[rows] & self.of_key[rows] & (effect != _OPEN)
            some = self.table.select(NEEDED).take(pyarrow.array(rows))
            for name, values in (("effect_offset", self.place), ("effect_ms", self.ts)):
                some = some.append_column(
                    name, pyarrow.array(numpy.where(effect < 0, -1, values[numpy.maximum(effect, 0)]), mask=~settled)
                )
            some = some.append_column("records", pyarrow.array(self.records[rows]))
            some = some.append_column("detail", pyarrow.nulls(rows.size, pyarrow.string()))
            yield from some.cast(schema).to_batches()

    # --- pauses -----------------------------------------------------------------------------------------------------------

    def partitions(self) -> Iterator[dict[str, Any]]:
        """Summaries of log partitions: ``count`` of records that have a time, ``pauses`` [ms, how many], ``silences`` [from ms, to ms]
        between neighbours that are commits, ``first`` and ``last`` record [ms, log offset, whether it is a commit]."""
        rows = numpy.flatnonzero(self.has_ts)
        if not rows.size:
            return
        starts = numpy.flatnonzero(_changes(self.log[rows]))
        for mine in numpy.split(rows, starts[1:]):
            pauses = numpy.diff(self.ts[mine])
            next_to = numpy.diff(self.place[mine]) == 1
            working = self.commit[mine[1:]] & self.commit[mine[:-1]]
            long = numpy.flatnonzero(next_to & working & (pauses >= self.silence_ms))
            summary = {
                "count": int(mine.size),
                "pauses": _counts(pauses),
                "silences": [[int(self.ts[mine[at]]), int(self.ts[mine[at + 1]])] for at in long],
                **{name: self._end(int(mine[at])) for name, at in (("first", 0), ("last", -1))},
            }
            yield self._summary(int(mine[0]), PARTITION, None, summary)

    def _end(self, row: int) -> list[Any]:
        return [int(self.ts[row]), int(self.place[row]), bool(self.commit[row])]

    def groups(self) -> Iterator[dict[str, Any]]:
        """Summaries of groups: see `log_stuck.Pace`."""
        record_type = compute.fill_null(self.table["record_type"], "")
        changes = _mask(compute.is_in(self.table["kind"], pyarrow.array(["group", "group_tombstone"])))
        if compute.any(compute.not_equal(record_type, "")).as_py():
            changes |= _mask(compute.match_substring_regex(record_type, WITH_MEMBERS)) | _mask(
                compute.equal(record_type, EPOCHS)
            )
        marks = self._marks(changes & (self.group >= 0))
        commits = self._commits(marks)
        ends = numpy.flatnonzero(_changes(self.of_group[self.in_groups]))
        groups = [rows for rows in numpy.split(self.in_groups, ends[1:]) if self.group[rows[0]] >= 0]
        bounds = {} if commits is None else _bounds(commits.group)
        for rows in groups:
            found = bounds.get(int(self.of_group[rows[0]]))
            first_mark, last_mark = int(marks[rows[0]]) - int(changes[rows[0]]), int(marks[rows[-1]])
            if found is not None and commits is not None:
                summary = self._pace(commits, *found, first_mark, last_mark)
            elif last_mark > first_mark:
                summary = {"moments": 0}
            else:
                continue
            yield self._summary(int(rows[0]), GROUP, self.names[self.group[rows[0]]], summary)

    def _commits(self, marks: Any) -> _Commits | None:
        rows = self.in_groups[self.counted[self.in_groups]]
        if not rows.size:
            return None
        group, ts = self.of_group[rows], self.ts[rows]
        begins = _changes(group) | _changes(ts) | _changes(marks[rows])
        starts = numpy.flatnonzero(begins)
        by_key = numpy.argsort(self.key[rows], kind="stable")
        key, offset = self.key[rows][by_key], self.offset[rows][by_key]
        first = _changes(key)
        steps, firsts = numpy.empty(rows.size, numpy.int64), numpy.empty(rows.size, bool)
        steps[by_key] = numpy.where(first, 0, numpy.abs(numpy.diff(offset, prepend=offset[:1])))
        firsts[by_key] = first
        ends = numpy.concatenate((starts[1:], [rows.size])) - 1
        return _Commits(
            rows,
            starts,
            ts[starts],
            self.place[rows[ends]],
            marks[rows[starts]],
            numpy.add.reduceat(steps, starts),
            numpy.logical_or.reduceat(firsts, starts),
            group[starts],
            numpy.cumsum(begins) - 1,
        )

    def _pace(self, commits: _Commits, begin: int, end: int, first_mark: int, last_mark: int) -> dict[str, Any]:
        """The summary of the group whose moments are those from ``begin`` to ``end``."""
        ts, places, marks = commits.ts[begin:end], commits.places[begin:end], commits.marks[begin:end]
        steps, not_known = commits.steps[begin:end], commits.open[begin:end].copy()
        not_known[0] = True  # whether it follows another moment without a record of the group isn't known
        follows = numpy.concatenate(([False], marks[1:] == marks[:-1]))
        pauses = numpy.diff(ts)
        slow = numpy.flatnonzero(pauses >= LEAST_MS)
        unknown = numpy.flatnonzero(not_known)
        until = commits.starts[end] if end < commits.starts.size else commits.rows.size
        return {
            "moments": int(ts.size),
            "pauses": _counts(pauses[follows[1:]]),
            "steps": _counts(steps[follows & ~not_known]),
            "slow": [
                [
                    int(ts[at]),
                    int(ts[at + 1]),
                    int(places[at]),
                    int(places[at + 1]),
                    int(steps[at + 1]),
                    bool(follows[at + 1]),
                    int(at + 1),
                ]
                for at in slow
            ],
            "open": [[int(at), int(steps[at]), bool(follows[at])] for at in unknown],
            "keys": self._keys(commits, slice(commits.starts[begin], until), begin),
            "first": [int(ts[0]), int(places[0]), bool(marks[0] == first_mark)],
            "last": [int(ts[-1]), int(places[-1]), bool(marks[-1] == last_mark)],
        }

    def _keys(self, commits: _Commits, which: slice, begin: int) -> list[list[Any]]:
        """[topic, partition, moment of its first commit, its offset, offset of its last commit] of each key of a group."""
        rows, moments = commits.rows[which], commits.moment_of[which] - begin
        order = numpy.argsort(self.key[rows], kind="stable")
        starts = numpy.flatnonzero(_changes(self.key[rows][order]))
        firsts, lasts = order[starts], order[numpy.concatenate((starts[1:], [order.size])) - 1]
        return [
            [
                self.topics[self.topic[rows[a]]],
                int(self.partition[rows[a]]),
                int(moments[a]),
                int(self.offset[rows[a]]),
                int(self.offset[rows[b]]),
            ]
            for a, b in zip(firsts, lasts, strict=True)
        ]

    def _summary(self, row: int, kind: str, group: str | None, summary: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "run_id": self.runs[self.run[row]],
            "log_partition": int(self.log_partition[row]),
            "log_offset": int(self.place[row]),
            "kind": kind,
            "group": group,
            "detail": json.dumps(summary, separators=(",", ":")),
        }


def _numbers(column: Any) -> Any:
    return compute.fill_null(column, -1).to_numpy().astype(numpy.int64)


def _valid(column: Any) -> Any:
    return _mask(compute.is_valid(column))


def _mask(column: Any) -> Any:
    return column.to_numpy().astype(bool)


def _codes(column: Any) -> tuple[list[Any], Any]:
    """The values of a column of texts, and the number of each row's; -1 for null."""
    encoded = (
        column.combine_chunks().dictionary_encode() if column.num_chunks != 1 else column.chunk(0).dictionary_encode()
    )
    return encoded.dictionary.to_pylist(), compute.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(
        numpy.int64
    )


def _changes(values: Any) -> Any:
    """Whether a value differs from the one before it; the first one does."""
    return numpy.concatenate((numpy.ones(min(values.size, 1), bool), values[1:] != values[:-1]))


def _counts(values: Any) -> list[list[int]]:
    """[value, how often], ascending."""
    found, times = numpy.unique(values, return_counts=True)
    return [list(pair) for pair in zip(found.tolist(), times.tolist(), strict=True)]


def _bounds(groups: Any) -> dict[int, tuple[int, int]]:
    """Group -> from which moment to which."""
    starts = numpy.flatnonzero(_changes(groups))
    ends = [*starts[1:].tolist(), groups.size]
    return {int(groups[start]): (int(start), end) for start, end in zip(starts.tolist(), ends, strict=True)}
