"""The module tests/from_go, a user of packages/go: franz-go is led through incidents."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.clients import BUILD_S, built, run_tool
from tests.control.theirs import FETCHERS, RUN_S, alone, compiled, on_path, run, serving
from tests.support.real_kafka import need_tool

ROOT = Path(__file__).parent.parent.parent
HERE = ROOT / "tests" / "from_go"
PACKAGE = ROOT / "packages" / "go"


def program(package: str = ".") -> Path:
    """A package's tests, compiled."""
    go = need_tool("go")
    sources = [
        *(HERE / name for name in ("go.mod", "go.sum")),
        *sorted(PACKAGE.glob("*.go")),
        *sorted((HERE / package).glob("*_test.go")),
    ]

    def build(directory: Path) -> None:
        run_tool([go, "mod", "download"], HERE)
        compiled([go, "vet", package], HERE)
        compiled([go, "test", "-c", "-o", str(directory / "tests"), package], HERE)

    return built("from-go", sources, build, salt=package) / "tests"


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_franz_go_is_led_through_incidents(tmp_path: Path) -> None:
    shutil.copytree(HERE / "testdata", tmp_path / "testdata")
    code, output = run([str(program()), "-test.v"], tmp_path, on_path(tmp_path), "the Go tests")
    outcomes = {name: outcome for outcome, name in re.findall(r"^--- (\w+): (\w+)", output, re.MULTILINE)}
    failed = [name for name, outcome in outcomes.items() if outcome != "PASS"]
    if failed or code != 0:
        pytest.fail(f"failed: {', '.join(failed) or f'exit code {code}'}\n{output}", pytrace=False)
    sources = "\n".join(path.read_text() for path in HERE.glob("*_test.go"))
    declared = re.findall(r"^func (Test\w+)\(t \*testing\.T\)", sources, re.MULTILINE)
    assert set(outcomes) == set(declared)


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_what_must_fail_in_go_says_why(tmp_path: Path) -> None:
    shutil.copytree(HERE / "failing" / "testdata", tmp_path / "testdata")
    code, output = run([str(program("./failing")), "-test.v"], tmp_path, on_path(tmp_path), "the Go tests")
    assert code == 1, output
    blocks = dict(re.findall(r"^=== RUN +(\w+)\n(.*?)^--- FAIL: \1", output, re.MULTILINE | re.DOTALL))
    scenario = blocks.pop("TestAScenarioWhoseExpectationsFail")
    assert re.search(r"ScenarioFailed \(409\): +BROKEN  never: ", scenario), scenario
    assert set(blocks) == {"TestARuleThatNeverMatches", "TestAFailureBeforeAnythingHappened"}, output
    assert re.search(
        r"NeverHit \(409\): fault 1 never hit: OffsetCommit group=billing", blocks["TestARuleThatNeverMatches"]
    )
    [line] = blocks["TestAFailureBeforeAnythingHappened"].splitlines()
    assert line.endswith("the test's own"), "nothing happened, so there is no history"


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
@pytest.mark.parametrize(
    ("program_", "reason"),
    [
        (
            "{directory}/nowhere",
            "can't start .*nowhere: .*; python3 -m pip install 'broker-sim\\[control,tls\\]' installs it",
        ),
        (
            "sh {directory}/refuses",
            r"refuses ended before it was ready:\n\s+broker-sim serve: the control server needs aiohttp",
        ),
    ],
)
def test_a_go_test_says_why_the_program_does_not_start(tmp_path: Path, program_: str, reason: str) -> None:
    (tmp_path / "refuses").write_text("echo 'broker-sim serve: the control server needs aiohttp' >&2; exit 2")
    environment = {**on_path(tmp_path), "BROKER_SIM_COMMAND": program_.format(directory=tmp_path)}
    code, output = run([str(program("./failing"))], tmp_path, environment, "the Go tests")
    assert code == 1, output
    assert re.search(reason, output), output


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
@pytest.mark.parametrize("fetcher", [*FETCHERS, ""])
def test_a_go_test_finds_the_program(tmp_path: Path, fetcher: str) -> None:
    command = [str(program()), "-test.v", "-test.run", "TestRecordsAreRead"]
    code, output = run(command, tmp_path, alone(tmp_path, fetcher), "the Go test")
    assert code == (0 if fetcher else 1), output
    if not fetcher:
        expected = "no broker-sim on the PATH; python3 -m pip install 'broker-sim[control,tls]'"
        assert expected in output


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_a_go_test_fetches_nothing_unasked(tmp_path: Path) -> None:
    command = [str(program()), "-test.run", "TestRecordsAreRead"]
    code, output = run(command, tmp_path, alone(tmp_path, "uvx", asked=False), "the Go test")
    assert (code, "BROKER_SIM_FETCH=1 has uvx or pipx fetch it" in output) == (1, True), output


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_a_go_test_uses_a_server_that_runs(tmp_path: Path) -> None:
    with serving() as url:
        environment = {**alone(tmp_path), "BROKER_SIM_CONTROL": url}
        code, output = run([str(program()), "-test.run", "TestRecordsAreRead"], tmp_path, environment, "the Go test")
    assert code == 0, output


@pytest.mark.clients
def test_the_go_sources_are_formatted_and_vetted() -> None:
    done = subprocess.run(
        [need_tool("gofmt"), "-l", str(PACKAGE), str(HERE)], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    compiled([need_tool("go"), "vet", "./..."], PACKAGE)


def test_the_packages_have_the_licence() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert [(ROOT / "packages" / name / "LICENSE").read_text() == text for name in ("go", "node")] == [True, True]
