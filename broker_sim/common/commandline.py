"""Common parts of all commands of ``broker-sim``: parsers whose errors are one line, exit codes, the address of a control server.

A command that lives in a module of its own is entered in ``cli.ELSEWHERE``; the module has

    def register(commands, name):                 # called for that command alone
        parser = add_command(commands, name, run, description=..., epilog="examples:\\n ...")
        parser.add_argument(...)

    def run(arguments) -> int: ...                # the exit code
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType
from typing import Any, NoReturn, TypeAlias

from broker_sim.common.text import expected, nearest, visible

__all__ = [
    "BROKEN",
    "CONTROL_PORT",
    "DEADLINE",
    "DONE",
    "USAGE",
    "Commands",
    "Parser",
    "add_command",
    "complain",
    "handling",
    "seeds",
    "setting",
    "terminable",
    "warnings_as_lines",
    "whole",
]

DONE, BROKEN, USAGE, DEADLINE = 0, 1, 2, 3
"""Exit codes: all is well; a verdict is broken, or what was asked for can't be done; it was asked wrongly; a deadline passed."""

CONTROL_PORT = 9099
"""The port of the control server if none is given."""


class Parser(argparse.ArgumentParser):
    """Errors are one line instead of the whole usage; an invalid choice is reported with the valid ones, the most similar one first."""

    def __init__(self, **options: Any) -> None:
        # argparse makes a formatter to check each new option; without a width each asks shutil, which loads compression
        super().__init__(formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=80), **options)

    def format_help(self) -> str:
        self.formatter_class = argparse.RawDescriptionHelpFormatter  # as wide as the terminal
        return super().format_help()

    def _check_value(self, action: argparse.Action, value: object) -> None:
        choices = action.choices
        if choices is not None and value not in choices:
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {expected(value, map(str, choices))}")

    def unrecognized(self, words: Sequence[str]) -> NoReturn:
        """Words that no option of this parser is; the most similar option is named."""
        options = [name[2:] for name in self._option_string_actions if name.startswith("--")]
        meant = dict.fromkeys(nearest(word[2:].partition("=")[0], options) for word in words if word.startswith("--"))
        hint = " and ".join(f"'--{name}'" for name in meant if name is not None)
        self.error(f"unrecognized arguments: {' '.join(words)}{hint and f'; did you mean {hint}?'}")

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {visible(message)} (see {self.prog} --help)\n")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""The result of ``add_subparsers``, to which verbs are added."""


def add_command(commands: Commands, name: str, run: Callable[[argparse.Namespace], int], **options: Any) -> Parser:
    """A parser below ``commands``; ``run(arguments)`` does it and returns the exit code.

    ``options`` are those of `argparse.ArgumentParser`. ``arguments.parser`` is the parser. One with a positional ``words`` (nargs="*")
    gets the words between and behind its options, too.
    """
    parser: Parser = commands.add_parser(name, **options)
    parser.set_defaults(run=run, parser=parser)
    return parser


def setting(example: str) -> Callable[[str], tuple[str, str]]:
    """A ``type`` for arguments that are KEY=VALUE; ``example``: one of them."""

    def parse(text: str) -> tuple[str, str]:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE (expected e.g. {example})")
        return name, value

    return parse


def whole(text: str) -> int:
    """A ``type`` for arguments that count something."""
    if not text.isdigit() or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 100000")
    return int(text)


def seeds(text: str) -> range:
    """A ``type`` for arguments that are a range of seeds, or one seed."""
    match = re.fullmatch(r"(\d{1,18})(?:\.\.(\d{1,18}))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a seed or a range of seeds (expected e.g. 7 or 0..1000)")
    first = int(match[1])
    numbers = range(first, int(match[2]) if match[2] else first + 1)
    if not numbers:
        raise argparse.ArgumentTypeError(f"{text!r} is an empty range of seeds (expected e.g. 0..1000)")
    return numbers


def complain(command: str, error: object) -> None:
    """Print what is wrong on stderr, each line with the command's name."""
    for line in str(error).split("\n"):
        sys.stderr.write(f"{command}: {visible(line)}\n")


@contextmanager
def warnings_as_lines(command: str) -> Iterator[None]:
    """In this block a UserWarning, about what the user gave, is a line on stderr; another warning has its place in the code, too."""
    show = warnings.showwarning

    def shown(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, UserWarning):
            complain(command, f"warning: {message}")
        else:
            show(message, category, *place, **more)

    warnings.showwarning = shown
    try:
        yield
    finally:
        warnings.showwarning = show


SignalHandler: TypeAlias = Callable[[int, FrameType | None], object] | int
"""As of `signal.signal`: a function, SIG_DFL or SIG_IGN."""


@contextmanager
def handling(handler: SignalHandler, *numbers: int) -> Iterator[None]:
    """In the block ``handler`` has these signals, afterwards the one that each had, unless that was set by C code, which Python cannot
    set again. In other threads than the main one, which alone has signals, it does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, was in before.items():
            if was is not None:
                signal.signal(number, was)


def terminable() -> AbstractContextManager[None]:
    """In the block SIGTERM is what Ctrl-C is, a KeyboardInterrupt."""
    return handling(signal.default_int_handler, signal.SIGTERM)
