"""The counts of streams groups at their greatest, beside those of ``greatest_counts``; `CASES` has all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_wire.messages.k88_streams_group_heartbeat import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    Subtopology,
)
from kafka_wire.messages.k88_streams_group_heartbeat import KeyValue as StreamsTag
from kafka_wire.messages.k88_streams_group_heartbeat import TaskIds as StreamsTasks
from kafka_wire.messages.k88_streams_group_heartbeat import TaskOffset as StreamsOffset
from kafka_wire.messages.k88_streams_group_heartbeat import TopicInfo as StreamsTopic
from kafka_wire.messages.k88_streams_group_heartbeat import Topology as StreamsTopology
from kafka_wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest
from tests.support.greatest_counts import CASES, TOPICS, Case, Speaker, case, found

__all__ = ["CASES", "TOPICS", "Case"]


def _chain(count: int) -> list[Subtopology]:
    """Each reads what the next one writes, and the last one a topic that is there: a round for each, as Kafka goes over them."""
    rows = [
        Subtopology(f"{n}", [], [], [], [f"r{n}"], [StreamsTopic(f"r{n + 1}", 1 if n == count - 1 else 0)])
        for n in range(count)
    ]
    return [*rows, Subtopology(f"{count}", ["records"])]


_TOPOLOGIES: dict[str, Callable[[int], list[Subtopology]]] = {
    "subtopologies": lambda n: [Subtopology(f"{k}", ["wide"]) for k in range(n // 18)],
    "source topics, unknown": lambda n: [Subtopology("0", [f"{k:x}" for k in range(n // 8)])],
    "source topics, equal": lambda n: [Subtopology("0", ["records"] * (n // 7))],
    "sink topics and a source": lambda n: [Subtopology("0", ["records"], [], [], [f"{k:x}" for k in range(n // 8)])],
    "sink topics and sources": lambda n: [
        Subtopology("0", ["records"] * (n // 14), [], [], [f"{k:x}" for k in range(n // 14)])
    ],
    "a chain of subtopologies": lambda n: _chain(n // 50),
    "copartition groups and sources": lambda n: [
        Subtopology(
            "0",
            ["records"],
            [],
            [],
            [],
            [StreamsTopic(f"i{k:x}", 1) for k in range(n // 30)],
            [CopartitionGroup([0], [], [0]) for _ in range(n // 20)],
        )
    ],
    "a copartition group": lambda n: [
        Subtopology("0", ["records"], copartition_groups=[CopartitionGroup([0] * (n // 3))])
    ],
    "settings of a topic": lambda n: [
        Subtopology(
            "0", ["records"], [], [StreamsTopic("log", 0, 0, [StreamsTag(f"{k:x}", "") for k in range(n // 9)])]
        )
    ],
}


for _name, _rows in _TOPOLOGIES.items():

    @case(f"topology: {_name}", _name, _rows)
    def topologies(speaker: Speaker, size: int, name: str, rows: Callable[[int], list[Subtopology]]) -> None:
        group = f"t {name}"
        _streams_beat(speaker, group, topology=StreamsTopology(0, rows(size * 9 // 10)))
        speaker.ask(StreamsGroupDescribeRequest([group]), 1)
        _streams_beat(speaker, group, topology=StreamsTopology(0, rows(size * 9 // 10)))
        _thread_leaves(speaker, group)


def _thread_leaves(speaker: Speaker, group: str) -> None:
    """Or its session would end while something else is measured."""
    speaker.ask(StreamsGroupHeartbeatRequest(group, "m", member_epoch=-1), 1)


def _streams_beat(speaker: Speaker, group: str, **how: Any) -> Any:
    found(speaker, group, 0)
    tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    asked = {"member_epoch": 0, "rebalance_timeout_ms": 30_000, "process_id": "p", **tasks, **how}
    return speaker.ask(StreamsGroupHeartbeatRequest(group, "m", **asked), 1)


@case("tasks of a member", "tasks")
@case("task offsets of a member", "offsets")
@case("client tags of a member", "tags")
def thread(speaker: Speaker, size: int, what: str) -> None:
    group = f"t {what}"
    read = "wide" if what == "tasks" else "records"
    answer = _streams_beat(speaker, group, topology=StreamsTopology(0, [Subtopology("0", [read])]))
    said: dict[str, Any] = dict.fromkeys(("topology", "active_tasks", "standby_tasks", "warmup_tasks"))
    if what == "tasks":
        owned = [StreamsTasks("0", [n % 10_000 for n in range(size // 5)])]
        said |= {"active_tasks": owned, "standby_tasks": [], "warmup_tasks": []}
    elif what == "offsets":
        said["task_offsets"] = [StreamsOffset("0", n, n) for n in range(size // 16)]
    else:
        said["client_tags"] = [StreamsTag(f"{n:x}", "") for n in range(size // 9)]
    _streams_beat(speaker, group, member_epoch=answer.member_epoch, **said)
    speaker.ask(StreamsGroupDescribeRequest([group]), 1)
    _thread_leaves(speaker, group)
