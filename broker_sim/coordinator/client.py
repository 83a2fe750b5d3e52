"""Identity of the client that sent a request, as the events of coordinators contain it.

A module of its own: a broker makes contexts of requests before it imports its coordinators.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Client:
    """The header's client id, the host as Kafka's ``InetAddress`` prints it (``/127.0.0.1``), the API version."""

    client_id: str
    client_host: str
    api_version: int
