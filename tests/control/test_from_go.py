"""The Go tests of tests/from_go: franz-go is led through incidents by HTTP alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.clients.clients import BUILD_S, built, run_tool
from tests.control.theirs import RUN_S, compiled, on_path, run
from tests.support.real_kafka import need_tool

HERE = Path(__file__).parent.parent / "from_go"


def program() -> Path:
    """The package's tests, compiled."""
    go = need_tool("go")
    sources = [HERE / name for name in ("brokersim.go", "brokersim_test.go", "go.mod", "go.sum")]

    def build(directory: Path) -> None:
        run_tool([go, "mod", "download"], HERE)
        compiled([go, "vet", "."], HERE)
        compiled([go, "test", "-c", "-o", str(directory / "tests"), "."], HERE)

    return built("from-go", sources, build) / "tests"


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_franz_go_is_led_through_incidents(tmp_path: Path) -> None:
    code, output = run([str(program()), "-test.v"], tmp_path, on_path(tmp_path), "the Go tests")
    outcomes = {name: outcome for outcome, name in re.findall(r"^--- (\w+): (\w+)", output, re.MULTILINE)}
    failed = [name for name, outcome in outcomes.items() if outcome != "PASS"]
    if failed or code != 0:
        pytest.fail(f"failed: {', '.join(failed) or f'exit code {code}'}\n{output}", pytrace=False)
    declared = re.findall(r"^func (Test\w+)\(t \*testing\.T\)", (HERE / "brokersim_test.go").read_text(), re.MULTILINE)
    assert set(outcomes) == set(declared)
