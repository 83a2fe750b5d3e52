"""Every call with curl that a document shows is one that the control plane takes."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from broker_sim.control.routes import route

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = ("README.md", "docs/control.md", "docs/faults.md")
ORDERED = {"$T": "localhost:9099/v1/clusters/t1", "$JSON": "Content-Type: application/json"}


def calls(document: str) -> Iterator[tuple[str, str, str]]:
    """Method, URL and body of each."""
    for line in (ROOT / document).read_text().splitlines():
        if not line.strip().startswith("curl "):
            continue
        for name, value in ORDERED.items():
            line = line.replace(name, value)
        words = shlex.split(line, comments=True)[1:]
        given = dict(itertools.pairwise(words))
        [url] = [word for word in words if word.startswith("localhost:")]
        if "-d" in given:
            assert given["-H"] == ORDERED["$JSON"], line
        yield given.get("-X", "GET"), f"http://{url}", given.get("-d", "")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_calls_that_a_document_shows_are_taken(document: str) -> None:
    for method, url, body in calls(document):
        parts = urlsplit(url)
        asked = route(method, parts.path)
        asked.operation.checked({**dict(parse_qsl(parts.query)), **json.loads(body or "{}"), **asked.given})


def test_the_page_for_people_shows_the_calls_that_tests_need() -> None:
    shown = {route(method, urlsplit(url).path).operation.name for method, url, _ in calls("docs/control.md")}
    wanted = "cluster.create topic.fill group.wait state.set log.wait clock.advance fault.add fault.wait leader.move journal.next"
    assert {*wanted.split(), "state.heal", "group.explain", "journal.read", "cluster.delete"} <= shown
