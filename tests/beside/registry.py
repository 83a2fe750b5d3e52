"""Apicurio Registry on a broker: its schemas are records of a topic, `kafkasql-journal`."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.beside.programs import Program, java
from tests.clients.clients import java_command
from tests.support.maven import maven_classpath, unpacked
from tests.support.real_kafka import free_port

__all__ = ["VERSION", "Registry", "java_avro"]

VERSION = "3.0.9"
"""The newest on Maven Central that Java 17 runs; 3.3 needs Java 21."""

SERDES = "3.1.7"

_HERE = Path(__file__).parent
_COMPOSE = _HERE.parents[1] / "docker-compose.yml"


class Registry(Program):
    """A registry whose storage is a topic on ``bootstrap``, with the variables of docker-compose.yml."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        port = free_port()
        content = unpacked(f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all")
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": port,
            "quarkus.log.level": "WARN",
            "apicurio.kafkasql.consumer.poll.timeout": 200,  # each start waits so long for more of the journal
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        jar = content / f"apicurio-registry-app-{VERSION}-runner.jar"
        services = yaml.safe_load(_COMPOSE.read_text())["services"]
        env = {**services["registry"]["environment"], "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": bootstrap}
        super().__init__("registry", java(*options, "-jar", str(jar), memory="400m"), directory, port, env)

    def ready(self) -> None:
        """Waits until it has read its journal."""
        self.ask("/health/ready")

    @property
    def confluent(self) -> str:
        """The address of its API that is compatible with Confluent's registry, for clients of that."""
        return f"{self.url}/apis/ccompat/v7"

    @property
    def native(self) -> str:
        """The address of its own API."""
        return f"{self.url}/apis/registry/v3"


def java_avro(registry: Registry, bootstrap: str, topic: str, *orders: str) -> list[str]:
    """The command line of java/Avro.java: a producer of ``orders``, or without any a consumer of the topic."""
    jars = maven_classpath(f"apicurio-serdes-{SERDES}", f"io.apicurio:apicurio-registry-avro-serde-kafka:{SERDES}")
    command = java_command("avro", _HERE / "java" / "Avro.java", SERDES, jars)
    return [*command, bootstrap, registry.native, topic, *orders]
