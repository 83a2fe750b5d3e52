"""The production cluster on virtual time and an in-memory network: its own code, but where its brokers listen and what time it is."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.clock import RealClock
from broker_sim.cluster import Cluster
from broker_sim.simulation.process import Process, context_of

if TYPE_CHECKING:
    from broker_sim.journal import Journal
    from broker_sim.simulation.loop import SimLoop
    from broker_sim.simulation.network import SimNetwork

__all__ = ["PORT", "SimCluster"]

PORT = 9092


class _InProcess:
    """The loop as a clock needs it: whoever arms a timer, it belongs to the brokers' process."""

    def __init__(self, loop: SimLoop, context: contextvars.Context) -> None:
        self.time = loop.time
        self._call_at, self._context = loop.call_at, context

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        return self._call_at(when, callback, *args, context=self._context)


class SimCluster(Cluster):
    """Each broker on a host of its own, at port 9092. ``hosts``: their names; ``process``: of all of them. The rest as `Cluster`."""

    def __init__(
        self,
        network: SimNetwork,
        process: Process,
        hosts: list[str],
        topics: Mapping[str, int] | None = None,
        **options: Any,
    ) -> None:
        self._network = network
        self.process, self.hosts = process, hosts
        self.on_journal: Callable[[Journal], object] = lambda journal: None
        self._shown: Journal | None = None
        loop = network.loop
        clock: Any = _InProcess(loop, context_of(process))
        options.setdefault("clock", RealClock(clock, epoch_ms=round(loop.wall() * 1000)))
        super().__init__(len(hosts), topics, port=PORT, **options)

    def observe(self) -> Journal:
        """As `Cluster.observe`; every journal that begins is shown to ``on_journal``."""
        journal = super().observe()
        if journal is not self._shown:
            self._shown = journal
            self.on_journal(journal)
        return journal

    def _listen(self, host: str, port: int) -> Any:
        return self._network.listen(host, port)

    def _listens_on(self, node_id: int) -> tuple[str, int]:
        return self.hosts[node_id - 1], PORT

    def _advertises(self, node_id: int) -> str:
        return self.hosts[node_id - 1]
