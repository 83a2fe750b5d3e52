"""The lines "after" of docs/migration.md are tested: those of Python here, those of other languages in the projects tests/from_*."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "migration.md").read_text()
TESTED = re.findall(r"^<!-- tested: (\S+) -->\n```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def lines(text: str) -> str:
    """A text without its indentation."""
    return "\n".join(line.strip() for line in text.strip().splitlines())


@pytest.mark.parametrize(
    ("file", "code"),
    [(file, code) for file, language, code in TESTED if language != "python"],
    ids=lambda text: text[:60],
)
def test_the_lines_after_are_in_a_test(file: str, code: str) -> None:
    assert lines(code) in lines((ROOT / file).read_text())


def test_every_section_has_lines_that_are_tested() -> None:
    sections = re.split(r"^##+ (?=From|Java|Python|Go|Node|librdkafka)", PAGE, flags=re.MULTILINE)[1:]
    with_code = [section for section in sections if "```" in section]
    assert len(with_code) == 9
    assert [section.splitlines()[0] for section in with_code if "<!-- tested: " not in section] == []


@pytest.mark.real_time
def test_the_lines_after_of_python_pass(pytester: pytest.Pytester) -> None:
    codes = [code for _, language, code in TESTED if language == "python"]
    pytester.makepyfile(**{f"test_{number}": code for number, code in enumerate(codes)})
    scope = "asyncio_default_fixture_loop_scope=function"
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:randomly", "-o", scope, timeout=300)
    result.assert_outcomes(passed=len(codes))
