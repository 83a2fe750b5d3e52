"""ApiVersions, and how versions are refused (KIP-511); the expected bytes were read off Kafka 3.4.0 and 4.1.0."""

from __future__ import annotations

import struct

import pytest

from broker_sim.requests.routes import Routes, handler_modules
from kafka_wire.api_keys import KAFKA_VERSIONS
from kafka_wire.errors import Err
from kafka_wire.frame import frame
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse

from .fakes import Bench, request_frame, response_in


def ask(bench: Bench, version: int, name: str = "test", software_version: str = "1.0") -> ApiVersionsResponse:
    connection, transport = bench.connect()
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    connection.data_received(request_frame(request, version, 5))
    ((correlation_id, rest),) = transport.replies()
    assert correlation_id == 5
    response = response_in(ApiVersionsResponse, version, rest, 18)
    assert isinstance(response, ApiVersionsResponse)
    return response


@pytest.mark.parametrize("version", range(5))
async def test_lists_every_api_that_has_a_handler(version: int) -> None:
    bench = Bench()
    response = ask(bench, version)
    assert response.error_code == Err.NONE
    assert [key.api_key for key in response.api_keys] == sorted(bench.routes.supported)
    assert set(bench.routes.supported) <= set(handler_modules())
    own = next(key for key in response.api_keys if key.api_key == 18)
    assert (own.min_version, own.max_version) == (0, 4)


async def test_features_are_those_we_have() -> None:
    response = ask(Bench(), 4)
    assert [(f.name, f.min_version, f.max_version) for f in response.supported_features] == [
        ("group.version", 0, 1),
        ("metadata.version", 7, 27),
        ("share.version", 0, 1),
        ("transaction.version", 0, 2),
    ]
    final = [(f.name, f.min_version_level, f.max_version_level) for f in response.finalized_features]
    assert final == [("group.version", 1, 1), ("metadata.version", 27, 27), ("transaction.version", 2, 2)]
    older = {feature.name: feature.min_version for feature in ask(Bench(), 3).supported_features}
    assert older == {
        "group.version": 1,
        "metadata.version": 7,
        "share.version": 1,
        "transaction.version": 1,
    }  # clients of that time can't read 0
    assert response.finalized_features_epoch >= 0


@pytest.mark.parametrize("as_version", KAFKA_VERSIONS)
async def test_every_release_answers(as_version: str) -> None:
    bench = Bench()
    bench.broker.state.as_version = as_version
    response = ask(bench, 3)
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    assert levels["metadata.version"] >= 8


@pytest.mark.parametrize("version", [5, 99, 32767, -1, -32768])
async def test_an_unknown_version_is_answered_in_v0_with_its_own_range(version: int) -> None:
    bench = Bench()
    connection, transport = bench.connect()
    tags = b"\0" if version >= 3 else b""
    connection.data_received(frame(struct.pack(">hhih", 18, version, 4, 2) + b"me" + tags + b"anything"))
    assert bytes(transport.written) == bytes.fromhex("00000010 00000004 0023 00000001 0012 0000 0004")
    assert not transport.closed


async def test_an_unknown_version_does_not_grow_the_table() -> None:
    bench = Bench()
    connection, _ = bench.connect()
    for version in range(100, 1100):
        connection.data_received(frame(struct.pack(">hhih", 18, version, 4, -1) + b"\0"))
    assert len(bench.routes) == 0


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("-a", "1"), ("a-", "1"), ("a", ""), ("a b", "1"), ("a", "1_0")]
)
async def test_software_that_looks_like_none_is_an_invalid_request(name: str, version: str) -> None:
    bench = Bench()
    connection, transport = bench.connect()
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    connection.data_received(request_frame(request, 3, 5))
    assert bytes(transport.written) == bytes.fromhex("0000000c 00000005 002a 01 00000000 00")


@pytest.mark.parametrize(
    ("name", "version"), [("a", "1"), ("apache-kafka-java", "4.1.0"), ("librdkafka", "2.16.1-a.b")]
)
async def test_software_names_that_clients_send(name: str, version: str) -> None:
    assert ask(Bench(), 4, name, version).error_code == Err.NONE


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, Err.NONE),
        ("mine", 1, Err.NONE),
        ("mine", 2, Err.REBOOTSTRAP_REQUIRED),
        ("other", 1, Err.REBOOTSTRAP_REQUIRED),
        ("", 1, Err.REBOOTSTRAP_REQUIRED),
        ("mine", -2, Err.REBOOTSTRAP_REQUIRED),
        ("mine", -1, Err.INVALID_REQUEST),
        (None, 1, Err.INVALID_REQUEST),
    ],
)
async def test_a_client_may_say_whom_it_means(cluster_id: str | None, node_id: int, error: Err) -> None:
    """Version 5, measured on 4.4.0: a client that an address has led to another broker begins anew at its bootstrap servers."""
    bench = Bench("4.4")
    bench.broker.state.cluster_id = "mine"
    connection, transport = bench.connect()
    request = ApiVersionsRequest("test", "1.0", cluster_id, node_id)
    connection.data_received(request_frame(request, 5, 5))
    ((_, rest),) = transport.replies()
    response = response_in(ApiVersionsResponse, 5, rest, 18)
    assert (response.error_code, bool(response.api_keys)) == (error, error is Err.NONE)


def test_as_version_caps_what_is_supported() -> None:
    assert Routes("3.4").supported[18] == (0, 3)
    assert Routes("4.1").supported[18] == (0, 4)
    assert Routes("4.4").supported[18] == (0, 5)
