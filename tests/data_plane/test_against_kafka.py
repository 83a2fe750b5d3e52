"""The data plane beside Apache Kafka: the same requests, the same answers, but for the differences listed with their reasons."""

from __future__ import annotations

import re

import pytest

from broker_sim import Cluster
from tests.data_plane import exchanges
from tests.support.real_kafka import RealKafka
from tests.support.wire import Wire

pytestmark = [pytest.mark.real_kafka]

SETTINGS = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}

DIFFERENT: dict[str, dict[str, str]] = {
    "4.1": {},
    "3.4": {},
}
"""Answers that differ, as patterns of their names, and why that is right."""


async def answers_of(bootstrap: str, as_version: str) -> dict[str, str]:
    major, minor = map(int, as_version.split("."))
    wire = await Wire.connect(bootstrap)
    try:
        return await exchanges.run(wire, (major, minor))
    finally:
        await wire.close()


@pytest.mark.parametrize(("as_version", "kafka_version"), [("4.1", "4.1.0"), ("3.4", "3.4.0")])
async def test_the_answers_are_those_of_kafka(as_version: str, kafka_version: str) -> None:
    async with Cluster(as_version=as_version, config=SETTINGS) as cluster:
        ours = await answers_of(cluster.bootstrap, as_version)
    with RealKafka(kafka_version, config=SETTINGS) as kafka:
        theirs = await answers_of(kafka.bootstrap, as_version)
    assert list(ours) == list(theirs)
    known = DIFFERENT[as_version]
    unequal = [name for name in ours if ours[name] != theirs[name]]
    surprises = [name for name in unequal if not any(re.fullmatch(pattern, name) for pattern in known)]
    report = "\n\n".join(f"{name}\n  sim   {ours[name]}\n  kafka {theirs[name]}" for name in surprises)
    assert not surprises, f"{len(surprises)} of {len(ours)} answers differ:\n{report}"
    stale = [pattern for pattern in known if not any(re.fullmatch(pattern, name) for name in unequal)]
    assert not stale, f"no longer different: {stale}"
