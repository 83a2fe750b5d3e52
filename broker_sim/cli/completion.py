"""Completion on the command line: what may stand in a word's place, asked of the same parsers that read the words.

broker-sim completion bash                      # the script for a shell; it asks by
broker-sim completion --words group wai         # -> wait: the last word is the one that is being typed
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

__all__ = ["SHELLS", "candidates"]

SHELLS = {
    "bash": """\
_broker_sim() {
    local IFS=$'\\n'
    COMPREPLY=($(broker-sim completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _broker_sim broker-sim
""",
    "zsh": """\
#compdef broker-sim
_broker_sim() {
    local -a found
    found=(${(f)"$(broker-sim completion --words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then compadd -a found; else _files; fi
}
compdef _broker_sim broker-sim
""",
    "fish": """\
complete -c broker-sim -a '(broker-sim completion --words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}
"""Shell -> its script: ``eval "$(broker-sim completion bash)"``; where nothing is found the shell offers files."""


def candidates(
    parser: argparse.ArgumentParser, words: Sequence[str], more: Callable[[str], Iterable[str]]
) -> list[str]:
    """Completions of the last of ``words``. ``more(command)``: further names that a command takes."""
    *before, typed = words or [""]
    command = ""
    for word in before:
        verbs = _verbs(parser)
        if word in verbs:
            parser, command = verbs[word], f"{command} {word}".strip()
    option = next((action for action in parser._actions if before and before[-1] in action.option_strings), None)
    values: Iterable[str]
    if option is not None and option.nargs != 0 and not isinstance(option, argparse.BooleanOptionalAction):
        values = map(str, option.choices or ())
    elif typed.startswith("-"):
        values = (name for action in parser._actions for name in action.option_strings if name.startswith("--"))
    else:
        choices = (action.choices for action in parser._actions if not action.option_strings and action.choices)
        values = [*(str(name) for names in choices for name in names), *more(command)]
    return sorted({name for name in values if name.startswith(typed)})


def _verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
