"""The image's files, put together as the Dockerfile says and run without a container: alone, with a command, and as modules of
Testcontainers start a Kafka image. Their scripts are those of the packages: Java 2.0.2 (both flavours), Python 4.15.0, Node 12.2.0,
Go 0.40.0.

What a container engine does is done here by hand: files are copied in while the command waits, a port is forwarded.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from tests.clients.relay import CuttingRelay
from tests.support import processes
from tests.support.real_kafka import free_port

pytestmark = pytest.mark.real_time

REPOSITORY = Path(__file__).parents[2]
WAITS = "while [ ! -f {script} ]; do sleep 0.1; done; "
JAVA = "/tmp/testcontainers_start.sh"
PYTHON = "/tc-start.sh"
GO = "/usr/sbin/testcontainers_start.sh"
RUNNING = r".*Transitioning from RECOVERY to RUNNING.*"
VARIABLES = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_NODE_ID": "1",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
"""Environment variables that the modules set, together; listeners come with the port that each uses."""
MODULES = {
    "java": (["sh", "-c", WAITS + "{script}"], JAVA, "#!/bin/bash\n{export}\n/etc/kafka/docker/run \n", RUNNING),
    "java, confluent": (
        ["sh", "-c", WAITS + "{script}"], JAVA, "#!/bin/bash\n{export}\n/etc/confluent/docker/run \n", RUNNING,
    ),
    "java, before 2.0": (
        ["sh", "-c", WAITS + "{script}"],
        JAVA,
        "#!/bin/bash\n{export}\nsed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
        "echo 'kafka-storage format --ignore-formatted' >> /etc/confluent/docker/configure\n"
        "echo '' > /etc/confluent/docker/ensure \n/etc/confluent/docker/run \n",
        RUNNING,
    ),
    "node": (
        ["sh", "-c", "echo 'Waiting for script...'; " + WAITS + "{script}"],
        JAVA,
        "#!/bin/bash\n{export}\n/etc/confluent/docker/run \n",
        RUNNING,
    ),
    "go": (
        ["sh", "-c", WAITS + "bash {script}"],
        GO,
        "#!/bin/bash\nsource /etc/confluent/docker/bash-config\n{export}\necho Starting Kafka KRaft mode\n"
        "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
        "echo 'kafka-storage format --ignore-formatted -t \"$(kafka-storage random-uuid)\" -c /etc/kafka/kafka.properties'"
        " >> /etc/confluent/docker/configure\n"
        "echo '' > /etc/confluent/docker/ensure\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch\n",
        RUNNING,
    ),
    "python": (
        ["sh", "-c", WAITS + "sh {script}"],
        PYTHON,
        "#!/bin/bash\nsed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
        "echo 'kafka-storage format --ignore-formatted' >> /etc/confluent/docker/configure\n"
        "{export}\n. /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch\n",
        r".*\[KafkaServer id=\d+\] started.*",
    ),
    "python, with_kraft": (
        ["sh", "-c", WAITS + "sh {script}"],
        PYTHON,
        "#!/bin/bash\n{export}\n. /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n"
        "/etc/confluent/docker/launch\n",
        r".*Kafka Server started.*",
    ),
}  # fmt: skip
"""Command, where the script is copied to, the script, the line that they wait for."""


class Image:
    """The image's own files under another root. What names them by absolute paths is rewritten."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        lines = (REPOSITORY / "Dockerfile").read_text().splitlines()
        for line in lines:
            if line.startswith("COPY --"):
                _, *words = [word for word in line.split() if not word.startswith("--")]
                self._copy(words[:-1], words[-1])
        for place in ("tmp", "data"):
            (root / place).mkdir()
        (entry,) = [line for line in lines if line.startswith("ENTRYPOINT")]
        name = re.fullmatch(r'ENTRYPOINT \["([\w-]+)"\]', entry)
        assert name is not None
        self.entrypoint = root / "usr/local/bin" / name[1]

    def _copy(self, sources: list[str], target: str) -> None:
        for source in sources:
            path = self.root / target.lstrip("/")
            path = path / Path(source).name if target.endswith("/") else path
            self.write(path, (REPOSITORY / source).read_text())

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.rooted(text))
        path.chmod(0o755)

    def rooted(self, text: str) -> str:
        return re.sub(
            r"(?<![\w.])/(etc/(?:kafka|confluent)|(?:tmp|usr/sbin)/testcontainers|tc-start)", f"{self.root}/\\1", text
        )

    @contextmanager
    def running(self, command: list[str], *, replaces_entrypoint: bool = False, **variables: str) -> Iterator[Any]:
        """Run the command by the entrypoint; or alone, where the module has its own in the entrypoint's place."""
        entrypoint = [] if replaces_entrypoint else [str(self.entrypoint)]
        path = f"{self.root}/usr/local/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"PATH": path, "BROKER_SIM_DATA": str(self.root / "data"), **variables}
        others = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        process = processes.start(
            [*entrypoint, *map(self.rooted, command)], env={**others, **own}, start_new_session=True
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)  # a module's shell stays between the engine and the broker
            processes.finish(process, "the broker to end")


async def works_at(bootstrap: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait("orders", b"one")
    options: dict[str, Any] = {"group_id": "billing", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer("orders", bootstrap_servers=bootstrap, **options) as consumer:
        assert (await consumer.getone()).value == b"one"


def wait_for(process: Any, pattern: str) -> list[str]:
    """The lines up to the one that matches."""
    lines: list[str] = []
    while not lines or re.fullmatch(pattern, lines[-1]) is None:
        lines.append(processes.line(process, f"a line like {pattern}").rstrip("\n"))
    return lines


@pytest.mark.parametrize("module", MODULES)
async def test_a_module_of_testcontainers_starts_it(module: str, tmp_path: Path) -> None:
    command, script, text, ready = MODULES[module]
    image, port, inner = Image(tmp_path), free_port(), free_port()
    listeners = f"PLAINTEXT://0.0.0.0:{port},BROKER://0.0.0.0:{inner},CONTROLLER://0.0.0.0:9094"
    command = [part.format(script=script) for part in command]
    with (
        image.running(command, replaces_entrypoint=module == "go", **VARIABLES, KAFKA_LISTENERS=listeners) as process,
        CuttingRelay(f"127.0.0.1:{port}", cut=0) as published,
    ):
        if module == "node":
            wait_for(process, "Waiting for script...")
        export = f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{published.address},BROKER://broker:{inner}"
        image.write(Path(image.rooted(script)), text.replace("{export}", export))
        lines = wait_for(process, ready)
        assert any(line.endswith(f"bootstrap={published.address}") for line in lines)
        await works_at(published.address)
        assert published.relayed


async def test_the_listener_with_sasl_and_tls_of_the_module_for_node(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    chain = [x509.load_pem_x509_certificate(one.bytes()) for one in issued.cert_chain_pems]
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    store = pkcs12.serialize_key_and_certificates(
        b"server", key, chain[0], chain[1:], BestAvailableEncryption(b"a word")
    )
    (tmp_path / "server.keystore.pfx").write_bytes(store)
    command, script, _, ready = MODULES["node"]
    image, port, secure = Image(tmp_path / "image"), free_port(), free_port()
    variables = {
        "CLUSTER_ID": VARIABLES["CLUSTER_ID"],
        "KAFKA_LISTENERS": f"SECURE://0.0.0.0:{secure},PLAINTEXT://0.0.0.0:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
        "KAFKA_SSL_PROTOCOL": "TLSv1.2",
        "KAFKA_SSL_KEYSTORE_LOCATION": str(tmp_path / "server.keystore.pfx"),
        "KAFKA_SSL_KEYSTORE_PASSWORD": "a word",
        "KAFKA_SSL_KEYSTORE_TYPE": "PKCS12",
        "KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512",
        "KAFKA_LISTENER_NAME_SECURE_SCRAM-SHA-512_SASL_JAAS_CONFIG": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    with image.running([part.format(script=script) for part in command], **variables) as process:
        wait_for(process, "Waiting for script...")
        advertised = f"PLAINTEXT://localhost:{port},SECURE://localhost:{secure}"
        format_ = (
            f'kafka-storage format --ignore-formatted -t "{VARIABLES["CLUSTER_ID"]}" -c /etc/kafka/kafka.properties '
        )
        scram = '--add-scram "SCRAM-SHA-512=[name=app-user,password=userPassword]"'
        text = (
            f"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS={advertised}\n"
            f"echo '{format_}{scram}' >> /etc/confluent/docker/configure\n/etc/confluent/docker/run \n"
        )
        image.write(Path(image.rooted(script)), text)
        wait_for(process, ready)
        context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
        secured: dict[str, Any] = {
            "security_protocol": "SASL_SSL",
            "ssl_context": context,
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "app-user",
            "sasl_plain_password": "userPassword",
        }
        await works_at(f"localhost:{port}")
        async with AIOKafkaProducer(bootstrap_servers=f"localhost:{secure}", **secured) as producer:
            assert (await producer.send_and_wait("orders", b"two")).topic == "orders"


async def test_it_starts_alone(tmp_path: Path) -> None:
    image, port = Image(tmp_path), free_port()
    with image.running(
        [], KAFKA_LISTENERS=f"PLAINTEXT://:{port}", KAFKA_ADVERTISED_LISTENERS=f"PLAINTEXT://localhost:{port}"
    ) as process:
        wait_for(process, RUNNING)
        await works_at(f"localhost:{port}")


async def test_arguments_are_options_of_serve(tmp_path: Path) -> None:
    image, port = Image(tmp_path), free_port()
    with image.running([f"--port={port}", "--topic", "orders:3"], KAFKA_NUM_PARTITIONS="2") as process:
        assert wait_for(process, RUNNING)[0] == f"broker-sim ready: bootstrap=localhost:{port}"
        await works_at(f"localhost:{port}")


def test_a_verb_is_broker_sims_own_and_other_commands_are_run_as_they_are(tmp_path: Path) -> None:
    for command, said in ((["serve", "--help"], "usage: broker-sim serve"), (["echo", "hello"], "hello")):
        with Image(tmp_path / command[0]).running(command) as process:
            assert processes.line(process, "its first line").startswith(said)
