"""The names that editors complete are those that the broker knows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args

import pytest

from broker_sim import Cluster, GroupHandle, LogHandle, TopicHandle, TransactionHandle
from broker_sim.api.cluster_options import INTERNAL_TOPICS, ClockName, Options
from broker_sim.config.settings import SECURITY_PROTOCOLS
from broker_sim.faults.conditions import KINDS
from broker_sim.faults.rules import RuleKeys
from broker_sim.fields import names
from broker_sim.fields.kafka import GROUP_STATE, ISOLATION, TRANSACTION_STATE, ApiName, ErrorCode
from broker_sim.fields.names import ApiLiteral, ClockLiteral, ErrorLiteral
from kafka_wire.api_keys import API_NAMES, KAFKA_VERSIONS
from kafka_wire.errors import Err


def test_every_api_and_error_is_there() -> None:
    assert list(get_args(ApiLiteral)) == list(API_NAMES)
    assert list(get_args(ErrorLiteral)) == list(Err.__members__)
    assert [ApiName(pattern=False).read(name) for name in get_args(ApiLiteral)] == list(API_NAMES)
    assert [ErrorCode(none=True).read(name) for name in get_args(ErrorLiteral)] == list(Err)


@pytest.mark.parametrize(
    ("literal", "known"),
    [
        ("ReleaseLiteral", list(KAFKA_VERSIONS)),
        ("SecurityProtocolLiteral", list(SECURITY_PROTOCOLS)),
        ("InternalTopicsLiteral", list(INTERNAL_TOPICS)),
        ("IsolationLiteral", ISOLATION.names()),
        ("GroupStateLiteral", GROUP_STATE.names()),
        ("TransactionStateLiteral", TRANSACTION_STATE.names()),
        ("PartitionStateLiteral", list(KINDS)),
    ],
)
def test_every_other_name_is_there(literal: str, known: list[str]) -> None:
    assert list(get_args(getattr(names, literal))) == known


def test_each_clock_is_one() -> None:
    assert [ClockName().read(name) for name in get_args(ClockLiteral)] == list(get_args(ClockLiteral))


@pytest.mark.parametrize(
    ("function", "parameter", "literal"),
    [
        (Cluster.__init__, "as_version", "ReleaseLiteral"),
        (Cluster.__init__, "clock", "ClockLiteral"),
        (Cluster.__init__, "security_protocol", "SecurityProtocolLiteral"),
        (Cluster.__init__, "internal_topics", "InternalTopicsLiteral"),
        (GroupHandle.wait, "state", "GroupStateLiteral"),
        (GroupHandle.state_is, "state", "GroupStateLiteral"),
        (TransactionHandle.wait, "state", "TransactionStateLiteral"),
        (TransactionHandle.state_is, "state", "TransactionStateLiteral"),
        (LogHandle.set, "state", "PartitionStateLiteral"),
        (TopicHandle.records, "isolation", "IsolationLiteral"),
        (TopicHandle.wait, "isolation", "IsolationLiteral"),
    ],
)
def test_parameters_have_them(function: Callable[..., Any], parameter: str, literal: str) -> None:
    assert literal in str(inspect.signature(function).parameters[parameter].annotation)


def test_keys_have_them() -> None:
    assert all("ErrorLiteral" in str(RuleKeys.__annotations__[name]) for name in ("error", "error_after"))
    given = Options.__annotations__
    assert "ReleaseLiteral" in str(given["as_version"])
    assert "ClockLiteral" in str(given["clock"])
