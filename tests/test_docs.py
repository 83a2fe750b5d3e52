"""Documents can be followed: links lead somewhere, and the words are Kafka's and not this project's own."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from broker_sim.cli import main as cli
from tests.support.source_text import docstrings

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

OF_PACKAGES = [*sorted((ROOT / "packages").glob("*/README.md")), *sorted((ROOT / "tests").glob("from_*/README.md"))]


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


def broken(page: Path) -> list[str]:
    found = []
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", [*PAGES, *OF_PACKAGES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading\n[a](#a-heading) [b](#none) [c](page.md#a-heading) [d](missing.md) `[e](code.md)`\n")
    assert broken(page) == ["#none", "missing.md"]


def test_the_index_names_every_page() -> None:
    named = {link.partition("#")[0] for link in links(ROOT / "docs" / "index.md")}
    assert {page.name for page in PAGES[1:]} - named == {"index.md"}


def navigated(entry: object) -> Iterator[str]:
    """The pages of a navigation of MkDocs: names in docs/, or of files of the repository below ``repository/``."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        entry = list(entry.values())
    for each in entry if isinstance(entry, list) else ():
        yield from navigated(each)


def test_the_navigation_of_the_site_has_every_page_once() -> None:
    pages = list(navigated(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    outside = [page.removeprefix("repository/") for page in pages if page.startswith("repository/")]
    assert [name for name in outside if not (ROOT / name).is_file()] == []
    assert sorted(set(pages) - {f"repository/{name}" for name in outside}) == sorted(page.name for page in PAGES[1:])
    assert len(pages) == len(set(pages))


PRIVATE = re.compile(
    r"\b(told|whoever|there is none|is no more|can't be meant|in vain|likewise|nobody|stands)\b", re.IGNORECASE
)
"""Words and phrases for which Kafka's users have better ones."""
LIMITS = {"README": 0, "help": 0, "docs": 0, "packages": 0, "errors": 0, "docstrings": 0}
"""Greatest number of such words in each kind of text; a limit is lowered where a text is mended, and never raised."""


def helps() -> str:
    """Return the --help output of every command and verb."""
    texts, parsers = [], [cli._parser([command]) for command in ("", *cli._HERE, *cli.ELSEWHERE)]
    while parsers:
        parser = parsers.pop()
        texts.append(parser.format_help())
        for action in parser._actions:
            parsers += action.choices.values() if isinstance(action, argparse._SubParsersAction) else ()
    return "\n".join(texts)


def sources() -> Iterator[ast.Module]:
    for path in sorted([*(ROOT / "broker_sim").rglob("*.py"), *(ROOT / "protocol").rglob("*.py")]):
        yield ast.parse(path.read_text())


def counted() -> dict[str, int]:
    explained: list[str] = []
    errors: list[str] = []
    for tree in sources():
        explained += [text for _, text in docstrings(tree)]
        for raised in [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]:
            errors += [
                one.value for one in ast.walk(raised) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
    texts = {
        "README": PAGES[0].read_text(),
        "help": helps(),
        "docs": "\n".join(page.read_text() for page in PAGES[1:] if page.name != "style.md"),  # which lists them
        "packages": "\n".join(page.read_text() for page in OF_PACKAGES),
        "errors": "\n".join(errors),
        "docstrings": "\n".join(explained),
    }
    return {name: len(PRIVATE.findall(text)) for name, text in texts.items()}


def test_private_phrases_do_not_come_back() -> None:
    over = {name: (count, LIMITS[name]) for name, count in counted().items() if count > LIMITS[name]}
    assert over == {}, "each is (how often, its limit)"
