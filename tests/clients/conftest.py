"""Fixtures of the client matrix: the broker under test and one long-lived driver process per client (rig.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.rig import Garage, Target, serve_target


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with serve_target(tmp_path_factory.mktemp("target")) as served:
        yield served


@pytest.fixture(scope="session")
def garage(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Garage]:
    garage = Garage(target, tmp_path_factory.mktemp("drivers"))
    yield garage
    for driver in garage.running.values():
        driver.close()
