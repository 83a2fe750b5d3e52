"""Each test of this package runs as [version-phase-target]: 3.4 and 4.1, follower in the ISR (A) and out of it (B), in the
simulator (sim) and on a real two-broker cluster (kafka).

On a real cluster all selected tests of one version run at once, in one freeze of the follower, when the first of them is
due; each then shows its own outcome. So a whole version costs a cluster's start and about twenty seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.stuck.cells import Cell, Run
from tests.stuck.real import RELEASES, Campaign
from tests.stuck.simulated import SimStuck
from tests.support.real_kafka import kafka_libs


class Campaigns:
    """The real clusters' outcomes, one campaign a version; none runs before a test needs it."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._outcomes: dict[str, dict[Cell, BaseException | None]] = {}

    def outcome(self, cell: Cell) -> BaseException | None:
        if cell.version not in self._outcomes:
            kafka_libs(RELEASES[cell.version])  # skips where there is none
            wanted = [one for one in self._selected() if one.version == cell.version]
            try:
                self._outcomes[cell.version] = asyncio.run(self._run(cell.version, wanted))
            except Exception as error:  # no cluster: that is everybody's outcome, and nobody tries again
                self._outcomes[cell.version] = dict.fromkeys(wanted, error)
        return self._outcomes[cell.version][cell]

    async def _run(self, version: str, cells: list[Cell]) -> dict[Cell, BaseException | None]:
        campaign = Campaign(version, cells)
        await campaign.run()
        return campaign.outcomes

    def _selected(self) -> Iterator[Cell]:
        for item in self._session.items:
            params = getattr(getattr(item, "callspec", None), "params", {})
            if params.get("run") == "kafka" and isinstance(params.get("column"), Cell):
                yield params["column"]


@pytest.fixture(scope="session")
def campaigns(request: pytest.FixtureRequest) -> Campaigns:
    return Campaigns(request.session)


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Run:
    """Runs the body on the test's target."""

    def in_simulator(cell: Cell) -> None:
        target = SimStuck(cell.version, cell.phase)
        try:
            asyncio.run(cell.body(target))  # type: ignore[arg-type]
        except Exception as error:
            error.add_note("\n".join(map(str, target.record)))
            raise

    def on_real_brokers(cell: Cell) -> None:
        error = request.getfixturevalue("campaigns").outcome(cell)
        if error is not None:
            raise error

    return on_real_brokers if request.param == "kafka" else in_simulator
