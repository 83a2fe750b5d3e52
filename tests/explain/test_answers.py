"""One answer, several errors: which partitions were refused, whose they were, what became of the rest; and what of a client's own doing
can be known from that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.common.answers import in_words, rows
from broker_sim.explain import explain
from broker_sim.explain.events import Call
from broker_sim.explain.transaction_text import explain_transactions
from broker_sim.scenario.expectations import EventMatcher
from broker_sim.scenario.files import Table
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.explain.journals import LOG, Script
from tests.explain.test_words import A, B, C, said, timer
from tests.handles.members import Member

UNKNOWN_TOPIC, UNKNOWN_MEMBER = 3, 25


def commit(script: Script, member: str, told: dict[str, int], *, stored: bool = True) -> int:
    """A commit of offset 5 for each of ``told``, and its answer: partition -> error code."""
    by_topic: dict[str, list[tuple[int, int]]] = {}
    for log, code in told.items():
        topic, _, index = log.rpartition("-")
        by_topic.setdefault(topic, []).append((int(index), code))
    asked = [
        {"name": topic, "partitions": [{"partition_index": index, "committed_offset": 5} for index, _ in parts]}
        for topic, parts in by_topic.items()
    ]
    number = script.ask("OffsetCommit", member, topics=list(told))
    script.events[-1]["body"] = {"member_id": member, "topics": asked}
    good = [log for log, code in told.items() if not code]
    if good and stored:
        script.event("offsets", log=LOG, group="billing", request=number, offsets=dict.fromkeys(good, 5))
    body = [
        {"name": topic, "partitions": [{"partition_index": index, "error_code": code} for index, code in parts]}
        for topic, parts in by_topic.items()
    ]
    first = next((code for code in told.values() if code), 0)
    names = {UNKNOWN_TOPIC: "UNKNOWN_TOPIC_OR_PARTITION", UNKNOWN_MEMBER: "UNKNOWN_MEMBER_ID", 0: None}
    script.answer(number, names[first], topics=body)
    return number


def test_commits_that_are_refused_for_one_topic_and_stored_for_another() -> None:
    script = Script().formed([A, B])
    for second in range(3):
        script.at(4 + second)
        commit(script, A, {"ord.a-0": UNKNOWN_TOPIC, "ord.b-0": 0, "ord.b-1": 0})
    commit(script, B, {"ord.b-2": 0})
    words = said(script)
    assert (
        "3 commits of app-1 failed in part at once: UNKNOWN_TOPIC_OR_PARTITION for ord.a-0; the rest, for ord.b-0 and "
        "ord.b-1, was "
        "stored."
    ) in words
    assert "stored nevertheless" not in words
    assert "1 commit answered." in words


def test_a_commit_that_is_refused_for_its_only_topic_names_it() -> None:
    script = Script().formed([A, B]).at(4)
    commit(script, B, {"ord.a-0": UNKNOWN_TOPIC})
    assert "1 commit failed: UNKNOWN_TOPIC_OR_PARTITION for ord.a-0, of app-2, at once." in said(script)


def test_a_commit_that_is_refused_with_two_errors_has_each_for_its_own_partitions() -> None:
    assert (
        "1 commit failed: UNKNOWN_TOPIC_OR_PARTITION for ord.a-0 and UNKNOWN_MEMBER_ID for ord.b-0, of app-1, at once."
    ) in said(second_error())


def test_an_error_of_the_member_is_the_error_of_all_its_partitions() -> None:
    script = Script().formed([A]).at(4)
    commit(script, A, {"ord.a-0": UNKNOWN_MEMBER, "ord.b-0": UNKNOWN_MEMBER})
    assert "1 commit failed: UNKNOWN_MEMBER_ID at once." in said(script)


def test_the_second_error_of_an_answer_explains_a_rejoin() -> None:
    script = second_error()
    script.at(5).joins(A, state="PreparingRebalance")
    assert (
        "joined again, after its OffsetCommit got UNKNOWN_TOPIC_OR_PARTITION for ord.a-0, UNKNOWN_MEMBER_ID for "
        in (said(script))
    )


def test_a_refused_offset_that_is_replayed_is_stored_nevertheless() -> None:
    script = Script().formed([A]).at(4)
    number = commit(script, A, {"ord.a-0": UNKNOWN_TOPIC, "ord.b-0": 0})
    script.event("offsets", log=LOG, group="billing", request=number, offsets={"ord.a-0": 5})
    assert "1 of the failed commits was stored nevertheless." in said(script)


def test_topics_by_id_and_other_shapes() -> None:
    asked = {"topics": [{"topic_id": "AA", "partitions": [{"partition_index": 1, "committed_offset": 5}]}]}
    call = Call.of({"request": 1, "api": "OffsetCommit", "group": "g", "topics": ["ord.a-1"], "body": asked}, 0)
    body = {"topics": [{"topic_id": "AA", "partitions": [{"partition_index": 1, "error_code": 100}]}]}
    call.answered({"error": "UNKNOWN_TOPIC_ID", "body": body}, 1)
    assert (call.offsets, call.outcome) == ({"ord.a-1": 5}, "UNKNOWN_TOPIC_ID for ord.a-1")
    fetched = {"groups": [{"group_id": "other", "error_code": 16}, {"group_id": "g", "topics": body["topics"]}]}
    assert [row.what for row in rows(fetched, {"AA": "ord.a"}, "g")] == ["ord.a-1"]
    left = rows({"members": [{"member_id": "m-1", "error_code": 25}, {"member_id": "m-2", "error_code": 0}]}, {})
    assert in_words("UNKNOWN_MEMBER_ID", left) == "UNKNOWN_MEMBER_ID for m-1, NONE for m-2"


def test_a_topic_that_grew_beside_one_that_did_not() -> None:
    script = Script().formed([A]).at(10)
    number = script.ask("CreatePartitions", group=None)
    script.events[-1]["body"] = {"topics": [{"name": "gone", "count": 9}, {"name": "orders", "count": 12}]}
    results = [{"name": "gone", "error_code": UNKNOWN_TOPIC}, {"name": "orders", "error_code": 0}]
    script.answer(number, "UNKNOWN_TOPIC_OR_PARTITION", results=results)
    words = said(script)
    assert "Topic orders has 12 partitions now." in words
    assert "Topic gone" not in words


# --- what a client did is not seen ----------------------------------------------------------------------------------------


def retrying() -> Script:
    """app-3 joins; app-2 heartbeats, and commits for a topic that is deleted."""
    script = Script().formed([A, B]).at(9)
    number = script.ask("DeleteTopics", group=None)
    script.events[-1]["body"] = {"topics": [{"name": "ord.a"}]}
    script.answer(number, responses=[{"name": "ord.a", "error_code": 0}])
    first = script.at(10).joins(C, state="PreparingRebalance")
    script.at(11).call("Heartbeat", A, "REBALANCE_IN_PROGRESS")
    second = script.joins(A)
    for beat in range(4):
        script.at(12 + beat).call("Heartbeat", B, "REBALANCE_IN_PROGRESS")
        commit(script, B, {"ord.a-0": UNKNOWN_TOPIC})
    script.at(70)
    script.closes(timer("rebalance"), 2, A, [first, second], gone=[B])
    return script


def test_a_member_that_retries_commits_of_a_deleted_topic_does_poll() -> None:
    assert (
        "was removed; meanwhile 4 heartbeats and 4 refused commits (UNKNOWN_TOPIC_OR_PARTITION for ord.a-0 4 times; "
        "ord.a was "
        "deleted at 10:00:09.000) of it arrived, and no JoinGroup, though its Heartbeat was answered "
        "REBALANCE_IN_PROGRESS after "
        "2 s: its client may have retried those commits before it would rejoin, its application may not have polled, "
        "or a "
        "rebalance callback of it may have taken long (a broker does not see which)."
    ) in said(retrying(), 2)


def test_a_member_without_requests_is_named() -> None:
    script = Script().formed([A, B]).at(10)
    first = script.joins(C, state="PreparingRebalance")
    script.at(11).call("Heartbeat", A, "REBALANCE_IN_PROGRESS")
    second = script.joins(A)
    script.at(40)
    script.closes(timer("rebalance"), 2, A, [first, second], gone=[B])
    words = said(script, 2)
    assert "was removed; no request of it arrived meanwhile." in words
    assert "poll" not in words


@pytest.mark.kafka(topics={"orders": 1, "ord.a": 1}, clock="manual", config={"group.initial.rebalance.delay.ms": 0})
async def test_the_same_of_a_real_group(kafka: Cluster) -> None:
    one = await Member.connect(kafka)
    await one.enter()
    body = DeleteTopicsRequest([DeleteTopicState("ord.a")], timeout_ms=1000)
    assert (await one.wire.send(body, 6)).responses[0].error_code == 0
    other = await Member.connect(kafka, client_id="other")
    other.member_id = (await other.join()).member_id
    joins = other.join()
    beat = HeartbeatRequest(one.group, one.generation, one.member_id, None)
    while (await one.wire.send(beat, 3)).error_code != 27:
        await asyncio.sleep(0)
    for _ in range(6):
        await kafka.time.advance(9.5)
        assert (await one.wire.send(beat, 3)).error_code == 27
        assert errors(await one.wire.send(both(one), 8)) == [3, 0]
    await kafka.time.advance(3, wait=0)
    assert (await joins).error_code == 0
    words = explain(kafka.journal.events, "billing", width=100_000)
    assert (
        "6 refused commits (UNKNOWN_TOPIC_OR_PARTITION for ord.a-0, NONE for orders-0 6 times; ord.a was deleted at"
        in words
    )
    assert (
        "6 commits of app failed in part at once: UNKNOWN_TOPIC_OR_PARTITION for ord.a-0; the rest, for orders-0, was"
        in words
    )
    assert "its client may have retried those commits before it would rejoin" in words
    await one.close()
    await other.close()


def both(member: Member) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 0)]) for name in ("ord.a", "orders")
    ]
    return OffsetCommitRequest(member.group, member.generation, member.member_id, topics=topics)


def errors(response: Any) -> list[int]:
    return [topic.partitions[0].error_code for topic in response.topics]


def test_a_scenario_meets_any_error_of_an_answer() -> None:
    """``{api: OffsetCommit, error: UNKNOWN_MEMBER_ID}`` counts an answer that has it second."""
    events = [one for one in second_error().events if one["event"] == "response" and one["api"] == "OffsetCommit"]
    for wanted, hits in (("UNKNOWN_MEMBER_ID", 1), ("UNKNOWN_TOPIC_OR_PARTITION", 1), ("NOT_COORDINATOR", 0)):
        sign = EventMatcher(Table({"api": "OffsetCommit", "error": wanted}, {}, "a.yaml:1"))
        for event in events:
            sign.seen(event, Requests())  # type: ignore[arg-type]
        assert sign.hits == hits, wanted


class Requests:
    """Stand-in for the part of a scenario's run that a matcher of events uses: no request is found."""

    def request_of(self, event: dict[str, Any]) -> dict[str, Any] | None:
        return None


def second_error() -> Script:
    script = Script().formed([A, B]).at(4)
    commit(script, A, {"ord.a-0": UNKNOWN_TOPIC, "ord.b-0": UNKNOWN_MEMBER})
    return script


def test_the_second_error_of_a_response_shows_a_fenced_producer() -> None:
    events: list[dict[str, Any]] = []

    def write(event: str, **fields: Any) -> None:
        events.append({"seq": len(events) + 1, "ts_ms": 1000 * len(events), "event": event, **fields})

    about = {
        "log": "__transaction_state-1",
        "transactional_id": "pay",
        "producer_id": 1,
        "epoch": 0,
        "partitions": ["a-0"],
    }
    about |= {"timeout_ms": 9000, "started_ms": 0, "cause": {"kind": "timer"}}
    write("transaction", action="begun", state="Ongoing", **about)
    write("transaction", action="prepared", state="PrepareAbort", result="timed out", **about)
    write("request", request=1, api="TxnOffsetCommit", client_id="app", transactional_id="pay", body={})
    parts = [{"partition_index": 0, "error_code": UNKNOWN_TOPIC}, {"partition_index": 1, "error_code": 47}]
    body = {"topics": [{"name": "a", "partitions": parts}]}
    write("response", request=1, api="TxnOffsetCommit", error="UNKNOWN_TOPIC_OR_PARTITION", body=body)
    answer = (
        "The TxnOffsetCommit of app was answered UNKNOWN_TOPIC_OR_PARTITION for a-0, INVALID_PRODUCER_EPOCH for a-1"
    )
    text = explain_transactions(events, "pay", 100_000)
    assert f"{answer} after 3 s, 1 s after it had arrived: another producer had initialized the id." in text
