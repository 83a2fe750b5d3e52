"""SASL and TLS with the clients of every language, unmodified: they authenticate, and where they are refused their own error says why.

Each test has a broker of its own, for a broker logs the reason of a refusal once; the processes of the clients are shared.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import admin as confluent

from broker_sim import ClusterThread
from tests.clients.clients import CLIENTS, HERE, RUST_BUILD_S, Client, go_program, rust_program
from tests.clients.driver import CALL_S, Driver, Member, eventually
from tests.clients.rig import Garage, Target
from tests.clients.scenarios import Lab
from tests.clients.test_kafka_tools import Tools

pytestmark = [pytest.mark.clients, pytest.mark.timeout(RUST_BUILD_S + 60)]  # rdkafka builds librdkafka first

TOPIC, USER, PASSWORD = "orders", "alice", "secret"
USERS = {USER: PASSWORD}


def sarama() -> list[str]:
    return [go_program("sarama-driver", HERE / "sarama", ["driver/main.go", "driver/security.go"], "./driver")]


def rdkafka() -> list[str]:
    return [rust_program("driver")]


BY_NAME = {client.name: client for client in CLIENTS} | {
    "sarama": Client("sarama", sarama, closed_log="", foreign=True),
    "rdkafka": Client("rdkafka", rdkafka, closed_log="", foreign=True),
}


@dataclass(frozen=True)
class Words:
    """Texts of a client's exception or log when it is refused: with a wrong password, by a broker whose certificate it
    does not trust, without a certificate of its own. Regular expressions."""

    password: str
    untrusted: str
    no_certificate: str


LIBRDKAFKA = Words("SASL authentication error", "certificate could not be verified", "alert certificate required")
JAVA = Words(
    "SaslAuthenticationException", "SslAuthenticationException: SSL handshake failed", "SslAuthenticationException"
)
WORDS = {
    # aiokafka reads no alert
    "aiokafka": Words("SaslAuthenticationFailed", "CERTIFICATE_VERIFY_FAILED", "Connection at .* closed"),
    "kafka-python": Words("SaslAuthenticationFailedError", "CERTIFICATE_VERIFY_FAILED", "CERTIFICATE_REQUIRED"),
    "confluent-kafka": LIBRDKAFKA,
    "rdkafka": LIBRDKAFKA,
    "java-3.4": JAVA,
    "java-4.1": JAVA,
    "franz-go": Words("SASL_AUTHENTICATION_FAILED", "unknown authority", "certificate required"),
    "sarama": Words("SASL Authentication", "unknown authority", "certificate required"),
    "kafkajs": Words("SASL", "certificate", "certificate required"),
}
ALL = pytest.mark.parametrize("client", list(WORDS))


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Garage]:
    """One process of each client, which `Session.connect` points to the broker of a test."""
    garage = Garage(Target("127.0.0.1:9"), tmp_path_factory.mktemp("drivers"))
    yield garage
    for driver in garage.running.values():
        driver.close()


class Session:
    """One client and one broker."""

    def __init__(self, client: str, driver: Driver, kafka: ClusterThread) -> None:
        self.kafka = kafka
        self.driver = driver
        self.lab = Lab(BY_NAME[client], driver, lambda: driver)
        self.log_start = len(driver.log().encode())

    def connect(self, **settings: Any) -> None:
        """Set how the driver connects its clients from now on; without settings as USER, where the listener has users."""
        security = self.kafka.security
        given: dict[str, Any] = {"bootstrap": self.kafka.bootstrap, "protocol": security.protocol}
        if security.has_sasl:
            given |= {"mechanism": "PLAIN", "user": USER, "password": PASSWORD, "handshake": 1}
        if security.has_tls:
            given |= {"ca": security.ca_file}
        self.driver.call("connect", **given | settings)

    def member(self) -> Member:
        """A new member of a new group."""
        return self.lab.member(group=self.lab.group(), topics=[TOPIC])

    def produce(self, *values: str) -> None:
        self.lab.produce(TOPIC, [{"value": value} for value in values])

    def works(self) -> Member:
        """Produces and consumes in a group."""
        values = [f"{self.lab.prefix}-{number}" for number in range(3)]
        self.produce(*values)
        member = self.member()
        member.reads(values)
        return member

    def refused(self, pattern: str) -> str:
        """Waits until a new member has failed with these words, and returns all of them."""
        member = self.lab.unstarted(group=self.lab.group(), topics=[TOPIC])
        starting = self.driver.send("start", member=member.name, **member.options)

        def words() -> str:
            said = [self.driver.log(self.log_start)]
            if starting.done():
                error = starting.exception()
                said += member.errors() if error is None else [str(error)]
            return "\n".join(said)

        found: str = eventually(f"the client says {pattern!r}", words, re.compile(pattern).search)
        if starting.exception(CALL_S) is None:
            self.lab.members.append(member)  # one that leaves
        return found


@pytest.fixture
def serve() -> Iterator[Callable[..., ClusterThread]]:
    """Starts a broker with that security.protocol."""
    with contextlib.ExitStack() as stack:

        def start(protocol: str, **options: Any) -> ClusterThread:
            if protocol.startswith("SASL"):
                options.setdefault("users", USERS)
            options["config"] = {"group.initial.rebalance.delay.ms": 0, **options.get("config", {})}
            return stack.enter_context(ClusterThread(topics=[TOPIC], security_protocol=protocol, **options))

        yield start


@pytest.fixture
def session(drivers: Garage, serve: Callable[..., ClusterThread]) -> Iterator[Callable[[str, ClusterThread], Session]]:
    """Opens a `Session`, which is closed before the broker."""
    with contextlib.ExitStack() as stack:

        def open_session(client: str, kafka: ClusterThread) -> Session:
            opened = Session(client, drivers.driver(BY_NAME[client]), kafka)
            stack.callback(opened.lab.close)
            return opened

        yield open_session


Serve = Callable[..., ClusterThread]
Open = Callable[[str, ClusterThread], Session]


@ALL
def test_sasl_ssl_with_scram(client: str, serve: Serve, session: Open) -> None:
    one = session(client, serve("SASL_SSL"))
    one.connect(mechanism="SCRAM-SHA-512")
    one.works()


@ALL
def test_sasl_plaintext_with_plain(client: str, serve: Serve, session: Open) -> None:
    one = session(client, serve("SASL_PLAINTEXT"))
    one.connect(mechanism="PLAIN")
    one.works()


@ALL
def test_oauthbearer_with_an_unsecured_token(client: str, serve: Serve, session: Open) -> None:
    one = session(client, serve("SASL_PLAINTEXT", config={"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}))
    one.connect(mechanism="OAUTHBEARER", user="bob")
    one.works()


@ALL
def test_ssl_with_a_client_certificate(
    client: str, serve: Serve, session: Open, caplog: pytest.LogCaptureFixture
) -> None:
    one = session(client, serve("SSL", config={"ssl.client.auth": "required"}))
    one.connect(certificate=one.kafka.security.client_file)
    one.works()
    one.connect()
    one.refused(WORDS[client].no_certificate)
    logged(caplog, "it has no certificate, and ssl.client.auth is required")


@ALL
def test_a_wrong_password(client: str, serve: Serve, session: Open, caplog: pytest.LogCaptureFixture) -> None:
    one = session(client, serve("SASL_SSL"))
    one.connect(mechanism="SCRAM-SHA-256", password="wrong")
    one.refused(WORDS[client].password)
    logged(caplog, f"authentication failed: wrong password of user '{USER}'")


@ALL
def test_an_authority_that_the_client_does_not_trust(
    client: str, serve: Serve, session: Open, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    one = session(client, serve("SASL_SSL"))
    one.connect(ca=other_authority(tmp_path))
    one.refused(WORDS[client].untrusted)
    logged(caplog, r"TLS handshake: .* does not trust the broker's certificate")


def logged(caplog: pytest.LogCaptureFixture, pattern: str) -> None:
    """The broker logs such a line; a client may report the refusal before the broker's thread has come so far."""
    eventually(f"the broker logs {pattern!r}", lambda: caplog.text, lambda text: re.search(pattern, text))


def other_authority(directory: Path) -> str:
    """Create an authority that has signed no broker's certificate, and return its file."""
    path = str(directory / "other.pem")
    trustme.CA().cert_pem.write_to_path(path)
    return path


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("handshake", [0, 1])
def test_sarama_with_both_versions_of_the_handshake(
    handshake: int, mechanism: str, serve: Serve, session: Open
) -> None:
    one = session("sarama", serve("SASL_PLAINTEXT", journal=True))
    one.connect(mechanism=mechanism, handshake=handshake)
    one.works()
    versions = one.kafka.run(
        lambda c: {e["version"] for e in c.journal.events if e.get("api") == "SaslHandshake" and "version" in e}
    )
    assert versions == {handshake}


@pytest.mark.parametrize("client", ["aiokafka", "kafka-python", "confluent-kafka", "java-4.1", "franz-go"])
def test_a_rotated_password_is_for_new_connections(client: str, serve: Serve, session: Open) -> None:
    one = session(client, serve("SASL_PLAINTEXT"))
    one.connect()
    member = one.works()
    one.kafka.security.users[USER] = "rotated"
    one.refused(WORDS[client].password)
    one.connect(password="rotated")
    one.produce("after")
    member.reads(["after"])
    one.works()


REAUTHENTICATE = [name for name in WORDS if name != "aiokafka"]


def test_sessions_end_and_are_renewed(serve: Serve, session: Open, caplog: pytest.LogCaptureFixture) -> None:
    """KIP-368: a client that knows it authenticates again on its connections, another one is cut off and connects again."""
    kafka = serve("SASL_PLAINTEXT", journal=True, config={"connections.max.reauth.ms": 4000})
    members: dict[str, tuple[Session, Member]] = {}
    for client in WORDS:
        one = session(client, kafka)
        one.connect()
        members[client] = one, one.works()

    def requests(member: Member, api: str) -> Counter[int]:
        """Return the number of such requests that the member has sent, by connection."""
        return kafka.run(
            lambda cluster: Counter(
                event["connection"]
                for event in cluster.journal.events
                if event["event"] == "request" and event["api"] == api and event["client_id"] == member.name
            )
        )

    for client in REAUTHENTICATE:
        _one, member = members[client]
        eventually(
            f"{client} is in its third session",
            lambda member=member: {at: requests(member, "SaslAuthenticate")[at] for at in requests(member, "Fetch")},
            lambda sessions: max(sessions.values()) >= 3,
        )
    for client, (one, member) in members.items():
        one.produce(f"late-{client}")
        member.reads([f"late-{client}"])
        connections = len(requests(member, "Fetch"))
        expired = re.search(rf"client id {member.name}\): the session of user '{USER}' has expired", caplog.text)
        if client in REAUTHENTICATE:
            assert (connections, expired) == (1, None), f"{client} has kept its connection"
        else:
            assert connections > 1, f"{client} has connected again"
            assert expired, f"{client} was cut off"


@pytest.mark.parametrize("client", ["confluent-kafka", "java-4.1"])
@pytest.mark.parametrize(
    ("listener", "settings", "line"),
    [
        ("SASL_SSL", {"protocol": "PLAINTEXT"}, "does not speak TLS; the listener's security.protocol is SASL_SSL"),
        ("PLAINTEXT", {"protocol": "SASL_SSL"}, "begins as TLS does, which the listener doesn't have"),
        (
            "SASL_PLAINTEXT",
            {"protocol": "PLAINTEXT"},
            "SaslHandshake; the listener's security.protocol is SASL_PLAINTEXT",
        ),
        ("PLAINTEXT", {"protocol": "SASL_PLAINTEXT"}, "use security.protocol=PLAINTEXT"),
        ("SASL_SSL", {"protocol": "SSL"}, "before SaslHandshake; the listener's security.protocol is SASL_SSL"),
    ],
)
def test_another_security_protocol_than_the_listener_has(
    client: str,
    listener: str,
    settings: dict[str, str],
    line: str,
    serve: Serve,
    session: Open,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    one = session(client, serve(listener))
    sasl = {"mechanism": "PLAIN", "user": USER, "password": PASSWORD} if settings["protocol"].startswith("SASL") else {}
    tls = {} if one.kafka.security.has_tls else {"ca": other_authority(tmp_path)}
    one.connect(**{"mechanism": None, **tls, **sasl, **settings})
    one.refused("(?i)disconnected|SASL")
    logged(caplog, re.escape(line))


def login(module: str, password: str = PASSWORD) -> str:
    """USER's sasl.jaas.config."""
    return f'org.apache.kafka.common.security.{module} required username="{USER}" password="{password}";'


@pytest.mark.parametrize("version", ["3.4.0", "4.1.0"])
def test_command_line_tools(version: str, serve: Serve, tmp_path: Path) -> None:
    """kafka-topics and kafka-consumer-groups with --command-config."""
    names = itertools.count(1)

    def run(tool: str, kafka: ClusterThread, *arguments: str, **settings: str) -> tuple[int, str]:
        """The exit status and what it writes."""
        security = kafka.security
        given = {"security.protocol": security.protocol}
        if security.has_tls:
            given |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": security.ca_file}
        file = tmp_path / f"{next(names)}.properties"
        lines = (given | {name.replace("_", "."): value for name, value in settings.items()}).items()
        file.write_text("".join(f"{name}={value}\n" for name, value in lines))
        status, out, err = Tools(version, kafka.bootstrap).run(tool, "--command-config", str(file), *arguments)
        return status, out + err

    scram = {"sasl_mechanism": "SCRAM-SHA-512"}
    kafka = serve("SASL_SSL")
    status, out = run("topics", kafka, "--list", **scram, sasl_jaas_config=login("scram.ScramLoginModule"))
    assert (status, TOPIC in out.split()) == (0, True), out
    wrong = login("scram.ScramLoginModule", "wrong")
    assert "SaslAuthenticationException" in run("topics", kafka, "--list", **scram, sasl_jaas_config=wrong)[1]
    other = other_authority(tmp_path)
    assert (
        "SSL handshake failed"
        in run("topics", kafka, "--list", ssl_truststore_location=other, **scram, sasl_jaas_config=wrong)[1]
    )
    kafka = serve("SASL_PLAINTEXT")
    plain = {"sasl_mechanism": "PLAIN", "sasl_jaas_config": login("plain.PlainLoginModule")}
    status, out = run("consumer-groups", kafka, "--list", **plain)
    assert status == 0, out
    kafka = serve("SSL", config={"ssl.client.auth": "required"})
    own = {"ssl_keystore_type": "PEM", "ssl_keystore_location": kafka.security.client_file}
    status, out = run("topics", kafka, "--list", **own)
    assert (status, TOPIC in out.split()) == (0, True), out
    assert "SslAuthenticationException" in run("topics", kafka, "--list")[1]


# ---- users that clients create (KIP-554)


NEW, ITERATIONS = "bob", 8192
CREDENTIAL = {"mechanism": "SCRAM-SHA-512", "user": NEW, "password": "bobs-secret"}


class Configs:
    """kafka-configs of one version, as USER."""

    def __init__(self, version: str, kafka: ClusterThread, file: Path) -> None:
        self._tools, self._file = Tools(version, kafka.bootstrap), file
        config = login("plain.PlainLoginModule")
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={config}\n")

    def __call__(self, *arguments: str) -> str:
        return self._tools("configs", "--command-config", str(self._file), "--entity-type", "users", *arguments)

    def create(self) -> None:
        given = f"SCRAM-SHA-512=[iterations={ITERATIONS},password={CREDENTIAL['password']}]"
        self("--entity-name", NEW, "--alter", "--add-config", given)

    def listed(self) -> dict[str, str]:
        lines = self("--describe").splitlines()
        rows = (line.split(" are ") for line in lines if line.startswith("SCRAM credential configs for user-principal"))
        return {name.split("'")[1]: configs for name, configs in rows}

    def delete(self) -> None:
        self("--entity-name", NEW, "--alter", "--delete-config", "SCRAM-SHA-512")


@pytest.mark.parametrize("version", ["3.4.0", "4.1.0"])
def test_users_of_kafka_configs(version: str, serve: Serve, session: Open, tmp_path: Path) -> None:
    kafka = serve("SASL_PLAINTEXT")
    configs = Configs(version, kafka, tmp_path / "admin.properties")
    configs.create()
    assert configs.listed() == {
        USER: "SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=4096",
        NEW: f"SCRAM-SHA-512=iterations={ITERATIONS}",
    }
    one = session("java-4.1", kafka)
    one.connect(**CREDENTIAL)
    one.works()
    configs.delete()
    assert list(configs.listed()) == [USER]
    one.refused(WORDS["java-4.1"].password)


def confluent_kafka(kafka: ClusterThread) -> tuple[Callable[[], None], Callable[[], None]]:
    client = confluent.AdminClient({"bootstrap.servers": kafka.bootstrap, **kafka.security.client_settings(USER)})
    mechanism = confluent.ScramMechanism.SCRAM_SHA_512

    def alter(change: confluent.UserScramCredentialAlteration) -> None:
        for future in client.alter_user_scram_credentials([change]).values():
            future.result(30)

    def create() -> None:
        info = confluent.ScramCredentialInfo(mechanism, ITERATIONS)
        alter(confluent.UserScramCredentialUpsertion(NEW, info, CREDENTIAL["password"].encode()))
        described = client.describe_user_scram_credentials([NEW])[NEW].result(30)
        assert [(one.mechanism, one.iterations) for one in described.scram_credential_infos] == [
            (mechanism, ITERATIONS)
        ]

    return create, lambda: alter(confluent.UserScramCredentialDeletion(NEW, mechanism))


def kafka_python(kafka: ClusterThread) -> tuple[Callable[[], None], Callable[[], None]]:
    from kafka import KafkaAdminClient  # which warns of what it imports
    from kafka.admin import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion

    def alter(change: UserScramCredentialDeletion | UserScramCredentialUpsertion) -> None:
        client = KafkaAdminClient(
            bootstrap_servers=kafka.bootstrap, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN",
            sasl_plain_username=USER, sasl_plain_password=PASSWORD,
        )  # fmt: skip
        try:
            assert client.alter_user_scram_credentials([change]) == {NEW: None}
            left = client.describe_user_scram_credentials([NEW])[NEW]["credential_infos"]
            assert [one["iterations"] for one in left] == [ITERATIONS] * isinstance(
                change, UserScramCredentialUpsertion
            )
        finally:
            client.close()

    mechanism = ScramMechanism.SCRAM_SHA_512
    upsertion = UserScramCredentialUpsertion(NEW, mechanism, CREDENTIAL["password"], iterations=ITERATIONS)
    return lambda: alter(upsertion), lambda: alter(UserScramCredentialDeletion(NEW, mechanism))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("made", [confluent_kafka, kafka_python])
def test_users_of_admin_clients(
    made: Callable[[ClusterThread], tuple[Callable[[], None], Callable[[], None]]], serve: Serve, session: Open
) -> None:
    kafka = serve("SASL_PLAINTEXT")
    create, delete = made(kafka)
    create()
    one = session("confluent-kafka", kafka)
    one.connect(**CREDENTIAL)
    one.works()
    delete()
    one.refused(WORDS["confluent-kafka"].password)


@pytest.mark.parametrize("client", ["aiokafka", "franz-go", "kafkajs"])
def test_users_that_were_created_authenticate(client: str, serve: Serve, session: Open) -> None:
    kafka = serve("SASL_PLAINTEXT")
    confluent_kafka(kafka)[0]()
    one = session(client, kafka)
    one.connect(**CREDENTIAL)
    one.works()
