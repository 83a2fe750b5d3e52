"""An answer that is nothing but an error, made from what the fields of an API's messages stand for. The API is invented."""

from __future__ import annotations

from broker_sim.requests.error_response import first_error, plain_answer
from broker_sim.requests.traits import ErrorRequest
from kafka_wire.errors import Err
from kafka_wire.schema import ERROR_TEXT, Api, Entity, array, int16, int32, int64, message, string, struct

PATTERN = Api(1000, "0-1", advertised={"4.1": "0-1"})


@struct
class Asked:
    name: str = string(default="", entity=Entity.TOPIC)
    partitions: list[int] = array("int32", default_factory=list, entity=Entity.PARTITION)


@message(PATTERN)
class PatternRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    groups: list[str] = array("string", default_factory=list, entity=Entity.GROUP)
    topics: list[Asked] | None = array(Asked, nullable="0+", default_factory=list)


@struct
class Row:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    partition_error_code: int = int16(default=0, entity=Entity.ERROR)
    offset: int = int64(default=0, failed=-1)


@struct
class Told:
    name: str = string(default="", entity=Entity.TOPIC)
    rows: list[Row] = array(Row, default_factory=list)


@struct
class ToldGroup:
    group_id: str = string(default="", entity=Entity.GROUP)
    member_id: str = string(default="nobody", entity=Entity.MEMBER)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="", failed=ERROR_TEXT)
    topics: list[Told] | None = array(Told, nullable="1", default_factory=list, failed=None)


@message(PATTERN)
class PatternResponse:
    error_code: int = int16("1", default=0)
    group_id: str = string(default="", entity=Entity.GROUP)
    groups: list[ToldGroup] = array(ToldGroup, default_factory=list)
    topics: list[Told] = array(Told, default_factory=list)


def test_an_answer_follows_from_what_the_fields_stand_for() -> None:
    request = PatternRequest("g", ["a", "b"], [Asked("t", [3, 4]), Asked("u", [])])
    told = plain_answer(PatternResponse, ErrorRequest(request, 0, Err.NOT_COORDINATOR))
    rows = [Row(3, 16, -1), Row(4, 16, -1)]
    groups = [ToldGroup(name, "nobody", 16, "This is not the correct coordinator.", []) for name in ("a", "b")]
    assert told == PatternResponse(0, "", groups, [Told("t", rows), Told("u", [])])
    assert first_error(PatternResponse(topics=[Told("t", rows)])) is Err.NOT_COORDINATOR
    assert (
        plain_answer(PatternResponse, ErrorRequest(PatternRequest("g", [], None), 0, Err.NOT_COORDINATOR))
        == PatternResponse()
    )


def test_where_the_top_has_a_place_for_the_error_it_stands_there_alone() -> None:
    request = PatternRequest("g", ["a"], [Asked("t", [3])])
    assert plain_answer(PatternResponse, ErrorRequest(request, 1, Err.NOT_COORDINATOR)) == PatternResponse(16)
