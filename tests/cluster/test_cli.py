"""The command line as a user or a script meets it: real processes, with deadlines, but for arguments that are wrong."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_sim.cli import main as cli
from kafka_wire.messages.k03_metadata import MetadataRequest
from tests.authentication.exchange import authenticate
from tests.support import processes
from tests.support.command import command
from tests.support.ports import free_ports
from tests.support.wire import Wire

READY = re.compile(r"broker-sim ready: bootstrap=([\w.]+:\d+(?:,[\w.]+:\d+)*)\n")


class Served:
    """A running ``broker-sim serve``; ends with the test."""

    def __init__(self, *arguments: str) -> None:
        self.process = processes.start([sys.executable, "-m", "broker_sim", "serve", *arguments])
        self.bootstrap = self._wait_until_ready()

    def _wait_until_ready(self) -> str:
        line = processes.line(self.process, "the ready line")
        match = READY.fullmatch(line)
        if match is None:
            self.process.kill()
            _, errors = self.process.communicate()
            pytest.fail(f"no ready line but {line!r}; stderr:\n{errors}")
        return match[1]

    def end(self, number: int) -> tuple[int, str, str]:
        """Send a signal; exit code, the rest of stdout, stderr."""
        self.process.send_signal(number)
        rest, errors = processes.finish(self.process, f"serve to end after signal {number}")
        return self.process.returncode, rest, errors

    def close(self) -> None:
        processes.kill(self.process)


@pytest.fixture
def serve() -> Iterator[type[Served]]:
    running: list[Served] = []

    class Tracked(Served):
        def __init__(self, *arguments: str) -> None:
            super().__init__(*arguments)
            running.append(self)

    yield Tracked
    for one in running:
        one.close()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return processes.run([sys.executable, "-m", "broker_sim", *arguments])


async def topics(bootstrap: str) -> dict[str, int]:
    wire = await Wire.connect(bootstrap)
    response = await wire.send(MetadataRequest(topics=None), 12)
    await wire.close()
    return {topic.name: len(topic.partitions) for topic in response.topics}


class TestServe:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_ends_cleanly_with_one_line_on_stdout(self, serve: type[Served], number: int) -> None:
        assert serve().end(number) == (0, "", "")

    async def test_takes_its_options(self, serve: type[Served]) -> None:
        served = serve("--brokers", "3", "--topic", "orders:6", "--topic", "audit", "--config", "num.partitions=4")
        assert len(served.bootstrap.split(",")) == 3
        assert await topics(served.bootstrap) == {"orders": 6, "audit": 4}

    def test_brokers_listen_on_the_port_and_the_next_ones(self, serve: type[Served]) -> None:
        port = free_ports(3)
        served = serve("--brokers", "3", "--port", str(port))
        assert served.bootstrap == ",".join(f"127.0.0.1:{port + n}" for n in range(3))

    async def test_data_survives_sigkill(self, serve: type[Served], tmp_path: Path) -> None:
        data = str(tmp_path / "data")
        first = serve("--data", data, "--topic", "orders:6")
        first.end(signal.SIGKILL)
        assert await topics(serve("--data", data).bootstrap) == {"orders": 6}

    async def test_connected_clients_do_not_hold_up_the_end(self, serve: type[Served]) -> None:
        served = serve()
        wire = await Wire.connect(served.bootstrap)
        await wire.send(MetadataRequest(topics=[]), 12)
        assert served.end(signal.SIGTERM) == (0, "", "")
        await wire.closed()
        await wire.close()

    async def test_runs_on_asyncios_own_loop(self, serve: type[Served]) -> None:
        served = serve("--no-uvloop")
        assert await topics(served.bootstrap) == {}
        assert served.end(signal.SIGTERM) == (0, "", "")

    def test_ends_with_the_program_that_started_it(self) -> None:
        command = [sys.executable, "-m", "broker_sim", "serve", "--until-eof"]
        served = processes.start(command, stdin=subprocess.PIPE)
        try:
            assert READY.fullmatch(processes.line(served, "the ready line"))
            assert processes.finish(served, "serve to end") == ("", "")  # closes its standard input
            assert served.returncode == 0
        finally:
            processes.kill(served)

    async def test_prints_the_address_of_each_listener(self, serve: type[Served]) -> None:
        served = serve("--brokers", "2", "--listener", "EXTERNAL://localhost:0", "--topic", "orders")
        match = re.fullmatch(
            r"broker-sim listener: EXTERNAL=(localhost:\d+),localhost:\d+\n",
            processes.line(served.process, "the listener"),
        )
        assert match is not None
        assert await topics(match[1]) == {"orders": 1}

    def test_advertises_another_host(self, serve: type[Served]) -> None:
        assert serve("--host", "0.0.0.0", "--advertised-host", "kafka.example").bootstrap.startswith("kafka.example:")


class TestBadInput:
    """One line on stderr that says what is wrong, exit code 2."""

    def fails(self, text: str, *arguments: str) -> None:
        self.tells(text, run(*arguments))

    def tells(self, text: str, done: subprocess.CompletedProcess[str]) -> None:
        assert done.returncode == 2, done.stderr
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        assert text in done.stderr

    def test_port_in_use(self, serve: type[Served]) -> None:
        port = serve().bootstrap.split(":")[1]
        self.fails(f"port {port} of 127.0.0.1 is in use", "serve", "--port", port)

    def test_data_directory_that_can_not_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        self.fails("can't be used: Not a directory", "serve", "--data", str(tmp_path / "file" / "data"))

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_data_directory_without_permission(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        self.fails("can't be used: Permission denied", "serve", "--data", str(tmp_path / "data"))

    def test_unknown_setting_names_the_nearest(self) -> None:
        self.fails("num.partitions", "serve", "--config", "num.partition=3")

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["serve", "--topic", "orders:many"], "argument --topic: 'orders:many' is not NAME or NAME:PARTITIONS"),
            (["serve", "--topic", "orders:0"], "argument --topic: 'orders:0' is not NAME or NAME:PARTITIONS"),
            (["serve", "--topic", ":3"], "argument --topic: ':3' is not NAME or NAME:PARTITIONS"),
            (["serve", "--topic", "a/b"], "topic 'a/b'"),
            (["serve", "--config", "num.partitions"], "'num.partitions' is not KEY=VALUE"),
            (["serve", "--config", "num.partitions=x"], "Not a number"),
            (["serve", "--port", "99999"], "port: '99999' is not a whole number from 0 to 65535"),
            (["serve", "--port", "-1"], "port: '-1' is not a whole number from 0 to 65535"),
            (
                ["serve", "--port", "65535", "--brokers", "2"],
                "port 65535 is invalid for 2 brokers (expected 0 to 65534)",
            ),
            (["serve", "--brokers", "0"], "brokers: '0' is not a whole number from 1"),
            (["serve", "--as-version", "2.8"], "2.8"),
            (["serve", "--as-version", "next"], "next"),
            (["serve", "--nonsense"], "unrecognized arguments: --nonsense (see broker-sim serve --help)"),
            (["serve", "--prt", "9092"], "unrecognized arguments: --prt 9092; did you mean '--port'? (see"),
            (["serve", "--prt=9092"], "unrecognized arguments: --prt=9092; did you mean '--port'? (see"),
            (["serve", "--tpic=a", "--Port=1"], "--tpic=a --Port=1; did you mean '--topic' and '--port'? (see"),
            (
                ["clock", "--clustr", "c1"],
                "unrecognized arguments: --clustr; did you mean '--cluster'? (see broker-sim clock",
            ),
            (["--versoin"], "unrecognized arguments: --versoin; did you mean '--version'? (see broker-sim --help)"),
            (["nonsense"], "invalid choice: 'nonsense'"),
            (["where"], "the following arguments are required: GROUP"),
            (["where", "g", "--partitions", "0"], "'0' is not a whole number from 1"),
        ],
    )
    def test_arguments(self, arguments: list[str], text: str) -> None:
        self.tells(text, command(*arguments))

    def test_all_that_is_wrong_is_told_at_once(self) -> None:
        settings = ["--config", "num.partition=3", "--config", "log.roll.ms=soon"]
        done = command("serve", "--brokers", "many", "--port", "x", "--clock", "backwards", *settings)
        told = [line.removeprefix("broker-sim serve: ") for line in done.stderr.splitlines()]
        assert [line[:9] for line in told[:3]] == ["brokers: ", "port: 'x'", "no clock "]
        assert ["num.partitions" in told[3], "log.roll.ms" in told[4], len(told)] == [True, True, 5]
        assert (done.returncode, done.stdout) == (2, "")


class TestWhere:
    def test_names_the_partition(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["where", "billing"]) == 0
        assert re.fullmatch(r"__consumer_offsets-\d+\n", capsys.readouterr().out)

    def test_several_groups_stand_in_a_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["where", "a", "bb", "--partitions", "50"]) == 0
        assert capsys.readouterr().out == "a   __consumer_offsets-47\nbb  __consumer_offsets-36\n"

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["where", "a", "--partitions", "10", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"group": "a", "partitions": 10, "partition": 7}

    def test_a_group_without_a_name_has_a_partition_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["where", ""]) == 0
        assert capsys.readouterr().out == "__consumer_offsets-0\n"


@pytest.mark.parametrize("words", [[], ["serve"], ["where"], ["demo"]])
def test_every_help_has_examples(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "\nexamples:\n  broker-sim" in shown
    assert max(map(len, shown.splitlines())) <= 120


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "examples:" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from broker_sim import __version__

    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"broker-sim {__version__}\n"


def test_a_start_loads_little_that_is_not_its_own() -> None:
    """A start costs what its imports cost, in whatever time: beside the program itself no more than half of asyncio again. Behind the
    ready line it goes on with handlers, as many as there is time for until the signal: they are left out."""
    serve = "from broker_sim.requests import routes; routes.load_handlers = lambda: iter(())\n"
    serve += "from broker_sim.cli.main import main; main(['serve', '--no-uvloop'])"
    served = processes.start([sys.executable, "-X", "importtime", "-c", serve])
    processes.line(served, "the ready line")
    served.send_signal(signal.SIGTERM)
    imported = re.compile(r"^import time:.*\| +([\w.]+)$", re.MULTILINE)
    names = set(imported.findall(processes.finish(served, "serve to end")[1]))
    bare = set(imported.findall(processes.run([sys.executable, "-X", "importtime", "-c", "import asyncio"]).stderr))
    ours = {name for name in names if name.partition(".")[0] in ("broker_sim", "kafka_wire")}
    assert "asyncio" in bare
    assert len(names - ours - bare) <= len(bare) / 2
    assert len(ours) <= 205


@pytest.mark.parametrize(
    ("columns", "terminal", "width"),
    [("60", 100, 58), ("0", 100, 98), ("wide", None, 78), (None, 100, 98), (None, 0, 78), (None, None, 78)],
)
def test_help_is_as_wide_as_the_terminal(
    columns: str | None,
    terminal: int | None,
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """COLUMNS comes before the terminal; without either it is 80, of which argparse leaves two free."""

    def size(fd: int) -> os.terminal_size:
        if terminal is None:
            raise OSError("not a terminal")
        return os.terminal_size((terminal, 24))

    monkeypatch.setattr(os, "get_terminal_size", size)
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit):
        cli.main(["serve", "--help"])
    options = capsys.readouterr().out.partition("\noptions:\n")[2].partition("\nexamples:\n")[0]
    assert width - 12 < max(map(len, options.splitlines())) <= width


_LOADED_WHEN_READY = """
import builtins, os, sys

def shown(text, **options):
    assert text.startswith("broker-sim ready")
    sys.stdout.write(" ".join(sys.modules))
    sys.stdout.flush()
    os._exit(0)

builtins.print = shown
from broker_sim.cli.main import main
main(["serve", "--no-uvloop"])
"""


def test_the_bootstrap_line_waits_for_no_module_that_only_some_servers_need() -> None:
    """Each costs every start a millisecond or two: directories, compaction, Java's doubles, help as wide as a terminal, memory."""
    loaded = set(processes.run([sys.executable, "-c", _LOADED_WHEN_READY]).stdout.split())
    rare = {"bz2", "lzma", "shutil", "hashlib", "decimal", "ctypes", "sysconfig", "stringprep"}
    assert loaded & rare == set()
    assert (
        loaded & {f"broker_sim.{name}" for name in ("storage.cleaner", "metadata.saved_state", "api.blocked_loop")}
        == set()
    )
    assert sum(name.partition(".")[0] in ("broker_sim", "kafka_wire") for name in loaded) <= 97


def test_a_secured_server_names_its_certificate_authority(serve: type[Served], tmp_path: Path) -> None:
    """In a line behind the one that says that it is ready."""
    secured = (
        "--security-protocol",
        "SASL_SSL",
        "--user",
        "alice=secret",
        "--user",
        "bob=a=b",
        "--tls-dir",
        str(tmp_path),
    )
    served = serve(*secured)
    line = processes.line(served.process, "the line of TLS")
    assert line == f"broker-sim tls: ca={tmp_path}/ca.pem\n"

    async def ask() -> int:
        context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        host, _, port = served.bootstrap.rpartition(":")
        wire = Wire(*await asyncio.open_connection(host, int(port), ssl=context), "app")
        assert (await authenticate(wire, "bob", "a=b")).error_code == 0
        brokers = (await wire.send(MetadataRequest(), 9)).brokers
        await wire.close()
        return len(brokers)

    assert asyncio.run(ask()) == 1
    mechanisms = "PLAIN, SCRAM-SHA-512, SCRAM-SHA-256"
    said = f"broker-sim serve: security.protocol SASL_SSL; SASL mechanisms {mechanisms}\n"
    assert served.end(signal.SIGTERM) == (0, "", said)


def test_what_does_not_fit_a_secured_server(tmp_path: Path) -> None:
    done = command("serve", "--security-protocol", "SASL_SSL")
    assert (done.returncode, done.stdout) == (2, "")
    way_out = "as in --users-file FILE or --user alice=secret, or --config sasl.enabled.mechanisms=OAUTHBEARER\n"
    assert done.stderr == f"broker-sim serve: users: a SASL_SSL listener needs users, {way_out}"


def test_users_of_a_file_and_of_the_environment(
    serve: type[Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password may have blanks, '=' and '#'; --user comes before the file, and the file before the environment."""
    file = tmp_path / "users"
    file.write_bytes(b"# of the tests\n\nalice=secret\r\nbob= a=#b \ncarol=of the file\n")
    file.chmod(0o600)

    async def codes(served: Served, *pairs: tuple[str, str]) -> list[int]:
        result = []
        for name, password in pairs:
            wire = await Wire.connect(served.bootstrap)
            result.append((await authenticate(wire, name, password)).error_code)
            await wire.close()
        return result

    monkeypatch.setenv("BROKER_SIM_USERS", "dora=of the environment\nemil=x")
    sasl = ("--security-protocol", "SASL_PLAINTEXT")
    served = serve(*sasl, "--users-file", str(file), "--user", "carol=of the line")
    pairs = [("alice", "secret"), ("bob", " a=#b "), ("carol", "of the line"), ("emil", "x")]
    assert asyncio.run(codes(served, *pairs)) == [0, 0, 0, 58]
    served = serve(*sasl)
    assert asyncio.run(codes(served, ("dora", "of the environment"), ("emil", "x"))) == [0, 0]


@pytest.mark.parametrize("source", ["file", "environment"])
def test_errors_in_users_name_the_line_and_no_password(tmp_path: Path, source: str) -> None:
    text = (
        b"alice=secret-1\nsecret-2\n=secret-3\nbob=\n alice=secret-4\nalice=secret-5\ncarl=secret-\xff\ndora=\0secret\n"
    )
    file = tmp_path / "users"
    file.write_bytes(text)
    options = ("serve", "--security-protocol", "SASL_SSL")
    if source == "file":
        name, done = str(file), command(*options, "--users-file", str(file))
    else:
        name = "BROKER_SIM_USERS"
        done = command(*options, environment={name: text.replace(b"\0", b"\xfe").decode(errors="surrogateescape")})
    assert (done.returncode, done.stdout) == (2, "")
    told = [line.removeprefix(f"broker-sim serve: {name}:") for line in done.stderr.splitlines()]
    assert told == [
        *(f"{line}: not a user name, '=' and a password (expected e.g. alice=secret)" for line in (2, 3, 4)),
        "5: the user name ' alice' has blanks around it",
        "6: the user 'alice' of line 1 again; remove one of the two lines",
        *(f"{line}: not a line of text in UTF-8" for line in (7, 8)),
    ]


def test_a_users_file_that_can_not_be_read(tmp_path: Path) -> None:
    done = command("serve", "--security-protocol", "SASL_SSL", "--users-file", str(tmp_path / "none"))
    assert done.stderr == f"broker-sim serve: users file {tmp_path}/none: No such file or directory\n"
    (tmp_path / "large").write_bytes(b"#" * 1_048_577)
    done = command("serve", "--security-protocol", "SASL_SSL", "--users-file", str(tmp_path / "large"))
    assert (
        done.stderr == f"broker-sim serve: users file {tmp_path}/large is too large (expected at most 1048576 bytes)\n"
    )


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "ssl"])
def test_users_of_the_environment_for_a_listener_without_users(protocol: str) -> None:
    done = command("serve", "--security-protocol", protocol, environment={"BROKER_SIM_USERS": "alice=secret"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        f"broker-sim serve: BROKER_SIM_USERS: a {protocol.upper()} listener has no users (expected"
    )


def test_a_warning_about_secrets_that_others_can_read(serve: type[Served], tmp_path: Path) -> None:
    users, token = tmp_path / "users", tmp_path / "token"
    users.write_text("alice=secret")
    token.write_text("token")
    options = ("--security-protocol", "SASL_PLAINTEXT", "--users-file", str(users), "--control", "0")
    for mode, warned in ((0o644, True), (0o640, True), (0o600, False)):
        users.chmod(mode)
        token.chmod(mode)
        _, _, errors = serve(*options, "--control-token-file", str(token)).end(signal.SIGTERM)
        said = [line for line in errors.splitlines() if "can read" in line]
        pairs = (("--users-file", users), ("--control-token-file", token))
        warnings = [
            f"broker-sim serve: {option}: other users of the machine can read {path} (mode {mode:o}); chmod 600 {path}"
            for option, path in pairs
        ]
        assert said == (warnings if warned else [])


def test_a_user_without_a_name_or_a_password_is_not_shown() -> None:
    done = command("serve", "--security-protocol", "SASL_SSL", "--user", "=secret")
    assert (done.returncode, done.stdout, "secret'" in done.stderr) == (2, "", False)
    assert "argument --user: no name and password (expected e.g. alice=secret)" in done.stderr
