"""Waiting for what a broker has promised and not done yet: a KRaft broker learns of topics and settings after its answer.

These questions are no part of a sequence; nothing of them is compared.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafka_wire.codec import decode_from, encode
from kafka_wire.frame import encode_request_header, frame, response_is_tagged
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from tests.conformance.driver import clock_s
from tests.differential import settling
from tests.differential.catalogue import by_key
from tests.differential.line import Line

if TYPE_CHECKING:
    from tests.differential.play import Side
    from tests.differential.sequence import Step

DEADLINE_S = 10.0
POLL_S = 0.004
UNKNOWN_TOPIC = 3
SET = 0
_INTERNAL = re.compile(r"^Internal topics are missing: ([^;, ]+(?:, [^;, ]+)*)")
_CREATION_S = 4.0
"""For so long an internal topic of a streams group is waited for, where 24 plays at a time make topics; one that can't be created never
comes."""
_SETTING_S = 2.0
"""For so long the broker may not show a setting; one that it writes otherwise than the request never comes."""
SHOWN_LATER = (2, 16, 32)
"""Settings of topics, client metrics and groups: the controller answers before the broker has them."""


async def ask(address: tuple[str, int], lines: list[Line], request: Any, version: int) -> Any:
    """One request on a connection of `lines`' own. Raises ConnectionError, TimeoutError."""
    key = type(request).__spec__.api_key
    answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    def deliver(number: int, payload: bytes | None) -> None:
        if not answer.done():
            answer.set_result(payload)

    line = next((line for line in lines if not line.busy and not line.is_closed), None)
    if line is None:
        line = await Line.connect(*address, deliver)
        lines.append(line)
    line._deliver = deliver
    line.send(0, frame(encode_request_header(key, version, 0, "watch") + encode(request, version)))
    payload = await asyncio.wait_for(answer, DEADLINE_S * 3)
    if payload is None:
        raise ConnectionError(f"the broker closed the connection at {type(request).__name__}")
    return decode_from(by_key()[key].response, version, payload, 5 if response_is_tagged(key, version) else 4)[0]


async def after(sides: Sequence[Side], step: Step, answer: Any) -> None:
    """After a step that changed topics or settings: until both sides show it."""
    if answer is None or (step.body.get("validate_only") and (step.api, step.version) != ("CreateTopics", 0)):
        return
    if step.api in ("CreateTopics", "CreatePartitions"):
        counts = {
            row.name: _count(step, row.name, side) for side in sides[:1] for row in _rows(answer) if not row.error_code
        }
        await asyncio.gather(*(_topic_known(side, name, counts[name]) for side in sides for name in counts))
    elif step.api == "DeleteTopics":
        gone = [row.name for row in answer.responses if not row.error_code and row.name is not None]
        await asyncio.gather(*(_topic_gone(side, name) for side in sides for name in gone))
    elif step.api in ("AlterConfigs", "IncrementalAlterConfigs"):
        changed = {
            (row.resource_type, row.resource_name)
            for row in answer.responses
            if not row.error_code and row.resource_type in SHOWN_LATER
        }
        await asyncio.gather(
            *(
                _settings_seen(side, step, *one, broker)
                for side in sides
                for one in sorted(changed)
                for broker in sorted(side.alive)
            )
        )
    elif step.api == "StreamsGroupHeartbeat":
        names = [name for one in answer.status or () for name in _INTERNAL.findall(one.status_detail)]
        wanted = [name for listed in names for name in listed.split(", ")]
        await asyncio.gather(*(_topic_known(side, name, 1, _CREATION_S) for side in sides for name in wanted))
    elif step.api in ("EndTxn", "InitProducerId") and step.body.get("transactional_id"):
        named = step.body["transactional_id"]
        await asyncio.gather(*(_transaction_over(side, side.scope.text(named)) for side in sides))
    if sides[0].several and step.api in ("Produce", "DeleteRecords"):
        await asyncio.gather(*(settling.replicated(side) for side in sides))


def _rows(answer: Any) -> list[Any]:
    rows: list[Any] = answer.topics if hasattr(answer, "topics") else answer.results
    return rows


def _count(step: Step, name: str, side: Side) -> int:
    """Return the number of partitions that the topic has to show; 0: any."""
    for topic in step.body.get("topics", []):
        if side.scope.text(topic.get("name", "")) == name:
            wanted = topic.get("count", topic.get("num_partitions", 0))
            return max(len(topic.get("assignments") or []) if step.api == "CreateTopics" else wanted, wanted, 0)
    return 0


async def _metadata(side: Side, name: str, broker: int = 1) -> Any:
    return (await side.ask(MetadataRequest([MetadataRequestTopic(name=name)], False), 10, broker)).topics[0]


async def _topic_known(side: Side, name: str, partitions: int, within_s: float = DEADLINE_S) -> None:
    """Until the broker shows the topic with that many partitions, and each of them can be read."""
    give_up = clock_s() + within_s
    while clock_s() < give_up:
        topic = await _metadata(side, name)
        if topic.error_code == 0 and len(topic.partitions) >= partitions:
            side.scope.topic_ids[name] = topic.topic_id
            if side.several:
                await settling.settled(side, [name])
                return
            rows = [ListOffsetsPartition(row.partition_index, timestamp=-1) for row in topic.partitions]
            read = await side.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, rows)]), 4)
            if not any(row.error_code for row in read.topics[0].partitions):
                return
        await asyncio.sleep(POLL_S)


async def _topic_gone(side: Side, name: str) -> None:
    give_up = clock_s() + DEADLINE_S
    for broker in sorted(side.alive):
        while (await _metadata(side, name, broker)).error_code != UNKNOWN_TOPIC and clock_s() < give_up:
            await asyncio.sleep(POLL_S)
    side.scope.forget_topic(name)


async def _transaction_over(side: Side, name: str) -> None:
    """Until markers are written: the answer comes when it is decided that they will be."""
    give_up = clock_s() + DEADLINE_S
    while clock_s() < give_up:
        [row] = (await side.ask(DescribeTransactionsRequest([name]), 0)).transaction_states
        if not row.transaction_state.startswith("Prepare"):
            return
        await asyncio.sleep(POLL_S)


async def _settings_seen(side: Side, step: Step, kind: int, name: str, broker: int) -> None:
    """Until the broker shows what was set; what was taken away has a moment."""
    wanted = {
        side.scope.text(row.get("name", "")): row.get("value", "")
        for resource in step.body.get("resources", [])
        for row in resource.get("configs", [])
        if side.scope.text(resource.get("resource_name", "")) == name and row.get("config_operation", SET) == SET
    }
    give_up = clock_s() + (_SETTING_S if wanted else 0.05)
    while True:
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)])
        [shown] = (await side.ask(request, 1, broker)).results
        values = {row.name: row.value for row in shown.configs}
        if wanted and all(str(values.get(key)) == str(value) for key, value in wanted.items()):
            return
        if clock_s() > give_up:
            return
        await asyncio.sleep(POLL_S)
