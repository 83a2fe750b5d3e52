"""Variables of Kafka's images as settings of `serve --from-env`."""

from __future__ import annotations

import argparse
import atexit
import socket
import ssl
import tempfile
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from broker_sim.authentication.certificates import TlsFiles
from broker_sim.cli import environment, security
from broker_sim.cli.main import parse
from broker_sim.common.text import UsageError
from broker_sim.config.effects import SettingWarning

TESTCONTAINERS = {  # org.testcontainers.kafka.KafkaContainer 2.0.2
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:32768,BROKER://broker:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_NODE_ID": "1",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_HEAP_OPTS": "-Xmx1G",
    "PATH": "/bin",
}


def served(*options: str, **variables: str) -> argparse.Namespace:
    arguments = parse(["serve", "--from-env", *options])
    environment.apply(arguments, variables)
    return arguments


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_CFG_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_UNSTABLE_API__VERSIONS_ENABLE", "unstable.api_versions.enable"),
        ("KAFKA_LISTENER_NAME_A___B_SSL_CLIENT_AUTH", "listener.name.a-b.ssl.client.auth"),
        ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "group.initial.rebalance.delay.ms"),
    ],
)
def test_a_variable_is_a_setting(variable: str, name: str) -> None:
    assert environment.settings_in({variable: "6"}) == {name: "6"}


@pytest.mark.parametrize(
    "variable",
    ["KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_LOG4J_LOGGERS", "KAFKA_JMX_PORT", "KAFKA_VERSION", "MY_KAFKA_X"],
)
def test_other_variables_are_none(variable: str) -> None:
    assert environment.settings_in({variable: "6"}) == {}


def test_two_variables_of_one_setting_must_agree() -> None:
    assert environment.settings_in({"KAFKA_NODE_ID": "1", "KAFKA_CFG_NODE_ID": "1"}) == {"node.id": "1"}
    with pytest.raises(UsageError, match="KAFKA_CFG_NODE_ID and KAFKA_NODE_ID are different values of"):
        environment.settings_in({"KAFKA_NODE_ID": "1", "KAFKA_CFG_NODE_ID": "2"})


def test_nothing_given_is_reached_at_localhost() -> None:
    arguments = served()
    assert (arguments.host, arguments.port, arguments.advertised_host) == ("0.0.0.0", 9092, "localhost")


def test_options_come_before_variables() -> None:
    arguments = served(
        "--port", "7", "--advertised-host", "me", "--config", "num.partitions=2",
        KAFKA_NUM_PARTITIONS="6", KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS="3",
    )  # fmt: skip
    assert (arguments.host, arguments.port, arguments.advertised_host) == ("0.0.0.0", "7", "me")
    assert dict(arguments.config) == {"num.partitions": "2", "offsets.topic.num.partitions": "3"}


def test_what_testcontainers_gives_is_taken_without_a_warning() -> None:
    arguments = served(**TESTCONTAINERS)
    assert (arguments.host, arguments.port, arguments.advertised_host) == (None, None, None)
    assert dict(arguments.config)["advertised.listeners"] == TESTCONTAINERS["KAFKA_ADVERTISED_LISTENERS"]
    assert "inter.broker.listener.name" not in dict(arguments.config)


def test_what_has_no_effect_is_one_warning() -> None:
    given = {
        "KAFKA_NUM_IO_THREADS": "3",
        "KAFKA_AUTHORIZER_CLASS_NAME": "x.Acls",
        "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
        "KAFKA_NUM_PARTITIONS": "3",
    }
    with pytest.warns(
        SettingWarning,
        match="^no effect here: authorizer.class.name, confluent.support.metrics.enable, num.io.threads$",
    ):
        arguments = served(**given)
    assert dict(arguments.config) == {"num.partitions": "3"}


@pytest.mark.filterwarnings("ignore::broker_sim.config.effects.SettingWarning")
def test_users_of_a_listener_with_sasl_come_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_SIM_USERS", "alice=secret")
    arguments = served(KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="PLAINTEXT:SASL_PLAINTEXT", KAFKA_BROKER_ID="-1")
    assert security.users(arguments) == {"alice": "secret"}
    with pytest.raises(UsageError, match="a PLAINTEXT listener has no users"):
        security.users(served())


PLAIN = "KAFKA_LISTENER_NAME_CLIENTS_PLAIN_SASL_JAAS_CONFIG"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CLIENTS = {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENTS:SASL_PLAINTEXT,BROKER:PLAINTEXT"}


def test_users_of_a_jaas_configuration_are_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BROKER_SIM_USERS", raising=False)
    jaas = f"""{MODULE}
      username="admin" password="admin-secret"
      user_admin="admin-secret" user_alice="a \\"quoted\\" word; and more" user_bob=plain;"""
    arguments = served("--user", "bob=other", **CLIENTS, **{PLAIN: jaas})
    expected = {"admin": "admin-secret", "alice": 'a "quoted" word; and more', "bob": "other"}
    assert security.users(arguments) == expected
    assert [name for name, _ in arguments.config if "jaas" in name] == []


def test_a_jaas_configuration_of_a_listener_without_sasl_has_no_effect() -> None:
    name = "listener.name.broker.plain.sasl.jaas.config"
    with pytest.warns(SettingWarning, match=f"^no effect here: {name}$"):
        arguments = served(**CLIENTS, **{PLAIN.replace("CLIENTS", "BROKER"): f'{MODULE} user_alice="secret";'})
    assert arguments.user == []


@pytest.mark.parametrize(
    ("jaas", "reason"),
    [
        (f'{MODULE} user_alice="top-secret"', "listener.name.clients.plain.sasl.jaas.config is invalid"),
        (f'{MODULE} user_alice="top-secret;', "is invalid"),
        ("x.ScramLoginModule required user_alice=top-secret;", "is invalid"),
        (f"{MODULE} user_alice=top-secret user_alice=other;", "the user 'alice' has two passwords"),
    ],
)
def test_an_invalid_jaas_configuration_is_an_error_without_its_passwords(jaas: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as refused:
        served(**CLIENTS, **{PLAIN: jaas})
    assert "top-secret" not in str(refused.value)


TLS = {
    "KAFKA_LISTENERS": "SECURE://:9093,PLAINTEXT://:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SECURE:SSL,PLAINTEXT:PLAINTEXT",
    "KAFKA_SSL_KEYSTORE_TYPE": "PKCS12",
}


Issued = tuple[ec.EllipticCurvePrivateKey, x509.Certificate, x509.Certificate]


def pfx(path: Path, key: ec.EllipticCurvePrivateKey | None, certificate: x509.Certificate) -> str:
    """A store in PKCS #12; without a key the certificate is a trusted one."""
    own = (key, certificate, None) if key is not None else (None, None, [certificate])
    path.write_bytes(pkcs12.serialize_key_and_certificates(None, *own, BestAvailableEncryption(b"a word")))
    return str(path)


@pytest.fixture(scope="module")
def issued() -> Issued:
    """A key, its certificate, and that of the authority."""
    authority = trustme.CA()
    one = authority.issue_cert("localhost")
    key = load_pem_private_key(one.private_key_pem.bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    own, ca = one.cert_chain_pems[0].bytes(), authority.cert_pem.bytes()
    return key, x509.load_pem_x509_certificate(own), x509.load_pem_x509_certificate(ca)


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for stores, beside which the certificates are written."""
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    monkeypatch.setattr(atexit, "register", lambda *end, **options: None)
    return tmp_path


def test_a_keystore_and_a_truststore_are_the_certificates(stores: Path, issued: Issued) -> None:
    key, own, ca = issued
    given = {
        "KAFKA_SSL_KEYSTORE_LOCATION": pfx(stores / "key.pfx", key, own),
        "KAFKA_SSL_KEYSTORE_PASSWORD": "a word",
        "KAFKA_SSL_TRUSTSTORE_LOCATION": pfx(stores / "trust.pfx", None, ca),
        "KAFKA_SSL_TRUSTSTORE_PASSWORD": "a word",
        "KAFKA_SSL_TRUSTSTORE_TYPE": "PKCS12",
    }
    arguments = served(**TLS, **given)
    assert [name for name, _ in arguments.config if name.startswith("ssl.")] == []
    files = TlsFiles(Path(arguments.tls_dir))
    assert files.context("required").verify_mode is ssl.CERT_REQUIRED
    assert x509.load_pem_x509_certificate(files.ca.read_bytes()) == ca
    assert files.server.stat().st_mode & 0o077 == 0
    with pytest.warns(SettingWarning, match=r"^no effect here: ssl\.keystore\.type$"):
        assert served("--tls-dir", "own", **TLS).tls_dir == "own"


def test_a_keystore_that_can_not_be_read_is_an_error(stores: Path, issued: Issued) -> None:
    key, own, ca = issued
    for location, password, reason in (
        (
            pfx(stores / "key.pfx", key, own),
            "another",
            "ssl.keystore.location: the keystore is not PKCS #12 with that password",
        ),
        (pfx(stores / "trust.pfx", None, ca), "a word", "the keystore has no private key with its certificate"),
        (str(stores / "nowhere"), "a word", "nowhere: No such file"),
    ):
        with pytest.raises(UsageError) as refused:
            served(**TLS, KAFKA_SSL_KEYSTORE_LOCATION=location, KAFKA_SSL_KEYSTORE_PASSWORD=password)
        assert reason in str(refused.value)
    with pytest.raises(UsageError, match=r"ssl\.keystore\.location is missing"):
        served(**TLS)


def test_the_cluster_id_comes_from_a_variable() -> None:
    assert served(CLUSTER_ID="4L6g3nShT-eMCtK--X86sw").cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert served("--cluster-id", "mine", CLUSTER_ID="other").cluster_id == "mine"
    assert served(CLUSTER_ID="").cluster_id is None


def test_an_unknown_release_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"2\.8"):
        served("--as-version", "2.8")


def test_the_health_check_connects_to_the_first_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        environment.check_health({**TESTCONTAINERS, "KAFKA_LISTENERS": f"CONTROLLER://:1,SASL_SSL://0.0.0.0:{port}"})
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        nothing_listens = {"KAFKA_LISTENERS": f"PLAINTEXT://0.0.0.0:{bound.getsockname()[1]}"}
        with pytest.raises(OSError, match="refused"):
            environment.check_health(nothing_listens)
