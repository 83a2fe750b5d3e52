"""Some fixed seeds against real brokers: short, so that the tester itself does not rust; `make differential` is the long run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.differential import generators, peers
from tests.differential.runner import Runner

SEEDS = {"3.4": (*range(14), *range(250, 253), *range(254, 264)), "4.1": (*range(6), *range(7, 29))}
"""Beside 3.4 sequences of groups and others take turns (generators.BLOCK). What is left out is told in docs/differential.md. 3.4's 253:
a batch too short for its head, for a topic with too few replicas in sync, which 3.4 tells first. 4.1's 6: members of a consumer group
read different topics, and of several moves that are equally good ``uniform`` makes another first than Kafka does."""


CLUSTER_SEEDS = {"3.4": (*range(10), *range(250, 253), *range(254, 262)), "4.1": range(24)}
"""Seeds for clusters of two brokers; without those in which a broker goes, which take a real one a quarter of a minute each. 253 is
left out: in it a Produce names a partition twice, once with null records. 3.4 appends the other batch and answers INVALID_RECORD all
the same; the simulator answers what became of the batch."""


@pytest.mark.real_kafka
@pytest.mark.parametrize("version", SEEDS)
@pytest.mark.parametrize(("brokers", "seeds"), [(1, SEEDS), (2, CLUSTER_SEEDS)], ids=["one broker", "two brokers"])
def test_fixed_seeds_are_answered_as_by_the_real_broker(
    version: str, brokers: int, seeds: Mapping[str, Iterable[int]], tmp_path: Path
) -> None:
    told: list[str] = []

    async def run() -> Runner:
        runner = Runner(version, real, simulated, told.append, tmp_path)
        await runner.prepare()
        played = (generators.sequence(seed, runner.versions, brokers=brokers) for seed in seeds[version])
        unhurried = (one for one in played if not one.timed and not one.alone)
        await runner.run(unhurried, side_by_side=8, seconds=90)
        return runner

    with peers.real(version, brokers) as real, peers.simulated(version, brokers) as simulated:
        tally = asyncio.run(run()).tally
    assert tally.unknown == [], "\n".join(told)
    assert tally.broken == 0
    assert tally.answers > 200
