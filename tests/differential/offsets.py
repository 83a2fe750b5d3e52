"""The records of __consumer_offsets that a play's groups left, on both sides, decoded and compared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafka_wire import offsets_log as types
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.offsets_log import decode_key, decode_value
from kafka_wire.record_batch import batches, records
from tests.differential.difference import Difference
from tests.differential.normal import differences
from tests.differential.symbols import OFFSETS
from tests.differential.tolerances import tolerated

if TYPE_CHECKING:
    from tests.differential.play import Play, Side

API = "the offsets log"
_OF_SHARE_MEMBERS = (types.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, types.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT)
CONTROL = 0x20
"""The bit of a batch that is a transaction's marker, which names no group."""


async def ends(side: Side, indexes: Iterable[int]) -> dict[int, int]:
    """The end offset of these partitions of the offsets log."""
    by_leader: dict[int, list[ListOffsetsPartition]] = {}
    for index in indexes:
        by_leader.setdefault(_leader(side, index), []).append(ListOffsetsPartition(index, timestamp=-1))
    found = {}
    for broker, rows in by_leader.items():
        answer = await side.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(OFFSETS, rows)]), 4, broker)
        found.update({row.partition_index: row.offset for row in answer.topics[0].partitions})
    return found


def _leader(side: Side, index: int) -> int:
    return side.scope.broker(f"$leader:{OFFSETS}/{index}")


async def written(side: Side, start: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return the records in the log behind `start` of groups with the play's prefix: by group, in the order of the log."""
    found = []
    for index, offset in start.items():
        for raw in await _fetch(side, index, offset):
            found += _entries(side, raw, offset)
    found.sort(key=lambda entry: (entry["group"], entry.pop("offset")))
    return found


async def _fetch(side: Side, index: int, offset: int) -> list[bytes]:
    out = []
    while True:
        wanted = FetchTopic(
            OFFSETS, partitions=[FetchPartition(index, fetch_offset=offset, partition_max_bytes=1 << 22)]
        )
        request = FetchRequest(max_wait_ms=0, max_bytes=1 << 23, topics=[wanted])
        answer = (await side.ask(request, 12, _leader(side, index))).responses[0].partitions[0]
        if answer.error_code or not answer.records:
            return out
        out.append(answer.records)
        for _, header in batches(answer.records):
            offset = header.next_offset


def _entries(side: Side, raw: bytes, start: int) -> list[dict[str, Any]]:
    out = []
    for position, header in batches(raw):
        rows = []
        if header.attributes & CONTROL:
            continue
        for record in records(raw, position, header):
            kind, key = decode_key(record.key or b"")
            group = getattr(key, "group", getattr(key, "group_id", None))
            if record.offset < start or group is None or not group.startswith(side.scope.prefix):
                continue
            if side.reader.divides and kind in _OF_SHARE_MEMBERS:
                continue  # who has which is chance, and with it whether there is anything to write
            value = decode_value(kind, record.value)
            rows.append(
                {
                    "group": side.reader.text(group),
                    "offset": (
                        header.base_offset,
                        side.reader.text(repr(key)),
                    ),  # within a batch by key: what deletes goes through a hash map
                    "kind": kind,
                    "key": side.reader.text(repr(key)),
                    "value": None if value is None else _plain(side, value, record.value or b""),
                    "of_batch": header.attributes,
                    "in_batch": 0,
                }
            )
        for row in rows:
            row["in_batch"] = len(rows)
        out += rows
    return out


def _without_batches(entries: list[dict[str, Any]]) -> None:
    """Commits that come in a row are one batch of the simulator's and several of Kafka's: what each key was told counts."""
    entries.sort(key=lambda entry: str(entry["key"]))
    for entry in entries:
        entry["in_batch"] = 0


def _plain(side: Side, value: Any, raw: bytes) -> dict[str, Any]:
    out: dict[str, Any] = {"of_version": int.from_bytes(raw[:2], "big"), "size": len(raw)}
    for name, spec in type(value).__fields__:
        out[name] = side.reader._field("log", getattr(value, name), 99, name, spec, f"log.{name}")
    return out


async def compare(play: Play, starts: list[dict[int, int]]) -> Difference | None:
    """The difference between what both sides wrote during a play."""
    real, simulated = await asyncio.gather(
        *(written(side, start) for side, start in zip(play.sides, starts, strict=True))
    )
    play.outcome.log_records += len(real)
    if any(step.held for step in play.sequence.steps):
        _without_batches(real)
        _without_batches(simulated)
    rows = []
    for path, one, other in differences(real, simulated):
        rule = tolerated(f"log{path}", one, other)
        if rule is None:
            rows.append((f"log{path}", one, other))
        else:
            play.outcome.tolerated.append(rule)
    return Difference(len(play.sequence.steps), API, 0, tuple(rows)) if rows else None
