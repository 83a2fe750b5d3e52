"""The page of a reproduction: the real log and the simulated one, event by event, and what could not be known."""

from __future__ import annotations

from broker_sim.common.text import clock, duration_text, visible
from broker_sim.drawing.pages import page
from broker_sim.reproduce.group_timeline import Act, GroupTimeline
from broker_sim.reproduce.similarity import Event, Pair, Similarity

__all__ = ["html"]


def html(title: str, verdict: list[str], similarity: Similarity, real: GroupTimeline, unknown: list[str]) -> str:
    """``verdict``: lines; ``unknown``: what the log didn't show, and what is not as it was."""
    return page(
        "reproduce/page.html",
        title=visible(title),
        verdict=[visible(line) for line in verdict],
        figure=similarity.text(),
        pairs=[_row(pair, real.from_ms) for pair in similarity.pairs],
        acts=[_act(act, real.from_ms) for act in real.acts],
        unknown=[visible(line) for line in unknown],
        begin=clock(real.from_ms),
        end=clock(real.to_ms),
    )


def _row(pair: Pair, from_ms: int) -> dict[str, str]:
    apart = pair.apart_ms
    sign = "" if apart is None else f"{'+' if apart >= 0 else '-'}{duration_text(abs(apart))}"
    kind = "both" if apart is not None else "real" if pair.real is not None else "simulated"
    return {"kind": kind, "real": _cell(pair.real), "simulated": _cell(pair.simulated), "apart": sign}


def _cell(event: Event | None) -> str:
    return "" if event is None else f"{event.at_ms / 1000:.1f} s  {visible(event.text)}"


def _act(act: Act, from_ms: int) -> dict[str, str]:
    what = f"{act.kind} {act.who}" if act.who else act.kind.replace("_", " ")
    if act.for_ms:
        what += f" for {duration_text(act.for_ms)}"
    return {
        "at": f"{(act.at_ms - from_ms) / 1000:.1f} s",
        "what": visible(what),
        "why": visible(act.why),
        "sure": "" if act.is_certain else "likely, not certain",
    }
