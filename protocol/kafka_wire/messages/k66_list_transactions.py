"""ListTransactions (66). The transactional ids of a broker (KIP-664). v1 filters by how long they are open (KIP-994), v2 by a pattern
(KIP-1152)."""

from __future__ import annotations

from kafka_wire.schema import Api, array, int16, int32, int64, message, string, struct

API = Api(66, "0-2", flexible="0+", advertised={"3.4": "0", "3.8": "0-1", "4.1": "0-2"})


@message(API)
class ListTransactionsRequest:
    state_filters: list[str] = array("string", default_factory=list)
    producer_id_filters: list[int] = array("int64", default_factory=list)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


@struct
class TransactionState:
    transactional_id: str = string(default="")
    producer_id: int = int64(default=0)
    transaction_state: str = string(default="")


@message(API)
class ListTransactionsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    unknown_state_filters: list[str] = array("string", default_factory=list)
    transaction_states: list[TransactionState] = array(TransactionState, default_factory=list)
