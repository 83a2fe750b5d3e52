"""Every draw has its place: what is taken away from a run leaves the draws of all the rest as they were."""

from __future__ import annotations

import asyncio
import random

import pytest

from broker_sim.common.chance import Chance
from broker_sim.common.clock import ManualClock
from broker_sim.faults.registry import Faults
from broker_sim.faults.selectors import Asked
from broker_sim.simulation import Link, simulate
from kafka_wire.api_keys import ApiKey


def order_of(hosts: dict[str, int], noisy: list[str] | None = None) -> dict[str, list[int]]:
    """Host -> in which order its tasks take their steps, over some instants at which all are ready."""
    found: dict[str, list[int]] = {}
    with simulate(3, order="tasks", noisy=noisy) as sim:
        for host, count in hosts.items():
            found[host] = []
            for number in range(count):

                async def step(host: str = host, number: int = number) -> None:
                    for instant in range(1, 6):
                        await asyncio.sleep(1024.0 + 2 * instant - asyncio.get_running_loop().time())
                        found[host].append(number)

                sim.spawn(host, step)
        sim.run_for(30)
    return found


def test_the_order_of_a_hosts_tasks_is_its_own() -> None:
    together = order_of({"c1": 4, "c2": 3})
    assert together["c1"] == order_of({"c1": 4})["c1"]
    assert together["c2"] == order_of({"c2": 3})["c2"]
    assert together["c1"] != list(range(4)) * 5


def test_one_task_more_leaves_the_others_in_their_order() -> None:
    few, more = order_of({"c1": 3})["c1"], order_of({"c1": 4})["c1"]
    assert [number for number in more if number != 3] == few


def test_hosts_that_are_not_noisy_keep_the_order() -> None:
    found = order_of({"c1": 4, "c2": 3}, ["c1"])
    assert found["c2"] == [0, 1, 2] * 5
    assert found["c1"] == order_of({"c1": 4})["c1"]


def test_only_noisy_machines_have_jitter() -> None:
    with simulate(1, noisy=["c1"], link=Link(latency_ms=3, jitter_ms=5, chunks=0.5)) as sim:
        for name in ("c1", "c2", "broker-1"):
            sim.host(name)
        link_of = sim.network.link_of
        assert link_of("c1", "broker-1") == link_of("broker-1", "c1") == sim.network.link
        assert link_of("c2", "broker-1") == link_of("broker-1", "c2") == Link(latency_ms=3, jitter_ms=0, chunks=0)


def hit(rules: list[dict[str, object]], asks: list[tuple[str, ApiKey]]) -> list[str | None]:
    """Return for each request the API that its rule names; None without a rule."""
    faults = Faults(ManualClock(), Chance.seeded(9))
    for rule in rules:
        faults.add_from({"must_hit": False, **rule})
    found = []
    for client, api in asks:
        fault = faults.match(Asked(api, 0, client, 1))
        found.append(None if fault is None else fault.rule.to_dict()["api"])
    return found


def test_a_rule_hits_the_same_requests_whatever_other_rules_and_clients_there_are() -> None:
    beats: dict[str, object] = {"api": "Heartbeat", "probability": 0.5, "drop": True}
    commits: dict[str, object] = {"api": "OffsetCommit", "probability": 0.5, "error": "NOT_COORDINATOR"}
    dice = random.Random(4)
    asks = [(dice.choice(("c1", "c2")), dice.choice((ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT))) for _ in range(200)]
    both = list(zip(asks, hit([commits, beats], asks), strict=True))
    mine = [each for each in asks if each == ("c1", ApiKey.HEARTBEAT)]
    assert [told for ask, told in both if ask == ("c1", ApiKey.HEARTBEAT)] == hit([beats], mine)
    assert len(set(hit([beats], mine))) == 2


@pytest.mark.parametrize("made", [Chance.seeded("x"), Chance.of(random.Random(1)), Chance.system()])
def test_a_place_keeps_its_generator(made: Chance) -> None:
    assert made.at("one") is made.at("one")
    assert made.at("one").random() != made.at("two").random()
