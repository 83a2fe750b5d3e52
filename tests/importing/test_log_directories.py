"""serve --data on what another broker left: found out before it is opened, served as it is, nothing lost."""

from __future__ import annotations

import fcntl
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster, ClusterError
from broker_sim.metadata.foreign_directory import numbers, partition_count
from broker_sim.metadata.meta_files import StoreError
from broker_sim.storage import partition_for
from kafka_wire import compression, transaction_log
from kafka_wire.messages.k16_list_groups import ListGroupsRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.transaction_log import TransactionLogValue
from kafka_wire.record_batch import Codec, ControlType, control_batch
from tests.importing.logs import NOW_MS, TOPIC_ID, batch_of, commit, gone, group_of, write_groups, write_log
from tests.importing.past import assignment, described, offsets_of, topic_of, unstable_in
from tests.support import processes
from tests.support.wire import Wire

OFFSETS = "__consumer_offsets"
TRANSACTIONAL, CONTROL = 0x10, 0x20


def sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


class Seen:
    """View of a cluster on a directory, through its clients."""

    def __init__(self, cluster: Cluster, wire: Wire) -> None:
        self.cluster, self.wire = cluster, wire

    async def offsets(self, group: str) -> dict[tuple[str, int], int]:
        return {key: offset for key, (offset, _, _) in (await offsets_of(self.wire, group)).items()}

    async def group(self, group: str) -> Any:
        return await described(self.wire, group)


class served:
    """A cluster on a directory, and a connection to it."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.cluster = Cluster(data_dir=directory, **options)

    async def __aenter__(self) -> Seen:
        await self.cluster.start()
        self.wire = await Wire.connect(self.cluster.bootstrap)
        return Seen(self.cluster, self.wire)

    async def __aexit__(self, *error: object) -> None:
        await self.wire.close()
        await self.cluster.stop()


async def refused(directory: Path, **options: Any) -> str:
    """Return the reason why a cluster doesn't start on the directory; assert that the directory is unchanged."""
    before = contents(directory)
    with pytest.raises(ClusterError) as caught:
        await Cluster(data_dir=directory, **options).start()
    assert contents(directory) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def contents(directory: Path) -> dict[str, bytes]:
    """Every file but the lock."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


async def test_groups_members_and_offsets_come_back(tmp_path: Path) -> None:
    records = [
        group_of("billing", 7, "a", "b"),
        commit("billing", "orders", 0, 41),
        commit("billing", "orders", 0, 42, version=4),
        commit("billing", "orders", 1, 5),
        commit("billing", "orders", 1, None),
        commit("audit", "orders", 2, 9),
        commit("old", "orders", 2, 9),
        group_of("old", 3),
        commit("old", "orders", 2, None),
        gone("old"),
    ]
    write_groups(tmp_path, records, all_of_them=True)
    async with served(tmp_path) as seen:
        assert await seen.offsets("billing") == {("orders", 0): 42}
        assert await seen.offsets("audit") == {("orders", 2): 9}
        state, kind, protocol, members = await seen.group("billing")
        assert (state, kind, protocol, [member[0] for member in members]) == ("Stable", "consumer", "range", ["a", "b"])
        assert members[1][2:4] == ("client-b", "/10.0.0.1")
        assert (await seen.group("old"))[0] == "Dead"
        listed = (await seen.wire.send(ListGroupsRequest(), 4)).groups
        assert {group.group_id for group in listed} == {"billing", "audit"}


@pytest.mark.parametrize("codec", list(Codec))
async def test_compressed_batches(codec: Codec, tmp_path: Path) -> None:
    pairs = [commit("g", "orders", partition, partition + 10) for partition in range(30)]
    index = partition_for("g", 50)
    write_log(tmp_path, OFFSETS, index, (0, batch_of(pairs, 0, codec=codec)))
    async with served(tmp_path) as seen:
        assert await seen.offsets("g") == {("orders", p): p + 10 for p in range(30)}


async def test_a_codec_that_is_not_installed_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path, OFFSETS, partition_for("g", 50), (0, batch_of([commit("g", "t", 0, 1)], 0, codec=Codec.ZSTD)))
    monkeypatch.setitem(sys.modules, "cramjam", None)
    assert not compression.available(Codec.ZSTD)
    why = await refused(tmp_path)
    assert (
        "__consumer_offsets-3 can't be read: zstd needs the library cramjam: pip install 'broker-sim[compression]'"
        in why
    )


async def test_segments_that_compaction_left_gaps_in(tmp_path: Path) -> None:
    index = partition_for("g", 50)
    first = batch_of([commit("g", "orders", 0, 1)], 100) + batch_of([], 200, last_offset=250)
    second = batch_of([commit("g", "orders", 1, 2)], 1000) + batch_of([commit("g", "orders", 0, 3)], 5000)
    write_log(tmp_path, OFFSETS, index, (0, first), (900, second))
    async with served(tmp_path) as seen:
        assert await seen.offsets("g") == {("orders", 0): 3, ("orders", 1): 2}
        assert seen.cluster.state.topics[OFFSETS].partitions[index].log_end_offset == 5001


async def test_transactions_and_their_markers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Committed offsets show, aborted and unfinished ones don't, and a plain commit written later stays."""
    data, at = b"", 0

    def add(offset: int, partition: int, producer_id: int) -> None:
        nonlocal data, at
        plain = producer_id < 0
        data += batch_of(
            [commit("g", "orders", partition, offset)],
            at,
            producer_id=producer_id,
            producer_epoch=-1 if plain else 0,
            base_sequence=0,
            attributes=0 if plain else TRANSACTIONAL,
        )
        at += 1

    def end(kind: ControlType, producer_id: int) -> None:
        nonlocal data, at
        data += control_batch(kind, NOW_MS, producer_id=producer_id, producer_epoch=0, base_offset=at, leader_epoch=5)
        at += 1

    add(1, 0, 10)
    end(ControlType.COMMIT, 10)
    add(2, 1, 10)
    end(ControlType.ABORT, 10)
    add(3, 2, 11)
    add(4, 2, -1)
    end(ControlType.COMMIT, 11)
    add(5, 3, 12)
    write_log(tmp_path, OFFSETS, partition_for("g", 50), (0, data))
    async with served(tmp_path) as seen:
        assert await seen.offsets("g") == {("orders", 0): 1, ("orders", 2): 4}
    assert (
        "the transaction of producer 12 has no end: what it committed for g does not show, and is aborted in a minute"
        in caplog.text
    )


async def test_producer_ids_go_on_above_those_that_are_there(tmp_path: Path) -> None:
    """A new producer must not have the id of one whose batches, or transactional id, are in the logs."""
    batch = batch_of([(None, b"x")], 0, producer_id=4711, producer_epoch=0, base_sequence=0)
    write_log(tmp_path, "orders", 0, (0, batch))
    stored = TransactionLogValue(producer_id=9001, transaction_status=0)
    key, value = transaction_log.encode_key("tx"), transaction_log.encode_value(1, stored)
    write_log(tmp_path, "__transaction_state", 3, (0, batch_of([(key, value)], 0)))
    async with served(tmp_path) as seen:
        answer = await seen.wire.send(InitProducerIdRequest(None, 60_000), 4)
        assert (answer.error_code, answer.producer_id) == (0, 10_000)
    async with served(tmp_path) as seen:
        assert (await seen.wire.send(InitProducerIdRequest(None, 60_000), 4)).producer_id > 10_000


async def test_a_transaction_without_an_end_is_unstable_until_it_is_aborted(tmp_path: Path) -> None:
    plain = batch_of([commit("g", "orders", 0, 1), commit("g", "orders", 1, 2)], 0)
    pending = [commit("g", "orders", 0, 5), commit("h", "orders", 0, 6)]
    options = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
    write_log(tmp_path, OFFSETS, 0, (0, plain + batch_of(pending, 2, **options)))
    config = {"offsets.topic.num.partitions": 1}
    async with served(tmp_path, clock="manual", config=config) as seen:
        assert await seen.offsets("g") == {("orders", 0): 1, ("orders", 1): 2}
        unstable = -1, "UNSTABLE_OFFSET_COMMIT"
        assert await unstable_in(seen.wire, "g") == {("orders", 0): unstable, ("orders", 1): (2, "NONE")}
        assert await seen.offsets("h") == {}
        assert (await seen.group("h"))[0] == "Empty"
        assert await unstable_in(seen.wire, "h") == {("orders", 0): unstable, ("orders", 1): (-1, "NONE")}
        await seen.cluster.time.advance(59)
        assert (await unstable_in(seen.wire, "g"))["orders", 0] == unstable
        await seen.cluster.time.advance(1)
        assert await unstable_in(seen.wire, "g") == {("orders", 0): (1, "NONE"), ("orders", 1): (2, "NONE")}
        assert await unstable_in(seen.wire, "h") == {("orders", 0): (-1, "NONE"), ("orders", 1): (-1, "NONE")}


async def test_records_of_other_kinds_are_skipped_with_a_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    streams = b"\x00\x11" + b"\x00\x01g"
    topology = b"\x00\x17" + b"\x00\x01g"
    unknown = b"\x00\x63" + b"?"
    pairs = [(streams, b"\x00\x00"), (topology, b""), (unknown, b""), (unknown, None), commit("g", "orders", 0, 5)]
    write_log(tmp_path, OFFSETS, partition_for("g", 50), (0, batch_of(pairs, 0)))
    async with served(tmp_path) as seen:
        assert await seen.offsets("g") == {("orders", 0): 5}
    kinds = "1 StreamsGroupMetadata, 1 StreamsGroupTopology, 2 type 99"
    assert f"4 records are of kinds that classic groups don't have: {kinds}" in caplog.text
    assert f"4 records of other kinds were skipped: {kinds}" in caplog.text


async def test_later_records_under_an_old_release_are_announced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_groups(tmp_path, [commit("g", "orders", 0, 5, version=4)])
    async with served(tmp_path, as_version="3.4"):
        assert "some records of it are of later releases" in caplog.text


# --- topics -----------------------------------------------------------------------------------------------------------------


async def test_topics_that_were_not_copied_end_where_groups_have_read_to(tmp_path: Path) -> None:
    pairs = [
        commit("a", "orders", 0, 7),
        commit("b", "orders", 0, 9),
        commit("b", "orders", 3, 4),
        commit("b", "x", 0, -1),
    ]
    write_groups(tmp_path, pairs)
    async with served(tmp_path) as seen:
        assert (await topic_of(seen.wire, "orders"))[1] == {0: 9, 1: 0, 2: 0, 3: 4}
        assert (await topic_of(seen.wire, "x"))[1] == {0: 0}
    async with served(tmp_path) as again:
        assert (await topic_of(again.wire, "orders"))[1] == {0: 9, 1: 0, 2: 0, 3: 4}


async def test_partitions_that_members_have_without_a_commit_are_there_too(tmp_path: Path) -> None:
    key, value = group_of("g", 1, "a", "b")
    write_groups(tmp_path, [(key, value.replace(b"\x00\x00\x00\x01b", sized(assignment({"orders": [4, 6]}))))])
    async with served(tmp_path) as seen:
        assert (await topic_of(seen.wire, "orders"))[1] == dict.fromkeys(range(7), 0)


async def test_names_and_numbers_that_no_topic_has_make_none(tmp_path: Path) -> None:
    """Nothing in a log leads out of the data directory, or to more files than there is room for."""
    inner = tmp_path / "data"
    pairs = [commit("g", "../escaped", 0, 5), commit("g", "far", 2**31 - 1, 5), commit("g", "far", -1, 5)]
    write_groups(inner, [*pairs, commit("g", "__consumer_offsets", 0, 5)])
    async with served(inner) as seen:
        assert list(seen.cluster.state.topics) == [OFFSETS]
        assert (await seen.offsets("g"))["../escaped", 0] == 5
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


async def test_directories_that_only_look_like_partitions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "backup-20240101").mkdir()
    (tmp_path / "backup-20240101" / "notes.txt").write_text("mine")
    async with served(tmp_path) as seen:
        assert list(seen.cluster.state.topics) == []
        assert seen.cluster.config.int("offsets.retention.minutes") == 10080
    assert "backup-20240101 is skipped: it is not a log" in caplog.text
    (tmp_path / "cluster.json").unlink()
    write_log(tmp_path, "orders", 20240101, (0, b""))
    assert "orders-20240101 is not a partition: a topic can't have so many" in await refused(tmp_path)


async def test_an_offset_that_no_log_reaches_does_not_make_one(tmp_path: Path) -> None:
    write_groups(tmp_path, [commit("a", "orders", 0, 2**62)])
    async with served(tmp_path) as seen:
        assert (await topic_of(seen.wire, "orders"))[1] == {0: 0}
        assert await seen.offsets("a") == {("orders", 0): 2**62}


async def test_other_logs_become_topics_with_their_ids_and_epochs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = batch_of([(b"k", b"v"), (b"k", b"w")], 0)
    write_log(tmp_path, "orders", 3, (0, rows))
    write_log(tmp_path, "orders", 1, (0, b""), epochs="8 0")
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=4\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n")
    async with served(tmp_path) as seen:
        topic_id, ends = await topic_of(seen.wire, "orders")
        assert (topic_id, ends) == (TOPIC_ID, {0: 0, 1: 0, 2: 0, 3: 2})
        assert [p.leader_epoch for p in seen.cluster.state.topics["orders"].partitions] == [0, 9, 0, 6]
        assert seen.cluster.state.cluster_id == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert "orders: of its 4 partitions 0, 2 are not here and begin empty" in caplog.text
    assert "broker.id=4" in (tmp_path / "meta.properties").read_text()


async def test_directories_on_their_way_out_are_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for kind in ("delete", "future", "stray"):
        write_log(tmp_path, "orders", 0).rename(tmp_path / f"orders-0.{'0af' * 10}12-{kind}")
    (tmp_path / "__cluster_metadata-0").mkdir()
    write_log(tmp_path, "topic-1-delete", 0, (0, b""))
    before = contents(tmp_path)
    async with served(tmp_path) as seen:
        assert list(seen.cluster.state.topics) == ["topic-1-delete"]
    assert "-delete is skipped: Kafka was deleting it" in caplog.text
    assert "-future is skipped" in caplog.text
    after = contents(tmp_path)
    assert all(after[name] == data for name, data in before.items() if name.startswith("orders-0."))


def metadata_record(kind: int, *fields: bytes | str | None) -> bytes:
    """A record of the cluster's metadata: frame version 1, type, version 0, then bytes as they are and compact strings."""
    out = bytes((1, kind, 0))
    for one in fields:
        if isinstance(one, bytes):
            out += one
        else:
            out += b"\x00" if one is None else bytes((len(one.encode()) + 1,)) + one.encode()
    return out + b"\x00"


async def test_the_clusters_metadata_tells_settings_and_partitions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest snapshot, and the log from there on; what can't be read in it is passed over."""
    other_id, topic = b"o" * 16, b"\x02"

    def partition(topic_id: bytes, index: int) -> bytes:
        return metadata_record(3, index.to_bytes(4, "big") + topic_id)

    def values(*records: bytes) -> list[Any]:
        return [(None, record) for record in records]

    image = [
        metadata_record(2, "orders", TOPIC_ID),
        metadata_record(2, "doomed", other_id),
        partition(TOPIC_ID, 5),
        metadata_record(4, topic, "orders", "cleanup.policy", "compact"),
        metadata_record(4, topic, "orders", "retention.ms", "1000"),
        metadata_record(4, topic, "orders", "max.compaction.lag.ms", "1"),
        metadata_record(4, topic, "orders", "max.message.bytes", "5000"),
        metadata_record(4, topic, "orders", "no.such.setting", "1"),
        metadata_record(4, b"\x04", "orders", "segment.bytes", "1"),
        b"\x01\x02\x00\x7fcut",
        b"",
    ]
    later = [
        metadata_record(4, topic, "orders", "max.message.bytes", None),
        metadata_record(9, other_id),
        partition(TOPIC_ID, 7),
    ]
    old = values(metadata_record(9, TOPIC_ID))
    path = write_log(tmp_path, "__cluster_metadata", 0, (0, batch_of(old, 0) + batch_of(values(*later), 20)))
    (path / f"{20:020d}-{3:010d}.checkpoint").write_bytes(batch_of(values(*image), 0))
    (path / f"{5:020d}-{3:010d}.checkpoint").write_bytes(batch_of(old, 0))
    write_log(tmp_path, "orders", 0, (0, batch_of([(b"k", b"v")], 0)))
    async with served(tmp_path) as seen:
        found = seen.cluster.state.topics["orders"]
        assert len(found.partitions) == 8
        assert found.configs == {
            "cleanup.policy": "compact",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "min.cleanable.dirty.ratio": "1.0",
        }
        assert list(seen.cluster.state.topics) == ["orders"]
    assert "__cluster_metadata-0 has the settings and the partitions of 1 topics" in caplog.text


async def test_messages_of_the_old_formats_are_refused(tmp_path: Path) -> None:
    write_log(tmp_path, "orders", 0, (0, bytes(16) + b"\x01" + bytes(20)))
    why = await refused(tmp_path)
    assert "00000000000000000000.log has messages of format 1 (before Kafka 0.11)" in why


async def test_a_torn_end_is_no_obstacle(tmp_path: Path) -> None:
    """A copy of a running broker's log may end within a batch."""
    whole = batch_of([commit("g", "orders", 0, 5)], 0)
    torn = batch_of([commit("g", "orders", 0, 6)], 1)[:-9]
    write_log(tmp_path, OFFSETS, partition_for("g", 50), (0, whole + torn))
    async with served(tmp_path) as seen:
        assert await seen.offsets("g") == {("orders", 0): 5}


async def test_nothing_of_it_expires_nor_is_cleaned(tmp_path: Path) -> None:
    """The batches' times are old by nature: Kafka's retention would delete them at the first check."""
    write_groups(tmp_path, [commit("g", "orders", 0, 1), commit("g", "orders", 0, 2)])
    write_log(tmp_path, "orders", 0, (0, batch_of([(b"k", b"v")], 0)), (1, batch_of([(b"k", b"w")], 1)))
    before = contents(tmp_path)
    for _ in range(2):  # a restart keeps it so
        async with served(tmp_path) as seen:
            assert seen.cluster.config.int("offsets.retention.minutes") == 2**31 - 1
            seen.cluster.state.run_log_maintenance(NOW_MS + 400 * 86_400_000)
            assert await seen.offsets("g") == {("orders", 0): 2}
    after = contents(tmp_path)
    assert all(after[name] == data for name, data in before.items() if name.endswith(".log"))
    async with served(tmp_path, config={"offsets.retention.minutes": 60}) as seen:
        assert seen.cluster.config.int("offsets.retention.minutes") == 60


async def test_own_directories_keep_kafkas_retention(tmp_path: Path) -> None:
    for _ in range(2):
        async with served(tmp_path, topics={"orders": 1}) as seen:
            assert seen.cluster.config.int("offsets.retention.minutes") == 10080
            assert seen.cluster.state.topics["orders"].configs == {}


async def test_a_directory_that_a_jvm_has_locked_is_refused(tmp_path: Path) -> None:
    """Java's locks are those of fcntl, which flock doesn't see."""
    lock = tmp_path / ".lock"
    program = (
        "import fcntl, sys\n"
        f"handle = open({str(lock)!r}, 'a')\n"
        "fcntl.lockf(handle, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program]
    holder = processes.start(command, stdin=subprocess.PIPE)
    try:
        assert processes.line(holder, "it to have the lock") == "locked\n"
        assert "in use by another cluster, or by a Kafka broker: stop it, or take a copy" in await refused(tmp_path)
        processes.finish(holder, "it to end with its input")
    finally:
        processes.kill(holder)
    async with served(tmp_path):
        with lock.open("a") as handle, pytest.raises(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


# --- how many offsets partitions --------------------------------------------------------------------------------------------


def places(count: int, *groups: str) -> list[tuple[str, int]]:
    return [(group, partition_for(group, count)) for group in groups]


NAMES = [f"group-{number}" for number in range(20)]


@pytest.mark.parametrize(
    ("found", "indexes", "given", "count"),
    [
        (places(50, *NAMES), range(50), None, 50),
        (places(7, *NAMES), range(7), None, 7),
        (places(50, "test-group"), [12], None, 50),
        (places(50, *NAMES), sorted({index for _, index in places(50, *NAMES)}), None, 50),
        (places(50, "polygenelubricants"), [0], None, 50),
        ([("a", 0), ("b", 0)], [0], None, 1),
        (places(9, *NAMES), [1, 3, 8], None, 9),
        (places(100, *NAMES), sorted({index for _, index in places(100, *NAMES)}), None, 100),
        ([], range(3), None, 3),
        ([], [12], None, 50),
        ([], [60], None, 61),
        (places(100, "one"), [partition_for("one", 100)], 100, 100),
        ([("a", 0), ("b", 0)], range(3), None, 3),
    ],
)
def test_the_number_that_the_groups_prove(found: Any, indexes: Any, given: int | None, count: int) -> None:
    assert partition_count([place for place in found if place[1] in indexes], list(indexes), given)[0] == count


def test_several_numbers_or_none_are_an_error() -> None:
    group = next(name for name in NAMES if partition_for(name, 24) != partition_for(name, 50))
    with pytest.raises(StoreError, match=r"may have [\d, .]+ partitions by the groups .*--config offsets.topic.num"):
        partition_count(places(24, group), [partition_for(group, 24)], None)
    with pytest.raises(StoreError, match="no number of __consumer_offsets partitions puts every group where it lies"):
        partition_count([("a", 5), ("b", 5), ("c", 6)], [5, 6], None)
    with pytest.raises(StoreError, match=r"offsets.topic.num.partitions=5, but there is __consumer_offsets-12"):
        partition_count(places(50, "test-group"), [12], 5)


def test_groups_that_lie_wrong_are_told() -> None:
    _, told = partition_count([("test-group", 5)], [5], 50)
    assert told == (
        "as asked; not found by clients is 'test-group': it lies in 5, where 50 partitions put it into 12; groups like it: 1"
    )


async def test_one_partition_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_groups(tmp_path, [commit("test-group", "orders", 0, 5), commit("my-group", "orders", 0, 6)])
    assert [path.name for path in tmp_path.iterdir()] == ["__consumer_offsets-12"]
    async with served(tmp_path) as seen:
        assert len(seen.cluster.state.topics[OFFSETS].partitions) == 50
        assert await seen.offsets("my-group") == {("orders", 0): 6}
    assert (
        "1 of 50 partitions are here (2 groups lie where their hashes put them); 2 group ids in 2 records"
        in caplog.text
    )


async def test_a_number_that_cannot_be_is_refused(tmp_path: Path) -> None:
    write_groups(tmp_path, [commit("test-group", "orders", 0, 5)])
    why = await refused(tmp_path, config={"offsets.topic.num.partitions": 4})
    assert "offsets.topic.num.partitions=4, but there is __consumer_offsets-12" in why


def test_numbers_for_people() -> None:
    assert numbers([]) == ""
    assert numbers([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
