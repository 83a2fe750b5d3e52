"""The verbs ``broker-sim pipeline run``, ``watch`` and ``package``.

Rules:
1. stdout has the findings (``--json``: as JSON), stderr the progress and what went wrong.
2. Exit codes: 0 the report is written; 4 it is, and has a finding of those that ``--fail-on`` names; 2 wrong usage, no input, no Java;
   1 Spark itself failed; 130 interrupted.
3. A verb that lives elsewhere has a line in ``ELSEWHERE``; its module has ``register(verbs, name)`` as commands of `cli.main` do.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from broker_sim.common.commandline import BROKEN, DONE, USAGE, add_command, setting
from broker_sim.common.text import UsageError, duration_ms, visible
from broker_sim.pipeline.finding import KINDS, SEVERITIES, matching

ENGINES = ("auto", "duckdb", "spark")

__all__ = ["ELSEWHERE", "add_log_options", "add_verbs", "moment", "register", "run", "setting", "window"]

ELSEWHERE: dict[str, str] = {
    "watch": "broker_sim.pipeline.watch",
    "package": "broker_sim.pipeline.packaging",
}
"""Verb -> the module whose ``register(verbs, name)`` adds its parser."""

INTERRUPTED = 130
FOUND = 4

_EXAMPLES = """\
examples:
  broker-sim pipeline run --input ./kafka-data --out ./report
      the logs of a simulator's run (serve --data ./kafka-data --journal ./kafka-data/journal), with its journal
  broker-sim pipeline watch --input ./kafka-data
      the same, continuously
  broker-sim pipeline package pipelines.zip
      write an archive for spark-submit
"""

_RUN_EXAMPLES = """\
examples:
  broker-sim pipeline run --input ./kafka-data --out ./report
      a data directory of broker-sim; its journal is found beside or below it
  broker-sim pipeline run --input ./copied-from-broker-3 --out ./report
      copies of a real broker's __consumer_offsets-* directories; with those of other topics the lag is known
  broker-sim pipeline run --input ./kafka-data --journal ./journal --out ./report --overwrite
      a journal in another place; the output of an earlier run in ./report is replaced
  broker-sim pipeline run --input ./copied-from-broker-3 --broker-log /var/log/kafka --client-log ./billing.log --out ./report
      the same with what brokers and consumers logged: causes, refused appends, loads, failed commits
  broker-sim pipeline run --input ./copied-from-broker-3 --since 2026-11-24T09:00 --until 2026-11-24T10:00 --group 'eu-*' --out ./report
      an hour of some groups; earlier events are marked as such
  broker-sim pipeline run --journal ./journal --out ./report
      a journal alone
  broker-sim pipeline run --broker-log ./server.log --client-log ./billing.log --out ./report
      what a ticket has: logs alone
  broker-sim pipeline run --input ./copied-from-broker-3 --out ./report --fail-on bad --fail-on storm
      for a nightly job: exit code 4 for a finding of severity bad, or a rebalance storm
  broker-sim pipeline run --input s3a://logs/broker-3 --out ./report --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3.5.0
      from a bucket, with the credentials that Spark finds
  broker-sim pipeline run --input hdfs:///kafka-logs --out hdfs:///reports/monday --master yarn
      on a cluster

--out contains report.html, findings.txt, findings.json and tables/NAME/run_id=.../*.parquet.

exit codes: 0 the report is written, 1 Spark failed, 2 an invalid argument, no input, engine or Java 17, 4 a finding of --fail-on
"""


def register(commands: Any, name: str) -> None:
    """Add the parser with its verbs."""
    parser = add_command(
        commands,
        name,
        _help,
        description="Analyse the offsets logs of a simulated or a real cluster, and the journal: Parquet tables, a report with charts,"
        " and findings. Needs pip install 'broker-sim[pipeline]'; inputs of 4 GiB or more, `watch` and `package` need"
        " 'broker-sim[spark]' and Java 17.",
        epilog=_EXAMPLES,
    )
    add_verbs(parser)


def add_verbs(parser: argparse.ArgumentParser) -> None:
    """The verbs below a parser: that of ``broker-sim pipeline``, or the program's own on a cluster."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", parser_class=type(parser))
    _add_run(verbs)
    for name, module in ELSEWHERE.items():
        if importlib.util.find_spec(module) is None:
            continue
        add = getattr(importlib.import_module(module), "register", None)
        if add is not None:
            add(verbs, name)


def _help(arguments: argparse.Namespace) -> int:
    arguments.parser.print_help()
    return DONE


def _add_run(verbs: Any) -> None:
    # one list, in the order of --help: what is read, which part of it, what is written, what computes it
    verb = add_command(
        verbs,
        "run",
        run,
        help="write tables, report and findings of a data directory and its journal",
        description="Read __consumer_offsets and the journal, write tables and a report, print the findings.",
        epilog=_RUN_EXAMPLES,
    )
    add = verb.add_argument
    add("--input", metavar="DIR", help="data directory: the simulator's, or a copy of a real broker's")
    add("--journal", metavar="PATH", help="journal file or directory (default: the one in or beside --input)")
    add("--no-journal", action="store_true", help="read no journal")
    add_log_options(add)
    add(
        "--since",
        type=moment,
        metavar="TIME",
        help="ignore events that ended before this time, UTC: 2026-11-24T09:20:36, or ms since 1970",
    )
    add("--until", type=moment, metavar="TIME", help="ignore records after this time, as --since")
    add(
        "--group",
        metavar="GROUP",
        action="append",
        default=[],
        help="read only this group's records; repeatable, with *, ? and [..] (default: all groups)",
    )
    add("--out", metavar="DIR", required=True, help="directory of the tables and the report; created if missing")
    add("--overwrite", action="store_true", help="replace the output of an earlier run in --out")
    add("--run-id", metavar="ID", help="id of this run in the tables (default: the input directory's name)")
    add(
        "--window",
        type=window,
        metavar="TIME",
        help="length of a window of the table lag, as in 30s (default: a 240th of the time range)",
    )
    add(
        "--master",
        metavar="URL",
        help="Spark's master: local[2], spark://.., yarn, k8s://.. (default: local[*], or spark-submit's)",
    )
    add("--conf", **CONF)
    add(
        "--engine",
        default="auto",
        choices=ENGINES,
        help="engine of the tables: duckdb (in this process), spark, or auto (default): duckdb for inputs smaller than"
        " 4 GiB, spark for larger ones and with --master, --conf, a remote --input or --out",
    )
    add("--open", action="store_true", help="open the report in the browser")
    add("--json", action="store_true", help="print the findings as one JSON object on stdout")
    add(
        "--fail-on",
        action="append",
        default=[],
        choices=[*SEVERITIES, *KINDS],
        metavar="WHAT",
        help=f"exit code 4 for such a finding; repeatable: a severity, {', '.join(SEVERITIES)} (this one or worse), or a kind of"
        f" docs/pipeline.md: {', '.join(KINDS)}",
    )
    add("--quiet", action="store_true", help="print no progress on stderr")


def add_log_options(add: Callable[..., object]) -> None:
    """``--broker-log`` and ``--client-log``, of each command that reads logs."""
    add(
        "--broker-log",
        metavar="PATH",
        action="append",
        default=[],
        help="log file of a broker or controller, or a directory of them; repeatable",
    )
    add(
        "--client-log",
        metavar="PATH",
        action="append",
        default=[],
        help="logs of consumers (Java, librdkafka, aiokafka, kafka-python, kafkajs); repeatable",
    )


CONF: dict[str, Any] = {
    "type": setting("spark.driver.memory=4g"), "action": "append", "default": [], "metavar": "KEY=VALUE",
    "help": "a setting of Spark; repeatable",
}  # fmt: skip


def duration(text: str) -> int:
    """A length of time as an argument, in ms."""
    try:
        return duration_ms(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def moment(text: str) -> int:
    """A moment as an argument, in ms since 1970."""
    if re.fullmatch(r"\d{12,14}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time (expected 2026-11-24T09:20:36.434)") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def window(text: str) -> int:
    """As `duration`, and not 0."""
    ms = duration(text)
    if ms < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is too short for a window")
    return ms


def run(arguments: argparse.Namespace) -> int:
    """Run ``broker-sim pipeline run``. Returns the exit status."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:  # wherever it comes: while modules are loaded, as Spark starts, in a job
        sys.stderr.write("broker-sim pipeline run: interrupted\n")
        return INTERRUPTED


def _run(arguments: argparse.Namespace) -> int:
    from broker_sim.pipeline.progress import Steps, gateway_is_quiet
    from broker_sim.pipeline.run import JobFailed, RunOptions, pipeline
    from broker_sim.pipeline.scope import Scope

    try:
        scope = Scope(arguments.since, arguments.until, tuple(arguments.group))
    except UsageError as error:
        sys.stderr.write(f"broker-sim pipeline run: {error}\n")
        return USAGE
    options = RunOptions(
        scope=scope,
        input=arguments.input,
        journal=arguments.journal,
        look_for_journal=not arguments.no_journal,
        broker_logs=tuple(arguments.broker_log),
        client_logs=tuple(arguments.client_log),
        out=arguments.out,
        overwrite=arguments.overwrite,
        run_id=arguments.run_id,
        window_ms=arguments.window,
        master=arguments.master,
        conf=dict(arguments.conf),
        engine=arguments.engine,
    )
    try:
        with gateway_is_quiet():
            outcome = pipeline(options, Steps(sys.stderr, quiet=arguments.quiet))
    except UsageError as error:
        sys.stderr.write(f"broker-sim pipeline run: {error}\n")
        return USAGE
    except JobFailed as error:
        sys.stderr.write(f"broker-sim pipeline run: {error}\n")
        return BROKEN
    sys.stdout.write(json.dumps(outcome.to_dict()) + "\n" if arguments.json else outcome.text())
    if arguments.open:
        import webbrowser

        webbrowser.open(outcome.report)
    failing = matching(outcome.findings, arguments.fail_on)
    if failing:
        names = ", ".join(
            dict.fromkeys(f"{finding.kind} ({finding.group})" if finding.group else finding.kind for finding in failing)
        )
        sys.stderr.write(f"broker-sim pipeline run: --fail-on {' '.join(arguments.fail_on)}: {visible(names)}\n")
        return FOUND
    return DONE
