"""Recall and precision: which of a ledger's events a run's findings tell, and which findings tell what never happened.

Rules:
1. An event is told by a finding of a kind that fits (FITS), that is about its group (or the offsets partition, where the event is
   one partition's), at a time within the event's bounds. Its weight does not matter: a note is told, too. A group that is only
   mentioned beside others, without its own time, is not told.
2. What happens to partitions of the offsets topic is counted for each of them that has groups.
3. A false alarm is a finding above a note that no event explains: none that is not healthy happened to that group (or partition)
   at about that time. What it says must be a consequence, not more: its kind is not looked at.
4. A finding without a time can't be told by time: it has to name its group, and that is enough.
5. What each finding says is compared with the ledger claim by claim, see `sentences`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.incidents.ledger import Event, Ledger
from tests.incidents.sentences import Sentence, sentence
from tests.incidents.truth import Truth, Witness

__all__ = ["FITS", "Score", "Verdict", "judge", "sentence_table", "table", "told", "with_section"]

EARLY_MS, LATE_MS = 5000, 20_000
"""A finding may begin a little before what was done (the last good record) and so long after its effect's end."""
ALARMS = ("warn", "bad")
LASTING = ("lag",)
"""Kinds whose time may be any after the event: a group that fell behind stays so."""
_FREQUENT = frozenset({"storm", "frequent rebalances", "churn"})
STRETCH_MS = 60_000
"""Time by which a finding of many rebalances may begin early: a group that has just been started had its first ones a moment ago."""
FITS: Mapping[str, frozenset[str]] = {
    "crash": frozenset({"session expired", "departed", "churn"}),
    "killed rollout": frozenset({"session expired", "departed", "churn"}),
    "slow member": frozenset({"slow rebalance"}),
    "stalled member": frozenset({"stalled", "slow rebalance"}),
    "poll expiry": frozenset({"poll timeout", "departed", "session expired", "churn"}),
    "storm": _FREQUENT,
    "poison": _FREQUENT | {"poison"},
    "reset": frozenset({"regression", "reset"}),
    "rewind": frozenset({"regression"}),
    "old commit": frozenset({"regression"}),
    "expiry": frozenset({"deleted offsets"}),
    "group deletion": frozenset({"deleted offsets"}),
    "offset deletion": frozenset({"deleted offsets"}),
    "stuck": frozenset({"stuck"}),
    "move": frozenset({"coordinator moved"}),
    "unclean election": frozenset({"unclean election", "regression"}),
    "hanging transaction": frozenset({"transaction"}),
    "lock expiry": frozenset({"redelivered"}),
    "given up": frozenset({"archived"}),
}
"""Each kind of event that is to be told, and the kinds of findings that tell it."""

Found = Mapping[str, Any]
"""A finding as `findings.json` has it."""


@dataclass
class Verdict:
    """One event (``log_partition``: on one partition); ``told``: the finding that tells it."""

    event: Event
    log_partition: int | None
    told: Found | None


@dataclass
class Score:
    name: str
    ledger: Ledger
    verdicts: list[Verdict] = field(default_factory=list)
    alarms: list[Found] = field(default_factory=list)
    """False ones."""
    healthy: list[tuple[Event, bool]] = field(default_factory=list)
    """Each healthy event, and whether its group had a false alarm."""
    sentences: list[Sentence] = field(default_factory=list)
    """Sentences of all findings, except those that nothing is unusual."""

    @property
    def missed(self) -> list[Verdict]:
        return [one for one in self.verdicts if one.told is None]

    @property
    def false(self) -> list[Sentence]:
        """Sentences of findings above a note that are not true."""
        return [one for one in self.sentences if one.true is False and one.found["severity"] in ALARMS]


def judge(name: str, ledger: Ledger, findings: Iterable[Found], lines: Iterable[Witness] = ()) -> Score:
    """Compares what was told with what was done; ``lines``: of the brokers, a second witness of what was said."""
    told = list(findings)
    score = Score(name, ledger)
    for event in ledger.events:
        if event.healthy:
            continue
        for partition in _units(ledger, event):
            fit = (one for one in told if _tells(ledger, one, event, partition))
            score.verdicts.append(Verdict(event, partition, next(fit, None)))
    score.alarms = [one for one in told if one["severity"] in ALARMS and not _explained(ledger, one)]
    alarmed = {group for one in score.alarms for group in _groups(ledger, one)}
    score.healthy = [(event, event.group in alarmed) for event in ledger.events if event.healthy]
    truth = Truth(ledger, list(lines))
    score.sentences = [sentence(truth, one) for one in told if one["severity"] != "good"]
    return score


def _units(ledger: Ledger, event: Event) -> list[int | None]:
    if event.group is not None:
        return [None]
    return [at for at in event.log_partitions if any(facts.log_partition == at for facts in ledger.groups.values())]


def _groups(ledger: Ledger, found: Found) -> set[str]:
    """The groups that a finding is about."""
    if found.get("group"):
        return {found["group"]}
    words = set(re.findall(r"[\w.-]*\w", found["text"]))
    named = {group for group in ledger.groups if group in words}
    if not named and found.get("log_partition") is not None:
        named = {group for group, facts in ledger.groups.items() if facts.log_partition == found["log_partition"]}
    return named


def _tells(ledger: Ledger, found: Found, event: Event, partition: int | None) -> bool:
    if found["severity"] == "good" or found["kind"] not in FITS[event.kind] or not _in_time(found, event):
        return False
    if event.group is not None:
        return event.group in _groups(ledger, found)
    if found.get("log_partition") == partition or f"__consumer_offsets-{partition}" in re.findall(
        r"[\w-]*\w", found["text"]
    ):
        return True
    return any(ledger.groups[group].log_partition == partition for group in _groups(ledger, found))


def _in_time(found: Found, event: Event, late_ms: float = LATE_MS) -> bool:
    at_ms = found.get("at_ms")
    early_ms = STRETCH_MS if found["kind"] in _FREQUENT else EARLY_MS
    return at_ms is None or event.start_ms - early_ms <= at_ms <= event.end_ms + late_ms


def _explained(ledger: Ledger, found: Found) -> bool:
    groups = _groups(ledger, found)
    late_ms = float("inf") if found["kind"] in LASTING else LATE_MS
    return any(
        not event.healthy
        and _in_time(found, event, late_ms)
        and (
            groups & ledger.concerned(event)
            or (event.group is None and found.get("log_partition") in event.log_partitions)
        )
        for event in ledger.events
    )


# ------------------------------------------------------------------------------------------------ in words


def told(score: Score) -> list[str]:
    """Line by line what was missed, told, and told without reason."""
    lines = [f"== {score.name}"]
    for one in score.verdicts:
        where = one.event.group or f"__consumer_offsets-{one.log_partition}"
        said = "MISSED" if one.told is None else f"{one.told['severity']}: {one.told['text']}"
        lines.append(f"  {one.event.kind}, {where}: {said}")
    lines += [f"  FALSE ALARM {one['kind']} {one['severity']}: {one['text']}" for one in score.alarms]
    for judged in score.sentences:
        found = judged.found
        about = f"{found['kind']} {found['severity']}, {found.get('certainty', 'certain')}: {found['text']}"
        if judged.true is False:
            lines += [f"  FALSE SENTENCE {about}", *(f"    not {claim.says}: {claim.why}" for claim in judged.false)]
        elif judged.named is False:
            lines.append(f"  ANOTHER CAUSE {about}")
        elif judged.true is None:
            lines.append(f"  NOT CHECKED {about}")
    return lines


# ------------------------------------------------------------------------------------------------ the table


def table(scores: Sequence[Score]) -> str:
    """Markdown: for each kind and version how many were told of how many, then the false alarms."""
    versions = sorted({score.ledger.kafka for score in scores})
    told: dict[tuple[str, str], list[bool]] = defaultdict(list)
    calm: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for score in scores:
        for verdict in score.verdicts:
            told[verdict.event.kind, score.ledger.kafka].append(verdict.told is not None)
        for event, alarmed in score.healthy:
            calm[event.kind, score.ledger.kafka].append(not alarmed)
    lines = [_row("incident", *versions, "all"), _rule(len(versions) + 2)]
    lines += _rows(told, versions, "detected")
    lines += ["", _row("healthy event", *versions, "all"), _rule(len(versions) + 2)]
    lines += _rows(calm, versions, "without an alarm")
    alarms = sum(len(score.alarms) for score in scores)
    lines += [
        "",
        f"False alarms: {alarms}, in {len(scores)} clusters with {sum(len(score.ledger.groups) for score in scores)} groups.",
    ]
    return "\n".join(lines) + "\n"


def sentence_table(scores: Sequence[Score]) -> str:
    """Markdown: how many sentences were true by certainty, above a note and in notes; then the false ones above a note by kind."""
    said = [one for score in scores for one in score.sentences]
    lines = [_row("certainty", "severity", "true", "false", "not checked"), "| --- | --- | ---: | ---: | ---: |"]
    for certainty in ("certain", "likely", "possible"):
        for severity, which in (("warn, bad", ALARMS), ("note", ("note",))):
            verdicts = [
                one.true
                for one in said
                if one.found.get("certainty", "certain") == certainty and one.found["severity"] in which
            ]
            if verdicts:
                lines.append(_row(certainty, severity, *(str(verdicts.count(one)) for one in (True, False, None))))
    false = Counter(one.found["kind"] for score in scores for one in score.false)
    other = [one for one in said if one.named is False]
    lines += [
        "",
        f"False sentences above a note: {false.total()}"
        + (f" ({', '.join(f'{kind} {number}' for kind, number in false.most_common())})" if false else "")
        + f". Findings above a note whose kind names another cause than the real one: {len(other)}"
        + (f" ({', '.join(sorted({one.found['kind'] for one in other}))})" if other else "")
        + ".",
    ]
    return "\n".join(lines) + "\n"


def with_section(page: str, name: str, text: str) -> str:
    """The page with this text between the two comments that name the section."""
    begin, end = f"<!-- scored: {name} -->", f"<!-- end of {name} -->"
    head, found, rest = page.partition(begin)
    if not found or end not in rest:
        raise SystemExit(f"the page has no section {begin} .. {end}")
    return f"{head}{begin}\n\n{text}\n{end}{rest.partition(end)[2]}"


def _rows(counted: Mapping[tuple[str, str], list[bool]], versions: Sequence[str], what: str) -> list[str]:
    kinds = sorted({kind for kind, _ in counted})
    rows = []
    for kind in kinds:
        cells = [_share(counted.get((kind, version), [])) for version in versions]
        rows.append(
            _row(kind, *cells, _share([one for version in versions for one in counted.get((kind, version), [])]))
        )
    columns = [[one for kind in kinds for one in counted.get((kind, version), [])] for version in versions]
    everything = [one for column in columns for one in column]
    rate = f" = {sum(everything) / len(everything):.2f}" if everything else ""
    rows.append(_row(f"**{what}**", *map(_share, columns), f"**{_share(everything)}{rate}**"))
    return rows


def _share(good: Sequence[bool]) -> str:
    return f"{sum(good)} of {len(good)}" if good else ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(columns: int) -> str:
    return _row("---", *["---:"] * (columns - 1))
