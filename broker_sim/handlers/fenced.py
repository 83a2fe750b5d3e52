"""PRODUCER_FENCED (KIP-588), what the coordinator says of an epoch that is over; and what is told to versions that do not know it."""

from __future__ import annotations

from kafka_wire.errors import Err


def told(error: Err, *, knows: bool) -> Err:
    """``error``, as an answer says it to who ``knows`` PRODUCER_FENCED or does not."""
    return error if knows or error is not Err.PRODUCER_FENCED else Err.INVALID_PRODUCER_EPOCH
