"""TLS on connections: the handshake and its failures, a broker that goes down meanwhile; certificates that are made, kept and given."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from broker_sim.api.cluster import Cluster, ClusterError
from broker_sim.authentication.certificates import TlsFiles
from broker_sim.common.text import UsageError
from kafka_wire.messages.k03_metadata import MetadataRequest
from tests.authentication.exchange import ALICE, authenticate
from tests.support.wire import Wire

LARGE = 4_000_000
PATIENT = 600.0


def trusting(kafka: Cluster, client: bool = False) -> ssl.SSLContext:
    """A client's side that trusts the cluster; ``client``: with its certificate."""
    context = ssl.create_default_context(cafile=kafka.security.ca_file)
    if client:
        context.load_cert_chain(kafka.security.client_file)
    return context


async def connect(kafka: Cluster, context: ssl.SSLContext, name: str | None = None) -> Wire:
    """An encrypted connection to the first broker; ``name``: the one that its certificate must have."""
    host, _, port = kafka.bootstrap.split(",")[0].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=name or host)
    return Wire(reader, writer, "app")


async def served(wire: Wire) -> int:
    """Return the number of brokers in a connection's Metadata answer, and close it."""
    brokers = (await wire.send(MetadataRequest(), 9)).brokers
    await wire.close()
    return len(brokers)


async def logged(caplog: pytest.LogCaptureFixture) -> str:
    """The one line that the brokers log."""
    async with asyncio.timeout(PATIENT):
        while not caplog.messages:
            await asyncio.sleep(0)
    [line] = caplog.messages
    return line


async def refused_after_the_handshake(kafka: Cluster, context: ssl.SSLContext) -> None:
    """In TLS 1.3 a client learns with its first read that its certificate is not enough."""
    host, _, port = kafka.bootstrap.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    with pytest.raises(ssl.SSLError, match="ALERT"):
        await reader.readexactly(1)
    writer.close()


@pytest.fixture
async def kafka() -> AsyncIterator[Cluster]:
    async with Cluster(2, topics=["orders"], security_protocol="SSL") as cluster:
        yield cluster


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_a_client_that_trusts_the_authority_is_served(kafka: Cluster, name: str) -> None:
    assert await served(await connect(kafka, trusting(kafka), name)) == 2


async def test_sasl_over_tls() -> None:
    async with Cluster(security_protocol="SASL_SSL", users=ALICE) as kafka:
        wire = await connect(kafka, trusting(kafka))
        assert (await authenticate(wire, mechanism="SCRAM-SHA-512")).error_code == 0
        assert await served(wire) == 1


async def test_many_frames_and_a_large_reply_arrive_whole(kafka: Cluster) -> None:
    wire = await connect(kafka, trusting(kafka))
    for number in range(2000):
        kafka.create_topic(f"topic-{number:04}-{'x' * 200}")
    answers = [wire.start(MetadataRequest(None), 9) for _ in range(8)]
    for answer in answers:
        assert len((await answer).topics) == 2001
    await wire.close()


async def test_a_client_that_does_not_trust_the_authority(kafka: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """The client sends a TLS alert. asyncio's own client hangs up without one, for which there is no line."""

    def handshake() -> None:
        host, _, port = kafka.bootstrap.split(",")[0].rpartition(":")
        with socket.create_connection((host, int(port))) as plain:
            ssl.create_default_context().wrap_socket(plain, server_hostname=host)

    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(handshake)
    assert "TLS handshake: it does not trust the broker's certificate; give it the ca.pem" in await logged(caplog)


async def test_a_client_that_speaks_no_tls(kafka: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    wire = await Wire.connect(kafka.bootstrap)
    answer = wire.start(MetadataRequest(), 9)
    await wire.closed()
    assert "it does not speak TLS; the listener's security.protocol is SSL" in await logged(caplog)
    with pytest.raises(ConnectionError):
        await answer
    await wire.close()


async def test_a_client_certificate_that_is_required(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster(security_protocol="SSL", config={"ssl.client.auth": "required"}) as kafka:
        assert await served(await connect(kafka, trusting(kafka, client=True))) == 1
        await refused_after_the_handshake(kafka, trusting(kafka))
        assert "it has no certificate, and ssl.client.auth is required" in await logged(caplog)


async def test_a_client_certificate_of_another_authority(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    others = TlsFiles(tmp_path / "other")
    others.make(["127.0.0.1"])
    async with Cluster(security_protocol="SSL", config={"ssl.client.auth": "requested"}) as kafka:
        assert await served(await connect(kafka, trusting(kafka))) == 1
        context = trusting(kafka)
        context.load_cert_chain(others.client)
        await refused_after_the_handshake(kafka, context)
        assert "its certificate is not signed by the ca.pem" in await logged(caplog)


@pytest.mark.parametrize(
    ("days", "reason"),
    [
        ((-2, -1), "its certificate has expired"),
        ((1, 2), "its certificate is not yet valid"),
    ],
)
async def test_a_client_certificate_that_is_not_valid_now(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, days: tuple[int, int], reason: str
) -> None:
    authority, now = trustme.CA(), datetime.now(UTC)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    begin, end = (now + timedelta(days=each) for each in days)
    issued = authority.issue_cert("client", not_before=begin, not_after=end)
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    async with Cluster(security_protocol="SSL", tls_dir=tmp_path, config={"ssl.client.auth": "required"}) as kafka:
        context = trusting(kafka)
        context.load_cert_chain(tmp_path / "own.pem")
        await refused_after_the_handshake(kafka, context)
        assert (await logged(caplog)).endswith(f"TLS handshake: {reason}")


@pytest.mark.parametrize("graceful", [True, False])
async def test_a_broker_goes_down_and_comes_back_while_handshakes_go_on(kafka: Cluster, graceful: bool) -> None:
    host, _, port = kafka.bootstrap.split(",")[0].rpartition(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
    whole = await connect(kafka, trusting(kafka))
    async with asyncio.timeout(PATIENT):
        while len(kafka.servers[0].handshakes) < 3:
            await asyncio.sleep(0)
    await kafka.broker_down(1, graceful=graceful)
    assert kafka.servers[0].handshakes == {}
    for reader, writer in silent:
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
    await whole.closed()
    await whole.close()
    await kafka.broker_up(1)
    assert await served(await connect(kafka, trusting(kafka))) == 2


async def test_a_client_that_hangs_up_within_the_handshake_is_not_worth_a_line(
    kafka: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    host, _, port = kafka.bootstrap.split(",")[0].rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(PATIENT):
        while not kafka.servers[0].handshakes:
            await asyncio.sleep(0)
        writer.close()
        while kafka.servers[0].handshakes:
            await asyncio.sleep(0)
    assert caplog.messages == []


# --- certificates -----------------------------------------------------------------------------------------------------


async def test_what_is_made_for_a_run_goes_with_it() -> None:
    async with Cluster(security_protocol="SSL") as kafka:
        directory = Path(kafka.security.ca_file).parent
        assert sorted(path.name for path in directory.iterdir()) == ["ca.pem", "client.pem", "server.pem"]
        assert {path.name: path.stat().st_mode & 0o077 for path in directory.glob("*e*.pem")} == {
            "client.pem": 0,
            "server.pem": 0,
        }
    assert not directory.exists()


async def test_what_is_in_a_directory_is_kept_and_used_again(tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        async with Cluster(security_protocol="SSL", tls_dir=tmp_path / "tls") as kafka:
            assert kafka.security.ca_file == str(tmp_path / "tls" / "ca.pem")
            contents.append({path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()})
            assert await served(await connect(kafka, trusting(kafka))) == 1
    assert contents[0] == contents[1]


async def test_a_key_in_the_place_of_a_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "client.pem").write_text("of an interrupted run")
    async with Cluster(security_protocol="SSL", tls_dir=tmp_path):
        assert (tmp_path / "client.pem").stat().st_mode & 0o777 == 0o600


async def test_certificates_of_one_s_own(tmp_path: Path) -> None:
    """No more than a server.pem."""
    made = TlsFiles(tmp_path / "made")
    made.make(["127.0.0.1"])
    own = tmp_path / "own"
    own.mkdir()
    (own / "server.pem").write_bytes(made.server.read_bytes())
    async with Cluster(security_protocol="SSL", tls_dir=own) as kafka:
        context = ssl.create_default_context(cafile=made.ca)
        assert await served(await connect(kafka, context)) == 1
        assert kafka.security.ca_pem is None
    assert [path.name for path in own.iterdir()] == ["server.pem"]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"server.pem": "abc"}, "server.pem needs a private key and its certificate"),
        ({"ca.pem": "abc"}, "there is a ca.pem without the server.pem that it has signed"),
    ],
)
async def test_files_that_are_no_certificates(tmp_path: Path, files: dict[str, str], told: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ClusterError, match=told):
        await Cluster(security_protocol="SSL", tls_dir=tmp_path).start()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


async def test_a_directory_that_can_t_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ClusterError, match=f"tls_dir {tmp_path}/file/tls: "):
        await Cluster(security_protocol="SSL", tls_dir=tmp_path / "file" / "tls").start()


async def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(ClusterError, match=r"pip install 'broker-sim\[tls\]'"):
        await Cluster(security_protocol="SSL").start()


async def test_the_settings_of_a_client() -> None:
    oauth = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
    async with (
        Cluster() as plain,
        Cluster(security_protocol="SSL") as tls,
        Cluster(security_protocol="SASL_SSL", users=ALICE | {"bob": "x"}) as both,
        Cluster(security_protocol="SASL_PLAINTEXT", config=oauth) as tokens,
    ):
        assert plain.security.client_settings() == {"security.protocol": "PLAINTEXT"}
        assert tls.security.client_settings() == {"security.protocol": "SSL", "ssl.ca.location": tls.security.ca_file}
        settings = {"security.protocol": "SASL_SSL", "ssl.ca.location": both.security.ca_file}
        alice = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}
        bob = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "bob", "sasl.password": "x"}
        assert both.security.client_settings() == settings | alice
        assert both.security.client_settings("bob", "SCRAM-SHA-256") == settings | bob
        with pytest.raises(UsageError, match="no user 'bo'; did you mean 'bob'"):
            both.security.client_settings("bo")
        expected = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
        assert tokens.security.client_settings() == expected
        with pytest.raises(UsageError, match="there are no certificates: security_protocol is SASL_PLAINTEXT"):
            _ = tokens.security.ca_file
