"""Messages to bytes and back: a decoder and an encoder compiled for each (class, version) on first use.

    request = decode(OffsetCommitRequest, 8, body)
    body = encode(response, 8)

A compiled function is straight-line Python made from the class's fields (``schema``): neighbouring fixed-width fields become one
``struct`` call, a string's length joins the run before it, fields of other versions don't appear at all. Rules:

* Decoding never trusts a length: a string or array that claims more than the bytes left raises :class:`DecodeError`, and so do
  a null where none is allowed, invalid UTF-8 and a tag twice. Unknown tagged fields are skipped. Bytes after the message are left
  alone, as Kafka's server does.
* Encoding checks ranges and nulls and raises :class:`EncodeError`; it never sends half a message.
"""

from __future__ import annotations

import dataclasses
import itertools
import struct as _struct
from collections.abc import Callable
from typing import Any, TypeVar

from protocol.schema import FieldSpec, Versions

M = TypeVar("M")
Decoder = Callable[[bytes, int, int], tuple[Any, int]]
Encoder = Callable[[Any, Callable[[bytes], None]], None]

_FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
_SIZE = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}


class DecodeError(ValueError):
    """These bytes are not this message in this version; the text says what and where."""


class EncodeError(ValueError):
    """This message can't be written in this version; the text says why."""


class UnknownVersionError(DecodeError, EncodeError):
    """The message doesn't exist in this version."""


def decode(cls: type[M], version: int, data: bytes, pos: int = 0) -> M:
    """The message of ``cls`` in ``version`` that begins at ``data[pos]``; bytes behind it are ignored. Raises DecodeError."""
    return decode_from(cls, version, data, pos)[0]


def decode_from(cls: type[M], version: int, data: bytes, pos: int = 0) -> tuple[M, int]:
    """As :func:`decode`, with the position behind the message."""
    function = _decoders.get((cls, version)) or decoder(cls, version)
    try:
        return function(data, pos, len(data))
    except DecodeError as error:
        raise DecodeError(f"{cls.__name__} v{version}: {error}") from None
    except (_struct.error, IndexError):
        raise DecodeError(f"{cls.__name__} v{version}: the message ends early ({len(data) - pos} bytes)") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"{cls.__name__} v{version}: a string is not UTF-8 ({error.reason})") from None


def encode(obj: Any, version: int) -> bytes:
    """The bytes of ``obj`` in ``version``. Raises EncodeError."""
    parts: list[bytes] = []
    encode_into(obj, version, parts.append)
    return b"".join(parts)


def encode_into(obj: Any, version: int, write: Callable[[bytes], None]) -> None:
    """Hand the bytes of ``obj`` to ``write`` piece by piece (large byte fields as they are, uncopied). Raises EncodeError."""
    cls = type(obj)
    function = _encoders.get((cls, version)) or encoder(cls, version)
    try:
        function(obj, write)
    except EncodeError:
        raise
    except (_struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
        raise EncodeError(f"{cls.__name__} v{version}: {error}") from error


_decoders: dict[tuple[type, int], Decoder] = {}
_encoders: dict[tuple[type, int], Encoder] = {}


def decoder(cls: type, version: int) -> Decoder:
    """The compiled decoder ``(data, pos, end) -> (message, pos)``; raises struct.error, IndexError, UnicodeDecodeError as well
    as DecodeError, so call it through :func:`decode` unless you are a hot path that catches them all."""
    key = (cls, version)
    function = _decoders.get(key)
    if function is None:
        function = _decoders[key] = _Compiler(cls, version).decoder()
    return function


def encoder(cls: type, version: int) -> Encoder:
    """The compiled encoder ``(message, write) -> None``; see :func:`decoder` for the errors it lets through."""
    key = (cls, version)
    function = _encoders.get(key)
    if function is None:
        function = _encoders[key] = _Compiler(cls, version).encoder()
    return function


# --- what the compiled functions call -------------------------------------------------------------------------------------------


def read_uvarint(data: bytes, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most 5 bytes (ByteUtils.readUnsignedVarint) at ``pos``, and the position behind it."""
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise DecodeError(f"varint at byte {pos} is longer than 32 bits")
            return value, pos
        shift += 7
        if shift > 28:
            raise DecodeError(f"varint at byte {pos} is longer than 5 bytes")


def uvarint(value: int) -> bytes:
    """An unsigned varint's bytes."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE = [bytes((i,)) for i in range(128)]


def skip_tagged_fields(data: bytes, pos: int) -> int:
    """The position behind the tag section at ``pos``; its fields are not looked at."""
    return _skip_tags(data, pos + 1, data[pos], len(data)) if data[pos] else pos + 1


def _skip_tags(data: bytes, pos: int, count: int, end: int) -> int:
    if count > 0x7F:
        count, pos = read_uvarint(data, pos - 1)
    last = -1
    for _ in range(count):
        last, size, pos = _tag(data, pos, last, end)
        pos += size
    return pos


def _tag(data: bytes, pos: int, last: int, end: int) -> tuple[int, int, int]:
    """One tag's header: tag, size, position of its value; tags ascend strictly (KIP-482)."""
    tag, pos = read_uvarint(data, pos)
    size, pos = read_uvarint(data, pos)
    if tag <= last:
        raise DecodeError(f"tag {tag} at byte {pos} comes after tag {last}")
    if pos + size > end:
        raise DecodeError(f"tag {tag} at byte {pos} claims {size} bytes, {end - pos} are left")
    return tag, size, pos


def _too_long(name: str, size: int, left: int) -> DecodeError:
    if size < 0:
        return DecodeError(f"{name} is null or has the length {size}")
    return DecodeError(f"{name} claims {size}, {left} bytes are left")


def _null(name: str) -> EncodeError:
    return EncodeError(f"{name} is null, which this version can't carry")


# --- the compiler ----------------------------------------------------------------------------------------------------------------


class _Compiler:
    """Writes the source of one decoder or encoder, with a function per nested struct, and compiles it."""

    def __init__(self, cls: type, version: int) -> None:
        spec = cls.__spec__  # type: ignore[attr-defined]
        if version not in spec.versions:
            raise UnknownVersionError(f"{cls.__name__} has no version {version} ({spec.versions})")
        self.cls, self.version = cls, version
        self.flexible: bool = version in spec.flexible
        self.names: dict[str, Any] = {
            "uv": read_uvarint, "wuv": uvarint, "skip_tags": _skip_tags, "tag_of": _tag, "too_long": _too_long,
            "null": _null, "DecodeError": DecodeError,
        }  # fmt: skip
        self.lines: list[str] = []
        self.done: set[type] = set()
        self.counter = itertools.count()
        self.sink = "w"  # the variable that holds the writer: a tagged field's bytes are gathered first

    def fields(self, cls: type) -> list[tuple[str, FieldSpec]]:
        return [(n, s) for n, s in cls.__fields__ if self.version in s.versions]  # type: ignore[attr-defined]

    def is_tagged(self, spec: FieldSpec) -> bool:
        return spec.tag is not None and self.version in spec.tagged

    def is_flexible(self, spec: FieldSpec) -> bool:
        if spec.flexible is not None:
            return self.version in spec.flexible
        return self.flexible

    def codec_struct(self, fmt: str) -> str:
        """The name under which ``Struct('>' + fmt)`` is known to the source."""
        name = "S_" + fmt.replace("?", "o")
        self.names[name] = _struct.Struct(">" + fmt)
        return name

    def compile(self, source: list[str], entry: str) -> Any:
        text = "\n".join(source)
        code = compile(text, f"<{entry} {self.cls.__name__} v{self.version}>", "exec")
        exec(code, self.names)  # the source is made from our own schema classes only
        return self.names[entry]

    # decoding

    def decoder(self) -> Decoder:
        self.decode_struct(self.cls)
        function: Decoder = self.compile(self.lines, f"d_{self.cls.__name__}")
        return function

    def decode_struct(self, cls: type) -> None:
        if cls in self.done:
            return
        self.done.add(cls)
        self.names[f"C_{cls.__name__}"] = cls
        body: list[str] = [f"def d_{cls.__name__}(b, p, n):"]
        run: list[tuple[str, str]] = []  # (variable, struct format) of the fixed-width fields read so far
        present = self.fields(cls)
        for name, spec in present:
            if self.is_tagged(spec):
                continue
            if spec.kind in _FIXED:
                run.append((f"v_{name}", _FIXED[spec.kind]))
            else:
                self.decode_variable(body, run, f"v_{name}", name, spec)
        if self.flexible:
            run.append(("t", "B"))
        self.flush_reads(body, run)
        if self.flexible:
            self.decode_tags(body, cls, [(n, s) for n, s in present if self.is_tagged(s)])
        arguments = ", ".join(f"{name}=v_{name}" for name, _ in present)
        everything = [name for name, _ in cls.__fields__]  # type: ignore[attr-defined]
        if [name for name, _ in present] == everything[: len(present)]:  # positional arguments are cheaper
            arguments = ", ".join(f"v_{name}" for name, _ in present)
        body.append(f" return C_{cls.__name__}({arguments}), p")
        self.lines += body

    def flush_reads(self, body: list[str], run: list[tuple[str, str]]) -> None:
        if not run:
            return
        formats = "".join(f for _, f in run)
        if formats == "B":
            body += [f" {run[0][0]} = b[p]", " p += 1"]
        else:
            body.append(f" {', '.join(v for v, _ in run)}, = {self.codec_struct(formats)}.unpack_from(b, p)")
            body.append(f" p += {sum(_SIZE[f] for _, f in run)}")
        run.clear()

    def read_length(self, body: list[str], run: list[tuple[str, str]], flexible: bool, fmt: str) -> None:
        """Leave a length in ``l`` (-1 for null); it joins the run of fixed-width fields before it."""
        run.append(("l", "B" if flexible else fmt))
        self.flush_reads(body, run)
        if flexible:
            body += [" if l > 127:", "  l, p = uv(b, p - 1)", " l -= 1"]

    def decode_variable(
        self, body: list[str], run: list[tuple[str, str]], var: str, name: str, spec: FieldSpec
    ) -> None:
        flexible, nullable = self.is_flexible(spec), self.version in spec.nullable
        if spec.kind == "struct":
            item = spec.item
            self.decode_struct(item)
            if nullable:
                run.append(("l", "b"))
                self.flush_reads(body, run)
                body += [" if l < 0:", f"  {var} = None", " else:", f"  {var}, p = d_{item.__name__}(b, p, n)"]
            else:
                self.flush_reads(body, run)
                body.append(f" {var}, p = d_{item.__name__}(b, p, n)")
            return
        self.read_length(body, run, flexible, "h" if spec.kind == "string" else "i")
        if nullable:
            body += [" if l < 0:", f"  {var} = None", " else:"]
            indent = "  "
        else:
            body += [" if l < 0:", f"  raise too_long({name!r}, l, n - p)"]
            indent = " "
        if spec.kind == "array":
            self.decode_array(body, indent, var, name, spec)
            return
        body += [f"{indent}e = p + l", f"{indent}if e > n:", f"{indent} raise too_long({name!r}, l, n - p)"]
        body.append(f"{indent}{var} = str(b[p:e], 'utf-8')" if spec.kind == "string" else f"{indent}{var} = b[p:e]")
        body.append(f"{indent}p = e")

    def decode_array(self, body: list[str], indent: str, var: str, name: str, spec: FieldSpec) -> None:
        item = spec.item
        fmt = _FIXED.get(item) if isinstance(item, str) else None
        if fmt is not None:
            size = _SIZE[fmt]
            body += [f"{indent}if l * {size} > n - p:", f"{indent} raise too_long({name!r}, l, n - p)"]
            many = "'>' + '16s' * l" if fmt == "16s" else f"f'>{{l}}{fmt}'"
            self.names["struct_unpack_from"] = _struct.unpack_from
            body += [f"{indent}{var} = list(struct_unpack_from({many}, b, p))", f"{indent}p += l * {size}"]
            return
        body += [f"{indent}if l > n - p:", f"{indent} raise too_long({name!r}, l, n - p)"]
        body += [f"{indent}{var} = []", f"{indent}a_{name} = {var}.append", f"{indent}for _ in range(l):"]
        if isinstance(item, str):
            element = FieldSpec(item, Versions(0, 32767))
            inner: list[str] = []
            self.decode_variable(inner, [], "x", name, element)
            body += [indent + line for line in inner]
        else:
            self.decode_struct(item)
            body.append(f"{indent} x, p = d_{item.__name__}(b, p, n)")
        body.append(f"{indent} a_{name}(x)")

    def decode_tags(self, body: list[str], cls: type, tagged: list[tuple[str, FieldSpec]]) -> None:
        if not tagged:
            body += [" if t:", "  p = skip_tags(b, p, t, n)"]
            return
        defaults = _defaults(cls)
        for name, _ in tagged:
            self.names[f"F_{cls.__name__}_{name}"] = defaults[name]
            body.append(f" v_{name} = F_{cls.__name__}_{name}()")
        body += [" if t:", "  if t > 127:", "   t, p = uv(b, p - 1)", "  last = -1", "  for _ in range(t):"]
        body += ["   last, size, p = tag_of(b, p, last, n)", "   q = p + size"]
        for number, (name, spec) in enumerate(tagged):
            body.append(f"   {'el' if number else ''}if last == {spec.tag}:")
            inner: list[str] = []
            run: list[tuple[str, str]] = []
            if spec.kind in _FIXED:
                run.append((f"v_{name}", _FIXED[spec.kind]))
                self.flush_reads(inner, run)
            else:
                self.decode_variable(inner, run, f"v_{name}", name, spec)
            body += ["   " + line for line in inner]
            body += ["    if p != q:", f"     raise DecodeError({f'tag {spec.tag} ({name}) has a wrong size'!r})"]
        body.append("   p = q")

    # encoding

    def encoder(self) -> Encoder:
        self.encode_struct(self.cls)
        function: Encoder = self.compile(self.lines, f"e_{self.cls.__name__}")
        return function

    def encode_struct(self, cls: type) -> None:
        if cls in self.done:
            return
        self.done.add(cls)
        body: list[str] = [f"def e_{cls.__name__}(o, w):"]
        run: list[tuple[str, str]] = []
        present = self.fields(cls)
        for name, spec in present:
            if self.is_tagged(spec):
                continue
            if spec.kind in _FIXED:
                run.append((f"o.{name}", _FIXED[spec.kind]))
            else:
                self.encode_variable(body, run, f"o.{name}", name, spec)
        tagged = sorted(((n, s) for n, s in present if self.is_tagged(s)), key=lambda pair: pair[1].tag or 0)
        if self.flexible and not tagged:
            run.append(("0", "B"))
        self.flush_writes(body, run)
        if tagged:
            self.encode_tags(body, cls, tagged)
        if len(body) == 1:
            body.append(" pass")
        self.lines += body

    def flush_writes(self, body: list[str], run: list[tuple[str, str]], indent: str = " ") -> None:
        if run:
            formats = "".join(f for _, f in run)
            body.append(f"{indent}{self.sink}({self.codec_struct(formats)}.pack({', '.join(v for v, _ in run)}))")
            run.clear()

    def write_length(self, body: list[str], run: list[tuple[str, str]], indent: str, flexible: bool, fmt: str) -> None:
        if flexible:
            self.flush_writes(body, run, indent)
            body.append(f"{indent}{self.sink}(wuv(len(x) + 1))")
        else:
            run.append(("len(x)", fmt))
            self.flush_writes(body, run, indent)

    def encode_variable(
        self, body: list[str], run: list[tuple[str, str]], value: str, name: str, spec: FieldSpec
    ) -> None:
        flexible, nullable = self.is_flexible(spec), self.version in spec.nullable
        indent, w = " ", self.sink
        body.append(f" x = {value}")
        fmt = "h" if spec.kind == "string" else "i"
        if spec.kind == "struct":
            self.encode_struct(spec.item)
            self.flush_writes(body, run)
            if nullable:
                body += [
                    " if x is None:",
                    rf"  {w}(b'\xff')",
                    " else:",
                    rf"  {w}(b'\x01')",
                    f"  e_{spec.item.__name__}(x, {w})",
                ]
            else:
                body.append(f" e_{spec.item.__name__}(x, {w})")
            return
        if nullable:
            self.flush_writes(body, run)
            null = r"b'\x00'" if flexible else repr(b"\xff" * _SIZE[fmt])
            body += [" if x is None:", f"  {w}({null})", " else:"]
            indent = "  "
        else:
            body += [" if x is None:", f"  raise null({name!r})"]
        if spec.kind == "string":
            body.append(f"{indent}x = x.encode()")
        self.write_length(body, run, indent, flexible, fmt)
        if spec.kind == "array":
            self.encode_array(body, indent, name, spec)
        else:
            body.append(f"{indent}{self.sink}(x)")

    def encode_array(self, body: list[str], indent: str, name: str, spec: FieldSpec) -> None:
        item = spec.item
        fmt = _FIXED.get(item) if isinstance(item, str) else None
        if fmt is not None:
            self.names["struct_pack"] = _struct.pack
            many = "'>' + '16s' * len(x)" if fmt == "16s" else f"f'>{{len(x)}}{fmt}'"
            body.append(f"{indent}{self.sink}(struct_pack({many}, *x))")
            return
        y = f"y{next(self.counter)}"
        body.append(f"{indent}for {y} in x:")
        if isinstance(item, str):
            inner: list[str] = []
            self.encode_variable(inner, [], y, name, FieldSpec(item, Versions(0, 32767)))
            body += [indent + line for line in inner]
        else:
            self.encode_struct(item)
            body.append(f"{indent} e_{item.__name__}({y}, {self.sink})")

    def encode_tags(self, body: list[str], cls: type, tagged: list[tuple[str, FieldSpec]]) -> None:
        """Only fields that differ from their default are written, in the order of their tags."""
        defaults = _defaults(cls)
        body.append(" tags = []")
        for name, spec in tagged:
            self.names[f"D_{cls.__name__}_{name}"] = defaults[name]()
            body += [f" if o.{name} != D_{cls.__name__}_{name}:", "  parts = []", "  z = parts.append"]
            self.sink = "z"
            inner: list[str] = []
            run: list[tuple[str, str]] = []
            if spec.kind in _FIXED:
                run.append((f"o.{name}", _FIXED[spec.kind]))
            else:
                self.encode_variable(inner, run, f"o.{name}", name, spec)
            self.flush_writes(inner, run)
            self.sink = "w"
            body += [" " + line for line in inner]
            body.append(f"  tags.append(({spec.tag}, b''.join(parts)))")
        body += [" w(wuv(len(tags)))", " for tag, x in tags:", "  w(wuv(tag) + wuv(len(x)))", "  w(x)"]


def _defaults(cls: type) -> dict[str, Callable[[], Any]]:
    """A factory of each field's default."""
    out: dict[str, Callable[[], Any]] = {}
    for field in dataclasses.fields(cls):
        if field.default_factory is not dataclasses.MISSING:
            out[field.name] = field.default_factory
        else:
            out[field.name] = lambda value=field.default: value
    return out
