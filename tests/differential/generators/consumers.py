"""Consumer groups of KIP-848: members that join, take up what they are given, give it back, err and leave; regular expressions that
come, change and go; commits with their epochs; classic members and requests of them in the same group. Nobody's timers run out.
"""

from __future__ import annotations

from typing import Any

from tests.differential.generators import data
from tests.differential.generators.data import MADE
from tests.differential.generators.draw import Draw

GROUP = "{p}g"
API = "ConsumerGroupHeartbeat"
LONG_MS = 30_000
REGEX = "subscribed_topic_regex"
EXPRESSIONS = ("{p}ma.*", "{p}(made|late)", "t[01]", "t0|{p}l.*", "{p}zzz.*", ".*nothing", "{p}.*", "{p}made")
"""Regular expressions that match topics of the play or shared ones alone."""
LATER = 8.0
"""In units from the beginning (play.UNIT_S): when ten seconds have passed since what was resolved before."""


class Client:
    """A member. It names itself, as those of v1 do, so that all that hangs on the order of ids is the same on both sides."""

    def __init__(self, draw: Draw, name: str) -> None:
        self.name = name
        self.id = "{p}m" + name
        self.instance = draw.mostly(None, "{p}i1", "{p}i2", odds=0.75)
        self.topics = list(dict.fromkeys(draw.some(["t0", "t1", MADE, MADE, "{p}none"], 1, 2)))
        self.assignor = draw.mostly(None, "uniform", "range", odds=0.6)
        self.expression = draw.one(EXPRESSIONS) if draw.often(0.3) and draw.has(API, 1) else None
        if self.expression is not None and draw.often(0.6):
            self.topics = []

    def joining(self) -> dict[str, Any]:
        named = {} if self.expression is None else {REGEX: self.expression}
        return named | {
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
    deeds, weights = (
        [_beat, _take_up, _join, _leave, _bent, _commit, _fetch, _look, _others],
        [6, 8, 2, 1.5, 4, 3, 1, 3, 1],
    )
    expressive = any(client.expression for client in clients) or (draw.often(0.1) and draw.has(API, 1))
    if expressive:
        deeds, weights = [*deeds, _express, _topics], [*weights, 5, 1]
    if draw.often(0.35):
        deeds, weights = [*deeds, _classic], [*weights, 9]
    count = draw.rng.randint(8, 30)
    pause = draw.rng.randint(3, count) if expressive and draw.often(0.15) else -1
    for number in range(count):
        if number == pause:
            draw.until(LATER)
        draw.rng.choices(deeds, weights)[0](draw, draw.one(clients))
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


def _express(draw: Draw, client: Client) -> None:
    """Draw a heartbeat with another expression, with none any more, or with other names beside it."""
    body = client.beating()
    kind = draw.rng.choices(["another", "none", "names", "again"], [5, 2, 2, 1])[0]
    if kind == "another":
        client.expression = draw.one(EXPRESSIONS)
    elif kind == "none":
        client.expression = None
    if kind == "names" or (kind == "none" and draw.often(0.7)):
        client.topics = list(dict.fromkeys(draw.some(["t0", "t1", MADE, "{p}none"], 0, 2)))
        body["subscribed_topic_names"] = client.topics
    if kind != "names" or draw.often(0.3):
        body[REGEX] = client.expression or ""
    _send(draw, client, body)


def _topics(draw: Draw, client: Client) -> None:
    """A topic more, or one less."""
    if draw.often(0.6):
        row = {"name": draw.one(["{p}mad", "{p}lake"]), "num_partitions": 1, "replication_factor": 1}
        draw.step("CreateTopics", "look", None, topics=[row])
    else:
        named = {"topics": [{"name": draw.one([MADE, "{p}mad"]), "topic_id": data.NO_ID}]}
        draw.step("DeleteTopics", "look", 6, **named, timeout_ms=30_000)


# ---- classic members


def _classic(draw: Draw, client: Client) -> None:
    """A request of one that speaks the classic protocol; its client id comes behind those of the others' ids, or before."""
    by = draw.mostly("k", "0", odds=0.75)
    kind = draw.rng.choices(["join", "sync", "beat", "leave", "commit"], [6, 4, 3, 1.5, 1])[0]
    member, generation = f"$member:{by}", f"$generation:{by}"
    if kind == "join":
        _classic_join(draw, by)
    elif kind == "sync":
        protocol = {"protocol_type": "consumer", "protocol_name": draw.mostly(f"$protocol:{by}", "nonsense", "")}
        named = {"member_id": member, "generation_id": draw.mostly(generation, f"{generation}:-1", f"{generation}:1")}
        draw.step("SyncGroup", by, 5, group_id=GROUP, assignments=[], **named, **protocol)
    elif kind == "beat":
        draw.step("Heartbeat", by, None, group_id=GROUP, member_id=member, generation_id=draw.mostly(generation, 0, 99))
    elif kind == "leave":
        rows = [{"member_id": member, "group_instance_id": draw.mostly(None, "{p}k1", "", odds=0.8)}]
        rows *= draw.mostly(1, 2, 3, odds=0.6)
        if draw.often(0.2):
            rows.append({"member_id": client.id, "group_instance_id": client.instance})
        draw.step("LeaveGroup", by, draw.version("LeaveGroup", 3), group_id=GROUP, members=rows)
    else:
        rows = [{"name": "t0", "partitions": [{"partition_index": 0, "committed_offset": 3}]}]
        named = {"member_id": member, "generation_id_or_member_epoch": generation}
        draw.step("OffsetCommit", by, draw.version("OffsetCommit", 5, 9), group_id=GROUP, topics=rows, **named)


def _classic_join(draw: Draw, by: str) -> None:
    version = draw.version("JoinGroup", 4)
    subscribed = {"version": draw.one([0, 1, 2, 3]), "topics": draw.some(["t0", "t1", MADE, "{p}none"], 1, 2)}
    kind = draw.rng.choices(["plain", "twice", "cut", "empty", "other", "eager"], [8, 1.5, 1, 1, 1, 1])[0]
    rows: list[dict[str, Any]] = [{"name": draw.mostly("range", "uniform", "x", odds=0.7)}]
    rows[0]["metadata"] = {"subscription": subscribed}
    if kind == "twice":
        rows.append(dict(rows[0]))
    elif kind == "cut":
        rows[0]["metadata"] = {"subscription": subscribed | {"cut": draw.one([1, 4, 9])}}
    elif kind == "empty":
        rows[0]["metadata"] = "hex:"
    elif kind == "other":
        rows.append({"name": "x", "metadata": draw.one(["hex:", "hex:0001", {"subscription": subscribed}])})
    body: dict[str, Any] = {
        "session_timeout_ms": LONG_MS,
        "rebalance_timeout_ms": draw.mostly(LONG_MS, -1, odds=0.92),
        "member_id": draw.mostly(f"$member:{by}", "", "nobody", odds=0.9),
        "protocol_type": draw.mostly("consumer", "connect", "", odds=0.95),
        "protocols": rows if draw.often(0.97) else [],
    }
    if version >= 5:
        body["group_instance_id"] = draw.mostly(None, "{p}k1", "", "{p}i1", odds=0.8)
    draw.step("JoinGroup", by, version, group_id=GROUP, **body)


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
                (REGEX, draw.one(["[", "(?=x)", ""])),
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
    """Draw a request meant for classic groups or for groups without members."""
    of_others(draw, draw.one(OF_OTHERS), client.name, client.id)


def of_others(draw: Draw, kind: str, name: str, member_id: str) -> None:
    """Draw one of `OF_OTHERS`, from the client ``name``."""
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
