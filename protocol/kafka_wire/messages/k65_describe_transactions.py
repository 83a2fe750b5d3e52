"""DescribeTransactions (65). What becomes of transactional ids (KIP-664)."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int16, int32, int64, message, string, struct

API = Api(65, "0", flexible="0+", advertised={"3.4": "0"})


@message(API)
class DescribeTransactionsRequest:
    transactional_ids: list[str] = array("string", default_factory=list, entity=Entity.TRANSACTIONAL_ID)


@struct
class TopicData:
    topic: str = string(default="")
    partitions: list[int] = array("int32", default_factory=list)


@struct
class TransactionState:
    error_code: int = int16(default=0)
    transactional_id: str = string(default="", entity=Entity.TRANSACTIONAL_ID)
    transaction_state: str = string(default="")
    transaction_timeout_ms: int = int32(default=0)
    transaction_start_time_ms: int = int64(default=0)
    producer_id: int = int64(default=0)
    producer_epoch: int = int16(default=0)
    topics: list[TopicData] = array(TopicData, default_factory=list)


@message(API)
class DescribeTransactionsResponse:
    throttle_time_ms: int = int32(default=0)
    transaction_states: list[TransactionState] = array(TransactionState, default_factory=list)
