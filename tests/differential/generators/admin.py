"""Topics, settings, cluster: created, grown, altered, deleted and described, well and badly."""

from __future__ import annotations

from typing import Any

from tests.differential.generators.data import NO_ID
from tests.differential.generators.draw import Draw

NAMES = ("{p}one", "{p}two", "{p}three")
BAD_NAMES = ("", ".", "..", "{p}bad name", "{p}" + "x" * 250, "{p}ü", "{p}a/b", "{p}one.x", "{p}one_x")
TIERED = ("remote.storage.enable", "local.retention.ms", "local.retention.bytes")
"""3.4 takes them and hides them."""
SETTINGS: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    ("cleanup.policy", ("compact", "delete", "delete,compact", "", "nothing", None)),
    ("retention.ms", ("-1", "1000", "-2", "x", "9223372036854775807", "9223372036854775808", None)),
    ("retention.bytes", ("-1", "0", "100", "-2", "")),
    ("segment.bytes", ("1048576", "13", "14", "2147483648", "1000")),
    ("segment.ms", ("0", "1", "604800000")),
    ("max.message.bytes", ("0", "-1", "1000", "1e3", " 1000 ")),
    ("min.insync.replicas", ("0", "1", "2", "x")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime", "createtime", "")),
    ("compression.type", ("producer", "gzip", "zstd", "lz4", "snappy", "uncompressed", "none", "GZIP")),
    ("min.cleanable.dirty.ratio", ("0", "0.5", "1", "1.1", "-0.1", "NaN", "0,5")),
    ("unclean.leader.election.enable", ("true", "false", "TRUE", "yes", "")),
    ("preallocate", ("true", "false", "0")),
    ("index.interval.bytes", ("0", "-1", "4096")),
    ("message.timestamp.difference.max.ms", ("0", "1000", "-1")),
    ("message.timestamp.before.max.ms", ("0", "1000", "-1")),
    ("message.timestamp.after.max.ms", ("0", "3600000", "-1")),
    ("leader.replication.throttled.replicas", ("*", "0:1", "x", "")),
    ("flush.messages", ("0", "1", "9223372036854775807")),
    ("delete.retention.ms", ("0", "-1", "86400000")),
    ("min.compaction.lag.ms", ("0", "5", "-1")),
    ("max.compaction.lag.ms", ("0", "1", "5")),
    ("file.delete.delay.ms", ("0", "60000")),
    ("segment.index.bytes", ("3", "1000", "10485760")),  # 4 to 11 are taken, and no log can be opened then
    ("segment.jitter.ms", ("0", "-1")),
    ("compression.gzip.level", ("1", "9", "10", "-1", "0")),
    ("compression.lz4.level", ("1", "17", "18", "0")),
    ("compression.zstd.level", ("-131072", "22", "23", "3")),
    ("remote.storage.enable", ("true", "false")),
    ("local.retention.ms", ("-2", "-3", "5")),
    ("no.such.setting", ("1", None)),
    ("", ("1",)),
)


def sequence(draw: Draw) -> None:
    """5 to 18 requests around three topics."""
    if draw.often(0.8):
        _create(draw)
    for _ in range(draw.rng.randint(5, 18)):
        draw.rng.choices(
            [
                _create,
                _delete,
                _grow,
                _describe,
                _alter,
                _incremental,
                _metadata,
                _cluster,
                _log_dirs,
                _partitions,
                _find,
                _versions,
            ],
            [4, 2, 3, 4, 2, 4, 4, 1, 2, 3, 1, 1],
        )[0](draw)
    draw.step("Metadata", "look", None, topics=[{"name": name} for name in NAMES], allow_auto_topic_creation=False)
    for name in NAMES:
        keys = None if draw.often(0.3) else [setting for setting, _ in SETTINGS]
        draw.step(
            "DescribeConfigs", "look", None, resources=[_resource(2, name, keys)], include_synonyms=draw.often(0.5)
        )


OF_GROUPS: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    *(
        (f"{kind}.session.timeout.ms", ("45000", "50000", "60001", "1", "x"))
        for kind in ("consumer", "share", "streams")
    ),
    *(
        (f"{kind}.heartbeat.interval.ms", ("5000", "15000", "15001", "0", None))
        for kind in ("consumer", "share", "streams")
    ),
    ("share.record.lock.duration.ms", ("15000", "1000", "999", "60001")),
    ("share.auto.offset.reset", ("latest", "earliest", "by_duration:P1D", "by_duration:-PT1S", "none", "")),
    ("share.isolation.level", ("read_committed", "READ_COMMITTED", "")),
    ("share.delivery.count.limit", ("2", "10", "11", "1")),
    ("streams.num.standby.replicas", ("0", "2", "3", "-1")),
    ("streams.initial.rebalance.delay.ms", ("0", "-1", "9999999")),
    ("streams.assignor.name", ("sticky", "x")),
    ("errors.deadletterqueue.topic.name", ("", "dead", "__dead")),
    ("no.such.setting", ("1", None)),
)
OF_METRICS: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    ("metrics", ("", "*", "org.apache", "a,b", "a,,b")),
    ("interval.ms", ("100", "99", "3600000", "3600001", "x", None)),
    ("match", ("", "client_id=a.*", "client_id=[", "nobody=x", "client_id=a,client_software_name=b", "client_id")),
    ("no.such.setting", ("1",)),
)


def _name(draw: Draw) -> str:
    return draw.one(BAD_NAMES) if draw.often(0.12) else draw.one(NAMES)


def _setting(draw: Draw) -> dict[str, Any]:
    known = [row for row in SETTINGS if row[0] not in TIERED or draw.has("Produce", 10)]
    name, values = draw.one(known)
    return {"name": name, "value": draw.one(values)}


def _settings(draw: Draw) -> list[dict[str, Any]]:
    return [_setting(draw) for _ in range(draw.rng.choices([0, 1, 2, 3], [3, 5, 2, 1])[0])]


def _create(draw: Draw) -> None:
    version = draw.version("CreateTopics")
    topics = []
    for _ in range(draw.rng.choices([0, 1, 2, 3], [1, 12, 4, 1])[0]):
        topic: dict[str, Any] = {
            "name": _name(draw),
            "num_partitions": draw.mostly(draw.one([1, 2]), -1, 0, -2, odds=0.85),
            "replication_factor": draw.mostly(1, -1, 0, 2, -2, 32767, odds=0.85),
            "configs": _settings(draw) if draw.often(0.5) else [],
        }
        if draw.often(0.15):
            topic["assignments"] = [
                {
                    "partition_index": draw.mostly(number, 5, -1, 0),
                    "broker_ids": draw.mostly([1], [], [1, 1], [2], [-1], odds=0.7),
                }
                for number in range(draw.rng.randint(1, 2))
            ]
            if draw.often(0.8):
                topic["num_partitions"] = topic["replication_factor"] = -1
        topics.append(topic)
    draw.step(
        "CreateTopics",
        "a",
        version,
        topics=topics,
        timeout_ms=draw.mostly(10_000, 0, -1, odds=0.95),
        validate_only=draw.often(0.15),
    )


def _delete(draw: Draw) -> None:
    version = draw.version("DeleteTopics")
    if version < 6:
        names = draw.some([*NAMES, "{p}none", ""], 0 if draw.often(0.1) else 1, 2)
        draw.step("DeleteTopics", "a", version, topic_names=names, timeout_ms=draw.mostly(10_000, 0, odds=0.95))
        return
    rows = [_deleted(draw, name) for name in draw.some([*NAMES, "{p}none"], 0 if draw.often(0.1) else 1, 2)]
    draw.step("DeleteTopics", "a", version, topics=rows, timeout_ms=draw.mostly(10_000, 0, odds=0.95))


def _deleted(draw: Draw, name: str) -> dict[str, Any]:
    topic_id = f"$topic:{name}"
    ways = [
        {"name": name},
        {"name": None, "topic_id": topic_id},
        {"name": None, "topic_id": topic_id},
        {"name": name, "topic_id": topic_id},
        {"name": None, "topic_id": NO_ID},
        {"name": "", "topic_id": NO_ID},
    ]
    return draw.one(ways)


def _grow(draw: Draw) -> None:
    topics = []
    for name in draw.some([*NAMES, "{p}none", ""], 0 if draw.often(0.05) else 1, 2):
        count = draw.mostly(3, 0, 1, 2, 4, -1, odds=0.4)
        assignments = None
        if draw.often(0.2):
            assignments = [{"broker_ids": draw.mostly([1], [], [1, 1], [2])} for _ in range(draw.rng.randint(0, 3))]
        topics.append({"name": name, "count": count, "assignments": assignments})
    draw.step(
        "CreatePartitions",
        "a",
        None,
        topics=topics,
        timeout_ms=draw.mostly(10_000, 0, -1, odds=0.95),
        validate_only=draw.often(0.2),
    )


def _resource(kind: int, name: str, keys: list[str] | None) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


def _describe(draw: Draw) -> None:
    resources = []
    for _ in range(draw.rng.choices([0, 1, 2], [1, 12, 4])[0]):
        kind = draw.rng.choices([2, 4, 8, 0, 3, 16, 32, 64], [12, 3, 1, 1, 1, 1, 1, 0.5])[0]
        name = {2: _name(draw), 4: draw.one(["1", "", "2", "x", "-1"]), 8: draw.one(["1", "2", ""])}.get(
            kind, draw.one(["", "x", "{p}g", "{p}g"])
        )
        keys = None if draw.often(0.25) else [setting for setting, _ in draw.some(SETTINGS, 0, 4)]
        if kind == 4 and keys is not None:
            keys += ["log.retention.ms", "broker.id", "node.id", "num.io.threads"][: draw.rng.randint(0, 6)]
        if kind == 8:
            keys = ["kafka.nothing"]
        if kind == 4 and not keys and draw.often(0.7):
            keys = [
                "log.cleanup.policy",
                "message.max.bytes",
                "log.retention.ms",
                "log.retention.hours",
                "min.insync.replicas",
            ]
        resources.append(_resource(kind, name, keys))
    draw.step(
        "DescribeConfigs",
        "a",
        None,
        resources=resources,
        include_synonyms=draw.often(0.5),
        include_documentation=draw.often(0.2),
    )


def _alter_resources(draw: Draw, incremental: bool) -> list[dict[str, Any]]:
    resources = []
    for _ in range(draw.rng.choices([0, 1, 2], [1, 12, 3])[0]):
        kind = draw.rng.choices([2, 4, 8, 0, 3, 32, 16], [14, 0.6, 0.6, 0.5, 0.5, 1.5, 0.7])[0]
        name = _name(draw) if kind == 2 else draw.one(["{p}g", "{p}g", ""] if kind in (16, 32) else ["x", "77"])
        rows = _settings(draw)
        if kind in (16, 32):
            known = draw.some(OF_GROUPS if kind == 32 else OF_METRICS, 1, 2)
            rows = [{"name": setting, "value": draw.one(values)} for setting, values in known]
        if incremental:
            for row in rows:
                row["config_operation"] = draw.rng.choices([0, 1, 2, 3], [8, 3, 2, 2])[0]
            if len(rows) == 1 and draw.often(0.04):
                rows[0]["config_operation"] = draw.one([4, -1])
        resources.append({"resource_type": kind, "resource_name": name, "configs": rows})
    return resources


def _alter(draw: Draw) -> None:
    draw.step("AlterConfigs", "a", None, resources=_alter_resources(draw, False), validate_only=draw.often(0.2))


def _incremental(draw: Draw) -> None:
    draw.step(
        "IncrementalAlterConfigs", "a", None, resources=_alter_resources(draw, True), validate_only=draw.often(0.2)
    )


def _metadata(draw: Draw) -> None:
    version = draw.version("Metadata")
    names = draw.some([*NAMES, "{p}none", "t0", *BAD_NAMES], 0, 3)
    topics: list[dict[str, Any]] | None = [{"name": name} for name in names]
    if version >= 10 and draw.often(0.4):
        topics = [
            draw.one([{"name": None, "topic_id": f"$topic:{name}"}, {"name": name, "topic_id": f"$topic:{name}"}])
            for name in names
        ]
    if draw.often(0.15):
        topics = None if version >= 1 else []
    draw.step(
        "Metadata",
        "a",
        version,
        topics=topics,
        allow_auto_topic_creation=draw.often(0.5),
        include_cluster_authorized_operations=draw.often(0.2),
        include_topic_authorized_operations=draw.often(0.2),
    )


def _cluster(draw: Draw) -> None:
    version = draw.version("DescribeCluster")
    draw.step(
        "DescribeCluster",
        "a",
        version,
        include_cluster_authorized_operations=draw.often(0.3),
        endpoint_type=draw.mostly(1, 2, 0, 3, odds=0.8),
        include_fenced_brokers=draw.often(0.3),
    )


def _log_dirs(draw: Draw) -> None:
    topics: Any = [
        {"topic": name, "partitions": draw.some([0, 1, 5, -1], 0, 2)} for name in draw.some([*NAMES, "{p}none"], 0, 2)
    ]
    draw.step("DescribeLogDirs", "a", None, topics=None if draw.often(0.2) else topics)


def _partitions(draw: Draw) -> None:
    body: dict[str, Any] = {"topics": [{"name": name} for name in draw.some([*NAMES, "{p}none", ""], 1, 3)]}
    body["response_partition_limit"] = draw.mostly(2000, 1, 2, 0, -1, 3, odds=0.5)
    if draw.often(0.3):
        body["cursor"] = {
            "topic_name": draw.one([*NAMES, "{p}none", ""]),
            "partition_index": draw.one([0, 1, 2, -1, -2]),
        }
    draw.step("DescribeTopicPartitions", "a", None, **body)


def _find(draw: Draw) -> None:
    draw.step(
        "FindCoordinator",
        "a",
        None,
        key="{p}g",
        key_type=draw.mostly(0, 3, -1),
        coordinator_keys=draw.some(["{p}g", "{p}h", ""], 0, 3),
    )


def _versions(draw: Draw) -> None:
    names = ["apache-kafka-java", "", "x y", "-x", "a.b-c", "ü", "x" * 300]
    made = draw.step(
        "ApiVersions",
        "a",
        None,
        client_software_name=draw.one(names),
        client_software_version=draw.one(["4.1.0", "", "1 2"]),
    )
    if made is not None and draw.often(0.3):
        made.damage.append(["version", draw.one([9, 99, -1, 32767])])  # 4.4 has v5
