"""Streams groups (KIP-1071): members that join with a topology, report their tasks, change them, err and leave; internal topics that
the broker creates; commits with their epochs; requests of other kinds of groups to the same group. No timer runs out.
"""

from __future__ import annotations

from typing import Any

from tests.differential.generators import data
from tests.differential.generators.consumers import GROUP, OF_OTHERS, of_others
from tests.differential.generators.data import MADE
from tests.differential.generators.draw import Draw

API = "StreamsGroupHeartbeat"
LONG_MS = 30_000
_REPARTITION, _CHANGELOG = "{p}rep", "{p}log"


class Client:
    """A member. Most members of a group have the same topology."""

    def __init__(self, draw: Draw, name: str, topology: dict[str, Any]) -> None:
        self.name = name
        self.id = "{p}m" + name
        self.instance = draw.mostly(None, "{p}i1", "{p}i2", odds=0.75)
        self.process = draw.mostly("{p}p" + name, "{p}p", odds=0.7)
        self.topology = draw.mostly(topology, _topology(draw), odds=0.9)
        self.tags = [{"key": "zone", "value": draw.one("ab")}] if draw.often(0.3) else None

    def joining(self) -> dict[str, Any]:
        body = {
            "group_id": GROUP,
            "member_id": self.id,
            "member_epoch": 0,
            "instance_id": self.instance,
            "rebalance_timeout_ms": LONG_MS,
            "topology": self.topology,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": self.process,
        }
        return body if self.tags is None else body | {"client_tags": self.tags}

    def beating(self) -> dict[str, Any]:
        return {
            "group_id": GROUP,
            "member_id": self.id,
            "member_epoch": f"$tepoch:{self.name}",
            "instance_id": self.instance,
        }

    def reporting(self) -> dict[str, Any]:
        """Fields that report the tasks that the client was assigned last."""
        return {f"{role}_tasks": f"$tasks:{self.name}/{role}" for role in ("active", "standby", "warmup")}


def sequence(draw: Draw) -> None:
    """10 to 40 requests of up to three members."""
    if API not in draw.versions:
        return
    data.make_topics(draw)
    if draw.often(0.3):
        _set(draw)
    topology = _topology(draw)
    clients = [Client(draw, name, topology) for name in "abc"[: draw.rng.choices([1, 2, 3], [2, 4, 3])[0]]]
    for client in clients:
        if draw.often(0.8):
            _join(draw, client)
    for _ in range(draw.rng.randint(8, 30)):
        draw.rng.choices(
            [_beat, _report, _join, _leave, _bent, _offsets, _commit, _fetch, _look, _others, _grow],
            [5, 8, 2, 1.5, 4, 1, 2, 0.7, 3, 1, 0.4],
        )[0](draw, draw.one(clients))
    draw.step("StreamsGroupDescribe", "look", None, group_ids=[GROUP])


def _topology(draw: Draw) -> dict[str, Any]:
    """Draw a topology that runs, or lacks something."""
    source = draw.mostly(MADE, "t0", "{p}none", "t1", odds=0.6)
    one: dict[str, Any] = {"subtopology_id": "0", "source_topics": [source]}
    kind = draw.rng.choices(["plain", "two", "state", "counting", "copartitioned", "odd"], [5, 3, 3, 4, 2, 2])[0]
    rows = [one]
    if kind == "two":
        rows.append({"subtopology_id": "1", "source_topics": draw.some([MADE, "t0", "t1", data.LATE], 1, 2)})
    elif kind == "state":
        one["state_changelog_topics"] = [{"name": _CHANGELOG, "topic_configs": _configs(draw)}]
    elif kind == "counting":
        one["repartition_sink_topics"] = [_REPARTITION]
        back = {"name": _REPARTITION, "partitions": draw.mostly(0, 1, 3, odds=0.6), "topic_configs": _configs(draw)}
        rows.append({"subtopology_id": "1", "repartition_source_topics": [back]})
        if draw.often(0.6):
            rows[1]["state_changelog_topics"] = [{"name": _CHANGELOG, "replication_factor": draw.mostly(0, 1, -1, 3)}]
    elif kind == "copartitioned":
        one["source_topics"] = sorted({source, draw.one([MADE, "t0", data.LATE])})
        one["copartition_groups"] = [{"source_topics": list(range(len(one["source_topics"])))}]
    elif kind == "odd":
        one |= draw.one(
            [
                {"source_topics": []},
                {"source_topics": ["t0", "t0"]},
                {"source_topics": ["__consumer_offsets"]},
                {"source_topics": ["a b", "", ".."]},
                {"source_topic_regex": ["t.*"]},
                {"subtopology_id": ""},
                {"state_changelog_topics": [{"name": _CHANGELOG, "partitions": 2}]},
                {"state_changelog_topics": [{"name": MADE}]},
                {"repartition_source_topics": [{"name": _REPARTITION}]},
                {"repartition_sink_topics": [_REPARTITION, "a b"]},
                {"copartition_groups": [{"source_topics": [draw.one([0, 1, -1, 7])]}]},
                {"copartition_groups": [{"repartition_source_topics": [draw.one([0, 3])]}]},
                {"copartition_groups": [{"source_topic_regex": [0]}]},
            ]
        )
        if draw.often(0.2):
            rows.append(dict(one))
    return {"epoch": draw.mostly(0, 1, 2, -1, odds=0.85), "subtopologies": rows}


def _configs(draw: Draw) -> list[dict[str, str]]:
    return draw.mostly(
        [],
        [{"key": "cleanup.policy", "value": "compact"}],
        [{"key": "cleanup.policy", "value": "compact"}, {"key": "retention.ms", "value": "7000"}],
        [{"key": "no.such.setting", "value": "1"}],
        odds=0.6,
    )


def _set(draw: Draw) -> None:
    """Settings of the group's own."""
    name, value = draw.one(
        [("num.standby.replicas", "1"), ("num.standby.replicas", "2"), ("session.timeout.ms", "50000")]
    )
    row = {"name": f"streams.{name}", "config_operation": 0, "value": value}
    draw.step(
        "IncrementalAlterConfigs",
        "look",
        None,
        resources=[{"resource_type": 32, "resource_name": GROUP, "configs": [row]}],
    )


def _send(draw: Draw, client: Client, body: dict[str, Any]) -> None:
    draw.step(API, client.name, None, **body)


def _join(draw: Draw, client: Client) -> None:
    body = client.joining()
    if draw.often(0.2):
        body["user_endpoint"] = {"host": draw.one(["h1", "h2"]), "port": draw.one([1, 8080])}
    if draw.often(0.2):
        body["rack_id"] = draw.one(["r1", "r2"])
    _send(draw, client, body)


def _beat(draw: Draw, client: Client) -> None:
    _send(draw, client, client.beating() | {"endpoint_information_epoch": draw.mostly(0, 1, 2, -1, odds=0.5)})


def _report(draw: Draw, client: Client) -> None:
    _send(draw, client, client.beating() | client.reporting())


def _leave(draw: Draw, client: Client) -> None:
    _send(draw, client, client.beating() | {"member_epoch": draw.mostly(-1, -2, odds=0.7)})


def _offsets(draw: Draw, client: Client) -> None:
    """Draw a heartbeat with the offsets that the client's tasks have reached."""
    rows = [{"subtopology_id": draw.one("01"), "partition": draw.one([0, 1]), "offset": draw.one([0, 5, 20_000])}]
    body = client.beating() | {"task_offsets": rows}
    if draw.often(0.7):
        body["task_end_offsets"] = [rows[0] | {"offset": draw.one([0, 5, 20_000])}]
    _send(draw, client, body)


def _bent(draw: Draw, client: Client) -> None:
    """One field or two otherwise than they should be."""
    body = client.joining() if draw.often(0.4) else client.beating()
    here = f"$tepoch:{client.name}"
    tasks = [[], [{"subtopology_id": "0", "partitions": [0]}], [{"subtopology_id": "0", "partitions": [0, 9]}]]
    tasks.append([{"subtopology_id": "7", "partitions": []}, {"subtopology_id": "0", "partitions": [1, 1]}])
    for _ in range(draw.mostly(1, 2, odds=0.8)):
        name, value = draw.one(
            [
                ("group_id", draw.one(["", "{p}h", " "])),
                ("member_id", draw.one(["", "nobody", "{p}ma", "{p}mb", " "])),
                ("member_epoch", draw.one([f"{here}:1", f"{here}:-1", -1, -2, -3, 0, 99])),
                ("instance_id", draw.one(["", "{p}i1", "{p}i2", "{p}i9", None])),
                ("rack_id", draw.one(["r1", "", None])),
                ("rebalance_timeout_ms", draw.one([-1, 40_000, LONG_MS])),
                ("topology", draw.one([None, _topology(draw)])),
                ("active_tasks", draw.one([None, *tasks])),
                ("standby_tasks", draw.one([None, *tasks])),
                ("warmup_tasks", draw.one([None, *tasks])),
                ("process_id", draw.one([None, "", "{p}p9"])),
                ("user_endpoint", draw.one([None, {"host": "", "port": 0}, {"host": "h3", "port": 65_535}])),
                ("client_tags", draw.one([None, [], [{"key": "zone", "value": "x"}, {"key": "zone", "value": "y"}]])),
                ("shutdown_application", True),
                ("endpoint_information_epoch", draw.one([-1, 3])),
            ]
        )
        body[name] = value
    _send(draw, client, body)


def _commit(draw: Draw, client: Client) -> None:
    here = f"$tepoch:{client.name}"
    rows = [{"partition_index": draw.one([0, 1]), "committed_offset": draw.one([1, 5, 77])}]
    draw.step(
        "OffsetCommit",
        client.name,
        draw.version("OffsetCommit", 5, 9),
        group_id=GROUP,
        member_id=draw.mostly(client.id, "", "nobody"),
        generation_id_or_member_epoch=draw.mostly(here, f"{here}:-1", f"{here}:1", -1, 0, odds=0.75),
        group_instance_id=draw.mostly(client.instance, None, "{p}i1"),
        topics=[{"name": draw.mostly("t0", "t1", "{p}none", odds=0.7), "partitions": rows}],
    )


def _fetch(draw: Draw, client: Client) -> None:
    here = f"$tepoch:{client.name}"
    one = {
        "group_id": GROUP,
        "member_id": draw.mostly(client.id, None, "", "nobody", odds=0.6),
        "member_epoch": draw.mostly(here, -1, 0, 99, f"{here}:-1", odds=0.6),
        "topics": None if draw.often(0.5) else [{"name": "t0", "partition_indexes": [0, 1]}],
    }
    draw.step("OffsetFetch", client.name, draw.version("OffsetFetch", 8, 9), groups=[one])


def _look(draw: Draw, client: Client) -> None:
    kind = draw.one(["streams", "streams", "streams", "classic", "consumer", "list"])
    if kind == "streams":
        wanted = list(dict.fromkeys(draw.some([GROUP, GROUP, "{p}h", "{p}nobody", ""], 1, 2)))
        body = {"group_ids": wanted, "include_authorized_operations": draw.often(0.3)}
        version = draw.version("StreamsGroupDescribe")
        if version >= 1 and draw.often(0.3):
            body["include_topology_description"] = True
        draw.step("StreamsGroupDescribe", "look", version, **body)
    elif kind == "classic":
        draw.step("DescribeGroups", "look", None, groups=[GROUP])
    elif kind == "consumer":
        draw.step("ConsumerGroupDescribe", "look", None, group_ids=[GROUP])
    else:
        types = [] if draw.often(0.5) else [draw.one(["streams", "consumer", "Streams"])]
        states = [] if draw.often(0.6) else [draw.one(["Stable", "Empty", "Assigning", "Reconciling", "NotReady"])]
        draw.step("ListGroups", "look", None, states_filter=states, types_filter=types)


def _others(draw: Draw, client: Client) -> None:
    """Draw a request meant for other kinds of groups or for groups without members."""
    kind = draw.one([*OF_OTHERS, "join", "consumer", "share"])
    if kind in OF_OTHERS:
        of_others(draw, kind, client.name, client.id)
    elif kind == "join":
        rows = [{"name": "range", "metadata": "hex:"}]
        body = {"session_timeout_ms": LONG_MS, "rebalance_timeout_ms": LONG_MS, "protocol_type": "consumer"}
        draw.step("JoinGroup", client.name, 5, group_id=GROUP, member_id="nobody", protocols=rows, **body)
    elif kind == "consumer":
        body = {"member_epoch": draw.one([0, -1, 1]), "rebalance_timeout_ms": LONG_MS, "topic_partitions": []}
        named = {"member_id": client.id, "subscribed_topic_names": ["t0"]}
        draw.step("ConsumerGroupHeartbeat", client.name, 1, group_id=GROUP, **named, **body)
    else:
        named = {"member_id": client.id, "subscribed_topic_names": ["t0"]}
        draw.step("ShareGroupHeartbeat", client.name, 1, group_id=GROUP, member_epoch=1, **named)


def _grow(draw: Draw, client: Client) -> None:
    """The source topic gets another partition, or is deleted."""
    if draw.often(0.7):
        rows = [{"name": MADE, "count": 3, "assignments": None}]
        draw.step("CreatePartitions", "look", None, topics=rows, timeout_ms=5000)
    else:
        named = {"topics": [{"name": MADE, "topic_id": "hex:" + "00" * 16}]}
        draw.step("DeleteTopics", "look", 6, **named, timeout_ms=5000)
