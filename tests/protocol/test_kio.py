"""Our bytes are those of kio, a codec made by other people straight from Kafka's schemas."""

from __future__ import annotations

import importlib
import io
import re
from random import Random
from types import ModuleType
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from kafka_wire.codec import encode
from tests.protocol.generate import EVERY, random_message


def _kio_class(cls: type, version: int) -> Any:
    """kio's class for a version of our class, None where kio has no such version."""
    name = re.fullmatch(r"(\w+?)(Request|Response)?", cls.__name__)
    assert name is not None
    api = re.sub(r"(?<!^)(?=[A-Z])", "_", name[1]).lower()
    module = _module(f"kio.schema.{api}.v{version}.{(name[2] or 'data').lower()}")
    return getattr(module, cls.__name__, None)


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return None


KNOWN_TO_KIO = [(cls, version) for cls, version in EVERY if _kio_class(cls, version) is not None]


def test_kio_knows_nearly_all_of_our_versions() -> None:
    unknown = {cls.__name__ for cls, _ in EVERY} - {cls.__name__ for cls, _ in KNOWN_TO_KIO}
    assert all(name.endswith(("Key", "Value")) for name in unknown), unknown
    assert len(KNOWN_TO_KIO) >= 250


@pytest.mark.parametrize(("cls", "version"), KNOWN_TO_KIO, ids=[f"{c.__name__}-v{v}" for c, v in KNOWN_TO_KIO])
def test_kio_reads_our_bytes_and_writes_the_same(cls: type, version: int) -> None:
    theirs = _kio_class(cls, version)
    read, write = entity_reader(theirs), entity_writer(theirs)
    rng = Random(f"kio {cls.__name__} v{version}")
    for _ in range(12):
        ours = encode(random_message(rng, cls, version, plausible=True), version)
        entity, position = read(ours, 0)
        assert position == len(ours)
        out = io.BytesIO()
        write(out, entity)
        assert out.getvalue() == ours
