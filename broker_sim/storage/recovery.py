"""Opening a log directory: what a crash left is put right, what a disk damaged is cut where it must be and told.

Rules:
1. The last segment is read whole and every CRC checked: what a crash tore is at its end, and is cut at the last good
   batch. Earlier segments are trusted as long as their indexes fit; what doesn't fit is read and rebuilt.
2. Nothing disappears in silence: one warning tells the file, the position, the bytes and the reason.
Source: LogLoader, LogSegment.recover (storage).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from broker_sim.storage.epochs import EpochCache
from broker_sim.storage.files import Files
from broker_sim.storage.log_config import LogConfig
from broker_sim.storage.producer_state import ProducerState
from broker_sim.storage.segment import DiskSegment
from protocol.record_batch import RecordBatchError, check_crc

logger = logging.getLogger(__name__)


@dataclass
class Recovered:
    """What a directory holds."""

    segments: list[DiskSegment] = field(default_factory=list)
    producers: ProducerState = field(default_factory=ProducerState)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    epochs_changed: bool = False
    log_start_offset: int = 0


def recover(directory: Path, config: LogConfig, files: Files, now_ms: int) -> Recovered:
    """Read a log directory, repairing it. Raises OSError."""
    found = Recovered()
    bases = sorted(int(path.stem) for path in directory.glob("*.log") if path.stem.isdigit())
    epochs = EpochCache()
    for base in bases:
        segment = DiskSegment(
            directory,
            base,
            created_ms=now_ms,
            index_interval=config.index_interval_bytes,
            max_index_bytes=config.segment_index_bytes,
            files=files,
        )
        found.segments.append(segment)
        size = files.size(segment.fd)
        why = ""
        try:
            for header, data, pos in segment.scan(0, size):
                check_crc(data, pos, header)
                segment.note(header.size, header.last_offset, header.max_timestamp)
                epochs.assign(header.leader_epoch, header.base_offset)
                found.producers.update(header, header.base_offset)
        except RecordBatchError as error:
            why = str(error)
        if segment.size < size:
            logger.warning(
                "%s: cut at position %d, %d bytes removed: %s", segment.log_path, segment.size, size - segment.size, why
            )
            files.truncate(segment.fd, segment.size)
    found.epochs = epochs.entries
    found.epochs_changed = bool(bases)
    if bases:
        found.log_start_offset = bases[0]
    return found
