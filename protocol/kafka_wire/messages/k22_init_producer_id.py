"""InitProducerId (22). A producer id and epoch (KIP-98). v3 fencing by the old id and epoch (KIP-360)."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, int16, int32, int64, message, string

API = Api(22, "0-5", flexible="2+", advertised={"3.4": "0-4", "3.8": "0-5"})


@message(API)
class InitProducerIdRequest:
    transactional_id: str | None = string(nullable="0+", default="", entity=Entity.TRANSACTIONAL_ID)
    transaction_timeout_ms: int = int32(default=0)
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


@message(API)
class InitProducerIdResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=0, failed=-1)
