"""Facts about requests, for every API, and the form of their bodies in the journal."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from broker_sim.requests.bodies import MOST_BYTES, MOST_TEXT, MOST_VALUES, to_json
from broker_sim.requests.facts import RequestFacts, carried_by, facts_of
from kafka_wire.api_keys import ApiKey
from kafka_wire.codec import encode
from kafka_wire.messages import consumer_protocol as consumers
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
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
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafka_wire.messages.k15_describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.k75_describe_topic_partitions import DescribeTopicPartitionsRequest
from tests.data_plane.helpers import batch
from tests.protocol.generate import EVERY, MESSAGES, random_message, versions

ORDERS = b"o" * 16


def names(topic_id: bytes) -> str | None:
    return "orders" if topic_id == ORDERS else None


@pytest.mark.parametrize(
    ("request_", "version", "facts"),
    [
        (HeartbeatRequest("g", 1, "m", "i"), 4, RequestFacts(("g",), ("m",), ("i",))),
        (JoinGroupRequest("g"), 9, RequestFacts(("g",))),
        (
            OffsetCommitRequest(
                "g", 1, "m", topics=[OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(3)])]
            ),
            8,
            RequestFacts(("g",), ("m",), (), (("orders", 3),)),
        ),
        (
            LeaveGroupRequest("g", members=[MemberIdentity("m1"), MemberIdentity("", "i2")]),
            5,
            RequestFacts(("g",), ("m1",), ("i2",)),
        ),
        (LeaveGroupRequest("g", "m"), 2, RequestFacts(("g",), ("m",))),
        (
            OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", [1, 2])]),
            7,
            RequestFacts(("g",), (), (), (("orders", 1), ("orders", 2))),
        ),
        (
            OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup("g", "m", 1, [OffsetFetchRequestTopics("orders", partition_indexes=[1])]),
                    OffsetFetchRequestGroup("h", topics=None),
                ]
            ),
            9,
            RequestFacts(("g", "h"), ("m",), (), (("orders", 1),), every_topic=True),
        ),
        (FindCoordinatorRequest("g"), 3, RequestFacts(("g",))),
        (FindCoordinatorRequest("t", 1), 3, RequestFacts(transactional_ids=("t",))),
        (FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4, RequestFacts(("g", "h"))),
        (DeleteGroupsRequest(["g"]), 2, RequestFacts(("g",))),
        (
            MetadataRequest([MetadataRequestTopic(name="orders"), MetadataRequestTopic(ORDERS, None)]),
            12,
            RequestFacts((), (), (), (("orders", -1),) * 2),
        ),
        (MetadataRequest(None), 9, RequestFacts(every_topic=True)),
        (DescribeTopicPartitionsRequest(), 0, RequestFacts(every_topic=True)),
        (OffsetFetchRequest("g", None), 7, RequestFacts(("g",), every_topic=True)),
        (
            ProduceRequest(
                topic_data=[
                    TopicProduceData("", ORDERS, [PartitionProduceData(2)]),
                    TopicProduceData("", b"x" * 16, [PartitionProduceData(0)]),
                ]
            ),
            13,
            RequestFacts((), (), (), (("orders", 2), ("", 0))),
        ),
        (DeleteTopicsRequest([DeleteTopicState(None, ORDERS)]), 6, RequestFacts((), (), (), (("orders", -1),))),
        (DeleteTopicsRequest(topic_names=["orders"]), 5, RequestFacts((), (), (), (("orders", -1),))),
        (
            DescribeConfigsRequest([DescribeConfigsResource(2, "orders"), DescribeConfigsResource(4, "1")]),
            4,
            RequestFacts((), (), (), (("orders", -1),)),
        ),
    ],
    ids=lambda value: f"v{value}" if isinstance(value, int) else type(value).__name__.replace("RequestFacts", ""),
)
def test_a_request_is_about(request_: Any, version: int, facts: RequestFacts) -> None:
    assert facts_of(request_, version, names=names) == facts


def test_a_request_is_about_what_its_session_holds() -> None:
    request = FetchRequest(topics=[FetchTopic(topic_id=ORDERS, partitions=[FetchPartition(1)])])
    held = [("", ORDERS, 0), ("", ORDERS, 1)]
    assert facts_of(request, 13, names=names, held=held).topics == (("orders", 1), ("orders", 0))
    assert facts_of(request, 13, names=names).topics == (("orders", 1),)


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.kafka_name)
def test_every_request_has_facts_of_the_kinds_that_its_api_carries(key: int) -> None:
    rng = Random(key)
    cls: Any = next(cls for cls in MESSAGES if cls.__spec__.api_key == key and cls.__name__.endswith("Request"))
    seen: set[str] = set()
    for version in versions(cls):
        for _ in range(60):
            request = random_message(rng, cls, version, plausible=True)
            for name in ("key_type", "resources"):
                if name == "key_type" and hasattr(request, name):
                    request.key_type = rng.choice((0, 1))
            for resource in getattr(request, "resources", ()):
                resource.resource_type = 2
            facts = facts_of(request, version)
            seen |= {"group"} if facts.groups else set()
            seen |= {"member"} if facts.members or facts.instances else set()
            seen |= {"transactional_id"} if facts.transactional_ids else set()
            seen |= {"topic"} if facts.topics else set()
            seen |= {"partition"} if any(index >= 0 for _, index in facts.topics) else set()
    assert seen == carried_by(key)


# --- bodies -------------------------------------------------------------------------------------------------------------


def test_every_message_can_be_shown_as_json() -> None:
    rng = Random("bodies")
    for cls, version in EVERY:
        if cls.__module__.rpartition(".")[2][0] != "k":
            continue
        for _ in range(3):
            message: Any = random_message(rng, cls, version)
            shown = to_json(message, version)
            assert shown is not None
            json.dumps(shown)
            assert set(shown) == {name for name, spec in message.__fields__ if version in spec.versions}


def subscription(version: int = 3) -> bytes:
    owned = [consumers.ConsumerProtocolSubscriptionTopicPartition("orders", [0, 2])]
    return version.to_bytes(2, "big") + encode(
        consumers.ConsumerProtocolSubscription(["orders", "bills"], None, owned, 5, "rack-1"), version
    )


def assignment(user_data: bytes | None = None) -> bytes:
    topics = [consumers.ConsumerProtocolAssignmentTopicPartition("orders", [1, 3])]
    return b"\0\0" + encode(consumers.ConsumerProtocolAssignment(topics, user_data), 0)


def test_subscriptions_and_assignments_are_decoded() -> None:
    join = JoinGroupRequest(
        "g", protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", subscription())]
    )
    assert to_json(join, 5)["protocols"][0]["metadata"] == {  # type: ignore[index]
        "version": 3,
        "topics": ["orders", "bills"],
        "owned_partitions": {"orders": [0, 2]},
        "generation_id": 5,
        "rack_id": "rack-1",
    }
    sync = SyncGroupRequest("g", assignments=[SyncGroupRequestAssignment("m", assignment(b"xyz"))])
    assert to_json(sync, 3)["assignments"][0]["assignment"] == {  # type: ignore[index]
        "version": 0,
        "assigned_partitions": {"orders": [1, 3]},
        "user_data": {"base64": "eHl6"},
    }
    answer = SyncGroupResponse(assignment=assignment())
    assert to_json(answer, 3)["assignment"] == {"version": 0, "assigned_partitions": {"orders": [1, 3]}}  # type: ignore[index]
    described = DescribeGroupsResponse(
        groups=[
            DescribedGroup(
                protocol_type="consumer",
                members=[DescribedGroupMember("m", None, "c", "/h", subscription(0), assignment())],
            )
        ]
    )
    member = to_json(described, 5)["groups"][0]["members"][0]  # type: ignore[index]
    assert member["member_metadata"] == {"version": 0, "topics": ["orders", "bills"]}
    assert member["member_assignment"]["assigned_partitions"] == {"orders": [1, 3]}


@pytest.mark.parametrize("metadata", [b"\0", b"\0\1junk", subscription() + b"!", b"\xff\xff", b""])
def test_what_is_no_subscription_stays_bytes(metadata: bytes) -> None:
    join = JoinGroupRequest("g", protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", metadata)])
    assert set(to_json(join, 5)["protocols"][0]["metadata"]) == {"base64"}  # type: ignore[index]


def test_another_protocol_type_stays_bytes() -> None:
    join = JoinGroupRequest(
        "g", protocol_type="connect", protocols=[JoinGroupRequestProtocol("compatible", subscription())]
    )
    assert set(to_json(join, 5)["protocols"][0]["metadata"]) == {"base64"}  # type: ignore[index]


def test_records_are_counted() -> None:
    data = [
        PartitionProduceData(0, batch(3) + batch(2)),
        PartitionProduceData(1, None),
        PartitionProduceData(2, b"junk" * 30),
    ]
    shown = to_json(ProduceRequest(topic_data=[TopicProduceData("orders", partition_data=data)]), 9)
    assert shown is not None
    rows = [row["records"] for row in shown["topic_data"][0]["partition_data"]]
    assert rows == [{"bytes": len(batch(3) + batch(2)), "records": 5}, None, {"bytes": 120, "records": 0}]


def test_sizes_are_bounded() -> None:
    protocols = [JoinGroupRequestProtocol("x" * 5000, bytes(MOST_BYTES + 1))]
    shown = to_json(JoinGroupRequest("g", protocol_type="other", protocols=protocols), 5)
    assert shown is not None
    assert len(shown["protocols"][0]["name"]) == MOST_TEXT + 1
    assert shown["protocols"][0]["metadata"] == {"bytes": MOST_BYTES + 1}
    many = MetadataRequest([MetadataRequestTopic(name=f"t{number}") for number in range(3 * MOST_VALUES)])
    topics = to_json(many, 9)["topics"]  # type: ignore[index]
    assert len(topics) <= MOST_VALUES
    assert topics[-1] == {"more": 3 * MOST_VALUES - len(topics) + 1}
