"""The command line: ``broker-sim serve``, ``broker-sim where`` and ``broker-sim demo``.

Rules:
1. stdout carries the answer and nothing else: for ``serve`` one line when clients can connect, in a form that never
   changes, ``broker-sim ready: bootstrap=HOST:PORT[,HOST:PORT...]``. Everything else goes to stderr.
2. What the user got wrong is one line on stderr and exit code 2. SIGINT and SIGTERM end ``serve`` with exit code 0.
3. Start-up time is part of the interface: a module is imported where it is used.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import asyncio

    from broker_sim.cluster import Cluster

READY = "broker-sim ready: bootstrap="

_SERVE_EXAMPLES = """\
examples:
  broker-sim serve
      one broker on a free port, everything in memory, topics created as they are asked for
  broker-sim serve --port 9092 --topic orders:6 --topic audit
      on port 9092, with the topic orders of 6 partitions and audit of num.partitions
  broker-sim serve --brokers 3 --port 9092 --data ./kafka-data
      brokers on 9092, 9093 and 9094; logs and groups are kept in ./kafka-data
  broker-sim serve --as-version 3.9 --config group.initial.rebalance.delay.ms=0
      behave as Kafka 3.9 (the older group coordinator); groups form without the usual 3 s
  broker-sim serve --data ./copy-of-a-kafka-log-dir
      the topics, groups and offsets of a real Kafka, from its logs or from its __consumer_offsets-* directories alone
  broker-sim serve --import-describe ticket.txt
      the groups of an incident, from the output of kafka-consumer-groups --describe
  broker-sim serve > ready & until grep -q ready: ready; do sleep 0.1; done; BOOTSTRAP=$(sed s/.*=// ready)
      wait for the broker in a script
"""

_WHERE_EXAMPLES = """\
examples:
  broker-sim where billing
      the partition of __consumer_offsets that the group billing lives in, of the usual 50
  broker-sim where billing audit shop --partitions 12
      several groups; those with the same partition share its coordinator, and its troubles
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


class _Parser(argparse.ArgumentParser):
    """Errors are one line, not the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. Exits with code 2 for arguments that are wrong."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 0
    return {"serve": _serve, "where": _where, "demo": _demo}[arguments.command](arguments)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="broker-sim",
        description="A Kafka broker simulator: real clients of any language use it as they use Kafka.",
        epilog="examples:\n  broker-sim serve --port 9092 --topic orders:6\n  broker-sim where billing --partitions 50\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"broker-sim {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    serve = commands.add_parser(
        "serve",
        help="run brokers until interrupted",
        description="Run brokers until interrupted. When clients can connect, one line is printed:\n\n"
        f"  {READY}127.0.0.1:9092",
        epilog=_SERVE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = serve.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--advertised-host", metavar="HOST", help="what clients are told to connect to (default: --host)")
    add(
        "--port",
        type=_port,
        default=0,
        help="port of the first broker, the others take the next ones (default: free ones)",
    )
    add("--brokers", type=_count, default=1, metavar="N", help="number of brokers, node ids from 1 (default: 1)")
    add(
        "--topic",
        type=_topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="create a topic; repeatable",
    )
    add("--data", metavar="DIR", help="keep logs in this directory and go on where they end (default: in memory)")
    add(
        "--import-describe",
        metavar="FILE",
        action="append",
        default=[],
        help="begin with the groups of a file: what kafka-consumer-groups --describe printed, or JSON; repeatable",
    )
    add("--sync", action="store_true", help="force data to the disk before it is acknowledged")
    add("--as-version", default="4.1", metavar="X.Y", help="the Kafka to behave as, 3.4 and up (default: %(default)s)")
    add(
        "--config", type=_setting, action="append", default=[], metavar="KEY=VALUE", help="a broker setting; repeatable"
    )
    add("--log-level", choices=("debug", "info", "warning", "error"), default="warning", help="(default: %(default)s)")
    add("--no-uvloop", action="store_true", help="use asyncio's own event loop even where uvloop is installed")
    where = commands.add_parser(
        "where",
        help="tell the offsets partition of a group",
        description="Tell in which partition of __consumer_offsets a group lives; its leader is the group's coordinator.",
        epilog=_WHERE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where.add_argument("group", nargs="+", metavar="GROUP", help="a group id")
    where.add_argument(
        "--partitions", type=_count, default=50, metavar="N", help="offsets.topic.num.partitions (default: %(default)s)"
    )
    where.add_argument("--json", action="store_true", help="one JSON object a line")
    demo = commands.add_parser(
        "demo",
        help="show a group of real consumers through a crash and a kill of the broker",
        description="Real aiokafka consumers share a topic as one group; one crashes; the broker is killed and comes back.",
        epilog=_DEMO_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    demo.add_argument("--data", metavar="DIR", help="keep logs and data in this directory (default: a temporary one)")
    demo.add_argument(
        "--as-version", default="4.1", metavar="X.Y", help="the Kafka to behave as (default: %(default)s)"
    )
    return parser


def _version() -> str:
    from broker_sim import __version__

    return __version__


# --- arguments ----------------------------------------------------------------------------------------------------------


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, a number from 0 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.partition(":")
    if not name or (colon and (not partitions.isdigit() or int(partitions) < 1)):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME or NAME:PARTITIONS, as in orders:6")
    return name, int(partitions) if colon else -1


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, as in num.partitions=3")
    return name, value


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


def _demo(arguments: argparse.Namespace) -> int:
    from broker_sim.demo import play

    return play(arguments.data, arguments.as_version)


def _serve(arguments: argparse.Namespace) -> int:
    import asyncio
    import logging

    from broker_sim.cluster import Cluster, ClusterError
    from broker_sim.memory import keep_freed
    from broker_sim.words import UsageError

    logging.basicConfig(
        level=arguments.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    _allow_many_connections()
    keep_freed()
    try:
        cluster = Cluster(
            arguments.brokers,
            dict(arguments.topic),
            as_version=arguments.as_version,
            config=dict(arguments.config),
            data_dir=arguments.data,
            sync=arguments.sync,
            host=arguments.host,
            port=arguments.port,
            advertised_host=arguments.advertised_host,
        )
        loop_factory = None if arguments.no_uvloop else _uvloop_factory()
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(_serve_until_signal(cluster, arguments.import_describe))
    except (ClusterError, UsageError) as error:
        print(f"broker-sim serve: {error}", file=sys.stderr)
        return 2
    return 0


def _import(cluster: Cluster, files: Sequence[str]) -> None:
    """Groups from outside; what became of each is told on stderr. Raises UsageError."""
    from broker_sim import importing

    for line in importing.apply(cluster.state, cluster.runtime, importing.read_files(files)):
        print(f"imported {line}", file=sys.stderr)


async def _serve_until_signal(cluster: Cluster, import_files: Sequence[str] = ()) -> None:
    import asyncio
    import signal

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with cluster:
        if import_files:
            _import(cluster, import_files)
        print(f"{READY}{cluster.bootstrap}", flush=True)
        loop.call_soon(lambda: cluster.runtime)  # made now, while the client starts, rather than in its first request
        await stop.wait()


def _uvloop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return factory


def _allow_many_connections() -> None:
    """A connection is a file descriptor; the usual soft limit of 1,024 is not what ends a broker's service."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
