"""Pages out of templates: nothing that comes from outside is anything but text."""

from __future__ import annotations

import importlib.resources
import re
import sys
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import TemplateNotFound, UndefinedError
from markupsafe import Markup

from broker_sim.drawing import pages
from broker_sim.drawing.canvas import escaped
from tests.support import processes

EVIL = "<script>alert(1)</script>&\"'"


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A template of the test's own."""
    monkeypatch.setattr(pages, "files", lambda package: tmp_path)
    pages._environment.cache_clear()
    yield tmp_path / "a.html"
    pages._environment.cache_clear()


def read(text: str) -> tuple[list[str], list[tuple[str, str | None]], str]:
    """Tags, attributes and text of a page."""
    found: tuple[list[str], list[tuple[str, str | None]], list[str]] = ([], [], [])

    class Page(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found[0].append(tag)
            found[1].extend(attrs)

        def handle_data(self, data: str) -> None:
            found[2].append(data)

    page = Page()
    page.feed(text)
    page.close()
    return found[0], found[1], "".join(found[2])


def test_text_and_attributes_are_escaped(template: Path) -> None:
    template.write_text('<p title="{{ words }}">{{ words }}{% for one in many %}{{ one.name }}{% endfor %}</p>')
    tags, attributes, text = read(pages.page("a.html", words=EVIL, many=[{"name": EVIL}]))
    assert (tags, attributes, text) == (["p"], [("title", EVIL)], EVIL * 2)


def test_markup_goes_in_as_it_is(template: Path) -> None:
    template.write_text("{{ picture }}")
    assert pages.page("a.html", picture=Markup("<svg/>")) == "<svg/>"


def test_what_no_page_can_hold_is_shown_to_be_lost(template: Path) -> None:
    template.write_text("{{ words }}")
    assert pages.page("a.html", words="a\x00b\ud800c\x1b") == "a\ufffdb\ufffdc\ufffd"


def test_pictures_escape_as_pages_do() -> None:
    assert read(f'<p title="{escaped(EVIL)}">{escaped(EVIL)}</p>') == (["p"], [("title", EVIL)], EVIL)


def test_a_name_that_is_not_given_is_an_error(template: Path) -> None:
    template.write_text("{{ nothing }}")
    with pytest.raises(UndefinedError, match="nothing"):
        pages.page("a.html")


def test_a_template_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TemplateNotFound):
        pages.page("explain/nothing.html")


def policy_of(text: str) -> dict[str, list[str]]:
    """The Content-Security-Policy of a page: directive -> what it allows."""
    (found,) = re.findall('<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    return {name: allowed for name, *allowed in (directive.split() for directive in found.split(";"))}


def hashes(text: str, tag: str) -> list[str]:
    """The hashes of all elements of a page with that tag and no attributes, as a policy has them."""
    contents = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return [f"'sha256-{b64encode(sha256(one.encode()).digest()).decode()}'" for one in contents]


def made_pages() -> dict[str, str]:
    """A page of each template."""
    from broker_sim.control import openapi
    from broker_sim.explain import picture
    from broker_sim.pipeline.report import page as report
    from broker_sim.reproduce import page as reproduction
    from broker_sim.reproduce.group_timeline import GroupTimeline
    from broker_sim.reproduce.similarity import Similarity
    from tests.pipeline.facts import facts, hotspot

    return {
        "control/index.html": openapi.page([]),
        "explain/timeline.html": picture.html([], "billing"),
        "pipeline/report/report.html": report.html(facts(hotspots=[hotspot(3, 5, 0.5), hotspot(4, 5, 0.5)]), []),
        "reproduce/page.html": reproduction.html(
            "t", [], Similarity([], (0.0, 0.0)), GroupTimeline("billing", 0, 1), []
        ),
    }


def test_a_page_allows_its_own_style_sheets_and_scripts_alone() -> None:
    for name, text in made_pages().items():
        policy = policy_of(text)
        assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == ["'none'"], name
        assert sorted(policy["style-src"]) == sorted(hashes(text, "style")), name
        assert policy.get("script-src", []) == hashes(text, "script"), name
        assert not any(attribute in text for attribute in (" style=", " onclick=", " onload=", " src=")), name


def test_an_element_that_gets_past_the_escaping_is_not_allowed(template: Path) -> None:
    template.write_text(
        '<head><meta charset="utf-8">{{ policy }}{{ evil }}{% call policy.script() %}ours{% endcall %}'
        "{% call policy.style() %}ours{% endcall %}"
    )
    text = pages.page("a.html", evil=Markup("<script>theirs</script><style>theirs</style>"))
    policy = policy_of(text)
    assert (policy["script-src"], policy["style-src"]) == (hashes("<script>ours</script>", "script"),) * 2


def test_templates_switch_escaping_off_nowhere() -> None:
    """Text that goes in unescaped is marked so in Python, where a reader looks for it."""
    found = list(Path(str(importlib.resources.files("broker_sim"))).rglob("*.html"))
    assert {path.name for path in found} == {"index.html", "page.html", "report.html", "timeline.html"}
    for path in found:
        text = path.read_text()
        assert "|safe" not in text.replace(" ", "")
        assert "autoescape" not in text
        assert "<style" not in text
        assert "<script" not in text


def test_words_and_terminals_need_no_templates() -> None:
    """The templates' library isn't imported where no page is made: it would be a fifth of the start of a command."""
    program = (
        "import sys, broker_sim.explain, broker_sim.explain.terminal, broker_sim.pipeline.findings, broker_sim.cli.main;"
        "sys.exit('jinja2' in sys.modules)"
    )
    assert processes.run([sys.executable, "-c", program]).returncode == 0


def test_the_control_server_s_page_escapes_the_names_of_clusters() -> None:
    from broker_sim.control.openapi import page

    class Named:
        bootstrap = EVIL

    tags, attributes, text = read(page([(EVIL, Named())]))  # type: ignore[list-item]
    assert "script" not in tags
    assert text.count(EVIL) == 2
    assert all("<" not in (value or "") for _, value in attributes)
