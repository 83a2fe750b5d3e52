"""AddOffsetsToTxn (25). A transaction is going to commit offsets of a group (KIP-98). v2 PRODUCER_FENCED (KIP-588), v4
TRANSACTION_ABORTABLE (KIP-890)."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, int16, int32, int64, message, string

API = Api(25, "0-4", flexible="3+", advertised={"3.4": "0-3", "3.8": "0-4"})


@message(API)
class AddOffsetsToTxnRequest:
    transactional_id: str = string(default="", entity=Entity.TRANSACTIONAL_ID)
    producer_id: int = int64(default=0)
    producer_epoch: int = int16(default=0)
    group_id: str = string(default="", entity=Entity.GROUP)


@message(API)
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
