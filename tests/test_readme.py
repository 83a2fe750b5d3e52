"""The README says what is so: its examples run, its commands are there, its test command is the one that .ci/run runs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from broker_sim.cli import main as cli
from kafka_wire.api_keys import KAFKA_VERSIONS
from tests import stages
from tests.support import processes

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_pytest_example_is_the_file_that_runs() -> None:
    example = next(block for block in blocks("python") if "@pytest.mark.kafka" in block)
    assert example in (ROOT / "examples" / "test_stuck_partition.py").read_text()


def test_the_pytest_examples_pass_for_somebody_who_has_only_installed_the_package(tmp_path: Path) -> None:
    for name in ("test_orders.py", "test_stuck_partition.py", "test_session_expiry.py", "test_rotated_password.py"):
        (tmp_path / name).write_text((ROOT / "examples" / name).read_text())
    (first,) = (block for block in blocks("python") if block.startswith("import pytest\n"))
    (tmp_path / "test_first.py").write_text(first)
    (transactions,) = re.findall(
        r"^```python\n(import .*?)^```$", (ROOT / "docs" / "transactions.md").read_text(), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "test_transactions.py").write_text(transactions)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = processes.run(command, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def test_the_example_of_a_manual_clock_is_the_file_that_runs() -> None:
    (example,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / "time.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert example in (ROOT / "examples" / "test_session_expiry.py").read_text()


def test_the_example_of_a_secured_cluster_is_the_file_that_runs() -> None:
    (example,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / "security.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert (ROOT / "examples" / "test_rotated_password.py").read_text().endswith(example)


async def test_the_line_without_pytest_runs() -> None:
    (line,) = re.findall(r"`(async with broker_sim\.Cluster\(.*\) as kafka:)`", README)
    names: dict[str, object] = {}
    exec(f"import broker_sim\n\nasync def main():\n    {line}\n        return kafka.bootstrap\n", names)
    assert re.fullmatch(r"(127\.0\.0\.1:\d+,){2}127\.0\.0\.1:\d+", await names["main"]())  # type: ignore[operator]


def test_every_broker_sim_command_is_understood() -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.split()[0].endswith("broker-sim")]
    commands += re.findall(r"`(broker-sim [^`]+)`", README)
    assert len(commands) >= 3
    for command in commands:
        arguments = [word for word in shlex.split(command)[1:] if word != "--help"]
        cli.parse(arguments)  # exits with code 2 for what it does not know


def test_every_option_of_the_table_is_there() -> None:
    options = re.findall(r"^\| `(--[\w-]+)", README, re.MULTILINE)
    assert len(options) > 5
    done = processes.run([sys.executable, "-m", "broker_sim", "serve", "--help"], check=True)
    assert [option for option in options if option not in done.stdout] == []


def test_the_releases_are_those_that_can_be_emulated() -> None:
    assert f"takes {', '.join(KAFKA_VERSIONS[:-1])} and {KAFKA_VERSIONS[-1]}." in README


def test_the_test_command_is_a_block_that_ci_can_find() -> None:
    _, _, after = README.partition("<!-- the test command")
    block = re.match(r"[^\n]*\n```sh\n(.*?)\n```\n", after, re.DOTALL)
    assert block is not None
    assert block[1] == "make test"
    assert stages.test_command(README) == block[1]
    assert stages.stages(1)["test"].command[-1] == block[1]
    assert "exec .venv/bin/python -m tests.stages\n" in (ROOT / ".ci" / "run").read_text()


def test_make_targets_that_the_documents_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    text = README + (ROOT / "docs" / "architecture.md").read_text() + (ROOT / ".ci" / "run").read_text()
    named = set(re.findall(r"`make ([\w-]+)", text)) | set(re.findall(r"^make (?:--\S+ )*([\w-]+)", text, re.MULTILINE))
    assert named
    assert named <= targets


def _runs(compose: list[str]) -> bool:
    if shutil.which(compose[0]) is None:
        return False
    return not subprocess.run([*compose, "version"], capture_output=True, check=False).returncode


def test_the_compose_file_is_valid() -> None:
    compose = next(filter(_runs, (["docker", "compose"], ["docker-compose"])), None)
    if compose is None:
        pytest.skip("docker compose is not installed")
    profiles = ["--profile", "registry", "--profile", "connect", "--profile", "ui"]
    command = [*compose, *profiles, "--file", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
    done = processes.run(command)
    assert done.returncode == 0, done.stderr
