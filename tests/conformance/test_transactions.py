"""Transactions: what their coordinator answers in which state, and what it writes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest
from kafka_wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from kafka_wire.messages.k66_list_transactions import ListTransactionsRequest
from tests.conformance.driver import GIVE_UP_S, Kafka, clock_s
from tests.conformance.transactions import Producer

pytestmark = [pytest.mark.profile("transactions"), pytest.mark.generations("3.4", "4.1", "4.4")]
new_flow = pytest.mark.generations("4.1", "4.4")
"""Generations with clients for which every transaction ends with a new epoch (KIP-890)."""

NONE, INVALID_STATE, FENCED = Err.NONE, Err.INVALID_TXN_STATE, Err.PRODUCER_FENCED
INVALID_EPOCH, NO_MAPPING = Err.INVALID_PRODUCER_EPOCH, Err.INVALID_PRODUCER_ID_MAPPING


def newest(kafka: Kafka) -> int:
    """EndTxn's newest version of the old flow."""
    return int(kafka.pick(old=3, new=4))


# --- InitProducerId ---------------------------------------------------------------------------------------------------


async def test_transaction_timeouts_that_can_not_be(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    for timeout_ms in (0, -1, 900_001):
        assert (await producer.init(timeout_ms=timeout_ms))[0] is Err.INVALID_TRANSACTION_TIMEOUT
    assert (await producer.init(timeout_ms=900_000))[0] is NONE


async def test_half_a_producer_is_an_invalid_request(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    for half in ((5, -1), (-1, 5)):
        assert (await producer.init(half))[0] is Err.INVALID_REQUEST


async def test_an_init_of_who_knows_nothing_bumps_the_epoch(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    assert [await producer.init() for _ in range(2)] == [(NONE, 1), (NONE, 2)]


@pytest.mark.parametrize("version", [3, 4])
async def test_an_init_with_ones_own_epoch(kafka: Kafka, version: int) -> None:
    producer = await Producer(kafka).begin()
    fenced = FENCED if version >= 4 else INVALID_EPOCH
    first = producer.id
    assert await producer.init(first, version=version) == (NONE, 1)
    assert await producer.init(first, version=version) == (NONE, 1)  # its answer was lost
    second = producer.id
    assert await producer.init(second, version=version) == (NONE, 2)
    assert (await producer.init(first, version=version))[0] is fenced
    assert (await producer.init((second[0], 7), version=version))[0] is fenced
    assert (await producer.init((99_999, 0), version=version))[0] is fenced
    await producer.log()


async def test_an_unknown_id_gets_another_producer_whatever_it_names(kafka: Kafka) -> None:
    beside = await Producer(kafka).begin()
    other = Producer(kafka)
    other.name = beside.neighbour()
    error, epoch = await other.init((99_999, 5))
    assert (error, epoch, other.id[0] != 99_999) == (NONE, 0, True)


async def test_a_producer_without_a_transactional_id(kafka: Kafka) -> None:
    """A producer gets another producer id, whatever it names; its timeout is not checked."""
    producer = await Producer(kafka).begin()
    for own in (producer.id, (99_999, 5)):
        for timeout_ms in (0, -1, 900_001):
            answer = await kafka.ask(InitProducerIdRequest(None, timeout_ms, *own), 4)
            assert (answer.error_code, answer.producer_epoch) == (NONE, 0)
            assert answer.producer_id not in (own[0], -1)
    for half in ((5, -1), (-1, 5)):
        await kafka.ask(InitProducerIdRequest(None, 1000, *half), 4)
    await kafka.ask(InitProducerIdRequest("", 1000), 4)


# --- AddPartitionsToTxn, AddOffsetsToTxn ------------------------------------------------------------------------------


async def test_partitions_are_added_once(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    assert await producer.add(("t0", 0)) == {("t0", 0): NONE}
    assert await producer.add(("t0", 0)) == {("t0", 0): NONE}
    assert set((await producer.add(("t0", 0), ("t1", 2))).values()) == {NONE}
    assert len(await producer.log("Ongoing")) == 3


async def test_no_partitions_begin_a_transaction(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.name,
        v3_and_below_producer_id=producer.id[0],
        v3_and_below_producer_epoch=producer.id[1],
    )
    assert (await kafka.ask(request, 3)).results_by_topic_v3_and_below == []
    assert (await producer.state()).transaction_state == "Ongoing"


async def test_where_one_partition_can_not_be_added_none_is(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    not_tried, unknown = Err.OPERATION_NOT_ATTEMPTED, Err.UNKNOWN_TOPIC_OR_PARTITION
    assert await producer.add(("t0", 0), ("t0", 9)) == {("t0", 0): not_tried, ("t0", 9): unknown}
    assert await producer.add(("nowhere", 0)) == {("nowhere", 0): unknown}
    refused = Err.TOPIC_AUTHORIZATION_FAILED
    assert await producer.add(("__consumer_offsets", 0)) == {("__consumer_offsets", 0): refused}
    assert (await producer.state()).transaction_state == "Empty"


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_partitions_of_another_producer(kafka: Kafka, version: int) -> None:
    producer = await Producer(kafka).begin()
    await producer.init()
    fenced = FENCED if version >= 2 else INVALID_EPOCH
    assert await producer.add_one(producer.epoch(-1), version) is fenced
    assert await producer.add_one(producer.epoch(1), version) is fenced
    assert await producer.add_one((99_999, 0), version) is NO_MAPPING
    nobody = Producer(kafka)
    nobody.name = producer.neighbour()
    assert await nobody.add_one((0, 0), version) is NO_MAPPING
    assert await nobody.offsets("g", own=(0, 0), version=version) is NO_MAPPING
    assert await nobody.end(own=(0, 0), version=version) is NO_MAPPING
    assert (await nobody.state()).error_code == Err.TRANSACTIONAL_ID_NOT_FOUND
    nobody.name = ""
    assert await nobody.add_one((0, 0), version) is Err.INVALID_REQUEST
    assert await nobody.offsets("g", own=(0, 0), version=version) is Err.INVALID_REQUEST
    assert await nobody.end(own=(0, 0), version=version) is Err.INVALID_REQUEST
    assert (await nobody.init())[0] is Err.INVALID_REQUEST


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_offsets_of_another_producer(kafka: Kafka, version: int) -> None:
    producer = await Producer(kafka).begin()
    await producer.init()
    fenced = FENCED if version >= 2 else INVALID_EPOCH
    assert await producer.offsets("g", own=producer.epoch(-1), version=version) is fenced
    assert await producer.offsets("g", own=producer.epoch(1), version=version) is fenced
    assert await producer.offsets("g", own=(99_999, 0), version=version) is NO_MAPPING
    assert await producer.offsets("", version=version) is NONE
    assert await producer.offsets("g", version=version) is NONE
    await producer.log("Ongoing")


@new_flow
async def test_brokers_ask_whether_partitions_are_in_a_transaction(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    await producer.add(("t0", 0))
    at = ("t0", 0), ("t0", 1)
    for version in (4, 5):
        asked = [
            producer.asks(*at),
            producer.asks(*at, own=producer.epoch(-1)),
            producer.asks(*at, own=producer.epoch(1)),
            producer.asks(*at, own=(99_999, 0)),
            replace(producer.asks(*at), transactional_id=producer.neighbour()),
            replace(producer.asks(*at), transactional_id=""),
            producer.asks(),
            producer.asks(("t0", 9)),
        ]
        for one in asked:
            await kafka.ask(AddPartitionsToTxnRequest([one]), version)
    await kafka.ask(AddPartitionsToTxnRequest([producer.asks(("t1", 0), verify=False)]), 5)
    rows = await producer.log("Ongoing")
    assert [(row["client_version"], len(row["partitions"] or [])) for row in rows] == [(0, 0), (0, 1), (2, 2)]


# --- EndTxn -----------------------------------------------------------------------------------------------------------

OLD_FLOW = {
    ("Empty", True): INVALID_STATE,
    ("Empty", False): INVALID_STATE,
    ("Ongoing", True): NONE,
    ("Ongoing", False): NONE,
    ("CompleteCommit", True): NONE,
    ("CompleteCommit", False): INVALID_STATE,
    ("CompleteAbort", True): INVALID_STATE,
    ("CompleteAbort", False): NONE,
}


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("state", ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"])
async def test_the_end_of_a_transaction_by_old_clients(kafka: Kafka, state: str, commit: bool) -> None:
    producer = Producer(kafka)
    await producer.reach(state, newest(kafka))
    assert await producer.end(commit, version=newest(kafka)) is OLD_FLOW[state, commit]
    await producer.log(state if state != "Ongoing" else "CompleteCommit" if commit else "CompleteAbort")


@new_flow
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("state", ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"])
async def test_the_end_of_a_transaction_by_new_clients(kafka: Kafka, state: str, commit: bool) -> None:
    producer = Producer(kafka)
    await producer.reach(state, 5)
    epoch = producer.id[1]
    ended = await producer.end(commit, version=5)
    assert ended is (INVALID_STATE if commit and state != "Ongoing" else NONE)
    assert producer.id[1] == epoch + (ended is NONE)
    await producer.log("CompleteCommit" if commit and ended is NONE else "CompleteAbort" if ended is NONE else state)


@new_flow
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("state", ["CompleteCommit", "CompleteAbort"])
async def test_the_end_of_a_transaction_that_is_sent_once_more(kafka: Kafka, state: str, commit: bool) -> None:
    producer = Producer(kafka)
    await producer.reach(state, 5)
    before = producer.epoch(-1)
    again = (state == "CompleteCommit") is commit
    assert await producer.end(commit, own=before, version=5) is (NONE if again else INVALID_STATE)
    assert await producer.end(commit, own=before, version=4) is FENCED


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_the_end_of_another_s_transaction(kafka: Kafka, version: int) -> None:
    producer = await Producer(kafka).begin()
    await producer.init()
    fenced = FENCED if version >= 2 else INVALID_EPOCH
    assert await producer.end(own=producer.epoch(-1), version=version) is fenced
    assert await producer.end(own=producer.epoch(1), version=version) is fenced
    assert await producer.end(own=(99_999, 0), version=version) is NO_MAPPING


@new_flow
async def test_the_end_of_another_s_transaction_by_new_clients(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    await producer.init()
    assert await producer.end(own=producer.epoch(-1), version=5) is FENCED
    assert await producer.end(own=producer.epoch(1), version=5) is FENCED
    assert await producer.end(own=(99_999, 0), version=5) is NO_MAPPING


# --- fencing, time ----------------------------------------------------------------------------------------------------


async def test_a_second_instance_ends_the_first_one_s_transaction(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    await producer.add()
    zombie = producer.id
    assert (await producer.init())[0] is Err.CONCURRENT_TRANSACTIONS
    await producer.until("CompleteAbort")
    assert await producer.init() == (NONE, 2)
    rows = await producer.log("Empty")
    assert [(row["state"], row["epoch"]) for row in rows] == [
        ("Empty", 0),
        ("Ongoing", 0),
        ("PrepareAbort", 1),
        ("CompleteAbort", 1),
        ("Empty", 2),
    ]
    assert await producer.add_one(zombie) is FENCED
    assert await producer.end(own=zombie, version=newest(kafka)) is FENCED
    assert await producer.offsets("g", own=zombie) is FENCED
    assert (await producer.init(zombie))[0] is FENCED


async def test_the_first_instance_comes_between_its_fence_and_the_second(kafka: Kafka) -> None:
    """4.x ends the transaction in the new flow, which remembers the epoch before: the first instance gets in once more."""
    producer = await Producer(kafka).begin()
    await producer.add()
    zombie = producer.id
    assert (await producer.init())[0] is Err.CONCURRENT_TRANSACTIONS
    await producer.until("CompleteAbort")
    assert await producer.init(zombie) == kafka.pick(old=(FENCED, -1), new=(NONE, 1))
    await producer.state()
    await producer.log()


async def test_an_init_with_any_epoch_of_the_producer_ends_its_transaction(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    await producer.init()
    await producer.add()
    assert (await producer.init(producer.epoch(-1)))[0] is Err.CONCURRENT_TRANSACTIONS
    await producer.log("CompleteAbort")


async def test_a_transaction_that_takes_too_long_is_aborted(kafka: Kafka) -> None:
    producer = await Producer(kafka, timeout_ms=300).begin()
    await producer.add()
    late = producer.id
    await producer.until("CompleteAbort")
    assert (await producer.state()).producer_epoch == late[1] + 1
    assert await producer.add_one(late) is FENCED
    assert await producer.end(own=late, version=newest(kafka)) is FENCED
    assert await producer.end(False, own=late, version=newest(kafka)) is FENCED
    assert await producer.init(late) == kafka.pick(old=(FENCED, -1), new=(NONE, 1))  # KIP-588, as far as it works
    await producer.log()


@new_flow
async def test_who_ends_a_transaction_that_took_too_long(kafka: Kafka) -> None:
    producer = await Producer(kafka, timeout_ms=300).begin()
    await producer.add()
    late = producer.id
    await producer.until("CompleteAbort")
    assert await producer.end(own=late, version=5) is INVALID_STATE
    assert await producer.end(False, own=late, version=5) is NONE


# --- what is told -----------------------------------------------------------------------------------------------------


async def test_transactions_are_described(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    await producer.state()
    await producer.add(("t0", 1), ("t1", 0))
    row = await producer.state()
    assert (row.transaction_state, row.transaction_timeout_ms, row.transaction_start_time_ms > 0) == (
        "Ongoing",
        60_000,
        True,
    )
    await producer.end(version=newest(kafka))
    await producer.until("CompleteCommit")
    assert (await producer.state()).topics == []
    await producer.init()
    assert ((await producer.state()).transaction_start_time_ms > 0) is kafka.pick(old=True, new=False)


async def test_unknown_ids_are_not_described(kafka: Kafka) -> None:
    producer = await Producer(kafka).begin()
    answer = await kafka.ask(DescribeTransactionsRequest([""]), 0)
    assert answer.transaction_states[0].error_code == Err.INVALID_REQUEST
    assert (await producer.state()).error_code == NONE


async def _lasts_a_millisecond(kafka: Kafka, name: str) -> None:
    """A transaction of the same millisecond does not last longer than 0 ms."""
    give_up = clock_s() + GIVE_UP_S
    while True:
        answer = await kafka.watch(ListTransactionsRequest(duration_filter=0), 1)
        if name in [one.transactional_id for one in answer.transaction_states]:
            return
        assert clock_s() < give_up, f"{name} does not last for a millisecond: {answer}"


async def test_transactions_are_listed(kafka: Kafka) -> None:
    open_, idle = await Producer(kafka, "open").begin(), await Producer(kafka, "idle").begin()
    await open_.add()

    async def listed(version: int = 0, **filters: object) -> list[str]:
        answer = await kafka.ask(ListTransactionsRequest(**filters), version)  # type: ignore[arg-type]
        assert answer.error_code == NONE
        return sorted(one.transactional_id for one in answer.transaction_states if kafka.owns(one.transactional_id))

    assert await listed() == sorted([open_.name, idle.name])
    assert await listed(state_filters=["Ongoing"]) == [open_.name]
    assert await listed(state_filters=["bogus", "Empty"]) == [idle.name]
    assert await listed(state_filters=["ongoing"]) == []
    assert await listed(state_filters=["Dead", "PrepareEpochFence"]) == []
    assert await listed(producer_id_filters=[idle.id[0]]) == [idle.name]
    if kafka.old:
        return
    await _lasts_a_millisecond(kafka, open_.name)
    assert await listed(1, duration_filter=0) == sorted([open_.name, idle.name])
    assert await listed(1, duration_filter=100_000) == [idle.name]  # it began at -1
    assert await listed(2, transactional_id_pattern=f"{kafka.group}-o.*") == [open_.name]
    assert await listed(2, transactional_id_pattern=f"{kafka.group}-o") == []
    assert await listed(2, transactional_id_pattern="") == sorted([open_.name, idle.name])
    for pattern in ("[a", "a(?=b)", r"(a)\1"):
        answer = await kafka.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        assert answer.error_code == Err.INVALID_REGULAR_EXPRESSION
