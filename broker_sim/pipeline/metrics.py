"""Metrics of a watch, which Prometheus scrapes: ``broker-sim pipeline watch --metrics 9404``.

    metrics = Metrics()
    with metrics.served("127.0.0.1", 9404): ...
    metrics.tables(snapshot)            # after the tables were made

Rules:
1. A scrape reads what was put here last and asks Spark nothing: it costs a watch nothing, and answers while Spark is busy.
2. A group or partition that is not in the last tables has no series any more. Rebalances count from the watch's first start on, as its
   tables do, so that a restart is no reset.
3. Of groups at most `MOST_SERIES` have series of their own, those that are furthest behind; how many are left out is a metric as well.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker_sim.common.clock import stopwatch
from broker_sim.common.text import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from broker_sim.pipeline.finding import Finding

__all__ = ["METRICS", "MOST_SERIES", "Metrics", "MetricsSnapshot", "address"]

MOST_SERIES = 10_000
"""Partitions of groups that have a series; a scrape of more would be a load of its own."""

METRICS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "broker_sim_group_lag": ("gauge", ("group", "topic", "partition"), "records between the committed offset and the log's end"),
    "broker_sim_group_lag_left_out": ("gauge", (), "partitions without a series of their own: those with the least lag"),
    "broker_sim_group_rebalances_total": ("counter", ("group",), "rebalances of a group"),
    "broker_sim_offsets_partition_stuck": ("gauge", ("log",), "1 while no append to an offsets partition is committed"),
    "broker_sim_findings": ("gauge", ("kind", "severity"), "findings in the report"),
    "broker_sim_watch_batches_total": ("counter", ("input",), "batches of the input appended since the watch started"),
    "broker_sim_watch_retries_total": ("counter", ("what",), "retries after a failure of Spark since the watch started"),
    "broker_sim_watch_read_until_seconds": ("gauge", (), "timestamp of the newest event in the tables"),
    "broker_sim_watch_tables_age_seconds": ("gauge", (), "age of the tables"),
}  # fmt: skip
"""Name -> kind, labels, and what it says."""

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """Values from tables. ``lag``: (group, topic, partition) -> records behind; ``to_ms``: the tables' last moment, ms since 1970."""

    lag: dict[Key, int] = field(default_factory=dict)
    lag_left_out: int = 0
    rebalances: dict[str, int] = field(default_factory=dict)
    findings: Sequence[tuple[str, str]] = ()
    to_ms: int | None = None

    @classmethod
    def of(
        cls, lag: DataFrame, rebalances: DataFrame, findings: Iterable[Finding], to_ms: int | None
    ) -> MetricsSnapshot:
        """Ask the tables: the lag of each partition's last window that knows one, and how often each group rebalanced."""
        from pyspark.sql import functions as f

        last = lag.groupBy("group", "topic", "partition").agg(f.max_by("lag", "window_start_ms").alias("lag"))
        known = last.where(f.col("lag").isNotNull()).orderBy(f.desc("lag"), "group", "topic", "partition")
        rows = known.limit(MOST_SERIES + 1).collect()
        left_out = known.count() - MOST_SERIES if len(rows) > MOST_SERIES else 0
        counted = rebalances.groupBy("group").agg(f.count("*").alias("n")).orderBy(f.desc("n"), "group")
        return cls(
            {(row["group"], row["topic"], row["partition"]): int(row["lag"]) for row in rows[:MOST_SERIES]},
            left_out,
            {row["group"]: int(row["n"]) for row in counted.limit(MOST_SERIES).collect()},
            [(finding.kind, finding.severity) for finding in findings if finding.kind != "nothing"],
            to_ms,
        )


class Metrics:
    """The last of everything. Any thread may put something, any may scrape."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables, self._age_s = MetricsSnapshot(), stopwatch()
        self._stuck: tuple[str, ...] = ()
        self._batches: Counter[str] = Counter()
        self._retries: Counter[str] = Counter()

    def tables(self, snapshot: MetricsSnapshot) -> None:
        """Record that the tables were computed again, with what they show."""
        with self._lock:
            self._tables, self._age_s = snapshot, stopwatch()

    def stuck(self, logs: Iterable[str]) -> None:
        """Set the partitions of `__consumer_offsets` that take no append now."""
        with self._lock:
            self._stuck = tuple(sorted(logs))

    def batch(self, source: str) -> None:
        """Record that a batch was appended."""
        with self._lock:
            self._batches[source] += 1

    def retried(self, what: str) -> None:
        """Record that ``what`` failed and is tried again."""
        with self._lock:
            self._retries[what] += 1

    def values(self) -> dict[str, list[tuple[tuple[str, ...], float]]]:
        """Name of a metric -> (values of its labels, value)."""
        with self._lock:
            tables, age_s, stuck = self._tables, self._age_s(), self._stuck
            batches, retries = dict(self._batches), dict(self._retries)
        read: list[tuple[tuple[str, ...], float]] = [] if tables.to_ms is None else [((), tables.to_ms / 1000)]
        return {
            "broker_sim_group_lag": [((key[0], key[1], str(key[2])), lag) for key, lag in tables.lag.items()],
            "broker_sim_group_lag_left_out": [((), tables.lag_left_out)],
            "broker_sim_group_rebalances_total": [((group,), n) for group, n in tables.rebalances.items()],
            "broker_sim_offsets_partition_stuck": [((log,), 1) for log in stuck],
            "broker_sim_findings": [(key, n) for key, n in Counter(tables.findings).items()],
            "broker_sim_watch_batches_total": [((source,), n) for source, n in batches.items()],
            "broker_sim_watch_retries_total": [((what,), n) for what, n in retries.items()],
            "broker_sim_watch_read_until_seconds": read,
            "broker_sim_watch_tables_age_seconds": [((), age_s)] if read else [],
        }

    def collect(self) -> Iterator[Any]:
        """Metric families, as prometheus_client gets them from a collector."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for name, values in self.values().items():
            kind, labels, says = METRICS[name]
            family: Any = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(name, says, labels=labels)
            for label_values, value in values:
                family.add_metric(label_values, value)
            yield family

    @contextmanager
    def served(self, host: str, port: int) -> Iterator[int]:
        """Answer scrapes of ``/metrics``; yields the port. Raises UsageError."""
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError:
            raise UsageError("--metrics needs prometheus-client: pip install 'broker-sim[spark]'") from None
        registry = CollectorRegistry()
        registry.register(self)
        try:
            server, thread = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"--metrics {host}:{port}: {reason}") from None
        try:
            yield int(server.server_port)
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def address(text: str) -> tuple[str, int]:
    """``9404``, ``0.0.0.0:9404`` or ``[::1]:9404`` as (host, port); without a host it is the loopback address. Raises UsageError."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--metrics {text!r} is not PORT or HOST:PORT (expected 9404 or 0.0.0.0:9404)")
    return host, int(port)
