"""Several brokers: requests to the right one and to wrong ones, while leaders and coordinators move and brokers go and come.

What is asked is what one broker is asked (data.py, groups.py). Here it is told whom, with which leader epoch, and what
becomes of the cluster in between. Every topic says where its replicas are: Kafka draws places that nobody names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.generators import data, groups
from tests.differential.generators.draw import Draw
from tests.differential.sequence import Step

PARTITIONS = ((data.MADE, 0), (data.MADE, 1), (data.COMPACT, 0), (data.LATE, 0))
OWN_TOPICS = (data.MADE, data.COMPACT, data.LATE)
GROUPS = ("{p}g", "{p}h")
RIGHT = 0.82
"""Share of requests that go to the broker that should have them."""


def led(draw: Draw) -> None:
    """Topics whose leaders move."""
    model = data.Model()
    _make_topics(draw)
    for _ in range(draw.rng.randint(8, 26)):
        if draw.often(0.16):
            _lead(draw)
        _of_data(draw, model)
    _look_at_topics(draw)


def coordinated(draw: Draw) -> None:
    """Groups whose coordinators move, at any moment of their lives."""
    draw.rng.choices([groups.sequence, groups.offsets], [5, 2])[0](draw)
    steps = _routed(draw, draw.steps)
    for _ in range(draw.rng.choices([0, 1, 2, 3], [1, 5, 4, 2])[0]):
        group = draw.mostly("{p}g", "{p}h", odds=0.85)
        at = draw.rng.randint(1, len(steps))
        steps[at:at] = [Step(world=["coordinate", group, draw.one(draw.nodes)]), *_asides(draw)]
    draw.steps[:] = steps
    _look_at_groups(draw)


def outage(draw: Draw) -> None:
    """A broker is shut down and starts again, with topics and a group that live through it."""
    model = data.Model()
    _make_topics(draw)
    _some(draw, model, 6)
    for node in draw.some(draw.nodes[1:], 1, 2):
        draw.world("down", node)
        _look_at_topics(draw)
        _some(draw, model, 6)
        if draw.often(0.3):
            _lead(draw)
        draw.world("up", node)
        _look_at_topics(draw)
        _some(draw, model, 4)
        if draw.often(0.5):
            draw.world("prefer")
            _look_at_topics(draw)
            _some(draw, model, 3)
    _look_at_groups(draw)


# ---- the cluster


def _make_topics(draw: Draw) -> None:
    topics = data.topics(draw)
    for topic in topics:
        count, topic["num_partitions"], topic["replication_factor"] = topic["num_partitions"], -1, -1
        size = draw.rng.randint(1, len(draw.nodes)) if draw.often(0.4) else len(draw.nodes)
        topic["assignments"] = [
            {"partition_index": index, "broker_ids": draw.rng.sample(draw.nodes, size)} for index in range(count)
        ]
    made = draw.step("CreateTopics", "look", None, topics=topics, timeout_ms=30_000)
    _anywhere(draw, made)


def _lead(draw: Draw) -> None:
    topic, index = draw.one(PARTITIONS)
    draw.world("lead", topic, index, draw.one(draw.nodes))
    if draw.often(0.6):
        _metadata(draw)


def _some(draw: Draw, model: data.Model, most: int) -> None:
    """Requests of data and of a group's members."""
    for _ in range(draw.rng.randint(2, most)):
        if draw.often(0.6):
            _of_data(draw, model)
        else:
            before = len(draw.steps)
            client = groups.Client(draw, "a", "{p}g", groups.LONG_MS, groups.LONG_MS)
            groups.any_request(draw, client)
            draw.steps[before:] = _routed(draw, draw.steps[before:])


# ---- requests of data


def _of_data(draw: Draw, model: data.Model) -> None:
    before = len(draw.steps)
    kinds: list[Callable[[Draw, data.Model], None]] = [
        *(data._produce, data._fetch, data._list_offsets, data._delete_records, data._epochs, data._init_producer),
        *(_grow, _describe, _stale),
    ]
    draw.rng.choices(kinds, [9, 7, 5, 1.5, 4, 1, 0.3, 3, 3])[0](draw, model)
    for step in draw.steps[before:]:
        if step.api in ("Produce", "DeleteRecords"):
            step.body["timeout_ms"] = 20_000  # whether followers are so quick that they need no time at all is chance
        _to_leader(draw, step)
        _epochs(draw, step)


def _topics_in(step: Step) -> list[dict[str, Any]]:
    rows = step.body.get("topics") or step.body.get("topic_data") or []
    return [row for row in rows if isinstance(row, dict)]


def _partitions_in(topic: dict[str, Any]) -> list[dict[str, Any]]:
    rows = topic.get("partitions") or topic.get("partition_data") or []
    return [row for row in rows if isinstance(row, dict)]


def _index(row: dict[str, Any]) -> int:
    found: int = row.get("partition_index", row.get("partition", row.get("index", 0)))
    return found


def _to_leader(draw: Draw, step: Step) -> None:
    """The step goes to the leader of one of its partitions, or to anybody."""
    named = [
        (name, _index(row))
        for topic in _topics_in(step)
        for row in _partitions_in(topic)
        if (name := topic.get("name", topic.get("topic"))) is not None
    ]
    if named and step.api in ("Produce", "Fetch", "ListOffsets", "DeleteRecords", "OffsetForLeaderEpoch"):
        topic, index = draw.one(named)
        if draw.often(RIGHT):
            step.broker = f"$leader:{topic}/{index}"
            return
    _anywhere(draw, step)


def _anywhere(draw: Draw, step: Step | None) -> None:
    if step is not None:
        step.broker = draw.one(draw.nodes)


def _epochs(draw: Draw, step: Step) -> None:
    """Leader epochs as they are, as they were and as they will be."""
    for topic in _topics_in(step):
        name = topic.get("name", topic.get("topic"))
        for row in _partitions_in(topic):
            for field in ("current_leader_epoch", "leader_epoch", "last_fetched_epoch"):
                if field in row and draw.often(0.45 if field != "last_fetched_epoch" else 0.15):
                    shift = draw.mostly("", ":-1", ":1", ":-2", odds=0.6)
                    row[field] = f"$epoch:{name}/{_index(row)}{shift}"
                if field == "last_fetched_epoch" and step.broker != f"$leader:{name}/{_index(row)}":
                    row.pop(
                        field, None
                    )  # each replica of Kafka has its own memory of epochs in which nothing was written


def _stale(draw: Draw, model: data.Model) -> None:
    """Draw the requests of a client whose leader has moved: for the end of the epoch that it had, then from there on."""
    topic, index = draw.one(PARTITIONS)
    epoch = f"$epoch:{topic}/{index}"
    row: dict[str, Any] = {
        "partition": index,
        "current_leader_epoch": epoch,
        "leader_epoch": draw.one([0, 1, 2, epoch]),
    }
    draw.step("OffsetForLeaderEpoch", "a", None, replica_id=-1, topics=[{"topic": topic, "partitions": [row]}])
    fetched = {
        "partition": index,
        "fetch_offset": draw.one([0, 1, 2, 3, 5]),
        "partition_max_bytes": 10**6,
        "current_leader_epoch": epoch,
        "last_fetched_epoch": draw.one([-1, 0, 1, epoch]),
    }
    asked = {"topic": topic, "topic_id": f"$topic:{topic}", "partitions": [fetched]}
    body: dict[str, Any] = {"rack_id": draw.one(["", "r1"])}
    draw.step("Fetch", "a", draw.version("Fetch", 9), max_wait_ms=0, min_bytes=0, topics=[asked], **body)


def _grow(draw: Draw, model: data.Model) -> None:
    """The new partition says where it is: as many replicas as the others have, or not."""
    nodes = draw.rng.sample(draw.nodes, draw.rng.randint(1, len(draw.nodes)))
    row = {"name": draw.one([data.MADE, data.LATE]), "count": 3, "assignments": [{"broker_ids": nodes}]}
    draw.step("CreatePartitions", "look", None, topics=[row], timeout_ms=30_000)


def _describe(draw: Draw, model: data.Model) -> None:
    """Draw a request for a description of the cluster, which each broker answers for itself."""
    draw.one([_metadata, _cluster, _log_dirs, _topic_partitions])(draw)


def _metadata(draw: Draw) -> None:
    topics = [{"name": name} for name in draw.some(OWN_TOPICS, 1, 3)]
    made = draw.step("Metadata", "look", None, topics=topics, allow_auto_topic_creation=False)
    _anywhere(draw, made)


def _cluster(draw: Draw) -> None:
    fenced = draw.often(0.5)
    _anywhere(draw, draw.step("DescribeCluster", "look", None, endpoint_type=1, include_fenced_brokers=fenced))


def _log_dirs(draw: Draw) -> None:
    topics = [{"topic": name, "partitions": draw.some([0, 1, 5], 1, 2)} for name in draw.some(OWN_TOPICS, 1, 2)]
    _anywhere(draw, draw.step("DescribeLogDirs", "look", None, topics=topics))


def _topic_partitions(draw: Draw) -> None:
    topics = [{"name": name} for name in draw.some(OWN_TOPICS, 1, 3)]
    _anywhere(draw, draw.step("DescribeTopicPartitions", "look", None, topics=topics))


def _look_at_topics(draw: Draw) -> None:
    """Everything of them, from every broker."""
    for node in draw.nodes:
        for topic in OWN_TOPICS:
            rows = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 10**6} for index in (0, 1)]
            one = {"topic": topic, "topic_id": f"$topic:{topic}", "partitions": rows}
            made = [draw.step("Fetch", "look", draw.version("Fetch", 4), max_wait_ms=0, topics=[one])]
            if draw.often(0.4):
                ends = [{"partition_index": index, "timestamp": -1} for index in (0, 1)]
                wanted = {"name": topic, "partitions": ends}
                made.append(draw.step("ListOffsets", "look", None, replica_id=-1, topics=[wanted]))
            for step in made:
                assert step is not None
                step.broker = node
        topics = [{"name": name} for name in OWN_TOPICS]
        shown = draw.step("Metadata", "look", draw.version("Metadata", 7), topics=topics)
        assert shown is not None
        shown.broker = node


# ---- requests of groups


def _routed(draw: Draw, steps: list[Step]) -> list[Step]:
    """The steps, each sent to its group's coordinator, or to anybody."""
    for step in steps:
        body = step.body
        _name_all(body)
        named = body.get("group_id") or next(
            (name for field in ("groups", "groups_names") for name in map(_name, body.get(field) or [])), None
        )
        if named is not None and draw.often(RIGHT):
            step.broker = f"$coordinator:{named}"
        else:
            step.broker = draw.one(draw.nodes)
    return steps


def _name(group: Any) -> str:
    found: str = group["group_id"] if isinstance(group, dict) else group
    return found


def _name_all(body: dict[str, Any]) -> None:
    """The group with the empty name is everybody's, and nobody's coordinator stays. Nobody is asked for one in two ways."""
    if body.get("group_id") == "":
        body["group_id"] = "{p}h"
    for field in ("groups", "groups_names", "coordinator_keys"):
        rows = [group if _name(group) else _renamed(group) for group in body.get(field) or []]
        if rows and isinstance(rows[0], dict):
            rows = list({_name(group): group for group in rows}.values())
        if rows:
            body[field] = rows


def _renamed(group: Any) -> Any:
    return {**group, "group_id": "{p}h"} if isinstance(group, dict) else "{p}h"


def _asides(draw: Draw) -> list[Step]:
    """Draw the first requests of a client whose coordinator has moved, and those that it sends to the one before."""
    out: list[Step] = []
    aside = Draw(draw.rng, draw.versions, len(draw.nodes))
    if draw.often(0.7):
        aside.step("FindCoordinator", "look", None, key="{p}g", coordinator_keys=list(GROUPS))
    for name in "ab"[: draw.rng.randint(0, 2)]:
        body = {"group_id": "{p}g", "member_id": f"$member:{name}", "generation_id": f"$generation:{name}"}
        aside.step("Heartbeat", name, None, **body)
    if draw.often(0.5):
        aside.step("DescribeGroups", "look", draw.version("DescribeGroups"), groups=["{p}g"])
    if draw.often(0.5):
        aside.step("OffsetFetch", "look", draw.version("OffsetFetch", 2, 7), group_id="{p}g", topics=None)
    return out + _routed(draw, aside.steps)


def _look_at_groups(draw: Draw) -> None:
    """Draw requests to every broker for its view of the groups."""
    for node in draw.nodes:
        before = len(draw.steps)
        draw.step("DescribeGroups", "look", draw.version("DescribeGroups"), groups=list(GROUPS))
        draw.step("ListGroups", "look", None)
        draw.step("FindCoordinator", "look", None, key="{p}g", coordinator_keys=list(GROUPS))
        for group in GROUPS:
            draw.step("OffsetFetch", "look", 7, group_id=group, topics=None)
        for step in draw.steps[before:]:
            step.broker = node
