"""Tests of simulated worlds under pytest: ``@pytest.mark.sim(seeds=range(200), faults=Swarm(during="30s"))``.

    @pytest.mark.sim(seeds=range(200), faults=Swarm(during="30s"))
    def test_every_order_is_billed(sim):
        kafka = sim.cluster(topics={"orders": 6})
        ...

Rules:
1. The test is run once for each seed, each time with a world of its own; other fixtures are set up once. The first seed that fails
   ends it.
2. A failure is made small (``simulation.sweeps.seeds``) and its report has a section "Simulation": the line that runs it again, its
   faults, what became of the groups.
3. Python's hash seed is pinned: the session ends after the collection, before any test, and the process becomes a new one that has it
   pinned. That is done where a test with ``sim`` is to run, in a process that is pytest's own, and shows in nothing but its duration.
   Workers of pytest-xdist are started with it pinned. Where it can't be, the report says so.

``pytest_plugin`` loads this at the first use.
"""

from __future__ import annotations

import atexit
import contextlib
import inspect
import io
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker_sim.common.text import UsageError, duration_text, unknown
from broker_sim.simulation.virtual.hashseed import SEED, can_pin, is_pinned, pinned_environment

if TYPE_CHECKING:
    from broker_sim.simulation.faults.kinds import Fault
    from broker_sim.simulation.sweeps.seeds import FoundFailure, Search, SeedRun

MARKER = "sim"
SECTION = "Simulation"
SEEDS = range(20)
"""Seeds of a marker that names none."""
AGAIN = "BROKER_SIM_PYTEST_AGAIN"
"""Environment variable of the second process: the id of the first one, which is its own where the system has exec."""

OPTIONS = (
    *("seeds", "faults", "order", "noisy", "waive", "invariants", "link", "epoch_ms", "patience"),
    *("repeat", "budget", "budget_s"),
)
"""Arguments of the marker: of `simulate`, then of `simulation.sweeps.seeds.Search`."""

_FOUND: pytest.StashKey[FoundFailure] = pytest.StashKey()
_COUNTS: pytest.StashKey[dict[str, float]] = pytest.StashKey()
MUTED: pytest.StashKey[tuple[Any, Any, io.StringIO]] = pytest.StashKey()


class SimOfFixture:
    """Value of ``sim`` in fixtures, which can't use it: it is for tests alone."""

    def __getattr__(self, name: str) -> Any:
        raise pytest.UsageError(
            "a fixture can't use sim: the world is a new one for each seed, fixtures are set up once; "
            "let the test call a function with it"
        )


# --- which tests, and with what ------------------------------------------------------------------------------------------


def is_ours(item: pytest.Item, fixture: Callable[..., object]) -> bool:
    """Whether ``sim`` in that test is this plugin's fixture, and not one that the user's project calls so."""
    info = getattr(item, "_fixtureinfo", None)
    definitions = info.name2fixturedefs.get("sim") if info is not None else None
    return bool(definitions) and _function_of(definitions[-1]) is _function_of(fixture)  # type: ignore[index]


def _function_of(fixture: object) -> Any:
    for name in ("func", "_fixture_function", "__pytest_wrapped__", "obj"):
        fixture = getattr(fixture, name, fixture)
    return fixture


def options_of(item: pytest.Item) -> dict[str, Any]:
    """The marker's arguments: those of the nearest win, one by one. Raises UsageError."""
    options: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers(MARKER))):
        if marker.args:
            raise UsageError(f"@pytest.mark.{MARKER} takes keyword arguments only: seeds=range(200)")
        for name in marker.kwargs:
            if name not in OPTIONS:
                raise unknown("argument", name, OPTIONS, of=f"@pytest.mark.{MARKER}")
        options.update(marker.kwargs)
    return options


def seeds_of(item: pytest.Item, options: dict[str, Any]) -> Sequence[object]:
    """Return the seeds to run. Raises UsageError."""
    given = options.pop("seeds", SEEDS if item.get_closest_marker(MARKER) else (0,))
    config = item.config
    wanted = config.getoption("--sim-seed")
    if wanted is not None:
        return parse_seeds(wanted)
    if isinstance(given, int) and not isinstance(given, bool):
        given = range(given)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"seeds= takes numbers, as in range(200), not {given!r}")
    seeds: Sequence[object] = given if isinstance(given, range) else list(given)
    if not seeds:
        raise UsageError("seeds= is empty; expected one seed or more")
    most = config.getoption("--sim-seeds")
    if most is not None and most < 1:
        raise UsageError(f"--sim-seeds {most}: expected 1 or more")
    return seeds if most is None else seeds[: int(most)]


def parse_seeds(text: str) -> Sequence[object]:
    """``17``, or ``0..200`` without its end. Raises UsageError."""
    matched = re.fullmatch(r"(-?\d+)(?:\.\.(-?\d+))?", text)
    if matched is None:
        raise UsageError(f"--sim-seed {text}: not a seed or a range of seeds (expected e.g. 17 or 0..200)")
    first = int(matched[1])
    seeds = range(first, int(matched[2]) if matched[2] else first + 1)
    if not seeds:
        raise UsageError(f"--sim-seed: {text!r} is an empty range of seeds (expected e.g. 0..1000)")
    return seeds


# --- running them --------------------------------------------------------------------------------------------------------


Draw = Callable[[Iterable[dict[str, Any]], list[str], Path, str], list[str]]
"""(events, groups, directory, test) -> lines that name the files."""


class SimPlugin:
    """Registered where a test with ``sim`` was collected. ``fixture``: the plugin's own; ``draw``: draws groups into files; ``also``:
    whether another test is one that a hash seed changes."""

    def __init__(
        self, fixture: Callable[..., object], draw: Draw, also: Callable[[pytest.Item], bool] = lambda item: False
    ) -> None:
        self.fixture, self.draw, self.also = fixture, draw, also

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Nothing is run by a process whose hash seed is not pinned, if another one can do it."""
        config = session.config
        errors = session.testsfailed and not config.option.continue_on_collection_errors
        pins = any(is_ours(item, self.fixture) or self.also(item) for item in session.items)
        if errors or config.option.collectonly or not pins:
            return None
        if is_pinned() or hasattr(config, "workerinput") or not (can_pin() and _is_the_program(config)):
            return None
        mute(config)
        arguments = _arguments(config)
        config.stash[PENDING] = lambda: start_again(config, arguments)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Validate the arguments of the mark ``sim`` before any fixture is set up; invalid ones fail the test."""
        if not is_ours(item, self.fixture):
            marker = item.get_closest_marker(MARKER)
            if (
                marker is not None
                and "sim" not in getattr(item, "fixturenames", ())
                and set(marker.kwargs) & set(OPTIONS)
            ):
                pytest.fail(f"@pytest.mark.{MARKER}: the test has no argument sim, which is the world", pytrace=False)
            return
        if inspect.iscoroutinefunction(getattr(item, "obj", None)):
            pytest.fail(
                "a test with sim is a plain function: sim.run(coroutine()) runs a coroutine of it", pytrace=False
            )
        try:
            options = options_of(item)
            seeds_of(item, options)
            _search(item, options)
        except (UsageError, TypeError) as error:
            pytest.fail(f"@pytest.mark.{MARKER}: {error}", pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """The test with each seed."""
        if not is_ours(pyfuncitem, self.fixture):
            return None
        __tracebackhide__ = True
        from broker_sim.simulation.sweeps.seeds import Interrupted

        options = options_of(pyfuncitem)
        seeds = seeds_of(pyfuncitem, options)
        search = _search(pyfuncitem, options)
        try:
            finding = search.first(seeds)
        except Interrupted as interrupted:
            raise (interrupted.__cause__ or interrupted) from None
        finally:
            stash, zero = pyfuncitem.config.stash, dict.fromkeys(("tests", "runs", "virtual_s"), 0.0)
            counts = stash.setdefault(_COUNTS, zero)
            counts["tests"] += 1
            counts["runs"] += search.runs
            counts["virtual_s"] += search.virtual_s
        if finding is not None:
            pyfuncitem.stash[_FOUND] = finding
            raise finding.error
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Add the section "Simulation", with the seed and the failure's report, to the report of a failed test."""
        report = yield
        finding = item.stash.get(_FOUND, None)
        if finding is not None and call.when == "call" and report.failed:  # type: ignore[attr-defined]
            del item.stash[_FOUND]  # it holds a whole world
            try:
                text = self.failure_text(item, finding)
            except Exception as error:
                text = f"could not be described: {error!r}"
            report.sections.append((SECTION, text))  # type: ignore[attr-defined]
        return report

    def failure_text(self, item: pytest.Item, finding: FoundFailure) -> str:
        """The section of a failed test."""
        from broker_sim.journal import groups_in

        lines = failure_lines(item, finding)
        directory = item.config.getoption("--kafka-timeline")
        if directory is not None:
            events = finding.run.events
            lines += self.draw(events, groups_in(events), Path(directory), item.nodeid)
        return "\n".join(lines)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Print how many seeds and how much virtual time were simulated."""
        counts = config.stash.get(_COUNTS, None)
        if counts is not None and config.option.verbose >= 0 and PENDING not in config.stash:
            virtual = duration_text(counts["virtual_s"] * 1000)
            terminalreporter.write_line(
                f"simulation: {counts['runs']:.0f} runs in {counts['tests']:.0f} tests, {virtual} of virtual time"
            )


PENDING: pytest.StashKey[Callable[[], object]] = pytest.StashKey()
"""Function to call when the session has ended: starts the process again."""


def _search(item: pytest.Item, options: dict[str, Any]) -> Search:
    from broker_sim.simulation.sweeps.seeds import Search

    assert isinstance(item, pytest.Function)
    names = item._fixtureinfo.argnames
    given = {name: item.funcargs[name] for name in names if name in item.funcargs}
    test = item.obj

    def body(sim: object) -> None:
        result = test(**{**given, "sim": sim})
        if result is not None:
            raise TypeError(f"a test returns nothing, not {result!r}")

    options = {name: value for name, value in options.items() if name != "seeds"}
    return Search(
        body,
        caught=(Exception, pytest.fail.Exception),
        between=lambda: _forget_output(item.config),
        **options,
    )


def _forget_output(config: pytest.Config) -> None:
    """Drop the output and log lines of earlier runs, which are not part of this one."""
    manager = config.pluginmanager
    with contextlib.suppress(AttributeError):  # these are pytest's own; without them the report is longer
        capture: Any = manager.getplugin("capturemanager")
        if capture is not None and capture.is_globally_capturing():
            capture.read_global_capture()
        logs: Any = manager.getplugin("logging-plugin")
        if logs is not None:
            logs.report_handler.reset()
            logs.caplog_handler.clear()


# --- the report of a failure --------------------------------------------------------------------------------------------------


def failure_lines(item: pytest.Item, finding: FoundFailure) -> list[str]:
    """The failure, how to repeat it, the faults that it needs, and the history of the groups."""
    run = finding.run
    before = {0: "the first one"}.get(finding.clean, f"{finding.clean} before it passed")
    lines = [f"seed {finding.seed!r} failed ({before}): {finding.failure}", f"again: {again_line(item, finding.seed)}"]
    for reason in run.not_pinned:
        instead = f". Start it with PYTHONHASHSEED={SEED}." if "PYTHONHASHSEED" in reason else ""
        lines.append(f"Another process may run otherwise: {reason}{instead}")
    if finding.failure != "not deterministic":
        lines += _faults(finding)
    lines += [
        f"never handled, at {error['at_s']:.3f} s: {error.get('exception') or error.get('message')!r}"
        for error in run.loose[:3]
    ]
    return [
        *lines,
        *_shown_lines(run.records),
        *_shown_lines(finding.beside),
        *_shown_lines(run.moment),
        *_pictures(run),
    ]


def _shown_lines(lines: list[str]) -> list[str]:
    return ["", *lines] if lines else []


def _faults(finding: FoundFailure) -> list[str]:
    shown = finding.faults
    if not finding.before:
        return ["no fault had occurred when it failed"] if finding.run.placed or finding.given else []
    effort = f"{finding.runs} runs" if finding.done else f"{finding.runs} runs, which was all that the budget allowed"
    if not shown:
        return [f"it fails without any of its {finding.before} faults ({effort})"]
    lines = [
        f"needed: {len(shown)} of the {finding.before} faults that occurred ({effort}); the test with these alone:"
    ]
    more = "".join(f", {name}={value!r}" for name, value in finding.options.items())
    mark = f"@pytest.mark.{MARKER}(seeds=[{finding.seed!r}]{more}"
    for number in dict.fromkeys(n for n, _ in finding.run.begun):
        if number == 0 and finding.given:
            lines.append(f"    {mark}, faults=[")
        else:
            lines.append(f"    sim.inject([  # the plan number {number + 1}; with {mark})")
        lines += [f"        {_literal(fault)}," for n, fault in finding.run.begun if n == number]
        lines.append("    ])")
    return lines


def _literal(fault: Fault) -> str:
    args = ", ".join(f"{json.dumps(name)}: {_value(value)}" for name, value in fault.args.items())
    return f'[{fault.t_s:g}, "{fault.kind}", {{{args}}}]'


def _value(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _pictures(run: SeedRun) -> list[str]:
    from broker_sim.explain.terminal import timeline
    from broker_sim.journal import groups_in

    groups = groups_in(run.events)
    named = [group for group in groups if group in str(run.error)]
    lines = []
    for group in (named or groups)[:2]:
        lines += ["", timeline(run.events, group, 110)]
    return lines


def again_line(item: pytest.Item, seed: object) -> str:
    """Command that runs one seed of a test again, from the directory in which pytest was started."""
    path, colons, rest = item.nodeid.partition("::")
    here = item.config.invocation_params.dir
    with contextlib.suppress(ValueError):  # another drive
        path = Path(os.path.relpath(item.path, here)).as_posix()
    pinned = os.environ.get("PYTHONHASHSEED", SEED)
    environment = f"PYTHONHASHSEED={pinned} " if pinned not in (SEED, "random") else ""
    return f"{environment}pytest {shlex.quote(path + colons + rest)} --sim-seed {seed}"


# --- the hash seed -------------------------------------------------------------------------------------------------------


def _is_the_program(config: pytest.Config) -> bool:
    """Whether this pytest session is the main program of the process: not called by ``pytest.main()`` in another program, and not
    under the debugger of an IDE."""
    alone = list(config.invocation_params.args) == sys.argv[1:] and bool(sys.orig_argv[1:])
    return alone and not {"pydevd", "debugpy"} & sys.modules.keys()


def _arguments(config: pytest.Config) -> list[str]:
    """The command line again, with what plugins have drawn for this session."""
    drawn = {"--randomly-seed": "randomly_seed", "--random-order-seed": "random_order_seed"}
    options = {option: getattr(config.option, name, None) for option, name in drawn.items()}
    return [*sys.orig_argv[1:], *(f"{option}={value}" for option, value in options.items() if value is not None)]


def start_again(config: pytest.Config, arguments: list[str]) -> object:
    """Start this process again, with its hash seed pinned. Returns an exit code where the system has no exec."""
    os.chdir(config.invocation_params.dir)
    environment = {**pinned_environment(), AGAIN: str(os.getpid())}
    run_exit_functions: Callable[[], None] | None = getattr(atexit, "_run_exitfuncs", None)
    if run_exit_functions is not None:
        run_exit_functions()
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":
        return subprocess.call([sys.executable, *arguments], env=environment)
    return os.execve(sys.executable, [sys.executable, *arguments], environment)


def is_second() -> bool:
    """Whether this process is one that was started again; asked once, as it is the last one for that: its children are not."""
    first = os.environ.pop(AGAIN, None)
    return first == str(os.getppid() if os.name == "nt" else os.getpid())


_show_warning = warnings.showwarning


def mute(config: pytest.Config) -> None:
    """The terminal shows nothing until `unmute`."""
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    writer = getattr(reporter, "_tw", None)
    if writer is not None and hasattr(writer, "_file") and MUTED not in config.stash:
        config.stash[MUTED] = writer, writer._file, io.StringIO()
        writer._file = config.stash[MUTED][2]


def unmute(config: pytest.Config, *, show: bool = False) -> None:
    """End the suppression of pytest's output. ``show``: also print what was suppressed."""
    muted = config.stash.get(MUTED, None)
    if muted is not None and PENDING not in config.stash:
        writer, file, kept = muted
        del config.stash[MUTED]
        writer._file = file
        if show:
            writer.write(kept.getvalue())


class SecondPlugin:
    """Plugin of a process that was started again: the header and the collection have been shown."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self) -> None:
        warnings.showwarning = lambda *args, **kwargs: None  # those of plugins that get ready

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        warnings.showwarning = _show_warning
        mute(session.config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        unmute(session.config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        unmute(session.config, show=True)


# --- pytest-xdist --------------------------------------------------------------------------------------------------------

_SIGNS = re.compile(rb"\bmark\.sim\b|[(,]\s*sim\b")


def pin_workers(config: pytest.Config) -> None:
    """The workers of pytest-xdist, which inherit the environment, if a file that they will collect speaks of ``sim``."""
    if not is_pinned() and can_pin() and any(_SIGNS.search(path.read_bytes()) for path in _files(config)):
        os.environ["PYTHONHASHSEED"] = SEED


def _files(config: pytest.Config) -> Iterator[Path]:
    patterns: list[str] = config.getini("python_files")
    skipped = {"node_modules", "venv", "__pycache__"}
    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        if path.is_file():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if not name.startswith(".") and name not in skipped]
            for name in names:
                file = Path(folder, name)
                if name.endswith(".py") and any(file.match(pattern) for pattern in patterns):
                    yield file
