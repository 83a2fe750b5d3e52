"""Request handlers: one handler file per API (``kNN_name.py``), found by its name, imported at its first request.

``broker_sim.requests.context`` describes how a handler responds.
"""
