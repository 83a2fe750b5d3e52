"""Who is at work in a run.

aiokafka ``programs`` on a ``stage``; ``rough`` and ``hostile`` clients on the wire protocol (``raw``), ``cooperative`` members; an
``admin``. The ``catalogue`` names them.
"""
