"""A simulated incident raises the alerts that the real one raises: Prometheus evaluates a rules file over scrapes of two minutes."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker_sim import Cluster
from broker_sim.metrics import Metrics
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from tests.handles.members import TOPIC, Member
from tests.metrics.exposition import Sample, samples
from tests.support.processes import DEADLINE_S
from tests.support.real_kafka import need_tool

pytestmark = pytest.mark.clients

RULES = Path(__file__).with_name("rules.yml")
EVERY_S = 15
SCRAPES = 17  # 4 minutes
STUCK = range(60, 150)
"""Seconds at which the offsets partition is below min.insync.replicas."""


async def _scrapes() -> list[dict[Sample, float]]:
    """A member that commits every 5 s what was produced meanwhile, while its offsets partition is in trouble for 90 s."""
    config = {"group.initial.rebalance.delay.ms": 0}
    async with Cluster(clock="manual", topics={TOPIC: 1}, internal_topics="at-start", config=config) as kafka:
        metrics, member = Metrics(kafka), await Member.connect(kafka)
        await member.enter()
        result, asked, state = [], list[asyncio.Future[Any]](), None
        for now_s in range(0, SCRAPES * EVERY_S, 5):
            if now_s == STUCK.start:
                state = kafka.offsets_log("billing").under_min_isr()
            elif now_s == STUCK.stop and state is not None:
                state.heal()
            kafka.topic(TOPIC).fill(10)
            asked.append(member.wire.start(HeartbeatRequest("billing", member.generation, member.member_id), 4))
            asked.append(member.commit(kafka.log(TOPIC, 0).end_offset))
            if now_s % EVERY_S == 0:
                result.append(samples(metrics.text(broker=1) + _exported(metrics.text())))
            await kafka.time.advance(5)
        await asyncio.wait_for(asyncio.gather(*asked), DEADLINE_S)  # those of the incident waited for its end
        await member.close()
        return result


def _exported(text: str) -> str:
    """Return the lines that an exporter of the whole cluster has."""
    return "".join(f"{line}\n" for line in text.splitlines() if line.startswith("kafka_consumergroup_"))


def _prometheus(scrapes: list[dict[Sample, float]], expected: dict[str, list[dict[str, Any]]], folder: Path) -> str:
    """Return promtool's errors if the alerts don't fire exactly at these times in s, and at no other scrape; otherwise ""."""
    series = sorted({sample for scrape in scrapes for sample in scrape})
    inputs = [
        {
            "series": f"{name}{{{', '.join(f'{label}={json.dumps(value)}' for label, value in own)}}}",
            "values": " ".join(str(scrape.get((name, own), "_")) for scrape in scrapes),
        }
        for name, own in series
    ]
    alerts = [
        {
            "eval_time": f"{eval_s}s",
            "alertname": alert,
            "exp_alerts": [{"exp_labels": row["labels"]} for row in firing if eval_s in row["times"]],
        }
        for eval_s in range(0, SCRAPES * EVERY_S, EVERY_S)
        for alert, firing in expected.items()
    ]
    tests = [{"interval": f"{EVERY_S}s", "input_series": inputs, "alert_rule_test": alerts}]
    file = folder / "alerts.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": f"{EVERY_S}s", "tests": tests}))
    command = [need_tool("promtool"), "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


STUCK_ALERTS = {
    "OffsetsPartitionUnderMinIsr": [
        {"labels": {"topic": "__consumer_offsets", "partition": "9"}, "times": range(90, 150, EVERY_S)}
    ],
    "CommitsFail": [{"labels": {"error": "COORDINATOR_NOT_AVAILABLE"}, "times": range(105, 210, EVERY_S)}],
    "ConsumerGroupLag": [{"labels": {"consumergroup": "billing"}, "times": range(120, 165, EVERY_S)}],
    "OfflinePartitions": [],
}


def test_a_stuck_offsets_partition_raises_its_alerts(tmp_path: Path) -> None:
    scrapes = asyncio.run(_scrapes())
    problem = _prometheus(scrapes, STUCK_ALERTS, tmp_path)
    assert not problem, problem
    silent = _prometheus(scrapes, {"CommitsFail": []}, tmp_path)
    assert "COORDINATOR_NOT_AVAILABLE" in silent
