"""What a wheel has beside its files."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

SETUP = Path(__file__).resolve().parent.parent / "setup.py"


@pytest.mark.parametrize(("given", "used"), [(None, "315532800"), ("1700000000", "1700000000")])
def test_a_wheel_has_the_same_times_wherever_it_is_built(
    given: str | None, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []
    setup = SimpleNamespace(setup=lambda: seen.append(os.environ.get("SOURCE_DATE_EPOCH")))
    monkeypatch.setitem(sys.modules, "setuptools", setup)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", given or "")
    if given is None:
        monkeypatch.delenv("SOURCE_DATE_EPOCH")
    runpy.run_path(str(SETUP))
    assert seen == [used]
