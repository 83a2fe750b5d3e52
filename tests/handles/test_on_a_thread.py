"""The whole face without an event loop: the same words, blocking, beside a synchronous client."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, TopicPartition

from broker_sim import ClusterThread, Err, NeverHit, UsageError, WaitTimeout
from tests.support.processes import DEADLINE_S

OPTIONS = {"topics": {"orders": 3}, "clock": "manual", "as_version": "3.9", "brokers": 2}


def consumer(kafka: ClusterThread) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "billing",
            "client.id": "app",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


@pytest.mark.kafka(**OPTIONS)
def test_a_stuck_partition_beside_a_synchronous_client(kafka_server: ClusterThread) -> None:
    kafka = kafka_server
    kafka.topic("orders").fill(30)
    app = consumer(kafka)
    try:
        app.subscribe(["orders"])
        message = app.poll(DEADLINE_S)
        assert message is not None
        assert message.error() is None
        billing = kafka.group("billing").stable(members=1, timeout=DEADLINE_S)
        assert billing.members[0].client_id == "app"
        with ThreadPoolExecutor(1) as pool, billing.offsets_log.stuck() as jam:
            offsets = [TopicPartition("orders", 0, 5)]
            commit = pool.submit(app.commit, offsets=offsets, asynchronous=False)
            (blocked,) = jam.pending(1, timeout=DEADLINE_S)
            assert billing.offsets_log.states == ["stuck"]
            kafka.time.advance(5)
            assert blocked.answer().error is Err.REQUEST_TIMED_OUT
            jam.heal()
            commit.result(DEADLINE_S)  # the client tried again by itself
        billing.committed_at_least("orders", 0, 5, timeout=DEADLINE_S)
        assert billing.committed() == {("orders", 0): 5}
        assert billing.lag().total == 25
        assert "REQUEST_TIMED_OUT" in billing.explain()
    finally:
        app.close()
    billing.empty(timeout=DEADLINE_S)


@pytest.mark.kafka(**OPTIONS)
def test_rules_waits_and_brokers(kafka_server: ClusterThread) -> None:
    kafka = kafka_server
    with pytest.raises(NeverHit), kafka.fault("OffsetCommit", error="NOT_COORDINATOR"):
        pass
    with pytest.raises(WaitTimeout, match="group 'billing': state Stable"):
        kafka.group("billing").stable(timeout=0.01)
    with pytest.raises(UsageError, match=r"no topic 'order'"):
        kafka.log("order", 0)
    with kafka.broker(2).down():
        assert not kafka.broker(2).alive
    assert kafka.broker(2).alive
    seen: list[int] = []
    end = kafka.journal.subscribe(lambda event: seen.append(threading.get_ident()))
    since = kafka.journal.seq
    kafka.journal.write("mark", text="deployed")
    assert kafka.journal.next(event="mark", since=since).text == "deployed"
    end()
    assert seen
    assert threading.get_ident() not in seen


@pytest.mark.kafka(**OPTIONS)
def test_a_listener_that_calls_back_is_told_why_it_cannot(kafka_server: ClusterThread) -> None:
    kafka = kafka_server
    told: list[str] = []

    def listen(event: object) -> None:
        try:
            _ = kafka.group("billing").state
        except RuntimeError as error:
            told.append(str(error))

    end = kafka.journal.subscribe(listen)
    kafka.journal.write("mark", text="a")
    end()
    assert told == ["this is the cluster's own thread, where a call would wait for itself"]
