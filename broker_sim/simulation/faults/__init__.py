"""Faults as data: their ``kinds`` and those of ``disks``, lists that a seed draws (``swarm``), ``plans`` of users."""
