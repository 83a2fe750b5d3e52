"""Incremental fetch sessions (KIP-227): only what has changed is asked and told."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.handlers.fetch_session import EVICTION_MS
from broker_sim.handlers.k01_fetch import sessions_of
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import FetchResponse, FetchTopic, ForgottenTopic
from tests.data_plane.helpers import fetch, fetched, fill
from tests.support.ctx import Sim

VERSION = 12


def begin(sim: Sim, *partitions: int, version: int = VERSION) -> int:
    """A session over partitions of t that is up to date; its id."""
    ends = {("t", p): sim.state.topics["t"].partitions[p].log_end_offset for p in partitions}
    session_id = sim.call(fetch(ends, session=(0, 0)), version).session_id
    assert isinstance(session_id, int)
    return session_id


def go_on(
    sim: Sim, session: int, epoch: int, offsets: dict[tuple[str, int], int] | None = None, **options: Any
) -> FetchResponse:
    forgotten = options.pop("forgotten", [])
    request = fetch(offsets or {}, session=(session, epoch), **options)
    request.forgotten_topics_data = [ForgottenTopic("t", bytes(16), forgotten)] if forgotten else []
    response = sim.call(request, VERSION)
    assert isinstance(response, FetchResponse)
    return response


def told(response: FetchResponse) -> list[int]:
    return [index for _, index in fetched(response)]


def test_a_new_session_tells_everything_once() -> None:
    sim = Sim(topics={"t": 2})
    response = sim.call(fetch({("t", 0): 0, ("t", 1): 0}, session=(0, 0)), VERSION)
    assert response.session_id > 0
    assert told(response) == [0, 1]
    quiet = go_on(sim, response.session_id, 1)
    assert (quiet.session_id, told(quiet)) == (response.session_id, [])


@pytest.mark.parametrize(("version", "session"), [(6, (0, 0)), (VERSION, (0, -1))])
def test_no_session_where_none_is_asked_for(version: int, session: tuple[int, int]) -> None:
    assert Sim(topics={"t": 1}).call(fetch(session=session), version).session_id == 0


@pytest.mark.parametrize("epoch", [-1, 0, 1])
@pytest.mark.parametrize(
    ("session_id", "falls"),
    [
        (-(2**31), True),
        (-268435456, True),
        (-268435455, True),
        (-268435454, False),
        (-2, False),
        (-1, False),
        (0, False),
        (1, False),
        (2147483639, False),
        (2147483640, True),
        (2**31 - 1, True),
    ],
)
@pytest.mark.parametrize("release", ["3.7", "3.8", "4.1"])
def test_a_session_id_at_the_ends_of_the_range(release: str, session_id: int, falls: bool, epoch: int) -> None:
    """As brokers of 3.4.0, 3.7.0, 3.8.0, 3.9.0 and 4.1.0 answer. kafka-go sends -1 with each Fetch that wants no session."""
    sim = Sim(topics={"t": 1}, as_version=release)
    fill(sim, "t", 3)
    response = sim.call(fetch({("t", 0): 0}, session=(session_id, epoch)), VERSION)
    errors = [part.error_code for topic in response.responses for part in topic.partitions]
    if falls and release != "3.7":
        assert (response.error_code, response.session_id) == (Err.UNKNOWN_SERVER_ERROR, session_id)
        assert errors == [Err.UNKNOWN_SERVER_ERROR]
    elif epoch == 1:
        assert (response.error_code, response.session_id, errors) == (Err.FETCH_SESSION_ID_NOT_FOUND, 0, [])
    else:
        assert (response.error_code, errors) == (Err.NONE, [Err.NONE])
        assert (response.session_id > 0) is (epoch == 0)


def test_only_partitions_with_news_are_told() -> None:
    sim = Sim(topics={"t": 3})
    session = begin(sim, 0, 1, 2)
    fill(sim, "t", 2, partition=1)
    response = go_on(sim, session, 1)
    assert told(response) == [1]
    assert told(go_on(sim, session, 2)) == [1]  # the reader has not moved on
    assert told(go_on(sim, session, 3, {("t", 1): 2})) == []


def test_a_high_watermark_or_log_start_that_moved_is_news() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 2)
    session = begin(sim, 0)
    partition = sim.state.topics["t"].partitions[0]
    partition.log.delete_records(1)
    assert told(go_on(sim, session, 1)) == [0]
    assert told(go_on(sim, session, 2)) == []


def test_an_error_is_told_every_time_and_its_end_once() -> None:
    sim = Sim(topics={"t": 1})
    session = begin(sim, 0)
    assert told(go_on(sim, session, 1, {("t", 0): 9})) == [0]
    assert told(go_on(sim, session, 2)) == [0]
    assert told(go_on(sim, session, 3, {("t", 0): 0})) == [0]
    assert told(go_on(sim, session, 4)) == []


def test_partitions_join_and_leave_a_session() -> None:
    sim = Sim(topics={"t": 3})
    session = begin(sim, 0)
    assert told(go_on(sim, session, 1, {("t", 1): 0})) == [1]
    assert told(go_on(sim, session, 2, {("t", 2): 0}, forgotten=[0, 1])) == [2]
    for partition in range(3):
        fill(sim, "t", 1, partition=partition)
    assert told(go_on(sim, session, 3)) == [2]


def test_a_session_without_partitions_ends() -> None:
    sim = Sim(topics={"t": 1})
    session = begin(sim, 0)
    response = go_on(sim, session, 1, forgotten=[0])
    assert (response.error_code, response.session_id, response.responses) == (0, 0, [])
    assert go_on(sim, session, 2).error_code == Err.FETCH_SESSION_ID_NOT_FOUND


def test_wrong_epochs_and_ids() -> None:
    sim = Sim(topics={"t": 1})
    session = begin(sim, 0)
    for wrong in (2, 5):
        refused = go_on(sim, session, wrong)
        assert (refused.error_code, refused.session_id) == (Err.INVALID_FETCH_SESSION_EPOCH, 0)
    assert go_on(sim, session, 1).error_code == 0
    assert go_on(sim, session, 1).error_code == Err.INVALID_FETCH_SESSION_EPOCH
    assert go_on(sim, session + 1, 1).error_code == Err.FETCH_SESSION_ID_NOT_FOUND
    assert go_on(sim, 0, 5).error_code == Err.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_do_not_mix_in_a_session() -> None:
    sim = Sim(topics={"t": 1})
    session = begin(sim, 0)
    assert sim.call(fetch({}, session=(session, 1)), 13).error_code == Err.FETCH_SESSION_TOPIC_ID_ERROR
    assert go_on(sim, session, 1).error_code == 0


def test_sessions_by_topic_id() -> None:
    sim = Sim(topics={"t": 1})
    request = fetch(session=(0, 0))
    request.topics = [FetchTopic("", sim.state.topics["t"].topic_id, request.topics[0].partitions)]
    session = sim.call(request, 13).session_id
    fill(sim, "t", 1)
    [topic] = sim.call(fetch({}, session=(session, 1)), 13).responses
    assert topic.topic_id == sim.state.topics["t"].topic_id


@pytest.mark.parametrize(("epoch", "kept"), [(-1, 0), (0, 1)])
def test_a_full_fetch_ends_the_session_that_it_names(epoch: int, kept: int) -> None:
    sim = Sim(topics={"t": 1})
    session = begin(sim, 0)
    response = sim.call(fetch(session=(session, epoch)), VERSION)
    assert told(response) == [0]
    assert len(sessions_of(sim.state.brokers[1])) == kept
    assert go_on(sim, session, 1).error_code == Err.FETCH_SESSION_ID_NOT_FOUND


def test_the_epoch_begins_again_after_the_largest() -> None:
    sim = Sim(topics={"t": 1})
    session = begin(sim, 0)
    [held] = sessions_of(sim.state.brokers[1])
    held.epoch = 2**31 - 1
    assert go_on(sim, session, 2**31 - 1).error_code == 0
    assert go_on(sim, session, 1).error_code == 0


def test_who_brought_data_comes_last_next_time() -> None:
    sim = Sim(topics={"t": 3})
    session = begin(sim, 0, 1, 2)
    for partition in range(3):
        fill(sim, "t", 1, partition=partition)
    assert told(go_on(sim, session, 1, max_bytes=1)) == [0, 1, 2]  # 0 with its batch, the others with their watermark
    answers = fetched(go_on(sim, session, 2, max_bytes=1))
    assert [index for (_, index), one in answers.items() if one.records] == [1]


def test_a_session_waits_like_any_fetch() -> None:
    sim = Sim(topics={"t": 2})
    session = begin(sim, 0, 1)
    ctx = sim.start(fetch({}, session=(session, 1), max_wait_ms=500), VERSION)
    assert not ctx.answered
    fill(sim, "t", 1, partition=1)
    assert told(ctx.response) == [1]


# ------------------------------------------------------------------------------------------------ slots


def sessions(sim: Sim) -> set[int]:
    return {session.session_id for session in sessions_of(sim.state.brokers[1])}


def test_without_a_slot_there_is_no_session() -> None:
    sim = Sim(topics={"t": 2}, config={"max.incremental.fetch.session.cache.slots": 1})
    first = begin(sim, 0)
    assert begin(sim, 0, 1) == 0
    assert sessions(sim) == {first}
    assert (
        Sim(topics={"t": 1}, config={"max.incremental.fetch.session.cache.slots": 0})
        .call(fetch(session=(0, 0)), VERSION)
        .session_id
        == 0
    )


def test_the_session_unused_for_longest_gives_way() -> None:
    sim = Sim(topics={"t": 1}, config={"max.incremental.fetch.session.cache.slots": 2})
    old, used = begin(sim, 0), begin(sim, 0)
    sim.clock.advance(EVICTION_MS)
    go_on(sim, used, 1)
    assert begin(sim, 0) == 0
    sim.clock.advance(1)
    fresh = begin(sim, 0)
    assert sessions(sim) == {used, fresh}
    assert go_on(sim, old, 1).error_code == Err.FETCH_SESSION_ID_NOT_FOUND


def test_a_smaller_session_gives_way_to_a_larger_one_once_it_is_old() -> None:
    sim = Sim(topics={"t": 3}, config={"max.incremental.fetch.session.cache.slots": 1})
    small = begin(sim, 0)
    sim.clock.advance(EVICTION_MS + 1)
    go_on(sim, small, 1)  # in use, so only its size counts against it
    assert begin(sim, 0) == 0
    large = begin(sim, 0, 1)
    assert sessions(sim) == {large}


def test_every_broker_has_sessions_of_its_own() -> None:
    sim = Sim(brokers=2, topics={"t": 1})
    session = begin(sim, 0)
    answer = sim.call(fetch({}, session=(session, 1)), VERSION, broker=2)
    assert answer.error_code == Err.FETCH_SESSION_ID_NOT_FOUND
