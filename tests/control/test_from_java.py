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


def failing(class_path: str) -> Path:
    """The classes of tests that must fail."""
    sources = sorted((HERE / "src" / "failing").rglob("*.java"))
    javac = need_tool("javac")

    def build(directory: Path) -> None:
        compiled(
            [javac, "--release", "17", "-nowarn", "-d", str(directory), "-cp", class_path, *map(str, sources)], HERE
        )

    return built("from-java-failing", sources, build, salt=class_path)


def declared() -> set[str]:
    """The tests that stand in the sources."""
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*Test.java"))
    return set(re.findall(r"@(?:Test|ParameterizedTest)\b(?:\s+@.*)*\s+void (\w+)\(", text))


def executed(
    class_path: list[object], what: str, directory: Path, environment: dict[str, str]
) -> tuple[int, str, list[ET.Element]]:
    """The exit code, the output and the test cases of a run of JUnit."""
    command = [need_tool("java"), *JVM, "-cp", os.pathsep.join(map(str, class_path))]
    command += ["org.junit.platform.console.ConsoleLauncher", "execute", what]
    command += ["--disable-banner", "--disable-ansi-colors", "--details=tree", "--reports-dir=reports"]
    code, output = run(command, directory, environment, "the JUnit tests")
    report = directory / "reports" / "TEST-junit-jupiter.xml"
    if not report.exists():
        pytest.fail(f"exit code {code}, no report:\n{output}", pytrace=False)
    return code, output, list(ET.parse(report).iter("testcase"))


def failures(cases: list[ET.Element]) -> dict[str, str]:
    """The text of each test that failed, by its name; "" of those that passed."""
    found = {}
    for case in cases:
        texts = [*case.findall("failure"), *case.findall("error")]
        found[(case.get("name") or "").partition("(")[0]] = "\n".join(one.text or "" for one in texts)
    return found


FAILING = {
    "aRuleWithoutTryThatNeverMatches": r"SimError: fault 1 never hit: OffsetCommit group=billing",
    "aRuleByItsPathThatNeverMatches": r"SimError: fault 1 never hit: Heartbeat",
    "aFailureBesideARuleThatNeverMatches": r"AssertionFailedError: the test's own",
    "aRuleOfTheClass": r"SimError: fault 1 never hit: OffsetCommit group=for all",
    "aSettingWithoutAValue": r'@Kafka\(config = "num.partitions"\) is not "name=value" \(expected e.g. "num.partitions=3"\)',
    "aSettingWithoutAName": r'@Kafka\(config = "=3"\) is not "name=value"',
    "aTopicWithoutANumber": r"'orders:many': no number of partitions after the colon",
}


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_what_must_fail_in_java_says_why(tmp_path: Path) -> None:
    jars = junit()
    found = [classes(os.pathsep.join([classpath(version("kafka")), str(jars)])), jars]
    found.append(failing(os.pathsep.join(map(str, found))))
    code, output, cases = executed([*found], "--select-package=failing", tmp_path, on_path(tmp_path))
    told = failures(cases)
    assert code == 1, output
    assert {name for name, text in told.items() if text} == set(FAILING)
    assert sum(name.endswith(("Passes", "Pass")) for name in told) == 3
    for name, pattern in FAILING.items():
        assert re.search(pattern, told[name]), (name, told[name])
    assert "never hit" not in told["aFailureBesideARuleThatNeverMatches"]
    assert "RecentHistory" not in output, "nothing happened, so there is no history"
    assert re.search(r"OneForAll ✘ fault 1 never hit", output), "the class fails, not its test"
    assert re.search(r"aRuleOfTheClass\(SimCluster\) ✔", output), output


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            "{directory}/nowhere",
            r"can't start \S+/nowhere serve .*; python3 -m pip install 'broker-sim\[control\]' installs it",
        ),
        ("sh {directory}/refuses", r"ended before it was ready:\nbroker-sim serve: the control server needs aiohttp"),
        ("sh {directory}/silent", r"ended before it was ready, without a word; python3 -m pip install"),
    ],
)
def test_a_java_test_says_why_the_program_does_not_start(tmp_path: Path, program: str, reason: str) -> None:
    (tmp_path / "refuses").write_text("echo 'broker-sim serve: the control server needs aiohttp' >&2; exit 2")
    (tmp_path / "silent").write_text("exit 3")
    jars = junit()
    found = [classes(os.pathsep.join([classpath(version("kafka")), str(jars)])), jars]
    found.append(failing(os.pathsep.join(map(str, found))))
    environment = {**on_path(tmp_path), "BROKER_SIM_COMMAND": program.format(directory=tmp_path)}
    method = "--select-method=failing.FailingTest#aRuleThatNeedNotMatchPasses(brokersim.SimCluster)"
    code, output, cases = executed([*found], method, tmp_path, environment)
    [text] = failures(cases).values()
    assert code == 1, output
    assert re.search(reason, text), text


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_a_java_consumer_is_led_through_incidents(tmp_path: Path) -> None:
    jars = os.pathsep.join([classpath(version("kafka")), str(junit())])
    found = classes(jars)
    code, output, cases = executed(
        [found, *jars.split(os.pathsep)], f"--scan-classpath={found}", tmp_path, on_path(tmp_path)
    )
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
