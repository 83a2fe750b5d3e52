"""Requirements of a cluster's listeners for clients: Kafka's security.protocol, with users and certificates.

security = Security("SASL_SSL", {"alice": "secret"}, BrokerConfig(...), tls_dir=None)
security.open(state, ["127.0.0.1"])             # makes or reads the certificates
security.users["alice"] = "rotated"             # from the next authentication on
security.close()                                # removes certificates that were in no directory of the user's
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from broker_sim.authentication.credentials import ScramCredentials, Users
from broker_sim.common.text import UsageError, unknown
from broker_sim.config.settings import has_tls

if TYPE_CHECKING:
    import ssl

    from broker_sim.authentication.certificates import TlsFiles
    from broker_sim.config.settings import BrokerConfig
    from broker_sim.metadata.cluster_state import ClusterState

__all__ = ["EXAMPLE_USERS", "MECHANISMS", "Sasl", "Security"]

MECHANISMS = ("PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER")
"""Kafka's values of sasl.mechanism, in the order of the HashSet that SaslHandshake lists; GSSAPI (Kerberos) and those of cloud
providers are not here."""

_ENABLED = "sasl.enabled.mechanisms"
_BY_PASSWORD = tuple(name for name in MECHANISMS if name != "OAUTHBEARER")
"""Enabled by default. OAUTHBEARER must be named: its tokens are not signed, so that passwords of users would protect nothing."""
EXAMPLE_USERS = "{'alice': 'secret'}"
"""Users as an argument of `Cluster`, in errors."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """Settings of a SASL listener. ``users``: passwords by name, and ``credentials``, both read at each authentication; ``now_ms``:
    the broker's clock, which sessions and tokens expire by; ``client_ms``: the clock that clients measure by; ``max_session_ms``:
    connections.max.reauth.ms, 0 for sessions without end; ``release``: Kafka's."""

    protocol: str
    mechanisms: tuple[str, ...]
    users: Mapping[str, str]
    credentials: ScramCredentials
    rng: random.Random
    now_ms: Callable[[], int]
    client_ms: Callable[[], int]
    max_session_ms: int
    release: tuple[int, int] = (4, 4)


class Security:
    """Security settings of one cluster. ``sasl`` and ``tls`` are None where the protocol has none, and before `open`. Raises UsageError
    for users of a protocol without SASL, for missing users and for unknown mechanisms."""

    def __init__(
        self,
        protocol: str,
        users: Mapping[str, str],
        tls_dir: str | os.PathLike[str] | None,
        config: BrokerConfig,
    ) -> None:
        self.protocol = protocol
        self.users = Users(users)
        """Passwords by user name, for PLAIN and SCRAM; what is changed here holds from the next authentication on."""
        self.sasl: Sasl | None = None
        self.tls: ssl.SSLContext | None = None
        self._kept = None if tls_dir is None else Path(tls_dir)
        self._temporary: Path | None = None
        self._enabled: tuple[str, ...] = ()
        if tls_dir is not None and not self.has_tls:
            raise UsageError(f"tls_dir: a {protocol} listener has no TLS (expected security_protocol SSL or SASL_SSL)")
        if users and not self.has_sasl:
            raise UsageError(
                f"users: a {protocol} listener has none (expected security_protocol SASL_PLAINTEXT or SASL_SSL)"
            )
        if self.has_sasl:
            self._enabled = self._mechanisms(config)
            if not users and self._enabled != ("OAUTHBEARER",):
                raise UsageError(
                    f"users: a {protocol} listener needs users, as in {EXAMPLE_USERS}, or {_ENABLED}=OAUTHBEARER"
                )

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return has_tls(self.protocol)

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self.protocol.startswith("SASL")

    def _mechanisms(self, config: BrokerConfig) -> tuple[str, ...]:
        """The enabled SASL mechanisms; by default those with passwords. Raises UsageError."""
        config.assume(_ENABLED, ",".join(_BY_PASSWORD))
        given = tuple(config.list(_ENABLED))
        for name in given:
            if name not in MECHANISMS:
                raise unknown(_ENABLED, name, MECHANISMS)
        if not given:
            raise UsageError(f"{_ENABLED}: a {self.protocol} listener needs one mechanism at least")
        return tuple(name for name in MECHANISMS if name in given)

    def open(self, state: ClusterState, hosts: Sequence[str]) -> None:
        """Before the listeners listen: make or read the certificates for ``hosts``. Raises UsageError."""
        config = state.config
        if self.has_tls:
            from broker_sim.authentication.certificates import CertificateError

            try:
                files = self._files()
                files.make(hosts)
                self.tls = files.context(str(config["ssl.client.auth"]))
            except CertificateError as error:
                self.close()
                raise UsageError(str(error)) from None
        if self.has_sasl:
            mechanisms, limit_ms = self._mechanisms(config), config.int("connections.max.reauth.ms")
            self.sasl = Sasl(
                self.protocol,
                mechanisms,
                self.users,
                ScramCredentials(self.users, state.scram_credentials, mechanisms, state.rng),
                state.rng,
                state.clock.now_ms,
                state.clock.wire.now_ms,
                max(0, limit_ms),
                config.release,
            )

            def replaced(name: str) -> None:
                if state.scram_credentials.pop(name, None) is not None:
                    state.has_changed()

            self.users.replaced = replaced

    def summary(self, plaintext: Sequence[str] = ()) -> str:
        """Requirements for clients, and what is not verified, as one line of text; of an open cluster. ``plaintext``: the names of
        listeners without requirements."""
        said = [f"security.protocol {self.protocol}"]
        unverified = []
        if self.sasl is not None:
            said.append(f"SASL mechanisms {', '.join(self.sasl.mechanisms)}")
            if "OAUTHBEARER" in self.sasl.mechanisms:
                unverified.append("OAuth tokens, which have no signature: a client of OAUTHBEARER may be any user")
        elif self.tls is not None and not self.tls.verify_mode:
            unverified.append("who clients are (ssl.client.auth is none)")
        if plaintext:
            unverified.append(f"clients of the listener {' and '.join(plaintext)}")
        return "; ".join([*said, *(f"not verified: {what}" for what in unverified)])

    def close(self) -> None:
        """Remove the certificates that were made for this run alone."""
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            import shutil

            shutil.rmtree(temporary, ignore_errors=True)

    @property
    def ca_file(self) -> str:
        """Path of the certificate authority that clients trust, in PEM: ssl.ca.location of librdkafka, ssl.truststore.location with
        ssl.truststore.type=PEM of Java. Raises UsageError where there is no TLS."""
        return str(self._files().ca)

    @property
    def ca_pem(self) -> str | None:
        """Content of `ca_file`; None without TLS, or without such a file in tls_dir."""
        return self._files().ca.read_text() if self.has_tls and self._files().ca.exists() else None

    @property
    def client_file(self) -> str:
        """Path of a client's private key and certificate, in PEM, for ssl.client.auth=required. Raises UsageError where there is no
        TLS."""
        return str(self._files().client)

    def client_settings(self, user: str | None = None, mechanism: str | None = None) -> dict[str, str]:
        """Settings of a client beside the address, by librdkafka's names: security.protocol, sasl.mechanism, sasl.username,
        sasl.password, ssl.ca.location. ``user``: default the first one; ``mechanism``: default the first that is enabled and takes a
        password. Raises UsageError for a user that does not exist."""
        settings = {"security.protocol": self.protocol}
        if self.sasl is not None:
            with_password = [name for name in self.sasl.mechanisms if name != "OAUTHBEARER"]
            settings["sasl.mechanism"] = mechanism or (with_password or ["OAUTHBEARER"])[0]
            name = next(iter(self.users), None) if user is None else user
            if name is not None and name not in self.users:
                raise unknown("user", name, self.users)
            if name is not None and settings["sasl.mechanism"] != "OAUTHBEARER":
                settings |= {"sasl.username": name, "sasl.password": self.users[name]}
        if self.has_tls:
            settings["ssl.ca.location"] = self.ca_file
        return settings

    def _files(self) -> TlsFiles:
        from broker_sim.authentication.certificates import TlsFiles

        if not self.has_tls:
            raise UsageError(f"there are no certificates: security_protocol is {self.protocol}")
        if self._kept is None and self._temporary is None:
            import tempfile

            self._temporary = Path(tempfile.mkdtemp(prefix="broker-sim-tls-"))
        directory = self._kept or self._temporary
        assert directory is not None
        return TlsFiles(directory)
