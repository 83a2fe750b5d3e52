"""Security of `serve`: its options, the sources of users, and the messages about them at the start."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.fields.kinds import is_utf8

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

__all__ = ["USERS_VARIABLE", "add_options", "by_options", "open_to_others", "summary_of", "users"]

USERS_VARIABLE = "BROKER_SIM_USERS"
_MAX_BYTES = 1 << 20


def add_options(add: Callable[..., Any]) -> None:
    """``--security-protocol`` and those that depend on it."""
    add(
        "--security-protocol",
        default="PLAINTEXT",
        metavar="P",
        help="what clients must do: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL (default: %(default)s)",
    )
    add(
        "--user",
        type=_user,
        action="append",
        default=[],
        metavar="NAME=PASSWORD",
        help="a user for SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), visible to other users of the machine; repeatable",
    )
    add(
        "--users-file",
        metavar="FILE",
        help=f"file of users, a line NAME=PASSWORD each (default: the lines of {USERS_VARIABLE} in the environment)",
    )
    add(
        "--tls-dir",
        metavar="DIR",
        help="directory of the certificates, made where they are missing (default: a temporary one)",
    )


def users(arguments: argparse.Namespace) -> dict[str, str]:
    """Passwords by user name: those of --users-file or else of the environment, then those of --user. Raises UsageError, with the
    file and the line of what is wrong and without any password."""
    path, found = arguments.users_file, os.environ.get(USERS_VARIABLE, "")
    listed = _parsed(found, USERS_VARIABLE) if path is None else _parsed(_text(path), path)
    protocol, mapped = arguments.security_protocol.upper(), "listener.security.protocol.map" in dict(arguments.config)
    if path is None and listed and protocol in ("PLAINTEXT", "SSL") and not mapped:
        raise UsageError(
            f"{USERS_VARIABLE}: a {protocol} listener has no users (expected --security-protocol SASL_PLAINTEXT or SASL_SSL, or no "
            "such variable)"
        )
    return {**listed, **dict(arguments.user)}


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"users file {path}: {error.strerror or error}") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"users file {path} is too large (expected at most {_MAX_BYTES} bytes)")
    return data.decode("utf-8-sig", "surrogateescape")


def _parsed(text: str, source: str) -> dict[str, str]:
    """Lines NAME=PASSWORD. A line that is blank or begins with ``#`` is ignored."""
    result: dict[str, str] = {}
    lines: dict[str, int] = {}
    errors: list[str] = []
    for number, line in _lines(text):
        name, equals, password = line.partition("=")
        if not name.strip() or not equals or not password:
            error = "not a user name, '=' and a password (expected e.g. alice=secret)"
        elif name != name.strip():
            error = f"the user name {name!r} has blanks around it"
        elif name in lines:
            error = f"the user {name!r} of line {lines[name]} again; remove one of the two lines"
        elif "\0" in line or not is_utf8(line):
            error = "not a line of text in UTF-8"
        else:
            result[name], lines[name] = password, number
            continue
        errors.append(f"{source}:{number}: {error}")
    if errors:
        raise UsageError("\n".join(errors))
    return result


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.removesuffix("\r")


def summary_of(cluster: Cluster) -> str:
    """Summary of the cluster's security: the steps that its clients must take, and the checks that are not made."""
    (broker, *_) = cluster.brokers
    plaintext = [name for name in cluster.listener_names if broker.protocol(name) == "PLAINTEXT"]
    return cluster.security.summary(plaintext)


def open_to_others(arguments: argparse.Namespace) -> Iterator[str]:
    """A line for each file with secrets that other users of the machine can read."""
    for option, path in (
        ("--users-file", arguments.users_file),
        ("--control-token-file", arguments.control_token_file),
    ):
        with contextlib.suppress(OSError):
            mode = 0 if path is None else os.stat(path).st_mode
            if stat.S_ISREG(mode) and mode & 0o044:
                yield f"{option}: other users of the machine can read {path} (mode {stat.S_IMODE(mode):o}); chmod 600 {path}"


def by_options(error: Exception) -> str:
    """The text of an error about a cluster's arguments, in the words of the command line."""
    from broker_sim.authentication.security import EXAMPLE_USERS

    example = "--users-file FILE or --user alice=secret"
    return str(error).replace(EXAMPLE_USERS, example).replace("or sasl.", "or --config sasl.")


def _user(text: str) -> tuple[str, str]:
    name, equals, password = text.partition("=")
    if not name or not equals:  # without the text, which may have a password
        raise argparse.ArgumentTypeError("no name and password (expected e.g. alice=secret)")
    return name, password
