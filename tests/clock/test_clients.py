"""Unmodified clients on a broker whose time stands still: they work, and what takes minutes takes milliseconds."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, Producer

from broker_sim import Cluster, ClusterThread
from tests.support.processes import DEADLINE_S

PARTITIONS = 4
SOON: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}
MANUAL: dict[str, Any] = {"clock": "manual", "topics": {"orders": PARTITIONS}, "config": SOON}
SILENT_MS = 25_000
"""A heartbeat interval that no test lasts for."""


@pytest.fixture
async def kafka() -> AsyncIterator[Cluster]:
    async with Cluster(**MANUAL) as cluster:
        yield cluster


@contextlib.asynccontextmanager
async def consumer(kafka: Cluster, name: str, *, heartbeat_ms: int = 50, **options: Any) -> AsyncIterator[Any]:
    """An aiokafka consumer of ``billing`` that has joined."""
    app = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap,
        group_id="billing",
        client_id=name,
        session_timeout_ms=45_000,
        heartbeat_interval_ms=heartbeat_ms,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=300_000,
        **options,
    )
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def assigned(app: Any, count: int) -> None:
    """Until ``app`` owns so many partitions."""
    async with asyncio.timeout(60):
        while len(app.assignment()) != count:
            await app.getmany(timeout_ms=20)


async def test_aiokafka_produces_consumes_and_commits(kafka: Cluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for number in range(20):
            await producer.send_and_wait("orders", b"%d" % number, partition=number % PARTITIONS)
    async with consumer(kafka, "app-1") as app:
        got: list[bytes] = []
        async with asyncio.timeout(60):
            while len(got) < 20:
                for records in (await app.getmany(timeout_ms=100)).values():
                    got += [record.value for record in records]
        await app.commit()
        assert sorted(map(int, got)) == list(range(20))
        assert await app.committed(TopicPartition("orders", 0)) == 5


async def test_aiokafka_the_survivor_owns_all_when_a_session_ends(kafka: Cluster) -> None:
    async with consumer(kafka, "app-1") as one, consumer(kafka, "app-2", heartbeat_ms=SILENT_MS) as two:
        await asyncio.gather(assigned(one, 2), assigned(two, 2))
        fired = await kafka.time.advance("46s", expire=["app-2"])
        assert [text.startswith("session of app-2-") for text in fired] == [True]
        await assigned(one, PARTITIONS)
        assert [member.client_id for member in kafka.group("billing").members] == ["app-1"]


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("auto_commit", [False, True], ids=["own commits", "auto-commit"])
async def test_aiokafka_the_living_stay_with_their_own_timeouts(
    kafka: Cluster, auto_commit: bool, static: bool
) -> None:
    """aiokafka's session and rebalance timeout are 10 s each: both pass in the step. Its heartbeats would be 3 s apart."""
    apps = [
        AIOKafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap,
            group_id="billing",
            client_id=f"app-{number}",
            group_instance_id=f"pod-{number}" if static else None,
            enable_auto_commit=auto_commit,
            heartbeat_interval_ms=SILENT_MS if number == 2 else 50,
        )
        for number in (1, 3, 2)
    ]
    async with contextlib.AsyncExitStack() as stack:
        for app in apps:
            await app.start()
            stack.push_async_callback(app.stop)
        billing = await kafka.group("billing").stable(members=3)
        fired = await kafka.time.advance("46s", expire=["app-2"])
        assert [text.startswith("session of ") for text in fired if "billing" in text] == [True]
        assert sorted(member.client_id for member in billing.members) == ["app-1", "app-3"]


async def test_aiokafka_a_hung_member_holds_the_rebalance_for_five_minutes(kafka: Cluster) -> None:
    async with consumer(kafka, "hung", heartbeat_ms=SILENT_MS, max_poll_interval_ms=300_000) as hung:
        await assigned(hung, PARTITIONS)
        newcomer = consumer(kafka, "new")
        joining = asyncio.create_task(newcomer.__aenter__())
        billing = await kafka.group("billing").state_is("PreparingRebalance")
        assert kafka.time.next_timer() is not None
        assert "rebalance timeout of billing" in await kafka.time.advance("5m", wait=0)
        new = await joining
        await assigned(new, PARTITIONS)
        assert [member.client_id for member in billing.members] == ["new"]
        await newcomer.__aexit__(None, None, None)


async def test_aiokafka_lives_through_a_week(kafka: Cluster) -> None:
    async with consumer(kafka, "app-1") as app:
        await assigned(app, PARTITIONS)
        billing = kafka.group("billing")
        generation = billing.generation
        await kafka.time.advance("7d")
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            await producer.send_and_wait("orders", b"still here", partition=1)
        async with asyncio.timeout(60):
            assert (await app.getone()).value == b"still here"
        await app.commit()
        assert billing.generation == generation


async def test_aiokafka_on_a_clock_that_runs_faster() -> None:
    """Kafka's join window of 3 s takes 300 ms; a heartbeat interval of 50 ms is 500 ms to the broker, a session of 45 s 4.5 s."""
    async with Cluster(clock="scaled:10", topics={"orders": PARTITIONS}) as kafka:
        loop = asyncio.get_running_loop()
        began_ms, began_s = kafka.time.now_ms(), loop.time()
        async with consumer(kafka, "app-1") as app:
            await assigned(app, PARTITIONS)
            real_s = loop.time() - began_s
            assert kafka.time.now_ms() - began_ms >= max(3000, int(real_s * 10_000) - 2)
            await app.commit({TopicPartition("orders", 0): 7})
            assert await app.committed(TopicPartition("orders", 0)) == 7


# --- clients with threads of their own --------------------------------------------------------------------------------


@pytest.fixture
def thread() -> Iterator[ClusterThread]:
    with ClusterThread(**MANUAL) as cluster:
        yield cluster


def until(what: str, condition: Callable[[], object], step: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:g} s for {what}"
        step()


class Polling:
    """``poll`` called again and again on a thread; from its death on the client is as good as hung, but connected."""

    def __init__(self, poll: Callable[[], object]) -> None:
        self._poll, self._over = poll, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            self._poll()

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # kafka-python, at its import
def test_kafka_python_under_a_manual_clock(thread: ClusterThread) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=thread.bootstrap)
    producer.send("orders", b"one", partition=0).get(timeout=DEADLINE_S)
    producer.close()

    def make(name: str) -> Any:
        return KafkaConsumer(
            "orders",
            bootstrap_servers=thread.bootstrap,
            group_id="billing",
            client_id=name,
            session_timeout_ms=45_000,
            heartbeat_interval_ms=50,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    one, two = make("app-1"), make("app-2")
    with contextlib.ExitStack() as stack:  # a client that is left open goes on for the rest of the process
        stack.callback(one.close, autocommit=False)
        stack.callback(two.close, autocommit=False, timeout_ms=1000)  # nobody answers it any more
        got: list[Any] = []
        until("the record", lambda: got, lambda: got.extend(one.poll(timeout_ms=50).values()))
        one.commit()
        polling = Polling(lambda: two.poll(timeout_ms=50))
        stack.callback(polling.end)
        until("a share", lambda: len(one.assignment()) == 2, lambda: one.poll(timeout_ms=50))
        until("the other's share", lambda: len(two.assignment()) == 2, lambda: one.poll(timeout_ms=50))
        # silent from here on: before, app-1 may join again of its own accord, and a member hears of that by its heartbeats alone
        stack.enter_context(thread.fault("Heartbeat", client_id="app-2", hang=True, must_hit=False))
        polling.end()
        fired = thread.time.advance("46s", expire=["app-2"], wait=DEADLINE_S)
        assert [text.startswith("session of app-2-") for text in fired] == [True]
        until("all partitions", lambda: len(one.assignment()) == PARTITIONS, lambda: one.poll(timeout_ms=50))


def test_confluent_kafka_under_a_manual_clock(thread: ClusterThread) -> None:
    producer = Producer({"bootstrap.servers": thread.bootstrap})
    producer.produce("orders", b"one", partition=0)
    assert producer.flush(DEADLINE_S) == 0

    def make(name: str, heartbeat_ms: int) -> Any:
        app = Consumer(
            {
                "bootstrap.servers": thread.bootstrap,
                "group.id": "billing",
                "client.id": name,
                "session.timeout.ms": 45_000,
                "heartbeat.interval.ms": heartbeat_ms,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        app.subscribe(["orders"])
        return app

    one = make("app-1", 50)
    got: list[Any] = []
    until("the record", lambda: any(got), lambda: got.append(one.poll(0.05)))
    one.commit(asynchronous=False)
    two = make("app-2", SILENT_MS)
    polling = Polling(lambda: two.poll(0.05))
    until("a share", lambda: len(one.assignment()) == 2, lambda: one.poll(0.05))
    thread.group("billing").stable(members=2, timeout=DEADLINE_S)
    fired = thread.time.advance("46s", expire=["app-2"], wait=DEADLINE_S)
    assert [text.startswith("session of app-2-") for text in fired] == [True]
    until("all partitions", lambda: len(one.assignment()) == PARTITIONS, lambda: one.poll(0.05))
    polling.end()
    two.close()
    one.close()
