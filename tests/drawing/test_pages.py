"""Pages out of templates: nothing that comes from outside is anything but text."""

from __future__ import annotations

import importlib.resources
import sys
from collections.abc import Iterator
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


def test_templates_switch_escaping_off_nowhere() -> None:
    """What goes in as it is, Python says, where a reader looks for it."""
    found = list(Path(str(importlib.resources.files("broker_sim"))).rglob("*.html"))
    assert {path.name for path in found} == {"index.html", "page.html", "report.html", "timeline.html"}
    for path in found:
        text = path.read_text()
        assert "|safe" not in text.replace(" ", "")
        assert "autoescape" not in text


def test_words_and_terminals_need_no_templates() -> None:
    """Where no page is made its library isn't imported: it would be a fifth of the start of a command."""
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
