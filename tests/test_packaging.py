"""Wheel and sdist, built and installed: with each Python that this machine has, without anything of the repository."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker_sim import __version__
from tests.support import processes

ROOT = Path(__file__).resolve().parent.parent
SETUP = ROOT / "setup.py"
INSTALL_S = 600.0
"""The deadline of pip, which downloads what it has not in its cache."""


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


def pythons() -> dict[str, str]:
    """The interpreters of this machine that broker-sim is for, by their version: on the PATH, or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    for version in ("3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15", "3.15t"):
        threads = "t" if version.endswith("t") else ""
        of_pyenv = sorted(pyenv.glob(f"{version.rstrip('t')}.*{threads}/bin/python{version}"))
        path = next(map(str, of_pyenv), None) or shutil.which(f"python{version}")
        if path is not None and ".pyenv/shims" not in path:
            found.setdefault(version, path)
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and with the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("built")
    copy, dist = folder / "broker-sim", folder / "dist"
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, names.split("\0")):
        source, target = ROOT / name, copy / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    command = [sys.executable, "-m", "build", "--outdir", str(dist), str(copy)]
    processes.run(command, check=True, deadline_s=INSTALL_S)
    return dist


def expected() -> set[str]:
    """The files of the packages, as they are in the repository."""
    shipped = {f"broker_sim/scenario/shipped/{path.name}" for path in (ROOT / "scenarios").glob("*.yaml")}
    names = {"broker_sim": ROOT, "kafka_wire": ROOT / "protocol"}
    kinds = (".py", ".pyi", ".typed", ".html", ".js")
    return shipped | {
        path.relative_to(root).as_posix()
        for package, root in names.items()
        for path in (root / package).rglob("*")
        if path.suffix in kinds or path.name == "py.typed"
    }


@pytest.mark.slow
@pytest.mark.real_time
def test_the_wheel_and_the_sdist_have_all_files(built: Path) -> None:
    with zipfile.ZipFile(built / f"broker_sim-{__version__}-py3-none-any.whl") as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == expected()
    with tarfile.open(built / f"broker_sim-{__version__}.tar.gz") as sdist:
        within = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"LICENSE", "PACKAGE.md", "pyproject.toml", "setup.py"} <= within
    assert not [name for name in within if name.startswith(("tests/", "docs/", ".venv"))]


REBALANCE = """
import asyncio, sys
import broker_sim
from aiokafka import AIOKafkaConsumer

async def main():
    options = {"config": {"group.initial.rebalance.delay.ms": 0}, "internal_topics": "at-start"}
    async with broker_sim.Cluster(topics={"orders": 6}, **options) as kafka:
        kafka.topic("orders").fill(60)
        consuming = {"bootstrap_servers": kafka.bootstrap, "group_id": "billing", "auto_offset_reset": "earliest"}
        billing = kafka.group("billing")
        async with AIOKafkaConsumer("orders", **consuming) as first:
            await billing.reading(members=1, timeout="60s")
            async with AIOKafkaConsumer("orders", **consuming) as second:
                await billing.reading(members=2, timeout="60s")
                print(len(first.assignment()), len(second.assignment()))
            await billing.reading(members=1, timeout="60s")
            await first.commit({partition: 1 for partition in first.assignment()})
            print(sum(billing.committed().values()))

asyncio.run(main())
print(broker_sim.__file__.startswith(sys.prefix))
"""


def smoke(python: Path, folder: Path) -> None:
    """A group's rebalance, the commands, a scenario in virtual time, the first test of the README; outside of the repository."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}

    def run(*words: str) -> str:
        done = processes.run([str(python.parent / words[0]), *words[1:]], cwd=folder, env=environment)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    assert run("python", "-W", "error", "-c", REBALANCE).split() == ["3", "3", "6", "True"]
    assert run("broker-sim", "--help").startswith("usage: broker-sim")
    assert run("broker-sim", "--version").split()[1] == __version__
    assert "stuck-offsets-partition-3.4" in run("broker-sim", "scenario", "list")
    assert ": held after" in run("broker-sim", "run", "crash-without-leave", "--virtual")
    readme = re.findall(
        r"^```python\n(import pytest\n.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    (folder / "test_first.py").write_text(readme[0])
    assert "1 passed" in run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_first.py")


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.parametrize("version", pythons())
def test_each_python_installs_and_runs_it(version: str, built: Path, tmp_path: Path) -> None:
    processes.run([pythons()[version], "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wheel = built / f"broker_sim-{__version__}-py3-none-any.whl"
    needed = [f"{wheel}[compression,control,demo,tls]", "pytest", "pytest-asyncio"]
    processes.run([*install, *needed], check=True, deadline_s=INSTALL_S)
    smoke(python, tmp_path)
    sdist = built / f"broker_sim-{__version__}.tar.gz"
    processes.run([*install, "--force-reinstall", "--no-deps", str(sdist)], check=True, deadline_s=INSTALL_S)
    smoke(python, tmp_path)
