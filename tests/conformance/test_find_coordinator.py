"""FindCoordinator and the versions that a broker takes and refuses (2.0)."""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from tests.conformance.driver import Kafka

GROUP_APIS = {8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47}


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_s2_1_one_group(kafka: Kafka, version: int) -> None:
    answer = await kafka.ask(FindCoordinatorRequest(kafka.group), version)
    assert (answer.error_code, answer.node_id, answer.host) == (Err.NONE, 1, "127.0.0.1")
    assert f"{answer.host}:{answer.port}" == kafka.brokers[1]
    assert answer.error_message == ("NONE" if version else "")


async def test_s2_1_several_groups_in_one_request(kafka: Kafka) -> None:
    keys = [kafka.name("a"), kafka.name("b"), kafka.name("a")]
    answer = await kafka.ask(FindCoordinatorRequest(coordinator_keys=keys), 4)
    assert [item.key for item in answer.coordinators] == keys
    assert {(item.error_code, item.node_id, item.error_message) for item in answer.coordinators} == {(0, 1, "")}


async def test_s2_1_no_keys(kafka: Kafka) -> None:
    assert (await kafka.ask(FindCoordinatorRequest(), 4)).coordinators == []


async def test_s2_1_empty_group_id(kafka: Kafka) -> None:
    answer = await kafka.ask(FindCoordinatorRequest(coordinator_keys=[""]), 4)
    assert answer.coordinators[0].error_code == Err.NONE


@pytest.mark.parametrize("version", [1, 3])
async def test_s2_1_unknown_key_type(kafka: Kafka, version: int) -> None:
    answer = await kafka.ask(FindCoordinatorRequest(kafka.group, key_type=7), version)
    assert answer.error_code == Err.INVALID_REQUEST
    assert (answer.node_id, answer.host, answer.port) == (-1, "", -1)


async def test_s2_1_unknown_key_type_v4(kafka: Kafka) -> None:
    answer = await kafka.ask(FindCoordinatorRequest(key_type=7, coordinator_keys=["a", "b"]), 4)
    errors = [(item.key, item.error_code, item.node_id, item.host, item.port) for item in answer.coordinators]
    assert errors == [("a", Err.INVALID_REQUEST, -1, "", -1), ("b", Err.INVALID_REQUEST, -1, "", -1)]


async def test_s2_1_share_keys_need_v6(kafka: Kafka) -> None:
    answer = await kafka.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=["g:topic:0"]), 4)
    assert answer.coordinators[0].error_code == Err.INVALID_REQUEST


async def test_s2_1_v5_and_v6_of_4_1(kafka: Kafka) -> None:
    for version in (5, 6):
        wire = await kafka.wire()
        request = FindCoordinatorRequest(coordinator_keys=[kafka.group])
        if kafka.old:
            wire.start(request, version)
            await wire.closed()
        else:
            answer = await wire.send(request, version)
            assert answer.coordinators[0].error_code == Err.NONE


async def test_s2_1_asking_creates_no_group(kafka: Kafka) -> None:
    await kafka.ask(FindCoordinatorRequest(kafka.group), 0)
    assert (await kafka.describe()).group_state == "Dead"


# ---- versions


async def test_s2_0_versions_of_the_group_apis(kafka: Kafka) -> None:
    wire = await kafka.wire(record=False)
    answer = await wire.send(ApiVersionsRequest("test", "1"), 3)
    ranges = {item.api_key: (item.min_version, item.max_version) for item in answer.api_keys}
    old = {8: (0, 8), 9: (0, 8), 10: (0, 4), 11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 5), 16: (0, 4)}
    new = {8: (2, 9), 9: (1, 9), 10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5)}
    both = {42: (0, 2), 47: (0, 0)}
    assert {key: ranges[key] for key in GROUP_APIS} == {**kafka.pick(old=old, new=new), **both}


@pytest.mark.parametrize("key", sorted(GROUP_APIS))
async def test_s2_0_too_new_a_version_closes_the_connection(kafka: Kafka, key: int) -> None:
    wire = await kafka.wire(record=False)
    wire.write_raw(frame(encode_request_header(key, 99, 1, "test") + b"\0" * 20))
    await wire.closed()


async def test_173_unknown_api_closes_the_connection(kafka: Kafka) -> None:
    wire = await kafka.wire(record=False)
    wire.write_raw(frame(encode_request_header(999, 0, 1, "test") + b"\0" * 20))
    await wire.closed()


async def test_s2_0_unknown_version_of_api_versions_is_answered_as_v0(kafka: Kafka) -> None:
    wire = await kafka.wire(record=False)
    wire.write_raw(frame(encode_request_header(18, 99, 1234, "test") + b"\0" * 8))
    answer = await wire.next_frame()
    assert int.from_bytes(answer[:4], "big") == 1234
    assert int.from_bytes(answer[4:6], "big") == Err.UNSUPPORTED_VERSION
    assert not wire.is_closed


async def test_s2_0_answers_of_one_connection_come_in_order(kafka: Kafka) -> None:
    wire = await kafka.wire()
    futures = [wire.start(FindCoordinatorRequest(kafka.name(str(number))), 0) for number in range(20)]
    done: list[int] = []
    for number, future in enumerate(futures):
        future.add_done_callback(lambda _, number=number: done.append(number))
    for future in futures:
        assert (await future).error_code == Err.NONE
    assert done == sorted(done)


async def test_s2_0_parked_request_holds_back_the_next_of_its_connection(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    behind = m1.wire.start(FindCoordinatorRequest(kafka.group), 0)
    assert await m2.heartbeat() == Err.REBALANCE_IN_PROGRESS
    assert not behind.done()
    await m2.join()
    await parked
    assert (await behind).error_code == Err.NONE
