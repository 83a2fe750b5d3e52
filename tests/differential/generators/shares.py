"""Share groups (KIP-932): members that join, fetch in sessions of several topics and partitions, acknowledge what they acquired and
what they did not, forget partitions, close sessions, err and leave; topics that are deleted, grown or never were; requests to the
share coordinator. No acquisition lock expires.
"""

from __future__ import annotations

from typing import Any

from tests.differential.generators.consumers import OF_OTHERS, of_others
from tests.differential.generators.data import LATE, MADE
from tests.differential.generators.draw import Draw

GROUP = "{p}g"
API = "ShareFetch"
BEAT, SAY = "ShareGroupHeartbeat", "ShareAcknowledge"
NO_ID = "hex:" + "00" * 16
IDS = {name: "A" * 20 + last for name, last in (("a", "AQ"), ("b", "Ag"), ("c", "Aw"))}
"""4.1 takes uuids alone."""
PARTITIONS = ((MADE, 0), (MADE, 0), (MADE, 0), (MADE, 1), (LATE, 0))
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


class Client:
    """A member. It names itself, as share members do."""

    def __init__(self, draw: Draw, name: str) -> None:
        self.name, self.id = name, IDS[name]
        self.topics = list(dict.fromkeys(draw.some([MADE, MADE, LATE, "{p}none"], 1, 3)))

    def joining(self) -> dict[str, Any]:
        return {
            "group_id": GROUP,
            "member_id": self.id,
            "member_epoch": 0,
            "subscribed_topic_names": self.topics,
        }

    def beating(self) -> dict[str, Any]:
        return {"group_id": GROUP, "member_id": self.id, "member_epoch": f"$hepoch:{self.name}"}


def sequence(draw: Draw) -> None:
    """20 to 50 requests of up to three members."""
    if API not in draw.versions:
        return
    draw.step("CreateTopics", "look", None, topics=_topics())
    _set(draw)
    for _ in range(draw.rng.randint(1, 5)):
        _produce(draw, None)
    clients = [Client(draw, name) for name in "abc"[: draw.rng.choices([1, 2, 3], [3, 4, 2])[0]]]
    for client in clients:
        _join(draw, client)
        _beat(draw, client)
        if draw.often(0.9):
            _open(draw, client)
    for _ in range(draw.rng.randint(12, 40)):
        draw.rng.choices(
            [_fetch, _say, _say_all, _open, _close, _beat, _join, _leave, _bent, _produce, _look, _others, _change],
            [9, 6, 4, 2, 1, 3, 1, 0.7, 2, 3, 2, 1, 0.7],
        )[0](draw, draw.one(clients))
    draw.step("ShareGroupDescribe", "look", None, group_ids=[GROUP])
    _offsets(draw)


def _topics() -> list[dict[str, Any]]:
    late = [{"name": "message.timestamp.type", "value": "LogAppendTime"}]
    return [
        {"name": name, "num_partitions": count, "replication_factor": 1, "configs": configs}
        for name, count, configs in ((MADE, 2, []), (LATE, 1, late))
    ]


def _set(draw: Draw) -> None:
    """Settings of the group's own: most often from the earliest record on."""
    rows = [("share.auto.offset.reset", "earliest")] if draw.often(0.9) else []
    if draw.often(0.2):
        rows.append(("share.isolation.level", "read_committed"))
    if draw.often(0.3) and draw.has(API, 2):
        rows.append(("share.delivery.count.limit", draw.one(["2", "3"])))
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in rows]
    if configs:
        resources = [{"resource_type": 32, "resource_name": GROUP, "configs": configs}]
        draw.step("IncrementalAlterConfigs", "look", None, resources=resources)


def _produce(draw: Draw, client: Client | None) -> None:
    name, index = draw.one(PARTITIONS)
    records = [{"key": "k", "value": f"v{number}"} for number in range(draw.rng.randint(1, 5))]
    topic: dict[str, Any] = {
        "name": name,
        "partition_data": [{"index": index, "records": {"batch": {"records": records}}}],
    }
    version = draw.version("Produce", 3)
    if version >= 13:
        topic["topic_id"] = f"$topic:{name}"
    draw.step("Produce", "p", version, acks=1, timeout_ms=30_000, topic_data=[topic])


# ---- membership


def _join(draw: Draw, client: Client) -> None:
    if draw.often(0.1):
        client.topics = list(dict.fromkeys(draw.some([MADE, LATE, "t0", "{p}none"], 1, 3)))
    draw.step(BEAT, client.name, None, **client.joining())


def _beat(draw: Draw, client: Client) -> None:
    draw.step(BEAT, client.name, None, **client.beating())


def _leave(draw: Draw, client: Client) -> None:
    draw.step(BEAT, client.name, None, **client.beating() | {"member_epoch": -1})


def _bent(draw: Draw, client: Client) -> None:
    """One field or two of a heartbeat otherwise than they should be."""
    body = client.joining() if draw.often(0.4) else client.beating()
    here = f"$hepoch:{client.name}"
    for _ in range(draw.mostly(1, 2, odds=0.8)):
        name, value = draw.one(
            [
                ("group_id", draw.one(["", "{p}h", " "])),
                ("member_id", draw.one(["", "nobody", *IDS.values()])),
                ("member_epoch", draw.one([f"{here}:1", f"{here}:-1", -1, -2, 0, 99])),
                ("rack_id", draw.one(["r1", "", None])),
                ("subscribed_topic_names", draw.one([None, [], [MADE], [MADE, MADE], ["{p}none"], [LATE, MADE]])),
            ]
        )
        body[name] = value
    draw.step(BEAT, client.name, None, **body)


# ---- sessions


def _rows(draw: Draw, client: Client, said: bool, low: int = 1) -> list[dict[str, Any]]:
    """Topics of a request, each partition once (of one named twice the last counts) but for now and then."""
    picked = list(dict.fromkeys(draw.some(PARTITIONS, low, 3)))
    if draw.often(0.1):
        picked.append(draw.one([(MADE, 2), (MADE, -1), ("{p}none", 0), (NO_ID, 0), picked[0] if picked else (MADE, 0)]))
    topics: dict[str, dict[str, Any]] = {}
    for name, index in picked:
        topic = topics.setdefault(name, {"topic_id": name if name == NO_ID else f"$topic:{name}", "partitions": []})
        batches = _batches(draw, client, name, index) if said and draw.often(0.7) else []
        topic["partitions"].append({"partition_index": index, "acknowledgement_batches": batches})
    return list(topics.values())


def _batches(draw: Draw, client: Client, name: str, index: int) -> Any:
    """Draw the acknowledgements for a partition: of all that was acquired last, or of any offsets."""
    if draw.often(0.4):
        return f"$acquired:{client.name}/{draw.one([ACCEPT, ACCEPT, RELEASE, REJECT])}/{name}/{index}"
    batches, first = [], draw.rng.randint(0, 3)
    for _ in range(draw.mostly(1, 2, 3, odds=0.7)):
        last = first + draw.rng.choices([0, 1, 2, 4], [5, 3, 2, 1])[0]
        kind = [draw.rng.choices([GAP, ACCEPT, RELEASE, REJECT, RENEW], [1, 5, 3, 2, 0.3])[0]]
        if last > first and draw.often(0.3):
            kind = [
                draw.one([GAP, ACCEPT, RELEASE, REJECT]) for _ in range(last - first + draw.mostly(1, 2, 0, odds=0.9))
            ]
        batches.append({"first_offset": first, "last_offset": last, "acknowledge_types": kind})
        first = last + draw.mostly(1, 2, 4, 0, -1, odds=0.6)
    return batches


def _limits(draw: Draw, version: int) -> dict[str, Any]:
    limits: dict[str, Any] = {
        "max_wait_ms": draw.mostly(0, 60, odds=0.6),
        "min_bytes": draw.mostly(1, 0, odds=0.8),
        "max_bytes": draw.mostly(1 << 20, 1, 100, odds=0.9),
        "max_records": draw.mostly(500, 1, 2, 5, odds=0.7),
        "batch_size": draw.mostly(500, 1, 2, 5, odds=0.7),
    }
    if version >= 2:
        limits["share_acquire_mode"] = draw.mostly(0, 1, odds=0.75)
        if draw.often(0.04):
            limits |= {"is_renew_ack": True, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    return limits


def _of_session(draw: Draw, client: Client) -> dict[str, Any]:
    here = f"$hsession:{client.name}"
    return {
        "group_id": GROUP,
        "member_id": client.id,
        "share_session_epoch": draw.mostly(here, f"{here}:1", f"{here}:-1", 0, odds=0.95),
    }


def _open(draw: Draw, client: Client) -> None:
    """A new session, whose partitions are loaded by that if nobody has fetched them."""
    version = draw.version(API)
    body = {
        "group_id": GROUP,
        "member_id": client.id,
        "share_session_epoch": 0,
        "topics": _rows(draw, client, draw.often(0.05)),
    }
    draw.step(API, client.name, version, **_limits(draw, version) | body)


def _fetch(draw: Draw, client: Client) -> None:
    """The next fetch of the session: with acknowledgements, with another partition, with one less, or as it is."""
    version = draw.version(API)
    body = _limits(draw, version) | _of_session(draw, client)
    if draw.often(0.5):
        body["topics"] = _rows(draw, client, said=draw.often(0.7))
    if draw.often(0.15):
        name, index = draw.one([*PARTITIONS, (MADE, 5), ("{p}none", 0)])
        body["forgotten_topics_data"] = [{"topic_id": f"$topic:{name}", "partitions": [index]}]
    draw.step(API, client.name, version, **body)


def _say(draw: Draw, client: Client) -> None:
    version = draw.version(SAY)
    body = _of_session(draw, client) | {"topics": _rows(draw, client, said=True, low=0 if draw.often(0.05) else 1)}
    if version >= 2 and draw.often(0.1):
        body["is_renew_ack"] = True
    draw.step(SAY, client.name, version, **body)


def _say_all(draw: Draw, client: Client) -> None:
    """Everything of a partition that was acquired last, at once."""
    name, index = draw.one(PARTITIONS)
    kind = draw.one([ACCEPT, ACCEPT, RELEASE, REJECT])
    rows = [{"partition_index": index, "acknowledgement_batches": f"$acquired:{client.name}/{kind}/{name}/{index}"}]
    topics = [{"topic_id": f"$topic:{name}", "partitions": rows}]
    draw.step(SAY, client.name, None, **_of_session(draw, client) | {"topics": topics})


def _close(draw: Draw, client: Client) -> None:
    """A final epoch, with acknowledgements or without, by either request."""
    body: dict[str, Any] = {"group_id": GROUP, "member_id": client.id, "share_session_epoch": -1}
    if draw.often(0.6):
        body["topics"] = _rows(draw, client, said=True)
    if draw.often(0.5):
        version = draw.version(API)
        limits = _limits(draw, version) if draw.often(0.3) else {"max_wait_ms": 0}
        draw.step(API, client.name, version, **limits | body)
    else:
        draw.step(SAY, client.name, None, **body)


# ---- beside members


KEYS = (
    *("{p}g", "", ":", "::", "0:", ":0", "{p}g:", "{p}g::0", ":AAAAAAAAAAAAAAAAAAAAAQ:0"),
    *(f"{{p}}g:AAAAAAAAAAAAAAAAAAAAAQ:{index}" for index in ("0", "-1", "+5", "99999999999", "", " 1", "x", "٣")),
    *(
        "{p}g:AAAAAAAAAAAAAAAAAAAAAA:0",
        "{p}g:AAAA:0",
        "{p}g:!:0",
        "{p}g:x:AAAAAAAAAAAAAAAAAAAAAQ:0",
        "g:0:AAAAAAAAAAAAAAAAAAAAAQ",
    ),
)
"""Keys of share partitions, GROUP:TOPIC ID:PARTITION, most of them malformed."""


def _look(draw: Draw, client: Client) -> None:
    kind = draw.rng.choices(["share", "offsets", "coordinator", "list", "classic"], [3, 3, 2, 1, 1])[0]
    if kind == "share":
        wanted = list(dict.fromkeys(draw.some([GROUP, GROUP, "{p}h", "{p}nobody", ""], 1, 2)))
        draw.step("ShareGroupDescribe", "look", None, group_ids=wanted, include_authorized_operations=draw.often(0.3))
    elif kind == "offsets":
        _offsets(draw)
    elif kind == "coordinator":
        version = draw.version("FindCoordinator", 1)
        if version >= 4:
            draw.step("FindCoordinator", "look", version, key_type=2, coordinator_keys=draw.some(KEYS, 1, 4))
        else:
            draw.step("FindCoordinator", "look", version, key_type=2, key=draw.one(KEYS))
    elif kind == "list":
        types = [] if draw.often(0.5) else [draw.one(["share", "consumer", "Share"])]
        states = [] if draw.often(0.6) else [draw.one(["Stable", "Empty", "Dead"])]
        draw.step("ListGroups", "look", None, states_filter=states, types_filter=types)
    else:
        draw.step("DescribeGroups", "look", None, groups=[GROUP])


def _offsets(draw: Draw) -> None:
    names = draw.some([MADE, LATE, "{p}none"], 1, 2)
    topics = [
        {"topic_name": name, "partitions": [0] if name == LATE or draw.often(0.5) else [0, 1]}
        for name in dict.fromkeys(names)
    ]
    groups = [{"group_id": draw.mostly(GROUP, "{p}h", odds=0.9), "topics": topics if draw.often(0.7) else None}]
    draw.step("DescribeShareGroupOffsets", "look", None, groups=groups)


def _others(draw: Draw, client: Client) -> None:
    """Draw a request meant for groups of other kinds or without members."""
    kind = draw.one([*OF_OTHERS, "consumer", "alter", "forget", "forget"])
    if kind in OF_OTHERS:
        of_others(draw, kind, client.name, client.id)
    elif kind == "consumer":
        body = {"member_id": client.id, "subscribed_topic_names": [MADE], "rebalance_timeout_ms": 30_000}
        draw.step("ConsumerGroupHeartbeat", client.name, 1, group_id=GROUP, topic_partitions=[], member_epoch=0, **body)
    elif kind == "alter":
        rows = [{"partition_index": draw.one([0, 0, 1]), "start_offset": draw.one([0, 1, 3])}]
        draw.step(
            "AlterShareGroupOffsets", "look", None, group_id=GROUP, topics=[{"topic_name": MADE, "partitions": rows}]
        )
    else:
        draw.step(
            "DeleteShareGroupOffsets", "look", None, group_id=GROUP, topics=[{"topic_name": draw.one([MADE, LATE])}]
        )


def _change(draw: Draw, client: Client) -> None:
    """A topic grows or is deleted."""
    kind = draw.rng.choices(["grow", "delete"], [2, 1])[0]
    if kind == "grow":
        rows = [{"name": MADE, "count": 3, "assignments": None}]
        draw.step("CreatePartitions", "look", None, topics=rows, timeout_ms=30_000)
    else:
        topics = [{"name": draw.one([MADE, LATE]), "topic_id": NO_ID}]
        draw.step("DeleteTopics", "look", 6, topics=topics, timeout_ms=30_000)
