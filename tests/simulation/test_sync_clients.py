"""kafka-python's clients as they are, in virtual time."""

from __future__ import annotations

import gc
import selectors
import sys
import time

import pytest

from broker_sim.simulation import LibraryMoved, Swarm, simulate
from broker_sim.simulation.sync.blocking import KAFKA_PINS
from tests.simulation.sync import leaves_nothing_suspended, no_thread_is_left, result_of, suspended
from tests.simulation.sync_group import BOOTSTRAP, SENT, SyncConsumer, SyncProducer, play
from tests.simulation.test_determinism import in_fresh_processes

pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
"""kafka-python reads its files so."""


@pytest.mark.long
def test_a_group_with_synchronous_members_lives_through_its_incidents_the_same_way_everywhere() -> None:
    own: list[tuple[str, str]] = []

    def here() -> None:
        with no_thread_is_left(), simulate(7, trace=True) as sim:
            group = play(sim)
            assert group.lost() == set()
            assert sum(map(len, group.producer.sent.values())) == SENT
            assert all(one.batches for one in group.sync)
            assert group.other.assignments
            assert set(group.kafka.group("billing").lag().values()) == {0}
            assert sim.errors == []
            own.append((sim.journal_hash, sim.schedule_hash))

    told = in_fresh_processes(["7"], ["1", "2", "random"], here, module="tests.simulation.sync_group")
    assert {(one["journal"], one["schedule"]) for one in told} == {*own}
    here()
    assert len({*own}) == 1


def test_other_seeds_are_other_runs() -> None:
    hashes = set()
    for seed in range(3):
        with simulate(seed) as sim:
            kafka = sim.cluster(2, {"orders": 3})
            sim.host("producer").spawn_sync(SyncProducer())
            sim.run_for(5)
            assert kafka.topic("orders")
            hashes.add(sim.schedule_hash)
    assert len(hashes) == 3


def test_a_world_that_has_ended_leaves_nothing_of_its_clients_to_the_collector() -> None:
    with leaves_nothing_suspended("kafka"), simulate(1) as sim:
        kafka = sim.cluster(2, {"orders": 3})
        sim.host("producer").spawn_sync(SyncProducer())
        sim.host("consumer").spawn_sync(SyncConsumer("one"))
        sim.run_for(5)
        assert kafka.topic("orders")
        assert suspended("kafka")


def test_idle_consumers_cost_little() -> None:
    def consume() -> None:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer("orders", bootstrap_servers="broker-1:9092", group_id="billing")
        while True:
            consumer.poll(timeout_ms=1000)

    with simulate(1) as sim:
        sim.cluster(1, {"orders": 3})
        sim.host("sync").spawn_sync(consume)
        sim.run_for(10)
        before = sim.loop.steps
        sim.run_for(100)
        assert sim.loop.steps - before < 10_000, "what is left of a millisecond is not polled away"


@pytest.mark.parametrize("name", KAFKA_PINS)
def test_a_library_that_has_moved_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import kafka.net.selector
    import kafka.producer.kafka
    import kafka.record.default_records
    import kafka.structs

    if name == "kafka-python's partitions":
        monkeypatch.setattr(kafka.structs.TopicPartition, "_fields", ("topic", "number"))
    elif name == "kafka-python's tasks":
        monkeypatch.setattr(kafka.net.selector.Task, "__init__", lambda self, coro, name: None)
    elif name == "kafka-python's finalisers":
        monkeypatch.delattr(kafka.KafkaProducer, "__del__")
    elif name == "kafka-python's producer names":
        monkeypatch.setattr(kafka.producer.kafka, "PRODUCER_CLIENT_ID_SEQUENCE", 0)
    elif name == "kafka-python's record times":
        builder = kafka.record.default_records.DefaultRecordBatchBuilder
        monkeypatch.setattr(builder, "append", lambda self, offset, key: None)
    else:
        monkeypatch.setitem(kafka.net.selector.NetworkSelector.DEFAULT_CONFIG, "selector", selectors.SelectSelector)
    with pytest.raises(LibraryMoved, match="kafka-python's "):
        result_of(lambda: None)


def test_every_pin_of_kafka_python_has_an_effect_while_a_simulation_runs() -> None:
    from kafka.net.selector import Task
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.structs import TopicPartition

    def record_time() -> int:
        builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 10_000)
        return int(builder.append(0, None, None, b"value", []).timestamp)

    from kafka.producer.kafka import KafkaProducer

    def producer_name() -> str:
        import kafka.producer.kafka

        return f"{kafka.producer.kafka.PRODUCER_CLIENT_ID_SEQUENCE.increment()}"

    assert KafkaProducer.DEFAULT_CONFIG["client_id"] is None
    assert result_of(producer_name) == result_of(producer_name) == "1"
    assert result_of(record_time) == 1_700_000_000_000
    assert record_time() > 1_790_000_000_000

    def look() -> tuple[int, list[int], bool]:
        tasks = [Task(lambda: None) for _ in range(100)]
        return (
            hash(TopicPartition("orders", 1)),
            [hash(task) - hash(tasks[0]) for task in tasks],
            sorted(tasks) == tasks,
        )

    first, second = result_of(look), result_of(look)
    assert first == second
    assert first[1] == list(range(100))
    assert first[2]
    outside = Task(lambda: None), TopicPartition("orders", 1)
    assert hash(outside[0]) == object.__hash__(outside[0])
    assert hash(outside[1]) == hash(("orders", 1)) != first[0]


def test_a_producer_that_waits_busily_for_a_leader_gets_on() -> None:
    acknowledged: list[int] = []

    def sell() -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers="broker-1:9092", client_id="shop")
        producer.send("orders", b"first").get(timeout=30)
        time.sleep(2)
        acknowledged.append(producer.send("orders", b"second").get(timeout=30).offset)

    with simulate(1) as sim:
        kafka = sim.cluster(brokers=1, topics={"orders": 1})
        sim.host("shop").spawn_sync(sell)
        sim.run_for(1)
        with kafka.log("orders", 0).set("no_leader"):
            sim.run_for(6)
            assert not acknowledged
        sim.run_for(2)
        assert acknowledged == [1]
        assert sim.loop.steps < 20_000


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 7])
def test_a_group_of_kafka_pythons_comes_back_from_whatever_a_swarm_does(seed: int) -> None:
    sent: list[int] = []

    def sell() -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, client_id="shop", acks="all")
        while len(sent) < 40:
            producer.send("orders", b"%d" % len(sent)).get(timeout=30)
            sent.append(len(sent))
            time.sleep(0.3)
        producer.close()

    with no_thread_is_left(), simulate(seed, faults=Swarm(during="30s"), patience="2m") as sim:
        sim.cluster(brokers=3, topics={"orders": 6})
        consumers = [SyncConsumer("app-1"), SyncConsumer("app-2")]
        sim.host("shop").spawn_sync(sell, again="1s")
        for consumer in consumers:
            sim.host(consumer.name).spawn_sync(consumer, again="1s")
        sim.run_for(40)
        assert sim.faults.begun
        sim.check(groups={"billing": 2}, also=lambda: len(sent) == 40)
        assert sum(len(offsets) for one in consumers for offsets in one.read.values()) >= 40


def test_a_producer_that_is_dropped_closes_itself_unless_all_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: failed.append(str(what.exc_value)))

    def drop() -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers="broker-1:9092")
        producer.send("orders", b"never acknowledged")

    def hold() -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers="broker-1:9092")
        while True:
            producer.send("orders", b"never acknowledged")
            time.sleep(1)

    with simulate(1) as sim:
        kafka = sim.cluster(1, {"orders": 1})
        kafka.log("orders", 0).set("stuck")
        task = sim.host("sync").spawn_sync(drop)
        sim.host("other").spawn_sync(hold)
        sim.run_until(task.done, within="1h")
        assert 1 <= sim.elapsed_s < 3, "it waits a virtual second for what is not acknowledged"
        assert failed == ["KafkaTimeoutError: Timeout waiting for future"]
    gc.collect()
    assert len(failed) == 1
