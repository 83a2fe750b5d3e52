"""The client's side of the SASL exchanges, for clients of our own.

tokens = client_tokens("SCRAM-SHA-256", "alice", "secret")
token = next(tokens)                        # for SaslAuthenticate
token = tokens.send(answer)                 # until StopIteration: the broker has shown that it knows the password, too
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator

from broker_sim.authentication import AuthenticationFailed
from broker_sim.authentication.credentials import HASHES

__all__ = ["client_tokens"]


def client_tokens(mechanism: str, user: str, password: str) -> Generator[bytes, bytes, None]:
    """The tokens of PLAIN or SCRAM, for the broker's answers. Raises AuthenticationFailed for an answer that only another broker than
    one that knows the password would give."""
    if mechanism == "PLAIN":
        yield f"\0{user}\0{password}".encode()
        return
    name, nonce = HASHES[mechanism], secrets.token_urlsafe(18)
    bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    first = (yield f"n,,{bare}".encode()).decode()
    fields = dict(part.split("=", 1) for part in first.split(","))
    if not fields["r"].startswith(nonce):
        raise AuthenticationFailed("the broker's nonce does not begin with the client's")
    salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    unproven = f"c=biws,r={fields['r']}"
    messages = f"{bare},{first},{unproven}".encode()
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), messages, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    final = yield f"{unproven},p={base64.b64encode(proof).decode()}".encode()
    signature = hmac.digest(hmac.digest(salted, b"Server Key", name), messages, name)
    if final != b"v=" + base64.b64encode(signature):
        raise AuthenticationFailed("the broker's signature is wrong: it does not know the password")
