"""Names in text: of log partitions (``orders-0``, ``offsets(billing)``), and of objects of a running cluster, with errors for
unknown ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import unknown
from broker_sim.control.table import NotThere
from broker_sim.faults.selectors import fits
from broker_sim.fields.field import Field
from broker_sim.fields.kafka import LogName, TransactionalIdLog, log_named
from broker_sim.fields.kinds import Flag, refusal
from broker_sim.journal import about, groups_in
from kafka_wire.group_states import GroupState

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.api.handles import GroupHandle, LogHandle, TransactionHandle

__all__ = [
    "AHEAD",
    "check_broker",
    "examine_log",
    "group_of",
    "has_events_of",
    "log_of",
    "not_there",
    "strangers",
    "topic_of",
    "transaction_of",
]

OFFSETS_TOPIC, TRANSACTION_TOPIC = "__consumer_offsets", "__transaction_state"
AHEAD = Field("ahead", Flag(), "allow a group or transactional id that does not exist yet")
"""Parameter of every operation on the partition of a group, or of a transactional id. Any text has its partition, so a wrong name
would break another one."""
_AHEAD_HINT = " (--ahead, over HTTP ahead=true, allows one that does not exist yet)"


def examine_log(text: str) -> tuple[str, int] | str | TransactionalIdLog:
    """Parse a log's name into (topic, partition), the group id of ``offsets(GROUP)``, or the id of ``transactions(ID)``. Raises
    UsageError."""
    named = log_named(text)
    if named is None:
        raise refusal("log", text, LogName.meant)
    return named


def log_of(cluster: Cluster, text: str, *, ahead: bool = False) -> LogHandle:
    """The log partition named ``orders-0``, ``__consumer_offsets-12``, ``offsets(GROUP)`` or ``transactions(ID)``: the one that the
    group or the transactional id lives in, which is there, or comes later: ``ahead``.

    The internal topic is made where it isn't there yet, as a first FindCoordinator would. Raises NotThere, UsageError.
    """
    named = examine_log(text)
    if isinstance(named, str):
        return group_of(cluster, named, ahead=ahead).offsets_log
    if isinstance(named, TransactionalIdLog):
        return transaction_of(cluster, named.transactional_id, ahead=ahead).state_log
    topic, partition = named
    if topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
        cluster.state.ensure_internal_topic(topic)
    partitions = len(topic_of(cluster, topic).partitions)
    if partition >= partitions:
        raise NotThere(f"no partition {partition} of topic {topic!r}; expected 0 to {partitions - 1}")
    return cluster.log(topic, partition)


def group_of(cluster: Cluster, name: str, *, ahead: bool | None = False) -> GroupHandle:
    """The group of that id, which is there, or was, or can't be seen now; with ``ahead`` any group (None: the operation has no such
    parameter). Raises NotThere."""
    group = cluster.group(name)
    if (
        not ahead
        and group.state == GroupState.DEAD.value
        and group.visible
        and not has_events_of(cluster.observe().events, name)
    ):
        raise not_there("group", name, cluster.groups(), hint="" if ahead is None else _AHEAD_HINT)
    return group


def transaction_of(cluster: Cluster, name: str, *, ahead: bool = False) -> TransactionHandle:
    """The transactional id of that name, which is there, or was, or can't be seen now; with ``ahead`` any. Raises NotThere."""
    from broker_sim.api.handles.transactions import GONE, ids_of

    transaction = cluster.transaction(name)
    events = cluster.observe().events
    if not ahead and transaction.state == GONE and not any(event.get("transactional_id") == name for event in events):
        raise not_there("transactional id", name, ids_of(cluster), hint=_AHEAD_HINT)
    return transaction


def has_events_of(events: Iterable[dict[str, Any]], group: str) -> bool:
    """Whether a journal has a group."""
    return any(about(event, group) for event in events)


def strangers(cluster: Cluster, given: Mapping[str, Any]) -> str:
    """The names of a selector (group, client id, topic) that match nothing which the cluster has seen so far, as text; "" if each
    matches, or nothing was seen. ``given``: the parameters of a rule."""
    events = [event for event in cluster.observe().events if event["event"] == "request"]
    known = {
        "group": [*cluster.groups(), *groups_in(events)],
        "client_id": [event["client_id"] for event in events if event["client_id"]],
        "topic": list(cluster.state.topics),
    }
    wrong = []
    for key, names in known.items():
        names = list(dict.fromkeys(names))
        if key in given and names and not any(fits(given[key], name) for name in names):
            wrong.append(str(not_there(key.replace("_", " "), given[key], names)))
    return "; ".join(f"up to now: {words}" for words in wrong)


def topic_of(cluster: Cluster, name: str) -> Any:
    """The topic of that name. Raises NotThere with the nearest that is there."""
    topic = cluster.state.topics.get(name)
    if topic is None:
        raise not_there("topic", name, list(cluster.state.topics))
    return topic


def check_broker(cluster: Cluster, node_id: int) -> None:
    """Raises NotThere where no broker has that node id."""
    if node_id not in cluster.state.brokers:
        raise not_there("broker", node_id, list(map(str, cluster.state.brokers)))


def not_there(what: str, name: object, known: list[str], *, of: str = "", hint: str = "") -> NotThere:
    """The error for a missing thing; ``of``: what it belongs to; ``hint``: the end of the message."""
    wrong = unknown(what, name, known, of=of)
    error = NotThere(f"{wrong}{hint}")
    error.nearest = wrong.nearest
    return error
