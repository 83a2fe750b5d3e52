"""The verb ``broker-sim explore``: small worlds, exhaustively."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from broker_sim.common.commandline import BROKEN, DONE, USAGE, Commands, add_command, complain, terminable, whole
from broker_sim.common.text import UsageError, duration_ms, unknown

if TYPE_CHECKING:
    from broker_sim.simulation.exhaustive.explorer import Action, Broken, Explored

__all__ = ["explore_worlds", "register"]

_EXAMPLES = """\
examples:
  broker-sim explore --list
      which worlds there are
  broker-sim explore classic --for 1m
      a classic group of two clients under every release: all orders of joins, heartbeats, commits, crashes, timers and
      what the log does, breadth first, a minute of CPU time each
  broker-sim explore 'transaction 4.1' --depth 6
      one world, up to six actions deep
  broker-sim explore 'static 4.1' --replay 'S join; time; S sync; move all'
      one path through it, step by step

exit codes: 0 nothing found, 1 a rule is broken (the shortest sequence is printed), 2 invalid argument
"""


def register(commands: Commands, name: str) -> None:
    """Add the parser of ``broker-sim explore``."""
    verb = add_command(
        commands,
        name,
        explore_worlds,
        description="Explore all orders of events of a coordinator with two or three clients, its log and its clock, to a depth. For a "
        "broken rule the shortest sequence of events is printed.",
        epilog=_EXAMPLES,
    )
    add = verb.add_argument
    add(
        "worlds",
        nargs="*",
        metavar="WORLD",
        help="as in 'classic 4.1', or classic for all releases (default: all in turn)",
    )
    add("--depth", type=whole, default=99, metavar="N", help="actions at most (default: as far as the time goes)")
    add("--for", dest="limit", default="20s", metavar="TIME", help="CPU time for each world (default: 20s)")
    add("--replay", metavar="ACTIONS", help="run these actions, separated by ;, and print the result")
    add("--list", action="store_true", help="list the models")
    add("--quiet", action="store_true", help="no progress")


def explore_worlds(arguments: argparse.Namespace) -> int:
    """The verb ``broker-sim explore``. Returns the exit code."""
    from broker_sim.simulation.exhaustive.catalogue import DESCRIPTIONS, WORLDS

    if arguments.list:
        for name in WORLDS:
            _out(f"{name:24} {DESCRIPTIONS[name.partition(' ')[0]]}")
        return DONE
    try:
        names = _meant(arguments.worlds)
        if arguments.replay is not None:
            if len(names) != 1:
                raise UsageError("--replay needs one world (expected e.g. 'classic 4.1')")
            return _replay(names[0], arguments.replay)
        limit_s = duration_ms(arguments.limit, "--for") / 1000
    except UsageError as error:
        complain("broker-sim explore", error)
        return USAGE
    code = DONE
    with terminable():
        for name in names:
            try:
                result = _explore(name, arguments.depth, limit_s, quiet=arguments.quiet)
            except KeyboardInterrupt:
                return code
            code = BROKEN if result.broken is not None else code
    return code


def _meant(words: Sequence[str]) -> list[str]:
    from broker_sim.simulation.exhaustive.catalogue import WORLDS

    names: dict[str, None] = {}
    for word in words or WORLDS:
        meant = [name for name in WORLDS if word in (name, name.partition(" ")[0])]
        if not meant:
            raise unknown("world", word, WORLDS)
        names.update(dict.fromkeys(meant))
    return list(names)


def _explore(name: str, depth: int, limit_s: float, *, quiet: bool) -> Explored:
    from broker_sim.simulation.exhaustive.catalogue import WORLDS
    from broker_sim.simulation.exhaustive.explorer import explore

    shown = not quiet and sys.stderr.isatty()

    def note(so_far: Explored) -> None:
        if shown:
            text = f"{name}: depth {so_far.depth}, {so_far.states} states, {so_far.cpu_s:.0f} of {limit_s:.0f} s"
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    result = explore(WORLDS[name], depth=depth, cpu_s=limit_s, note=note)
    if shown:
        sys.stderr.write("\r\x1b[K")
    _out(f"{name:24} {_said(result)}")
    if result.broken is not None:
        _out(_counterexample(name, result.broken))
    return result


def _said(result: Explored) -> str:
    if result.broken is not None:
        return f"BROKEN after {result.steps} steps: {result.broken.rule}"
    whole = ", which is all there is" if result.is_whole else ""
    return f"all orders of {result.depth} actions{whole}: {result.states} states, {result.steps} steps, {result.cpu_s:.0f} s"


def _counterexample(name: str, broken: Broken) -> str:
    """The steps to the broken rule, and the command that repeats them."""
    walked = _walk(name, broken.path)
    lines = [f"  {line}" for line in (*walked, *_folded(broken.then))]
    ways = "; ".join(" ".join(action) for action in broken.path)
    return "\n".join([f"  {broken.what}", "", *lines, "", f"  broker-sim explore {name!r} --replay {ways!r}"])


def _walk(name: str, path: Iterable[Action]) -> list[str]:
    from broker_sim.simulation.exhaustive.catalogue import WORLDS
    from broker_sim.simulation.exhaustive.explorer import Broken

    world = WORLDS[name]()
    for action in path:
        try:
            world.take(action)
        except Broken:
            break
    return list(world.trace)


def _folded(lines: Sequence[str]) -> list[str]:
    """Without what comes again and again at the end."""
    for period in range(1, 9):
        last = list(lines[-period:])
        count = len(lines)
        while count >= period and list(lines[count - period : count]) == last:
            count -= period
        if len(lines) - count > 2 * period:
            return [*lines[:count], *last, "... and so on"]
    return list(lines)


def _replay(name: str, text: str) -> int:
    from broker_sim.simulation.exhaustive.catalogue import WORLDS
    from broker_sim.simulation.exhaustive.explorer import Broken

    world = WORLDS[name]()
    printed = 0
    try:
        for action in (part.strip() for part in text.split(";") if part.strip()):
            may = {" ".join(action): action for action in world.actions()}
            if action not in may:
                raise UsageError(f"{action!r} is not possible there; expected one of {', '.join(may)}")
            world.take(may[action])
            _out(*world.trace[printed:])
            printed = len(world.trace)
        world.settle()
    except Broken as broken:
        _out(*_folded(world.trace[printed:]), "", f"{broken.rule}: {broken.what}")
        return BROKEN
    _out(*_folded(world.trace[printed:]))
    return DONE


def _out(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
