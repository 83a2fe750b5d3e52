"""Scenario files as tests: collected, or played before a test by its marker; in projects played by pytester."""

from __future__ import annotations

import pytest

STORY = """
name: one consumer
cluster: {brokers: 1, as_version: "3.9"}
topics:
  - {name: orders, partitions: 1, records: 3}
clients:
  - {name: app, group: billing, topics: [orders]}
steps:
  - name: it works
    when: {group: billing, state: Stable, members: 1}
expect:
  - within: 20s
    group: {billing: {state: Stable, members: MEMBERS}}
"""
HELD, BROKEN = STORY.replace("MEMBERS", "1"), STORY.replace("MEMBERS", "2").replace("20s", "200ms")

OPTIONS = ("-W", "error", "-p", "no:randomly", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto")
SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*OPTIONS, *SCOPE, *arguments, timeout=300)


def write(pytester: pytest.Pytester, **files: str) -> None:
    folder = pytester.mkdir("incidents")
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


@pytest.mark.slow
def test_files_named_on_the_command_line_are_tests(pytester: pytest.Pytester) -> None:
    write(pytester, held=HELD, broken=BROKEN, misspelt=HELD.replace("partitions", "partition"), other="stages: []\n")
    result = run(
        pytester, "incidents/held.yaml", "incidents/broken.yaml", "incidents/misspelt.yaml", "--kafka-timeline", "p"
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*scenario broken*", "*BROKEN*members*", "*one consumer: broken after*", "*billing:*"])
    result.stdout.fnmatch_lines(
        ["*Kafka groups*", "timeline of billing: p/incidents-broken.yaml-broken-1-billing.html"]
    )
    result.stdout.fnmatch_lines(["*misspelt.yaml*partition*did you mean*partitions*"])
    run(pytester, "incidents/other.yaml").assert_outcomes()


def test_files_that_match_the_option_are_collected_and_no_others(pytester: pytest.Pytester) -> None:
    write(pytester, held=HELD)
    (pytester.path / "compose.yaml").write_text("services: {}\n")
    run(pytester).assert_outcomes()
    run(pytester, "-o", "kafka_scenarios=incidents/*.yaml stories/*.yaml").assert_outcomes(passed=1)


@pytest.mark.slow
def test_the_marker_plays_one_before_the_test(pytester: pytest.Pytester) -> None:
    write(pytester, held=HELD, broken=BROKEN)
    pytester.makepyfile("""
import pytest

@pytest.mark.scenario("incidents/held.yaml", as_version="4.1")
async def test_its_outcome(scenario):
    assert scenario.code == 0
    assert scenario.groups == ["billing"]

@pytest.mark.scenario("incidents/broken.yaml", seed=3)
def test_broken(): pass

@pytest.mark.scenario("incidents/held.yaml", version="4.1")
def test_misspelt(): pass

@pytest.mark.scenario("stuck-offset-partition")
def test_not_there(): pass

@pytest.mark.scenario
def test_none(): pass
""")
    result = run(pytester, "--strict-markers")
    result.assert_outcomes(passed=1, failed=1, errors=3)
    result.stdout.fnmatch_lines(["*test_broken*", "*one consumer: broken after*"])
    result.stdout.fnmatch_lines(
        ["*no argument 'version' of @pytest.mark.scenario; did you mean 'as_version'? expected one of *"]
    )
    result.stdout.fnmatch_lines(
        ["*no such file or scenario; did you mean 'stuck-offsets-partition-*'? expected one of *"]
    )
    result.stdout.fnmatch_lines(["*needs a file, or the name of an included scenario"])
