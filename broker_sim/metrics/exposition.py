"""The metrics as text: families of what a cluster is now and of what was counted.

Names and labels are compared with a real broker's by tests/conformance/test_metrics.py.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_sim.api.handles.groups import GroupHandle
from broker_sim.common.text import installing, unknown
from broker_sim.metrics.counts import Counts

try:
    from prometheus_client.exposition import generate_latest
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector, CollectorRegistry
except ImportError as missing:  # pragma: no cover - the tests have it
    raise ImportError(f"metrics need prometheus-client: {installing('prometheus_client')}") from missing

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.metadata.cluster_state import Partition

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PIECE = 50
"""Partitions or groups between two looks of the event loop at what else there is."""
_QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
_CLASSIC = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
_STATES = {
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    "share": ("Empty", "Stable", "Dead"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
}


class Metrics:
    """The metrics of a cluster, counted from the first event that its journal still has. The journal is written from now on. Raises
    ImportError without prometheus-client."""

    def __init__(self, kafka: Cluster) -> None:
        self._kafka = kafka
        kafka.observe()
        self._counts = Counts(kafka.journal, self._partition_of, lambda group: kafka.group(group).type)

    def text(self, *, broker: int | None = None) -> str:
        """Prometheus' text format: of all brokers, each sample of a broker with the label ``broker``, and what kafka_exporter shows; or
        of one broker alone, as it shows them itself. Raises UsageError for an unknown broker."""
        families = self._families(broker)
        for _ in families.pieces():
            pass
        return families.text()

    async def scrape(self, *, broker: int | None = None) -> str:
        """As `text`, in pieces between which brokers answer requests."""
        families = self._families(broker)
        for at, _ in enumerate(families.pieces()):
            if at % _PIECE == 0:
                await asyncio.sleep(0)
        return await asyncio.to_thread(families.text)

    def _families(self, broker: int | None) -> _Families:
        if broker is not None and broker not in self._kafka.state.brokers:
            raise unknown("broker", broker, map(str, self._kafka.state.brokers))
        return _Families(self._kafka, self._counts, broker)

    def close(self) -> None:
        """Stop counting."""
        self._counts.close()

    def _partition_of(self, log: str) -> Partition | None:
        topic, _, index = log.rpartition("-")
        return self._kafka.state.partition(topic, int(index))


class _GroupNow(NamedTuple):
    """A group with what several families are made of: the broker that coordinates it, and its committed offsets."""

    handle: GroupHandle
    coordinator: int | None
    committed: Mapping[tuple[str, int], int]


class _Families(Collector):
    """The families of one moment: made by `pieces`, then shown by `text`."""

    def __init__(self, kafka: Cluster, counts: Counts, only: int | None) -> None:
        self._kafka, self._state, self._counts, self._only = kafka, kafka.state, counts, only
        self._made: dict[str, Metric] = {}

    def collect(self) -> Iterable[Metric]:
        """The families that were made, as prometheus-client asks for them."""
        return self._made.values()

    def text(self) -> str:
        """Prometheus' text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry).decode()

    def pieces(self) -> Iterator[None]:
        """Make the families, a partition, a group or a kind of them at a time."""
        groups: list[_GroupNow] = []
        for name in self._kafka.groups():
            group = self._kafka.group(name)
            groups.append(_GroupNow(group, group.coordinator, group.committed()))
            yield
        for node_id in self._state.brokers if self._only is None else (self._only,):
            yield from self._of_replicas(node_id)
            self._of_the_controller(node_id)
            self._of_requests(node_id)
            self._of_topics(node_id)
            yield from self._of_the_coordinator(node_id, [one for one in groups if one.coordinator == node_id])
        if self._only is None:
            yield from self._exported(groups)

    def _add(self, name: str, help_: str, value: float, node_id: int | None = None, /, **labels: object) -> None:
        """A sample of a gauge, or of a counter where the name ends with ``_total`` or ``_count``."""
        family = self._made.get(name)
        if family is None:
            kind = "counter" if name.endswith("_total") else "gauge"
            family = self._made[name] = Metric(name.removesuffix("_total"), help_, kind)
        named = {label: str(of) for label, of in labels.items()}
        if node_id is not None and self._only is None:
            named["broker"] = str(node_id)
        family.add_sample(name, named, value)

    # what a broker's MBeans have

    def _of_replicas(self, node_id: int) -> Iterator[None]:
        hosted = [partition for partition in self._state.partitions() if node_id in partition.replicas]
        led = [partition for partition in hosted if partition.leader == node_id]
        manager = {
            "leadercount": (len(led), "Partitions that the broker leads"),
            "partitioncount": (len(hosted), "Partitions of which the broker has a replica"),
            "offlinereplicacount": (sum(p.leader < 0 for p in hosted), "Replicas that are offline"),
            "underreplicatedpartitions": (
                sum(self._missing(p) > 0 for p in led),
                "Led partitions whose ISR lacks replicas",
            ),
            "underminisrpartitioncount": (sum(self._below(p) for p in led), "Led partitions below min.insync.replicas"),
            "atminisrpartitioncount": (
                sum(self._at(p) for p in led),
                "Led partitions with min.insync.replicas in sync",
            ),
        }
        for name, (value, help_) in manager.items():
            self._add(f"kafka_server_replicamanager_{name}", help_, value, node_id)
        for p in hosted:
            leads, labels = p.leader == node_id, {"topic": p.topic.name, "partition": p.index}
            cluster = {
                "replicascount": (len(p.replicas), "Replicas of a led partition"),
                "insyncreplicascount": (len(p.isr), "In-sync replicas of a led partition"),
                "underreplicated": (self._missing(p) > 0, "Whether the ISR of a led partition lacks replicas"),
                "underminisr": (self._below(p), "Whether a led partition is below min.insync.replicas"),
                "atminisr": (self._at(p), "Whether a led partition has min.insync.replicas in sync"),
                "laststableoffsetlag": (
                    p.high_watermark - p.last_stable_offset,
                    "High watermark less last stable offset",
                ),
            }
            for name, (value, help_) in cluster.items():
                self._add(f"kafka_cluster_partition_{name}", help_, value if leads else 0, node_id, **labels)
            log = {
                "size": (p.log.size_bytes, "Bytes of the log"),
                "logstartoffset": (p.log_start_offset, "First offset of the log"),
                "logendoffset": (p.log_end_offset, "Next offset of the log"),
                "numlogsegments": (len(p.log.segments), "Segments of the log"),
            }
            for name, (value, help_) in log.items():
                self._add(f"kafka_log_log_{name}", help_, value, node_id, **labels)
            yield

    def _missing(self, partition: Partition) -> int:
        return len(partition.replicas) - len(partition.isr)

    def _below(self, partition: Partition) -> bool:
        return len(partition.isr) < self._state.min_isr(partition)

    def _at(self, partition: Partition) -> bool:
        return len(partition.isr) == self._state.min_isr(partition)

    def _of_the_controller(self, node_id: int) -> None:
        name, is_active = "kafka_controller_kafkacontroller_", self._state.controller_id == node_id
        self._add(f"{name}activecontrollercount", "1 at the active controller", is_active, node_id)
        if not is_active:
            return
        brokers, partitions = self._state.brokers.values(), list(self._state.partitions())
        of = {
            "activebrokercount": (sum(broker.alive for broker in brokers), "Brokers that are not fenced"),
            "fencedbrokercount": (sum(not broker.alive for broker in brokers), "Fenced brokers"),
            "globaltopiccount": (len(self._state.topics), "Topics"),
            "globalpartitioncount": (len(partitions), "Partitions"),
            "offlinepartitionscount": (sum(p.leader < 0 for p in partitions), "Partitions without a leader"),
            "preferredreplicaimbalancecount": (
                sum(p.leader != p.replicas[0] for p in partitions),
                "Partitions that their preferred replica does not lead",
            ),
        }
        for suffix, (value, help_) in of.items():
            self._add(name + suffix, help_, value, node_id)

    def _of_requests(self, node_id: int) -> None:
        name, counts = "kafka_network_requestmetrics_", self._counts
        for (broker, api, version), count in counts.requests.items():
            if broker == node_id:
                self._add(f"{name}requests_total", "Requests", count, node_id, request=api, version=version)
        for (broker, api, error), count in counts.errors.items():
            if broker == node_id:
                self._add(f"{name}errors_total", "Error codes in responses", count, node_id, request=api, error=error)
        for (broker, api), durations in counts.took_ms.items():
            if broker == node_id:
                ordered = sorted(durations)
                for quantile in _QUANTILES:
                    took = ordered[min(len(ordered) - 1, int(float(quantile) * len(ordered)))]
                    text = "Time from a request to its response, in ms"
                    self._add(f"{name}totaltimems", text, took, node_id, request=api, quantile=quantile)
                answered = counts.answered[broker, api]
                self._add(f"{name}totaltimems_count", "Answered requests", answered, node_id, request=api)
        for server in self._kafka.servers:
            if server.broker.node_id == node_id:
                by_listener = Counter(connection.listener for connection in server.connections)
                for listener in server.broker.endpoints:
                    labels = {"listener": listener, "networkProcessor": 0}
                    open_ = by_listener[listener]
                    self._add(
                        "kafka_server_socket_server_metrics_connection_count",
                        "Open connections",
                        open_,
                        node_id,
                        **labels,
                    )

    def _of_topics(self, node_id: int) -> None:
        texts = {
            "messagesin": "Records that were appended",
            "bytesin": "Bytes that were appended",
            "bytesout": "Bytes that consumers have fetched",
            "totalproducerequests": "Partitions in Produce requests",
            "totalfetchrequests": "Partitions in Fetch responses",
            "failedproducerequests": "Partitions whose produce failed",
            "failedfetchrequests": "Partitions whose fetch failed",
        }
        for what, text in texts.items():
            name = f"kafka_server_brokertopicmetrics_{what}_total"
            mine = {key[1]: count for key, count in self._counts.topics.items() if key[0] == node_id and key[2] == what}
            self._add(name, text, sum(mine.values()), node_id)
            for topic, count in mine.items():
                self._add(name, text, count, node_id, topic=topic)

    def _of_the_coordinator(self, node_id: int, groups: list[_GroupNow]) -> Iterator[None]:
        by_kind: dict[str, Counter[str]] = {kind: Counter() for kind in ("classic", *_STATES)}
        offsets = 0
        for group, _, committed in groups:
            by_kind[group.type][group.state] += 1
            offsets += len(committed)
            yield
        name = "kafka_coordinator_group_groupmetadatamanager_num"
        classic = by_kind["classic"]
        self._add(f"{name}groups", "Classic groups", classic.total(), node_id)
        for state in _CLASSIC:
            self._add(f"{name}groups{state.lower()}", f"Classic groups in {state}", classic[state], node_id)
        self._add(f"{name}offsets", "Committed offsets", offsets, node_id)
        name = "kafka_server_group_coordinator_metrics_"
        counted = self._counts.groups
        kinds = [kind for kind in _STATES if self._has(kind)]
        for what in ("group_completed_rebalance", "offset_commit", "offset_deletion", "offset_expiration"):
            self._add(f"{name}{what}_count", what.replace("_", " ").capitalize() + "s", counted[node_id, what], node_id)
        if not kinds:
            return  # before 4.0 a broker has the former names alone
        for kind in ("classic", *kinds):
            self._add(f"{name}group_count", "Groups", by_kind[kind].total(), node_id, protocol=kind)
        for kind in kinds:
            for state in _STATES[kind]:
                self._add(f"{name}{kind}_group_count", f"{kind} groups", by_kind[kind][state], node_id, state=state)
            what = f"{kind}_group_rebalance"
            self._add(f"{name}{what}_count", f"New epochs of {kind} groups", counted[node_id, what], node_id)
        for state, count in self._shards(node_id):
            self._add(f"{name}num_partitions", "Partitions of __consumer_offsets", count, node_id, state=state)

    def _has(self, kind: str) -> bool:
        release = self._state.config.release
        return release >= {"consumer": (4, 0), "share": (4, 1), "streams": (4, 1)}[kind]

    def _shards(self, node_id: int) -> Iterator[tuple[str, int]]:
        """Led partitions of __consumer_offsets by the state of their coordinator."""
        topic = self._state.topics.get("__consumer_offsets")
        led = [p for p in topic.partitions if p.leader == node_id] if topic is not None else []
        states = Counter(self._kafka.runtime.state_of(partition) for partition in led)
        yield from ((state, states[state]) for state in ("loading", "active", "failed"))

    # what kafka_exporter shows of a cluster

    def _exported(self, groups: list[_GroupNow]) -> Iterator[None]:
        alive = [broker for broker in self._state.brokers.values() if broker.alive]
        self._add("kafka_brokers", "Brokers in the cluster", len(alive))
        for broker in alive:
            self._add("kafka_broker_info", "A broker", 1, id=broker.node_id, address=f"{broker.host}:{broker.port}")
        for topic in self._state.topics.values():
            self._add("kafka_topic_partitions", "Partitions of the topic", len(topic.partitions), topic=topic.name)
            for p in topic.partitions:
                of = {
                    "current_offset": (p.high_watermark, "High watermark of the partition"),
                    "oldest_offset": (p.log_start_offset, "First offset of the partition"),
                    "in_sync_replica": (len(p.isr), "In-sync replicas of the partition"),
                    "leader": (p.leader, "Broker that leads the partition"),
                    "leader_is_preferred": (
                        p.leader == p.replicas[0],
                        "Whether the preferred replica leads the partition",
                    ),
                    "replicas": (len(p.replicas), "Replicas of the partition"),
                    "under_replicated_partition": (self._missing(p) > 0, "Whether the ISR lacks replicas"),
                }
                for name, (value, help_) in of.items():
                    self._add(f"kafka_topic_partition_{name}", help_, value, topic=topic.name, partition=p.index)
                yield
        for group, _, committed in groups:
            self._exported_group(group, committed)
            yield

    def _exported_group(self, group: GroupHandle, committed: Mapping[tuple[str, int], int]) -> None:
        name, of = "kafka_consumergroup_", {"consumergroup": group.group_id}
        self._add(f"{name}members", "Members of the group", len(group.members), **of)
        totals: dict[str, list[int]] = {}
        lags: Any = group.lag()
        for (topic, index), offset in committed.items():
            lag = lags.get((topic, index), 0)
            labels = {**of, "topic": topic, "partition": index}
            self._add(f"{name}current_offset", "Committed offset", offset, **labels)
            self._add(f"{name}lag", "Records behind the committed offset", lag, **labels)
            sums = totals.setdefault(topic, [0, 0])
            sums[0], sums[1] = sums[0] + offset, sums[1] + lag
        for topic, (offset, lag) in totals.items():
            self._add(f"{name}current_offset_sum", "Sum of the committed offsets of a topic", offset, **of, topic=topic)
            self._add(f"{name}lag_sum", "Sum of the lags of a topic", lag, **of, topic=topic)
