"""PRODUCER_FENCED (KIP-588), the coordinator's error for an old producer epoch; and the error for request versions before it."""

from __future__ import annotations

from kafka_wire.errors import Err


def client_error(error: Err, *, knows: bool) -> Err:
    """``error`` for a client that ``knows`` PRODUCER_FENCED or does not."""
    return error if knows or error is not Err.PRODUCER_FENCED else Err.INVALID_PRODUCER_EPOCH
