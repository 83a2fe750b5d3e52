"""Writes the Python source of decoders and encoders from the fields of message classes (``schema``).

How the code is made fast, on CPython 3.11 and later:

* neighbouring fixed-width fields and the length or tag count after them are one ``struct`` call;
* nested structs are written in line, each array is one loop, so that a message is one function without calls;
* objects are made by ``object.__new__`` and filled slot by slot, which beats their ``__init__`` by a third;
* fields of other versions cost one assignment of their default when decoding and nothing when encoding.

The same in pieces is a generator: it counts the elements of all arrays, nested ones included, and the tagged fields that it reads, and
yields after each `wire.PIECE` of them.

In the generated code ``b`` are the bytes, ``p`` the position, ``n`` the end, ``m``, ``m1``, ``m2`` ... the message and
the structs in it, ``l`` a length, ``e`` the end of a string, ``t`` a number of tags, ``w`` the function that takes the
bytes written, ``c`` the elements and tags since the last yield.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any

from kafka_wire import wire
from kafka_wire.schema import FieldSpec, MessageSpec

_FORMATS = {
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
_SIZES = {fmt: struct.calcsize(">" + fmt) for fmt in (*_FORMATS.values(), "B")}
_IMMUTABLE = (int, float, str, bytes, type(None))

Run = list[tuple[str, str]]
"""Neighbouring fixed-width values: (variable or expression, struct format)."""


class _Source:
    """Lines of one function and the names that it needs."""

    def __init__(self, kind: str, arguments: str, cls: type, version: int, *, in_pieces: bool) -> None:
        spec: MessageSpec = cls.__spec__  # type: ignore[attr-defined]
        if version not in spec.versions:
            raise wire.UnknownVersionError(f"{cls.__name__} has no version {version} ({spec.versions})")
        self.version = version
        self.message_is_flexible = version in spec.flexible
        self.in_pieces = in_pieces
        self.name = f"{kind}_{cls.__name__}_v{version}{'_in_pieces' if in_pieces else ''}"
        self.lines = [f"def {self.name}({arguments}):"]
        self.depth = 1
        if in_pieces:
            self.line("c = 0")
        self.run: Run = []
        self.numbers = itertools.count(1)
        self.names: dict[str, Any] = {}

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def give_way(self) -> None:
        """At the end of an array's element or of a tagged field."""
        if self.in_pieces:
            self.line("c += 1")
            with self.block(f"if c == {wire.PIECE}:"):
                self.line("c = 0")
                self.line("yield")

    def use(self, value: Callable[..., Any]) -> str:
        """The name under which the source calls ``value``."""
        self.names[value.__name__] = value
        return value.__name__

    def fields(self, cls: type) -> list[tuple[str, FieldSpec]]:
        """The fields that this version has."""
        return [(name, spec) for name, spec in _all_fields(cls) if self.version in spec.versions]

    def is_tagged(self, spec: FieldSpec) -> bool:
        return spec.tag is not None and self.version in spec.tagged

    def is_flexible(self, spec: FieldSpec) -> bool:
        if spec.flexible is not None:
            return self.version in spec.flexible
        return self.message_is_flexible

    def is_nullable(self, spec: FieldSpec) -> bool:
        return self.version in spec.nullable

    def default(self, cls: type, name: str) -> str:
        """An expression that makes the default of a field."""
        field = {field.name: field for field in dataclasses.fields(cls)}[name]
        if field.default_factory is not dataclasses.MISSING:
            factory: Any = field.default_factory
            if factory is list:
                return "[]"
            self.names[factory.__name__] = factory
            return f"{factory.__name__}()"
        assert isinstance(field.default, _IMMUTABLE)
        return repr(field.default)


def _all_fields(cls: type) -> tuple[tuple[str, FieldSpec], ...]:
    return cls.__fields__  # type: ignore[attr-defined,no-any-return]


def _suffix(run: Run) -> str:
    return "".join(fmt for _, fmt in run).replace("?", "o").replace("16s", "u")


def _struct_of(run: Run) -> struct.Struct:
    return struct.Struct(">" + "".join(fmt for _, fmt in run))


# --- decoders --------------------------------------------------------------------------------------------------------


class DecoderSource(_Source):
    """The source of ``(b, p, n) -> (message, position behind it)``; ``utf8_errors`` as for ``bytes.decode``."""

    def __init__(self, cls: type, version: int, utf8_errors: str | None = None, *, in_pieces: bool = False) -> None:
        kind = "decode" if utf8_errors is None else "decode_leniently"
        super().__init__(kind, "b, p, n", cls, version, in_pieces=in_pieces)
        self.to_text = ".decode()" if utf8_errors is None else f".decode('utf-8', {utf8_errors!r})"
        self.names["new"] = object.__new__
        self.struct("m", cls)
        self.flush()
        self.line("return m, p")
        if in_pieces:
            self.line("yield")  # a generator, also where the message has no array

    def flush(self) -> None:
        """Write the lines that read the collected run of fixed-size fields in one call of struct."""
        if not self.run:
            return
        if _suffix(self.run) == "B":
            self.line(f"{self.run[0][0]} = b[p]")
            self.line("p += 1")
        else:
            function = f"read_{_suffix(self.run)}"
            self.names[function] = _struct_of(self.run).unpack_from
            self.line(f"{', '.join(target for target, _ in self.run)}, = {function}(b, p)")
            self.line(f"p += {sum(_SIZES[fmt] for _, fmt in self.run)}")
        self.run.clear()

    def struct(self, var: str, cls: type) -> None:
        """Make a ``cls`` in ``var`` and read its fields; its last run may be left for what follows."""
        self.names[cls.__name__] = cls
        self.line(f"{var} = new({cls.__name__})")
        present = dict(self.fields(cls))
        for name, _ in _all_fields(cls):
            if name not in present or self.is_tagged(present[name]):
                self.line(f"{var}.{name} = {self.default(cls, name)}")
        for name, spec in present.items():
            if not self.is_tagged(spec):
                self.value(f"{var}.{name}", name, spec)
        if self.message_is_flexible:
            self.tags(var, cls)

    def value(self, target: str, name: str, spec: FieldSpec) -> None:
        """Read one value into ``target``."""
        if spec.kind in _FORMATS:
            self.run.append((target, _FORMATS[spec.kind]))
        elif spec.kind == "struct":
            self.nested(target, spec)
        elif spec.kind == "array":
            self.array(target, name, spec)
        else:
            self.bytes_or_string(target, name, spec)

    def nested(self, target: str, spec: FieldSpec) -> None:
        var = f"m{next(self.numbers)}"
        if not self.is_nullable(spec):
            self.struct(var, spec.item)
            self.line(f"{target} = {var}")
            return
        if self.is_tagged(spec):  # then the byte before it is a varint, and null is 0
            self.line(f"l, p = {self.use(wire.read_uvarint)}(b, p)")
        else:
            self.run.append(("l", "b"))
            self.flush()
        with self.block(f"if l < {int(self.is_tagged(spec))}:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            self.struct(var, spec.item)
            self.flush()
            self.line(f"{target} = {var}")

    def length(self, name: str, spec: FieldSpec) -> tuple[int, str]:
        """Read a length into ``l``: what ``l`` is for an empty value (less is null), and the expression of the length."""
        flexible, is_string = self.is_flexible(spec), spec.kind == "string"
        self.run.append(("l", "B" if flexible else "h" if is_string else "i"))
        self.flush()
        if not flexible:
            return 0, "l"
        with self.block("if l > 127:"):
            self.line(f"l, p = {self.use(wire.read_length)}(b, p - 1)")
            if is_string:
                with self.block(f"if l > {wire.MAX_STRING + 1}:"):
                    self.line(f"raise {self.use(wire.too_long)}({name!r}, l - 1, n - p)")
        return 1, "l - 1"

    def null(self, target: str, name: str, spec: FieldSpec) -> None:
        """Write the code for a null: assign None, or raise if the field is not nullable."""
        if self.is_nullable(spec):
            self.line(f"{target} = None")
        else:
            self.line(f"raise {self.use(wire.unexpected_null)}({name!r})")

    def refuse(self, condition: str, name: str, length: str) -> None:
        with self.block(f"if {condition}:"):
            self.line(f"raise {self.use(wire.too_long)}({name!r}, {length}, n - p)")

    def bytes_or_string(self, target: str, name: str, spec: FieldSpec) -> None:
        empty, length = self.length(name, spec)
        with self.block(f"if l > {empty}:"):
            self.line(f"e = p + {length}")
            self.refuse("e > n", name, length)
            self.line(f"{target} = b[p:e]{self.to_text if spec.kind == 'string' else ''}")
            self.line("p = e")
        with self.block(f"elif l == {empty}:"):
            self.line(f"{target} = {'' if spec.kind == 'string' else b''!r}")
        with self.block("else:"):
            self.null(target, name, spec)

    def array(self, target: str, name: str, spec: FieldSpec) -> None:
        item = spec.element()
        empty, length = self.length(name, spec)
        with self.block(f"if l < {empty}:"):
            self.null(target, name, spec)
        with self.block("else:") if self.is_nullable(spec) else contextlib.nullcontext():
            size = self.least_size(item)
            self.refuse(f"({length}) * {size} > n - p" if size > 1 else f"{length} > n - p", name, length)
            if item.kind in _FORMATS:
                self.fixed_array(target, _FORMATS[item.kind], length)
            else:
                self.elements(target, name, item, length)

    def elements(self, target: str, name: str, item: FieldSpec, length: str) -> None:
        number = next(self.numbers)
        self.line(f"a{number} = {target} = []")
        with self.block(f"for _ in range({length}):"):
            element = f"m{number}"
            if item.kind == "struct":
                self.struct(element, item.item)
            else:
                self.value(element, name, item)
            self.flush()
            self.line(f"a{number}.append({element})")
            self.give_way()

    def fixed_array(self, target: str, fmt: str, length: str) -> None:
        size = _SIZES[fmt]
        self.line(f"e = p + ({length}) * {size}")
        if fmt == "16s":
            self.line(f"{target} = [b[i:i + 16] for i in range(p, e, 16)]")
        else:
            self.line(f"{target} = [*{self.use(wire.repeated)}({fmt!r}, {length}).unpack_from(b, p)]")
        self.line("p = e")

    def least_size(self, spec: FieldSpec) -> int:
        """The bytes that a value takes at least; 1 for what takes none, as Kafka counts it."""
        return max(1, self.least(spec))

    def least(self, spec: FieldSpec) -> int:
        if spec.kind in _FORMATS:
            return _SIZES[_FORMATS[spec.kind]]
        if spec.kind == "struct":
            if self.is_nullable(spec):
                return 1
            inner = sum(self.least(field) for _, field in self.fields(spec.item) if not self.is_tagged(field))
            return inner + self.message_is_flexible
        return 1 if self.is_flexible(spec) else 2 if spec.kind == "string" else 4

    def tags(self, var: str, cls: type) -> None:
        """Read the tag section; tags of other versions are refused, unknown ones skipped."""
        self.run.append(("t", "B"))
        self.flush()
        known = [(name, spec) for name, spec in _all_fields(cls) if spec.tag is not None]
        with self.block("if t:"):
            if not known and not self.in_pieces:
                self.line(f"p = {self.use(wire.skip_tags)}(b, p, t, n)")
                return
            with self.block("if t > 127:"):
                self.line(f"t, p = {self.use(wire.read_uvarint)}(b, p - 1)")
            with self.block("for _ in range(t):"):
                self.line(f"tag, size, p = {self.use(wire.read_tag)}(b, p)")
                for number, (name, spec) in enumerate(known):
                    with self.block(f"{'el' if number else ''}if tag == {spec.tag}:"):
                        if self.is_tagged(spec):
                            self.value(f"{var}.{name}", name, spec)
                            self.flush()
                        else:
                            self.line(f"raise {self.use(wire.wrong_tag)}({spec.tag}, {name!r})")
                with self.block("else:") if known else contextlib.nullcontext():
                    self.line(f"p = {self.use(wire.skip_tag)}(tag, size, p, n)")
                self.give_way()


# --- encoders --------------------------------------------------------------------------------------------------------


class EncoderSource(_Source):
    """The source of ``(message, w) -> None``, where ``w`` takes the bytes."""

    def __init__(self, cls: type, version: int, *, in_pieces: bool = False) -> None:
        super().__init__("encode", "m, w", cls, version, in_pieces=in_pieces)
        self.sink = "w"  # another one while a tagged field is written, whose size comes first
        self.struct("m", cls)
        self.flush()
        if in_pieces:
            self.line("return")
            self.line("yield")
        if len(self.lines) == 1:
            self.line("pass")

    def write(self, expression: str) -> None:
        self.line(f"{self.sink}({expression})")

    def packed(self, run: Run) -> str:
        """The expression for the bytes of ``run``."""
        if _suffix(run) == "B" and run[0][0] == "l":
            self.names["one_byte"] = wire.ONE_BYTE
            return "one_byte[l]"
        if all(value.isdigit() for value, _ in run):
            return repr(_struct_of(run).pack(*(int(value) for value, _ in run)))
        function = f"pack_{_suffix(run)}"
        self.names[function] = _struct_of(run).pack
        return f"{function}({', '.join(value for value, _ in run)})"

    def flush(self) -> None:
        """Write the line that packs the collected run of fixed-size fields in one call of struct."""
        if self.run:
            self.write(self.packed(self.run))
            self.run.clear()

    def struct(self, var: str, cls: type) -> None:
        present = self.fields(cls)
        for name, spec in present:
            if not self.is_tagged(spec):
                self.value(f"{var}.{name}", name, spec)
        if self.message_is_flexible:
            tagged = [(name, spec) for name, spec in present if self.is_tagged(spec)]
            if tagged:
                self.flush()
                self.tags(var, cls, tagged)
            else:
                self.run.append(("0", "B"))

    def value(self, value: str, name: str, spec: FieldSpec) -> None:
        if spec.kind == "uuid":
            with self.block(f"if len({value}) != 16:"):
                self.line(f"raise {self.use(wire.uuid_error)}({name!r}, {value})")
        if spec.kind in _FORMATS:
            self.run.append((value, _FORMATS[spec.kind]))
        elif spec.kind == "struct":
            self.nested(value, name, spec)
        else:
            self.sized(value, name, spec)

    def null(self, name: str, spec: FieldSpec, marker: tuple[str, str]) -> None:
        """The branch that is taken for None: ``marker`` where null is allowed. The run is written in both branches."""
        with self.block("if x is None:"):
            if self.is_nullable(spec):
                self.write(self.packed([*self.run, marker]))
            else:
                self.line(f"raise {self.use(wire.null_error)}({name!r})")

    def nested(self, value: str, name: str, spec: FieldSpec) -> None:
        var = f"m{next(self.numbers)}"
        self.line(f"x = {var} = {value}")
        self.null(name, spec, ("0" if self.is_tagged(spec) else "-1", "b"))
        if not self.is_nullable(spec):
            self.struct(var, spec.item)
            return
        with self.block("else:"):
            self.run.append(("1", "b"))
            self.struct(var, spec.item)
            self.flush()

    def sized(self, value: str, name: str, spec: FieldSpec) -> None:
        """A string, bytes or array: its length and what it holds."""
        flexible = self.is_flexible(spec)
        marker = ("0", "B") if flexible else ("-1", "h" if spec.kind == "string" else "i")
        self.line(f"x = {value}")
        self.null(name, spec, marker)
        with self.block("else:") if self.is_nullable(spec) else contextlib.nullcontext():
            if spec.kind == "string":
                self.line("x = x.encode()")
                self.string(name, flexible=flexible)
                return
            if flexible:
                self.compact_length()
            else:
                self.run.append(("len(x)", marker[1]))
                self.flush()
            if spec.kind == "array":
                self.elements(name, spec.element())
                self.flush()
            else:
                self.write("x")

    def string(self, name: str, *, flexible: bool) -> None:
        """Strings are short: one piece with what goes before them costs less than two."""
        if not flexible:
            self.write(self.packed([*self.run, ("len(x)", "h")]) + " + x")
            self.run.clear()
            return
        self.line("l = len(x) + 1")
        with self.block("if l < 128:"):
            self.write(self.packed([*self.run, ("l", "B")]) + " + x")
        with self.block("else:"):
            self.flush()
            self.write(f"{self.use(wire.string_length)}({name!r}, l) + x")

    def compact_length(self) -> None:
        self.line("l = len(x) + 1")
        with self.block("if l < 128:"):
            self.write(self.packed([*self.run, ("l", "B")]))
        with self.block("else:"):
            self.flush()
            self.write(f"{self.use(wire.uvarint)}(l)")

    def elements(self, name: str, item: FieldSpec) -> None:
        if item.kind == "uuid":
            with self.block("for y in x:"):
                self.value("y", name, item)
                self.flush()
        elif item.kind in _FORMATS:
            self.write(f"{self.use(wire.repeated)}({_FORMATS[item.kind]!r}, len(x)).pack(*x)")
        else:
            var = f"m{next(self.numbers)}"
            with self.block(f"for {var} in x:"):
                if item.kind == "struct":
                    self.struct(var, item.item)
                else:
                    self.value(var, name, item)
                self.flush()
                self.give_way()

    def tags(self, var: str, cls: type, tagged: list[tuple[str, FieldSpec]]) -> None:
        """Only fields that differ from their default are written, in the order of their tags."""
        count, tags, outer = f"count{next(self.numbers)}", f"tags{next(self.numbers)}", self.sink
        self.line(f"{count}, {tags} = 0, b''")
        for name, spec in sorted(tagged, key=lambda pair: pair[1].tag or 0):
            value = f"{var}.{name}"
            with self.block(f"if {self.differs(value, cls, name, spec)}:"):
                self.line(f"{count} += 1")
                if spec.kind in _FORMATS:  # its size is known: one call writes tag, size and value
                    self.run += [(str(spec.tag), "B"), (str(_SIZES[_FORMATS[spec.kind]]), "B")]
                    self.value(value, name, spec)
                    self.line(f"{tags} += {self.packed(self.run)}")
                    self.run.clear()
                    continue
                parts = f"parts{next(self.numbers)}"
                self.line(f"{parts} = []")
                self.sink = f"{parts}.append"
                self.value(value, name, spec)
                self.flush()
                self.sink = outer
                self.line(f"{tags} += {self.use(wire.tagged)}({spec.tag}, {parts})")
        self.names["one_byte"] = wire.ONE_BYTE
        self.write(f"one_byte[{count}] + {tags}")

    def differs(self, value: str, cls: type, name: str, spec: FieldSpec) -> str:
        """The condition that ``value`` is not the default; structs of primitives without their ``__eq__``."""
        default = self.default(cls, name)
        if spec.kind != "struct":
            return f"{value} != {default}"
        inner = _all_fields(spec.item)
        if self.is_nullable(spec) or any(field.kind not in _FORMATS and field.kind != "string" for _, field in inner):
            constant = f"DEFAULT_{spec.item.__name__}"
            self.names[constant] = eval(default, self.names)
            return f"{value} != {constant}"
        return " or ".join(f"{value}.{field} != {self.default(spec.item, field)}" for field, _ in inner)
