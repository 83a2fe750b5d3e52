"""How things are named in text: a log partition, and the things of a running cluster that a name stands for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from broker_sim.control.table import NotThere
from broker_sim.words import UsageError, nearest

if TYPE_CHECKING:
    from broker_sim.cluster import Cluster
    from broker_sim.handles import LogHandle

__all__ = ["check_broker", "examine_log", "log_of", "not_there", "topic_of"]

OFFSETS_TOPIC = "__consumer_offsets"
_OFFSETS_OF = re.compile(r"offsets\((.+)\)")
_PARTITION = re.compile(r"(.+)[-/](\d{1,9})")


def examine_log(text: str) -> tuple[str, int] | str:
    """What a log's name says: (topic, partition), or the group id of ``offsets(GROUP)``. Raises UsageError."""
    if found := _OFFSETS_OF.fullmatch(text):
        return found[1]
    if found := _PARTITION.fullmatch(text):
        return found[1], int(found[2])
    raise UsageError(f"log: {text!r} is not a log; name it as in orders-0, {OFFSETS_TOPIC}-12 or offsets(billing)")


def log_of(cluster: Cluster, text: str) -> LogHandle:
    """The log partition named ``orders-0``, ``__consumer_offsets-12`` or ``offsets(GROUP)``: the one that the group lives in.

    The offsets topic is made where it isn't there yet, as a first FindCoordinator would. Raises NotThere, UsageError.
    """
    named = examine_log(text)
    if isinstance(named, str):
        return cluster.offsets_log(named)
    topic, partition = named
    if topic == OFFSETS_TOPIC:
        cluster.state.ensure_offsets_topic()
    partitions = len(topic_of(cluster, topic).partitions)
    if partition >= partitions:
        raise NotThere(f"no partition {partition} of topic {topic!r}; it has {partitions}, from 0 to {partitions - 1}")
    return cluster.log(topic, partition)


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


def not_there(what: str, name: object, known: list[str]) -> NotThere:
    """The error for a thing that isn't there."""
    meant = nearest(str(name), known)
    shown = known if len(known) <= 20 else [*known[:20], "..."]
    hint = f"did you mean {meant!r}?" if meant else "there is " + ", ".join(shown) if known else "there is none"
    error = NotThere(f"no {what} {name!r}; {hint}")
    error.nearest = meant
    return error
