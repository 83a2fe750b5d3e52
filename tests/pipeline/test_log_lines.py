"""Lines of brokers and clients: what is read out of them, and files that are none."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.pipeline.lines import broker_lines, client_lines
from broker_sim.pipeline.lines.reading import LineFile, find, rows_of
from broker_sim.pipeline.lines.stamps import stamp

TEN = 1_774_778_591_120
"""2026-03-29 10:03:11.120 UTC."""
MEMBER = "app-1-5f0c2f7e-8d3b-4f4e-9d2a-1c2b3d4e5f60"
C3, C4 = (
    "[2026-03-29 10:03:11,120] INFO [GroupCoordinator 1]: ",
    "[2026-03-29 10:03:11,120] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=7] ",
)


@pytest.mark.parametrize(
    ("line", "ts_ms", "level", "zoned"),
    [
        ("[2026-03-29 10:03:11,120] INFO x (kafka.server.KafkaServer)", TEN, "INFO", False),
        ("2026-03-29 10:03:11.120 WARN x", TEN, "WARN", False),
        ("2026-03-29T12:03:11.120+02:00 ERROR x", TEN, "ERROR", True),
        ("2026-03-29T10:03:11.120Z stdout F [main] INFO x", TEN, "INFO", True),
        ("broker-3 kafka[12]: [2026-03-29 10:03:11,120] INFO x", TEN, "INFO", False),
        ("2026-03-29 10:03:11,120 - aiokafka - WARNING - x", TEN, "WARN", False),
        ("%4|1774778591.120|SESSTMOUT|app#consumer-1| [thrd:main]: x", TEN, "WARN", True),
        ("1774778591.120 x", TEN, None, True),
    ],
)
def test_moments_of_the_usual_layouts(line: str, ts_ms: int, level: str | None, zoned: bool) -> None:
    found = stamp(line)
    assert found is not None
    assert (found.ts_ms, found.level, found.zoned) == (ts_ms, level, zoned)


@pytest.mark.parametrize(
    "line",
    ["", "\tat kafka.server.Foo(Foo.scala:12)", "org.apache.kafka.common.Oops: x", "[2026-13-29 10:03:11,120] x"],
)
def test_lines_without_a_timestamp(line: str) -> None:
    assert stamp(line) is None


def broker(tmp_path: Path, *lines: str) -> list[dict[str, Any]]:
    return rows(tmp_path, "broker", *lines)


def rows(tmp_path: Path, source: str, *lines: str) -> list[dict[str, Any]]:
    path = tmp_path / f"{source}.log"
    path.write_text("\n".join(lines) + "\n")
    return list(rows_of(LineFile(str(path), source, path.stat().st_size, True)))


@pytest.mark.parametrize(
    ("line", "what", "columns"),
    [
        (
            f"{C3}Preparing to rebalance group a b in state PreparingRebalance with old generation 3 (__consumer_offsets-7)"
            f" (reason: Adding new"
            f" member {MEMBER} with group instance id None; client reason: not provided) (kafka.coordinator.group.GroupCoordinator)",
            "preparing",
            {"group": "a b", "generation": 3, "partition": 7, "node": 1},
        ),
        (
            f"{C4}Preparing to rebalance group billing in state PreparingRebalance with old generation 3 (reason: removing member"
            f" {MEMBER} on"
            " heartbeat expiration.). (org.apache.kafka.coordinator.group.GroupMetadataManager)",
            "preparing",
            {
                "group": "billing",
                "generation": 3,
                "partition": 7,
                "detail": f"removing member {MEMBER} on heartbeat expiration.",
            },
        ),
        (
            f"{C3}Stabilized group billing generation 4 (__consumer_offsets-7) with 2 members"
            f" (kafka.coordinator.group.GroupCoordinator)",
            "closed",
            {"generation": 4, "number": 2, "partition": 7},
        ),
        (
            f"{C4}Stabilized group billing generation 4 with 2 members. (o.a.k.X)",
            "closed",
            {"generation": 4, "partition": 7},
        ),
        (
            f"{C4}Member {MEMBER} in group billing has failed, removing it from the group. (o.a.k.X)",
            "session timeout",
            {"member": MEMBER, "group": "billing"},
        ),
        (
            f"{C4}[Group billing] Member {MEMBER} has left group through explicit `LeaveGroup` request; client reason: consumer"
            f" poll timeout"
            " has expired. (o.a.k.X)",
            "left",
            {"member": MEMBER, "group": "billing", "detail": "consumer poll timeout has expired."},
        ),
        (
            f"{C3}Member[group.instance.id None, member.id {MEMBER}] in group billing has left, removing it from the group (k.X)",
            None,
            {},
        ),
        (
            f"{C4}[GroupId mail] Converted the classic group to a consumer group. (o.a.k.X)",
            "converted",
            {"group": "mail", "detail": "classic", "partition": 7},
        ),
        (
            f"{C4}[GroupId mail][MemberId {MEMBER}] Converted the consumer group to a classic group. (o.a.k.X)",
            "converted",
            {"group": "mail", "detail": "consumer"},
        ),
        (
            f"{C4}[GroupId mail] Member {MEMBER} fenced from the group because the member session expired. (o.a.k.X)",
            "fenced",
            {"group": "mail", "member": MEMBER, "detail": "the member session expired"},
        ),
        (
            "[2026-03-29 10:03:11,120] INFO [Partition __consumer_offsets-3 broker=2] Shrinking ISR from 2,3 to 2. Leader:"
            " (highWatermark: 120,"
            " endOffset: 133). Out of sync replicas: (brokerId: 3, endOffset: 120). (kafka.cluster.Partition)",
            "ISR shrinks",
            {
                "topic": "__consumer_offsets",
                "partition": 3,
                "node": 2,
                "offset": 120,
                "number": 133,
                "detail": "2,3 to 2",
            },
        ),
        (
            "[2026-03-29 10:03:11,120] INFO [Partition __consumer_offsets-3 broker=2] ISR updated to 2 (under-min-isr) and version"
            " updated to 5"
            " (kafka.cluster.Partition)",
            "ISR",
            {"partition": 3, "detail": "2 (under-min-isr)", "epoch": 5},
        ),
        (
            "[2026-03-29 10:03:11,120] INFO [GroupCoordinator id=2] Finished loading of metadata from __consumer_offsets-3 with"
            " epoch 4 in 224ms"
            " where 209ms was spent in the scheduler. (o.a.k.X)",
            "loaded",
            {"partition": 3, "epoch": 4, "number": 224, "node": 2},
        ),
        (
            "[2026-03-29 10:03:11,120] INFO [GroupCoordinator 2]: Elected as the group coordinator for partition 3 in epoch 4 (k.X)",
            "elected",
            {"topic": "__consumer_offsets", "partition": 3, "epoch": 4, "node": 2},
        ),
        (
            "[2026-03-29 10:03:11,120] INFO [QuorumController id=1] UNCLEAN partition change for __consumer_offsets-0 with topic ID"
            " 9fqIN4cxQhO-TUo8lWZ0Og: isr: [] -> [3] (o.a.k.X)",
            "unclean",
            {"topic": "__consumer_offsets", "partition": 0},
        ),
        (
            f"{C4}The following groups were deleted: a, b. A total of 4 offsets were removed. (X)",
            "deleted",
            {"detail": "a, b", "number": 4},
        ),
        (
            f"{C4}Generated 7 tombstone records while cleaning up group metadata in 0 milliseconds. (X)",
            "expired",
            {"number": 7, "partition": 7},
        ),
        ("[2026-03-29 10:03:11,120] INFO [SocketServer listenerType=BROKER] Stopped (kafka.network.X)", None, {}),
    ],
)
def test_brokers_lines_of_both_coordinators(
    tmp_path: Path, line: str, what: str | None, columns: dict[str, Any]
) -> None:
    # the second line is there to be known, else a file without any known line is told
    found = broker(tmp_path, line, f"{C4}Group x with generation 1 is now empty (X)")
    assert [row["what"] for row in found] == ([what] if what else []) + ["empty"]
    if what:
        assert found[0]["ts_ms"] == TEN
        assert {name: found[0].get(name) for name in columns} == columns
        assert what in broker_lines.KINDS


def test_a_refused_append_has_its_reason_from_the_trace_below(tmp_path: Path) -> None:
    (row,) = broker(
        tmp_path,
        "[2026-03-29 10:03:11,120] ERROR [ReplicaManager broker=1] Error processing append operation on partition"
        " __consumer_offsets-3 (kafka.server.ReplicaManager)",
        "org.apache.kafka.common.errors.NotEnoughReplicasException: The size of the current ISR Set(1) is insufficient to satisfy"
        " the min.isr"
        " requirement of 2 for partition __consumer_offsets-3",
        "\tat kafka.cluster.Partition.appendRecordsToLeader",
    )
    assert (row["what"], row["partition"], row["number"], row["node"]) == ("refused", 3, 2, 1)
    assert row["detail"].startswith("NotEnoughReplicasException: ")


JAVA = "[2026-03-29 10:03:11,120] INFO [Consumer clientId=app-1, groupId=billing] "


@pytest.mark.parametrize(
    ("line", "what", "columns"),
    [
        (
            f"{JAVA}Offset commit failed on partition orders-3 at offset 120: The request timed out. (o.X)",
            "commit failed",
            {
                "group": "billing",
                "client_id": "app-1",
                "topic": "orders",
                "partition": 3,
                "offset": 120,
                "detail": "The request timed out.",
            },
        ),
        (
            f"{JAVA}Seeking to offset 12 for partition orders-3 (o.X)",
            "seek",
            {"offset": 12, "topic": "orders", "partition": 3},
        ),
        (
            f"{JAVA}Successfully synced group in generation Generation{{generationId=7, memberId='{MEMBER}', protocol='range'}} (o.X)",
            "synced",
            {"generation": 7, "member": MEMBER},
        ),
        (
            f"{JAVA}consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer than the"
            " configured max.poll.interval.ms, which",
            "poll timeout",
            {"group": "billing"},
        ),
        (
            f"{JAVA}Time between subsequent calls to poll() was longer than the configured max.poll.interval.ms, exceeded approximately"
            " by 19600 ms. Member x will rejoin the group now.",
            "poll timeout",
            {"group": "billing", "number": 19600},
        ),
        (
            "%4|1774778591.120|MAXPOLL|app-1#consumer-1| [thrd:main]: Application maximum poll interval (10000ms) exceeded by 185ms"
            " (adjust max.poll.interval.ms for long-running message processing): leaving group",
            "poll timeout",
            {"client_id": "app-1", "number": 185},
        ),
        (
            "%4|1774778591.120|SESSTMOUT|app-1#consumer-1| [thrd:main]: Consumer group session timed out (in join-state steady) after"
            " 6003 ms without a successful response from the group coordinator (broker 1, last error was Success): revoking"
            " assignment and rejoining group",
            "session lost",
            {"client_id": "app-1"},
        ),
        (
            "2026-03-29 10:03:11,120 - aiokafka.consumer.group_coordinator - INFO - OffsetCommit failed for group billing due to a"
            " coordinator error (CoordinatorNotAvailableError), will find new coordinator and retry",
            "commit failed",
            {"group": "billing"},
        ),
        (
            '2026-03-29 10:03:11,120 WARNING commit failed: KafkaException: KafkaError{code=REQUEST_TIMED_OUT,val=7,str="x"}',
            "commit failed",
            {"detail": "REQUEST_TIMED_OUT"},
        ),
    ],
)
def test_clients_lines(tmp_path: Path, line: str, what: str, columns: dict[str, Any]) -> None:
    (row,) = rows(tmp_path, "client", line)
    assert (row["what"], row["ts_ms"]) == (what, TEN)
    assert {name: row.get(name) for name in columns} == columns
    assert what in client_lines.KINDS


def test_a_line_without_a_group_has_the_one_of_its_file(tmp_path: Path) -> None:
    found = rows(
        tmp_path,
        "client",
        "2026-03-29 10:03:10,120 WARNING commit failed: KafkaError{code=REQUEST_TIMED_OUT}",
        "2026-03-29 10:03:11,120 - aiokafka - INFO - Joined group 'billing' (generation 1) with member_id x",
    )
    assert [row["group"] for row in found] == ["billing"]


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-29 10:03:11,120 - aiokafka.consumer.subscription_state - INFO - Updating subscribed topics to: frozenset({'orders'})",
        "INFO:aiokafka.consumer.group_coordinator:Metadata for topic has changed from {} to {'orders': 2}. ",
        "[INFO] immediate metadata update triggered; why: client initialization",
        "[main] INFO org.apache.kafka.common.utils.AppInfoParser - Kafka version: 4.1.0",
        '{"level":"INFO","timestamp":"2026-03-29T10:03:11.120Z","logger":"kafkajs","message":"[Consumer] Starting","groupId":"b"}',
        "%6|1774778591.120|GROUPING|rd-1#consumer-1| [thrd:main]: nothing of note",
    ],
)
def test_a_log_that_says_nothing_of_note_has_been_read(tmp_path: Path, line: str) -> None:
    assert rows(tmp_path, "client", line) == []


def test_named_files_that_are_no_logs_are_reported(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"\x00\x01\x02")
    (tmp_path / "empty.log").write_bytes(b"")
    (tmp_path / "other.log").write_text("nothing of interest\n")
    found = {one.path.rpartition("/")[2]: list(rows_of(one)) for one in find([str(tmp_path / "*.log")], "broker")}
    assert [row["detail"] for row in found["x.log"]] == ["it is no text"]
    assert found["empty.log"] == []
    assert found["other.log"][0]["detail"] == "no line of it is a log line of a known layout"
    in_folder = {one.path.rpartition("/")[2]: list(rows_of(one)) for one in find([str(tmp_path)], "broker")}
    assert in_folder["other.log"] == [], "a folder has logs of other matters, too"
    with pytest.raises(UsageError, match="there is no such file"):
        find([str(tmp_path / "nowhere")], "client")


def test_rolled_and_compressed_files_are_read_and_segments_are_not(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(b"\0" * 100)
    (tmp_path / "server.log.2026-03-29-10").write_text(f"{C4}Group x with generation 1 is now empty (X)\n")
    with gzip.open(tmp_path / "server.log.1.gz", "wt") as file:
        file.write(f"{C4}Group y with generation 1 is now empty (X)\n")
    found = find([str(tmp_path)], "broker")
    assert sorted(row["group"] for one in found for row in rows_of(one)) == ["x", "y"]


def test_a_truncated_gzip_file_is_reported(tmp_path: Path) -> None:
    whole = gzip.compress(f"{C4}Group y with generation 1 is now empty (X)\n".encode() * 200)
    (tmp_path / "server.log.gz").write_bytes(whole[: len(whole) // 2])
    (one,) = find([str(tmp_path)], "broker")
    assert list(rows_of(one))[-1]["what"] == "unread"


def test_every_kind_of_line_is_described() -> None:
    assert {one.what for one in broker_lines.BROKER.forms} == set(broker_lines.KINDS)
    assert {one.what for one in client_lines.CLIENT.forms} == set(client_lines.KINDS)
