"""Decoding, handling and answering of the requests of each API and version.

``Routes`` is the table that the server looks each request up in: everything about one (api key, version) in one
object. It has the APIs of one Kafka release that have a handler file (``kNN_name.py`` in ``broker_sim.handlers``, which is found by
its name: this package is below that one); any other key or version is refused as that release refuses it.
"""

from __future__ import annotations

import importlib
import pkgutil
import struct
from collections.abc import Callable, Generator, Iterator
from copy import copy
from functools import cache
from itertools import groupby
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from broker_sim.common.refusals import size_in_words
from broker_sim.requests.context import LARGE, ConnectionLike, FastHandler, RequestContext
from broker_sim.requests.repeated import Repeated
from broker_sim.requests.traits import PLAIN, ErrorTraits
from kafka_wire.api_keys import OTHERS, ApiKey, advertised, is_flexible, message_class, release
from kafka_wire.codec import (
    DecodeError,
    Decoder,
    EncodeError,
    Encoder,
    decode,
    decoder,
    decoding,
    encoder,
    encoding,
)
from kafka_wire.frame import encode_response_head, response_is_tagged
from kafka_wire.schema import holds_records
from kafka_wire.wire import skipping_tagged_fields

if TYPE_CHECKING:
    from broker_sim.authentication.authenticator import Authenticator
    from broker_sim.authentication.security import Security

__all__ = [
    "Listener",
    "LookUp",
    "Route",
    "Routes",
    "UnsupportedRequest",
    "handler_modules",
    "supported",
    "traits_of",
    "wrong_size",
]

_HANDLERS = "broker_sim.handlers"


class UnsupportedRequest(Exception):
    """An API or a version of it that this release has not got; the text names it. Kafka closes the connection."""


class Route:
    """Functions that decode, handle and answer requests of one version of one API."""

    __slots__ = (
        "_decode",
        "_encode",
        "_in_pieces",
        "_request_class",
        "_response",
        "_tagged",
        "api_key",
        "api_version",
        "fast",
        "flexible",
        "handle",
        "name",
        "repeated",
        "traits",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        name: str,
        handle: Callable[[RequestContext, Any], Any],
        *,
        request_class: type | None,
        response_class: type,
        response_version: int | None = None,
        fast: FastHandler | None = None,
        repeated: Repeated | None = None,
        traits: ErrorTraits = PLAIN,
    ) -> None:
        self.api_key, self.api_version, self.name = api_key, api_version, name
        self.flexible = is_flexible(api_key, api_version)
        self._tagged = response_is_tagged(api_key, api_version)
        self._in_pieces = holds_records(response_class)  # many of them are not copied once more
        self._request_class = request_class
        self._decode: Decoder | None = None if request_class is None else decoder(request_class, api_version)
        self._response = response_class, api_version if response_version is None else response_version
        self._encode: Encoder = encoder(*self._response)
        self.handle, self.fast, self.repeated, self.traits = handle, fast, repeated, traits

    def handled_by(self, handle: Callable[[RequestContext, Any], Any]) -> Route:
        """The same request, read and answered the same way, with another handler and no way around it."""
        other = copy(self)
        other.handle, other.fast, other.repeated = handle, None, None
        return other

    def decode(self, frame: bytes, body: int) -> Any:
        """The request at ``frame[body:]``; None for a route that does not read its body. Raises DecodeError."""
        read = self._decode
        if read is None:
            return None
        try:
            return read(frame, body, len(frame))[0]
        except (DecodeError, struct.error, IndexError, UnicodeDecodeError):
            assert self._request_class is not None
            return decode(self._request_class, self.api_version, frame, body)  # replaces bad UTF-8, words the error

    def decoding(self, frame: bytes, body: int, *, tagged: bool) -> Generator[None, None, Any]:
        """As `decode`, in pieces. ``tagged``: the header's tagged fields begin at ``body``, before the request."""
        if tagged:
            body = yield from skipping_tagged_fields(frame, body)
        if self._request_class is None:
            return None
        return (yield from decoding(self._request_class, self.api_version, frame, body))

    def head_of(self, correlation_id: int, body_size: int) -> bytes:
        """Bytes in front of a response body of ``body_size`` bytes: the frame's size and the response header."""
        return encode_response_head(self._tagged, correlation_id, body_size)

    def frames_of(self, correlation_id: int, response: object) -> list[bytes]:
        """The whole reply, in pieces to be written one after the other. Raises EncodeError."""
        frames: list[bytes] = []
        try:
            self._encode(response, frames.append)
        except EncodeError:
            raise
        except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
            raise EncodeError(f"{type(response).__name__} v{self.api_version}: {error}") from error
        if self._in_pieces and (size := sum(map(len, frames))) >= LARGE:
            return [encode_response_head(self._tagged, correlation_id, size), *frames]
        body = b"".join(frames)
        return [encode_response_head(self._tagged, correlation_id, len(body)) + body]

    def encoding(self, correlation_id: int, response: object) -> Generator[None, None, list[bytes]]:
        """As `frames_of`, encoded in pieces."""
        frames: list[bytes] = []
        small: list[bytes] = []
        size = 0
        job = encoding(*self._response, response, small.append)
        more = True
        while more:
            try:
                next(job)
            except StopIteration:
                more = False
            size += sum(map(len, small))
            frames += _joined(small)
            small.clear()
            if more:
                yield
        return [encode_response_head(self._tagged, correlation_id, size), *frames]


def _joined(pieces: list[bytes]) -> Iterator[bytes]:
    """The same bytes with neighbours in one; slices of a log stay what they are."""
    for is_bytes, run in groupby(pieces, key=lambda piece: type(piece) is bytes):
        if is_bytes:
            yield b"".join(run)
        else:
            yield from run


def wrong_size(size: int, expected: str) -> str:
    """Reason why a frame of that size is rejected, for the log."""
    return f"a frame of {size} bytes; {expected}{size_in_words(size)}"


class LookUp(Protocol):
    """A connection's way from a frame's API key and version to the route: `Routes`, or what restricts them until its client is
    authenticated."""

    @property
    def authenticator(self) -> Authenticator | None: ...

    def longest_frame(self, limit: int) -> int: ...

    def refuse_frame(self, connection: ConnectionLike, size: int, expected: str) -> None: ...

    def __getitem__(self, code: int, /) -> Route: ...


class Routes(dict[int, Route]):
    """``routes[(api_key << 16) + (version & 0xFFFF)]``, filled on demand; an UnsupportedRequest for unknown APIs and versions."""

    authenticator = None

    def __init__(self, as_version: str) -> None:
        super().__init__()
        self.as_version = as_version
        self.supported = supported(as_version)

    def longest_frame(self, limit: int) -> int:
        """Bytes that a frame may have, of a broker whose own limit is ``limit``."""
        return limit

    def refuse_frame(self, connection: ConnectionLike, size: int, expected: str) -> None:
        """Close a connection that has sent a frame of an invalid size."""
        connection.refuse(wrong_size(size, expected))

    def __missing__(self, code: int) -> Route:
        api_key, version = _signed16(code >> 16), _signed16(code & 0xFFFF)
        low, high = self.supported.get(api_key, (1, 0))
        if low <= version <= high:
            route = self[code] = _route(api_key, version)
            return route
        if api_key == ApiKey.API_VERSIONS:
            return _unsupported_api_versions(version)
        if low > high:
            raise UnsupportedRequest(_missing_api(api_key, version, self.as_version))
        raise UnsupportedRequest(f"{ApiKey(api_key).kafka_name} v{version} is not supported, only v{low} to v{high}")


class Listener(NamedTuple):
    """A listener of a broker: its name, as Kafka's listener.name, and its security settings (None: none, as with PLAINTEXT)."""

    name: str
    security: Security | None = None


def _missing_api(api_key: int, version: int, as_version: str) -> str:
    """Reason why an API has no handler, as text: the release does not have it, or this broker does not implement it."""
    name, since = OTHERS.get(api_key, ("", ""))
    if name and release(since) <= release(as_version):
        return f"broker-sim has no {name} (API key {api_key}, version {version}), which Kafka {as_version} has"
    prefix = f"{name}, " if name else ""
    return f"{prefix}API key {api_key} (version {version}) is not known to Kafka {as_version}"


def supported(as_version: str) -> dict[int, tuple[int, int]]:
    """API key -> lowest and highest accepted version: what that release advertises, less APIs without a handler."""
    modules = handler_modules()
    return {key: versions for key, versions in advertised(as_version).items() if key in modules}


@cache
def handler_modules() -> dict[int, str]:
    """API key -> the name of its handler module, for every file ``kNN_name`` in the package of handlers."""
    path = importlib.import_module(_HANDLERS).__path__
    names = (info.name for info in pkgutil.iter_modules(path) if info.name[:1] == "k" and info.name[1:3].isdigit())
    return {int(name.partition("_")[0][1:]): name for name in sorted(names)}


def load_handlers() -> Iterator[str]:
    """Import the modules of one API after another; their names. A handler is imported at its API's first request, unless it is here
    already: a server at its limit of open files could not read it then, and an old connection would pay for new ones."""
    for api_key, module_name in handler_modules().items():
        _handler(api_key)
        yield module_name


def _handler(api_key: int) -> ModuleType:
    return importlib.import_module(f"{_HANDLERS}.{handler_modules()[api_key]}")


def traits_of(api_key: int) -> ErrorTraits:
    """``TRAITS`` of an API's handler file, which is imported; `PLAIN` if the file has none."""
    traits: ErrorTraits = getattr(_handler(api_key), "TRAITS", PLAIN)
    return traits


def _route(api_key: int, version: int) -> Route:
    handler = _handler(api_key)
    fast: dict[int, FastHandler] = getattr(handler, "FAST", {})
    return Route(
        api_key,
        version,
        ApiKey(api_key).kafka_name,
        handler.handle,
        request_class=message_class(api_key, "Request"),
        response_class=message_class(api_key, "Response"),
        fast=fast.get(version),
        repeated=getattr(handler, "REPEATED", None),
        traits=traits_of(api_key),
    )


def _unsupported_api_versions(version: int) -> Route:
    """ApiVersions of the future gets a v0 answer (KIP-511), its body unread. Not kept: no client fills the table."""
    return Route(
        ApiKey.API_VERSIONS,
        version,
        "ApiVersions",
        _handler(ApiKey.API_VERSIONS).handle_unsupported,
        request_class=None,
        response_class=message_class(ApiKey.API_VERSIONS, "Response"),
        response_version=0,
    )


def _signed16(value: int) -> int:
    return value - 0x10000 if value > 0x7FFF else value
