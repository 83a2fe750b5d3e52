"""TLS of an accepted connection, over the loop's plain transport: the handshake, then encrypted bytes for a `Connection`.

The encryption is `ssl.SSLObject` on memory; nothing here waits. asyncio's own way was tried and fell short: ``create_server(ssl=...)``
has no list of the handshakes that are going on, so that a broker that goes down would leave their sockets open, and a failed one leaves
no line in the log; ``start_tls`` loses a client's first bytes on uvloop, which reads before the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from broker_sim.common.refusals import host_of
from broker_sim.network.connection import Connection

if TYPE_CHECKING:
    from broker_sim.authentication.authenticator import Authenticator
    from broker_sim.network.server import BrokerServer
    from broker_sim.requests.routes import Listener

__all__ = ["TlsProtocol"]

_DEADLINE_S = 60.0
"""Seconds of a handshake: what asyncio allows by default."""

_ALERT_S = 1.0
"""Seconds in which a client can read why its handshake fails. An end of ours with bytes unread would be a reset, behind which it reads
nothing, so the broker reads on meanwhile."""

_READ_BYTES = 262_144

_CLOSED = "it closes the connection; if it does not trust the broker's certificate, give it the ca.pem"
"""Failure of clients on asyncio, which close the connection where others send an alert."""

_REASONS = (
    (
        ("UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "BAD_CERTIFICATE"),
        "it does not trust the broker's certificate; give it the ca.pem",
    ),
    (("ALERT_CERTIFICATE_EXPIRED",), "for it the broker's certificate has expired, or is not valid yet"),
    (("PEER_DID_NOT_RETURN_A_CERTIFICATE",), "it has no certificate, and ssl.client.auth is required"),
    (("NO_SHARED_CIPHER", "UNSUPPORTED_PROTOCOL"), "it has no cipher or version of TLS in common with the broker"),
    (
        ("HTTP_REQUEST", "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTPS_PROXY_REQUEST", "UNEXPECTED_MESSAGE"),
        "it does not speak TLS; the listener's security.protocol is {protocol}",
    ),
)
"""OpenSSL's names of failed handshakes, and their meaning for a client."""

_UNSIGNED = (18, 19, 20, 21)
"""OpenSSL's X509_V_ERR_ codes of a certificate whose chain does not lead to the ca.pem."""


class _TlsTransport(asyncio.Transport):
    """Transport that encrypts what a `Connection` writes. All but writing and closing is the plain transport's."""

    def __init__(self, plain: asyncio.Transport, layer: TlsProtocol, context: ssl.SSLContext) -> None:
        super().__init__()
        self._plain, self._layer, self._context = plain, layer, context

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._layer.send(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._layer.send(b"".join(list_of_data))

    def close(self) -> None:
        self._layer.close()

    def abort(self) -> None:
        self._plain.abort()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._layer.app = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._layer.app is not None
        return self._layer.app

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Also ``sslcontext``, as asyncio's."""
        return self._context if name == "sslcontext" else self._plain.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._plain.is_closing()

    def is_reading(self) -> bool:
        return self._plain.is_reading()

    def pause_reading(self) -> None:
        self._plain.pause_reading()

    def resume_reading(self) -> None:
        self._plain.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._plain.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._plain.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._plain.set_write_buffer_limits(high, low)


class TlsProtocol(asyncio.Protocol):
    """Between the plain transport and ``app``, the `Connection` that is made when the handshake is done. Until then it is itself what
    a failure is reported of (``context.Accepted``)."""

    client_id: str | None = None
    authenticator: Authenticator | None = None
    number = 0

    def __init__(self, owner: BrokerServer, listener: Listener, context: ssl.SSLContext, protocol: str) -> None:
        self._owner, self._listener, self._context, self._protocol = owner, listener, context, protocol
        self.broker, self.listener, self.reason, self.client_host = owner.broker, listener.name, "", host_of(None)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._plain: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._heard = self._failed = False
        self.app: asyncio.Protocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._plain = cast(asyncio.Transport, transport)
        self.client_host = host_of(transport.get_extra_info("peername"))
        self._owner.handshakes[self] = None
        self._deadline = asyncio.get_running_loop().call_later(_DEADLINE_S, self._late)
        if self._owner.hung_up:
            self.abort()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._failed:
            return
        self._in.write(data)
        try:
            if self.app is None:
                self._tls.do_handshake()
                self._begin()
            self._read()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()  # an alert that says why
            self._refuse(self._reason(error))

    def _begin(self) -> None:
        self._owner.handshake_ended(self)
        self._end_deadline()
        self._flush()
        assert self._plain is not None
        connection = self.app = Connection(self._owner, self._listener)
        connection.connection_made(_TlsTransport(self._plain, self, self._context))

    def _read(self) -> None:
        """Hand over what has come. Raises SSLWantReadError where that is all."""
        while self._plain is not None and not self._plain.is_closing() and self.app is not None:
            data = self._tls.read(_READ_BYTES)
            if not data:  # the client has said that there will be no more
                self.eof_received()
                return
            self.app.data_received(data)

    def _flush(self) -> None:
        if self._out.pending and self._plain is not None:
            self._plain.write(self._out.read())

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and write."""
        if self._plain is None or self._plain.is_closing() or not data:
            return
        left = memoryview(data)
        while left:
            left = left[self._tls.write(left) :]
        self._flush()

    def close(self) -> None:
        """Say so to the client, and close when all is written."""
        if self._plain is None or self._plain.is_closing():
            return
        with contextlib.suppress(ssl.SSLError):  # the client's own goodbye is not waited for
            self._tls.unwrap()
        self._flush()
        self._plain.close()

    def abort(self) -> None:
        """End the handshake; its socket is closed without more."""
        if self._plain is not None:
            self._plain.abort()

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._refuse(f"not done after {_DEADLINE_S:g} s")

    def _refuse(self, reason: str) -> None:
        self._end_deadline()
        self._failed = True
        if isinstance(self.app, Connection):
            self.app.refuse(f"TLS: {reason}")
            return
        self._log(reason)
        assert self._plain is not None
        self._plain.write_eof()
        self._deadline = asyncio.get_running_loop().call_later(_ALERT_S, self.abort)

    def _log(self, reason: str) -> None:
        self._owner.refused(self, f"TLS handshake: {reason}")

    def _reason(self, error: ssl.SSLError) -> str:
        name = error.reason or ""
        if isinstance(error, ssl.SSLCertVerificationError):
            if error.verify_code in _UNSIGNED:
                return "its certificate is not signed by the ca.pem"
            said = error.verify_message
            return f"its {said}" if said.startswith("certificate ") else f"its certificate is not accepted: {said}"
        for names, reason in _REASONS:
            if any(part in name for part in names):
                return reason.format(protocol=self._protocol)
        return name or str(error)

    def eof_received(self) -> bool | None:
        if self.app is None:
            return False
        keep = self.app.eof_received()
        if not keep:
            self.close()
        return keep

    def pause_writing(self) -> None:
        if self.app is not None:
            self.app.pause_writing()

    def resume_writing(self) -> None:
        if self.app is not None:
            self.app.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.handshake_ended(self)
        self._end_deadline()
        if self.app is None and not self._failed and self._heard and not self._owner.hung_up:
            self._log(_CLOSED)  # who has sent nothing has looked whether the port is open
        if self.number and self._owner.tap is not None:
            self._owner.tap.closed(self)
        app, self.app, self._plain = self.app, None, None
        if app is not None:
            app.connection_lost(exc)
