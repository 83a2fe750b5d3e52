"""Clusters with the settings that a real broker is given beside them, of which the simulator has no use for some."""

from __future__ import annotations

import warnings
from typing import Any

from broker_sim import Cluster
from broker_sim.config.effects import SettingWarning


def cluster(**options: Any) -> Cluster:
    """A `Cluster` that does not warn of settings without effect."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SettingWarning)
        return Cluster(**options)
