"""A whole simulated cluster in this process: brokers on real TCP ports over one shared state.

    async with Cluster(brokers=3, topics={"orders": 6}) as kafka:
        kafka.bootstrap                                  # "127.0.0.1:40001,127.0.0.1:40002,127.0.0.1:40003"
        kafka.create_topic("payments", 3, configs={"cleanup.policy": "compact"})

    with ClusterThread(topics={"orders": 6}) as kafka:   # the same beside synchronous code, on a thread of its own
        kafka.bootstrap

Rules:
1. A cluster belongs to the event loop that started it. Clusters don't know of each other: any number runs side by side.
2. Settings have Kafka's names and defaults, group.initial.rebalance.delay.ms included (3 s). Node ids count from 1.
3. What can be wrong with the arguments, the ports or the data directory is one ClusterError with one line; nothing is
   left open or running then.
4. With ``data_dir`` the next cluster on the same directory goes on where this one ended, however it ended; two at once
   are refused. Without, everything is in memory and gone at ``stop``. ``start`` after ``stop`` takes the same ports.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from broker_sim.api.cluster_options import ARGUMENTS, Options, Topics, check, known, topics_of
from broker_sim.api.incidents import ClusterError, Incidents
from broker_sim.common.clock import Clock, Timer, clock_of
from broker_sim.common.text import UsageError
from broker_sim.config.settings import BrokerConfig, ConfigError
from broker_sim.network.server import BrokerServer, bind_error, listen

if TYPE_CHECKING:
    import random
    import socket

    from broker_sim.api.blocked_loop import BlockedLoop
    from broker_sim.metadata.cluster_state import Broker, Topic
    from broker_sim.runtime.group_coordinator import GroupCoordinator
    from broker_sim.storage.files import Closable, Files
    from broker_sim.sync import Cluster as _OnItsThread
else:
    _OnItsThread = object

__all__ = ["Cluster", "ClusterError", "ClusterThread"]

log = logging.getLogger("broker_sim.cluster")

T = TypeVar("T")

_WILDCARDS = ("", "0.0.0.0", "::")
_LOCK_FILE = ".lock"
"""Kafka's name for the file that is locked while a broker uses a log directory."""


class Cluster(Incidents):
    """``brokers`` brokers, started and stopped together.

    ``topics``: created unless they are there: ``{"orders": 6}`` (-1: num.partitions), ``["orders", "payments:6"]``, or with
    settings ``{"orders": {"partitions": 6, "cleanup.policy": "compact"}}``. ``config``: settings by Kafka's names. ``data_dir``:
    where logs are kept, with ``sync`` forced to the disk before an acknowledgement. ``port``: of the first broker, the others take
    the next ones; 0 takes free ones. ``advertised_host``: what clients are told to connect to, where that is not ``host``.

    ``clock``: ``"real"``, ``"scaled:10"`` (ten times as fast), ``"manual"`` (stands still, ``time.advance`` moves it) or one of your
    own. ``seed``: the same one gives the same member ids, topic ids and chances. ``journal``: True, or a directory for its files;
    else it begins when somebody looks (`incidents`). ``rng`` takes the place of ``seed``.
    """

    if not TYPE_CHECKING:

        def __new__(cls, *_: object, **options: object) -> Self:
            """Python would name an argument that isn't there, and not the one that was meant."""
            try:
                known(options if cls is Cluster else ())
            except UsageError as error:
                raise ClusterError(str(error)) from None
            return super().__new__(cls)

    def __init__(
        self,
        brokers: int = 1,
        topics: Topics | None = None,
        *,
        as_version: str = "4.1",
        config: Mapping[str, object] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        sync: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str | None = None,
        clock: Clock | str | None = None,
        seed: int | None = None,
        journal: bool | str | os.PathLike[str] = False,
        rng: random.Random | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in ARGUMENTS}
        super().__init__(rng, seed, journal)
        try:
            check(given)
            self.config = BrokerConfig(config, as_version)
        except (ConfigError, UsageError) as error:
            raise ClusterError(str(error)) from None
        if brokers < 1:
            raise ClusterError(f"a cluster has at least one broker, not {brokers}")
        if not 0 <= port <= 65536 - brokers:
            raise ClusterError(f"port {port} is out of range for {brokers} broker{'s'[: brokers - 1]}")
        self._topics = topics_of(topics)
        self.host = host
        self._ports = [port + number if port else 0 for number in range(brokers)]
        self._advertised_host = advertised_host or ("127.0.0.1" if host in _WILDCARDS else host)
        self._settings = dict(config or {})
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._sync = sync
        self._clock = clock
        self._stopped_ms = 0
        self._lock: Closable | None = None
        self._maintenance: Timer | None = None
        self._blocked: BlockedLoop | None = None

    # --- what it is -----------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, with commas between them. Known once started."""
        return ",".join(f"{_bracketed(broker.host)}:{broker.port}" for broker in self.brokers)

    @property
    def brokers(self) -> list[Broker]:
        """The brokers, by node id."""
        return list(self.state.brokers.values())

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
    ) -> Topic:
        """Create a topic at once (-1: the broker's default number). Raises KafkaError, as the CreateTopics API answers."""
        return self.state.create_topic(name, partitions, replication_factor=replication_factor, configs=configs)

    # --- start and stop -------------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Open the logs and the ports; clients can connect when this returns. Raises ClusterError."""
        if self._state is not None:
            raise ClusterError("the cluster is running already")
        sockets: list[socket.socket] = []
        try:
            sockets = self._bind()
            self._open(sockets)
            for server, sock in zip(self.servers, sockets, strict=True):
                await server.start(sock)
        except BaseException:
            for sock in sockets:
                sock.close()
            await self.stop()
            raise
        self._arm_maintenance()
        if self._journal_where is not False:
            try:
                self.observe()
            except UsageError as error:
                await self.stop()
                raise ClusterError(str(error)) from None
        return self

    async def stop(self) -> None:
        """Close every connection, the ports and the logs. Does nothing where the cluster is not running."""
        if self._blocked is not None:
            self._blocked.stop()
            self._blocked = None
        if self._maintenance is not None:
            self._maintenance.cancel()
            self._maintenance = None
        servers, self.servers = self.servers, []
        for server in servers:
            await server.stop()
        if self._state is not None:
            self._state.slices.clear()
        self._end_incidents(self._close)

    def watch_loop(self, say: Callable[[str], object]) -> None:
        """Until it stops: where code blocks the loop that the brokers run on, and requests wait, ``say(text)`` is called on a thread.
        The fixture ``kafka`` does this, and ``async with``."""
        from broker_sim.api.blocked_loop import BlockedLoop, ready

        if self._blocked is None:
            self._blocked = BlockedLoop(
                lambda: ready([file for server in self.servers for file in server.files()]), say
            )

    def _close(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.close()
        state, self._state = self._state, None
        try:
            if state is not None:
                self._stopped_ms = state.clock.now_ms()
                state.close()
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    async def __aenter__(self) -> Self:
        await self.start()
        self.watch_loop(lambda text: sys.stderr.write(f"broker-sim: {text}\n"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _bind(self) -> list[socket.socket]:
        sockets: list[socket.socket] = []
        for number in range(len(self._ports)):
            host, port = self._listens_on(number + 1)
            try:
                sockets.append(self._listen(host, port))
            except OSError as error:
                for sock in sockets:
                    sock.close()
                raise ClusterError(bind_error(host, port, error)) from None
            self._ports[number] = sockets[-1].getsockname()[1]
        return sockets

    # where its brokers are; a network that is no real one has its own answers

    def _listen(self, host: str, port: int) -> socket.socket:
        return listen(host, port)

    def _listens_on(self, node_id: int) -> tuple[str, int]:
        return self.host, self._ports[node_id - 1]

    def _advertises(self, node_id: int) -> str:
        return self._advertised_host

    def _files(self) -> Files:
        """The disk that ``data_dir`` is on."""
        from broker_sim.storage.files import FILES

        return FILES

    def _open(self, sockets: list[socket.socket]) -> None:
        """State, coordinators and servers, everything but listening. Raises ClusterError."""
        from broker_sim.handlers import Routes
        from broker_sim.metadata.cluster_state import OFFSETS_TOPIC, ClusterState, KafkaError
        from broker_sim.metadata.meta_files import StoreError
        from broker_sim.metadata.topics import TRANSACTION_TOPIC
        from broker_sim.storage import StorageError

        clock, files = self._clock, self._files()
        if clock is None or isinstance(clock, str):
            clock = clock_of(clock or "real", now_ms=self._stopped_ms)()
        about = f"data directory {self._data_dir}"
        try:
            if self._data_dir is not None:
                self._lock = _lock(self._data_dir, files)
            self.config = BrokerConfig(self._settings, self.config.as_version)  # what clients altered is on disk
            state = ClusterState(
                self.config, clock, data_dir=self._data_dir, sync=self._sync, rng=self._rng_for("ids"), files=files
            )
            for node_id, port in enumerate(self._ports, start=1):
                state.add_broker(node_id, self._advertises(node_id), port)
            self._begin(state)
            state.load()
            for name, new in self._topics.items():
                if name not in state.topics:
                    about = f"topic {name!r}"
                    state.create_topic(
                        name, new.partitions, replication_factor=new.replication_factor, configs=new.configs
                    )
        except KafkaError as error:
            raise ClusterError(f"{about}: {error.message or error.error.name}") from None
        except (StoreError, StorageError) as error:
            raise ClusterError(f"data directory {self._data_dir}: {error}") from None
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ClusterError(f"data directory {self._data_dir} can't be used: {reason}") from None
        never = state.why_never(OFFSETS_TOPIC)
        if never is not None:
            raise ClusterError(never)
        never = state.why_never(TRANSACTION_TOPIC)
        if never is not None:
            log.warning("%s", never)
        routes = Routes(self.config.as_version)
        for broker in state.brokers.values():
            broker.runtime = cast("GroupCoordinator", _RuntimeToBe(self))
            self.servers.append(BrokerServer(broker, clock, routes, self._listen))
        if OFFSETS_TOPIC in state.topics:
            assert self.runtime  # there are groups to load

    # --- background work ------------------------------------------------------------------------------------------------

    def _arm_maintenance(self) -> None:
        clock = self.state.clock
        pause_ms = self.config.int("log.retention.check.interval.ms")
        self._maintenance = clock.call_at_ms(clock.now_ms() + pause_ms, self._maintain)

    def _maintain(self) -> None:
        try:
            self.state.run_log_maintenance(self.state.clock.now_ms())
        except Exception:
            log.exception("log maintenance failed; it is tried again at the next interval")
        self._arm_maintenance()


class _RuntimeToBe:
    """Stands for the coordinators until somebody asks them something: a third of the start-up time is theirs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster.runtime, name)


class ClusterThread(_OnItsThread):
    """A cluster on a thread and an event loop of its own, for programs and tests that have none. Arguments: `Cluster`'s.

    It has all that a `Cluster` has, done on that thread and waited for: ``kafka.group("billing").stable(members=3)``. The handles'
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
        """As `Cluster.stop`; the thread is gone when this returns."""
        if self._thread is None or self._cluster is None:
            return
        try:
            self._await(self._cluster.stop())
        finally:
            self._end()

    def run(self, function: Callable[[Cluster], T]) -> T:
        """Call ``function(cluster)`` on the cluster's thread, where alone it may be touched, and return what it returns."""
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
            """All else that a `Cluster` has, for use from this thread: see ``blocking``."""
            if name.startswith("_"):
                raise AttributeError(name)
            from broker_sim.api.blocking import Blocking

            if self._thread is None or self._cluster is None:
                raise ClusterError("the cluster is not running")
            return getattr(Blocking(self, self._cluster), name)

    def __enter__(self) -> Self:
        return self.start()

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


def _lock(data_dir: Path, files: Files) -> Closable:
    """Make the directory, see that it can be written, and keep others out until that is closed. Raises ClusterError."""
    files.make_dir(data_dir, sync=True)
    try:
        return files.lock(data_dir / _LOCK_FILE)
    except BlockingIOError:
        raise ClusterError(
            f"data directory {data_dir} is in use by another cluster, or by a Kafka broker: stop it, or take a copy"
        ) from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
