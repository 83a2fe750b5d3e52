"""The token of a control server: who has it may do anything to the brokers."""

from __future__ import annotations

import ipaddress
import os
import secrets
import sys
from pathlib import Path

from broker_sim.common.text import UsageError

__all__ = ["VARIABLE", "checked", "for_address", "given", "is_loopback", "read"]

VARIABLE = "BROKER_SIM_CONTROL_TOKEN"
"""Environment variable with the token, for servers and clients, if no file has it."""
MAX_BYTES = 4096


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def read(path: str) -> str:
    """The token in a file, without surrounding blanks. Raises UsageError if the file can't be read or contains no token."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode("ascii").strip()
    except OSError as error:
        raise UsageError(f"token file {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        text = ""
    return checked(text, f"token file {path}")


def checked(text: str, source: str) -> str:
    """The text, which is a token. Raises UsageError, without the text."""
    if not 0 < len(text) <= MAX_BYTES or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(f"{source} holds no token: one line of printable ASCII without blanks")
    return text


def given(path: str | None) -> str | None:
    """The token in the file, without a file that of the environment; None where there is neither. Raises UsageError."""
    if path is not None:
        return read(path)
    text = os.environ.get(VARIABLE)
    return checked(text, VARIABLE) if text else None


def for_address(host: str, path: str | None) -> str | None:
    """The token of a server on ``host``: that of the file or of the environment; without, on an address that other machines can reach,
    a new random one, which is printed on stderr. Raises UsageError."""
    known = given(path)
    if known is not None or is_loopback(host):
        return known
    token = secrets.token_urlsafe(24)
    sys.stderr.write(f"broker-sim: control of {host} needs this token: {token}\n")
    return token
