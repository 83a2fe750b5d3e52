"""Every event that a test lets a journal write keeps to the journal's vocabulary, or the test fails."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from broker_sim.journal import Journal, problems

_write = Journal.write
_wrong: dict[str, None] = {}


def _checked(journal: Journal, event: str, **fields: Any) -> dict[str, Any]:
    record = _write(journal, event, **fields)
    _wrong.update(dict.fromkeys(problems(record)))
    return record


Journal.write = _checked  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    yield
    if _wrong:
        found = list(_wrong)
        _wrong.clear()
        pytest.fail("events that broker_sim/journal/vocabulary.py does not know:\n" + "\n".join(found), pytrace=False)
