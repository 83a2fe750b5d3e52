"""The commands that control running brokers: ``broker-sim state``, ``fault``, ``clock``, ``group`` and their like.

Rules:
1. A command is an operation of the table: its parameters are the options, some of them stand without a name, and all of them may be
   written as KEY=VALUE. ``verbs`` says which, and nothing else is declared.
2. stdout has the answer, for people or (``--json``) as the control server gave it; stderr what went wrong.
3. Exit codes: 0 done; 1 it can't be done, or a rule that had to hit never did; 2 wrong usage, or no server; 3 a deadline passed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn

from broker_sim.common.commandline import BROKEN, CONTROL_PORT, DEADLINE, DONE, USAGE, Commands, add_command
from broker_sim.common.text import UsageError, nearest, unknown, visible_lines
from broker_sim.control import on_groups, on_transactions, render, token
from broker_sim.control.client import ControlClient, ControlFailed, Unreachable
from broker_sim.control.on_journal import JournalQuery
from broker_sim.control.operations import Operation, find
from broker_sim.control.verbs import TEXTS, VERBS, Verb
from broker_sim.fields.field import Field
from broker_sim.fields.kinds import Choice, Duration, Flag
from broker_sim.journal import JournalError, read

__all__ = ["add_verbs", "incomplete", "register", "spelled_out"]

URL_VARIABLE = "BROKER_SIM_CONTROL"


# --- parsers ----------------------------------------------------------------------------------------------------------


def spelled_out(words: Sequence[str]) -> list[str]:
    """A command with its verb, where that may be left away: ``state LOG STATE`` is ``state set LOG STATE``."""
    noun, rest = words[0], list(words[1:])
    verbs = VERBS.get(noun, {})
    if "" in verbs or rest[:1] in (["-h"], ["--help"]) or (rest and rest[0] in verbs):
        return [noun, *rest]
    bare = 0
    while bare < len(rest) and not rest[bare].startswith("-"):
        bare += 1
    verb = (
        ("list" if "list" in verbs else "")
        if bare == 0
        else "get"
        if noun in ("group", "share", "transaction", "topic", "log", "state")
        else ""
    )
    if noun == "state" and bare > 1:
        verb = "set"
    verb = {"clock": "get", "journal": "read"}.get(noun, verb) if bare == 0 else verb
    return [noun, *([verb] if verb else []), *rest]


def register(commands: Commands, name: str) -> None:
    """Add the parser of one of these commands."""
    verbs = VERBS[name]
    if "" in verbs:
        _leaf(commands, name, verbs[""])
        return
    shown = [example for verb in verbs.values() for example in verb.examples]
    parser = add_command(commands, name, incomplete, description=TEXTS[name], epilog=_examples(shown))
    add_verbs(parser.add_subparsers(metavar="VERB", title="verbs", parser_class=type(parser)), name)


def add_verbs(below: Commands, name: str) -> None:
    """Add the parsers of the verbs of a command."""
    for verb, what in VERBS[name].items():
        _leaf(below, verb, what)


def incomplete(arguments: argparse.Namespace) -> NoReturn:
    """Exit with code 2, for a command without its verb."""
    arguments.parser.error("a verb is missing")
    raise AssertionError("unreachable")


def _examples(lines: Sequence[str]) -> str:
    return "examples:\n" + "".join(f"  broker-sim {line}\n" for line in lines)


def _leaf(commands: Commands, name: str, verb: Verb) -> None:
    operation = find(verb.operation)
    summary = " ".join(operation.doc.split())
    parser = add_command(
        commands,
        name,
        _run,
        help=summary[0].lower() + summary[1:].rstrip("."),
        description=summary,
        epilog=_examples(verb.examples),
    )
    bare = [operation.parameters[parameter] for parameter in verb.bare]
    parser.add_argument(
        "words",
        nargs="*",
        metavar=" ".join(
            parameter.name.upper() if parameter.required else f"[{parameter.name.upper()}]" for parameter in bare
        )
        or "KEY=VALUE",
        help="; ".join(
            f"{parameter.name}: {_text(parameter)}" if len(bare) > 1 else _text(parameter) for parameter in bare
        )
        or "the options below, without their dashes",
    )
    for field in operation.parameters.values():
        if field.name not in verb.bare and field.name != "form":
            _option(parser, field)
    extra = _EXTRAS.get(verb.operation)
    if extra is not None:
        extra(parser)
    _common(parser, operation)
    parser.set_defaults(verb=verb)


def _text(parameter: Field) -> str:
    """The help of a parameter: what it sets, which values it takes, its default."""
    text = parameter.doc
    if isinstance(parameter.kind, Choice):
        text += f" (one of {', '.join(parameter.kind.names())})"
    elif isinstance(parameter.kind, Duration):
        text += f", as in {parameter.example or '500ms'}" if parameter.default is None else ""
    if parameter.default is not None and not isinstance(parameter.kind, Flag) and "(default" not in text:
        is_time = isinstance(parameter.kind, Duration)
        text += f" (default: {f'{parameter.default:g}s' if is_time else parameter.default})"
    return text.replace("%", "%%")


def _option(parser: argparse.ArgumentParser, parameter: Field) -> None:
    name, text = f"--{parameter.name.replace('_', '-')}", _text(parameter)
    if isinstance(parameter.kind, Flag):
        parser.add_argument(
            name, dest=f"p_{parameter.name}", action=argparse.BooleanOptionalAction, default=None, help=text
        )
    else:
        parser.add_argument(
            name, dest=f"p_{parameter.name}", metavar=parameter.kind.metavar or parameter.name.upper(), help=text
        )


def _common(parser: argparse.ArgumentParser, operation: Operation) -> None:
    group = parser.add_argument_group("control server")
    group.add_argument(
        "--control",
        metavar="URL",
        default=os.environ.get(URL_VARIABLE) or f"http://127.0.0.1:{CONTROL_PORT}",
        help=f"its address, as `serve --control` prints it (default: %(default)s; environment {URL_VARIABLE})",
    )
    group.add_argument(
        "--control-token-file",
        metavar="FILE",
        help=f"file with its bearer token (default: the token in the environment, {token.VARIABLE})",
    )
    if operation.on == "cluster":
        group.add_argument(
            "--cluster", metavar="ID", default="default", help="virtual cluster of the process (default: %(default)s)"
        )
    parser.add_argument("--json", action="store_true", help="print the response as JSON")


def _offline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--journal",
        metavar="PATH",
        help="read a journal file or directory (serve --journal) in place of a running broker",
    )


def _drawing(parser: argparse.ArgumentParser) -> None:
    _offline(parser)
    parser.add_argument("--html", metavar="FILE", help="write the timeline as a page that needs no network")
    parser.add_argument("--svg", metavar="FILE", help="write the timeline as an SVG picture")


def _watching(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--watch", action="store_true", help="print every change until Ctrl-C")


_EXTRAS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "group.explain": _offline,
    "transaction.explain": _offline,
    "group.timeline": _drawing,
    "group.get": _watching,
    "journal.read": _offline,
}


# --- running ----------------------------------------------------------------------------------------------------------

_ASSIGNMENT = re.compile(r"([a-z][a-z_-]*)=(.*)", re.DOTALL)


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The operation's parameters, of options and words. Raises UsageError."""
    verb: Verb = arguments.verb
    parameters = find(verb.operation).parameters
    given = {name: value for name in parameters if (value := getattr(arguments, f"p_{name}", None)) is not None}
    bare = list(verb.bare)
    for word in arguments.words:
        match = None if bare == ["text"] else _ASSIGNMENT.fullmatch(word)
        if match is None:
            if not bare:
                raise UsageError(f"unexpected argument {word!r}; name its parameter, as in KEY=VALUE")
            name, value = bare.pop(0), word
        else:
            name, value = match[1].replace("-", "_"), match[2]
            if name not in parameters:
                raise unknown("parameter", match[1], parameters)
            if name in bare:
                bare.remove(name)
        if name in given:
            raise UsageError(f"{name} is given twice")
        given[name] = value
    for name in bare:
        if parameters[name].required:
            raise UsageError(f"{name.upper()} is missing: {parameters[name].doc}")
    return given


def _client(arguments: argparse.Namespace) -> ControlClient:
    secret = token.given(arguments.control_token_file)
    return ControlClient(arguments.control, secret, getattr(arguments, "cluster", "default"))


def _run(arguments: argparse.Namespace) -> int:
    """Do it and print the answer; returns the exit code."""
    try:
        given = _given(arguments)
        special = _SPECIAL.get(arguments.verb.operation, _plain)
        special(arguments, given)
        sys.stdout.flush()
    except ControlFailed as failed:
        return _failed(arguments, str(failed), {408: DEADLINE, 409: BROKEN}.get(failed.status, USAGE))
    except (UsageError, Unreachable) as error:
        return _failed(arguments, str(error), USAGE)
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # the reader ended; nothing is left to be flushed
    except KeyboardInterrupt:
        return DONE
    return DONE


def _failed(arguments: argparse.Namespace, text: str, code: int) -> int:
    sys.stderr.write(f"{arguments.parser.prog}: {visible_lines(text)}\n")
    return code


def _print(text: str) -> None:
    text = visible_lines(text)
    sys.stdout.write(f"{text}\n" if text and not text.endswith("\n") else text)
    sys.stdout.flush()


def _show(arguments: argparse.Namespace, operation: str, answer: object) -> None:
    _print(json.dumps(answer) if arguments.json else render.text(operation, answer))


def _plain(arguments: argparse.Namespace, given: dict[str, Any]) -> None:
    name = arguments.verb.operation
    with _hint(arguments, given) if find(name).waits and "group" in given else nullcontext():
        answer = _client(arguments).perform(name, **given)
    _show(arguments, name, answer)


HINT_S = 1.0
"""After this time a wait prints a hint if its name may be misspelled."""


@contextmanager
def _hint(arguments: argparse.Namespace, given: dict[str, Any]) -> Iterator[None]:
    """While a command waits: a line on stderr where there is no such group, but one that is called nearly so."""

    def look() -> None:
        with suppress(ControlFailed, Unreachable, UsageError):
            there = [str(group["group"]) for group in _client(arguments).perform("group.list")["groups"]]
            meant = None if given["group"] in there else nearest(given["group"], there)
            if meant is not None:
                words = f"still waiting: no group {given['group']!r} up to now; did you mean {meant!r}?"
                sys.stderr.write(f"{arguments.parser.prog}: {visible_lines(words)}\n")

    timer = threading.Timer(HINT_S, look)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # one that is writing its line ends first


def _get_group(arguments: argparse.Namespace, given: dict[str, Any]) -> None:
    client = _client(arguments)
    if not arguments.watch:
        _show(arguments, "group.get", client.perform("group.get", **given))
        return
    shown: Any = None
    for event in client.journal(group=given["group"], follow=True):
        if event["event"] not in ("group", "offsets", "load", "leader"):
            continue
        try:
            group = client.perform("group.get", group=given["group"])
        except ControlFailed as failed:
            if failed.status != 404:
                raise
            group = {"group": given["group"], "state": "Dead", "generation": 0, "members": [], "offsets": {}, "lag": {}}
        if group != shown:
            shown = group
            _print(json.dumps(group) if arguments.json else render.group_line(event["ts_ms"], group))


def _replay_order(arguments: argparse.Namespace, given: dict[str, Any]) -> None:
    from broker_sim.faults.recorded import load

    entries = [entry.to_dict() for entry in load(given["entries"])]
    _plain(arguments, {**given, "entries": entries})


def _start_scenario(arguments: argparse.Namespace, given: dict[str, Any]) -> None:
    """The file is read here: the brokers may be on another machine."""
    name = given.get("name", "")
    if "file" not in given and (Path(name).is_file() or name.endswith((".yaml", ".yml"))):
        try:
            given = {**given, "file": Path(name).read_text(encoding="utf-8")}
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    _plain(arguments, given)


def _events(path: str) -> list[dict[str, Any]]:
    """The events of a journal's file or directory. Raises UsageError, also for one without events."""
    try:
        events = list(read(path))
    except JournalError as error:
        raise UsageError(str(error)) from None
    if not events:
        raise UsageError(f"{path}: a journal without events")
    return events


def _explain(arguments: argparse.Namespace, given: dict[str, Any]) -> None:
    if arguments.journal is None:
        _plain(arguments, given)
        return
    from broker_sim import explain

    checked = find("group.explain").checked(given)
    events = _events(arguments.journal)
    on_groups.require_in_journal(events, checked["group"])
    text = explain.explain(events, checked["group"], checked.get("generation"))
    _show(arguments, "group.explain", {"group": checked["group"], "text": text})


def _explain_transaction(arguments: argparse.Namespace, given: dict[str, Any]) -> None:
    if arguments.journal is None:
        _plain(arguments, given)
        return
    name, events = find("transaction.explain").checked(given)["transactional_id"], _events(arguments.journal)
    on_transactions.require_in_journal(events, name)
    answer = {"transactional_id": name, "text": on_transactions.explained(events, name)}
    _show(arguments, "transaction.explain", answer)


def _timeline(arguments: argparse.Namespace, given: dict[str, Any]) -> None:
    given.setdefault("width", max(40, min(400, shutil.get_terminal_size((100, 24)).columns)))
    given = find("group.timeline").checked(given)
    group = given["group"]
    pictures = {"html": arguments.html, "svg": arguments.svg}
    wanted = {form: path for form, path in pictures.items() if path is not None}
    client = None if arguments.journal is not None else _client(arguments)
    events = _events(arguments.journal) if arguments.journal is not None else []
    if client is None:
        on_groups.require_in_journal(events, group)

    def drawn(form: str) -> str:
        if client is None:
            return on_groups.drawn(events, group, form, given["width"])
        if form != "text":
            return client.picture("group.timeline", form, group=group)
        text: str = client.perform("group.timeline", **given)["text"]
        return text

    for form, path in wanted.items():
        try:
            Path(path).write_text(drawn(form), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from None
    if not wanted:
        _show(arguments, "group.timeline", {"group": group, "text": drawn("text")})


def _journal(arguments: argparse.Namespace, given: dict[str, Any]) -> None:
    if arguments.journal is None:
        events = _client(arguments).journal(**given)
    else:
        wanted = JournalQuery(find("journal.read").checked(given))
        events = iter(wanted.of(_events(arguments.journal)))
    none = True
    for event in events:
        none = False
        _print(json.dumps(event) if arguments.json else render.event_line(event))
    if none and given and not given.get("follow"):
        sys.stderr.write(f"{arguments.parser.prog}: no event fits that\n")


_SPECIAL: dict[str, Callable[[argparse.Namespace, dict[str, Any]], None]] = {
    "group.get": _get_group,
    "group.explain": _explain,
    "transaction.explain": _explain_transaction,
    "group.timeline": _timeline,
    "journal.read": _journal,
    "order.replay": _replay_order,
    "scenario.start": _start_scenario,
}
