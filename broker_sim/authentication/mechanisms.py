"""The SASL mechanisms, as functions of the client's tokens: PLAIN, SCRAM-SHA-256 and -512, OAUTHBEARER.

    exchange = begin("SCRAM-SHA-256", users, credentials, rng, now_ms)
    challenge = exchange.evaluate(token)        # bytes for the client; until exchange.complete

Sources: RFC 4616 (PLAIN), RFC 5802 (SCRAM), RFC 7628 (OAUTHBEARER); Kafka's PlainSaslServer, ScramSaslServer, OAuthBearerSaslServer and
OAuthBearerUnsecuredValidatorCallbackHandler. GSSAPI (Kerberos) would need a ticket server, and is not here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from broker_sim.authentication import AuthenticationFailed, Unanswered
from broker_sim.authentication.credentials import HASHES, ScramCredential, ScramCredentials

__all__ = ["Exchange", "begin"]

_NONCE_IS_CHECKED = (3, 7)
"""The first release that compares the nonce of a client's final message with its own (CVE-2024-56128, fixed in 3.7.2 and 3.8.1)."""

_SHOWN = 200
"""Characters of a client's name that are logged."""
_LONGEST_MS = 2**63 - 1
"""Latest time in ms, to which Java's Math.round rounds any later one."""

_SASL_NAME = "(?:[\\x01-\\x2b\\x2d-\\x3c\\x3e-\\x7f]|=2C|=3D)+"
_NONCE = "[\\x21-\\x2b\\x2d-\\x7e]+"
_VALUE = "[\\x01-\\x2b\\x2d-\\x7f]+"
_BASE64 = "(?:[A-Za-z0-9/+]{4})*(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_EXTENSIONS = f"(?:,[A-Za-z]+={_VALUE})*"
"""As ScramMessages has them."""


_DOUBLED_NONCE = (
    "the SCRAM client final message has the client's nonce twice, as librdkafka before 2.6.1 sends it (kcat of Debian 12); update the "
    "client: Kafka accepts that before 3.7.2 and 3.8.1 alone (CVE-2024-56128)"
)


class Exchange:
    """One client's exchange. Once it is ``complete``: ``user``, and when the credential expires (ms since 1970, None: never).

    ``longest`` is the most bytes of a token. Kafka takes 524,288 of each mechanism (sasl.server.max.receive.size). Where the work on so
    many would delay all other clients, a mechanism takes what it needs: who sends them is not authenticated.
    """

    complete = False
    user = ""
    claimed = ""
    """The user that the client says it is, as soon as it has."""
    expires_ms: int | None = None
    longest = 524_288

    def evaluate(self, token: bytes) -> bytes:
        """The answer to the client's next token. Raises AuthenticationFailed."""
        if len(token) > self.longest:
            raise AuthenticationFailed(f"a SASL token of {len(token)} bytes; expected at most {self.longest}")
        return self._answer(token)

    def _answer(self, token: bytes) -> bytes:
        raise NotImplementedError


class Plain(Exchange):
    """Name and password in clear (RFC 4616)."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def _answer(self, token: bytes) -> bytes:
        """Always empty: one token is the whole exchange."""
        parts = token.decode("utf-8", "replace").split("\0", 3)
        if len(parts) != 3:
            raise _shown(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        acts_as, name, password = parts
        if not name or not password:
            raise _shown(f"Authentication failed: {'password' if name else 'username'} not specified")
        self.claimed = name
        known = self._users.get(name)
        if known is None or not hmac.compare_digest(known.encode(), password.encode()):
            shown = _short(name)
            reason = f"user {shown!r} does not exist" if known is None else f"wrong password of user {shown!r}"
            raise AuthenticationFailed(reason, "Authentication failed: Invalid username or password")
        _check_acts_as(acts_as, name)
        self.user, self.complete = name, True
        return b""


def _shown(reason: str) -> AuthenticationFailed:
    return AuthenticationFailed(reason, reason)


def _check_acts_as(acts_as: str, name: str) -> None:
    if acts_as and acts_as != name:
        shown = "Authentication failed: Client requested an authorization id that is different from username"
        raise AuthenticationFailed(f"user {_short(name)!r} asks to act as {_short(acts_as)!r}", shown)


def _short(name: str) -> str:
    """As it is shown in the log."""
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."


class Scram(Exchange):
    """Salted challenge and response (RFC 5802)."""

    longest = 8192
    """A name, a nonce and some extensions: 1,600 of them at most."""

    _FIRST = re.compile(f"n,(?:a=({_SASL_NAME}))?,(?:m={_VALUE},)?n=({_SASL_NAME}),r=({_NONCE})({_EXTENSIONS})")
    _FINAL = re.compile(f"c=({_BASE64}),r=({_NONCE}){_EXTENSIONS},p=({_BASE64})")

    def __init__(
        self, mechanism: str, credentials: ScramCredentials, rng: random.Random, release: tuple[int, int]
    ) -> None:
        self._mechanism, self._credentials, self._rng, self._release = mechanism, credentials, rng, release
        self._name = self._nonce = self._clients_nonce = self._messages = ""
        self._credential: ScramCredential | None = None

    def _answer(self, token: bytes) -> bytes:
        """The server's first message, then its signature."""
        text = token.decode("utf-8", "replace")
        return self._first(text) if self._credential is None else self._final(text, self._credential)

    def _first(self, text: str) -> bytes:
        found = self._FIRST.fullmatch(text)
        if found is None:
            raise AuthenticationFailed("invalid SCRAM client first message")
        acts_as, sasl_name, nonce, rest = found.groups()
        extensions = dict(one.split("=", 1) for one in rest.split(",")[1:])
        name = sasl_name.replace("=2C", ",").replace("=3D", "=")
        if extensions.get("tokenauth", "").lower() == "true":
            raise AuthenticationFailed(f"there is no delegation token {_short(name)!r}")
        self.claimed = name
        credential = self._credentials.find(name, self._mechanism)
        if credential is None:
            has = ", ".join(self._credentials.iterations(name))
            but = f"has no credential for {self._mechanism}, but for {has}" if has else "does not exist"
            raise AuthenticationFailed(f"user {_short(name)!r} {but}")
        _check_acts_as(acts_as or "", name)
        self._name, self._nonce, self._clients_nonce = name, f"{nonce}{self._rng.randbytes(18).hex()}", nonce
        first = f"r={self._nonce},s={base64.b64encode(credential.salt).decode()},i={credential.iterations}"
        bare = [f"n={sasl_name}", f"r={nonce}", *(f"{key}={value}" for key, value in extensions.items())]
        self._messages = ",".join([*bare, first])  # signed is what was understood, not what was sent
        self._credential = credential
        return first.encode()

    def _final(self, text: str, credential: ScramCredential) -> bytes:
        found = self._FINAL.fullmatch(text)
        if found is None:
            raise AuthenticationFailed("invalid SCRAM client final message")
        if found[2] != self._nonce and self._release >= _NONCE_IS_CHECKED:
            doubled = found[2] == self._clients_nonce + self._nonce
            raise AuthenticationFailed(_DOUBLED_NONCE if doubled else "another nonce in the SCRAM client final message")
        channel, nonce, proof = (
            base64.b64encode(base64.b64decode(found[1])).decode(),
            found[2],
            base64.b64decode(found[3]),
        )
        messages = f"{self._messages},c={channel},r={nonce}".encode()
        signature = self._keyed(credential.stored_key, messages)
        if len(proof) != len(signature):
            raise Unanswered(f"a proof of {len(proof)} bytes; expected {len(signature)}")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(HASHES[self._mechanism], client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise AuthenticationFailed(f"wrong password of user {_short(self._name)!r}")
        self.user, self.complete = self._name, True
        return b"v=" + base64.b64encode(self._keyed(credential.server_key, messages))

    def _keyed(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, HASHES[self._mechanism])


class OAuthBearer(Exchange):
    """A bearer token (RFC 7628, KIP-255). Valid is what Kafka's unsecured validator takes: a JWT without signature (``alg`` none) with
    ``sub`` and ``exp``; a signature would have to be verified, and there are no keys."""

    longest = 65_536

    _FIRST = re.compile(f"n,(?:a=({_SASL_NAME}))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
    _TOKENS = re.compile(r"(\w+) +([-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
    _TOKENS_OF_3 = re.compile(r"(\w+) +([-_.a-zA-Z0-9]+)", re.ASCII)

    def __init__(self, now_ms: Callable[[], int], release: tuple[int, int]) -> None:
        self._now_ms, self._release = now_ms, release
        self._failed = ""

    def _answer(self, token: bytes) -> bytes:
        """Empty, or the error as JSON: the client confirms it with one byte, and the exchange ends."""
        failed, self._failed = self._failed, ""
        if failed and token == b"\x01":
            raise AuthenticationFailed(failed, _INVALID_TOKEN)
        first = self._FIRST.fullmatch(token.decode("utf-8", "replace"))
        pairs = {} if first is None else dict(pair.split("=", 1) for pair in first[2].split("\x01")[:-1])
        pattern = self._TOKENS if self._release >= (4, 0) else self._TOKENS_OF_3
        found = pattern.fullmatch(pairs.get("auth", ""))
        if first is None or found is None:
            raise AuthenticationFailed("invalid OAUTHBEARER client first message")
        if found[1].lower() != "bearer":
            raise Unanswered(f"an OAuth token of the type {found[1]}; expected Bearer")
        try:
            name, expires_ms = self._read(found[2])
        except ValueError as error:
            self._failed = f"invalid OAuth token: {error}"
            return _INVALID_TOKEN.encode()
        if first[1] and first[1] != name:
            raise _shown(
                f"Authentication failed: Client requested an authorization id ({first[1]}) that is different from the "
                f"token's principal name ({name})"
            )
        self.user, self.expires_ms, self.complete = name, expires_ms, True
        return b""

    def _read(self, token: str) -> tuple[str, int]:
        """The principal and when it expires. Raises ValueError with the reason."""
        parts = token.split(".")
        if len(parts) != 3 or ".." in token:
            raise ValueError("it is no JWT of three parts")
        header, claims = (_json(part, for_urls=self._release >= (4, 2)) for part in parts[:2])
        if "alg" not in header:
            raise Unanswered("an OAuth token without 'alg'")
        if header["alg"] != "none" or parts[2]:
            raise ValueError(
                f"it is signed (alg {header['alg']!r}); accepted are unsecured ones, alg 'none' without signature"
            )
        name: Any
        expires_s: Any
        issued_s: Any
        name, expires_s, issued_s, scope = (claims.get(one) for one in ("sub", "exp", "iat", "scope"))
        if not isinstance(name, str) or not name.strip():
            raise ValueError("it has no 'sub'")
        self.claimed = name
        if not _is_number(expires_s):
            raise ValueError("it has no 'exp', seconds since the epoch")
        if issued_s is not None and not (_is_number(issued_s) and issued_s < expires_s):
            raise ValueError("its 'iat' is no time before its 'exp'")
        if issued_s is not None and issued_s * 1000 > self._now_ms():
            raise ValueError("its 'iat' is later than the broker's clock")
        if isinstance(scope, bool) or _is_number(scope):
            raise ValueError("its 'scope' is neither text nor a list")
        if expires_s * 1000 <= self._now_ms():
            raise ValueError("it has expired")
        return name, round(expires_s * 1000) if expires_s * 1000 < _LONGEST_MS else _LONGEST_MS


_INVALID_TOKEN = '{"status":"invalid_token"}'


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _json(part: str, *, for_urls: bool) -> dict[str, Any]:
    """A part of a token. As in Kafka null is the text "null", what is no object has no fields, and bytes behind the value are ignored.
    ``for_urls``: the alphabet of base64. Raises ValueError."""
    try:
        if for_urls and not {"+", "/"}.isdisjoint(part):
            raise ValueError("two alphabets")
        data = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_" if for_urls else None, validate=True)
        found, _ = json.JSONDecoder(parse_constant=_no_number).raw_decode(data.decode().lstrip(" \t\r\n"))
    except (ValueError, RecursionError):
        raise ValueError("a part of it is not JSON in base64url") from None
    return {key: "null" if value is None else value for key, value in found.items()} if isinstance(found, dict) else {}


def _no_number(name: str) -> float:
    raise ValueError(name)


def begin(
    mechanism: str,
    users: Mapping[str, str],
    credentials: ScramCredentials,
    rng: random.Random,
    now_ms: Callable[[], int],
    release: tuple[int, int] = (4, 4),
) -> Exchange:
    """An exchange of one of `security.MECHANISMS`; ``users``: passwords, for PLAIN; ``now_ms``: the broker's clock, which OAuth tokens
    expire by; ``release``: of Kafka."""
    if mechanism in HASHES:
        return Scram(mechanism, credentials, rng, release)
    return Plain(users) if mechanism == "PLAIN" else OAuthBearer(now_ms, release)
