"""The timelines: what is drawn, in characters and as SVG and HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from broker_sim.explain.picture import html, svg
from broker_sim.explain.terminal import timeline
from tests.explain.journals import Script
from tests.explain.test_words import crashed, expires, moved, stuck

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '<script>alert("x")</script>&\'\x00\x1b[31m\ud800'


def drawn(script: Script) -> ElementTree.Element:
    return ElementTree.fromstring(svg(script.events, "billing").encode())


def tooltips(root: ElementTree.Element) -> list[str]:
    return [title.text or "" for title in root.iter(f"{SVG}title")]


def texts(root: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


# --- terminal -------------------------------------------------------------------------------------------------------------


def test_a_timeline_of_eighty_columns() -> None:
    assert timeline(crashed().events, "billing").splitlines() == [
        "billing on __consumer_offsets-12: Stable in generation 2, 2 members: app-1",
        "  (leader) and app-3",
        "2024-11-03 10:00:00.000 to 10:01:01.112 UTC, 1 min 1 s; a column is 242 ms, : is",
        "  idle time (52 s)",
        "",
        "           10:00:00                                      10:00:56",
        "generation 1                              :                  2",
        "state      ░░░░░░░░░░░░░━━━━━━━━━━━━━━━━━━:━━━━━━━━━━━━━━━━━━░░░░░░░░░░░░░░░░░░▒",
        "* app-1    J░░░░░░░░░░░S──────────────────:───────────────────────────h──J░░░░░S",
        "  app-2    J░░░░░░░░░░░S──────────────────:──────────────────X",
        "  app-3    J░░░░░░░░░░░S──────────────────:───────────────────────────────────JS",
        "",
        "░ preparing   ▒ completing   ━ Stable   h heartbeat: REBALANCE_IN_PROGRESS",
        "S SyncGroup   J JoinGroup   X removed   * leader",
        "10:00:00.000  generation 1 Stable after 3 s: app-1 joined the empty group",
        "10:00:57.000  generation 2 Stable after 4.1 s: the session of app-2 expired aft…",
    ]


@pytest.mark.parametrize("width", [10, 40, 80, 200])
def test_lines_fit_the_terminal(width: int) -> None:
    for script in (crashed(), stuck()):
        assert max(map(len, timeline(script.events, "billing", width=width).splitlines())) <= max(width, 40)


def test_colour_adds_nothing_but_colour() -> None:
    coloured = timeline(stuck().events, "billing", color=True)
    assert "\x1b[31m" in coloured
    plain = re.sub(r"\x1b\[\d+m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == timeline(stuck().events, "billing").splitlines()


def test_active_faults_and_failures_are_drawn() -> None:
    lines = timeline(stuck().events, "billing", width=120).splitlines()
    state = next(line for line in lines if line.startswith("state"))
    assert state.count("x") == 8  # began again so many times
    assert any(line.startswith("offsets-12") and "▓ stuck ▓" in line for line in lines)
    assert "C commit failed" in "\n".join(lines)


@pytest.mark.slow
def test_many_members_are_folded() -> None:
    members = [f"app-{number}~{number:04x}" for number in range(120)]
    script = Script().formed(members).at(60)
    expires(script, members[77], state="PreparingRebalance")
    lines = timeline(script.events, "billing").splitlines()
    assert len(lines) < 40
    assert any(line.startswith("  app-77 ") and "X" in line for line in lines)
    assert any(re.match(r"  \d+ more", line) for line in lines)


# --- pictures -------------------------------------------------------------------------------------------------------------


def test_the_picture_has_a_lane_for_each_member_and_a_band_for_each_generation() -> None:
    root = drawn(crashed())
    assert {"billing", "app-1", "app-2", "app-3", "1", "2"} <= set(texts(root))
    tips = tooltips(root)
    assert any(tip.startswith("Generation 2 began at 10:00:57.000 because the session of app-2") for tip in tips)
    assert any(tip.endswith("JoinGroup of app-3 was answered NONE at once") for tip in tips)
    assert any("Heartbeat of app-1 was answered REBALANCE_IN_PROGRESS" in tip for tip in tips)
    assert any("expired after 45 s" in text for text in texts(root))  # the words beneath


def test_states_and_failed_commits_are_in_the_picture() -> None:
    tips = tooltips(drawn(stuck()))
    assert "__consumer_offsets-12 was stuck from 10:00:10.000 to 10:00:53.600 (43.6 s)" in tips
    assert any("OffsetCommit of app-1 was answered REQUEST_TIMED_OUT after 6 s" in tip for tip in tips)
    assert sum("SyncGroup of app-1 was answered REBALANCE_IN_PROGRESS after 5 s" in tip for tip in tips) >= 8


def test_nothing_comes_from_elsewhere() -> None:
    for document in (svg(stuck().events, "billing"), html(stuck().events, "billing")):
        assert re.findall(r"(?:https?:)?//[^\s\"'<]+", document.replace("http://www.w3.org/2000/svg", "")) == []
        assert not re.search(r"@import|url\(|<link|\bsrc=", document)
    assert "<script" not in svg(stuck().events, "billing")


class Page(HTMLParser):
    """Tags and text of a page; raises for a tag that closes what isn't open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words += data


def test_the_page_has_the_history_beneath_the_picture() -> None:
    page = Page()
    page.feed(html(stuck().events, "billing", title="An incident & more"))
    assert page.open == []
    assert page.tags.count("svg") == 1
    assert "An incident & more" in page.words
    assert "Rebalanced 8 times between 10:00:11.000 and 10:00:53.600 (42.6 s) without becoming Stable" in page.words


def evil() -> Script:
    """Everything that users choose is an attack."""
    script = Script(group=EVIL).formed([f"{EVIL}~1", f"{EVIL}~2"]).at(10)
    script.event("mark", text=EVIL)
    script.event("fault_added", fault=1, rule=EVIL, hits=0)
    number = script.ask("OffsetCommit", f"{EVIL}~1", topics=[EVIL])
    script.event("fault", fault=1, rule=EVIL, request=number, verdict=EVIL)
    script.answer(number, EVIL)
    number = script.ask("LeaveGroup", "", members=[{"member_id": f"{EVIL}~2", "reason": EVIL}])
    cause = {"kind": "request", "request": number, "api": "LeaveGroup", "member": f"{EVIL}~2"}
    script.step(cause, gone=[f"{EVIL}~2"], state="PreparingRebalance")
    script.answer(number)
    script.event("state", log=script.log, state=EVIL, args={EVIL: EVIL}, action="set")
    return script


def test_names_of_users_are_escaped() -> None:
    events = evil().events
    root = ElementTree.fromstring(svg(events, EVIL).encode())
    assert any("<script>alert" in tip for tip in tooltips(root))
    page = Page()
    page.feed(html(events, EVIL, title=EVIL))
    assert page.open == []
    assert page.tags.count("script") == 1  # ours


@pytest.mark.slow
def test_many_members_and_rebalances_make_a_picture_of_bearable_size() -> None:
    members = [f"app-{number}~{number:04x}" for number in range(200)]
    script = Script().formed(members)
    root = drawn(script)
    assert len(list(root.iter())) < 6000
    assert any(re.fullmatch(r"\d+ more", text) for text in texts(root))
    assert any("members at once" in tip for tip in tooltips(root))


@pytest.mark.parametrize("events", [[], Script().events, [{"event": "mark", "text": "x", "ts_ms": 5, "seq": 1}]])
def test_an_empty_journal_has_a_picture_too(events: list[dict[str, object]]) -> None:
    ElementTree.fromstring(svg(events, "billing").encode())
    assert "nothing is known of group" in html(events, "billing") or "No events of group" in html(events, "billing")
    assert timeline(events, "billing") == "No events of group 'billing' in the journal."


def test_a_group_that_was_loaded_has_its_band_again() -> None:
    state = next(line for line in timeline(moved().events, "billing").splitlines() if line.startswith("state"))
    assert re.search(r"━ +: +━", state)
    assert sum(text == "1" for text in texts(drawn(moved()))) == 2


# --- groups by epochs -----------------------------------------------------------------------------------------------------


def member(name: str, epoch: int, **tasks: list[str]) -> dict[str, Any]:
    """As an ``epochs`` event shows it: ``active``, ``revoking``, ``awaiting``."""
    shown = {"tasks": "active", "tasks_pending_revocation": "revoking", "tasks_pending_assignment": "awaiting"}
    roles = {key: {"active": tasks[what]} if what in tasks else {} for key, what in shown.items()}
    return {"member": f"{name}-id", "client_id": name, "protocol": "streams", "epoch": epoch, "topics": [], **roles}


def revokes_late() -> Script:
    """A streams group: app-1 holds on to two tasks, for which app-2 waits, and is removed."""
    script, steps = (
        Script(),
        [
            (0, 2, "Stable", [member("app-1", 2, active=["0_0", "0_1"])], {"api": "StreamsGroupHeartbeat"}),
            (
                1,
                3,
                "Assigning",
                [member("app-1", 2, active=["0_0", "0_1"]), member("app-2", 2)],
                {"api": "StreamsGroupHeartbeat"},
            ),
            (
                2,
                3,
                "Reconciling",
                [member("app-1", 2, active=["0_0"], revoking=["0_1"]), member("app-2", 3, awaiting=["0_1"])],
                {"api": "StreamsGroupHeartbeat"},
            ),
            (9, 4, "Stable", [member("app-2", 4, active=["0_0", "0_1"])], {"timer": "revocation"}),
        ],
    )
    for number, (at, epoch, state, members, cause) in enumerate(steps):
        script.at(at).ask("StreamsGroupHeartbeat", f"app-{number % 2 + 1}-id", client_id=f"app-{number % 2 + 1}")
        script.event(
            "epochs", log=script.log, group="billing", cause=cause, state=state, group_epoch=epoch, target_epoch=epoch,
            size=len(members), members=members, topology={"epoch": 0},
        )  # fmt: skip
    script.at(12).event("mark", text="the end")
    return script


def test_steps_of_an_epoch_based_group_alone_are_drawn() -> None:
    script = revokes_late()
    script.events = [event for event in script.events if event["event"] == "epochs"]
    shown = timeline(script.events, "billing")
    assert "No events" not in shown
    assert next(line for line in shown.splitlines() if line.startswith("epoch")).replace(":", "").split() == [
        "epoch",
        *"234",
    ]


def shares_a_bad_record() -> Script:
    """A share group: record 4 of orders-0 is released, then let go by a lock that expires, which is once too often."""
    script = Script()
    app = {"member": "app-id", "client_id": "app", "protocol": "share", "epoch": 2, "assignment": {"orders": [0]}}
    script.at(0).ask("ShareGroupHeartbeat", "app-id", client_id="app")
    script.event(
        "epochs", log=script.log, group="billing", cause={"api": "ShareGroupHeartbeat"}, state="Stable", group_epoch=2,
        target_epoch=2, assignor="simple", size=1, members=[app],
    )  # fmt: skip
    for at, action, deliveries, becomes in (
        (1, "acquired", 1, "acquired"),
        (2, "released", 1, "available"),
        (3, "acquired", 2, "acquired"),
        (6, "expired", 2, "archived"),
    ):
        script.at(at).event(
            "delivery", log="orders-0", group="billing", action=action, member="app-id", first=4, last=4,
            deliveries=deliveries, becomes=becomes,
        )  # fmt: skip
    script.at(8).event("mark", text="the end")
    return script


def test_tasks_of_a_streams_group_are_in_its_lanes() -> None:
    picture = drawn(revokes_late())
    tips = "\n".join(tooltips(picture))
    assert "10:00:02.000  app-1 has task 0_0, is to give up task 0_1" in tips
    assert "10:00:02.000  app-2 waits for task 0_1" in tips
    assert "10:00:09.000  app-2 has tasks 0_0 and 0_1" in tips
    assert "10:00:01.000  epoch 3: assigning for 1 s, reconciling for 7 s, never Stable" in tips
    words = texts(picture)
    assert {"epoch", "is to give up some", "reconciling: members give up and take over"} <= set(words)
    assert not {"generation", "JoinGroup waits"} & set(words)
    assert any("app-1 was removed: it had not revoked" in text for text in words), "the explanation beneath"
    lines = timeline(revokes_late().events, "billing").splitlines()
    lanes = {line.split()[0]: line for line in lines if line.startswith("  app-")}
    assert re.search(r"═+.*v{5}", lanes["app-1"])
    assert re.search(r"~{5}.*═+", lanes["app-2"])
    assert any("epoch 4: app-1 was removed" in line for line in lines)


def test_delivery_counts_and_archived_records_of_a_share_group_are_in_its_lanes() -> None:
    picture = drawn(shares_a_bad_record())
    tips = tooltips(picture)
    assert "10:00:01.000  app has orders-0 4: released" in tips
    assert "10:00:03.000  app has orders-0 4, delivered twice: expired, archived" in tips
    assert {"records that were delivered before", "archived: no member gets them again"} <= set(texts(picture))
    lines = timeline(shares_a_bad_record().events, "billing").splitlines()
    lane = next(line for line in lines if line.startswith("  app "))
    assert re.search(r"═A▪+r═+.*a▫+D═+", lane.replace(":", "")), lane
    assert "record 4 of orders-0 was delivered twice" in "\n".join(lines)
