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
      tables, report and findings of a running cluster; Ctrl-C computes the tables once more and ends; the same command resumes
  broker-sim pipeline watch --input ./kafka-data --out ./watched --for 10min
      for ten minutes
  broker-sim pipeline watch --input ./kafka-data --out ./watched --for 0s
      what was added since the last run, then end: for cron
  broker-sim pipeline watch --input /var/kafka --broker-log /var/log/kafka --client-log /var/log/billing --out ./watched
      a real broker on this machine, with its log and its consumers' logs: causes, refused appends, failed commits
  broker-sim pipeline watch --input ./kafka-data --out ./watched --metrics 9404
      lag, rebalances, stuck partitions and findings at http://127.0.0.1:9404/metrics, for Prometheus

--out contains the output of `run`; tables/events and tables/offset_log get a directory for each batch.

exit codes: 0 ended by Ctrl-C or --for, 1 Spark failed, 2 an invalid argument, or an --out that is not of this watch
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
    add("--journal", metavar="PATH", help="journal file or directory (default: the one in or beside --input)")
    add_log_options(add)
    add(
        "--out",
        metavar="DIR",
        required=True,
        help="directory of the tables and the report; created if missing, resumed if it is of an earlier watch",
    )
    add("--checkpoint", metavar="DIR", help="directory of Spark's checkpoint (default: OUT/checkpoint)")
    add(
        "--every",
        type=duration,
        default=1000,
        metavar="TIME",
        help="time between batches, as in 500ms or 1m (default: 1s)",
    )
    add(
        "--for",
        dest="for_ms",
        type=duration,
        metavar="TIME",
        help="end after this time; 0s: when the present input has been read (default: at Ctrl-C)",
    )
    add(
        "--retries",
        type=_retries,
        default=10,
        metavar="N",
        help="consecutive failures of Spark after which the watch ends (default: 10)",
    )
    add(
        "--metrics",
        type=_address,
        metavar="[HOST:]PORT",
        help="serve Prometheus metrics at /metrics on this address (default host: 127.0.0.1)",
    )
    add("--run-id", metavar="ID", help="id of this run in the tables (default: the input directory's name)")
    add("--master", metavar="URL", help="Spark's master (default: local[*], or spark-submit's)")
    add("--conf", **CONF)
    add("--quiet", action="store_true", help="print findings only")


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
