"""Consumer groups of KIP-848: members that join, take up what they are given, give it back, err and leave; commits with their epochs;
classic requests to the same group. Nobody's timers run out.
"""

from __future__ import annotations

from typing import Any

from tests.differential.generators import data
from tests.differential.generators.data import MADE
from tests.differential.generators.draw import Draw

GROUP = "{p}g"
API = "ConsumerGroupHeartbeat"
LONG_MS = 30_000


class Client:
    """A member. It names itself, as those of v1 do, so that all that hangs on the order of ids is the same on both sides."""

    def __init__(self, draw: Draw, name: str) -> None:
        self.name = name
        self.id = "{p}m" + name
        self.instance = draw.mostly(None, "{p}i1", "{p}i2", odds=0.75)
        self.topics = list(dict.fromkeys(draw.some(["t0", "t1", MADE, MADE, "{p}none"], 1, 2)))
        self.assignor = draw.mostly(None, "uniform", "range", odds=0.6)

    def joining(self) -> dict[str, Any]:
        return {
            "group_id": GROUP,
            "member_id": self.id,
            "member_epoch": 0,
            "instance_id": self.instance,
            "rebalance_timeout_ms": LONG_MS,
            "subscribed_topic_names": self.topics,
            "server_assignor": self.assignor,
            "topic_partitions": [],
        }

    def beating(self) -> dict[str, Any]:
        return {
            "group_id": GROUP,
            "member_id": self.id,
            "member_epoch": f"$cepoch:{self.name}",
            "instance_id": self.instance,
        }


def sequence(draw: Draw) -> None:
    """10 to 40 requests of up to three members."""
    if API not in draw.versions:
        return
    data.make_topics(draw)
    clients = [Client(draw, name) for name in "abc"[: draw.rng.choices([1, 2, 3], [2, 4, 3])[0]]]
    for client in clients:
        if draw.often(0.8):
            _join(draw, client)
    for _ in range(draw.rng.randint(8, 30)):
        draw.rng.choices(
            [_beat, _take_up, _join, _leave, _bent, _commit, _fetch, _look, _others],
            [6, 8, 2, 1.5, 4, 3, 1, 3, 1],
        )[0](draw, draw.one(clients))
    draw.step("ConsumerGroupDescribe", "look", None, group_ids=[GROUP])
    draw.step("OffsetFetch", "look", 7, group_id=GROUP, topics=None)


def _send(draw: Draw, client: Client, body: dict[str, Any]) -> None:
    draw.step(API, client.name, draw.version(API, 1) if draw.has(API, 1) else 0, **body)


def _join(draw: Draw, client: Client) -> None:
    if draw.often(0.1):
        client.topics = list(dict.fromkeys(draw.some(["t0", "t1", MADE], 1, 3)))
    _send(draw, client, client.joining())


def _beat(draw: Draw, client: Client) -> None:
    _send(draw, client, client.beating())


def _take_up(draw: Draw, client: Client) -> None:
    """Says that it has what it was given last; then most often has nothing to add."""
    _send(draw, client, client.beating() | {"topic_partitions": f"$cparts:{client.name}"})


def _leave(draw: Draw, client: Client) -> None:
    _send(draw, client, client.beating() | {"member_epoch": draw.mostly(-1, -2, odds=0.7)})


def _bent(draw: Draw, client: Client) -> None:
    """One field or two otherwise than they should be."""
    body = client.joining() if draw.often(0.4) else client.beating()
    for _ in range(draw.mostly(1, 2, odds=0.8)):
        name, value = draw.one(
            [
                ("group_id", draw.one(["", "{p}h", " "])),
                ("member_id", draw.one(["", "nobody", "{p}ma", "{p}mb"])),
                (
                    "member_epoch",
                    draw.one([f"$cepoch:{client.name}:1", f"$cepoch:{client.name}:-1", -1, -2, -3, 0, 99]),
                ),
                ("instance_id", draw.one(["", "{p}i1", "{p}i2", "{p}i9", None])),
                ("rack_id", draw.one(["r1", "", None])),
                ("rebalance_timeout_ms", draw.one([-1, 0, 1000, LONG_MS])),
                ("subscribed_topic_names", draw.one([None, [], ["t0"], ["t0", "t0"], ["{p}none"], [MADE, "t1"]])),
                ("subscribed_topic_regex", draw.one(["[", "(?=x)", ""])),
                ("server_assignor", draw.one(["uniform", "range", "nonsense", "", None])),
                ("topic_partitions", draw.one([None, [], [{"topic_id": f"$topic:{MADE}", "partitions": [0, 7]}]])),
            ]
        )
        body[name] = value
    _send(draw, client, body)


def _commit(draw: Draw, client: Client) -> None:
    rows = [{"partition_index": draw.one([0, 1]), "committed_offset": draw.one([1, 5, 77])}]
    draw.step(
        "OffsetCommit",
        client.name,
        draw.version("OffsetCommit", 5, 9),
        group_id=GROUP,
        member_id=draw.mostly(client.id, "", "nobody"),
        generation_id_or_member_epoch=draw.mostly(
            f"$cepoch:{client.name}", f"$cepoch:{client.name}:-1", f"$cepoch:{client.name}:1", -1, 0, odds=0.75
        ),
        group_instance_id=draw.mostly(client.instance, None, "{p}i1"),
        topics=[{"name": draw.mostly("t0", "t1", "{p}none", odds=0.7), "partitions": rows}],
    )


def _fetch(draw: Draw, client: Client) -> None:
    one = {
        "group_id": GROUP,
        "member_id": draw.mostly(client.id, None, "", "nobody", odds=0.6),
        "member_epoch": draw.mostly(f"$cepoch:{client.name}", -1, 0, 99, f"$cepoch:{client.name}:-1", odds=0.6),
        "topics": None if draw.often(0.5) else [{"name": "t0", "partition_indexes": [0, 1]}],
    }
    draw.step("OffsetFetch", client.name, draw.version("OffsetFetch", 8, 9), groups=[one])


def _look(draw: Draw, client: Client) -> None:
    kind = draw.one(["consumer", "consumer", "classic", "list"])
    if kind == "consumer":
        wanted = draw.some([GROUP, GROUP, "{p}h", "{p}nobody", ""], 1, 2)
        draw.step(
            "ConsumerGroupDescribe",
            "look",
            None,
            group_ids=list(dict.fromkeys(wanted)),
            include_authorized_operations=draw.often(0.3),
        )
    elif kind == "classic":
        draw.step("DescribeGroups", "look", None, groups=[GROUP])
    else:
        types = [] if draw.often(0.5) else [draw.one(["consumer", "classic", "Consumer"])]
        states = [] if draw.often(0.6) else [draw.one(["Stable", "Empty", "Assigning", "Reconciling"])]
        draw.step("ListGroups", "look", None, states_filter=states, types_filter=types)


OF_OTHERS = ["beat", "leave", "delete", "offsets", "sync"]


def _others(draw: Draw, client: Client) -> None:
    """What is meant for classic groups, and for groups without members."""
    of_others(draw, draw.one(OF_OTHERS), client.name, client.id)


def of_others(draw: Draw, kind: str, name: str, member_id: str) -> None:
    """One of `OF_OTHERS`, from the client ``name``."""
    if kind == "beat":
        draw.step("Heartbeat", name, None, group_id=GROUP, member_id=member_id, generation_id=1)
    elif kind == "leave":
        members = [{"member_id": draw.mostly(member_id, "nobody", odds=0.5), "group_instance_id": None}]
        draw.step("LeaveGroup", name, draw.version("LeaveGroup", 3), group_id=GROUP, members=members)
    elif kind == "delete":
        draw.step("DeleteGroups", "look", None, groups_names=[GROUP])
    elif kind == "offsets":
        topics = [{"name": draw.one(["t0", "t1"]), "partitions": [{"partition_index": 0}]}]
        draw.step("OffsetDelete", "look", None, group_id=GROUP, topics=topics)
    else:
        draw.step("SyncGroup", name, 5, group_id=GROUP, member_id=member_id, generation_id=1)
