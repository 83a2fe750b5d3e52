"""Batches in a transaction wait for its coordinator's verification: its results, and the errors that producers get for them."""

from __future__ import annotations

import pytest

from broker_sim.runtime.transaction_coordinator import TransactionCoordinator
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceResponse
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from tests.data_plane.helpers import batch, produce, produced
from tests.support.ctx import FakeContext, Sim

TX = "billing"


class World:
    """A broker with a coordinator, and one producer."""

    def __init__(self, as_version: str = "4.0", **config: object) -> None:
        settings = {"transaction.state.log.num.partitions": 1, **{k.replace("_", "."): v for k, v in config.items()}}
        self.sim = Sim(topics={"t": 2}, config=settings, as_version=as_version)
        self.sim.state.ensure_internal_topic("__transaction_state")
        self.sim.coordinators.transactions = TransactionCoordinator(self.sim.state)
        answer = self.sim.call(InitProducerIdRequest(TX, 60_000), 4)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def start(self, sequence: int, version: int, *, epoch: int | None = None, tx: str = TX) -> FakeContext:
        data = batch(
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            attributes=0x10,
        )
        return self.sim.start(produce(records=data, transactional_id=tx), version)

    def produce(self, sequence: int, version: int, **more: object) -> PartitionProduceResponse:
        ctx = self.start(sequence, version, **more)  # type: ignore[arg-type]
        assert ctx.answered
        return produced(ctx.response)

    def state(self) -> str:
        (row,) = self.sim.call(DescribeTransactionsRequest([TX]), 0).transaction_states
        name: str = row.transaction_state
        return name


@pytest.mark.parametrize(
    ("version", "error", "text"),
    [
        (9, Err.INVALID_TXN_STATE, "Partition was not added to the transaction"),
        (10, Err.INVALID_TXN_STATE, "Partition was not added to the transaction"),
        (11, Err.TRANSACTION_ABORTABLE, None),
        (12, Err.NONE, None),
    ],
)
def test_a_partition_that_nobody_has_added(version: int, error: Err, text: str | None) -> None:
    world = World()
    answer = world.produce(0, version)
    assert (answer.error_code, answer.error_message) == (error, text)
    assert world.state() == ("Ongoing" if version == 12 else "Empty")


@pytest.mark.parametrize(("version", "adds"), [(9, False), (12, True)])
def test_a_broker_may_be_told_not_to_ask(version: int, adds: bool) -> None:
    """A partition that Produce itself adds to the transaction is added all the same."""
    world = World(transaction_partition_verification_enable="false")
    assert world.produce(0, version).error_code == Err.NONE
    assert world.state() == ("Ongoing" if adds else "Empty")


def test_kafka_3_4_does_not_ask() -> None:
    world = World("3.4")
    assert world.produce(0, 9).error_code == Err.NONE
    assert world.state() == "Empty"


def test_nobody_is_asked_about_a_transaction_that_is_open_here() -> None:
    world = World()
    world.produce(0, 12)
    log = world.sim.state.topics["__transaction_state"].partitions[0].log
    before = log.log_end_offset
    world.sim.state.topics["__transaction_state"].partitions[0].high_watermark_frozen = True
    assert world.produce(1, 12).error_code == Err.NONE
    assert log.log_end_offset == before


@pytest.mark.parametrize(("version", "error"), [(11, Err.NOT_ENOUGH_REPLICAS), (12, Err.CONCURRENT_TRANSACTIONS)])
def test_while_the_last_transaction_is_ending(version: int, error: Err) -> None:
    """A batch that adds its partition is tried for a while before its producer has to send it again."""
    world = World()
    world.produce(0, 12)
    world.sim.state.topics["t"].partitions[0].high_watermark_frozen = True  # its marker is on the way for ever
    world.sim.start(EndTxnRequest(TX, world.producer_id, world.epoch, True), 4)
    data = batch(producer_id=world.producer_id, producer_epoch=world.epoch, base_sequence=0, attributes=0x10)
    ctx = world.sim.start(produce(records=data, partition=1, transactional_id=TX), version)
    if version == 12:
        assert not ctx.answered
        world.sim.clock.advance(120)
    answer = produced(ctx.response)
    assert answer.error_code == error
    told = "Unable to verify the partition has been added to the transaction. Underlying error: CONCURRENT_TRANSACTIONS"
    assert answer.error_message == (None if version == 12 else told)


def test_a_batch_that_waits_is_let_in_when_the_transaction_has_ended() -> None:
    world = World()
    world.produce(0, 12)
    log = world.sim.state.topics["__transaction_state"].partitions[0]
    log.high_watermark_frozen = True
    world.sim.start(EndTxnRequest(TX, world.producer_id, world.epoch, True), 4)
    data = batch(producer_id=world.producer_id, producer_epoch=world.epoch, base_sequence=0, attributes=0x10)
    ctx = world.sim.start(produce(records=data, partition=1, transactional_id=TX), 12)
    log.unfreeze_high_watermark()
    world.sim.clock.advance(60)
    assert produced(ctx.response).error_code == Err.NONE
    assert world.state() == "Ongoing"


def test_a_coordinator_that_is_not_there_is_an_error_that_every_producer_repeats() -> None:
    world = World()
    world.sim.state.set_leader(world.sim.state.topics["__transaction_state"].partitions[0], -1)
    answer = world.produce(0, 12)
    assert answer.error_code == Err.NOT_ENOUGH_REPLICAS
    assert answer.error_message is not None
    assert answer.error_message.endswith("COORDINATOR_NOT_AVAILABLE")
    assert world.sim.state.topics["t"].partitions[0].log_end_offset == 0


@pytest.mark.parametrize("version", [9, 12])
def test_a_fenced_producer_is_told_of_its_epoch(version: int) -> None:
    world = World()
    world.sim.call(InitProducerIdRequest(TX, 60_000), 4)
    assert world.produce(0, version).error_code == Err.INVALID_PRODUCER_EPOCH
    assert world.produce(0, version, tx="nobody").error_code == Err.INVALID_PRODUCER_ID_MAPPING
