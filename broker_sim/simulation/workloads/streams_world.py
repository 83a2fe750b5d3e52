"""A workload of a streams group (KIP-1071): raw members in several processes, static ones, standby tasks, and internal topics that the
broker creates.

As `epoch_world`, in a tenth of Kafka's times. It checks the members' responses (`by_streams`), the records
(`checks.streams_log`), and the committed offsets (`checks.answers`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.checks.epochs import Unit
from broker_sim.simulation.checks.streams_log import StreamsLog, tasks
from broker_sim.simulation.workloads.by_streams import StreamsDescriber, StreamsGroupMember
from broker_sim.simulation.workloads.epoch_world import ByEpochs
from broker_sim.simulation.workloads.raw import GROUP, SESSION_MS
from kafka_wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest

if TYPE_CHECKING:
    from broker_sim.simulation.sweeps.trial import Case
    from broker_sim.simulation.workloads.by_epochs import ClassicMember, EpochMember

__all__ = ["ByStreams"]

_SETTINGS: dict[str, object] = {
    "group.streams.min.session.timeout.ms": 1000,
    "group.streams.session.timeout.ms": SESSION_MS,
    "group.streams.min.heartbeat.interval.ms": 100,
    "group.streams.heartbeat.interval.ms": 300,
    "group.streams.initial.rebalance.delay.ms": 300,
    "offsets.topic.replication.factor": 3,
    "default.replication.factor": 3,
}
_STATIC, _STANDBY = 0.4, 0.6
"""Probabilities: a member is a static one, where the release has these; each task with state has a standby one."""


class ByStreams(ByEpochs):
    """The workload of a streams group (KIP-1071): its cluster, processes, members and checks."""

    describer = StreamsDescriber

    def _settings(self, case: Case) -> dict[str, object]:
        dice = random.Random(f"{case.seed}/standby")
        self.standbys = int(dice.random() < _STANDBY)
        later = {} if case.as_version == "4.2" else {"group.streams.assignment.interval.ms": 300}
        return {**_SETTINGS, **later, "group.streams.num.standby.replicas": self.standbys}

    def _log(self, first_epoch: int) -> StreamsLog:
        return StreamsLog(GROUP, self._partition, self.answers.report, first_epoch, standbys=self.standbys)

    def _people(self, dice: random.Random, count: int, case: Case) -> Iterator[EpochMember | ClassicMember]:
        """Threads of one to as many processes as there are of them."""
        self._draw_absence(dice)
        processes = dice.randint(1, count)
        for number in range(1, count + 1):
            is_static = case.as_version == "4.4" and dice.random() < _STATIC
            instance = f"fixed-{number}" if is_static else None
            process = f"process-{number % processes}"
            yield StreamsGroupMember(self.context, self.holdings, f"c{number}", instance, process)

    def _plan(self, dice: random.Random) -> None:
        """Nothing happens beside the members."""

    def _question(self) -> Any:
        return StreamsGroupDescribeRequest([GROUP])

    def _described(self, member: Any) -> tuple[frozenset[Unit], frozenset[Unit]]:
        has, wanted = member.assignment, member.target_assignment
        return (
            tasks(has.active_tasks, has.standby_tasks, has.warmup_tasks),
            tasks(wanted.active_tasks, wanted.standby_tasks, wanted.warmup_tasks),
        )
