"""A cluster for programs and tests that have no event loop: on a thread of its own.

with ClusterThread(topics={"orders": 6}) as kafka:
    kafka.bootstrap
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from broker_sim.api.blocking import Blocking
from broker_sim.api.cluster import Cluster, ClusterError
from broker_sim.api.cluster_options import Options, Topics

if TYPE_CHECKING:
    from broker_sim.sync import Cluster as _OnItsThread
else:
    _OnItsThread = object

__all__ = ["ClusterThread"]

T = TypeVar("T")


class ClusterThread(_OnItsThread):
    """A cluster with its own thread and event loop, for synchronous programs and tests. The arguments are those of `Cluster`.

    It has all methods of `Cluster`, executed on that thread, and waits for their
    result: ``kafka.group("billing").stable(members=3)``. The handles'
    types are those of `broker_sim.sync`.
    """

    def __init__(self, brokers: int = 1, topics: Topics | None = None, **options: Unpack[Options]) -> None:
        self._make: Callable[[], Cluster] = lambda: Cluster(brokers, topics, **options)
        self._cluster: Cluster | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.bootstrap = ""
        """``host:port`` of every broker, once started."""

    def start(self) -> Self:
        """As `Cluster.start`; returns when clients can connect. Raises ClusterError."""
        if self._thread is not None:
            raise ClusterError("the cluster is running already")
        cluster = self._cluster or self._make()
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(loop,), name="broker-sim", daemon=True)
        self._thread.start()
        try:
            self._await(cluster.start())
        except BaseException:
            self._end()
            raise
        self._cluster = cluster
        self.bootstrap = self.run(lambda kafka: kafka.bootstrap)
        return self

    def stop(self) -> None:
        """As `Cluster.stop`; the thread has ended when this returns."""
        if self._thread is None or self._cluster is None:
            return
        try:
            self._await(self._cluster.stop())
        finally:
            self._end()

    def run(self, function: Callable[[Cluster], T]) -> T:
        """Call ``function(cluster)`` on the cluster's thread and return its result. Other threads must not use the cluster
        directly."""
        cluster = self._cluster
        if cluster is None or self._thread is None:
            raise ClusterError("the cluster is not running")

        async def call() -> T:
            return function(cluster)

        return self._await(call())

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
    ) -> None:
        """As `Cluster.create_topic`."""
        options: dict[str, Any] = {"replication_factor": replication_factor, "configs": configs}
        self.run(lambda kafka: kafka.create_topic(name, partitions, **options))

    if not TYPE_CHECKING:  # the types are those of _OnItsThread

        def __getattr__(self, name: str) -> Any:
            """Any other attribute of a `Cluster`, for use from this thread: see ``blocking``."""
            if name.startswith("_"):
                raise AttributeError(name)
            if self._thread is None or self._cluster is None:
                raise ClusterError("the cluster is not running")
            return getattr(Blocking(self, self._cluster), name)

    def __enter__(self) -> Self:
        return self if self._thread is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def _end(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop = self._thread = None
