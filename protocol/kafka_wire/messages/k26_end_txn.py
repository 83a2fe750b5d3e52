"""EndTxn (26). Commit or abort a transaction (KIP-98). v2 PRODUCER_FENCED (KIP-588), v4 TRANSACTION_ABORTABLE, v5 a new epoch after
every transaction (KIP-890)."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, boolean, int16, int32, int64, message, string

API = Api(26, "0-5", flexible="3+", advertised={"3.4": "0-3", "3.8": "0-4", "4.0": "0-5"})


@message(API)
class EndTxnRequest:
    transactional_id: str = string(default="", entity=Entity.TRANSACTIONAL_ID)
    producer_id: int = int64(default=0)
    producer_epoch: int = int16(default=0)
    committed: bool = boolean(default=False)


@message(API)
class EndTxnResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)
