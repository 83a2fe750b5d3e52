"""Logs without their beginning, as compaction and retention leave them: all cuts of several logs in one directory.

A log is cut before each of its batches. The groups and transactional ids of a cut have a suffix of their own and a partition of their
own, so one run of the pipeline reads all cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from kafka_wire import offsets_log, share_state_log, transaction_log
from kafka_wire.record_batch import batches, encode_batch, records

__all__ = ["cut_directory", "original"]

_MARK = "~"


def original(name: str) -> tuple[str, int]:
    """The group or transactional id before the cut, with the name of its log directory, and how many batches its log lacks."""
    whole, _, lacks = name.rpartition(_MARK)
    return whole, int(lacks)


def cut_directory(directories: Mapping[str, Path], into: Path) -> None:
    """Write a log directory with the internal topics of these ones, and all cuts of their logs."""
    for topic, renamed in _TOPICS.items():
        partition = 0
        for name, directory in directories.items():
            for log in sorted(directory.glob(f"{topic}-*/*.log")):
                content = log.read_bytes()
                for lacks, (at, header) in enumerate(batches(content)):
                    folder = into / f"{topic}-{partition}"
                    folder.mkdir(parents=True)
                    cut = _with_suffix(content[at:], f"{_MARK}{name}{_MARK}{lacks}", renamed)
                    (folder / f"{header.base_offset:020d}.log").write_bytes(cut)
                    partition += 1


def _with_suffix(log: bytes, suffix: str, renamed: Callable[[bytes, str], bytes]) -> bytes:
    """The log, with the suffix at all names in its records' keys."""
    made = []
    for at, header in batches(log):
        if header.is_control:
            made.append(log[at : at + header.size])
            continue
        rows = [one._replace(key=renamed(one.key or b"", suffix)) for one in records(log, at, header)]
        made.append(
            encode_batch(
                rows,
                base_offset=header.base_offset,
                last_offset=header.last_offset,
                leader_epoch=header.leader_epoch,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                attributes=header.attributes,
            )
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
