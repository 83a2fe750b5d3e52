"""OAUTHBEARER's token and a client's message with it, each part replaceable."""

from __future__ import annotations

import base64
import json
from typing import Any

__all__ = ["bearer", "encoded", "web_token"]


def encoded(data: bytes) -> str:
    """Base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def web_token(header: Any, claims: Any, signature: str = "") -> str:
    """A JSON web token."""
    return ".".join([*(encoded(json.dumps(part).encode()) for part in (header, claims)), signature])


def bearer(token: str, *, gs2: str = "n,,", scheme: str = "Bearer", pairs: str = "") -> bytes:
    """OAUTHBEARER's only message of a client."""
    return f"{gs2}\x01auth={scheme} {token}\x01{pairs}\x01".encode()
