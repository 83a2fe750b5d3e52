"""The two targets of the conformance tests, and the configurations ("profiles") they run with.

A real broker serves every test of its (version, profile) in turn; the tests are ordered so that one cluster runs at a
time. The simulator is started anew, in this process, on a real socket, for each test.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from kafka_wire.record_batch import Record, encode_batch
from tests.authentication.exchange import ALL_MECHANISMS
from tests.conformance import history
from tests.conformance.authenticating import SESSION_MS, USERS
from tests.conformance.driver import GIVE_UP_S, clock_s, create_topic, offsets_topic_ready, topic_known
from tests.conformance.logs import ADMIN_CLIENT, OFFSETS, Send, produce
from tests.conformance.transaction_history import VERSION_1, transaction_history
from tests.conformance.transactions import PARTITIONS, TRANSACTIONS
from tests.support.real_kafka import Node, RealKafka
from tests.support.wire import Wire

GENERATIONS = {"3.4": "3.4.0", "4.1": "4.1.0"}
RELEASES = {"3.4": "3.4.0", "3.9": "3.9.1", "4.0": "4.0.0", "4.1": "4.1.0", "4.4": "4.4.0"}
"""The brokers that a test may name with the mark `generations`; without it the two are meant."""
TOPICS = {"t0": 3, "t1": 3}
OFFSETS_PARTITIONS = 4


INITIAL_DELAY_MS = 3000
"""Initial rebalance delay of the profile "delay": long enough for what has to happen in it, on a machine that stalls."""
QUICK_RESTART = {"broker.heartbeat.interval.ms": 200, "broker.session.timeout.ms": 1500}


@dataclass(frozen=True)
class Profile:
    """Broker settings that a group of tests needs; whether their groups have a past (history.py)."""

    brokers: int = 1
    config: Mapping[str, object] = field(default_factory=dict)
    past: str | None = None
    """A key of HISTORIES."""
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Features by generation that a broker does not have by itself."""
    config_of_4: Mapping[str, object] = field(default_factory=dict)
    """Settings that 3.x has no name for."""
    users: Mapping[str, str] = field(default_factory=dict)
    """Passwords by name: clients connect to a SASL_PLAINTEXT listener, without groups and topics."""

    def settings(self, generation: str) -> dict[str, object]:
        common: dict[str, object] = {
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 100,
            "group.max.session.timeout.ms": 60_000,
            "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
            "auto.create.topics.enable": "false",
            "offset.metadata.max.bytes": 100,
        }
        return {**common, **self.config, **({} if generation.startswith("3.") else self.config_of_4)}


_TRANSACTIONS = Profile(  # and of groups by epochs, whose members may be silent for a second or two
    config={
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.min.isr": 1,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    },
    config_of_4={
        "group.coordinator.append.linger.ms": 0,
        "group.consumer.min.session.timeout.ms": 100,
        "group.consumer.min.heartbeat.interval.ms": 100,
    },
)
PROFILES = {
    "fast": Profile(),
    "delay": Profile(config={"group.initial.rebalance.delay.ms": INITIAL_DELAY_MS}),
    "small": Profile(config={"group.max.size": 2}),
    "expiry": Profile(config={"offsets.retention.check.interval.ms": 200, "offsets.retention.minutes": 1}),
    "load": Profile(
        config={
            "offsets.topic.num.partitions": history.PARTITIONS,
            "group.max.size": 2,
            "offsets.load.buffer.size": 4096,
            "offsets.retention.minutes": 2**31 - 1,
            "offsets.retention.check.interval.ms": 200,
        },
        past="load",
    ),
    "aged": Profile(
        config={
            "offsets.topic.num.partitions": history.PARTITIONS,
            "offsets.retention.check.interval.ms": 100,
            "offsets.retention.minutes": 1,
        },
        past="aged",
    ),
    "transactions": _TRANSACTIONS,
    "transactions-past": replace(
        _TRANSACTIONS,
        config={**_TRANSACTIONS.config, "offsets.topic.num.partitions": history.PARTITIONS},
        past="transactions",
    ),
    "share": Profile(
        config={
            "share.coordinator.state.topic.num.partitions": 4,
            "share.coordinator.state.topic.min.isr": 1,
            "group.coordinator.rebalance.protocols": "classic,consumer,share",
            "log.cleaner.backoff.ms": 100,
        },
        features={"4.1": {"share.version": 1}},
    ),
    "pair-transactions": replace(
        _TRANSACTIONS, brokers=2, config={**_TRANSACTIONS.config, "transaction.state.log.replication.factor": 1}
    ),
    "sasl": Profile(users=USERS),
    "sasl-sessions": Profile(users=USERS, config={"connections.max.reauth.ms": SESSION_MS}),
    "pair": Profile(brokers=2, config={"offsets.topic.replication.factor": 1}),
    **{
        f"policy-{policy}": replace(
            _TRANSACTIONS,
            config_of_4={**_TRANSACTIONS.config_of_4, "group.consumer.migration.policy": policy},
        )
        for policy in ("upgrade", "downgrade", "disabled")
    },
    **{
        name: replace(
            _TRANSACTIONS,
            config={**_TRANSACTIONS.config, "group.max.size": classic},
            config_of_4={**_TRANSACTIONS.config_of_4, "group.consumer.max.size": consumer},
        )
        for name, classic, consumer in (("small-classic", 1, 3), ("small-consumer", 5, 2))
    },
}

HISTORIES = {**history.HISTORIES, "transactions": transaction_history}


class RealTargets:
    """Keeps one real cluster running: that of the last (generation, profile) asked for."""

    def __init__(self) -> None:
        self._key: tuple[str, str] | None = None
        self._kafka: RealKafka | None = None

    async def get(self, generation: str, profile: str) -> RealKafka:
        """The running cluster, ready for groups and with the common topics."""
        if self._key != (generation, profile) or self._kafka is None:
            self.close()
            wanted = PROFILES[profile]
            settings = {**wanted.settings(generation), **(QUICK_RESTART if wanted.past else {})}
            features = wanted.features.get(generation)
            kafka = RealKafka(RELEASES[generation], wanted.brokers, settings, features=features, users=wanted.users)
            await asyncio.to_thread(kafka.__enter__)
            self._key, self._kafka = (generation, profile), kafka
            if wanted.users:
                return kafka
            await prepare(kafka.bootstrap)
            if wanted.past:
                await write_past(kafka.bootstrap, wanted.past)
                await asyncio.to_thread(_kill_and_start, kafka.nodes[1])
                await loaded(kafka.bootstrap, wanted.past)
        return self._kafka

    def close(self) -> None:
        if self._kafka is not None:
            self._kafka.close(graceful=False)
        self._key = self._kafka = None


async def prepare(bootstrap: str) -> None:
    """Creates __consumer_offsets and the common topics, and waits until every broker knows them."""
    addresses = bootstrap.split(",")
    for number, address in enumerate(addresses):
        wire = await Wire.connect(address)
        try:
            await offsets_topic_ready(wire.send)
            for name, partitions in TOPICS.items():
                if number == 0:
                    await create_topic(wire.send, name, partitions)
                await topic_known(wire.send, name, partitions, alone=len(addresses) == 1)
        finally:
            await wire.close()


async def write_past(bootstrap: str, past: str) -> None:
    """Writes the records of a history into the coordinators' log, those of each group or transactional id as one batch."""
    wire = await Wire.connect(bootstrap, client_id=ADMIN_CLIENT)
    try:
        if past == "transactions":
            await transactions_topic_ready(wire.send)
        for one in HISTORIES[past]():
            rows = [Record(number, history.now_ms(), key, value) for number, (key, value) in enumerate(one.records)]
            answer = await produce(wire.send, one.log, one.partition, encode_batch(rows))
            assert answer.error_code == Err.NONE, (one.base, Err(answer.error_code), answer.error_message)
    finally:
        await wire.close()


async def transactions_topic_ready(send: Send) -> None:
    """Polls FindCoordinator until a transaction coordinator is there (the first call creates __transaction_state)."""
    give_up = clock_s() + GIVE_UP_S
    while True:
        answer = (await send(FindCoordinatorRequest(key_type=1, coordinator_keys=["any"]), 4)).coordinators[0]
        if answer.error_code == Err.NONE:
            await topic_known(send, TRANSACTIONS, PARTITIONS)
            return
        if clock_s() > give_up:
            raise TimeoutError(f"waited {GIVE_UP_S:g} s for the transaction coordinator: {answer}")
        await asyncio.sleep(0.02)


async def loaded(bootstrap: str, past: str) -> None:
    """Polls until the coordinators have loaded the sound partitions."""
    wire = await Wire.connect(bootstrap)
    try:
        await offsets_topic_ready(wire.send)
        groups = [history.named("probe", partition).group for partition in history.SOUND]
        give_up = clock_s() + GIVE_UP_S
        while True:
            answer = await wire.send(DescribeGroupsRequest(groups), 0)
            if all(group.error_code == Err.NONE for group in answer.groups):
                break
            if clock_s() > give_up:
                raise TimeoutError(f"waited {GIVE_UP_S:g} s for the sound offsets partitions to be loaded: {answer}")
            await asyncio.sleep(0.02)
        if past == "transactions":
            await transactions_loaded(wire.send)
    finally:
        await wire.close()


async def transactions_loaded(send: Send) -> None:
    """Polls until the sound partitions of __transaction_state are loaded."""
    await transactions_topic_ready(send)
    ids = [past.transactional_id for past in transaction_history() if past.partition != VERSION_1]
    give_up = clock_s() + GIVE_UP_S
    while True:
        answer = await send(DescribeTransactionsRequest(ids), 0)
        if all(one.error_code == Err.NONE for one in answer.transaction_states):
            return
        if clock_s() > give_up:
            raise TimeoutError(f"waited {GIVE_UP_S:g} s for the transactional ids to be loaded: {answer}")
        await asyncio.sleep(0.02)


def _kill_and_start(node: Node) -> None:
    """The broker dies without a word in the middle of a write, and comes again."""
    node.kill()
    tear_tail(node.data_dir)
    node.start()
    node.wait_ready(time.monotonic() + 60)


def tear_tail(data_dir: Path) -> None:
    """Leaves the head of a batch, with nothing behind it, at the end of one offsets partition's log."""
    [segment] = sorted((data_dir / f"{OFFSETS}-{history.CUT_TAIL}").glob("*.log"))
    content = segment.read_bytes()
    next_offset = (int.from_bytes(content[:8], "big") + 1).to_bytes(8, "big")
    segment.write_bytes(content + next_offset + (5000).to_bytes(4, "big") + bytes(40))


@contextlib.asynccontextmanager
async def simulator(generation: str, profile: str) -> AsyncIterator[Any]:
    """A fresh simulated cluster of this generation and profile."""
    from tests.support.real_settings import cluster as new_cluster

    wanted = PROFILES[profile]
    options: dict[str, Any] = {
        "brokers": wanted.brokers,
        "config": wanted.settings(generation),
        "as_version": generation,
    }
    if wanted.users:
        options["config"] |= ALL_MECHANISMS
        async with new_cluster(**options, security_protocol="SASL_PLAINTEXT", users=wanted.users) as cluster:
            yield cluster
        return
    if wanted.past is None:
        async with new_cluster(**options) as cluster:
            await prepare(cluster.bootstrap)
            yield cluster
        return
    with tempfile.TemporaryDirectory(prefix="conformance-") as directory:
        options["data_dir"] = directory
        async with new_cluster(**options) as cluster:
            await prepare(cluster.bootstrap)
            await write_past(cluster.bootstrap, wanted.past)
        tear_tail(Path(directory))
        async with new_cluster(**options) as cluster:
            await loaded(cluster.bootstrap, wanted.past)
            yield cluster
