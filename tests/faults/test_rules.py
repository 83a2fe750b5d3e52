"""Rules as data: what they take, what they refuse and with which words, how they read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_sim.common.text import UsageError
from broker_sim.faults.rules import RULE_KEYS, VERDICTS, ActionKind, rule_from
from broker_sim.faults.selectors import Asked, fits, selector_from
from broker_sim.requests.facts import RequestFacts
from kafka_wire.api_keys import API_NAMES, ApiKey, advertised
from kafka_wire.errors import Err


def commit(**facts: Any) -> Asked:
    values: dict[str, Any] = {"groups": ("billing",), "members": ("app-1-x",), "topics": (("orders", 0), ("orders", 3))}
    return Asked(ApiKey.OFFSET_COMMIT, 8, "app-1", 2, RequestFacts(**{**values, **facts}))


@pytest.mark.parametrize(
    ("selector", "takes"),
    [
        ({}, True),
        ({"api": "OffsetCommit"}, True),
        ({"api": "offsetcommit"}, True),
        ({"api": "OFFSET_COMMIT"}, True),
        ({"api": "*"}, True),
        ({"api": "Offset*"}, True),
        ({"api": ["Heartbeat", "OffsetCommit"]}, True),
        ({"api": "Heartbeat, OffsetCommit"}, True),
        ({"api": "Heartbeat"}, False),
        ({"version": 8}, True),
        ({"version": "7-9"}, True),
        ({"version": "2-4"}, False),
        ({"client_id": "app-*"}, True),
        ({"client_id": "app"}, False),
        ({"group": "billing"}, True),
        ({"group": "b*g"}, True),
        ({"group": "audit"}, False),
        ({"member": "app-1-*"}, True),
        ({"member": "app-2-*"}, False),
        ({"topic": "orders"}, True),
        ({"topic": "orders", "partition": 3}, True),
        ({"topic": "orders", "partition": 1}, False),
        ({"topic": "o*", "partition": "0"}, True),
        ({"broker": 2}, True),
        ({"broker": 1}, False),
        ({"api": "OffsetCommit", "group": "billing", "broker": 1}, False),
    ],
)
def test_a_selector_takes_what_fits_all_its_keys(selector: dict[str, object], takes: bool) -> None:
    assert selector_from(selector).matches(commit()) is takes


def test_a_static_member_is_selected_by_its_instance_id_too() -> None:
    assert selector_from({"member": "pod-7"}).matches(commit(instances=("pod-7",)))


def test_a_request_about_several_groups_is_taken_if_one_of_them_fits() -> None:
    describe = Asked(ApiKey.DESCRIBE_GROUPS, 5, None, 1, RequestFacts(("audit", "billing")))
    assert selector_from({"group": "billing"}).matches(describe)
    assert not selector_from({"group": "orders"}).matches(describe)


def test_a_request_without_a_client_id_fits_only_any_client() -> None:
    nobody = Asked(ApiKey.HEARTBEAT, 4, None, 1)
    assert not selector_from({"client_id": "app*"}).matches(nobody)
    assert selector_from({"client_id": "*"}).matches(nobody)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"api": "OfsetCommit", "drop": True}, "no API 'OfsetCommit'; did you mean 'OffsetCommit'?"),
        ({"api": "OffsetCommit", "grup": "x", "drop": True}, "no key 'grup' of a rule; did you mean 'group'?"),
        ({"error": "NOT_CORDINATOR"}, "no error 'NOT_CORDINATOR'; did you mean 'NOT_COORDINATOR'?"),
        ({"error": 999}, "Kafka has no error with the code 999"),
        ({"error": "NONE"}, "NONE is not an error"),
        ({"error": True}, "is not an error"),
        ({"api": "Heartbeat"}, "a rule needs an action; expected one of error, "),
        ({"drop": True, "hang": True}, "a rule has one action, not hang and drop"),
        ({"drop": "perhaps"}, "is not true or false"),
        ({"delay": "soon"}, "delay: 'soon' is not a duration"),
        ({"delay": "1s", "gap": "1s"}, "gap is for the action split, not for delay"),
        ({"split": 0}, "split: 0 is not a whole number from 1"),
        ({"truncate": -1}, "truncate: -1 is not a whole number from 0"),
        ({"throttle_ms": "2s"}, "throttle_ms: '2s' is not a whole number"),
        ({"nth": 0, "drop": True}, "nth: 0 is not a whole number from 1"),
        ({"times": True, "drop": True}, "times: True is not a whole number from 1"),
        ({"probability": 1.5, "drop": True}, "probability: 1.5 is not a number from 0 to 1"),
        ({"during": 0, "drop": True}, "a window of 0 ms matches no request"),
        ({"partition": 1, "drop": True}, "partition 1 without a topic"),
        ({"topic": "a", "partition": -1, "drop": True}, "partition: -1 is not a whole number from 0"),
        ({"api": "Heartbeat", "version": 9, "drop": True}, "version 9 can't match: Heartbeat has v0 to v4"),
        ({"api": "Heartbeat", "version": "four", "drop": True}, "'four' is not a version or a range"),
        ({"version": "4-2", "drop": True}, "4-2 is an empty range"),
        (
            {"api": "Heartbeat", "topic": "orders", "drop": True},
            "Heartbeat can't be selected by topic: they select by group",
        ),
        ({"api": "ApiVersions", "group": "g", "drop": True}, "its requests name neither group nor topic"),
        ({"api": "Nothing*", "drop": True}, "invalid API 'Nothing*'"),
        ({"api": [], "drop": True}, "an empty list selects nothing"),
        ({"group": True, "drop": True}, "group: True is not a text"),
        ({"broker": 9, "drop": True}, "no broker 9; expected one of 1, 2"),
    ],
)
def test_what_can_not_be_meant_is_refused_in_one_line(rule: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        rule_from(rule, brokers=[2, 1])
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_api_of_a_later_release_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Kafka 3\.4 has no API DescribeTopicPartitions"):
        rule_from({"api": "DescribeTopicPartitions", "drop": True}, as_version="3.4")


def test_versions_are_those_of_the_emulated_release() -> None:
    with pytest.raises(UsageError, match=r"OffsetCommit has v0 to v8 in Kafka 3\.4"):
        rule_from({"api": "OffsetCommit", "version": 9, "drop": True}, as_version="3.4")
    assert rule_from({"api": "OffsetCommit", "version": 9, "drop": True}, as_version="4.1").selector.versions == (9, 9)


@pytest.mark.parametrize(
    "value", ["NOT_COORDINATOR", "not_coordinator", "not-coordinator", 16, "16", Err.NOT_COORDINATOR]
)
def test_an_error_may_be_given_by_name_or_by_code(value: object) -> None:
    assert rule_from({"error": value}).verdict.error is Err.NOT_COORDINATOR


def test_a_value_of_none_is_a_key_that_is_not_there() -> None:
    assert rule_from({"api": None, "group": None, "delay": None, "hang": True}) == rule_from({"hang": True})
    assert rule_from({"drop": False, "hang": True}).verdict.kind is ActionKind.HANG


def test_chance_owes_no_hit_unless_told() -> None:
    assert rule_from({"drop": True}).must_hit
    assert not rule_from({"drop": True, "probability": 0.5}).must_hit
    assert rule_from({"drop": True, "probability": 0.5, "must_hit": True}).must_hit
    assert not rule_from({"drop": True, "must_hit": "false"}).must_hit


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"hang": True}, "every request: never answer"),
        (
            {"api": "OffsetCommit", "group": "billing", "times": 3, "error": 16},
            "OffsetCommit group=billing, at most 3 times: answer NOT_COORDINATOR",
        ),
        (
            {"api": "JoinGroup", "version": "2-4", "nth": 3, "error_after": "REQUEST_TIMED_OUT"},
            "JoinGroup v2-4, 3rd match: answer REQUEST_TIMED_OUT after it was applied",
        ),
        (
            {"api": "Fetch", "nth": 2, "times": 2, "delay": "2s"},
            "Fetch, 2nd match and after, at most 2 times: handle it 2 s late",
        ),
        (
            {
                "api": ["Heartbeat", "JoinGroup"],
                "probability": 0.25,
                "after": "1s",
                "during": "90s",
                "reply_delay": "250ms",
            },
            "JoinGroup/Heartbeat, with probability 0.25, after 1 s, during 1 min 30 s: answer it 250 ms late",
        ),
        ({"drop": True, "times": 1}, "every request, once: drop the connection"),
        ({"drop_after": True}, "every request: drop the connection after it was applied"),
        ({"truncate": 7}, "every request: send 7 bytes of the response and close"),
        ({"split": 5, "gap": "1s"}, "every request: send 5 bytes of the response, the rest 1 s later"),
        ({"throttle_ms": 1500}, "every request: throttle for 1.5 s"),
    ],
)
def test_a_rule_reads_as_a_sentence(rule: dict[str, object], text: str) -> None:
    assert rule_from(rule).text() == text


# --- any rule ---------------------------------------------------------------------------------------------------------

NAMES = st.text("abc-_.*", min_size=1, max_size=8)


def durations(least_ms: int = 0) -> st.SearchStrategy[str]:
    return st.integers(least_ms, 10_000).map(lambda ms: f"{ms}ms")


VERDICT = st.one_of(
    st.fixed_dictionaries({"error": st.sampled_from([e.name for e in Err if e])}),
    st.fixed_dictionaries({"error_after": st.sampled_from([int(e) for e in Err if e])}),
    st.fixed_dictionaries({"delay": durations()}),
    st.fixed_dictionaries({"reply_delay": durations()}),
    st.sampled_from([{"hang": True}, {"drop": True}, {"drop_after": True}]),
    st.fixed_dictionaries({"truncate": st.integers(0, 2**31 - 1)}),
    st.fixed_dictionaries({"split": st.integers(1, 2**31 - 1)}, optional={"gap": durations()}),
    st.fixed_dictionaries({"throttle_ms": st.integers(1, 2**31 - 1)}),
)
REST = st.fixed_dictionaries(
    {},
    optional={
        "api": st.sampled_from(["OffsetCommit", "offsetFetch", ["OffsetCommit", "OffsetDelete"], "Offset*"]),
        "client_id": NAMES,
        "group": NAMES,
        "member": NAMES,
        "topic": NAMES,
        "broker": st.integers(0, 9),
        "nth": st.integers(1, 9),
        "times": st.integers(1, 9),
        "probability": st.floats(0, 1),
        "after": durations(),
        "during": durations(1),
        "must_hit": st.booleans(),
    },
)


@given(VERDICT, REST)
def test_a_rule_survives_json(verdict: dict[str, object], rest: dict[str, object]) -> None:
    if rest.get("api") == ["OffsetCommit", "OffsetDelete"]:
        rest.pop("member", None)
    rule = rule_from({**rest, **verdict})
    again = json.loads(json.dumps(rule.to_dict()))
    assert rule_from(again) == rule
    assert set(again) <= set(RULE_KEYS)
    assert rule.text() == rule_from(again).text()


@given(
    st.dictionaries(
        st.sampled_from(RULE_KEYS), st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), NAMES)
    )
)
def test_any_values_give_a_rule_or_a_usage_error(values: dict[str, object]) -> None:
    try:
        rule = rule_from(values)
    except UsageError:
        return
    assert rule.verdict.kind.value in VERDICTS


@given(NAMES, st.text("abc-_.", max_size=12))
def test_a_glob_fits_what_its_pieces_make(glob: str, value: str) -> None:
    pieces = glob.split("*")
    rest, fitting = value, True
    if len(pieces) == 1:
        fitting = glob == value
    else:
        first, *middle, last = pieces
        fitting = rest.startswith(first)
        rest = rest[len(first) :]
        for piece in middle:
            at = rest.find(piece)
            fitting = fitting and at >= 0
            rest = rest[at + len(piece) :]
        fitting = fitting and rest.endswith(last) and len(rest) >= len(last)
    assert fits(glob, value) is fitting


def test_every_api_can_be_named() -> None:
    for name, key in API_NAMES.items():
        as_version = "4.1" if key in advertised("4.1") else "4.4"  # streams groups came after 4.1
        low, high = advertised(as_version)[key]
        rule = rule_from({"api": name, "version": f"{low}-{high}", "hang": True}, as_version=as_version)
        assert rule.selector.apis == {key}
