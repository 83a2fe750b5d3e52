"""The report: one page, whole in itself, bounded in size, and every picture shows what the rows say."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from broker_sim.drawing.scale import Scale
from broker_sim.explain.epoch_steps import ACTIVE, Unit
from broker_sim.pipeline.facts import ReportFacts
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.report import lanes
from broker_sim.pipeline.report.assigned import MOST_MEMBERS, assigned
from broker_sim.pipeline.report.bars import churn
from broker_sim.pipeline.report.delivered import delivered
from broker_sim.pipeline.report.heat import heat
from broker_sim.pipeline.report.lines import committed, lag
from broker_sim.pipeline.report.page import html
from broker_sim.pipeline.report.sheet import NARROW, WIDE, merged, short
from broker_sim.pipeline.report.timeline import row
from tests.pipeline.facts import Row, churned, facts, hotspot, kept, rebalance, regression, window
from tests.pipeline.offsets import T0
from tests.pipeline.test_findings import duplicate, stuck
from tests.pipeline.test_share_deliveries import delivery

HOSTILE = "<script>alert(1)</script>&\"'\x00\ud800"
VOID = {"meta", "br", "hr", "img", "link", "input", "option"}
TIME = (T0, T0 + 600_000, ())


class Page(HTMLParser):
    """Elements and words of a page; tags have to be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def page(known: ReportFacts) -> tuple[str, Page]:
    text = html(known, findings(known))
    return text, Page(text)


def busy() -> ReportFacts:
    """A bit of everything."""
    fall = regression(156_000, 1200, 950)
    return facts(
        stuck=[stuck(98_000, 139_000)],
        rebalances=[
            rebalance(98_500, 5000, end="failed"),
            rebalance(138_500, 900, stable_ms=None),
            rebalance(0, group="audit"),
        ],
        regressions=[fall],
        duplicates=[duplicate(90, 120)],
        churn=[churned(joins=6, leaves=1, expirations=2, departures=3, mean_tenure_ms=90_000.0)],
        hotspots=[hotspot(12, 800, 0.8, busiest_group="billing", busiest_records=700), hotspot(3, 200, 0.2)],
        lag={"billing": [window(at * 10_000, at * 7 % 50, at % 3) for at in range(60)]},
        committed={("billing", "orders", 0): [kept(at * 10_000, at * 20, at * 25) for at in range(60)]},
        partitions=[{"log_partition": 12, "records": 10, "first_offset": 0, "last_offset": 19}],
        skipped=[{"file": "x.log", "position": 4711, "bytes": 9, "reason": "the CRC is wrong"}],
        counts={"rebalances": 3, "stuck_partitions": 1, "offset_regressions": 1},
    )


def svg(text: str) -> ElementTree.Element:
    """The picture as XML: it has to be well-formed."""
    return ElementTree.fromstring(text)


def titles(picture: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in picture.iter() if element.tag.endswith("title")]


# ------------------------------------------------------------------------------------------------ the page


def test_the_page_is_whole_in_itself() -> None:
    text, parsed = page(busy())
    names = {tag for tag, _ in parsed.tags}
    assert not names & {"img", "link", "iframe", "object"}
    addresses = [
        value
        for _, attributes in parsed.tags
        for name, value in attributes.items()
        if name in ("src", "href") and value
    ]
    assert all(address.startswith("#") for address in addresses)
    assert "http" not in text.replace("http-equiv", "")
    assert "@import" not in text
    assert "prefers-color-scheme:dark" in text


def test_findings_come_first_and_every_section_is_there() -> None:
    text, parsed = page(busy())
    ids = [attributes["id"] for tag, attributes in parsed.tags if tag == "section"]
    assert ids == [
        "findings",
        "rebalances",
        "stuck",
        "lag",
        "committed",
        "duplicates",
        "heat",
        "churn",
        "skipped",
        "hidden",
    ]
    anchors = [attributes["href"] for tag, attributes in parsed.tags if tag == "a"]
    assert anchors == [f"#{name}" for name in ids]
    assert text.index("never became Stable") < text.index("<svg")
    assert "x.log" in text


def test_pictures_have_names_for_screen_readers() -> None:
    _, parsed = page(busy())
    pictures = [attributes for tag, attributes in parsed.tags if tag == "svg"]
    assert pictures
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in pictures)


def test_wide_pictures_have_a_narrow_version_for_phones() -> None:
    _, parsed = page(busy())
    sizes = [attributes["class"] for tag, attributes in parsed.tags if tag == "svg"]
    assert sizes.count("chart wide") == sizes.count("chart narrow") == 6  # times, two groups, legend; heat; churn


def test_text_from_outside_does_nothing() -> None:
    known = facts(
        run_id=HOSTILE,
        input=HOSTILE,
        rebalances=[rebalance(0, group=HOSTILE, who_clients=[HOSTILE])],
        regressions=[regression(1, 9, 5, group=HOSTILE, topic=HOSTILE)],
        stuck=[stuck(0, 9000, groups=[HOSTILE], errors=[HOSTILE])],
        lag={HOSTILE: [window(0, 5, 1, group=HOSTILE)]},
        committed={(HOSTILE, HOSTILE, 0): [kept(0, 5)]},
        churn=[churned(HOSTILE, joins=1)],
        hotspots=[hotspot(1, 5, 1.0, busiest_group=HOSTILE, busiest_records=5)],
        skipped=[{"file": HOSTILE, "position": 1, "bytes": 1, "reason": HOSTILE}],
        neighbours={12: [HOSTILE + "2"]},
    )
    text, parsed = page(known)
    assert sum(tag == "script" for tag, _ in parsed.tags) == 1  # our own
    assert "\x00" not in text
    text.encode()


def test_nothing_at_all_makes_a_page_too() -> None:
    text, parsed = page(ReportFacts("empty", None, None))
    assert [attributes["id"] for tag, attributes in parsed.tags if tag == "section"] == ["findings"]
    assert "Nothing unusual was found in 0 groups, 0 committed offsets and 0 rebalances." in text


def test_a_log_without_ends_shows_commits_and_the_reason() -> None:
    text, _ = page(facts(lag={"billing": [window(at * 10_000, None, 3) for at in range(9)]}))
    assert "No log end is known" in text
    assert "lag unknown" in text


def test_many_findings_are_folded() -> None:
    known = facts(
        regressions=[regression(n, 100 + n, 5, "rewind", group=f"g{n}") for n in range(9)],
        rebalances=[rebalance(n, 30_000, group=f"g{n}") for n in range(9)],
        churn=[churned(joins=4, expirations=4)],
    )
    text, _ = page(known)
    assert text.count("<summary>") == 1


@pytest.mark.slow
def test_the_page_stays_small_however_much_there_is() -> None:
    groups = [f"group-{n:04}" for n in range(60)]
    known = facts(
        groups=5000,
        rebalances=[
            rebalance(n * 1500, 400, group=group, generation=n, stable_ms=900) for group in groups for n in range(400)
        ],
        regressions=[regression(n * 600, 1000 + n, n, group=groups[n % 60]) for n in range(1000)],
        lag={
            group: [window(n * 2500, n * 13 % 997, n % 7, window_ms=2500) for n in range(240)] for group in groups[:12]
        },
        committed={
            (group, "orders", 0): [{**kept(n * 2500, n * 10, n * 11), "window_ms": 2500} for n in range(240)]
            for group in groups[:9]
        },
        hotspots=[hotspot(n, 100, 0.001) for n in range(1000)],
        churn=[churned(group, joins=5) for group in groups],
        skipped=[{"file": f"f{n}", "position": n, "bytes": 1, "reason": "wrong"} for n in range(200)],
    )
    text, _ = page(known)
    assert len(text) < 3_000_000
    assert "4940 groups more are not shown" in text


# ------------------------------------------------------------------------------------------------ pictures


def test_the_timeline_has_a_row_for_each_group_the_troubled_ones_first() -> None:
    known = busy()
    shown = lanes.lanes(known, 40)
    assert [lane.group for lane in shown] == ["billing", "audit"]
    for width in (WIDE, NARROW):
        told = "\n".join(title for lane in shown for title in titles(svg(row(lane, lanes.time(known), width))))
        assert "22:14:58.500  generation 1: app-1 joined\nit began again before it was Stable after 5 s" in told
        assert "orders-0 decreased from 1,200 to 950, by 250" in told
        assert "__consumer_offsets-12 took nothing from 22:14:58.000 to 22:15:39.000" in told


def test_a_short_incident_in_a_long_day_has_room_and_many_small_pauses_are_not_cut() -> None:
    day = 86_400_000
    incident = facts(to_ms=T0 + day, rebalances=[rebalance(day // 2, 40_000, stable_ms=None)])
    scale = Scale(*lanes.time(incident)[:2], WIDE, lanes.time(incident)[2])
    assert scale.x(T0 + day // 2 + 40_000) - scale.x(T0 + day // 2) > WIDE / 4
    often = facts(rebalances=[rebalance(n * 20_000, 500, generation=n) for n in range(30)])
    assert not [one for one in Scale(*lanes.time(often)[:2], WIDE, lanes.time(often)[2]).segments if one.cut]


def test_a_rebalance_lasts_as_long_on_paper_as_in_time() -> None:
    known = facts(
        rebalances=[
            rebalance(0, 60_000, stable_ms=240_000),
            rebalance(300_000, 60_000, generation=2, stable_ms=240_000),
        ]
    )
    (lane,) = lanes.lanes(known, 9)
    picture = svg(row(lane, (T0, T0 + 600_000, ()), WIDE))
    widths = [float(element.attrib["width"]) for element in picture.iter() if element.attrib.get("class") == "prepare"][
        :2
    ]
    assert abs(widths[0] - widths[1]) < 0.2
    assert abs(widths[0] - (WIDE - 8) * 40 / 600) < 0.2  # two thirds of a minute, of ten


def test_a_rebalance_in_progress_reaches_to_the_end() -> None:
    known = facts(rebalances=[rebalance(300_000, end=None, closed_ms=None, ended_ms=None)])
    (lane,) = lanes.lanes(known, 9)
    assert lane.bars[0].until_ms == known.to_ms
    assert lane.bars[0].stable is False


def test_a_rebalance_of_the_log_alone_begins_when_its_window_closed() -> None:
    known = facts(rebalances=[rebalance(10_000, started_ms=None, source="log", stable_ms=None)])
    (lane,) = lanes.lanes(known, 9)
    assert lane.bars[0].began_ms == T0 + 12_000


def test_the_lag_curve_is_as_high_as_the_lag() -> None:
    rows = [window(0, 0, 1), window(10_000, 500, 0), window(20_000, 1000, 0), window(30_000, 0, 9)]
    text = lag("billing", rows, (T0, T0 + 40_000, ()), [(T0 + 10_000, T0 + 29_000)], [])
    picture = svg(text)
    (curve,) = [element.attrib["d"] for element in picture.iter() if element.attrib.get("class") == "curve"]
    heights = [float(y) for y in re.findall(r"[\d.]+ ([\d.]+)", curve)]
    assert heights[0] == heights[3] == max(heights)
    assert heights[1] - heights[2] == (heights[0] - heights[2]) / 2
    assert "stuck from 22:13:30.000 to 22:13:49.000" in titles(picture)
    assert "lag 0, at most 1,000" in text


def test_a_curve_ends_where_the_offsets_were_deleted_and_does_not_fall_to_nothing() -> None:
    rows = [
        window(0, 400, 1),
        window(10_000, 500, 0),
        window(20_000, None, 0, deleted=2),
        window(30_000, 100, 1, deleted=1),
    ]
    picture = svg(lag("billing", rows, (T0, T0 + 40_000, ()), [], []))
    curves = [element.attrib["d"] for element in picture.iter() if element.attrib.get("class") == "curve"]
    assert len(curves) == 2
    assert any("committed offsets deleted or expired" in title for title in titles(picture))
    assert "lag 100, 1 deleted, at most 500" in lag("billing", rows, (T0, T0 + 40_000, ()), [], [])
    steps = [kept(0, 5), kept(10_000, 9), kept(20_000, None)]
    picture = svg(committed("billing", steps, [], (T0, T0 + 40_000, ()), []))
    (stair,) = [element.attrib["d"] for element in picture.iter() if element.attrib.get("class") == "curve"]
    xs = [float(x) for x in re.findall(r"[MH]([\d.]+)", stair)]
    assert max(xs) < 372  # not to the picture's edge


def test_groups_of_a_log_alone_are_stable_until_their_next_record() -> None:
    rows = [
        rebalance(0, started_ms=None, closed_ms=T0, ended_ms=T0 + 50, generation=1, stable_ms=9950, source="log"),
        rebalance(
            0, started_ms=None, closed_ms=T0 + 10_000, ended_ms=T0 + 10_000, generation=2, stable_ms=None, end="empty"
        ),
    ]
    known = facts(rebalances=rows, journal=None)
    (lane,) = lanes.lanes(known, 9)
    assert [(bar.began_ms - T0, bar.until_ms - T0, bar.stable, bar.known) for bar in lane.bars] == [
        (0, 10_000, True, False),
        (10_000, 10_000, False, False),
    ]
    text, _ = page(known)
    assert "preparing: members are awaited" not in text
    assert "when its rebalance began is not in the log" in text


def test_without_a_journal_nothing_that_hangs_on_it_is_shown() -> None:
    silence = stuck(0, 40_000, evidence="silence", attempts=None, errors=None, groups=None, others=900)
    text, parsed = page(facts(journal=None, silences=[silence], hotspots=[hotspot(12, 5, 1.0)]))
    assert "stuck period" not in text
    assert "read twice" not in text
    assert "stuck" not in [attributes["id"] for tag, attributes in parsed.tags if tag == "section"]
    assert not [attributes for _, attributes in parsed.tags if "jammed" in (attributes.get("class") or "")]
    assert "Whether any client tried to write is not in the log" in text


def test_a_fall_of_an_offset_is_marked_where_it_was() -> None:
    falls = [regression(300_000, 400, 100)]
    picture = svg(committed("billing · orders-0", [kept(at * 10_000, at * 10) for at in range(60)], falls, TIME, []))
    assert "22:18:20.000  from 400 back to 100, by 300 (rebalance)" in titles(picture)
    assert any("decreased once" in (element.text or "") for element in picture.iter())
    (arrow,) = [element.attrib["d"] for element in picture.iter() if element.attrib.get("class") == "fall"]
    x, down = re.match(r"M([\d.]+) [\d.]+V([\d.]+)", arrow).groups()  # type: ignore[union-attr]
    assert abs(float(x) - (46 + (380 - 54) / 2)) < 1
    assert float(down) > 40


def test_the_heat_has_a_cell_for_every_partition_and_marks_the_stuck_one() -> None:
    rows: list[Any] = [hotspot(12, 900, 0.9), hotspot(3, 100, 0.1, misplaced=2)]
    for width in (640, NARROW):
        picture = svg(heat(rows, [12], width))
        cells = [title for title in titles(picture) if title.startswith("__consumer_offsets-")]
        assert len(cells) == 50
        assert cells[12] == "__consumer_offsets-12: 1 groups, 900 records (90.0%)\nit was stuck"
        assert "2 groups don't belong here by their hash" in cells[3]
        assert cells[13] == "__consumer_offsets-13: nothing in it"


def test_members_that_departed_without_a_cause_are_shown_as_removed() -> None:
    rows = [churned(joins=4, departures=3), churned("audit", joins=2, leaves=1, expirations=1, departures=2)]
    told = titles(svg(churn(rows, WIDE)))
    assert [one for one in told if ": " in one] == [
        "billing: 4 joined",
        "billing: 3 removed",
        "audit: 2 joined",
        "audit: 1 left",
        "audit: 1 session expired",
    ]


def holding(
    client: str, from_ms: int, to_ms: int | None, *, has: str = "", revoking: str = "", missing: str = ""
) -> Row:
    """Return a row of a member of the streams group ``counts``: numbers of active tasks."""
    tasks = {
        name: frozenset(Unit("0", int(number), ACTIVE) for number in numbers)
        for name, numbers in (("has", has), ("revoking", revoking), ("missing", missing))
    }
    until_ms = None if to_ms is None else T0 + to_ms
    return {
        "group": "counts",
        "member": f"{client}-id",
        "client": client,
        "from_ms": T0 + from_ms,
        "to_ms": until_ms,
        **tasks,
    }


def test_assignments_show_the_tasks_of_members_and_late_revocations() -> None:
    rows = [
        holding("app-1", 0, 60_000, has="0123"),
        holding("app-1", 60_000, 300_000, has="01", revoking="23"),
        holding("app-2", 60_000, 300_000, missing="23"),
        holding("app-2", 300_000, None, has="0123"),
    ]
    picture = svg(assigned("counts", rows, TIME))
    tips = titles(picture)
    assert "22:14:20.000 to 22:18:20.000  app-1 has tasks 0_0 and 0_1, is to give up tasks 0_2 and 0_3" in tips
    assert "22:14:20.000 to 22:18:20.000  app-2 waits for tasks 0_2 and 0_3" in tips
    assert "22:18:20.000 to 22:23:20.000  app-2 has tasks 0_0, 0_1, 0_2 and 0_3" in tips, "to the end"
    words = [one.text for one in picture.iter() if one.tag.endswith("text")]
    assert "app-1 revoked late: 4 min" in words
    assert words.count("4") == 3, "numbers of tasks, those to give up included"
    crowd = [holding(f"app-{n}", 0, None, has="0") for n in range(20)] + [holding("slow", 0, 5000, revoking="1")]
    words = [one.text for one in svg(assigned("counts", crowd, TIME)).iter() if one.tag.endswith("text")]
    assert "slow" in words, "who revoked late stays"
    assert f"and {21 - MOST_MEMBERS} members more" in words
    frequent = [holding("app-1", at, at + 10, has="0", revoking="1") for at in range(0, 600_000, 10)]
    assert len(assigned("counts", frequent, TIME)) < 100_000


def test_deliveries_show_offsets_over_time_by_their_end() -> None:
    rows = [
        delivery(1000, 9000, "archived", returns=2, deliveries=3),
        delivery(2000, 3000, from_offset=20, to_offset=30, records=10),
        delivery(4000, 5000, None, from_offset=40, to_offset=41),
        delivery(6000, 6000, "reset", from_offset=50, to_offset=10, records=None, returns=0, deliveries=None),
    ]
    picture = svg(delivered("jobs · orders-0", rows, (T0, T0 + 10_000, ())))
    tips = titles(picture)
    assert "22:13:21.000  offset 7 returned twice, delivered 3 times: archived at 22:13:29.000" in tips
    assert "22:13:22.000  offsets 20 to 29 returned once, delivered twice: acknowledged at 22:13:23.000" in tips
    assert "22:13:24.000  offset 40 returned once, delivered twice: not delivered again yet" in tips
    assert "22:13:26.000  start offset set from 50 to 10" in tips
    bars = {one.get("class"): one for one in picture.iter() if one.tag.endswith("rect")}
    assert {"bad", "lock", "warn"} <= set(bars)
    assert float(bars["lock"].get("height", 0)) > float(bars["bad"].get("height", 0)), "ten records are higher than one"
    words = [one.text for one in picture.iter() if one.tag.endswith("text")]
    assert {"×3", "×2", "1 record archived"} <= set(words)


def test_share_and_streams_groups_have_sections_of_their_own() -> None:
    known = facts(
        rebalances=[rebalance(0, group="counts", kind="streams")],
        assignments=[holding("app-1", 0, None, has="0")],
        deliveries=[delivery(1000, 9000, "archived"), delivery(1000, 9000, partition=1, group=HOSTILE)],
    )
    text, parsed = page(known)
    ids = [attributes["id"] for tag, attributes in parsed.tags if tag == "section"]
    assert ids == ["findings", "rebalances", "assignments", "deliveries"]
    assert text.count("Deliveries of ") == 2
    assert "until its end" in text, "the table, below the pictures"
    assert "<script>alert" not in text


def test_numbers_and_spans_for_people() -> None:
    assert [short(value) for value in (0, 999, 9999, 12_345, 1_234_567, 3e9)] == [
        "0",
        "999",
        "9,999",
        "12.3 k",
        "1.2 M",
        "3 G",
    ]
    assert merged([(5, 9), (1, 3), (2, 4), (9, 12)]) == [(1, 4), (5, 12)]


def test_changes_of_protocol_and_grown_topics_are_marked() -> None:
    rows = [
        rebalance(0, kind="classic"),
        rebalance(20_000, generation=2, kind="consumer"),
        rebalance(40_000, generation=3, kind="consumer", cause_changes=["orders: 2 to 6 partitions"]),
    ]
    page = html(facts(rebalances=rows), [])
    assert "the group changed its protocol: classic to consumer" in page
    assert "a topic has more partitions: orders: 2 to 6 partitions" in page
    assert "its protocol changed, or a topic has more partitions" in page
    assert 'class="changed"' not in html(facts(rebalances=rows[:1]), [])
