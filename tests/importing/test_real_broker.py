"""Beside a real broker: the simulator on a copy of its logs says of every group what the broker says after a restart."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_sim.cluster import Cluster, ClusterError
from broker_sim.storage.checkpoints import CLEANER_FILE, read_offsets
from protocol.record_batch import Codec, batches
from tests.importing.past import FILLERS, GROUPS, NEWER, OFFSETS_PARTITIONS, Answers, Past, ask_all, copy_of, live
from tests.support.real_kafka import CLUSTER_ID, VERSIONS, RealKafka

pytestmark = [pytest.mark.real_kafka, pytest.mark.timeout(240)]

CODECS = {"3.4.0": Codec.LZ4, "4.1.0": Codec.ZSTD}
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

    @property
    def groups(self) -> tuple[str, ...]:
        return (*GROUPS, *FILLERS)


@pytest.fixture(scope="module", params=VERSIONS)
def incident(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Incident]:
    version, place = request.param, tmp_path_factory.mktemp("logs")
    settings = {
        **QUICK,
        "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
        "offsets.topic.segment.bytes": 65536 if version.startswith("3") else 1 << 20,
        "offsets.topic.compression.codec": int(CODECS[version]),
        "log.cleaner.backoff.ms": 200,
        "log.cleaner.min.cleanable.ratio": 0.01,
    }
    with RealKafka(version, config=settings) as kafka:
        past = asyncio.run(live(kafka))
        node = kafka.nodes[1]
        running = copy_of(node.data_dir, place / "running")
        node.stop()
        stopped = copy_of(node.data_dir, place / "stopped")
        node.start()
        node.wait_ready(time.monotonic() + 60)
        answers = asyncio.run(ask_all(kafka.bootstrap, past, (*GROUPS, *FILLERS)))
        yield Incident(version, past, answers, stopped, running)
        past.keep.clear()


async def here(incident: Incident, directory: Path) -> Answers:
    async with Cluster(data_dir=directory, as_version=incident.version[:3], config=QUICK) as cluster:
        return await ask_all(cluster.bootstrap, incident.past, incident.groups)


async def test_groups_are_as_the_broker_has_them_after_a_restart(incident: Incident, tmp_path: Path) -> None:
    answers = await here(incident, copy_of(incident.stopped, tmp_path / "copy"))
    assert answers.offsets == incident.answers.offsets
    assert answers.groups == incident.answers.groups
    assert answers.heartbeats == incident.answers.heartbeats
    listed = {one for one in answers.listed if one[0] not in NEWER}
    assert listed == {one for one in incident.answers.listed if one[0] not in NEWER}
    assert answers.topics == incident.answers.topics
