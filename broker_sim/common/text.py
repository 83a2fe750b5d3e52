"""Texts that users write in files, on the command line and in calls - durations, and names that are nearly right - and texts for them.

Ids, names and notes come from anybody. Whatever is shown to people goes through ``visible`` (a field: a name can't begin a line of its
own) or ``visible_lines`` (a text of ours that holds such fields), so that nothing in it does something to a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = [
    "UsageError",
    "address",
    "clock",
    "date",
    "duration_ms",
    "duration_text",
    "durations_text",
    "expected",
    "first_words",
    "installing",
    "nearest",
    "short",
    "unknown",
    "visible",
    "visible_lines",
]

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d)")
DAY_MS = 86_400_000
LONGEST_MS = 100 * 365 * DAY_MS
"""A hundred years: what is longer is a mistake."""


class UsageError(ValueError):
    """An invalid argument; the message names the bad value and the closest valid one."""

    nearest: str | None = None
    """The name that was probably meant."""


def address(host: str, port: int) -> str:
    """``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for ``json.loads(object_pairs_hook=keys_once)``. Raises UsageError for a key that is there twice."""
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise UsageError(f"an object has the key {twice[:80]!r} twice; remove one of them")
    return result


def duration_ms(value: object, what: str = "a duration") -> int:
    """Whole ms of ``"40s"``, ``"500ms"``, ``"1m30s"``, or a number of seconds. Raises UsageError for anything else."""
    seconds: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value  # an int may be too large for a float
    elif isinstance(value, str):
        text = value.strip()
        parts = _PART.findall(text)
        if parts and re.fullmatch(rf"(?:{_PART.pattern}\s*)+", text):
            seconds = sum(float(number) * _UNITS_MS[unit] for number, unit in parts) / 1000
        elif re.fullmatch(r"\d+(?:\.\d+)?", text):
            seconds = float(text)
    if seconds is None or not 0 <= seconds * 1000 <= LONGEST_MS:
        raise UsageError(
            f"{what}: {value!r} is not a duration (expected e.g. 40s, 500ms, 1m30s or a number of seconds)"
        )
    return round(seconds * 1000)


def duration_text(ms: float) -> str:
    """``40 s``, ``1 min 30 s``, ``250 ms``: a duration for people."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f}".rstrip("0").rstrip(".") + " s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24) if hours >= 48 else (0, hours)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def durations_text(ms: Iterable[float]) -> str:
    """``4 ms to 9 ms``, ``30 s``: the shortest and the longest of several durations."""
    all_ms = list(ms)
    shortest, longest = duration_text(min(all_ms)), duration_text(max(all_ms))
    return shortest if shortest == longest else f"{shortest} to {longest}"


def clock(ts_ms: int) -> str:
    """``10:03:11.250``: the time of the day, UTC."""
    seconds, ms = divmod(ts_ms % DAY_MS, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"


def date(ts_ms: int) -> str:
    """``2024-11-03``, from the days since 1970 (proleptic Gregorian)."""
    days = ts_ms // DAY_MS + 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return f"{year_of_era + era * 400 + (month <= 2):04}-{month:02}-{day_of_year - (153 * shifted + 2) // 5 + 1:02}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to ``word``, in any case; None if no name is similar."""
    return next(iter(_similar(word, list(known))), None)


def _similar(word: str, names: list[str]) -> list[str]:
    """The names similar to ``word``, the most similar one first, at most ``_SHOWN_SIMILAR``; an equal one in another case is alone."""
    by_lower = {name.lower(): name for name in names}
    if word.lower() in by_lower:
        return [by_lower[word.lower()]]
    import difflib  # an error is rare, and every command imports this module

    return [by_lower[name] for name in difflib.get_close_matches(word.lower(), by_lower, n=_SHOWN_SIMILAR, cutoff=0.6)]


_SHOWN, _SHOWN_SIMILAR = 12, 4
"""Maximum numbers of names in an error: of all of them together, and of those that are similar to the unknown one."""


def expected(word: object, known: Iterable[str], meant: str | None = None) -> str:
    """The part of an error about an unknown name that says which names are valid.

    ``did you mean 'stuck'? expected one of stuck, slow, full``: the most similar name first, the others in their order; of more than a
    dozen names the similar ones, else the first ones, with the number of all. ``meant`` overrides the most similar name. One name:
    ``expected stuck``; no name: ``none exists``.
    """
    names = list(dict.fromkeys(known))
    similar = _similar(str(word), names)
    meant = meant or next(iter(similar), None)
    if not names:
        return "none exists"
    if len(names) == 1:
        return f"did you mean {meant!r}?" if meant else f"expected {names[0]}"
    hint = f"did you mean {meant!r}? " if meant else ""
    listed = [name for name in dict.fromkeys([meant, *similar, *names]) if name]
    if len(names) <= _SHOWN:
        return f"{hint}expected one of {', '.join(listed)}"
    few = listed[: len({meant, *similar})] if meant else listed[:_SHOWN]
    return f"{hint}expected one of {', '.join(few)}, .. ({len(names)} in all)"


def unknown(what: str, word: object, known: Iterable[str], meant: str | None = None, of: str = "") -> UsageError:
    """The error for an unknown name: ``no state 'stuk'; did you mean 'stuck'? expected one of stuck, slow, full``.

    ``what``: the noun. ``known``: the valid names. ``meant``: the one that was probably meant, if its spelling is not similar. ``of``:
    what it belongs to, as in ``no member 'ap' of group 'billing'``.
    """
    names = list(known)
    error = UsageError(f"no {what} {word!r}{of and f' of {of}'}; {expected(word, names, meant)}")
    error.nearest = meant or nearest(str(word), names)
    return error


_PACKAGES = {
    "aiohttp": "'broker-sim[control]'",
    "aiokafka": "'broker-sim[demo]'",
    "confluent_kafka": "confluent-kafka",
    "cramjam": "'broker-sim[compression]'",
    "kafka": "kafka-python",
    "prometheus_client": "'broker-sim[control]'",
    **dict.fromkeys(("duckdb", "numpy", "pyarrow"), "'broker-sim[pipeline]'"),
    **dict.fromkeys(("pandas", "pyspark"), "'broker-sim[spark]'"),
    "pytest": "pytest",
    "uvloop": "'broker-sim[uvloop]'",
}
"""Top-level modules that need not be installed -> what brings them."""


def installing(module: str | None) -> str | None:
    """``python -m pip install 'broker-sim[spark]'``: what brings a module that is missing; None for one that must be there."""
    package = _PACKAGES.get((module or "").partition(".")[0])
    return None if package is None else f"python -m pip install {package}"


def visible(text: str) -> str:
    """``text`` with invisible characters spelled out: control characters, changes of the writing direction, halves of surrogate pairs;
    ``\x1b``, ``\n``, ``\u202e``."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def visible_lines(text: str) -> str:
    """The same of a text whose lines stay."""
    return "\n".join(map(visible, text.split("\n")))


def short(text: str, most: int = 100) -> str:
    """``visible``, and cut where it is longer than ``most`` characters."""
    shown = visible(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def first_words(text: str, most: int) -> str:
    """The text; if it is longer than ``most`` characters, its first words and ``...``."""
    return text if len(text) <= most else f"{text[:most].rpartition(' ')[0] or text[:most]} ..."
