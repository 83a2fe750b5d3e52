"""The simulator is killed under each client and comes back on the same data: the client goes on where it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.clients import CLIENTS, Client, marks
from tests.clients.driver import ClientError, eventually
from tests.clients.rig import BROKER_CONFIG, Garage
from tests.clients.scenarios import Lab, of
from tests.clients.simulator import Simulator
from tests.support.real_kafka import free_port


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Simulator]:
    """A simulator with a data directory and ports that it keeps."""
    for attempt in range(5):
        served = Simulator(tmp_path / f"{attempt}.log", BROKER_CONFIG, data=tmp_path / f"{attempt}", port=free_port())
        try:
            served.start()
        except AssertionError:  # one of the ports after the first was taken
            if attempt == 4:
                raise
            continue
        break
    yield served
    served.stop()


@pytest.mark.parametrize("client", [pytest.param(c, id=c.name, marks=marks(c)) for c in CLIENTS])
def test_a_client_survives_the_broker(client: Client, on_disk: Simulator, garage: Garage) -> None:
    driver = garage.new(client, on_disk.bootstrap)
    lab = Lab(client, driver, lambda: driver)
    try:
        topic, group = lab.topic(3), lab.group()
        member = lab.member(group=group, topics=[topic], session_timeout_ms=4000)
        member.owns(of(topic, 0, 1, 2))
        before = lab.fill(topic, 3, 4, "before")
        member.reads(before)
        member.commit("sync")
        on_disk.kill()
        on_disk.start()

        def produced() -> bool:
            try:
                lab.fill(topic, 3, 1, "after")
            except ClientError:
                return False
            return True

        eventually("the client produces again", produced)
        member.reads(f"after-{p}-0" for p in range(3))
        assert lab.committed(group, topic, 3) == {0: 4, 1: 4, 2: 4}
        member.owns(of(topic, 0, 1, 2))
        member.commit("sync")
        member.leave()
        heir = lab.member(group=group, topics=[topic])
        records = heir.reads(lab.fill(topic, 3, 1, "late"))
        assert not {record.value for record in records} & set(before)
    finally:
        lab.close()
        driver.close()
