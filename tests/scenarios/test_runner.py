"""A run from its file to its exit code: what is told, what is awaited, what is never to be, and that nothing is left running."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.common.text import UsageError
from broker_sim.journal import problems
from broker_sim.journal import read as read_journal
from broker_sim.scenario.files import loads
from broker_sim.scenario.model import parse
from broker_sim.scenario.runner import ScenarioOptions, ScenarioOutcome, run
from tests.support import processes
from tests.support.command import command
from tests.support.processes import DEADLINE_S

MEMBER = "{name: app, kind: classic, members: 1, group: billing, topics: [orders], session_timeout: 30s, heartbeat_interval: 200ms}"
STABLE = "{group: billing, state: Stable, members: 1}"
ONE_MEMBER = f"""\
name: one member
topics: [{{name: orders}}]
clients:
  - {MEMBER}
steps:
  - {{name: it works,
    when: {STABLE}, within: 150s}}
"""
HELD = ONE_MEMBER + f"expect:\n  - {STABLE}\n"
BROKEN = ONE_MEMBER + "expect:\n  - {within: 100ms, group: billing, state: Empty}\n"
LATE = HELD.replace("members: 1}, within: 150s", "members: 2}, within: 4s")
MARKS = """\
steps:
  - {name: a, do: {mark: first}}
  - {name: b, do: {mark: second}}
  - {name: c, do: {mark: third}}
expect:
"""


async def play(text: str, **options: object) -> ScenarioOutcome:
    return await run(parse(loads(text)), ScenarioOptions(**options))  # type: ignore[arg-type]


def cli(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return processes.run([sys.executable, "-m", "broker_sim", "run", *arguments], **options)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(path: Path, how_many: int) -> None:
    """The processes whose ids stand in a file are no more."""
    pids = [int(line) for line in path.read_text().split()]
    assert len(pids) == how_many
    deadline_s = time.monotonic() + DEADLINE_S
    while left := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < deadline_s, f"{left} still run"
        await asyncio.sleep(0.02)


# --- the command line ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (HELD, 0, "held    within 30 s: group billing: state Stable, members 1\none member: held after"),
        (BROKEN, 1, "BROKEN  within 100 ms: group billing: state Empty - it is Stable with 1 members in generation 1"),
        pytest.param(
            *(LATE, 3, "it works waited 4 s for group billing: state Stable, members 2 (it is "),
            marks=pytest.mark.real_time,  # its only member has to be there within these 4 s; see the next test
        ),
    ],
)
def test_exit_codes_and_output(tmp_path: Path, text: str, code: int, told: str) -> None:
    path = tmp_path / "story.yaml"
    path.write_text(text)
    is_told(cli(str(path)), code, told)


def test_a_late_step_is_reported_in_virtual_time_as_well(tmp_path: Path) -> None:
    path = tmp_path / "story.yaml"
    path.write_text(LATE)
    told = "it works waited 4 s for group billing: state Stable, members 2 (it is "
    is_told(cli(str(path), "--virtual"), 3, told)


def is_told(done: subprocess.CompletedProcess[str], code: int, told: str) -> None:
    assert done.returncode == code, done.stderr
    assert told in done.stdout
    assert "client app: started\n" in done.stderr
    assert "billing: Stable, generation 1, members: 1\n" in done.stderr
    assert ("Generation 1 began because app" in done.stdout) is (code != 0), (
        "what became of the group, where it went wrong"
    )


def test_a_wrong_file_or_argument_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "story.yaml"
    path.write_text(HELD.replace("topics: [{", "topcs: [{"))
    for arguments, told in (
        ((str(path),), f"broker-sim run: {path}:2: the file has no key 'topcs'; did you mean 'topics'? "),
        (("crash-without-leav",), "no such file or scenario; did you mean 'crash-without-leave'? "),
    ):
        done = command("run", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{told}expected one of " in done.stderr
        assert done.stderr.count("\n") == 1
    path.write_text(HELD)
    assert "did you mean 'manual'?" in command("run", str(path), "--clock", "manul").stderr
    assert "nowhere: " in command(
        "run", str(path), "--quiet", "--timeline", str(tmp_path / "nowhere" / "a.svg")
    ).stderr.replace("/a.svg", "")
    assert (
        "no-such-program can't be started"
        in command("run", str(path), "--client", "app=./no-such-program", "--quiet").stderr
    )


def test_repeated_as_json_with_pictures_and_journals(tmp_path: Path) -> None:
    path, journal = tmp_path / "story.yaml", tmp_path / "journal"
    path.write_text(HELD)
    done = cli(
        str(path),
        "--repeat",
        "2",
        "--json",
        "--quiet",
        "--journal",
        str(journal),
        "--timeline",
        str(tmp_path / "a.svg"),
    )
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["scenario"], one["verdict"], one["late"], one["ended"]) for one in runs] == [
        ("one member", "held", None, {})
    ] * 2
    assert [one["held"] for one in runs[0]["results"]] == [True]
    assert runs[0]["group_states"][-1] == "billing: Stable, generation 1, members: 1"
    assert (tmp_path / "a.svg").read_text().count("<svg") == 1
    events = list(read_journal(journal))
    assert {"request", "group", "client", "mark"} <= {event["event"] for event in events}
    assert [wrong for event in events for wrong in problems(event)] == []


def test_equal_runs_are_reported_as_equal(tmp_path: Path) -> None:
    path = tmp_path / "story.yaml"
    path.write_text(HELD)
    assert cli(str(path), "--repeat", "2", "--quiet").stdout.endswith("2 runs: the same history\n")


ATTACHED = """\
import os, subprocess, sys
from confluent_kafka import Consumer
assert sys.argv[1] == os.environ["BOOTSTRAP"], sys.argv
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[2], "w").write(f"{os.getpid()} {child.pid}")
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "mine", "client.id": "my-app", "auto.offset.reset": "earliest"})
consumer.subscribe(["orders"])
while True:
    record = consumer.poll(0.1)
    if record is not None:
        consumer.commit(record)
"""


async def test_a_program_of_the_users_own_lives_through_it_and_is_ended(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ATTACHED)
    path = tmp_path / "story.yaml"
    path.write_text("""\
topics: [{name: orders, records: 5}]
clients: [{name: my-app, kind: external, group: mine, topics: [orders]}]
steps:
  - {name: it came, when: {group: mine, state: Stable, members: 1, committed: {orders-0: 5}}, within: 150s}
  - {name: more, do: {topic: orders, fill: 1}}
  - {name: it is seen, when: {api: OffsetCommit, client_id: my-app}, within: 150s}
expect:
  - {group: mine, committed: {orders-0: 6}}
""")
    done = cli(
        str(path),
        "--quiet",
        "--attach",
        "--",
        sys.executable,
        str(tmp_path / "mine.py"),
        "{bootstrap}",
        str(tmp_path / "pids"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    await gone(tmp_path / "pids", 2)


# --- clients that don't do what they should ------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_client_that_crashes_is_reported_with_its_last_lines() -> None:
    told: list[str] = []
    dies = "sh -c 'echo no such library >&2; exit 3'"
    outcome = await play(LATE, clients={"app": dies}, progress=told.append)
    assert outcome.code == 3
    assert "CLIENT  app ended with code 3; without a request; its last lines: no such library" in outcome.report()
    assert [line for line in told if "client app: exited, without a request; its last lines: no such library" in line]
    assert outcome.to_dict()["ended"] == outcome.ended


async def test_a_client_that_was_stopped_breaks_nothing() -> None:
    leaves = (
        ONE_MEMBER
        + "  - {name: it goes, do: {client: app, action: leave}}\nexpect:\n  - {group: billing, state: Empty}\n"
    )
    for action, extra in (("leave", ""), ("crash", "  - {op: group.wait, group: billing}\n")):
        text = leaves.replace("action: leave", f"action: {action}")
        if extra:  # a crash leaves the member behind
            text = text.replace("state: Empty", "state: Stable")
        outcome = await play(text)
        assert (outcome.code, outcome.ended) == (0, {}), outcome.report()


FOREIGN = r"""
import json, os, subprocess, sys, time
open(sys.argv[1], "w").write(f"{os.getpid()} {subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid}")
print("no JSON")
print(json.dumps([1]))
print(json.dumps({"reports": "error", "text": "an error", "name": "x", "client": "y", "event": "z"}), flush=True)
print("x" * 3_000_000, flush=True)
print(json.dumps({"reports": "works"}), flush=True)
sys.stdin.close()
time.sleep(600)
"""


async def test_any_program_is_a_client_whatever_it_prints_and_ends_with_all_its_processes(tmp_path: Path) -> None:
    (tmp_path / "foreign.py").write_text(FOREIGN)
    text = HELD.replace(STABLE, "{client: app, reports: works}")
    outcome = await play(
        text, clients={"*": "", "app": f"{sys.executable} {tmp_path / 'foreign.py'} {tmp_path / 'pids'}"}
    )
    assert outcome.code == 0, outcome.report()
    said = [(event["reports"], event["text"]) for event in outcome.events if event["event"] == "client"]
    assert said[:3] == [("started", ""), ("error", "an error"), ("works", "")]
    await gone(tmp_path / "pids", 2)


async def test_a_run_that_is_cancelled_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "foreign.py").write_text(FOREIGN)
    works = asyncio.Event()
    client = f"{sys.executable} {tmp_path / 'foreign.py'} {tmp_path / 'pids'}"
    task = asyncio.ensure_future(
        play(HELD, clients={"app": client}, progress=lambda line: works.set() if "an error" in line else None)
    )
    async with asyncio.timeout(DEADLINE_S):
        await works.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(tmp_path / "pids", 2)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_run_that_is_interrupted_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "foreign.py").write_text(FOREIGN)
    (tmp_path / "story.yaml").write_text(HELD)
    client = f"app={sys.executable} {tmp_path / 'foreign.py'} {tmp_path / 'pids'}"
    process = processes.start(
        [sys.executable, "-m", "broker_sim", "run", str(tmp_path / "story.yaml"), "--client", client],
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )
    try:
        processes.line_with(process, "an error", of="stderr")
        process.send_signal(number)
        told = processes.finish(process, "the run to end")[1]
        assert (process.returncode, told.splitlines()[-1]) == (130, "broker-sim run: interrupted")
    finally:
        processes.kill(process)
    await gone(tmp_path / "pids", 2)


@pytest.mark.real_time
async def test_a_frozen_client_is_silent_until_it_thaws() -> None:
    """A process that SIGSTOP stops; in virtual time `test_virtual` says the same."""
    outcome = await play(
        ONE_MEMBER
        + """\
  - {name: freeze, do: {client: app, action: freeze, for: 800ms}}
  - {name: what was under way has come, after: 100ms}
  - {name: silence, after: 500ms}
  - {name: it thaws, when: {api: Heartbeat, group: billing}}
expect:
  - never: {api: Heartbeat}
    between: [what was under way has come, silence]
  - {group: billing, state: Stable}
"""
    )
    assert outcome.code == 0, outcome.report()


# --- signs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expectation", "held"),
    [
        ("{happened: {event: mark, text: second}}", True),
        ("{happened: {event: mark, text: second, count: 2}, within: 50ms}", False),
        ("{happened: {event: mark, text: third, count: 2}, within: 50ms}", False),
        ("{never: {event: mark, text: second}}", False),
        ("{never: {event: mark, text: second}, after: a}", False),
        ("{never: {event: mark, text: first}, after: b}", True),
        ("{never: {event: mark, text: second}, between: [a, c]}", False),
        ("{never: {event: mark, text: second}, between: [a, b]}", True),
        ("{never: {event: mark, text: third}, between: [a, c]}", True),
        ("{never: {event: mark, text: fir*, count: '>=2'}}", True),
    ],
)
async def test_events_that_happened_and_that_never_did(expectation: str, held: bool) -> None:
    outcome = await play(f"{MARKS}  - {expectation}\n")
    assert [one.held for one in outcome.results] == [held], outcome.report()
    assert outcome.code == (0 if held else 1)


async def test_the_event_that_broke_a_never_is_reported_with_its_time() -> None:
    outcome = await play(f"{MARKS}  - {{never: {{event: mark, text: second}}, after: a}}\n")
    assert re.search(
        r"BROKEN  never from 'a' on: mark: text second - it occurred 1 time at \+ +0\.\d{3} s \(mark \d+\)",
        outcome.report(),
    )


async def test_a_sign_of_a_step_counts_from_the_step_before() -> None:
    text = MARKS.replace("name: c, do", "name: c, when: {event: mark, text: first}, within: 50ms, do")
    outcome = await play(f"{text}  - {{happened: {{event: mark}}}}\n")
    assert (outcome.code, "c waited 50 ms for mark: text first" in outcome.late) == (3, True)


# --- actions -------------------------------------------------------------------------------------------------------------


async def test_faults_have_names_by_which_they_are_awaited_and_removed() -> None:
    outcome = await play(
        ONE_MEMBER
        + """\
  - {name: break, do: {fault: {api: Heartbeat, error: REBALANCE_IN_PROGRESS, times: 1}, as: shaken}}
  - {name: it was hit, when: {fault: shaken, hits: 1}, do: {remove_fault: shaken}}
expect:
  - {group: billing, state: Stable, generation: 1}
  - happened: {event: fault_removed, hits: 1}
"""
    )
    assert outcome.code in (0, 1), outcome.late
    assert [one.held for one in outcome.results][1], outcome.report()


async def test_a_manual_clock_does_not_advance_by_itself() -> None:
    outcome = await play(
        ONE_MEMBER.replace("name: one member", "name: time\ncluster: {clock: manual, initial_rebalance_delay: 0s}")
        + """\
  - {name: an hour of heartbeats, after: 1h}
  - {name: nobody hears it, do: {advance: 31s, expire: [app-1]}}
  - {name: it is over, when: {event: timer, timer: session, group: billing}}
expect:
  - never: {event: timer, timer: session}
    between: [it works, nobody hears it]
  - happened: {event: clock, ms: 31000}
"""
    )
    assert outcome.code == 0, outcome.report()
    assert outcome.seconds < 3600, "nobody waited for the hour"


async def test_a_sent_commit_must_get_the_expected_response() -> None:
    text = (
        ONE_MEMBER
        + "  - {name: zombie, do: {send: OffsetCommit, group: billing, ARGS offsets: {orders-0: 1}}}\nexpect:\n  - STABLE\n"
    )
    text = text.replace("STABLE", STABLE)
    for arguments, code in (
        ("member: app-1, generation: now,", 0),
        ("member: app-1, generation: old, answer: ILLEGAL_GENERATION,", 0),
        ("member: app-1, generation: 77, answer: ILLEGAL_GENERATION,", 0),
        ("answer: UNKNOWN_MEMBER_ID,", 0),
        ("member: app-1, generation: old,", 1),
    ):
        outcome = await play(text.replace("ARGS", arguments))
        assert outcome.code == code, outcome.report()
    assert "the answer was ILLEGAL_GENERATION, not NONE" in outcome.report()


async def test_a_described_group_is_imported(tmp_path: Path) -> None:
    (tmp_path / "groups.txt").write_text(
        "GROUP    TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID\n"
        "billing  orders  0          5               9               4    -            -     -\n"
    )
    expected = "{group: billing, committed: {orders-0: 5}, lag_below: 5}"
    text = f"import: {{describe: groups.txt}}\nsteps: [{{after: 10ms}}]\nexpect: [{expected}]\n"
    path = tmp_path / "story.yaml"
    path.write_text(text)
    assert (await run(parse(loads(text), path))).code == 0
    (tmp_path / "groups.txt").write_text("nothing of the kind\n")
    with pytest.raises(UsageError, match=r"groups\.txt: "):
        await run(parse(loads(text), path))


@pytest.mark.parametrize(("end", "code"), [(0, 1), (3, 0)])
async def test_a_lag_below_something_is_not_expected_of_a_topic_in_which_nothing_has_been(
    tmp_path: Path, end: int, code: int
) -> None:
    (tmp_path / "groups.txt").write_text(
        "GROUP    TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID\n"
        f"billing  orders  0          {end}               {end}               0    -            -     -\n"
    )
    text = "import: {describe: groups.txt}\nsteps: [{after: 10ms}]\nexpect: [{within: 100ms, group: billing, lag_below: 5}]\n"
    path = tmp_path / "story.yaml"
    path.write_text(text)
    assert (await run(parse(loads(text), path))).code == code


async def test_a_log_directory_is_played_on_and_stays_as_it_was(tmp_path: Path) -> None:
    async with Cluster(topics={"orders": 1}, data_dir=tmp_path / "data") as kafka:
        kafka.topic("orders").fill(3)
    before = {path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()}
    text = "import: {data: data}\nsteps: [{do: {topic: orders, fill: 1}}]\nexpect: [{event: mark}]\n"
    for _ in range(2):
        assert (await run(parse(loads(text), tmp_path / "story.yaml"))).code == 0
    assert {path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()} == before
    (tmp_path / "data").rename(tmp_path / "moved")
    with pytest.raises(UsageError, match=r"scenario:1: data: .*data: no such file"):
        parse(loads(text), tmp_path / "story.yaml")


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("{topic: orders, grow_to: 1}", "scenario:9: "),
        ("{topic: nowhere, fill: 1}", "nowhere"),
        ("{broker: 7, action: down}", "7"),
        ("{op: leader.move, log: orders-0, broker: 7}", "7"),
        (
            "{send: OffsetCommit, group: billing, offsets: {orders: 1}}",
            "'orders' is not a partition (expected e.g. orders-0)",
        ),
        (
            "{client: app, action: leave}, {client: app, action: crash}, {client: app, action: freeze}",
            "the client app is not running",
        ),
    ],
)
async def test_impossible_actions_are_reported_with_their_line(action: str, told: str) -> None:
    with pytest.raises(UsageError, match=r"^scenario:\d+: ") as error:
        await play(ONE_MEMBER + f"  - name: wrong\n    do: [{action}]\nexpect:\n  - {STABLE}\n")
    assert told in str(error.value)


async def test_an_invalid_topic_is_reported_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"^scenario:2: topic orders: "):
        await play(HELD.replace("{name: orders}", "{name: orders, replication: 3}"))


# --- pytest --------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("not-coordinator-on-offset-fetch")
def test_shipped_scenarios_are_played_by_their_names(scenario: ScenarioOutcome) -> None:
    assert scenario.code == 0
    assert scenario.groups == ["billing"]
    assert not any(alive(pid) for pid in _children(os.getpid()) if b"scenario.apps" in _command(pid))


def _children(of: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{of}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that thread has ended meanwhile
            found += map(int, (task / "children").read_text().split())
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
