"""Scenarios in virtual time: the verdicts of real time, in milliseconds, and the same run again in any process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.common.commandline import handling
from broker_sim.common.text import UsageError
from broker_sim.journal import problems
from broker_sim.journal import read as read_journal
from broker_sim.scenario.commands import shipped
from broker_sim.scenario.files import loads
from broker_sim.scenario.model import Scenario, parse, read
from broker_sim.scenario.runner import ScenarioOptions, ScenarioOutcome
from broker_sim.scenario.virtual import play
from broker_sim.simulation.virtual.recording import RunRecording
from tests.scenarios.alike import first_difference
from tests.scenarios.stage import Stage
from tests.scenarios.test_runner import BROKEN, HELD, LATE, MARKS, ONE_MEMBER, STABLE
from tests.scenarios.test_shipped import KNOWN_BREAKS, NAMES, WITHOUT_CLIENTS
from tests.simulation.sync import leaves_nothing_suspended
from tests.support import processes

SMALL = [name for name in NAMES if name not in WITHOUT_CLIENTS]
ANY_VERSION = [name for name in SMALL if not name.startswith(("stuck", "upgrade"))]
"""Scenarios whose expectations hold with every version of Kafka."""

IN_REAL_TIME = ("assign-mode-commit-on-a-live-group", "group-that-cannot-commit-recovers", "leader-changes")
"""Scenarios with one client each, which depend on the time that two processes take to start."""

CONSUMER = HELD.replace("kind: classic, members: 1, ", "")


def shipped_one(name: str) -> Scenario:
    return read(shipped() / f"{name}.yaml")


def play_text(text: str, **options: Any) -> ScenarioOutcome:
    return play(parse(loads(text)), ScenarioOptions(**options))


def expected_code(name: str) -> int:
    return 1 if (name, "aiokafka") in KNOWN_BREAKS else 0


# --- verdicts ------------------------------------------------------------------------------------------------------------


PATTERN = """\
cluster: {config: {group.consumer.min.session.timeout.ms: 5000}}
topics: [{name: orders-eu}, {name: orders-us}, {name: my-orders-eu}]
clients:
  - {name: app-1, kind: aiokafka, group: billing, pattern: "orders-.*", metadata_max_age: 1s}
steps:
  - when: {client: app-1, reports: assigned}
    do: {topic: orders-us, delete: true}
  - after: 15s
    do: {op: topic.create, topic: orders-uk}
  - after: 15s
expect:
  - happened: {client: app-1, reports: assigned, count: ">=2"}
"""


@pytest.mark.parametrize("kind", ["aiokafka", "kafka-python", "consumer"])
def test_a_pattern_follows_topics_that_come_and_go(kind: str) -> None:
    outcome = play_text(PATTERN.replace("kind: aiokafka", f"kind: {kind}"))
    assert outcome.code == 0, outcome.report()
    changes = [
        event["details"]["partitions"] for event in outcome.events if event.get("reports") in ("assigned", "revoked")
    ]
    assigned = [event["details"]["partitions"] for event in outcome.events if event.get("reports") == "assigned"]
    assert assigned[0] == ["orders-eu-0", "orders-us-0"]
    assert ["orders-eu-0"] in assigned or [
        "orders-us-0"
    ] in changes  # a member by epochs is taken what is gone, and nothing else
    assert assigned[-1] == ["orders-eu-0", "orders-uk-0"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if WITHOUT_CLIENTS.get(name) == "classic" else name for name in NAMES],
)
def test_the_verdict_is_that_of_real_time(name: str) -> None:
    outcome = play(shipped_one(name))
    assert outcome.ended == {}, outcome.report()
    assert outcome.code == expected_code(name), outcome.report()


@pytest.mark.parametrize("name", ANY_VERSION)
def test_the_other_coordinator_keeps_the_verdict(name: str) -> None:
    scenario = shipped_one(name)
    other = "4.1" if scenario.cluster["as_version"] == "3.9" else "3.9"
    outcome = play(scenario, ScenarioOptions(as_version=other))
    assert outcome.code == expected_code(name), outcome.report()


@pytest.mark.parametrize("name", SMALL)
def test_kafka_python_keeps_the_verdict_on_threads_of_the_simulation(name: str) -> None:
    with leaves_nothing_suspended("kafka"):
        outcome = play(shipped_one(name), ScenarioOptions(clients={"*": "kafka-python"}))
    assert (outcome.code, outcome.ended) == (0, {}), outcome.report()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
@pytest.mark.parametrize("name", SMALL)
def test_no_seed_breaks_the_verdict_nor_an_invariant(name: str, seed: int) -> None:
    outcome = play(shipped_one(name), ScenarioOptions(seed=seed), order="tasks", invariants=True)
    assert outcome.code == expected_code(name), outcome.report()


@pytest.mark.real_time
def test_the_history_is_that_of_real_time() -> None:
    with Stage() as stage:
        stage.book_all((name, "aiokafka") for name in IN_REAL_TIME)
        for name in IN_REAL_TIME:
            real, virtual = stage.outcome(name, "aiokafka"), play(shipped_one(name))
            assert virtual.group_states == real.group_states
            assert [one.text for one in virtual.results] == [one.text for one in real.results]
            assert real.journal_hash is None


@pytest.mark.parametrize(("text", "code"), [(HELD, 0), (BROKEN, 1), (LATE, 3)])
def test_verdicts_have_their_codes(text: str, code: int) -> None:
    assert play_text(text).code == code


# --- clients -------------------------------------------------------------------------------------------------------------


def said(outcome: ScenarioOutcome, *what: str) -> list[tuple[str, str]]:
    return [
        (one["client"], one["reports"]) for one in outcome.events if one["event"] == "client" and one["reports"] in what
    ]


def test_a_frozen_client_is_silent_until_it_thaws() -> None:
    outcome = play_text(
        ONE_MEMBER
        + """\
  - {name: freeze, do: {client: app, action: freeze, for: 20s}}
  - {name: what was under way has come, after: 100ms}
  - {name: silence, after: 19s}
  - {name: it thaws, when: {api: Heartbeat, group: billing}}
expect:
  - never: {api: Heartbeat}
    between: [what was under way has come, silence]
  - {group: billing, state: Stable, generation: 1}
"""
    )
    assert outcome.code == 0, outcome.report()
    assert outcome.seconds > 20


def test_a_client_that_was_crashed_starts_again_as_another_process() -> None:
    text = CONSUMER.partition("expect")[0]
    outcome = play_text(
        text
        + """\
  - {name: crash, do: [{client: app, action: crash}, {client: app, action: start}]}
  - {name: it is back, when: {client: app, reports: assigned}, within: 60s}
  - {name: it goes, do: {client: app, action: leave}}
  - {name: it has gone, when: {client: app, reports: exited}}
expect:
  - {group: billing, state: Empty}
"""
    )
    assert outcome.code == 0, outcome.report()
    assert said(outcome, "started", "exited", "left") == [
        *(("app", "started"), ("app", "exited"), ("app", "started"), ("app", "left"), ("app", "exited"))
    ]
    codes = [
        one["details"]["code"] for one in outcome.events if one["event"] == "client" and one["reports"] == "exited"
    ]
    assert codes == [-9, 0]
    assert outcome.ended == {}


def test_a_client_that_ends_by_itself_is_reported_with_its_last_lines(caplog: pytest.LogCaptureFixture) -> None:
    text = CONSUMER.replace("session_timeout: 30s", "session_timeout: 30s, config: {security_protocol: nonsense}")
    outcome = play_text(text.replace("when: " + STABLE, "when: {client: app, reports: exited}"))
    assert outcome.code == 1
    assert "ended with code 1; without a request; its last lines: " in outcome.ended["app"]
    assert "ValueError: " in outcome.ended["app"]
    with caplog.at_level(logging.WARNING):
        outcome = play_text(CONSUMER.replace("expect", "  - {do: {broker: 1, action: down}}\n  - {after: 20s}\nexpect"))
    assert not [one for one in caplog.records if one.name.startswith("aiokafka")], "a client's log is its stderr"


def test_names_that_no_host_can_have_are_names_of_clients() -> None:
    for name in ("'app one'", "broker-1", "localhost", "tést"):
        plain = name.strip("'")
        outcome = play_text(HELD.replace("name: app,", f"name: {name},").replace("STABLE", STABLE))
        assert said(outcome, "started") == [(plain, "started")]
        assert outcome.code == 0


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        (HELD.replace("kind: classic", "kind: confluent"), {}, "the client app is confluent, a separate process,"),
        (CONSUMER, {"clients": {"*": "./mine --fast"}}, "the client app is ./mine --fast, a separate process,"),
        (HELD.replace("kind: classic", "kind: external"), {}, "the client app is one of another program"),
        (HELD, {"attach": ["./mine"]}, "./mine is a separate program"),
        (HELD, {"clock": "manual"}, "--clock manual and --virtual exclude each other"),
    ],
)
def test_clients_that_cannot_be_virtual_are_refused_by_name(text: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=r"^[^\n]+$") as error:
        play_text(text, **options)
    assert str(error.value).startswith(told)


def test_a_client_on_threads_leaves_hangs_crashes_and_starts_again() -> None:
    text = CONSUMER.replace("name: app,", "name: app, kind: kafka-python,").partition("expect")[0]
    outcome = play_text(
        text
        + """\
  - {name: hang, do: {client: app, action: hang, for: 5s}}
  - {name: crash, after: 6s, do: [{client: app, action: crash}, {client: app, action: start}]}
  - {name: it is back, when: {client: app, reports: assigned}, within: 60s}
  - {name: freeze, do: {client: app, action: freeze, for: 5s}}
  - {name: it goes, after: 6s, do: {client: app, action: leave}}
  - {name: it has gone, when: {client: app, reports: exited}}
expect:
  - {group: billing, state: Empty}
"""
    )
    assert (outcome.code, outcome.ended) == (0, {}), outcome.report()
    assert said(outcome, "exited", "left") == [("app", "exited"), ("app", "left"), ("app", "exited")]


def test_a_kind_may_be_replaced_by_one_that_can_be_virtual() -> None:
    outcome = play_text(HELD.replace("kind: classic, members: 1", "kind: confluent"), clients={"*": "aiokafka"})
    assert outcome.code == 0, outcome.report()


# --- time ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", ["manual", "scaled:10"])
def test_the_clock_of_a_file_is_replaced(clock: str) -> None:
    outcome = play_text(
        HELD.replace("expect", "  - {name: a while, after: 10m}\nexpect").replace(
            "name: one member", f"name: time\ncluster: {{clock: '{clock}'}}"
        )
    )
    assert outcome.code == 0, outcome.report()
    assert outcome.seconds > 600
    beats = [one for one in outcome.events if one["event"] == "request" and one["api"] == "Heartbeat"]
    assert len(beats) > 600 * 4, "clients live through it"


def test_advanced_time_passes_for_all_and_expired_members_send_nothing() -> None:
    two = ONE_MEMBER.replace("members: 1}", "members: 2}").replace("{name: app,", "{name: app, count: 2,")
    text = two.replace("name: one member", "name: t\ncluster: {clock: manual}")
    steps = """\
  - {name: one is silent, do: {advance: 31s, expire: [app-2]}}
  - {name: its session ended, when: {event: timer, timer: session, group: billing}}
expect:
  - {group: billing, state: Stable, members: 2}
  - {happened: {event: timer, timer: session, count: 1}}
"""
    for spelled in (steps, steps.replace("advance: 31s,", "op: clock.advance, by: 31s,")):
        outcome = play_text(text + spelled)
        assert outcome.code == 0, outcome.report()
    with pytest.raises(UsageError, match=r"^scenario:\d+: expire: no member 'app-3'; did you mean 'app-.'\?"):
        play_text(text + steps.replace("[app-2]", "[app-3]"))


def test_a_log_directory_is_played_on(tmp_path: Path) -> None:
    async def fill() -> None:
        async with Cluster(topics={"orders": 1}, data_dir=tmp_path / "data") as kafka:
            kafka.topic("orders").fill(3)

    asyncio.run(fill())
    text = "import: {data: data}\nclients: [{name: app, group: billing, topics: [orders]}]\nsteps: [{after: 10ms}]\n"
    text += "expect: [{group: billing, committed: {orders-0: 3}}]\n"
    for _ in range(2):
        assert play(parse(loads(text), tmp_path / "story.yaml")).code == 0


# --- the same again ------------------------------------------------------------------------------------------------------


def test_imported_output_of_kafka_consumer_groups_is_played_on(tmp_path: Path) -> None:
    (tmp_path / "groups.txt").write_text(
        "GROUP    TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID\n"
        "billing  orders  0          5               9               4    -            -     -\n"
    )
    text = "import: {describe: groups.txt}\nclients: [{name: app, group: billing, topics: [orders]}]\n"
    text += "expect: [{group: billing, state: Stable, committed: {orders-0: 5}}]\n"
    assert play(parse(loads(text), tmp_path / "story.yaml")).code == 0


def test_a_seed_gives_the_same_run_and_others_do_not() -> None:
    first = RunRecording()
    runs = [play(shipped_one("crash-without-leave"), ScenarioOptions(seed=3), recording=first)]
    for seed in (3, 4):
        second = RunRecording(first)
        runs.append(play(shipped_one("crash-without-leave"), ScenarioOptions(seed=seed), recording=second))
        second.end()
        assert (second.difference is None) == (seed == 3)
    hashes = [(run.journal_hash, run.schedule_hash) for run in runs]
    assert hashes[0] == hashes[1] != hashes[2]


def in_a_process(arguments: list[str], hash_seed: str) -> subprocess.Popen[str]:
    """`alike` under a hash seed of its own."""
    command = [sys.executable, "-m", "tests.scenarios.alike", *arguments]
    return processes.start(command, env={**os.environ, "PYTHONHASHSEED": hash_seed})


def printed(process: subprocess.Popen[str]) -> str:
    out, errors = processes.finish(process, "scenarios to be played")
    assert process.returncode == 0, errors
    return out


@pytest.mark.slow
@pytest.mark.parametrize("client", ["aiokafka", "kafka-python"])
def test_every_scenario_is_the_same_in_a_fresh_process_with_another_hash_seed(client: str) -> None:
    names = NAMES if client == "aiokafka" else SMALL
    asked = ["--client", client]
    fresh = in_a_process([*asked, *names], "1")
    try:
        outcomes = [(name, play(shipped_one(name), ScenarioOptions(clients={"*": client}))) for name in names]
        here = [(name, outcome.journal_hash, outcome.schedule_hash) for name, outcome in outcomes]
        there = [json.loads(line) for line in printed(fresh).splitlines()]
    finally:
        processes.kill(fresh)
    assert [each["scenario"] for each in there] == names
    for mine, each in zip(here, there, strict=True):
        if mine != (each["scenario"], each["journal"], each["schedule"]):
            again = [in_a_process(["--events", *asked, each["scenario"]], seed) for seed in ("1", "random")]
            one, other = map(printed, again)
            told = "in a process that has done other things before" if one == other else first_difference(one, other)
            pytest.fail(f"{each['scenario']} is not the same run: {told}")


def test_the_first_differing_event_is_reported_with_those_before() -> None:
    assert first_difference("a\nb\nc\nd\ne", "a\nb\nc\nd\nf").splitlines() == [
        *("event 5", "  both   b", "  both   c", "  both   d", "  differs e", "  differs f")
    ]
    assert first_difference("a", "a\nb").splitlines() == ["event 2", "  both   a", "  differs (nothing)", "  differs b"]


# --- the command line ----------------------------------------------------------------------------------------------------


def cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return processes.run(
        [sys.executable, "-m", "broker_sim", "run", *arguments],
        env={key: value for key, value in {**os.environ, **environment}.items() if value},
    )


@pytest.mark.slow
def test_the_command_prints_hashes_that_are_equal_in_every_process(tmp_path: Path) -> None:
    name, picture = "crash-without-leave", tmp_path / "a.svg"
    told = []
    for hash_seed in ("", "1"):
        done = cli(name, "--virtual", "--seed", "7", "--json", "--timeline", str(picture), PYTHONHASHSEED=hash_seed)
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout))
    assert told[0] == told[1]
    assert told[0]["virtual"] is True
    assert len(told[0]["journal_hash"]) == len(told[0]["schedule_hash"]) == 64
    assert "billing: Stable, generation 3, members: 1\n" in done.stderr
    assert picture.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["aiokafka", "kafka-python"])
def test_repeated_runs_are_compared_to_the_byte(kind: str) -> None:
    done = cli("rolling-restart-of-static-members", "--virtual", "--repeat", "3", "--quiet", "--client", kind)
    assert (done.returncode, done.stderr) == (0, "")
    assert " of virtual time\n" in done.stdout
    assert "3 runs: equal to the byte, journal " in done.stdout


@pytest.mark.slow
def test_invalid_arguments_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    for arguments in (("--client", "confluent"), ("--clock", "manual"), ("--attach", "--", "ls")):
        done = cli("crash-without-leave", "--virtual", "--quiet", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    path = tmp_path / "story.yaml"
    path.write_text(MARKS + "  - {never: {event: mark, text: second}}\n")
    assert cli(str(path), "--virtual", "--quiet").returncode == 1


@pytest.mark.slow
def test_a_run_keeps_its_journal_and_can_be_interrupted(tmp_path: Path) -> None:
    path, journal = tmp_path / "story.yaml", tmp_path / "journal"
    path.write_text(CONSUMER)
    assert cli(str(path), "--virtual", "--quiet", "--journal", str(journal)).returncode == 0
    assert [wrong for event in read_journal(journal) for wrong in problems(event)] == []
    path.write_text(CONSUMER.replace("expect", "  - {name: years, after: 10000h}\nexpect"))
    for number in (signal.SIGINT, signal.SIGTERM):
        process = processes.start(
            [sys.executable, "-m", "broker_sim", "run", str(path), "--virtual"],
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        processes.line_with(process, "Stable", of="stderr")
        process.send_signal(number)
        told = processes.finish(process, "the run to end")[1]
        assert told.splitlines()[-1] == "broker-sim run: interrupted"
        assert process.returncode in (130, -signal.SIGINT), "the latter is Python's own, where exec() was interrupted"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_a_finaliser_swallows_ends_the_run_all_the_same() -> None:
    class Interrupts:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    told: list[str] = []

    def progress(line: str) -> None:
        told.append(line)
        if "Stable" in line:
            Interrupts()

    with handling(signal.default_int_handler, signal.SIGINT):  # pytest-xdist's processes ignore it
        with pytest.raises(KeyboardInterrupt):
            play_text(CONSUMER.replace("expect", "  - {name: years, after: 10000h}\nexpect"), progress=progress)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert "Stable" in told[-1]


# --- pytest --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.scenario("hanging-consumer-holds-the-rebalance", virtual=True, seed=5)
async def test_the_marker_plays_in_virtual_time_beside_a_running_loop(scenario: ScenarioOutcome) -> None:
    assert (scenario.code, scenario.seconds > 12) == (0, True)
    again = await asyncio.to_thread(play, shipped_one("hanging-consumer-holds-the-rebalance"), ScenarioOptions(seed=5))
    assert scenario.journal_hash == again.journal_hash


@pytest.mark.slow
def test_a_project_with_virtual_scenarios_has_its_hash_seed_pinned(pytester: pytest.Pytester) -> None:
    (pytester.path / "story.yaml").write_text(HELD)
    pytester.makepyfile(
        """
        import os, pytest

        @pytest.mark.scenario("story.yaml", virtual=True)
        def test_it(scenario):
            assert scenario.code == 0
            assert os.environ["PYTHONHASHSEED"] == "0"
        """
    )
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONHASHSEED", "PYTEST_XDIST_WORKER")
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider"]
    done = processes.run(command, cwd=pytester.path, env=environment)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("test session starts") == 1
    assert "1 passed" in done.stdout


@pytest.mark.slow
def test_files_are_tests_in_virtual_time_if_the_project_configures_it(pytester: pytest.Pytester) -> None:
    minutes = HELD.replace("kind: classic, members: 1, ", "").replace(
        "expect", "  - {name: ten minutes, after: 10m}\nexpect"
    )
    (pytester.path / "minutes.yaml").write_text(minutes)
    (pytester.path / "theirs.yaml").write_text(HELD.replace("kind: classic", "kind: external"))
    pytester.makeini("[pytest]\nkafka_scenarios = *.yaml\nkafka_scenarios_virtual = true\n")
    result = pytester.runpytest_subprocess("-p", "no:randomly", timeout=300)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["the client app is *, which can't run in virtual time; *"])
