"""A pytest plugin with the fixture ``killed_logs``: what tests leave open that stand for a process that was killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_sim.storage.files import Closable, Files


@pytest.fixture
def killed_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A log that the test does not close was killed: its descriptors go as those of a process."""
    held: list[Closable] = []
    real = Files.opened

    def opened(self: Files, holder: Closable) -> None:
        held.append(holder)
        real(self, holder)

    monkeypatch.setattr(Files, "opened", opened)
    yield
    for holder in held:
        holder.close()
