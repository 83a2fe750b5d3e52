"""Contents of scenario files and fault plans besides rules: read as everywhere."""

from __future__ import annotations

import re
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.scenario.expectations import EventMatcher
from broker_sim.scenario.files import WrongFile, loads
from broker_sim.scenario.model import parse
from broker_sim.simulation import simulate
from broker_sim.simulation.faults.kinds import Fault, check, from_json
from broker_sim.simulation.faults.plans import plan_from

FILE = """\
cluster: {brokers: 2, seed: 7, config: {auto.create.topics.enable: false}}
topics: [{name: orders, partitions: 6, records: 10}]
clients: [{name: app-1, group: billing, topics: [orders], start: true, joins: false, commit: never}]
steps:
  - when: {group: billing, state: Stable}
  - do: {send: OffsetCommit, group: billing, offsets: {orders-0: 5}, answer: NOT_COORDINATOR}
expect:
  - happened: {api: OffsetCommit, answered: true, error: NOT_COORDINATOR}
"""


def shown(text: str) -> str:
    """Return a file's full content as text; of a matcher without the words and the function that it was made of."""
    found = parse(loads(text))
    matchers = [matcher for one in found.expect for matcher in one.matchers]
    matchers += [matcher for step in found.steps for matcher in step.when or ()]
    actions = [(action.name, action.params) for step in found.steps for action in step.actions]
    told = [
        {name: value for name, value in vars(matcher).items() if name not in ("count", "what")} for matcher in matchers
    ]
    return repr((found.cluster, found.topics, found.clients, told, actions))


@pytest.mark.parametrize(
    ("usual", "other"),
    [
        ("brokers: 2", 'brokers: "2"'),
        ("brokers: 2", "brokers: 2.0"),
        ("seed: 7", 'seed: "7"'),
        ("enable: false", 'enable: "false"'),
        ("partitions: 6", 'partitions: "6"'),
        ("start: true", 'start: "yes"'),
        ("start: true", "start: 1"),
        ("joins: false", 'joins: "no"'),
        ("[orders]", '"orders"'),
        ("commit: never", "commit: Never"),
        ("state: Stable", "state: stable"),
        ("orders-0: 5", 'orders-0: "5"'),
        ("answer: NOT_COORDINATOR", "answer: not-coordinator"),
        ("answer: NOT_COORDINATOR", "answer: 16"),
        ("answered: true", 'answered: "yes"'),
        ("error: NOT_COORDINATOR", "error: not_coordinator"),
        ("error: NOT_COORDINATOR", "error: 16"),
        ("api: OffsetCommit,", "api: offset_commit,"),
    ],
)
def test_a_scenario_says_the_same_in_other_spellings(usual: str, other: str) -> None:
    assert usual in FILE
    assert shown(FILE.replace(usual, other)) == shown(FILE)


def test_a_no_is_no_yes() -> None:
    text = "expect: [{happened: {api: Fetch, answered: 'no'}}]"
    (matcher,) = parse(loads(text)).expect[0].matchers
    assert isinstance(matcher, EventMatcher)
    assert matcher.kind == "request"


def test_a_wrong_setting_of_a_scenario_is_told() -> None:
    with pytest.raises(WrongFile, match="Invalid value many for configuration offsets"):
        parse(loads(FILE.replace("auto.create.topics.enable: false", "offsets.topic.num.partitions: many")))


@pytest.mark.parametrize(
    ("kind", "given", "meant"),
    [
        ("cut", {"sender": "a", "both": "no"}, {"sender": "a", "both": False}),
        ("crash", {"host": "a", "reset": "false"}, {"host": "a", "reset": False}),
        ("crash", {"host": "a", "for_s": "1m30s"}, {"host": "a", "for_s": 90.0}),
        ("hang", {"client": "a", "hang_s": "2s"}, {"client": "a", "hang_s": 2.0}),
        ("state", {"log": "orders-0", "state": "STUCK"}, {"log": "orders-0", "state": "stuck"}),
        ("move", {"log": "orders-0", "broker": "2"}, {"log": "orders-0", "broker": 2}),
        ("kill", {"at_call": 3.0}, {"at_call": 3}),
        ("disk", {"what": "fails", "calls": "write,sync"}, {"what": "fails", "calls": ["write", "sync"]}),
        ("link", {"sender": "a", "latency_ms": "5"}, {"sender": "a", "latency_ms": 5.0}),
    ],
)
def test_a_fault_says_the_same_in_other_spellings(kind: str, given: dict[str, Any], meant: dict[str, Any]) -> None:
    assert check(Fault(1, kind, given)) == meant
    for (fault,) in (plan_from([[1, kind, given]]), from_json([[1, kind, given]])):  # type: ignore[misc]
        assert check(fault) == meant


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("cut", {"sender": "a", "both": 3}, "both: 3 is not true or false"),
        ("hang", {"client": "a", "hang_s": "long"}, "hang_s: 'long' is not a duration"),
        ("hang", {"client": "a"}, "hang: hang_s is missing"),
        ("buggify", {"site": "loads slowly", "probability": 2}, "probability: 2 is not a number from 0 to 1"),
        ("elect", {"log": "orders"}, "log: 'orders' is not a log"),
        ("state", {"log": "a-0", "state": "slow", "latency": "x", "free_bytes": -1}, "latency: 'x' is not a duration"),
    ],
)
def test_a_fault_that_can_not_be_meant_is_told_before_it_comes(kind: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        plan_from([[1, kind, given]])


def test_all_faults_of_a_plan_that_can_not_be_meant_are_told() -> None:
    with pytest.raises(UsageError) as error:
        plan_from([[1, "crsh", {}], [2, "elect", {"log": "orders-0"}], [3, "elect", {"lgo": "a-0"}]])
    assert len(str(error.value).splitlines()) == 2


def test_a_cut_that_is_not_to_be_both_ways_is_not() -> None:
    with simulate(1, faults=[{"at": 1, "kind": "cut", "sender": "a", "receiver": "b", "both": "no"}]) as sim:
        sim.cluster()
        sim.host("a")
        sim.host("b")
        sim.run_for(2)
        assert ("b", "a") not in sim.network.cuts
        assert ("a", "b") in sim.network.cuts
