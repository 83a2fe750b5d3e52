"""A Spark cluster on this machine for the tests: PySpark's own master, worker and spark-submit, with a Python that has no broker_sim.

Rules:
1. The workers' Python is a virtual environment in which everything is installed but this project: what runs there came in the archive.
2. Processes are ended by their ids, the worker before the master; a worker ends its executors.
3. A wait has a deadline, and its error shows the process's log.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

START_S = 40.0
_OURS = re.compile(r"__editable__|broker_sim|broker-sim|protocol$|__pycache__|.*\.pth$")
_SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def bare_python(directory: Path, without: Sequence[str] = ()) -> Path:
    """An interpreter in ``directory`` with this one's packages, but without this project and what is named in ``without``."""
    venv.EnvBuilder(symlinks=True).create(directory)
    there = next(directory.glob("lib/python*/site-packages"))
    assert spark_home().parent.name == "site-packages"
    for item in spark_home().parent.iterdir():
        if not _OURS.match(item.name) and not item.name.startswith(tuple(without)):
            (there / item.name).symlink_to(item)
    return directory / "bin" / "python"


def environment(python: Path, **extra: str) -> dict[str, str]:
    """Return the environment of a process that uses Spark with ``python`` as its workers' interpreter."""
    from broker_sim.pipeline.session import find_java

    mine = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_", "PYTHON"))}
    return {
        **mine,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
        **extra,
    }


def submit(
    python: Path,
    program: Path,
    *arguments: str,
    master: str = "local[2]",
    py_files: Path | None = None,
    cwd: Path,
    timeout_s: float = 50.0,
) -> subprocess.CompletedProcess[str]:
    """``spark-submit`` to its end, in ``cwd``."""
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", master, "--driver-memory", "512m"]
    command += ["--executor-memory", "512m", "--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR"]
    command += ["--driver-java-options", _SMALL, "--conf", f"spark.executor.extraJavaOptions={_SMALL}"]
    command += ["--py-files", str(py_files)] if py_files else []
    return subprocess.run(
        [*command, str(program), *arguments],
        cwd=cwd,
        env=environment(python),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@contextmanager
def standalone(python: Path, directory: Path, *, workers: int = 1, cores: int = 2, memory: str = "1g") -> Iterator[str]:
    """A master and workers with so many cores and so much memory each; gives the master's URL."""
    directory.mkdir(exist_ok=True)
    with ExitStack() as stack:
        master_log = stack.enter_context(_daemon(python, directory / "master.log", "master.Master"))
        url = _awaited(master_log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            options = ["--cores", str(cores), "--memory", memory, "--work-dir", str(directory / f"work-{number}"), url]
            worker = _daemon(python, directory / f"worker-{number}.log", "worker.Worker", *options)
            _awaited(stack.enter_context(worker), r"(Successfully registered with master)")
        yield url


@contextmanager
def _daemon(python: Path, log: Path, name: str, *options: str) -> Iterator[Path]:
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *options]
    daemon = environment(python, SPARK_DAEMON_MEMORY="256m", SPARK_DAEMON_JAVA_OPTS=_SMALL)
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=daemon, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _awaited(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"waited {START_S} s for {pattern!r} in {log.name}; it ends:\n{log.read_text()[-2000:]}")


def without_this_project(python: Path) -> bool:
    """Whether ``python`` can't import broker_sim."""
    done = subprocess.run([str(python), "-I", "-c", "import broker_sim"], capture_output=True, cwd="/", check=False)
    return done.returncode != 0 and python != Path(sys.executable)
