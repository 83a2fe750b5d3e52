"""A client's part of AlterUserScramCredentials: it salts the password."""

from __future__ import annotations

import hashlib

from kafka_wire.messages.k50_describe_user_scram_credentials import SCRAM_MECHANISMS
from kafka_wire.messages.k51_alter_user_scram_credentials import ScramCredentialUpsertion

NUMBERS = {name: number for number, name in SCRAM_MECHANISMS.items()}
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SALT = b"salt of a credential"


def upsertion(
    name: str, password: str, mechanism: str = "SCRAM-SHA-256", iterations: int = 4096, salt: bytes = SALT
) -> ScramCredentialUpsertion:
    """Creates or replaces a user's credential."""
    salted = hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, max(iterations, 1))
    return ScramCredentialUpsertion(name, NUMBERS[mechanism], iterations, salt, salted)
