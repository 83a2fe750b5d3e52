"""sarama, Go's other client: what it reads and writes in transactions is there once, although it is killed in the midst of its work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.clients import HERE, built, run_tool
from tests.clients.exactly_once import App, cluster, read
from tests.support.real_kafka import need_tool

pytestmark = [pytest.mark.clients]  # may have to fetch sarama first

MANY = 150


def app(bootstrap: str, directory: Path, kafka_version: str) -> App:
    """The transformer in a process of its own."""
    tool = need_tool("go")
    sources = [HERE / "sarama" / name for name in ("main.go", "go.mod", "go.sum")]

    def build(target: Path) -> None:
        run_tool([tool, "build", "-buildvcs=false", "-o", str(target / "transform"), "."], HERE / "sarama")

    program = built("sarama", sources, build) / "transform"
    return App([str(program), bootstrap, "transformers", "in", "out", kafka_version], directory)


def feed(bootstrap: str, numbers: range) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce("in", key="order", value=str(number).encode(), partition=number % 2)
    assert producer.flush(20) == 0


@pytest.mark.parametrize("version", ["3.4", "4.1"])
def test_what_it_transforms_is_there_once_although_it_is_killed(version: str, tmp_path: Path) -> None:
    with cluster(version) as kafka:
        kafka_version = "3.4.0" if version == "3.4" else "4.0.0"
        first = app(kafka.bootstrap, tmp_path, kafka_version)
        feed(kafka.bootstrap, range(MANY))
        begun = read(kafka.bootstrap, MANY // 10)
        assert len(begun) == len(set(begun))
        feed(kafka.bootstrap, range(MANY, 2 * MANY))
        first.kill()  # with what it has begun
        successor = app(kafka.bootstrap, tmp_path, kafka_version)
        try:
            wanted = sorted(f"order={number}" for number in range(2 * MANY))
            assert sorted(read(kafka.bootstrap, len(wanted))) == wanted
        finally:
            successor.close()
