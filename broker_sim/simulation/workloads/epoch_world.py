"""A workload of a consumer group (KIP-848): raw members of both protocols, static ones, subscriptions by expressions, and
topics that come while they are at work.

As `wire_workload`, in a tenth of Kafka's times. It checks the members' responses (`by_epochs`), the records (`checks.epochs`),
and the committed offsets (`checks.answers`).
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from broker_sim.runtime.group_coordinator import settings_of
from broker_sim.simulation.checks.epochs import EpochLog, Unit
from broker_sim.simulation.checks.liveness import NotAlive
from broker_sim.simulation.workloads.by_epochs import (
    ClassicMember,
    Describer,
    EpochAnswers,
    EpochMember,
    Holdings,
    listed,
)
from broker_sim.simulation.workloads.hostile import read_twice
from broker_sim.simulation.workloads.raw import CONFIG, GROUP, HEALING_S, PATIENCE_S, SESSION_MS, RawClient, RawContext
from broker_sim.simulation.workloads.wire_workload import LATE, NETWORK
from kafka_wire.errors import Err
from kafka_wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.faults.kinds import Fault, Injection
    from broker_sim.simulation.sweeps.trial import Case
    from broker_sim.simulation.workloads.aiokafka_workload import InvariantWatch
    from broker_sim.simulation.workloads.catalogue import Workload
    from broker_sim.simulation.workloads.deeds import Deed
    from broker_sim.simulation.world import Simulation

__all__ = ["ByEpochs"]

_LOOK_S = 0.5
_QUIET_S = 2.0
_SETTINGS = {
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "offsets.topic.replication.factor": 3,
    "default.replication.factor": 3,
}
_INTERVAL = {"group.consumer.assignment.interval.ms": 300}  # of 4.3 and later
_STATIC, _PATTERN, _CLASSIC, _AWAY = 0.4, 0.4, 0.4, 0.4
"""Probabilities: a member is a static one; subscribes by an expression; there are classic members; all others leave at once."""
_NEW_TOPICS = 2
_REFRESH_S = 11.0
"""An expression is not looked at again more often than every ten seconds."""


_PUT_OFF = ("members that revoke nothing are removed",)
"""A member whose removal the log refuses stays, and its time begins anew."""


def _waived(watch: InvariantWatch, plan: Iterable[Fault]) -> frozenset[str]:
    kinds = {fault.kind for fault in plan}
    return watch.waive.union(LATE if kinds & NETWORK else (), _PUT_OFF if "state" in kinds else ())


class ByEpochs:
    """The workload of a consumer group (KIP-848): its cluster, members, topics and checks."""

    describer: type[RawClient] = Describer
    """Client that describes the group in the end."""

    def __init__(self, sim: Simulation, case: Case, workload: Workload, watch: InvariantWatch) -> None:
        self.sim, self.watch = sim, watch
        config = {**CONFIG, **self._settings(case), **workload.config}
        self.kafka: SimCluster = sim.cluster(
            workload.brokers, dict(workload.topics), journal=case.journal is not False, as_version=case.release, config=config
        )  # fmt: skip
        self.kafka.state.ensure_offsets_topic()
        waive = _waived(watch, case.plan or ())
        self.answers = EpochAnswers(self.kafka.state, lambda: sim.elapsed_s, watch.breach, waive=waive)
        self.context = RawContext(sim, self.kafka, self.answers)
        dice = random.Random(f"{case.seed}/by epochs")
        self.log = self._log(settings_of(self.kafka.state.config).policy.first_epoch)
        self.holdings = Holdings(self.log, self.context)
        self.members = list(self._people(dice, min(workload.members, case.members or workload.members), case))
        for member in self.members:
            sim.host(member.name).spawn(member.run)
        self._plan(dice)
        self._look_later()

    def _settings(self, case: Case) -> dict[str, object]:
        later = (case.as_version or "") not in ("4.0", "4.1", "4.2")
        return {**_SETTINGS, **(_INTERVAL if later else {})}

    def _log(self, first_epoch: int) -> EpochLog:
        return EpochLog(GROUP, self._partition, self.answers.report, first_epoch)

    def _people(self, dice: random.Random, count: int, case: Case) -> Iterator[EpochMember | ClassicMember]:
        """Yield the members of the group."""
        classic = dice.randint(1, 2) if dice.random() < _CLASSIC and count > 1 else 0
        self._draw_absence(dice)
        for number in range(1, count + 1):
            name = f"c{number}"
            if number <= min(classic, count - 1):
                yield ClassicMember(self.context, name)
                continue
            instance = f"fixed-{number}" if dice.random() < _STATIC else None
            pattern = "orders|extra.*" if dice.random() < _PATTERN else None
            yield EpochMember(self.context, self.holdings, name, instance, pattern)

    def _draw_absence(self, dice: random.Random) -> None:
        if dice.random() < _AWAY:
            begins_s = dice.uniform(2, 6)
            self.holdings.away_s = begins_s, begins_s + 2

    def _plan(self, dice: random.Random) -> None:
        """Schedule events beside the members: new topics."""
        for number in range(dice.randint(0, _NEW_TOPICS)):
            self.sim.loop.call_later(dice.uniform(1, 6), self._new_topic, f"extra-{number}", dice.randint(1, 3))

    def _partition(self) -> Partition:
        partition = self.answers.partition(GROUP)
        assert partition is not None
        return partition

    def _new_topic(self, name: str, partitions: int) -> None:
        if name not in self.kafka.state.topics:
            self.kafka.state.create_topic(name, partitions)

    def _look_later(self) -> None:
        def look() -> None:
            if not self.context.settled:
                self.log.catch_up()
                self.answers.overdue()
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
        """Waive the invariants that these faults may break."""
        self.answers.waive = _waived(self.watch, plan)

    def hangs(self) -> dict[str, Callable[[float], object]]:
        """Applications that can hang, none: members fall silent in other ways."""
        return {}

    def finish(self) -> None:
        """Let the members send only regular requests from now on, so that the group can recover."""
        self.holdings.calm = True

    def settle(self, injection: Injection) -> float:
        """Wait until all members have what they are to have and it stays so; then read what is committed, before and after a move.
        Returns the virtual seconds that the first took. Raises NotAlive, InvariantBroken."""
        sim, began_s = self.sim, self.sim.elapsed_s
        expressions = any(isinstance(member, EpochMember) and member.pattern for member in self.members)
        limit_s = began_s + HEALING_S + 3 * PATIENCE_S + (_REFRESH_S if expressions else 0)
        quiet_s, before = sim.elapsed_s, self._beats()
        lacking: str | None = "a first look"
        while sim.elapsed_s - quiet_s < _QUIET_S:
            sim.run_for(_LOOK_S)
            self.watch.check()
            beats = self._beats()
            idle = any(now == then for now, then in zip(beats, before, strict=True))
            lacking = "somebody is not heard of" if idle else self._lacking()
            if lacking is not None:
                quiet_s = sim.elapsed_s
                if quiet_s > limit_s:
                    raise self._not_alive(limit_s - began_s, lacking)
            before = beats
        took_s = quiet_s - began_s
        self.context.settled, self.watch.stops = True, False
        sim.run(self._describe(), within=30)
        sim.run(read_twice(self.context, self._partition()), within=30)
        self.watch.check()
        self.log.catch_up()
        self.watch.check()
        return took_s

    async def _describe(self) -> None:
        """The group is described as its records say."""
        reader = self.describer(self.context, "describer")
        while True:
            answer = await reader.ask(self._question(), await reader.find())
            group = answer.groups[0]
            if group.error_code not in (
                Err.NOT_COORDINATOR,
                Err.COORDINATOR_NOT_AVAILABLE,
                Err.COORDINATOR_LOAD_IN_PROGRESS,
            ):
                break
            await asyncio.sleep(0.1)
        reader.close()
        self.log.catch_up()
        described = {member.member_id: (member.member_epoch, *self._described(member)) for member in group.members}
        log = self.log
        wanted = {
            member_id: (standing.epoch, standing.assigned, log.targets.get(member_id, frozenset()))
            for member_id, standing in log.standings.items()
        }
        head = group.group_state, group.group_epoch, group.assignment_epoch
        if head != ("Stable", log.epoch, log.target_epoch) or described != wanted:
            self.holdings.fail("a described group matches its records", f"{head} {described}, not {log.epoch} {wanted}")

    def _question(self) -> Any:
        return ConsumerGroupDescribeRequest([GROUP])

    def _described(self, member: Any) -> tuple[frozenset[Unit], frozenset[Unit]]:
        """Assignment and target assignment of a described member."""
        return listed(member.assignment), listed(member.target_assignment)

    def _lacking(self) -> str | None:
        """Describe the first thing that is not yet as it is to be; None for nothing."""
        self.log.catch_up()
        topics = self.kafka.state.topics.values()
        lacking = self.log.unsettled({topic.name: (topic.topic_id, len(topic.partitions)) for topic in topics})
        if lacking is not None:
            return lacking
        for member in self.members:
            standing = self.log.standings.get(member.member)
            if standing is None:
                return f"{member.name} is no member"
            if member.generation != standing.epoch:
                return f"{member.name} believes in epoch {member.generation}, its record says {standing.epoch}"
            has = member.owned if isinstance(member, EpochMember) else None
            expression = member.pattern if isinstance(member, EpochMember) else None
            if expression is not None:
                matches = {topic.name for topic in topics if re.fullmatch(expression, topic.name)}
                if set(self.log.matched.get(expression, ())) != matches:
                    return f"{expression} was found to match {self.log.matched.get(expression)}, not {sorted(matches)}"
            if has is not None and has != standing.assigned:
                return f"{member.name} works on other partitions than its record says"
        return None

    def _beats(self) -> list[int]:
        return [member.beats for member in self.members]

    def _not_alive(self, within_s: float, lacking: str) -> NotAlive:
        lines: list[Any] = [f"{within_s:g} s after everything was healed: {lacking}"]
        lines += [f"  {m.name} {m.member or '-'}, epoch {m.generation}, {m.beats} Heartbeats" for m in self.members]
        lines += [f"  {member_id} {standing}" for member_id, standing in self.log.standings.items()]
        lines += ["", *(f"  {ask}" for ask in self.answers.history(GROUP))]
        error = NotAlive("\n".join(map(str, lines)))
        error.lacking = "members"
        return error
