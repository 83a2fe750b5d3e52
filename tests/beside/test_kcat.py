"""kcat: what it lists, writes, reads as a group and asks for offsets."""

from __future__ import annotations

import json

import pytest

from broker_sim import ClusterThread
from tests.clients.exactly_once import cluster
from tests.support.processes import run
from tests.support.real_kafka import need_tool

pytestmark = [pytest.mark.clients]


def kcat(kafka: ClusterThread, *arguments: str, stdin: str | None = None) -> str:
    """Run kcat and return its stdout."""
    return run([need_tool("kcat"), "-b", kafka.bootstrap, *arguments], input=stdin, check=True).stdout


def test_kcat_lists_writes_reads_and_queries() -> None:
    with cluster("4.1") as kafka:
        listed = json.loads(kcat(kafka, "-L", "-J"))
        assert len(listed["brokers"]) == 2
        assert {topic["topic"]: len(topic["partitions"]) for topic in listed["topics"]}.items() >= {"in": 2}.items()

        kcat(kafka, "-P", "-t", "in", "-p", "1", "-K:", "-z", "zstd", stdin="a:1\nb:2\nc:3\n")
        read = kcat(kafka, "-C", "-t", "in", "-e", "-q", "-f", "%p %o %k %s\n")
        assert read.splitlines() == ["1 0 a 1", "1 1 b 2", "1 2 c 3"]
        assert kcat(kafka, "-Q", "-t", "in:1:-1").split() == ["in", "[1]", "offset", "3"]

        as_group = ("-X", "auto.offset.reset=earliest", "-e", "-q", "-f", "%k\n", "-G", "billing", "in")
        assert kcat(kafka, *as_group).split() == ["a", "b", "c"]
        assert kafka.group("billing").committed()["in", 1] == 3
        assert kcat(kafka, *as_group).split() == []
