"""Metrics of a cluster in Prometheus' text format, under the names that dashboards and alerts of real clusters read.

    metrics = Metrics(kafka)
    metrics.text()                             # all brokers, each with its label ``broker``, and what an exporter reads
    metrics.text(broker=1)                     # what the JMX exporter of broker 1 shows, without that label

Rules:
1. Names, labels and values are those of a broker's MBeans by the JMX exporter with the rules that Strimzi ships, and those of
   kafka_exporter; a test holds a real broker's output beside them. What a simulator has no truth for (threads, disks, the Raft
   log) is left out.
2. What is now, as leaders, offsets, groups and lag, is read from the cluster when somebody asks. What has happened, as requests,
   errors and rebalances, is counted from the journal (`counts`): nothing is counted on a request's way.
"""

from __future__ import annotations

from broker_sim.metrics.exposition import Metrics

__all__ = ["Metrics"]
