"""Checks of recovery once all faults have ended: every group Stable with all its members, nothing left to read or to commit.

Kafka's timers say by when. A member that died is expired after its session; a rebalance waits for the slowest member its rebalance
timeout; a client whose request got lost asks again after its request timeout, and its connection may have to be made anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker_sim.common.text import duration_text
from broker_sim.simulation.errors import SimError

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.protocols import RunControl
    from broker_sim.simulation.workloads.programs import Consumer, Producer

__all__ = ["ExpectedGroup", "NotAlive", "Unsafe", "bound_s", "converge", "safe"]

_LOOK_S = 0.5
"""Virtual time between two looks."""
_QUIET_S = 3.0
"""So long it must stay as it should be."""


class NotAlive(SimError, AssertionError):
    """After healing a group or a log did not recover in time. ``lacking``: the reason in a word or two, to compare runs."""

    lacking = ""

    @property
    def line(self) -> str:
        """The same for failures of one cause."""
        return f"not alive: {self.lacking}"


class Unsafe(SimError, AssertionError):
    """A safety violation, such as a lost record. ``broken``: the violation in a word or two."""

    broken = ""

    @property
    def line(self) -> str:
        """The same for failures of one cause."""
        return f"unsafe: {self.broken}"


@dataclass(frozen=True, slots=True)
class ExpectedGroup:
    """A group that is to come back: so many members, everything in these topics read and committed. ``state``: None for one that has
    no members and need not be known."""

    group: str
    members: int
    topics: tuple[str, ...]
    state: str | None = "Stable"


def bound_s(
    *, session_s: float, rebalance_s: float, request_s: float, initial_delay_s: float = 3.0, work_s: float = 0.0
) -> float:
    """Virtual seconds within which all groups must recover: the request timeout and a new connection, twice since the coordinator
    may have to be looked up as well; the session timeout of dead members; two rebalances, since the first may lack a member."""
    return 3 * request_s + session_s + 2 * (rebalance_s + initial_delay_s) + work_s + 15


def converge(
    sim: RunControl,
    kafka: SimCluster,
    expected: Iterable[ExpectedGroup],
    within_s: float,
    also: Callable[[], str | None] = lambda: None,
) -> float:
    """Let time pass until all is as expected and stays so a while; returns the virtual seconds that it took. ``also()``: what else is
    lacking, None for nothing. Raises NotAlive, with what is lacking and the history of the group."""
    groups = list(expected)
    began = sim.elapsed_s
    quiet_since: float | None = None
    while True:
        unmet = [text for group in groups for text in _lacking(kafka, group)]
        more = also()
        if more is not None:
            unmet.append(("programs", more))
        now = sim.elapsed_s
        quiet_since = None if unmet else now if quiet_since is None else quiet_since
        if quiet_since is not None and now - quiet_since >= _QUIET_S:
            return quiet_since - began
        if unmet and now - began >= within_s:
            raise _not_alive(kafka, groups, unmet, within_s)
        sim.run_for(_LOOK_S)


def _lacking(kafka: SimCluster, expected: ExpectedGroup) -> list[tuple[str, str]]:
    """Return each thing that a group lacks, as a short name and as a sentence."""
    group = kafka.group(expected.group)
    state, members = group.state, group.members
    lacking = []
    if state != expected.state and (expected.state is not None or members):
        waiting = "".join(f"; {m.member_id} waits in {m.deferred}" for m in members if m.deferred)
        lacking.append(
            (
                f"state {state}",
                f"group {expected.group!r} is {state}, not {expected.state}, with {len(members)} members{waiting}",
            )
        )
    elif len(members) != expected.members:
        names = ", ".join(f"{m.member_id} ({m.client_id})" for m in members)
        lacking.append(
            ("members", f"group {expected.group!r} has {len(members)} members, not {expected.members}: {names}")
        )
    committed = group.committed()
    for topic in expected.topics:
        for partition in kafka.state.topics[topic].partitions:
            if partition.leader < 0:
                lacking.append(("leader", f"{partition.name} has no leader"))
            end, done = partition.log_end_offset, committed.get((topic, partition.index), 0)
            if partition.high_watermark != end:
                lacking.append(
                    (
                        "high watermark",
                        f"{partition.name}: the high watermark is {partition.high_watermark}, the log's end {end}",
                    )
                )
            if done != end:
                lacking.append(("lag", f"group {expected.group!r} has committed {done} of {end} in {partition.name}"))
    return lacking


def _not_alive(
    kafka: SimCluster, groups: list[ExpectedGroup], unmet: list[tuple[str, str]], within_s: float
) -> NotAlive:
    lines = [f"{duration_text(within_s * 1000)} after everything was healed:", *(f"  {text}" for _, text in unmet)]
    for group in groups:
        if any(repr(group.group) in text for _, text in unmet):
            lines += ["", kafka.group(group.group).explain()]
    error = NotAlive("\n".join(lines))
    error.lacking = unmet[0][0]
    return error


def safe(consumers: Iterable[Consumer], producers: Sequence[Producer], kafka: SimCluster) -> None:
    """After `converge`: what was acknowledged has been given to a consumer, as it was, and is committed. Raises Unsafe."""
    given: dict[tuple[str, int, int], bytes | None] = {}
    members = list(consumers)
    for consumer in members:
        for record in consumer.delivered:
            place = record.topic, record.partition, record.offset
            if given.setdefault(place, record.value) != record.value:
                raise _unsafe(
                    "other record",
                    f"{record.topic}-{record.partition} offset {record.offset}: {given[place]!r}, later {record.value!r}",
                )
    for producer in producers:
        for (index, offset), value in producer.acked.items():
            place = producer.topic, index, offset
            name = f"{producer.topic}-{index} offset {offset}"
            if place not in given:
                raise _unsafe(
                    "lost record", f"{name}, {value!r}, was acknowledged to the producer and given to no consumer"
                )
            if given[place] != value:
                raise _unsafe("other record", f"{name}: {value!r} was acknowledged, {given[place]!r} was read")
    for producer in producers:
        _once(producer, kafka)
    for consumer in members:
        committed = kafka.group(consumer.group).committed()
        for place_, end in consumer.committed.items():
            if committed.get(place_, 0) < end:
                raise _unsafe(
                    "lost commit",
                    f"{place_[0]}-{place_[1]}: {end} was acknowledged to {consumer.host.name}, {committed.get(place_)} is there",
                )


def _once(producer: Producer, kafka: SimCluster) -> None:
    """Check that an idempotent producer's records are in the log in their order, and once; raises Unsafe. Records that an application
    sends again after it has started its client anew are other records."""
    if not producer.options.get("enable_idempotence"):
        return
    values: Counter[bytes | None] = Counter()
    for partition in kafka.state.topics[producer.topic].partitions:
        last: dict[tuple[int, int], int] = {}
        for batch in partition.log.batches():
            header = batch.header
            records = list(batch.records())
            values.update(record.value for record in records)
            key, sequence = (header.producer_id, header.producer_epoch), header.base_sequence
            if header.producer_id >= 0 and last.get(key, sequence - 1) != sequence - 1:
                raise _unsafe("sequence", f"{partition.name}: producer {key[0]} has {sequence} behind {last[key]}")
            last[key] = sequence + len(records) - 1
    twice = [value for value, count in values.items() if count > 1]
    if twice and producer.starts == 1:
        raise _unsafe("record twice", f"{producer.topic}: {twice[:5]} of an idempotent producer")


def _unsafe(broken: str, text: str) -> Unsafe:
    error = Unsafe(f"{broken}: {text}")
    error.broken = broken
    return error
