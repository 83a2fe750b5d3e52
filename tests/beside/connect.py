"""Kafka Connect in distributed mode: workers with the file connectors, as processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.beside.programs import UP_S, Program, java
from tests.clients.driver import eventually
from tests.support.maven import connect_classpath
from tests.support.real_kafka import free_port

__all__ = ["VERSION", "Worker"]

VERSION = "4.1.0"

_SETTINGS = Path(__file__).parents[2] / "examples" / "connect.properties"
_SESSION = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}


class Worker(Program):
    """A worker of the group ``connect``: with examples/connect.properties, and ``settings`` that win over those."""

    def __init__(self, bootstrap: str, directory: Path, name: str = "worker", **settings: str) -> None:
        port = free_port()
        own = {"listeners": f"http://127.0.0.1:{port}", "plugin.path": str(directory), "bootstrap.servers": bootstrap}
        changed = {**own, **_SESSION, "client.id": name}
        changed |= {key.replace("_", "."): value for key, value in settings.items()}
        properties = directory / f"{name}.properties"
        lines = [
            _SETTINGS.read_text(),
            *(f"{key}={value}\n" for key, value in changed.items()),
        ]  # the last one of a key wins
        properties.write_text("".join(lines))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        super().__init__(name, java("-cp", connect_classpath(VERSION), main, str(properties)), directory, port)

    def running(self, connector: str, tasks: int) -> dict[str, Any]:
        """Return the worker's status of a connector, once the connector and all its tasks run."""

        def all_run(status: dict[str, Any]) -> bool:
            states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
            return states == ["RUNNING"] * (1 + tasks)

        path = f"/connectors/{connector}/status"
        return eventually(f"{connector} runs {tasks} tasks", lambda: self.ask(path), all_run, UP_S)
