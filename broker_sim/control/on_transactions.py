"""Operations on transactional ids: look at them, wait for them, have them explained, abort them; and transactions that hang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.control.on_logs import LOG_NAME
from broker_sim.control.resolve import log_of, not_there, transaction_of
from broker_sim.control.shapes import HANGING, TRANSACTION
from broker_sim.control.table import TIMEOUT, operation
from broker_sim.fields.field import Field
from broker_sim.fields.kafka import TRANSACTION_STATE
from broker_sim.fields.kinds import Count, Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker_sim.api.cluster import Cluster
    from broker_sim.api.handles import LogHandle, TransactionHandle

ID = Field("transactional_id", Text(), "the transactional id", required=True, example="orders-app")
STATE = Field("state", TRANSACTION_STATE, "its state", example="Ongoing")
EPOCH = Field("epoch", Count(0), "this producer epoch or a later one")


def _examine_wait(given: dict[str, Any]) -> None:
    if "state" not in given and "epoch" not in given:
        raise UsageError("no condition to wait for; expected one of state, epoch")


def shown(transaction: TransactionHandle) -> dict[str, Any]:
    """A transactional id as JSON; see shapes.TRANSACTION."""
    log = transaction.cluster.transactions.partition_of(transaction.transactional_id)
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer_id,
        "epoch": transaction.epoch,
        "partitions": [f"{topic}-{index}" for topic, index in transaction.partitions],
        "timeout_ms": transaction.timeout_ms,
        "coordinator": transaction.coordinator,
        "log": None if log is None else log.name,
    }


@operation("transaction.list", "GET /transactions", answer={"transactions": [TRANSACTION]})
async def list_transactions(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List all transactional ids with their states, producer ids and epochs."""
    from broker_sim.api.handles.transactions import ids_of

    return {"transactions": [shown(cluster.transaction(name)) for name in ids_of(cluster)]}


@operation("transaction.get", "GET /transactions/{transactional_id}", ID, answer=TRANSACTION)
async def get_transaction(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show a transactional id: state, producer id, epoch, and the partitions that have no marker yet."""
    from broker_sim.api.handles.transactions import GONE, ids_of

    transaction = cluster.transaction(given["transactional_id"])
    if transaction.state == GONE:
        raise not_there("transactional id", transaction.transactional_id, ids_of(cluster))
    return shown(transaction)


@operation(
    "transaction.wait",
    "GET /transactions/{transactional_id}/wait",
    ID,
    STATE,
    EPOCH,
    TIMEOUT,
    answer=TRANSACTION,
    waits=True,
    examine=_examine_wait,
)
async def wait_transaction(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until all conditions hold for a transactional id at the same time; it may not exist yet."""
    transaction = cluster.transaction(given["transactional_id"])
    await transaction.wait(state=given.get("state"), epoch=given.get("epoch"), timeout=given["timeout"])
    return shown(transaction)


@operation(
    "transaction.explain",
    "GET /transactions/{transactional_id}/explain",
    ID,
    answer={"transactional_id": "string", "text": "string"},
)
async def explain_transaction(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Explain in words how the transactions of an id ended, by whom, how long each took, and what it delayed."""
    events = cluster.observe().events
    require_in_journal(events, given["transactional_id"])
    return {
        "transactional_id": given["transactional_id"],
        "text": cluster.transaction(given["transactional_id"]).explain(),
    }


def require_in_journal(events: Iterable[dict[str, Any]], name: str) -> None:
    """Raises NotThere if a journal does not have a transactional id."""
    known = {event.get("transactional_id") for event in events}
    if name not in known:
        raise not_there("transactional id", name, sorted(known_id for known_id in known if known_id))


def explained(events: Iterable[dict[str, Any]], name: str) -> str:
    """Outcome of the transactions of an id, as text."""
    from broker_sim.explain.transaction_text import explain_transactions

    return explain_transactions(events, name)


@operation("transaction.abort", "POST /transactions/{transactional_id}/abort", ID, TIMEOUT, answer=TRANSACTION)
async def abort_transaction(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Fence the producer of a transactional id, and abort its transaction, as Admin.fenceProducers does."""
    transaction = transaction_of(cluster, given["transactional_id"])
    await transaction.abort(timeout=given["timeout"])
    return shown(transaction)


@operation("transaction.hanging", "GET /hanging-transactions", answer={"hanging": [HANGING]})
async def find_hanging(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List hanging transactions of a partition: open, and unknown to the transaction coordinator."""
    logs = (
        cluster.log(partition.topic.name, partition.index)
        for partition in cluster.state.partitions()
        if not partition.topic.internal
    )
    return {
        "hanging": [
            _hanging(log, transaction) for log in logs for transaction in log.open_transactions if transaction.hangs
        ]
    }


def _hanging(log: LogHandle, transaction: Any) -> dict[str, Any]:
    return {
        "log": log.name,
        "producer_id": transaction.producer_id,
        "epoch": transaction.epoch,
        "first_offset": transaction.first_offset,
        "last_ms": transaction.last_ms,
        "last_stable_offset": log.last_stable_offset,
        "high_watermark": log.high_watermark,
    }


@operation(
    "transaction.abort_hanging",
    "POST /logs/{log}/transactions/{producer_id}/abort",
    LOG_NAME,
    Field("producer_id", Count(0), "producer id of the transaction", required=True, example=1000),
    TIMEOUT,
    answer={"log": "string", "last_stable_offset": "integer", "high_watermark": "integer"},
)
async def abort_hanging(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Write an abort marker for a producer's open transaction in a partition, as kafka-transactions abort does."""
    log = log_of(cluster, given["log"])
    await log.abort_transaction(given["producer_id"], timeout=given["timeout"])
    return {"log": log.name, "last_stable_offset": log.last_stable_offset, "high_watermark": log.high_watermark}
