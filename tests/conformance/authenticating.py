"""The client's side of SASL, for what no well-behaved client would send: tokens as bytes, each part replaceable."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import Any

from kafka_wire.messages.k03_metadata import MetadataRequest
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from kafka_wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from tests.conformance.driver import Kafka, RecordedWire
from tests.support.bearer_tokens import web_token
from tests.support.wire import WireClosedError

USERS = {"alice": "alice-secret", "bob": "bob-secret", "x,y=z": "comma"}
SESSION_MS = 4000
"""connections.max.reauth.ms of the profile "sasl-sessions"."""
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ALICE = b"\0alice\0alice-secret"
BOB = b"\0bob\0bob-secret"


class Client:
    """A connection whose answers are all part of the comparison; None: the broker closed it without an answer."""

    def __init__(self, kafka: Kafka, wire: RecordedWire) -> None:
        self.kafka, self.wire = kafka, wire

    @classmethod
    async def connect(cls, kafka: Kafka) -> Client:
        return cls(kafka, await kafka.wire())

    async def ask(self, request: Any, version: int) -> Any:
        try:
            return await self.wire.send(request, version)
        except WireClosedError:
            return None

    async def handshake(self, mechanism: str, version: int = 1) -> Any:
        return await self.ask(SaslHandshakeRequest(mechanism), version)

    async def token(self, token: bytes, version: int = 2) -> Any:
        return await self.ask(SaslAuthenticateRequest(token), version)

    async def raw(self, data: bytes) -> bytes | None:
        """The next frame, behind four bytes of size and these; None if there is no further one."""
        self.wire.write_raw(len(data).to_bytes(4, "big", signed=True) + data)
        answer = await self.wire.next_frame_or_end()
        self.kafka.recording.note("raw", "closed" if answer is None else answer)
        return answer

    def now_s(self) -> float:
        """By the broker's clock, in seconds since 1970."""
        return time.time() if self.kafka.kind == "kafka" else self.kafka.cluster.time.now_ms() / 1000

    async def is_served(self) -> bool:
        """Whether another request is answered."""
        return await self.ask(FindCoordinatorRequest("any", key_type=7), 1) is not None

    async def plain(self, token: bytes = ALICE, version: int = 2) -> Any:
        """The whole exchange."""
        await self.handshake("PLAIN")
        return await self.token(token, version)


class Scram:
    """The messages of RFC 5802. Of the first: ``gs2``, ``name`` (as sent), ``more``; ``salted``: in place of the salted
    password; what differs between two runs is named in the recording."""

    def __init__(
        self,
        kafka: Kafka,
        mechanism: str,
        name: str = "alice",
        password: str = "alice-secret",
        gs2: str = "n,,",
        *,
        salted: bytes | None = None,
    ) -> None:
        self._kafka, self._hash, self._password, self._gs2 = kafka, HASHES[mechanism], password, gs2
        self._name, self._server_first, self._without_proof = name, "", ""
        self._given, self._salted = salted, b""
        self.iterations = 0

    def first(self, more: str = "", *, reserved: str = "") -> bytes:
        self._bare = f"n={self._name},r=client-nonce{more}"
        return f"{self._gs2}{reserved}{self._bare}".encode()

    def answered(self, token: bytes) -> None:
        """The server's first message."""
        self._server_first = token.decode()
        fields = dict(part.split("=", 1) for part in self._server_first.split(","))
        self.nonce, salt = fields["r"], base64.b64decode(fields["s"])
        self._kafka.recording.named[self.nonce.removeprefix("client-nonce")] = "<nonce>"
        if salt:
            self._kafka.recording.named[fields["s"]] = "<salt>"
        self.iterations = int(fields["i"])
        self._salted = self._given or hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, self.iterations)

    def final(
        self, *, nonce: str | None = None, channel: str | None = None, more: str = "", proof: str | None = None
    ) -> bytes:
        """With the right proof of these parts unless one is given."""
        channel = base64.b64encode(self._gs2.encode()).decode() if channel is None else channel
        self._without_proof = f"c={channel},r={self.nonce if nonce is None else nonce}"
        client_key = self._keyed(self._salted, b"Client Key")
        signature = self._keyed(hashlib.new(self._hash, client_key).digest(), self._messages())
        right = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
        self._kafka.recording.named[base64.b64encode(self.signature()).decode()] = "<signature>"
        return f"{self._without_proof}{more},p={right if proof is None else proof}".encode()

    def signature(self) -> bytes:
        """The server's."""
        return self._keyed(self._keyed(self._salted, b"Server Key"), self._messages())

    def _messages(self) -> bytes:
        return f"{self._bare},{self._server_first},{self._without_proof}".encode()

    def _keyed(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def jwt(header: Any = None, signature: str = "", *, left_out: str = "", **claims: Any) -> str:
    """A token of alice's that is valid for an hour, unless it says otherwise."""
    now_s = time.time()
    given = {"sub": "alice", "iat": int(now_s) - 60, "exp": int(now_s) + 3600, **claims}
    given.pop(left_out, None)
    return web_token({"alg": "none"} if header is None else header, given, signature)


REQUESTS: dict[str, tuple[Any, int]] = {
    "ApiVersions": (ApiVersionsRequest("test", "1"), 3),
    "ApiVersions_v0": (ApiVersionsRequest(), 0),
    "ApiVersions_invalid_name": (ApiVersionsRequest("-test-", "1"), 3),
    "Metadata": (MetadataRequest([]), 1),
    "Heartbeat": (HeartbeatRequest("g", 1, "m"), 4),
    "SaslAuthenticate": (SaslAuthenticateRequest(ALICE), 2),
    "SaslAuthenticate_v0": (SaslAuthenticateRequest(ALICE), 0),
    "SaslHandshake": (SaslHandshakeRequest("PLAIN"), 1),
    "SaslHandshake_unknown": (SaslHandshakeRequest("GSSAPI"), 1),
    "SaslHandshake_empty": (SaslHandshakeRequest(""), 1),
    "SaslHandshake_lower_case": (SaslHandshakeRequest("plain"), 1),
    "SaslHandshake_unknown_v0": (SaslHandshakeRequest("GSSAPI"), 0),
}


async def exchange(client: Client, name: str) -> Any:
    """Send one of REQUESTS and return the answer."""
    request, version = REQUESTS[name]
    if not name.startswith("ApiVersions"):
        return await client.ask(request, version)
    recording = client.wire.recording
    client.wire.recording = None  # which APIs there are is not what these tests are about
    answer = await client.ask(request, version)
    client.wire.recording = recording
    client.kafka.recording.note(name, "closed" if answer is None else answer.error_code)
    return answer
