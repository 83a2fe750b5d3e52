"""Kinds of values: whatever is given is read or refused, and what was read reads as itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_sim.common.text import UsageError
from broker_sim.control.operations import OPERATIONS
from broker_sim.faults.rules import FIELDS
from broker_sim.fields import kafka, kinds
from broker_sim.fields.field import Field, read
from broker_sim.fields.problems import Problem, WrongInput
from broker_sim.simulation.faults.kinds import KINDS, Seconds

KINDS_OF_VALUES: list[kinds.FieldKind[Any]] = [
    kinds.Flag(),
    kinds.Count(0, 100),
    kinds.Count(),
    kinds.Number(0, 1),
    kinds.Number(),
    kinds.Duration(),
    kinds.Duration(1, 600),
    Seconds(),
    kinds.Text(),
    kinds.Password(),
    kinds.Choice(("Stable", "Empty")),
    kinds.NameOrNumber(),
    kinds.SettingValue(),
    kinds.ListOf(kinds.Count()),
    kinds.MapOf(kinds.Text(0)),
    kinds.OneOrMore(),
    kinds.Objects(),
    kafka.ErrorCode(none=True),
    kafka.ApiName(),
    kafka.ApiNames(),
    kafka.VersionRange(),
    kafka.LogName(),
]

SPELLED = [
    "yes",
    "0",
    "-1",
    "1e400",
    "1_0",
    "٣",
    "2-4",
    "orders-0",
    "offsets(a)",
    "stable",
    "NONE",
    "a=1,b",
    "{",
    "*",
    " 7 ",
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(SPELLED)
VALUES = st.recursive(SCALARS, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(), one, max_size=3))


@given(st.sampled_from(KINDS_OF_VALUES), VALUES)
def test_any_value_is_read_or_refused_and_what_was_read_reads_as_itself(
    kind: kinds.FieldKind[Any], value: object
) -> None:
    try:
        once = kind.read(value, "it")
    except UsageError:
        return
    assert kind.read(once, "it") == once
    assert kind.read(json.loads(json.dumps(once)), "it") == once


@pytest.mark.parametrize("kind", [kinds.Text(), kinds.Password(), kinds.SettingValue(), kinds.NameOrNumber()])
def test_halves_of_surrogate_pairs_are_refused(kind: kinds.FieldKind[Any]) -> None:
    """JSON can spell them, and a command line has them of bytes that are no UTF-8; Kafka's protocol and files can't."""
    for text in ("\ud800", "a\udcff"):
        for many, value in ((kind, text), (kinds.ListOf(kind), [text]), (kinds.MapOf(kind), {"key": text})):
            with pytest.raises(UsageError, match="UTF-8"):
                many.read(value, "it")
        with pytest.raises(UsageError, match="UTF-8"):
            kinds.MapOf(kind).read({text: "value"}, "it")


def test_no_error_shows_a_password() -> None:
    secret = "sec\0ret"
    for value in ({"alice": secret}, [secret], {"": "sec\0ret"}, {"alice": [secret]}, f"alice:{secret}"):
        with pytest.raises(UsageError, match=r"^users: .*the value is not a") as raised:
            kinds.MapOf(kinds.Password()).read(value, "users")
        assert "sec" not in str(raised.value)


def test_numbers_that_no_float_can_hold_are_refused() -> None:
    for kind in (kinds.Number(), kinds.Duration(), kinds.Count()):
        with pytest.raises(UsageError):
            kind.read(10**400)


@pytest.mark.parametrize(
    ("value", "list_"), [("a, b,", ["a", "b"]), (["a,b"], ["a,b"]), (("a", 7), ["a", "7"]), ("", []), ([], [])]
)
def test_a_text_is_a_list_with_commas_and_a_list_is_one(value: object, list_: list[str]) -> None:
    assert kinds.ListOf(kinds.Text()).read(value) == list_


@pytest.mark.parametrize(
    ("value", "written"), [(True, "true"), (0.5, "0.5"), (6, "6"), ("", ""), (["a", "b"], "a,b"), ("True", "True")]
)
def test_a_setting_is_written_as_kafka_writes_it(value: object, written: str) -> None:
    assert kinds.SettingValue().read(value) == written


def test_a_name_that_was_meant_otherwise_is_not_missing_too() -> None:
    fields = {"log": Field("log", kinds.Text(), "which log", required=True)}
    with pytest.raises(WrongInput) as error:
        read(fields, {"lgo": "a-0"}, "it", "argument")
    assert error.value.problems == (Problem("no argument 'lgo'; did you mean 'log'?", ("lgo",), "log"),)
    with pytest.raises(WrongInput, match=r"^it: log is missing \(which log\)$"):
        read(fields, {"log": None}, "it", "argument")


def test_the_keys_of_a_rule_are_declared_once() -> None:
    assert OPERATIONS["fault.add"].parameters == FIELDS
    assert {name: KINDS["rule"].fields[name] for name in FIELDS} == FIELDS
    assert {name: OPERATIONS["order.hold"].parameters[name] for name in list(FIELDS)[:8]} == dict(
        list(FIELDS.items())[:8]
    )
