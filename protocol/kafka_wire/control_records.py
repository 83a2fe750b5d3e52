"""Control records: what a broker writes into a log beside the clients' data. The one kind here ends a transaction (KIP-98).

A key is an int16 version and an int16 type, a value an int16 version and the int32 epoch of the coordinator that sent it.
Source: ControlRecordType, EndTransactionMarker (clients).
"""

from __future__ import annotations

import enum
import struct

from kafka_wire.record_errors import InvalidRecord

__all__ = ["NO_EPOCH", "ControlType", "control_record", "control_type", "coordinator_epoch"]

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")

NO_EPOCH = -1
"""The coordinator's epoch of a marker that tells none."""


class ControlType(enum.IntEnum):
    """Second int16 of a control record's key."""

    ABORT = 0
    COMMIT = 1


def control_record(kind: ControlType, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Key and value of the marker that ends a transaction."""
    return _KEY.pack(0, kind), _VALUE.pack(0, coordinator_epoch)


def control_type(key: bytes | None) -> int:
    """Type of a control record (ControlType, or a later one's number) from its key. Raises InvalidRecord."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord("Invalid control record key: it must have at least 4 bytes")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"Invalid version found for control record: {version}")
    return int(kind)


def coordinator_epoch(value: bytes | None) -> int:
    """The epoch in a marker's value; one that is too short for it (there are brokers that write such) counts as one without."""
    if value is None or len(value) < _VALUE.size:
        return NO_EPOCH
    return int(_VALUE.unpack_from(value)[1])
