"""Waiting for what coordinators do behind their answers, as their records of the play's groups show it.

Kafka resolves regular expressions on an executor's thread, and has share partitions initialized, loaded and deleted by requests to the
share coordinator. These questions are no part of a sequence; nothing of them is compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from broker_sim.storage.partition_for import partition_for
from kafka_wire import offsets_log as types
from kafka_wire.messages.k78_share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.conformance.driver import clock_s
from tests.differential import offsets

if TYPE_CHECKING:
    from tests.differential.play import Side
    from tests.differential.sequence import Step

DEADLINE_S = 2.0
POLL_S = 0.01
STILL_S = 0.06
"""For so long no side writes anything more: an executor without other work takes some ms."""


async def after(sides: Sequence[Side], step: Step, answer: Any) -> None:
    """After a step whose work goes on behind its answer: until that is done on both sides, or will not be done."""
    if step.api == "ConsumerGroupHeartbeat" and not answer.error_code:
        if any(one.api == step.api and one.body.get("subscribed_topic_regex") for one in _played(sides, step)):
            await _records_alike(sides, step)
    elif step.api == "JoinGroup" and step.body.get("rebalance_timeout_ms", 0) < 0:
        await _records_alike(sides, step)
    elif step.api == "ShareGroupHeartbeat" and not answer.error_code:
        await asyncio.gather(*(_share_states(side, step) for side in sides))
    elif step.api == "DeleteTopics":
        for side in sides:
            side.deleted |= {row.topic_id for row in answer.responses if not row.error_code}
        if _has_share_group(sides):
            await _records_alike(sides, step)


def _played(sides: Sequence[Side], step: Step) -> list[Step]:
    """The steps up to this one."""
    steps = sides[0].steps
    return steps[: steps.index(step) + 1] if step in steps else [step]


def _has_share_group(sides: Sequence[Side]) -> bool:
    return any(one.api == "ShareGroupHeartbeat" for one in sides[0].steps)


def _group(side: Side, step: Step) -> str:
    return side.scope.text(step.body.get("group_id") or "{p}g")


async def _written(side: Side, group: str) -> list[dict[str, Any]]:
    index = partition_for(group, len(side.starts) or 1)
    return await offsets.written(side, {index: side.starts.get(index, 0)})


async def _records_alike(sides: Sequence[Side], step: Step) -> None:
    """Until both sides have written equally many records, and for a moment no more."""
    give_up, still, before = clock_s() + DEADLINE_S, clock_s() + STILL_S, [-1]
    while clock_s() < give_up:
        counts = [len(await _written(side, _group(side, step))) for side in sides]
        if counts != before:
            still, before = clock_s() + STILL_S, counts
        elif len(set(counts)) == 1 and clock_s() > still:
            return
        await asyncio.sleep(POLL_S)


async def _share_states(side: Side, step: Step) -> None:
    """Until no partition of the share group is being initialized."""
    give_up = clock_s() + DEADLINE_S
    while clock_s() < give_up:
        rows = [row for row in await _written(side, _group(side, step)) if row["kind"] == KIND and row["value"]]
        if not rows or not rows[-1]["value"]["initializing_topics"]:
            return
        await asyncio.sleep(POLL_S)


KIND = types.SHARE_GROUP_STATE_PARTITION_METADATA


# ---- before a ShareFetch


async def before(sides: Sequence[Side], step: Step) -> bool:
    """Before a ShareFetch: waits until its partitions are loaded on both sides; whether Kafka answers a first fetch before is chance.
    False if one exists and is not initialized: whether its error comes before the answer is chance, too."""
    if step.api != "ShareFetch" or step.damage or not isinstance(step.body.get("member_id"), str):
        return True
    if not all(await asyncio.gather(*(_initialized(side, step) for side in sides))):
        return False
    await asyncio.gather(*(_loaded(side, step) for side in sides))
    return True


def _named(side: Side, step: Step) -> set[tuple[str, bytes, int]]:
    """Group, topic id and number of the partitions of a request."""
    return {
        (_group(side, step), side.scope.fill(topic.get("topic_id", NO_ID), _UUID), part.get("partition_index", 0))
        for topic in step.body.get("topics") or ()
        for part in topic.get("partitions") or ()
    }


async def _initialized(side: Side, step: Step) -> bool:
    """Whether all partitions of a request are, but for those of topics that are not there."""
    ids = set(side.scope.topic_ids.values()) - side.deleted
    wanted = {(topic_id, index) for _, topic_id, index in _named(side, step) if topic_id in ids and 0 <= index < MOST}
    if not wanted:
        return True
    rows = [row for row in await _written(side, _group(side, step)) if row["kind"] == KIND and row["value"]]
    there = {
        (topic["topic_id"], index)
        for row in rows[-1:]
        for topic in row["value"]["initialized_topics"]
        for index in topic["partitions"]
    }
    return {(side.reader.topic_id(topic_id), index) for topic_id, index in wanted} <= there


async def _loaded(side: Side, step: Step) -> None:
    """Fetches the partitions that were not fetched yet as another member, with a limit that fails on each partition that is loaded."""
    group, wanted = _group(side, step), _named(side, step) - side.share_fetched
    topics: dict[bytes, list[FetchPartition]] = {}
    for _, topic_id, index in wanted:
        topics.setdefault(topic_id, []).append(FetchPartition(index))
    if not wanted:
        return
    rows = [FetchTopic(topic_id, parts) for topic_id, parts in topics.items()]
    request = ShareFetchRequest(group, LOADER, 0, max_bytes=-1, max_records=1, batch_size=1, topics=rows)
    give_up = clock_s() + DEADLINE_S
    while clock_s() < give_up:
        answer = await side.ask(request, 1)
        told = [row.error_code for topic in answer.responses for row in topic.partitions]
        if answer.error_code or (len(told) == len(wanted) and all(told)):
            break
        await asyncio.sleep(POLL_S)
    side.share_fetched |= wanted


MOST = 3
"""No topic of a play with share groups has more partitions."""
LOADER = "AAAAAAAAAAAAAAAAAAAA_w"
NO_ID = "hex:" + "00" * 16
_UUID = dict(FetchTopic.__fields__)["topic_id"]
