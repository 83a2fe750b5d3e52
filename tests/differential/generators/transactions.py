"""Transactions of two ids: opened, written in, ended and fenced, in orders that a client keeps and in others; and who looks at them."""

from __future__ import annotations

from typing import Any

from tests.differential.generators import data
from tests.differential.generators.data import COMPACT, MADE
from tests.differential.generators.draw import Draw

IDS = ("{p}tx", "{p}tx", "{p}tx", "{p}ty")
GROUP = "{p}g"
STATES = ("Empty", "Ongoing", "PrepareAbort", "CompleteCommit", "CompleteAbort", "ongoing", "Nonsense", "")
PATTERNS = (None, "", ".*x", "(?!x)y", "[", ".*t[xy]$")
LONGEST_MS = 900_000


class Client:
    """A producer: whose transactional id it takes, and how far its sequence numbers are."""

    def __init__(self, draw: Draw, name: str) -> None:
        self.name = name
        self.transactional_id = draw.one(IDS)
        self.next: dict[int, int] = {}

    def own(self, draw: Draw) -> tuple[Any, Any]:
        """Draw the producer id and epoch that the client was given; now and then others."""
        epoch = draw.mostly(f"$pepoch:{self.name}", f"$pepoch:{self.name}:1", f"$pepoch:{self.name}:-1", 0, -1, 32767)
        return draw.mostly(f"$pid:{self.name}", "$pid:a", "$pid:b", 5, -1, odds=0.93), epoch


def sequence(draw: Draw) -> None:
    """8 to 30 requests of two clients, who may have the same transactional id."""
    data.make_topics(draw)
    clients = [Client(draw, name) for name in "ab"]
    for _ in range(draw.rng.randint(2, 5)):
        client = draw.one(clients)
        if draw.often(0.6):
            _whole(draw, client)
        for _ in range(draw.rng.randint(1, 6)):
            _any(draw, draw.one(clients))
    _looks(draw)


def _whole(draw: Draw, client: Client) -> None:
    """Draw the requests of a transaction in a client's order, with gaps."""
    for what, chance in ((_init, 0.6), (_add, 0.9), (_produce, 0.8), (_offsets, 0.4), (_end, 0.9)):
        if draw.often(chance):
            what(draw, client)


def _any(draw: Draw, client: Client) -> None:
    draw.rng.choices(
        [_init, _add, _produce, _offsets, _add_offsets, _commit, _end, _look, _read, _markers, _find],
        [4, 5, 5, 2, 2, 2, 5, 4, 2, 1, 1],
    )[0](draw, client)


def _named(draw: Draw, client: Client) -> str:
    return draw.mostly(client.transactional_id, "{p}ty", "{p}nobody", "", odds=0.93)


def _init(draw: Draw, client: Client) -> None:
    body: dict[str, Any] = {
        "transactional_id": _named(draw, client),
        "transaction_timeout_ms": draw.mostly(60_000, 0, -1, LONGEST_MS, LONGEST_MS + 1, 2**31 - 1),
    }
    if draw.often(0.35):
        body["producer_id"], body["producer_epoch"] = client.own(draw)
    version = draw.version("InitProducerId", 0, 5)  # v6 asks for prepared transactions to be kept
    draw.step("InitProducerId", client.name, version, **body)
    client.next.clear()


def _partitions(draw: Draw) -> list[dict[str, Any]]:
    names = dict.fromkeys(draw.some([MADE, MADE, MADE, COMPACT, "{p}none"], 0 if draw.often(0.04) else 1, 2))
    return [{"name": name, "partitions": list(dict.fromkeys(draw.some([0, 0, 1, 1, 2, -1], 1, 2)))} for name in names]


def _add(draw: Draw, client: Client) -> None:
    version = draw.version("AddPartitionsToTxn")
    producer_id, epoch = client.own(draw)
    if version < 4:
        draw.step(
            "AddPartitionsToTxn",
            client.name,
            version,
            v3_and_below_transactional_id=_named(draw, client),
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=_partitions(draw),
        )
        return
    one = {
        "transactional_id": _named(draw, client),
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "verify_only": draw.often(0.4),
        "topics": _partitions(draw),
    }
    draw.step("AddPartitionsToTxn", client.name, version, transactions=[one])


def _produce(draw: Draw, client: Client) -> None:
    index = draw.one([0, 0, 1])
    producer_id, epoch = client.own(draw)
    seq = client.next.get(index, 0)
    rows = [{"key": None, "value": "v"} for _ in range(draw.rng.randint(1, 3))]
    batch: dict[str, Any] = {
        "records": rows,
        "pid": producer_id,
        "epoch": epoch,
        "seq": draw.mostly(seq, 0, seq + 1),
        "attributes": draw.mostly(16, 0, odds=0.93),
    }
    if batch["seq"] == seq:
        client.next[index] = seq + len(rows)
    version = draw.version("Produce")
    topic: dict[str, Any] = {"name": MADE, "partition_data": [{"index": index, "records": {"batch": batch}}]}
    if version >= 13:
        topic["topic_id"] = f"$topic:{MADE}"
    draw.step(
        "Produce",
        client.name,
        version,
        transactional_id=draw.mostly(client.transactional_id, None, "{p}ty", odds=0.93),
        acks=-1,
        timeout_ms=5000,
        topic_data=[topic],
    )


def _with_groups(draw: Draw) -> bool:
    """Not beside 3.x, where others delete topics meanwhile, which takes empty groups along."""
    return draw.has("Produce", 12)


def _offsets(draw: Draw, client: Client) -> None:
    _add_offsets(draw, client)
    _commit(draw, client)


def _add_offsets(draw: Draw, client: Client) -> None:
    if not _with_groups(draw):
        return
    producer_id, epoch = client.own(draw)
    draw.step(
        "AddOffsetsToTxn",
        client.name,
        None,
        transactional_id=_named(draw, client),
        producer_id=producer_id,
        producer_epoch=epoch,
        group_id=draw.mostly(GROUP, "{p}h"),
    )


def _commit(draw: Draw, client: Client) -> None:
    if not _with_groups(draw):
        return
    producer_id, epoch = client.own(draw)
    version = draw.version("TxnOffsetCommit", 0, 5)
    body: dict[str, Any] = {}
    if draw.often(0.15):
        body["generation_id_or_member_epoch"] = draw.one([0, 1, -2])
    if draw.often(0.1):
        body["member_id"] = draw.one(["somebody", ""])
    if draw.often(0.05):
        body["group_instance_id"] = "{p}i1"
    rows = [
        {
            "partition_index": draw.one([0, 1, 2, 7]),
            "committed_offset": draw.one([0, 5, 77]),
            "committed_leader_epoch": draw.mostly(-1, 0, 5),
            "committed_metadata": draw.mostly("", None, "note", "n" * 101),
        }
        for _ in range(draw.rng.randint(1, 2))
    ]
    rows = list({row["partition_index"]: row for row in rows}.values())
    draw.step(
        "TxnOffsetCommit",
        client.name,
        version,
        transactional_id=_named(draw, client),
        group_id=draw.mostly(GROUP, "{p}h"),
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[{"name": draw.mostly("t0", "{p}none", odds=0.93), "partitions": rows}],
        **body,
    )


def _end(draw: Draw, client: Client) -> None:
    producer_id, epoch = client.own(draw)
    body = {"transactional_id": _named(draw, client), "producer_id": producer_id, "producer_epoch": epoch}
    version = draw.version("EndTxn")
    committed = draw.often(0.6)
    draw.step("EndTxn", client.name, version, committed=committed, **body)
    if draw.often(0.15):  # a client that was not told asks again
        draw.step("EndTxn", client.name, version, committed=draw.mostly(committed, not committed, odds=0.8), **body)


def _look(draw: Draw, client: Client) -> None:
    kind = draw.one(["transactions", "transactions", "list", "producers"])
    if kind == "transactions":
        wanted = draw.some([*IDS, "{p}nobody", ""], 0 if draw.often(0.05) else 1, 2)
        draw.step("DescribeTransactions", "look", None, transactional_ids=list(dict.fromkeys(wanted)))
    elif kind == "list":
        draw.step(
            "ListTransactions",
            "look",
            None,
            state_filters=[] if draw.often(0.5) else list(dict.fromkeys(draw.some(STATES, 1, 2))),
            producer_id_filters=[] if draw.often(0.6) else [f"$pid:{client.name}"],
            duration_filter=draw.mostly(-1, 0, 10**9, -2),
            transactional_id_pattern=draw.mostly(None, *PATTERNS, odds=0.6),
        )
    else:
        topics = [
            {"name": name, "partition_indexes": draw.some([0, 1, 2, -1], 0 if draw.often(0.05) else 1, 2)}
            for name in dict.fromkeys(draw.some([MADE, MADE, "{p}none", "", COMPACT], 1, 2))
        ]
        draw.step("DescribeProducers", "look", None, topics=topics)


def _read(draw: Draw, client: Client) -> None:
    if draw.often(0.5):
        _read_all(draw, draw.one([0, 1]))
        return
    rows = [{"partition_index": index, "timestamp": draw.one([-1, -2, -3])} for index in (0, 1)]
    draw.step(
        "ListOffsets",
        "look",
        None,
        replica_id=-1,
        isolation_level=draw.one([0, 1]),
        topics=[{"name": MADE, "partitions": rows}],
    )


def _read_all(draw: Draw, isolation: int) -> None:
    rows = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 10**6} for index in (0, 1)]
    one = {"topic": MADE, "topic_id": f"$topic:{MADE}", "partitions": rows}
    draw.step("Fetch", "look", draw.version("Fetch", 4), max_wait_ms=0, isolation_level=isolation, topics=[one])


def _markers(draw: Draw, client: Client) -> None:
    """As a coordinator would, for producers that are there and for others."""
    producer_id, epoch = client.own(draw)
    topics = [
        {"name": name, "partition_indexes": list(dict.fromkeys(draw.some([0, 1, 2], 1, 2)))}
        for name in dict.fromkeys(draw.some([MADE, MADE, "{p}none"], 1, 2))
    ]
    marker = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": draw.often(0.5),
        "topics": topics,
        "coordinator_epoch": draw.mostly(0, 1, -1, 7, odds=0.7),
    }
    draw.step("WriteTxnMarkers", client.name, None, markers=[marker])


def _find(draw: Draw, client: Client) -> None:
    key = _named(draw, client)
    draw.step("FindCoordinator", "look", None, key=key, key_type=1, coordinator_keys=[key])


def _looks(draw: Draw) -> None:
    """At all that is left."""
    draw.step("DescribeTransactions", "look", None, transactional_ids=["{p}tx", "{p}ty"])
    draw.step("DescribeProducers", "look", None, topics=[{"name": MADE, "partition_indexes": [0, 1]}])
    for isolation in (0, 1):
        _read_all(draw, isolation)
    if _with_groups(draw):
        for stable in (False, True):
            body = {"group_id": GROUP, "topics": None}
            draw.step("OffsetFetch", "look", min(7, draw.versions["OffsetFetch"][1]), require_stable=stable, **body)
