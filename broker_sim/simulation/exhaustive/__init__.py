"""Small worlds, exhaustively: a coordinator's pure shard, two or three clients, its log and its time, in *all* orders to a depth.

    broker-sim explore classic --depth 9

A sweep draws histories; here none is drawn. What may happen next in a world is a list of actions; every one of them is taken,
from every state that was met, breadth first, so the first counter-example is a shortest one. States whose futures are equal are
met once (`canonical`). ``explorer`` knows nothing of Kafka, ``environment`` is a shard under glass; ``classic``, ``consumer`` and
``transactions`` are worlds.
"""
