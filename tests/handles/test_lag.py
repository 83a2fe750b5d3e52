"""Lag of a group, and waits for it: signed, with partitions that nobody owns and records that are deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_sim import Cluster, WaitTimeout
from broker_sim.control.on_groups import shown
from broker_sim.storage import Origin
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafka_wire.record_batch import TRANSACTIONAL_BIT, ControlType, build_batch, control_batch
from tests.handles.members import Member

pytestmark = pytest.mark.kafka(topics={"orders": 2})


async def own_all(app: Member) -> None:
    """The member joins again and is assigned both partitions."""
    app.generation = (await app.join()).generation_id
    await app.sync({app.member_id: [0, 1]})


def fetch(app: Member, *partitions: int, offset: int = 0, session: tuple[int, int] = (0, -1)) -> asyncio.Future[Any]:
    """Read these partitions; an answer comes at once."""
    topics = [FetchTopic("orders", partitions=[FetchPartition(each, fetch_offset=offset) for each in partitions])]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics if partitions else [],
    )
    return app.wire.start(request, 11)


async def test_an_offset_beyond_the_logs_end_is_a_negative_lag(kafka: Cluster, app: Member) -> None:
    await own_all(app)
    kafka.topic("orders").fill(20)
    await app.commit(500)
    await app.commit(10, partition=1)
    billing = kafka.group("billing")
    assert billing.lag() == {("orders", 0): -490, ("orders", 1): 0}
    assert shown(billing)["lag"] == {"orders-0": -490, "orders-1": 0}
    with pytest.raises(WaitTimeout) as failure:
        await billing.lag_below(1, timeout="20ms")
    assert "the lag of orders-0 is -490: committed 500 is beyond the log's end, 10" in str(failure.value)


async def test_a_subscribed_partition_without_an_owner_is_lag(kafka: Cluster, app: Member) -> None:
    kafka.topic("orders").fill(20)
    await app.commit(10)
    billing = kafka.group("billing")
    assert billing.lag() == {("orders", 0): 0, ("orders", 1): 10}
    assert billing.lag().unassigned == [("orders", 1)]
    assert shown(billing)["unassigned"] == ["orders-1"]
    with pytest.raises(WaitTimeout) as failure:
        await billing.lag_below(100, timeout="20ms")
    assert "orders-1 is subscribed, but assigned to no member" in str(failure.value)
    await own_all(app)
    await billing.lag_below(100)


async def test_deleted_records_are_told_apart_from_those_that_can_be_read(kafka: Cluster, app: Member) -> None:
    await own_all(app)
    kafka.topic("orders").fill(20)
    await app.commit(4)
    partitions = [DeleteRecordsPartition(0, 7)]
    await app.wire.send(DeleteRecordsRequest([DeleteRecordsTopic("orders", partitions)], timeout_ms=1000), 2)
    lag = kafka.group("billing").lag()
    assert (lag, lag.deleted) == ({("orders", 0): 6, ("orders", 1): 10}, {("orders", 0): 3})
    assert shown(kafka.group("billing"))["deleted"] == {"orders-0": 3}


async def test_a_log_in_which_nothing_was_ever_written_is_not_read_to_its_end(kafka: Cluster, app: Member) -> None:
    await own_all(app)
    billing = kafka.group("billing")
    with pytest.raises(WaitTimeout, match="nothing was ever written to its partitions"):
        await billing.lag_below(100, timeout="20ms")
    waiting = asyncio.create_task(billing.lag_below(100))
    await asyncio.sleep(0)
    kafka.topic("orders").fill(2)
    await app.commit(1)
    await waiting


async def test_a_stable_group_reads_once_its_owners_have_fetched(kafka: Cluster, app: Member) -> None:
    billing = kafka.group("billing")
    await own_all(app)
    await billing.stable(members=1)
    waiting = asyncio.create_task(billing.reading(members=1))
    await fetch(app, 0)
    with pytest.raises(WaitTimeout) as failure:
        await billing.reading(timeout="20ms")
    assert "not fetched yet: orders-1 by app" in str(failure.value)
    assert not waiting.done()
    await fetch(app, 1)
    assert await waiting is billing


async def test_what_was_fetched_before_the_assignment_or_by_others_does_not_count(kafka: Cluster, app: Member) -> None:
    billing = kafka.group("billing")
    other = await Member.connect(kafka, client_id="other")
    await fetch(app, 0, 1)
    await own_all(app)
    await fetch(other, 0, 1)
    await fetch(app, 0, 1, offset=5)  # OFFSET_OUT_OF_RANGE
    with pytest.raises(WaitTimeout, match="not fetched yet: orders-0 by app, orders-1 by app"):
        await billing.reading(timeout="20ms")
    await fetch(app, 0, 1)
    await billing.reading()
    await other.close()


async def test_what_a_fetch_session_goes_on_with_is_fetched(kafka: Cluster, app: Member) -> None:
    billing = kafka.group("billing")
    session = (await fetch(app, 0, 1, session=(0, 0))).session_id
    await own_all(app)
    waiting = asyncio.create_task(billing.reading())
    assert (await fetch(app, session=(session, 1))).session_id == session
    await waiting


async def test_a_lag_of_markers_alone_is_told_as_such(kafka: Cluster, app: Member) -> None:
    await own_all(app)
    partition = kafka.state.topics["orders"].partitions[0]
    kafka.topic("orders").fill(4)
    now_ms = kafka.state.clock.now_ms()
    marker = control_batch(ControlType.COMMIT, now_ms, producer_id=7, producer_epoch=0, coordinator_epoch=0)
    partition.append(marker, now_ms=now_ms, origin=Origin.COORDINATOR)
    await app.commit(2)
    await app.commit(2, partition=1)
    billing = kafka.group("billing")
    assert (billing.lag()["orders", 0], billing.lag().partitions["orders", 0].markers) == (1, 1)
    with pytest.raises(WaitTimeout) as failure:
        await billing.lag_below(1, timeout="20ms")
    assert (
        "lag 1, which is markers of transactions and no record: all records are committed (orders-0 is committed at 2)"
        in str(failure.value)
    )
    await app.commit(1)  # a record is left, too
    assert billing.lag().partitions["orders", 0].markers == 0
    await app.commit(3)
    assert billing.lag().total == 0


async def test_a_lag_behind_an_open_transaction_says_where_readers_stop(kafka: Cluster, app: Member) -> None:
    await own_all(app)
    kafka.topic("orders").fill(4)
    partition, now_ms = kafka.state.topics["orders"].partitions[0], kafka.state.clock.now_ms()
    rows = [(b"k", b"v")] * 5
    partition.append(
        build_batch(rows, now_ms, producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL_BIT),
        now_ms=now_ms,
    )
    await app.commit(2)
    await app.commit(2, partition=1)
    billing = kafka.group("billing")
    assert [(one.lag, one.stable) for one in billing.lag().partitions.values()] == [(5, 2), (0, None)]
    with pytest.raises(WaitTimeout) as failure:
        await billing.lag_below(1, timeout="20ms")
    told = "lag 5, and transactions are open: read_committed consumers get nothing of orders-0 beyond 2"
    assert told in str(failure.value)
    marker = control_batch(ControlType.ABORT, now_ms, producer_id=7, producer_epoch=0, coordinator_epoch=0)
    partition.append(marker, now_ms=now_ms, origin=Origin.COORDINATOR)
    assert billing.lag().partitions["orders", 0].stable is None


async def test_a_wait_for_a_lag_has_the_lag_once(kafka: Cluster, app: Member) -> None:
    await own_all(app)
    kafka.topic("orders").fill(20)
    await app.commit(5)
    await app.commit(10, partition=1)
    with pytest.raises(WaitTimeout) as failure:
        await kafka.group("billing").lag_below(1, timeout="20ms")
    assert str(failure.value).count("lag 5") == 1
