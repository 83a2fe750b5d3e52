"""Beside a real broker: the simulator on a copy of its logs says of every group what the broker says after a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_sim.api.cluster import Cluster, ClusterError
from broker_sim.metadata.topics import OFFSETS_TOPIC
from broker_sim.migration.group_import import apply, read_describe
from broker_sim.storage.checkpoints import CLEANER_FILE, read_offsets
from kafka_wire.record_batch import BatchHeader, Codec, batches
from tests.importing.past import (
    FILLERS,
    GROUPS,
    NEWER,
    OFFSETS_PARTITIONS,
    Answers,
    Past,
    ask_all,
    commit_some,
    copy_of,
    live,
    offsets_of,
)
from tests.support.real_kafka import CLUSTER_ID, VERSIONS, RealKafka, java_tool
from tests.support.wire import Wire

pytestmark = [pytest.mark.real_kafka]

CODECS = {"3.4.0": Codec.LZ4, "4.1.0": Codec.ZSTD}
SEGMENT_BYTES = {"3.4.0": 1 << 16, "4.1.0": 1 << 20}
QUICK = {"group.initial.rebalance.delay.ms": 0}


@dataclass
class Incident:
    """A broker's past, the broker's word on it after a restart, and copies of its logs."""

    version: str
    past: Past
    answers: Answers
    stopped: Path
    running: Path
    """A copy that was made while the broker ran."""
    kafka: RealKafka
    """The broker, which runs again."""

    @property
    def groups(self) -> tuple[str, ...]:
        return (*GROUPS, *FILLERS)


@pytest.fixture(scope="module", params=VERSIONS)
def incident(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Incident]:
    version, place = request.param, tmp_path_factory.mktemp("logs")
    settings = {
        **QUICK,
        "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
        "offsets.topic.segment.bytes": SEGMENT_BYTES[version],
        "offsets.topic.compression.codec": int(CODECS[version]),
        "log.cleaner.backoff.ms": 200,
        "log.cleaner.min.cleanable.ratio": 0.01,
    }
    with RealKafka(version, config=settings) as kafka:
        past = asyncio.run(live(kafka))
        node = kafka.nodes[1]
        _wait_for_compaction(node.data_dir)
        running = copy_of(node.data_dir, place / "running")
        node.stop()
        stopped = copy_of(node.data_dir, place / "stopped")
        node.start()
        node.wait_ready(time.monotonic() + 60)
        answers = asyncio.run(ask_all(kafka.bootstrap, past, (*GROUPS, *FILLERS)))
        yield Incident(version, past, answers, stopped, running, kafka)
        past.keep.clear()


def _wait_for_compaction(data_dir: Path) -> None:
    deadline = time.monotonic() + 60
    while not any(topic == OFFSETS_TOPIC for topic, _ in read_offsets(data_dir, CLEANER_FILE)):
        assert time.monotonic() < deadline, "waited 60 s for the cleaner to compact an offsets partition"
        time.sleep(0.1)


def only_offsets(name: str) -> bool:
    return name.startswith(OFFSETS_TOPIC)


def batches_of(directory: Path) -> list[tuple[str, BatchHeader]]:
    """Every batch of the offsets partitions, with its log's name."""
    files = sorted(directory.glob(f"{OFFSETS_TOPIC}-*/*.log"))
    return [(file.parent.name, header) for file in files for _, header in batches(file.read_bytes())]


async def here(incident: Incident, directory: Path) -> Answers:
    async with Cluster(data_dir=directory, as_version=incident.version[:3], config=QUICK) as cluster:
        return await ask_all(cluster.bootstrap, incident.past, incident.groups)


async def test_groups_are_as_the_broker_has_them_after_a_restart(incident: Incident, tmp_path: Path) -> None:
    answers = await here(incident, copy_of(incident.stopped, tmp_path / "copy"))
    assert answers.offsets == incident.answers.offsets
    assert answers.groups == incident.answers.groups
    assert answers.stable == incident.answers.stable
    assert answers.stable["txn-open"] == {("orders", 0): (-1, "UNSTABLE_OFFSET_COMMIT"), ("orders", 1): (2, "NONE")}
    assert answers.heartbeats == incident.answers.heartbeats
    listed = {one for one in answers.listed if one[0] not in NEWER}
    assert listed == {one for one in incident.answers.listed if one[0] not in NEWER}
    assert answers.topics == incident.answers.topics


def test_the_logs_are_those_of_an_incident(incident: Incident) -> None:
    """Rolled, compacted, compressed, with transactions of both ends: what the other tests are worth."""
    found = batches_of(incident.stopped)
    segments = {path.parent.name: 0 for path in incident.stopped.glob(f"{OFFSETS_TOPIC}-*/*.log")}
    for path in incident.stopped.glob(f"{OFFSETS_TOPIC}-*/*.log"):
        segments[path.parent.name] += 1
    assert len(segments) == OFFSETS_PARTITIONS
    assert max(segments.values()) > 1
    assert CODECS[incident.version] in {header.codec for _, header in found}
    assert {header.is_control for _, header in found} == {True, False}
    ends: dict[str, int] = {}
    gaps = 0
    for name, header in found:
        gaps += header.base_offset - ends.get(name, 0) + header.last_offset_delta + 1 - header.record_count
        ends[name] = header.next_offset
    assert gaps > 0


async def test_a_copy_made_while_the_broker_runs(incident: Incident, tmp_path: Path) -> None:
    answers = await here(incident, copy_of(incident.running, tmp_path / "copy"))
    assert answers.offsets == incident.answers.offsets
    assert answers.groups == incident.answers.groups
    assert answers.heartbeats == incident.answers.heartbeats


async def test_the_offsets_directories_alone(incident: Incident, tmp_path: Path) -> None:
    """Topics are then known by what groups have committed of them."""
    answers = await here(incident, copy_of(incident.stopped, tmp_path / "copy", only=only_offsets))
    assert answers.offsets == incident.answers.offsets
    assert answers.groups == incident.answers.groups
    committed = [offsets for offsets in incident.answers.offsets.values() if offsets]
    for topic in ("orders", "audit"):
        ends = answers.topics[topic][1]
        assert ends == {
            partition: max(offsets[topic, partition][0] for offsets in committed if (topic, partition) in offsets)
            for partition in ends
        }


async def test_what_was_there_stays_byte_for_byte(incident: Incident, tmp_path: Path) -> None:
    """And the next start goes on from the same groups."""
    copy = copy_of(incident.stopped, tmp_path / "copy")
    first = await here(incident, copy)
    for path in incident.stopped.glob("*/*.log"):
        if not path.parent.name.startswith("__cluster_metadata"):
            assert (copy / path.parent.name / path.name).read_bytes().startswith(path.read_bytes()), path
    assert f"cluster.id={CLUSTER_ID}" in (copy / "meta.properties").read_text()
    again = await here(incident, copy)
    assert (again.offsets, again.groups, again.topics) == (first.offsets, first.groups, first.topics)


async def test_topics_have_the_settings_of_the_cluster(incident: Incident, tmp_path: Path) -> None:
    """Told by its metadata, as is the number of offsets partitions where only some of them were copied."""

    def some(name: str) -> bool:
        return not name.startswith((f"{OFFSETS_TOPIC}-0", f"{OFFSETS_TOPIC}-2", "settled-2", "audit-0"))

    copy = copy_of(incident.stopped, tmp_path / "copy", only=some)
    async with Cluster(data_dir=copy, as_version=incident.version[:3]) as cluster:
        topics = cluster.state.topics
        assert {name: len(topics[name].partitions) for name in ("orders", "audit", "settled", OFFSETS_TOPIC)} == {
            "orders": 4,
            "audit": 2,
            "settled": 3,
            OFFSETS_TOPIC: OFFSETS_PARTITIONS,
        }
        assert "doomed" not in topics
        settled = topics["settled"].configs
        assert (settled["cleanup.policy"], settled["max.message.bytes"]) == ("compact", "5000")
        assert topics[OFFSETS_TOPIC].configs["segment.bytes"] == str(SEGMENT_BYTES[incident.version])


async def test_maintenance_leaves_it_alone(incident: Incident, tmp_path: Path) -> None:
    copy = copy_of(incident.stopped, tmp_path / "copy")
    async with Cluster(data_dir=copy, as_version=incident.version[:3]) as cluster:
        in_a_month = cluster.state.clock.now_ms() + 30 * 86_400_000
        cluster.state.run_log_maintenance(in_a_month)
        assert cluster.config.int("offsets.retention.minutes") == 2**31 - 1
    for path in incident.stopped.glob("*/*.log"):
        if not path.parent.name.startswith("__cluster_metadata"):
            assert (copy / path.parent.name / path.name).read_bytes().startswith(path.read_bytes()), path


async def test_the_directory_of_a_running_broker_is_refused(incident: Incident) -> None:
    directory = incident.kafka.nodes[1].data_dir
    with pytest.raises(ClusterError, match="in use by another cluster, or by a Kafka broker"):
        await Cluster(data_dir=directory).start()
    assert not (directory / "cluster.json").exists()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
async def test_other_codecs(codec: Codec, tmp_path: Path) -> None:
    version = VERSIONS[codec % 2]
    settings = {**QUICK, "offsets.topic.num.partitions": 1, "offsets.topic.compression.codec": int(codec)}
    with RealKafka(version, config=settings) as kafka:
        await commit_some(kafka)
        kafka.nodes[1].stop()
        copy = copy_of(kafka.nodes[1].data_dir, tmp_path / "copy")
    assert codec in {header.codec for _, header in batches_of(copy)}
    config = {"offsets.topic.num.partitions": 1}
    async with Cluster(data_dir=copy, as_version=version[:3], config=config) as cluster:
        wire = await Wire.connect(cluster.bootstrap)
        assert await offsets_of(wire, "packed") == {("orders", p): (41 + p, -1, "x" * 500) for p in range(2)}
        await wire.close()


# --- from what kafka-consumer-groups prints --------------------------------------------------------------------------------


def describe(version: str, bootstrap: str, groups: Sequence[str], *what: str) -> str:
    """Return the output of Kafka's own tool for these groups."""
    tool = (
        "kafka.admin.ConsumerGroupCommand"
        if version.startswith("3")
        else "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    )
    named = [word for group in groups for word in ("--group", group)]
    done = java_tool(version, tool, "--bootstrap-server", bootstrap, "--describe", *named, *what)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def table(text: str) -> set[tuple[str, ...]]:
    """The lines of tables as words, without the coordinator's address."""
    return {tuple(word for word in line.split() if ":" not in word or "/" in word) for line in text.splitlines()}


async def test_a_described_incident_is_described_alike(incident: Incident) -> None:
    groups = ("simple", "live", "static", "emptied", "txn-committed")
    tables = (("--offsets",), ("--members", "--verbose"), ("--state",))

    def all_tables(bootstrap: str) -> list[str]:
        return [describe(incident.version, bootstrap, groups, *what) for what in tables]

    said = await asyncio.to_thread(all_tables, incident.kafka.bootstrap)
    async with Cluster(as_version=incident.version[:3], config=QUICK) as cluster:
        apply(cluster.state, cluster.runtime, read_describe("\n".join(said)))
        again = await asyncio.to_thread(all_tables, cluster.bootstrap)
    assert [table(text) for text in again] == [table(text) for text in said]
