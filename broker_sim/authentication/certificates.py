"""The certificates of a TLS listener: three PEM files in one directory, made where they are missing.

    ca.pem       the certificate authority that clients trust (ssl.ca.location, ssl.truststore.location)
    server.pem   the brokers' private key and certificate, for the hosts they are reached at
    client.pem   a client's private key and certificate, for ssl.client.auth=required

A directory with files of your own needs no more than server.pem, and ca.pem where clients have certificates. Those made here are
trustme's: for tests, valid for this machine's own names and the brokers'.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["CertificateError", "TlsFiles"]

_LOCAL = ("localhost", "127.0.0.1", "::1")
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class CertificateError(ValueError):
    """Certificates can't be made or read; the text says which and why."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files in ``directory``."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def server(self) -> Path:
        return self.directory / "server.pem"

    @property
    def client(self) -> Path:
        return self.directory / "client.pem"

    def make(self, hosts: Sequence[str], client_name: str = "client") -> None:
        """Make all three unless there is a server.pem. Raises CertificateError."""
        if self.server.exists():
            return
        if self.ca.exists():
            raise CertificateError(f"{self.directory}: there is a ca.pem without the server.pem that it has signed")
        try:
            import trustme
        except ImportError:
            raise CertificateError(
                "a TLS listener needs certificates: pip install 'broker-sim[tls]' to have them made, or put a server.pem (private key "
                "and certificate) into tls_dir"
            ) from None
        authority = trustme.CA(organization_name="broker-sim")
        server = authority.issue_cert(*dict.fromkeys([*hosts, *_LOCAL]), organization_name="broker-sim")
        client = authority.issue_cert(client_name, common_name=client_name, organization_name="broker-sim")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            authority.cert_pem.write_to_path(str(self.ca))
            for path, issued in (
                (self.client, client),
                (self.server, server),
            ):  # the server's last: it says that all are there
                chain = b"".join(one.bytes() for one in issued.cert_chain_pems)
                _write_private(path, _pkcs8(issued.private_key_pem.bytes()) + chain)
        except OSError as error:
            raise CertificateError(f"tls_dir {self.directory}: {error.strerror or error}") from None

    def take(self, keystore: tuple[bytes, str], truststore: tuple[bytes, str] | None = None) -> None:
        """Write server.pem and ca.pem from stores in PKCS #12, each with its password. Raises CertificateError."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        own = _stored("keystore", *keystore)
        if own.key is None or own.cert is None:
            raise CertificateError("the keystore has no private key with its certificate")
        key = own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        chain = [own.cert, *own.additional_certs]
        trusted = own.additional_certs if truststore is None else _stored("truststore", *truststore).additional_certs
        _write_private(self.server, key + b"".join(one.certificate.public_bytes(Encoding.PEM) for one in chain))
        self.ca.write_bytes(b"".join(one.certificate.public_bytes(Encoding.PEM) for one in trusted or chain[-1:]))

    def context(self, client_auth: str) -> ssl.SSLContext:
        """The brokers' side of TLS; ``client_auth`` as Kafka's ssl.client.auth. Raises CertificateError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.server)
            context.verify_mode = _CLIENT_AUTH[client_auth]
            if context.verify_mode is not ssl.CERT_NONE:
                context.load_verify_locations(self.ca)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "reason", None) or error.strerror or str(error)
            raise CertificateError(
                f"tls_dir {self.directory}: server.pem needs a private key and its certificate, ca.pem certificates, in PEM ({reason})"
            ) from None
        return context


def _stored(what: str, data: bytes, password: str) -> Any:
    """Content of a store in PKCS #12, as `cryptography` returns it. Raises CertificateError."""
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise CertificateError(f"the {what} is read by cryptography: pip install 'broker-sim[tls]'") from None
    try:
        return load_pkcs12(data, password.encode() or None)
    except ValueError:
        raise CertificateError(f"the {what} is not PKCS #12 with that password") from None


def _pkcs8(key: bytes) -> bytes:
    """A private key in PEM as PKCS #8, which is all that Java reads; trustme's is the older form of OpenSSL."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    loaded = load_pem_private_key(key, None)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write_private(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        path.chmod(0o600)  # a file that was there keeps its mode
        file.write(data)
