"""InitProducerId (22). A producer id and epoch (KIP-98). v3 fencing by the old id and epoch (KIP-360)."""

from __future__ import annotations

from kafka_wire.schema import int16, int32, int64, message, string


@message("0-5", flexible="2+", api_key=22)
class InitProducerIdRequest:
    transactional_id: str | None = string(nullable="0+", default="")
    transaction_timeout_ms: int = int32(default=0)
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


@message("0-5", flexible="2+", api_key=22)
class InitProducerIdResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=0)
