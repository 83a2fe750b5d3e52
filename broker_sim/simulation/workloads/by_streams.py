"""Members of a streams group (KIP-1071) that speak the protocol themselves: as those of a consumer group, with tasks in place of
partitions. Each is a thread of a process, and has the topology of the application; some have an older one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

from broker_sim.runtime.group_coordinator import settings_of
from broker_sim.simulation.checks.epochs import Unit
from broker_sim.simulation.checks.streams_log import ACTIVE, STANDBY, StreamsLog, StreamsTaskKey, tasks
from broker_sim.simulation.workloads.by_epochs import EpochMember, Holdings
from broker_sim.simulation.workloads.raw import GROUP, REBALANCE_MS, TOPIC, VERSIONS, RawClient, RawContext
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import OffsetCommitRequest
from kafka_wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kafka_wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest

__all__ = ["StreamsDescriber", "StreamsGroupMember", "topology"]

_READS, _COUNTS = "0", "1"
_EPOCH = 3


def topology(epoch: int = _EPOCH) -> Topology:
    """An application that reads the topic, sends its records on by another key, and counts them."""
    return Topology(
        epoch,
        [
            Subtopology(_READS, [TOPIC], repartition_sink_topics=["app-repartition"]),
            Subtopology(
                _COUNTS,
                repartition_source_topics=[TopicInfo("app-repartition")],
                state_changelog_topics=[TopicInfo("app-changelog")],
            ),
        ],
    )


class StreamsDescriber(RawClient):
    """Client that describes the group."""

    SPANS: ClassVar[Mapping[Any, tuple[int, int]]] = {**VERSIONS, StreamsGroupDescribeRequest: (0, 1)}


class StreamsGroupMember(EpochMember):
    """A thread. ``process``: which process it belongs to, under whatever member id."""

    REPEATS = False
    SPANS: ClassVar[Mapping[Any, tuple[int, int]]] = {
        **VERSIONS,
        OffsetCommitRequest: (9, 10),
        StreamsGroupHeartbeatRequest: (0, 1),
    }

    def __init__(self, context: RawContext, holdings: Holdings, name: str, instance: str | None, process: str) -> None:
        super().__init__(context, holdings, name, instance, None)
        self.process = process

    @property
    def _log(self) -> StreamsLog:
        assert isinstance(self.holdings.log, StreamsLog)
        return self.holdings.log

    def _read_otherwise(self) -> None:
        """An application's topology does not change while it runs: the thread is stuck in a processor instead, and gives nothing up."""
        self.stubborn = True

    def _request(self, epoch: int, *, full: bool, owned: Collection[Unit] | None) -> StreamsGroupHeartbeatRequest:
        request = StreamsGroupHeartbeatRequest(GROUP, self.member, epoch, instance_id=self.instance)
        if epoch == 0:
            known = self._log.topology is not None
            request.topology = topology(_EPOCH - 1 if known and self.rng.random() < 0.1 else _EPOCH)
            request.process_id, request.rebalance_timeout_ms = self.process, REBALANCE_MS
        if owned is not None:
            request.active_tasks, request.standby_tasks = _listed(owned, ACTIVE), _listed(owned, STANDBY)
            request.warmup_tasks = []
        return request

    def _to_revoke(self) -> frozenset[Unit]:
        """Units to revoke. Where roles change in place, a standby task that becomes active in its member is recycled, not revoked."""
        owed, has = super()._to_revoke(), self.assigned or frozenset()
        if not settings_of(self.context.kafka.state.config).policy.streams_roles_change_in_place:
            return owed
        return frozenset((key, n) for key, n in owed if (StreamsTaskKey(ACTIVE, key.subtopology), n) not in has)

    def _last_request(self, epoch: int) -> StreamsGroupHeartbeatRequest:
        return StreamsGroupHeartbeatRequest(GROUP, self.member, epoch, instance_id=self.instance)

    def _assignment_in(self, answer: Any) -> frozenset[Unit] | None:
        if answer.active_tasks is None:
            return None
        return tasks(answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)

    async def _beat(self, broker: int) -> Err:
        """An answer that assigns tasks and is lost is not repeated: the member joins anew, at once or after one more heartbeat with the
        epoch that it knows."""
        again = bool(self._lost) and self.epoch > 0
        if again and self.rng.random() < 0.5:
            self._begin_anew()
            again = False
        error = await super()._beat(broker)
        if again and error is Err.NONE:
            self._begin_anew()
        return error

    # --- what must be refused

    def _probes(self) -> tuple[Callable[[], tuple[Any, set[Err]]], ...]:
        mine: list[Callable[[], tuple[Any, set[Err]]]] = [self._with_another_topology]
        if self._log.topology is not None and self._log.validated == self._log.topology.epoch:
            mine.append(self._with_a_foreign_task)
        return (*super()._probes(), *mine)

    def _foreign(self) -> Unit:
        return StreamsTaskKey(ACTIVE, _READS), 99

    def _from_nobody(self) -> tuple[Any, set[Err]]:
        epoch = self.rng.choice((1, 5, -1))
        return StreamsGroupHeartbeatRequest(GROUP, "nobody", epoch), {Err.UNKNOWN_MEMBER_ID}

    def _without_instance(self) -> tuple[Any, set[Err]]:
        return StreamsGroupHeartbeatRequest(GROUP, "nobody", -2), {Err.INVALID_REQUEST}

    def _with_another_topology(self) -> tuple[Any, set[Err]]:
        """A later one, or the same epoch with other content."""
        other = topology(_EPOCH + 1)
        if self.rng.random() < 0.5:
            other = Topology(_EPOCH, topology().subtopologies[:1])
        request = self._request(0, full=True, owned=())
        request.member_id, request.instance_id, request.topology = "newcomer", None, other
        return request, {Err.INVALID_REQUEST}

    def _with_a_foreign_task(self) -> tuple[Any, set[Err]]:
        """A task that the topology doesn't have."""
        foreign = self.rng.choice((self._foreign(), (StreamsTaskKey(STANDBY, "7"), 0)))
        return self._request(self.epoch, full=False, owned=[*self.owned, foreign]), {Err.INVALID_REQUEST}

    def _mine(self, units: frozenset[Unit]) -> list[int]:
        """A task of the first subtopology commits the partition of its number."""
        return sorted(number for key, number in units if key == StreamsTaskKey(ACTIVE, _READS))


def _listed(units: Collection[Unit], role: str) -> list[TaskIds]:
    by_subtopology: dict[str, list[int]] = {}
    for key, number in sorted(units):
        if key.role == role:
            by_subtopology.setdefault(key.subtopology, []).append(number)
    return [TaskIds(name, numbers) for name, numbers in by_subtopology.items()]
