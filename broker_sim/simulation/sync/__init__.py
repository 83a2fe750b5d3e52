"""Synchronous programs on simulated hosts: ``threads`` that run one at a time, ``blocking`` calls and ``sockets`` in virtual time."""
