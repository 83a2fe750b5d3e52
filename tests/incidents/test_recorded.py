"""Findings of the pipeline on recorded incidents of real brokers: no brokers needed. `make incidents` makes more of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.incidents.run_pipeline import recorded, scores, unpack
from tests.incidents.score import Score, told

RECALL = 0.97
"""Least share of the incidents that are found: 42 of 43. All 43 were when this was written."""
FALSE_ALARMS = 0
"""So many there are at most."""


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Score]:
    folder = tmp_path_factory.mktemp("recorded")
    return list(scores([unpack(packed, folder) for packed in recorded()]))


@pytest.mark.slow
def test_what_was_done_is_told(scored: Sequence[Score]) -> None:
    verdicts = [verdict for score in scored for verdict in score.verdicts]
    share = sum(verdict.told is not None for verdict in verdicts) / len(verdicts)
    assert share >= RECALL, "\n".join(line for score in scored for line in told(score))


@pytest.mark.slow
def test_what_is_healthy_raises_no_alarm(scored: Sequence[Score]) -> None:
    alarms = [alarm["text"] for score in scored for alarm in score.alarms]
    assert len(alarms) <= FALSE_ALARMS, "\n".join(alarms)


def test_the_kept_folders_are_small() -> None:
    assert recorded()
    assert sum(Path(packed).stat().st_size for packed in recorded()) < 1_000_000
