"""Declarations of Kafka messages: dataclass fields that carry their version range.

One class represents all versions of a message; its fields *are* the schema. ``codegen`` reads it to write one decoder
and one encoder for each (class, version). The vocabulary is that of Kafka's own message schemas
(``common/message/*.json``): versions as ``"3+"``, ``"0-8"`` or ``"2"``, ``nullable`` versions, tagged fields (KIP-482).

    API = Api(8, "0-9", flexible="8+", advertised={"3.4": "0-8", "3.7": "0-9", "4.0": "2-9"})

    @message(API)
    class OffsetCommitRequest:
        group_id: str = string(default="", entity=Entity.GROUP)
        member_id: str = string("1+", default="", entity=Entity.MEMBER)
        topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, default_factory=list)

A field outside its version range is neither read nor written: it keeps its default.

A field also declares what its value identifies: its ``entity`` (``entityType`` in Kafka's schemas), for example a group id. The
subject of a request, the fields that its error response repeats, and its text in the journal are derived from that
(``broker_sim.faults``).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypedDict, TypeVar, Unpack, dataclass_transform

ZERO_UUID = bytes(16)
"""The uuid for "no id"; uuids are 16 raw bytes everywhere."""

_NO_VERSION = 32767

T = TypeVar("T")


class Versions(NamedTuple):
    """An inclusive range of versions; ``low > high`` is the empty range."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """``"none"``, ``"3"``, ``"3+"`` or ``"3-8"``; raises ValueError for anything else."""
        if text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), _NO_VERSION)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == _NO_VERSION:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NONE = Versions.parse("none")
ALWAYS = Versions.parse("0+")


class Entity(enum.Enum):
    """Entity that a field's value identifies. An array of primitives has the entity of its elements; an array of structs has its own
    only if its elements have none that a response could repeat."""

    GROUP = "group id"
    MEMBER = "member id"
    INSTANCE = "group instance id"
    TRANSACTIONAL_ID = "transactional id"
    PRODUCER_ID = "producer id, where rows are by it"
    TOPIC = "topic name"
    TOPIC_ID = "topic id"
    PARTITION = "partition of the topic around it"
    RESOURCE_TYPE = "config resource type"
    ERROR = "error code, where the field isn't called error_code"
    ACL = "access rule, or a filter of them"
    USER = "name of a user with SCRAM credentials"
    SUBSCRIPTION = "subscription of the consumer protocol"
    ASSIGNMENT = "assignment of the consumer protocol"


class EntityBy(NamedTuple):
    """An entity that another field of the same struct chooses: its name, and the entity for each of its values that has one here."""

    field: str
    entities: tuple[tuple[int, Entity], ...]


RESOURCE = EntityBy("resource_type", ((2, Entity.TOPIC),))
"""The name of a config resource (ConfigResource.Type)."""

COORDINATED = EntityBy("key_type", ((0, Entity.GROUP), (1, Entity.TRANSACTIONAL_ID)))
"""The key by which a coordinator is found (FindCoordinatorRequest.CoordinatorType)."""


class All(enum.Enum):
    """Value of a list that requests everything. It has to be declared, since a null list may also mean that nothing has changed."""

    NULL = "null"
    EMPTY = "empty"


ERROR_TEXT: Final = object()
"""For ``failed``: what Kafka says of the error (``Err.text``)."""

_UNSAID: Final = object()


class FieldSpec(NamedTuple):
    """The wire side of one field: its type name in Kafka's schemas, and where it is present, nullable or tagged.

    ``kind`` is a primitive's name, ``"struct"`` or ``"array"``; ``item`` is the class of a struct, the class or the
    primitive's name of an array's elements. ``flexible`` overrides the flexible versions of the message. ``failed`` is the field's
    value in an answer that is nothing but an error, where Kafka's isn't the default. ``all_if``: when an array asks for all topics.
    """

    kind: str
    versions: Versions
    nullable: Versions = NONE
    tag: int | None = None
    tagged: Versions = NONE
    item: Any = None
    flexible: Versions | None = None
    entity: Entity | EntityBy | None = None
    failed: Any = _UNSAID
    all_if: All | None = None

    @property
    def says_when_failed(self) -> bool:
        """Whether the field declares ``failed``, its value in error responses."""
        return self.failed is not _UNSAID

    @property
    def inner(self) -> Any:
        """The class of its struct, or of its array's structs; None for primitives."""
        return self.item if isinstance(self.item, type) else None

    def element(self) -> FieldSpec:
        """An array's elements, as if each were a field."""
        if isinstance(self.item, str):
            return FieldSpec(self.item, ALWAYS, flexible=self.flexible, entity=self.entity)
        return FieldSpec("struct", ALWAYS, item=self.item)


class MessageSpec(NamedTuple):
    """The wire side of a whole message: the versions we speak, those that are flexible, and its API or record key."""

    versions: Versions
    flexible: Versions
    api_key: int | None


Release = Literal["3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4"]
"""A Kafka release that can be emulated."""


class Api(NamedTuple):
    """One API: what its message module says of it once, for its request and its response.

    ``versions`` are those that the module's classes cover. ``advertised``: from which release on Kafka accepts which versions: the
    ``validVersions`` of the broker listener's schema in that release's kafka-clients jar, less what is marked unstable. It may
    promise more than ``versions``; a broker shows what is in both.
    """

    key: int
    versions: str
    advertised: Mapping[Release, str]
    flexible: str = "none"

    def spec(self) -> MessageSpec:
        """For both of its messages."""
        return MessageSpec(Versions.parse(self.versions), Versions.parse(self.flexible), self.key)


class _Options(TypedDict, total=False):
    """Options of a field specifier besides its versions; ``default`` or ``default_factory`` is always given."""

    default: Any
    default_factory: Callable[[], Any]
    nullable: str
    tag: int
    tagged: str
    flexible: str
    entity: Entity | EntityBy
    failed: Any
    all_if: All


def _field(kind: str, item: Any, versions: str, options: _Options) -> Any:
    flexible = options.get("flexible")
    spec = FieldSpec(
        kind,
        Versions.parse(versions),
        Versions.parse(options.get("nullable", "none")),
        options.get("tag"),
        Versions.parse(options.get("tagged", "none")),
        item,
        None if flexible is None else Versions.parse(flexible),
        options.get("entity"),
        options.get("failed", _UNSAID),
        options.get("all_if"),
    )
    if "default_factory" in options:
        return dataclasses.field(default_factory=options["default_factory"], metadata={"kafka": spec})
    return dataclasses.field(default=options["default"], metadata={"kafka": spec})


def _primitive(kind: str) -> Callable[..., Any]:
    def specify(versions: str = "0+", **options: Unpack[_Options]) -> Any:
        return _field(kind, None, versions, options)

    specify.__name__ = kind
    return specify


boolean = _primitive("bool")
int8 = _primitive("int8")
int16 = _primitive("int16")
uint16 = _primitive("uint16")
int32 = _primitive("int32")
uint32 = _primitive("uint32")
int64 = _primitive("int64")
float64 = _primitive("float64")
uuid = _primitive("uuid")
string = _primitive("string")
bytestring = _primitive("bytes")
records = _primitive("records")


def array(item: Any, versions: str = "0+", **options: Unpack[_Options]) -> Any:
    """An array of structs (``item`` a struct class) or of primitives (``item`` the primitive's name in the schemas)."""
    return _field("array", item, versions, options)


def nested(item: Any, versions: str = "0+", **options: Unpack[_Options]) -> Any:
    """Class decorator for a struct that is a field, or the element of an array field, of another message."""
    return _field("struct", item, versions, options)


def _values(of: Any) -> list[Any]:
    return [getattr(of, name) for name, _ in of.__fields__]


def _same(self: Any, other: object) -> bool:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _shown(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name, _ in self.__fields__)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _build(cls: type[T], spec: MessageSpec | None) -> type[T]:
    # A broker imports some two hundred of these classes before it serves, and most of the time of making one went into code that a
    # dataclass writes for it alone. Comparing and showing is done by two functions for all, and a docstring spares the signature that
    # would be put in its place.
    made: Any = cls
    made.__eq__, made.__repr__, made.__hash__ = _same, _shown, None
    made.__doc__ = cls.__doc__ or cls.__name__
    built: Any = dataclasses.dataclass(slots=True, eq=False, repr=False)(cls)
    built.__fields__ = tuple((f.name, f.metadata["kafka"]) for f in dataclasses.fields(built))
    if spec is not None:
        built.__spec__ = spec
    return built  # type: ignore[no-any-return]


# The two lists of specifiers are the same; the typing rules ask for a literal in each place.
@dataclass_transform(
    field_specifiers=(
        boolean, int8, int16, uint16, int32, uint32, int64, float64, uuid, string, bytestring, records, array, nested,
    )
)  # fmt: skip
def struct(cls: type[T]) -> type[T]:
    """Declare a struct that is nested in messages; it has no versions of its own."""
    return _build(cls, None)


@dataclass_transform(
    field_specifiers=(
        boolean, int8, int16, uint16, int32, uint32, int64, float64, uuid, string, bytestring, records, array, nested,
    )
)  # fmt: skip
def message(of: Api | str, *, flexible: str = "none", api_key: int | None = None) -> Callable[[type[T]], type[T]]:
    """Class decorator for a top-level message. ``of``: the API of a request or response, else the supported versions of a record's
    key or value; ``flexible``: the flexible ones of these (KIP-482); ``api_key``: the record type, the number before the
    message in a log."""
    spec = of.spec() if isinstance(of, Api) else MessageSpec(Versions.parse(of), Versions.parse(flexible), api_key)

    def declare(cls: type[T]) -> type[T]:
        return _build(cls, spec)

    return declare


def holds_records(cls: Any) -> bool:
    """Whether a message or struct has record batches in it."""
    return any(spec.kind == "records" or (spec.inner and holds_records(spec.inner)) for _, spec in cls.__fields__)
