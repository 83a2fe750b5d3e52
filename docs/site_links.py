"""A hook of MkDocs (mkdocs.yml): the site also contains the files of the repository that its pages link to.

A page links to files as on a code host: ``../README.md``, ``../scenarios/crash-without-leave.yaml``. Files outside of docs/ become
pages below ``repository/``, Markdown as it is, other text as a code block, and links are rewritten to them. Anchors are those of a
code host. A link to a missing file is not rewritten, and so fails the build (``--strict``).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
OUTSIDE = "repository"
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def slug(heading: str, separator: str) -> str:
    """The anchor of a heading: lower case, without punctuation, ``separator`` for each blank."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", separator)


def page_of(path: Path) -> str:
    """The source name of a file in the site, with slashes: its name in docs/, or one below ``repository/``."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    return f"{OUTSIDE}/{name}" if path.suffix == ".md" else f"{OUTSIDE}/{name}.md"


def target_of(link: str, page: Path) -> Path | None:
    """The file of the repository that a link of this page names; None if it is missing, or a directory."""
    path = (page.parent / link).resolve()
    return path if path.is_relative_to(ROOT) and path.is_file() else None


def linked(page: Path) -> Iterator[Path]:
    """The files that a Markdown file links to, outside of its code."""
    for found in _LINK.finditer(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path = target_of(found[2], page)
        if path is not None:
            yield path


def outside() -> list[Path]:
    """The files outside of docs/ that the pages link to, and the Markdown files among these in turn."""
    waiting, seen = sorted(DOCS.glob("*.md")), dict[Path, None]()
    while waiting:
        for path in linked(waiting.pop()):
            if not path.is_relative_to(DOCS) and path not in seen:
                seen[path] = None
                waiting += [path] if path.suffix == ".md" else []
    return sorted(seen)


def rewritten(text: str, page: Path) -> str:
    """The Markdown of a page with its links as the site has them."""
    base = posixpath.dirname(page_of(page))

    def link(found: re.Match[str]) -> str:
        path = target_of(found[2], page)
        return found[0] if path is None else f"{found[1]}{posixpath.relpath(page_of(path), base or '.')}{found[3]}"

    parts = _CODE.split(text)  # prose and code in turns
    return "".join(part if place % 2 else _LINK.sub(link, part) for place, part in enumerate(parts))


def on_config(config: Any) -> Any:
    """Called by MkDocs: anchors as a code host makes them."""
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Files, config: Any) -> Files:
    """Called by MkDocs: the pages below ``repository/``."""
    for path in outside():
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".md":
            text = f"# {path.name}\n\n```{path.suffix[1:]}\n{text}```\n"
        files.append(File.generated(config, page_of(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Called by MkDocs for each page. In the search, source files and the changes rank below the pages that explain them."""
    name = page.file.src_uri
    if name.startswith(f"{OUTSIDE}/") and not name.endswith("README.md"):
        page.meta["search"] = {"boost": 0.1}
    path = ROOT / name.removeprefix(f"{OUTSIDE}/") if name.startswith(f"{OUTSIDE}/") else DOCS / name
    return rewritten(markdown, path) if path.is_file() else markdown
