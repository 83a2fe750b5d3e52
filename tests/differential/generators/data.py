"""Records in and out: Produce of sound and broken batches, Fetch, ListOffsets, DeleteRecords, epochs, producer ids."""

from __future__ import annotations

from typing import Any

from tests.differential.generators.draw import Draw

MADE, COMPACT, LATE = "{p}made", "{p}compact", "{p}late"
TOPICS = (MADE, MADE, MADE, COMPACT, LATE, "{p}none")
NO_ID = "hex:" + "00" * 16
FAR_MS = 10**15


class Model:
    """Model of the logs that the generator keeps: next sequence numbers by (client, topic, partition), records written."""

    def __init__(self) -> None:
        self.next: dict[tuple[str, str, int], int] = {}
        self.written: dict[tuple[str, int], int] = {}


def sequence(draw: Draw) -> None:
    """A topic or two of their own, and 8 to 30 requests on them."""
    model = Model()
    make_topics(draw)
    for _ in range(draw.rng.randint(8, 30)):
        draw.rng.choices(
            [_produce, _fetch, _list_offsets, _delete_records, _epochs, _init_producer, _settings, _grow],
            [9, 6, 5, 2, 2, 2, 1, 0.3],
        )[0](draw, model)
    for topic in (MADE, COMPACT, LATE):
        draw.step("ListOffsets", "look", None, replica_id=-1, topics=[_all_of(topic, -1)])
        _read(draw, topic)


def make_topics(draw: Draw) -> None:
    draw.step("CreateTopics", "look", None, topics=topics(draw))


def topics(draw: Draw) -> list[dict[str, Any]]:
    """The three topics, as CreateTopics has them."""
    compact = [{"name": "cleanup.policy", "value": draw.one(["compact", "compact,delete"])}]
    late = [{"name": "message.timestamp.type", "value": "LogAppendTime"}]
    plain = []
    if draw.often(0.3):
        plain.append({"name": "max.message.bytes", "value": draw.one(["300", "1000"])})
    if draw.often(0.15):
        plain.append({"name": "min.insync.replicas", "value": "2"})
    return [
        {"name": name, "num_partitions": count, "replication_factor": 1, "configs": configs}
        for name, count, configs in ((MADE, 2, plain), (COMPACT, 1, compact), (LATE, 1, late))
    ]


def _all_of(topic: str, timestamp: int) -> dict[str, Any]:
    return {"name": topic, "partitions": [{"partition_index": index, "timestamp": timestamp} for index in (0, 1)]}


def _partition(draw: Draw) -> int:
    return draw.mostly(0, 1, 2, -1, odds=0.75)


# ---- Produce


def _produce(draw: Draw, model: Model) -> None:
    by = draw.one("abb")
    version = draw.version("Produce")
    topics = []
    # which of two batches for one partition counts hangs at Kafka on which of them is sound
    for name in dict.fromkeys(draw.some(TOPICS, 0 if draw.often(0.04) else 1, 2 if draw.often(0.15) else 1)):
        rows = [{"index": index, "records": _records(draw, model, by, name, index)} for index in _indexes(draw)]
        topic: dict[str, Any] = {"name": name, "partition_data": rows}
        if version >= 13:
            topic["topic_id"] = draw.mostly(f"$topic:{name}", NO_ID, odds=0.96)
        topics.append(topic)
    draw.step(
        "Produce",
        by,
        version,
        acks=draw.mostly(-1, 1, 2, -2, odds=0.8),
        timeout_ms=draw.mostly(5000, 0, 100, odds=0.95),
        topic_data=topics,
    )


def _indexes(draw: Draw) -> list[int]:
    found = [_partition(draw) for _ in range(draw.mostly(1, 0, 2, odds=0.88))]
    return found if draw.often(0.3) else list(dict.fromkeys(found))


def _records(draw: Draw, model: Model, by: str, topic: str, index: int) -> Any:
    """A batch, usually a sound one; else one with a single fault, or none at all."""
    if draw.often(0.03):
        return draw.one(["hex:", "hex:00", "hex:" + "00" * 61, "hex:" + "ff" * 80])
    rows = [_record(draw, topic, number) for number in range(draw.rng.randint(1, 6))]
    batch: dict[str, Any] = {"records": rows}
    if draw.often(0.25):
        batch["codec"] = draw.one([1, 2, 3, 4])
    if draw.often(0.1):
        batch["at"] = draw.one([-3_600_000, 3_600_000, -86_400_000 * 8, "none", FAR_MS, 3_500_000])
    if draw.often(0.35):
        key = (by, topic, index)
        seq = model.next.get(key, 0)
        batch["pid"], batch["epoch"] = f"$pid:{by}", f"$pepoch:{by}"
        batch["seq"] = draw.mostly(seq, max(seq - len(rows), 0), seq + 1, 0, -1, 2**31 - 2, odds=0.75)
        if draw.often(0.06):
            batch["epoch"] = draw.one([f"$pepoch:{by}:1", f"$pepoch:{by}:-1", 0, -1])
        if batch["seq"] == seq:
            model.next[key] = seq + len(rows)
    if draw.often(0.22):
        _spoil(draw, batch, rows)
    if draw.often(0.02):
        return {"batches": [batch, {"records": [{"value": "second"}]}]}
    return {"batch": batch}


def _record(draw: Draw, topic: str, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "key": draw.mostly("k", "kk", None, "", odds=0.8),
        "value": draw.mostly("v" * (number + 1), None, "", "w" * 90),
    }
    if topic != COMPACT and draw.often(0.5):
        row["key"] = None
    if draw.often(0.15):
        row["headers"] = [["h", "1"], ["h", None]][: draw.rng.randint(1, 2)]
    if draw.often(0.15):
        row["at"] = draw.one([1, -5, 60_000, -60_000])
    return row


def _spoil(draw: Draw, batch: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """One fault in the batch or in one of its records."""
    if draw.often(0.5):
        fault = draw.one(
            [
                {"crc": 1}, {"count": 0}, {"count": -1}, {"count": len(rows) + 1}, {"count": 2**31 - 1},
                {"last_delta": 0}, {"last_delta": -1}, {"last_delta": len(rows)}, {"last_delta": 2**31 - 1},
                {"magic": 0}, {"magic": 1}, {"magic": 3}, {"magic": -1}, {"tail": "00"}, {"tail": "0600"},
                {"attributes": 8}, {"attributes": 16}, {"attributes": 32}, {"attributes": 48}, {"attributes": 64},
                {"attributes": 128}, {"codec": 5}, {"codec": 7}, {"base_offset": 5}, {"base_offset": -1},
                {"leader_epoch": 7}, {"length": 0}, {"length": 10}, {"length": 60}, {"length": 10**6},
                {"length": -1}, {"behind": "00"}, {"behind": "00" * 20}, {"keep": 60}, {"keep": 16}, {"keep": 17},
                {"keep": 70}, {"max_at": -100}, {"max_at": 10**9}, {"records": []}, {"squeezed": "00ff"},
                {"pid": 5, "epoch": 0, "seq": 0}, {"pid": 5, "epoch": -1}, {"seq": 5}, {"epoch": 0},
            ]
        )  # fmt: skip
        batch.update(fault)
        if batch.get("codec") in (3, 4):
            batch.pop(
                "squeezed", None
            )  # Kafka's LZ4 reads to the end of its frame, its Zstandard as far as its release does
        return
    row = draw.one(rows)
    row.update(
        draw.one(
            [
                {"key_size": 100}, {"key_size": -2}, {"value_size": 100}, {"value_size": -2}, {"value_size": 0},
                {"header_count": -5}, {"header_count": 3}, {"header_count": 10**6}, {"more": "00"},
                {"more": "000000"}, {"size": 0}, {"size": 1}, {"size": 5}, {"size": -1}, {"size": 10**6},
                {"delta": 7}, {"delta": -1}, {"delta": 0}, {"at": FAR_MS}, {"at": -FAR_MS}, {"at": -(10**13)},
                {"raw": ""}, {"raw": "00"}, {"raw": "0200"}, {"raw": "ffffffffff0f"}, {"attributes": 1},
                {"attributes": 255}, {"headers": [[None, "x"]]}, {"key": None},
            ]
        )
    )  # fmt: skip


# ---- reading


def _read(draw: Draw, topic: str) -> None:
    """Draw a Fetch of all of a topic's records, with nothing unusual."""
    rows = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 10**6} for index in (0, 1)]
    one = {"topic": topic, "topic_id": f"$topic:{topic}", "partitions": rows}
    draw.step("Fetch", "look", draw.version("Fetch", 4), max_wait_ms=0, topics=[one])


def _fetch(draw: Draw, model: Model) -> None:
    by = draw.one("abc")
    version = draw.version("Fetch")
    body: dict[str, Any] = {
        "max_wait_ms": draw.mostly(0, 50, 200, odds=0.95),
        "min_bytes": draw.mostly(1, 0, 10**6, -1),
        "max_bytes": draw.mostly(10**6, 0, 100, 1, 2**31 - 1, odds=0.8),
        "isolation_level": draw.mostly(0, 1, 2, -1, odds=0.8),
        "topics": [_fetch_topic(draw, name) for name in draw.some(TOPICS, 0 if draw.often(0.08) else 1, 2)],
    }
    if draw.often(0.1):
        body["replica_id"] = draw.one([-2, -1, 1, 7])
        body["replica_state"] = {"replica_id": body["replica_id"], "replica_epoch": draw.one([-1, 0, 5])}
        if body["replica_id"] >= 0:
            return
    if draw.often(0.4):
        session = draw.one(
            [
                ("$session", "$sepoch"),
                ("$session", "$sepoch"),
                (0, 0),
                (0, 0),
                (7, 1),
                ("$session", 0),
                ("$session", 99),
                (0, 5),
            ]
        )
        number, epoch = (f"{item}:{by}" if isinstance(item, str) else item for item in session)
        body["session_id"], body["session_epoch"] = number, epoch
        if draw.often(0.1):
            body["session_epoch"] = -1
        if draw.often(0.3):
            name = draw.one(TOPICS)
            forgotten = {"topic": name, "topic_id": f"$topic:{name}", "partitions": draw.some([0, 1, 5], 1, 2)}
            body["forgotten_topics_data"] = [forgotten]
    if draw.often(0.05):
        body["rack_id"] = "r1"
    draw.step("Fetch", by, version, **body)


def _fetch_topic(draw: Draw, name: str) -> dict[str, Any]:
    rows = []
    for _ in range(draw.mostly(1, 0, 2, 3, odds=0.75)):
        row = {
            "partition": _partition(draw),
            "fetch_offset": draw.one([0, 0, 1, 2, 3, 5, 8, -1, 99, 2**63 - 1]),
            "partition_max_bytes": draw.mostly(10**6, 0, 1, 150, -1, odds=0.85),
            "current_leader_epoch": draw.mostly(-1, 0, 1, 9),
            "last_fetched_epoch": draw.mostly(-1, 0, 1, 9, odds=0.95),
            "log_start_offset": draw.mostly(-1, 0, 3),
        }
        rows.append(row)
    return {"topic": name, "topic_id": draw.mostly(f"$topic:{name}", NO_ID, odds=0.97), "partitions": rows}


def _list_offsets(draw: Draw, model: Model) -> None:
    topics = []
    for name in draw.some(TOPICS, 0 if draw.often(0.04) else 1, 2):
        rows = [
            {
                "partition_index": _partition(draw),
                "current_leader_epoch": draw.mostly(-1, 0, 1, 9),
                "timestamp": draw.one([-1, -2, -3, -4, -5, -6, -7, 0, 1, 10**12, 10**15]),
                "max_num_offsets": draw.mostly(1, 0, 2, 5, -1, odds=0.7),
            }
            for _ in range(draw.mostly(1, 0, 2, odds=0.85))
        ]
        topics.append({"name": name, "partitions": rows})
    body: dict[str, Any] = {
        "replica_id": draw.mostly(-1, -2, odds=0.95),
        "isolation_level": draw.mostly(0, 1, 2, -1),
        "topics": topics,
    }
    draw.step("ListOffsets", draw.one("ab"), None, **body, timeout_ms=draw.mostly(5000, 0, odds=0.97))


def _epochs(draw: Draw, model: Model) -> None:
    topics = [
        {
            "topic": name,
            "partitions": [
                {
                    "partition": _partition(draw),
                    "current_leader_epoch": draw.mostly(-1, 0, 1, 9, odds=0.7),
                    "leader_epoch": draw.one([0, 0, 1, -1, 9, -2]),
                }
                for _ in range(draw.mostly(1, 0, 2, odds=0.85))
            ],
        }
        for name in draw.some(TOPICS, 0 if draw.often(0.05) else 1, 2)
    ]
    draw.step("OffsetForLeaderEpoch", "a", None, replica_id=draw.mostly(-1, -2, odds=0.9), topics=topics)


# ---- the others


def _delete_records(draw: Draw, model: Model) -> None:
    topics = [
        {
            "name": name,
            "partitions": [
                {"partition_index": _partition(draw), "offset": draw.one([0, 1, 2, 4, -1, -2, 99, 2**63 - 1])}
                for _ in range(draw.mostly(1, 0, 2, odds=0.85))
            ],
        }
        for name in draw.some(TOPICS, 0 if draw.often(0.05) else 1, 2)
    ]
    draw.step("DeleteRecords", "a", None, topics=topics, timeout_ms=draw.mostly(5000, 0, odds=0.97))


def _init_producer(draw: Draw, model: Model) -> None:
    by = draw.one("ab")
    version = draw.version("InitProducerId")
    body: dict[str, Any] = {
        "transactional_id": draw.mostly(None, "", odds=0.9),
        "transaction_timeout_ms": draw.mostly(60_000, 0, -1, 2**31 - 1),
    }
    if draw.often(0.15):
        body["producer_id"] = draw.one([f"$pid:{by}", 5, -1, -2])
        body["producer_epoch"] = draw.one([f"$pepoch:{by}", 0, -1])
    draw.step("InitProducerId", by, version, **body)
    model.next = {key: value for key, value in model.next.items() if key[0] != by}


def _settings(draw: Draw, model: Model) -> None:
    rows = [
        draw.one(
            [
                {"name": "max.message.bytes", "value": draw.one(["100", "5000"])},
                {"name": "message.timestamp.type", "value": draw.one(["LogAppendTime", "CreateTime"])},
                {"name": "cleanup.policy", "value": draw.one(["compact", "delete"])},
                {"name": "min.insync.replicas", "value": draw.one(["1", "2"])},
            ]
        )
    ]
    resource = {"resource_type": 2, "resource_name": draw.one([MADE, LATE]), "configs": rows}
    draw.step("IncrementalAlterConfigs", "look", None, resources=[resource])


def _grow(draw: Draw, model: Model) -> None:
    draw.step(
        "CreatePartitions", "look", None, topics=[{"name": MADE, "count": 3, "assignments": None}], timeout_ms=5000
    )
