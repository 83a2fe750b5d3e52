"""A TCP relay in front of the broker that cuts chosen connections: proves that a lost connection would be seen."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType


class CuttingRelay:
    """Relays 127.0.0.1:`port` to `upstream`; the first `cut` connections are closed at their second request.

    Requests are counted by Kafka's framing: an int32 length, then so many bytes.
    """

    def __init__(self, upstream: str, cut: int) -> None:
        host, _, port = upstream.partition(":")
        self.upstream = (host, int(port))
        self.cut = cut
        self.cuts_done = self.relayed = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> CuttingRelay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for end in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(self.upstream)
            self.relayed += 1
            self._open += [client, broker]
            cutting = self.cut > 0
            self.cut -= 1
            threading.Thread(target=self._requests, args=(client, broker, cutting), daemon=True).start()
            threading.Thread(target=_copy, args=(broker, client), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, cutting: bool) -> None:
        with contextlib.suppress(OSError), client.makefile("rb") as stream:
            if cutting:
                broker.sendall(_frame(stream.read))
                _frame(stream.read)
                self.cuts_done += 1
            else:
                while frame := _frame(stream.read):
                    broker.sendall(frame)
        for end in (client, broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _frame(read: object) -> bytes:
    assert callable(read)
    head: bytes = read(4)
    return head + read(int.from_bytes(head, "big")) if len(head) == 4 else b""


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
