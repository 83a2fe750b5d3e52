"""The SASL_PLAINTEXT listener of a real broker: its settings, and its SCRAM users."""

from __future__ import annotations

import hashlib
import socket
import struct
import time
from collections.abc import Mapping, Sequence

_HASHES = {1: "sha256", 2: "sha512"}
"""By Kafka's numbers of SCRAM-SHA-256 and SCRAM-SHA-512 (ScramMechanism)."""


def properties(users: Mapping[str, str]) -> dict[str, str]:
    """For every mechanism but GSSAPI. A user whose name has other characters than letters is for SCRAM alone: JAAS can't write it."""
    package, listener = "org.apache.kafka.common.security", "listener.name.sasl_plaintext"
    plain = "".join(f' user_{name}="{password}"' for name, password in users.items() if name.isalpha())
    modules = {
        "plain": f"{package}.plain.PlainLoginModule required{plain};",
        "scram-sha-256": f"{package}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{package}.scram.ScramLoginModule required;",
        "oauthbearer": f'{package}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
    }
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(name.upper() for name in modules),
        **{f"{listener}.{name}.sasl.jaas.config": text for name, text in modules.items()},
    }


def add_scram_users(users: Mapping[str, str], listeners: Sequence[tuple[int, int]], deadline: float) -> None:
    """AlterUserScramCredentials (from 3.5 on), and until every broker takes the last user. ``listeners``: the ports (PLAINTEXT,
    SASL_PLAINTEXT) of each broker; ``deadline``: a time.monotonic() value."""
    for mechanism in _HASHES:
        with socket.create_connection(("127.0.0.1", listeners[0][0]), 60) as client:
            _ask(client, _scram_request(users, mechanism))
    name = list(users)[-1].replace("=", "=3D").replace(",", "=2C").encode()
    mechanism, token = b"SCRAM-SHA-512", b"n,,n=" + name + b",r=abc"
    handshake = struct.pack(f">hhihh{len(mechanism)}s", 17, 1, 1, -1, len(mechanism), mechanism)
    first = struct.pack(f">hhihi{len(token)}s", 36, 0, 2, -1, len(token), token)
    for _, port in listeners:
        while True:
            with socket.create_connection(("127.0.0.1", port), 60) as client:
                _ask(client, handshake)
                answer = _ask(client, first)
            if answer[4:6] == bytes(2):
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited for the SCRAM users of the broker on port {port}: {answer!r}")


def _scram_request(users: Mapping[str, str], mechanism: int) -> bytes:
    """AlterUserScramCredentials v0: every user's password for one mechanism."""
    salt, rows = b"salt of the tests", []
    for name, password in users.items():
        salted = hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, 4096)
        rows.append(
            _compact(name.encode()) + struct.pack(">bi", mechanism, 4096) + _compact(salt) + _compact(salted) + b"\0"
        )
    return struct.pack(">hhihxbb", 51, 0, 1, -1, 1, len(rows) + 1) + b"".join(rows) + b"\0"


def _compact(data: bytes) -> bytes:
    assert len(data) < 127
    return bytes([len(data) + 1]) + data


def _ask(client: socket.socket, payload: bytes) -> bytes:
    """The payload of the response; empty if the broker closes the connection."""
    client.sendall(struct.pack(">i", len(payload)) + payload)
    with client.makefile("rb") as reader:
        return reader.read(int.from_bytes(reader.read(4), "big"))
