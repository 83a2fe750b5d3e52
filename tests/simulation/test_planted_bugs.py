"""Proof that simulation finds bugs: each planted one is found, within the number of seeds that stands beside it; the broker as it is
stands over the same seeds. Every other seed runs without a journal, on the brokers' short ways."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from broker_sim.simulation import simulate
from broker_sim.simulation.checks.answers import Answers
from broker_sim.simulation.workloads.hostile import Report, run_hostile
from broker_sim.simulation.workloads.raw import CONFIG, GROUP, RawClient, RawContext, commit_request, fetch_request
from broker_sim.storage import recovery, segment
from kafka_wire.offsets_log import offset_commit_key, offset_commit_value
from kafka_wire.record_batch import build_batch
from tests.simulation.mutations import MUTATIONS, Mutation

pytestmark = pytest.mark.slow

SOUND = range(30)
"""Seeds of the broker as it is; a sweep runs more."""


def run(seed: int, journal: bool | None) -> Report:
    return run_hostile(seed, journal=seed % 2 == 1 if journal is None else journal)


@pytest.mark.parametrize("planted", MUTATIONS, ids=lambda each: each.name)
def test_a_planted_bug_is_found(
    planted: Mutation, record_property: pytest.RecordProperty, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    with planted.planted():
        for seed in range(planted.first, planted.first + planted.seeds):
            report = run(seed, planted.journal)
            if report.broken is not None:
                record_property("runs", seed + 1)
                record_property("invariant", report.broken.name)
                assert str(report.broken).startswith(report.broken.name)
                return
    pytest.fail(f"{planted.name} was not found in {planted.seeds} seeds")


def test_there_are_enough_of_them() -> None:
    assert len(MUTATIONS) >= 15
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.long
@pytest.mark.parametrize("journal", [False, True], ids=["short ways", "journal"])
def test_the_broker_as_it_is_breaks_nothing(journal: bool) -> None:
    checked = 0
    for seed in SOUND:
        report = run_hostile(seed, journal=journal)
        if report.broken is not None:
            raise report.broken
        checked += report.checked
    assert checked > 300 * len(SOUND)


def test_a_planted_bug_leaves_nothing_behind() -> None:
    for planted in MUTATIONS:
        with planted.planted():
            pass
    assert run_hostile(0).broken is None


def torn_tail(directory: Path) -> str | None:
    """The broken invariant after brokers were stopped, a commit that nobody has acked was half written, and they are started again."""
    with simulate(1) as sim:
        kafka = sim.cluster(1, {"orders": 6, "elsewhere": 2}, data_dir=directory, journal=False, config=CONFIG)
        kafka.state.ensure_offsets_topic()
        answers = Answers(kafka.state, lambda: sim.elapsed_s, lambda error: None)
        client = RawClient(RawContext(sim, kafka, answers), "one")
        sim.run(client.ask(commit_request("", None, -1, {0: 5}), 1))
        log = next(path for path in directory.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
        client.close()
        sim.run(kafka.stop())
        key, value = offset_commit_key(GROUP, "orders", 0), offset_commit_value(4, 6, -1, "", 1)
        batch = bytearray(build_batch([(key, value)], sim.now_ms))
        batch[:8] = (1).to_bytes(8, "big")
        batch[17] ^= 1  # a bit of its CRC
        log.write_bytes(log.read_bytes() + batch)
        sim.run(kafka.start())
        answers.state = kafka.state

        async def read() -> int:
            while True:
                answer = await client.ask(fetch_request(1), await client.find())
                if answer.error_code == 0:
                    offset: int = answer.topics[0].partitions[0].committed_offset
                    return offset
                await asyncio.sleep(0.1)

        offset = sim.run(read())
        assert (offset == 5) == (answers.broken is None)
        client.close()
        return None if answers.broken is None else answers.broken.name


def test_a_torn_tail_that_is_accepted_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert torn_tail(tmp_path / "sound") is None
    monkeypatch.setattr(recovery, "check_crc", lambda *args: None)
    monkeypatch.setattr(segment, "check_crc", lambda *args: None)
    assert torn_tail(tmp_path / "torn") == "acknowledged commits are never lost or regressed"
