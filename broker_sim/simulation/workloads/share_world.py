"""A workload of a share group (KIP-932): raw members, records that come while they are at work, and in the end nothing left undone.

As `epoch_world`, in a tenth of Kafka's times. It checks the members' responses (`by_shares`), the records of the group's state
(`checks.share_log`), and that each state of a record follows from an acknowledgement or an expired lock.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_sim.metadata.entity_configs import Entity
from broker_sim.simulation.checks.liveness import NotAlive
from broker_sim.simulation.checks.share_log import ACKNOWLEDGED, ARCHIVED, ShareLog, Unit
from broker_sim.simulation.workloads.by_shares import ACCEPT, GAP, LIMIT, LOCK_MS, REJECT, Acquisitions, ShareMember
from broker_sim.simulation.workloads.raw import (
    CONFIG,
    GROUP,
    HEALING_S,
    PATIENCE_S,
    SESSION_MS,
    TOPIC,
    RawContext,
    UncheckedAnswers,
)
from broker_sim.storage.errors import StorageError
from kafka_wire.record_batch import build_batch

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.faults.kinds import Fault, Injection
    from broker_sim.simulation.sweeps.trial import Case
    from broker_sim.simulation.workloads.aiokafka_workload import InvariantWatch
    from broker_sim.simulation.workloads.catalogue import Workload
    from broker_sim.simulation.workloads.deeds import Deed
    from broker_sim.simulation.world import Simulation

__all__ = ["Shares"]

_LOOK_S, _QUIET_S = 0.5, 2.0
_SETTINGS: dict[str, object] = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "group.share.min.session.timeout.ms": 1000,
    "group.share.session.timeout.ms": SESSION_MS,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 300,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": LOCK_MS,
    "group.share.delivery.count.limit": LIMIT,
    "share.coordinator.snapshot.update.records.per.snapshot": 12,
    "share.coordinator.state.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "default.replication.factor": 3,
}
_INTERVAL = {"group.share.assignment.interval.ms": 300}  # of 4.3 and later
_PRODUCING_S = 0.4


class Shares:
    """The workload of a share group (KIP-932): its cluster, members, records and checks."""

    def __init__(self, sim: Simulation, case: Case, workload: Workload, watch: InvariantWatch) -> None:
        self.sim, self.watch = sim, watch
        later = (case.as_version or "") not in ("4.1", "4.2")
        config = {**CONFIG, **_SETTINGS, **(_INTERVAL if later else {}), **workload.config}
        self.kafka: SimCluster = sim.cluster(
            workload.brokers, dict(workload.topics), journal=case.journal is not False, as_version=case.release, config=config
        )  # fmt: skip
        self.kafka.state.ensure_offsets_topic()
        self.kafka.state.alter_entity(Entity.GROUP, GROUP, {"share.auto.offset.reset": "earliest"})
        self.answers = UncheckedAnswers(self.kafka.state, lambda: sim.elapsed_s, watch.breach, waive=watch.waive)
        self.context = RawContext(sim, self.kafka, self.answers)
        counts_all = (case.as_version or "") not in ("4.0", "4.1")
        self.log = ShareLog(GROUP, self.kafka.state, self.answers.report, LIMIT, counts_all)
        self.hands = Acquisitions(self.log, self.context)
        count = min(workload.members, case.members or workload.members)
        self.members = [ShareMember(self.context, self.hands, f"c{number}") for number in range(1, count + 1)]
        for member in self.members:
            sim.host(member.name).spawn(member.run)
        self.dice = random.Random(f"{case.seed}/records")
        self._produce_later()
        self._look_later()

    def _produce_later(self) -> None:
        def produce() -> None:
            if self.hands.calm:
                return
            for partition in self.kafka.state.topics[TOPIC].partitions:
                if partition.leader > 0 and self.dice.random() < 0.6:
                    rows = [(None, b"%d" % at) for at in range(self.dice.randint(1, 6))]
                    now_ms = self.kafka.state.clock.now_ms()
                    with contextlib.suppress(StorageError):
                        partition.append(build_batch(rows, now_ms), now_ms=now_ms)
            self._produce_later()

        self.sim.loop.call_later(_PRODUCING_S, produce)

    def _look_later(self) -> None:
        def look() -> None:
            if not self.context.settled:
                self.log.catch_up()
                self._look_later()

        self.sim.loop.call_later(_LOOK_S, look)

    @property
    def waived(self) -> Counter[str]:
        """Breaches of invariants that are waived."""
        return self.answers.waived

    @property
    def done(self) -> list[Deed]:
        """Deeds of the members, none: only a smaller plan makes a run of them smaller."""
        return []

    def turns(self, plan: tuple[Fault, ...]) -> None:
        """Waive the invariants that the watch waives for these faults."""
        self.answers.waive = self.watch.waive

    def hangs(self) -> dict[str, Callable[[float], object]]:
        """Applications that can hang, none: members forget their records in other ways."""
        return {}

    def finish(self) -> None:
        """Let the members send only regular requests from now on, so that the group can recover."""
        self.hands.calm = True

    def settle(self, injection: Injection) -> float:
        """Wait until all that is in the log is done with, and look by whom. Returns the virtual seconds that it took. Raises NotAlive,
        InvariantBroken."""
        sim, began_s = self.sim, self.sim.elapsed_s
        limit_s = began_s + HEALING_S + 3 * PATIENCE_S + LIMIT * LOCK_MS / 1000
        lacking: str | None = "a first look"
        while lacking is not None:
            sim.run_for(_LOOK_S)
            self.watch.check()
            self.log.catch_up()
            lacking = self.log.unsettled(self._ends())
            if lacking is not None and sim.elapsed_s > limit_s:
                raise self._not_alive(limit_s - began_s, lacking)
        took_s = sim.elapsed_s - began_s
        self.context.settled, self.watch.stops = True, False
        self._who_said_so()
        self.watch.check()
        return took_s

    def _ends(self) -> list[tuple[Unit, int]]:
        topic = self.kafka.state.topics[TOPIC]
        return [((topic.topic_id, partition.index), partition.high_watermark) for partition in topic.partitions]

    def _who_said_so(self) -> None:
        """Check that each final state of a record has an acknowledgement by a member, or the maximum delivery count."""
        said = self.hands.said
        for unit, end in self._ends():
            for offset in range(end):
                stored, record = self.log.how(unit, offset), (unit, offset)
                accepted = stored is not None and stored.state == ACKNOWLEDGED
                archived = stored is not None and stored.state == ARCHIVED
                by_hand = record in said[REJECT] or record in said[GAP]
                if (accepted and record not in said[ACCEPT]) or (
                    archived and stored is not None and not by_hand and stored.deliveries < LIMIT
                ):
                    self.hands.fail(
                        "records are completed only by acknowledgements", f"{offset} of {unit[1]} is {stored}"
                    )

    def _not_alive(self, within_s: float, lacking: str) -> NotAlive:
        lines: list[Any] = [f"{within_s:g} s after everything was healed: {lacking}"]
        lines += [
            f"  {m.name} {m.member}, epoch {m.epoch}, {m.beats} heartbeats, {len(m.units)} partitions"
            for m in self.members
        ]
        error = NotAlive("\n".join(map(str, lines)))
        error.lacking = "records"
        return error
