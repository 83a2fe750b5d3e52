"""Errors of record batches: one exception for each answer that Kafka has. kafka_wire.record_batch exports them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from kafka_wire.errors import Err

SHOWN_RECORDS = 10_000
"""Records of one batch that are named; Kafka names them all, in an answer that may be a thousand times the request."""


class RecordBatchError(ValueError):
    """A batch that the broker refuses; `error` is what goes to the client."""

    error: ClassVar[Err] = Err.CORRUPT_MESSAGE
    record_errors: Sequence[tuple[int, str]] = ()
    """Invalid records of the batch, as (place in the batch, error message); at most SHOWN_RECORDS."""
    rejected: ClassVar[str] = ""
    """The text for the whole batch, where it is always the same."""

    @classmethod
    def of_records(cls, faults: Sequence[tuple[int, str]], count: int = 0) -> Self:
        """A batch refused for its records, `count` of them where `faults` does not name all, in RecordValidationException's
        words.
        """
        first = ", ".join(f"RecordError(batchIndex={index}, message='{message}')" for index, message in faults[:3])
        error = cls(
            cls.rejected
            or (
                f"One or more records have been rejected due to {count or len(faults)} record errors in total, and only "
                f"showing the first three errors at most: [{first}]"
            )
        )
        error.record_errors = faults
        return error


class CorruptRecord(RecordBatchError):
    """CORRUPT_MESSAGE: checksum, length or magic cannot be right."""


class ShortBatch(CorruptRecord):
    """CORRUPT_MESSAGE: the one batch of a Produce is too short for its head. What comes before the log sees nothing wrong with it."""


class TruncatedBatch(CorruptRecord):
    """CORRUPT_MESSAGE: the buffer ends before the batch does."""


class InvalidRecord(RecordBatchError):
    """INVALID_RECORD: undamaged, but its content breaks the format or a rule for clients."""

    error = Err.INVALID_RECORD


class UnsupportedForMessageFormat(RecordBatchError):
    """UNSUPPORTED_FOR_MESSAGE_FORMAT: asks for what the format of the batch does not have."""

    error = Err.UNSUPPORTED_FOR_MESSAGE_FORMAT


class UnreadableRecords(RecordBatchError):
    """UNKNOWN_SERVER_ERROR: compressed bytes that are not of their codec, a batch longer than an int; Kafka stumbles over them."""

    error = Err.UNKNOWN_SERVER_ERROR


class UnknownCodec(UnreadableRecords):
    """UNKNOWN_SERVER_ERROR: a codec id that no Kafka knows."""


class UnsupportedCompression(RecordBatchError):
    """UNSUPPORTED_COMPRESSION_TYPE: a codec that the API's version forbids, or whose library is missing."""

    error = Err.UNSUPPORTED_COMPRESSION_TYPE


class InvalidTimestamp(RecordBatchError):
    """INVALID_TIMESTAMP: out of the topic's bounds, or of a type that only a broker may set."""

    error = Err.INVALID_TIMESTAMP
    rejected = "One or more records have been rejected due to invalid timestamp"


class DecompressedTooLarge(RecordBatchError):
    """MESSAGE_TOO_LARGE: unpacked, the records would exceed the reader's bound."""

    error = Err.MESSAGE_TOO_LARGE
