"""The verb ``broker-sim simulate``: many seeds in virtual time, and what they find."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import os
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from broker_sim.common.commandline import BROKEN, DONE, USAGE, Commands, add_command, seeds, terminable, whole
from broker_sim.common.text import UsageError, duration_ms, duration_text, unknown

if TYPE_CHECKING:
    from broker_sim.simulation.sweeps.sweep import Failure, SweepOptions, SweepSummary
    from broker_sim.simulation.sweeps.trial import Case

__all__ = ["register", "simulate"]

_EXAMPLES = """\
examples:
  broker-sim simulate --seeds 0..1000 --jobs 2
      a thousand runs, each with the faults that its seed draws
  broker-sim simulate static auto --seeds 0..200 --shrink --corpus ./found
      two workloads; failures are reduced, stored, and run again by the next sweep
  broker-sim simulate --replay found/group-not-alive-lag-17.json
      repeat one of them, with the history of its group
  broker-sim simulate --replay found/group-not-alive-lag-17.json --until 12.3s --shell
      open a prompt at that time; step forwards and backwards from there

  broker-sim simulate hostile --seeds 0..100000 --seconds 10 --for 10m --rows runs.jsonl
      ten minutes, one JSON line per run; the same command continues after the last one
  broker-sim simulate group --seeds 0..1000000 --engine spark --master spark://HOST:7077 --out hdfs:///sweep --shrink
      a million seeds on a cluster; the results as a table
  broker-sim simulate incident.yaml --seeds 0..1000
      a scenario file with each seed; prints those that fail

workloads:
  group        three aiokafka consumers that commit after each batch; alone: on one broker
  auto, static, sticky, several, pattern, assigned
               auto-commit; instance ids; five slow ones; three groups; subscription by pattern; assign() and commit
  admin        while topics and groups are made, grown, described, reset and deleted
  idempotent   an idempotent producer
  mixed        aiokafka members, and in their group a client that breaks all rules; hostile: members on the wire protocol with it
  cooperative  members that rebalance cooperatively
  consumer-groups, share-groups, streams-groups
               members of such groups on the wire protocol
  transactions clients that write in transactions, read with both isolation levels, and check what they read
  bank         aiokafka consumers that read, process and write in transactions; tellers: the same on the wire protocol
  logs, topics, lives
               clients that check each response about records, about topics, about their groups
  disk, power  brokers with logs on disk whose process is killed, whose machine loses power; kept: logs and lives with killed brokers

exit codes: 0 no failure, 1 failures, 2 invalid argument or file
"""

_BAR = 30
"""Characters of the progress bar."""

_LONG_S = 100 * 3600
"""A longer duration is not printed."""

_WIDE = 110
_KEPT = "\N{NO-BREAK SPACE}"
_HEADS = {"buggify": "site was on", "site": "site fired", "rebalance:": "rebalance by", "log": "log was"}
"""The heading of the things of a kind, if it is not the kind's name."""

_EVERY_RUNS = 100
"""Number of runs from one line of progress to the next where stderr is no terminal."""


def register(commands: Commands, name: str) -> None:
    """Add the parser of ``broker-sim simulate``. One list, in the order of --help: what runs, what is recorded, what happens to
    failures."""
    verb = add_command(
        commands,
        name,
        simulate,
        description="Run broker and real aiokafka clients in virtual time, seed by seed: faults for a while, then everything is healed "
        "and must come back: all groups Stable, nothing lost, nothing left to read.",
        epilog=_EXAMPLES,
    )
    add = verb.add_argument
    add("workloads", nargs="*", metavar="WORKLOAD", help="workloads to run (default: all in turn)")
    add("--scenario", action="append", default=[], metavar="WORKLOAD", help="the same, as an option")
    add("--seeds", type=seeds, default=range(100), metavar="A..B", help="seeds A to B-1, or one (default: 0..100)")
    add("--jobs", type=whole, default=os.cpu_count() or 1, metavar="N", help="processes (default: %(default)s)")
    add("--seconds", type=_seconds, default=30.0, metavar="S", help="virtual seconds with faults (default: 30)")
    add("--as-version", metavar="X.Y", help="the Kafka release to behave as (default: 3.4 or 4.1, as the seed draws)")
    add(
        "--for",
        dest="limit",
        type=_duration,
        default=math.inf,
        metavar="TIME",
        help="start no further run after this duration, for example 10m",
    )
    add("--rows", type=Path, metavar="FILE", help="append one JSON line per run; runs recorded there are skipped")
    add("--timeline", type=Path, metavar="DIR", help="draw the groups of each failure into this directory")
    add("--shrink", action="store_true", help="reduce each failure to the fewest faults")
    add("--budget", type=whole, default=150, metavar="N", help="runs for shrinking one failure (default: %(default)s)")
    add(
        "--corpus",
        type=Path,
        metavar="DIR",
        help="run the failures stored in this directory first, and store new ones there",
    )
    add("--guided", action="store_true", help="also mutate fault plans that reached new states")
    add(
        "--fork",
        type=whole,
        default=0,
        metavar="N",
        help="continue N different ways from each rare state (see docs/sweeps.md)",
    )
    add("--replay", type=Path, metavar="FILE", help="run one stored failure only")
    add(
        "--until",
        type=_until,
        default=None,
        metavar="TIME",
        help="with --replay: stop at this virtual time, for example 12.3s, and print the state",
    )
    add(
        "--shell",
        action="store_true",
        help="with --replay: open a prompt at that time (default: at the failure); help lists its commands",
    )
    add("--engine", choices=("local", "spark"), default="local", help="local processes, or a Spark job")
    add(
        "--master", metavar="URL", help="spark: its master, local[2], spark://.. (default: local[*], or spark-submit's)"
    )
    add(
        "--out", metavar="DIR", help="spark: a Parquet table of all verdicts, and one of the failures with their faults"
    )
    add("--json", action="store_true", help="the summary as one JSON object on stdout")
    add("--quiet", action="store_true", help="no progress")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to a day")
    return seconds


def _until(text: str) -> float:
    try:
        return duration_ms(float(text) if text.replace(".", "", 1).isdigit() else text, "--until") / 1000
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _duration(text: str) -> float:
    try:
        return duration_ms(text, "--for") / 1000
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def simulate(arguments: argparse.Namespace) -> int:
    """The verb ``broker-sim simulate``. Returns the exit code: 0 passed, 1 a run failed, 2 usage."""
    from broker_sim.api.cluster import ClusterError
    from broker_sim.config.settings import ConfigError

    try:
        if any(name.endswith((".yaml", ".yml")) for name in [*arguments.workloads, *arguments.scenario]):
            if arguments.engine == "spark":
                raise UsageError("--engine spark runs workloads only, no scenario files")
            above = importlib.import_module("broker_sim.scenario.commands")  # the layer of scenarios knows this one
            code: int = above.simulate(arguments)
            return code
        if arguments.replay is None:
            if arguments.shell or arguments.until is not None:
                raise UsageError("--shell and --until need a saved failure; add --replay FILE")
            return _sweep(arguments)
        return _look(arguments) if arguments.shell or arguments.until is not None else _replay(arguments)
    except (UsageError, ConfigError, ClusterError, OSError) as error:
        sys.stderr.write(f"broker-sim simulate: {error}\n")
        return USAGE


def _replay(arguments: argparse.Namespace) -> int:
    from broker_sim.simulation.sweeps.sweep import draw, read_case, replay

    _check_clients([read_case(arguments.replay).workload])
    outcome = replay(arguments.replay)
    failed = outcome.failure is not None
    picture, files = draw(arguments.replay, arguments.timeline) if failed or arguments.timeline else ("", ())
    if arguments.json:
        result = {
            "failure": outcome.failure,
            "text": outcome.text,
            "case": outcome.case.to_dict(),
            "journal_hash": outcome.journal_hash,
            "timelines": [str(path) for path in files],
        }
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        lines = [f"{outcome.failure or 'clean'}: {outcome.virtual_s:.0f} virtual s"]
        lines += [f"  {line}" for line in _plan(outcome.case)]
        lines += [*outcome.text.splitlines(), *picture.splitlines(), *(f"timeline: {path}" for path in files)]
        sys.stdout.write("\n".join(lines).rstrip() + "\n")
    return BROKEN if failed else DONE


def _look(arguments: argparse.Namespace) -> int:
    """At one moment of a kept failure. In this process, whose hash seed is pinned first: it is started again for that."""
    from broker_sim.simulation.sweeps.shell import Shell
    from broker_sim.simulation.sweeps.sweep import read_case
    from broker_sim.simulation.virtual.hashseed import pin

    case = read_case(arguments.replay)
    _check_clients([case.workload])
    pin()
    terminal = arguments.shell and sys.stdin.isatty()

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    commands = iter(["hosts\n", "flight\n", "groups\n", "logs\n"])
    read = sys.stdin.readline if arguments.shell else lambda: next(commands, "")
    until_s = math.inf if arguments.until is None else arguments.until
    try:
        outcome = Shell(case, until_s, read=read, write=write, prompt=terminal).run()
    except KeyboardInterrupt:
        return DONE
    return BROKEN if outcome is not None and outcome.failure is not None else DONE


def _check_clients(names: Iterable[str]) -> None:
    """Raise UsageError if aiokafka is missing and a client of these workloads needs it."""
    from broker_sim.simulation.workloads.catalogue import WORKLOADS

    asked = [WORKLOADS[name] for name in names if name in WORKLOADS]
    if importlib.util.find_spec("aiokafka") is None and not all(workload.raw for workload in asked):
        *others, last = (name for name, workload in WORKLOADS.items() if workload.raw)
        without = f"{', '.join(others)} and {last}"
        raise UsageError(f"aiokafka is not installed, and all workloads except {without} need it: pip install aiokafka")


def _sweep(arguments: argparse.Namespace) -> int:
    from broker_sim.config.settings import parse_release
    from broker_sim.simulation.sweeps.sweep import SweepOptions, sweep
    from broker_sim.simulation.workloads.catalogue import WORKLOADS

    names = tuple(dict.fromkeys([*arguments.workloads, *arguments.scenario])) or tuple(WORKLOADS)
    if arguments.as_version is not None:
        parse_release(arguments.as_version)
    for name in names:
        if name not in WORKLOADS:
            raise unknown("workload", name, WORKLOADS)
    _check_clients(names)
    options = SweepOptions(
        names,
        arguments.seeds,
        jobs=arguments.jobs,
        duration_s=arguments.seconds,
        as_version=arguments.as_version,
        shrink=arguments.shrink,
        budget=arguments.budget,
        corpus=arguments.corpus,
        wall_s=arguments.limit,
        rows=arguments.rows,
        timeline=arguments.timeline,
        guided=arguments.guided,
        fork=arguments.fork,
    )
    if arguments.engine == "spark":
        summary = _on_spark(options, arguments)
    else:
        line = _RunProgress(quiet=arguments.quiet, limit_s=arguments.limit)
        with terminable():
            summary = sweep(options, line.show)
        line.end()
    sys.stdout.write(json.dumps(summary.to_dict()) + "\n" if arguments.json else text_of(summary))
    return DONE if not summary.failures else BROKEN


def _on_spark(options: SweepOptions, arguments: argparse.Namespace) -> SweepSummary:
    from broker_sim.pipeline.progress import Steps
    from broker_sim.pipeline.run import JobFailed
    from broker_sim.simulation.sweeps.on_spark import sweep_on_spark

    local = {"--for": arguments.limit < math.inf, "--rows": arguments.rows, "--timeline": arguments.timeline}
    local |= {"--guided": arguments.guided, "--fork": arguments.fork}
    for option, given in local.items():
        if given:
            raise UsageError(
                f"{option} is for the local engine only: Spark runs each seed separately, and writes its results to --out"
            )
    steps = Steps(sys.stderr, quiet=arguments.quiet)
    try:
        result = sweep_on_spark(options, steps, out=arguments.out, master=arguments.master)
    except JobFailed as error:
        sys.stderr.write(f"broker-sim simulate: {error}\n")
        raise SystemExit(BROKEN) from None
    except KeyboardInterrupt:
        written = f"; the verdicts so far are in {arguments.out}" if arguments.out else ""
        sys.stderr.write(f"broker-sim simulate: interrupted{written}\n")
        raise SystemExit(BROKEN) from None
    if result.again[0]:
        steps.say(f"{result.again[0]} seeds were run again, {result.again[1]} of them in another process")
    return result.summary


class _RunProgress:
    """The progress, in one line of a terminal that is written again and again, else now and then."""

    def __init__(self, *, quiet: bool, limit_s: float = math.inf) -> None:
        self.quiet, self.terminal, self.limit_s = quiet, sys.stderr.isatty(), limit_s

    def show(self, summary: SweepSummary) -> None:
        if self.quiet or (not self.terminal and summary.runs % _EVERY_RUNS):
            return
        done, left_s = summary.runs + summary.skipped, min(summary.left_s, self.limit_s - summary.wall_s)
        left = f", {duration_text(max(0, round(left_s)) * 1000)} left" if left_s < _LONG_S else ""
        text = f"{done}/{summary.wanted} runs, {summary.pace:.0f} virtual s/s, {summary.failed} failed{left}"
        if self.terminal:
            full = _BAR * done // max(1, summary.wanted)
            text = f"[{'#' * full}{'.' * (_BAR - full)}] {text}"
        sys.stderr.write(f"\r\x1b[K{text}" if self.terminal else f"{text}\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self.terminal and not self.quiet:
            sys.stderr.write("\r\x1b[K")


def text_of(summary: SweepSummary) -> str:
    """The summary of a sweep as lines of text."""
    wall_s, cpu_s = summary.wall_s or 1.0, summary.cpu_s or 1.0
    ended = " (interrupted)" if summary.interrupted else ""
    lines = [
        f"{summary.runs} runs{ended} with {summary.faults} faults, {summary.repeated} done twice: {summary.failed} failed",
        f"{summary.wall_s:.1f} s, {summary.runs / wall_s:.1f} runs/s, {summary.pace:.0f} virtual s/s; "
        f"{summary.virtual_s / cpu_s:.0f} virtual s per CPU second",
    ]
    if summary.features:
        forked = f", {summary.futures} of the runs are futures of others" if summary.futures else ""
        lines.append(f"{len(summary.features)} features{forked}")
    if summary.skipped:
        lines.append(f"{summary.skipped} runs had been done before")
    lines += [f"no longer fails: {path}" for path in summary.mended]
    lines += _reach(summary)
    for failure in summary.failures.values():
        lines += ["", *_failure(failure)]
    return "\n".join(lines) + "\n"


def _reach(summary: SweepSummary) -> list[str]:
    """Return lines of what was reached, the most frequent first, and of what was not."""
    return [
        *_table("came about", (f"{name} {count}" for name, count in summary.hits.most_common()), alone="fault"),
        *_table("waived", (f"{count} times: {name}" for name, count in summary.waived.items()), alone="", heads=False),
        *_table("never reached", summary.unreached, alone=""),
        *_table("sites that never fired", summary.unhit, alone="", heads=False),
    ]


def _table(title: str, texts: Iterable[str], *, alone: str, heads: bool = True) -> list[str]:
    """A title and what belongs to it, by the first words that several things share; ``alone``: the head of those that share none."""
    rows: dict[str, list[str]] = {}
    for text in texts:
        first, _, rest = text.partition(" ")
        headed = heads and rest and not rest.isdigit()
        rows.setdefault(_HEADS.get(first, first) if headed else alone, []).append(rest if headed else text)
    wide = max(map(len, rows), default=0)
    lines = [title] if rows else []
    for head, row in rows.items():
        kept = ", ".join(text.replace(" ", _KEPT) for text in row)
        wrapped = textwrap.wrap(kept, _WIDE - wide, break_on_hyphens=False, break_long_words=False)
        names = f"{head:<{wide}}  " if wide else "", " " * (wide + 2) if wide else ""
        lines += [f"  {names[bool(number)]}{line.replace(_KEPT, ' ')}" for number, line in enumerate(wrapped)]
    return lines


def _plan(case: Case) -> list[str]:
    lines = [fault.text for fault in case.plan or ()]
    for turn in case.turns:
        lines.append(
            f"{turn.at_s:.3f} s: future {turn.branch} from here on: other chance, of the faults to come these alone"
        )
        lines += [fault.text for fault in turn.plan or ()]
    return lines


def _failure(failure: Failure) -> list[str]:
    case = failure.case
    plan = case.plan or ()
    made = f" (of {failure.before}, after {failure.shrinking_runs} runs)" if failure.shrunk else ""
    by_seed = f"{case.workload} --seeds {case.seed} --seconds {case.duration_s:g}"
    again = "broker-sim simulate " + (f"--replay {failure.file}" if failure.file else by_seed)
    return [
        f"{case.workload}, seed {case.seed}: {failure.failure}"
        + (f", {failure.count} times" if failure.count > 1 else ""),
        f"  again: {again}",
        f"  as {case.as_version}, {case.members} members, {case.duration_s:g} s, {len(plan)} faults{made}:",
        *(f"    {line}" for line in _plan(case)),
        *(f"  {line}" for line in failure.text.splitlines()[:40]),
        *(f"  {line}" for line in failure.picture.splitlines()),
        *(f"  timeline: {path}" for path in failure.drawn),
    ]
