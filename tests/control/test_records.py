"""Records of a topic over HTTP and on the command line."""

from __future__ import annotations

from collections.abc import Callable

from tests.control.outside import Brokers, Outside


async def test_records_are_read_and_waited_for(cluster: Brokers) -> None:
    await cluster.do("topic.create", topic="audit", partitions=2)
    await cluster.do("topic.fill", topic="audit", records=5)
    assert (await cluster.do("topic.wait", topic="audit", records=5))["records"] == 5
    answer = await cluster.do("topic.records", topic="audit", limit=2)
    assert [(one["partition"], one["offset"], one["key"]) for one in answer["records"]] == [
        (0, 0, "key-0"),
        (0, 1, "key-2"),
    ]
    assert answer["more"]
    of_one = await cluster.do("topic.records", topic="audit", partition=1, offset=1, encoding="base64")
    assert [one["value"] for one in of_one["records"]] == ["YXVkaXQtMw=="]
    assert not of_one["more"]
    assert (await cluster.refused("topic.wait", topic="audit", records=6, timeout="10ms")).status == 408
    assert (await cluster.refused("topic.records", topic="none")).status == 404


def test_the_command_prints_a_line_for_each_record(outside: Callable[..., Outside]) -> None:
    kafka = outside("--topic", "orders:2", "--clock", "manual")
    assert kafka.run("topic", "records", "orders").stdout == "no records\n"
    kafka.run("topic", "fill", "orders", "3")
    lines = kafka.run("topic", "records", "orders", "--limit", "2").stdout.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["0@0", "0@1"]
    assert lines[0].endswith(" key-0: orders-0")
    assert lines[2:] == ["... there are more: --limit N, --offset N"]
    assert kafka.run("topic", "wait", "orders", "3").stdout.startswith("orders: 2 partitions")
