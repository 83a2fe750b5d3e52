"""Handlers without sockets: a cluster state, a clock that the test moves, and a fake request context.

sim = Sim(brokers=3, topics={"orders": 6})
answer = sim.call(MetadataRequest(), 12)                 # the response, or None while the request is parked
parked = sim.start(FetchRequest(...), 12, broker=2)      # a FakeContext
sim.clock.advance(500)
parked.response
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

from broker_sim.common.chance import Chance
from broker_sim.common.clock import ManualClock
from broker_sim.config.settings import BrokerConfig
from broker_sim.coordinator.outcome import Client
from broker_sim.metadata.cluster_state import Broker, ClusterState
from broker_sim.runtime.coordinators import Coordinators
from broker_sim.storage.files import FILES, Files
from kafka_wire.api_keys import ApiKey

CLIENT_ID = "tests"


class FakeConnection:
    """Knows whether a handler has closed it."""

    def __init__(self, broker: Broker, coordinators: Coordinators) -> None:
        self.broker, self.coordinators = broker, coordinators
        self.listener = "PLAINTEXT"
        self.client_id: str | None = CLIENT_ID
        self.client_host = "/127.0.0.1"
        self.scratch: Any = None
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def refuse(self, reason: str) -> None:
        self.closed = True


class FakeContext:
    """A RequestContext whose reply stays here: `response`, or `silent` after no_reply()."""

    def __init__(
        self, broker: Broker, coordinators: Coordinators, api_key: int, api_version: int, client_id: str | None
    ) -> None:
        self.broker, self.coordinators = broker, coordinators
        self.request_id, self.name = 0, ApiKey(api_key).kafka_name
        self.api_key, self.api_version = api_key, api_version
        self.correlation_id = 1
        self.client_id = client_id
        self.client_host = "/127.0.0.1"
        self.connection = FakeConnection(broker, coordinators)
        self.response: Any = None
        self.silent = False
        self._on_disconnect: Callable[[], object] | None = None

    @property
    def client(self) -> Client:
        return Client(self.client_id or "", self.client_host, self.api_version)

    @property
    def answered(self) -> bool:
        return self.silent or self.response is not None

    def reply(self, response: Any) -> None:
        assert not self.answered, "answered twice"
        self.response = response

    def no_reply(self) -> None:
        assert not self.answered, "answered twice"
        self.silent = True

    def in_pieces(self, job: Any) -> Any:
        """All at once."""
        while True:
            try:
                next(job)
            except StopIteration as done:
                return done.value

    def reply_made(self, made: Any) -> None:
        response = self.in_pieces(made) if isinstance(made, Generator) else made
        if response is not None:
            self.reply(response)

    def on_disconnect(self, callback: Callable[[], object]) -> None:
        self._on_disconnect = callback

    def disconnect(self) -> None:
        """Call the request's callback for a closed connection, as the server does when the client disconnects."""
        assert self._on_disconnect is not None
        self._on_disconnect()


class Sim:
    """A cluster without a network, in memory or in `data_dir`."""

    def __init__(
        self,
        *,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, object] | None = None,
        as_version: str = "4.1",
        data_dir: Path | None = None,
        seed: int = 7,
        now_ms: int = 1_000_000,
        files: Files = FILES,
    ) -> None:
        self.clock = ManualClock(now_ms)
        self.state = ClusterState(
            BrokerConfig(config, as_version), self.clock, data_dir=data_dir, rng=random.Random(seed), files=files
        )
        for node in range(1, brokers + 1):
            self.state.add_broker(node, "127.0.0.1", 9091 + node)
        self.state.load()
        for name, partitions in (topics or {}).items():
            self.state.create_topic(name, partitions)
        self.coordinators = Coordinators(self.state, Chance.seeded(seed))

    def start(self, request: Any, version: int, *, broker: int = 1, client_id: str | None = CLIENT_ID) -> FakeContext:
        """Hands the request to its handler on one of the brokers."""
        module = type(request).__module__.rpartition(".")[2]
        handler = importlib.import_module(f"broker_sim.handlers.{module}")
        ctx = FakeContext(
            self.state.brokers[broker], self.coordinators, type(request).__spec__.api_key, version, client_id
        )
        response = handler.handle(ctx, request)
        if response is not None:
            ctx.reply(response)
        return ctx

    def call(self, request: Any, version: int, *, broker: int = 1, client_id: str | None = CLIENT_ID) -> Any:
        """The response to a request that is answered at once."""
        ctx = self.start(request, version, broker=broker, client_id=client_id)
        assert ctx.answered, "the request is parked"
        return ctx.response
