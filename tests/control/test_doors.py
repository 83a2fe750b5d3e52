"""The doors into a running cluster - Python handles, HTTP, command line, scenario files - have the same operations.

Three of them are drawn from one table (`control.operations`). Python's handles are written by hand: each operation names here what
does the same in Python, and each public method of a handle is one of these or stands under `PYTHON_ALONE` with its reason.
"""

from __future__ import annotations

import inspect

import pytest

from broker_sim import Cluster
from broker_sim.api.handles.brokers import BrokerHandle
from broker_sim.api.handles.groups import GroupHandle
from broker_sim.api.handles.logs import LogHandle
from broker_sim.api.handles.requests import RequestHistory
from broker_sim.api.handles.shares import ShareGroupHandle
from broker_sim.api.handles.topics import TopicHandle
from broker_sim.api.handles.transactions import TransactionHandle
from broker_sim.api.time_control import TimeControl
from broker_sim.control.operations import OPERATIONS
from broker_sim.control.verbs import VERBS
from broker_sim.faults.order import Hold, Order
from broker_sim.faults.recorded import Recording, Replay
from broker_sim.faults.registry import Fault, Faults
from broker_sim.journal import Journal
from broker_sim.scenario.files import loads
from broker_sim.scenario.model import parse
from broker_sim.scenario.running import ScenarioRun

IN_PYTHON: dict[str, tuple[type, str]] = {
    "broker.list": (Cluster, "brokers"),
    "broker.get": (Cluster, "broker"),
    "broker.down": (Cluster, "broker_down"),
    "broker.up": (BrokerHandle, "up"),
    "broker.restart": (BrokerHandle, "restart"),
    "broker.advertise": (BrokerHandle, "advertise"),
    "broker.restart_all": (Cluster, "restart_all"),
    "clock.get": (TimeControl, "now_ms"),
    "clock.advance": (TimeControl, "advance"),
    "cluster.create": (Cluster, "start"),
    "cluster.delete": (Cluster, "stop"),
    "cluster.list": (Cluster, "bootstrap"),
    "cluster.get": (Cluster, "bootstrap"),
    "group.get": (GroupHandle, "state"),
    "group.wait": (GroupHandle, "wait"),
    "group.explain": (GroupHandle, "explain"),
    "group.timeline": (GroupHandle, "timeline"),
    "group.commit": (GroupHandle, "commit"),
    "group.probe": (GroupHandle, "commit_probe"),
    "group.remove_member": (GroupHandle, "remove"),
    "share.get": (ShareGroupHandle, "partitions"),
    "share.expire": (ShareGroupHandle, "expire_locks"),
    "share.wait_locked": (ShareGroupHandle, "locked"),
    "share.deliveries": (ShareGroupHandle, "deliveries"),
    "transaction.get": (TransactionHandle, "state"),
    "transaction.wait": (TransactionHandle, "wait"),
    "transaction.explain": (TransactionHandle, "explain"),
    "transaction.abort": (TransactionHandle, "abort"),
    "transaction.hanging": (LogHandle, "open_transactions"),
    "transaction.abort_hanging": (LogHandle, "abort_transaction"),
    "state.set": (LogHandle, "set"),
    "state.heal": (LogHandle, "heal"),
    "state.list": (LogHandle, "states"),
    "log.get": (LogHandle, "end_offset"),
    "log.wait": (LogHandle, "pending"),
    "leader.move": (LogHandle, "move_to"),
    "leader.elect": (LogHandle, "elect"),
    "leader.prefer": (Cluster, "elect_preferred"),
    "request.list": (Cluster, "requests"),
    "request.wait": (RequestHistory, "wait"),
    "fault.add": (Cluster, "fault"),
    "fault.wait": (Fault, "wait"),
    "fault.get": (Fault, "hits"),
    "fault.release": (Fault, "release"),
    "fault.remove": (Fault, "remove"),
    "order.hold": (Order, "hold"),
    "order.wait": (Hold, "arrived"),
    "order.release": (Hold, "release"),
    "order.step": (Hold, "step"),
    "order.record": (Order, "record"),
    "order.replay": (Order, "replay"),
    "order.replayed": (Replay, "done"),
    "topic.get": (TopicHandle, "partitions"),
    "topic.create": (Cluster, "create_topic"),
    "topic.fill": (TopicHandle, "fill"),
    "topic.records": (TopicHandle, "records"),
    "topic.wait": (TopicHandle, "wait"),
    "topic.grow": (TopicHandle, "grow_to"),
    "topic.delete": (TopicHandle, "delete"),
}
IN_PYTHON |= {
    "group.list": (Cluster, "groups"),
    "share.wait_unlocked": (ShareGroupHandle, "no_locks"),
    "share.wait_delivered": (ShareGroupHandle, "delivered"),
    "transaction.list": (Cluster, "transactional_ids"),
    "journal.read": (Journal, "since"),
    "journal.next": (Journal, "next"),
    "journal.recent": (Journal, "last_events"),
    "journal.mark": (Journal, "write"),
    "log.fill": (LogHandle, "fill"),
    "log.lose_tail": (LogHandle, "lose_tail"),
    "log.lose_head": (LogHandle, "lose_head"),
    "fault.list": (Faults, "list"),
    "fault.clear": (Faults, "clear"),
    "order.list": (Order, "waiting"),
    "order.remove": (Hold, "remove"),
    "order.recorded": (Recording, "save"),
    "order.stop": (Recording, "end"),
    "order.unreplay": (Replay, "end"),
    "topic.list": (Cluster, "topics"),
    "scenario.start": (ScenarioRun, "to_dict"),
    "scenario.list": (ScenarioRun, "to_dict"),
    "scenario.get": (ScenarioRun, "verdict"),
    "scenario.wait": (ScenarioRun, "wait"),
    "scenario.end": (ScenarioRun, "end"),
}
"""Operation -> class and name of what does the same, or what its answer consists of."""

SHORT_FOR: dict[tuple[type, str], str] = {
    **{
        (GroupHandle, name): "group.wait"
        for name in (
            "reading",
            "stable",
            "empty",
            "state_is",
            "generation_is",
            "generation_at_least",
            "committed_at_least",
            "lag_below",
            "member_gone",
        )
    },
    (GroupHandle, "lag"): "group.get",
    (GroupHandle, "committed"): "group.get",
    (GroupHandle, "history"): "group.explain",
    (GroupHandle, "obstacle_to_reading"): "group.wait",
    (ShareGroupHandle, "committed"): "share.get",
    (ShareGroupHandle, "lag"): "group.get",
    (ShareGroupHandle, "done_with"): "group.wait",
    (TransactionHandle, "ongoing"): "transaction.wait",
    (TransactionHandle, "state_is"): "transaction.wait",
    (TransactionHandle, "history"): "transaction.explain",
    (TransactionHandle, "failed_requests"): "transaction.explain",
    **{
        (LogHandle, name): "state.set"
        for name in (
            "stuck",
            "under_min_isr",
            "slow",
            "loading",
            "no_leader",
            "not_leader",
            "storage_error",
            "full",
            "readonly",
            "too_large",
            "fenced",
        )
    },
    (LogHandle, "about"): "journal.read",
    (TopicHandle, "log"): "log.get",
    (BrokerHandle, "down"): "broker.down",
}
"""A method of a handle -> the operation that does it, with parameters in place of a name of its own."""

HANDLES = (BrokerHandle, GroupHandle, ShareGroupHandle, TransactionHandle, LogHandle, TopicHandle)


def test_every_operation_has_its_like_in_python() -> None:
    assert set(IN_PYTHON) == set(OPERATIONS)
    for name, (owner, attribute) in IN_PYTHON.items():
        known = hasattr(owner, attribute) or attribute in inspect.get_annotations(owner)
        assert known or f"self.{attribute}" in inspect.getsource(owner.__init__), (name, owner, attribute)


@pytest.mark.parametrize("handle", HANDLES, ids=lambda handle: handle.__name__)
def test_every_method_of_a_handle_is_an_operation(handle: type) -> None:
    methods = [
        name
        for name, value in vars(handle).items()
        if not name.startswith("_") and inspect.isfunction(value)  # properties are what answers consist of
    ]
    assert methods
    operations = set(IN_PYTHON.values())
    assert [name for name in methods if (handle, name) not in operations and (handle, name) not in SHORT_FOR] == []


def test_every_operation_is_a_command() -> None:
    assert {verb.operation for verbs in VERBS.values() for verb in verbs.values()} == set(OPERATIONS)


def test_what_is_short_for_an_operation_is_there() -> None:
    for (handle, name), operation in SHORT_FOR.items():
        assert callable(getattr(handle, name)), (handle, name)
        assert operation in OPERATIONS


@pytest.mark.parametrize(
    "short",
    ["{topic: orders, grow_to: 3}", "{topic: orders, fill: 3}", "{topic: orders, delete: true}"],
)
def test_short_forms_of_a_scenario_are_operations_too(short: str) -> None:
    text = f"topics: [{{name: orders}}]\nsteps: [{{do: {short}}}]\nexpect: [{{never: {{event: broker, action: down}}}}]"
    [step] = parse(loads(text)).steps
    [action] = step.actions
    assert action.name in OPERATIONS
    assert action.params["topic"] == "orders"
