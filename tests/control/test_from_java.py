"""The JUnit 5 tests of tests/from_java: a Java consumer is led through incidents by HTTP alone."""

from __future__ import annotations

import os
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from broker_sim.faults.conditions import KINDS
from broker_sim.faults.rules import VERDICTS
from tests.clients.clients import BUILD_S, JVM, built, run_tool
from tests.control.theirs import RUN_S, compiled, on_path, run
from tests.support.real_kafka import classpath, need_tool

HERE = Path(__file__).parent.parent / "from_java"
SOURCES = HERE / "src" / "test"


def version(name: str) -> str:
    """A version that the example's own pom.xml names."""
    found = ET.parse(HERE / "pom.xml").findtext(f"properties/{name}.version")
    assert found is not None
    return found


def junit() -> Path:
    """JUnit's console launcher, with all of JUnit in it."""
    jupiter = version("junit")
    platform = f"1.{jupiter.partition('.')[2]}"  # of JUnit 5: 5.13.4 stands on platform 1.13.4
    artifact = f"org.junit.platform:junit-platform-console-standalone:{platform}"
    mvn = need_tool("mvn")

    def build(directory: Path) -> None:
        run_tool([mvn, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", "-DoutputDirectory=."], directory)

    return next(built("junit", [], build, salt=artifact).glob("*.jar"))


def classes(class_path: str) -> Path:
    sources = sorted(path for path in SOURCES.rglob("*") if path.is_file())
    javac = need_tool("javac")

    def build(directory: Path) -> None:
        java = [str(path) for path in sources if path.suffix == ".java"]
        compiled([javac, "--release", "17", "-nowarn", "-d", str(directory), "-cp", class_path, *java], HERE)
        shutil.copytree(SOURCES / "resources", directory, dirs_exist_ok=True)

    return built("from-java", sources, build, salt=class_path)


def declared() -> set[str]:
    """The tests that stand in the sources."""
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*Test.java"))
    return set(re.findall(r"@(?:Test|ParameterizedTest)\b(?:\s+@.*)*\s+void (\w+)\(", text))


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_a_java_consumer_is_led_through_incidents(tmp_path: Path) -> None:
    jars = os.pathsep.join([classpath(version("kafka")), str(junit())])
    found = classes(jars)
    command = [need_tool("java"), *JVM, "-cp", os.pathsep.join([str(found), jars])]
    command += ["org.junit.platform.console.ConsoleLauncher", "execute", f"--scan-classpath={found}"]
    command += ["--disable-banner", "--disable-ansi-colors", "--details=tree", "--reports-dir=reports"]
    code, output = run(command, tmp_path, on_path(tmp_path), "the JUnit tests")

    report = tmp_path / "reports" / "TEST-junit-jupiter.xml"
    if not report.exists():
        pytest.fail(f"exit code {code}, no report:\n{output}", pytrace=False)
    cases = list(ET.parse(report).iter("testcase"))
    failed = [
        f"{one.get('classname')}.{one.get('name')}"
        for one in cases
        if len(one.findall("failure") + one.findall("error"))
    ]
    if failed or code != 0:
        pytest.fail(f"failed: {', '.join(failed) or f'exit code {code}'}\n{output}", pytrace=False)
    assert {(one.get("name") or "").partition("(")[0] for one in cases} == declared()
    assert [one.get("name") for one in cases if one.find("skipped") is not None] == []


def test_the_java_example_names_every_verdict_and_state() -> None:
    text = (SOURCES / "java" / "example" / "EveryFaultTest.java").read_text()
    assert [name for name in (*VERDICTS, *KINDS) if f'"{name}"' not in text] == []
