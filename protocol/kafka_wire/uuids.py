"""Uuids as Kafka writes them: base64, url-safe, without padding."""

from __future__ import annotations

import base64


def uuid_text(raw: bytes) -> str:
    """A uuid as Kafka writes it: base64 for URLs, unpadded (Uuid.toString)."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of `uuid_text`; raises ValueError."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is no uuid")
    return raw
