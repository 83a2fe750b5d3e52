"""Equal answers in one line: of the same cause, time, client and process alone."""

from __future__ import annotations

from broker_sim.explain import recent
from tests.explain.journals import Script
from tests.explain.test_words import A, B, said

RULE = "error COORDINATOR_NOT_AVAILABLE"
UNAVAILABLE = "COORDINATOR_NOT_AVAILABLE"


def refused(
    script: Script, api: str, member: str = "", error: str = UNAVAILABLE, *, rule: str = "", **body: object
) -> None:
    number = script.ask(api, member, **body)
    if rule:
        script.event("fault", fault=1, rule=f"{api} {rule}", request=number, verdict=rule)
    script.answer(number, error)


def lines(script: Script, api: str) -> list[str]:
    return [line.strip() for line in recent(script.events, "billing", 100).splitlines() if api in line]


def test_a_rule_that_answered_once_is_not_the_cause_of_the_brokers_own_answers() -> None:
    script = Script().formed([A])
    for turn in range(18):
        refused(script.at(10 + turn / 10), "FindCoordinator", client_id="app-1", rule="" if turn else RULE)
    assert lines(script, "FindCoordinator") == [
        f"10:00:10.000  FindCoordinator of app-1: {UNAVAILABLE} at once [fault: {RULE}]",
        f"10:00:10.100  FindCoordinator of app-1: {UNAVAILABLE} at once (×17), until 10:00:11.700",
    ]


def test_each_client_of_equal_answers_is_named() -> None:
    script = Script().formed([A])
    for turn in range(6):
        client = "west" if turn % 3 else "east"
        refused(script.at(10 + turn / 10), "FindCoordinator", client_id=client)
    assert lines(script, "FindCoordinator") == [
        f"10:00:10.000  FindCoordinator of east (×2) and west (×4): {UNAVAILABLE} at once"
    ]


def test_processes_with_one_client_id_are_told_apart_by_their_hosts() -> None:
    script = Script().formed([A])
    for host in ("/10.0.0.1", "/10.0.0.2"):
        number = script.at(10).ask("FindCoordinator", client_id="app")
        script.events[-1]["client_host"] = host
        script.answer(number, UNAVAILABLE)
    assert lines(script, "FindCoordinator") == [
        f"10:00:10.000  FindCoordinator of app at /10.0.0.1 and app at /10.0.0.2: {UNAVAILABLE} at once"
    ]


def test_a_client_without_a_member_id_is_not_counted_as_a_member() -> None:
    script = Script().formed([A])
    refused(script.at(10), "OffsetCommit", A, "NOT_COORDINATOR")
    refused(script.at(10.1), "OffsetCommit", "", "NOT_COORDINATOR", client_id="admin")
    assert lines(script, "OffsetCommit") == ["10:00:10.000  OffsetCommit of app-1 and admin: NOT_COORDINATOR at once"]


def test_clients_in_turns_have_a_line_for_each_cause() -> None:
    script = Script().formed([A, B])
    for turn in range(6):
        member = B if turn % 2 else A
        refused(script.at(10 + turn / 10), "Heartbeat", member, "NOT_COORDINATOR", rule="" if turn % 2 else "error")
    assert lines(script, "Heartbeat") == [
        "10:00:10.000  Heartbeat of app-1: NOT_COORDINATOR at once (×3) [fault: error]",
        "10:00:10.100  Heartbeat of app-2: NOT_COORDINATOR at once (×3)",
    ]


def test_another_answer_to_the_same_client_in_between_ends_a_run() -> None:
    script = Script().formed([A])
    for turn, error in enumerate(["NOT_COORDINATOR", "UNKNOWN_SERVER_ERROR", "NOT_COORDINATOR"]):
        refused(script.at(10 + turn / 10), "Heartbeat", A, error)
    assert len(lines(script, "Heartbeat")) == 3


def test_equal_answers_an_hour_apart_are_two_incidents() -> None:
    script = Script().formed([A])
    for second in (10, 11, 3610):
        refused(script.at(second), "Heartbeat", A, "NOT_COORDINATOR")
    assert lines(script, "Heartbeat") == [
        "10:00:10.000  Heartbeat of app-1: NOT_COORDINATOR at once (×2), until 10:00:11.000",
        "11:00:10.000  Heartbeat of app-1: NOT_COORDINATOR at once",
    ]


def test_commits_and_errors_of_a_generation_name_the_rule_for_those_it_answered() -> None:
    script = Script().formed([A])
    for turn in range(3):
        refused(script.at(10 + turn), "OffsetCommit", A, "NOT_COORDINATOR", rule="" if turn else "error")
        refused(script, "Heartbeat", A, "NOT_COORDINATOR", rule="" if turn else "error")
    words = said(script)
    assert "3 commits failed: 2 NOT_COORDINATOR at once and 1 NOT_COORDINATOR at once [fault: error]." in words
    assert "Errors besides: Heartbeat NOT_COORDINATOR twice and Heartbeat NOT_COORDINATOR [fault: error] once." in words
