"""Random sequences of SASL requests, the same ones for a real broker and the simulator; their answers are compared.

    python -m tests.differential.authentication --version 4.1 --sequences 1000 --first 0

A sequence follows from its seed. Most of its requests are those of a client that authenticates, with one thing changed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import logging
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from broker_sim import Cluster
from kafka_wire.messages.k03_metadata import MetadataRequest
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from kafka_wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from tests.conformance.authenticating import ALICE, HASHES, USERS, Scram, jwt
from tests.support.bearer_tokens import bearer, encoded
from tests.support.real_kafka import RealKafka
from tests.support.wire import Wire, WireClosedError

RELEASES = {"3.4": "3.4.0", "4.1": "4.1.0", "4.4": "4.4.0"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
STEPS = 8
DEADLINE_S = 30.0
AT_ONCE = 16
REAUTHENTICATION_MS = (0, 60_000)
"""connections.max.reauth.ms of the even and of the odd seeds."""


class _Unrecorded:
    """Recording in which a Scram of the conformance tests names its random parts."""

    def __init__(self) -> None:
        self.recording = self
        self.named: dict[str, str] = {}


class Player:
    """One sequence on one broker. ``answers`` has a text for each request."""

    def __init__(self, seed: int, wire: Wire, *, has_scram_users: bool) -> None:
        self.rng = random.Random(seed)
        self.wire = wire
        self.has_scram_users = has_scram_users
        self.answers: list[str] = []
        self.is_closed = False
        self.mechanism, self.is_raw = "", False
        self.scram: Scram | None = None
        self.names = _Unrecorded()

    async def play(self) -> list[str]:
        for _ in range(self.rng.randrange(2, STEPS)):
            if self.is_closed:
                break
            await self.step()
        if not self.is_closed:
            await self.ask("the last", FindCoordinatorRequest("any", key_type=7), 1)
        return self.answers

    async def step(self) -> None:
        kind = self.rng.random()
        if self.mechanism and kind < 0.7:
            await self.token()
        elif kind < 0.85 or (not self.answers and kind < 0.9):
            self.mechanism = self.rng.choice(MECHANISMS if self.rng.random() < 0.9 else ("GSSAPI", "", "plain"))
            version = int(self.rng.random() < 0.7)
            self.scram = None
            answer = await self.ask(f"handshake {self.mechanism}", SaslHandshakeRequest(self.mechanism), version)
            self.is_raw = version == 0 and answer is not None and answer.error_code == 0
        elif kind < 0.93:
            version = self.rng.choice((0, 3))
            await self.ask("ApiVersions", ApiVersionsRequest(self.rng.choice(("client", "-")), "1"), version)
        else:
            other = self.rng.choice((MetadataRequest([]), HeartbeatRequest("", 1, "m"), SaslAuthenticateRequest(b"")))
            await self.ask(type(other).__name__, other, 1)

    async def token(self) -> None:
        label, token = self.draw_token()
        if (
            self.rng.random() < 0.1 and "final" not in label
        ):  # which has the server's nonce in it, and is never the same
            label, token = f"{label}, changed", self.changed(token)
        if self.is_raw != (self.rng.random() < 0.03):
            answer = await self.raw(label, token)
        else:
            response = await self.ask(label, SaslAuthenticateRequest(token), self.rng.randrange(3))
            answer = None if response is None or getattr(response, "error_code", 1) else response.auth_bytes
        if answer and answer.startswith(b"r=client-nonce") and self.scram is not None:
            self.scram.answered(answer)
        elif answer is not None and (not answer or answer.startswith(b"v=")):
            self.scram, self.is_raw = None, False  # authenticated, or refused in order

    def draw_token(self) -> tuple[str, bytes]:
        mechanism = self.mechanism if self.rng.random() < 0.95 else self.rng.choice(MECHANISMS)
        is_right = self.rng.random() < 0.6
        if mechanism == "OAUTHBEARER":
            return ("right token", bearer(jwt())) if is_right else self.bearer()
        if mechanism in HASHES:
            return self.scram_message(mechanism, is_right=is_right)
        if is_right:
            return "PLAIN of alice", ALICE
        acts_as = self.rng.choice(("", "", "", "alice", "bob", "nobody"))
        name = self.rng.choice(("alice", "alice", "bob", "nobody", ""))
        password = self.rng.choice((USERS.get(name, "x"), USERS.get(name, "x"), "wrong", ""))
        return f"PLAIN {acts_as}/{name}/{password}", f"{acts_as}\0{name}\0{password}".encode()

    def scram_message(self, mechanism: str, *, is_right: bool) -> tuple[str, bytes]:
        draw = self.rng.choice
        if is_right and self.has_scram_users:
            if self.scram is not None and hasattr(self.scram, "nonce"):
                return "right final", self.scram.final()
            self.scram = Scram(self.names, mechanism)  # type: ignore[arg-type]
            return "right first", self.scram.first()
        if self.scram is not None and hasattr(self.scram, "nonce") and self.rng.random() < 0.9:
            changes: dict[str, str] = draw(
                ({}, {}, {}, {"more": ",a=b"}, {"channel": ""}, {"proof": "AAAA"}, {"nonce": "client-nonce"})
            )
            return f"final {changes}", self.scram.final(**changes)
        name = draw(("alice", "alice", "bob", "x=2Cy=3Dz", "nobody", "", "x,y")) if self.has_scram_users else "nobody"
        gs2 = draw(("n,,", "n,,", "n,,", f"n,a={name},", "n,a=bob,", "y,,", "p=x,,", ""))
        more, reserved = draw(("", "", "", ",ext=1", ",tokenauth=true", ",")), draw(("", "", "", "m=x,"))
        password = USERS.get(name.replace("=2C", ",").replace("=3D", "="), "x")
        password = draw((password, password, password, "wrong"))
        self.scram = Scram(self.names, mechanism, name, password, gs2)  # type: ignore[arg-type]
        return f"first {name} {gs2} {more} {reserved} {password}", self.scram.first(more, reserved=reserved)

    def bearer(self) -> tuple[str, bytes]:
        draw = self.rng.choice
        if self.rng.random() < 0.15:
            return "one byte", b"\x01"
        claims: dict[str, Any] = draw(
            ({}, {}, {}, {"sub": "bob"}, {"exp": 1}, {"exp": "x"}, {"sub": ""}, {"sub": 7}, {"iat": 4e9}, {"scope": 1})
        )
        header = draw(({"alg": "none"}, {"alg": "none"}, {"alg": "none"}, {"alg": "RS256"}, {}, []))
        gs2, scheme = (
            draw(("n,,", "n,,", "n,a=alice,", "n,a=bob,", "y,,")),
            draw(("Bearer", "Bearer", "BEARER", "Basic")),
        )
        pairs = draw(("", "", "a=b\x01", "a=\x01", "a1=b\x01"))
        left_out = draw(("", "", "", "sub", "exp", "iat"))
        token = jwt(header, draw(("", "", "", "c2ln")), left_out=left_out, **claims)
        if self.rng.random() < 0.1:
            token = draw(("", "a", "a.b.c", "..", f"{encoded(b'{}')}.{encoded(b'{}')}.", token[:-1], token + "x"))
        label = f"token {claims} {header} {gs2} {scheme} {pairs!r} -{left_out}"
        return label, bearer(token, gs2=gs2, scheme=scheme, pairs=pairs)

    def changed(self, token: bytes) -> bytes:
        """With a byte inserted, removed or replaced, or cut."""
        at = self.rng.randrange(len(token) + 1)
        byte = bytes([self.rng.choice((0, 1, 10, 44, 61, 65, 127, 128, 255))])
        cut = self.rng.randrange(2)
        return self.rng.choice((token[:at] + byte + token[at + cut :], token[:at], token[at:]))

    async def ask(self, label: str, request: Any, version: int) -> Any:
        label = f"{label} v{version}"
        try:
            response = await self.wire.send(request, version, deadline_s=DEADLINE_S)
        except WireClosedError:
            return self.closed(label)
        self.answers.append(f"{label}: {self.shown(response)}")
        return response

    async def raw(self, label: str, token: bytes) -> bytes | None:
        self.wire.write_raw(len(token).to_bytes(4, "big") + token)
        answer = await asyncio.wait_for(self.wire.next_frame_or_end(), DEADLINE_S)
        if answer is None:
            return self.closed(f"raw {label}")
        self.answers.append(f"raw {label}: {self.shown_bytes(answer)}")
        return answer

    def closed(self, label: str) -> None:
        self.is_closed = True
        self.answers.append(f"{label}: closed")

    def shown(self, response: Any) -> str:
        if type(response).__name__ == "SaslAuthenticateResponse":
            life = "ends" if response.session_lifetime_ms else "no end"
            return f"{response.error_code} {response.error_message} {self.shown_bytes(response.auth_bytes)} {life}"
        return f"{getattr(response, 'error_code', '')} {getattr(response, 'mechanisms', '')}"

    def shown_bytes(self, data: bytes) -> str:
        text = re.sub(r"r=[^,]+,s=[^,]+,", "r=..,s=..,", data.decode("latin-1"))
        if text.startswith("v=") and self.scram is not None:
            return "signature" if base64.b64decode(text[2:]) == self.scram.signature() else "another signature"
        return repr(text)


async def answers_of(address: str, seed: int, *, has_scram_users: bool) -> list[str]:
    wire = await Wire.connect(address)
    try:
        return await Player(seed, wire, has_scram_users=has_scram_users).play()
    finally:
        await wire.close()


async def compare(
    version: str, real: str, seeds: Iterable[int], reauthentication_ms: int
) -> dict[int, tuple[str, str]]:
    """By seed the first answers that differ: the broker's, and the simulator's."""
    limit, out = asyncio.Semaphore(AT_ONCE), {}
    settings = {**config(reauthentication_ms), "sasl.enabled.mechanisms": ",".join(MECHANISMS)}
    async with Cluster(security_protocol="SASL_PLAINTEXT", users=USERS, as_version=version, config=settings) as cluster:

        async def one(seed: int) -> None:
            async with limit:
                theirs = await answers_of(real, seed, has_scram_users=version != "3.4")
                ours = await answers_of(cluster.bootstrap, seed, has_scram_users=version != "3.4")
            COUNTED.update(answer.rpartition(": ")[2][:40] for answer in theirs)
            if theirs != ours:
                pairs = zip([*theirs, "nothing"], [*ours, "nothing"], strict=False)
                out[seed] = next(pair for pair in pairs if pair[0] != pair[1])

        await asyncio.gather(*map(one, seeds))
    return out


COUNTED: Counter[str] = Counter()
"""Number of times that real brokers gave each answer."""


def config(reauthentication_ms: int) -> dict[str, object]:
    return {"connections.max.reauth.ms": reauthentication_ms, "connection.failed.authentication.delay.ms": 10}


@contextlib.contextmanager
def real(version: str, reauthentication_ms: int) -> Iterator[str]:
    """The address of a real broker's SASL listener."""
    with RealKafka(RELEASES[version], config=config(reauthentication_ms), users=USERS) as kafka:
        yield f"127.0.0.1:{kafka.nodes[1].sasl_port}"


def differences(version: str, seeds: Iterable[int]) -> dict[int, tuple[str, str]]:
    """See `compare`."""
    out = {}
    chosen = list(seeds)
    for odd, reauthentication_ms in enumerate(REAUTHENTICATION_MS):
        with real(version, reauthentication_ms) as address:
            mine = [seed for seed in chosen if seed % 2 == odd]
            out |= asyncio.run(compare(version, address, mine, reauthentication_ms))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=RELEASES, default="4.1", help="the release (default: 4.1)")
    parser.add_argument("--sequences", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    given = parser.parse_args()
    logging.getLogger("broker_sim").setLevel(logging.ERROR)
    found = differences(given.version, range(given.first, given.first + given.sequences))
    kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
    for seed, pair in sorted(found.items()):
        kinds[pair].append(seed)
    for (theirs, ours), seeds in kinds.items():
        print(f"seeds {seeds[:5]} ({len(seeds)}):\n  Kafka      {theirs}\n  simulator  {ours}")
    print(f"{given.sequences} sequences beside Kafka {RELEASES[given.version]}: {len(found)} differ")
    print("answers:", ", ".join(f"{count} x {text}" for text, count in COUNTED.most_common(25)))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
