"""Internal topics' logs as retention and compaction leave them: many variants of one scenario's logs, in one directory or in several.

A log that is cut lacks its first batches. A log that is compacted has, of its first batches, only the last record of each key, with or
without tombstones, as Kafka's log cleaner leaves it: the records of aborted transactions are gone, and so are the markers of
transactions without records, together with the tombstones.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kafka_wire import offsets_log, share_state_log, transaction_log
from kafka_wire.control_records import ControlType
from kafka_wire.record_batch import BatchHeader, Record, batches, control_type, encode_batch, records

__all__ = [
    "MARK",
    "WHOLE",
    "Change",
    "changes",
    "combined_directory",
    "original",
    "renamed_directory",
    "separate_directory",
]

MARK = "~"


@dataclass(frozen=True, slots=True)
class Change:
    """Change of a log. ``how``: `whole`, `cut`, `compacted` or `cleaned` (without tombstones); ``share``: leading
    part of its batches that is concerned, in 1/1000."""

    how: str
    share: int = 0

    @property
    def name(self) -> str:
        """As the groups of the variant are marked."""
        return f"{self.how}.{self.share}"

    def of(self, log: bytes) -> bytes:
        """The changed log."""
        found = list(batches(log))
        number = -(-len(found) * self.share // 1000)
        if self.how in ("whole", "cut"):
            return log[found[number][0] :] if number < len(found) else b""
        return b"".join(_compacted(log, found, number, tombstones=self.how == "compacted"))


WHOLE = Change("whole")


def changes(log: bytes, most: int) -> Iterator[Change]:
    """The whole log, cuts before each of its batches (``most`` of them at equal distances) and compacted ones."""
    number = len(list(batches(log)))
    yield WHOLE
    points = sorted({round(at * 1000 / number) for at in range(1, number)})
    yield from (Change("cut", point) for point in points[:: -(-len(points) // most) if points else 1])
    parts = max(min(most // 4, number), 1)
    for how in ("compacted", "cleaned"):
        yield from (Change(how, 1000 * part // parts) for part in range(1, parts + 1))


def original(name: str) -> tuple[str, str]:
    """The group before the change, and the change's name."""
    whole, _, change = name.rpartition(MARK)
    return whole, change


def combined_directory(directory: Path, into: Path, most: int) -> dict[int, str]:
    """Write a log directory with all variants of a scenario's logs. Each variant has partitions of its own, and its groups' ids have a
    suffix. Returns the partitions of `__consumer_offsets`: the change of each."""
    result = {}
    for topic, renamed in _TOPICS.items():
        partition = 0
        for log in sorted(directory.glob(f"{topic}-*/*.log")):
            content = log.read_bytes()
            for change in changes(content, most) if content else ():
                batch_bytes = _with_suffix(change.of(content), f"{MARK}{change.name}", renamed)
                _write(into / f"{topic}-{partition}", batch_bytes)
                if topic == "__consumer_offsets":
                    result[partition] = change.name
                partition += 1
    _data_topics(directory, into)
    return result


def renamed_directory(directory: Path, into: Path, suffix: str) -> None:
    """Write a log directory with the internal topics' logs, and the suffix at the ids of all groups."""
    for topic, renamed in _TOPICS.items():
        for log in sorted(directory.glob(f"{topic}-*/*.log")):
            _write(into / log.parent.name, _with_suffix(log.read_bytes(), suffix, renamed))


def separate_directory(directory: Path, into: Path, change: Change) -> None:
    """Write a log directory with one variant of the logs of a scenario."""
    for topic in _TOPICS:
        for log in sorted(directory.glob(f"{topic}-*/*.log")):
            content = log.read_bytes()
            if content:
                _write(into / log.parent.name, change.of(content))
    _data_topics(directory, into)


def _write(folder: Path, log: bytes) -> None:
    """The log as one segment; an empty one, where retention has removed all."""
    folder.mkdir(parents=True)
    first = next(batches(log), None)
    (folder / f"{0 if first is None else first[1].base_offset:020d}.log").write_bytes(log)


def _data_topics(directory: Path, into: Path) -> None:
    for folder in sorted(directory.glob("*-*/")):
        if not folder.name.startswith(tuple(_TOPICS)):
            shutil.copytree(folder, into / folder.name)


def _compacted(log: bytes, found: list[tuple[int, BatchHeader]], number: int, *, tombstones: bool) -> Iterator[bytes]:
    """The batches of a log, the first ``number`` of them as the cleaner leaves them."""
    dirty = found[:number]
    aborted, open_ = _aborted(log, found)
    last: dict[bytes | None, int] = {}
    for at, header in dirty:
        if not header.is_control and header.base_offset not in aborted and header.base_offset not in open_:
            last |= {one.key: one.offset for one in records(log, at, header)}
    holding: set[int] = set()
    for at, header in dirty:
        if header.is_control:
            if tombstones or header.producer_id in holding:
                yield log[at : at + header.size]
            holding.discard(header.producer_id)
            continue
        kept = [
            one
            for one in records(log, at, header)
            if header.base_offset in open_
            or (
                header.base_offset not in aborted
                and last.get(one.key) == one.offset
                and (tombstones or one.value is not None)
            )
        ]
        if kept:
            holding.add(header.producer_id)
            yield _encoded(kept, header)
    if number < len(found):
        yield log[found[number][0] :]


def _aborted(log: bytes, found: list[tuple[int, BatchHeader]]) -> tuple[set[int], set[int]]:
    """Base offsets of the batches of aborted transactions, and of those without an end."""
    aborted: set[int] = set()
    open_: dict[int, list[int]] = {}
    for at, header in found:
        if header.is_control:
            mine = open_.pop(header.producer_id, [])
            if control_type(next(iter(records(log, at, header))).key) == ControlType.ABORT:
                aborted |= set(mine)
        elif header.is_transactional:
            open_.setdefault(header.producer_id, []).append(header.base_offset)
    return aborted, {offset for mine in open_.values() for offset in mine}


def _encoded(rows: list[Record], header: BatchHeader) -> bytes:
    return encode_batch(
        rows,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        attributes=header.attributes,
    )


def _with_suffix(log: bytes, suffix: str, renamed: Callable[[bytes, str], bytes]) -> bytes:
    """The log, with the suffix at all names in its records' keys."""
    made = []
    for at, header in batches(log):
        if header.is_control:
            made.append(log[at : at + header.size])
            continue
        made.append(
            _encoded([one._replace(key=renamed(one.key or b"", suffix)) for one in records(log, at, header)], header)
        )
    return b"".join(made)


def _offsets_key(key: bytes, suffix: str) -> bytes:
    kind, value = offsets_log.decode_key(key)
    field = "group" if hasattr(value, "group") else "group_id"
    return offsets_log.encode_key(kind, replace(value, **{field: getattr(value, field) + suffix}))


def _share_key(key: bytes, suffix: str) -> bytes:
    value = share_state_log.decode_key(key)
    assert value is not None
    return share_state_log.encode_key(replace(value, group_id=value.group_id + suffix))


def _transaction_key(key: bytes, suffix: str) -> bytes:
    value = transaction_log.decode_key(key)
    assert value is not None
    return transaction_log.encode_key(value.transactional_id + suffix)


_TOPICS = {
    "__consumer_offsets": _offsets_key,
    "__share_group_state": _share_key,
    "__transaction_state": _transaction_key,
}
