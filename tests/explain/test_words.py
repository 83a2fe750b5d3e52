"""Exact words of explain and recent for journals written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.explain import explain, recent
from broker_sim.explain.model import MemberInfo
from broker_sim.explain.short_ids import short_names
from tests.explain.journals import LOG, Script

A, B, C = "app-1~aaaa", "app-2~bbbb", "app-3~cccc"


def said(script: Script, generation: int | None = None, group: str = "billing") -> str:
    """``explain`` in one line a paragraph."""
    return explain(script.events, group, generation, width=100_000)


def request(number: int, api: str, member: str) -> dict[str, Any]:
    return {"kind": "request", "request": number, "api": api, "member": member}


def timer(name: str, member: str | None = None) -> dict[str, Any]:
    return {"kind": "timer", "timer": name, "group": "billing", **({"member": member} if member else {})}


def expires(script: Script, member: str, **changes: Any) -> None:
    script.event("timer", log=LOG, timer="session", group="billing", member=member, due_ms=script.ts_ms)
    script.step(timer("session", member), gone=[member], **changes)


def last_joins(script: Script, member: str, generation: int, leader: str, others: list[int], **changes: Any) -> None:
    """The JoinGroup that closes the window."""
    number = script.ask("JoinGroup", member, member_id=member)
    script.closes(request(number, "JoinGroup", member), generation, leader, [*others, number], **changes)


def test_a_group_that_forms() -> None:
    script = Script().formed([A, B, C])
    script.at(4).call("OffsetCommit", A, topics=["orders-0"])
    assert said(script, 1) == (
        "Generation 1 began at 10:00:00.000 because app-1 at /127.0.0.1 joined the empty group. app-2 joined after "
        "100 ms; app-3 was "
        "the last, after 200 ms. The join phase ended after 3 s with the initial rebalance delay. The leader app-1 "
        "sent the "
        "assignment after 12 ms; it was stored at once. Stable after 3 s with 3 members. It has been Stable for 988 "
        "ms. 1 commit "
        "answered."
    )


def crashed() -> Script:
    """app-2 dies; app-1 is quick to come back, app-3 slow."""
    script = Script().formed([A, B, C])
    script.at(12).call("Heartbeat", B)
    script.at(13).event(
        "connection", broker=1, connection=sum(map(ord, "app-2")), peer="127.0.0.1:5000", action="closed"
    )
    script.at(57)
    expires(script, B, state="PreparingRebalance")
    script.at(59.1).call("Heartbeat", A, "REBALANCE_IN_PROGRESS")
    script.at(59.9)
    first = script.joins(A)
    script.at(61).call("Heartbeat", C, "REBALANCE_IN_PROGRESS")
    script.at(61.1)
    last_joins(script, C, 2, A, [first])
    script.at(61.112)
    syncs = script.syncs(A, [C], 2)
    script.appends()
    script.stable(syncs)
    return script


def test_a_member_that_dies_without_leaving() -> None:
    assert said(crashed().at(70), 2) == (
        "Generation 2 began at 10:00:57.000 because the session of app-2 at /127.0.0.1 expired after 45 s (its last "
        "request "
        "was a Heartbeat at 10:00:12.000; its connection was closed at 10:00:13.000 without a LeaveGroup). app-1 got "
        "REBALANCE_IN_PROGRESS for its "
        "Heartbeat after 2.1 s and rejoined 800 ms later; app-3 was the last, after 4.1 s (its Heartbeat got "
        "REBALANCE_IN_PROGRESS after 4 s); "
        "no other member was removed. The leader app-1 sent the assignment after 12 ms; it was stored at once. Stable "
        "again after 4.1 s. "
        "It has been Stable for 0 ms."
    )


def test_a_static_member_that_fell_silent_may_live_and_not_poll() -> None:
    one, two = "one!~1111", "two!~2222"
    script = Script().formed([one, two])
    script.at(12).call("Heartbeat", two)
    script.at(57)
    expires(script, two, state="PreparingRebalance")
    assert (
        "because the session of two (two! at /127.0.0.1) expired after 45 s (its last request was a Heartbeat at "
        "10:00:12.000; "
        "a static member that does not poll in time stops sending heartbeats as well, without a LeaveGroup)"
    ) in said(script)


def test_recent_history_is_a_line_each_with_the_state_of_the_group() -> None:
    assert recent(crashed().events, "billing", limit=5).splitlines() == [
        "group billing: Stable in generation 2, 2 members: app-1 (leader) and app-3",
        "  ... 3 earlier",
        "  10:00:03.012  generation 1 Stable after 3 s",
        "  10:00:57.000  rebalance begins: the session of app-2 expired after 45 s",
        "  10:00:59.100  Heartbeat of app-1 and app-3: REBALANCE_IN_PROGRESS at once, until 10:01:01.000",
        "  10:01:01.100  generation 2: 2 members joined, leader app-1",
        "  10:01:01.112  generation 2 Stable after 4.1 s",
    ]


def test_a_member_that_leaves_gives_its_reason() -> None:
    script = Script().formed([A, B]).at(20)
    number = script.ask("LeaveGroup", "", members=[{"member_id": B, "reason": "consumer poll timeout has expired."}])
    script.step(request(number, "LeaveGroup", B), gone=[B], state="PreparingRebalance")
    script.answer(number)
    words = said(script, 2)
    assert words.startswith("No rebalance to generation 2")
    assert 'because app-2 at /127.0.0.1 left (reason: "consumer poll timeout has expired.").' in said(script)
    assert "It waits for app-1 to join again." in said(script)
    assert said(script).endswith("It has not ended after 0 ms.")


def test_the_leader_comes_back_because_a_topic_grew() -> None:
    script = Script().formed([A, B]).at(10)
    number = script.ask("CreatePartitions", "", topics=["orders"], group=None)
    script.events[-1]["body"] = {"topics": [{"name": "orders", "count": 12}]}
    script.answer(number)
    script.at(15)
    script.joins(A, state="PreparingRebalance")
    assert "10:00:10.000  Topic orders has 12 partitions now." in said(script)
    assert (
        "because the leader app-1 at /127.0.0.1 joined again, as topics had more partitions: orders (12 partitions)."
        in said(script)
    )


def test_a_follower_with_another_subscription() -> None:
    script = Script().formed([A, B]).at(10)
    number = script.ask("JoinGroup", B, member_id=B)
    seats = {B: {"topics": ["orders", "payments"]}}
    script.step(request(number, "JoinGroup", B), state="PreparingRebalance", deferred={B: "JoinGroup"}, seats=seats)
    assert "because app-2 at /127.0.0.1 joined again with payments added to its subscription." in said(script)


def hung(*, told: bool) -> Script:
    """app-3 joins, app-2 goes on with heartbeats and does not rejoin."""
    script = Script().formed([A, B]).at(10)
    first = script.joins(C, state="PreparingRebalance")
    script.at(11).call("Heartbeat", A, "REBALANCE_IN_PROGRESS")
    second = script.joins(A)
    for beat in range(4):
        script.at(12 + beat).call("Heartbeat", B, "REBALANCE_IN_PROGRESS" if told else "COORDINATOR_NOT_AVAILABLE")
    script.at(70)
    script.closes(timer("rebalance"), 2, A, [first, second], gone=[B])
    return script


def test_an_application_that_hangs_holds_the_rebalance_up() -> None:
    assert (
        "app-1 got REBALANCE_IN_PROGRESS for its Heartbeat after 1 s and rejoined at once; app-2 at /127.0.0.1 did "
        "not rejoin within the rebalance "
        "timeout (1 min) and was removed; meanwhile 4 heartbeats of it arrived, and no JoinGroup, though its "
        "Heartbeat was answered "
        "REBALANCE_IN_PROGRESS after 2 s: its application may not have polled, or a rebalance callback of it may have "
        "taken long "
        "(a broker does not see which). The leader app-1 has not sent the assignment."
    ) in said(hung(told=True), 2)


def test_a_member_that_never_got_rebalance_in_progress() -> None:
    assert (
        "and was removed; it never got REBALANCE_IN_PROGRESS: its 4 heartbeats were answered COORDINATOR_NOT_AVAILABLE."
    ) in said(hung(told=False), 2)


def test_a_member_id_without_a_rejoin_delays_all_members() -> None:
    script = Script().formed([A, B]).at(10)
    expires(script, B, state="PreparingRebalance", pending=["app-9~eeee"])
    first = script.at(10.5).joins(A)
    script.at(13.5)
    script.event("timer", log=LOG, timer="pending", group="billing", member="app-9~eeee", due_ms=script.ts_ms)
    script.closes(timer("pending", "app-9~eeee"), 2, A, [first], pending=[])
    assert "All members had joined, but the rebalance waited 3 s for app-9~eeee, which had got a member id" in said(
        script, 2
    )


def test_a_leader_that_never_sends_the_assignment() -> None:
    script = Script().at(0)
    joins = [script.joins(A, state="PreparingRebalance", leader=A), script.joins(B)]
    script.at(3)
    script.closes(timer("rebalance"), 1, A, joins)
    number = script.ask("SyncGroup", B, member_id=B, generation_id=1)
    script.step(request(number, "SyncGroup", B), deferred={B: "SyncGroup"})
    script.at(63).event("timer", log=LOG, timer="sync", group="billing", due_ms=script.ts_ms)
    script.step(timer("sync"), gone=[A], leader=B, state="PreparingRebalance", deferred={B: None})
    script.answer(number, "REBALANCE_IN_PROGRESS")
    assert said(script, 1).endswith(
        "The leader app-1 never sent the assignment. The group began again after 1 min 3 s, before it was Stable, "
        "because app-1 at "
        "/127.0.0.1 sent no SyncGroup within the rebalance timeout and was removed."
    )


def stuck(rounds: int = 8, *, healed: bool = True) -> Script:
    """The founding incident: the leader's SyncGroup is answered REBALANCE_IN_PROGRESS after 5 s, again and again."""
    script = Script().formed([A]).at(10)
    script.event("state", log=LOG, state="stuck", args={}, action="set")
    commit = script.ask("OffsetCommit", A, topics=["orders-0"])
    number = script.at(11).ask("JoinGroup", A, member_id=A)
    generation = 2
    script.closes(request(number, "JoinGroup", A), generation, A, [number])
    for attempt in range(rounds):
        start = 11 + 5.2 * attempt
        (sync,) = script.at(start + 0.01).syncs(A, [], generation)
        script.appends(committed=False)
        script.at(start + 5.01)
        if attempt == 0:
            script.answer(commit, "REQUEST_TIMED_OUT")
        script.event("timer", log=LOG, timer="append", ticket=attempt, due_ms=script.ts_ms)
        script.step({"kind": "timer", "timer": "append"}, state="PreparingRebalance", deferred={A: None})
        script.answer(sync, "REBALANCE_IN_PROGRESS")
        generation += 1
        script.at(start + 5.2)
        last_joins(script, A, generation, A, [])
    if healed:
        (sync,) = script.syncs(A, [], generation)
        script.appends(committed=False)
        script.at(11 + 5.2 * rounds + 1).event("state", log=LOG, state="stuck", args={}, action="healed")
        script.event("committed", log=LOG, high_watermark=9, groups=["billing"])
        script.step({"kind": "committed", "high_watermark": 9}, state="Stable", deferred={A: None})
        script.answer(sync)
    return script


def test_a_series_without_becoming_stable_is_described_as_one() -> None:
    assert said(stuck()).splitlines()[3] == (
        "10:00:11.000  Rebalanced 8 times between 10:00:11.000 and 10:00:53.600 (42.6 s) without becoming Stable: "
        "every time the "
        "SyncGroup of the leader was answered REBALANCE_IN_PROGRESS after 5 s because __consumer_offsets-12 was "
        "stuck. It had begun "
        "because the leader app-1 at /127.0.0.1 joined again. Generation 10 became Stable after __consumer_offsets-12 "
        "was healed at "
        "10:00:53.600."
    )


def test_a_series_in_progress() -> None:
    words = said(stuck(3, healed=False))
    assert "Rebalanced 3 times since 10:00:11.000 (15.6 s) without becoming Stable" in words
    assert "__consumer_offsets-12 is stuck since 10:00:10.000." in words


def test_one_attempt_of_a_stretch() -> None:
    assert said(stuck(), 3) == (
        "Generation 3 began at 10:00:16.010 because the assignment of generation 2 could not be stored "
        "(REQUEST_TIMED_OUT). app-1 got "
        "REBALANCE_IN_PROGRESS for its SyncGroup at once and rejoined 190 ms later; no member was removed. The leader "
        "app-1 sent the assignment after 10 "
        "ms; it was not stored (REQUEST_TIMED_OUT) because __consumer_offsets-12 was stuck, and its SyncGroup was "
        "answered "
        "REBALANCE_IN_PROGRESS after 5 s. The group began again after 5.2 s. Meanwhile __consumer_offsets-12 was "
        "stuck from "
        "10:00:10.000 to 10:00:53.600 (43.6 s). It was one of 8 rebalances from 10:00:11.000 on without becoming "
        "Stable."
    )


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    old, new = "web-1!~1111", "web-1!~2222"
    script = Script().formed([old, B]).at(30)
    number = script.ask("JoinGroup", "", client_id="web-1!", group_instance_id="web-1")
    script.step(request(number, "JoinGroup", "web-1"), gone=[old], join=[new], leader=new, deferred={new: "JoinGroup"})
    script.step({"kind": "append", "error": None}, deferred={new: None})
    script.answer(number, member_id=new)
    assert said(script).splitlines()[-1] == (
        "10:00:30.000  The static member web-1 rejoined with a new member id; no rebalance was needed."
    )
    assert "Stable in generation 1, 2 members: app-2 and web-1 (leader)" in said(script)


def test_the_coordinator_moves_away_in_the_middle_of_a_rebalance() -> None:
    script = Script().formed([A]).at(10)
    script.joins(B, state="PreparingRebalance")
    script.at(12).event("leader", log=LOG, leader=2, epoch=5, reason="elected")
    script.event("load", log=LOG, action="unloaded", groups=1)
    script.step({"kind": "unload"}, state="Dead")
    words = said(script)
    assert "It ended after 2 s because the coordinator was unloaded." in words
    assert "10:00:12.000  __consumer_offsets-12 is led by broker 2 now (epoch 5, elected)." in words
    assert (
        "10:00:12.000  The group's coordinator was unloaded; its deferred request was answered NOT_COORDINATOR."
        in words
    )


def test_faults_on_the_way_are_named() -> None:
    script = Script().formed([A]).at(10)
    script.event("fault_added", fault=1, rule="OffsetCommit error=NOT_COORDINATOR", hits=0)
    number = script.ask("OffsetCommit", A, topics=["orders-0"])
    script.event(
        "fault", fault=1, rule="OffsetCommit error=NOT_COORDINATOR", request=number, verdict="error NOT_COORDINATOR"
    )
    script.answer(number, "NOT_COORDINATOR")
    script.at(12).event("fault_removed", fault=1, rule="OffsetCommit error=NOT_COORDINATOR", hits=1)
    assert (
        '10:00:10.000  The fault "OffsetCommit error=NOT_COORDINATOR" was active from 10:00:10.000 to 10:00:12.000 (2 s), 1 hit.'
    ) in said(script)
    assert "OffsetCommit of app-1: NOT_COORDINATOR at once [fault: error NOT_COORDINATOR]" in recent(
        script.events, "billing"
    )


def test_requests_that_wait_are_in_the_recent_history() -> None:
    script = Script().formed([A]).at(10)
    script.ask("OffsetCommit", A, topics=["orders-0"])
    script.at(14).event("mark", text="still nothing")
    assert recent(script.events, "billing").splitlines()[-2:] == [
        '  10:00:14.000  mark: "still nothing"',
        "  10:00:14.000  OffsetCommit of app-1 has had no response since 10:00:10.000 (4 s)",
    ]


def test_a_share_fetch_may_wait_for_records_as_long_as_its_client_allows() -> None:
    script = Script().formed([A]).at(10)
    script.ask("ShareFetch", A, max_wait_ms=5000)
    assert "ShareFetch" not in recent(script.at(15.5).events, "billing")
    script.event("mark", text="later")
    assert "ShareFetch" not in recent(script.events, "billing")
    script.at(16).event("mark", text="too late")
    assert recent(script.events, "billing").endswith("ShareFetch of app-1 has had no response since 10:00:10.000 (6 s)")


def test_commits_that_were_stored_although_they_were_refused() -> None:
    script = Script().formed([A]).at(10)
    number = script.ask("OffsetCommit", A, topics=["orders-0"])
    script.at(15).answer(number, "COORDINATOR_NOT_AVAILABLE")
    script.at(16).event("offsets", log=LOG, group="billing", request=number, offsets={"orders-0": 7})
    assert (
        "1 commit failed: COORDINATOR_NOT_AVAILABLE after 5 s. 1 of the failed commits was stored nevertheless."
        in said(script)
    )


def test_clients_with_one_client_id_are_distinguished() -> None:
    ids = ["app-1a2b3c", "app-1a2f99", "other-77"]
    infos = [MemberInfo(one, client_id=one.partition("-")[0]) for one in ids]
    assert short_names(infos) == {ids[0]: "app-1a2b", ids[1]: "app-1a2f", ids[2]: "other"}


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("biling", "No events of group 'biling' in the journal. Did you mean 'billing'?"),
        ("zzz", "No events of group 'zzz' in the journal. Groups in the journal: billing."),
    ],
)
def test_a_missing_group(group: str, words: str) -> None:
    script = Script().formed([A])
    assert said(script, group=group) == words
    assert recent(script.events, group) == f"group {group}: no events in the journal"


def test_an_empty_journal() -> None:
    assert explain([], "billing") == "The journal is empty: nothing is known of group 'billing'."


def test_a_missing_generation() -> None:
    assert said(crashed(), 9) == (
        "No rebalance to generation 9 of group billing in the journal; it holds generations 1-2."
    )


def test_a_journal_that_begins_late_is_named() -> None:
    events = crashed().events
    cut = next(position for position, one in enumerate(events) if one["event"] == "timer" and one["timer"] == "session")
    words = explain(events[cut + 3 :], "billing", width=100_000)
    assert "begins in the middle" in words
    assert "Generation 2 had begun before the journal, which starts at 10:00:59.100." in words
    assert "Stable again after 2 s." in words


def test_a_journal_that_is_enabled_later_shows_existing_groups() -> None:
    script = Script().formed([A, B]).at(60)
    whole = script.snapshot
    script.events = [{"seq": 1, "ts_ms": script.ts_ms, "event": "group", "log": LOG, "group": "billing"}]
    script.events[0] |= {"cause": {"kind": "load"}, "before": None, "after": whole}
    assert said(script) == (
        f"Group billing on {LOG}: Stable in generation 1, 2 members: app-1 (leader) and app-2. 0 rebalances in the "
        f"journal, "
        "2024-11-03 10:01:00.000 to 10:01:00.000 UTC."
    )


def test_lines_are_not_longer_than_asked_for() -> None:
    for width in (40, 72, 100):
        assert max(map(len, explain(stuck().events, "billing", width=width).splitlines())) <= width


def storm() -> Script:
    """The leader's commits are refused in every rebalance, and it joins again as soon as the group is Stable."""
    script = Script().formed([A, B]).at(10)
    for attempt in range(4):
        start = 10 + attempt
        script.at(start)
        first = script.joins(A, state="PreparingRebalance")
        script.at(start + 0.4).call("Heartbeat", B, "REBALANCE_IN_PROGRESS")
        script.call("OffsetCommit", A, "ILLEGAL_GENERATION", topics=["orders-0"])
        last_joins(script, B, attempt + 2, A, [first])
        script.at(start + 0.5)
        syncs = script.syncs(A, [B], attempt + 2)
        script.appends()
        script.stable(syncs)
    return script


def test_a_storm_of_rebalances_is_described_as_one() -> None:
    words = said(storm().at(20))
    assert (
        "10:00:10.000  Rebalanced 3 times between 10:00:10.000 and 10:00:13.500 (3.5 s) without being Stable for "
        "longer than 500 ms: "
        "every time because the leader app-1 joined again, after its OffsetCommit got ILLEGAL_GENERATION. It had begun "
        "because the leader app-1 at /127.0.0.1 joined again. Generation 5 stayed Stable."
    ) in words
    assert said(storm(), 3).endswith(
        "It was one of 3 rebalances from 10:00:10.000 on without being Stable for longer than 500 ms."
    )


def test_sessions_that_expire_together_are_described_together() -> None:
    script = Script().formed([A, B, C]).at(50)
    expires(script, A, state="PreparingRebalance", leader=B)
    expires(script, B, leader=C)
    script.event("timer", log=LOG, timer="session", group="billing", member=C, due_ms=script.ts_ms)
    script.step(timer("session", C), gone=[C], leader=None, protocol=None, state="Empty", generation=2)
    assert said(script, 2).endswith(
        "Meanwhile the sessions of app-2 and app-3 also expired (at once). The group has been Empty since then."
    )


def test_texts_of_clients_are_escaped_for_the_terminal() -> None:
    script = Script().formed(["app\x1b[2J\ud800~1", B]).at(10)
    script.event("mark", text="one\ntwo\x07")
    for words in (explain(script.events, "billing"), recent(script.events, "billing")):
        assert all(one.isprintable() or one == "\n" for one in words)
        words.encode()
    assert 'Mark: "one two\\x07".' in said(script)


def test_a_topic_that_grows_is_seen_in_metadata_responses() -> None:
    script = Script().formed([A, B])
    for second, partitions in ((5, 2), (9, 2), (10, 6)):
        number = script.at(second).ask("Metadata", A, group=None)
        script.answer(number, topics=[{"name": "orders", "partitions": [{} for _ in range(partitions)]}])
    script.at(10.1).joins(A, state="PreparingRebalance")
    assert "10:00:10.000  Topic orders has 6 partitions now, it had 2." in said(script)
    assert "joined again, as topics had more partitions: orders (2 to 6 partitions)." in said(script)


def test_reports_of_the_clients_of_a_scenario() -> None:
    script = Script().formed([A]).at(10)
    for _ in range(3):
        script.event("client", client="app-1", reports="commit_failed", text="CommitFailedError", details={})
    script.event("client", client="app-1", reports="committed", text="", details={"offsets": {}})
    script.event("client", client="elsewhere", reports="error", text="no", details={})
    script.event("client", client="app-1", reports="exited", text="", details={"code": 1})
    assert said(script).splitlines()[-2:] == [
        '10:00:10.000  app-1 could not commit: "CommitFailedError" (×3).',
        "10:00:10.000  app-1 exited with code 1.",
    ]


def moved() -> Script:
    """A Stable group whose coordinator moves and is loaded 4 s later."""
    script = Script().formed([A]).at(10)
    whole = script.snapshot
    script.event("leader", log=LOG, leader=2, epoch=5, reason="elected")
    script.event("load", log=LOG, action="unloaded", groups=1)
    script.step({"kind": "unload"}, state="Dead")
    script.event("load", log=LOG, action="started")
    script.at(14).event("load", log=LOG, action="finished", groups=1, records=20, skipped=0)
    script.event("group", log=LOG, group="billing", cause={"kind": "load"}, before=None, after=whole)
    script.at(20).call("Heartbeat", A)
    return script


def test_a_coordinator_that_moves_and_loads() -> None:
    assert said(moved()).splitlines()[-4:] == [
        f"10:00:10.000  {LOG} is led by broker 2 now (epoch 5, elected).",
        "10:00:10.000  The group's coordinator was unloaded.",
        f"10:00:10.000  {LOG} was loading from 10:00:10.000 to 10:00:14.000 (4 s).",
        f"10:00:14.000  The coordinator of {LOG} was loaded: 1 group, 20 records.",
    ]


def test_events_of_one_moment_have_the_order_of_the_journal() -> None:
    script = Script()
    script.event("mark", text="before")
    script.formed([A])
    script.ts_ms = script.events[0]["ts_ms"]
    lines = said(script).splitlines()
    assert [line[14:22] for line in lines[1:]] == ['Mark: "b', "Generati"]


def test_advances_of_the_clock_with_nothing_in_between_are_one_line() -> None:
    script = Script().formed([A]).at(10)
    for _ in range(16):
        script.event("clock", action="advance", ms=500, expire=[])
    script.at(20).event("mark", text="now")
    script.at(21)
    for expired in ([], ["app-1"], ["app-1"]):
        script.event("clock", action="advance", ms=2000, expire=expired)
    lines = [line.split("  ", 1)[1] for line in said(script).splitlines()[-4:]]
    assert lines == [
        "The clock was advanced by 8 s in 16 steps.",
        'Mark: "now".',
        "The clock was advanced by 2 s.",
        "The clock was advanced by 4 s in 2 steps, with app-1 to expire.",
    ]
    shown = [line.split("  ", 2)[2] for line in recent(script.events, "billing").splitlines()[-4:]]
    assert shown[0] == "the clock was advanced by 8 s in 16 steps"


def test_members_without_a_syncgroup_were_removed() -> None:
    script = Script().formed([A, B, C]).at(10)
    script.step(timer("sync"), gone=[A, B], leader=C, state="PreparingRebalance")
    words = (
        "app-1 at /127.0.0.1 and app-2 at /127.0.0.1 sent no SyncGroup within the rebalance timeout and were removed"
    )
    assert words in said(script)


@pytest.mark.parametrize(
    ("had", "has", "words"),
    [
        (
            ["orders"],
            ["orders", "audit"],
            "with audit added to its subscription: until the next one it keeps the assignment that it had, and no member reads audit",
        ),
        (
            ["orders", "audit"],
            ["orders"],
            "without audit in its subscription: until the next one it keeps the assignment that it had",
        ),
    ],
)
def test_a_static_member_that_comes_back_with_another_subscription(had: list[str], has: list[str], words: str) -> None:
    old, new = "web-1!~1111", "web-1!~2222"
    script = Script().formed([old, B])
    script.step({"kind": "append", "error": None}, seats={old: {"topics": had}})
    number = script.at(30).ask("JoinGroup", "", client_id="web-1!", group_instance_id="web-1")
    script.step(request(number, "JoinGroup", "web-1"), gone=[old], join=[new], leader=new, seats={new: {"topics": has}})
    assert said(script).endswith(
        f"The static member web-1 rejoined with a new member id; no rebalance was made, although it joined {words}."
    )


def test_a_step_of_the_clock_is_not_joined_over_what_it_led_to_at_the_same_ms() -> None:
    script = Script().formed([A]).at(10)
    script.event("clock", action="advance", ms=500, expire=[])
    first = script.joins(B, state="PreparingRebalance")
    script.event("clock", action="advance", ms=500, expire=[])
    script.at(11)
    last_joins(script, A, 2, A, [first])
    lines = [line.split("  ")[-1] for line in recent(script.events, "billing").splitlines()]
    shown = [line for line in lines if "clock" in line or "rebalance begins" in line][-3:]
    assert [line.partition(":")[0] for line in shown] == [
        "the clock was advanced by 500 ms",
        "rebalance begins",
        "the clock was advanced by 500 ms",
    ]


@pytest.mark.parametrize("rule", ["OffsetCommit error=X times=2", "OffsetCommit, at most 2 times: answer X"])
@pytest.mark.parametrize(("own", "hits"), [(2, "2 hits"), (1, "1 hit of 2")])
def test_a_rule_ends_with_the_last_of_its_times(own: int, hits: str, rule: str) -> None:
    script = Script().formed([A]).at(10)
    script.event("fault_added", fault=1, rule=rule, hits=0)
    for number in range(2):
        script.at(11 + number)
        if number < own:
            request_number = script.ask("OffsetCommit", A, topics=["orders-0"])
        else:
            request_number = script.event("request", request=900, api="OffsetCommit", group="other", client_id="x")[
                "request"
            ]
        script.event("fault", fault=1, rule=rule, request=request_number, verdict="error")
        if number < own:
            script.answer(request_number, "NOT_COORDINATOR")
    script.at(60).event("mark", text="later")
    assert f" was active from 10:00:10.000 to 10:00:12.000 (2 s), {hits}: its times were used up then." in said(script)
    assert "has been active" not in said(script)
