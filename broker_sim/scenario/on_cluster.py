"""A scenario file on the cluster of a Python test, as a block:

async with on_cluster(kafka, "incident.yaml") as incident:     # of a ClusterThread: with
    await incident.wait(step="the log gets slow", timeout="20s")
    ...
    await incident.wait(timeout="60s")                         # to the end
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from broker_sim.api.blocking import Blocking
from broker_sim.api.cluster_thread import ClusterThread
from broker_sim.scenario.commands import find
from broker_sim.scenario.files import load
from broker_sim.scenario.running import ScenarioRun, scenario_of, start

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

__all__ = ["on_cluster"]


class on_cluster:
    """The scenario of ``file``, a path or the name of an included one, on a running cluster; the clients are those of the test.

    ``start_clients`` also starts the file's clients; ``any_settings`` allows other settings of the cluster than those of the file.
    The block gets a `ScenarioRun` and ends it. Raises WrongFile for a file that can't run there; the end of the block raises
    ScenarioFailed, unless a wait did, if an expectation failed.
    """

    def __init__(
        self,
        kafka: Cluster | ClusterThread,
        file: str | Path,
        *,
        start_clients: bool = False,
        any_settings: bool = False,
    ) -> None:
        self._kafka, self._file = kafka, file
        self._flags = {"start_clients": start_clients, "any_settings": any_settings}
        self._run: ScenarioRun | None = None
        self._blocking: Blocking | None = None

    async def __aenter__(self) -> ScenarioRun:
        scenario = scenario_of(load(find(str(self._file))))
        self._run = await start(self._kafka, scenario, **self._flags)  # type: ignore[arg-type]
        return self._run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._run is not None
        await self._run.end()
        if error is None:
            self._run.check()

    def __enter__(self) -> Any:
        thread = self._kafka
        if not isinstance(thread, ClusterThread):
            raise TypeError("on_cluster of a Cluster is entered with `async with`")
        there: on_cluster = thread.run(lambda kafka: on_cluster(kafka, self._file, **self._flags))
        self._blocking = Blocking(thread, there)
        return self._blocking.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._blocking is not None
        self._blocking.__exit__(kind, error, trace)
