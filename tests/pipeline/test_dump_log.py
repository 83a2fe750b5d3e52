"""Beside Kafka's own DumpLogSegments, record by record: on what real brokers and the simulator wrote."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.metadata.topics import OFFSETS_TOPIC
from broker_sim.pipeline.offset_logs import find_logs
from broker_sim.pipeline.segments import Skipped, read_offsets
from broker_sim.storage.checkpoints import CLEANER_FILE
from broker_sim.storage.checkpoints import read_offsets as cleaned_to
from kafka_wire.record_batch import Codec, batches
from tests.conformance.driver import Kafka, create_topic, offsets_topic_ready
from tests.importing import past
from tests.importing.past import OFFSETS_PARTITIONS, copy_of, live
from tests.support.real_kafka import VERSIONS, RealKafka, java_tool

pytestmark = [pytest.mark.real_kafka]

TOOL = "4.1.0"
"""Prints all fields of all records as JSON; 3.4.0's prints some."""

CODECS = {"3.4.0": Codec.LZ4, "4.1.0": Codec.ZSTD}
SEGMENT_BYTES = {"3.4.0": 1 << 16, "4.1.0": 1 << 20}
QUICK = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": OFFSETS_PARTITIONS}

_BATCH = re.compile(
    r"baseOffset: \d+ .* producerId: (?P<id>-?\d+) producerEpoch: (?P<epoch>-?\d+) partitionLeaderEpoch: (?P<leader>-?\d+) "
    r"isTransactional: (?P<txn>\w+) isControl: (?P<control>\w+) .* position: (?P<position>\d+) .* isvalid: (?P<valid>\w+)"
)
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) \w+: (?P<ts>-?\d+) keySize: -?\d+ valueSize: (?P<value>-?\d+) .*?headerKeys: \[\] (?P<rest>.*)"
)
_MARKER = re.compile(r"endTxnMarker: (?P<kind>\w+) coordinatorEpoch: \d+")

Row = dict[str, Any]


# ------------------------------------------------------------------------------------------------ what the tool says


def dumped(version: str, paths: list[Path]) -> str:
    files = ",".join(str(path) for path in paths)
    done = java_tool(version, "kafka.tools.DumpLogSegments", "--files", files, "--offsets-decoder", timeout_s=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def told(text: str) -> Iterator[Row]:
    """A row for each record that the tool prints, columns as far as it tells them."""
    path, batch = Path(), {}
    for line in text.splitlines():
        if line.startswith("Dumping "):
            path = Path(line.removeprefix("Dumping "))
        elif found := _BATCH.match(line):
            batch = found.groupdict()
            assert batch["valid"] == "true"
        elif found := _RECORD.match(line):
            yield {
                "log_partition": int(path.parent.name.rpartition("-")[2]),
                "segment": int(path.stem),
                "position": int(batch["position"]),
                "log_offset": int(found["offset"]),
                "record_ts_ms": int(found["ts"]),
                "leader_epoch": int(batch["leader"]),
                "producer_id": int(batch["id"]),
                "producer_epoch": int(batch["epoch"]),
                "is_txn": batch["txn"] == "true",
                **content(found["rest"], found["value"] == "-1"),
            }


def content(rest: str, is_tombstone: bool) -> Row:
    marker = _MARKER.match(rest)
    if marker is not None:
        return {"kind": f"txn_{marker['kind'].lower()}", "key_version": 0, "value_version": 0}
    key, end = json.JSONDecoder().raw_decode(rest, len("key: "))
    record_type, named = int(key["type"]), key["data"]
    row: Row = {"key_version": record_type, "group": named.get("group", named.get("groupId")), "value_version": None}
    if is_tombstone:
        assert rest[end:] == " payload: <DELETE>"
        kind = {1: "commit_tombstone", 2: "group_tombstone"}.get(record_type, "other")
        return row | {"kind": kind} | {name: named[name] for name in ("topic", "partition") if name in named}
    payload, _ = json.JSONDecoder().raw_decode(rest, end + len(" payload: "))
    data = payload["data"]
    row["value_version"] = int(payload["version"])
    if record_type == 1:
        return row | commit_content(named, data)
    if record_type == 2:
        return row | group_content(data)
    return row | {"kind": "other", "member": named.get("memberId"), "detail": data}


def commit_content(named: Row, data: Row) -> Row:
    return {
        "kind": "commit",
        "topic": named["topic"],
        "partition": named["partition"],
        "committed_offset": data["offset"],
        "committed_leader_epoch": data["leaderEpoch"],
        "metadata": data["metadata"],
        "commit_ts_ms": data["commitTimestamp"],
    }


def group_content(data: Row) -> Row:
    return {
        "kind": "group",
        "protocol_type": data["protocolType"],
        "generation": data["generation"],
        "protocol": data["protocol"],
        "leader": data["leader"],
        "state_ts_ms": data["currentStateTimestamp"],
        "members": [
            {
                "member_id": member["memberId"],
                "group_instance_id": member["groupInstanceId"],
                "client_id": member["clientId"],
                "client_host": member["clientHost"],
                "rebalance_timeout_ms": member["rebalanceTimeout"],
                "session_timeout_ms": member["sessionTimeout"],
                "topics": member["subscription"]["topics"],
                "assigned": member["assignment"]["assignedPartitions"],
            }
            for member in data["members"]
        ],
    }


# ------------------------------------------------------------------------------------------------ what is read here


@dataclass
class Written:
    """A data directory of somebody."""

    name: str
    directory: Path

    def files(self) -> list[Path]:
        return sorted(self.directory.glob(f"{OFFSETS_TOPIC}-*/*.log"))

    def rows(self) -> list[Row]:
        skipped: list[Skipped] = []
        logs = find_logs([str(self.directory)]).logs
        rows = [
            row
            for log in logs
            for rows in read_offsets(log.path, run_id=log.run_id, skipped=skipped.append)
            for row in rows.to_pylist()
        ]
        assert skipped == []
        return rows


def comparable(row: Row, told: Row) -> Row:
    """Return the fields of a row that the tool prints, too; it omits tagged fields that are 0."""
    mine = {name: row[name] for name in told}
    if told.get("members") is not None:
        mine["members"] = [
            {name: member[name] for name in told["members"][n]} for n, member in enumerate(row["members"])
        ]
    if told.get("detail") is not None:
        detail = json.loads(row["detail"])
        mine["detail"] = {name: value for name, value in detail.items() if value != 0 or name in told["detail"]}
    return mine


def by_place(rows: list[Row]) -> dict[tuple[int, int], Row]:
    found = {(row["log_partition"], row["log_offset"]): row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.fixture(scope="module", params=[*VERSIONS, "simulator 3.4", "simulator 4.1"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    name, place = request.param, tmp_path_factory.mktemp("logs") / "data"
    if name.startswith("simulator"):
        asyncio.run(_live_in_the_simulator(place, name.split()[1]))
        return Written(name, place)
    settings = {
        **QUICK,
        "offsets.topic.segment.bytes": SEGMENT_BYTES[name],
        "offsets.topic.compression.codec": int(CODECS[name]),
        "log.cleaner.backoff.ms": 200,
        "log.cleaner.min.cleanable.ratio": 0.01,
    }
    with RealKafka(name, config=settings) as kafka:
        what_was = asyncio.run(live(kafka))
        deadline = time.monotonic() + 60
        while not any(topic == OFFSETS_TOPIC for topic, _ in cleaned_to(kafka.nodes[1].data_dir, CLEANER_FILE)):
            assert time.monotonic() < deadline, "waited 60 s for the cleaner to compact an offsets partition"
            time.sleep(0.1)
        kafka.nodes[1].stop()
        what_was.keep.clear()
        return Written(name, copy_of(kafka.nodes[1].data_dir, place))


async def _live_in_the_simulator(place: Path, as_version: str) -> None:
    """The same clients do the same, but for transactions, which it doesn't have; then its logs are cleaned."""
    size = SEGMENT_BYTES[f"{as_version}.0"]
    settings = {**QUICK, "offsets.topic.segment.bytes": size, "log.cleaner.min.cleanable.ratio": 0.01}
    async with Cluster(data_dir=place, as_version=as_version, config=settings) as cluster:
        hand = Kafka(as_version, "simulator", {1: cluster.bootstrap}, "unused")
        try:
            for name, partitions in (("orders", 4), ("audit", 2)):
                await create_topic(hand.watch, name, partitions)
            await offsets_topic_ready(hand.watch)
            for group in (*past.GROUPS, *past.FILLERS):
                await past.offsets_of(await hand.wire(), group)
            await past._plain(hand)
            await past._with_members(hand, past.Past())
            await past._fill(hand)
            await past._plain_later(hand)
        finally:
            await hand.close()
        cluster.state.run_log_maintenance(cluster.state.clock.now_ms() + 1)


def test_every_record_equals_the_output_of_the_tool(written: Written) -> None:
    expected = by_place(list(told(dumped(TOOL, written.files()))))
    rows = by_place(written.rows())
    assert sorted(rows) == sorted(expected)
    assert len(rows) > 50
    for place, told_row in expected.items():
        assert comparable(rows[place], told_row) == told_row


def test_columns_that_the_tool_leaves_empty_are_null(written: Written) -> None:
    """No row has what is not its kind's."""
    kinds = {
        "commit": {"committed_offset", "metadata", "commit_ts_ms", "commit_ts"},
        "group": {"generation", "protocol_type", "members"},
        "other": {"raw_key"},
    }
    for row in written.rows():
        for kind, names in kinds.items():
            for name in names:
                has = row[name] is not None
                assert has == (row["kind"] == kind) or (kind, row["kind"], name) == ("group", "other", "generation"), (
                    row,
                    name,
                )


def test_the_logs_have_all_kinds_of_records(written: Written) -> None:
    """Rolled, compacted; of brokers compressed, with transactions of both ends; KIP-848 records of 4.1."""
    rows = written.rows()
    kinds = {row["kind"] for row in rows}
    assert {"commit", "commit_tombstone", "group"} <= kinds
    if written.name in VERSIONS:
        assert {"txn_commit", "txn_abort"} <= kinds
        assert any(row["is_txn"] and row["kind"] == "commit" for row in rows)
    assert ("other" in kinds) == (written.name == "4.1.0")
    assert {row["value_version"] for row in rows if row["kind"] == "commit"} == {4 if "4.1" in written.name else 3}
    assert len(written.files()) > OFFSETS_PARTITIONS
    ends: dict[int, int] = {}
    gaps = 0
    for row in rows:
        gaps += row["log_offset"] - ends.get(row["log_partition"], 0)
        ends[row["log_partition"]] = row["log_offset"] + 1
    assert gaps > 0
    if written.name in CODECS:
        headers = [header for path in written.files() for _, header in batches(path.read_bytes())]
        assert CODECS[written.name] in {header.codec for header in headers}


def test_the_older_tool_prints_the_same(written: Written) -> None:
    """Group, partition, offset and note of each commit, in Kafka 3.4's own words."""
    if "4.1" in written.name:
        pytest.xfail("3.4.0 does not know value version 4")
    line = re.compile(
        r"\| offset: (\d+) .* key: offset_commit::group=(.+),partition=(.+)-(\d+) payload: offset=(\d+)(?:,metadata=(.*))?$"
    )
    found = [
        match.groups(default="")
        for text in dumped("3.4.0", written.files()).splitlines()
        if (match := line.match(text))
    ]
    mine = [
        tuple(str(row[name]) for name in ("log_offset", "group", "topic", "partition", "committed_offset", "metadata"))
        for row in written.rows()
        if row["kind"] == "commit"
    ]
    assert sorted(found) == sorted(mine)
