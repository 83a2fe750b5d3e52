"""Kafka's own DumpLogSegments reads every file that a log writes: batches, records, indexes, snapshots, offsets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker_sim.storage import PartitionLog
from kafka_wire import offsets_log
from kafka_wire.messages.offsets_log import GroupMetadataValue, MemberMetadata
from kafka_wire.record_batch import Codec, ControlType, Record, build_batch, control_batch, encode_batch
from tests.storage.batches import NOW_MS, add, batch, config, content, fill, idempotent, keyed
from tests.storage.transactions import end, write
from tests.support.real_kafka import VERSIONS, java_tool

pytestmark = pytest.mark.real_kafka

COMPLAINTS = re.compile(
    r"isvalid: false|exception|mismatch|not found|out of order|error|corrupt|deletion may|could not|unable",
    re.IGNORECASE,
)


def dump(version: str, paths: list[Path], *options: str) -> str:
    """Return the tool's output for these files; assert that it has read them all without a complaint."""
    files = ",".join(str(path) for path in paths)
    done = java_tool(version, "kafka.tools.DumpLogSegments", "--files", files, *options)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    assert not COMPLAINTS.search(text), text
    return done.stdout


def files_of(directory: Path, *kinds: str) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix.removeprefix(".") in kinds)


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_indexes_and_snapshots_are_read(tmp_path: Path, version: str) -> None:
    log = PartitionLog(tmp_path / "t-0", config(segment_bytes=30_000, index_interval_bytes=1000))
    for codec in Codec:
        rows = [
            Record(index, NOW_MS + index, b"k%d" % index, b"v" * 100, [("h", b"x"), ("n", None)]) for index in range(9)
        ]
        add(log, encode_batch(rows, codec=codec))
    for sequence in range(0, 60, 3):
        add(log, idempotent(sequence, 3, timestamp_ms=NOW_MS + sequence), epoch=1)
    add(
        log,
        build_batch([(b"t", b"v")], NOW_MS, producer_id=9, producer_epoch=1, base_sequence=0, attributes=0x10),
        trusted=True,
    )
    add(log, control_batch(ControlType.COMMIT, NOW_MS, producer_id=9, producer_epoch=1), trusted=True)
    fill(log, 400, size=200, step_ms=1)
    add(log, batch(b"x" * 20_000, timestamp_ms=NOW_MS + 9999), epoch=2)
    log.close()
    assert len(log.segments) > 3

    text = dump(version, files_of(tmp_path / "t-0", "log"), "--deep-iteration", "--print-data-log")
    assert text.count("isvalid: true") == len(list(log.batches()))
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", text, re.MULTILINE)]
    assert offsets == [row.offset for row in content(log)]
    assert text.count("endTxnMarker: COMMIT coordinatorEpoch: 0") == 1
    assert set(re.findall(r"compresscodec: (\w+)", text)) == {codec.name.lower() for codec in Codec}
    assert set(re.findall(r"partitionLeaderEpoch: (\d+)", text)) == {"0", "1", "2"}

    dump(version, files_of(tmp_path / "t-0", "index", "timeindex"))
    sane = dump(version, files_of(tmp_path / "t-0", "index", "timeindex"), "--index-sanity-check")
    assert sane.count("passed sanity check") + sane.count("is empty") == 2 * len(log.segments)
    text = dump(version, files_of(tmp_path / "t-0", "snapshot")[-1:])
    assert "producerId: 7 producerEpoch: 0" in text
    assert "lastSequence: 59" in text


@pytest.mark.parametrize("version", VERSIONS)
def test_a_compacted_log_is_read(tmp_path: Path, version: str) -> None:
    log = PartitionLog(tmp_path / "t-0", config(cleanup_policy="compact", segment_bytes=2000, index_interval_bytes=300))
    for number in range(200):
        add(log, keyed((f"k{number % 17}", str(number)), (f"once{number}", "v"), (f"gone{number % 3}", None)))
        if number % 40 == 0:
            add(log, idempotent(number // 40))
    rows = [Record(index, NOW_MS, b"k%d" % index, b"v" * 50) for index in range(9)]
    add(log, encode_batch(rows, codec=Codec.LZ4))
    add(log, keyed(("k3", "last")))
    log.roll(NOW_MS)
    log.compact(NOW_MS, force=True)
    log.close()
    text = dump(version, files_of(tmp_path / "t-0", "log"), "--deep-iteration")
    assert "deleteHorizonMs: OptionalLong[" in text
    assert [int(found) for found in re.findall(r"^\| offset: (\d+) ", text, re.MULTILINE)] == [
        row.offset for row in content(log)
    ]
    dump(version, files_of(tmp_path / "t-0", "index", "timeindex"))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_offsets_decoder_reads_commits_groups_and_tombstones(tmp_path: Path, version: str) -> None:
    log = PartitionLog(tmp_path / "__consumer_offsets-12", config(cleanup_policy="compact"))
    value_version = 3 if version.startswith("3") else 4
    commit = offsets_log.offset_commit_value(value_version, 5, -1, "note", NOW_MS)
    subscription = bytes.fromhex("0000 00000001 0002 7431 ffffffff")  # version 0, topics [t1], no user data
    assignment = bytes.fromhex("0000 00000001 0002 7431 00000001 00000000 ffffffff")  # version 0, t1 [0], no user data
    member = MemberMetadata(
        member_id="m-1",
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout=45000,
        subscription=subscription,
        assignment=assignment,
    )
    group = GroupMetadataValue(protocol_type="consumer", generation=2, protocol="range", leader="m-1", members=[member])
    pairs = [
        (offsets_log.offset_commit_key("test-group", "t1", 0), commit),
        (offsets_log.group_key("test-group"), offsets_log.group_value(3, group)),
        (offsets_log.offset_commit_key("test-group", "t1", 1), None),
    ]
    add(log, build_batch(pairs, NOW_MS), trusted=True)
    log.close()
    text = dump(version, files_of(tmp_path / "__consumer_offsets-12", "log"), "--offsets-decoder", "--deep-iteration")
    if version.startswith("3"):
        assert "key: offset_commit::group=test-group,partition=t1-0 payload: offset=5" in text
        assert "key: group_metadata::group=test-group payload: {" in text
    else:
        assert 'key: {"type":"1","data":{"group":"test-group","topic":"t1","partition":0}}' in text
        assert '"offset":5,"leaderEpoch":-1,"metadata":"note"' in text
        assert "payload: <DELETE>" in text


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_aborted_and_what_is_open_is_read(tmp_path: Path, version: str) -> None:
    log = PartitionLog(tmp_path / "t-0", config(segment_bytes=300))
    for number in range(6):
        write(log, 1, f"v{number}", sequence=number)
        end(log, 1, commit=number % 3 == 0, coordinator_epoch=9)
    write(log, 2, "open", epoch=4)
    log.roll(NOW_MS)
    log.close()
    text = dump(version, files_of(tmp_path / "t-0", "txnindex"))
    told = re.findall(
        r"version: 0.*?producerId: (\d+).*?firstOffset: (\d+).*?lastOffset: (\d+).*?lastStableOffset: (\d+)", text
    )
    assert [tuple(map(int, row)) for row in told] == log.ended.aborted
    text = dump(version, files_of(tmp_path / "t-0", "log"), "--deep-iteration")
    assert text.count("endTxnMarker: ABORT coordinatorEpoch: 9") == 4
    assert text.count("endTxnMarker: COMMIT coordinatorEpoch: 9") == 2
    text = dump(version, files_of(tmp_path / "t-0", "snapshot")[-1:])
    assert re.search(r"producerId: 1 .*coordinatorEpoch: 9 currentTxnFirstOffset: (None|OptionalLong.empty)", text)
    assert re.search(r"producerId: 2 producerEpoch: 4 .*currentTxnFirstOffset: (Some\(12\)|OptionalLong\[12\])", text)
