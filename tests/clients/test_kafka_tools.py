"""Kafka's own command line tools, of 3.4 and of 4.1, as processes against the broker under test (rig.py).

The groups that they look at are made by a real consumer (the aiokafka driver).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.clients import CLIENTS
from tests.clients.driver import eventually
from tests.clients.rig import Garage, Target
from tests.clients.scenarios import Lab, of, share_out
from tests.support.real_kafka import java_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]  # may have to fetch Kafka first

MAIN = {
    "3.4.0": {
        "topics": "kafka.admin.TopicCommand",
        "configs": "kafka.admin.ConfigCommand",
        "consumer-groups": "kafka.admin.ConsumerGroupCommand",
        "get-offsets": "kafka.tools.GetOffsetShell",
        "delete-records": "kafka.admin.DeleteRecordsCommand",
        "broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
        "log-dirs": "kafka.admin.LogDirsCommand",
        "cluster": "kafka.tools.ClusterTool",
        "console-producer": "kafka.tools.ConsoleProducer",
        "console-consumer": "kafka.tools.ConsoleConsumer",
    },
    "4.1.0": {
        "topics": "org.apache.kafka.tools.TopicCommand",
        "configs": "kafka.admin.ConfigCommand",
        "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "groups": "org.apache.kafka.tools.GroupsCommand",
        "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
        "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
        "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
        "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
        "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
        "cluster": "org.apache.kafka.tools.ClusterTool",
        "console-producer": "org.apache.kafka.tools.ConsoleProducer",
        "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    },
}


class Tools:
    """The tools of one Kafka version, pointed at the broker."""

    def __init__(self, version: str, bootstrap: str) -> None:
        self.version = version
        self.bootstrap = bootstrap

    def __call__(self, tool: str, *args: str, stdin: str | None = None) -> str:
        """Runs the tool; its stdout. A failure of any kind is a failed test."""
        done = self.run(tool, *args, stdin=stdin)
        output = f"{tool} {' '.join(args)} gave {done[0]}:\n{done[1][-2000:]}\n{done[2][-2000:]}"
        assert done[0] == 0, output
        assert not re.search(r"Exception|ERROR|Error:|disconnected", done[1] + done[2]), output
        return done[1]

    def run(self, tool: str, *args: str, stdin: str | None = None) -> tuple[int, str, str]:
        done = java_tool(
            self.version, MAIN[self.version][tool], "--bootstrap-server", self.bootstrap, *args, stdin=stdin
        )
        return done.returncode, done.stdout, done.stderr

    def groups(self, *args: str) -> list[dict[str, str]]:
        return table(self("consumer-groups", *args))


def table(output: str) -> list[dict[str, str]]:
    """Rows of the first table of `output`: column name -> cell. A cell with a blank counts as two columns."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    at = next(i for i, words in enumerate(lines) if words[0] == "GROUP")
    return [dict(zip(lines[at], words, strict=False)) for words in lines[at + 1 :]]


@pytest.fixture(params=list(MAIN))
def tools(request: pytest.FixtureRequest, target: Target) -> Tools:
    return Tools(request.param, target.bootstrap)


@pytest.fixture
def lab(garage: Garage) -> Iterator[Lab]:
    (client,) = (client for client in CLIENTS if client.name == "aiokafka")
    lab = Lab(client, garage.driver(client), lambda: garage.new(client))
    yield lab
    lab.close()


def test_topics_are_created_listed_described_altered_and_deleted(tools: Tools, lab: Lab) -> None:
    topic = lab.name("topic")
    tools("topics", "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=3600000")
    assert topic in tools("topics", "--list").split()
    described = tools("topics", "--describe", "--topic", topic)
    assert re.search(r"PartitionCount:\s*3\b", described)
    assert re.search(r"ReplicationFactor:\s*1\b", described)
    assert "retention.ms=3600000" in described
    assert len(re.findall(r"Leader:\s*\d+", described)) == 3
    tools("topics", "--alter", "--topic", topic, "--partitions", "5")
    assert re.search(r"PartitionCount:\s*5\b", tools("topics", "--describe", "--topic", topic))
    tools("topics", "--delete", "--topic", topic)
    eventually("the topic is gone", lambda: topic not in tools("topics", "--list").split())


def test_creating_a_topic_twice_is_refused(tools: Tools, lab: Lab) -> None:
    code, out, err = tools.run("topics", "--create", "--topic", lab.topic(1), "--partitions", "1")
    assert code != 0
    assert "already exists" in out + err


def test_configs_of_a_topic_are_altered_and_described(tools: Tools, lab: Lab) -> None:
    entity = ["--entity-type", "topics", "--entity-name", lab.topic(1)]
    tools("configs", *entity, "--alter", "--add-config", "retention.ms=60000,cleanup.policy=compact")
    described = tools("configs", *entity, "--describe")
    assert "retention.ms=60000" in described
    assert "cleanup.policy=compact" in described
    tools("configs", *entity, "--alter", "--delete-config", "cleanup.policy")
    described = tools("configs", *entity, "--describe")
    assert "retention.ms=60000" in described
    assert "cleanup.policy=" not in described


def test_configs_of_a_broker_are_described(tools: Tools) -> None:
    output = tools("broker-api-versions")
    node = re.findall(r"\(id: (\d+) rack", output)[0]
    described = tools("configs", "--entity-type", "brokers", "--entity-name", node, "--describe", "--all")
    assert "group.initial.rebalance.delay.ms=50" in described


def test_console_producer_and_consumer(tools: Tools, lab: Lab) -> None:
    topic, group = lab.topic(2), lab.group()
    keyed = ["--property", "parse.key=true", "--property", "key.separator=:"]
    tools("console-producer", "--topic", topic, *keyed, stdin="".join(f"k{i}:v{i}\n" for i in range(10)))
    shown = ["--property", "print.key=true", "--property", "key.separator=:"]
    consume = ["--topic", topic, "--from-beginning", "--max-messages", "10", "--timeout-ms", "15000", *shown]
    output = tools_consume(tools, *consume, "--group", group)
    assert sorted(output.split()) == sorted(f"k{i}:v{i}" for i in range(10))
    assert sum(lab.committed(group, topic, 2).values()) == 10
    one_partition = ["--topic", topic, "--partition", "0", "--offset", "1", "--max-messages", "1"]
    assert tools_consume(tools, *one_partition, "--timeout-ms", "15000").startswith("v")


def tools_consume(tools: Tools, *args: str) -> str:
    """The console consumer; it counts its messages on stderr."""
    code, out, err = tools.run("console-consumer", *args)
    assert code == 0, err
    assert "Exception" not in err, err
    return out


def test_get_offsets(tools: Tools, lab: Lab) -> None:
    topic = lab.topic(2)
    base = 1_700_000_000_000
    lab.produce(topic, [{"partition": 0, "value": f"{i}", "timestamp": base + 1000 * i} for i in range(5)])

    def offsets(time: str) -> list[str]:
        return sorted(tools("get-offsets", "--topic", topic, "--time", time).split())

    assert offsets("-1") == [f"{topic}:0:5", f"{topic}:1:0"]
    assert offsets("-2") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert offsets("-3")[0] == f"{topic}:0:4"  # the record with the largest timestamp
    assert offsets(str(base + 2500))[0] == f"{topic}:0:3"


def test_delete_records(tools: Tools, lab: Lab, tmp_path: Path) -> None:
    topic = lab.topic(1)
    lab.fill(topic, 1, 5)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}))
    output = tools("delete-records", "--offset-json-file", str(wanted))
    assert re.search(rf"{topic}-0\s+low_watermark: 3", output)
    assert tools("get-offsets", "--topic", topic, "--time", "-2").split() == [f"{topic}:0:3"]


def test_consumer_groups_show_a_living_group(tools: Tools, lab: Lab) -> None:
    topic, group = lab.topic(2), lab.group()
    lab.fill(topic, 2, 5)
    members = [lab.member(group=group, topics=[topic]) for _ in range(2)]
    share_out(members, of(topic, 0, 1))
    for member in members:
        (mine,) = member.assignment()
        member.commit("sync", [(*mine, 3, "")])
    assert group in tools("consumer-groups", "--list").split()
    listed = tools("consumer-groups", "--list", "--state", "Stable")
    assert re.search(rf"^{group}\s.*Stable", listed, re.MULTILINE)

    rows = tools.groups("--describe", "--group", group)
    assert sorted((r["TOPIC"], r["PARTITION"], r["CURRENT-OFFSET"], r["LOG-END-OFFSET"], r["LAG"]) for r in rows) == [
        (topic, "0", "3", "5", "2"),
        (topic, "1", "3", "5", "2"),
    ]
    assert {row["CLIENT-ID"] for row in rows} == {member.name for member in members}
    assert all(row["CONSUMER-ID"].startswith(row["CLIENT-ID"]) for row in rows)

    output = tools("consumer-groups", "--describe", "--group", group, "--members", "--verbose")
    assert {row["CLIENT-ID"]: row["#PARTITIONS"] for row in table(output)} == {m.name: "1" for m in members}
    for index in (0, 1):
        assert re.search(rf"{topic}(\({index}\)|:{index}\b)", output)

    (row,) = tools.groups("--describe", "--group", group, "--state")
    assert (row["ASSIGNMENT-STRATEGY"], row["STATE"], row["#MEMBERS"]) == ("range", "Stable", "2")

    code, out, err = tools.run("consumer-groups", "--delete", "--group", group)
    assert "not empty" in out + err or "GroupNotEmptyException" in out + err
    code, out, err = tools.run(
        "consumer-groups", "--reset-offsets", "--group", group, "--to-earliest", "--topic", topic
    )
    assert "inactive" in out + err
    assert code in (0, 1)
    assert lab.committed(group, topic, 2) == {0: 3, 1: 3}


def test_consumer_groups_reset_and_delete(tools: Tools, lab: Lab) -> None:
    topic, other, group = lab.topic(2), lab.topic(1), lab.group()
    base = 1_700_000_000_000
    lab.produce(topic, [{"partition": i % 2, "value": f"{i}", "timestamp": base + 1000 * i} for i in range(10)])
    lab.fill(other, 1, 2)
    member = lab.member(group=group, topics=[topic, other])
    member.owns(of(topic, 0, 1) | of(other, 0))
    member.commit("sync", [(topic, 0, 5, ""), (topic, 1, 5, ""), (other, 0, 2, "")])
    member.leave()

    (row,) = tools.groups("--describe", "--group", group, "--state")
    assert "Empty" in row.values()
    reset = ["--reset-offsets", "--group", group, "--topic", topic]
    dry = tools.groups(*reset, "--to-earliest", "--dry-run")
    assert sorted((r["PARTITION"], r["NEW-OFFSET"]) for r in dry) == [("0", "0"), ("1", "0")]
    assert lab.committed(group, topic, 2) == {0: 5, 1: 5}
    for how, expected in (
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--shift-by", "2"], {0: 2, 1: 2}),
        (["--to-datetime", "2023-11-14T22:13:26.500"], {0: 4, 1: 3}),
        (["--to-latest"], {0: 5, 1: 5}),
        (["--to-offset", "1"], {0: 1, 1: 1}),
    ):
        tools.groups(*reset, *how, "--execute")
        assert lab.committed(group, topic, 2) == expected, how

    assert re.search(rf"{topic}\s+0\s+Successful", tools("consumer-groups", *delete_offsets(group, topic)))
    assert lab.committed(group, topic, 2) == {0: -1, 1: -1}
    assert lab.committed(group, other, 1) == {0: 2}
    assert "successful" in tools("consumer-groups", "--delete", "--group", group)
    assert group not in tools("consumer-groups", "--list").split()
    assert lab.committed(group, other, 1) == {0: -1}


def delete_offsets(group: str, topic: str) -> list[str]:
    return ["--delete-offsets", "--group", group, "--topic", topic]


def test_consumer_groups_name_a_group_that_does_not_exist(tools: Tools, lab: Lab) -> None:
    _code, out, err = tools.run("consumer-groups", "--describe", "--group", lab.group())
    assert re.search("does not exist|not found", out + err)


def test_groups_of_every_type_are_listed(lab: Lab, target: Target) -> None:
    tools = Tools("4.1.0", target.bootstrap)
    topic, group = lab.topic(1), lab.group()
    lab.member(group=group, topics=[topic]).owns(of(topic, 0))
    row = rf"^{group}\s+(Classic\s+)?consumer"  # Kafka 3.4 does not tell the type
    assert re.search(row, tools("groups", "--list"), re.MULTILINE)


def test_groups_and_client_metrics_with_settings_are_listed(lab: Lab, target: Target) -> None:
    """Tools that ask for no name ask which there are (KIP-1142)."""
    tools, group, metrics = Tools("4.1.0", target.bootstrap), lab.name("group"), lab.name("metrics")
    of_group = ["--entity-type", "groups", "--entity-name", group]
    tools("configs", *of_group, "--alter", "--add-config", "share.record.lock.duration.ms=20000")
    described = tools("configs", "--entity-type", "groups", "--describe")
    assert group in described
    assert "share.record.lock.duration.ms=20000" in described
    tools(
        "client-metrics", "--alter", "--name", metrics, "--interval", "1000", "--metrics", "org.apache.kafka.producer."
    )
    assert metrics in tools("client-metrics", "--list").split()
    tools("client-metrics", "--delete", "--name", metrics)
    eventually("it is gone", lambda: metrics not in tools("client-metrics", "--list").split())


def test_broker_api_versions(tools: Tools, target: Target) -> None:
    output = tools("broker-api-versions")
    addresses = re.findall(r"^(\S+:\d+) \(id: \d+ rack: \S+\b", output, re.MULTILINE)
    assert sorted(addresses) == sorted(target.bootstrap.split(","))
    for api in ("Produce(0)", "Fetch(1)", "JoinGroup(11)", "OffsetCommit(8)", "ApiVersions(18)"):
        lines = re.findall(rf"{re.escape(api)}: .*", output)
        assert len(lines) == len(addresses)
        assert all("usable" in line for line in lines)


def test_log_dirs(tools: Tools, lab: Lab) -> None:
    topic = lab.topic(1)
    lab.fill(topic, 1, 3)
    output = tools("log-dirs", "--describe", "--topic-list", topic)
    described = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    found = [p for b in described["brokers"] for d in b["logDirs"] for p in d["partitions"]]
    assert [partition["partition"] for partition in found] == [f"{topic}-0"]
    assert found[0]["size"] > 0


def test_cluster_id(tools: Tools) -> None:
    done = java_tool(tools.version, MAIN[tools.version]["cluster"], "cluster-id", "--bootstrap-server", tools.bootstrap)
    assert re.search(r"Cluster ID: \S{22}", done.stdout), done.stdout + done.stderr
