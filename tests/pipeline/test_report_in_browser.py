"""The report in a real browser: what a reader does with it, and what is then to be seen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_sim.explain.picture import html as timeline
from broker_sim.pipeline.facts import ReportFacts
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.report.page import html
from tests.explain.test_pictures import revokes_late
from tests.pipeline.facts import facts, rebalance, regression, window
from tests.pipeline.test_findings import stuck
from tests.pipeline.test_report import holding
from tests.pipeline.test_share_deliveries import delivery

pytestmark = [pytest.mark.browser]

ROW = ".lanes .row[data-group]"
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (broker-sim[dev])")
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on the PATH: the report is not looked at")
    with sync_api.sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=found, args=[*ARGUMENTS, *sandbox])
        yield opened
        opened.close()


def known() -> ReportFacts:
    """Sixty groups; ``billing`` in trouble, ``audit-07`` set back once."""
    groups = [f"audit-{n:02}" for n in range(59)]
    return facts(
        groups=60,
        rebalances=[
            rebalance(98_500, 5000, end="failed"),
            rebalance(138_500, 900, generation=2, stable_ms=None),
            *(rebalance(n * 5000, 400, group=group, generation=n) for n, group in enumerate(groups)),
        ],
        regressions=[regression(156_000, 1200, 950), regression(400_000, 70, 7, "rewind", group="audit-07")],
        stuck=[
            stuck(98_000, 139_000),
            stuck(300_000, 309_000, log="__consumer_offsets-3", log_partition=3, groups=["audit-07"]),
        ],
        neighbours={3: ["audit-07", "shares-it"]},
        lag={
            "billing": [window(at * 10_000, at * 70, 1) for at in range(60)],
            **{group: [window(at * 10_000, at, 1, group=group) for at in range(60)] for group in groups[:20]},
        },
        assignments=[holding("app-1", 0, 300_000, has="01"), holding("app-2", 0, None, has="23")],
        deliveries=[delivery(1000, 9000, group=group) for group in ("audit-07", "billing")],
        counts={"rebalances": 61},
    )


class Report:
    """The page, opened; what goes wrong in it fails the test."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page, self.wrong = page, []
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda said: self.wrong.append(said.text))
        page.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "blob:")) else self.wrong.append(request.url),
        )
        page.goto(path.as_uri())

    def shown(self, selector: str = ROW) -> list[str]:
        """The groups that are to be seen."""
        return self.page.eval_on_selector_all(  # type: ignore[no-any-return]
            selector, "all => all.filter(it => it.offsetParent !== null).map(it => it.dataset.group)"
        )

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)  # type: ignore[no-any-return]

    def box(self, selector: str) -> dict[str, float]:
        element = self.page.locator(selector).first
        element.scroll_into_view_if_needed()
        return element.bounding_box()  # type: ignore[no-any-return]

    def drag(self, selector: str, begin: float, end: float) -> None:
        """Over a picture, in shares of its width."""
        box, mouse = self.box(selector), self.page.mouse
        y = box["y"] + box["height"] / 2
        mouse.move(box["x"] + box["width"] * begin, y)
        mouse.down()
        mouse.move(box["x"] + box["width"] * end, y, steps=4)
        mouse.up()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html(known(), findings(known())), encoding="utf-8")
    return path


@pytest.fixture
def report(browser: Any, written: Path) -> Iterator[Report]:
    page = browser.new_page(viewport=WIDE)
    opened = Report(page, written)
    yield opened
    page.close()
    assert opened.wrong == []


def seen_span_s(report: Report) -> float:
    """Return the length in s of the period that the pictures show."""
    return float(
        report.page.evaluate(
            "() => document.querySelector('#span').textContent.match(/[\\d:-]+ [\\d:.]+/g)"
            ".map(it => Date.parse(it.trim().replace(' ', 'T') + 'Z')).reduce((a, b) => b - a) / 1000"
        )
    )


def test_a_search_shows_a_group_anywhere_and_is_kept_in_the_address(report: Report) -> None:
    assert len(report.shown()) == 40
    assert "audit-58" not in report.shown()
    report.page.fill("#search", "AUDIT-58")
    assert report.shown() == ["audit-58"]
    assert report.text("#found") == "1 group"
    assert set(report.shown("#findings li")) <= {"audit-58"}
    assert report.shown("#stuck tbody tr") == []
    assert report.page.url.endswith("#group=AUDIT-58")
    report.page.reload()
    assert report.shown() == ["audit-58"]
    report.page.press("#search", "Escape")
    assert len(report.shown()) == 40
    assert "#" not in report.page.url


def test_a_search_shows_the_pictures_and_the_rows_of_a_share_group_alone(report: Report) -> None:
    assert report.shown("#deliveries .many > div") == ["audit-07", "billing"]
    report.page.fill("#search", "audit-07")
    assert report.shown("#deliveries .many > div") == ["audit-07"]
    assert report.shown("#deliveries tbody tr") == ["audit-07"]
    assert report.shown("#assignments .many > div") == []
    assert "No picture for that" in report.text("#assignments")
    report.page.fill("#search", "counts")
    assert report.shown("#assignments .many > div") == ["counts"]


def test_a_search_without_results_shows_a_message(report: Report) -> None:
    report.page.fill("#search", "nobody")
    assert report.shown() == []
    assert "No row for that" in report.text("#rebalances")


def test_all_groups_are_shown_on_request(report: Report) -> None:
    report.page.click("#rebalances [data-all]")
    assert len(report.shown()) == 60
    assert len(report.shown("#lag .many > div")) == 21


def test_a_name_leads_to_its_group_alone_and_back(report: Report) -> None:
    report.page.click(f"{ROW} button.name >> nth=1")
    name = report.text(f"{ROW}:not([hidden]) button.name")
    assert report.shown() == [name]
    report.page.click(f"{ROW}:not([hidden]) button.name")
    assert len(report.shown()) == 40


def test_severities_are_switched_off(report: Report) -> None:
    before = report.page.locator("#findings li.warn:visible").count()
    assert before
    report.page.click("#bar [data-severity=bad]")
    assert report.page.locator("#findings li.bad:visible").count() == 0
    assert report.page.locator("#findings li.warn:visible").count() == before


def test_a_finding_leads_to_its_moment_and_the_flag_there_back_to_it(report: Report) -> None:
    finding = report.page.locator("#findings li", has_text="audit-07").filter(has_text="70 to 7").first
    key = finding.get_attribute("id")
    finding.locator("button.show").evaluate("it => it.click()")
    assert report.text("#moment").startswith("2023-11-14 22:20:00.000")
    lane = report.page.locator(f"{ROW}[data-group=audit-07]")
    assert lane.evaluate(
        "it => { const box = it.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight }"
    )
    cursor = lane.locator("svg.wide .cursor").bounding_box()
    flag = lane.locator(f"svg.wide [data-finding={key}]")
    assert abs(cursor["x"] - flag.locator("path").bounding_box()["x"]) < 3
    flag.click()
    assert report.page.locator(f"#{key}").evaluate(
        "it => { const box = it.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight }"
    )
    assert "flash" in str(report.page.locator(f"#{key}").get_attribute("class"))


def test_one_moment_is_pointed_at_in_all_pictures(report: Report) -> None:
    box = report.box(f"{ROW} svg.wide")
    report.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 8)
    shares = report.page.evaluate(
        "() => [...document.querySelectorAll('svg.chart .cursor')].filter(it => it.checkVisibility()).map(it => {"
        " const plot = it.ownerSVGElement.querySelector('g.plot'), left = +plot.dataset.left;"
        " return (+it.getAttribute('x') - left) / (+plot.dataset.right - left) })"
    )
    assert len(shares) > 10  # those on the screen and near it
    assert max(shares) - min(shares) < 0.001
    assert abs(shares[0] - 0.5) < 0.01


def test_a_stretch_of_time_is_seen_closer_in_all_pictures(report: Report) -> None:
    bar = f"{ROW}[data-group=billing] svg.wide .prepare"
    whole, before = seen_span_s(report), report.box(bar)["width"]
    report.drag(f"{ROW}[data-group=billing] svg.wide", 0.1, 0.35)
    assert seen_span_s(report) < whole / 2
    assert report.box(bar)["width"] / before == pytest.approx(1 / 0.25, rel=0.03)
    labels = report.page.locator(".lanes .head svg.wide .ticks text").all_text_contents()
    assert len(labels) >= 3
    assert labels == sorted(labels)
    report.page.click("#whole")
    assert seen_span_s(report) == whole
    assert report.box(bar)["width"] == pytest.approx(before, abs=0.1)


def test_widened_bars_have_their_true_width_when_zoomed(report: Report) -> None:
    """A rebalance of 400 ms has at least a pixel and a half among ten minutes; from near it has what it lasted."""
    report.page.fill("#search", "audit-30")
    thin = f"{ROW}[data-group=audit-30] svg.wide .thin rect"
    report.page.focus("#in")
    box = report.box(thin)
    report.page.mouse.move(box["x"], box["y"] + 5)
    for _ in range(6):
        report.page.keyboard.press("+")
    picture = report.box(f"{ROW}[data-group=audit-30] svg.wide")
    lasted_s = report.box(thin)["width"] / (picture["width"] * 0.992) * seen_span_s(report)
    assert lasted_s == pytest.approx(0.267, rel=0.35)  # the first two thirds of it


def test_keys_move_and_zoom(report: Report) -> None:
    whole = seen_span_s(report)
    report.page.keyboard.press("+")
    assert seen_span_s(report) < whole
    report.page.keyboard.press("ArrowRight")
    first = report.text("#moment")
    report.page.keyboard.press("ArrowRight")
    assert report.text("#moment") > first
    report.page.keyboard.press("0")
    assert seen_span_s(report) == whole
    report.page.keyboard.press("/")
    assert report.page.evaluate("() => document.activeElement.id") == "search"


def test_tables_are_sorted_by_the_values_of_their_numbers(report: Report) -> None:
    column = "#stuck tbody td:nth-child(4)"
    assert report.page.locator(column).all_inner_texts() == ["41 s", "9 s"]
    report.page.click("#stuck th:nth-child(4) button")
    assert report.page.locator(column).all_inner_texts() == ["9 s", "41 s"]
    assert report.page.get_attribute("#stuck th:nth-child(4)", "aria-sort") == "ascending"
    report.page.click("#stuck th:nth-child(4) button")
    assert report.page.locator(column).all_inner_texts() == ["41 s", "9 s"]


def test_a_table_is_downloaded_as_shown(report: Report, tmp_path: Path) -> None:
    report.page.fill("#search", "audit-07")
    with report.page.expect_download() as download:
        report.page.click("#stuck button.download")
    assert download.value.suggested_filename == "stuck.csv"
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith('"partition","first failure"')
    assert len(lines) == 2
    assert lines[1].startswith('"__consumer_offsets-3"')


def test_one_scale_for_the_lag_of_all_groups(report: Report) -> None:
    curve = "#lag [data-group=audit-01] .rise"
    before = report.box(curve)["height"]
    report.page.click("#alike")
    assert report.box(curve)["height"] < before / 20  # 59 of 4,130
    assert report.page.text_content("#lag [data-group=audit-01] text.top") == "4,130"
    report.page.click("#alike")
    assert report.box(curve)["height"] == pytest.approx(before, abs=0.5)


@pytest.mark.parametrize("width", [390, 800, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_hangs_over_the_edge_and_text_can_be_read(browser: Any, written: Path, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    report = Report(page, written)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    smallest = page.evaluate(
        "() => Math.min(...[...document.querySelectorAll('svg.chart text')]"
        ".filter(it => it.checkVisibility({contentVisibilityAuto: true}))"
        ".map(it => parseFloat(getComputedStyle(it).fontSize) * it.ownerSVGElement.getBoundingClientRect().width"
        " / it.ownerSVGElement.viewBox.baseVal.width))"
    )
    assert smallest >= 7.5
    paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(paper) < 200) == (scheme == "dark")
    assert report.wrong == []
    page.close()


def test_on_paper_all_findings_are_shown_and_no_controls(browser: Any, written: Path) -> None:
    page = browser.new_page(viewport=WIDE, color_scheme="dark")
    report = Report(page, written)
    page.emulate_media(media="print")
    assert page.locator("#bar").is_hidden()
    assert page.locator("button.show >> nth=0").is_hidden()
    assert (
        page.evaluate("() => getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()") == "#fff"
    )
    assert report.wrong == []
    page.close()


def test_without_scripts_everything_is_shown(browser: Any, written: Path) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=PHONE)
    page = context.new_page()
    page.goto(written.as_uri())
    assert page.locator(f"{ROW}:visible").count() == 60
    assert page.locator("#bar").is_hidden()
    context.close()


def test_a_script_in_a_name_would_not_run_even_if_it_were_not_escaped(browser: Any, tmp_path: Path) -> None:
    text = html(known(), []).replace("<footer>", "<footer><script>document.title = 'theirs'</script><b onclick=x>")
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    page = browser.new_page()
    refused: list[str] = []
    page.on("console", lambda said: refused.append(said.text))
    page.goto(path.as_uri())
    assert page.title() == "r1: what happened to the consumer groups"
    assert any("Content Security Policy" in one for one in refused)
    page.close()


def test_the_timeline_shows_its_stories(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "timeline.html"
    path.write_text(timeline(revokes_late().events, "billing"), encoding="utf-8")
    page = browser.new_page(viewport=WIDE)
    opened = Report(page, path)
    page.locator("svg.timeline [data-at]").first.dispatch_event("pointermove", {"clientX": 300, "clientY": 100})
    assert opened.text("#tip")
    assert page.eval_on_selector("#tip", "it => it.style.opacity") == "1"
    assert page.eval_on_selector("svg.timeline .bg", "it => getComputedStyle(it).fill") != "rgb(0, 0, 0)"
    page.close()
    assert opened.wrong == []


def shown_findings(report: Report) -> int:
    return int(report.page.eval_on_selector_all(".findings li", "all => all.filter(it => it.checkVisibility()).length"))


def test_a_search_finds_what_happened_to_the_groups_offsets_partition(report: Report) -> None:
    report.page.fill("#search", "shares-it")
    assert "its offsets partition 3" in report.text("#findings")
    assert report.text("#found") == "1 group"
    report.page.fill("#search", "no such group")
    assert shown_findings(report) == 0
    assert "No finding is shown" in report.text("#findings .none")
    assert report.text("#found") == "0 groups"


def test_severities_and_counts_are_those_of_what_is_shown(report: Report) -> None:
    page, whole = report.page, 0
    page.eval_on_selector_all("details.rest", "all => all.forEach(it => { it.open = true })")
    for button in page.query_selector_all("#bar [data-severity]"):
        name, _, number = button.inner_text().partition(" ")
        assert len(report.page.query_selector_all(f".findings li.{name}")) == int(number)
        whole += int(number)
        before = shown_findings(report)
        button.click()
        assert before - shown_findings(report) == int(number)
        assert page.query_selector_all(f".flag.{name}:not(path)") == []
        assert not any(flag.is_visible() for flag in page.query_selector_all(f"path.flag.{name}"))
        button.click()
        assert shown_findings(report) == before


def test_more_findings_open_onto_as_many(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    many = facts(groups=30, regressions=[regression(n * 5000, 90, 7, group=f"audit-{n:02}") for n in range(20)])
    path.write_text(html(many, findings(many)), encoding="utf-8")
    page = browser.new_page(viewport=WIDE)
    report = Report(page, path)
    for words in ("", "audit-1", "audit-03", "nothing"):
        page.fill("#search", words)
        if page.locator("details.rest").is_visible():
            page.eval_on_selector("details.rest", "it => { it.open = true }")
            number = page.eval_on_selector_all(
                "details.rest li", "all => all.filter(it => it.checkVisibility()).length"
            )
            assert number > 0
            assert report.text("details.rest summary").startswith(f"{number} more finding")
    page.close()
    assert report.wrong == []


def test_a_table_that_scrolls_says_so(browser: Any, written: Path) -> None:
    for viewport, scrolls in ((PHONE, True), (WIDE, False)):
        page = browser.new_page(viewport=viewport)
        page.goto(written.as_uri())
        page.locator("#stuck .scroll").scroll_into_view_if_needed()
        page.wait_for_function(
            f"() => document.querySelector('#stuck .sideways').checkVisibility() === {str(scrolls).lower()}"
        )
        page.close()
