"""What all commands of ``broker-sim`` share: parsers whose errors are one line, exit codes, where a control server is.

A command that lives in a module of its own is entered in ``cli.ELSEWHERE``; the module has

    def register(commands, name):                 # called for that command alone
        parser = add_command(commands, name, run, description=..., epilog="examples:\\n ...")
        parser.add_argument(...)

    def run(arguments) -> int: ...                # the exit code
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["BROKEN", "CONTROL_PORT", "DEADLINE", "DONE", "USAGE", "Parser", "add_command"]

DONE, BROKEN, USAGE, DEADLINE = 0, 1, 2, 3
"""Exit codes: all is well; a verdict is broken, or what was asked for can't be done; it was asked wrongly; a deadline passed."""

CONTROL_PORT = 9099
"""Where commands look for a control server that nobody named."""


class Parser(argparse.ArgumentParser):
    """Errors are one line, not the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def add_command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], **options: Any) -> Parser:
    """A parser below ``commands`` (what ``add_subparsers`` gave); ``run(arguments)`` does it and returns the exit code.

    ``options`` are those of `argparse.ArgumentParser`. ``arguments.parser`` is the parser. One with a positional ``words`` (nargs="*")
    gets the words between and behind its options, too.
    """
    parser: Parser = commands.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter, **options)
    parser.set_defaults(run=run, parser=parser)
    return parser
