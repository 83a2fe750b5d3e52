"""A field: a named value of an input, declared once, with its kind and its words; and how a whole input is read.

    class Keys(TypedDict, total=False):                      # what type checkers see, and what is read: one declaration
        times: Annotated[int | None, about(Count(1), "at most that often")]

    read(fields_of(Keys), {"times": "3"}, "a rule")          # {"times": 3}

Rules:
1. None is not given: a field has its default then, or is missing where it is required.
2. All errors are reported together: unknown names, with the valid ones; missing fields; invalid values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, get_type_hints

from broker_sim.common.text import UsageError, unknown
from broker_sim.fields.kinds import FieldKind
from broker_sim.fields.problems import Problems

__all__ = ["Field", "about", "fields_of", "read"]


class Field(NamedTuple):
    """``doc``: what it is for, without a full stop. ``default``: what it is where it isn't given. ``example``: for documents."""

    name: str
    kind: FieldKind[Any]
    doc: str
    required: bool = False
    default: Any = None
    example: Any = None

    def read(self, value: object) -> Any:
        """The value that is meant. Raises UsageError, which names the field."""
        return self.kind.read(value, self.name)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field's values."""
        return {**self.kind.schema(), **({} if self.default is None else {"default": self.default})}


def about(kind: FieldKind[Any], doc: str, **more: Any) -> Field:
    """A field that has its name from the key of a TypedDict that it annotates."""
    return Field("", kind, doc, **more)


def fields_of(keys: type) -> dict[str, Field]:
    """The fields of a TypedDict whose keys are annotated with them, in its order."""
    fields: dict[str, Field] = {}
    for name, hint in get_type_hints(keys, include_extras=True).items():
        (annotation,) = (entry for entry in getattr(hint, "__metadata__", ()) if isinstance(entry, Field))
        fields[name] = annotation._replace(name=name)
    return fields


def read(
    fields: Mapping[str, Field],
    given: Mapping[str, object],
    what: str,
    kind_of_name: str,
    usual: Mapping[str, str] | None = None,
    of: str = "",
) -> dict[str, Any]:
    """The values in their types, with defaults, in the order of the fields; ``what`` is the input in errors,
    ``kind_of_name`` a name in it, ``of`` what an unknown name is said to belong to. ``usual``: words of others for a field, if their
    spelling is not similar. Raises WrongInput."""
    problems = Problems()
    meant: set[str | None] = set()
    for name in given:
        if name not in fields:
            problems.add(error := unknown(kind_of_name, name, fields, (usual or {}).get(name), of), str(name))
            meant.add(error.nearest)
    result: dict[str, Any] = {}
    for name, field in fields.items():
        value = given.get(name)
        if value is None and field.required and name not in meant:  # one mistake is one error
            problems.add(UsageError(f"{what}: {name} is missing ({field.doc})"), name)
        value = field.default if value is None else value
        if value is not None:
            with problems.at(name):
                result[name] = field.read(value)
    problems.check()
    return result
