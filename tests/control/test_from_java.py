"""Projects of packages/junit's users: tests/from_java, where a Java consumer is led through incidents, and tests/from_spring."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_sim import __version__
from broker_sim.faults.conditions import KINDS
from broker_sim.faults.rules import VERDICTS
from tests.clients.clients import BUILD_S, JVM, built, run_tool
from tests.control.theirs import FETCHERS, RUN_S, alone, compiled, on_path, run, serving
from tests.support.real_kafka import cache_dir, classpath, need_tool

ROOT = Path(__file__).parent.parent.parent
HERE = ROOT / "tests" / "from_java"
SPRING = ROOT / "tests" / "from_spring"
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


PACKAGE = ROOT / "packages" / "junit"


def package() -> Path:
    """The folder with the jars of packages/junit, as Maven makes them."""
    sources = [PACKAGE / "pom.xml", *sorted(path for path in (PACKAGE / "src").rglob("*") if path.is_file())]
    mvn = need_tool("mvn")

    def build(directory: Path) -> None:
        copy = directory / "packages" / "junit"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("target"))
        shutil.copy(ROOT / "LICENSE", directory)
        compiled([mvn, "-q", "-B", "package"], copy)

    return built("broker-sim-junit", sources, build) / "packages" / "junit" / "target"


def jar() -> Path:
    return package() / f"broker-sim-junit-{__version__}.jar"


@contextlib.contextmanager
def installed(project: Path, directory: Path) -> Iterator[Path]:
    """A copy of a project, with the package in Maven's local repository. All states of the package have one version there, so no other
    process may install another meanwhile."""
    copy = directory / "project"
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns("target"))
    found = jar()
    with (cache_dir() / "junit-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pom = PACKAGE / "pom.xml"
        goal = "org.apache.maven.plugins:maven-install-plugin:3.1.4:install-file"
        compiled([need_tool("mvn"), "-q", "-B", goal, f"-Dfile={found}", f"-DpomFile={pom}"], copy)
        yield copy


def maven(project: Path, directory: Path, tests: str = "src/test") -> tuple[int, str, list[ET.Element]]:
    """The exit code, the output and the test cases of ``mvn test`` in a project."""
    with installed(project, directory) as copy:
        command = [need_tool("mvn"), "-B", "-Dstyle.color=never", "test"]
        if tests != "src/test":
            shutil.rmtree(copy / "src" / "test")
            shutil.move(copy / tests, copy / "src" / "test")
        code, output = run(command, copy, on_path(directory), f"mvn test in {project.name}")
    reports = sorted((copy / "target" / "surefire-reports").glob("TEST-*.xml"))
    return code, output, [case for report in reports for case in ET.parse(report).iter("testcase")]


def cases_of(project: Path, directory: Path) -> list[ET.Element]:
    """The test cases of a project, all of which passed."""
    code, output, cases = maven(project, directory)
    failed = [name for name, text in failures(cases).items() if text]
    if failed or code != 0:
        pytest.fail(f"failed: {', '.join(failed) or f'exit code {code}'}\n{output}", pytrace=False)
    return cases


def failing(class_path: str) -> Path:
    """The classes of tests that must fail."""
    sources = sorted((HERE / "src" / "failing").rglob("*.java"))
    javac = need_tool("javac")

    def build(directory: Path) -> None:
        compiled(
            [javac, "--release", "17", "-nowarn", "-d", str(directory), "-cp", class_path, *map(str, sources)], HERE
        )

    return built("from-java-failing", sources, build, salt=class_path)


def declared(project: Path) -> set[str]:
    """The tests that are in the sources of a project."""
    text = "\n".join(path.read_text() for path in (project / "src" / "test").rglob("*Test.java"))
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
    "aFailureWithoutAClusterAnyMore": r"AssertionFailedError: the cluster is gone",
    "aRuleOfTheClass": r"SimError: fault 1 never hit: OffsetCommit group=for all",
    "aScenarioWhoseExpectationsFail": r"SimError: +BROKEN  never: ",
    "aSettingWithoutAValue": r'@Kafka\(config = "num.partitions"\) is not "name=value" \(expected e.g. "num.partitions=3"\)',
    "aSettingWithoutAName": r'@Kafka\(config = "=3"\) is not "name=value"',
    "aTopicWithoutANumber": r"'orders:many': no number of partitions after the colon",
}


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_what_must_fail_in_java_says_why(tmp_path: Path) -> None:
    found = [jar(), *classpath(version("kafka")).split(os.pathsep), junit()]
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
            r"can't start \S+/nowhere serve .*; python3 -m pip install 'broker-sim\[control,tls\]' installs it",
        ),
        ("sh {directory}/refuses", r"ended before it was ready:\nbroker-sim serve: the control server needs aiohttp"),
        ("sh {directory}/silent", r"ended before it was ready, without a word; python3 -m pip install"),
    ],
)
def test_a_java_test_says_why_the_program_does_not_start(tmp_path: Path, program: str, reason: str) -> None:
    (tmp_path / "refuses").write_text("echo 'broker-sim serve: the control server needs aiohttp' >&2; exit 2")
    (tmp_path / "silent").write_text("exit 3")
    found = [jar(), *classpath(version("kafka")).split(os.pathsep), junit()]
    found.append(failing(os.pathsep.join(map(str, found))))
    environment = {**on_path(tmp_path), "BROKER_SIM_COMMAND": program.format(directory=tmp_path)}
    method = "--select-method=failing.FailingTest#aRuleThatNeedNotMatchPasses(brokersim.SimCluster)"
    code, output, cases = executed([*found], method, tmp_path, environment)
    [text] = failures(cases).values()
    assert code == 1, output
    assert re.search(reason, text), text


def one_passes(directory: Path, environment: dict[str, str]) -> list[ET.Element]:
    """The case of a test that passes wherever there is a control server."""
    found = [jar(), *classpath(version("kafka")).split(os.pathsep), junit()]
    found.append(failing(os.pathsep.join(map(str, found))))
    method = "--select-method=failing.FailingTest#aRuleThatNeedNotMatchPasses(brokersim.SimCluster)"
    return executed([*found], method, directory, environment)[2]


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
@pytest.mark.parametrize("name", FETCHERS)
def test_a_java_test_lets_the_program_be_fetched(tmp_path: Path, name: str) -> None:
    assert failures(one_passes(tmp_path, alone(tmp_path, name))) == {"aRuleThatNeedNotMatchPasses": ""}


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_a_java_test_says_how_to_get_the_program(tmp_path: Path) -> None:
    """The program is not fetched unasked."""
    [text] = failures(one_passes(tmp_path, alone(tmp_path, "uvx", asked=False))).values()
    assert "no broker-sim on the PATH; python3 -m pip install 'broker-sim[control,tls]'" in text


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_a_java_test_uses_a_server_that_runs(tmp_path: Path) -> None:
    with serving() as url:
        environment = {**alone(tmp_path), "BROKER_SIM_CONTROL": url}
        assert failures(one_passes(tmp_path, environment)) == {"aRuleThatNeedNotMatchPasses": ""}
        with urllib.request.urlopen(f"{url}/v1/clusters") as answer:
            assert [one["id"] for one in json.load(answer)["clusters"]] == ["default"], "the test's own is stopped"


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
@pytest.mark.parametrize("project", [HERE, SPRING], ids=lambda project: project.name)
def test_a_project_of_maven_uses_the_package(project: Path, tmp_path: Path) -> None:
    cases = cases_of(project, tmp_path)
    assert {re.split(r"[({ ]", case.get("name") or "")[0] for case in cases} >= declared(project)
    assert [case.get("name") for case in cases if case.find("skipped") is not None] == []


FAILING_IN_SPRING = {
    "aRuleThatNeverMatches": r"SimError: \s*fault \d never hit: OffsetCommit group=of the test",
    "aFailureOfItsOwn": r"the test's own(.|\n)*RecentHistory: \s*group billing: Stable in generation 1, 1 member",
    "anotherClusterThanThatOfTheContext": "@Kafka above a method has no effect in a test of Spring",
    "": r"SimError: \s*fault 1 never hit: Heartbeat group=of the class",
}


@pytest.mark.clients
@pytest.mark.timeout(2 * BUILD_S + RUN_S)
def test_what_must_fail_in_spring_says_why(tmp_path: Path) -> None:
    code, output, cases = maven(SPRING, tmp_path, "src/failing")
    told = failures(cases)
    assert code == 1, output
    assert {name for name, text in told.items() if text} == set(FAILING_IN_SPRING), output
    assert "nothingIsWrongAndPasses" in told
    for name, pattern in FAILING_IN_SPRING.items():
        assert re.search(pattern, told[name]), (name, told[name])


def test_the_version_of_the_junit_package_is_that_of_broker_sim() -> None:
    assert ET.parse(PACKAGE / "pom.xml").findtext("version") == __version__
    for project in (HERE, SPRING):
        [used] = [
            one.findtext("version")
            for one in ET.parse(project / "pom.xml").iter("dependency")
            if one.findtext("artifactId") == "broker-sim-junit"
        ]
        assert used == __version__


def test_the_java_example_names_every_verdict_and_state() -> None:
    text = (SOURCES / "java" / "example" / "EveryFaultTest.java").read_text()
    assert [name for name in (*VERDICTS, *KINDS) if f'"{name}"' not in text] == []
