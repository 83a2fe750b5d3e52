"""Java is found or told to be missing in one line; a session is quiet, on loopback, and has the right Python."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from broker_sim.pipeline import session
from broker_sim.pipeline.session import Java, JavaMissing, SparkMissing, find_java
from tests.support.real_kafka import unavailable

TELLS = """#!/bin/sh
echo "Property settings:" >&2
echo "    java.home = {home}" >&2
echo "    java.version = {version}" >&2
echo 'openjdk version "{version}" 2025-04-15' >&2
"""


def java_at(home: Path, text: str) -> Path:
    """A program that is called java, below ``home``."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return home


def fake(home: Path, version: str) -> Path:
    return java_at(home, TELLS.format(home=home, version=version))


def why(environ: dict[str, str], *places: str) -> str:
    with pytest.raises(JavaMissing) as caught:
        find_java({"PATH": "", **environ}, places)
    assert "\n" not in str(caught.value)
    assert "Install it (" in str(caught.value)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------ Java


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_292", 8), ("25-ea", 25)])
def test_the_major_version(version: str, major: int) -> None:
    assert Java(Path("x"), version).major == major


def test_java_home_comes_before_the_path_and_that_before_the_usual_places(tmp_path: Path) -> None:
    homes = {name: fake(tmp_path / name, version) for name, version in (("a", "17.0.1"), ("b", "21"), ("c", "25"))}
    path = str(homes["b"] / "bin")
    places = [str(tmp_path / "c*")]
    assert find_java({"JAVA_HOME": str(homes["a"]), "PATH": path}, places) == Java(homes["a"], "17.0.1")
    assert find_java({"PATH": path}, places) == Java(homes["b"], "21")
    assert find_java({"PATH": ""}, places) == Java(homes["c"], "25")


def test_a_java_that_is_too_old_is_skipped(tmp_path: Path) -> None:
    old, new = fake(tmp_path / "old", "1.8.0_292"), fake(tmp_path / "new", "17")
    assert find_java({"JAVA_HOME": str(old), "PATH": ""}, [str(new)]).home == new


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    """As /usr/bin/java does; one that doesn't tell its home is where it really lies."""
    text = "#!/bin/sh\necho 'openjdk version \"17.0.9\" 2023-10-17' >&2\n"
    home = java_at(tmp_path / "jdk", text)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}, []) == Java(home, "17.0.9")


def test_no_java_at_all() -> None:
    text = why({})
    assert text.startswith(
        "Spark needs Java 17 or newer; found: JAVA_HOME is not set; no java on PATH or in the usual places."
    )


def test_javas_that_are_too_old_are_reported_with_their_paths(tmp_path: Path) -> None:
    old, older = fake(tmp_path / "old", "11.0.2"), fake(tmp_path / "older", "1.8.0_292")
    text = why({"JAVA_HOME": str(old), "PATH": str(older / "bin")})
    assert f"JAVA_HOME: {old}/bin/java (Java 11.0.2); PATH: {older}/bin/java (Java 1.8.0_292)" in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "#!/bin/sh\necho 'Error: could not open libjvm' >&2\nexit 3\n",
            "it fails with exit code 3: Error: could not open libjvm",
        ),
        ("#!/bin/sh\nexit 1\n", "it fails with exit code 1: nothing said"),
        ("#!/bin/sh\necho hello\n", "it does not print its version"),
        ("#!/nowhere/sh\n", "there is none"),
        ("\x7fELF not really", "it can't be started: "),
    ],
)
def test_broken_ones(text: str, says: str, tmp_path: Path) -> None:
    home = java_at(tmp_path / "broken", text)
    assert f"JAVA_HOME: {home}/bin/java ({says}" in why({"JAVA_HOME": str(home)})


def test_a_missing_java_home(tmp_path: Path) -> None:
    assert f"JAVA_HOME: {tmp_path}/bin/java (there is none)" in why({"JAVA_HOME": str(tmp_path)})


def test_one_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_PROBE_DEADLINE_S", 0.2)
    home = java_at(tmp_path / "slow", "#!/bin/sh\nexec sleep 30\n")
    assert "it does not answer within 0.2 s" in why({"JAVA_HOME": str(home)})


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SparkMissing, match=r"pyspark and pyarrow and pandas .* pip install 'broker-sim\[spark\]'"):
        session.spark_session()


# ------------------------------------------------------------------------------------------------ sessions


@pytest.mark.spark
def test_the_session_has_the_expected_settings(spark: Any) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.ui.enabled") == "false"
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"

    def workers(_: Any) -> Any:
        return [(sys.executable, os.environ.get("PYTHONHASHSEED"))]

    assert spark.sparkContext.parallelize([1], 1).mapPartitions(workers).collect() == [(sys.executable, "0")]


@pytest.mark.spark
def test_a_session_that_runs_is_taken(spark: Any) -> None:
    assert session.spark_session("local[1]") is spark


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, as a JVM is started once in a process."""
    try:
        find_java()
    except JavaMissing as error:
        unavailable(str(error))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=inherited | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.spark
def test_a_start_prints_nothing_and_leaves_files_and_signals_as_they_are(tmp_path: Path) -> None:
    code = f"""
        import json, os, signal
        os.chdir({str(tmp_path)!r})
        from broker_sim.pipeline.session import spark_session
        before = signal.getsignal(signal.SIGINT)
        spark = spark_session("local[1]", "quiet")
        kept = signal.getsignal(signal.SIGINT) is before
        print(json.dumps([spark.range(3).count(), spark.sparkContext.appName, os.listdir(), kept]))
        spark.sparkContext._jvm.java.lang.System.err.println("said later")
        spark.stop()
    """
    done = run(code, PYSPARK_PYTHON="/nowhere/python")
    assert json.loads(done.stdout) == [3, "quiet", [], True]
    assert done.stderr == "said later\n"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("master", "conf", "says"),
    [
        ("nonsense://x", {}, "Spark did not start: Master must either be yarn or start with spark, k8s, or local"),
        ("local[1]", {"spark.driver.memory": "9999t"}, "Spark did not start: Could not reserve enough space"),
    ],
)
def test_why_it_did_not_start_is_one_line(master: str, conf: dict[str, str], says: str) -> None:
    code = f"""
        from broker_sim.pipeline.session import SparkNotStarted, spark_session
        try:
            spark_session({master!r}, conf={conf!r})
        except SparkNotStarted as error:
            print(error)
    """
    done = run(code)
    assert done.stdout.startswith(says)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
