"""Requests of group members for the bodies of tests/stuck, and what their answers say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import OffsetCommitRequest
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k16_list_groups import ListGroupsRequest
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.conformance.driver import commit_request, fetch_request, subscription
from tests.stuck.target import TOPIC, Answer, Asked, Stuck

PARTITION = (TOPIC, 0)


def error_of(answer: Answer) -> Err:
    """The one error of an answer: its own, that of the only group asked about, or of the only partition."""
    response = answer.response
    for inner in ("groups", "results", "coordinators", "topics", "partitions"):
        if getattr(response, "error_code", Err.NONE) != Err.NONE:
            break
        rows = getattr(response, inner, None)
        if rows and inner != "members":
            response = rows[0]
    return Err(response.error_code)


def commit(group: str, offset: int, **fields: Any) -> tuple[OffsetCommitRequest, int]:
    return commit_request(group, {PARTITION: offset}, **fields), 8


def fetch(group: str, *, stable: bool = False) -> tuple[Any, int]:
    return fetch_request(group, [PARTITION], 8, require_stable=stable), 8


def offset_of(answer: Answer) -> int:
    """The committed offset in an OffsetFetch answer without errors."""
    assert error_of(answer) is Err.NONE, answer.response
    offset: int = answer.response.groups[0].topics[0].partitions[0].committed_offset
    return offset


def describe_group(group: str) -> tuple[DescribeGroupsRequest, int]:
    return DescribeGroupsRequest([group]), 5


async def state_of(kafka: Stuck, group: str, *, broker: int = 1) -> str:
    """The state that DescribeGroups shows, at once."""
    answer = kafka.at_once(await kafka.ask(*describe_group(group), broker=broker))
    assert error_of(answer) is Err.NONE, answer.response
    state: str = answer.response.groups[0].group_state
    return state


async def members_of(kafka: Stuck, group: str, *, broker: int = 1) -> set[str]:
    """The member ids that DescribeGroups shows."""
    answer = kafka.at_once(await kafka.ask(*describe_group(group), broker=broker))
    return {member.member_id for member in answer.response.groups[0].members}


async def listed(kafka: Stuck, *groups: str) -> dict[str, str]:
    """Group id -> state of those `groups` that ListGroups shows, at once."""
    answer = kafka.at_once(await kafka.ask(ListGroupsRequest(), 4))
    assert error_of_list(answer) is Err.NONE
    return {group.group_id: group.group_state for group in answer.response.groups if group.group_id in groups}


def error_of_list(answer: Answer) -> Err:
    return Err(answer.response.error_code)


async def fetched(kafka: Stuck, group: str, *, broker: int = 1) -> int:
    """The offset that a plain OffsetFetch shows, at once; -1: none."""
    return offset_of(kafka.at_once(await kafka.ask(*fetch(group), broker=broker)))


def delete_group(group: str) -> tuple[DeleteGroupsRequest, int]:
    return DeleteGroupsRequest([group]), 2


def delete_offset(group: str) -> tuple[OffsetDeleteRequest, int]:
    return OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(0)])]), 0


class Member:
    """A member of `group`: what it says, and what it was told."""

    def __init__(self, kafka: Stuck, group: str, name: str = "m", **options: Any) -> None:
        self.kafka, self.group, self.name = kafka, group, name
        self.instance: str | None = options.get("instance")
        self.session_ms: int = options.get("session_ms", 60_000)
        self.rebalance_ms: int = options.get("rebalance_ms", 60_000)
        self.topics: tuple[str, ...] = (TOPIC,)
        self.id = ""
        self.generation = -1

    def start_join(self, **fields: Any) -> Asked:
        given: dict[str, Any] = {
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol("range", subscription(*self.topics))],
        }
        return self.kafka.start(JoinGroupRequest(self.group, **{**given, **fields}), 9, client_id=self.name)

    async def join(self) -> Answer:
        """JoinGroup and its answer, whatever it is; the first one of a dynamic member fetches the id before."""
        if not self.id and self.instance is None:
            answer = await self.start_join().answer()
            assert error_of(answer) == Err.MEMBER_ID_REQUIRED, answer.response
            self.id = answer.response.member_id
        return self.took(await self.start_join().answer())

    def took(self, answer: Answer) -> Answer:
        """The member takes id and generation over from a JoinGroup's answer."""
        if answer.response.error_code == Err.NONE:
            self.id, self.generation = answer.response.member_id, answer.response.generation_id
        return answer

    def start_sync(self, assignments: Mapping[str, bytes] | None = None) -> Asked:
        rows = [SyncGroupRequestAssignment(*item) for item in (assignments or {}).items()]
        request = SyncGroupRequest(self.group, self.generation, self.id, self.instance, "consumer", "range", rows)
        return self.kafka.start(request, 5, client_id=self.name)

    def start_heartbeat(self, **fields: Any) -> Asked:
        given = {"generation_id": self.generation, "member_id": self.id, "group_instance_id": self.instance}
        return self.kafka.start(HeartbeatRequest(self.group, **{**given, **fields}), 4, client_id=self.name)

    async def heartbeat(self, **fields: Any) -> Answer:
        return await self.start_heartbeat(**fields).answer()

    def start_leave(self) -> Asked:
        request = LeaveGroupRequest(self.group, "", [MemberIdentity(self.id, self.instance)])
        return self.kafka.start(request, 5, client_id=self.name)

    def start_commit(self, offset: int, **fields: Any) -> Asked:
        given = {
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        return self.kafka.start(*commit(self.group, offset, **{**given, **fields}), client_id=self.name)


async def stable(kafka: Stuck, group: str, count: int = 1, **options: Any) -> list[Member]:
    """A Stable group of `count` members, the leader first, who were assigned b"<name>"."""
    members = [Member(kafka, group, f"m{number}", **options) for number in range(1, count + 1)]
    if options.get("instance"):
        for member in members:
            member.instance = f"{options['instance']}-{member.name}"
    await members[0].join()
    for newcomer in members[1:]:
        if newcomer.instance is None:
            newcomer.id = (await newcomer.start_join().answer()).response.member_id
    if count > 1:
        joins = [member.start_join() for member in members[1:]]
        await preparing(kafka, group)
        joins.insert(0, members[0].start_join())
        for member, join in zip(members, joins, strict=True):
            answer = member.took(await join.answer())
            assert error_of(answer) == Err.NONE, answer.response
    await sync(members)
    return members


async def sync(members: list[Member]) -> None:
    assignments = {member.id: member.name.encode() for member in members}
    asked = [member.start_sync(assignments if member is members[0] else None) for member in members]
    for one in asked:
        answer = await one.answer()
        assert error_of(answer) == Err.NONE, answer.response


async def rebalance(kafka: Stuck, members: list[Member]) -> None:
    """The followers change their subscription, everybody joins anew: the group waits for the leader's assignment."""
    for member in members[1:]:
        member.topics = (*member.topics, f"more-{len(member.topics)}")
    joins = [member.start_join() for member in members[1:]]
    await preparing(kafka, members[0].group)
    joins.insert(0, members[0].start_join())
    for member, join in zip(members, joins, strict=True):
        answer = member.took(await join.answer())
        assert error_of(answer) is Err.NONE, answer.response


async def preparing(kafka: Stuck, group: str) -> None:
    """Polls until a rebalance has begun."""

    async def seen() -> bool:
        answer = await kafka.ask(*describe_group(group))
        state: str = answer.response.groups[0].group_state
        return state == "PreparingRebalance"

    await kafka.until(f"{group} to be PreparingRebalance", seen)
