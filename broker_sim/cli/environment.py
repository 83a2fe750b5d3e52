"""`serve --from-env`: settings from the variables that images of Kafka take, and the lines that their users wait for.

    KAFKA_NUM_PARTITIONS=6                                    num.partitions=6             apache/kafka, confluentinc/cp-kafka
    KAFKA_CFG_LISTENERS=PLAINTEXT://:9092                     listeners=PLAINTEXT://:9092  bitnami/kafka

In a name ``_`` is a dot, ``__`` an underscore and ``___`` a dash. The users in ``listener.name.NAME.plain.sasl.jaas.config`` are
those of the cluster; CLUSTER_ID is its id. Options of the command line come before variables. Without listeners
in either, brokers listen on all addresses from port 9092 on and advertise localhost, as apache/kafka does. What has no effect here is
one warning, so that a compose file or a module of Testcontainers works unchanged; values that are invalid are errors.

``python -m broker_sim.cli.environment`` is the health check of an image: whether the first listener accepts a connection.
"""

from __future__ import annotations

import argparse
import atexit
import os
import re
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from broker_sim.api.cluster_options import Release
from broker_sim.api.listeners import WILDCARDS, ListenerKind
from broker_sim.authentication.certificates import CertificateError, TlsFiles
from broker_sim.common.text import UsageError
from broker_sim.config.effects import SettingWarning, refusal, startup
from broker_sim.config.settings import broker_settings, parse_release

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

__all__ = ["apply", "settings_in", "start_lines", "users_in"]

_SETTING = re.compile(r"KAFKA_(?:CFG_)?([A-Z0-9_-]+)")
_PROGRAM = re.compile(
    r"KAFKA_((HEAP|JVM_PERFORMANCE|LOG4J|GC_LOG|TOOLS_LOG4J|JMX|REST|KRAFT|ENABLE)(_.*)?|OPTS|VERSION|HOME|DEBUG|USER|GROUP)"
)
"""Variables of the images that are no settings: flags of the JVM, log levels, versions."""
_OF_KAFKA_ALONE = frozenset(
    {
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "log.dir",
        "log.dirs",
        "process.roles",
        "security.inter.broker.protocol",
        "zookeeper.connect",
    }
)
"""Settings of how the processes of a cluster find one another and where they keep files: no client sees a difference."""
_JAAS = re.compile(r"listener\.name\.([^.]+)\.(plain|scram-sha-256|scram-sha-512)\.sasl\.jaas\.config")
_LOGIN = re.compile(r"\s*\S*PlainLoginModule\s+required\b((?:\s+\w+\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s\";]+))*)\s*;\s*")
_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s\";]+))")
_MAP = "listener.security.protocol.map"
_PORT, _ANYWHERE, _LOCAL = 9092, "0.0.0.0", "localhost"
_PATIENCE_S = 2.0


def settings_in(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings that the variables say, by Kafka's names. Raises UsageError for one that two variables say differently."""
    settings: dict[str, str] = {}
    said: dict[str, str] = {}
    for variable in sorted(environ):
        match = _SETTING.fullmatch(variable)
        if match is None or _PROGRAM.fullmatch(variable):
            continue
        parts = re.split(r"(_+)", match[1].lower())
        name = "".join({"_": ".", "__": "_", "___": "-"}.get(part, part) for part in parts)
        if settings.get(name, environ[variable]) != environ[variable]:
            raise UsageError(f"{said[name]} and {variable} are different values of {name}; remove one of them")
        settings[name], said[name] = environ[variable], variable
    return settings


def _protocols(settings: Mapping[str, str]) -> dict[str, str]:
    """Listener name -> security protocol, of what has the form in listener.security.protocol.map; the cluster reports its errors."""
    return dict(part.strip().split(":", 1) for part in settings.get(_MAP, "").split(",") if ":" in part)


def users_in(settings: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """The users (name: password) in the JAAS configurations of SASL listeners, ``user_alice="secret"`` of PlainLoginModule, and the
    names of these settings. Raises UsageError, without any password."""
    protocols = _protocols(settings)
    users: dict[str, str] = {}
    read: set[str] = set()
    for name, value in settings.items():
        match = _JAAS.fullmatch(name)
        if match is None or not protocols.get(match[1].upper(), match[1].upper()).startswith("SASL"):
            continue
        read.add(name)
        if match[2] != "plain":  # its user is the broker's own, for other brokers
            continue
        login = _LOGIN.fullmatch(value)
        if login is None:
            module = "org.apache.kafka.common.security.plain.PlainLoginModule"
            raise UsageError(f'{name} is invalid (expected e.g. {module} required user_alice="secret";)')
        for key, quoted, bare in _OPTION.findall(login[1]):
            password = re.sub(r"\\(.)", r"\1", quoted) or bare
            if key.startswith("user_") and users.setdefault(key[5:], password) != password:
                raise UsageError(f"{name}: the user {key[5:]!r} has two passwords; remove one of them")
    return users, read


def _take_stores(arguments: argparse.Namespace, settings: dict[str, str]) -> None:
    """Have listeners with TLS use a keystore in PKCS #12, and drop its settings. Raises UsageError."""
    protocols = _protocols(settings)
    names = [listener.strip().partition("://")[0].upper() for listener in settings.get("listeners", "").split(",")]
    has_tls = any(protocols.get(name, name).endswith("SSL") for name in names)
    if arguments.tls_dir is not None or not has_tls or settings.get("ssl.keystore.type", "").upper() != "PKCS12":
        return
    stores: list[tuple[bytes, str]] = []
    for kind in ("keystore", "truststore"):
        where = settings.pop(f"ssl.{kind}.location", None)
        given = {part: settings.pop(f"ssl.{kind}.{part}", "") for part in ("password", "type")}
        if where is None:
            continue
        try:
            stores.append((Path(where).read_bytes(), given["password"]))
        except OSError as error:
            raise UsageError(f"ssl.{kind}.location: {where}: {error.strerror or error}") from None
    if not stores:
        raise UsageError("ssl.keystore.location is missing: the file of ssl.keystore.type PKCS12")
    directory = Path(tempfile.mkdtemp(prefix="broker-sim-tls-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)  # with the private key in it
    try:
        TlsFiles(directory).take(*stores)
    except CertificateError as error:
        raise UsageError(f"ssl.keystore.location: {error}") from None
    arguments.tls_dir = str(directory)


def apply(arguments: argparse.Namespace, environ: Mapping[str, str]) -> None:
    """Add what the variables say to the arguments of serve. Raises UsageError; a SettingWarning names those without effect."""
    release = Release().read(arguments.as_version)
    settings = {name: value for name, value in settings_in(environ).items() if name not in _OF_KAFKA_ALONE}
    users, of_users = users_in(settings)
    arguments.user = [*users.items(), *arguments.user]
    settings = {name: value for name, value in settings.items() if name not in of_users}
    _take_stores(arguments, settings)
    if arguments.cluster_id is None:
        arguments.cluster_id = environ.get("CLUSTER_ID") or None
    known = broker_settings(parse_release(release))
    taken = {name: value for name, value in settings.items() if name in known and refusal(name) is None}
    idle = [*(name for name in settings if name not in taken), *startup(taken, release).idle]
    if idle:
        warnings.warn(f"no effect here: {', '.join(sorted(idle))}", SettingWarning, stacklevel=2)
    acting = {name: value for name, value in taken.items() if name not in idle}
    arguments.config = [*{**acting, **dict(arguments.config)}.items()]
    _listen(arguments)


def _listen(arguments: argparse.Namespace) -> None:
    """The addresses of an image, where neither an option nor a variable says them."""
    settings = dict(arguments.config)
    if "listeners" in settings:
        return
    if arguments.host is None:
        arguments.host = _ANYWHERE
    if arguments.port is None:
        arguments.port = _PORT
    if not (arguments.advertised_host or arguments.advertised_listener or "advertised.listeners" in settings):
        arguments.advertised_host = _LOCAL


def start_lines(cluster: Cluster) -> Iterator[str]:
    """Lines that a Kafka broker logs when it has started, those for which others wait: Testcontainers' modules of several languages."""
    for broker in cluster.brokers:
        node = broker.node_id
        yield f"[BrokerLifecycleManager id={node}] The broker has been unfenced. Transitioning from RECOVERY to RUNNING."
        yield f"[KafkaServer id={node}] started"
        yield f"[KafkaRaftServer nodeId={node}] Kafka Server started"


def check_health(environ: Mapping[str, str]) -> None:
    """Connect to the first listener that the variables say. Raises OSError, UsageError."""
    settings = settings_in(environ)
    controllers = settings.get("controller.listener.names", "CONTROLLER").split(",")
    for listener in settings.get("listeners", f"PLAINTEXT://:{_PORT}").split(","):
        name, host, port = ListenerKind().read(listener, "listeners")
        if name not in controllers:
            socket.create_connection(("127.0.0.1" if host in WILDCARDS else host, port), _PATIENCE_S).close()
            return


if __name__ == "__main__":
    try:
        check_health(os.environ)
    except (OSError, UsageError) as error:
        sys.exit(f"unhealthy: {error}")
