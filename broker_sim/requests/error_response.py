"""The response to a request that fails as a whole, and the first error in a response.

``error_response(request, api_key, version, err)`` is the response of Kafka's request classes when a broker fails a request
(``AbstractRequest.getErrorResponse``). A test compares it with Kafka's classes. Rules:

1. The error is at the outermost place that the version has for one: top-level, else in a row for each requested item.
2. A row answers an element of the request's array of the same entities, and repeats its identity: topic, partition, group.
3. Other fields have the value of their ``failed``, else their default; an error message is null.

Exceptions have ``failed`` among the ``TRAITS`` of their handler's file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_sim.requests.routes import traits_of
from broker_sim.requests.traits import ErrorRequest, HealthyRow, SessionPartitions
from kafka_wire.api_keys import message_class
from kafka_wire.errors import Err
from kafka_wire.schema import ERROR_TEXT, Entity, EntityBy, FieldSpec
from kafka_wire.wire import MAX_STRING

if TYPE_CHECKING:
    from broker_sim.common.clock import Timer
    from broker_sim.metadata.cluster_state import ClusterState
    from broker_sim.requests.context import RequestContext

__all__ = ["after_failure_delay", "error_response", "first_error", "plain_answer", "refuse_client", "too_long"]


_READ_MS = 100
"""In which a client can read why its authentication failed: kafka-python drops a response that comes with the connection's end."""


def error_response(
    request: object,
    api_key: int,
    version: int,
    err: Err,
    *,
    session_partitions: SessionPartitions = (),
    healthy_row: HealthyRow | None = None,
) -> Any | None:
    """The response to ``request`` if all of it fails with ``err``; None if Kafka closes the connection instead (Produce, acks=0).

    ``request`` may be None for ApiVersions alone (an unknown version). ``session_partitions``: the partitions of its fetch session.
    ``healthy_row``: returns the offsets of partitions that do not fail, if the error is one of partitions.
    """
    error_request = ErrorRequest(request, version, err, session_partitions, healthy_row)
    failed = traits_of(api_key).failed
    return plain_answer(message_class(api_key, "Response"), error_request) if failed is None else failed(error_request)


def too_long(context: RequestContext, response: object) -> list[bytes] | None:
    """The reply that goes out where a text of a response is too long for the wire, as one that repeats a client's long name may be:
    UNKNOWN_SERVER_ERROR (KafkaApis.handleError). None where that is not so, or the API has no such response."""
    route, request = context.route, context.request
    if request is None or not _has_long_text(response):
        return None
    instead = error_response(request, route.api_key, route.api_version, Err.UNKNOWN_SERVER_ERROR)
    return None if instead is None else route.frames_of(context.correlation_id, instead)


def _has_long_text(message: Any) -> bool:
    """Whether a text in a message, at any depth, is longer than the wire has room for."""
    if isinstance(message, str):
        return len(message) * 4 > MAX_STRING and len(message.encode(errors="replace")) > MAX_STRING
    if isinstance(message, list):
        return any(map(_has_long_text, message))
    fields = getattr(type(message), "__fields__", ())
    return any(_has_long_text(getattr(message, name)) for name, _ in fields)


def plain_answer(cls: type, error_request: ErrorRequest) -> Any:
    """The response of this class that follows from the entities in it and in the request."""
    return _answer(cls, error_request.request, error_request)


def _answer(cls: Any, requested: Any, error_request: ErrorRequest, array: FieldSpec | None = None) -> Any:
    """A response, or a row of it, to ``asked``: a request, or an element of its ``array``."""
    fields = [(name, spec) for name, spec in cls.__fields__ if error_request.version in spec.versions]
    values = _repeated(requested, array, fields, error_request.version) | _said(fields, error_request)
    code = next((name for name, spec in fields if is_error(name, spec)), None)
    if code is not None:
        return cls(**values | {code: error_request.err})
    for name, spec in fields:
        if spec.kind == "array" and spec.inner and _finder(spec.inner) is not None:
            answered, elements = _answered_by(spec, requested, error_request.version)
            values[name] = [_answer(spec.inner, element, error_request, answered) for element in elements]
    return cls(**values)


def _said(fields: list[tuple[str, FieldSpec]], error_request: ErrorRequest) -> dict[str, Any]:
    """The further fields of an error response; null only in versions that allow it."""
    values: dict[str, Any] = {}
    for name, spec in fields:
        if spec.says_when_failed or name == "error_message":
            value = spec.failed if spec.says_when_failed else None
            if value is not None or error_request.version in spec.nullable:
                values[name] = error_request.err.text if value is ERROR_TEXT else value
    return values


_Entities = set[Entity | EntityBy | None]


def _entities(spec: FieldSpec, version: int) -> _Entities:
    """The entities (group, topic, partition, ..) that identify an element of this array."""
    if spec.entity is not None or not spec.inner:
        return {spec.entity} - {None}
    fields = [field for _, field in spec.inner.__fields__ if version in field.versions and field.kind != "array"]
    return {field.entity for field in fields} - {None}


def _answered_by(spec: FieldSpec, requested: Any, version: int) -> tuple[FieldSpec | None, list[Any]]:
    """The array of the request that the rows of this one answer, and its elements."""
    wanted = _entities(spec, version)
    for name, field in requested.__fields__:
        if field.kind == "array" and version in field.versions and wanted & _entities(field, version):
            return field, getattr(requested, name) or []
    return None, []


def _repeated(
    requested: Any, array: FieldSpec | None, fields: list[tuple[str, FieldSpec]], version: int
) -> dict[str, Any]:
    """The fields of a row that identify the requested item."""
    if array is None:  # no row: a top-level field may have the same name, and Kafka leaves it at its default
        return {}
    if not array.inner:  # its elements are the names themselves
        return {name: requested for name, spec in fields if spec.entity == array.entity}
    known = {
        field.entity: name
        for name, field in requested.__fields__
        if field.entity is not None and field.kind != "array" and version in field.versions
    }
    return {name: getattr(requested, known[spec.entity]) for name, spec in fields if spec.entity in known}


# --- the first error --------------------------------------------------------------------------------------------------


def is_error(name: str, spec: FieldSpec) -> bool:
    """Whether a field holds the error of its row or message."""
    return name == "error_code" or spec.entity is Entity.ERROR


_Finder = Callable[[Any], int]
_finders: dict[type, _Finder | None] = {}


def first_error(response: object) -> Err | None:
    """The first error in a response that is not NONE: top-level, else in the order of its rows. None without an error."""
    if response is None:
        return None
    find = _finder(type(response))
    code = 0 if find is None else find(response)
    if not code:
        return None
    try:
        return Err(code)
    except ValueError:
        return Err.UNKNOWN_SERVER_ERROR


def _finder(cls: type) -> _Finder | None:
    """Return the function that finds the first error code in a struct of this class; None if it has no field for one."""
    if cls not in _finders:
        _finders[cls] = _made_finder(cls)
    return _finders[cls]


def _made_finder(cls: Any) -> _Finder | None:
    own = next((name for name, spec in cls.__fields__ if is_error(name, spec)), None)
    inner = [
        (name, finder)
        for name, spec in cls.__fields__
        if spec.kind == "array" and spec.inner and (finder := _finder(spec.inner)) is not None
    ]
    if not own and not inner:
        return None

    def find(value: object) -> int:
        code = getattr(value, own) if own else 0
        if code:
            return int(code)
        for name, nested in inner:
            for element in getattr(value, name) or ():
                code = nested(element)
                if code:
                    return code
        return 0

    return find


def refuse_client(ctx: RequestContext, response: Any, reason: str) -> None:
    """A client that fails to authenticate: its connection handles nothing more, ``response`` is sent after
    connection.failed.authentication.delay.ms by the client's clock, then it is closed; ``reason`` goes into the log."""
    ctx.connection.end(reason)
    if response is None:
        ctx.connection.close()
        return
    ctx.connection.mute(True)  # until it is closed
    clock = ctx.broker.state.clock.wire

    def answer() -> None:
        ctx.reply(response)
        clock.call_at_ms(clock.now_ms() + _READ_MS, ctx.connection.close)

    ctx.on_disconnect(after_failure_delay(ctx.broker.state, answer).cancel)


def after_failure_delay(state: ClusterState, act: Callable[[], object]) -> Timer:
    """``act`` is called after connection.failed.authentication.delay.ms by the client's clock."""
    clock = state.clock.wire
    return clock.call_at_ms(clock.now_ms() + state.config.int("connection.failed.authentication.delay.ms"), act)
