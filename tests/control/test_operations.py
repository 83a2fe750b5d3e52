"""The table of operations: what is checked before anything is done, and how errors name what was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.control.operations import FAMILIES, OPERATIONS, check
from broker_sim.control.resolve import examine_log
from broker_sim.control.table import operation
from broker_sim.faults.conditions import KINDS
from broker_sim.faults.rules import RULE_KEYS
from broker_sim.fields.kafka import TransactionalIdLog
from broker_sim.fields.kinds import MAX_ITEMS, MAX_TEXT, Count


def test_every_operation_is_told_in_a_sentence_and_typed() -> None:
    assert len(FAMILIES) == 10
    for name, one in OPERATIONS.items():
        assert one.name == name
        assert one.doc.endswith("."), name
        assert one.method in ("GET", "POST", "PUT", "DELETE"), name
        for parameter in one.parameters.values():
            assert parameter.doc, (name, parameter.name)


def test_a_name_is_declared_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        operation("clock.get", "GET /clock", answer={})(lambda cluster, given: None)  # type: ignore[arg-type,return-value]


def test_no_two_operations_share_method_and_path() -> None:
    places = [(one.on, one.method, one.path) for one in OPERATIONS.values()]
    assert len(places) == len(set(places))


def test_all_keys_of_a_rule_are_parameters_of_a_fault() -> None:
    assert set(OPERATIONS["fault.add"].parameters) == set(RULE_KEYS)


def test_all_states_with_their_arguments_can_be_set() -> None:
    parameters = OPERATIONS["state.set"].parameters
    assert parameters["state"].schema()["enum"] == [*KINDS, "online"]
    for kind in KINDS.values():
        assert set(kind.arguments) <= set(parameters)


VALID = {
    "state.set": {"log": "offsets(billing)", "state": "slow", "for": "1m30s", "latency": 0.2, "jitter": "50ms"},
    "fault.add": {"api": "OffsetCommit", "group": "billing", "error": 16, "times": "3"},
    "group.wait": {"group": "billing", "state": "stable", "members": 3, "committed": "orders-0=5,orders-1=7"},
    "group.get": {"group": "billing", "committed": '{"orders-0": 5}'},
    "clock.advance": {"by": "45s", "expire": "consumer-1,consumer-2"},
    "cluster.create": {"brokers": "3", "topics": {"orders": 6}, "config": {"num.partitions": 4}},
    "journal.read": {"api": "Offset*", "follow": "true"},
}


@pytest.mark.parametrize("name", VALID)
def test_what_was_checked_is_as_good_when_checked_again(name: str) -> None:
    once = check(name, VALID[name])
    assert check(name, once) == once
    assert json.loads(json.dumps(once)) == once


def test_values_come_out_in_their_types() -> None:
    assert check("state.set", VALID["state.set"]) == {
        "log": "offsets(billing)",
        "state": "slow",
        "for": 90.0,
        "latency": 0.2,
        "jitter": 0.05,
    }
    assert check("group.wait", VALID["group.wait"]) == {
        "group": "billing",
        "state": "Stable",
        "members": 3,
        "committed": {"orders-0": 5, "orders-1": 7},
        "timeout": 10.0,
    }
    assert check("clock.advance", VALID["clock.advance"])["expire"] == ["consumer-1", "consumer-2"]


WRONG = {
    "unknown operation": ("stat.set", {}, "did you mean 'state.set'"),
    "unknown parameter": ("state.set", {"log": "orders-0", "state": "stuck", "fro": "4s"}, "did you mean 'for'"),
    "missing parameter": ("state.set", {"log": "orders-0"}, "state is missing"),
    "null is missing": ("state.set", {"log": "orders-0", "state": None}, "state is missing"),
    "unknown state": ("state.set", {"log": "orders-0", "state": "stuk"}, "did you mean 'stuck'"),
    "argument of another state": (
        "state.set",
        {"log": "a-0", "state": "stuck", "latency": 1},
        "has no argument 'latency'; expected one of ",
    ),
    "slow without latency": ("state.set", {"log": "a-0", "state": "slow"}, "latency"),
    "no log's name": ("state.set", {"log": "orders", "state": "stuck"}, "is not a log"),
    "no duration": ("clock.advance", {"by": "tomorrow"}, "is not a duration"),
    "time goes back": ("clock.advance", {"by": -1}, "is not a duration"),
    "far too long": ("clock.advance", {"by": "9999d"}, "is not a duration up to 3653 d"),
    "too patient": (
        "group.wait",
        {"group": "a", "members": 1, "timeout": "2h"},
        "timeout: '2h' is not a duration up to 10 min",
    ),
    "nothing to wait for": ("group.wait", {"group": "a"}, "no condition to wait for"),
    "no partition": ("group.wait", {"group": "a", "committed": {"orders": 1}}, "'orders' is not a partition"),
    "no verdict": ("fault.add", {"api": "Fetch"}, "a rule needs an action"),
    "two actions": ("fault.add", {"error": "UNKNOWN_SERVER_ERROR", "hang": True}, "one action"),
    "unknown api": ("fault.add", {"api": "OfsetCommit", "hang": True}, "did you mean 'OffsetCommit'"),
    "unknown error": ("fault.add", {"error": "NOT_COORDINATR"}, "did you mean 'NOT_COORDINATOR'"),
    "partition without topic": ("fault.add", {"api": "Fetch", "partition": 1, "hang": True}, "topic"),
    "impossible chance": ("fault.add", {"hang": True, "probability": 1.5}, "is not a number from 0 to 1"),
    "a number for a flag": ("fault.add", {"hang": 3}, "true or false"),
    "text for a number": ("broker.down", {"broker": "one"}, "is not a whole number"),
    "a fraction": ("broker.down", {"broker": 1.5}, "is not a whole number"),
    "a flag for a number": ("broker.down", {"broker": True}, "is not a whole number"),
    "a list for a text": ("group.get", {"group": ["a"]}, "is not a text"),
    "empty text": ("group.get", {"group": ""}, "is not a text"),
    "NUL": ("group.get", {"group": "a\0b"}, "NUL"),
    "a number for a list": ("clock.advance", {"by": 1, "expire": 3}, "is not a list"),
    "a number for topics": ("cluster.create", {"topics": 6}, "topics: 6 is not a list or a map of topics, as in"),
    "half a map": ("cluster.create", {"topics": "{"}, "is not a map"),
    "wrong inside of a map": (
        "cluster.create",
        {"topics": {"a": "many"}},
        "topics: 'a': 'many' is not a number for partitions",
    ),
    "too many brokers": ("cluster.create", {"brokers": 1000}, "is not a whole number from 1 to 100"),
    "too much to fill": ("topic.fill", {"topic": "a", "records": 10**6, "value_bytes": 10**6}, "MiB"),
    "long text": ("group.get", {"group": "g" * (MAX_TEXT + 1)}, "too many"),
    "long list": ("clock.advance", {"by": 1, "expire": ["m"] * (MAX_ITEMS + 1)}, "too many"),
    "huge number": ("broker.down", {"broker": 10**30}, "is not a whole number"),
    "infinity": ("fault.add", {"hang": True, "probability": float("inf")}, "is not a number"),
    "no map at all": ("clock.get", [1], "map of names"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_line_that_names_it(case: str) -> None:
    name, given, told = WRONG[case]
    with pytest.raises(UsageError, match=r".") as raised:
        check(name, given)  # type: ignore[arg-type]
    text = str(raised.value)
    assert told in text
    assert "\n" not in text
    assert len(text) < 1500


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("orders-0", ("orders", 0)),
        ("orders/3", ("orders", 3)),
        ("my-topic-12", ("my-topic", 12)),
        ("__consumer_offsets-49", ("__consumer_offsets", 49)),
        ("offsets(billing)", "billing"),
        ("offsets(a (b) c)", "a (b) c"),
        ("transactions(orders-app)", TransactionalIdLog("orders-app")),
    ],
)
def test_logs_are_named_as_text(text: str, named: Any) -> None:
    assert examine_log(text) == named


@pytest.mark.parametrize(
    "text", ["orders", "orders-", "-1", "offsets()", "transactions()", "orders-99999999999", "orders-0x"]
)
def test_what_names_no_log(text: str) -> None:
    with pytest.raises(UsageError, match="is not a log"):
        examine_log(text)


def test_a_long_wrong_value_is_cut_in_the_error() -> None:
    with pytest.raises(UsageError, match=r"\.\.\. is not a whole number"):
        Count().read("9" * 500, "n")
