"""Our bytes are those of kio, a codec made by other people straight from Kafka's schemas."""

from __future__ import annotations

import io
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafka_wire.codec import encode
from tests.protocol.generate import EVERY, random_message

[SCHEMAS] = map(Path, find_spec("kio.schema").submodule_search_locations)  # type: ignore[union-attr, arg-type]


def _place(cls: type, version: int) -> tuple[str, str, str]:
    """Return the path of kio's schema for a version of our class, below `SCHEMAS`."""
    name = re.fullmatch(r"(\w+?)(Request|Response)?", cls.__name__)
    assert name is not None
    api = re.sub(r"(?<!^)(?=[A-Z])", "_", name[1]).lower()
    return api, f"v{version}", (name[2] or "data").lower()


# by their files: to import all of them takes longer than to collect all other tests of the wire
KNOWN_TO_KIO = [
    (cls, version) for cls, version in EVERY if SCHEMAS.joinpath(*_place(cls, version)).with_suffix(".py").exists()
]


LATER = {f"StreamsGroupTopologyDescriptionUpdate{what}" for what in ("Request", "Response")}
"""Messages that Kafka 4.4 added, after kio's schemas."""


def test_kio_knows_nearly_all_of_our_versions() -> None:
    unknown = {cls.__name__ for cls, _ in EVERY} - {cls.__name__ for cls, _ in KNOWN_TO_KIO} - LATER
    assert all(name.endswith(("Key", "Value")) for name in unknown), unknown
    assert len(KNOWN_TO_KIO) >= 250


@pytest.mark.parametrize(("cls", "version"), KNOWN_TO_KIO, ids=[f"{c.__name__}-v{v}" for c, v in KNOWN_TO_KIO])
def test_kio_reads_our_bytes_and_writes_the_same(cls: type, version: int) -> None:
    from kio.serial import entity_reader, entity_writer

    module: Any = import_module(".".join(("kio.schema", *_place(cls, version))))
    theirs = getattr(module, cls.__name__)
    read, write = entity_reader(theirs), entity_writer(theirs)
    rng = Random(f"kio {cls.__name__} v{version}")
    for _ in range(12):
        ours = encode(random_message(rng, cls, version, plausible=True), version)
        entity, position = read(ours, 0)
        assert position == len(ours)
        out = io.BytesIO()
        write(out, entity)
        assert out.getvalue() == ours
