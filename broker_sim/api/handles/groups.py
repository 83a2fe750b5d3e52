"""The handle of a consumer group: its state, waits for a state, and its history as text.

billing = await kafka.group("billing").stable(members=3)
await billing.committed_at_least("orders", 0, 100)
print(billing.explain())
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from broker_sim.api.handles.consumption import Consumption
from broker_sim.api.handles.in_process import ask
from broker_sim.api.handles.lag import Lag, Offsets, PartitionLag
from broker_sim.api.handles.logs import LogHandle
from broker_sim.api.wait import TIMEOUT, until
from broker_sim.common.text import UsageError, nearest, unknown
from broker_sim.coordinator import queries
from broker_sim.coordinator.classic.group import State
from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.shard import Shard
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.fields.kafka import GROUP_STATE
from broker_sim.fields.kinds import Count
from broker_sim.journal import PROBE, groups_in
from broker_sim.metadata.cluster_state import OFFSETS_TOPIC
from broker_sim.runtime.epoch_snapshot import epochs
from broker_sim.runtime.journal_observer import snapshot
from broker_sim.storage import partition_for
from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.coordinator.classic.group import ClassicGroup
    from broker_sim.coordinator.group import Group
    from broker_sim.explain.model import History
    from broker_sim.fields.names import GroupStateLiteral
    from broker_sim.metadata.cluster_state import Broker, Partition

__all__ = ["CommitProbe", "GroupHandle", "Lag", "MemberView", "Offsets"]


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member's present state. ``deferred``: "JoinGroup" or "SyncGroup" while that request is deferred. ``topics``: its subscription;
    ``assignment``: topic -> partitions; None if undecodable, and for members that are no consumers. ``worker``: of a worker of
    Connect its url, config_offset, connectors and tasks, and delay_ms while those of lost workers wait for their return. ``tasks``: of
    a member of a streams group `active`, `standby`, `warm-up` -> ids of the tasks that it has: ``0_3``."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    deferred: str | None
    leader: bool
    topics: list[str] | None
    assignment: dict[str, list[int]] | None
    worker: dict[str, Any] | None = None
    tasks: dict[str, list[str]] | None = None


_COUNT = Count(0)
_IN_EPOCHS = {
    "member_id": "member",
    "client_id": "client_id",
    "client_host": "client_host",
    "instance_id": "instance",
    "session_timeout_ms": "session_timeout_ms",
    "rebalance_timeout_ms": "rebalance_timeout_ms",
    "topics": "topics",
    "assignment": "assignment",
}
"""Attributes of a `MemberView` of a consumer group's member, and their keys in the group's snapshot."""


@dataclass(frozen=True, slots=True)
class CommitProbe:
    """The coordinator's response to a test commit. ``group``: the group of the commit; ``log``: the offsets partition."""

    error: Err
    group: str
    log: str

    @property
    def ok(self) -> bool:
        """Whether the coordinator accepted it, without an error."""
        return self.error is Err.NONE


class GroupHandle:
    """A group of ``cluster``; it need not exist yet."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.cluster, self.group_id = cluster, group_id
        self._journal = cluster.observe()

    # state

    @property
    def state(self) -> str:
        """Kafka's name of its state; ``Dead`` for a missing group, ``Unknown`` while its coordinator is loading or missing."""
        shard = self._shard()
        if isinstance(shard, Err):
            return "Unknown"
        group = None if shard is None else shard.groups.get(self.group_id)
        return State.DEAD.value if group is None else group.state_name

    @property
    def type(self) -> str:
        """The group type, as ListGroups returns it: ``classic``, ``consumer``, ``share`` or ``streams``; "" while the group is missing
        or its coordinator has not loaded it."""
        group = self._loaded()
        return "" if group is None else group.kind

    @property
    def generation(self) -> int:
        """The group's generation, 0 before the first; for consumer groups (KIP-848) and share groups the group epoch."""
        group, consumer = self._group(), self._consumer()
        if consumer is not None:
            epoch: int = consumer.stored.group_epoch
            return epoch
        return 0 if group is None else group.generation

    @property
    def members(self) -> list[MemberView]:
        """The group's members in order of joining."""
        shard, group = self._shard(), self._group()
        consumer = self._consumer()
        if consumer is not None and isinstance(shard, Shard):
            return [
                MemberView(
                    **{view: m[key] for view, key in _IN_EPOCHS.items()},
                    deferred=None,
                    leader=False,
                    tasks=m.get("tasks"),
                )
                for m in epochs(consumer, shard.topics)["members"]
            ]
        if group is None:
            return []
        return [
            MemberView(
                member_id=m["member"],
                client_id=m["client_id"],
                client_host=m["client_host"],
                instance_id=m["instance"],
                session_timeout_ms=m["session_timeout_ms"],
                rebalance_timeout_ms=m["rebalance_timeout_ms"],
                deferred=m["deferred"],
                leader=m["member"] == group.leader,
                topics=m["topics"],
                assignment=m["assignment"],
                worker=m.get("worker"),
            )
            for m in snapshot(group)["members"]
        ]

    @property
    def visible(self) -> bool:
        """Whether its coordinator is available: false while its offsets partition is loading or has no leader."""
        return not isinstance(self._shard(), Err)

    @property
    def coordinator(self) -> int | None:
        """The node id of its coordinator, or None."""
        partition = self.cluster.runtime.partition_of(self.group_id)
        return None if partition is None or partition.leader < 0 else partition.leader

    @property
    def offsets_log(self) -> LogHandle:
        """The `__consumer_offsets` partition with its records; the topic is created if missing."""
        topic = self.cluster.state.ensure_offsets_topic()
        return LogHandle(self.cluster, topic.partitions[partition_for(self.group_id, len(topic.partitions))])

    def committed(self) -> Offsets:
        """The committed offset of each partition, as OffsetFetch returns it; for share groups the start offsets."""
        if isinstance(self._consumer(), ShareGroup):
            return self.cluster.share_group(self.group_id).committed()
        shard = self._shard()
        if shard is None or isinstance(shard, Err):
            return {}
        topics = queries.committed(shard, self.group_id)
        return {
            (topic, index): committed.offset for topic, parts in topics.items() for index, committed in parts.items()
        }

    def lag(self) -> Lag:
        """Per partition that it has committed, is assigned or subscribes to: the high watermark less the committed offset, negative
        where that is beyond the log's end. Where nothing is committed, all that is in the partition counts. Of a share group: the
        records that are not done with. Kafka: ConsumerGroupCommand, LAG."""
        if isinstance(self._consumer(), ShareGroup):
            return self.cluster.share_group(self.group_id).lag()
        committed, members = self.committed(), self.members
        assigned = {
            (topic, index)
            for member in members
            for topic, indexes in (member.assignment or {}).items()
            for index in indexes
        }
        topics = {name: self.cluster.state.topics.get(name) for member in members for name in member.topics or ()}
        subscribed = {
            (name, partition.index): None for name, topic in topics.items() if topic for partition in topic.partitions
        }
        partitions = {}
        for at in {**dict.fromkeys(committed), **dict.fromkeys(sorted(assigned)), **subscribed}:
            partition = self.cluster.state.partition(*at)
            if partition is not None:
                start, end = partition.log_start_offset, partition.high_watermark
                owned = at in assigned or at not in subscribed
                stable = partition.last_stable_offset
                markers = _markers(partition, committed.get(at))
                partitions[at] = PartitionLag(
                    committed.get(at), start, end, owned, markers, stable if stable < end else None
                )
        return Lag.of(partitions)

    @property
    def generations(self) -> int:
        """The number of its generations in the journal."""
        seen = set(self._journal.generations.get(self.group_id, ()))
        now = self.generation
        return len(seen | {now} if now > 0 else seen)

    # waits

    async def wait(
        self,
        *,
        state: GroupStateLiteral | str | None = None,
        members: int | None = None,
        generation: int | None = None,
        committed: Mapping[tuple[str, int], int] | None = None,
        lag_below: int | None = None,
        reading: bool = False,
        timeout: object = TIMEOUT,
    ) -> Self:
        """Wait until all given conditions hold at once: the state, the number of members, that generation or a later one, those
        committed offsets or later ones, a total lag below that (`Lag.below`), every assigned partition fetched by its owner
        (`reading`). Returns the handle. Raises WaitTimeout, UsageError for an unknown state, or what is not a number."""
        state = None if state is None else GROUP_STATE.read(state)
        members = None if members is None else _COUNT.read(members, "members")
        generation = None if generation is None else _COUNT.read(generation, "generation")
        lag_below = None if lag_below is None else _COUNT.read(lag_below, "lag_below")
        wanted = [] if committed is None else [f"committed {_offsets_text(committed)}"]
        wanted += ["every assigned partition fetched by its owner"] if reading else []
        consumption = Consumption(self.group_id, self._journal.events if reading else ())
        parts = {"state": state, "members": members, "generation at least": generation, "lag below": lag_below}
        wanted = [f"{name} {value}" for name, value in parts.items() if value is not None] + wanted

        def holds() -> bool:
            group, consumer = self._group(), self._consumer()
            if state is not None and self.state != state:
                return False
            if consumer is not None:
                there = len(consumer.stored.members)
            else:
                there = 0 if group is None else len(group.members)
            if members is not None and there != members:
                return False
            if generation is not None and self.generation < generation:
                return False
            if committed is not None and not self._has_committed(committed):
                return False
            if lag_below is not None and not self.lag().below(lag_below):
                return False
            return not reading or self.obstacle_to_reading(consumption) is None

        def hindered() -> str:
            parts = [self.lag().obstacle(lag_below) if lag_below is not None else ""]
            parts.append((self.obstacle_to_reading(consumption) or "") if reading else "")
            return "; ".join(part for part in parts if part)

        await self._until(
            holds, ", ".join(wanted) or "nothing", timeout, seen=consumption.see if reading else None, hindered=hindered
        )
        return self

    async def reading(
        self, members: int | None = None, generation: int | None = None, timeout: object = TIMEOUT
    ) -> Self:
        """Wait until it is Stable (see `stable`) and every assigned partition has been fetched by its owner since the assignment:
        records sent afterwards are delivered, whatever the members' ``auto.offset.reset``. Also of a topic with a misspelt
        name, which a consumer's Metadata request creates: `explain` names it. Returns the handle."""
        state = State.STABLE.value
        return await self.wait(state=state, members=members, generation=generation, reading=True, timeout=timeout)

    async def stable(
        self, members: int | None = None, generation: int | None = None, timeout: object = TIMEOUT
    ) -> Self:
        """Wait until it is Stable with that number of members, in that generation or a later one. Returns the handle."""
        return await self.wait(state=State.STABLE.value, members=members, generation=generation, timeout=timeout)

    async def empty(self, timeout: object = TIMEOUT) -> Self:
        """Wait until it exists and has no members."""
        return await self.wait(state=State.EMPTY.value, timeout=timeout)

    async def state_is(self, state: GroupStateLiteral | str, timeout: object = TIMEOUT) -> Self:
        """Wait until it enters that state, even for a moment."""
        state = GROUP_STATE.read(state)

        def passes(event: Mapping[str, Any]) -> bool:
            if event["event"] == "epochs":
                return bool(event["group"] == self.group_id and event["state"] == state)
            if event["event"] != "group" or event["group"] != self.group_id:
                return False
            return bool(event["after"] is not None and event["after"]["state"] == state)

        await self._until(lambda: self.state == state, f"state {state}", timeout, seen=passes)
        return self

    async def generation_is(self, generation: int, timeout: object = TIMEOUT) -> Self:
        """Wait for exactly that generation."""
        await self._until(lambda: self.generation == generation, f"generation {generation}", timeout)
        return self

    async def generation_at_least(self, generation: int, timeout: object = TIMEOUT) -> Self:
        """Wait for that generation or a later one."""
        return await self.wait(generation=generation, timeout=timeout)

    async def committed_at_least(
        self,
        topic: str | Mapping[tuple[str, int], int],
        partition: int | None = None,
        offset: int | None = None,
        timeout: object = TIMEOUT,
    ) -> Self:
        """Wait until that offset or a later one is committed: ``("orders", 0, 100)``, or ``{("orders", 0): 100, ...}``."""
        if isinstance(topic, str):
            if partition is None or offset is None:
                raise UsageError(
                    "committed_at_least takes a topic, a partition and an offset, or {(topic, partition): offset}"
                )
            wanted = {(topic, partition): offset}
        else:
            wanted = dict(topic)
        return await self.wait(committed=wanted, timeout=timeout)

    def commit(self, timeout: object = TIMEOUT) -> Coroutine[Any, Any, Offsets]:
        """Wait for the next commit after this call, and return its offsets."""
        coming = self._journal.next(event="offsets", group=self.group_id, timeout=timeout)

        async def offsets() -> Offsets:
            committed = (await coming).offsets.items()
            return {split_name(name): offset for name, offset in committed if offset is not None}

        return offsets()

    async def lag_below(self, records: int, timeout: object = TIMEOUT) -> Self:
        """Wait until its partitions have records and its total lag is below ``records``. The condition is false while a partition
        of a subscribed topic has no owner, or an offset is committed beyond the log end (`Lag.below`)."""
        return await self.wait(lag_below=records, timeout=timeout)

    async def member_gone(self, member: str, timeout: object = TIMEOUT) -> Self:
        """Wait until no member has that member id, instance id or client id."""
        await self._until(lambda: not self._find(member), f"member {member!r} removed", timeout)
        return self

    def obstacle_to_reading(self, consumption: Consumption) -> str | None:
        """Partitions that the members have not fetched, as text; None if they have fetched all that they are assigned, at least one."""
        members = self.members
        if not any(member.assignment for member in members):
            return "no member is assigned a partition"
        unread = self._unread(consumption, members)
        shown = [f"{topic}-{index} by {member.client_id or member.member_id}" for topic, index, member in unread[:8]]
        return f"not fetched yet: {', '.join(shown)}" + (", ..." if unread[8:] else "") if unread else None

    # deeds

    async def commit_probe(self, timeout: object = TIMEOUT) -> CommitProbe:
        """Test whether its coordinator accepts commits now, through the handler of OffsetCommit. The group is not affected: the
        commit is made for another group in the same offsets partition, which is deleted afterwards. Raises WaitTimeout if there is
        no response."""
        log = self.offsets_log
        what = f"an answer to a commit in {log.name}"
        name = _neighbour(self.group_id, log)
        broker = self.cluster.state.brokers.get(log.leader)
        if broker is None or not broker.alive:
            return CommitProbe(Err.COORDINATOR_NOT_AVAILABLE, name, log.name)
        error = await self._probe(broker, name, timeout, what)
        if error is Err.NONE:
            from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest

            delete = DeleteGroupsRequest(groups_names=[name])
            await ask(self.cluster, broker, ApiKey.DELETE_GROUPS, 2, delete, timeout=timeout, what=what)
        return CommitProbe(error, name, log.name)

    async def _probe(self, broker: Broker, name: str, timeout: object, what: str) -> Err:
        from kafka_wire.messages.k08_offset_commit import (
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
        )

        rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
        request = OffsetCommitRequest(
            group_id=name,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=OFFSETS_TOPIC, partitions=rows)],
        )
        response = await ask(self.cluster, broker, ApiKey.OFFSET_COMMIT, 8, request, timeout=timeout, what=what)
        return Err(response.topics[0].partitions[0].error_code)

    async def remove(self, member: str, timeout: object = TIMEOUT) -> None:
        """Remove a member by its member id, instance id or client id, with a LeaveGroup as an administrator sends it. Raises
        UsageError for an unknown member, or if the coordinator refuses."""
        from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity

        members = self._find(member)
        if not members:
            names = [name for m in self.members for name in (m.member_id, m.instance_id, m.client_id) if name]
            raise unknown("member", member, dict.fromkeys(names), of=f"group {self.group_id!r}")
        leader = self.coordinator
        if leader is None:
            raise UsageError(f"group {self.group_id!r} has no coordinator")
        leavers = [
            MemberIdentity(member_id="" if m.instance_id else m.member_id, group_instance_id=m.instance_id)
            for m in members
        ]
        request = LeaveGroupRequest(group_id=self.group_id, members=leavers)
        broker, what = self.cluster.state.brokers[leader], f"an answer to the removal of {member!r}"
        response = await ask(self.cluster, broker, ApiKey.LEAVE_GROUP, 4, request, timeout=timeout, what=what)
        errors = [response.error_code, *(member.error_code for member in response.members)]
        error = next((Err(code) for code in errors if code), Err.NONE)
        if error is not Err.NONE:
            raise UsageError(f"the coordinator of {self.group_id!r} does not remove {member!r}: {error.name}")

    # what became of it

    def history(self) -> History:
        """The group's history from the journal: rebalances, members, errors."""
        from broker_sim.explain import history

        return history(self._journal.events, self.group_id)

    def explain(self, generation: int | None = None) -> str:
        """Explain the group's rebalances, as text: why they began, which member delayed them, for how long, and how they ended; for one
        generation (or epoch) or all."""
        from broker_sim.explain import explain

        return explain(self._journal.events, self.group_id, generation)

    def timeline(self) -> str:
        """The group's history as a text timeline."""
        from broker_sim.explain.terminal import timeline

        return timeline(self._journal.events, self.group_id)

    def __repr__(self) -> str:
        return f"<group {self.group_id!r}: {', '.join(self._now())}>"

    # look-ups

    def _shard(self) -> Shard | Err | None:
        """The group's shard; the error of requests to it if it is not available; None while there is no offsets topic."""
        partition: Partition | None = self.cluster.runtime.partition_of(self.group_id)
        return None if partition is None else self.cluster.runtime.shard_of(partition)

    def _group(self) -> ClassicGroup | None:
        shard = self._shard()
        return shard.classic(self.group_id) if isinstance(shard, Shard) else None

    def _loaded(self) -> Group | None:
        """The group, of whatever type, if its coordinator has it."""
        shard = self._shard()
        return shard.groups.get(self.group_id) if isinstance(shard, Shard) else None

    def _consumer(self) -> EpochGroup[Any] | None:
        """The group, if it is epoch-based: of consumers, share consumers or Kafka Streams."""
        group = self._loaded()
        return group if isinstance(group, EpochGroup) else None

    def _find(self, member: str) -> list[MemberView]:
        """The member of that member id or instance id, else all of that client id."""
        members = self.members
        exact = [m for m in members if member in (m.member_id, m.instance_id)]
        return exact or [m for m in members if m.client_id == member]

    def _has_committed(self, wanted: Mapping[tuple[str, int], int]) -> bool:
        committed = self.committed()
        return all(committed.get(partition, -1) >= offset for partition, offset in wanted.items())

    def _unread(self, consumption: Consumption, members: Sequence[MemberView]) -> list[tuple[str, int, MemberView]]:
        """Topic, partition and owner of what was assigned and not fetched since."""
        if isinstance(self._consumer(), ShareGroup):
            return self.cluster.share_group(self.group_id)._unread(consumption, members)
        return consumption.unread(self.cluster.state, members)

    async def _until(
        self,
        condition: Callable[[], object],
        wanted: str,
        timeout: object,
        seen: Callable[[Mapping[str, Any]], object] | None = None,
        hindered: Callable[[], str] = str,
    ) -> None:
        """``hindered()`` names what isn't so yet, beyond what `_now` says."""

        def now() -> str:
            obstacle = hindered()
            return ", ".join(part for part in (*self._now(lag=not obstacle.startswith("lag ")), obstacle) if part)

        what = f"group {self.group_id!r}: {wanted}"
        await until(condition, self._journal, timeout, what, seen=seen, now=now, group=self.group_id)

    def _now(self, *, lag: bool = True) -> list[str]:
        """The group's present state as texts, with or without its lag."""
        members = self.members
        if not members and self.state == State.DEAD.value and not any(self._is_about(e) for e in self._journal.events):
            meant = nearest(self.group_id, self._others())
            return [f"no group {self.group_id!r}" + (f"; did you mean {meant!r}?" if meant else "")]
        waiting = [f"{m.client_id or m.member_id} in {m.deferred}" for m in members if m.deferred]
        parts = [self.state, f"generation {self.generation}", f"{len(members)} members"]
        if waiting:
            parts.append(f"waiting: {', '.join(waiting)}")
        committed = self.committed()
        if committed:
            parts += [f"committed {_offsets_text(committed)}", *([f"lag {self.lag().total}"] if lag else [])]
        return parts

    def _is_about(self, event: Mapping[str, Any]) -> bool:
        return event.get("group") == self.group_id

    def _others(self) -> list[str]:
        """The groups that there are or were."""
        there = [name for _, shard in self.cluster.runtime.loaded() for name in shard.groups]
        return [name for name in dict.fromkeys([*there, *groups_in(self._journal.events)]) if name != self.group_id]


def ids_of(cluster: Cluster) -> list[str]:
    """The ids of all groups that a coordinator has in memory, but for those of commit probes."""
    shards = (shard for broker in cluster.brokers for shard in cluster.runtime.shards(broker))
    names = (name for shard in shards if isinstance(shard, Shard) for name in shard.groups)
    return sorted(name for name in names if not name.startswith(PROBE))


def split_name(name: str) -> tuple[str, int]:
    """The topic and the index of a partition's name: ``orders-0`` -> ``("orders", 0)``. Raises ValueError if no index follows."""
    topic, _, index = name.rpartition("-")
    return topic, int(index)


def _offsets_text(offsets: Mapping[tuple[str, int], int]) -> str:
    shown = [f"{topic}-{index}: {offset}" for (topic, index), offset in sorted(offsets.items())]
    return "{" + ", ".join(shown[:8]) + (", ...}" if len(shown) > 8 else "}")


def _neighbour(group_id: str, log: LogHandle) -> str:
    """A group id of the probe's own in the same offsets partition."""
    count = len(log.partition.topic.partitions)
    number = 0
    while partition_for(f"{PROBE}-{number}", count) != log.index:
        number += 1
    return f"{PROBE}-{number}"


_FEW = 16
"""So many offsets of lag may be markers alone: one that is larger has records in it."""


def _markers(partition: Partition, committed: int | None) -> int:
    """Number of markers of transactions between the committed offset and the high watermark; 0 if there are records, too."""
    end = partition.high_watermark
    if committed is None or not partition.log_start_offset <= committed < end <= committed + _FEW:
        return 0
    there = [batch.header for batch in partition.log.batches(committed) if batch.header.base_offset < end]
    return end - committed if all(header.is_control for header in there) else 0
