"""Members of a consumer group (KIP-848) that speak the protocol themselves: they join, give up and take partitions, leave,
fall silent, change what they read, and now and then ask what must be refused.

Each checks its responses, and `Holdings` that no member is assigned a partition that another one owns and has not revoked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from broker_sim.simulation.checks.answers import Answers, InvariantBroken
from broker_sim.simulation.checks.epochs import LEFT_FOR_NOW, EpochLog, Unit, unit_name
from broker_sim.simulation.checks.sent import SentRequest
from broker_sim.simulation.workloads.cooperative import Cooperative
from broker_sim.simulation.workloads.raw import (
    GROUP,
    OTHER,
    REBALANCE_MS,
    SESSION_MS,
    TOPIC,
    VERSIONS,
    RawClient,
    RawContext,
    fetch_request,
)
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest

__all__ = ["ClassicMember", "Describer", "EpochAnswers", "EpochMember", "Holdings", "listed"]

_MOVED = {Err.NOT_COORDINATOR, Err.COORDINATOR_NOT_AVAILABLE, Err.COORDINATOR_LOAD_IN_PROGRESS}
_GONE = {Err.UNKNOWN_MEMBER_ID, Err.GROUP_ID_NOT_FOUND}
_PATTERNS = ("orders|extra.*", "(orders|elsewhere)", "extra-[0-9]+")
_OF_OFFSETS = ("OffsetCommit", "OffsetFetch")
_OLD = 8
"""A version of OffsetCommit that knows generations alone."""
_SLACK_S = 1.5
_PATIENCE_S = 6.0
_LEAVE, _LEAVE_FOR_NOW = -1, LEFT_FOR_NOW
_BY_ID = 10


class EpochAnswers(Answers):
    """Checks of responses to commits and reads alone: the generations of an epoch-based group are its members' own."""

    def answered(self, ask: SentRequest, body: object) -> None:
        """As `Answers.answered`."""
        rows = [row.error_code for topic in getattr(body, "topics", ()) for row in topic.partitions]
        mixed = (
            ask.api == "OffsetCommit" and len(set(rows)) > 1
        )  # an epoch that is too old for some of them: they stay open
        if ask.api in _OF_OFFSETS and not mixed:
            super().answered(ask, body)
        else:
            ask.got_s = self._now_s()
            self.open.pop(ask, None)

    def _check_generation(self, ask: SentRequest, life: Any, generation: int) -> None:
        """Check nothing: the generation is the member's epoch."""

    def _check_fenced(self, ask: SentRequest, life: Any) -> None:
        """Nothing: the members check fencing themselves."""

    def _check_life(self, ask: SentRequest, life: Any) -> None:
        """Nothing: the members check it themselves."""


@dataclass(slots=True)
class Holdings:
    """The partitions that members own by their responses, and what they share. ``calm``: members stop sending unusual requests."""

    log: EpochLog
    context: RawContext
    calm: bool = False
    away_s: tuple[float, float] = (0.0, 0.0)
    """From when until when all members of the consumer protocol leave: classic ones remain, if the group has any."""
    has: dict[str, frozenset[Unit]] = field(default_factory=dict)
    """Member id -> what it was given, and has not said to have given up."""
    murky: set[str] = field(default_factory=set)
    """Members of which a request has been lost: it may be taken at any time yet, and move them."""
    instances: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Instance id -> its member id, and until when no other member can have it."""

    def fail(self, name: str, what: str) -> None:
        """Report a breach of the invariant ``name``."""
        self.context.answers.report(InvariantBroken(name, what, self.context.answers.history(GROUP)))

    def take(self, member_id: str, units: frozenset[Unit]) -> None:
        """Note that a response assigned these partitions or tasks to a member; a breach if another member owns one. Not if the response
        was under way until the member had been removed: what it has was another's since, by right."""
        self.log.catch_up()
        for other, theirs in self.has.items() if member_id in self.log.members else ():
            if other == member_id or other not in self.log.members or other in self.murky:
                continue
            both = [
                unit_name(unit)
                for unit in sorted(units)
                if self.log.clash(unit, member_id, dict.fromkeys(theirs, other))
            ]
            if both:
                self.fail(
                    "a partition is revoked before it is reassigned",
                    f"{member_id} is given {both}, which {other} has not given up",
                )
        self.has[member_id] = units | self.has.get(member_id, frozenset())

    def keep(self, member_id: str, units: frozenset[Unit]) -> None:
        """A member says that it has no more than these."""
        self.has[member_id] = self.has.get(member_id, frozenset()) & units

    def drop(self, member_id: str) -> None:
        """Remove a member's partitions: it has left the group, or processes nothing."""
        self.has.pop(member_id, None)


class Describer(RawClient):
    """Client that describes the group."""

    SPANS: ClassVar[Mapping[Any, tuple[int, int]]] = {**VERSIONS, ConsumerGroupDescribeRequest: (0, 1)}


def listed(assignment: Any) -> frozenset[Unit]:
    """The partitions of an answer's assignment."""
    return frozenset((topic.topic_id, index) for topic in assignment.topic_partitions for index in topic.partitions)


class ClassicMember(Cooperative):
    """Member with the classic protocol in an epoch-based group. It gives up what it is to before it joins again; what it works on is
    for the log to check: generations of members in one group differ."""

    def _work(self) -> None:
        self.context.answers.members[GROUP, self.member] = None


class EpochMember(RawClient):
    """One process after another: each has an id of its own."""

    REPEATS: ClassVar[bool] = True
    """Whether a full heartbeat gets the full assignment, although the member may have it already."""
    SPANS: ClassVar[Mapping[Any, tuple[int, int]]] = {
        **VERSIONS,
        OffsetCommitRequest: (9, 10),
        ConsumerGroupHeartbeatRequest: (1, 1),
    }

    def __init__(
        self, context: RawContext, holdings: Holdings, name: str, instance: str | None, pattern: str | None
    ) -> None:
        super().__init__(context, name)
        self.holdings, self.instance = holdings, instance
        self.names, self.pattern = [TOPIC], pattern
        self.member, self.lives, self.beats = "", 0, 0
        self.silent = False
        self.stubborn = False
        """Whether the member never reports that it has given up what it is to revoke."""
        self._begin_anew()

    @property
    def generation(self) -> int:
        """Epoch of the member, under the name that it has for other members."""
        return self.epoch

    # --- its life

    async def run(self) -> None:
        """Be a member of the group until the host is stopped."""
        self.begin()
        self.holdings.drop(self.member)
        self._another_id()
        while True:
            with contextlib.suppress(OSError):
                await self._serve(await self.find())
            await asyncio.sleep(0.05)

    def _another_id(self) -> None:
        self.lives += 1
        self.member = f"{self.name}-{self.lives}"
        self.stubborn = False
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Reset the member's state before it joins: it has no partitions."""
        self.epoch = self.previous = 0
        self.assigned: frozenset[Unit] | None = None
        self.owned: frozenset[Unit] = frozenset()
        self._reported = True
        self._revoke_at_s = 0.0
        self._fine_s = -1.0  # when the last request that was answered well was sent
        self._owes_s: float | None = None  # since when it may have been asked to revoke partitions
        self._debt: tuple[int, frozenset[Unit], float] = -1, frozenset(), 0.0
        # under which leader, what it owes, and since when it has known that
        self._lost: list[float] = []  # when requests were sent whose answers it lacks
        self.holdings.drop(self.member)

    async def _serve(self, broker: int) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.15, 0.35))
            dice = self.rng.random()
            if self.holdings.calm:
                self.stubborn = False
            elif self.epoch > 0 and not self._lost:
                begins_s, ends_s = self.holdings.away_s
                if begins_s <= self._now_s() < ends_s:
                    await self._leave(broker)
                    await asyncio.sleep(max(0.0, ends_s - self._now_s()))
                    continue
                if dice < 0.02:
                    await self._leave(broker)
                    continue
                if dice < 0.04:
                    self._read_otherwise()
                elif dice < 0.05:
                    self.stubborn = True
                elif dice < 0.12 and self.member not in self.holdings.murky:
                    error = await self._ask_in_vain(broker)
                    if error in _MOVED:
                        return
                    continue
            if self.silent:
                await asyncio.sleep(2.5 * SESSION_MS / 1000)
                self.silent = False
            error = await self._beat(broker)
            if error in _MOVED:
                return
            if error is Err.NONE:
                self.beats += 1
                await self._work(broker)
            elif error is Err.UNRELEASED_INSTANCE_ID:
                await asyncio.sleep(0.3)
            elif error in (Err.UNKNOWN_MEMBER_ID, Err.FENCED_MEMBER_EPOCH, Err.GROUP_ID_NOT_FOUND):
                self._begin_anew()
            elif error is Err.FENCED_INSTANCE_ID:
                self._another_id()

    def _read_otherwise(self) -> None:
        """Names in another order are the same names."""
        if self.pattern is not None and self.rng.random() < 0.5:
            self.pattern = self.rng.choice(_PATTERNS)
        else:
            self.names = self.rng.choice(([TOPIC], [TOPIC, OTHER], [OTHER, TOPIC]))
        self._says_all = True

    # --- heartbeats

    _says_all = True

    def _request(self, epoch: int, *, full: bool, owned: Collection[Unit] | None) -> Any:
        listed = None
        if owned is not None:
            by_topic: dict[bytes, list[int]] = {}
            for topic_id, index in sorted(owned):
                by_topic.setdefault(topic_id, []).append(index)
            listed = [TopicPartitions(topic_id, numbers) for topic_id, numbers in by_topic.items()]
        return ConsumerGroupHeartbeatRequest(
            GROUP,
            self.member,
            epoch,
            instance_id=self.instance if full else None,
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            subscribed_topic_names=list(self.names) if full else None,
            subscribed_topic_regex=(self.pattern or "") if full else None,
            topic_partitions=listed,
        )

    def _last_request(self, epoch: int) -> Any:
        """Create the heartbeat by which the member leaves, for good or temporarily."""
        return ConsumerGroupHeartbeatRequest(GROUP, self.member, epoch, instance_id=self.instance)

    def _assignment_in(self, answer: Any) -> frozenset[Unit] | None:
        """Partitions assigned to the member in a response; None where the response has no assignment."""
        return None if answer.assignment is None else listed(answer.assignment)

    async def _beat(self, broker: int) -> Err:
        loop = asyncio.get_running_loop()
        joins, full = self.epoch == 0, self.epoch == 0 or bool(self._lost) or self._says_all
        if self.owned - (self.assigned or frozenset()) and loop.time() >= self._revoke_at_s and not self.stubborn:
            self.owned &= self.assigned or frozenset()
            self._reported = False
        says = full or not self._reported or self.rng.random() < 0.1
        owned = (frozenset() if joins else self.owned) if says else None
        if says:
            self.holdings.keep(self.member, self.owned)
        sent_s, lost = self._now_s(), bool(self._lost)
        answer = await self._sent(self._request(self.epoch, full=full, owned=owned), broker, sent_s)
        error = Err(answer.error_code)
        if error is Err.NONE:
            self._says_all = self._says_all and not full
            self._reported = self._reported or says
            self._heard(answer, sent_s, joins=joins, full=full and says, lost=lost)
            if says and not self._to_revoke():
                self._owes_s = None
            self._lost.clear()
        elif error not in _MOVED:
            self._refused(error, sent_s, owned)
        return error

    async def _sent(self, request: Any, broker: int, sent_s: float) -> Any:
        """Raises OSError. After that, and where its coordinator is another one by now, it isn't known whether it was taken."""
        open_ = True
        try:
            answer = await self.ask(request, broker)
            open_ = Err(answer.error_code) in _MOVED
            return answer
        finally:
            if open_:
                self._lost.append(sent_s)
                self.holdings.murky.add(self.member)
                if self._owes_s is None:
                    self._owes_s = sent_s

    def _now_s(self) -> float:
        return self.context.sim.elapsed_s

    def _heard(self, answer: Any, sent_s: float, *, joins: bool, full: bool, lost: bool) -> None:
        fail = self.holdings.fail
        if answer.member_epoch < self.epoch:
            fail(
                "group and member epochs never decrease",
                f"{self.member} received epoch {self.epoch}, then {answer.member_epoch}",
            )
        if joins:
            self.context.answers.members[GROUP, self.member] = None
            self._check_instance(sent_s)
        if answer.member_epoch != self.epoch:
            self.previous, self.epoch = self.epoch, answer.member_epoch
        assignment = self._assignment_in(answer)
        if assignment is not None:
            if assignment == self.assigned and not full and not lost and not joins:
                fail(
                    "an assignment is sent only when it has changed",
                    f"{self.member} received the same assignment twice",
                )
            self.assigned = assignment
            if self._to_revoke() and self._owes_s is None:
                self._owes_s = sent_s
                self._revoke_at_s = asyncio.get_running_loop().time() + self.rng.choice((0.0, 0.3, 1.0))
            self.owned |= assignment
            self.holdings.take(self.member, assignment)
        elif joins or (full and self.REPEATS):
            fail("a full heartbeat gets a full response", f"{self.member} received no assignment")
        self._check_debt(sent_s)
        self._fine_s = sent_s
        if self.instance is not None:
            until_s = sent_s + SESSION_MS / 1000
            if self._owes_s is not None:
                until_s = min(until_s, self._owes_s + REBALANCE_MS / 1000)
            self.holdings.instances[self.instance] = self.member, until_s

    def _to_revoke(self) -> frozenset[Unit]:
        """Partitions that the member owns and must revoke."""
        return self.owned - (self.assigned or frozenset())

    def _check_debt(self, sent_s: float) -> None:
        """Check that the member was fenced if its rebalance timeout has passed without a revocation. The timeout starts again at
        each coordinator load, and when there is something else to revoke (GroupMetadataManager.maybeReconcile); it does not count while
        the broker is stopped."""
        leader_epoch, owed = self.holdings.log.partition().leader_epoch, self._to_revoke()
        owes, since_s = bool(owed) and not self._lost, self._debt[2]
        if not owes or self._debt[:2] != (leader_epoch, owed) or self._now_s() - sent_s > _SLACK_S / 3:
            self._debt = leader_epoch, owed, self._now_s()  # a request that was held up may have been handled just now
        elif sent_s - since_s > REBALANCE_MS / 1000 + _SLACK_S:
            what = f"{self.member} was asked to revoke partitions before {since_s:.3f} s, has not, and is fine"
            self.holdings.fail("members that revoke nothing are removed", what)

    def _check_instance(self, sent_s: float) -> None:
        if self.instance is None:
            return
        holder, until_s = self.holdings.instances.get(self.instance, ("", -1.0))
        if holder != self.member and self._now_s() < until_s:
            what = f"{self.member} has the place of {holder}, which may be there until {until_s:.3f} s"
            self.holdings.fail("a group.instance.id has one member", what)

    def _refused(self, error: Err, sent_s: float, owned: Collection[Unit] | None) -> None:
        """Whether the error is one that the request may get."""
        holdings, now_s = self.holdings, self._now_s()
        if error is Err.FENCED_MEMBER_EPOCH:
            holdings.log.catch_up()
            standing = holdings.log.standings.get(self.member)
            if standing is not None and (
                standing.epoch == self.epoch
                or (standing.previous == self.epoch and owned is not None and standing.assigned.issuperset(owned))
            ):
                holdings.fail("a valid member epoch is not fenced", f"{self.member} came with {self.epoch}: {standing}")
        elif error in _GONE:
            owes = self._owes_s is not None and now_s >= self._owes_s + REBALANCE_MS / 1000
            if self._fine_s >= 0 and now_s < self._fine_s + SESSION_MS / 1000 and not owes:
                what = f"{self.member} was heard of at {self._fine_s:.3f} s, and gets {error.name}"
                holdings.fail("live members are not evicted", what)
        instance, gone = self.instance or "", (*_GONE, Err.FENCED_MEMBER_EPOCH, Err.FENCED_INSTANCE_ID)
        if error in gone and holdings.instances.get(instance, ("",))[0] == self.member:
            holdings.instances.pop(instance)

    async def _leave(self, broker: int) -> None:
        """For good, or for now; then it comes back as another process."""
        for_now = self.instance is not None and self.rng.random() < 0.5
        self.holdings.drop(self.member)
        if self.instance is not None:
            self.holdings.instances.pop(self.instance, None)
        epoch = _LEAVE_FOR_NOW if for_now else _LEAVE
        request = self._last_request(epoch)
        gone, sent_s = self.member, self._now_s()
        try:
            answer = await self._sent(request, broker, sent_s)
        finally:
            self._another_id()
        if answer.error_code == 0:
            if answer.member_epoch != epoch:
                self.holdings.fail(
                    "responses follow the coordinator's rules",
                    f"{gone} left with {epoch}, received {answer.member_epoch}",
                )
            if not for_now:
                self.holdings.log.catch_up()
                if gone in self.holdings.log.members:
                    self.holdings.fail("members that left are removed", gone)
        await asyncio.sleep(self.rng.choice((0.1, 0.5, 1.5)))

    # --- what must be refused

    async def _ask_in_vain(self, broker: int) -> Err:
        """Send an invalid request whose error depends on the member only; returns the response's error. An unexpected one is a
        breach."""
        request, wanted = self.rng.choice(self._probes())()
        answer = await self._sent(request, broker, self._now_s())
        error = Err(answer.error_code)
        if error not in wanted | _MOVED | _GONE:
            what = f"{request.member_id} with {request.member_epoch} gets {error.name}, not {[e.name for e in wanted]}"
            self.holdings.fail("responses follow the coordinator's rules", what)
        elif error in _GONE and error not in wanted:
            self._refused(error, self._now_s(), None)
            self._begin_anew()
        return error

    def _probes(self) -> tuple[Callable[[], tuple[Any, set[Err]]], ...]:
        return self._from_the_future, self._from_the_past, self._from_nobody, self._without_instance

    def _foreign(self) -> Unit:
        """A partition that the member can't own, since it does not exist."""
        return self.context.kafka.state.topics[TOPIC].topic_id, 99

    def _from_the_future(self) -> tuple[Any, set[Err]]:
        return self._request(self.epoch + 1, full=False, owned=self.owned), {Err.FENCED_MEMBER_EPOCH}

    def _from_the_past(self) -> tuple[Any, set[Err]]:
        """The epoch before is good with a list of what it has, and with no other."""
        if not 0 < self.previous < self.epoch:
            return self._from_the_future()
        owned = self.rng.choice((None, [self._foreign()]))
        return self._request(self.previous, full=False, owned=owned), {Err.FENCED_MEMBER_EPOCH}

    def _from_nobody(self) -> tuple[Any, set[Err]]:
        request = ConsumerGroupHeartbeatRequest(GROUP, "nobody", self.rng.choice((1, 5, _LEAVE)))
        return request, {Err.UNKNOWN_MEMBER_ID}

    def _without_instance(self) -> tuple[Any, set[Err]]:
        return ConsumerGroupHeartbeatRequest(GROUP, "nobody", _LEAVE_FOR_NOW), {Err.INVALID_REQUEST}

    # --- commits

    async def _work(self, broker: int) -> None:
        """Commit what it works on; now and then with an epoch that isn't its own."""
        dice = self.rng.random()
        if self.owned and not self._lost:
            mine = self._mine(self.owned & (self.assigned or frozenset()))
            if mine and dice < 0.75:
                await self._commit(broker, mine[:2], self.epoch)
            elif mine and dice < 0.85 and self.member not in self.holdings.murky:
                await self._commit(broker, mine[:1], self.epoch + 1)
            elif mine and dice < 0.9:
                await self._commit(broker, mine[:1], self.epoch, old=True)
        if dice > 0.8:
            await self.ask(fetch_request(self.context.partitions), broker)

    def _mine(self, units: frozenset[Unit]) -> list[int]:
        """The partitions of the topic whose offsets are committed."""
        return sorted(index for key, index in units if key == self.context.kafka.state.topics[TOPIC].topic_id)

    async def _commit(self, broker: int, indexes: list[int], epoch: int, *, old: bool = False) -> None:
        parts = [OffsetCommitRequestPartition(index, self.context.value()) for index in indexes]
        request = OffsetCommitRequest(GROUP, epoch, self.member, self.instance)
        version = _OLD if old else self._versions[OffsetCommitRequest]
        by_id = version >= _BY_ID
        topic = self.context.kafka.state.topics[TOPIC].topic_id if by_id else bytes(16)
        request.topics = [OffsetCommitRequestTopic(TOPIC, topic, parts)]
        line = await self.line(broker)
        answer = await asyncio.wait_for(line.start(request, version), _PATIENCE_S)
        error = Err(answer.topics[0].partitions[0].error_code)
        if error is not Err.NONE:
            return
        if old:
            self.holdings.fail(
                "commits are fenced by member epoch", f"{self.member} committed without one that is known as such"
            )
        elif epoch > self.epoch:
            self.holdings.fail(
                "commits are fenced by member epoch", f"{self.member} at {self.epoch} committed with {epoch}"
            )
