"""Messages to bytes and back: a decoder and an encoder compiled for each (class, version) on first use.

    request = decode(OffsetCommitRequest, 8, body)
    body = encode(response, 8)

The compiled functions are straight-line Python made from the fields of the class (``codegen`` writes them,
:func:`source` shows them). Rules:

* What a broker refuses raises :class:`DecodeError`, what it accepts is accepted (``wire`` has the details): a length is
  never trusted, a null only where the version allows it, unknown tagged fields are skipped, bytes after the message are
  left alone.
* No decoding needs more time or memory than its bytes justify: every element claimed must have room in the bytes left.
* Encoding checks ranges, lengths and nulls and raises :class:`EncodeError`; :func:`encode` never returns half a
  message.
* Large messages can be read and written in pieces, between which others may be served: :func:`decoding`, :func:`encoding`.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from kafka_wire.codegen import DecoderSource, EncoderSource
from kafka_wire.wire import LENIENT, DecodeError, EncodeError, UnknownVersionError, skip_tagged_fields

__all__ = [
    "DecodeError",
    "EncodeError",
    "UnknownVersionError",
    "decode",
    "decode_from",
    "decoder",
    "decoding",
    "encode",
    "encode_into",
    "encoder",
    "encoding",
    "skip_tagged_fields",
    "source",
]

M = TypeVar("M")
Decoder = Callable[[bytes, int, int], tuple[Any, int]]
Encoder = Callable[[Any, Callable[[bytes], None]], None]

_decoders: dict[tuple[type, int], Decoder] = {}
_lenient_decoders: dict[tuple[type, int], Decoder] = {}
_encoders: dict[tuple[type, int], Encoder] = {}
_decoders_in_pieces: dict[tuple[type, int], Callable[[bytes, int, int], Generator[None, None, tuple[Any, int]]]] = {}
_encoders_in_pieces: dict[tuple[type, int], Callable[[Any, Callable[[bytes], None]], Generator[None, None, None]]] = {}


def decode(cls: type[M], version: int, data: bytes, pos: int = 0) -> M:
    """The message of ``cls`` in ``version`` that begins at ``data[pos]``; bytes behind it are ignored.

    ``data`` must be ``bytes``. Raises DecodeError, UnknownVersionError.
    """
    return decode_from(cls, version, data, pos)[0]


def decode_from(cls: type[M], version: int, data: bytes, pos: int = 0) -> tuple[M, int]:
    """As :func:`decode`, with the position behind the message."""
    function = _decoders.get((cls, version)) or decoder(cls, version)
    try:
        try:
            return function(data, pos, len(data))
        except UnicodeDecodeError:
            return _lenient_decoder(cls, version)(data, pos, len(data))
    except (DecodeError, struct.error, IndexError) as error:
        raise _not_decodable(cls, version, len(data) - pos, error) from None


def decoding(cls: type[M], version: int, data: bytes, pos: int = 0) -> Generator[None, None, M]:
    """As :func:`decode`, in pieces: yields after each `wire.PIECE` elements, returns the message."""
    key = (cls, version)
    function = _decoders_in_pieces.get(key)
    if function is None:
        generated = DecoderSource(cls, version, LENIENT, in_pieces=True)
        function = _decoders_in_pieces[key] = _compile(generated.name, generated.text(), generated.names)
    try:
        message, _ = yield from function(data, pos, len(data))
    except (DecodeError, struct.error, IndexError) as error:
        raise _not_decodable(cls, version, len(data) - pos, error) from None
    return message  # type: ignore[no-any-return]


def _not_decodable(cls: type, version: int, size: int, error: Exception) -> DecodeError:
    if isinstance(error, DecodeError):
        return DecodeError(f"{cls.__name__} v{version}: {error}")
    return DecodeError(f"{cls.__name__} v{version}: the message ends early ({size} bytes)")


def encode(obj: Any, version: int) -> bytes:
    """The bytes of ``obj`` in ``version``. Raises EncodeError, UnknownVersionError."""
    parts: list[bytes] = []
    encode_into(obj, version, parts.append)
    try:
        return b"".join(parts)
    except TypeError as error:
        raise _not_encodable(obj, version, error) from error


def encode_into(obj: Any, version: int, write: Callable[[bytes], None]) -> None:
    """Hand the bytes of ``obj`` to ``write`` piece by piece (byte fields as they are, uncopied and unchecked).

    Raises EncodeError, UnknownVersionError; what was handed on until then is half a message.
    """
    cls = type(obj)
    function = _encoders.get((cls, version)) or encoder(cls, version)
    try:
        function(obj, write)
    except (EncodeError, struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
        raise _not_encodable(obj, version, error) from error


def encoding(cls: type, version: int, obj: Any, write: Callable[[bytes], None]) -> Generator[None, None, None]:
    """As :func:`encode_into`, in pieces: yields after each `wire.PIECE` elements."""
    key = (cls, version)
    function = _encoders_in_pieces.get(key)
    if function is None:
        generated = EncoderSource(cls, version, in_pieces=True)
        function = _encoders_in_pieces[key] = _compile(generated.name, generated.text(), generated.names)
    try:
        yield from function(obj, write)
    except (EncodeError, struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
        raise _not_encodable(obj, version, error) from error


def _not_encodable(obj: Any, version: int, error: Exception) -> EncodeError:
    return EncodeError(f"{type(obj).__name__} v{version}: {error}")


def decoder(cls: type, version: int) -> Decoder:
    """The compiled decoder ``(data, pos, end) -> (message, pos)``.

    It raises struct.error, IndexError and UnicodeDecodeError as well as DecodeError, so call it through :func:`decode`
    unless you are a hot path that falls back to :func:`decode` for all of them.
    """
    key = (cls, version)
    function: Decoder | None = _decoders.get(key)
    if function is None:
        function = _decoders[key] = _compile_decoder(cls, version, None)
    return function


def encoder(cls: type, version: int) -> Encoder:
    """The compiled encoder ``(message, write) -> None``; besides EncodeError it raises what :func:`encode` turns into
    one.
    """
    key = (cls, version)
    function: Encoder | None = _encoders.get(key)
    if function is None:
        generated = EncoderSource(cls, version)
        function = _encoders[key] = _compile(generated.name, generated.text(), generated.names)
    return function


def source(cls: type, version: int) -> str:
    """The Python source of the decoder and the encoder, for the curious and for debugging."""
    return DecoderSource(cls, version).text() + "\n\n" + EncoderSource(cls, version).text()


def _lenient_decoder(cls: type, version: int) -> Decoder:
    """A decoder that replaces what isn't UTF-8; apart from the other one, which is faster for not having to."""
    key = (cls, version)
    if key not in _lenient_decoders:
        _lenient_decoders[key] = _compile_decoder(cls, version, LENIENT)
    return _lenient_decoders[key]


def _compile_decoder(cls: type, version: int, utf8_errors: str | None) -> Decoder:
    generated = DecoderSource(cls, version, utf8_errors)
    function: Decoder = _compile(generated.name, generated.text(), generated.names)
    return function


def _compile(name: str, text: str, names: dict[str, Any]) -> Any:
    filename = f"<{name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)  # for tracebacks and debuggers
    exec(compile(text, filename, "exec"), names)  # made from our own schema classes only
    return names[name]
