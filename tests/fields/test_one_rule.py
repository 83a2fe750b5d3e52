"""The same value means the same at every door: in Python, over HTTP, on the command line, in scenario files, in fault plans."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from broker_sim.common.text import UsageError
from broker_sim.control import commands
from broker_sim.control.operations import check
from broker_sim.control.verbs import VERBS
from broker_sim.faults.rules import Rule, rule_from
from broker_sim.fields.problems import WrongInput
from broker_sim.scenario.files import loads
from broker_sim.scenario.model import parse
from broker_sim.simulation.faults.kinds import from_json
from broker_sim.simulation.faults.plans import plan_from


def over_http(values: dict[str, Any]) -> Rule:
    return rule_from(check("fault.add", json.loads(json.dumps(values))))


def in_words(values: dict[str, Any]) -> Rule:
    words = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in values.items()]
    given = commands._given(argparse.Namespace(verb=VERBS["fault"]["add"], words=words))
    return over_http(given)


def in_a_scenario(values: dict[str, Any]) -> Rule:
    action = yaml.safe_dump({"fault": values}, default_flow_style=True, width=10_000)
    outside = "external: {groups: ['*'], client_ids: ['*'], topics: ['*']}\n"
    scenario = parse(loads(f"{outside}steps: [{{do: {action}}}]\nexpect: [{{event: mark}}]"))
    return rule_from(scenario.steps[0].actions[0].params)


def in_a_plan(values: dict[str, Any]) -> Rule:
    (fault,) = plan_from([{"at": 1, "kind": "rule", **values}])  # type: ignore[misc]
    return rule_from(fault.args)


def in_a_plan_of_json(values: dict[str, Any]) -> Rule:
    (fault,) = from_json(json.dumps([[1, "rule", values]]))
    return rule_from(fault.args)


DOORS: dict[str, Callable[[dict[str, Any]], Rule]] = {
    "Python": rule_from,
    "HTTP": over_http,
    "words": in_words,
    "scenario": in_a_scenario,
    "plan": in_a_plan,
    "plan of JSON": in_a_plan_of_json,
}

SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"hang": "1"}, {"hang": True}),
    ({"hang": 1}, {"hang": True}),
    ({"drop": "yes"}, {"drop": True}),
    ({"drop": "TRUE"}, {"drop": True}),
    ({"drop": "on"}, {"drop": True}),
    ({"hang": True, "drop": "false"}, {"hang": True}),
    ({"hang": True, "drop": "0"}, {"hang": True}),
    ({"hang": True, "must_hit": "no"}, {"hang": True, "must_hit": False}),
    ({"hang": True, "times": 3.0}, {"hang": True, "times": 3}),
    ({"hang": True, "times": "3"}, {"hang": True, "times": 3}),
    ({"hang": True, "times": " 3 "}, {"hang": True, "times": 3}),
    ({"hang": True, "times": "3.0"}, {"hang": True, "times": 3}),
    ({"truncate": "7"}, {"truncate": 7}),
    ({"hang": True, "probability": "0.5"}, {"hang": True, "probability": 0.5}),
    ({"hang": True, "probability": "5e-1"}, {"hang": True, "probability": 0.5}),
    ({"hang": True, "group": 7}, {"hang": True, "group": "7"}),
    ({"hang": True, "client_id": 1.5}, {"hang": True, "client_id": "1.5"}),
    ({"hang": True, "group": ""}, {"hang": True, "group": ""}),
    ({"hang": True, "group": "g" * 2000}, {"hang": True, "group": "g" * 2000}),
    ({"hang": True, "topic": "orders", "partition": "3"}, {"hang": True, "topic": "orders", "partition": 3}),
    ({"hang": True, "topic": "orders", "partition": 3.0}, {"hang": True, "topic": "orders", "partition": 3}),
    ({"hang": True, "api": "offset_commit,heartbeat"}, {"hang": True, "api": ["OffsetCommit", "Heartbeat"]}),
    ({"hang": True, "version": 3.0}, {"hang": True, "version": 3}),
    ({"hang": True, "version": "v2 - 4"}, {"hang": True, "version": "2-4"}),
    ({"error": "not-coordinator"}, {"error": "NOT_COORDINATOR"}),
    ({"error": "16"}, {"error": "NOT_COORDINATOR"}),
    ({"error": 16.0}, {"error": "NOT_COORDINATOR"}),
    ({"error": "-1"}, {"error": "UNKNOWN_SERVER_ERROR"}),
    ({"delay": "1.5"}, {"delay": "1500ms"}),
    ({"delay": 2}, {"delay": "2s"}),
]
"""Pairs of given keys and the keys that they mean."""

LISTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"hang": True, "api": ["OffsetCommit", "Heartbeat"]}, {"hang": True, "api": "OffsetCommit,Heartbeat"}),
    ({"hang": True, "group": None, "times": None}, {"hang": True}),
]
"""The same of values that a word can't be."""

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"drop": "false"}, "a rule needs an action"),
    ({"hang": 3}, "hang: 3 is not true or false"),
    ({"hang": "perhaps"}, "hang: 'perhaps' is not true or false"),
    ({"hang": True, "times": True}, "times: True is not a whole number from 1"),
    ({"hang": True, "times": 1.5}, "times: 1.5 is not a whole number from 1"),
    ({"hang": True, "times": 0}, "times: 0 is not a whole number from 1"),
    ({"hang": True, "times": 3_000_000_000}, "times: 3000000000 is not a whole number from 1 to 2147483647"),
    ({"hang": True, "times": "1_0"}, "times: '1_0' is not a whole number from 1"),
    ({"throttle_ms": 0}, "throttle_ms: 0 is not a whole number from 1"),
    ({"hang": True, "probability": 1.5}, "probability: 1.5 is not a number from 0 to 1"),
    ({"hang": True, "group": True}, "group: True is not a text"),
    ({"hang": True, "topic": "a\0b"}, "topic: 'a\\x00b' is not a text without NUL characters"),
    ({"delay": "-1s"}, "delay: '-1s' is not a duration, as in 40s"),
    ({"delay": 10**400}, "is not a duration, as in 40s"),
    ({"error": True}, "error: True is not an error (expected a name"),
    ({"error": "OOPS"}, "no error 'OOPS'; expected one of "),
]
"""Pairs of given keys and the error message for them."""


def told(door: str, values: dict[str, Any]) -> str:
    with pytest.raises(UsageError) as error:
        DOORS[door](values)
    return str(error.value)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("given", "meant"), SAME, ids=[str(given)[:50] for given, _ in SAME])
def test_a_rule_is_the_same_through_every_door(door: str, given: dict[str, Any], meant: dict[str, Any]) -> None:
    assert DOORS[door](given) == rule_from(meant)


@pytest.mark.parametrize("door", [door for door in DOORS if door != "words"])
@pytest.mark.parametrize(("given", "meant"), LISTS, ids=[str(given) for given, _ in LISTS])
def test_lists_and_nothing_are_the_same_through_every_door(
    door: str, given: dict[str, Any], meant: dict[str, Any]
) -> None:
    assert DOORS[door](given) == rule_from(meant)


@pytest.mark.parametrize("door", [door for door in DOORS if door != "words"])  # where 3 and "3" are one
@pytest.mark.parametrize(("given", "said"), REFUSED, ids=[str(given)[:50] for given, _ in REFUSED])
def test_a_mistake_is_told_in_the_same_words_at_every_door(door: str, given: dict[str, Any], said: str) -> None:
    assert said in told(door, given)


MANY = {"tiems": 3, "times": 0, "probability": "often", "error": "OOPS"}


@pytest.mark.parametrize("door", [door for door in DOORS if door != "words"])
def test_all_mistakes_are_told_at_once(door: str) -> None:
    lines = told(door, MANY).splitlines()
    for said in ("did you mean 'times'?", "times: 0 is not", "probability: 'often' is not", "no error 'OOPS'"):
        assert any(said in line for line in lines), lines
    assert len(lines) == len(MANY)


def test_each_mistake_has_its_place() -> None:
    with pytest.raises(UsageError) as error:
        check("cluster.create", {"brokers": 0, "config": {"a/b": None, "c": "ok"}, "clokc": "real"})
    assert isinstance(error.value, WrongInput)
    assert [one.pointer for one in error.value.problems] == ["/clokc", "/brokers", "/config/a~1b"]
    with pytest.raises(UsageError) as error:
        parse(loads("steps:\n- do:\n    fault:\n      hang: 3\n      times: 0\nexpect: [{event: mark}]"))
    assert [line.split(": ")[0] for line in str(error.value).splitlines()] == ["scenario:4", "scenario:5"]
