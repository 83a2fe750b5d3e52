"""Spark sessions that work the first time: Java found and checked, the workers' Python the right one, little said.

    spark = spark_session("local[2]")
    spark.read.format("consumer_offsets").load("DIR").show()

Rules:
1. What is missing (PySpark, Java 17 or newer) is reported in one line before Spark starts, with what was found and how to install it.
2. On this machine (``local[..]``) workers run this interpreter, bound to the loopback address. On a cluster both are the cluster's, and
   it is sent this code, unless spark-submit has done that.
3. A caller's ``conf`` wins over everything that is set here.
4. SIGINT keeps the handler that the program has. pyspark's own sends a command (cancelAllJobs) over the connection that the interrupted
   command uses: py4j then closes it twice, and one Ctrl-C in twenty raises Py4JError in place of KeyboardInterrupt. Without it Ctrl-C
   leaves jobs running; they end with the session, or by ``spark.sparkContext.cancelAllJobs()``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker_sim.common.commandline import handling
from broker_sim.common.text import UsageError
from broker_sim.pipeline.packaging import ship

__all__ = [
    "LEAST_JAVA",
    "Java",
    "JavaMissing",
    "SparkMissing",
    "find_java",
    "is_running",
    "need_pyspark",
    "own_jars",
    "register",
    "spark_session",
]

LEAST_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
    "C:/Program Files/Java/*",
    "C:/Program Files/Eclipse Adoptium/*",
    "C:/Program Files/Microsoft/jdk-*",
)
_INSTALL = {
    "linux": "apt install openjdk-17-jre-headless, dnf install java-17-openjdk-headless",
    "darwin": "brew install openjdk@17",
    "win32": "winget install EclipseAdoptium.Temurin.17.JRE",
}
_SETTING = re.compile(r"^\s*java\.(home|version) = (.+?)\s*$", re.MULTILINE)
_QUOTED = re.compile(r'version "([^"]+)"')
_PROBE_DEADLINE_S = 30


class JavaMissing(UsageError):
    """No Java that Spark runs on; one line."""


class SparkMissing(UsageError):
    """PySpark or what it needs is not installed; one line."""


class SparkNotStarted(UsageError):
    """Spark's JVM did not start, or no session could be made in it; one line."""


@dataclass(frozen=True)
class Java:
    """A Java that can be started: its JAVA_HOME, and its version as it prints it (``17.0.15``, ``1.8.0_292``)."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        """17 of ``17.0.15``, 8 of ``1.8.0_292``."""
        numbers = [int(number) for number in re.findall(r"\d+", self.version)[:2]]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


# ------------------------------------------------------------------------------------------------ Java


def find_java(environ: Mapping[str, str] | None = None, places: Iterable[str] = _PLACES) -> Java:
    """The first Java of version 17 or newer: in JAVA_HOME, on PATH, in the usual places of Linux, macOS and Windows.

    Raises JavaMissing, which names every Java that was found and what is wrong with it.
    """
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    for where, executable in _candidates(environ, places):
        java = _probe(executable)
        if isinstance(java, Java) and java.major >= LEAST_JAVA:
            return java
        what = f"Java {java.version}" if isinstance(java, Java) else java
        problems.append(f"{where}: {executable} ({what})")
    if not environ.get("JAVA_HOME"):
        problems.insert(0, "JAVA_HOME is not set")
    if not any(entry.startswith("PATH: ") for entry in problems):
        problems.append("no java on PATH" if len(problems) > 1 else "no java on PATH or in the usual places")
    how = _INSTALL.get(sys.platform, "any JDK or JRE of that version")
    raise JavaMissing(
        f"Spark needs Java {LEAST_JAVA} or newer; found: {'; '.join(problems)}. Install it ({how}) or point JAVA_HOME at one"
    )


def _candidates(environ: Mapping[str, str], places: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Executables of Java as (place where it was found, path), none twice."""
    name = "java.exe" if sys.platform == "win32" else "java"
    seen: set[Path] = set()
    for where, path in _all_candidates(environ, places, name):
        real = path.resolve()
        if real not in seen:
            seen.add(real)
            yield where, path


def _all_candidates(environ: Mapping[str, str], places: Iterable[str], name: str) -> Iterator[tuple[str, Path]]:
    home = environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / name
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield "PATH", Path(on_path)
    for place in places:
        pattern = Path(place).expanduser()
        root = Path(pattern.anchor)
        matches = root.glob(str(pattern.relative_to(root))) if pattern.is_absolute() else ()
        for match in sorted(matches, reverse=True):  # by name, so that newer ones come before older ones, mostly
            if (match / "bin" / name).exists():
                yield "installed", match / "bin" / name


def _probe(executable: Path) -> Java | str:
    """The Java behind an executable, or what is wrong with it. It is asked, as some installed ones can't start."""
    try:
        done = subprocess.run(
            [str(executable), "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_DEADLINE_S,
            check=False,
        )
    except FileNotFoundError:
        return "there is none"
    except subprocess.TimeoutExpired:
        return f"it does not answer within {_PROBE_DEADLINE_S} s"
    except OSError as error:
        return f"it can't be started: {error.strerror or error}"
    said = done.stderr + done.stdout
    if done.returncode != 0:
        first = next((line.strip() for line in said.splitlines() if line.strip()), "nothing said")
        return f"it fails with exit code {done.returncode}: {first[:200]}"
    settings = dict(_SETTING.findall(said))
    quoted = _QUOTED.search(said)
    version = settings.get("version") or (quoted[1] if quoted else "")
    if not re.match(r"\d", version):
        return "it does not print its version"
    return Java(Path(settings.get("home") or executable.resolve().parent.parent), version)


# ------------------------------------------------------------------------------------------------ sessions


def need_pyspark() -> None:
    """Raises SparkMissing unless PySpark and what it exchanges data with are installed."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(name) is None]
    if missing:
        raise SparkMissing(
            f"{' and '.join(missing)} not installed; the pipelines need: pip install 'broker-sim[spark]'"
        )


def own_jars() -> list[str]:
    """The names of the jars that Spark brings."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    return sorted(path.name for path in (home / "jars").glob("*.jar"))


def spark_session(
    master: str | None = None,
    app: str = "broker-sim",
    conf: Mapping[str, object] | None = None,
    *,
    progress: bool = False,
    log_level: str = "ERROR",
) -> Any:
    """The process's SparkSession, made at the first call, with the sources `consumer_offsets` and `sim_journal` registered.

    ``master`` None: that of spark-submit where it started this process, else ``local[*]``. ``progress`` shows Spark's own bar on
    stderr. ``log_level`` is log4j's. A session that runs already is taken as it is: master and most settings are its own.
    Raises SparkMissing, JavaMissing, SparkNotStarted.
    """
    need_pyspark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        register(active)
        return active
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit: its JVM runs
    if not submitted:
        os.environ["JAVA_HOME"] = str(find_java().home)
        master = master or "local[*]"
    local = master is not None and re.match(r"local(\[|-cluster|$)", master) is not None
    if local:
        _stay_on_this_machine()
    settings = {**_settings(progress, log_level), **(_local_settings(master or "") if local else {}), **(conf or {})}
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in settings.items()}
    if master is not None:
        texts["spark.master"] = master
    with handling(signal.getsignal(signal.SIGINT) or signal.SIG_DFL, signal.SIGINT):
        session = _started(app, texts, submitted)
    session.sparkContext.setLogLevel(log_level)
    if not local and not submitted:
        ship(session)
    register(session)
    return session


def is_running() -> bool:
    """Whether this process has a session, whichever of its threads made it: the code that makes one ends it."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _started(app: str, settings: Mapping[str, str], submitted: bool) -> Any:
    """The session; the JVM's output while it starts is printed only if it fails."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped,unused-ignore]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    said: _JvmOutput | None = None
    try:
        if (
            not submitted and SparkContext._gateway is None
        ):  # Spark starts its JVM in this very way, but has no setting for the address
            said = _JvmOutput()
            conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
            with said:
                talks = {"stdout": said.write_end, "stderr": said.write_end}
                SparkContext._ensure_initialized(gateway=launch_gateway(conf, talks))  # type: ignore[no-untyped-call]
        builder = SparkSession.builder.appName(app)
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    except (PySparkRuntimeError, Py4JJavaError) as error:
        why = said.why() if said else ""
        if isinstance(error, Py4JJavaError):
            message = str(error.java_exception.getMessage()).splitlines()[0]
            why = why if "stopped SparkContext" in message else message  # that says nothing of what stopped it
        raise SparkNotStarted(f"Spark did not start: {why or error}") from error
    if said is not None:
        said.started()
    return session


class _JvmOutput:
    """The JVM's stderr: kept while it starts, without what every start says; passed on from then on."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._kept = b""
        self._starting = True
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._pass_on, name="stderr of Spark's JVM", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        os.close(self.write_end)  # the JVM's copy stays open
        if error[0] is not None:
            self._thread.join(5)  # it has ended, or is about to

    def _pass_on(self) -> None:
        with open(self._read_end, "rb", buffering=0) as stream:
            while data := stream.read(65536):
                with self._lock:
                    if self._starting:
                        self._kept += data
                        continue
                _to_stderr(data)

    def why(self) -> str:
        """The most informative line about a failure."""
        said = b"\n".join(line for line in self._kept.splitlines() if not any(usual in line for usual in _USUAL))
        lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith(("at ", "Error occurred during initialization of VM"))]
        errors = [line for line in lines if re.search(r"Exception|ERROR|Error|Could not", line)]
        line = (errors or lines or ["its JVM ended without a word"])[0]
        return re.sub(r'^Exception in thread "\w+" [\w.]+: |^.* ERROR \w+: ', "", line)[:300]

    def started(self) -> None:
        with self._lock:
            self._starting = False
            lines = self._kept.splitlines(keepends=True)
            self._kept = b""
        _to_stderr(b"".join(line for line in lines if not any(usual in line for usual in _USUAL)))


_USUAL = (
    b"Using incubator modules: jdk.incubator.vector",
    b"Using Spark's default log4j profile",
    b"Setting default log level to",
    b"To adjust logging level use",
    b"Unable to load native-hadoop library",
    b"Setting Spark log level to",
)
"""Parts of the messages that every start of Spark writes."""


def _to_stderr(data: bytes) -> None:
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(2, data) :]


def _stay_on_this_machine() -> None:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _settings(progress: bool, log_level: str) -> dict[str, object]:
    return {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": progress,
        "spark.log.level": log_level,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": True,
        "spark.executorEnv.PYTHONHASHSEED": "0",
    }


def _local_settings(master: str) -> dict[str, object]:
    """On one machine few tasks are quick, and a shuffle of 200 files is not."""
    cores = re.match(r"local\[(\d+|\*)", master)
    number = (os.cpu_count() or 1) if cores is None or cores[1] == "*" else int(cores[1])
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": max(2, number),
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
    }


def register(session: Any) -> None:
    """Makes the formats `consumer_offsets`, `sim_journal` and their `_skipped` known to any session."""
    from broker_sim.pipeline.journal_source import SimJournal, SkippedJournal
    from broker_sim.pipeline.offsets_source import TASKS, ConsumerOffsets, SkippedOffsets

    context = getattr(session, "sparkContext", None)  # a session of Spark Connect has none
    if context is not None:
        context.environment.setdefault(TASKS, str(context.defaultParallelism))  # workers can't ask
    for source in (ConsumerOffsets, SkippedOffsets, SimJournal, SkippedJournal):
        session.dataSource.register(source)
