"""Bugs to be found: each a patch of the production code."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.records import Loader


def commits_are_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that starts from its log forgets all offsets."""
    patch.setattr(Loader, "_offset", lambda *of: None)
