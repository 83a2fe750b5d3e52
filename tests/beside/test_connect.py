"""Kafka Connect in distributed mode: two workers copy a file through a topic into another file, one of them is killed, and the other
takes its connectors and tasks over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_sim import ClusterThread
from kafka_wire.connect_protocol import runs_on, work_of, worker_state
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from tests.beside.connect import Worker
from tests.beside.programs import UP_S, topic_setting
from tests.clients.driver import eventually
from tests.clients.exactly_once import cluster
from tests.support.real_kafka import RealKafka
from tests.support.wire import Wire

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]  # may have to fetch Kafka Connect first

LINES = 200
SETTINGS = {
    "consumer_session_timeout_ms": "6000",  # of a sink's consumers
    "consumer_heartbeat_interval_ms": "1000",
}
TASKS = [("read", 0), ("write", 0), ("write", 1)]
Work = set[tuple[str, int]]


@pytest.fixture
def kafka() -> Iterator[ClusterThread]:
    with cluster("4.1") as thread:
        yield thread


def lines_of(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def given(kafka: ClusterThread) -> dict[str, Work]:
    """Return the work of each worker, as the group has it."""
    workers = {member.client_id: member.worker or {} for member in kafka.group("connect").members}
    return {
        name: {(connector, task) for connector, tasks in worker.get("tasks", {}).items() for task in tasks}
        for name, worker in workers.items()
    }


async def described(bootstrap: str) -> dict[str, Work]:
    """Return the work of each worker, from the metadata and assignment that DescribeGroups has of it."""
    wire = await Wire.connect(bootstrap)
    try:
        (group,) = (await wire.send(DescribeGroupsRequest(["connect"]), 5)).groups
    finally:
        await wire.close()
    assert group.protocol_type == "connect", group
    work: dict[str, Work] = {}
    for member in group.members:
        state, assignment = worker_state(member.member_metadata), work_of(member.member_assignment)
        if state is not None and assignment is not None:
            _, tasks = runs_on(state, assignment)
            work[member.client_id] = {(name, task) for name, numbers in tasks.items() for task in numbers}
    return work


def all_of(work: dict[str, Work]) -> list[tuple[str, int]]:
    """The tasks of all workers; one that runs twice is there twice."""
    return sorted(task for tasks in work.values() for task in tasks)


def connectors(source: Path, sink: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of one that reads a file into the topic ``out``, and of one that writes it to another file."""
    stream = "org.apache.kafka.connect.file.FileStream"
    return (
        {"connector.class": f"{stream}SourceConnector", "file": str(source), "topic": "out"},
        {"connector.class": f"{stream}SinkConnector", "file": str(sink), "topics": "out", "tasks.max": "2"},
    )


def places(worker: Worker) -> dict[tuple[str, int], int]:
    """On which worker's port each task runs, as Connect says, once all run."""
    statuses = {name: worker.running(name, count) for name, count in (("read", 1), ("write", 2))}
    return {
        (name, task["id"]): int(task["worker_id"].rpartition(":")[2])
        for name, status in statuses.items()
        for task in status["tasks"]
    }


@pytest.mark.real_kafka
def test_what_a_real_broker_stores_of_workers_is_what_they_run(tmp_path: Path) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("line\n")
    read, write = connectors(source, sink)
    config = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 3}
    with (
        RealKafka("4.1.0", config=config) as kafka,
        Worker(kafka.bootstrap, tmp_path, "w-1", **SETTINGS) as one,
    ):
        one.ask("/connectors", {"name": "read", "config": read})
        one.ask("/connectors", {"name": "write", "config": write})
        assert set(places(one).values()) == {one.port}
        with Worker(kafka.bootstrap, tmp_path, "w-2", **SETTINGS) as two:
            ports = {one.name: one.port, two.name: two.port}

            def shown() -> tuple[dict[str, Work], dict[tuple[str, int], int]]:
                return asyncio.run(described(kafka.bootstrap)), places(one)

            def agree(seen: tuple[dict[str, Work], dict[tuple[str, int], int]]) -> bool:
                work, at = seen
                given_ports = {task: ports[name] for name, tasks in work.items() for task in tasks}
                return given_ports == at and all_of(work) == TASKS and len(set(at.values())) == 2

            eventually("both workers have tasks, and the group and Connect show the same", shown, agree, UP_S)


def test_tasks_move_to_the_worker_that_is_left(kafka: ClusterThread, tmp_path: Path) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    lines = [f"line-{number}" for number in range(2 * LINES)]
    source.write_text("".join(f"{line}\n" for line in lines[:LINES]))
    read, write = connectors(source, sink)
    group = kafka.group("connect")
    with (
        Worker(kafka.bootstrap, tmp_path, "w-1", **SETTINGS) as one,
        Worker(kafka.bootstrap, tmp_path, "w-2", **SETTINGS) as two,
    ):
        group.stable(members=2, timeout=UP_S)
        one.ask("/connectors", {"name": "read", "config": read})
        two.ask("/connectors", {"name": "write", "config": write})
        eventually("the lines are copied", lambda: sorted(lines_of(sink)) == sorted(lines[:LINES]), timeout_s=UP_S)
        work = eventually("all tasks are given", lambda: given(kafka), lambda work: all_of(work) == TASKS, UP_S)
        assert all(work.values()), work  # each worker has some
        ports = {one.name: one.port, two.name: two.port}
        at = {task: ports[name] for name, given_tasks in work.items() for task in given_tasks}
        eventually("Connect shows the tasks there, too", lambda: places(one), lambda shown: shown == at, UP_S)

        for topic in ("connect-configs", "connect-offsets", "connect-status"):
            assert topic_setting(kafka.bootstrap, topic, "cleanup.policy") == "compact"
        leader = next(member.client_id for member in group.members if member.leader)
        left, lost = (one, two) if leader == "w-1" else (two, one)
        lost.kill()
        expected = {left.name: set(TASKS)}
        eventually(f"{left.name} has all tasks", lambda: given(kafka), lambda work: work == expected, UP_S)
        on_one = dict.fromkeys(TASKS, left.port)
        eventually("Connect shows all tasks there", lambda: places(left), lambda shown: shown == on_one, UP_S)
        with source.open("a") as more:
            more.writelines(f"{line}\n" for line in lines[LINES:])
        eventually("all lines are copied", lambda: set(lines_of(sink)) == set(lines), timeout_s=UP_S)

        explained = " ".join(group.explain().split())
        assert f"the session of {lost.name} at /127.0.0.1 expired after 6 s" in explained
        assert (
            "The leader delays its next assignment by 1 s: until then the connectors and tasks of lost workers"
            in explained
        )
        assert (
            f"began because the leader {left.name} at /127.0.0.1 joined again when its delay of 1 s had passed"
            in explained
        )
        for word in ("subscription", "topic", "partition "):  # a worker has none
            assert word not in explained, explained
        assert f"generation {group.generation} Stable" in group.timeline()
