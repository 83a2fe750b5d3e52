"""Invariants of a run, and the checks of them.

While a run is on: ``answers`` (as clients see them), ``invariants`` (as in the journal) by the tables of ``rules``, ``replay``
(what a log says), ``ledger`` (what was delivered), ``survival`` (what a disk must still have). After the healing: ``liveness``.
"""
