"""A group.instance.id under a new member id: a restart, another client, or two that fence each other."""

from __future__ import annotations

import pytest

from broker_sim import Cluster
from kafka_wire.errors import Err
from tests.handles.members import Member, commit_error

pytestmark = pytest.mark.kafka(topics={"orders": 1}, clock="manual")


async def taken(kafka: Cluster, client_id: str) -> Member:
    member = await Member.connect(kafka, client_id=client_id, instance="web-0")
    await member.enter()
    return member


def told(kafka: Cluster) -> str:
    return " ".join(kafka.group("billing").explain().split())


async def test_a_client_that_was_restarted(kafka: Cluster) -> None:
    await (await taken(kafka, "pod-1")).close()
    await (await taken(kafka, "pod-1")).close()
    assert "The static member web-0 rejoined with a new member id; no rebalance was needed." in told(kafka)
    assert "replaced" not in told(kafka)


async def test_another_client_with_the_same_group_instance_id(kafka: Cluster) -> None:
    one, two = await taken(kafka, "pod-1"), await taken(kafka, "pod-2")
    words = "pod-2 at /127.0.0.1 replaced pod-1 at /127.0.0.1"
    behind = ": it joined with the same group.instance.id, web-0; no rebalance was needed."
    assert f"{words}{behind}" in told(kafka)
    error = commit_error(await one.commit(1))
    assert error in (Err.FENCED_INSTANCE_ID, Err.UNKNOWN_MEMBER_ID)
    assert f"{words}, which then got {error.name}{behind}" in told(kafka)
    await one.close()
    await two.close()


@pytest.mark.parametrize("other", ["pod-1", "pod-2"])
async def test_two_processes_that_fence_each_other(kafka: Cluster, other: str) -> None:
    members = []
    for number in range(6):
        members.append(await taken(kafka, ("pod-1", other)[number % 2]))
        for old in members[:-1]:
            assert commit_error(await old.commit(1)) is not Err.NONE
        await kafka.time.advance("5s")
    [_, story] = told(kafka).split("The static member ")
    who = (
        "pod-1 at /127.0.0.1 and pod-2 at /127.0.0.1"
        if other == "pod-2"
        else "several processes of pod-1 at /127.0.0.1"
    )
    assert story.startswith("web-0 was replaced 5 times until ")
    assert f"{who} have the same group.instance.id. It has to be unique in a group" in story
    for member in members:
        await member.close()


async def test_two_contests_are_two_stories(kafka: Cluster) -> None:
    members = [await taken(kafka, "pod-1"), await taken(kafka, "pod-2"), await taken(kafka, "pod-1")]
    for _ in range(11):
        await kafka.time.advance("6s")
    members += [await taken(kafka, "pod-2"), await taken(kafka, "pod-1")]
    assert told(kafka).count("was replaced 2 times until ") == 2
    for member in members:
        await member.close()
