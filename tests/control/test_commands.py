"""The commands for running brokers, as they are typed: what they print, how they end."""

from __future__ import annotations

import asyncio
import json
import signal
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import aiokafka
import pytest

from broker_sim.cli import main as cli
from broker_sim.control import commands
from broker_sim.control.client import ControlFailed
from broker_sim.control.commands import spelled_out
from broker_sim.control.operations import OPERATIONS
from broker_sim.control.verbs import VERBS
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.control.conftest import FAST_GROUPS
from tests.control.outside import Outside
from tests.support import processes
from tests.support.command import command
from tests.support.processes import DEADLINE_S
from tests.support.wire import Wire

GROUP = "billing"


def test_every_operation_has_its_command() -> None:
    spelled = {verb.operation for verbs in VERBS.values() for verb in verbs.values()}
    assert spelled == set(OPERATIONS)
    assert set(VERBS) <= set(cli.ELSEWHERE)


def test_what_stands_without_a_name_is_a_parameter() -> None:
    for verbs in VERBS.values():
        for verb in verbs.values():
            parameters = OPERATIONS[verb.operation].parameters
            required = {one.name for one in parameters.values() if one.required}
            assert set(verb.bare) <= set(parameters), verb.operation
            assert required <= set(verb.bare), verb.operation
            assert verb.examples, verb.operation


COMMANDS = [[noun, *([verb] if verb else [])] for noun, verbs in VERBS.items() for verb in verbs]


@pytest.mark.parametrize("words", COMMANDS + [[noun] for noun, verbs in VERBS.items() if "" not in verbs], ids=" ".join)
def test_help_has_examples_that_are_whole_commands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([*words, "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    examples = [line.strip() for line in shown.partition("\nexamples:\n")[2].splitlines()]
    assert examples
    assert all(line.startswith(f"broker-sim {words[0]}") for line in examples)
    assert max(map(len, shown.splitlines())) <= 120


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("state orders-0 stuck --for 4s", "state set orders-0 stuck --for 4s"),
        ("state orders-0", "state get orders-0"),
        ("state", "state list"),
        ("state --json", "state list --json"),
        ("state heal orders-0", "state heal orders-0"),
        ("group", "group list"),
        ("group billing --watch", "group get billing --watch"),
        ("group wait billing members=3", "group wait billing members=3"),
        ("share shippers", "share get shippers"),
        ("transaction", "transaction list"),
        ("transaction orders-app", "transaction get orders-app"),
        ("transaction abort-hanging orders-0 5", "transaction abort-hanging orders-0 5"),
        ("clock --json", "clock get --json"),
        ("clock advance 4s", "clock advance 4s"),
        ("journal --follow", "journal read --follow"),
        ("journal mark note", "journal mark note"),
        ("topic orders", "topic get orders"),
        ("log orders-0", "log get orders-0"),
        ("broker", "broker list"),
        ("fault", "fault list"),
        ("fault --help", "fault --help"),
        ("explain billing", "explain billing"),
    ],
)
def test_short_forms(short: str, full: str) -> None:
    assert " ".join(spelled_out(short.split())) == full


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fault", "add", "OffsetCommit", "grup=billing", "hang=true"], "did you mean 'group'?"),
        (["state", "set", "orders-0"], "STATE is missing"),
        (["state", "set", "orders-0", "stuck", "again"], "unexpected argument 'again'"),
        (["clock", "advance", "4s", "by=5s"], "by is given twice"),
        (["broker", "down"], "BROKER is missing"),
        (["broker", "dwn", "1"], "invalid choice"),
        (["leader"], "a verb is missing"),
        (["fault", "add", "--grup", "x"], "unrecognized arguments: --grup"),
        (["clock", "--control", "127.0.0.1:1"], "no control server answers at http://127.0.0.1:1"),
        (["clock", "--control", "127.0.0.1:1"], "`broker-sim serve --control 1` starts one, and --control URL"),
        (["clock", "--control", "ftp://x"], "control server 'ftp://x' is not an address"),
        (["explain", GROUP, "--journal", "nowhere"], "nowhere"),
        (["clock", "--control-token-file", "nowhere"], "token file nowhere"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = cli.main(words)
    except SystemExit as left:
        code = int(left.code or 0)
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert told in printed.err
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "variables", "told"),
    [
        (["group", "\udcff"], {}, "broker-sim group get: group: '\\udcff' is not a text in UTF-8"),
        (["topic", "delete", "\udcff"], {}, "broker-sim topic delete: topic: '\\udcff' is not a text in UTF-8"),
        (["clock", "--cluster", "\udcff"], {}, "broker-sim clock get: cluster: '\\udcff' is not a text in UTF-8"),
        (["clock"], {"BROKER_SIM_CONTROL": "\udcff"}, "control server '\\udcff' is not an address"),
        (
            ["clock"],
            {"BROKER_SIM_CONTROL_TOKEN": "s\u00e9cret"},
            "BROKER_SIM_CONTROL_TOKEN holds no token: one line of",
        ),
        (["serve", "--advertised-host", "\udcff"], {}, "advertised_host: '\\udcff' is not a text in UTF-8"),
        (["serve", "--host", "\udcff"], {}, "host: '\\udcff' is not a text in UTF-8"),
    ],
)
def test_bytes_of_a_command_line_that_are_no_utf_8(words: list[str], variables: dict[str, str], told: str) -> None:
    """Python has them as halves of surrogate pairs."""
    done = command(*words, environment=variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_serve_prints_two_lines_and_ends_cleanly(outside: Callable[..., Outside]) -> None:
    kafka = outside()
    assert kafka.url.startswith("http://127.0.0.1:")
    assert kafka.close() == (0, "", "")


def test_serve_on_another_address_needs_the_token_that_it_tells(outside: Callable[..., Outside]) -> None:
    kafka = outside(control="0.0.0.0:0")
    assert kafka.process.stderr is not None
    line = kafka.process.stderr.readline()
    kafka.url = kafka.url.replace("0.0.0.0", "127.0.0.1")
    assert kafka.run("topic").returncode == 2
    token = line.strip().rpartition(" ")[2]
    assert kafka.run("topic", environment={"BROKER_SIM_CONTROL_TOKEN": token}).returncode == 0


def test_serve_takes_a_token_of_a_file(outside: Callable[..., Outside], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-secret\n")
    kafka = outside("--control-token-file", str(file))
    wrong = kafka.run("clock")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "token" in wrong.stderr
    assert kafka.run("clock", "--control-token-file", str(file)).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--control", "nowhere:99999"], "is not a port"),
        (["--control", "0", "--control-token-file", "nowhere"], "token file nowhere"),
        (["--clock", "backwards"], "backwards"),
        (["--seed", "many"], "many"),
        (["--control", "192.0.2.1:0", "--control-token-file", __file__], "holds no token"),
    ],
)
def test_serve_refuses_what_cannot_be(arguments: list[str], told: str) -> None:
    command = [sys.executable, "-m", "broker_sim", "serve", *arguments]
    done = processes.run(command)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_aiohttp_one_line_tells_what_is_missing() -> None:
    code = (
        "import sys; sys.modules['aiohttp'] = None; from broker_sim.cli.main import main;"
        " sys.exit(main(['serve', '--control', '0']))"
    )
    done = processes.run([sys.executable, "-c", code])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "broker-sim serve: the control server needs aiohttp: python -m pip install 'broker-sim[control]'"
    ]


def test_a_name_that_is_not_there_breaks_nothing_and_is_told(kafka: Outside) -> None:
    for words in ("state offsets(biling) stuck", "leader move offsets(biling) 2", "explain biling", "timeline biling"):
        done = kafka.run(*words.split())
        assert (done.returncode, done.stdout) == (2, "")
        assert "no group 'biling'; none exists" in done.stderr
        assert done.stderr.count("\n") == 1
    assert "is stuck" in kafka.run("state", "offsets(biling)", "stuck", "--ahead").stdout
    done = kafka.run("journal", "--group", "nobody")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "broker-sim journal read: no event fits that\n")


@pytest.mark.slow
def test_nothing_that_a_client_chose_does_something_to_the_terminal(
    outside: Callable[..., Outside], tmp_path: Path
) -> None:
    kafka = outside("--topic", "orders:2", *FAST_GROUPS, "--journal", str(tmp_path / "journal"), "--log-level", "debug")
    nasty = "a\x1b[2J\x07\r\nforged line\u202e"

    async def come() -> None:
        wire = await Wire.connect(kafka.bootstrap, client_id=nasty)
        partition = OffsetCommitRequestPartition(0, 5, committed_metadata="")
        topics = [OffsetCommitRequestTopic("orders", partitions=[partition])]
        await wire.send(OffsetCommitRequest(group_id=nasty, generation_id_or_member_epoch=-1, topics=topics), 8)
        await wire.close()
        reader, writer = await asyncio.open_connection(*kafka.bootstrap.split(":"))
        header = struct.pack(">hhih", 12, 99, 1, len(nasty.encode())) + nasty.encode()
        writer.write(struct.pack(">i", len(header)) + header)
        await reader.read()
        writer.close()

    asyncio.run(come())
    commands = [
        *(["group"], ["group", nasty], ["explain", nasty], ["timeline", nasty], ["journal"], ["journal", "recent"]),
        *(["journal", "mark", nasty], ["fault", "add", "Fetch", f"client_id={nasty}", "hang=yes"], ["fault"]),
        *(["state", f"offsets({nasty}x)", "stuck"], ["topic", nasty], ["order", "hold", "Fetch", f"group={nasty}x"]),
        *(["explain", nasty, "--journal", str(tmp_path / "journal")], ["group", "list", nasty]),
    ]
    for words in commands:
        done = kafka.run(*words)
        told = done.stdout + done.stderr
        assert told, words
        assert all(one.isprintable() or one == "\n" for one in told), (words, told)
        assert not any(line.startswith("forged") for line in told.splitlines()), (words, told)


def test_an_incident_on_the_command_line(kafka: Outside, tmp_path: Path) -> None:
    def ok(*words: str) -> str:
        done = kafka.run(*words)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    assert ok("state") == "every log is online\n"
    assert "__consumer_offsets-" in ok("state", f"offsets({GROUP})", "stuck", "--for", "40s", "--ahead")
    states = json.loads(ok("state", "--json"))["states"]
    assert [(one["state"], one["args"]) for one in states] == [("stuck", {"for": 40_000})]
    assert "is online" in ok("state", "heal", f"offsets({GROUP})", "--ahead")

    fault = json.loads(
        ok("fault", "add", "OffsetCommit", "--times", "3", f"group={GROUP}", "error=NOT_COORDINATOR", "--json")
    )
    assert (fault["rule"]["times"], fault["rule"]["group"]) == (3, GROUP)
    assert ok("fault").startswith(f"fault {fault['id']}, 0 hits: OffsetCommit group={GROUP}, at most 3 times")
    waited = kafka.run("fault", "wait", str(fault["id"]), "--hits", "1", "--timeout", "100ms")
    assert (waited.returncode, waited.stdout) == (3, "")
    assert "not within 100 ms" in waited.stderr
    removed = kafka.run("fault", "remove", str(fault["id"]))
    assert removed.returncode == 1
    assert "never hit" in removed.stderr
    assert ok("fault", "clear") == "none\n"

    assert "orders: 2 partitions" in ok("topic")
    assert "20 records" in ok("topic", "fill", "orders", "20")
    assert ok("group") == "none\n"
    nobody = kafka.run("group", "billing")
    assert (nobody.returncode, nobody.stdout) == (2, "")
    assert "broker 2" in ok("broker", "down", "2")
    assert "is up" in ok("broker", "up", "2")
    assert ok("clock").startswith("mode        real\n")
    assert ok("journal", "mark", "half=time").rstrip().endswith("text=half=time")
    assert "half=time" in ok("journal", "--event", "mark")
    assert "c1" in ok("cluster", "create", "c1", "brokers=2", "--topics", "a:3")
    assert "a: 3 partitions" in ok("topic", "--cluster", "c1")
    assert ok("cluster", "delete", "c1") == "deleted  c1\n"


@pytest.mark.slow
async def test_a_groups_story_live_and_out_of_its_journal(outside: Callable[..., Outside], tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    kafka = outside("--topic", "orders:2", "--journal", str(directory), *FAST_GROUPS)

    async def ok(*words: str) -> str:
        done = await asyncio.to_thread(kafka.run, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = {"bootstrap_servers": kafka.bootstrap, "group_id": GROUP, "session_timeout_ms": 300_000}
    consumer = aiokafka.AIOKafkaConsumer("orders", client_id="app", **where)
    async with consumer:
        shown = await ok("group", GROUP, "--wait", "stable", "--members", "1", "--timeout", "150s")
        assert f"{GROUP}: Stable, generation 1, 1 member" in shown
        assert "app" in shown
        assert "orders:0,1" in shown
        assert GROUP in await ok("group")
    live = await ok("explain", GROUP)
    drawn = await ok("timeline", GROUP)
    page, picture = tmp_path / "story.html", tmp_path / "story.svg"
    assert await ok("timeline", GROUP, "--html", str(page), "--svg", str(picture)) == ""
    assert page.read_text().lower().startswith("<!doctype html")
    assert "<svg" in picture.read_text()[:100]
    events = [json.loads(line) for line in (await ok("journal", "--group", GROUP, "--json")).splitlines()]
    assert {"request", "group", "response"} <= {one["event"] for one in events}
    kafka.close()
    assert await ok("explain", GROUP, "--journal", str(directory)) == live
    assert await ok("timeline", GROUP, "--journal", str(directory)) == drawn
    offline = [
        json.loads(line)
        for line in (await ok("journal", "--group", GROUP, "--json", "--journal", str(directory))).splitlines()
    ]
    assert offline[: len(events)] == events


@pytest.mark.slow
async def test_a_group_is_watched(kafka: Outside) -> None:
    command = [sys.executable, "-m", "broker_sim", "group", GROUP, "--watch", "--control", kafka.url]
    watcher = processes.start(
        command,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )
    try:
        first = asyncio.create_task(asyncio.to_thread(processes.line, watcher, "a line of what is watched"))
        async with asyncio.timeout(DEADLINE_S):
            while not first.done():  # it may not be watching yet
                async with aiokafka.AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, group_id=GROUP):
                    await kafka.do("group.wait", group=GROUP, state="Stable", members=1)
        assert f"{GROUP}: " in await first
        watcher.send_signal(signal.SIGINT)
        out, errors = await asyncio.to_thread(processes.finish, watcher, "it to end after SIGINT")
    finally:
        processes.kill(watcher)
    assert (watcher.returncode, errors) == (0, "")
    assert all(f"  {GROUP}: " in line for line in out.splitlines())


@pytest.mark.slow
def test_a_follower_that_is_cut_off_ends(kafka: Outside) -> None:
    command = [sys.executable, "-m", "broker_sim", "journal", "--follow", "--control", kafka.url]
    follower = processes.start(command)
    try:
        kafka.run("journal", "mark", "here")
        assert "mark" in processes.line(follower, "an event")
        kafka.close()
        out, errors = processes.finish(follower, "it to end with the broker")
    finally:
        processes.kill(follower)
    assert out == ""
    assert follower.returncode in (0, 2), errors


class _Waiting:
    """A control server's client whose waits end when somebody has asked for the groups."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def perform(self, operation: str, **params: object) -> object:
        if operation == "group.list":
            self.asked.set()
            return {"groups": [{"group": GROUP}]}
        assert self.asked.wait(DEADLINE_S)
        raise ControlFailed(408, {"error": "not within 10 s"})


@pytest.mark.parametrize(("name", "hinted"), [(GROUP[:-1], True), (GROUP, False), ("nothing like it", False)])
def test_a_long_wait_for_a_name_that_nobody_has_is_told_who_is_meant(
    name: str, hinted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = _Waiting()
    monkeypatch.setattr(commands, "HINT_S", 0)
    monkeypatch.setattr(commands, "_client", lambda arguments: client)
    assert cli.main(["group", "wait", name, "members=3"]) == 3
    told = capsys.readouterr().err
    assert "not within 10 s" in told
    assert (f"still waiting: no group {name!r} up to now; did you mean {GROUP!r}?" in told) == hinted
