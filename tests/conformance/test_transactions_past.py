"""Transactional ids that a coordinator finds in its log: epochs at their end, transactions that are open, decided or over."""

from __future__ import annotations

import asyncio

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.record_batch import batches, records
from tests.conformance.driver import GIVE_UP_S, POLL_S, Kafka, clock_s
from tests.conformance.logs import fetch_all
from tests.conformance.transaction_history import past_id
from tests.conformance.transactions import Producer

pytestmark = [pytest.mark.profile("transactions-past"), pytest.mark.generations("3.4", "4.1", "4.4")]
new_flow = pytest.mark.generations("4.1", "4.4")

NONE, FENCED, NO_MAPPING = Err.NONE, Err.PRODUCER_FENCED, Err.INVALID_PRODUCER_ID_MAPPING


async def found(kafka: Kafka, base: str) -> Producer:
    """The producer of an id of that past, once its broker has producer ids to give."""
    give_up = clock_s() + GIVE_UP_S
    while (answer := await kafka.watch(InitProducerIdRequest(None, 1000), 4)).error_code != NONE:
        assert clock_s() < give_up, Err(answer.error_code)
        await asyncio.sleep(POLL_S)
    past = past_id(base)
    producer = Producer(kafka)
    producer.name, producer.id = past.transactional_id, (past.producer_id, past.epoch)
    return producer


async def test_the_epochs_of_a_producer_id_end(kafka: Kafka) -> None:
    producer = await found(kafka, "last-epoch-but-one")
    assert await producer.init() == (NONE, 32_766)
    last = producer.id
    assert await producer.init() == (NONE, 0)
    assert producer.id[0] != last[0]
    assert await producer.add_one(last) is NO_MAPPING
    assert await producer.end(own=last, version=3) is NO_MAPPING
    assert (await producer.init((last[0], last[1] - 1)))[0] is FENCED
    await producer.init(last)
    await producer.init()
    await producer.log()


async def test_a_producer_that_names_its_last_epoch(kafka: Kafka) -> None:
    producer = await found(kafka, "last-epoch-named")
    last = producer.id
    assert await producer.init(last) == (NONE, 0)
    assert await producer.init(last) == (NONE, 0)  # its answer was lost
    assert await producer.init(producer.id) == (NONE, 1)
    await producer.log()


async def test_a_producer_is_fenced_at_its_last_epoch(kafka: Kafka) -> None:
    producer = await found(kafka, "last-epoch-fenced")
    last = producer.id
    assert await producer.add_one() is NONE
    assert (await producer.init())[0] is Err.CONCURRENT_TRANSACTIONS
    await producer.until("CompleteAbort")
    await producer.state()
    await producer.init()
    await producer.init(last)
    await producer.init()
    await producer.log()


async def test_a_transaction_takes_too_long_at_its_last_epoch(kafka: Kafka) -> None:
    producer = await found(kafka, "last-epoch-late")
    await producer.until("CompleteAbort")
    await producer.state()
    await producer.init(producer.id)
    await producer.log()


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_the_end_of_a_transaction_at_the_last_epoch(kafka: Kafka, commit: bool) -> None:
    """By old clients: it costs no epoch."""
    producer = await found(kafka, f"last-epoch-old-{'commit' if commit else 'abort'}")
    last = producer.id
    assert await producer.add_one() is NONE
    assert await producer.end(commit, version=3) is NONE
    await producer.until("CompleteCommit" if commit else "CompleteAbort")
    await producer.state()
    assert await producer.add_one(last) is NONE
    await producer.log()


@new_flow
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_the_end_of_a_transaction_brings_another_producer_id(kafka: Kafka, commit: bool) -> None:
    producer = await found(kafka, f"last-epoch-new-{'commit' if commit else 'abort'}")
    last = producer.id
    assert await producer.add_one() is NONE
    assert await producer.end(commit, version=5) is NONE
    assert (producer.id[0] != last[0], producer.id[1]) == (True, 0)
    await producer.until("CompleteCommit" if commit else "CompleteAbort")
    await producer.state()
    assert await producer.end(commit, own=last, version=5) is NONE  # its answer was lost
    assert producer.id[1] == 0
    assert await producer.end(not commit, own=last, version=5) is Err.INVALID_TXN_STATE
    assert await producer.end(commit, own=last, version=4) is NO_MAPPING
    assert await producer.end(commit, own=(last[0], last[1] - 1), version=5) is NO_MAPPING
    assert await producer.add_one(last) is NO_MAPPING
    await producer.log()


@new_flow
async def test_an_abort_of_nothing_at_the_last_epoch(kafka: Kafka) -> None:
    producer = await found(kafka, "last-epoch-abort-of-none")
    assert await producer.end(False, version=5) is NONE
    assert producer.id[1] == 0
    await producer.log("CompleteAbort")


# --- open, decided, over ----------------------------------------------------------------------------------------------


async def marker_in(kafka: Kafka, topic: str, partition: int, producer_id: int) -> tuple[int, bytes | None]:
    """The producer's last marker there, once it has one: its epoch, and its key (noted)."""
    give_up = clock_s() + GIVE_UP_S
    while True:
        data = await fetch_all(kafka.watch, topic, partition)
        ends = [
            (header.producer_epoch, record.key)
            for at, header in batches(data)
            if header.is_control and header.producer_id == producer_id
            for record in records(data, at, header)
        ]
        if ends:
            kafka.recording.note(f"marker in {topic}-{partition}", [ends[-1][0], ends[-1][1]])
            return ends[-1]
        if clock_s() > give_up:
            raise TimeoutError(f"waited {GIVE_UP_S} s for a marker in {topic}-{partition}")
        await asyncio.sleep(POLL_S)


async def test_an_open_transaction_goes_on(kafka: Kafka) -> None:
    producer = await found(kafka, "open")
    await producer.state()
    assert await producer.add(("t1", 0), ("t1", 2)) == {("t1", 0): NONE, ("t1", 2): NONE}
    assert await producer.end(version=3) is NONE
    assert await marker_in(kafka, "t1", 0, producer.id[0]) == (5, b"\0\0\0\1")
    await producer.log("CompleteCommit")


async def test_an_open_transaction_has_had_its_time(kafka: Kafka) -> None:
    producer = await found(kafka, "open-long-ago")
    assert await marker_in(kafka, "t0", 1, producer.id[0]) == (6, b"\0\0\0\0")
    await producer.log("CompleteAbort")


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
async def test_what_was_decided_is_carried_out(kafka: Kafka, state: str) -> None:
    """A topic that is gone meanwhile needs no marker."""
    producer, after = await found(kafka, f"decided-{state}"), state.replace("Prepare", "Complete")
    wanted = b"\0\0\0\1" if state == "PrepareCommit" else b"\0\0\0\0"
    assert await marker_in(kafka, "t1", 1, producer.id[0]) == (5, wanted)
    await producer.log(after)
    nothing = await found(kafka, f"decided-by-none-{state}")
    await nothing.log(after)


@new_flow
async def test_what_was_decided_in_the_new_flow_is_carried_out(kafka: Kafka) -> None:
    producer = await found(kafka, "decided-new")
    assert await marker_in(kafka, "t1", 1, producer.id[0]) == (6, b"\0\0\0\0")
    await producer.log("CompleteAbort")
    producer = await found(kafka, "decided-with-another-id")
    assert await marker_in(kafka, "t1", 1, producer.id[0]) == (32_767, b"\0\0\0\1")
    await producer.log("CompleteCommit")
    before = producer.id[0], 32_766
    assert await producer.end(own=before, version=5) is NONE
    assert producer.id == (before[0] + 500, 0)


@pytest.mark.parametrize("state", ["CompleteCommit", "CompleteAbort"])
async def test_what_is_over_is_remembered_as_far_as_the_log_tells(kafka: Kafka, state: str) -> None:
    """The epoch before is not in the log: nobody is known by it."""
    producer = await found(kafka, f"ended-{state}-old")
    before = producer.epoch(-1)
    assert await producer.end(state == "CompleteCommit", version=3) is NONE
    assert (await producer.init(before))[0] is FENCED
    assert await producer.init(producer.id) == (NONE, 8)
    await producer.log()


@new_flow
@pytest.mark.parametrize("state", ["CompleteCommit", "CompleteAbort"])
async def test_who_ended_a_transaction_is_remembered_by_its_epoch(kafka: Kafka, state: str) -> None:
    producer = await found(kafka, f"ended-{state}-new")
    before = producer.epoch(-1)
    assert await producer.end(state == "CompleteCommit", own=before, version=5) is NONE
    assert await producer.end(state != "CompleteCommit", own=before, version=5) is Err.INVALID_TXN_STATE
    assert (await producer.init(before))[0] is FENCED
    assert await producer.init(producer.id) == (NONE, 8)
    await producer.log()
