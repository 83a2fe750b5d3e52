"""A prober of groups: offsets of groups without members, and what administrators ask; `lives` has the members.

Every answer goes to the broker that the group's hash says. Without a response, or after a change of the coordinator, the state
of the group is unknown: the prober continues with another group.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from broker_sim.metadata import leader_election
from broker_sim.simulation.checks.answers import OFFSETS, offsets_partition
from broker_sim.simulation.workloads.probing.prober import Prober, standing
from broker_sim.simulation.workloads.raw import OTHER, TOPIC
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k16_list_groups import ListGroupsRequest
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition

__all__ = ["GroupProber", "Unsure"]

_EPOCHS_SINCE, _EPOCHS_SHOWN_SINCE = 6, 5
_MOST_METADATA = 4096

Key = tuple[str, int]
Value = tuple[int, int, str]
"""Offset, leader epoch, metadata."""


class Unsure(OSError):
    """Something else has happened meanwhile: nothing can be said of the answer."""


class GroupProber(Prober):
    """See the module. ``offsets``: of the group without members that it works with."""

    PAUSE_S = 0.04

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._number = 0
        self.group = ""
        self.offsets: dict[Key, Value] = {}
        self.fresh()

    def begin(self) -> None:
        """Begin a new process: the results of open requests are unknown."""
        super().begin()
        self.fresh()

    def fresh(self) -> None:
        """Continue with a new group id that no request has used."""
        self._number += 1
        self.group, self.offsets = f"{self.name}-group-{self._number}", {}

    def log_of(self, group: str) -> Partition | None:
        """The partition of the offsets topic that is the group's."""
        topic = self.state.topics.get(OFFSETS)
        return None if topic is None else topic.partitions[offsets_partition(group, len(topic.partitions))]

    def steady(self, group: str) -> tuple[object, ...] | None:
        """The same before and after: nothing has happened to the group's coordinator."""
        log = self.log_of(group)
        snapshot = standing(log)
        if log is None or snapshot is None:
            return None
        loaded = log.log_end_offset == log.log_start_offset or self.context.kafka.runtime.shard(log.index) is not None
        return snapshot if loaded else None

    async def ask_of(
        self, group: str, request: Any, least: int = 0, *, number: int = 0, version: int = -1
    ) -> tuple[Any, int]:
        """The coordinator's answer, and the version that it was asked in. Raises Unsure, OSError."""
        log, before, begun_s = self.log_of(group), self.steady(group), self.calm.now_s()
        if before is None or log is None:
            raise Unsure
        version = self.pick(type(request), least) if version < 0 else version
        answer = await self.request_once(request, version, log.leader, number)
        if before != self.steady(group) or not self.calm.since(begun_s):
            raise Unsure
        return answer, version

    # --- offsets

    def commit_of(self, group: str, values: dict[Key, Value], **who: Any) -> OffsetCommitRequest:
        """An OffsetCommit request of the given offsets."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, index), (offset, epoch, metadata) in values.items():
            row = OffsetCommitRequestPartition(index, offset, epoch, committed_metadata=metadata)
            topics.setdefault(topic, OffsetCommitRequestTopic(topic, partitions=[])).partitions.append(row)
        return OffsetCommitRequest(group, topics=list(topics.values()), **who)

    def places(self) -> list[Key]:
        """All partitions for which it commits."""
        topics = [self.state.topics[name] for name in (TOPIC, OTHER) if name in self.state.topics]
        return [(topic.name, index) for topic in topics for index in range(len(topic.partitions))]

    def drawn_values(self) -> dict[Key, Value]:
        """Random offsets and metadata for some partitions."""
        places = self.places()
        return {
            key: (
                self.rng.randrange(1 << self.rng.choice((7, 14, 40))), self.rng.choice((-1, 0, 5)),
                self.rng.choice(("", "m", "x" * 200, "ü")),
            )
            for key in self.rng.sample(places, self.rng.randint(1, len(places)))
        }  # fmt: skip

    async def commit_in_flight(self, group: str, **who: Any) -> dict[Key, Value]:
        """Several commits of the same partitions over one connection, none of which waits for the last answer, as a consumer sends
        them again and again. Returns what the last one leaves. Raises Unsure, OSError."""
        log, before, begun_s = self.log_of(group), self.steady(group), self.calm.now_s()
        if before is None or log is None:
            raise Unsure
        first = self.drawn_values()
        version = self.pick(OffsetCommitRequest, 7 if who.get("group_instance_id") else 2)
        line = await self.line(log.leader, 40)
        waiting, values = [], first
        for _ in range(self.rng.randint(2, 8)):
            values = {
                key: (self.rng.randrange(1 << self.rng.choice((7, 14, 40))), e, m) for key, (_, e, m) in first.items()
            }
            waiting.append(line.start(self.commit_of(group, values, **who), version))
        answers = await asyncio.wait_for(asyncio.gather(*waiting), 5)
        if before != self.steady(group) or not self.calm.since(begun_s):
            raise Unsure
        actual = [self.errors_of(answer) for answer in answers]
        wanted = [dict.fromkeys(first, Err.NONE)] * len(actual)
        if not self.expect(
            "OffsetCommit follows the coordinator's rules", f"commits in flight v{version} of {group}", actual, wanted
        ):
            raise Unsure
        return {key: (o, e if version >= _EPOCHS_SINCE else -1, m) for key, (o, e, m) in values.items()}

    async def _do_commit_in_flight(self) -> None:
        async def commit() -> None:
            self.offsets |= await self.commit_in_flight(self.group)
            await self.read_offsets(self.group, self.offsets)

        await self._doing(commit)

    def errors_of(self, answer: Any) -> dict[Key, Err]:
        """The errors of a response, by partition."""
        return {(t.name, p.partition_index): Err(p.error_code) for t in answer.topics for p in t.partitions}

    async def commit(
        self, group: str, values: dict[Key, Value], wanted: Err = Err.NONE, **who: Any
    ) -> dict[Key, Value]:
        """Commit, and be answered as ``wanted``; returns what is there then of it. Raises Unsure, OSError."""
        answer, version = await self.ask_of(
            group, self.commit_of(group, values, **who), 7 if who.get("group_instance_id") else 2
        )
        what = f"OffsetCommit v{version} of {group} {who}"
        if not self.expect(
            "OffsetCommit follows the coordinator's rules", what, self.errors_of(answer), dict.fromkeys(values, wanted)
        ):
            raise Unsure
        taken = values if wanted is Err.NONE else {}
        return {key: (o, e if version >= _EPOCHS_SINCE else -1, m) for key, (o, e, m) in taken.items()}

    async def read_offsets(self, group: str, offsets: dict[Key, Value], *, stable: bool = False) -> None:
        """Check that the group has the committed offsets. Raises Unsure, OSError."""
        places = self.places()
        by_topic: dict[str, list[int]] = {}
        for topic, index in places:
            by_topic.setdefault(topic, []).append(index)
        every = self.rng.random() < 0.4
        version = self.pick(OffsetFetchRequest, 7 if stable else 2)
        if version >= 8:
            topics = (
                None
                if every
                else [OffsetFetchRequestTopics(name, partition_indexes=asked) for name, asked in by_topic.items()]
            )
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=stable)
        else:
            named = None if every else [OffsetFetchRequestTopic(*entry) for entry in by_topic.items()]
            request = OffsetFetchRequest(group, named, require_stable=stable)
        answer, _ = await self.ask_of(group, request, version=version)
        response = answer.groups[0] if version >= 8 else answer
        self.expect(
            "acknowledged commits are returned",
            f"OffsetFetch v{version} of {group}: error",
            Err(response.error_code),
            Err.NONE,
        )
        actual = {
            (t.name, p.partition_index): (
                p.committed_offset, p.committed_leader_epoch if version >= _EPOCHS_SHOWN_SINCE else -1, p.metadata
            )
            for t in response.topics
            for p in t.partitions
        }  # fmt: skip
        nothing = {} if every else dict.fromkeys(places, (-1, -1, ""))
        shown = {key: (o, e if version >= _EPOCHS_SHOWN_SINCE else -1, m) for key, (o, e, m) in offsets.items()}
        self.expect(
            "acknowledged commits are returned", f"OffsetFetch v{version} of {group}", actual, {**nothing, **shown}
        )

    async def _doing(self, *steps: Any) -> None:
        """Do all steps; on an OSError, give up the group."""
        try:
            for step in steps:
                await step()
        except OSError:
            self.fresh()

    async def _do_commit(self) -> None:
        async def commit() -> None:
            self.offsets |= await self.commit(self.group, self.drawn_values())

        await self._doing(commit)

    async def _do_read(self) -> None:
        await self._doing(lambda: self.read_offsets(self.group, self.offsets, stable=self.rng.random() < 0.3))

    async def _do_commit_what_is_refused(self) -> None:
        async def refused() -> None:
            group, values = self.group, self.drawn_values()
            kind = self.rng.choice(("metadata", "topic", "partition", "generation", "member"))
            if kind == "metadata":
                key = (TOPIC, 0)
                good = {k: v for k, v in values.items() if k != key}
                bad = {key: (1, -1, "x" * (_MOST_METADATA + self.rng.choice((1, 900))))}
                request = self.commit_of(group, {**bad, **good})
                answer, version = await self.ask_of(group, request, 2)
                wanted = {key: Err.OFFSET_METADATA_TOO_LARGE, **dict.fromkeys(good, Err.NONE)}
                if not self.expect(
                    "OffsetCommit follows the coordinator's rules",
                    f"v{version}: errors",
                    self.errors_of(answer),
                    wanted,
                ):
                    raise Unsure
                self.offsets |= {k: (o, e if version >= _EPOCHS_SINCE else -1, m) for k, (o, e, m) in good.items()}
                if not good or self.state.config.release < (3, 8):
                    self.fresh()  # what stays of it differs from release to release
            elif kind in ("topic", "partition"):
                key = ("nowhere", 0) if kind == "topic" else (TOPIC, len(self.state.topics[TOPIC].partitions))
                await self.commit(group, {key: (1, -1, "")}, Err.UNKNOWN_TOPIC_OR_PARTITION)
            elif self.offsets and kind == "member":
                await self.commit(
                    group, values, Err.UNKNOWN_MEMBER_ID, member_id="nobody", generation_id_or_member_epoch=0
                )

        await self._doing(refused)

    async def _do_delete_offsets(self) -> None:
        async def delete() -> None:
            group, keys = self.group, [key for key in self.offsets if self.rng.random() < 0.5]
            rows = [
                OffsetDeleteRequestTopic(
                    topic, [OffsetDeleteRequestPartition(index) for name, index in keys if name == topic]
                )
                for topic in dict.fromkeys(name for name, _ in keys)
            ]
            request = OffsetDeleteRequest(group, rows)
            answer, _ = await self.ask_of(group, request)
            wanted = Err.NONE if self.offsets else Err.GROUP_ID_NOT_FOUND
            self.expect(
                "OffsetDelete follows the coordinator's rules",
                f"OffsetDelete of {group}",
                Err(answer.error_code),
                wanted,
            )
            if self.offsets and keys:
                actual = self.errors_of(answer)
                self.expect(
                    "OffsetDelete follows the coordinator's rules",
                    f"OffsetDelete of {group}",
                    actual,
                    dict.fromkeys(keys, Err.NONE),
                )
            for key in keys:
                del self.offsets[key]
            if not self.offsets:
                self.fresh()

        await self._doing(delete)

    async def _do_delete_the_group(self) -> None:
        async def delete() -> None:
            if self.rng.random() < 0.6:
                return
            group = self.group
            await self.delete(group, Err.NONE if self.offsets else Err.GROUP_ID_NOT_FOUND)
            self.offsets.clear()
            await self.read_offsets(group, {})
            await self.look(group, None)
            if self.rng.random() < 0.3:
                self.fresh()

        await self._doing(delete)

    async def delete(self, group: str, wanted: Err) -> None:
        """Delete ``group``, expecting the error ``wanted``. Raises Unsure if a fault made the response uncertain, OSError."""
        answer, _ = await self.ask_of(group, DeleteGroupsRequest([group]))
        row = answer.results[0]
        self.expect(
            "DeleteGroups follows the group's state",
            f"DeleteGroups of {group}",
            (row.group_id, Err(row.error_code)),
            (group, wanted),
        )

    # --- who looks at it

    async def look(self, group: str, state: str | None, kind: str = "") -> Any:
        """Expect that DescribeGroups and ListGroups return the group in ``state``. ``state`` None: that it does not exist. Raises
        Unsure, OSError."""
        answer, version = await self.ask_of(group, DescribeGroupsRequest([group]))
        shown = answer.groups[0]
        gone = Err.GROUP_ID_NOT_FOUND if version >= 6 else Err.NONE
        name = "DescribeGroups matches the group"
        self.expect(
            name,
            f"DescribeGroups v{version} of {group}: error",
            Err(shown.error_code),
            gone if state is None else Err.NONE,
        )
        self.expect(name, f"DescribeGroups of {group}: state", shown.group_state, state or "Dead")
        self.expect(name, f"DescribeGroups of {group}: protocol type", shown.protocol_type, kind if state else "")
        states = self.rng.choice(([], [state], ["Stable"], ["Empty", "Dead"])) if state else []
        version = self.pick(ListGroupsRequest)
        listed, _ = await self.ask_of(group, ListGroupsRequest(states if version >= 4 else []), version=version)
        if Err(listed.error_code) is Err.COORDINATOR_LOAD_IN_PROGRESS:
            return shown  # another partition of that broker is loading, and all its groups are missing from the list
        rows = [row for row in listed.groups if row.group_id == group]
        there = state is not None and (version < 4 or not states or state in states)
        self.expect(name, f"ListGroups v{version} {states}: {group} is {state}", len(rows), int(there))
        if rows:
            actual = (
                rows[0].protocol_type,
                rows[0].group_state if version >= 4 else "",
                rows[0].group_type if version >= 5 else "",
            )
            wanted = kind, state if version >= 4 else "", "classic" if version >= 5 else ""
            self.expect(name, f"ListGroups of {group}", actual, wanted)
        return shown

    async def _do_look(self) -> None:
        async def look() -> None:
            await self.look(self.group, "Empty" if self.offsets else None)

        await self._doing(look)

    async def _do_find(self) -> None:
        begun_s, group = self.calm.now_s(), self.group
        before, log = self.steady(group), self.log_of(group)
        version = self.pick(FindCoordinatorRequest)
        request = FindCoordinatorRequest(group, 0, [group, f"{group}-other"])
        answer = await self.request_once(request, version, self.broker())
        if (
            before is None
            or log is None
            or before != self.steady(group)
            or not self.calm.since(begun_s)
            or self.calm.odd
        ):
            return
        row = answer.coordinators[0] if version >= 4 else answer
        if version >= 4:
            keys = [coordinator.key for coordinator in answer.coordinators]
            self.expect("a coordinator is found by the group's hash", "keys", keys, [group, f"{group}-other"])
        wanted = Err.NONE, log.leader, self.context.kafka.hosts[log.leader - 1], 9092
        actual = Err(row.error_code), row.node_id, row.host, row.port
        self.expect(
            "a coordinator is found by the group's hash", f"FindCoordinator v{version} of {group}", actual, wanted
        )

    async def _do_ask_another_broker(self) -> None:
        group, begun_s = self.group, self.calm.now_s()
        before, log = self.steady(group), self.log_of(group)
        others = [] if log is None else [node for node in self.state.brokers if node != log.leader]
        if before is None or not others:
            return
        values = {(TOPIC, 0): (self.rng.randrange(1 << 30), -1, "astray")}
        broker = self.rng.choice(others)
        commit = await self.request_once(self.commit_of(group, values), self.pick(OffsetCommitRequest, 2), broker)
        describe = await self.request_once(DescribeGroupsRequest([group]), self.pick(DescribeGroupsRequest), broker)
        if before == self.steady(group) and self.calm.since(begun_s):
            name = "another broker is no coordinator"
            self.expect(name, f"OffsetCommit to {broker}", self.errors_of(commit), {(TOPIC, 0): Err.NOT_COORDINATOR})
            self.expect(name, f"DescribeGroups at {broker}", Err(describe.groups[0].error_code), Err.NOT_COORDINATOR)
        else:
            self.fresh()

    async def _do_move_the_coordinator(self) -> None:
        """To another broker, as after a reassignment: it loads what its log says, and nothing is lost."""
        log = self.log_of(self.group)
        others = (
            []
            if log is None
            else [node for node, broker in self.state.brokers.items() if broker.alive and node != log.leader]
        )
        if (
            log is None
            or not others
            or self.steady(self.group) is None
            or not self.calm.for_s(0.5)
            or self.rng.random() < 0.8
        ):
            return
        leader_election.move(self.state, log, self.rng.choice(others))
