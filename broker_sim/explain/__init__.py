"""Explanations of what happened to a group, in words and as a picture: pure functions over the journal's events.

* ``explanation``: ``explain`` (why did it rebalance, who held it up, how did it end), ``recent`` (for a wait that failed)
* ``terminal``: ``timeline``, a drawing in characters; ``picture``: ``svg`` and ``html``, one self-contained file
* ``history``: the ``History`` that all of them show
* ``rebalances``: the definition of a rebalance; ``generations``: rebalances from a log alone. The pipeline uses both

A journal's events are dicts in the journal's schema. A journal may begin in the middle, end anywhere, lack optional fields and hold
kinds of events that are not known here.
"""

from broker_sim.explain.explanation import explain, recent
from broker_sim.explain.history import history

__all__ = ["explain", "history", "recent"]
