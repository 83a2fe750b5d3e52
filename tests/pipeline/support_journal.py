"""Journals for the tests of the pipeline: lines made by hand, and runs of which it is known what happened."""

from __future__ import annotations

import atexit
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from broker_sim.journal import plain, problems
from broker_sim.pipeline.journal_events import LineSource, batches, rows_of
from broker_sim.pipeline.tables.events import EVENTS
from broker_sim.scenario.commands import shipped
from broker_sim.scenario.files import loads
from broker_sim.scenario.model import parse, read
from broker_sim.scenario.runner import ScenarioOptions, ScenarioOutcome
from broker_sim.scenario.virtual import play

Event = dict[str, Any]
LOG = "__consumer_offsets-9"


def line(event: Mapping[str, Any]) -> bytes:
    """An event as a journal writes it."""
    return json.dumps(event, default=plain, ensure_ascii=False, separators=(",", ":")).encode()


def arrow(events: Iterable[Mapping[str, Any]], run_id: str = "run", journal: int = 1) -> Any:
    """The rows of EVENTS that the source makes of these events."""
    import pyarrow

    where = LineSource(run_id, journal, f"{run_id}/journal-{journal:06}.ndjson")
    lines = ((place, line(event), True) for place, event in enumerate(events))
    return pyarrow.Table.from_batches(batches(rows_of(lines, where)), EVENTS.arrow())


def frame(spark: Any, **runs: Iterable[Mapping[str, Any]]) -> Any:
    """The events of one or several runs, by their names, as a DataFrame over a file: rows within a plan make plans slow."""
    import pyarrow
    from pyarrow import parquet

    path = Path(_FILES.name) / f"{next(_NUMBERS)}.parquet"
    parquet.write_table(pyarrow.concat_tables([arrow(events, name) for name, events in runs.items()]), path)
    return spark.read.schema(EVENTS.spark()).parquet(str(path))


_FILES = TemporaryDirectory(prefix="broker-sim-tests-")
atexit.register(_FILES.cleanup)
_NUMBERS = count()


def by_run(table: Any, *order: str) -> dict[str, list[dict[str, Any]]]:
    """A table's rows, each run's in order of these columns."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows(table, *order):
        found[row["run_id"]].append(row)
    return found


def rows(table: Any, *order: str) -> list[dict[str, Any]]:
    """A table's rows as dicts, in order of these columns; moments for people left out."""
    found = [row.asDict(recursive=True) for row in (table.orderBy(*order) if order else table).collect()]
    for row in found:
        for name in [name for name in row if f"{name}_ms" in row]:
            del row[name]
    return found


def picked(table: Iterable[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Return the named columns of each row."""
    return [tuple(row[name] for name in names) for row in table]


# ------------------------------------------------------------------------------------------------ by hand


def member(name: str, *partitions: str, instance: str | None = None, client: str | None = None, **more: Any) -> Event:
    """A member as snapshots show it; its client id is its name unless told."""
    assignment: dict[str, list[int]] = {}
    for one in partitions:
        topic, _, index = one.rpartition("-")
        assignment.setdefault(topic, []).append(int(index))
    return {
        "member": name,
        "client_id": client or name,
        "client_host": "/127.0.0.1",
        "instance": instance,
        "deferred": None,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "topics": ["orders"],
        "assignment": assignment or None,
        **more,
    }


def snapshot(state: str, generation: int, *members: Event, size: int | None = None) -> Event:
    """A group as `group` events show it."""
    return {
        "state": state,
        "generation": generation,
        "protocol": "range" if generation else None,
        "leader": members[0]["member"] if members else None,
        "size": len(members) if size is None else size,
        "members": list(members),
        "pending": [],
    }


class Book:
    """A journal that is written by hand; every event keeps to the vocabulary."""

    def __init__(self, ts_ms: int = 1_000_000) -> None:
        self.events: list[Event] = []
        self.ts_ms = ts_ms
        self.requests = 0

    def later(self, ms: int) -> None:
        """Time passes."""
        self.ts_ms += ms

    def write(self, event: str, **fields: Any) -> Event:
        made: Event = {"seq": len(self.events) + 1, "ts_ms": self.ts_ms, "event": event, **fields}
        assert problems(made) == []
        self.events.append(made)
        return made

    def step(
        self, before: Event | None, after: Event | None, group: str = "billing", log: str = LOG, **cause: Any
    ) -> Event:
        """A `group` event; its cause's kind is request where an ``api`` is given, timer where a ``timer`` is."""
        kind = "request" if "api" in cause else "timer" if "timer" in cause else "append"
        return self.write("group", log=log, group=group, cause={"kind": kind, **cause}, before=before, after=after)

    def request(self, api: str, body: Event, client: str = "app", **fields: Any) -> int:
        """A request; returns its number."""
        self.requests += 1
        about = {"broker": 1, "connection": 1, "version": 3, "correlation_id": self.requests, "client_id": client}
        self.write(
            "request", request=self.requests, api=api, client_host="/127.0.0.1", body=body, **{**about, **fields}
        )
        return self.requests

    def response(self, number: int, api: str, body: Event | None = None, took_ms: int = 0, **fields: Any) -> None:
        self.write("response", request=number, api=api, took_ms=took_ms, body=body or {}, **fields)

    def call(self, api: str, asked: Event, answered: Event | None = None, client: str = "app", **fields: Any) -> int:
        """A request and its answer; ``error`` and ``took_ms`` are the answer's."""
        of_answer = {name: fields.pop(name) for name in ("error", "took_ms") if name in fields}
        number = self.request(api, asked, client, **fields)
        self.later(of_answer.get("took_ms", 0))
        self.response(number, api, answered, **of_answer)
        return number

    def fetch(self, client: str, offset: int, records: int, partition: int = 0, topic: str = "orders") -> None:
        """A Fetch that is answered with so many records."""
        asked = {"topics": [{"topic": topic, "partitions": [{"partition": partition, "fetch_offset": offset}]}]}
        told = {
            "partition_index": partition,
            "error_code": 0,
            "high_watermark": 1000,
            "records": {"bytes": 1, "records": records},
        }
        answered = {"responses": [{"topic": topic, "partitions": [told]}]}
        self.call("Fetch", asked, answered, client, topics=[f"{topic}-{partition}"])

    def commit(
        self,
        member_id: str,
        generation: int,
        offsets: Mapping[str, int],
        error: str | None = None,
        group: str = "billing",
    ) -> int:
        """An OffsetCommit and its answer."""
        topics: dict[str, list[Event]] = {}
        for name, offset in offsets.items():
            topic, _, index = name.rpartition("-")
            topics.setdefault(topic, []).append({"partition_index": int(index), "committed_offset": offset})
        body = {
            "group_id": group,
            "generation_id_or_member_epoch": generation,
            "member_id": member_id,
            "topics": [{"name": topic, "partitions": parts} for topic, parts in topics.items()],
        }
        about = {"group": group, "member": member_id, "topics": list(offsets)}
        return self.call("OffsetCommit", body, {}, member_id, **about, **({"error": error} if error else {}))

    def append(self, last: int, high_watermark: int, group: str = "billing", log: str = LOG, **fields: Any) -> None:
        """An append of one record."""
        base = -1 if "error" in fields else last
        about = {
            "requests": [],
            "kinds": ["offsets"],
            "groups": [group],
            "records": 1,
            "base_offset": base,
            "last_offset": base,
        }
        self.write("append", log=log, high_watermark=high_watermark, **about, **fields)

    def committed(self, high_watermark: int, group: str = "billing", log: str = LOG) -> None:
        self.write("committed", log=log, high_watermark=high_watermark, groups=[group])


# ------------------------------------------------------------------------------------------------ runs

LARGE = """
name: a large group
cluster: {as_version: "4.1", min_session_timeout: 1s, initial_rebalance_delay: 100ms}
topics: [{name: orders, partitions: 100, records: 100}]
clients:
  - {name: crowd, kind: classic, members: 80, group: crowd, topics: [orders], session_timeout: 6s, heartbeat_interval: 300ms}
steps:
  - name: all are in
    when: {group: crowd, state: Stable, members: 80}
    within: 60s
  - name: one more
    after: 2s
expect:
  - within: 5s
    group: {crowd: {state: Stable, members: 80}}
"""
"""A group of more members than a journal's snapshots show."""


@cache
def large() -> ScenarioOutcome:
    """A group of more members than a journal's snapshots show."""
    return played_text(LARGE)


@cache
def played(name: str) -> ScenarioOutcome:
    """A scenario that comes with broker-sim, in virtual time: always the same run."""
    return play(read(shipped() / f"{name}.yaml"), ScenarioOptions())


def played_text(text: str, **options: Any) -> ScenarioOutcome:
    return play(parse(loads(text)), ScenarioOptions(**options))


SCENARIOS = sorted(
    path.stem
    for path in shipped().glob("*.yaml")
    if path.stem != "join-storm" and not path.stem.startswith("transaction-")
)
"""Scenarios of consumer groups that take little time; those of transactions are played in test_transaction_tables.py."""


def all_played() -> dict[str, list[Event]]:
    """The events of every scenario, by its name."""
    return {name: played(name).events for name in SCENARIOS}


def mark_ms(events: Iterable[Mapping[str, Any]], text: str) -> int:
    """Return the time at which a scenario's step began."""
    return next(event["ts_ms"] for event in events if event["event"] == "mark" and event["text"] == text)


def write(path: Path, events: Iterable[Mapping[str, Any]]) -> Path:
    """A journal file of these events."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line(event) + b"\n" for event in events))
    return path
