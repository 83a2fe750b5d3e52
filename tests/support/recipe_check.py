"""Run in a copy of the tree by tests/test_recipes.py: what a broker there makes of the API that the document invents. Prints JSON.

python -m tests.support.recipe_check VERSION
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import broker_sim
from broker_sim import Cluster
from broker_sim.common.text import UsageError
from kafka_wire.api_keys import KAFKA_VERSIONS
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from tests.support.wire import Wire

KEY = 1000
ASKED = (("orders", [0, 1]), ("bills", [0, 9]))


async def advertised(as_version: str) -> list[int] | None:
    async with Cluster(as_version=as_version) as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        answer = await wire.send(ApiVersionsRequest("c", "1"), 3)
        await wire.close()
    return next(([one.min_version, one.max_version] for one in answer.api_keys if one.api_key == KEY), None)


async def answers(version: int) -> dict[str, Any]:
    messages = importlib.import_module(f"kafka_wire.messages.k{KEY}_count_records")
    request = messages.CountRecordsRequest("billing", [messages.CountTopic(*one) for one in ASKED])
    told: dict[str, Any] = {}
    async with Cluster(topics={"orders": 2, "bills": 1}, as_version=KAFKA_VERSIONS[-1]) as kafka:
        kafka.topic("orders").fill(10)
        kafka.topic("bills").fill(2)
        wire = await Wire.connect(kafka.bootstrap)

        async def rows() -> list[list[Any]]:
            answer = await wire.send(request, version)
            fields = [name for name in messages.PartitionCount.__slots__ if name != "first_offset" or version]
            return [[t.name, *(getattr(p, name) for name in fields)] for t in answer.topics for p in t.partitions]

        told["plain"] = await rows()
        with kafka.fault("CountRecords", group="billing", error="NOT_COORDINATOR"):
            told["whole"] = await rows()
        with kafka.fault("CountRecords", topic="orders", partition=1, error="NOT_LEADER_OR_FOLLOWER"):
            told["part"] = await rows()
        other = kafka.fault("CountRecords", group="audit", error="NOT_COORDINATOR")
        told["of another group"] = await rows()
        other.remove()
        try:
            kafka.fault("CountRecords", member="m", error="NOT_COORDINATOR")
        except UsageError as error:
            told["refused"] = str(error)
        told["journal"] = next(
            event for event in kafka.journal.since(0) if event["event"] == "request" and event["api"] == "CountRecords"
        )
        await wire.close()
    return told


def coverage() -> list[str]:
    """The lines of coverage.md for it."""
    sys.path.insert(0, str(Path.cwd() / "docs"))
    lines: list[str] = importlib.import_module("generate").coverage().splitlines()
    return [line for line in lines if line.startswith(f"| {KEY} |")]


async def main() -> None:
    told = await answers(int(sys.argv[1]))
    told["advertised"] = {release: await advertised(release) for release in ("3.9", "4.0", "4.4")}
    told["coverage"] = coverage()
    told["tree"] = str(Path(broker_sim.__file__).resolve().parent.parent)
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main())
