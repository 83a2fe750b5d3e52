"""A condensed log has all that the tables need: each of them has the same rows as of the whole log, wherever blocks end."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import Any

import pytest

from broker_sim.pipeline.condensing import NEEDED
from broker_sim.pipeline.condensing import condensed as of_batches
from broker_sim.pipeline.derived import derived, tables_of_tables
from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.log_stuck import LEAST_MS, Pace, Silences
from broker_sim.pipeline.schemas import OFFSET_LOG
from broker_sim.pipeline.tables.condensed import condensed
from broker_sim.pipeline.tables.coordinator_hotspots import COORDINATOR_HOTSPOTS
from broker_sim.pipeline.tables.coordinator_moves import COORDINATOR_MOVES
from broker_sim.pipeline.tables.events import EVENTS
from broker_sim.pipeline.tables.groups import GROUPS
from broker_sim.pipeline.tables.lag import LAG, LOG_ENDS
from broker_sim.pipeline.tables.member_churn import MEMBER_CHURN
from broker_sim.pipeline.tables.offset_deletions import OFFSET_DELETIONS
from broker_sim.pipeline.tables.offset_regressions import OFFSET_REGRESSIONS
from broker_sim.pipeline.tables.offset_resets import OFFSET_RESETS
from broker_sim.pipeline.tables.offset_stalls import OFFSET_STALLS
from broker_sim.pipeline.tables.rebalances import REBALANCES
from broker_sim.pipeline.tables.transactions import TRANSACTIONS
from tests.pipeline.offsets import Log

WINDOW_MS = 10_000
BLOCKS = (1, 7, 10_000)
SEEDS = int(os.environ.get("CONDENSED_SEEDS", "4"))
TABLES = (
    *(GROUPS, LAG, OFFSET_REGRESSIONS, OFFSET_DELETIONS, COORDINATOR_HOTSPOTS, OFFSET_RESETS),
    *(TRANSACTIONS, COORDINATOR_MOVES, REBALANCES, MEMBER_CHURN, OFFSET_STALLS),
)
"""Tables that are made of commits; the pauses of `stuck_partitions` are compared below."""


@pytest.fixture(scope="module")
def duck() -> Iterator[DuckSession]:
    session = DuckSession()
    yield session
    session.stop()


def a_long_log(seed: int) -> list[dict[str, Any]]:
    """Groups that commit steadily, and what happens to them: falls, deletions, rebalances, no members, silences, transactions, resets,
    other leaders, segments that end, records that compaction took, clocks that go back."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for partition in chance.sample(range(50), 2):
        log, at, segment, epoch = Log(partition), 0, 0, 3
        groups = [f"g{partition}-{number}" for number in range(chance.choice([1, 3]))]
        offsets = Counter[tuple[str, int]]()
        generation = dict.fromkeys(groups, 0)
        exactly_once = chance.sample(groups, chance.randrange(len(groups) + 1))
        calm = chance.choice([0.8, 0.97])
        for _ in range(chance.choice([20, 150, 600])):
            begun = len(log.rows)
            at += (
                chance.choice([0, 20, 500, 1000, 1000, 1000])
                if chance.random() < 0.97
                else chance.choice([4000, 12_000, 30_000])
            )
            group = chance.choice(groups)
            if chance.random() < calm:
                keys = chance.sample(range(3), chance.randrange(1, 4))
                for key in keys:
                    offsets[group, key] += chance.choice([0, 5, 5, 5, 5, 90])
                if group in exactly_once:
                    _transaction(chance, log, at, group, {key: offsets[group, key] for key in keys})
                else:
                    for key in keys:
                        log.commit(at, offsets[group, key], group, key)
            else:
                _happens(chance, log, at, group, offsets, generation)
            if chance.random() < 0.02:
                at -= 700
            if chance.random() < 0.02:
                next(log._offsets)
            if chance.random() < 0.02:
                segment = log.rows[-1]["log_offset"] + 1 if log.rows else 0
            epoch += chance.random() < 0.01
            for row in log.rows[begun:]:
                row |= {"segment": segment, "leader_epoch": epoch}
        rows += log.rows
    return rows


def _transaction(chance: random.Random, log: Log, at: int, group: str, offsets: dict[int, int]) -> None:
    """Mostly one commit of each partition, and the transaction's end; it may be aborted, commit one twice, or end at the next one's."""
    producer = 10 + int(group[-1])
    for key, offset in offsets.items():
        log.in_transaction(producer, at, offset, group=group, partition=key)
        if chance.random() < 0.03:
            log.in_transaction(producer, at + 1, offset + chance.choice([-7, 1]), group=group, partition=key)
    if chance.random() < 0.95:
        log.end_transaction(producer, at + chance.choice([0, 3]), committed=chance.random() < 0.95)


def _happens(
    chance: random.Random, log: Log, at: int, group: str, offsets: Counter[tuple[str, int]], generation: dict[str, int]
) -> None:
    key = chance.randrange(3)
    what = chance.choice(
        ["fall", "delete", "group", "empty", "end", "begin", "finish", "modern", "member", "no time", "twice"]
    )
    if what == "fall":
        offsets[group, key] = max(0, offsets[group, key] - chance.choice([1, 20, 500]))
        log.commit(at, offsets[group, key], group, key, committed_leader_epoch=chance.choice([1, 2]))
    elif what == "delete":
        log.delete(at, group, key)
    elif what in ("group", "empty"):
        generation[group] += 1
        log.generation(at, generation[group], ("a", "b") if what == "group" else (), group)
    elif what == "end":
        log.add("group_tombstone", at, group=group)
    elif what == "begin":
        log.in_transaction(chance.randrange(2), at, chance.randrange(900), group=group, partition=key)
    elif what == "finish":
        log.end_transaction(chance.randrange(2), at, committed=chance.random() < 0.7)
    elif what == "modern":
        there = chance.random() < 0.8
        log.add(
            "other",
            at,
            group=group,
            record_type="ConsumerGroupMetadata",
            generation=4,
            value_version=0 if there else None,
        )
    elif what == "member":
        there = chance.random() < 0.6
        log.add(
            "other", at, group=group, member="m", record_type="ConsumerGroupMemberMetadata", value_version=0 if there else None,
            detail=json.dumps({"clientId": "c", "subscribedTopicNames": ["orders"]}) if there else None,
        )  # fmt: skip
    elif what == "no time":
        log.commit(at, offsets[group, key], group, key)["record_ts_ms"] = None
    else:
        log.commit(at, offsets[group, key] + 1, group, key)
        log.commit(at, offsets[group, key], group, key)


def ends(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    times = [row["record_ts_ms"] for row in rows if row["record_ts_ms"] is not None]
    return [
        {
            "run_id": "r1",
            "source": "log",
            "topic": "orders",
            "partition": 0,
            "at_ms": at,
            "end": 8 * number,
            "start": number,
        }
        for number, at in enumerate(sorted(times)[::9])
    ]


def texts(frame: Any) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in frame.collect())


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_table_is_made_of_a_condensed_log_as_of_the_whole_one(duck: DuckSession, seed: int) -> None:
    rows = a_long_log(seed)
    log, events, known = OFFSET_LOG.frame(duck, rows), EVENTS.frame(duck), LOG_ENDS.frame(duck, ends(rows))
    whole = derived(events, log, known, WINDOW_MS)
    lag = LAG.conform(whole[LAG]()).persist()
    whole |= tables_of_tables(log, {"lag": lag})
    expected = {table: texts(whole[table]()) for table in TABLES}
    for block in BLOCKS[seed % 2 :]:
        short = condensed(log, WINDOW_MS, ordered=True, block=block)
        made = derived(events, log, known, WINDOW_MS, short=short) | tables_of_tables(short.rows, {"lag": lag})
        for table in TABLES:
            assert texts(made[table]()) == expected[table], f"{table.name}, blocks of {block}"
        (total,) = short.rows.agg(*_sums(short.rows)).collect()
        assert total["records"] == len(rows)


def _sums(frame: Any) -> list[Any]:
    from broker_sim.pipeline.engine import engine_of
    from broker_sim.pipeline.engine import functions as f

    with engine_of(frame):
        return [f.sum("records").alias("records")]


def test_what_is_condensed_grows_with_what_happens_and_not_with_commits(duck: DuckSession) -> None:
    def left(commits: int) -> int:
        log = Log()
        log.generation(0, 1)
        for number in range(commits):
            log.commit(number, number * 10, partition=number % 4)
        return condensed(log.frame(duck), 1 << 40, ordered=True).rows.count()

    assert left(20_000) == left(400) == 1 + 4 * 3


def test_a_group_that_commits_in_transactions_is_no_larger(duck: DuckSession) -> None:
    def left(transactions: int) -> int:
        log = Log()
        log.generation(0, 1)
        for number in range(transactions):
            for partition in range(4):
                log.in_transaction(7, number, number * 10, partition=partition)
            log.end_transaction(7, number, committed=True)
        short = condensed(log.frame(duck), 1 << 40, ordered=True).rows
        assert [row["records"] for row in short.agg(*_sums(short)).collect()] == [1 + 5 * transactions]
        return short.count()

    assert left(4000) == left(100) < 40


# ------------------------------------------------------------------------------------------------ pauses


def by_row(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of `Pace` for one group, from all of its commits one by one: the definition."""
    moments: list[list[int]] = []  # ms, place, step, whether it follows
    offsets: dict[tuple[str, int], int] = {}
    marked = True
    for row in rows:
        if row["kind"] in ("group", "group_tombstone") or (row.get("record_type") or "").startswith("ConsumerGroup"):
            marked = True
        elif row["kind"] == "commit" and row["record_ts_ms"] is not None:
            key = (row["topic"], row["partition"])
            step = abs(row["committed_offset"] - offsets.get(key, row["committed_offset"]))
            offsets[key] = row["committed_offset"]
            if moments and not marked and moments[-1][0] == row["record_ts_ms"]:
                moments[-1][1] = row["log_offset"]
                moments[-1][2] += step
            else:
                moments.append([row["record_ts_ms"], row["log_offset"], step, not marked])
            marked = False
    pairs = list(pairwise(moments))
    pauses = sorted(b[0] - a[0] for a, b in pairs if b[3])
    if len(pauses) < 15:
        return []
    least_ms = max(LEAST_MS, 3 * pauses[len(pauses) * 9 // 10])
    steps = sorted(b[2] for _, b in pairs if b[3])
    slow = [(a, b) for a, b in pairs if b[0] - a[0] >= least_ms]
    rate = sum(steps), max(sum(pauses), 1)
    return [
        *(
            {"sort": 1, "detail": None if b[3] else "marked", "from_ms": a[0], "to_ms": b[0], "from_offset": a[1], "to_offset": b[1],
             "advance": b[2], "usual": steps[len(steps) // 2], "expected": rate[0] * (b[0] - a[0]) // rate[1]}
            for a, b in slow
        ),
        {"sort": 2, "from_ms": moments[0][0], "to_ms": moments[-1][0]},
    ]  # fmt: skip


def summaries(rows: list[dict[str, Any]], block: int) -> list[dict[str, Any]]:
    import pyarrow

    table = pyarrow.Table.from_pylist(
        [{name: row.get(name) for name in OFFSET_LOG.names} for row in rows], OFFSET_LOG.arrow()
    )
    batches = table.select(NEEDED).to_batches()
    made = of_batches(batches, window_ms=WINDOW_MS, silence_ms=10_000, outside={}, block=block)
    return [row for batch in made for row in batch.to_pylist() if row["detail"] is not None]


def one_commit_a_moment(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without commits at the time of another one of their group: a block may end between the two, which makes two moments."""
    seen = set[tuple[Any, Any]]()
    kept = []
    for row in rows:
        moment = (row.get("group"), row["record_ts_ms"])
        if row["kind"] != "commit" or moment not in seen:
            kept.append(row)
        if row["kind"] == "commit":
            seen.add(moment)
    return kept


@pytest.mark.parametrize("seed", range(8))
def test_a_groups_pace_is_that_of_its_commits_one_by_one(seed: int) -> None:
    rows = a_long_log(seed)
    for block in BLOCKS[seed % 2 :]:
        given = one_commit_a_moment(rows)
        if block == max(BLOCKS):
            given = [row | {"segment": 0} for row in rows]
        found = sorted(
            (row for row in summaries(given, block) if row["group"]), key=lambda row: (row["group"], row["log_offset"])
        )
        signs: dict[str, list[dict[str, Any]]] = {}
        for group, mine in groupby(found, key=lambda row: row["group"]):
            pace = Pace()
            for row in mine:
                pace.add(json.loads(row["detail"]))
            signs[group] = [{name: value for name, value in sign.items() if name != "number"} for sign in pace.signs()]
        groups = {row["group"] for row in given if row.get("group")}
        assert {group: signs.get(group, []) for group in groups} == {
            group: by_row([row for row in given if row.get("group") == group]) for group in groups
        }, f"blocks of {block}"


@pytest.mark.parametrize("seed", range(8))
def test_a_partitions_silences_are_those_of_its_records_one_by_one(seed: int) -> None:
    rows = a_long_log(seed)
    expected = {}
    for partition, records in groupby(rows, key=lambda row: row["log_partition"]):
        mine = [row for row in records if row["record_ts_ms"] is not None]
        pairs = list(pairwise(mine))
        pauses = sorted(b["record_ts_ms"] - a["record_ts_ms"] for a, b in pairs)
        usual = pauses[-(-len(pauses) * 9 // 10) - 1] if pauses else 0
        expected[partition] = [
            (a["record_ts_ms"], b["record_ts_ms"])
            for a, b in pairs
            if b["log_offset"] - a["log_offset"] == 1
            and a["kind"] == b["kind"] == "commit"
            and b["record_ts_ms"] - a["record_ts_ms"] >= max(10_000, 10 * usual)
            and len(mine) >= 20
        ]
    for block in BLOCKS[seed % 2 :]:
        silences: dict[int, Silences] = {}
        for row in summaries(rows, block):
            if row["group"] is None:
                silences.setdefault(row["log_partition"], Silences(10_000)).add(json.loads(row["detail"]))
        assert {partition: sorted(one.found()) for partition, one in silences.items()} == {
            partition: sorted(found) for partition, found in expected.items()
        }


def test_condensing_reads_rows_in_any_order_where_it_may_sort_them(duck: DuckSession) -> None:
    rows = a_long_log(3)
    in_order = condensed(OFFSET_LOG.frame(duck, rows), WINDOW_MS, ordered=True)
    random.Random(3).shuffle(rows)
    sorted_ = condensed(OFFSET_LOG.frame(duck, rows), WINDOW_MS)
    assert texts(sorted_.rows) == texts(in_order.rows)


def test_without_a_journal_nothing_is_computed_from_one(duck: DuckSession) -> None:
    log, events = OFFSET_LOG.frame(duck, a_long_log(3)), EVENTS.frame(duck)
    made = derived(events, log, LOG_ENDS.frame(duck), WINDOW_MS, journaled=False)
    for name in ("duplicate_windows", "offset_skips", "commit_refusals"):
        [(table, make)] = [(table, make) for table, make in made.items() if table.name == name]
        empty = make()
        assert (tuple(empty.columns), empty.collect()) == (table.names, [])
        assert not uses(empty, events)
        [whole] = [
            make()
            for table, make in derived(events, log, LOG_ENDS.frame(duck), WINDOW_MS).items()
            if table.name == name
        ]
        assert uses(whole, events)


def uses(frame: Any, other: Any) -> bool:
    return frame is other or any(uses(one, other) for one in frame.over)
