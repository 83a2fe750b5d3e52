"""max.connections and max.connections.per.ip. The same was played with Kafka 4.1: a connection above the limit of its address is closed
at once, one above max.connections is answered when another has ended, in the order in which they came."""

from __future__ import annotations

import asyncio
import logging

import pytest

from broker_sim import Cluster, ClusterError
from kafka_wire.messages.k03_metadata import MetadataRequest
from kafka_wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.wire import Wire, WireClosedError


def ask(wire: Wire) -> asyncio.Future[object]:
    return wire.start(MetadataRequest(topics=[]), 9)


async def connect(kafka: Cluster, number: int) -> list[Wire]:
    return [await Wire.connect(kafka.bootstrap) for _ in range(number)]


async def close(wires: list[Wire]) -> None:
    for wire in wires:
        await wire.close()


@pytest.mark.parametrize(
    "setting", ["max.connections.per.ip=2", "max.connections.per.ip.overrides=localhost:2,10.0.0.1:0"]
)
async def test_a_connection_above_the_limit_of_its_address_is_closed(
    setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, _, value = setting.partition("=")
    async with Cluster(config={name: value}, journal=True) as kafka:
        first = await connect(kafka, 2)
        for wire in first:
            await ask(wire)
        third = await Wire.connect(kafka.bootstrap)
        with pytest.raises((WireClosedError, ConnectionError)):
            await ask(third)
        await first.pop().close()
        await kafka.journal.next(event="connection", action="closed", since=0)
        again = await Wire.connect(kafka.bootstrap)
        await ask(again)
        await close([*first, third, again])
    words = "its address already has the configured maximum of 2 connections"
    assert words in caplog.text
    [refused] = [event for event in kafka.journal.events if event.get("action") == "refused"]
    assert (refused["reason"], refused["listener"]) == (words, "PLAINTEXT")
    assert sum(1 for event in kafka.journal.events if event.get("action") == "opened") == 4  # the refused one too
    assert sum(1 for event in kafka.journal.events if event.get("action") == "closed") == 4


async def test_connections_above_the_brokers_limit_wait_in_their_order(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster(config={"max.connections": 2}, journal=True) as kafka:
        wires = await connect(kafka, 5)
        answers = [ask(wire) for wire in wires]
        await asyncio.wait(answers[:2])
        await wires[3].close()  # one that waits
        assert [answer.done() for answer in answers] == [True, True, False, True, False]
        await wires[0].close()
        await answers[2]
        assert not answers[4].done()
        await wires[1].close()
        await answers[4]
        await close([wires[2], wires[4]])
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "connections wait: broker 1 has max.connections=2"
    ]
    assert answers[3].cancelled()


async def test_a_limit_that_is_raised_lets_them_in() -> None:
    async with Cluster(config={"max.connections": 1}) as kafka:
        first, second = await connect(kafka, 2)
        pending = ask(second)
        raised = [AlterableConfig("max.connections", 0, "2")]
        await first.send(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", raised)]), 1)
        await pending
        lowered = [AlterableConfig("max.connections.per.ip", 0, "2")]
        await first.send(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", lowered)]), 1)
        await ask(first)  # those that are there stay
        await close([first, second])


async def test_brokers_count_their_own_connections_and_stop_with_some_waiting() -> None:
    async with Cluster(brokers=2, config={"max.connections": 1}) as kafka:
        wires = [await Wire.connect(address) for address in kafka.bootstrap.split(",") for _ in range(2)]
        answers = [ask(wire) for wire in wires]
        await asyncio.gather(answers[0], answers[2])
        assert not answers[1].done()
        await kafka.broker_down(1)
        await asyncio.wait([answers[1]])
        assert isinstance(answers[1].exception(), WireClosedError | ConnectionError)
        await close(wires)


async def test_the_first_of_several_listeners_takes_more_and_another_loses_its_idle_connection() -> None:
    async with Cluster(config={"max.connections": 2}, listeners=["EXTERNAL://localhost:0"]) as kafka:
        outside = [await Wire.connect(kafka.bootstrap_of("EXTERNAL")) for _ in range(2)]
        for wire in outside:
            await ask(wire)
        waits = await Wire.connect(kafka.bootstrap_of("EXTERNAL"))
        waiting = ask(waits)
        inside = await Wire.connect(kafka.bootstrap)
        await ask(inside)
        await outside[0].closed()
        assert not waiting.done()
        await ask(outside[1])
        await close([*outside, waits, inside])
        waiting.cancel()


async def test_tls_connections_count_from_the_first_byte() -> None:
    async with Cluster(config={"max.connections.per.ip": 1}, security_protocol="SSL") as kafka:
        host, port = kafka.bootstrap.split(":")
        _, first = await asyncio.open_connection(host, int(port))
        reader, second = await asyncio.open_connection(host, int(port))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        for writer in (first, second):
            writer.close()


def test_what_is_no_address_with_a_number_is_refused() -> None:
    with pytest.raises(ClusterError) as wrong:
        Cluster(config={"max.connections.per.ip.overrides": "127.0.0.1"})
    assert "Error parsing configuration property 'max.connections.per.ip.overrides': '127.0.0.1'" in str(wrong.value)
