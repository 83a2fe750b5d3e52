"""The journal in memory: writing, listening, waiting for what comes next."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from broker_sim.common.clock import ManualClock
from broker_sim.common.text import UsageError
from broker_sim.coordinator import shard
from broker_sim.coordinator.transaction import shard as transaction_shard
from broker_sim.journal import DESCRIPTIONS, EVENTS, PARTS, Journal, Seen, WaitTimeout, about, problems
from kafka_wire.errors import Err
from tests.support import journal_check


@pytest.fixture
def journal() -> Journal:
    return Journal(ManualClock(1_000))


def ask(journal: Journal, number: int, api: str = "OffsetCommit", group: str | None = "billing") -> None:
    names = {} if group is None else {"group": group}
    journal.write(
        "request",
        request=number,
        broker=1,
        connection=1,
        api=api,
        version=9,
        correlation_id=number,
        client_id="app",
        client_host="/127.0.0.1",
        body={"n": number},
        **names,
    )


def answer(journal: Journal, number: int, api: str = "OffsetCommit", error: str | None = None) -> None:
    names = {} if error is None else {"error": error}
    journal.write("response", request=number, api=api, took_ms=5, body={"to": number}, **names)


def snapshot(generation: int, state: str = "Stable") -> dict[str, object]:
    return {
        "state": state,
        "generation": generation,
        "protocol": None,
        "leader": None,
        "size": 0,
        "members": [],
        "pending": [],
    }


def test_events_are_numbered_and_stamped_by_the_clock(journal: Journal) -> None:
    event = journal.write("mark", text="one")
    assert event == {"seq": 1, "ts_ms": 1_000, "event": "mark", "text": "one"}
    assert journal.write("mark", text="two")["seq"] == journal.seq == 2
    assert next(iter(journal.events)) is event


def test_since_gives_what_came_later_and_is_still_there() -> None:
    journal = Journal(ManualClock(), keep=3)
    for number in range(1, 6):
        journal.write("mark", text=str(number))
    assert [e["seq"] for e in journal.since(3)] == [4, 5]
    assert [e["seq"] for e in journal.since(0)] == [3, 4, 5]
    assert journal.since(5) == journal.since(99) == []


def test_listeners_hear_every_event_until_they_end_it(journal: Journal) -> None:
    heard: list[int] = []
    end = journal.subscribe(lambda event: heard.append(event["seq"]))
    journal.write("mark", text="a")
    end()
    end()
    journal.write("mark", text="b")
    assert heard == [1]


def test_a_listener_that_fails_is_dropped_and_hurts_nobody(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    def fail(event: dict[str, object]) -> None:
        raise RuntimeError("no")

    journal.subscribe(fail)
    journal.subscribe(lambda event: heard.append(event["seq"]))
    journal.write("mark", text="a")
    journal.write("mark", text="b")
    assert heard == [1, 2]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_listener_may_end_itself_and_others_while_it_is_called(journal: Journal) -> None:
    ends = []
    ends.append(journal.subscribe(lambda event: [end() for end in ends]))
    ends.append(journal.subscribe(lambda event: None))
    journal.write("mark", text="a")
    assert not journal._listeners


def test_unanswered_requests_are_known(journal: Journal) -> None:
    ask(journal, 1)
    ask(journal, 2)
    answer(journal, 1)
    assert list(journal.open_requests) == [2]
    assert journal.request(1) is not None
    assert journal.request(3) is None


def test_the_number_of_groups_in_a_load_event_is_no_group() -> None:
    assert not about({"event": "load", "log": "__consumer_offsets-9", "action": "unloaded", "groups": 1}, "billing")
    assert about({"event": "append", "log": "__consumer_offsets-9", "groups": ["billing"]}, "billing")


def test_generations_of_a_group_are_counted_once_each(journal: Journal) -> None:
    for before, after in ((None, snapshot(0, "Empty")), (snapshot(0), snapshot(1)), (snapshot(1), snapshot(2))):
        journal.write(
            "group", log="__consumer_offsets-1", group="g", cause={"kind": "load"}, before=before, after=after
        )
    journal.write(
        "group", log="__consumer_offsets-1", group="g", cause={"kind": "unload"}, before=snapshot(2), after=None
    )
    assert journal.generations == {"g": {1, 2}}


# --- next ---------------------------------------------------------------------------------------------------------------


async def test_next_listens_from_its_call_on(journal: Journal) -> None:
    ask(journal, 1)
    coming = journal.next("OffsetCommit")
    ask(journal, 2)
    assert (await coming).request == 2


async def test_next_waits_for_what_is_not_there_yet(journal: Journal) -> None:
    coming = asyncio.ensure_future(journal.next("offsetcommit", group="billing", answered=True))
    await asyncio.sleep(0)
    ask(journal, 1, "Heartbeat")
    ask(journal, 2, group="audit")
    ask(journal, 3)
    for number in (2, 1, 3):
        answer(journal, number, "Heartbeat" if number == 1 else "OffsetCommit", "REQUEST_TIMED_OUT")
    seen = await coming
    assert seen.error is Err.REQUEST_TIMED_OUT
    assert not seen.ok
    assert (seen.request, seen.api, seen.group, seen.took_ms) == (3, "OffsetCommit", "billing", 5)
    assert (seen.body, seen.answer) == ({"n": 3}, {"to": 3})
    assert journal.open_requests == {}
    assert not journal._listeners


async def test_next_may_look_back(journal: Journal) -> None:
    ask(journal, 1)
    assert (await journal.next("OffsetCommit", since=0)).request == 1


async def test_next_takes_other_kinds_and_fields(journal: Journal) -> None:
    coming = journal.next(event="timer", timer="append")
    journal.write("timer", log="__consumer_offsets-1", timer="session", group="g", member="m", due_ms=1)
    journal.write("timer", log="__consumer_offsets-1", timer="append", ticket=4, due_ms=2)
    seen = await coming
    assert (seen.ticket, seen.error, seen.ok) == (4, Err.NONE, True)
    anything = journal.next(group="g")
    journal.write("committed", log="__consumer_offsets-1", groups=["f", "g"], high_watermark=3)
    assert (await anything).event == "committed"


async def test_a_wait_that_ends_in_vain_says_what_for_and_what_there_is(journal: Journal) -> None:
    ask(journal, 7)
    with pytest.raises(WaitTimeout) as failure:
        await journal.next("OffsetCommit", group="billing", answered=True, timeout="20ms")
    text = str(failure.value)
    assert text.startswith("an answered OffsetCommit with group='billing': not within 20 ms\n")
    assert "now: unanswered: request 7, OffsetCommit v9 of 'app' (group 'billing')" in text
    assert "last in the journal:" in text
    assert isinstance(failure.value, AssertionError)
    with pytest.raises(WaitTimeout, match="the next event mark: not within 1 ms"):
        await journal.next(event="mark", timeout="1ms")
    assert not journal._listeners


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"api": "OfsetCommit"}, "no API 'OfsetCommit'; did you mean 'OffsetCommit'?"),
        ({"event": "timr"}, "no event 'timr'; did you mean 'timer'?"),
        ({"event": "timer", "memer": "m"}, "no field 'memer'; did you mean 'member'?"),
        ({"event": "timer", "answered": True}, "answered=True looks for a response"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
    ],
)
def test_misspelt_questions_are_refused_at_once(journal: Journal, arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint.replace("?", r"\?")):
        journal.next(**arguments)  # type: ignore[arg-type]


def test_a_field_that_is_not_there_says_which_are() -> None:
    with pytest.raises(AttributeError, match="the event 'mark' has no 'x'; it has event, text"):
        _ = Seen(event="mark", text="t").x


# --- the vocabulary -----------------------------------------------------------------------------------------------------


def test_every_kind_of_event_is_explained() -> None:
    assert list(EVENTS) == list(DESCRIPTIONS)
    assert all(doc and not doc.endswith(".") for kind in (*EVENTS.values(), *PARTS.values()) for doc in kind.values())


def test_every_timer_of_the_coordinators_is_explained() -> None:
    explained = EVENTS["timer"]["timer"]
    assert [timer for timer in (*shard.TIMERS, *transaction_shard.TIMERS) if f"`{timer}`" not in explained] == []


def test_what_keeps_to_the_vocabulary_passes(journal: Journal) -> None:
    ask(journal, 1)
    answer(journal, 1)
    cause = {"kind": "request", "request": 1, "api": "JoinGroup"}
    member = dict.fromkeys(name.rstrip("?") for name in PARTS["member"])
    after = {**snapshot(1), "members": [member]}
    journal.write("group", log="l", group="g", cause=cause, before=None, after=after)
    assert [problems(event) for event in journal.events] == [[], [], []]


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        ({"event": "marc"}, "no event is called 'marc'"),
        ({"event": "mark", "text": "", "txt": ""}, "mark: no field is called 'txt'"),
        ({"event": "mark"}, "mark: text is missing"),
    ],
)
def test_what_does_not_is_named(event: dict[str, object], complaint: str) -> None:
    assert problems({"seq": 1, "ts_ms": 1, **event}) == [complaint]


def test_the_inside_of_a_group_event_is_looked_at() -> None:
    after = {**snapshot(1), "members": [{**dict.fromkeys(name.rstrip("?") for name in PARTS["member"]), "age": 3}]}
    before = {key: value for key, value in snapshot(0).items() if key != "leader"}
    event = {"seq": 1, "ts_ms": 1, "event": "group", "log": "l", "group": "g", "before": before, "after": after}
    assert problems({**event, "cause": {"kind": "load", "why": ""}}) == [
        "cause: no field is called 'why'",
        "before: snapshot: leader is missing",
        "after: member: no field is called 'age'",
    ]


def test_the_suite_fails_on_an_event_that_the_vocabulary_does_not_know(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(journal_check.__file__).read_text())
    pytester.makepyfile("""
from broker_sim.common.clock import ManualClock
from broker_sim.journal import Journal

def test_wrong():
    Journal(ManualClock()).write("mark", text="a", colour="red")

def test_right():
    Journal(ManualClock()).write("mark", text="a")
""")
    result = pytester.runpytest_subprocess(
        "-p", "no:randomly", "-p", "no:cacheprovider", "--rootdir", str(pytester.path)
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*mark: no field is called 'colour'*"])


async def test_an_answer_is_found_by_any_of_its_errors(journal: Journal) -> None:
    said = [{"partition_index": 0, "error_code": 3}, {"partition_index": 1, "error_code": 12}]
    body = {"topics": [{"name": "orders", "partitions": said}]}
    error = "UNKNOWN_TOPIC_OR_PARTITION"
    journal.write("response", request=3, api="OffsetCommit", error=error, took_ms=0, body=body)
    for wanted in (error, "OFFSET_METADATA_TOO_LARGE"):
        assert (await journal.next("OffsetCommit", answered=True, error=wanted, since=0)).request == 3
    with pytest.raises(WaitTimeout):
        await journal.next("OffsetCommit", answered=True, error="NOT_COORDINATOR", since=0, timeout=0.001)


def test_errors_are_those_of_each_partition() -> None:
    said = [{"partition_index": 0, "error_code": 3}, {"partition_index": 1, "error_code": 0}]
    answer = {"topics": [{"name": "orders", "partitions": said}]}
    seen = Seen(event="response", error="UNKNOWN_TOPIC_OR_PARTITION", group="billing", body={}, answer=answer)
    assert (seen.ok, seen.error) == (False, Err.UNKNOWN_TOPIC_OR_PARTITION)
    assert seen.errors == {"orders-0": Err.UNKNOWN_TOPIC_OR_PARTITION, "orders-1": Err.NONE}


def test_errors_of_topics_by_id_have_their_names() -> None:
    asked = {"topics": [{"topic_id": "a-b", "partitions": [{"partition_index": 4}]}]}
    answer = {"topics": [{"topic_id": "a-b", "partitions": [{"partition_index": 4, "error_code": 12}]}]}
    seen = Seen(event="response", error="OFFSET_METADATA_TOO_LARGE", topics=["orders-4"], body=asked, answer=answer)
    assert seen.errors == {"orders-4": Err.OFFSET_METADATA_TOO_LARGE}


def test_an_answer_that_says_one_thing_of_all_has_no_errors_of_its_own() -> None:
    seen = Seen(event="response", error="UNKNOWN_MEMBER_ID", group="billing", body={}, answer={"error_code": 25})
    assert (seen.error, seen.errors) == (Err.UNKNOWN_MEMBER_ID, {})
    assert Seen(event="append").errors == {}
