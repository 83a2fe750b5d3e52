"""Workloads of runs.

aiokafka ``programs`` (``aiokafka_workload``); clients on the wire protocol (``raw``), ``hostile`` ones among them
(``wire_workload``); ``cooperative`` members; an ``admin``. The ``catalogue`` names them.
"""
