"""The second part of the demo: a stuck partition of ``__consumer_offsets``, and its effect on a group.

It runs an included scenario file and shows the group's timeline and its history as text.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from broker_sim.demo.view import View

GROUP = "billing"
NARROWEST, WIDEST = 80, 120


async def play(view: View, as_version: str, directory: Path) -> list[str]:
    """Play it; returns what did not hold. The picture is written into ``directory``."""
    from broker_sim.explain import explain
    from broker_sim.explain.picture import html
    from broker_sim.explain.terminal import timeline
    from broker_sim.scenario.commands import find
    from broker_sim.scenario.model import read
    from broker_sim.scenario.runner import ScenarioOptions, run

    release = tuple(map(int, as_version.split(".")[:2]))
    scenario = read(find("stuck-offsets-partition-" + ("3.4" if release < (4, 0) else "4.1")))
    view.title("7. An incident: the group's partition of __consumer_offsets is stuck, then healed")
    print("\n".join(f"  {line}" for line in scenario.description.splitlines()))
    options = ScenarioOptions(as_version=as_version, progress=lambda line: view.say("", line))
    outcome = await run(scenario, options)
    width = max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))
    view.title("The group's history, from the journal")
    print(timeline(outcome.events, GROUP, width=width, color=sys.stdout.isatty()))
    print(explain(outcome.events, GROUP, width=width))
    picture = directory / f"{GROUP}-timeline.html"
    picture.write_text(html(outcome.events, GROUP, title="A stuck offsets partition"), encoding="utf-8")
    view.say("picture", f"the same history as a page for a browser: {picture}")
    return [result.text for result in outcome.results if not result.held] + ([outcome.late] if outcome.late else [])
