"""SASL on connections: the order of requests, what comes of a failure, the end of a session, and what is seen of it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.authentication.client import client_tokens
from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from tests.authentication.exchange import ALICE, ALL_MECHANISMS, authenticate, handshake, jwt, secured, token
from tests.support.bearer_tokens import bearer
from tests.support.wire import Wire, WireClosedError

DELAY = "connection.failed.authentication.delay.ms"
ALL = ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256"]
"""The mechanisms that are enabled where nothing is said."""
VERSIONS = ApiVersionsRequest("test", "1")


PATIENT = "10m"


@pytest.fixture
async def kafka() -> AsyncIterator[Cluster]:
    async with secured(topics=["orders"]) as cluster:
        yield cluster


@pytest.fixture
async def wire(kafka: Cluster) -> AsyncIterator[Wire]:
    connection = await Wire.connect(kafka.bootstrap, client_id="app")
    yield connection
    await connection.close()


async def serves(wire: Wire) -> bool:
    """Whether the connection is served as an authenticated one."""
    return [broker.node_id for broker in (await wire.send(MetadataRequest(), 9)).brokers] == [1]


async def is_cut_off(wire: Wire, *requests: tuple[object, int]) -> None:
    """The last of these requests closes the connection, and gets no answer."""
    for request, version in requests[:-1]:
        await wire.send(request, version)
    with pytest.raises(WireClosedError):
        await wire.send(*requests[-1])


@pytest.mark.parametrize("mechanism", ALL)
async def test_an_authenticated_client_is_served(wire: Wire, mechanism: str) -> None:
    assert (await wire.send(VERSIONS, 3)).error_code == 0
    answer = await authenticate(wire, mechanism=mechanism)
    assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, "", 0)
    assert await serves(wire)


async def test_the_handshake_lists_what_is_enabled(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    answer = await handshake(wire, "GSSAPI")
    assert (answer.error_code, answer.mechanisms) == (Err.UNSUPPORTED_SASL_MECHANISM, ALL)
    await wire.closed()
    [line] = caplog.messages
    assert "(client id app): SASL mechanism GSSAPI is not enabled (sasl.enabled.mechanisms: PLAIN, SCRAM-" in line


async def test_a_token_without_signature_is_accepted_only_where_oauthbearer_is_named() -> None:
    claims = {"sub": "alice", "exp": 9e9}
    for config, code in (({}, Err.UNSUPPORTED_SASL_MECHANISM), (ALL_MECHANISMS, Err.NONE)):
        async with secured(config=config) as cluster:
            wire = await Wire.connect(cluster.bootstrap)
            assert (await handshake(wire, "OAUTHBEARER")).error_code == code
            if code == Err.NONE:
                assert (await token(wire, bearer(jwt(claims)))).error_code == 0
                assert await serves(wire)
            await wire.close()


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ([(MetadataRequest(), 9)], "Metadata before SaslHandshake; the listener's security.protocol is SASL_PLAINTEXT"),
        ([(HeartbeatRequest("g", 1, "m"), 4)], "Heartbeat before SaslHandshake; the listener's security.protocol is"),
        ([(VERSIONS, 3), (MetadataRequest(), 9)], "Metadata before SaslHandshake"),
        ([(VERSIONS, 3), (VERSIONS, 3)], "ApiVersions before SaslHandshake"),
    ],
)
async def test_what_comes_before_the_handshake_closes_the_connection(
    wire: Wire, caplog: pytest.LogCaptureFixture, requests: list[tuple[object, int]], reason: str
) -> None:
    await is_cut_off(wire, *requests)
    [line] = caplog.messages
    assert reason in line


async def test_api_versions_may_be_asked_for_again_after_an_error(wire: Wire) -> None:
    assert (await wire.send(ApiVersionsRequest("a b", "1"), 3)).error_code == Err.INVALID_REQUEST
    assert (await wire.send(VERSIONS, 3)).error_code == 0
    assert (await authenticate(wire)).error_code == 0


async def test_another_request_within_the_exchange_gets_an_error_and_ends_it(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    await handshake(wire)
    answer = await wire.send(HeartbeatRequest("g", 1, "m"), 4)
    assert answer.error_code == Err.ILLEGAL_SASL_STATE
    await wire.closed()
    [line] = caplog.messages
    assert "Heartbeat between SaslHandshake and SaslAuthenticate" in line


async def test_a_failure_is_answered_without_its_reason_which_the_log_has(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await authenticate(wire, password="guess", mechanism="SCRAM-SHA-512")
    told = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
    assert (answer.error_code, answer.error_message) == (Err.SASL_AUTHENTICATION_FAILED, told)
    await wire.closed()
    [line] = caplog.messages
    assert line.endswith("(client id app): authentication failed: wrong password of user 'alice'")
    assert "guess" not in line


async def test_a_failure_is_answered_after_the_delay_and_frames_behind_it_are_not_handled() -> None:
    """By the client's clock, which goes on while the brokers' stands still."""
    async with secured(config={DELAY: 20}) as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        await handshake(wire)
        refused = wire.start(SaslAuthenticateRequest(b"\0alice\0no"), 2)
        behind = wire.start(MetadataRequest(), 9)
        assert (await refused).error_code == Err.SASL_AUTHENTICATION_FAILED
        with pytest.raises(WireClosedError):
            await behind
        await wire.close()


async def test_a_client_that_leaves_before_the_answer_to_its_failure() -> None:
    async with secured(config={DELAY: 2**31 - 1}) as kafka:
        journal = kafka.observe()
        wire = await Wire.connect(kafka.bootstrap)
        await handshake(wire)
        came = journal.next("SaslAuthenticate", timeout=PATIENT)
        left = journal.next(event="connection", action="closed", timeout=PATIENT)
        refused = wire.start(SaslAuthenticateRequest(b"\0alice\0no"), 2)
        await came
        await wire.close()
        await left
        assert refused.cancelled()


async def test_a_changed_password_holds_from_the_next_authentication_on(kafka: Cluster, wire: Wire) -> None:
    await authenticate(wire)
    kafka.security.users["alice"] = "rotated"
    kafka.security.users["bob"] = "new"
    assert await serves(wire)
    for user, password, error in (
        ("alice", "secret", Err.SASL_AUTHENTICATION_FAILED),
        ("alice", "rotated", Err.NONE),
        ("bob", "new", Err.NONE),
    ):
        other = await Wire.connect(kafka.bootstrap)
        assert (await authenticate(other, user, password)).error_code == error
        await other.close()


async def test_on_an_authenticated_connection_both_requests_are_refused(wire: Wire) -> None:
    await authenticate(wire)
    assert (await handshake(wire)).error_code == Err.ILLEGAL_SASL_STATE
    answer = await token(wire, b"\0alice\0secret")
    told = "SaslAuthenticate request received after successful authentication"
    assert (answer.error_code, answer.error_message) == (Err.ILLEGAL_SASL_STATE, told)
    assert await serves(wire)


# --- sessions that end ------------------------------------------------------------------------------------------------


@pytest.fixture
async def sessions() -> AsyncIterator[Cluster]:
    """Cluster whose sessions last 30 s."""
    async with secured(ALICE | {"bob": "x"}, {"connections.max.reauth.ms": 30_000, **ALL_MECHANISMS}) as cluster:
        yield cluster


def let_the_clients_clock_follow(kafka: Cluster) -> None:
    """A second since the authentication is measured by the clients' clock: here by the brokers', which the test advances."""
    sasl = kafka.security.sasl
    assert sasl is not None
    object.__setattr__(sasl, "client_ms", sasl.now_ms)


@pytest.mark.parametrize(("version", "lifetime_ms"), [(0, 0), (1, 30_000), (2, 30_000)])
async def test_the_answer_says_how_long_the_session_lasts(sessions: Cluster, version: int, lifetime_ms: int) -> None:
    wire = await Wire.connect(sessions.bootstrap)
    assert (await authenticate(wire, version=version)).session_lifetime_ms == lifetime_ms
    await wire.close()


async def test_after_the_end_of_its_session_the_next_request_closes_the_connection(
    sessions: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await Wire.connect(sessions.bootstrap)
    await authenticate(wire)
    beat = HeartbeatRequest("g", 1, "m"), 4
    for _ in range(3):  # a repeated one is looked at as every other
        assert (await wire.send(*beat)).error_code == Err.NOT_COORDINATOR
    await sessions.time.advance("29999ms")
    assert (await wire.send(*beat)).error_code == Err.NOT_COORDINATOR
    await sessions.time.advance("1ms")
    await is_cut_off(wire, beat)
    await wire.close()
    [line] = caplog.messages
    assert "the session of user 'alice' has expired, and the client did not authenticate again" in line


async def test_a_client_that_authenticates_again_in_time_goes_on(sessions: Cluster) -> None:
    let_the_clients_clock_follow(sessions)
    wire = await Wire.connect(sessions.bootstrap)
    for _ in range(4):
        assert (await authenticate(wire, mechanism="SCRAM-SHA-256")).session_lifetime_ms == 30_000
        await sessions.time.advance("25s")
        assert await serves(wire)
    await sessions.time.advance("20s")
    assert (await authenticate(wire, mechanism="SCRAM-SHA-256")).error_code == 0, "after the end, too"
    assert await serves(wire)
    await wire.close()


async def test_not_within_a_second_of_the_last_time_that_it_began(sessions: Cluster) -> None:
    let_the_clients_clock_follow(sessions)
    wire = await Wire.connect(sessions.bootstrap)
    await authenticate(wire)
    assert (await authenticate(wire)).error_code == 0, "the first time at once"
    await sessions.time.advance("999ms")
    assert (await handshake(wire)).error_code == Err.ILLEGAL_SASL_STATE
    await sessions.time.advance("1ms")
    assert (await authenticate(wire)).error_code == 0
    await wire.close()


@pytest.mark.parametrize(
    ("user", "password", "shown"),
    [
        ("bob", "x", "Cannot change principals during re-authentication from User.alice: User.bob"),
        ("alice", "no", "Authentication failed: Invalid username or password"),
    ],
)
async def test_not_as_another_user_nor_with_another_password(
    sessions: Cluster, user: str, password: str, shown: str
) -> None:
    wire = await Wire.connect(sessions.bootstrap)
    await authenticate(wire)
    answer = await authenticate(wire, user, password)
    assert (answer.error_code, answer.error_message) == (Err.SASL_AUTHENTICATION_FAILED, shown)
    await wire.closed()
    await wire.close()


async def test_not_by_another_mechanism(sessions: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    wire = await Wire.connect(sessions.bootstrap)
    await authenticate(wire)
    assert (await handshake(wire, "SCRAM-SHA-256")).error_code == 0
    await is_cut_off(wire, (SaslAuthenticateRequest(b"n,,n=alice,r=abc"), 2))
    await wire.close()
    [line] = caplog.messages
    assert "user 'alice' may not authenticate again with another SASL mechanism than PLAIN" in line


async def test_a_token_s_end_is_the_session_s_where_that_is_sooner(sessions: Cluster) -> None:
    now_ms = sessions.time.now_ms()
    for seconds, lifetime_ms in ((10, 10_000), (60, 30_000)):
        wire = await Wire.connect(sessions.bootstrap)
        await handshake(wire, "OAUTHBEARER")
        answer = await token(wire, bearer(jwt({"sub": "carol", "exp": now_ms / 1000 + seconds})))
        assert (answer.error_code, answer.session_lifetime_ms) == (0, lifetime_ms)
        await wire.close()


# --- SaslHandshake of version 0 ---------------------------------------------------------------------------------------


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@pytest.mark.parametrize("mechanism", ALL)
async def test_after_version_0_tokens_have_no_header(kafka: Cluster, mechanism: str) -> None:
    host, _, port = kafka.bootstrap.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    name = mechanism.encode()
    writer.write(sized(struct.pack(">hhih", 17, 0, 7, -1) + struct.pack(">h", len(name)) + name))
    answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    assert answer[:6] == struct.pack(">ih", 7, 0)
    tokens = client_tokens(mechanism, "alice", "secret")
    data = next(tokens)
    while True:
        for byte in sized(data):  # as slowly as can be
            writer.write(bytes([byte]))
            await writer.drain()
        reply = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        try:
            data = tokens.send(reply)
        except StopIteration:
            break
    writer.write(
        sized(struct.pack(">hhih", 12, 0, 8, -1) + struct.pack(">h", 1) + b"g" + struct.pack(">ih", 1, 1) + b"m")
    )
    answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    assert struct.unpack(">ih", answer) == (8, Err.NOT_COORDINATOR)
    writer.close()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (sized(b"\0alice\0no"), "wrong password of user 'alice'"),
        (b"\x7f\xff\xff\xff", "a SASL token of 2147483647 bytes; expected 0 to 524288"),
        (b"\xff\xff\xff\xff", "a SASL token of -1 bytes; expected 0 to 524288"),
    ],
)
async def test_a_failure_after_version_0_has_no_answer(
    wire: Wire, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str
) -> None:
    await wire.send(SaslHandshakeRequest("PLAIN"), 0)
    wire.write_raw(sent)
    await wire.closed()
    [line] = caplog.messages
    assert reason in line


async def fails_raw(kafka: Cluster, mechanism: str, sent: bytes, caplog: pytest.LogCaptureFixture) -> Wire:
    """A client whose bytes behind SaslHandshake of version 0 are refused: what happens at once has happened."""
    wire = await Wire.connect(kafka.bootstrap)
    await wire.send(SaslHandshakeRequest(mechanism), 0)
    caplog.clear()
    wire.write_raw(sent)
    async with asyncio.timeout(60):
        while not caplog.messages:
            await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    return wire


@pytest.mark.parametrize(
    ("mechanism", "sent", "is_delayed"),
    [
        ("PLAIN", sized(b"\0alice\0no"), True),
        ("PLAIN", sized(b"\0nobody\0no"), True),
        ("PLAIN", sized(b"bob\0alice\0secret"), True),
        ("PLAIN", b"\x7f\xff\xff\xff", True),
        ("PLAIN", b"\xff\xff\xff\xff", True),
        ("SCRAM-SHA-256", sized(b"n,a=bob,n=alice,r=abc"), True),
        ("SCRAM-SHA-256", sized(b"n,,n=nobody,r=abc"), False),
        ("SCRAM-SHA-256", sized(b"no message"), False),
        ("OAUTHBEARER", sized(bearer(jwt({"sub": "carol", "exp": 9e9}), gs2="n,a=bob,")), True),
        ("OAUTHBEARER", sized(b"no message"), False),
        ("OAUTHBEARER", sized(bearer(jwt({"sub": "carol", "exp": 9e9}), scheme="Basic")), False),
    ],
)
async def test_a_failure_after_version_0_is_delayed_as_one_with_an_answer(
    caplog: pytest.LogCaptureFixture, mechanism: str, sent: bytes, is_delayed: bool
) -> None:
    """Measured on 3.4.0, 4.1.0 and 4.4.0: what Kafka has as SaslException closes at once, as an error of the network."""
    async with secured(config={DELAY: 2**31 - 1, **ALL_MECHANISMS}) as kafka:
        wire = await fails_raw(kafka, mechanism, sent, caplog)
        assert bool(kafka.servers[0].connections) is is_delayed
        if is_delayed:
            wire.write_raw(sized(b"\0alice\0secret") + b"\xff\xff\xff\xff")
        await wire.close()
        async with asyncio.timeout(60):
            while kafka.servers[0].connections:
                await asyncio.sleep(0)
        assert len(caplog.messages) == 1, "nothing behind the failure is read"


async def test_a_failure_after_version_0_closes_after_the_delay(caplog: pytest.LogCaptureFixture) -> None:
    async with secured(config={DELAY: 20}) as kafka:
        wire = await fails_raw(kafka, "PLAIN", sized(b"\0alice\0no"), caplog)
        await wire.closed()
        await wire.close()


@pytest.mark.parametrize("size", [-1, 524_289, 2**31 - 1, int.from_bytes(b"GET ", "big")])
async def test_a_frame_of_an_invalid_size_is_a_failed_authentication(
    caplog: pytest.LogCaptureFixture, size: int
) -> None:
    """Played with 4.1.0: InvalidReceiveException is a SaslAuthenticationException there, which is delayed."""
    async with secured(config={DELAY: 2**31 - 1}) as kafka:
        journal = kafka.observe()
        wire = await Wire.connect(kafka.bootstrap)
        refused = journal.next(event="connection", action="refused", timeout=PATIENT)
        wire.write_raw(struct.pack(">i", size) + b"\xff\xff\xff\xff")
        assert (await refused).reason.startswith(f"a frame of {size} bytes; expected 10 to 524288")
        assert kafka.servers[0].connections, "it is closed after the delay"
        left = journal.next(event="connection", action="closed", timeout=PATIENT)
        await wire.close()
        await left
    assert len(caplog.messages) == 1, "nothing behind it is read"


async def test_a_connection_with_a_frame_of_an_invalid_size_is_closed_after_the_delay() -> None:
    async with secured(config={DELAY: 20}) as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        wire.write_raw(struct.pack(">i", -1))
        await wire.closed()
        await wire.close()


@pytest.mark.parametrize("size", [0, 9])
async def test_a_frame_that_is_too_short_closes_the_connection_at_once(size: int) -> None:
    async with secured(config={DELAY: 2**31 - 1}) as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        wire.write_raw(struct.pack(">i", size) + bytes(size))
        await wire.closed()
        await wire.close()


async def test_an_authenticated_connection_is_closed_at_once_for_a_frame_of_an_invalid_size() -> None:
    async with secured(config={DELAY: 2**31 - 1}) as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        await authenticate(wire)
        wire.write_raw(struct.pack(">i", -1))
        await wire.closed()
        await wire.close()


async def test_a_client_that_leaves_between_handshake_and_token(kafka: Cluster) -> None:
    journal = kafka.observe()
    wire = await Wire.connect(kafka.bootstrap)
    left = journal.next(event="connection", action="closed", timeout=PATIENT)
    await wire.send(SaslHandshakeRequest("PLAIN"), 0)
    await wire.close()
    await left
    assert kafka.servers[0].connections == {}


# --- what is seen -----------------------------------------------------------------------------------------------------


async def test_the_journal_has_no_password(kafka: Cluster) -> None:
    journal = kafka.observe()
    wire = await Wire.connect(kafka.bootstrap)
    await authenticate(wire)
    await wire.close()
    [request] = [event for event in journal.events if event.get("api") == "SaslAuthenticate" and "body" in event][:1]
    assert request["body"] == {"auth_bytes": {"bytes": len(b"\0alice\0secret")}}


async def test_a_rule_makes_an_authentication_fail(kafka: Cluster) -> None:
    with kafka.fault("SaslAuthenticate", error="SASL_AUTHENTICATION_FAILED", times=1) as rule:
        first = await Wire.connect(kafka.bootstrap)
        assert (await authenticate(first)).error_code == Err.SASL_AUTHENTICATION_FAILED
        await first.close()
        second = await Wire.connect(kafka.bootstrap)
        assert (await authenticate(second)).error_code == 0
        await second.close()
    assert rule.hits == 1


async def test_a_broker_describes_its_listener(kafka: Cluster, wire: Wire) -> None:
    await authenticate(wire)
    keys = ["listeners", "listener.security.protocol.map", "sasl.enabled.mechanisms"]
    answer = await wire.send(DescribeConfigsRequest([DescribeConfigsResource(4, "1", keys)]), 4)
    values = {config.name: config.value for config in answer.results[0].configs}
    assert values == {
        "listeners": f"SASL_PLAINTEXT://{kafka.bootstrap}",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(ALL),
    }
