"""The command line: ``broker-sim serve``, and every other command by its name.

Rules:
1. stdout carries the answer and nothing else: for ``serve`` one line when clients can connect, in a form that never
   changes, ``broker-sim ready: bootstrap=HOST:PORT[,HOST:PORT...]``, after it with TLS ``broker-sim tls: ca=PATH`` and with
   ``--control`` ``broker-sim control: http://HOST:PORT``. Everything else goes to stderr.
2. What the user got wrong is one line on stderr and exit code 2. SIGINT and SIGTERM end ``serve`` with exit code 0.
3. Start-up time is part of the interface: a module is imported where it is used, and of the parsers that of the command
   alone is made. A command that lives elsewhere has a line in ``ELSEWHERE``.
"""

from __future__ import annotations

import argparse
import importlib
import io
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from broker_sim.common.commandline import Commands, Parser, add_command, complain, setting, warnings_as_lines
from broker_sim.common.text import UsageError, installing, visible, visible_lines

if TYPE_CHECKING:
    import asyncio

    from broker_sim.api.cluster import Cluster
    from broker_sim.control.http import ControlServer

READY = "broker-sim ready: bootstrap="
CONTROL = "broker-sim control: "
TLS = "broker-sim tls: ca="
LISTENER = "broker-sim listener: "

_CONTROL, _SCENARIO = "broker_sim.control.commands", "broker_sim.scenario.commands"
ELSEWHERE: dict[str, tuple[str, str]] = {
    "state": (_CONTROL, "set and clear a fault of a log partition"),
    "fault": (_CONTROL, "rules that make requests fail"),
    "clock": (_CONTROL, "show and advance the clock"),
    "group": (_CONTROL, "show groups, and wait for them"),
    "share": (_CONTROL, "show share groups and acquired records, release locks"),
    "transaction": (_CONTROL, "show transactional ids, wait for them, abort them"),
    "explain": (_CONTROL, "explain why a group rebalanced, who delayed it, how it ended"),
    "timeline": (_CONTROL, "draw the history of a group"),
    "journal": (_CONTROL, "read and follow recorded events"),
    "broker": (_CONTROL, "stop and start brokers"),
    "leader": (_CONTROL, "move partition leaders, and so coordinators"),
    "log": (_CONTROL, "show a log partition and the requests that wait for it"),
    "request": (_CONTROL, "requests that the brokers received"),
    "topic": (_CONTROL, "create, fill, grow and delete topics"),
    "order": (_CONTROL, "hold requests back and release them"),
    "cluster": (_CONTROL, "virtual clusters of a running process"),
    "run": (_SCENARIO, "run a scenario file"),
    "scenario": (_SCENARIO, "list and check scenario files, and run them on running brokers"),
    "simulate": ("broker_sim.simulation.commands", "run workloads in virtual time, for many seeds"),
    "explore": (
        "broker_sim.simulation.exhaustive.commands",
        "model-check the coordinator: all orders of events, to a depth",
    ),
    "pipeline": ("broker_sim.pipeline.commands", "tables and findings from offsets logs and a journal"),
    "reproduce": (
        "broker_sim.reproduce.commands",
        "a scenario and a test from an incident in a broker's log directory",
    ),
}
"""Command -> the module whose ``register(commands, name)`` adds its parser by `commandline.add_command`, and a line of help.

``spelled_out(words)`` of that module, if it has one, first turns a short form of the command into the full one.
"""

_SERVE_EXAMPLES = """\
examples:
  broker-sim serve
      one broker on a free port, in memory, with auto-created topics
  broker-sim serve --port 9092 --topic orders:6 --topic audit
      on port 9092, with the topic orders of 6 partitions and audit of num.partitions
  broker-sim serve --brokers 3 --port 9092 --data ./kafka-data
      brokers on 9092, 9093 and 9094; logs and groups are kept in ./kafka-data
  broker-sim serve --as-version 3.9 --config group.initial.rebalance.delay.ms=0
      behave as Kafka 3.9 (the Scala group coordinator), without the initial rebalance delay of 3 s
  broker-sim serve --security-protocol SASL_SSL --users-file ./users --tls-dir ./tls
      clients authenticate as users of ./users (lines like alice=secret) and trust ./tls/ca.pem, made at the first start
  broker-sim serve --port 9092 --advertised-listener PLAINTEXT://localhost:32768
      clients come through a proxy or a published port, and receive its address
  broker-sim serve --host 0.0.0.0 --port 9092 --advertised-host broker \\
      --listener EXTERNAL://:29092 --advertised-listener EXTERNAL://localhost:29092
      in a container: broker:9092 for clients in other containers, localhost:29092 for those on the host
  broker-sim serve --data ./copy-of-a-kafka-log-dir
      the topics, groups and offsets of a real Kafka, from its logs or from its __consumer_offsets-* directories alone
  broker-sim serve --import-describe ticket.txt
      the groups of an incident, from the output of kafka-consumer-groups --describe
  broker-sim serve --control 9099 --topic orders:6
      controlled from another terminal: broker-sim state 'offsets(billing)' stuck --for 40s
  broker-sim serve > ready & until grep -q ready: ready; do sleep 0.1; done; BOOTSTRAP=$(sed s/.*=// ready)
      wait for the broker in a script
"""

_WHERE_EXAMPLES = """\
examples:
  broker-sim where billing
      the partition of the group billing, of the default 50
  broker-sim where billing audit shop --partitions 12
      several groups; groups with the same partition share a coordinator
  broker-sim where billing --json
      {"group": "billing", "partitions": 50, "partition": 7}, one line for each group
"""


_DEMO_EXAMPLES = """\
examples:
  broker-sim demo
      a few seconds; exit code 1 if one of its checks fails
  broker-sim demo --as-version 3.9 --data ./demo-data
      with the older group coordinator; the logs stay in ./demo-data
"""


_COMPLETION_EXAMPLES = """\
examples:
  eval "$(broker-sim completion bash)"
      in ~/.bashrc; the same with zsh in ~/.zshrc
  broker-sim completion fish > ~/.config/fish/completions/broker-sim.fish
      for fish
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. Exits with code 2 for arguments that are wrong."""
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            errors="replace"
        )  # Windows writes files and pipes in a code page that has no box-drawing characters
    try:
        if words[:2] == ["completion", "--words"]:
            return _complete(words[2:])
        arguments = parse(words)
        if arguments.command is None:
            arguments.parser.print_help()
            return 0
        with warnings_as_lines(f"broker-sim {arguments.command}"):
            code: int = arguments.run(arguments)
        sys.stdout.flush()
    except ModuleNotFoundError as missing:  # of an extra: the rest works without it
        remedy = installing(missing.name)
        if remedy is None:
            raise
        command = " ".join(["broker-sim", *itertools.takewhile(str.isalpha, words)][:3])
        print(f"{command}: it needs {missing.name}, which is not installed: {remedy}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of stdout closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command, with ``run``. Exits with code 2 for what it doesn't know."""
    words = list(argv)
    if words and words[0] in ELSEWHERE:
        spelled_out = getattr(importlib.import_module(ELSEWHERE[words[0]][0]), "spelled_out", None)
        words = spelled_out(words) if spelled_out is not None else words
    parser = _parser(words)
    arguments, rest = parser.parse_known_args(words)
    if arguments.command is None:
        arguments.parser = parser
    wrong = [word for word in rest if word.startswith("-") or not hasattr(arguments, "words")]
    if wrong:
        arguments.parser.unrecognized(wrong)
    if rest:
        arguments.words += rest  # argparse takes words behind an option for strangers
    return arguments


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; of the commands only the one that ``words`` begins with knows its arguments."""
    parser = Parser(
        prog="broker-sim",
        description="A Kafka broker simulator: real clients of any language use it as they use Kafka.",
        epilog="examples:\n  broker-sim serve --port 9092 --topic orders:6\n  broker-sim where billing --partitions 50\n"
        "  broker-sim state 'offsets(billing)' stuck --for 40s\n",
    )
    parser.add_argument("--version", action="version", version=f"broker-sim {_version()}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", description=_grouped(), parser_class=Parser
    )
    asked = next((word for word in words if not word.startswith("-")), None)
    if asked in _HERE:
        _HERE[asked][0](commands)
    elif asked in ELSEWHERE:
        importlib.import_module(ELSEWHERE[asked][0]).register(commands, asked)
    other, *others = (name for name in (*_HERE, *ELSEWHERE) if name != asked)
    commands.add_parser(other, aliases=others, add_help=False)  # known, so that an unknown one's error lists them
    return parser


_GROUPS = {
    "brokers": ("serve", "demo"),
    "faults in running brokers (serve --control)": ("state", "fault", "order", "broker", "leader", "clock"),
    "state of running brokers (serve --control)": (
        "group",
        "share",
        "transaction",
        "explain",
        "timeline",
        "journal",
        "request",
        "topic",
        "log",
        "cluster",
    ),
    "scenarios and simulation": ("run", "scenario", "simulate", "explore", "reproduce"),
    "analysis and tools": ("pipeline", "where", "completion"),
}
"""Headings and order of the commands in the help."""


def _grouped() -> str:
    texts = {name: text for known in (_HERE, ELSEWHERE) for name, (_, text) in known.items()}
    width = max(map(len, texts))
    groups = [
        f"{title}:\n" + "\n".join(f"  {name:<{width}}  {texts[name]}" for name in names)
        for title, names in _GROUPS.items()
    ]
    return "\n\n".join(groups)


_REPEATABLE: dict[str, Any] = {"action": "append", "default": []}


def _add_listeners(add: Callable[..., object]) -> None:
    add("--host", help="address to listen on (default: 127.0.0.1)")
    add("--advertised-host", metavar="HOST", help="host in the advertised listeners (default: --host)")
    add("--port", help="port of the first broker; the others use the next ones (default: free ports)")
    named = {**_REPEATABLE, "metavar": "NAME://HOST:PORT"}
    add("--listener", **named, help="also listen on this address (no host: that of --host); repeatable")
    add(
        "--advertised-listener",
        **named,
        help="address that clients of a listener receive (default: its own); repeatable",
    )


def _add_serve(commands: Commands) -> None:
    from broker_sim.cli import security

    # options in the order of --help; most have no type, since `Cluster` checks them and reports all errors together
    serve = add_command(
        commands,
        "serve",
        _serve,
        description="Run brokers until interrupted. When clients can connect, one line is printed:\n\n"
        f"  {READY}127.0.0.1:9092",
        epilog=_SERVE_EXAMPLES,
    )
    add = serve.add_argument
    _add_listeners(add)
    add(
        "--from-env",
        action="store_true",
        help="also take settings from variables such as KAFKA_ADVERTISED_LISTENERS, and listen, as images of Kafka do",
    )
    add("--rack", **_REPEATABLE, help="rack of a broker, in turn; repeatable")
    add("--brokers", default=1, metavar="N", help="number of brokers, node ids from 1 (default: 1)")
    add("--topic", type=_topic, **_REPEATABLE, metavar="NAME[:PARTITIONS]", help="create a topic; repeatable")
    add("--data", metavar="DIR", help="keep logs in this directory; an existing one is loaded (default: in memory)")
    add(
        "--import-describe",
        **_REPEATABLE,
        metavar="FILE",
        help="load groups from a file: output of kafka-consumer-groups --describe, rpk or kcl group describe, or JSON; repeatable",
    )
    add(
        "--internal-topics",
        choices=("on-demand", "at-start"),
        default="on-demand",
        help="when __consumer_offsets and the other internal topics are created: at the first request that needs one, as in Kafka, "
        "or at the start (default: %(default)s)",
    )
    add("--sync", action="store_true", help="call fsync before an append is acknowledged")
    security.add_options(add)
    add(
        "--as-version",
        default="4.1",
        metavar="X.Y",
        help="the Kafka release to behave as, 3.4 and up (default: %(default)s)",
    )
    taken = setting("num.partitions=3")
    add("--config", type=taken, **_REPEATABLE, metavar="KEY=VALUE", help="a broker setting; repeatable")
    add("--log-level", choices=("debug", "info", "warning", "error"), default="warning", help="(default: %(default)s)")
    add(
        "--until-eof",
        action="store_true",
        help="also stop at the end of standard input, so with the program that started this one",
    )
    add("--no-uvloop", action="store_true", help="use asyncio's event loop even if uvloop is installed")
    add(
        "--control",
        type=_address,
        metavar="[HOST:]PORT",
        help="serve HTTP/JSON for the commands fault, state, group, ... and for tests in any language (0: a free port)",
    )
    add(
        "--control-token-file",
        metavar="FILE",
        help="file with the bearer token that control requests must send (default: BROKER_SIM_CONTROL_TOKEN in the environment)",
    )
    add("--journal", metavar="DIR", help="record events in files of this directory, one JSON object per line")
    add("--clock", default="real", metavar="MODE", help="real, scaled:10 (ten times as fast) or manual (default: real)")
    add("--seed", type=int, metavar="N", help="seed of the random numbers (default: a different one each time)")
    add("--cluster-id", metavar="ID", help="id of a new cluster, as of `kafka-storage format` (default: a random one)")


def _add_where(commands: Commands) -> None:
    where = add_command(
        commands,
        "where",
        _where,
        description="Print the partition of __consumer_offsets that stores a group; its leader is the group's coordinator.",
        epilog=_WHERE_EXAMPLES,
    )
    where.add_argument("group", nargs="+", metavar="GROUP", help="a group id")
    where.add_argument(
        "--partitions", type=_count, default=50, metavar="N", help="offsets.topic.num.partitions (default: %(default)s)"
    )
    where.add_argument("--json", action="store_true", help="one JSON object a line")


def _add_demo(commands: Commands) -> None:
    demo = add_command(
        commands,
        "demo",
        _demo,
        description="Real aiokafka consumers share a topic as one group; one crashes; the broker is killed and comes back.",
        epilog=_DEMO_EXAMPLES,
    )
    demo.add_argument("--data", metavar="DIR", help="keep logs and data in this directory (default: a temporary one)")
    demo.add_argument(
        "--as-version", default="4.1", metavar="X.Y", help="the Kafka release to behave as (default: %(default)s)"
    )


def _add_completion(commands: Commands) -> None:
    from broker_sim.cli.completion import SHELLS

    completion = add_command(
        commands,
        "completion",
        _completion,
        description="Print the script that lets a shell complete broker-sim's commands, options and scenarios.",
        epilog=_COMPLETION_EXAMPLES,
    )
    completion.add_argument("shell", choices=tuple(SHELLS), help="which shell")


_HERE: dict[str, tuple[Callable[[Any], None], str]] = {
    "serve": (_add_serve, "run brokers until interrupted"),
    "where": (_add_where, "print the offsets partition of a group"),
    "demo": (_add_demo, "show a group of real consumers through a crash and a kill of the broker"),
    "completion": (_add_completion, "print a completion script for a shell"),
}


def _version() -> str:
    from broker_sim import __version__

    return __version__


# --- arguments ----------------------------------------------------------------------------------------------------------


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, a number from 0 to 65535")
    return int(text)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]") or "127.0.0.1", _port(port)


def _count(text: str) -> int:
    from broker_sim.fields.kinds import Count

    try:
        return Count(1).read(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.partition(":")
    if not name or (colon and (not partitions.isdigit() or int(partitions) < 1)):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME or NAME:PARTITIONS, as in orders:6")
    return name, int(partitions) if colon else -1


# --- commands -----------------------------------------------------------------------------------------------------------


def _where(arguments: argparse.Namespace) -> int:
    from broker_sim.storage.partition_for import partition_for

    width = max(map(len, arguments.group))
    for group in arguments.group:
        partition = partition_for(group, arguments.partitions)
        if arguments.json:
            import json

            print(json.dumps({"group": group, "partitions": arguments.partitions, "partition": partition}))
        elif len(arguments.group) == 1:
            print(f"__consumer_offsets-{partition}")
        else:
            print(f"{group:<{width}}  __consumer_offsets-{partition}")
    return 0


def _completion(arguments: argparse.Namespace) -> int:
    from broker_sim.cli.completion import SHELLS

    print(SHELLS[arguments.shell], end="")
    return 0


def _complete(words: Sequence[str]) -> int:
    """Print the completions of the last word, a line each."""
    from broker_sim.cli.completion import candidates

    def more(command: str) -> list[str]:
        if command not in ("run", "scenario"):
            return []
        from broker_sim.scenario.commands import shipped

        return [path.stem for path in shipped().glob("*.yaml")]

    for candidate in candidates(_parser(words), words, more):
        print(candidate)
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from broker_sim.config.settings import ConfigError, parse_release
    from broker_sim.demo import play

    try:
        parse_release(arguments.as_version)
    except ConfigError as error:
        complain("broker-sim demo", f"--as-version: {error}")
        return 2
    return play(arguments.data, arguments.as_version)


def _serve(arguments: argparse.Namespace) -> int:
    import asyncio
    import logging

    from broker_sim.api.cluster import Cluster, ClusterError
    from broker_sim.cli import process, security

    class Visible(logging.Formatter):
        """Nothing that a client chose does something to a terminal."""

        def format(self, record: logging.LogRecord) -> str:
            return visible_lines(super().format(record))

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Visible("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=arguments.log_level.upper(), handlers=[handler])
    process.allow_many_connections()
    try:
        if arguments.from_env:
            from broker_sim.cli import environment

            environment.apply(arguments, os.environ)
        cluster = Cluster(
            arguments.brokers,
            dict(arguments.topic),
            as_version=arguments.as_version,
            config=dict(arguments.config),
            data_dir=arguments.data,
            sync=arguments.sync,
            internal_topics=arguments.internal_topics,
            host=arguments.host,
            port=arguments.port,
            advertised_host=arguments.advertised_host,
            listeners=arguments.listener,
            advertised_listeners=arguments.advertised_listener,
            racks=arguments.rack,
            security_protocol=arguments.security_protocol,
            users=security.users(arguments),
            tls_dir=arguments.tls_dir,
            **_incidents(arguments),
        )
        control = None if arguments.control is None else _control(cluster, arguments)
        for line in security.open_to_others(arguments):
            complain("broker-sim serve", line)
        loop_factory = None if arguments.no_uvloop else _uvloop_factory()
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(_serve_until_signal(cluster, control, arguments))
    except (ClusterError, UsageError) as error:
        complain("broker-sim serve", security.by_options(error))
        return 2
    return 0


def _at_eof(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Set ``stop`` when standard input is closed: the parent process holds its other end, and closes it however it ends."""
    import contextlib

    while os.read(0, 65_536):
        pass
    with contextlib.suppress(RuntimeError):  # the loop has ended before
        loop.call_soon_threadsafe(stop.set)


def _incidents(arguments: argparse.Namespace) -> dict[str, Any]:
    """Arguments of a cluster for incidents (clock, seed, journal, cluster id), those that the options set."""
    journal = arguments.journal or arguments.control is not None
    clock = None if arguments.clock == "real" else arguments.clock
    given = {"clock": clock, "seed": arguments.seed, "journal": journal or None, "cluster_id": arguments.cluster_id}
    return {name: value for name, value in given.items() if value is not None}


def _control(cluster: Cluster, arguments: argparse.Namespace) -> ControlServer:
    """The control server that --control asks for, not started yet. Raises UsageError."""
    from pathlib import Path

    from broker_sim.control import token

    try:
        from broker_sim.control import http
    except ImportError as error:
        raise UsageError(str(error)) from None
    host, port = arguments.control
    secret = token.for_address(host, arguments.control_token_file)
    data_root = None if arguments.data is None else Path(arguments.data)
    return http.ControlServer(cluster, host, port, token=secret, data_root=data_root)


def _import(cluster: Cluster, files: Sequence[str]) -> None:
    """Import groups from output of ``kafka-consumer-groups`` or JSON, and print a line for each on stderr. Raises UsageError."""
    from broker_sim.migration import group_import

    for line in group_import.apply(cluster.state, cluster.runtime, group_import.read_files(files)):
        print(f"imported {visible(line)}", file=sys.stderr)


async def _serve_until_signal(cluster: Cluster, control: ControlServer | None, arguments: argparse.Namespace) -> None:
    import asyncio
    import threading

    from broker_sim.cli import process, security
    from broker_sim.config.settings import has_tls

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    process.stop_on_signals(loop, stop)
    if arguments.until_eof:
        threading.Thread(target=_at_eof, args=(loop, stop), daemon=True, name="stdin").start()
    await cluster.start()  # `async with` watches for users' code that blocks the loop; on this loop there is none
    try:
        if arguments.import_describe:
            _import(cluster, arguments.import_describe)
        if control is not None:
            await control.start()
        print(f"{READY}{cluster.bootstrap}", flush=True)
        for name in cluster.listener_names[1:]:
            print(f"{LISTENER}{name}={cluster.bootstrap_of(name)}", flush=True)
        if arguments.from_env:
            from broker_sim.cli import environment

            print(*environment.start_lines(cluster), sep="\n", flush=True)
        if has_tls(cluster.state.security_protocol):
            print(f"{TLS}{cluster.security.ca_file}", flush=True)
        if control is not None:
            print(f"{CONTROL}{control.url}", flush=True)
        if cluster.state.security_protocol != "PLAINTEXT":
            complain("broker-sim serve", security.summary_of(cluster))
        process.prepare(cluster, loop)
        try:
            await stop.wait()
        finally:
            if control is not None:
                await control.stop()
    finally:
        await cluster.stop()


def _uvloop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return factory
