"""Ties of the protocol vote: vote_ties.json has 200 sets of names with the winners that real brokers told: [names, 3.4.0, 4.1.0]."""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from pathlib import Path

import pytest

from broker_sim.coordinator.classic.vote import java_order, scala_order, winner
from broker_sim.coordinator.policy import JAVA, SCALA
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from tests.conformance.targets import prepare
from tests.coordinator.harness import Core
from tests.support.real_kafka import RealKafka
from tests.support.wire import Wire

TIES: list[tuple[list[str], str, str]] = json.loads(Path(__file__).with_name("vote_ties.json").read_text())
RELEASES = {"3.4.0": 1, "4.1.0": 2}  # where in a row its winner stands


def preferences(names: list[str]) -> list[list[str]]:
    """A list for each of as many members, each of which prefers another one."""
    return [names[n:] + names[:n] for n in range(len(names))]


def firsts(names: list[str], order) -> set[str]:
    """Names that the votes' order could put first: more than one only where names share a bucket of Java's map."""
    return {order(turned)[0] for turned in preferences(names)}


CLEAR = [row for row in TIES[::10] if len(firsts(row[0], java_order)) == 1]


@pytest.mark.parametrize(("order", "column"), [(scala_order, 1), (java_order, 2)], ids=RELEASES)
def test_the_first_of_the_map_is_whom_real_brokers_chose(order, column) -> None:
    assert len(TIES) == 200
    assert not [row for row in TIES if row[column] not in firsts(row[0], order)]
    assert (
        sum(len(firsts(row[0], order)) == 1 for row in TIES) > 185
    )  # the table says more than that something was chosen
    assert sum(row[1] != row[2] for row in TIES) > 100


@pytest.mark.parametrize("order", [scala_order, java_order])
@pytest.mark.parametrize("seed", range(20))
def test_an_order_has_every_name_once_and_hangs_on_no_other_order(order, seed) -> None:
    rng = random.Random(seed)
    names = [f"{rng.choice(['range', 'ä', ''])}{rng.randrange(10**6)}" for _ in range(rng.randint(1, 40))]
    names = list(dict.fromkeys(names))
    found = order(names)
    assert sorted(found) == sorted(names)
    if order is scala_order:  # a Java map keeps those of one bucket as they came
        rng.shuffle(names)
        assert order(names) == found


def test_names_of_one_hash_stay_as_they_came() -> None:
    for order in (scala_order, java_order):
        assert order(["Aa", "BB"]) == ["Aa", "BB"]
        assert order(["BB", "Aa"]) == ["BB", "Aa"]


def test_most_votes_win_wherever_they_stand() -> None:
    assert winner({"a": 1, "b": 2, "c": 2}, ["a", "c", "b"]) == "c"


@pytest.mark.parametrize(("policy", "column"), [(SCALA, 1), (JAVA, 2)], ids=RELEASES)
@pytest.mark.parametrize("turned", [False, True])
def test_a_group_chooses_so_whoever_came_first(policy, column, turned) -> None:
    for row in CLEAR:
        core = Core(policy=policy, initial_rebalance_delay_ms=3000)
        lists = preferences(row[0])
        if turned:
            lists.reverse()
        tokens = [core.join(version=3, protocols=tuple((name, b"") for name in names)) for names in lists]
        core.advance(60_000)
        assert {core.joined(token).protocol_name for token in tokens} == {row[column]}, row


async def ask(bootstrap: str, names: list[str]) -> str:
    """The winner of a tie between ``names`` at a broker without an initial rebalance delay."""
    group = f"tie-{uuid.uuid4()}"
    wires = [await Wire.connect(bootstrap) for _ in names]

    def request(number: int, member_id: str = "") -> JoinGroupRequest:
        protocols = [JoinGroupRequestProtocol(name, b"") for name in preferences(names)[number]]
        return JoinGroupRequest(group, 20_000, 20_000, member_id, protocol_type="tie", protocols=protocols)

    first = await wires[0].send(request(0), 3)
    parked = [wire.start(request(number), 3) for number, wire in enumerate(wires) if number]
    give_up = time.monotonic() + 60
    while len((await wires[0].send(DescribeGroupsRequest([group]), 5)).groups[0].members) < len(names):
        assert time.monotonic() < give_up, f"waited 60 s for {len(names)} members in {group}"
    answer = await wires[0].send(request(0, first.member_id), 3)
    assert {one.protocol_name for one in await asyncio.gather(*parked)} == {answer.protocol_name}
    for wire in wires:
        await wire.close()
    return str(answer.protocol_name)


@pytest.mark.real_kafka
@pytest.mark.parametrize("version", RELEASES)
async def test_a_real_broker_still_says_what_the_table_says(version: str) -> None:
    config = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
    with RealKafka(version, 1, config) as kafka:
        await prepare(kafka.bootstrap)
        for row in CLEAR:
            assert await ask(kafka.bootstrap, row[0]) == row[RELEASES[version]]


def test_some_keys_of_a_large_map_have_the_order_of_that_map() -> None:
    names = [f"topic-{number}" for number in range(1000)]
    some = names[::7]
    assert java_order(some, len(names)) == [name for name in java_order(names) if name in some]
