"""The verb ``broker-sim pipeline watch``: `run` repeated while data arrives. `watching.py` implements it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from broker_sim.common.commandline import BROKEN, DONE, USAGE, add_command
from broker_sim.common.text import UsageError
from broker_sim.pipeline.commands import CONF, add_log_options, duration
from broker_sim.pipeline.metrics import address

__all__ = ["register", "watch"]

_EXAMPLES = """\
examples:
  broker-sim serve --data ./kafka-data --journal ./kafka-data/journal &
  broker-sim pipeline watch --input ./kafka-data --out ./watched
      tables, report and findings that keep up; Ctrl-C ends it, after the tables are made once more; the same command goes on
  broker-sim pipeline watch --input ./kafka-data --out ./watched --for 10min
      for a while
  broker-sim pipeline watch --input ./kafka-data --out ./watched --for 0s
      what has come since the last time, then end: for cron
  broker-sim pipeline watch --input /var/kafka --broker-log /var/log/kafka --client-log /var/log/billing --out ./watched
      a real broker on this machine, with what it and its consumers log: causes, refused appends, failed commits
  broker-sim pipeline watch --input ./kafka-data --out ./watched --metrics 9404
      lag, rebalances, stuck partitions and findings at http://127.0.0.1:9404/metrics, for Prometheus

OUT gets what `run` writes; tables/events and tables/offset_log grow by a folder with each batch.

exit codes: 0 it was ended, 1 Spark failed, 2 a wrong argument, or an OUT that belongs to something else
"""


def register(verbs: Any, name: str) -> None:
    """Add the parser of this verb to those of ``broker-sim pipeline``."""
    verb = add_command(
        verbs,
        name,
        watch,
        help="the same continuously, while the cluster runs",
        description="Follow a journal and __consumer_offsets: append to the tables and print each finding as it appears.",
        epilog=_EXAMPLES,
    )
    add = verb.add_argument
    add("--input", metavar="DIR", help="data directory: the simulator's, or that of a broker on this machine")
    add("--journal", metavar="PATH", help="journal file or folder (default: the one in or beside --input)")
    add_log_options(add)
    add("--out", metavar="DIR", required=True, help="where tables and report go; a watch that was ended goes on in it")
    add("--checkpoint", metavar="DIR", help="where the streams keep how far they are (default: OUT/checkpoint)")
    add(
        "--every",
        type=duration,
        default=1000,
        metavar="TIME",
        help="a batch so often, if there is anything new (default: 1s)",
    )
    add(
        "--for",
        dest="for_ms",
        type=duration,
        metavar="TIME",
        help="end after that time; 0s: when what is there has been read",
    )
    add(
        "--retries",
        type=_retries,
        default=10,
        metavar="N",
        help="how often Spark may fail in a row before the watch ends (default: 10)",
    )
    add(
        "--metrics",
        type=_address,
        metavar="[HOST:]PORT",
        help="serve Prometheus metrics on this address (default host: loopback)",
    )
    add("--run-id", metavar="ID", help="name of this run in the tables (default: the input folder's name)")
    add("--master", metavar="URL", help="Spark's master (default: local[*], or spark-submit's)")
    add("--conf", **CONF)
    add("--quiet", action="store_true", help="no progress, findings alone")


def _address(text: str) -> tuple[str, int]:
    try:
        return address(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error).partition(": ")[2]) from None


def _retries(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def watch(arguments: argparse.Namespace) -> int:
    """See ``broker-sim pipeline watch --help``."""
    from broker_sim.pipeline.progress import Steps, gateway_is_quiet
    from broker_sim.pipeline.run import JobFailed
    from broker_sim.pipeline.streams import StreamFailed
    from broker_sim.pipeline.watching import PipelineWatch, WatchOptions

    options = WatchOptions(
        out=arguments.out,
        input=arguments.input,
        journal=arguments.journal,
        broker_logs=tuple(arguments.broker_log),
        client_logs=tuple(arguments.client_log),
        checkpoint=arguments.checkpoint,
        every_ms=max(arguments.every, 100),
        for_ms=arguments.for_ms,
        retries=arguments.retries,
        metrics=arguments.metrics,
        run_id=arguments.run_id,
        master=arguments.master,
        conf=dict(arguments.conf),
    )
    try:
        with gateway_is_quiet():
            PipelineWatch(options, _print, Steps(sys.stderr, quiet=arguments.quiet)).run()
    except KeyboardInterrupt:  # before anything began, or asked twice: the next start goes on all the same
        return DONE
    except UsageError as error:
        sys.stderr.write(f"broker-sim pipeline watch: {error}\n")
        return USAGE
    except (JobFailed, StreamFailed) as error:
        sys.stderr.write(f"broker-sim pipeline watch: {error}\n")
        return BROKEN
    return DONE


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
