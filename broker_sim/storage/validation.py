"""The log's checks of a client's batch, in Kafka's order.

Rules:
1. Every record is checked. An invalid one refuses the batch, whatever else is wrong; else the wrong records are named, each with its
   first fault: the missing key, then the timestamp.
2. Compressed records are unpacked up to `compression_max_bytes` and if the codec's library is installed. Records that can't be unpacked
   are accepted, except by a compacted topic, which could not be compacted then.
3. `checking` works in pieces of STEP_RECORDS, or as many headers, and some milliseconds; `check_client_batch` does the same without
   pieces. Source: UnifiedLog.analyzeAndValidateRecords, LogValidator (storage).
"""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.longs import as_long
from broker_sim.common.slices import Pace, at_once
from broker_sim.storage.errors import RecordTooLarge
from broker_sim.storage.log_config import LogConfig
from kafka_wire import compression
from kafka_wire.record_batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_END,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    DecompressedTooLarge,
    InvalidRecord,
    InvalidTimestamp,
    RecordBatchError,
    UnreadableRecords,
    UnsupportedCompression,
    check_crc,
)
from kafka_wire.record_checks import Bare, Bytes, Scanned, scan, walking
from kafka_wire.record_errors import SHOWN_RECORDS, UnknownCodec

STEP_RECORDS = 2000
"""Records of one piece of work: some milliseconds where each is looked at by itself."""
_NEWEST_CODEC = int(Codec.ZSTD)
_SHORT_BYTES = 8192


def is_short(header: BatchHeader) -> bool:
    """Whether all checks of the batch take some milliseconds at most, for any content."""
    return not header.attributes & CODEC_MASK and header.length <= _SHORT_BYTES


def may_be_quick(header: BatchHeader) -> bool:
    """Whether all checks of the batch are likely to be done with the first piece of `checking`."""
    return header.record_count <= STEP_RECORDS and (not header.attributes & CODEC_MASK or header.length <= _SHORT_BYTES)


def check_client_batch(data: bytes, pos: int, header: BatchHeader, config: LogConfig, now_ms: int, name: str) -> int:
    """The largest timestamp of the batch's records (ms, -1 without records), which its header should have.

    Raises Kafka's error for a batch that may not be appended to the log `name`: RecordBatchError, RecordTooLarge.
    """
    count, end = header.record_count, pos + header.length + LENGTH_END
    if not header.attributes & ~TRANSACTIONAL_BIT and 0 < count <= STEP_RECORDS:  # nearly every batch
        _check_header(data, pos, header, config, name)
        at, earliest, latest, keyless, _, stopped = scan(data, pos + HEADER_BYTES, end, 0, count, True)
        base = header.base_timestamp
        if (
            at == end
            and stopped == count
            and base + latest <= now_ms + config.message_timestamp_after_max_ms
            and base + earliest >= now_ms - config.message_timestamp_before_max_ms
            and not (keyless and config.compacts)
            and -1 <= base + latest < 1 << 63
            and not config.is_log_append_time
        ):
            return base + latest
    return at_once(checking(data, pos, header, config, now_ms, name))


def checking(
    data: bytes, pos: int, header: BatchHeader, config: LogConfig, now_ms: int, name: str
) -> Generator[None, None, int]:
    """`check_client_batch` in pieces: yields after each."""
    _check_header(data, pos, header, config, name)
    end = pos + header.length + LENGTH_END
    if not header.attributes & CODEC_MASK:
        return (yield from _Records(data, pos + HEADER_BYTES, end, True, header, config, now_ms, name).check())
    plain = yield from _unpacked(data[pos + HEADER_BYTES : end], header, config)
    if plain is None:
        return header.max_timestamp
    records = _Records(plain, 0, len(plain), config.release < (3, 6), header, config, now_ms, name)
    return (yield from records.check())


def check_size(header: BatchHeader, config: LogConfig, name: str) -> None:
    """Raises RecordTooLarge for a batch above max.message.bytes."""
    if header.size > config.max_message_bytes:
        raise RecordTooLarge(
            f"The record batch size in the append to {name} is {header.size} bytes which exceeds the maximum configured value "
            f"of {config.max_message_bytes}."
        )


def _check_header(data: bytes, pos: int, header: BatchHeader, config: LogConfig, name: str) -> None:
    if header.base_offset != 0:
        raise InvalidRecord(
            f"The baseOffset of the record batch in the append to {name} should be 0, but it is {header.base_offset}"
        )
    check_size(header, config, name)
    check_crc(data, pos, header)
    if header.attributes & CODEC_MASK > _NEWEST_CODEC:  # met before the rest (UnifiedLog.analyzeAndValidateRecords)
        raise UnknownCodec(f"Unknown compression type id: {header.attributes & CODEC_MASK}")
    count = header.record_count
    if header.last_offset_delta + 1 <= 0:
        raise InvalidRecord(f"Batch has an invalid offset range: [0, {header.last_offset_delta}]")
    if count <= 0:
        raise InvalidRecord(f"Invalid reported count for record batch: {count}")
    if header.last_offset_delta + 1 != count:
        raise InvalidRecord(
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {count}"
        )
    if header.attributes & CONTROL_BIT:
        raise InvalidRecord("Clients are not allowed to write control records.")
    if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0:
        raise InvalidRecord(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}"
        )


def _unpacked(packed: bytes, header: BatchHeader, config: LogConfig) -> Generator[None, None, Bytes | None]:
    """The records of a compressed batch; None where they are believed."""
    if not packed:
        kind = InvalidRecord if header.codec is Codec.ZSTD else UnreadableRecords
        raise kind("a compressed batch without a byte")
    try:
        return (yield from compression.unpacking(header.codec, packed, config.compression_max_bytes))
    except compression.OutputTooLarge as error:
        if config.compacts:
            raise DecompressedTooLarge(str(error)) from None
    except compression.CodecUnavailable as error:
        if config.compacts:
            raise UnsupportedCompression(str(error)) from None
    except compression.CompressionError as error:
        raise UnreadableRecords(str(error)) from None
    return None


class _Records:
    """The records of one batch, data[at:end], before the log `name`."""

    def __init__(
        self,
        data: Bytes,
        at: int,
        end: int,
        sized: bool,
        header: BatchHeader,
        config: LogConfig,
        now_ms: int,
        name: str,
    ) -> None:
        self.data, self.at, self.end, self.sized = data, at, end, sized
        self.header, self.config, self.name = header, config, name
        self.packed = bool(header.attributes & CODEC_MASK)
        self.signed = self.packed and config.release >= (4, 4)
        self.by_broker = bool(header.attributes & TIMESTAMP_TYPE_BIT)
        self.wrong_type = self.by_broker and (
            config.is_log_append_time or config.release < (3, 6) or header.max_timestamp == NO_TIMESTAMP
        )
        self.now_ms = now_ms
        self.bounds = (now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms)

    def check(self) -> Generator[None, None, int]:
        """The latest time of the records. Raises as `checking`."""
        count, at = self.header.record_count, self.at
        earliest, latest, keyless, in_order = 1 << 63, -1 << 63, False, True
        first = 0
        while first < count:
            if first:
                yield
            last = min(first + STEP_RECORDS, count)
            scanned = scan(self.data, at, self.end, first, last, self.sized, self.signed)
            if scanned.stopped == first:  # for its headers alone
                record = yield from walking(self.data, at, self.end, self.sized, self.signed)
                time, keyed = record.timestamp_delta, record.key_size >= 0
                scanned = Scanned(record.end, time, time, not keyed, record.offset_delta == first, first + 1)
            at, first = scanned.end, scanned.stopped
            earliest, latest = min(earliest, scanned.earliest), max(latest, scanned.latest)
            keyless, in_order = keyless or scanned.keyless, in_order and scanned.in_order
        if at != self.end:
            raise InvalidRecord("Incorrect declared batch size, records still remaining in file")
        earliest, latest = self._time(earliest), self._time(latest)
        low, high = self.bounds
        timely = self.config.is_log_append_time or low <= earliest <= latest <= high
        if not timely or (keyless and self.config.compacts) or self.wrong_type or self.by_broker:
            latest = yield from self._blame()
        if self.packed and not in_order:  # it would encode the batch again from records that it has only skimmed
            raise UnreadableRecords("the offsets of a compressed batch are not 0, 1, 2 ...")
        return max(latest, NO_TIMESTAMP)

    def _time(self, delta: int) -> int:
        """As Java adds, in 64 bits."""
        if self.by_broker:
            return self.header.max_timestamp
        return as_long(self.header.base_timestamp + delta)

    def _blame(self) -> Generator[None, None, int]:
        """The latest time where no record is to blame; raises InvalidTimestamp, InvalidRecord where some are."""
        at, latest, count = self.at, NO_TIMESTAMP, 0
        kind: type[RecordBatchError] = InvalidRecord
        faults: list[tuple[int, str]] = []
        pace = Pace(STEP_RECORDS)
        for index in range(self.header.record_count):
            record = yield from walking(self.data, at, self.end, self.sized, self.signed)
            at = record.end
            if pace.full(1 + record.headers):
                yield
            time = self._time(record.timestamp_delta)
            latest = max(latest, time)
            if self.config.compacts and record.key_size < 0:
                text = f"Compacted topic cannot accept message without key in topic partition {self.name}"
                fault = text + ("." if self.config.release < (3, 5) else "")
            else:
                fault = self._fault_in_time(record, time)
                if fault:
                    kind = InvalidTimestamp
            if fault:
                count += 1
                if count <= SHOWN_RECORDS:
                    faults.append((index, fault))
        if faults:
            raise kind.of_records(faults, count)
        return latest

    def _is_timely(self, time: int) -> bool:
        """Java's subtraction in 64 bits (LogValidator.validateTimestamp): if it overflows, a distant timestamp counts as near."""
        before, after = self.config.message_timestamp_before_max_ms, self.config.message_timestamp_after_max_ms
        late = as_long(self.now_ms - time)
        if self.config.release < (3, 6):
            return as_long(abs(late)) <= before
        return late <= before and as_long(-late) <= after

    def _fault_in_time(self, record: Bare, time: int) -> str:
        """The fault of a record's timestamp, or ""."""
        if not (self.config.is_log_append_time or time == NO_TIMESTAMP or self._is_timely(time)):
            low, high = map(as_long, self.bounds)
            return (
                f"Timestamp {time} of message with offset {record.offset_delta} is out of range. The timestamp should be "
                f"within [{low}, {high}]"
            )
        if self.wrong_type:
            kind, key, value = "PartialDefaultRecord", record.key_size, record.value_size
            if not self.packed:
                kind, key, value = "DefaultRecord", max(key, 0), max(value, 0)
            return (
                f"Invalid timestamp type in message {kind}(offset={record.offset_delta}, timestamp={time}, key={key} bytes, "
                f"value={value} bytes). Producer should not set timestamp type to LogAppendTime."
            )
        return ""
