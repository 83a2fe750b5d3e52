"""A whole simulated cluster in this process: brokers on real TCP ports over one shared state.

    async with Cluster(brokers=3, topics={"orders": 6}) as kafka:
        kafka.bootstrap  # "127.0.0.1:40001,127.0.0.1:40002,127.0.0.1:40003"
        kafka.group("billing"), kafka.log("orders", 0), kafka.broker(2), kafka.topic("orders"), kafka.requests("OffsetCommit")
        kafka.fault("OffsetCommit", error="NOT_COORDINATOR", times=3), kafka.order.hold("JoinGroup")

Rules:
1. A cluster belongs to the event loop that started it. Clusters don't know of each other: any number runs side by side.
2. Settings have Kafka's names and defaults, group.initial.rebalance.delay.ms included (3 s). Node ids count from 1.
3. What can be wrong with the arguments, the ports or the data directory is one ClusterError with one line; nothing is
   left open or running then.
4. With ``data_dir`` the next cluster on the same directory goes on where this one ended, however it ended; two at once
   are refused. Without, everything is in memory and lost at ``stop``. ``start`` after ``stop`` takes the same ports.
"""

from __future__ import annotations

import logging
import os
import random
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, Unpack

from broker_sim.api import cluster_options
from broker_sim.api.cluster_options import ARGUMENTS, Topics, read_options, topics_of
from broker_sim.api.listeners import Listeners
from broker_sim.api.observation import Observation
from broker_sim.api.outages import Outages
from broker_sim.api.time_control import TimeControl
from broker_sim.common.chance import Chance
from broker_sim.common.clock import Clock, clock_of
from broker_sim.common.text import UsageError, address, unknown
from broker_sim.config.settings import BrokerConfig
from broker_sim.metadata.cluster_state import ClusterState, KafkaError
from broker_sim.metadata.meta_files import StoreError, lock_directory
from broker_sim.network.server import BrokerServer, listen
from broker_sim.requests.routes import Listener, Routes
from broker_sim.runtime.coordinators import Coordinators, open_internal_topics
from broker_sim.storage import StorageError
from broker_sim.storage.files import FILES

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from broker_sim.api.blocked_loop import BlockedLoop
    from broker_sim.api.handles import (
        BrokerHandle,
        GroupHandle,
        LogHandle,
        ShareGroupHandle,
        TopicHandle,
        TransactionHandle,
    )
    from broker_sim.api.handles.requests import RequestHistory
    from broker_sim.authentication.security import Security
    from broker_sim.faults.conditions import PartitionFaults
    from broker_sim.faults.order import Order
    from broker_sim.faults.registry import Fault, Faults
    from broker_sim.faults.rules import RuleKeys
    from broker_sim.faults.selectors import ApiName, SelectorKeys
    from broker_sim.fields.names import ClockLiteral, InternalTopicsLiteral, ReleaseLiteral, SecurityProtocolLiteral
    from broker_sim.journal import Journal
    from broker_sim.metadata.cluster_state import Broker, Partition, Topic
    from broker_sim.runtime.group_coordinator import GroupCoordinator
    from broker_sim.runtime.transaction_coordinator import TransactionCoordinator
    from broker_sim.storage.files import Closable, Files

__all__ = ["Cluster", "ClusterError"]

log = logging.getLogger("broker_sim.cluster")


class ClusterError(Exception):
    """The cluster can't start with these arguments, or is not running; the message is one line."""


class Cluster:
    """A Kafka cluster of ``brokers`` brokers, with node ids from 1.

    ``topics``: topics to create unless they exist: ``{"orders": 6}`` (-1: num.partitions), ``["orders", "payments:6"]``, or with
    settings ``{"orders": {"partitions": 6, "cleanup.policy": "compact"}}``. ``config``: broker settings by Kafka's names.
    ``data_dir``: log directory (default: in memory); ``sync``: call fsync before an acknowledgement. ``port``: port of the first
    broker, the others use the following ones; 0: free ports. ``advertised_host``: host in the advertised listeners, if it is not
    ``host``. ``listeners``: further ones, ``["EXTERNAL://0.0.0.0:29092"]`` (`bootstrap_of`), ``advertised_listeners``: the addresses
    that clients receive: ``["EXTERNAL://localhost:32768"]``, as Kafka's settings of these names. ``racks``: of the brokers, in turn.

    ``clock``: ``"real"``, ``"scaled:10"`` (ten times as fast), ``"manual"`` (only ``time.advance`` advances it) or a `Clock`.
    ``seed``: the same seed gives the same member ids, topic ids and random numbers; ``rng`` replaces it. ``journal``: True, or a
    directory for its files; by default recording begins when it is first needed (`observe`). ``cluster_id``: of a new cluster.

    ``security_protocol``: as Kafka's; clients of SASL are ``users`` (name: password), ``tls_dir`` has TLS certificates (`security`).
    """

    if not TYPE_CHECKING:

        def __new__(cls, *first: object, **options: object) -> Self:
            """Python would name an argument that isn't there, and not the one that was meant."""
            if cls is Cluster and not options.keys() <= set(ARGUMENTS):
                _read({**dict(zip(ARGUMENTS, first, strict=False)), **options})
            return super().__new__(cls)

    def __init__(
        self,
        brokers: int = 1,
        topics: Topics | None = None,
        *,
        as_version: ReleaseLiteral | str = "4.1",
        config: Mapping[str, object] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        sync: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str | None = None,
        listeners: str | Sequence[str] | None = None,
        advertised_listeners: str | Sequence[str] | None = None,
        racks: str | Sequence[str] | None = None,
        clock: Clock | ClockLiteral | str | None = None,
        seed: int | None = None,
        cluster_id: str | None = None,
        security_protocol: SecurityProtocolLiteral | str = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
        tls_dir: str | os.PathLike[str] | None = None,
        internal_topics: InternalTopicsLiteral | str = cluster_options.ON_DEMAND,
        journal: bool | str | os.PathLike[str] = False,
        rng: random.Random | None = None,
    ) -> None:
        given = _read({name: value for name, value in locals().items() if name in ARGUMENTS})
        self._given_rng: random.Random | None = given.get("rng")
        self.seed, self._cluster_id = given.get("seed"), given.get("cluster_id")
        self._journal_where: bool | str | os.PathLike[str] = given["journal"]
        self._settings: dict[str, str] = given.get("config", {})
        self.config = BrokerConfig(self._settings, given["as_version"])
        self._secured = given["security_protocol"], given.get("users", {}), given.get("tls_dir")
        self._security: Security | None = None
        self._topics = topics_of(given.get("topics"))
        self._internal_topics_at_start = given["internal_topics"] == cluster_options.AT_START
        self.host: str = given["host"]
        self._nodes: list[tuple[int, str | None]] = given["nodes"]
        self._listeners = Listeners(given["listeners"], len(self._nodes))
        self._data_dir: Path | None = given.get("data_dir")
        self._sync: bool = given["sync"]
        self._clock: Clock | str | None = given.get("clock")
        self._stopped_ms = 0
        self._lock: Closable | None = None
        self._blocked: BlockedLoop | None = None
        self.servers: list[BrokerServer] = []
        self._state: ClusterState | None = None
        self._coordinators: Coordinators | None = None
        self._time: TimeControl | None = None
        self._outages: Outages | None = None
        self._observation = Observation(lambda what: self._chance_of(what))
        self.before_stop: list[Callable[[], Awaitable[object]]] = []
        """Awaited before it stops: what runs on it ends there."""

    # --- what it is -----------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, with commas between them. Known once started."""
        return self.bootstrap_of(self._listeners.names[0])

    @property
    def listener_names(self) -> list[str]:
        """The names of each broker's listeners, that of `bootstrap` first."""
        return self._listeners.names

    def bootstrap_of(self, listener: str) -> str:
        """As `bootstrap`, of the listener with this name. Raises UsageError for an unknown name."""
        if listener.upper() not in self.listener_names:
            raise unknown("listener", listener, self.listener_names)
        return ",".join(address(*broker.endpoint(listener.upper())[1:3]) for broker in self.brokers)

    @property
    def state(self) -> ClusterState:
        """Topics, partitions and settings. Raises ClusterError where the cluster is not running."""
        if self._state is None:
            raise ClusterError("the cluster is not running")
        return self._state

    @property
    def security(self) -> Security:
        """Requirements for clients: see ``authentication.security``. Its ``users`` may be changed while the cluster runs."""
        if self._security is None:
            from broker_sim.authentication.security import Security

            self._security = Security(*self._secured, self.config)
        return self._security

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
        """Open the logs and bind the ports; clients can connect after this returns. Raises ClusterError."""
        if self._state is not None:
            raise ClusterError("the cluster is running already")
        sockets: list[list[socket.socket]] = []
        try:
            sockets = self._bind()
            self._open()
            for server, own in zip(self.servers, sockets, strict=True):
                await server.start(own)
        except BaseException:
            for sock in chain.from_iterable(sockets):
                sock.close()
            await self.stop()
            raise
        self.state.maintenance.start()
        if self._journal_where is not False:
            try:
                self.observe()
            except UsageError as error:
                await self.stop()
                raise ClusterError(str(error)) from None
        return self

    async def stop(self) -> None:
        """Close all connections, ports and logs. No effect if the cluster is not running."""
        for end in list(self.before_stop):
            await end()
        if self._blocked is not None:
            self._blocked.stop()
            self._blocked = None
        if self._state is not None:
            self._state.maintenance.stop()
        servers, self.servers = self.servers, []
        for server in servers:
            await server.stop()
        if self._state is not None:
            self._state.slices.clear()
        self._end()
        if self._security is not None:
            self._security.close()

    def watch_loop(self, say: Callable[[str], object]) -> None:
        """Until it stops: where code blocks the loop that the brokers run on, and requests wait, ``say(text)`` is called on a thread.
        The fixture ``kafka`` does this, and ``async with``."""
        from broker_sim.api.blocked_loop import BlockedLoop, ready

        if self._blocked is None:
            self._blocked = BlockedLoop(
                lambda: ready([file for server in self.servers for file in server.files()]), say
            )

    def _end(self) -> None:
        """End outages and fault conditions, then the coordinators and the logs; the journal is closed last."""
        outages, self._outages = self._outages, None
        if outages is not None:
            outages.end()
        conditions = self._observation.forget()
        try:
            if conditions is not None:
                conditions.heal_all()
        finally:
            try:
                self._close()
            finally:
                if self._observation.journal is not None:
                    self._observation.journal.close()

    def _close(self) -> None:
        coordinators, self._coordinators = self._coordinators, None
        if coordinators is not None:
            coordinators.close()
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

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def _bind(self) -> list[list[socket.socket]]:
        """The sockets of each broker, or none. Raises ClusterError."""
        try:
            return self._listeners.bind(self._listen)
        except UsageError as error:
            raise ClusterError(str(error)) from None

    def _listen(self, host: str, port: int) -> socket.socket:
        return listen(host, port)

    def _files(self) -> Files:
        """The disk that ``data_dir`` is on."""
        return FILES

    def _open(self) -> None:
        """State, coordinators and servers, everything but listening. Raises ClusterError."""
        clock, files = self._clock, self._files()
        if clock is None or isinstance(clock, str):
            clock = clock_of(clock or "real", now_ms=self._stopped_ms)()
        about = f"data directory {self._data_dir}"
        try:
            if self._data_dir is not None:
                self._lock = lock_directory(self._data_dir, files)
            self.config = BrokerConfig(self._settings, self.config.as_version)  # what clients altered is on disk
            state = ClusterState(
                self.config, clock, data_dir=self._data_dir, sync=self._sync, rng=self._rng_for("ids"), files=files
            )
            state.cluster_id = self._cluster_id or state.cluster_id
            state.security_protocol = self._secured[0]
            if state.security_protocol != "PLAINTEXT":
                self.security.open(state, self._listeners.hosts())
            for number, (node_id, rack) in enumerate(self._nodes):
                self._listeners.register(state, number, node_id, rack)
            self._state = state
            self._time = TimeControl(state.clock, lambda: self._coordinators)
            self._outages = Outages(state, self.servers, self._observation.write)
            state.load()
            for name, new in self._topics.items():
                if name not in state.topics:
                    about = f"topic {name!r}"
                    state.create_topic(
                        name, new.partitions, replication_factor=new.replication_factor, configs=new.configs
                    )
            about = "internal topics"
            if (never := open_internal_topics(state, at_start=self._internal_topics_at_start)) is not None:
                raise ClusterError(never)
        except UsageError as error:
            raise ClusterError(str(error)) from None
        except KafkaError as error:
            raise ClusterError(f"{about}: {error.message or error.error.name}") from None
        except (StoreError, StorageError) as error:
            raise ClusterError(f"data directory {self._data_dir}: {error}") from None
        except OSError as error:
            reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror or str(error)
            raise ClusterError(f"data directory {self._data_dir} can't be used: {reason}") from None
        routes = Routes(self.config.as_version)
        seen = self._observation
        self._coordinators = Coordinators(
            state, self._chance_of("members"), self._prepare, seen.watch_transactions, seen.watch_shares
        )
        listeners = [
            Listener(own.name, None if own.protocol == "PLAINTEXT" else self._security)
            for own in self._listeners.configured
        ]
        for broker in state.brokers.values():
            self.servers.append(BrokerServer(broker, self._coordinators, clock, routes, self._listen, listeners))
        self._coordinators.load()

    @property
    def coordinators(self) -> Coordinators:
        """The coordinators of its brokers, by type. Raises ClusterError if the cluster is not running."""
        if self._coordinators is None:
            raise ClusterError("the cluster is not running")
        return self._coordinators

    @property
    def runtime(self) -> GroupCoordinator:
        """The group coordinators, created at the first call. Raises ClusterError if the cluster is not running."""
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinators of all brokers. Raises ClusterError if the cluster is not running."""
        return self.coordinators.transactions

    def _prepare(self, runtime: GroupCoordinator) -> None:
        if self.time.mode == "manual":
            runtime.keep_members_alive(
                lambda connection: any(connection in server.connections for server in self.servers)
            )
        self._observation.watch(runtime)

    def _rng_for(self, what: str) -> random.Random | None:
        """The generator for one kind of chance. With a seed each kind has its own: more of one leaves the others as they are."""
        return self._given_rng if self.seed is None else random.Random(f"{self.seed} {what}")

    def _chance_of(self, what: str) -> Chance:
        """As `_rng_for`, where each place is to have its own, too."""
        if self.seed is not None:
            return Chance.seeded(f"{self.seed} {what}")
        return Chance.system() if self._given_rng is None else Chance.of(self._given_rng)

    @property
    def time(self) -> TimeControl:
        """The brokers' clock: see `time_control`. Raises ClusterError if the cluster is not running."""
        if self._time is None or self._state is None:
            raise ClusterError("the cluster is not running")
        return self._time

    # --- what is seen of it, and broken -------------------------------------------------------------------------------

    @property
    def observed(self) -> bool:
        """Whether a journal is being recorded."""
        return self._observation.journal is not None

    @property
    def journal(self) -> Journal:
        """The events since recording began (`observe`); it is kept when the cluster stops."""
        kept = self._observation.journal
        return kept if kept is not None and self._state is None else self.observe()

    def observe(self) -> Journal:
        """Start recording unless it is on, and return the journal. Raises ClusterError (not running), UsageError (directory)."""
        seen = self._observation
        if seen.tap is not None and seen.journal is not None:
            return seen.journal
        journal = self._new_journal()
        seen.begin(self.state, self.servers, journal, self._host_of)
        self.time.journal = self.conditions.journal = journal
        if self._coordinators is not None:
            seen.watch_made(self._coordinators)
        return journal

    def _host_of(self, peer: str) -> str | None:
        """The name of a client's host by its address as Kafka shows it, where hosts have names."""
        return None

    def _new_journal(self) -> Journal:
        from broker_sim.journal import Journal

        where = self._journal_where
        return Journal(self.state.clock, None if isinstance(where, bool) else where)

    @property
    def conditions(self) -> PartitionFaults:
        """The states of the logs."""
        return self._observation.states(self.state, self.coordinators.of)

    @property
    def faults(self) -> Faults:
        """The request rules. The first access starts the observation of requests (`observe`)."""
        self.observe()
        assert self._observation.faults is not None
        return self._observation.faults

    def fault(self, api: ApiName | None = None, **keys: Unpack[RuleKeys]) -> Fault:
        """Install a rule for requests: ``kafka.fault("OffsetCommit", group="billing", error="NOT_COORDINATOR")``. It applies
        immediately, until its ``with`` block ends or ``remove()``. Raises UsageError for an unknown API or key; see coverage.md."""
        return self.faults.add(api, **keys)

    @property
    def order(self) -> Order:
        """Hold requests, release them one by one, record and replay their order."""
        self.observe()
        assert self._observation.order is not None
        return self._observation.order

    def requests(self, api: ApiName | None = None, **selectors: Unpack[SelectorKeys]) -> RequestHistory:
        """The received requests that fit, since `observe` or the first call: ``requests("Produce", client_id="app")``. UsageError."""
        from broker_sim.api.handles.requests import RequestHistory

        return RequestHistory(self, self.order.selector({"api": api, **selectors}))

    # --- handles ------------------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> GroupHandle:
        """A handle of a group; the group need not exist yet."""
        from broker_sim.api.handles import GroupHandle

        return GroupHandle(self, group_id)

    def groups(self) -> list[str]:
        """The ids of all groups of the coordinators, sorted."""
        from broker_sim.api.handles.groups import ids_of

        return ids_of(self)

    def share_group(self, group_id: str) -> ShareGroupHandle:
        """A handle of a share group (KIP-932); the group need not exist yet."""
        from broker_sim.api.handles import ShareGroupHandle

        return ShareGroupHandle(self, group_id)

    def transaction(self, transactional_id: str) -> TransactionHandle:
        """A handle of a transactional id; it need not exist yet."""
        from broker_sim.api.handles import TransactionHandle

        return TransactionHandle(self, transactional_id)

    def transactional_ids(self) -> list[str]:
        """The transactional ids of the coordinators, sorted."""
        from broker_sim.api.handles.transactions import ids_of

        return ids_of(self)

    def log(self, topic: str, partition: int = 0) -> LogHandle:
        """A partition's log. Raises UsageError if it does not exist."""
        from broker_sim.api.handles import LogHandle
        from broker_sim.api.handles.partitions import find_partition

        return LogHandle(self, find_partition(self.state, topic, partition))

    def offsets_log(self, group_id: str) -> LogHandle:
        """The partition of ``__consumer_offsets`` behind a group; the topic is created if it does not exist."""
        from broker_sim.api.handles import LogHandle

        self.state.ensure_offsets_topic()
        partition = self.runtime.partition_of(group_id)
        assert partition is not None
        return LogHandle(self, partition)

    def topics(self) -> list[str]:
        """The names of all topics, including internal ones, in order of creation."""
        return [*self.state.topics]

    def topic(self, name: str, partitions: int | None = None) -> TopicHandle:
        """A topic; with ``partitions`` it is created if it does not exist (-1: the broker's default number). Raises UsageError."""
        from broker_sim.api.handles import TopicHandle

        if partitions is not None and name not in self.state.topics:
            self.state.create_topic(name, partitions)
        return TopicHandle(self, name)

    def broker(self, node_id: int) -> BrokerHandle:
        """A broker. Raises UsageError if it does not exist."""
        from broker_sim.api.handles import BrokerHandle

        return BrokerHandle(self, node_id)

    # --- brokers ------------------------------------------------------------------------------------------------------

    async def broker_down(self, node_id: int, *, graceful: bool = False, noticed_after: object = 0) -> None:
        """Take a broker down: its connections are reset, then other in-sync replicas become leaders of its partitions, including
        its coordinators.

        ``graceful``: a controlled shutdown: the leaders move first, and pending responses are sent. ``noticed_after``: for how long
        the controller does not notice and metadata still lists the broker, in Kafka up to broker.session.timeout.ms (9 s): its
        coordinators have ended with its process, no other broker has them yet. No effect if it is down. Raises UsageError.
        """
        await self._controller.broker_down(node_id, graceful=graceful, noticed_after=noticed_after)

    async def broker_up(self, node_id: int, *, elect: str | None = None) -> None:
        """Start a broker at its old port: its replicas are in sync again, and it leads the partitions that had no leader.
        ``elect="preferred"``: elect the preferred leader of every partition. No effect if it is up. Raises UsageError, OSError."""
        await self._controller.broker_up(node_id, elect=elect)

    async def restart(self, node_id: int, *, graceful: bool = True) -> None:
        """Stop and start a broker: partitions without another in-sync replica have no leader meanwhile; its coordinators load their
        logs. Raises UsageError."""
        await self._controller.restart(node_id, graceful=graceful)

    async def restart_all(self, *, graceful: bool = False) -> None:
        """Stop all brokers at once and start them again: every partition keeps its leader, with a new leader epoch, and every
        coordinator loads its log. Brokers that are down are started as well."""
        await self._controller.restart_all(graceful=graceful)

    def advertise(self, node_id: int, listener: str) -> None:
        """As `BrokerHandle.advertise`."""
        name, told = self._listeners.advertise(self.state.brokers[node_id], listener)
        self._observation.write("broker", broker=node_id, action="advertises", listener=name, address=told)

    def move_leader(self, partition: Partition, node_id: int | None = None) -> None:
        """Make another broker the leader of a partition, by default the next live one; a coordinator moves with it. Raises
        UsageError if it is down, is the leader already, or does not exist."""
        self._controller.move_leader(partition, node_id)

    def elect(self, partition: Partition, node_id: int | None = None) -> None:
        """Elect the present leader again, or `node_id`, an in-sync replica: the leader epoch is incremented, requests with the old
        epoch get FENCED_LEADER_EPOCH. Raises UsageError."""
        self._controller.elect(partition, node_id)

    def elect_preferred(self) -> int:
        """Elect the preferred leader (the first replica) of every partition if it is alive and in sync. Returns the number of
        changed partitions."""
        return self._controller.elect_preferred()

    @property
    def _controller(self) -> Outages:
        if self._outages is None:
            raise ClusterError("the cluster is not running")
        return self._outages


def _read(given: Mapping[str, object]) -> dict[str, Any]:
    """The arguments as they are meant. Raises ClusterError."""
    try:
        return read_options(given)
    except UsageError as error:
        raise ClusterError(str(error)) from None
