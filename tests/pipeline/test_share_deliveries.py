"""Share groups in the pipeline: what `__share_group_state` tells of deliveries, in the table, the findings and on the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.cli.main import main
from broker_sim.pipeline.segments import Skipped
from broker_sim.pipeline.share_findings import ABOUT_SHARES
from broker_sim.pipeline.share_logs import rows_of_shares
from broker_sim.pipeline.tables.share_deliveries import SHARE_DELIVERIES
from kafka_wire import offsets_log
from kafka_wire.messages.offsets_log import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    TopicPartitionsInfo,
)
from kafka_wire.record_batch import build_batch
from kafka_wire.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
    encode_key,
    encode_value,
)
from tests.pipeline import facts as made
from tests.pipeline.facts import Row, row
from tests.pipeline.offsets import T0
from tests.shares.harness import Member, configure, produce
from tests.support.wire import Wire

ACCEPT, RELEASE = 1, 2

TOPIC = bytes(range(16))
AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 2, 3, 4
Batch = tuple[int, int, int, int]


class Log:
    """A partition of `__share_group_state`; times are ms after T0."""

    def __init__(self, folder: Path, number: int = 0) -> None:
        self.folder = folder / f"__share_group_state-{number}"
        self.folder.mkdir(parents=True)
        self.file, self.end = self.folder / f"{0:020}.log", 0

    def append(self, key: Any, value: Any, at: int) -> None:
        pair = encode_key(key), None if value is None else encode_value(value)
        with self.file.open("ab") as file:
            file.write(build_batch([pair], T0 + at, base_offset=self.end, leader_epoch=0))
        self.end += 1

    def update(self, at: int, start: int, *batches: Batch, group: str = "jobs") -> None:
        states = [StateBatch(*one) for one in batches]
        self.append(ShareUpdateKey(group, TOPIC, 0), ShareUpdateValue(0, 0, start, -1, states), at)

    def snapshot(self, at: int, start: int, *batches: Batch, epoch: int = 1, group: str = "jobs") -> None:
        states = [StateBatch(*one) for one in batches]
        value = ShareSnapshotValue(1, epoch, 0, start, -1, T0 + at, T0 + at, states)
        self.append(ShareSnapshotKey(group, TOPIC, 0), value, at)

    def rows(self) -> list[tuple[Any, ...]]:
        """from, to, returns, deliveries, outcome, ms after T0 of the first return and of the outcome."""
        return [
            (one["from_offset"], one["to_offset"], one["returns"], one.get("deliveries"), one["outcome"],
             one["first_ms"] - T0, one["last_ms"] - T0)
            for one in rows_of_shares([str(self.folder)])
        ]  # fmt: skip


def test_a_record_that_comes_back_until_it_is_given_up(tmp_path: Path) -> None:
    """As 4.4.0 wrote it of a record that was released at each delivery."""
    log = Log(tmp_path)
    log.snapshot(0, -1)
    for number in range(1, 5):
        log.update(number * 500, 162, (162, 162, AVAILABLE, number), (162 + number, 162 + number, ACKNOWLEDGED, 1))
    log.update(2500, 162, (162, 162, ARCHIVED, 5))
    assert log.rows() == [(162, 163, 4, 5, "archived", 500, 2500)]


def test_records_delivered_once_have_no_row(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.snapshot(0, -1)
    log.update(100, 0, (0, 9, ACKNOWLEDGED, 1))
    log.update(200, 10, (10, 19, ACKNOWLEDGED, 1))
    assert log.rows() == []


def test_records_that_come_back_together_are_a_row_and_part_where_their_stories_do(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.update(0, 10, (10, 19, AVAILABLE, 1))
    log.update(1000, 10, (10, 11, ACKNOWLEDGED, 2), (12, 12, AVAILABLE, 2), (13, 19, ACKNOWLEDGED, 2))
    log.update(1500, 12, (12, 12, ACKNOWLEDGED, 3))
    assert log.rows() == [
        (10, 12, 1, 2, "acknowledged", 0, 1000),
        (13, 20, 1, 2, "acknowledged", 0, 1000),
        (12, 13, 2, 3, "acknowledged", 0, 1500),
    ]


def test_neighbours_that_come_back_some_ms_apart_are_a_row(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for offset in range(3):
        log.update(7 * offset, 0, (offset, offset, AVAILABLE, 1))
    log.update(1500, 0, (3, 3, AVAILABLE, 1))
    log.update(2000, 4, (0, 3, ACKNOWLEDGED, 2))
    assert log.rows() == [(0, 3, 1, 2, "acknowledged", 0, 2000), (3, 4, 1, 2, "acknowledged", 1500, 2000)]


def test_a_snapshot_adds_only_what_is_new_in_it(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.update(0, 5, (5, 6, AVAILABLE, 1))
    log.snapshot(100, 5, (5, 6, AVAILABLE, 1))
    log.snapshot(200, 5, (5, 5, AVAILABLE, 2), (6, 6, AVAILABLE, 1))
    log.update(300, 5, (5, 6, ACKNOWLEDGED, 3))
    assert log.rows() == [(5, 6, 2, 3, "acknowledged", 0, 300), (6, 7, 1, 3, "acknowledged", 0, 300)]


def test_rejected_records_dead_letters_and_records_that_still_wait(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.update(0, 0, (0, 0, ARCHIVED, 1), (1, 1, ARCHIVING, 2), (2, 3, AVAILABLE, 1))
    log.update(50, 1, (1, 1, ARCHIVED, 2))
    assert log.rows() == [
        (0, 1, 0, 1, "archived", 0, 0),
        (1, 2, 0, 2, "archived", 0, 50),
        (2, 4, 1, 1, None, 0, 0),
    ]


def test_a_start_offset_that_passes_records_or_is_reset(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.snapshot(0, 0)
    log.update(10, 4, (5, 6, AVAILABLE, 1))
    log.update(20, 7)
    log.snapshot(30, 2, epoch=2)
    log.snapshot(40, 50, epoch=3)
    assert log.rows() == [
        (5, 7, 1, 1, "passed", 10, 20),
        (7, 2, 0, None, "reset", 30, 30),
        (2, 50, 0, None, "reset", 40, 40),
    ]


def test_a_group_that_was_deleted_begins_anew(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.snapshot(0, 40)
    log.append(ShareSnapshotKey("jobs", TOPIC, 0), None, 10)
    log.snapshot(20, 0, epoch=9)
    assert log.rows() == []


def test_unreadable_records_are_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    log, other = Log(tmp_path), Log(tmp_path, 1)
    log.update(0, 0, (0, 0, ARCHIVED, 5))
    log.update(1, 1, (1, 1, ARCHIVED, 5))
    data = bytearray(log.file.read_bytes())
    data[-1] ^= 1  # the second batch's CRC is another one
    log.file.write_bytes(bytes(data) + b"\x01\x02")
    other.update(0, 0, (0, 0, ARCHIVED, 1))
    gone: list[Skipped] = []
    rows = list(rows_of_shares([str(log.folder), str(tmp_path / "nowhere"), str(other.folder)], gone.append))
    assert [(one["log_partition"], one["from_offset"]) for one in rows] == [(0, 0), (1, 0)]
    assert len(gone) == 3
    assert "the batch at offset 1: Record is corrupt" in gone[0].reason
    assert (gone[1].position, gone[1].bytes) == (len(data), 2)
    assert gone[2].file.endswith("nowhere")


# --- in words ---------------------------------------------------------------------------------------------------------------


def delivery(at: int, until: int, outcome: str | None = "acknowledged", **columns: Any) -> Row:
    known = {
        "group": "jobs", "topic": "orders", "topic_id": "AAAA", "partition": 0, "from_offset": 7, "to_offset": 8, "records": 1,
        "returns": 1, "deliveries": 2, "outcome": outcome, "first_ms": T0 + at, "last_ms": T0 + until,
    }  # fmt: skip
    return row(SHARE_DELIVERIES.names, **{**known, **columns})


def told(*rows: Row, rebalances: list[Row] | None = None) -> list[tuple[str, str, str]]:
    facts = made.facts(deliveries=list(rows), rebalances=rebalances or [])
    return [(one.kind, one.severity, one.text) for tell in ABOUT_SHARES for one in tell(facts)]


def test_a_record_that_is_retried_once_is_a_note() -> None:
    ((kind, severity, text),) = told(delivery(0, 80))
    assert (kind, severity) == ("redelivered", "note")
    assert "1 record of jobs became available again: offset 7 of orders-0 at" in text


def test_a_record_that_waited_without_a_departure_had_an_expired_lock() -> None:
    ((kind, severity, text),) = told(delivery(0, 11_000))
    assert (kind, severity) == ("redelivered", "warn")
    assert "it waited 11 s until its next delivery, and no member had been removed" in text
    gone = made.rebalance(8000, cause="departed", group="jobs", source="log")
    ((kind, severity, text),) = told(delivery(0, 11_000), rebalances=[gone])
    assert (kind, severity) == ("redelivered", "note")
    assert "a member was removed then" in text


def test_a_journal_says_why_a_record_came_back() -> None:
    event = {
        "group": "jobs",
        "topic": "orders",
        "partition": 0,
        "base_offset": 5,
        "last_offset": 9,
        "client_id": "app-1",
    }
    expired = {**event, "action": "expired", "ts_ms": T0 - 5, "seq": 123}
    released = {**event, "action": "released", "ts_ms": T0 + 9000, "seq": 150}
    elsewhere = [{**expired, "partition": 1}, {**expired, "base_offset": 8}, {**expired, "ts_ms": T0 - 5000}]
    rows = [delivery(0, 11_000), delivery(9000, 9500, "archived", from_offset=9, to_offset=10)]
    archived, redelivered = (
        one
        for tell in ABOUT_SHARES
        for one in tell(made.facts(deliveries=rows, returned=[*elsewhere, expired, released]))
    )
    assert (redelivered.severity, redelivered.certainty) == ("warn", "certain")
    assert (
        "; the acquisition lock of app-1 expired (event 123 of the journal); in all once by an expired"
        in redelivered.text
    )
    assert redelivered.advice.startswith(
        "Its acquisition lock expired (group.share.record.lock.duration.ms): its consumer proc"
    )
    assert archived.advice.startswith(
        "Their deliveries ended once released (journal), until group.share.delivery.count.limit"
    )
    (unknown,) = (one for tell in ABOUT_SHARES for one in tell(made.facts(deliveries=rows[:1], returned=elsewhere)))
    assert (unknown.severity, unknown.certainty) == ("warn", "likely")
    assert "That fits an expired acquisition lock" in unknown.advice


def test_given_up_rejected_and_set_from_outside() -> None:
    found = told(
        delivery(0, 2000, "archived", returns=4, deliveries=5),
        delivery(5000, 5000, "archived", returns=0, deliveries=1, from_offset=9, to_offset=10),
        delivery(9000, 9000, "reset", from_offset=50, to_offset=20, records=None, returns=0, deliveries=None),
    )
    assert [(kind, severity) for kind, severity, _ in found] == [
        ("archived", "warn"),
        ("archived", "note"),
        ("reset", "warn"),
    ]
    assert "jobs archived 1 record after 5 deliveries: offset 7 of orders-0" in found[0][2]
    assert "jobs rejected 1 record: offset 9 of orders-0" in found[1][2]
    assert "from 50 to 20; up to 30 records are read again" in found[2][2]


# --- a run ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory that an operator copied: a share group's record that names its topic, and its state, of which the end is damaged."""
    folder = tmp_path_factory.mktemp("shares")
    home = folder / "__consumer_offsets-3"
    home.mkdir()
    key = offsets_log.encode_key(
        offsets_log.SHARE_GROUP_STATE_PARTITION_METADATA, ShareGroupStatePartitionMetadataKey("jobs")
    )
    topics = ShareGroupStatePartitionMetadataValue([], [TopicPartitionsInfo(TOPIC, "orders", [0])], [])
    pair = key, offsets_log.encode_value(0, topics)
    (home / f"{0:020}.log").write_bytes(build_batch([pair], T0, base_offset=0, leader_epoch=0))
    log = Log(folder)
    log.update(1000, 7, (7, 7, AVAILABLE, 1))
    log.update(2000, 7, (7, 7, ARCHIVED, 5))
    log.update(3000, 8, (8, 8, AVAILABLE, 1), group="other")
    with log.file.open("ab") as file:
        file.write(b"no batch at all")
    return folder


def run(copied: Path, out: Path, *how: str) -> dict[str, Any]:
    assert (
        main(["pipeline", "run", "--input", str(copied), "--out", str(out), "--engine", "duckdb", "--quiet", *how]) == 0
    )
    found: dict[str, Any] = json.loads((out / "findings.json").read_text())
    return found


async def test_a_simulator_s_journal_makes_the_reason_certain(tmp_path: Path) -> None:
    config = {"group.share.assignment.interval.ms": 0, "group.share.min.record.lock.duration.ms": 1000}
    data, journal = tmp_path / "data", tmp_path / "journal"
    async with Cluster(
        topics={"orders": 1}, as_version="4.4", clock="manual", config=config, data_dir=data, journal=journal
    ) as kafka:
        wire = await Wire.connect(kafka.bootstrap, client_id="app-1")
        member = Member(wire, kafka.state.topics["orders"].topic_id)
        await member.find()
        await configure(wire, share_auto_offset_reset="earliest", share_record_lock_duration_ms=3000)
        await member.join()
        await produce(wire, 4)
        assert await member.acquired() == [(0, 3, 1)]
        assert (await member.acknowledge((2, 2, [RELEASE]))).error_code == 0
        await kafka.time.advance("10s")
        assert await member.acquired() == [(0, 3, 2)]
        assert (await member.acknowledge((0, 3, [ACCEPT]))).error_code == 0
        await wire.close()
    (found,) = (
        one
        for one in run(data, tmp_path / "out", "--journal", str(journal))["findings"]
        if one["kind"] == "redelivered"
    )
    assert (found["severity"], found["certainty"]) == ("warn", "certain")
    assert re.search(r"; app-1 released it \(event \d+ of the journal\); in all 3 times", found["text"])


@pytest.mark.slow
def test_a_run_reports_names_lists_and_skips(copied: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    found = run(copied, tmp_path / "out")
    assert [one["text"] for one in found["findings"] if one["kind"] == "archived"] == [
        "jobs archived 1 record after 5 deliveries: offset 7 of orders-0 at 22:13:22."
    ]
    (skipped,) = [one for one in found["findings"] if one["kind"] == "unreadable input"]
    assert "__share_group_state-0" in skipped["text"]
    rows = parquet.read_table(tmp_path / "out" / "tables" / "share_deliveries").to_pylist()
    assert [(one["group"], one["topic"], one["outcome"]) for one in rows] == [
        ("jobs", "orders", "archived"),
        ("other", "orders", None),
    ]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Share groups&#39; deliveries" in page or "Share groups' deliveries" in page


@pytest.mark.slow
def test_a_scope_leaves_out_groups_and_later_records(copied: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    run(copied, tmp_path / "one", "--until", str(T0 + 1500))
    rows = parquet.read_table(tmp_path / "one" / "tables" / "share_deliveries").to_pylist()
    assert [(one["group"], one["outcome"]) for one in rows] == [("jobs", None)]
    run(copied, tmp_path / "two", "--group", "jo*")
    rows = parquet.read_table(tmp_path / "two" / "tables" / "share_deliveries").to_pylist()
    assert [one["group"] for one in rows] == ["jobs"]
