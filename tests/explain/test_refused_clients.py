"""Clients that could not be served: those that concern a group, and how they are counted."""

from __future__ import annotations

import pytest

from broker_sim import Cluster
from broker_sim.explain import explain, recent
from broker_sim.explain.refused_clients import MOST, refused_lines
from broker_sim.explain.terminal import timeline
from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from tests.explain.journals import Script
from tests.explain.test_words import A, B, said
from tests.handles.test_consumer_groups import Consumer
from tests.support.wire import Wire

EXPIRED = "the session of user 'alice' has expired, and the client did not authenticate again"


def refuse(script: Script, client_id: str | None, reason: str, **fields: str) -> None:
    named = {} if client_id is None else {"client_id": client_id}
    fields = {"peer": "/10.0.0.1", "listener": "SASL_SSL", **named, "reason": reason, **fields}
    script.event("connection", broker=1, connection=1, action="refused", **fields)


def test_equal_refusals_are_counted_until_the_last_one() -> None:
    script = Script().at(0)
    for second in (0, 5, 9):
        refuse(script.at(second), "orders", "a", host="app-1")
    refuse(script.at(10), None, "b")
    assert refused_lines(script.events) == [
        "10:00:00.000  3 connections of app-1 (client orders) were closed until 10:00:09.000: a",
        "10:00:10.000  1 connection of 10.0.0.1 was closed: b",
    ]


@pytest.mark.parametrize(
    ("reason", "shown"),
    [("invalid SCRAM client first message", " (user 'alice')"), ("wrong password of user 'alice'", "")],
)
def test_the_user_is_named_once(reason: str, shown: str) -> None:
    script = Script()
    refuse(script, "orders", reason, user="alice")
    assert refused_lines(script.events)[0].endswith(f"was closed: {reason}{shown}")


def test_the_most_frequent_reasons_are_named_and_the_others_counted() -> None:
    script = Script()
    for number in range(MOST + 3):
        for _ in range(MOST + 3 - number):
            refuse(script, "orders", f"reason {number}")
    lines = refused_lines(script.events)
    assert [line.rpartition(": ")[2] for line in lines[:-1]] == [f"reason {number}" for number in range(MOST)]
    assert lines[-1].endswith("6 more connections were closed for other reasons or of other clients")


def test_opened_and_closed_connections_are_no_refusals() -> None:
    script = Script()
    for action in ("opened", "closed"):
        script.event("connection", broker=1, connection=1, peer="/10.0.0.1", action=action, reason="idle for 600000 ms")
    assert refused_lines(script.events) == []


def test_a_members_client_that_was_refused_is_in_its_history() -> None:
    script = Script().formed([A, B])
    refuse(script.at(20), "app-1", EXPIRED)
    refuse(script.at(21), "web", "wrong password of user 'web'")
    sentence = f"1 connection of 10.0.0.1 (client app-1) was closed: {EXPIRED}"
    assert f"10:00:20.000  {sentence}." in said(script)
    assert f"  10:00:20.000  {sentence}" in recent(script.events, "billing").splitlines()
    assert f"10:00:20.000  {sentence}" in timeline(script.events, "billing", width=200)
    assert "client web" not in said(script)


@pytest.mark.parametrize("others", [0, 1])
def test_a_group_whose_members_left_may_lack_the_only_client_that_was_refused(others: int) -> None:
    script = Script().formed([A]).at(20)
    script.step({"kind": "timer", "timer": "session", "member": A}, gone=[A], state="Empty", leader=None)
    refuse(script.at(30), "orders", "a")
    for _ in range(others):
        refuse(script, "web", "a")
    assert ("1 connection of 10.0.0.1 (client orders) was closed: a" in said(script)) == (not others)


def test_a_group_with_members_does_not_report_another_client() -> None:
    script = Script().formed([A])
    refuse(script.at(20), "orders", "a")
    assert "was closed" not in said(script)


def test_an_unknown_group_reports_all() -> None:
    script = Script()
    refuse(script, "orders", "a")
    refuse(script, None, "b")
    lines = explain(script.events, "billing", width=200).splitlines()
    assert lines == [
        "No events of group 'billing' in the journal.",
        *(f"{line}." for line in refused_lines(script.events)),
    ]


async def test_an_epoch_based_group_reports_its_members_clients() -> None:
    async with Cluster(topics={"orders": 4}, clock="manual") as kafka:
        kafka.observe()
        member = await Consumer.joined(kafka, "one")
        for client_id in (member.wire.client_id, "web"):
            wire = await Wire.connect(kafka.bootstrap, client_id=client_id)
            await wire.send(SaslHandshakeRequest("PLAIN"), 1)
            await wire.close()
        text = " ".join(kafka.group("g").explain().split())
        assert f"1 connection of 127.0.0.1 (client {member.wire.client_id}) was closed: asks for SASL" in text
        assert "client web" not in text
        await member.wire.close()
