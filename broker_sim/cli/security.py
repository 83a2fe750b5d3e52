"""What of `serve` is about security: its options, where users come from, and what is said of them at the start."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

__all__ = ["add_options", "by_options"]


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
        help="a user for SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512); repeatable",
    )
    add(
        "--tls-dir",
        metavar="DIR",
        help="directory of the certificates, made where they are missing (default: a temporary one)",
    )


def by_options(error: Exception) -> str:
    """The text of an error about a cluster's arguments, in the words of the command line."""
    from broker_sim.authentication.security import EXAMPLE_USERS

    return str(error).replace(EXAMPLE_USERS, "--user alice=secret").replace("or sasl.", "or --config sasl.")


def _user(text: str) -> tuple[str, str]:
    name, equals, password = text.partition("=")
    if not name or not equals:  # without the text, which may have a password
        raise argparse.ArgumentTypeError("no name and password (expected e.g. alice=secret)")
    return name, password
