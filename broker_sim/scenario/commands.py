"""The verbs ``broker-sim run`` and ``broker-sim scenario``."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import signal
import sys
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from broker_sim.scenario.model import Scenario
    from broker_sim.scenario.runner import ScenarioOptions, ScenarioOutcome
    from broker_sim.simulation.virtual.recording import RunRecording

from broker_sim.common.commandline import Commands, add_command, complain, seeds, terminable, whole
from broker_sim.common.text import UsageError, expected, visible, visible_lines

__all__ = ["register", "run", "scenario"]

LINE = 80
"""No line of the list is wider."""

_RUN_EXAMPLES = """\
examples:
  broker-sim run scenarios/stuck-offsets-partition-3.4.yaml
      run the file and report whether the expected outcome held
  broker-sim run incident.yaml --client confluent
      the same with consumers of confluent-kafka in place of the file's
  broker-sim run incident.yaml --client 'app-1=java -jar consumer.jar'
      use your own program, which speaks the line protocol of scenario clients, as one client
  broker-sim run incident.yaml --attach -- ./start-consumers.sh {bootstrap}
      run your own consumers through it; the bootstrap address is also in $BOOTSTRAP. If the program fails, the run fails at once
  broker-sim run incident.yaml --as-version 4.1 --timeline timeline.html --journal ./journal
      with another release, a timeline of every group and all events
  broker-sim run incident.yaml --repeat 20
      twenty runs, and whether their histories differ
  broker-sim run incident.yaml --virtual --seed 7
      in virtual time: an hour takes seconds, and a seed repeats the run to the byte (--repeat 2 verifies that, event by event);
      clients: aiokafka, kafka-python, or simulated crowds
  broker-sim run incident.yaml --virtual --seeds 0..1000 --jobs 4
      a thousand seeds; prints those that fail

exit codes: 0 all expectations held, 1 an expectation failed, 2 invalid file or argument, 3 the condition of a step timed out
"""

_SCENARIO_EXAMPLES = """\
examples:
  broker-sim scenario list
  broker-sim scenario list ./incidents
  broker-sim scenario check incident.yaml
  broker-sim scenario show stuck-offsets-partition-3.4
  broker-sim scenario start incident.yaml
  broker-sim scenario wait 1 --timeout 60s
"""

_FILE_VERBS = {
    "list": ("list the included scenarios, or those of a directory", "broker-sim scenario list ./incidents"),
    "check": ("validate files without running them", "broker-sim scenario check incident.yaml"),
    "show": ("print a file", "broker-sim scenario show stuck-offsets-partition-3.4"),
}
"""Verb -> what it does, an example."""


def spelled_out(words: list[str]) -> list[str]:
    """The words of the command line with everything after ``--attach --`` as one word, so that argparse does not parse the options
    of that command. The dashes may be missing if the command has no options; with options it would be ambiguous whose they are."""
    if words[0] != "run" or "--attach" not in words:
        return words
    place = words.index("--attach")
    return [*words[: place + 1], json.dumps(words[place + 1 :])]


def _attached(text: str) -> list[str]:
    """A ``type`` for what `spelled_out` made of ``--attach``."""
    words: list[str] = json.loads(text)
    command = words[1:] if words[:1] == ["--"] else words
    if not command:
        raise argparse.ArgumentTypeError(
            "the program is missing (expected e.g. --attach -- ./start-consumers.sh {bootstrap})"
        )
    options = [word for word in command if word.startswith("-")]
    if words[0] != "--" and options:
        raise argparse.ArgumentTypeError(
            f"{options[0]} may belong to the program or to broker-sim: write --attach -- {' '.join(command)[:80]} for the program's; "
            "options of broker-sim precede --attach"
        )
    return command


def register(commands: Commands, name: str) -> None:
    """Add the parser of one of the two."""
    if name == "run":
        _add_run(commands)
    else:
        _add_scenario(commands)


def _add_run(commands: Commands) -> None:
    verb = add_command(
        commands,
        "run",
        run,
        description="Run a scenario: a new cluster, its clients, its faults in order, and the expected outcome.",
        epilog=_RUN_EXAMPLES,
    )
    add = verb.add_argument
    add("file", metavar="FILE", help="a scenario file, or the name of an included one (broker-sim scenario list)")
    add("--as-version", metavar="X.Y", help="the Kafka release to behave as (default: the file's)")
    add("--clock", metavar="MODE", help="real, scaled:10 or manual (default: the file's)")
    add("--seed", type=int, metavar="N", help="seed of member ids and random numbers (default: the file's)")
    add(
        "--virtual",
        action="store_true",
        help="run in virtual time, reproducible from the seed (default: the file's, or 0)",
    )
    add(
        "--client",
        action="append",
        default=[],
        metavar="[NAME=]KIND|COMMAND",
        help="replace the clients: aiokafka, confluent, kafka-python, or a program; with NAME= one client or kind",
    )
    add("--seeds", type=seeds, metavar="A..B", help="with --virtual: run once for each seed from A to B-1")
    add("--jobs", type=whole, default=1, metavar="N", help="processes for --seeds (default: %(default)s)")
    add("--repeat", type=int, default=1, metavar="N", help="run it N times and compare the histories (default: 1)")
    add("--timeline", metavar="FILE", help="draw the timeline of each group: *.html or *.svg")
    add("--journal", metavar="DIR", help="write the journal of all events to this new directory")
    add("--data", metavar="DIR", help="keep the log directory here (new; default: in memory)")
    add("--json", action="store_true", help="print one JSON object for each run on stdout")
    add("--quiet", action="store_true", help="print no progress on stderr")
    add(
        "--attach",
        type=_attached,
        default=[],
        metavar="-- COMMAND",
        help="run this program against the cluster, whose address is {bootstrap} in its arguments, and BOOTSTRAP in its environment; "
        "all arguments after the dashes are its own",
    )


def _add_scenario(commands: Commands) -> None:
    from broker_sim.control.commands import add_verbs, incomplete

    parser = add_command(
        commands,
        "scenario",
        incomplete,
        description="List, check and print scenario files, and run one on the brokers of a process that runs already.",
        epilog=_SCENARIO_EXAMPLES,
    )
    below = parser.add_subparsers(metavar="VERB", title="verbs", parser_class=type(parser))
    for action, (what, example) in _FILE_VERBS.items():
        verb = add_command(
            below, action, scenario, help=what, description=f"{what.capitalize()}.", epilog=f"examples:\n  {example}\n"
        )
        verb.add_argument(
            "file",
            nargs="*",
            metavar="FILE",
            help="scenario files, or names of included ones; for list a directory (default: the included ones)",
        )
        verb.add_argument("--json", action="store_true", help="print one JSON object per line")
        verb.set_defaults(action=action)
    add_verbs(below, "scenario")


def shipped() -> Path:
    """Return the directory of the scenarios that come with broker-sim."""
    return Path(__file__).parent / "shipped"


def find(name: str) -> Path:
    """A file by its path, or one that comes with broker-sim by its name. Raises WrongFile."""
    from broker_sim.scenario.files import WrongFile

    path = Path(name)
    if path.is_dir():
        raise WrongFile(name, "a directory, not a scenario file (`broker-sim scenario list DIR` lists its files)")
    if path.exists() or path.suffix in (".yaml", ".yml") or "/" in name:
        return path
    return included(name, "file or scenario")


def included(name: str, what: str = "included scenario") -> Path:
    """The file of an included scenario. Raises WrongFile, with ``what`` as what is missing."""
    from broker_sim.scenario.files import WrongFile

    there = {path.stem: path for path in sorted(shipped().glob("*.yaml"))}
    if name in there:
        return there[name]
    raise WrongFile(name, f"no such {what}; {expected(name, there)}; broker-sim scenario list prints all")


def run(arguments: argparse.Namespace) -> int:
    """The verb ``broker-sim run``: run one scenario file. Returns the exit code."""
    import asyncio

    from broker_sim.api.cluster import ClusterError
    from broker_sim.scenario.runner import ScenarioOptions

    options = ScenarioOptions(
        clock=arguments.clock,
        as_version=arguments.as_version,
        seed=arguments.seed,
        clients=_clients(arguments.client),
        attach=arguments.attach,
        journal=None if arguments.journal is None else Path(arguments.journal),
        data=None if arguments.data is None else Path(arguments.data),
        progress=(lambda line: None) if arguments.quiet else _progress,
    )
    try:
        if arguments.timeline is not None and Path(arguments.timeline).suffix not in (".html", ".svg"):
            raise UsageError(
                f"--timeline: {arguments.timeline!r} is not the name of a picture (expected *.html or *.svg)"
            )
        if options.data is not None and arguments.repeat > 1:
            raise UsageError("--data is for one run; remove --repeat or --data")
        if arguments.seeds is None and not arguments.virtual:
            return _real(arguments, options)
        with terminable():
            return _virtual(arguments, options) if arguments.seeds is None else _sweep(arguments)
    except (UsageError, ClusterError) as error:
        complain("broker-sim run", error)
        return 2
    except OSError as error:
        print(f"broker-sim run: {error.filename or error}: {error.strerror or 'failed'}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("broker-sim run: interrupted", file=sys.stderr)
        return 130


def _real(arguments: argparse.Namespace, options: ScenarioOptions) -> int:
    """On real sockets, with processes as clients."""
    import asyncio

    from broker_sim.scenario.model import read
    from broker_sim.scenario.runner import run as play

    worst, histories = 0, []
    for _ in range(max(1, arguments.repeat)):
        scenario = read(find(arguments.file))  # anew: its matchers remember what they saw
        outcome = asyncio.run(_until_terminated(play(scenario, options)))
        _show(outcome, arguments)
        worst = max(worst, outcome.code)
        histories.append(outcome.group_states)
    if arguments.repeat > 1 and not arguments.json:
        alike = len({tuple(history) for history in histories})
        print(f"{arguments.repeat} runs: " + ("the same history" if alike == 1 else f"{alike} different histories"))
    return worst


def _virtual(arguments: argparse.Namespace, options: ScenarioOptions) -> int:
    """Run a scenario in virtual time, as often as ``--repeat`` says; returns the exit code. If a repetition differs, the first
    different event is printed."""
    if sys.argv[1:2] == ["run"]:  # else another program than this command called
        from broker_sim.simulation.virtual.hashseed import pin

        pin()
    from broker_sim.scenario.model import read
    from broker_sim.scenario.virtual import play
    from broker_sim.simulation.errors import SimError
    from broker_sim.simulation.virtual.recording import RunRecording

    worst, first, schedules = 0, None, set[str | None]()
    for _ in range(max(1, arguments.repeat)):
        recording = RunRecording(first) if arguments.repeat > 1 else None
        try:
            outcome = play(read(find(arguments.file)), options, recording=recording)
        except SimError as error:
            print(f"broker-sim run: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
        _show(outcome, arguments)
        worst = max(worst, outcome.code)
        schedules.add(outcome.schedule_hash)
        if first is not None and recording is not None and _differs(recording, len(schedules) > 1):
            return 1
        first = first or recording
    if arguments.repeat > 1 and not arguments.json:
        print(f"{arguments.repeat} runs: equal to the byte, journal {outcome.journal_hash}")
    return worst


def _sweep(arguments: argparse.Namespace) -> int:
    """Run a scenario with many seeds (``--seeds``)."""
    from broker_sim.scenario.sweeping import show

    if not arguments.virtual:
        raise UsageError("--seeds needs virtual time; add --virtual")
    for name in ("seed", "clock", "attach", "journal", "timeline", "data"):
        if getattr(arguments, name):
            raise UsageError(f"--{name} is for one run; it can't be combined with --seeds")
    given = {"as_version": arguments.as_version, "clients": _clients(arguments.client)}
    path = find(arguments.file)
    return show([path], arguments.seeds, jobs=arguments.jobs, quiet=arguments.quiet, as_json=arguments.json, **given)


def simulate(arguments: argparse.Namespace) -> int:
    """``broker-sim simulate FILE.yaml``: see ``simulation.commands``. Raises UsageError, ClusterError."""
    from broker_sim.scenario.sweeping import show

    names = [*arguments.workloads, *arguments.scenario]
    for name in names:
        if not name.endswith((".yaml", ".yml")):
            raise UsageError(f"{name} is a workload; it can't be combined with scenario files")
    for option in ("shrink", "corpus", "replay", "rows", "timeline"):
        if getattr(arguments, option, None):
            raise UsageError(f"--{option} is for workloads; a scenario file defines its own faults")
    paths = [find(name) for name in dict.fromkeys(names)]
    given = {"quiet": arguments.quiet, "as_json": arguments.json, "as_version": arguments.as_version}
    try:
        with terminable():
            return show(paths, arguments.seeds, jobs=arguments.jobs, **given)
    except KeyboardInterrupt:
        print("broker-sim simulate: interrupted", file=sys.stderr)
        return 130


def _differs(recording: RunRecording, otherwise: bool) -> bool:
    """Whether a run is another one than the first was, and where. ``otherwise``: its schedule is."""
    recording.end()
    difference = recording.difference
    if difference is None and otherwise:
        difference = "the same events, but not the same turns of the loop"
    if difference is not None:
        print(f"broker-sim run: not the same run: {difference}", file=sys.stderr)
    return difference is not None


async def _until_terminated(playing: Coroutine[Any, Any, ScenarioOutcome]) -> ScenarioOutcome:
    """SIGTERM ends a run as Ctrl-C does: clients are ended before it is over."""
    import asyncio

    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # another platform, not the main thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await playing


def _progress(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # its reader ended; the run continues, and its result is on stdout
        sys.stderr.write(f"{visible(line)}\n")  # at once: an interrupt does not come between a line and its end
        sys.stderr.flush()


def _clients(given: list[str]) -> dict[str, str]:
    """``KIND``, ``NAME=KIND`` or ``NAME=COMMAND`` -> by name, "*" for all."""
    commands: dict[str, str] = {}
    for option in given:
        name, equals, rest = option.partition("=")
        if not equals or " " in name or "/" in name:
            name, rest = "*", option
        commands[name] = rest
    return commands


def _show(outcome: ScenarioOutcome, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps(outcome.to_dict()), flush=True)
    else:
        print(visible_lines(outcome.report()), flush=True)
    if arguments.timeline:
        picture(outcome, Path(arguments.timeline))


def picture(outcome: ScenarioOutcome, path: Path) -> None:
    """Write the groups' timelines: one file, or one for each group with its name in it."""
    from broker_sim.explain.picture import html, svg

    draw = svg if path.suffix == ".svg" else html
    for group in outcome.groups:
        name = re.sub(r"[^\w.-]", "_", group)[:100]  # a group id may be anything
        target = path if len(outcome.groups) == 1 else path.with_stem(f"{path.stem}-{name}")
        target.write_text(draw(outcome.events, group), encoding="utf-8")
        print(f"{target}: the timeline of {visible(group)}", file=sys.stderr)


def scenario(arguments: argparse.Namespace) -> int:
    """The verbs of ``broker-sim scenario``: list, show or check scenario files. Returns the exit code."""
    from broker_sim.scenario.model import read

    if arguments.action == "list":
        return _list(Path(arguments.file[0]) if arguments.file else shipped(), as_json=arguments.json)
    worst = 0
    if not arguments.file:
        complain(
            f"broker-sim scenario {arguments.action}", "FILE is missing: a file or the name of an included scenario"
        )
        return 2
    for name in arguments.file:
        try:
            path = find(name)
            scenario_file = read(path)
        except UsageError as error:
            complain("broker-sim scenario", error)
            worst = 2
            continue
        if arguments.action == "show":
            print(path.read_text(encoding="utf-8"), end="")
        else:
            words = f"{len(scenario_file.steps)} steps, {len(scenario_file.clients)} clients, {len(scenario_file.expect)} expectations"
            print(json.dumps(_described(scenario_file)) if arguments.json else f"{path}: valid, {words}")
    return worst


def _list(directory: Path, *, as_json: bool) -> int:
    from broker_sim.scenario.model import read

    worst = 0
    paths = sorted(directory.glob("*.yaml"))
    if not paths:
        why = "no *.yaml in it" if directory.is_dir() else "not a directory"
        complain("broker-sim scenario list", f"{directory}: {why}")
        return 2
    for path in paths:
        try:
            scenario = read(path)
        except UsageError as error:
            complain("broker-sim scenario", error)
            worst = 2
            continue
        print(
            json.dumps(_described(scenario))
            if as_json
            else f"{path.stem}\n    {shorten(scenario.summary, LINE - 4, placeholder=' ...')}"
        )
    return worst


def _described(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "file": str(scenario.path),
        "description": scenario.description,
        "as_version": scenario.cluster["as_version"],
        "clients": [client.name for client in scenario.clients],
        "steps": [step.name for step in scenario.steps],
    }
