"""SCRAM credentials of a cluster's users: what the broker keeps in place of a password (RFC 5802).

    credentials = ScramCredentials(users, altered, ("SCRAM-SHA-256",), rng)
    credentials.find("alice", "SCRAM-SHA-256")      # ScramCredential, or None
    credentials.store("alice", "SCRAM-SHA-256", ScramCredential.salted("SCRAM-SHA-256", salted_password, salt, 4096))

Rules:
1. Each user with a password has a credential for every SCRAM mechanism that is enabled, derived from the password when it is needed:
   4,096 rounds of a hash take some milliseconds.
2. What AlterUserScramCredentials has stored takes precedence, until the user gets a password again: `Users`.
3. Stored credentials are text as Kafka's configs of users have it, "" for one that was deleted though the user has a password.

Source: ScramCredentialUtils, ScramFormatter; KIP-84, KIP-554.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker_sim.fields.kinds import Password, Text

__all__ = ["HASHES", "ScramCredential", "ScramCredentials", "Users"]

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""SCRAM mechanism -> hashlib's name of its hash; in the order of Kafka's numbers."""

ITERATIONS = 4096
"""Number of iterations of a credential that is derived from a password: Kafka's default."""
_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A user's SCRAM credential: with ``stored_key`` a broker verifies a client's proof, with ``server_key`` it proves to the client
    that it has the user's credential."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def salted(cls, mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
        """Create the credential of a password that a client has salted."""
        hash_name = HASHES[mechanism]
        client_key = hmac.digest(salted_password, b"Client Key", hash_name)
        server_key = hmac.digest(salted_password, b"Server Key", hash_name)
        return cls(iterations, salt, hashlib.new(hash_name, client_key).digest(), server_key)

    @classmethod
    def of_password(cls, mechanism: str, password: str, salt: bytes) -> ScramCredential:
        """Create the credential of a password in clear, with `ITERATIONS`."""
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, ITERATIONS)
        return cls.salted(mechanism, salted, salt, ITERATIONS)

    @classmethod
    def parse(cls, text: str) -> ScramCredential:
        """Parse the text that `str` gives."""
        fields = dict(part.split("=", 1) for part in text.split(","))
        salt, stored_key, server_key = (base64.b64decode(fields[name]) for name in ("salt", "stored_key", "server_key"))
        return cls(int(fields["iterations"]), salt, stored_key, server_key)

    def __str__(self) -> str:
        parts = [("salt", self.salt), ("stored_key", self.stored_key), ("server_key", self.server_key)]
        encoded = (f"{name}={base64.b64encode(value).decode()}" for name, value in parts)
        return ",".join([*encoded, f"iterations={self.iterations}"])


class ScramCredentials:
    """SCRAM credentials of one cluster. ``users``: passwords by name; ``altered``: stored credentials, user -> mechanism -> text;
    ``enabled``: mechanisms that users with a password have; ``rng`` draws salts."""

    def __init__(
        self,
        users: Mapping[str, str],
        altered: dict[str, dict[str, str]],
        enabled: tuple[str, ...],
        rng: random.Random,
    ) -> None:
        self._users, self._altered, self._rng = users, altered, rng
        self._enabled = tuple(name for name in HASHES if name in enabled)
        self._derived: dict[tuple[str, str], tuple[str, ScramCredential]] = {}

    def find(self, name: str, mechanism: str) -> ScramCredential | None:
        """The credential of a user, with the same salt at each call; None without one."""
        text = self._altered.get(name, {}).get(mechanism)
        if text is not None:
            return ScramCredential.parse(text) if text else None
        if not self._follows(name, mechanism):
            return None
        password = self._users[name]
        known = self._derived.get((name, mechanism))
        if known is None or known[0] != password:
            known = password, ScramCredential.of_password(mechanism, password, self._rng.randbytes(_SALT_BYTES))
            self._derived[name, mechanism] = known
        return known[1]

    def iterations(self, name: str) -> dict[str, int]:
        """By mechanism, in the order of their numbers; empty for an unknown user."""
        own = self._altered.get(name, {})
        found: dict[str, int] = {}
        for mechanism in HASHES:
            text = own.get(mechanism)
            if text:
                found[mechanism] = ScramCredential.parse(text).iterations
            elif text is None and self._follows(name, mechanism):
                found[mechanism] = ITERATIONS
        return found

    def store(self, name: str, mechanism: str, credential: ScramCredential) -> None:
        """In the place of what the user had for this mechanism."""
        self._altered.setdefault(name, {})[mechanism] = str(credential)

    def delete(self, name: str, mechanism: str) -> None:
        """Also one that would follow from the user's password."""
        own = self._altered.setdefault(name, {})
        own.pop(mechanism, None)
        if self._follows(name, mechanism):
            own[mechanism] = ""
        elif not own:
            del self._altered[name]

    def _follows(self, name: str, mechanism: str) -> bool:
        """Whether the user has a password from which a credential for this mechanism follows, where none is stored."""
        return name in self._users and mechanism in self._enabled

    def names(self) -> dict[str, None]:
        """Names of the users that may have a credential."""
        return dict.fromkeys((*self._users, *self._altered))


class Users(UserDict[str, str]):
    """Passwords by user name. ``replaced`` is called with each name whose password is set or removed: what was stored of this user
    has no effect any more. Setting one raises UsageError for what can't be encoded, as a login must. (A ClusterThread hands out copies
    of what is a dict.)"""

    def __init__(self, users: Mapping[str, str]) -> None:
        self.replaced: Callable[[str], object] = lambda name: None
        super().__init__(users)

    def __setitem__(self, name: str, password: str) -> None:
        name = Text().read(name, "users")
        super().__setitem__(name, Password().read(password, f"users: {name}"))
        self.replaced(name)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.replaced(name)

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self
