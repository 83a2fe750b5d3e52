"""What is wrong with a record batch: one exception for each answer that Kafka has. kafka_wire.record_batch exports them."""

from __future__ import annotations

from typing import ClassVar, Self

from kafka_wire.errors import Err


class RecordBatchError(ValueError):
    """A batch that the broker refuses; `error` is what goes to the client."""

    error: ClassVar[Err] = Err.CORRUPT_MESSAGE
    batch_index: int | None = None
    """Which record of the batch is to blame, where one is."""
    record_message: str = ""
    """What is wrong with that record."""
    rejected: ClassVar[str] = ""
    """The text for the whole batch, where it is always the same."""

    @classmethod
    def of_record(cls, batch_index: int, message: str) -> Self:
        """A batch refused for one of its records; the text is RecordValidationException's."""
        error = cls(
            cls.rejected
            or (
                "One or more records have been rejected due to 1 record errors in total, and only showing the first "
                f"three errors at most: [RecordError(batchIndex={batch_index}, message='{message}')]"
            )
        )
        error.batch_index = batch_index
        error.record_message = message
        return error


class CorruptRecord(RecordBatchError):
    """CORRUPT_MESSAGE: checksum, length or magic cannot be right."""


class TruncatedBatch(CorruptRecord):
    """CORRUPT_MESSAGE: the buffer ends before the batch does."""


class InvalidRecord(RecordBatchError):
    """INVALID_RECORD: undamaged, but its content breaks the format or a rule for clients."""

    error = Err.INVALID_RECORD


class UnsupportedForMessageFormat(RecordBatchError):
    """UNSUPPORTED_FOR_MESSAGE_FORMAT: asks for what the format of the batch does not have."""

    error = Err.UNSUPPORTED_FOR_MESSAGE_FORMAT


class UnreadableRecords(RecordBatchError):
    """UNKNOWN_SERVER_ERROR: compressed bytes that are not of their codec; Kafka's broker stumbles over them."""

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
