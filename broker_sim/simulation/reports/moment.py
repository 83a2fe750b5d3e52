"""The state of a simulated world at one moment: hosts and their programs, each with the line at which it waits, logs, groups, and
requests in flight.

    print("\n".join(moment(sim)))
"""

from __future__ import annotations

import asyncio
import linecache
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from broker_sim.common.code_owner import is_users
from broker_sim.common.text import unknown
from broker_sim.journal import groups_in, request_text
from broker_sim.simulation.cluster import SimCluster
from broker_sim.simulation.hosts import BrokerHost, Host
from broker_sim.simulation.virtual.process import DEAD
from broker_sim.simulation.world import Simulation
from kafka_wire.record_batch import RecordBatchError

__all__ = ["Place", "groups", "hosts", "logs", "moment", "places", "under_way", "value_at"]

_SHOWN, _TASKS, _PAST = 12, 3, 2
"""So many requests, tasks and earlier processes of a host are shown."""
_VALUE = 40


class Place(NamedTuple):
    """The place at which a coroutine waits: file, line and function."""

    file: str
    line: int
    function: str
    users: bool
    """Whether it is the user's code."""

    @property
    def text(self) -> str:
        """``bill at billing.py:20: await consumer.commit()``."""
        source = linecache.getline(self.file, self.line).strip()
        return f"{self.function} at {Path(self.file).name}:{self.line}" + (f": {source}" if source else "")


def places(task: asyncio.Task[Any]) -> list[Place]:
    """The coroutines of a task that waits, from its own to the innermost."""
    result: list[Place] = []
    coro: Any = task.get_coro()
    while coro is not None:
        frame: FrameType | None = next(
            (inner for name in ("cr_frame", "gi_frame", "ag_frame") if (inner := getattr(coro, name, None)) is not None), None
        )  # fmt: skip
        if frame is not None:
            code: CodeType = frame.f_code
            result.append(Place(code.co_filename, frame.f_lineno, code.co_name, is_users(code)))
        coro = next(
            (inner for name in ("cr_await", "gi_yieldfrom", "ag_await") if (inner := getattr(coro, name, None)) is not None), None
        )  # fmt: skip
    return result


def _waits(task: asyncio.Task[Any]) -> list[str]:
    """The user's lines, or those of a workload of this package, and the innermost of a library."""
    thread: Any = getattr(task, "thread", None)
    if thread is not None:
        return [f"thread {thread.name} waits for {thread.waits_for or 'its turn'}{thread.place()}"]
    stack = places(task)
    mine = [place for place in stack if place.users] or stack[:2]
    lines = [place.text for place in mine[-3:]]
    if stack and stack[-1] not in mine:
        lines.append(f"in {stack[-1].text}")
    return lines


def hosts(sim: Simulation, only: str | None = None) -> list[str]:
    """Each host that programs run on: its state, and where its tasks wait; ``only``: that one, with all of its tasks. Raises
    UsageError."""
    if only is not None and only not in sim.hosts:
        raise unknown("host", only, sim.hosts)
    lines: list[str] = []
    for name, host in sim.hosts.items():
        if only in (None, name):
            lines += _broker(host) if isinstance(host, BrokerHost) else _host(sim, host, everything=only is not None)
    return lines


def _broker(host: BrokerHost) -> list[str]:
    cluster = host.cluster
    if cluster.dead:
        return [f"{host.name}: the process of all brokers is dead"]
    state = cluster.state
    leads = sum(partition.leader == host.node_id for topic in state.topics.values() for partition in topic.partitions)
    return [f"{host.name}: {host.state}, leads {leads} partitions"]


def _host(sim: Simulation, host: Host, *, everything: bool) -> list[str]:
    process = host.process
    mine = [
        task for task in sorted(asyncio.all_tasks(sim.loop), key=hash)
        if not task.done() and getattr(task, "process", None) is process
    ]  # fmt: skip
    life = "" if process.number == 1 else f", process {process.number}"
    raised = f", {len(host.failures)} times started again after {host.failures[-1][1]!r}" if host.failures else ""
    lines = [f"{host.name}: {host.state}{life}{raised}"]
    for task in (mine if everything else _programs(mine)) if process.state != DEAD else ():
        lines += _indented(_waits(task))
    for ended_s, past in host.past[-_PAST:]:
        lines.append(f"  its process {past.number} ended at {ended_s:.3f} s:")
        for task in _programs([task for task in past.tasks if not task.done()]):
            lines += (f"  {line}" for line in _indented(_waits(task)))
    return lines


def _programs(tasks: Sequence[asyncio.Task[Any]]) -> Sequence[asyncio.Task[Any]]:
    """The tasks in which the user's code waits; the first task if none does."""
    mine = [task for task in tasks if any(place.users for place in places(task)) or getattr(task, "thread", None)]
    return (mine or tasks[:1])[:_TASKS]


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"  {'  ' * number}{line}"


def logs(cluster: SimCluster) -> list[str]:
    """Each partition that has records or something the matter: who leads it, where it ends, what state it is in."""
    lines = []
    odd = (
        {condition.partition.name: condition.text for condition in cluster.conditions.of()} if cluster.observed else {}
    )
    for topic in cluster.state.topics.values():
        for partition in topic.partitions:
            if partition.log_end_offset or partition.name in odd or partition.leader < 0:
                high = (
                    ""
                    if partition.high_watermark == partition.log_end_offset
                    else f", high watermark {partition.high_watermark}"
                )
                leader = f"leader {partition.leader}, epoch {partition.leader_epoch}"
                text = f"{partition.name}: {leader}, isr {partition.isr}, ends at {partition.log_end_offset}"
                lines.append(text + high + (f"; {odd[partition.name]}" if partition.name in odd else ""))
    return lines


def groups(cluster: SimCluster, events: Iterable[dict[str, Any]]) -> list[str]:
    """Each group of the journal as its coordinator has it, with what it has committed."""
    lines = []
    for name in groups_in(events):
        group = cluster.group(name)
        lines.append(repr(group).removeprefix("<").removesuffix(">"))
        committed = ", ".join(
            f"{topic}-{index} {offset}" for (topic, index), offset in sorted(group.committed().items())
        )
        lines.append(f"  committed: {committed or 'nothing'}")
    return lines


def under_way(events: Iterable[dict[str, Any]], now_ms: int) -> list[str]:
    """Requests that a broker has received and not answered, the oldest first; Fetches apart, which wait as a rule."""
    open_: dict[int, dict[str, Any]] = {}
    for event in events:
        if event["event"] == "request":
            open_[event["request"]] = event
        elif event["event"] == "response":
            open_.pop(event["request"], None)
    lines = [
        f"{now_ms - event['ts_ms']} ms: {request_text(event)} at broker {event['broker']}"
        for event in open_.values()
        if event["api"] != "Fetch"
    ]
    fetches = sum(event["api"] == "Fetch" for event in open_.values())
    return [*lines, *([f"{fetches} Fetches wait"] if fetches else [])]


def moment(sim: Simulation) -> list[str]:
    """All hosts, and what is under way."""
    lines = [f"the hosts at {sim.elapsed_s:.3f} s:", *(f"  {line}" for line in hosts(sim))]
    for cluster in sim.clusters:
        if cluster.observed:
            pending = under_way(cluster.journal.events, sim.now_ms)
            lines += ["not answered yet:", *(f"  {line}" for line in pending[:_SHOWN])] if pending else []
    return lines


def value_at(cluster: SimCluster, log: str, offset: int) -> str:
    """The value of the record at an offset of a log, shortened; "" if it can't be read."""
    name, _, index = log.rpartition("-")
    topic = None if cluster.dead else cluster.state.topics.get(name)
    if topic is None or not index.isdigit() or int(index) >= len(topic.partitions):
        return ""
    try:
        for batch in topic.partitions[int(index)].log.batches(offset):
            for record in batch.records():
                if record.offset >= offset:
                    value = repr(record.value)
                    return value if len(value) <= _VALUE else value[: _VALUE - 4] + " ..."
            break
    except (RecordBatchError, OSError, ValueError):
        return ""
    return ""
