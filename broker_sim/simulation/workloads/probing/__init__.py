"""Clients with topics and groups of their own, who know what every answer must be.

``prober`` is what they share: when nothing is wrong, and asking. ``logs``: Produce, Fetch, ListOffsets and what else concerns records;
``topics``: topics, settings, Metadata; ``members``: groups and offsets. ``world`` lets them live on a cluster whose configuration the
seed draws.
"""
