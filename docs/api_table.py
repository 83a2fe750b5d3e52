"""Writes protocol/kafka_wire/api_table.py: what the message modules declare of their APIs, in one place.

    python docs/api_table.py

The table is written and not made at run time for two reasons. A broker must tell what it speaks at its first request, and all message
modules together take longer to import than everything else of its start. And the type checker knows the members of an enum only where
they are written down.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from kafka_wire import messages
from kafka_wire.schema import Api

TARGET = Path(__file__).resolve().parent.parent / "protocol" / "kafka_wire" / "api_table.py"

WIDTH = 120

TEXT = '''\
"""The keys of all APIs, and what their message modules declare of them. Written by `make docs`; a test keeps it current."""

from __future__ import annotations

import enum

from kafka_wire.schema import Api


class ApiKey(enum.IntEnum):
    """API keys by Kafka's names (ApiKeys.java); those that ``kafka_wire.messages`` has a module for."""

    @property
    def kafka_name(self) -> str:
        """The name in Kafka's documentation: ``OffsetCommit``."""
        return "".join(map(str.capitalize, self.name.split("_")))

{members}


APIS = (
{apis}
)
"""``API`` of every message module, in the order of the keys."""
'''


def declared() -> dict[str, Api]:
    """Name of a message module -> its API, in the order of the keys. Raises ValueError where the file's name has another key."""
    found: dict[str, Api] = {}
    for info in pkgutil.iter_modules(messages.__path__):
        api = getattr(importlib.import_module(f"{messages.__name__}.{info.name}"), "API", None)
        if api is None:
            continue
        if not info.name.startswith(f"k{api.key:02}_"):
            raise ValueError(f"{info.name}.py declares API {api.key}")
        found[info.name] = api
    return dict(sorted(found.items(), key=lambda item: item[1].key))


def render() -> str:
    """The whole of api_table.py."""
    apis = declared()
    members = [f"    {name.partition('_')[2].upper()} = {api.key}" for name, api in apis.items()]
    return TEXT.format(members="\n".join(members), apis="\n".join(map(_spelled, apis.values())))


def _spelled(api: Api) -> str:
    """As it stands in the message module, broken over lines as the formatter does it."""
    flexible = [] if api.flexible == "none" else [f'flexible="{api.flexible}"']
    ranges = [f'"{since}": "{versions}"' for since, versions in api.advertised.items()]
    arguments = [str(api.key), f'"{api.versions}"', *flexible, f"advertised={{{', '.join(ranges)}}}"]
    line = ", ".join(arguments)
    if len(line) <= WIDTH - len("    Api(),"):
        return f"    Api({line}),"
    within = [line] if len(line) <= WIDTH - 8 else [f"{argument}," for argument in arguments]
    return "\n".join(["    Api(", *(f"        {part}" for part in within), "    ),"])


if __name__ == "__main__":
    TARGET.write_text(render())
