"""The project tests/from_node, a user of packages/node: kafkajs is led through incidents."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from broker_sim import __version__
from tests.clients.clients import BUILD_S, built, run_tool
from tests.control.theirs import FETCHERS, RUN_S, alone, compiled, on_path, run, serving
from tests.support.real_kafka import need_tool

ROOT = Path(__file__).parent.parent.parent
HERE = ROOT / "tests" / "from_node"
PACKAGE = ROOT / "packages" / "node"


def project() -> Path:
    """A copy of the project, with what it depends on and the package as npm packs it."""
    npm = need_tool("npm")
    sources = [path for folder in (HERE, PACKAGE) for path in sorted(folder.rglob("*")) if path.is_file()]

    def build(directory: Path) -> None:
        copy = directory / "from_node"
        shutil.copytree(HERE, copy)
        compiled([npm, "pack", "--silent", "--pack-destination", str(directory), str(PACKAGE)], directory)
        archive = str(directory / f"broker-sim-{__version__}.tgz")
        run_tool([npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--no-save", archive], copy)

    return built("from-node", sources, build) / "from_node"


def outcomes_of(path: str, directory: Path, environment: dict[str, str], *more: str) -> tuple[int, str, dict[str, str]]:
    """The exit code, the output and each test's outcome, ok or not ok."""
    command = [need_tool("node"), "--test", "--test-reporter", "tap", *more, str(project() / path)]
    code, output = run(command, directory, environment, "the Node tests")
    return (
        code,
        output,
        {name: outcome for outcome, name in re.findall(r"^(ok|not ok) \d+ - (.*)$", output, re.MULTILINE)},
    )


def declared(path: str) -> set[str]:
    return set(re.findall(r"^test\(['\"](.*?)['\"],", (HERE / path).read_text(), re.MULTILINE))


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
@pytest.mark.parametrize("path", ["billing.test.js", "migration.test.js"])
def test_kafkajs_is_led_through_incidents(tmp_path: Path, path: str) -> None:
    code, output, outcomes = outcomes_of(path, tmp_path, on_path(tmp_path))
    assert code == 0, output
    assert outcomes == dict.fromkeys(declared(path), "ok"), output


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_what_must_fail_in_node_says_why(tmp_path: Path) -> None:
    code, output, outcomes = outcomes_of("failing/failing.test.js", tmp_path, on_path(tmp_path))
    assert code == 1, output
    assert outcomes == dict.fromkeys(declared("failing/failing.test.js"), "not ok"), output
    assert "fault 1 never hit: OffsetCommit group=billing" in output
    assert "BROKEN  never: " in output
    assert "the cluster is gone" in output
    assert re.search(r"the test's own.*group billing: Stable in generation 1, 1 member: app", output, re.DOTALL), output


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_the_declarations_have_the_right_types() -> None:
    copy = project()
    compiled([need_tool("node"), str(copy / "node_modules" / "typescript" / "bin" / "tsc"), "-p", str(copy)], copy)


ONE = ("--test-name-pattern", "without a test")


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
@pytest.mark.parametrize("fetcher", FETCHERS)
def test_a_node_test_lets_the_program_be_fetched(tmp_path: Path, fetcher: str) -> None:
    code, output, _ = outcomes_of("billing.test.js", tmp_path, alone(tmp_path, fetcher), *ONE)
    assert code == 0, output


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_a_node_test_fetches_nothing_unasked(tmp_path: Path) -> None:
    code, output, _ = outcomes_of("billing.test.js", tmp_path, alone(tmp_path, "uvx", asked=False), *ONE)
    assert (code, "BROKER_SIM_FETCH=1 has uvx or pipx fetch it" in output) == (1, True), output


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_a_node_test_uses_a_server_that_runs(tmp_path: Path) -> None:
    with serving() as url:
        environment = {**alone(tmp_path), "BROKER_SIM_CONTROL": url}
        code, output, _ = outcomes_of("billing.test.js", tmp_path, environment, *ONE)
    assert code == 0, output


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            "",
            "no broker-sim on the PATH; python3 -m pip install 'broker-sim[control,tls]' installs it",
        ),
        ("{directory}/nowhere", "nowhere: spawn"),
        ("sh {directory}/refuses", "refuses ended before it was ready"),
    ],
)
def test_a_node_test_says_why_the_program_does_not_start(tmp_path: Path, program: str, reason: str) -> None:
    (tmp_path / "refuses").write_text("echo 'broker-sim serve: the control server needs aiohttp' >&2; exit 2")
    command = program.format(directory=tmp_path)
    environment = {**on_path(tmp_path), "BROKER_SIM_COMMAND": command} if command else alone(tmp_path)
    code, output, _ = outcomes_of("billing.test.js", tmp_path, environment, *ONE)
    assert code == 1, output
    assert reason in output.replace("\\'", "'")


def test_the_version_of_the_node_package_is_that_of_broker_sim() -> None:
    assert json.loads((PACKAGE / "package.json").read_text())["version"] == __version__
    assert json.loads((HERE / "package.json").read_text())["devDependencies"]["broker-sim"] == __version__
