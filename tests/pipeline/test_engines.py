"""Each table on both engines: one function, the same inputs, the same rows."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from broker_sim.pipeline.derived import derived
from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.engine import engine_of, functions
from broker_sim.pipeline.lines import broker_lines, client_lines
from broker_sim.pipeline.schemas import OFFSET_LOG, TableSchema
from broker_sim.pipeline.scope import CONTEXT_MS, Scope
from broker_sim.pipeline.segments import read_offsets
from broker_sim.pipeline.tables.condensed import condensed
from broker_sim.pipeline.tables.coordinator_hotspots import COORDINATOR_HOTSPOTS, java_hash
from broker_sim.pipeline.tables.coordinator_moves import COORDINATOR_MOVES
from broker_sim.pipeline.tables.events import EVENTS, calls, skipped
from broker_sim.pipeline.tables.lag import LAG, LOG_ENDS, group_lag, journal_ends
from broker_sim.pipeline.tables.log_lines import LOG_LINES, aligned, with_groups
from broker_sim.pipeline.tables.member_churn import memberships
from broker_sim.pipeline.tables.offset_deletions import OFFSET_DELETIONS
from broker_sim.pipeline.tables.offset_log import commits, journal_log, offset_log
from broker_sim.pipeline.tables.offset_regressions import OFFSET_REGRESSIONS
from broker_sim.pipeline.tables.rebalances import REBALANCES
from broker_sim.pipeline.tables.share_deliveries import SEEN as SHARES_SEEN
from broker_sim.pipeline.tables.share_deliveries import SHARE_DELIVERIES
from broker_sim.pipeline.tables.stuck_partitions import STUCK_PARTITIONS
from broker_sim.pipeline.tables.transactions import SEEN, TRANSACTIONS
from tests.incidents.run_pipeline import recorded, unpack
from tests.pipeline.offsets import T0, Log
from tests.pipeline.support_journal import Book, all_played, arrow, large, played_text, snapshot
from tests.pipeline.test_beginnings import at_the_end
from tests.pipeline.test_what_is_said import read_over

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

GROUPS = ("billing", "audit", "größe", "𝒰nits", "", "a" * 300)
SEEDS = range(4)


@pytest.fixture(scope="module")
def duck() -> DuckSession:
    return DuckSession()


UNBOUNDED_WORK = re.compile(
    r"specifiedwindowframe\(\w+, (?!unboundedpreceding)[^,]+, unboundedfollowing[^)]*|CartesianProduct"
)
"""In a plan of Spark's: a frame that is computed anew for each row, to the partition's end; rows that are compared with all others."""


class Both:
    """One input in both engines."""

    def __init__(self, spark: Any, duck: DuckSession, folder: Path) -> None:
        self.spark, self.duck, self.folder = spark, duck, folder

    def frames(self, table: TableSchema, rows: Any) -> tuple[Any, Any]:
        """``rows``: a pyarrow.Table. Spark has it from a file: rows within a plan make plans slow."""
        from pyarrow import parquet

        path = self.folder / f"{table.name}-{len(list(self.folder.iterdir()))}.parquet"
        parquet.write_table(rows, path)
        return self.spark.read.schema(table.spark()).parquet(str(path)), self.duck.of_arrow(rows)

    def compare(self, events: Any, log: Any, ends: Any, *, window_ms: int = 1000) -> dict[str, int]:
        """All tables of these pyarrow tables; how many rows each has."""
        ins = [self.frames(table, rows) for table, rows in ((EVENTS, events), (OFFSET_LOG, log), (LOG_ENDS, ends))]
        made = []
        for inputs in zip(*ins, strict=True):
            short = condensed(inputs[1], window_ms, ordered=True)
            made.append({**derived(*inputs, window_ms, short=short), **_views(*inputs, window_ms)})
        counts = {}
        for name in made[0]:
            on_spark, on_duck = (each[name]() for each in made)
            theirs, ours = rows(on_spark), rows(on_duck)
            label = name if isinstance(name, str) else name.name
            assert ours == theirs, label
            plan = on_spark._jdf.queryExecution().toString()
            assert not UNBOUNDED_WORK.findall(plan), label
            counts[label] = len(ours)
        return counts


@pytest.fixture(scope="module")
def both(spark: Any, duck: DuckSession, tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(spark, duck, tmp_path_factory.mktemp("inputs"))


def _views(events: Any, log: Any, ends: Any, window_ms: int) -> dict[Any, Callable[[], Any]]:
    """Return intermediate frames that are no tables: inputs of tables, and those that a run makes without a log."""
    from broker_sim.pipeline.tables.lag import lag

    told = journal_log(events)
    without = derived(events, told, ends, window_ms, logged=False)
    return {
        "calls": lambda: calls(events).drop("body"),
        "skipped": lambda: skipped(events),
        "commits": lambda: commits(log),
        "journal_log": lambda: told,
        "offset_log": lambda: offset_log(log.unionByName(log)),
        "journal_ends": lambda: journal_ends(events),
        "memberships": lambda: memberships(events, log),
        "group_lag": lambda: group_lag(LAG.conform(lag(log, ends, window_ms))),
        **{
            f"{table.name}, no log": without[table]
            for table in (LAG, OFFSET_REGRESSIONS, OFFSET_DELETIONS, COORDINATOR_HOTSPOTS)
        },
    }


def rows(frame: Any) -> list[str]:
    """A frame's rows as texts, in an order of their own; moments in ms."""
    found = [row.asDict(recursive=True) for row in frame.collect()]
    return sorted(json.dumps({name: _plain(value) for name, value in row.items()}, sort_keys=True) for row in found)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round((value if value.tzinfo else value.astimezone()).timestamp() * 1000)
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return round(value, 9)
    return value


def empty(table: TableSchema) -> Any:
    return table.arrow().empty_table()


def of_rows(table: TableSchema, made: Iterable[Mapping[str, Any]]) -> Any:
    import pyarrow

    return pyarrow.Table.from_pylist([{name: row.get(name) for name in table.names} for row in made], table.arrow())


# ------------------------------------------------------------------------------------------------ inputs


def odd() -> list[dict[str, Any]]:
    """A kind of event of a newer version, ids of anybody."""
    book = Book()
    for group in GROUPS:
        book.step(None, snapshot("Stable", 1), group, api="JoinGroup")
        book.commit("m", 1, {"orders-0": 5}, group=group)
    return [*book.events, {"seq": 99, "ts_ms": 1_000_001, "event": "newer", "x": 1}, {"seq": "no"}]


def a_log(seed: int) -> list[dict[str, Any]]:
    """Records as no cluster would order them, but of every kind: commits that go back and are deleted, transactions that end, fail and
    don't end, groups that change, lose their records, and end; records without a time."""
    chance = random.Random(seed)
    made: list[dict[str, Any]] = []
    for run in (f"{seed}-a", f"{seed}-b"):
        for partition in chance.sample(range(50), 3):
            log, at = Log(partition, run), 0
            names = [f"{name}{partition}" for name in chance.sample(GROUPS, 3)]  # a group lives in one partition
            generation = dict.fromkeys(names, 0)
            for _ in range(chance.choice([5, 60, 200])):
                at += chance.choice([0, 1, 40, 700, 5000, 12_000])
                group = chance.choice(names)
                kind = chance.random()
                if kind < 0.55:
                    log.commit(at, chance.randrange(100), group, chance.randrange(3))
                elif kind < 0.62:
                    log.delete(at, group, chance.randrange(3))
                elif kind < 0.75:
                    generation[group] += chance.choice([0, 1, 1, 3])
                    members = [_member(chance, name) for name in chance.sample("abcde", chance.randrange(4))]
                    log.add(
                        "group", at, group=group, generation=generation[group], members=members,
                        state_ts_ms=T0 + at - chance.choice([0, 0, 9000]), leader=members[0]["member_id"] if members else None,
                    )  # fmt: skip
                elif kind < 0.79:
                    log.add("group_tombstone", at, group=group)
                elif kind < 0.93:
                    log.in_transaction(chance.randrange(2), at, chance.randrange(100), group=group)
                elif kind < 0.98:
                    log.end_transaction(chance.randrange(2), at, committed=chance.random() < 0.7)
                else:
                    log.add("other", at, group=group, record_type="ConsumerGroupMetadata")["record_ts_ms"] = None
                if chance.random() < 0.05:
                    next(log._offsets)  # compaction took one
            for number, row in enumerate(log.rows):  # half of it was written by another leader
                row["leader_epoch"] = 3 + (2 * number // len(log.rows))
            made += log.rows
    return made


def _member(chance: random.Random, name: str) -> dict[str, Any]:
    assigned = [{"topic": "orders", "partitions": chance.sample(range(5), chance.randrange(3))}]
    return {
        "member_id": f"{name}-{chance.randrange(2)}",
        "group_instance_id": name if chance.random() < 0.3 else None,
        "client_id": name,
        "topics": ["orders"] if chance.random() < 0.8 else None,
        "assigned": assigned if chance.random() < 0.8 else None,
    }


def some_ends(seed: int) -> list[dict[str, Any]]:
    """Return log ends of two of the three partitions that `a_log` commits to, from before the first commit on."""
    chance = random.Random(seed)
    return [
        {"run_id": f"{seed}-{run}", "source": "log", "topic": "orders", "partition": partition, "at_ms": T0 + at, "end": end * 7,
         "start": end * 3 if end % 2 else None}
        for run in ("a", "b")
        for partition in range(2)
        for end, at in enumerate(sorted(chance.sample(range(-5000, 300_000), 20)))
    ]  # fmt: skip


A_RUN = """
name: a run
cluster: {as_version: '4.1', offsets_partitions: 10, initial_rebalance_delay: 100ms}
topics: [{name: orders, partitions: 4, records: 40, rate: 20/s}]
clients:
  - {name: app, count: 2, group: billing, topics: [orders]}
  - {name: other, group: audit, topics: [orders]}
steps:
  - {name: in, when: {group: {billing: {state: Stable, members: 2}, audit: {state: Stable}}}}
  - {name: one goes, after: 3s, do: {client: app-1, action: leave}}
  - {name: later, after: 3s}
expect:
  - {within: 9s, group: {billing: {state: Stable, members: 1}}}
"""


def read(directory: Path, run_id: str) -> Any:
    """The offsets log of a directory, decoded."""
    import pyarrow

    folders = sorted(directory.glob("__consumer_offsets-*"))
    parts = [batch for folder in folders for batch in read_offsets(str(folder), run_id=run_id)]
    return pyarrow.Table.from_batches(parts, OFFSET_LOG.arrow())


def test_every_table(both: Both, tmp_path: Path) -> None:
    """Journals of every scenario; logs without a journal, made by chance and by real brokers; a log with its journal, as a run has
    them. Each is a run of its own."""
    import pyarrow

    a_run = played_text(A_RUN, data=tmp_path / "data")
    journals = {
        **all_played(),
        "large": large().events,
        "odd": odd(),
        "a run": a_run.events,
        "skips": read_over().events,
        "at the end": at_the_end().events,
    }
    events = pyarrow.concat_tables([arrow(told, name) for name, told in journals.items()])
    made = [row for seed in SEEDS for row in a_log(seed)]
    kept = [packed for packed in recorded() if "stuck" not in packed.name]
    real = [read(unpack(packed, tmp_path) / "data", packed.name) for packed in kept]
    assert len(real) > 2
    log = pyarrow.concat_tables([of_rows(OFFSET_LOG, made), read(tmp_path / "data", "a run"), *real])
    ends = of_rows(LOG_ENDS, [row for seed in SEEDS for row in some_ends(seed)])
    counts = both.compare(events, log, ends)
    elsewhere = {"offset_deletions, no log", "share_deliveries"}  # what other logs tell has tests of its own
    assert not [name for name, number in counts.items() if not number and name not in elsewhere], counts


def some_lines(seed: int) -> list[dict[str, Any]]:
    """Return log lines of brokers and clients about the contents of `a_log`: each kind of line, about any group and partition."""
    chance, made = random.Random(seed), []
    for number in range(300):
        source, kinds = chance.choice([("broker", list(broker_lines.KINDS)), ("client", list(client_lines.KINDS))])
        made.append(
            {
                "run_id": f"{seed}-a",
                "source": source,
                "file": f"{source}.log",
                "line": number,
                "what": chance.choice(kinds),
                "ts_ms": None if chance.random() < 0.05 else T0 + chance.randrange(400_000),
                "group": chance.choice([None, *(f"{name}{at}" for name in GROUPS for at in range(3))]),
                "topic": chance.choice([None, "orders", "__consumer_offsets", "__consumer_offsets"]),
                "partition": chance.randrange(50),
                "detail": chance.choice(
                    [None, "The request timed out.", "1 (under-min-isr)", "removing member a on heartbeat expiration"]
                ),
                **{
                    name: chance.choice([None, chance.randrange(6)])
                    for name in ("generation", "epoch", "offset", "number", "node")
                },
                "member": chance.choice([None, "a", "tx-1"]),
                "client_id": chance.choice([None, "a"]),
            }
        )
    return made


def test_the_tables_that_lines_add_to(both: Both) -> None:
    """Logs of brokers and clients beside a log without a journal; and transactions that were read elsewhere."""
    log = of_rows(OFFSET_LOG, [row for seed in SEEDS for row in a_log(seed)])
    lines = of_rows(LOG_LINES, [row for seed in SEEDS for row in some_lines(seed)])
    begun = [
        {
            "run_id": f"{seed}-a",
            "transactional_id": f"tx-{at}",
            "producer_id": at,
            "from_ms": T0 + at,
            "source": "state",
            "partitions": ["orders-0"],
        }
        | ({} if at % 2 else {"to_ms": T0 + at * 20_000, "end": "aborted"})
        | (
            {"result": ("fenced", "timed out", "abort")[at % 3], "decided_ms": T0 + 5, "blocked": ["orders-0 at 3"]}
            if at > 3
            else {}
        )
        | ({"hangs": True, "lost_abort": False, "until_ms": T0 + 99_000, "readers": ["a"]} if at == 5 else {})
        for seed in SEEDS
        for at in range(9)
    ]
    came_back = [
        {"run_id": f"{seed}-a", "group": "jobs", "topic_id": "AAAA", "partition": at, "from_offset": at, "to_offset": at + 2,
         "records": 2, "returns": at, "deliveries": at + 1, "outcome": (None, "archived")[at % 2], "first_ms": T0, "last_ms": T0 + at}
        for seed in SEEDS
        for at in range(4)
    ]  # fmt: skip
    inputs = (
        (EVENTS, empty(EVENTS)),
        (OFFSET_LOG, log),
        (LOG_ENDS, empty(LOG_ENDS)),
        (LOG_LINES, lines),
        (SEEN, of_rows(SEEN, begun)),
        (SHARES_SEEN, of_rows(SHARES_SEEN, came_back)),
    )
    made = []
    for events, kept, ends, said, seen, shares in zip(
        *(both.frames(table, rows) for table, rows in inputs), strict=True
    ):
        tables = derived(events, kept, ends, 1000, lines=said, seen=seen, shares=shares)
        told: dict[Any, Any] = {"lines": aligned(with_groups(said, kept), kept)}
        for table in (REBALANCES, STUCK_PARTITIONS, COORDINATOR_MOVES, TRANSACTIONS, SHARE_DELIVERIES):
            told[table] = tables[table]()
        made.append(told)
    for name, frame in made[0].items():
        found = rows(frame)
        assert found, name
        assert found == rows(made[1][name]), name


def test_tables_within_a_scope(both: Both) -> None:
    """--since, --until, --group: of inputs, and of tables that are made."""
    log = of_rows(OFFSET_LOG, [row for seed in SEEDS for row in a_log(seed)])
    lines = of_rows(LOG_LINES, [row for seed in SEEDS for row in some_lines(seed)])
    ends = of_rows(LOG_ENDS, [row for seed in SEEDS for row in some_ends(seed)])
    times = sorted(at_ms for at_ms in log["record_ts_ms"].to_pylist() if at_ms is not None)
    # half of the records are older than the context
    scope = Scope(CONTEXT_MS + times[len(times) // 2], CONTEXT_MS + times[-10], ("b*", "gr??e[0-1]", "𝒰*"))
    inputs = ((EVENTS, empty(EVENTS)), (OFFSET_LOG, log), (LOG_ENDS, ends), (LOG_LINES, lines))
    made: list[dict[str, list[str]]] = []
    for events, kept, known, said in zip(*(both.frames(table, rows) for table, rows in inputs), strict=True):
        ours = scope.log(kept)
        tables = derived(events, ours, scope.ends(known), 1000, lines=scope.lines(said, ours))
        told = {table.name: rows(scope.filtered(table.name, tables[table]())) for table in (LAG, STUCK_PARTITIONS)}
        made.append({"log": rows(ours), "lines": rows(scope.lines(said, ours)), **told})
    for name, found in made[0].items():
        assert found == made[1][name], name
    assert 0 < len(made[0]["log"]) < log.num_rows
    assert made[0]["lag"]


# ------------------------------------------------------------------------------------------------ the engine itself


def test_java_s_hash_of_any_name(both: Both) -> None:
    names = [
        *GROUPS,
        "polygenelubricants",
        "\U0001f600\U0001f600",
        "e\u0301",
        "line\nend",
        *map(chr, range(0x20, 0x300, 37)),
    ]
    table = TableSchema("names", (OFFSET_LOG["group"],))
    found = []
    for frame in both.frames(table, of_rows(table, [{"group": name} for name in names])):
        with engine_of(frame):
            found.append(rows(frame.select("group", java_hash(functions.col("group")).alias("hash"))))
    assert found[0] == found[1]
    assert len(found[0]) == len(names)


def test_a_moment_is_utc(duck: DuckSession) -> None:
    [row] = OFFSET_LOG.frame(duck, [{"record_ts": datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)}]).collect()
    assert row.record_ts == datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
